"""The buffers of a replay: each is made again at its address, when its task first needs it, and freed as logged."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.issuer import Issuer
from mlusim.cores.machine.chip import sram_name
from mlusim.dtypes import RAW, dtype_of
from mlusim.host.device import Device
from mlusim.log import NONE, Log
from mlusim.log_tables import TaskRecord
from mlusim.memory.allocation import Allocation, Memory
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.hardware import Board

# An operand as in the log: allocation, offset, box.
Operand = tuple[int, int, int]
_BYTES = np.empty(0, np.uint8)


class _Event(NamedTuple):
    """An allocation or release by a task, before its operation at `position`."""

    position: int
    identity: int
    frees: bool


class Buffers:
    """The buffers of the old log's tasks and of its host, on the device that replays it.

    Args:
        log: the old log.
        old: the board that it ran on.
        device: the device that replays it. Its allocations have the indices of the old ones, so that these do not
            depend on the order in which tasks allocate.
        records: by task, its records in the old log, in order.
    """

    def __init__(self, log: Log, old: Board, device: Device, records: Sequence[Integers]) -> None:
        self._log = log
        self._device = device
        self._records = records
        self._buffers: list[Allocation | None] = [None] * len(log.allocations)
        # When tasks have freed buffers before their own end, by allocation.
        self._freed_ps: dict[int, int] = {}
        self._events = self._events_by_task()
        self._union_clusters = _clusters_of_unions(log, old)
        device.log.allocations += [replace(record, start_ps=NONE, end_ps=NONE) for record in log.allocations]

    def views(self, issuer: Issuer, operands: Sequence[Operand], *, typed: bool = False) -> list[View]:
        """Return operands as views of unsigned integers; those that are absent are left out.

        `typed`: as views of the buffer's own element type, which errors show, if that has the operand's element size.
        """
        views = []
        for identity, offset, box in operands:
            if identity == NONE:
                continue
            allocation = self._buffers[identity] or self._create(issuer, identity)
            shape = self._log.boxes[box]
            dtype = RAW[shape.itemsize]
            if typed:
                dtype = _element_type(self._log.allocations[identity].dtype, shape.itemsize)
            views.append(View.strided(allocation, offset, shape.shape, shape.strides, dtype))
        return views

    def advance(self, issuer: Issuer, task: int, position: int) -> None:
        """Allocate and free what a task of the old log has, since the last call, before its operation at `position`."""
        events = self._events[task]
        while events and events[0].position <= position:
            _, identity, frees = events.popleft()
            if self._buffers[identity] is None:
                self._create(issuer, identity)
            if frees:
                self._device.log.released[identity] = self._device.log.count
                if self._log.allocations[identity].end_ps < self._log.tasks[task].end_ps:
                    self._freed_ps[identity] = issuer.task.now_ps

    def complete(self, host_times_ps: Sequence[int]) -> None:
        """Set the lifetimes of all buffers; `host_times_ps`: when the host continued after each wait, from 0 on."""
        log, chip = self._device.log, self._device.chip
        job_ends = _job_ends(log, self._device.board.cores_per_cluster)
        new_time = _host_clock(self._log, host_times_ps)
        for identity, record in enumerate(self._log.allocations):
            allocation = log.allocations[identity]
            if record.task == NONE:
                log.allocations[identity] = replace(
                    record,
                    memory_name=chip.gdram.name,
                    start_ps=new_time(record.start_ps),
                    end_ps=new_time(record.end_ps),
                )
            elif record.memory == MemoryKind.SRAM.value:
                log.allocations[identity] = replace(allocation, end_ps=job_ends[allocation.task])
            else:
                end_ps = self._freed_ps.get(identity, log.tasks[allocation.task].end_ps)
                log.allocations[identity] = replace(allocation, end_ps=end_ps)

    def _create(self, issuer: Issuer, identity: int) -> Allocation:
        """Make a buffer at its address, in the memory of this core, its cluster or the board."""
        record = self._log.allocations[identity]
        memory, task, now = self._device.chip.gdram, NONE, self._device.chip.environment.now
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
        if record.memory == MemoryKind.SRAM.value:
            return issuer.task.job.clusters[self._union_clusters[record.task, record.memory_name]].sram
        memory: Memory = getattr(issuer.unit, record.memory)
        return memory

    def _events_by_task(self) -> list[deque[_Event]]:
        """Return the allocations and releases of each task, in order.

        Issue times are strictly increasing, so times determine the order of allocations.
        """
        events: list[list[_Event]] = [[] for _ in self._log.tasks]
        issue_ps = self._log.records.column("issue_ps", slice(0, len(self._log)))
        issue_times: dict[int, Integers] = {}
        for identity, record in enumerate(self._log.allocations):
            number = record.task
            if number == NONE:
                continue
            if number not in issue_times:
                issue_times[number] = issue_ps[self._records[number]]
            position = int(np.searchsorted(issue_times[number], record.start_ps, side="right"))
            events[number].append(_Event(position, identity, frees=False))
            if identity in self._log.released:
                freed = int(np.searchsorted(self._records[number], self._log.released[identity]))
                events[number].append(_Event(freed, identity, frees=True))
        return [deque(sorted(of_task, key=lambda event: event.position)) for of_task in events]


@lru_cache(maxsize=256)
def _element_type(name: str, itemsize: int) -> np.dtype[Any]:
    """Return the element type of a buffer if it has this size, else an unsigned integer that has it."""
    dtype = dtype_of(name)
    return dtype if dtype.itemsize == itemsize else RAW[itemsize]


def _host_clock(old: Log, times_ps: Sequence[int]) -> Callable[[int], int]:
    """Return the function that maps a host time to the new clock, by the host's waits before it; NONE stays NONE."""
    ends = [max((launch.end_ps for launch in old.launches[:count]), default=0) for count in old.host.waits]

    def new_time(time_ps: int) -> int:
        if time_ps == NONE:
            return NONE
        waits = bisect_right(ends, time_ps) if time_ps else 0
        return times_ps[min(waits, len(times_ps) - 1)]

    return new_time


