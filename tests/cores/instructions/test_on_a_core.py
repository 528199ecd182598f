"""The instructions on a simulated core: binding of arguments, limits, cost, registers, conversions by name."""

from __future__ import annotations

import pydoc
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.cores.compute.uncached_vector import bang_move
from mlusim.cores.core import Core
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.errors import OperandError, UnknownNameError
from mlusim.hardware import board as board_of
from mlusim.host.device import Device
from mlusim.memory.view import View

X4 = board_of("mlu370-x4")
HERE = r"^task 0 \(cluster 0, core 0\), test_on_a_core\.py:\d+, at .* ns: "


def test_every_instruction_is_a_method_of_the_core() -> None:
    for name, entry in INSTRUCTIONS.items():
        method = getattr(Core, name)
        assert entry.summary in method.__doc__
        assert entry.signature in method.__doc__


def test_operands_by_name_and_defaults(run: Any) -> None:
    device = Device("mlu370-x4")
    out = device.alloc((3, 4, 32), "float32")

    async def kernel(core: Core, out: View) -> None:
        source = core.nram.alloc((6, 8, 32), "float32")
        pooled = core.nram.alloc((3, 4, 32), "float32")
        core.fill(source, 1.5)
        core.sumpool(pooled, source, 2, 2)
        core.sumpool(src=source, dst=pooled, kernel_width=2, kernel_height=2, stride_height=2, stride_width=2)
        await core.memcpy(out, pooled)

    log = run(kernel, out, device=device).log
    np.testing.assert_array_equal(device.download(out), 6)
    columns = log.columns()
    pools = [place for place, op in enumerate(columns["op"]) if log.ops[op] == "sumpool"]
    cycles = X4.vector_startup_cycles + 4 * 3 * 4 * 32 * 4 // 128
    for place in pools:
        assert columns["end_ps"][place] - columns["start_ps"][place] == X4.cycles_ps(cycles)
        assert columns["count"][place] == 4


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda core, t: core.add(t, t),
            r"add\(dst, src0, src1\): missing src1; to compute in place, .*: core\.add\(dst, dst, src1\)$",
        ),
        (
            lambda core, t: core.sqrt(t),
            r"sqrt\(dst, src\): missing src; to compute in place, pass the view twice: core\.sqrt\(dst, dst\)$",
        ),
        (lambda core, t: core.floor(t), r"floor\(dst, src\): missing src$"),  # not in place
        (lambda core, t: core.add(t), r"add\(dst, src0, src1\): missing src0, src1$"),
        (
            lambda core, t: core.max(t),
            r"max\(dst, src\): missing src; its result is stored in dst, in NRAM: pass both, then read it with `await",
        ),
        (
            lambda core, t: core.reduce_sum(t),
            r"reduce_sum\(dst, src\): missing src; it sums each 128 B of src by itself; `await core\.sum\(src\)`",
        ),
        (
            lambda core, t: core.reduce_sum(t[:1], t),
            r"reduce_sum of .*: operands must have the same number of elements, as the sum of each 128 B .* use sum$",
        ),
        (lambda core, t: core.sum(3), r"sum\(dst, src\): src is a view, not 3$"),
        (lambda core, t: core.add(t, t, t, t), r"add\(dst, src0, src1\) takes 3 arguments, not 4$"),
        (lambda core, t: core.add(t, t, source=t), r"add\(dst, src0, src1\) has no argument 'source'"),
        (lambda core, t: core.add(t, 1, t), r"add\(dst, src0, src1\): src0 is a view, not 1$"),
        (
            lambda core, t: core.add(t, t, np.ones(3)),
            r"add\(dst, src0, src1\): src1 is an array of the host; upload it",
        ),
        (
            lambda core, t: [core.add(t, t, np.array(3)), core.add(t, t, np.ones(t.shape))],
            r"add.*src1 is an array of the host",
        ),
        (lambda core, t: core.float2half(None, 0), r"float2half of None: it takes a view of memory, such as x\[0\]"),
        (lambda core, t: core.float2haf_rn(t, t), r"core\.float2haf_rn is not .*: did you mean float2half_rn\?"),
        (lambda core, t: core.__bang_half2int8_tz(t, t), r"core\.__bang_half2int8_tz .*: did you mean half2int8_tz\?"),
        (lambda core, t: core.add(t, t, "x"), r"add\(dst, src0, src1\): src1 is a view or a number, not 'x'$"),
        (
            lambda core, t: core.sub(t, t, core.nram.alloc(16, t.dtype)),
            r"sub of .*: operands must have the same number of elements; core\.cycle_sub\(dst, src, seg\) repeats seg",
        ),
        (
            lambda core, t: core.sub(t, t, t[:48]),
            r"sub of .*: operands must have the same number of elements$",
        ),
        (
            lambda core, t: core.cycle_add(t, t, t[:48]),
            r"cycle_add of .*: the number of elements of src must be a multiple of that of",
        ),
        (
            lambda core, t: core.add(t[:32], t[16:48], 1),
            r"add of .*: they overlap; the result would depend on the order",
        ),
        (lambda core, t: core.fusion(t, t, t, t, "FXX"), r"fusion of .*: the operation must be one of FMA, FMS, "),
        (
            lambda core, t: core.argmax(t[:2], t[32:]),
            r"argmax of .*: dst needs 12 B, for the value and its index in 64 bits$",
        ),
        (
            lambda core, t: core.maskmove(t[:8], t[16:32], t[32:48]),
            r"maskmove of .*: dst needs as many elements as src$",
        ),
        (
            lambda core, t: core.select(t[:8], t[16:32], t[32:48]),
            r"select of .*: dst needs 128 B for the count, and",
        ),
        (lambda core, t: core.lut(t, t.view("uint32"), t[:3]), r"lut of .*: the table has a multiple of 64 elements$"),
        (
            lambda core, t: core.matmul(t[:64], t[:8], t),
            r"matmul of .*: weight must be in this core's WRAM; memcpy it there",
        ),
        (
            lambda core, t: core.matmul(t[:64], core.wram.alloc(64, t.dtype), t),
            r"matmul of .*wram.*: src must be in this core's NRAM; are operands swapped\? the order is matmul\(dst, s",
        ),
        (
            lambda core, t: core.matmul(core.wram.alloc(64, t.dtype), t, core.wram.alloc(64, t.dtype)),
            r"matmul of .*wram.*: dst must be in this core's NRAM; write to a buffer there, then",
        ),
        (
            lambda core, t: core.ad(t, t, t),
            r"core\.ad is not an instruction of this core: did you mean \w+\? docs/instructions",
        ),
        (lambda core, t: core.half2float(t, t), r"half2float of .*: it takes float16 to float32; name the other conv"),
        (
            lambda core, t: core.sumpool(t[:1].reshape(1, 1, 1), t.reshape(8, 8, 1), 9, 1),
            r"sumpool of .*: the window of 9 x 1 is larger than the input of 8 x 8: use a smaller kernel, or",
        ),
        (
            lambda core, t: core.histogram(t[:64], t.view("int16"), core.wram.alloc(4096, "int8")),
            r"histogram of .*: the elements of kernel must be as wide as those of src$",
        ),
    ],
)
def test_invalid_calls_are_refused(run: Any, body: Any, message: str) -> None:
    async def kernel(core: Core) -> None:
        body(core, core.nram.alloc(64, "float32"))

    with pytest.raises((OperandError, UnknownNameError), match=HERE + message):
        run(kernel)


