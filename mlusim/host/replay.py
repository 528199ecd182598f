"""Replay of a log on a device: the same operations, without kernels and without data.

Every task issues its logged operations in order, through the functions that `Core` called for its kernel, and waits
where it waited. Pipes, links, barriers, launches and waves, and the rules of copies and instructions, are therefore
those of the simulator, on any board. Buffers keep their addresses.

Data-dependent behaviour is replayed as logged: branches taken after a load, and cycles charged by the kernel itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores import copies, counted, row_copies, scalar, syncs, uncached_vector
from mlusim.cores.chip import sram_name
from mlusim.cores.core import Core
from mlusim.cores.issuer import Issuer
from mlusim.cores.locks import LOCK_NAMES, SHIFT, change
from mlusim.cores.row_loop import RowLoop
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES, SET_NAMES, reissue
from mlusim.cores.waiting import Waiting
from mlusim.dtypes import dtype_of
from mlusim.errors import KernelError
from mlusim.host.device import Device
from mlusim.log import MOVE, NONE, SCALAR, VECTOR, Log, LoopRecord, Remark, TaskRecord
from mlusim.memory.allocation import Allocation, Memory
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.memory.loops import AddressInstructions
from mlusim.memory.view import Pointer, View
from mlusim.records import COLUMNS

if TYPE_CHECKING:
    from mlusim.hardware import Board


# Element types by size: a replay reads no values.
_ELEMENTS = {size: np.dtype(kind) for size, kind in ((1, "u1"), (2, "u2"), (4, "u4"), (8, "u8"), (16, "V16"))}
_BYTES = np.empty(0, np.uint8)
_DIRECTIONS = tuple(Direction)
_WITHIN_NRAM = _DIRECTIONS.index(Direction.NRAM2NRAM)
_NO_LIMIT = 1 << 62
_FIELDS = itemgetter(*(COLUMNS.index(name) for name in ("op", "pipe", "count", "direction", "detail", "line")))
_OPERANDS = COLUMNS.index("dst_alloc")
_LINE = COLUMNS.index("line")


@lru_cache(maxsize=256)
def _element_type(name: str, itemsize: int) -> np.dtype[Any]:
    """Return the element type of a buffer if it has this size, else an unsigned integer that has it."""
    dtype = dtype_of(name)
    return dtype if dtype.itemsize == itemsize else _ELEMENTS[itemsize]


def replay(log: Log, old: Board, board: Board, *, barriers: bool = True, progress: bool = False) -> Log:
    """Return the log of the same operations on another board, or on the same.

    Args:
        log: log of a run that ended; every launch of it has run.
        old: the board that it ran on.
        board: the board to replay it on; launches and buffers must fit.
        barriers: False: at barriers, tasks wait for their own pipes only, not for other tasks.
        progress: show a progress bar if it takes longer than a second or two.

    Raises `KernelError` for an operation that the board forbids, at the kernel's source line, and `LaunchError`.
    """
    device = Device(board, data=False, max_operations=_NO_LIMIT, progress=progress)
    return Replay(log, old, device, barriers=barriers).run()


class Replay:
    """One replay: the old log, the device that repeats it, and the mapping between their records."""

    def __init__(self, log: Log, old: Board, device: Device, *, barriers: bool = True) -> None:
        self._log = log
        self._barriers = barriers
        self._device = device
        self._chip = device.chip
        tasks = log.records.column("task", slice(0, len(log)))
        order = np.argsort(tasks, kind="stable")
        bounds = np.searchsorted(tasks[order], np.arange(len(log.tasks) + 1))
        self._records = [order[low:high] for low, high in pairwise(bounds)]
        self._task_of = {(task.launch, task.task_id, task.is_memory_core): n for n, task in enumerate(log.tasks)}
        self._byte_copies = frozenset(log.byte_copies)
        self._origin: list[int] = []
        self._new_task = [NONE] * len(log.tasks)
        self._buffers: list[Allocation | None] = [None] * len(log.allocations)
        self._freed: dict[int, int] = {}
        self._events = self._buffer_events()
        self._union_clusters = _clusters_of_unions(log, old)
        # Keep allocation indices, so that they do not depend on the order in which tasks allocate.
        device.log.allocations += [replace(record, start_ps=NONE, end_ps=NONE) for record in log.allocations]
        device.log.unordered |= log.unordered
        device.log.host_writes |= log.host_writes
        device.log.host_parts |= log.host_parts
        device.log.host_reads |= log.host_reads
        device.log.host_read_parts |= log.host_read_parts
        device.log.lines = list(log.lines)

    def run(self) -> Log:
        """Repeat the launches and host waits, and convert the new log to the old log's indices."""
        old, device = self._log, self._device
        count = max((launch.queue for launch in old.launches), default=NONE) + 1
        queues = [device.queue() for _ in range(count)]
        waits = [*old.host_waits]
        if not waits or waits[-1] < len(old.launches):
            waits.append(len(old.launches))
        first = 0
        times = [0]
        for last in waits:
            for number in range(first, last):
                launch = old.launches[number]
                device.launch(
                    self._kernel(number, launch.kernel), dim=launch.dim, kind=launch.kind, queue=queues[launch.queue]
                )
            first = last
            device.synchronize()
            times.append(self._chip.environment.now)
        self._finish(times)
        return device.log

    def _kernel(self, launch: int, name: str) -> Callable[[Core], Coroutine[Any, Any, None]]:
        async def again(core: Core) -> None:
            await self._task(core.issuer, launch)

        again.__name__ = name
        return again

    async def _task(self, issuer: Issuer, launch: int) -> None:
        number = self._task_of[launch, issuer.task.linear_id, issuer.unit.is_memory_core]
        records = self._records[number]
        self._new_task[number] = issuer.task.index
        events = self._events[number]
        event = 0
        for position, record in enumerate(records.tolist()):
            while event < len(events) and events[event][0] <= position:
                self._buffer_event(issuer, *events[event][1:])
                event += 1
            self._origin.append(record)
            try:
                waits = self._issue(issuer, record)
            except KernelError as error:
                file, line, _ = self._log.lines[self._log.records.row(record)[_LINE]]
                raise type(error)(error.message, f"{file}:{line}") from None
            if waits is not None:
                await waits
        for _, identity, frees in events[event:]:
            self._buffer_event(issuer, identity, frees)

    def _issue(self, issuer: Issuer, record: int) -> Waiting | None:
        """Issue one operation; return an awaitable if its task has to wait."""
        row = self._log.records.row(record)
        op, pipe, count, direction, detail, line = _FIELDS(row)
        name = self._log.ops[op]
        # The operands of a call that joined another core's copy are logged with that copy.
        of = row if record not in self._log.joined else self._log.records.row(self._log.joined[record])
        operands = [(of[column], of[column + 1], of[column + 2]) for column in range(_OPERANDS, len(COLUMNS), 3)]
        loop = self._log.loops.get(record)
        if name == "memcpy":
            moved = pipe == MOVE and direction == _WITHIN_NRAM and not detail
            return self._copy(issuer, record, operands, direction, detail, line, moved=moved)
        if loop is not None:
            return self._loop(issuer, record, name, loop, operands, line)
        if name in ATOMIC_NAMES or name in SET_NAMES:
            views = self._views(issuer, [*operands, *self._log.more_operands.get(record, ())])
            return reissue(issuer, line, name, views, blocking=bool(detail))
        if pipe == VECTOR:
            views = self._views(issuer, [*operands, *self._log.more_operands.get(record, ())], typed=True)
            uncached_vector.issue_counted(issuer, line, name, views, None, count, result=operands[0][0] != NONE)
            return None
        if name == "scalar":
            scalar.arithmetic(issuer, line, None if detail == NONE else detail, count)
            return None
        if pipe == SCALAR:
            (view,) = self._views(issuer, operands)
            if name.startswith("store"):
                scalar.write(issuer, line, name, view)
                return None
            return scalar.read(issuer, line, name, view, _nothing)
        if name in LOCK_NAMES:
            return change(issuer, line, name, detail >> SHIFT)
        if name in syncs.BARRIERS:
            return syncs.barrier(issuer, line, name) if self._barriers else syncs.sync(issuer, line)
        return syncs.sync(issuer, line, name, detail)

    def _copy(
        self,
        issuer: Issuer,
        record: int,
        operands: list[tuple[int, int, int]],
        direction: int,
        blocking: int,
        line: int,
        *,
        moved: bool,
    ) -> Waiting | None:
        dst, src = self._views(issuer, operands, typed=True)
        if moved:
            copies.move(issuer, line, dst, src)
            return None
        arguments: tuple[Any, ...] = (dst, src)
        if record in self._byte_copies:
            to, origin = (Pointer(view.allocation, view.offset, view.dtype) for view in (dst, src))
            arguments = (to, origin, dst.shape[-1], _DIRECTIONS[direction], _byte_strides(dst, src))
        if blocking:
            return copies.copy_and_wait(issuer, line, *arguments)
        copies.copy_async(issuer, line, *arguments)
        return None

    def _loop(
        self,
        issuer: Issuer,
        record: int,
        name: str,
        loop: LoopRecord,
        operands: list[tuple[int, int, int]],
        line: int,
    ) -> Waiting | None:
        rows = {side: rows.astype(np.int64) for side, rows in self._log.addresses.get(record, {}).items()}
        replayed = RowLoop(
            loop.iterations,
            loop.selected,
            rows.get("dst"),
            rows.get("src"),
            AddressInstructions(loop.loads, loop.operations, loop.additions),
            tuple(self._views(issuer, [operands[2], *self._log.more_operands.get(record, ())])),
            unread=loop.unread,
            lengths=rows.get("lengths"),
        )
        if loop.method == "empty":
            return counted.empty_loop(issuer, line, replayed)
        dst, src = self._views(issuer, operands[:2])
        if loop.method == "scalar":
            return counted.scalar_loop(issuer, line, dst, src, replayed, loop.extra_cycles, name=name)
        copied = row_copies.copy_loop(issuer, line, name, dst, src, replayed, method=loop.method)
        return None if loop.method == "instruction" else counted.wait_for_loop(issuer, copied)

    def _views(self, issuer: Issuer, operands: list[tuple[int, int, int]], *, typed: bool = False) -> list[View]:
        """Return operands as views of unsigned integers.

        `typed`: as views of the buffer's own element type, which errors show, if that has the operand's element size.
        """
        views = []
        for identity, offset, box in operands:
            if identity == NONE:
                continue
            allocation = self._buffers[identity] or self._recreate_buffer(issuer, identity)
            shape = self._log.boxes[box]
            dtype = _ELEMENTS[shape.itemsize]
            if typed:
                dtype = _element_type(self._log.allocations[identity].dtype, shape.itemsize)
            views.append(View.strided(allocation, offset, shape.shape, shape.strides, dtype))
        return views

    def _recreate_buffer(self, issuer: Issuer, identity: int) -> Allocation:
        """Recreate a buffer at its address, in the memory of this core, its cluster or the board."""
        record = self._log.allocations[identity]
        memory, task = self._chip.gdram, NONE
        now = self._chip.environment.now
        if record.task != NONE:
            memory, task, now = self._memory(issuer, identity), issuer.task.index, issuer.task.now_ps
        allocation = Allocation(memory, identity, record.address, record.nbytes, record.nbytes, record.name)
        allocation.read_only = record.read_only
        # An empty buffer permits scalar loads; the values they read are not needed.
        allocation.buffer = _BYTES
        self._buffers[identity] = allocation
        self._device.log.allocations[identity] = replace(record, memory_name=memory.name, task=task, start_ps=now)
        return allocation

    def _memory(self, issuer: Issuer, identity: int) -> Memory:
        record = self._log.allocations[identity]
        unit, job = issuer.unit, issuer.task.job
        if record.memory == MemoryKind.SRAM.value:
            return job.clusters[self._union_clusters[record.task, record.memory_name]].sram
        memory: Memory = getattr(unit, record.memory)
        return memory

    def _buffer_events(self) -> list[list[tuple[int, int, bool]]]:
        """By task, return its allocations and releases as (index of the following operation, allocation, frees).

        Issue times are strictly increasing, so times determine the order of allocations.
        """
        events: list[list[tuple[int, int, bool]]] = [[] for _ in self._log.tasks]
        issue_ps = self._log.records.column("issue_ps", slice(0, len(self._log)))
        issued: dict[int, Integers] = {}
        for identity, record in enumerate(self._log.allocations):
            number = record.task
            if number == NONE:
                continue
            if number not in issued:
                issued[number] = issue_ps[self._records[number]]
            position = int(np.searchsorted(issued[number], record.start_ps, side="right"))
            events[number].append((position, identity, False))
            if identity in self._log.released:
                freed = int(np.searchsorted(self._records[number], self._log.released[identity]))
                events[number].append((freed, identity, True))
        for task_events in events:
            task_events.sort(key=lambda event: event[0])
        return events

    def _buffer_event(self, issuer: Issuer, identity: int, frees: bool) -> None:  # noqa: FBT001 - unpacked from a log's event
        if self._buffers[identity] is None:
            self._recreate_buffer(issuer, identity)
        if frees:
            self._device.log.released[identity] = self._device.log.count
            if self._log.allocations[identity].end_ps < self._log.tasks[self._log.allocations[identity].task].end_ps:
                self._freed[identity] = issuer.task.now_ps

    def _finish(self, times: list[int]) -> None:
        """Complete buffers and addresses from the old log, with the host's buffers on the new clock."""
        old, log = self._log, self._device.log
        origin = np.array(self._origin, np.int64)
        new_record = np.full(len(old), NONE, np.int64)
        new_record[origin] = np.arange(len(origin))
        log.addresses = {int(new_record[number]): rows for number, rows in sorted(old.addresses.items())}
        log.selected = {int(new_record[number]): bits for number, bits in sorted(old.selected.items())}
        log.attributes = {int(new_record[number]): values for number, values in sorted(old.attributes.items())}
        log.seen = {int(new_record[number]) for number in old.seen}
        log.swallowed, log.of_file = list(old.swallowed), set(old.of_file)
        # The host releases its memory between launches.
        log.released |= {
            number: count for number, count in old.released.items() if old.allocations[number].task == NONE
        }
        log.remarks = {key: self._replayed(remark) for key, remark in old.remarks.items()}
        for identity, windows in old.windows.items():
            boxes = [(offset, old.boxes[box]) for offset, box in windows]
            log.windows[identity] = {(offset, log.box(box.shape, box.strides, box.itemsize)) for offset, box in boxes}
        job_ends = _job_ends(log, self._device.board.cores_per_cluster)
        host = _HostTimes(old, times)
        for identity, record in enumerate(old.allocations):
            allocation = log.allocations[identity]
            if record.task == NONE:
                start, end = host.of(record.start_ps), host.of(record.end_ps)
                log.allocations[identity] = replace(
                    record, memory_name=self._chip.gdram.name, start_ps=start, end_ps=end
                )
            elif record.memory == MemoryKind.SRAM.value:
                log.allocations[identity] = replace(allocation, end_ps=job_ends[allocation.task])
            else:
                end = self._freed.get(identity, log.tasks[allocation.task].end_ps)
                log.allocations[identity] = replace(allocation, end_ps=end)

    def _replayed(self, remark: Remark) -> Remark:
        """Return an observation of the old log with its task and time in the new one."""
        if remark.task == NONE:
            return remark
        issue_ps = self._log.records.column("issue_ps", slice(0, len(self._log)))
        records = self._records[remark.task]
        record = records[min(int(np.searchsorted(issue_ps[records], remark.at_ps)), len(records) - 1)]
        at_ps = self._device.log.records.row(self._origin.index(record))[COLUMNS.index("issue_ps")]
        return replace(remark, task=self._new_task[remark.task], at_ps=at_ps)


