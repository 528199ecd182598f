"""Which elements of a result depend on which unwritten elements of its sources."""

from __future__ import annotations

import numpy as np
import pytest

from findings import uninitialised
from mlusim import Output, verify
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.verifier.uninitialised.marks import elementwise

X = np.arange(1, 61, dtype=np.float32)


ONE = {"kind": "BLOCK", "dim": 1}


@pytest.mark.parametrize("transposed", [False, True])
def test_a_transpose_moves_marks(transposed):
    async def kernel(core, x, out):
        a = core.nram.alloc((8, 8), x.dtype, "a")
        b = core.nram.alloc((8, 8), x.dtype, "b")
        await core.memcpy(a[0:7], x[0:56].reshape(7, 8))
        core.transpose(b, a)
        await core.memcpy(out, b[:, 0:7] if not transposed else b[0:7, :].reshape(8, 7))

    report = verify(kernel, X, Output((8, 7)), **ONE)
    assert len(uninitialised(report)) == transposed


@pytest.mark.parametrize("columns", [6, 8])
def test_sums_of_rows_keep_marks_in_their_column(columns):
    async def kernel(core, x, out):
        a, b = (core.nram.alloc((6, 8), x.dtype, name) for name in ("a", "b"))
        await core.memcpy(a[:, 0:6], x[0:36].reshape(6, 6))
        core.cycle_add(b.reshape(-1), a.reshape(-1), a[0])
        core.sum_rows(a[0], b)
        await core.memcpy(out, a[0, 0:columns])

    assert len(uninitialised(verify(kernel, X, Output((columns,)), **ONE))) == (columns == 8)


def test_a_reduction_spreads_marks():
    async def kernel(core, x, out):
        a = core.nram.alloc((8, 8), x.dtype, "a")
        b = core.nram.alloc(8, x.dtype, "b")
        await core.memcpy(a[0:7], x[0:56].reshape(7, 8))
        core.sum(b[0:1], a.reshape(-1)[0:64])
        core.write_zero(b[1:8])
        await core.memcpy(out, b)

    assert len(uninitialised(verify(kernel, X, Output((8,)), **ONE))) == 1


def test_which_instructions_work_element_by_element():
    """Against the instructions themselves: another element i of a source changes element i of the result at most."""
    rng = np.random.default_rng(0)
    for name, instruction in INSTRUCTIONS.items():
        if not elementwise(name) or name in ("convert", "incseq") or instruction.attributes:
            continue
        views = instruction.operands[1:]
        if not views:
            continue
        integers = not any(dtype.kind == "f" for dtype in instruction.types)
        dtype = np.int32 if integers else np.float32
        # A second source may be of integers only, such as exponents.
        kinds = [{kind.kind for kind in view.types or instruction.types} for view in views]
        sources = [(rng.integers(1, 9, 64)).astype(dtype if "f" in kind else np.int32) for kind in kinds]
        before, after = np.zeros(64, dtype), np.zeros(64, dtype)
        with np.errstate(all="ignore"):
            instruction.compute(before, *[source.copy() for source in sources])
            for source in sources:
                source[17] += 3
            instruction.compute(after, *sources)
        changed = np.flatnonzero(before.view(np.uint32) != after.view(np.uint32))
        assert set(changed.tolist()) <= {17}, name


@pytest.mark.parametrize("last", [59, 60])
def test_a_filter_moves_marks_with_its_elements(last):
    """Of 64 elements, 60 are written; the filter selects every third one up to `last`."""

    async def kernel(core, x, out, where):
        a, b = (core.nram.alloc(64, x.dtype, name) for name in "ab")
        mask = core.nram.alloc(64, x.dtype, "mask")
        await core.memcpy(a[0:60], x)
        await core.memcpy(mask, where)
        count = await core.filter(b, a, mask)
        core.add(b[0:count], b[0:count], 1.0)
        await core.memcpy(out[0:count], b[0:count])

    where = np.zeros(64, np.float32)
    where[[*range(0, 57, 3), last]] = 1
    report = verify(kernel, X, Output((20,)), where, **ONE)
    assert bool(uninitialised(report)) == (last == 60), report.text()