# A launch, and the index in it of a union or of a BLOCK task.
_Job = tuple[int, int]


def _job_of(log: Log, task: TaskRecord, cores_per_cluster: int) -> tuple[_Job, int]:
    """Return the job of a task, and the index of the task's cluster in it."""
    kind = log.launches[task.launch].kind
    tasks = int(kind.removeprefix("UNION")) * cores_per_cluster if kind.startswith("UNION") else 1
    index, position = divmod(task.task_id, tasks)
    return (task.launch, index), position // cores_per_cluster


def _clusters_of_unions(log: Log, board: Board) -> dict[tuple[int, str], int]:
    """By task and SRAM name, return the index of the SRAM's cluster within the task's union."""
    if not any(record.memory == MemoryKind.SRAM.value for record in log.allocations):
        return {}
    jobs = [_job_of(log, task, board.cores_per_cluster) for task in log.tasks]
    clusters: dict[_Job, dict[str, int]] = {}
    for task, (job, cluster) in zip(log.tasks, jobs, strict=True):
        clusters.setdefault(job, {})[sram_name(board.name, task.cluster)] = cluster
    return {(number, name): cluster for number, (job, _) in enumerate(jobs) for name, cluster in clusters[job].items()}


def _job_ends(log: Log, cores_per_cluster: int) -> list[int]:
    """By task, return the end of the last task of its job."""
    jobs = [_job_of(log, task, cores_per_cluster)[0] for task in log.tasks]
    ends: dict[_Job, int] = {}
    for job, task in zip(jobs, log.tasks, strict=True):
        ends[job] = max(ends.get(job, 0), task.end_ps)
    return [ends[job] for job in jobs]