def test_access_to_the_methods_of_a_core_has_no_hook() -> None:
    # `__getattr__` would make each access to an attribute that exists several times slower.
    assert not hasattr(Core, "__getattr__")


def test_scalar_results_are_returned_in_registers(run: Any) -> None:
    found: dict[str, Any] = {}
    device = Device("mlu370-x4")
    x = device.upload(np.array([0, 3, 0, -1, 2, 0, 0, 5], np.float32))

    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(8, "float32")
        kept = core.nram.alloc(8, "float32")
        await core.memcpy(tile, x)
        found["sum"] = await core.sum(tile)
        found["count"] = await core.count(tile)
        found["first"] = await core.findfirst1(tile)
        found["last"] = await core.findlast1(tile)
        found["kept"] = await core.filter(kept, tile, tile)
        found["values"] = (await core.load_array(kept[: found["kept"]])).tolist()

    run(kernel, x, device=device)
    assert found == {"sum": 9, "count": 4, "first": 1, "last": 7, "kept": 4, "values": [3, -1, 2, 5]}


def test_a_filter_that_selects_more_than_fits_is_an_error(run: Any) -> None:
    async def kernel(core: Core) -> None:
        tile, kept = core.nram.alloc(8, "float32"), core.nram.alloc(4, "float32")
        core.fill(tile, 1.0)
        await core.filter(kept, tile, tile)

    with pytest.raises(OperandError, match=HERE + "a filter selects 8 of 8 elements, and dst has room for 4: make dst"):
        run(kernel)


