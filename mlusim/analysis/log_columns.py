"""The log as NumPy arrays, with derived columns common to all analyses: unit, engine, start, end."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from mlusim.arrays import Flags, Integers
from mlusim.errors import InputError, shown
from mlusim.hardware import Board
from mlusim.inputs import check_is
from mlusim.log import BLOCKING, IO, MOVE, NONE, SCALAR, Log
from mlusim.memory.copy_cost import start_up_ps
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.memory.layout import is_contiguous
from mlusim.records import COLUMNS

DIRECTION_NAMES = tuple(direction.name for direction in Direction)


def check_run(run: object) -> None:
    """Raise `InputError` for an object that is not the result of a run."""
    if not all(hasattr(run, name) for name in ("operator", "log", "board")):
        raise InputError(f"{shown(run)} is not a result: pass what mlusim.run or device.result() returns")


class LogColumns:
    """The records of a log by column, with the log's times.

    Units are numbered: MLU cores first, cluster by cluster, then the memory cores: `board.cores + cluster`.

    Attributes:
        log, board: their origin.
        selection: the records of the log included: a slice, or indices.
        op, task, pipe, ...: one int64 array per column of `mlusim.records.COLUMNS`. If a run stopped with an error,
            `end_ps` of an unfinished operation is the end of the window.
        start_of_run_ps, end_of_run_ps: the window: start of the first launch to end of the last.
        last_ps: end of the whole run, also in a part of it.
    """

    def __init__(self, log: Log, board: Board) -> None:
        check_is("log", log, Log, "pass the log of a result or a device, such as result.log")
        check_is("board", board, Board, "pass the board of the result or the device, such as result.board")
        self.log = log
        self.board = board
        self.selection: slice | Integers = slice(0, log.count)
        starts = [launch.start_ps for launch in log.launches if launch.start_ps != NONE]
        ends = [launch.end_ps for launch in log.launches]
        self.start_of_run_ps = min(starts, default=0)
        if starts and NONE in ends:
            # A launch never ended: use the last known time.
            last = int(log.records.column("end_ps", self.selection).max(initial=0))
            self.end_of_run_ps = max(*ends, *starts, *(task.end_ps for task in log.tasks), last)
        else:
            self.end_of_run_ps = max(ends, default=0)
        self.last_ps = self.end_of_run_ps

    def __getattr__(self, name: str) -> Integers:
        # Columns are read lazily: all together need more than twice the memory of the log.
        if name not in COLUMNS:
            raise AttributeError(name)
        column = self.log.records.column(name, self.selection)
        if name == "end_ps":
            open_ended = column < self.start_ps
            if open_ended.any():
                column = np.where(open_ended, np.maximum(self.last_ps, self.start_ps), column)
        setattr(self, name, column)
        return column

    def part(self, selection: slice | Integers, start_ps: int, end_ps: int) -> LogColumns:
        """Return some records of the log, by index, with their own window."""
        part = LogColumns.__new__(LogColumns)
        part.log, part.board, part.selection = self.log, self.board, selection
        part.start_of_run_ps, part.end_of_run_ps = start_ps, end_ps
        # Unfinished operations end with the whole window.
        part.last_ps = self.last_ps
        part.task_end_ps = self.task_end_ps
        return part

    def __len__(self) -> int:
        selection = self.selection
        return selection.stop - selection.start if isinstance(selection, slice) else len(selection)

    @cached_property
    def number(self) -> Integers:
        """By record, its index in the log."""
        selection = self.selection
        return np.arange(selection.start, selection.stop) if isinstance(selection, slice) else selection

    @property
    def time_ps(self) -> int:
        """Length of the window."""
        return self.end_of_run_ps - self.start_of_run_ps

    @property
    def units(self) -> int:
        """Number of MLU cores and memory cores of the board."""
        return self.board.cores + self.board.clusters

    @cached_property
    def task_unit(self) -> Integers:
        """By task, its unit."""
        cores, per_cluster = self.board.cores, self.board.cores_per_cluster
        return np.array(
            [
                cores + task.cluster if task.is_memory_core else task.cluster * per_cluster + task.core
                for task in self.log.tasks
            ],
            np.int64,
        )

    @cached_property
    def task_start_ps(self) -> Integers:
        """By task, its start."""
        return np.array([task.start_ps for task in self.log.tasks], np.int64)

    @cached_property
    def task_end_ps(self) -> Integers:
        """By task, its end."""
        ends = np.array([task.end_ps for task in self.log.tasks], np.int64)
        return np.where(ends == NONE, self.end_of_run_ps, ends)

    @cached_property
    def unit(self) -> Integers:
        """By record, the unit whose task issued it."""
        return self.task_unit[self.task]

    @cached_property
    def engine(self) -> Integers:
        """By record, the unit whose pipe executes it: see `Direction.by_memory_core`."""
        staged = np.array([*(direction.by_memory_core for direction in Direction), False])[self.direction]
        if not staged.any():
            return self.unit
        clusters = np.array([task.cluster for task in self.log.tasks], np.int64)[self.task]
        return np.where(staged, self.board.cores + clusters, self.unit)

    @cached_property
    def is_copy(self) -> Flags:
        """By record, whether it is a transfer on the IO or Move pipe."""
        return np.asarray((self.pipe == IO) | (self.pipe == MOVE))

    @cached_property
    def is_blocking(self) -> Flags:
        """By record, whether it is a transfer that its task waits for."""
        return np.asarray(self.is_copy & (self.detail == BLOCKING))

    @cached_property
    def is_posted(self) -> Flags:
        """By record, whether it is a scalar store to off-chip memory, which its task does not wait for."""
        return np.asarray((self.pipe == SCALAR) & (self.dst_alloc != NONE) & self.off_chip(self.dst_alloc))

    @cached_property
    def strided(self) -> Flags:
        """By record, whether it is a copy at the DRAM's strided rate: with gaps off chip, or by index."""
        gaps = np.array([not is_contiguous(box.shape, box.strides, box.itemsize) for box in self.log.boxes] + [False])
        box = np.where(self.is_write, self.dst_box, self.a_box)
        by_index = np.isin(self.number, list(self.log.loops)) & (self.count > 1)
        return np.asarray(self.is_copy & (((box != NONE) & gaps[box]) | by_index))

    @cached_property
    def is_write(self) -> Flags:
        """By record, whether it is a copy to off-chip memory, from anywhere."""
        to_off_chip = np.array([direction.destination.off_chip for direction in Direction])
        return np.asarray((self.direction >= 0) & to_off_chip[self.direction])

    @cached_property
    def free_ps(self) -> Integers:
        """By record, the end of its time in the pipe: its end or, for a posted store, the next instruction's issue."""
        issue_ps = self.board.cycles_ps(self.board.issue_cycles)
        return np.where(self.is_posted, np.minimum(self.end_ps, self.start_ps + issue_ps), self.end_ps)

    @cached_property
    def moving_ps(self) -> Integers:
        """By record, the start of its transfer: its start plus its exposed latency."""
        return self.start_ps + np.where(self.is_copy, self.latency_ps, 0)

    @cached_property
    def moving_alone_ps(self) -> Integers:
        """By record, the transfer time of a copy on an otherwise idle board; 0 for other operations.

        A copy inside a core uses no shared link: 0, as its latency is its whole time.
        """
        on_link = [d.off_chip or MemoryKind.SRAM in (d.source, d.destination) for d in Direction]
        start_up = np.array([*(start_up_ps(self.board, d) for d in Direction), 0])[self.direction]
        # The rate of a loop of copies includes their latencies.
        if "memcpy_rows" in self.log.ops:
            start_up[(self.op == self.log.ops.index("memcpy_rows")) & self.is_blocking] = 0
        moves = self.is_copy & np.array([*on_link, True])[self.direction]
        alone_ps = np.where(moves, self.alone_ps - start_up, 0)
        return np.clip(alone_ps, 0, np.maximum(self.end_ps - self.moving_ps, 0))

    def unit_name(self, unit: int) -> str:
        """Return `cluster 0 core 3`, or `cluster 0 memory core`."""
        board = self.board
        if unit >= board.cores:
            return f"cluster {unit - board.cores} memory core"
        return f"cluster {unit // board.cores_per_cluster} core {unit % board.cores_per_cluster}"

    def off_chip(self, allocation: Integers) -> Flags:
        """Return whether each allocation is in GDRAM or LDRAM; False for none (-1)."""
        kinds = np.array([MemoryKind(record.memory).off_chip for record in self.log.allocations] + [False])
        return np.asarray(kinds[allocation])
