"""Runs raise the first threshold of Python's collector, restore it, and leave nothing to collect."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.cores.core import Core
from mlusim.errors import KernelError
from mlusim.host.device import Device
from mlusim.host.garbage import fewer_collections
from mlusim.memory.view import View

X = np.arange(4096, dtype=np.float32).reshape(64, 64)
INDEX = np.arange(4096, dtype=np.int32).reshape(64, 64)[::-1] % 64


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_a_run_restores_the_thresholds_also_after_an_error() -> None:
    seen = []

    async def kernel(core: Core) -> None:
        seen.append(gc.get_threshold())
        raise ValueError

    gc.set_threshold(700, 11, 12)
    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(KernelError):
        device.synchronize()
    assert gc.get_threshold() == (700, 11, 12)
    ((first, *others),) = seen
    assert first > 700
    assert others == [11, 12]


@pytest.mark.parametrize("first", [0, 1_000_000])
def test_a_disabled_garbage_collector_stays_disabled(first: int) -> None:
    gc.set_threshold(first, 10, 10)
    with fewer_collections:
        assert gc.get_threshold() == (first, 10, 10)
    assert gc.get_threshold() == (first, 10, 10)


def test_the_last_of_overlapping_runs_restores() -> None:
    gc.set_threshold(700, 10, 10)
    # Two threads that leave in the order in which they came.
    fewer_collections.__enter__()
    fewer_collections.__enter__()
    fewer_collections.__exit__()
    assert gc.get_threshold()[0] > 700
    fewer_collections.__exit__()
    assert gc.get_threshold() == (700, 10, 10)


async def doubled(core: Core, x: View, out: View) -> None:
    shared = core.sram.alloc(64, np.float32, "shared")
    await core.sync_cluster()
    if core.is_memory_core:
        return
    row = core.nram.alloc(64, np.float32, "row")
    await core.memcpy(row, x[core.task_id])
    core.add(row, row, row)
    await core.sync()
    await core.memcpy(out[core.task_id], row)
    assert shared.size == 64


def launched() -> Device:
    device = Device("mlu370-x4")
    device.launch(doubled, device.upload(X, "x"), device.alloc((64, 64), np.float32), dim=4, kind="UNION1")
    device.synchronize()
    return device


RUNS: dict[str, Callable[[], Any]] = {
    "reverse": lambda: mlusim.ops.reverse(X, 0),
    "checked": lambda: mlusim.ops.reverse(X, 0, check=True),
    "steady": lambda: mlusim.ops.reverse(X, 0, data=False, steady=True),
    "cast": lambda: mlusim.ops.cast(X, "float16"),
    "gather": lambda: mlusim.ops.gather(X, INDEX, 1, device="mlu590-h8"),
    "gather by vector instructions": lambda: mlusim.ops.gather(X, INDEX, 1, strategy="slab"),
    "scatter": lambda: mlusim.ops.scatter(X, INDEX, X, 1),
    "scatter by sorting": lambda: mlusim.ops.scatter(X, INDEX, X, 1, strategy="bins", device="mlu590-h8"),
    "tin_shift": lambda: mlusim.ops.tin_shift_forward(X.reshape(2, 4, 8, 64), np.ones((2, 2), np.int32)),
    "a kernel": lambda: mlusim.run(doubled, X, mlusim.Output((64, 64), np.float32), dim=4, kind="UNION1"),
    "a device": launched,
}


@pytest.mark.parametrize("name", RUNS)
def test_a_log_is_freed_with_its_result(name: str) -> None:
    gc.disable()
    result = RUNS[name]()
    log = weakref.ref(result.log)
    del result
    assert log() is None