def test_conversions_by_bang_c_names(run: Any) -> None:
    device = Device("mlu370-x4")
    x, out = device.upload(np.array([1.5, -2.5], np.float32)), device.alloc(2, "int32")

    async def kernel(core: Core, x: View, out: View) -> None:
        tile, rounded = core.nram.alloc(2, "float32"), core.nram.alloc(2, "int32")
        await core.memcpy(tile, x)
        core.float2int32_up(rounded, tile)
        await core.memcpy(out, rounded)

    run(kernel, x, out, device=device)
    assert device.download(out).tolist() == [2, -2]
    assert not hasattr(Core, "float2int4_up")


def test_filters_are_filled_up_to_whole_lanes(run: Any) -> None:
    async def kernel(core: Core) -> None:
        filters = core.nram.alloc((50, 32), "float32")
        core.reshape_filter(core.nram.alloc((64, 32), "float32"), filters)

    with pytest.raises(OperandError, match=r"with n a multiple of 64: pad it with zero filters$"):
        run(kernel)


def test_a_matrix_product_through_wram(run: Any) -> None:
    m, k, n = 16, 32, 64
    rng = np.random.default_rng(1)
    a, b = rng.integers(-4, 4, (m, k)).astype(np.float32), rng.integers(-4, 4, (k, n)).astype(np.float32)
    device = Device("mlu370-x4")
    x, y, out = device.upload(a), device.upload(b), device.alloc((m, n), "float32")

    async def kernel(core: Core, x: View, y: View, out: View) -> None:
        rows, columns = core.nram.alloc((m, k), "float32"), core.nram.alloc((k, n), "float32")
        filters, laid = core.nram.alloc((n, k), "float32"), core.nram.alloc((n, k), "float32")
        weights, result = core.wram.alloc((n, k), "float32"), core.nram.alloc((m, n), "float32")
        await core.memcpy(rows, x)
        await core.memcpy(columns, y)
        core.transpose(filters, columns)
        core.reshape_filter(laid, filters)
        await core.memcpy(weights, laid)
        core.matmul(result, rows, weights)
        await core.memcpy(out, result)

    run(kernel, x, y, out, device=device)
    device.verify().check()
    np.testing.assert_array_equal(device.download(out), a @ b)


def test_a_vector_unit_move_is_in_order_with_vector_instructions(run: Any) -> None:
    device = Device("mlu370-x4")
    out = device.alloc((2, 8), "int32")

    async def kernel(core: Core, out: View) -> None:
        wide, tile = core.nram.alloc((2, 32), "int32"), core.nram.alloc((2, 8), "int32")
        core.incseq(wide)
        bang_move(core.issuer, core.issuer.log.source_line("test", 1, "kernel"), tile, wide[:, 4:12])
        core.add(tile, tile, 1)
        await core.memcpy(out, tile)

    run(kernel, out, device=device)
    assert device.download(out).tolist() == [list(range(5, 13)), list(range(37, 45))]
    device.verify().check()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("log2", "log"), ("recip", "divide"), ("sqrt", "root"), ("sin", "trig"), ("active_tanh", "activation")],
)
def test_functions_cost_cycles_of_their_class_for_each_128_bytes(run: Any, name: str, kind: str) -> None:
    board = X4.replace(**{f"vector_{kind}_cycles": 17})

    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(1000, "float32")
        core.fill(tile, 1)
        getattr(core, name)(tile, tile)

    columns = run(kernel, device=board).log.columns()
    assert columns["end_ps"][1] - columns["start_ps"][1] == board.cycles_ps(board.vector_startup_cycles + 17 * 32)