class _HostTimes:
    """Maps host times from the old clock to the new one, by the host's waits between them."""

    def __init__(self, old: Log, times: list[int]) -> None:
        ends = [max((launch.end_ps for launch in old.launches[:count]), default=0) for count in old.host_waits]
        self._ends = np.array(ends, np.int64)
        self._times = times

    def of(self, time_ps: int) -> int:
        """Map a time to the new clock; NONE stays NONE."""
        if time_ps == NONE:
            return NONE
        waits = int(np.searchsorted(self._ends, time_ps, side="right")) if time_ps else 0
        return self._times[min(waits, len(self._times) - 1)]


def _nothing() -> None:
    """Return None, as the value of a replayed scalar load."""


def _byte_strides(dst: View, src: View) -> tuple[int, ...]:
    """Return the stride arguments of a byte-form copy, from its logged operands."""
    if dst.ndim == 1:
        return ()
    if dst.ndim == 2:
        return dst.strides[0], src.strides[0], dst.shape[0] - 1
    sides = []
    for view in (dst, src):
        (outer, inner, _), (outer_stride, inner_stride, _) = view.shape, view.strides
        sides += [inner_stride, inner - 1, outer_stride, outer - 1]
    return tuple(sides)


def _job_of(task: TaskRecord, width: int) -> tuple[int, int]:
    return task.launch, task.task_id // width