@pytest.mark.parametrize(("written", "channels"), [(40, 40), (39, 40), (64, 64)])
def test_a_filter_of_a_convolution_reaches_its_own_channel(written, channels):
    async def kernel(core, x, w, out):
        source, result = core.nram.alloc((1, 1, 16), x.dtype), core.nram.alloc((1, 1, channels), x.dtype)
        weights = core.wram.alloc((64, 1, 1, 16), x.dtype, "weights")
        await core.memcpy(source, x.reshape(1, 1, 16))
        await core.memcpy(weights[0:written], w.reshape(64, 1, 1, 16)[0:written])
        core.conv(result, source, weights, 16, 1, 1)
        await core.memcpy(out.reshape(1, 1, channels), result)

    x, w = np.ones(16, np.float32), np.ones((64, 16), np.float32)
    report = verify(kernel, x, w, Output((channels,)), **ONE)
    assert bool(uninitialised(report)) == (written < channels), report.text()


async def of_rows(core, name, result, rows):
    """Rows of a result of 6, computed from 6 rows of a source, of which the last two are not written."""
    await core.sync()
    source = core.nram.alloc(rows, "float32", "source")
    core.write_value(source[0:4], 1)
    if name in {"matmul", "conv"}:
        weights = core.wram.alloc((64, 1, 1, 4), "float32")
        ones = core.nram.alloc((64, 1, 1, 4), "float32")
        core.write_value(ones, 1)
        await core.memcpy(weights, ones)
        if name == "matmul":
            core.matmul(result.reshape(6, 64), source.reshape(6, 4), weights.reshape(64, 4))
        else:
            core.conv(result, source, weights, 4, 1, 1)
    elif name == "pad":
        core.pad(result, source, 0, 0, 0, 0)
    elif name == "rotate180":
        upside_down = core.nram.alloc((6, 64), "float32")
        core.rotate180(upside_down, source.reshape(6, 64))
        core.rotate180(result.reshape(6, 64), upside_down)
    elif name == "avgpool_bp":
        core.avgpool_bp(result, source, 1, 1)
    else:
        getattr(core, name)(result, source, 1, 1)


@pytest.mark.parametrize("stored", [4, 5])
@pytest.mark.parametrize("name", ["matmul", "conv", "pad", "rotate180", "avgpool_bp", "sumpool", "maxpool", "avgpool"])
def test_rows_of_a_padded_tile_depend_on_their_own_rows(name, stored):
    async def kernel(core, out):
        result = core.nram.alloc((6, 1, 64), "float32", "result")
        await of_rows(core, name, result, (6, 1, 4 if name in {"matmul", "conv"} else 64))
        await core.memcpy(out, result[0:stored])

    report = verify(kernel, Output((stored, 1, 64)), **ONE)
    assert bool(uninitialised(report)) == (stored == 5), report.text()


@pytest.mark.parametrize("behind", [0, 1])
@pytest.mark.parametrize("name", ["reduce_sum", "integral", "maxpool_value_index", "expand_channel_mul", "taylor3_sin"])
def test_parts_of_a_result_depend_on_their_own_part(name, behind):
    """Of 64 elements, the first 32 are written, and of the result the part of these, or an element behind it."""

    async def kernel(core, out):
        source, result = core.nram.alloc(64, "float32", "source"), core.nram.alloc(128, "float32", "result")
        scratch, weights = core.nram.alloc((2, 64), "float32"), core.wram.alloc(1024, "float32")
        ones = core.nram.alloc(1024, "float32")
        core.write_value(ones, 1)
        core.write_value(source[0:32], 1)
        await core.memcpy(weights, ones)
        first, last = 0, 31 + behind
        match name:
            case "reduce_sum":
                core.reduce_sum(result[0:64], source)
                last = 32 * behind
            case "integral":
                core.integral(result[0:64], source, weights)
            case "maxpool_value_index":
                core.maxpool_value_index(result, source.reshape(8, 1, 8), 1, 1, 256)
                first = 64
                last += 64
            case "expand_channel_mul":
                core.expand_channel_mul(result[0:64].reshape(8, 8), ones[0:8], weights, source.reshape(8, 8))
            case _:
                core.taylor3_sin(result[0:64], source, scratch[0], scratch[1])
        await core.memcpy(out[0:1], result[first : first + 1])
        await core.memcpy(out[1:2], result[last : last + 1])

    report = verify(kernel, Output((2,)), device="mlu590-h8", **ONE)
    assert bool(uninitialised(report)) == behind, report.text()


