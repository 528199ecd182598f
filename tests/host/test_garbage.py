"""Runs raise the first threshold of Python's collector, and restore it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mlusim.cores.core import Core
from mlusim.errors import KernelError
from mlusim.host.device import Device
from mlusim.host.garbage import fewer_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


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
