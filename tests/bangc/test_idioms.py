"""Idioms of kernel authors: records by value, swapped buffers, locks, strides, clocks."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlusim import Device, bangc
from mlusim.bangc import Module
from mlusim.errors import KernelError

KERNELS = Path(__file__).parent / "kernels"
rng = np.random.default_rng(7)


@pytest.fixture(scope="module")
def idioms() -> Module:
    return bangc.compile(KERNELS / "idioms.mlu")


class Scale(ctypes.Structure):
    _fields_ = (("rows", ctypes.c_int), ("columns", ctypes.c_int), ("alpha", ctypes.c_float), ("beta", ctypes.c_float))


def launch(kernel: Any, *arguments: Any, dim: Any = 1, kind: str = "BLOCK", ok: bool = True) -> list[np.ndarray]:
    """Arrays are tensors that the kernel may write; what they hold afterwards. The checker finds nothing."""
    device = Device()
    given = [device.upload(one, writable=True) if isinstance(one, np.ndarray) else one for one in arguments]
    device.launch(kernel, *given, dim=dim, kind=kind)
    device.synchronize()
    assert not ok or device.verify(rewrites=True).ok
    return [device.download(one) for one, was in zip(given, arguments, strict=True) if isinstance(was, np.ndarray)]


RECORD = np.dtype([("rows", "i4"), ("columns", "i4"), ("alpha", "f4"), ("beta", "f4")])


@pytest.mark.parametrize(
    "by", [Scale(5, 700, 2, 3), np.array((5, 700, 2, 3), RECORD)[()], bytes(Scale(5, 700, 2, 3))], ids=type
)
@pytest.mark.grid(2)
def test_a_struct_can_be_passed_by_value(idioms: Module, by: Any) -> None:
    x, y = rng.integers(-9, 9, (2, 5, 700)).astype(np.float32)
    got, _ = launch(idioms["scale"], y, x, by, dim=(4, 2, 1))
    assert got.tolist() == (2 * x + 3 * y).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype", "near"), [("float", np.float32, 1e-6), ("half", np.float16, 1e-3)])
def test_buffers_can_be_swapped(idioms: Module, name: str, dtype: Any, near: float) -> None:
    x = rng.standard_normal(5000).astype(dtype)
    _, got = launch(idioms[f"sigmoid<{name}>"], x, np.zeros_like(x), x.size, dim=4)
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-x.astype(float))), rtol=near, atol=near)


def test_copies_within_nram_need_no_sync(idioms: Module) -> None:
    x = rng.integers(-9, 9, 400).astype(np.float32)
    got, _ = launch(idioms["shuffle"], np.zeros_like(x), x, x.size)
    assert got.tolist() == (2 * (np.concatenate([x[::2], x[1::2]]) + 1)).tolist()


def test_atomic_tickets_are_unique_and_locks_exclude(idioms: Module) -> None:
    counter, mine, total = launch(
        idioms["tickets"], np.zeros(1, np.uint32), np.zeros(8, np.uint32), np.zeros(32, np.float32), dim=8
    )
    assert counter[0] == 8
    assert sorted(mine.tolist()) == list(range(8))
    assert set(total.tolist()) == {8}


def test_a_layer_has_a_result_per_filter_row(idioms: Module) -> None:
    x, filters, bias = rng.integers(-4, 5, 32), rng.integers(-4, 5, (128, 32)), rng.integers(-4, 5, 128)
    got = launch(idioms["layer"], np.zeros(256, np.float32), *(one.astype(np.float32) for one in (x, filters, bias)))[0]
    assert got[:128].tolist() == (filters @ x + bias).tolist()
    assert got[128:].tolist() == (2 * (filters @ x)).tolist()


def test_strides_padding_and_sums_in_place(idioms: Module) -> None:
    x = rng.integers(-9, 9, (4, 32)).astype(np.float32)
    (got, _) = launch(idioms["strided"], np.zeros((6, 64), np.float16), x)
    rows = np.full((6, 64), 7.0)
    rows[1:5] = -1
    rows[1:5, :32] = x
    rows[2] = rows[:3].sum(axis=0)
    assert got.tolist() == rows.tolist()


def test_clock_functions_return_simulated_time(idioms: Module) -> None:
    found = {launch(idioms["clock_of"], np.zeros(4096, np.float32), np.zeros(1, np.int64))[1][0] for _ in range(2)}
    assert len(found) == 1
    assert 1 < found.pop() < 1000


def test_an_assertion_with_a_condition(idioms: Module, capfd: pytest.CaptureFixture[str]) -> None:
    launch(idioms["checks"], 3)
    assert "breakdump: 3" in capfd.readouterr().out
    with pytest.raises(KernelError, match="__assert"):
        launch(idioms["checks"], 0)


def test_counts_and_sizes_accept_floats(idioms: Module) -> None:
    x = np.arange(64, dtype=np.float32)
    _, out = launch(idioms["float_counts"], x, np.zeros(64, np.float32), 64)
    wanted = np.where(x < 32, x, 0) + (x < 16)
    np.testing.assert_array_equal(out, wanted)
