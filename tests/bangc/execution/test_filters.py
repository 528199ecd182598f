"""Filters that a kernel writes row by row to the lanes of WRAM, compared with NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output, bangc, verify
from mlusim.bangc import Module
from mlusim.errors import AccessError, CopyError, OperandError

rng = np.random.default_rng(12)
FILE = Path(__file__).parents[1] / "kernels" / "filters.mlu"


@pytest.fixture(scope="module", params=["mlu370-x4", "mlu590-h8"])
def filters(request: pytest.FixtureRequest) -> Module:
    return bangc.compile(FILE, request.param)


def values(*shape: int) -> Any:
    return rng.integers(-4, 5, shape).astype(np.float32)


def run(module: Module, entry: str, *arguments: Any, out: tuple[int, ...]) -> tuple[Any, Any]:
    device = Device(module.board)
    uploaded = [device.upload(one) if isinstance(one, np.ndarray) else one for one in arguments]
    result = device.alloc(out, np.float32)
    device.launch(module[entry], *uploaded[:2], result, *uploaded[2:], dim=1, kind="BLOCK")
    device.synchronize()
    return device.verify(), device.download(result)


@pytest.mark.parametrize(
    ("m", "n", "k", "first"), [(1, 64, 16, 0), (3, 1, 4, 0), (5, 40, 20, 64), (2, 128, 36, 0), (4, 200, 8, 640)]
)
def test_rows_from_lane_to_lane(filters: Module, m: int, n: int, k: int, first: int) -> None:
    x, w = values(m, k), values(n, k)
    report, out = run(filters, "rows", x, w, m, n, k, first, out=(m, n))
    np.testing.assert_array_equal(out, x @ w.T)
    # Lanes and padding that are not written reach no result.
    assert report.ok, report.text()


def test_the_form_of_a_filter_is_that_of_its_last_copy(filters: Module) -> None:
    x, w = values(2, 20), values(128, 20)
    report, out = run(filters, "in_turn", x, w, 2, 128, 20, out=(4, 2, 128))
    np.testing.assert_array_equal(out, np.broadcast_to(x @ w.T, out.shape))
    assert report.ok, report.text()


def test_windows_need_pixels_of_whole_rows(filters: Module) -> None:
    x, w = values(5, 5, 16), values(70, 3, 3, 16)
    _, out = run(filters, "windows", x, w, 70, 16, out=(3, 3, 70))
    shifted = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(0, 1))
    np.testing.assert_array_equal(out, np.einsum("ijcab,nabc->ijn", shifted, w))
    with pytest.raises(OperandError, match=r"with 32 B a pixel: where the next pixel of a filter begins is not known"):
        run(filters, "windows", values(5, 5, 8), values(64, 3, 3, 8), 64, 8, out=(3, 3, 64))


def test_forms_that_overlap_in_one_view_of_the_addresses_only(filters: Module) -> None:
    x, w = values(16), values(64 * 256)
    _, out = run(filters, "in_doubt", x, w, 0, out=(64,))
    np.testing.assert_array_equal(out, w[: 64 * 16].reshape(64, 16) @ x)
    with pytest.raises(OperandError, match=r"filters at byte 0 of weights: a later copy overlaps them either"):
        run(filters, "in_doubt", x, w, 1, out=(64,))


@pytest.mark.parametrize("behind", [512, 4096, 8192])
def test_pieces_may_overlap_by_their_addresses(filters: Module, behind: int) -> None:
    """As in kernels that place two matrices a fraction of WRAM apart: a piece takes 1/64 of its size of each lane."""
    m, k, turns = 3, 16, 3
    x, w = values(m, k), values(turns, 2, 128, k)
    report, out = run(filters, "pieces", x, w, m, k, behind, turns, out=(turns * 2 * m * 128 + 128 * k,))
    products, last = out[: turns * 2 * m * 128], out[turns * 2 * m * 128 :]
    np.testing.assert_array_equal(products.reshape(turns, 2, m, 128), np.einsum("mk,tpnk->tpmn", x, w))
    np.testing.assert_array_equal(last.reshape(64, 2, k), w[-1, 1].reshape(2, 64, k).transpose(1, 0, 2))
    assert report.ok, report.text()


def test_filters_beyond_a_piece_that_overlaps_another(filters: Module) -> None:
    rule = r"12 288 B at byte 4 096 of weights: they reach beyond the 8 192 B that were copied to byte 4 096, and other"
    with pytest.raises(OperandError, match=rule):
        run(filters, "more_than_a_piece", values(16), values(2048), out=(1,))


def test_other_layouts_are_refused(filters: Module) -> None:
    with pytest.raises(CopyError, match=r"1/16 of WRAM: the layout of filters in 16 lanes is not public"):
        run(filters, "wide", values(16), values(64), out=(1,))
    with pytest.raises(
        AccessError, match=r"filters \[64, 1, 1, 16\] in 64 lanes of WRAM from byte [\d ]+ of weights, which"
    ):
        run(filters, "beyond", values(16), values(4, 16), out=(1,))


def test_a_python_kernel_writes_rows_by_strided_views() -> None:
    async def kernel(core: Any, x: Any, w: Any, out: Any) -> None:
        lane = core.board.wram_bytes // 64 // 4
        weights = core.wram.alloc((64, 1, lane), np.float32)
        source, result = core.nram.alloc((2, 20), np.float32), core.nram.alloc((2, 64), np.float32)
        await core.memcpy(source, x)
        await core.memcpy(weights[:, 0, :20], w)
        core.matmul(result, source, weights[:, :, :20])
        await core.memcpy(out, result)

    x, w = values(2, 20), values(64, 20)
    report = verify(kernel, x, w, Output((2, 64)), reference=x @ w.T, dim=1, kind="BLOCK")
    assert report.ok, report.text()


def test_other_strides_of_filters_are_refused() -> None:
    async def kernel(core: Any, out: Any) -> None:
        weights, source = core.wram.alloc((64, 1, 40), np.float32), core.nram.alloc((1, 16), np.float32)
        core.matmul(core.nram.alloc((1, 64), np.float32), source, weights[:, :, :16])

    rule = r"filters in WRAM are contiguous, or rows \(64, n / 64, k\) with 16384 B from lane to lane"
    with pytest.raises(OperandError, match=rule):
        mlusim.run(kernel, Output((1,)), dim=1, kind="BLOCK")


PRODUCTS = """
#include <bang_device_functions_extra.h>
__nram__ TYPE a[64];
__nram__ float out[64];
__nram__ float bias[64];
__wram__ KIND w[4096];
__mlu_entry__ void product(const TYPE *x, const KIND *filters, float *y) {
  if (__is_mpu()) return;
  __memcpy(a, x, sizeof(a), GDRAM2NRAM);
  __memcpy(w, filters, sizeof(w), GDRAM2WRAM);
  __bang_write_zero(bias, 64);
  __sync();
#ifdef MLP
  __bang_mlp(out, a, bias, w, 64, 64, 0);
#else
  __bang_conv(out, a, w, 64, 1, 1, 1, 1, 1, 1, 64, 0);
#endif
  __memcpy(y, out, sizeof(out), NRAM2GDRAM);
}
"""


def _product(folder: Path, *define: str) -> Any:
    file = folder / "product.mlu"
    file.write_text(PRODUCTS)
    return bangc.compile(file, define=list(define))["product"]


@pytest.mark.parametrize("more", [(), ("MLP",)])
@pytest.mark.slow
def test_int32_by_int16_costs_two_products_and_scalar_loops(more: tuple[str, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-(2**30), 2**30, 64, np.int32)
    filters = rng.integers(-300, 300, (64, 64)).astype(np.int16)
    reference = (filters.astype(np.int64) @ x.astype(np.int64)).astype(np.float32)
    entry = _product(tmp_path, "TYPE=int", "KIND=int16", *more)
    y = mlusim.Output((64,))
    report = mlusim.verify(entry, x, filters, y, dim=1, kind="BLOCK", reference=reference)
    report.check()
    short = _product(tmp_path, "TYPE=int16", "KIND=int16", *more)
    narrow = mlusim.run(short, x.astype(np.int16), filters, y, dim=1, kind="BLOCK")
    assert mlusim.run(entry, x, filters, y, dim=1, kind="BLOCK").time_us > narrow.time_us + 1


def test_int4_is_named_and_the_conversion_is_the_remedy(tmp_path: Path) -> None:
    entry = _product(tmp_path, "TYPE=int4x2_t", "KIND=int16")
    x, filters = np.zeros(64, np.uint8), np.zeros((64, 64), np.int16)
    with pytest.raises(OperandError, match=r"__bang_conv: src is int4x2_t: .*; convert it .* __bang_int42int8_rn"):
        mlusim.run(entry, x, filters, mlusim.Output((64,)), dim=1, kind="BLOCK")


@pytest.mark.parametrize(
    ("source", "kind", "rule"),
    [
        ("half", "int8", "integers are multiplied by integers, and floats by floats; convert one of them first"),
        ("int", "int8", "int32 is multiplied by int16 filters, to a float32 result, only; convert the others first"),
    ],
)
@pytest.mark.grid(2)
def test_products_that_do_not_exist(source: str, kind: str, rule: str, tmp_path: Path) -> None:
    entry = _product(tmp_path, f"TYPE={source}", f"KIND={kind}")
    x = np.zeros(64, {"half": np.float16, "int": np.int32}[source])
    with pytest.raises(OperandError, match=rf"conv of \w+ a, int8 w to float32 out: {rule}"):
        mlusim.run(entry, x, np.zeros((64, 64), np.int8), mlusim.Output((64,)), dim=1, kind="BLOCK")
