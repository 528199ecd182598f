"""Syncs of a core's pipes, and barriers between cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mlusim.cores.synchronisation.ordering import ALL_PIPES
from mlusim.errors import KernelError
from mlusim.log import NONE, SYNC

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting


def sync(issuer: Issuer, line: int, name: str = "sync", pipes: int = ALL_PIPES) -> Waiting:
    """Wait for pipes of this core: `__sync` and its relatives.

    Args:
        name: name of the instruction.
        pipes: bits of `mlusim.cores.synchronisation.ordering`.
    """
    return issuer.suspending if _waits(issuer, _code(issuer, name, pipes), line, pipes) else issuer.passing


def _waits(issuer: Issuer, code: int, line: int, pipes: int) -> bool:
    """Record a sync, and return whether its task has to wait."""
    task = issuer.task
    issuer.begin()
    now_ps = task.now_ps
    record = issuer.records.add(code, task.index, line, now_ps, now_ps, now_ps)
    waits = not task.is_drained() and task.drain(pipes, record, task.resume)
    task.unawaited = record
    return waits


def _code(issuer: Issuer, name: str, pipes: int) -> int:
    """Return the number of a sync's instruction in the log."""
    code = issuer.sync_codes.get((name, pipes))
    if code is None:
        code = issuer.sync_codes[name, pipes] = issuer.log.instruction(name, SYNC, detail=pipes)
    return code


def prepare_sync(issuer: Issuer, line: int, name: str = "sync", pipes: int = ALL_PIPES) -> Callable[[], Waiting | None]:
    """Return a `sync` for repeated calls, each of which returns None if there is nothing to wait for."""
    code = _code(issuer, name, pipes)

    def issue() -> Waiting | None:
        if _waits(issuer, code, line, pipes):
            return issuer.suspending
        issuer.task.unawaited = NONE
        return None

    return issue


def barrier(issuer: Issuer, line: int, name: str) -> Waiting:
    """Wait for all pipes of this core and then for other cores; for a BLOCK task only `sync`. Cost: see `Barrier`.

    Args:
        name: `sync_cluster`, `sync_all`; `sync_all_ipu`, which raises `KernelError` on a memory core, and
            `sync_all_mpu`, which does on an MLU core; or `sync_all_ipu_within_cluster`, which a memory core passes.

    The count is fixed: if a participant has returned, the others wait forever, and the run ends in `HangError`.
    """
    task, unit = issuer.task, issuer.unit
    if not task.job.launch.union:
        return sync(issuer, line, name)
    if unit.is_memory_core and name == "sync_all_ipu_within_cluster":
        # ASSUMED: the memory core does not participate; the vendor's kernels call it there.
        return sync(issuer, line)
    if unit.is_memory_core and name == "sync_all_ipu":
        raise KernelError(
            f"{name} on the memory core: this barrier excludes memory cores; "
            "let MLU cores alone call it, or use sync_all"
        )
    if not unit.is_memory_core and name == "sync_all_mpu":
        raise KernelError(f"{name} on an MLU core: it is the barrier of the memory cores; use sync_all")
    issuer.begin()
    now_ps = task.now_ps
    target = task.job.barrier(name, unit.cluster)
    number = target.number(task)
    if issuer.dry:
        task.unawaited = issuer.record(name, SYNC, line, now_ps, now_ps, now_ps, detail=number, alone_ps=0)
        return issuer.passing
    record = issuer.record(name, SYNC, line, now_ps, now_ps, NONE, detail=number, alone_ps=0)
    task.waits_for = name, line, now_ps
    arrive = partial(task.arrive_at, target, record)
    if not task.drain(ALL_PIPES, record, arrive):
        arrive()
    task.unawaited = record
    return issuer.suspending
