"""Fills by element type, names that clash with the C library, random numbers, 4-bit integers, histograms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlusim import Device, bangc

KERNELS = Path(__file__).parent / "kernels"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(KERNELS / "fills.mlu")


def test_the_name_or_the_value_decides_the_element_type(module: bangc.Module) -> None:
    device = Device()
    results = [device.alloc(64, dtype) for dtype in ("float16", "int16", "float32", "float32")]
    device.launch(module["fills"], *results, dim=1, kind="BLOCK")
    device.synchronize()
    halves, shorts, floats, clash = (device.download(one) for one in results)
    assert set(halves.tolist()) == {2}
    assert set(shorts.tolist()) == {3}
    assert set(floats.tolist()) == {0.5}
    assert clash.tolist() == [1.5 + k for k in range(64)]


def test_clashing_names_resolve_to_the_users_file(module: bangc.Module) -> None:
    assert module.entries == ["fills", "remove"]
    assert module.points()["remove"].parameters[0].name == "numbers"


def test_random_numbers_int4_and_histogram(module: bangc.Module) -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(-20, 20, 512).astype(np.int8)
    runs = []
    for _ in range(2):
        device = Device()
        numbers, counts, bins = (device.alloc(n, dtype) for n, dtype in ((1024, "int16"), (1, "int32"), (64, "int32")))
        kept = device.upload(values, writable=True)
        device.launch(module["remove"], numbers, counts, bins, kept, dim=1, kind="BLOCK")
        device.synchronize()
        runs.append([device.download(one) for one in (numbers, bins, kept)])
        device.verify().check()
    drawn, bins, kept = runs[0]
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))
    assert len(set(drawn.tolist())) > 1000
    assert np.array_equal(kept, np.clip(values, -8, 7))
    assert bins.tolist() == [int((kept == k).sum()) for k in range(-32, 32)]
