"""Fills by element type, names that clash with the C library, random numbers, 4-bit integers, histograms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlusim import Device, bangc

KERNELS = Path(__file__).parents[1] / "kernels"


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


def test_fills_of_rows_and_products_of_integers(tmp_path: Path) -> None:
    """Strides are in bytes, and numbers of rows are given minus one."""
    file = tmp_path / "rows.mlu"
    file.write_text(
        "__mlu_entry__ void kernel(float *out, int *high) {\n"
        "  __nram__ float tile[64];\n"
        "  __mlu_shared__ float common[64];\n"
        "  __bang_write_value(tile, 64, 1.0f);\n"
        "  __nramset(tile + 2, 3, 2.0f, 32, 7);\n"
        "  __memcpy(common, tile, sizeof(tile), NRAM2SRAM);\n"
        "  __sramset(common + 5, 1, 3.0f, 64, 3);\n"
        "  __sramset(common, 1, 4.0f, 5, 0);\n"
        "  __memcpy(out, common, sizeof(common), SRAM2GDRAM);\n"
        "  __gdramset(out + 7, 1, 5.0f, 32, 7);\n"
        "  high[0] = __cn_scalar_mulh_s32(-3, 1 << 30);\n"
        "  high[1] = __cn_scalar_mulh_u32(3000000000u, 4000000000u);\n}\n"
    )
    rows = np.ones((8, 8), np.float32)
    rows[:, 2:5], rows[::2, 5], rows[0, 0], rows[:, 7] = 2, 3, 4, 5
    device = Device()
    out, high = device.alloc((8, 8), "float32"), device.alloc(2, "int32")
    device.launch(bangc.compile(file)["kernel"], out, high, dim=1, kind="BLOCK")
    device.synchronize()
    assert np.array_equal(device.download(out), rows)
    assert device.download(high).tolist() == [(-3 * 2**30) >> 32, np.int32(np.uint32((3 * 10**9 * 4 * 10**9) >> 32))]
