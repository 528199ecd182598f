"""The state of a core's memories at one time: its buffers, their last writers, and operations in flight.

Derived from the log alone; the contents of buffers require a repeatable run (`mlusim.verify` provides one).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from mlusim.arrays import Array, Flags
from mlusim.errors import InputError, shown
from mlusim.hardware import Board
from mlusim.log import NONE, SYNC, Log
from mlusim.source_code import source_name
from mlusim.units import format_bytes, format_ns

# Returns the contents of live allocations, by index, at a time in picoseconds.
Repeat = Callable[[int], Mapping[int, Array]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation of the core.

    Attributes:
        record: its record in the log.
        operation, location: its name and source line.
        start_ps, end_ps: its time; end -1 if it never ended.
    """

    record: int
    operation: str
    location: str
    start_ps: int
    end_ps: int

    def __str__(self) -> str:
        end = format_ns(self.end_ps) if self.end_ps >= 0 else "no end"
        return f"{self.operation} at {self.location}, {format_ns(self.start_ps)} to {end}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Buffer:
    """A buffer allocated at that time.

    Attributes:
        name, memory, dtype, shape, nbytes: the buffer.
        written: the last operation that wrote to it; None if there is none.
        writing: operations in flight that write to it.
        values: its elements as an array; None if the run cannot be repeated.
    """

    name: str
    memory: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    written: Step | None
    writing: tuple[Step, ...]
    values: Array | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryState:
    """The state of a core at one time.

    Attributes:
        time_ps: the time.
        cluster, core, task: the core, and the task running there; -1 for none.
        buffers: in NRAM, WRAM and LDRAM of the core, and in SRAM of its cluster.
        running: operations in flight.
        last: the last completed operation of the task.
    """

    time_ps: int
    cluster: int
    core: int
    task: int
    buffers: tuple[Buffer, ...]
    running: tuple[Step, ...]
    last: Step | None

    def __getitem__(self, name: str) -> Buffer:
        """Return the buffer with this name. Raises `InputError` if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        names = ", ".join(buffer.name for buffer in self.buffers) or "none"
        raise InputError(f"no buffer {shown(name)} at {format_ns(self.time_ps)}: choose one of {names}")

    def text(self) -> str:
        """Format for the terminal."""
        owner = f"task {self.task}" if self.task >= 0 else "no task"
        lines = [f"{format_ns(self.time_ps)}, cluster {self.cluster} core {self.core}: {owner}"]
        lines.append(f"  last     {self.last or 'nothing yet'}")
        lines += [f"  running  {step}" for step in self.running]
        for buffer in self.buffers:
            lines.append(
                f"  {buffer.memory.upper():<8} {buffer.name} {buffer.dtype} {list(buffer.shape)}, "
                f"{format_bytes(buffer.nbytes)}: "
                + (f"written by {buffer.written}" if buffer.written else "not written")
            )
            lines += [f"           being written by {step}" for step in buffer.writing]
            if buffer.values is not None:
                text = np.array2string(buffer.values, threshold=16, edgeitems=3, separator=", ")
                lines += [f"           {line}" for line in text.splitlines()]
        if self.buffers and all(buffer.values is None for buffer in self.buffers):
            lines.append("  values   unknown: a saved or timing-only run has none; use the result of mlusim.verify")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON types, without values."""
        state = asdict(replace(self, buffers=tuple(replace(buffer, values=None) for buffer in self.buffers)))
        for buffer in state["buffers"]:
            del buffer["values"]
        return state


def memory_state_of(log: Log, board: Board, time_ps: int, core: int, repeat: Repeat | None) -> MemoryState:
    """Return the state of a core at a time.

    Args:
        log, board: of the run.
        time_ps: simulated time in picoseconds.
        core: index of the core on the board: cluster * cores per cluster + core.
        repeat: returns the values; None: without values.

    Raises `InputError` for a core that does not exist, or a time before or after the run.
    """
    if not 0 <= core < board.cores:
        raise InputError(f"core {core}: {board.name} has cores 0 to {board.cores - 1}")
    end_ps = max([launch.end_ps for launch in log.launches] + [task.end_ps for task in log.tasks] + [0])
    if not 0 <= time_ps <= end_ps:
        raise InputError(f"time {format_ns(time_ps)}: the run lasts from 0 ns to {format_ns(end_ps)}")
    cluster, number = divmod(core, board.cores_per_cluster)
    active = [
        index
        for index, task in enumerate(log.tasks)
        if (task.cluster, task.core, task.is_memory_core) == (cluster, number, False)
        and task.start_ps <= time_ps
        and not 0 <= task.end_ps < time_ps
    ]
    steps = _Steps(log, time_ps)
    operations = np.isin(steps.columns["task"], active) & (steps.columns["pipe"] != SYNC)
    return MemoryState(
        time_ps=time_ps,
        cluster=cluster,
        core=number,
        task=log.tasks[active[-1]].task_id if active else NONE,
        buffers=_buffers(log, steps, time_ps, cluster, active, repeat(time_ps) if repeat is not None else {}),
        running=steps.running(operations),
        last=steps.last(operations),
    )


def _buffers(
    log: Log, steps: _Steps, time_ps: int, cluster: int, active: Sequence[int], values: Mapping[int, Array]
) -> tuple[Buffer, ...]:
    """Return the live buffers of the active tasks, and those in the SRAM of their cluster."""
    buffers = []
    for identity, record in enumerate(log.allocations):
        alive = record.start_ps <= time_ps and not 0 <= record.end_ps <= time_ps
        is_cluster_buffer = record.memory == "sram" and record.task >= 0 and log.tasks[record.task].cluster == cluster
        if not alive or not (record.task in active or is_cluster_buffer):
            continue
        writers = steps.columns["dst_alloc"] == identity
        buffers.append(
            Buffer(
                name=record.name,
                memory=record.memory,
                dtype=record.dtype,
                shape=record.shape,
                nbytes=record.nbytes,
                written=steps.last(writers),
                writing=steps.running(writers),
                values=values.get(identity),
            )
        )
    return tuple(buffers)


class _Steps:
    """The operations of a log at a time: those in flight, and the last one that has ended."""

    def __init__(self, log: Log, time_ps: int) -> None:
        self._log = log
        self.columns = log.columns()
        ends = self.columns["end_ps"]
        self._end_ps = np.where(ends < 0, np.iinfo(np.int64).max, ends)
        self._has_ended = self._end_ps <= time_ps
        self._in_flight = (self.columns["start_ps"] <= time_ps) & ~self._has_ended

    def running(self, selected: Flags) -> tuple[Step, ...]:
        """Return the selected operations in flight."""
        return tuple(self._step(record) for record in np.flatnonzero(selected & self._in_flight).tolist())

    def last(self, selected: Flags) -> Step | None:
        """Return the selected operation that ended last."""
        rows = np.flatnonzero(selected & self._has_ended)
        if not len(rows):
            return None
        ends = self._end_ps[rows]
        # If several ended at this time, take the last one issued: a task may end as the next one of its core starts.
        return self._step(int(rows[np.flatnonzero(ends == ends.max())[-1]]))

    def _step(self, record: int) -> Step:
        log, columns = self._log, self.columns
        file, line, _ = log.lines[int(columns["line"][record])]
        return Step(
            record=record,
            operation=log.ops[int(columns["op"][record])],
            location=f"{source_name(file)}:{line}",
            start_ps=int(columns["start_ps"][record]),
            end_ps=int(columns["end_ps"][record]),
        )
