"""Host memory of dropped results is reused, but never that of a result still referenced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim import Device, ops
from mlusim.memory import reused
from mlusim.memory.reused import reused_bytes
from mlusim.units import MIB


@pytest.fixture(autouse=True)
def nothing_free_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reused, "_free_results", {})


def address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def test_a_dropped_block_serves_the_next_of_its_size() -> None:
    first = reused_bytes(2 * MIB)
    where = address(first)
    del first
    assert address(reused_bytes(2 * MIB)) == where
    assert address(reused_bytes(2 * MIB + 1)) != where


@pytest.mark.parametrize(
    "view",
    [
        lambda array: array[5:9],
        lambda array: array.view(np.float32).reshape(2, -1)[1, ::3],
        lambda array: memoryview(array)[1:2],
        lambda array: array[::-1].T.view(),
        lambda array: np.broadcast_to(array[:1], (3,)),
    ],
    ids=["slice", "typed", "memoryview", "reversed", "broadcast"],
)
def test_a_block_is_not_reused_while_anything_refers_to_it(view: Any) -> None:
    block = reused_bytes(2 * MIB)
    block.fill(7)
    where, part = address(block), view(block)
    del block
    other = reused_bytes(2 * MIB)
    assert address(other) != where
    other.fill(8)
    assert set(np.asarray(part).tobytes()) == {7}
    del part
    assert address(reused_bytes(2 * MIB)) == where


def test_small_and_very_large_blocks_are_not_held() -> None:
    for nbytes in (0, 1, MIB - 1, 257 * MIB):
        reused_bytes(nbytes)
        assert not reused._free_results


def test_at_most_256_mib_are_held() -> None:
    # Untouched pages cost the host nothing.
    blocks = [reused_bytes((90 + k) * MIB) for k in range(4)]
    while blocks:
        blocks.pop()
        assert sum(size * len(free) for size, free in reused._free_results.items()) <= 256 * MIB
    assert reused._free_results


@pytest.mark.parametrize(("nbytes", "contents"), [(MIB - 1, 0xFF), (MIB, 3)])
def test_only_a_tensor_too_small_for_reused_memory_is_poisoned(nbytes: int, contents: int) -> None:
    for expected in (None, contents):
        device = Device("mlu370-x4")
        tensor = device.alloc(nbytes, "uint8", overwritten=True)
        array = device.download(tensor)
        assert expected is None or (array == expected).all()
        array.fill(3)
        device.close()
        del device, tensor, array


def test_a_tensor_that_is_not_declared_as_overwritten_is_fresh() -> None:
    block = reused_bytes(4 * MIB)
    where = address(block)
    del block
    device = Device("mlu370-x4")
    assert address(device.download(device.alloc(MIB, "int32"))) != where


def test_results_of_equal_calls_do_not_share_memory() -> None:
    x = np.random.default_rng(0).standard_normal((5, 1 << 20), np.float32)
    first = ops.flip(x, 0).output
    second = ops.flip(-x, 0).output
    assert first is not None
    assert second is not None
    assert np.array_equal(first, x[::-1])
    assert np.array_equal(second, -x[::-1])
    where = address(second)
    row = first[1]
    del first, second
    third = ops.flip(x, 0).output
    assert third is not None
    assert address(third) == where
    assert np.array_equal(row, x[-2])
