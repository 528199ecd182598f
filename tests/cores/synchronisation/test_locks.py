"""Locks between cores: mutual exclusion in order of arrival, and their effect on the checker."""

from __future__ import annotations

import numpy as np
import pytest

from mlusim import Device
from mlusim.cores.core import Core
from mlusim.errors import HangError, OperandError
from mlusim.memory.view import View

ONE = {"kind": "BLOCK", "dim": 1}


async def add_one(core: Core, total: View, locked: bool) -> None:
    """A read-modify-write that loses increments if two tasks execute it at once."""
    if locked:
        await core.lock(np.int64(3))
    tile = core.nram.alloc(total.shape, total.dtype)
    await core.memcpy(tile, total)
    core.add(tile, tile, 1.0)
    await core.memcpy(total, tile)
    if locked:
        await core.unlock(3)


@pytest.mark.parametrize("locked", [True, False])
def test_a_lock_makes_read_and_write_atomic(locked: bool) -> None:
    device = Device()
    total = device.upload(np.zeros(64, np.float32), writable=True)
    device.launch(add_one, total, locked, dim=8, kind="BLOCK")
    device.synchronize()
    found = device.download(total)
    assert (found == 8).all() == locked
    races = [error for error in device.verify(rewrites=True).errors if error.kind == "task-race"]
    assert bool(races) != locked


def test_waiting_tasks_acquire_the_lock_in_order_of_arrival() -> None:
    async def kernel(core: Core, out: View) -> None:
        core.scalar(1000 * (8 - core.task_id))
        await core.lock(0)
        core.store(out[core.task_id : core.task_id + 1], 1)
        await core.unlock(0)

    device = Device()
    device.launch(kernel, device.alloc(8, "int32"), dim=8, kind="BLOCK")
    device.synchronize()
    columns = device.log.columns()
    taken = columns["end_ps"][columns["op"] == device.log.ops.index("lock")]
    by_task = taken[np.argsort(columns["task"][columns["op"] == device.log.ops.index("lock")])]
    assert (np.diff(by_task) < 0).all()


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ("u", r"unlock 5: this task does not hold that lock; call lock\(5\) first"),
        ("L", "lock -1: the number of a lock must be 0 or more"),
        ("ll", "deadlock: this task waits for lock 5, which it holds itself; unlock it first"),
    ],
)
def test_invalid_lock_calls_are_errors(calls: str, words: str) -> None:
    async def kernel(core: Core) -> None:
        for call in calls:
            await {"l": core.lock, "u": core.unlock}[call.lower()](5 if call.islower() else -1)

    device = Device()
    device.launch(kernel, **ONE)
    with pytest.raises(HangError if calls == "ll" else OperandError, match=words):
        device.synchronize()


def test_a_lock_that_is_never_released_is_a_deadlock() -> None:
    async def kernel(core: Core) -> None:
        await core.lock(7)

    device = Device()
    device.launch(kernel, dim=2, kind="BLOCK")
    with pytest.raises(HangError, match="lock 7"):
        device.synchronize()
