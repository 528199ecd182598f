"""Syncs of a core's pipes, and barriers between cores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mlusim.cores.ordering import ALL_PIPES
from mlusim.errors import KernelError
from mlusim.log import NO_OPERAND, NONE, SYNC

if TYPE_CHECKING:
    from mlusim.cores.barrier import Barrier
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.waiting import Waiting

_NO_BOXES = (NO_OPERAND[2],) * 3
BARRIERS = ("sync_cluster", "sync_all", "sync_all_ipu", "sync_all_mpu", "sync_all_ipu_within_cluster")


def sync(issuer: Issuer, line: int, name: str = "sync", pipes: int = ALL_PIPES) -> Waiting:
    """Wait for pipes of this core: `__sync` and its relatives.

    Args:
        issuer: issuer of the waiting task.
        line: source line in the log.
        name: name of the instruction.
        pipes: bits of `mlusim.cores.ordering`.
    """
    task = issuer.task
    issuer.begin()
    now_ps = task.now_ps
    record = issuer.records.add(_code(issuer, name, pipes), task.index, line, now_ps, now_ps, now_ps)
    waits = not task.is_settled() and task.drain(pipes, record, task.resume)
    task.unawaited = record
    return task.suspending if waits else task.passing


def _code(issuer: Issuer, name: str, pipes: int) -> int:
    """Return the number of a sync's instruction in the log."""
    code = issuer.sync_codes.get((name, pipes))
    if code is None:
        log = issuer.log
        code = log.records.instruction(log.op(name), SYNC, NONE, 1, 0, 0, 0, 0, pipes, *_NO_BOXES)
        issuer.sync_codes[name, pipes] = code
    return code


def prepared(issuer: Issuer, line: int, name: str = "sync", pipes: int = ALL_PIPES) -> Callable[[], Waiting | None]:
    """Return a `sync` for repeated calls, each of which returns None if there is nothing to wait for."""
    records, task = issuer.log.records, issuer.task
    code = _code(issuer, name, pipes)

    def issue() -> Waiting | None:
        issuer.begin()
        now_ps = task.now_ps
        record = records.add(code, task.index, line, now_ps, now_ps, now_ps)
        if task.is_settled() or not task.drain(pipes, record, task.resume):
            return None
        task.unawaited = record
        return task.suspending

    return issue


def barrier(issuer: Issuer, line: int, name: str) -> Waiting:
    """Wait for all pipes of this core and then for other cores; for a BLOCK task only `sync`.

    Args:
        issuer: issuer of the waiting task.
        line: source line in the log.
        name: `sync_cluster`, `sync_all`; `sync_all_ipu`, which raises `KernelError` on a memory core, and
            `sync_all_mpu`, which does on an MLU core; or `sync_all_ipu_within_cluster`, which a memory core passes.

    The count is fixed: if a participant has returned, the others wait forever, and the run ends in `HangError`.
    """
    job = issuer.task.job
    if name == "sync_all_ipu_within_cluster" and issuer.unit.is_memory_core:
        # ASSUMED: the memory core does not participate; kernels of the vendor call it there.
        return sync(issuer, line)
    if name == "sync_all_ipu" and issuer.unit.is_memory_core:
        raise KernelError(
            f"{name} on the memory core: this barrier excludes memory cores; "
            "let MLU cores alone call it, or use sync_all"
        )
    if name == "sync_all_mpu" and not issuer.unit.is_memory_core and job.launch.union:
        raise KernelError(f"{name} on an MLU core: it is the barrier of the memory cores; use sync_all")
    if not job.launch.union:
        return sync(issuer, line, name)
    if name == "sync_cluster":
        return _arrive(issuer, line, name, job.cluster_barriers[issuer.unit.cluster.index])
    if name == "sync_all_ipu_within_cluster":
        return _arrive(issuer, line, name, job.cluster_ipu_barriers[issuer.unit.cluster.index])
    target = {"sync_all": job.all_barrier, "sync_all_mpu": job.all_mpu_barrier}.get(name, job.all_ipu_barrier)
    return _arrive(issuer, line, name, target)


def _arrive(issuer: Issuer, line: int, name: str, target: Barrier) -> Waiting:
    task = issuer.task
    issuer.begin()
    now_ps = task.now_ps
    number = target.number(task)
    if issuer.dry:
        task.unawaited = issuer.record(name, SYNC, line, now_ps, now_ps, now_ps, detail=number, alone_ps=0)
        return task.passing
    record = issuer.record(name, SYNC, line, now_ps, now_ps, NONE, detail=number, alone_ps=0)
    task.waits_for = name, line, now_ps
    arrive = partial(task.arrive_at, target, record)
    if not task.drain(ALL_PIPES, record, arrive):
        arrive()
    task.unawaited = record
    return task.suspending
