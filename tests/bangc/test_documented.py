"""Rules of the public header that few files depend on, and the limit on the number of arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc import Module
from mlusim.errors import AllocationError, KernelError

KERNEL = Path(__file__).parent / "kernels" / "documented.mlu"


@pytest.fixture(scope="module")
def module() -> Module:
    return bangc.compile(KERNEL)


def _truncated(x: np.ndarray, bits: int) -> np.ndarray:
    """Keep the highest `bits` bits of the magnitudes of integers."""
    lengths = np.array([abs(int(value)).bit_length() for value in x])
    step = 1 << np.maximum(lengths - bits, 0)
    return np.sign(x) * (np.abs(x) // step * step)


def test_conversions_without_a_mode_round_to_zero(module: Module) -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(-(1 << 30), 1 << 30, 64).astype(np.int32)
    device = Device()
    floats, halves = device.alloc((4, 64), "float32"), device.alloc((2, 64), "float16")
    device.launch(module["to_zero"], floats, halves, device.upload(x), dim=1, kind="BLOCK")
    device.synchronize()
    plain, added, nearest, scalar = device.download(floats)
    expected = _truncated(x.astype(np.int64), 24)
    assert plain.tolist() == added.tolist() == scalar.tolist() == expected.tolist()
    assert nearest.tolist() == x.astype(np.float32).tolist()
    from_float, from_int = device.download(halves).astype(np.float64)
    assert (from_float * 16384).tolist() == _truncated(x.astype(np.float32).astype(np.int64), 11).tolist()
    whole = np.array([int(value / 16384) for value in x])
    assert from_int.tolist() == _truncated(whole, 11).tolist()


def test_on_2xx_products_and_fills_take_multiples_of_64_bytes() -> None:
    rng = np.random.default_rng(2)
    x, weight = (rng.integers(-9, 10, shape).astype(np.int8) for shape in (64, (64, 64)))
    device = Device("mlu290")
    out = device.alloc(96, "int16")
    kernel = bangc.compile(KERNEL, "mlu290")["halves_of_lines"]
    device.launch(kernel, out, device.upload(x), device.upload(weight), dim=4, kind="UNION1")
    device.synchronize()
    sums = weight.astype(np.int16) @ x.astype(np.int16) + 7
    assert device.download(out).tolist() == [*sums.tolist(), *[9] * 32]


def test_references_to_a_memory_take_no_memory(module: Module) -> None:
    out = mlusim.run(module["referred"], mlusim.Output(64), dim=1, kind="BLOCK").output
    assert out.tolist() == [100, *range(1, 63), 63 + 32]


def test_a_memory_has_room_for_2048_arrays(module: Module) -> None:
    message = (
        r"documented\.mlu:58, .*: the file has more than 2 048 arrays in one memory, and a20\d\d is one more: compile"
    )
    with pytest.raises(KernelError, match=message):
        mlusim.run(module["many_arrays"], dim=1, kind="BLOCK")


def test_so_has_the_sram_of_a_cluster_that_a_copy_writes(module: Module) -> None:
    with pytest.raises(
        AllocationError, match=r"the file has more than 2 048 arrays in one memory, and tile is one more"
    ):
        mlusim.run(module["crowded_sram"], np.zeros(64, np.float32), dim=8, kind="UNION2")
