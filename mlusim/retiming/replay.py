"""Replay of a log on a device: the same operations, without kernels and without data.

Every task issues its logged operations in order, through the functions that `Core` called for its kernel, and waits
where it waited. Pipes, links, barriers, launches and waves, and the rules of copies and instructions, are therefore
those of the simulator, on any board. Buffers keep their addresses.

Data-dependent behaviour is replayed as logged: branches taken after a load, and cycles charged by the kernel itself.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores import scalar
from mlusim.cores.atomics import ATOMIC_NAMES, reissue
from mlusim.cores.compute import uncached_vector
from mlusim.cores.copies import memcpy
from mlusim.cores.core import Core
from mlusim.cores.counted import row_copies
from mlusim.cores.counted.row_loop import RowLoop
from mlusim.cores.counted.scalar_copy import scalar_loop
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.issuer import Issuer
from mlusim.cores.memory_sets import SET_NAMES
from mlusim.cores.synchronisation import syncs
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.cores.synchronisation.locks import LOCK_NAMES, change, lock_number
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import KernelError
from mlusim.host.device import Device
from mlusim.log import ASYNCHRONOUS, BLOCKING, COUNTERS, MOVE, NONE, ON_INTEGERS, SCALAR, VECTOR, Log
from mlusim.log_tables import LoopRecord, Remark
from mlusim.memory.bin_costs import bin_counter_cycles
from mlusim.memory.kinds import Direction
from mlusim.memory.loop_costs import AddressInstructions
from mlusim.memory.view import Pointer, View
from mlusim.records import COLUMNS
from mlusim.retiming.buffers import Buffers, Operand

if TYPE_CHECKING:
    from mlusim.hardware import Board


_DIRECTIONS = tuple(Direction)
_WITHIN_NRAM = _DIRECTIONS.index(Direction.NRAM2NRAM)
_NO_LIMIT = 1 << 62
_FIELDS = itemgetter(*(COLUMNS.index(name) for name in ("op", "pipe", "count", "direction", "detail", "line")))
_OPERANDS = COLUMNS.index("dst_alloc")
_LINE = COLUMNS.index("line")
# Of the operations outside the table of instructions, those that return numbers to their task.
_COUNTING = ("collect", "collect_bins")


def replay(log: Log, old: Board, board: Board, *, barriers: bool, progress: bool) -> Log:
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

    def __init__(self, log: Log, old: Board, device: Device, *, barriers: bool) -> None:
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
        self._buffers = Buffers(log, old, device, self._records)
        device.log.host = replace(log.host, waits=[])
        device.log.lines, device.log.calls, device.log.lambdas = list(log.lines), dict(log.calls), set(log.lambdas)
        device.log.sources = dict(log.sources)

    def run(self) -> Log:
        """Repeat the launches and host waits, and convert the new log to the old log's indices."""
        old, device = self._log, self._device
        count = max((launch.queue for launch in old.launches), default=NONE) + 1
        queues = [device.queue() for _ in range(count)]
        waits = [*old.host.waits]
        if not waits or waits[-1] < len(old.launches):
            waits.append(len(old.launches))
        first = 0
        host_times_ps = [0]
        for last in waits:
            for number in range(first, last):
                launch = old.launches[number]
                kernel = self._kernel(number, launch.kernel)
                launched = device.launch(kernel, dim=launch.dim, kind=launch.kind, queue=queues[launch.queue])
                device.log.launches[launched.index].launched_at = launch.launched_at
            first = last
            device.synchronize()
            host_times_ps.append(self._chip.environment.now)
        self._finish(host_times_ps)
        return device.log

    def _kernel(self, launch: int, name: str) -> Callable[[Core], Coroutine[Any, Any, None]]:
        async def replay_task(core: Core) -> None:
            await self._task(core.issuer, launch)

        replay_task.__name__ = name
        return replay_task

    async def _task(self, issuer: Issuer, launch: int) -> None:
        number = self._task_of[launch, issuer.task.linear_id, issuer.unit.is_memory_core]
        records = self._records[number]
        self._new_task[number] = issuer.task.index
        previous = NONE
        for position, record in enumerate(records.tolist()):
            self._buffers.advance(issuer, number, position)
            self._origin.append(record)
            try:
                waits = self._issue(issuer, record, previous)
            except KernelError as error:
                file, line, _ = self._log.lines[self._log.records.row(record)[_LINE]]
                raise type(error)(error.message, f"{file}:{line}") from None
            if waits is not None:
                await waits
            previous = record
        self._buffers.advance(issuer, number, len(records))

    def _issue(self, issuer: Issuer, record: int, previous: int) -> Waiting | None:
        """Issue one operation, after that of the record `previous`; return an awaitable if its task has to wait."""
        row = self._log.records.row(record)
        op, pipe, count, direction, detail, line = _FIELDS(row)
        name = self._log.ops[op]
        # The operands of a call that joined another core's copy are logged with that copy.
        source = row if record not in self._log.joined else self._log.records.row(self._log.joined[record])
        operands = [*zip(source[_OPERANDS::3], source[_OPERANDS + 1 :: 3], source[_OPERANDS + 2 :: 3], strict=True)]
        loop = self._log.loops.get(record)
        if name == "memcpy":
            is_move = pipe == MOVE and direction == _WITHIN_NRAM and detail == ASYNCHRONOUS
            return self._copy(issuer, record, operands, direction, line, blocking=detail == BLOCKING, is_move=is_move)
        if loop is not None:
            return self._loop(issuer, record, name, loop, operands, line)
        if name in ATOMIC_NAMES or name in SET_NAMES:
            views = self._buffers.views(issuer, [*operands, *self._log.more_operands.get(record, ())])
            return reissue(issuer, line, name, views, blocking=detail == BLOCKING)
        if pipe == VECTOR:
            views = self._buffers.views(issuer, [*operands, *self._log.more_operands.get(record, ())], typed=True)
            result, integers = operands[0][0] != NONE, detail == ON_INTEGERS
            uncached_vector.issue_counted(issuer, line, name, views, None, count, result=result, integers=integers)
            return None
        if name == "scalar":
            if detail == COUNTERS:
                scalar.arithmetic(issuer, line, bin_counter_cycles(issuer.board), count, counters=True)
            else:
                scalar.arithmetic(issuer, line, None if detail == NONE else detail, count)
            return None
        if pipe == SCALAR:
            (view,) = self._buffers.views(issuer, operands)
            if name.startswith("store"):
                scalar.write(issuer, line, name, view)
                return None
            return scalar.read(issuer, line, name, view, _no_value)
        if name in LOCK_NAMES:
            return change(issuer, line, name, lock_number(detail))
        if name in BARRIERS:
            return syncs.barrier(issuer, line, name) if self._barriers else syncs.sync(issuer, line)
        if previous != NONE and self._gives_a_number(previous):
            return uncached_vector.wait_for_register(issuer, line, issuer.log.count - 1, _no_value)
        return syncs.sync(issuer, line, name, pipes=detail)

    def _gives_a_number(self, record: int) -> bool:
        """Return whether an instruction of the compute pipe ends with a `sync_compute`, as its task gets a number."""
        row = self._log.records.row(record)
        op, pipe, *_ = _FIELDS(row)
        name = self._log.ops[op]
        counts = name in _COUNTING or (name in INSTRUCTIONS and INSTRUCTIONS[name].counts)
        return bool(pipe == VECTOR and (row[_OPERANDS] == NONE or counts))

    def _copy(
        self,
        issuer: Issuer,
        record: int,
        operands: list[Operand],
        direction: int,
        line: int,
        *,
        blocking: bool,
        is_move: bool,
    ) -> Waiting | None:
        dst, src = self._buffers.views(issuer, operands, typed=True)
        if is_move:
            memcpy.move(issuer, line, dst, src)
            return None
        arguments: tuple[Any, ...] = (dst, src)
        if record in self._byte_copies:
            to, origin = (Pointer(view.allocation, view.offset, view.dtype) for view in (dst, src))
            arguments = (to, origin, dst.shape[-1], _DIRECTIONS[direction], _byte_strides(dst, src))
        if blocking:
            return memcpy.copy_and_wait(issuer, line, *arguments)
        memcpy.copy_async(issuer, line, *arguments)
        return None

    def _loop(
        self,
        issuer: Issuer,
        record: int,
        name: str,
        loop: LoopRecord,
        operands: list[Operand],
        line: int,
    ) -> Waiting | None:
        rows = {side: rows.astype(np.int64) for side, rows in self._log.addresses.get(record, {}).items()}
        replayed = RowLoop(
            loop.iterations,
            loop.selected,
            rows.get("dst"),
            rows.get("src"),
            AddressInstructions(loop.loads, loop.operations, loop.additions),
            tuple(self._buffers.views(issuer, [operands[2], *self._log.more_operands.get(record, ())])),
            unread=loop.unread,
            lengths=rows.get("lengths"),
        )
        if loop.method == "empty":
            return row_copies.empty_loop(issuer, line, replayed)
        dst, src = self._buffers.views(issuer, operands[:2])
        if loop.method == "scalar":
            extra_cycles = issuer.board.scalar_loop_cycles if name == "scalar_bins" else loop.extra_cycles
            return scalar_loop(issuer, line, dst, src, replayed, extra_cycles, name=name)
        number = row_copies.copy_loop(issuer, line, name, dst, src, replayed, method=loop.method)
        return None if loop.method == "instruction" else row_copies.wait_for_loop(issuer, number)

    def _finish(self, host_times_ps: list[int]) -> None:
        """Complete the new log from the old one; `host_times_ps`: when the host continued after each of its waits."""
        old, log = self._log, self._device.log
        origin = np.array(self._origin, np.int64)
        new_record = np.full(len(old), NONE, np.int64)
        new_record[origin] = np.arange(len(origin))
        log.addresses = {int(new_record[number]): rows for number, rows in sorted(old.addresses.items())}
        log.selected = {int(new_record[number]): mask for number, mask in sorted(old.selected.items())}
        log.attributes = {int(new_record[number]): values for number, values in sorted(old.attributes.items())}
        log.seen = {int(new_record[number]) for number in old.seen}
        log.swallowed, log.of_file = list(old.swallowed), set(old.of_file)
        # The host releases its memory between launches.
        log.released |= {
            number: count for number, count in old.released.items() if old.allocations[number].task == NONE
        }
        log.remarks = {key: self._with_new_time(remark) for key, remark in old.remarks.items()}
        for identity, windows in old.windows.items():
            boxes = [(offset, old.boxes[box]) for offset, box in windows]
            log.windows[identity] = {(offset, log.box(box.shape, box.strides, box.itemsize)) for offset, box in boxes}
        self._buffers.complete(host_times_ps)

    def _with_new_time(self, remark: Remark) -> Remark:
        """Return an observation of the old log with its task and time in the new one."""
        if remark.task == NONE:
            return remark
        issue_ps = self._log.records.column("issue_ps", slice(0, len(self._log)))
        records = self._records[remark.task]
        record = records[min(int(np.searchsorted(issue_ps[records], remark.at_ps)), len(records) - 1)]
        at_ps = self._device.log.records.row(self._origin.index(record))[COLUMNS.index("issue_ps")]
        return replace(remark, task=self._new_task[remark.task], at_ps=at_ps)


def _no_value() -> None:
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