PARTIAL = {
    "sum": lambda core, dst, src, mask: core.sum(dst, src),
    "count": lambda core, dst, src, mask: core.count(dst.view("uint32"), src),
    "argmax": lambda core, dst, src, mask: core.argmax(dst, src),
    "reduce_sum": lambda core, dst, src, mask: core.reduce_sum(dst, src),
    "gt_bitindex": lambda core, dst, src, mask: core.gt_bitindex(dst, src, mask),
    "maskmove": lambda core, dst, src, mask: core.maskmove(dst, src, mask),
    "filter": lambda core, dst, src, mask: core.filter(dst, src, mask),
    "select": lambda core, dst, src, mask: core.select(dst, src[0], mask[0]),
}


@pytest.mark.parametrize("filled", [False, True])
@pytest.mark.parametrize("name", PARTIAL)
def test_bytes_that_an_instruction_does_not_write_stay_uninitialised(name, filled):
    """The destination has two axes and more room than the result; NumPy says which of its bytes are written."""
    source = np.arange(128, dtype=np.float32).reshape(2, 64)
    where = np.float32(source % 3 == 0)

    async def kernel(core, x, m, out):
        dst, src, mask = (core.nram.alloc((2, 64), x.dtype, name) for name in ("dst", "src", "mask"))
        await core.memcpy(src, x)
        await core.memcpy(mask, m)
        if filled:
            core.write_zero(dst)
        counted = PARTIAL[name](core, dst, src, mask)
        if name == "filter":
            await counted
        await core.memcpy(out, dst)

    result = np.full(512, 0xA5, np.uint8)
    other = np.full(512, 0x5A, np.uint8)
    for target in (result, other):
        views = [target.view(np.uint32 if name == "count" else np.float32).reshape(2, 64), source, where]
        if name == "select":
            views[1:] = source[0], where[0]
        INSTRUCTIONS[name].compute(*views[: len(INSTRUCTIONS[name].operands)])
    findings = uninitialised(verify(kernel, source, where, Output((2, 64)), **ONE))
    assert [finding.nbytes for finding in findings] == ([] if filled else [int((result != other).sum())])


@pytest.mark.parametrize("gap", [0, 3])
def test_a_gap_between_values_and_indices_of_a_pool_stays_uninitialised(gap):
    """16 values and 16 indices of windows of 2 x 2 in a 4 x 8 picture of 2 channels."""

    async def kernel(core, x, out):
        source, pair = core.nram.alloc(x.shape, x.dtype), core.nram.alloc(out.shape, x.dtype, "pair")
        await core.memcpy(source, x)
        core.maxpool_value_index(pair, source, 2, 2, 4 * (16 + gap), stride_height=2, stride_width=2)
        await core.memcpy(out, pair)

    findings = uninitialised(verify(kernel, np.ones((4, 8, 2), np.float32), Output((32 + gap,)), **ONE))
    assert [finding.nbytes for finding in findings] == ([4 * gap] if gap else [])


@pytest.mark.parametrize("written", [63, 64])
def test_values_of_a_pool_depend_on_whole_windows(written):
    """Source and result have 64 numbers each, but those of one position have nothing in common."""

    async def kernel(core, x, out):
        source, pair = core.nram.alloc((4, 8, 2), x.dtype), core.nram.alloc(64, x.dtype)
        await core.memcpy(source.reshape(64)[0:written], x[0:written])
        core.maxpool_value_index(pair, source, 1, 2, 4 * 32, stride_height=1, stride_width=2)
        await core.memcpy(out, pair[0:32])

    report = verify(kernel, np.ones(64, np.float32), Output((32,)), **ONE)
    assert len(uninitialised(report)) == (written < 64), report.text()