def _width(log: Log, task: TaskRecord, cores_per_cluster: int) -> int:
    """Return the number of tasks in a task's union; 1 for a BLOCK task."""
    kind = log.launches[task.launch].kind
    return int(kind[5:]) * cores_per_cluster if kind.startswith("UNION") else 1


def _clusters_of_unions(log: Log, board: Board) -> dict[tuple[int, str], int]:
    """By task and SRAM name, return the index of the SRAM's cluster within the task's union."""
    clusters_of_union: dict[tuple[int, str], int] = {}
    if not any(record.memory == MemoryKind.SRAM.value for record in log.allocations):
        return clusters_of_union
    per_cluster = board.cores_per_cluster
    clusters: dict[tuple[int, int], dict[str, int]] = {}
    for task in log.tasks:
        width = _width(log, task, per_cluster)
        position = task.task_id % width // per_cluster
        clusters.setdefault(_job_of(task, width), {})[sram_name(board.name, task.cluster)] = position
    for number, task in enumerate(log.tasks):
        for name, position in clusters[_job_of(task, _width(log, task, per_cluster))].items():
            clusters_of_union[number, name] = position
    return clusters_of_union


def _job_ends(log: Log, cores_per_cluster: int) -> list[int]:
    """By task, return the end of the last task of its union."""
    jobs = [_job_of(task, _width(log, task, cores_per_cluster)) for task in log.tasks]
    ends: dict[tuple[int, int], int] = {}
    for job, task in zip(jobs, log.tasks, strict=True):
        ends[job] = max(ends.get(job, 0), task.end_ps)
    return [ends[job] for job in jobs]