@pytest.mark.parametrize(
    ("device", "kind", "rate"),
    [
        ("mlu370-x4", "float32", 768),
        ("mlu370-x4", "float16", 3072),
        ("mlu370-x4", "bfloat16", 3072),
        ("mlu370-x4", "int16", 4096),
        ("mlu370-x4", "int8", 8192),
        ("mlu590", "int16", 2048),
        ("mlu590", "float16", 4096),
        ("mlu270", "int16", 4096),
        ("mlu220-m2", "int8", 4096),
    ],
)
def test_a_matrix_product_costs_its_multiply_adds(run: Any, device: str, kind: str, rate: int) -> None:
    m, k, n = 24, 128, 192

    async def kernel(core: Core) -> None:
        rows, weights = core.nram.alloc((m, k), kind), core.wram.alloc((n, k), kind)
        core.fill(rows, 1)
        await core.memcpy(weights.reshape(-1)[: m * k], rows.reshape(-1))
        core.matmul(core.nram.alloc((m, n), "float32"), rows, weights)

    columns = run(kernel, device=device).log.columns()
    board = board_of(device)
    cycles = board.tensor_startup_cycles - (-2 * m * k * n // int(rate * board.tensor_efficiency))
    assert columns["end_ps"][2] - columns["start_ps"][2] == board.cycles_ps(cycles)


@pytest.mark.parametrize(
    ("left", "right", "rate"),
    [("float32", "float16", 1536), ("float16", "float32", 1536), ("int16", "int8", 4096), ("int8", "int16", 4096)],
)
def test_a_product_of_two_widths_runs_at_the_rate_of_the_test_framework(
    run: Any, left: str, right: str, rate: int
) -> None:
    async def kernel(core: Core) -> None:
        rows, weights = core.nram.alloc((64, 64), left), core.wram.alloc((64, 64), right)
        core.fill(rows, 1)
        filters = core.nram.alloc((64, 64), right)
        core.fill(filters, 1)
        await core.memcpy(weights, filters)
        core.matmul(core.nram.alloc((64, 64), "float32"), rows, weights)

    columns = run(kernel, device=X4).log.columns()
    cycles = X4.tensor_startup_cycles - (-2 * 64**3 // int(rate * X4.tensor_efficiency))
    assert columns["end_ps"][3] - columns["start_ps"][3] == X4.cycles_ps(cycles)


def test_a_pool_to_one_pixel_may_write_into_its_source() -> None:
    async def kernel(core: Core, x: View, out: View, row: int) -> None:
        rows = core.nram.alloc((5, 8), x.dtype)
        await core.memcpy(rows[:4], x)
        core.sumpool(rows[row : row + 1].reshape(1, 1, 8), rows[:4].reshape(4, 1, 8), 4, 1)
        await core.memcpy(out, rows[row])

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    for row in range(5):
        device = Device()
        out = device.alloc(8, "float32")
        device.launch(kernel, device.upload(x), out, row, dim=1, kind="BLOCK")
        device.synchronize()
        assert device.download(out).tolist() == x.sum(axis=0).tolist()


def test_a_pool_to_bytes_between_pixels_is_refused() -> None:
    async def kernel(core: Core) -> None:
        flat = core.nram.alloc(40, np.float32)
        core.sumpool(flat[4:12].reshape(1, 1, 8), flat[:32].reshape(4, 1, 8), 4, 1)

    device = Device()
    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match=r"sumpool of .* they overlap.* of one pixel, at any pixel of it"):
        device.synchronize()


def test_the_scratch_of_a_series_is_undefined_afterwards() -> None:
    async def kernel(core: Core, x: View, out: View) -> None:
        tiles = core.nram.alloc((4, 64), x.dtype)
        core.write_value(tiles, 1)
        core.taylor3_sin(tiles[0], tiles[1], tiles[2], tiles[3])
        await core.memcpy(out, tiles)

    x = np.ones(64, np.float32)
    out = mlusim.run(kernel, x, mlusim.Output((4, 64), "float32"), kind="BLOCK", dim=1).output
    assert (out[:2] == [np.sin(x), x]).all()
    assert np.isnan(out[2:]).all()


def test_help_of_a_core_leaves_out_the_conversions() -> None:
    names = dir(mlusim.Core)
    assert "convert" in names
    assert not [name for name in names if "2half" in name]
    assert len(pydoc.render_doc(mlusim.Core).splitlines()) < 2_000

    async def kernel(core: mlusim.Core) -> None:
        found.extend(dir(core))

    found: list[str] = []
    mlusim.run(kernel, kind="BLOCK", dim=1)
    assert {"convert", "task_id", "nram"} <= {*found}
    assert not [name for name in found if "2half" in name]
