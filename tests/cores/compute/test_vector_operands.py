"""Valid operands of vector instructions, of any shape and in place, and invalid ones."""

from __future__ import annotations

import math
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlusim
from kernel_runs import compute
from mlusim.cores.compute.vector import MAX_EFFECTS
from mlusim.cores.core import Core
from mlusim.errors import AllocationError, OperandError
from mlusim.host.device import Device
from mlusim.memory.view import View


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda core, t: core.convert(t[1:9], t[:8].view("int32")),
            r"convert of <.*> to <.*>: they overlap; the result .*; it reads bytes 0\.\.32 of .* and writes 4\.\.36;",
        ),
        (lambda core, t: core.convert(t[:8].view("float64"), t[:4]), "convert of <.*> to <.*>: they overlap"),
        (lambda core, t: core.convert(t[:4], t.view("float16")[3:7]), "convert of <.*> to <.*>: they overlap"),
        (lambda core, t: core.from_int4(t.view("int8")[:8], t.view("uint8")[:4]), "from_int4 of <.*>: they overlap"),
        (
            lambda core, t: core.mirror(t, t),
            "mirror of <.*> to <.*>: they overlap; the result would depend on the order",
        ),
        (lambda core, t: core.max(t[:4], t), "max of <.*> to <.*>: they overlap"),
        (lambda core, t: core.transpose(t.reshape(8, 8), t.reshape(8, 8)), "transpose of <.*> to <.*>: they overlap"),
    ],
)
def test_operands_that_overlap(run: Any, body: Any, message: str) -> None:
    async def kernel(core: Core) -> None:
        body(core, core.nram.alloc(64, "float32"))

    with pytest.raises(OperandError, match=rf"^task 0 .*, test_vector_operands\.py:\d+, at .* ns: {message}"):
        run(kernel)


def test_a_nonexistent_conversion_fails_at_its_line(run: Any) -> None:
    async def kernel(core: Core, source: str, target: str, rounding: Any) -> None:
        core.convert(core.nram.alloc(8, target), core.nram.alloc(8, source), rounding)

    place = r"^task 0 \(cluster 0, core 0\), test_vector_operands\.py:\d+, at [\d .]+ ns: "
    with pytest.raises(
        OperandError, match=place + "convert of <.*> to <.*>: rounding 'tt' is unknown: the modes are None, tz"
    ):
        run(kernel, "float32", "int32", "tt")
    with pytest.raises(
        OperandError, match=place + "convert of complex64 .* to float32 .*: a complex number has two parts"
    ):
        run(kernel, "complex64", "float32", None)


def test_operands_of_one_size_may_have_any_shape(run: Any) -> None:
    a, b = (np.arange(12, dtype=np.float32).reshape(shape) for shape in ((3, 4), (12, 1)))
    got = compute(run, lambda core, dst, a, b: core.add(dst, a, b), a, b, out=((2, 6), np.float32))
    np.testing.assert_array_equal(got.reshape(-1), np.arange(12.0) * 2)


def test_in_place(run: Any) -> None:
    a = np.arange(64, dtype=np.int32)

    def body(core: Core, dst: View, a: View) -> None:
        core.add(a, a, a)
        core.mul(a, a, a)
        core.sub(dst, a, 1)

    np.testing.assert_array_equal(compute(run, body, a, out=(64, np.int32)), (2 * a) ** 2 - 1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda core, x, t: core.fill(x, 0),
            "fill of <view of output (gdram): float32 [64]>: vector operands must be in this ",
        ),
        (lambda core, x, t: core.add(t, t, core.wram.alloc(64, "float32")), "add of <view of wram buffer 0 (wram)"),
        (
            lambda core, x, t: core.add(t[::2], t[::2], 1),
            "add of <view of nram buffer 0 (nram): float32 [32]> with strides",
        ),
        (
            lambda core, x, t: core.fill(t[3:3], 0),
            "fill of <view of nram buffer 0 (nram): float32 [0]>, which has no elem",
        ),
        (
            lambda core, x, t: core.add(t, t, t[:32]),
            "add of <view of nram buffer 0 (nram): float32 [64]> and <view of nram buffer 0 (nram): float32 [32]> to <",
        ),
        (
            lambda core, x, t: core.add(t, t, t.view("int32")),
            "add of float32 with src1 of int32: operands of one instruction must have ",
        ),
        (
            lambda core, x, t: core.eq(t.view("int32"), t, t),
            "eq of float32 with dst of int32: operands of one instruction",
        ),
        (
            lambda core, x, t: core.mask_select(t, t.view("int16"), t, t),
            "mask_select of 4 B elements with mask of 2 B: widths must agree",
        ),
        (lambda core, x, t: core.transpose(t, t), "transpose of <view of nram buffer 0 (nram): float32 [64]> to <"),
        (lambda core, x, t: core.mirror(t[:4], t[8:16]), "mirror of <view of nram buffer 0 (nram): float32 [8]> to "),
        (
            lambda core, x, t: core.sum_rows(t[:2], t),
            "sum_rows of <view of nram buffer 0 (nram): float32 [64]> to <view ",
        ),
        (lambda core, x, t: core.sum_rows(t[:4], t.reshape(8, 8)), "sum_rows of <view"),
        (lambda core, x, t: core.sum_rows(t[:4], None), "sum_rows of None: it takes a view of memory"),
    ],
)
def test_invalid_operands_are_refused(run: Any, body: Any, message: str) -> None:
    async def kernel(core: Core, x: View) -> None:
        body(core, x, core.nram.alloc(64, "float32"))

    device = Device()
    with pytest.raises(
        OperandError,
        match=rf"^task 0 \(cluster 0, core 0\), test_vector_operands\.py:\d+, at .* ns: {re.escape(message)}",
    ):
        run(kernel, device.alloc(64, "float32"), device=device)


def test_freed_operand(run: Any) -> None:
    async def kernel(core: Core) -> None:
        with core.nram.scope():
            gone = core.nram.alloc(64, "float32", "gone")
            core.fill(gone, 0)
        core.fill(gone, 0)

    with pytest.raises(
        AllocationError, match=r": gone in the NRAM of cluster 0 core 0 of mlu370-x4 was freed; use it bef"
    ):
        run(kernel)


def test_operands_of_another_core(run: Any) -> None:
    """Even if the owner of the buffer has issued the same instruction before."""
    shared: dict[str, View] = {}

    async def kernel(core: Core) -> None:
        if core.is_memory_core:
            return
        if core.core_id == 0:
            shared["tile"] = core.nram.alloc(64, "float32")
            core.fill(shared["tile"], 0)
        await core.sync_all_ipu()
        if core.core_id == 1:
            core.fill(shared["tile"], 1)

    with pytest.raises(
        OperandError, match=r"^task 1 .*: it is in the NRAM of cluster 0 core 0 of mlu370-x4, not in th"
    ):
        run(kernel, dim=4, kind="UNION1")


@pytest.mark.parametrize("device", ["mlu220-m2", "mlu270-s4", "mlu290-m5"])
def test_2xx_needs_aligned_operands(run: Any, device: str) -> None:
    async def kernel(core: Core, key: slice) -> None:
        tile = core.nram.alloc(100, "float32")
        core.write_zero(tile[key])

    for good in (slice(0, 32), slice(32, 64), slice(16, 48)):
        run(kernel, good, device=device)
    # The end of an allocation is no exception: the instruction takes a length, not a buffer.
    whole = "allocate whole 128 B and compute on all of them"
    moved = "load the operand to a multiple of 64 B, or move it there by a scalar loop"
    ends, starts = (
        (slice(0, 31), slice(0, 48), slice(64, 100), slice(96, 100), slice(1, 34)),
        (slice(1, 33), slice(8, 40)),
    )
    for bad, remedy in [*((end, whole) for end in ends), *((start, moved) for start in starts)]:
        with pytest.raises(
            OperandError,
            match=r"^task 0 .* ns: write_zero of <.*> at byte \d+, \d+ B long: arch \d+ needs 64 B alignment and a "
            rf"multiple of 128 B; {remedy}$",
        ):
            run(kernel, bad, device=device)
        run(kernel, bad, device="mlu370-x4")  # any count > 0 on 3xx


@pytest.mark.parametrize("name", ["rotate180", "transpose", "convert", "sum", "reduce_sum"])
def test_2xx_sources_of_any_instruction_end_at_a_multiple_of_128_bytes(run: Any, name: str) -> None:
    async def kernel(core: Core) -> None:
        flat = name in ("sum", "reduce_sum")
        source = core.nram.alloc(50 if flat else (3, 50), "float32")
        result = core.nram.alloc({"sum": 32, "reduce_sum": 50, "transpose": (50, 3)}.get(name, (3, 50)), "float32")
        getattr(core, name)(result[0:1] if name == "sum" else result, source)

    with pytest.raises(OperandError, match="128 B"):
        run(kernel, device="mlu270")
    run(kernel, device="mlu370-x4")


def test_2xx_writes_a_reduction_into_whole_128_bytes_of_a_buffer(run: Any) -> None:
    async def kernel(core: Core, key: slice) -> None:
        source = core.nram.alloc(64, "float32")
        result = core.nram.alloc(40, "float32")
        core.fill(source, 1)
        core.sum(result[key], source)

    run(kernel, slice(0, 1), device="mlu270")
    with pytest.raises(OperandError, match="128 B"):
        run(kernel, slice(16, 17), device="mlu270")


@pytest.mark.parametrize("bits", [16, 24, 200])
def test_2xx_compares_whole_512_bytes_to_bits_in_a_buffer_of_any_size(run: Any, bits: int) -> None:
    async def kernel(core: Core, count: int) -> None:
        source = core.nram.alloc(count, "float32")
        result = core.nram.alloc(bits, "float32")
        core.fill(source, 1)
        core.gt_bitindex(result[: count // 32], source, source)

    run(kernel, 512, device="mlu270-s4")
    with pytest.raises(OperandError, match=r"gt_bitindex of .* a multiple of 512 B; "):
        run(kernel, 480, device="mlu270-s4")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda core, t: core.mul(t, t, 0.5),
            r"mul of int32 with src1 = 0\.5: int32 does not hold that number; pass",
        ),
        (lambda core, t: core.mul(t, src0=t, src1=np.float32(1.5)), r"mul of int32 with src1 = 1\.5: int32 does not"),
        (lambda core, t: core.lt(t, t, float("inf")), r"lt of int32 with src1 = inf: int32 does not hold that number"),
        (lambda core, t: core.fill(t, 2.5), r"fill of int32 with value = 2\.5: int32 does not hold that number"),
        (
            lambda core, t: core.fill(t, 2**32),
            r"fill of int32 with value = 4294967296: .*; pass an integer from -2147483648 to 4294967295, or convert ",
        ),
        (lambda core, t: core.add(t, t, -(2**31) - 1), r"add of int32 with src1 = -2147483649: int32 does not hold"),
        (lambda core, t: core.add(t, t, 2**70), r"add of int32 with src1 = 1180591620717411303424: int32 does not"),
        (lambda core, t: core.add(t, t, 1e10), r"add of int32 with src1 = 1e\+10: int32 does not hold that number"),
        (
            lambda core, t: core.mul(t.view("float32"), t.view("float32"), 10**400),
            r"mul of float32 with src1 = 10+\.\.\.: float32 does not hold that number; pass one below 1.8e308$",
        ),
        (lambda core, t: core.add(t, t, 1j), r"add\(dst, src0, src1\): src1 is a view or a number, not 1j$"),
        (lambda core, t: core.store(t[0], 1j), r"store with 1j: int32 cannot represent it$"),
        (lambda core, t: core.store(t[0], np.complex64(1)), r"store with np\.complex64\(1\+0j\): int32 cannot repr"),
        (
            lambda core, t: core.store_array(t, np.ones(64, complex)),
            r"store_array of .* to <view of .*>: the elements must be real numbers$",
        ),
        (
            lambda core, t: core.store(t[0], math.nan),
            r"store with nan: int32 does not hold that number, and in C its conversion is undefined; .* to 2147483647$",
        ),
        (lambda core, t: core.store(t[0], np.float32(2**31)), r"store with 2\.?1474836\S*: int32 does not hold"),
        (lambda core, t: core.store(t.view("uint8")[0], -1.0), r"store with -1\.0: uint8 .* from 0 to 255$"),
        (lambda core, t: core.store(t.view("int64")[0], 2.0**63), r"store with 9\.22\S+: int64 does not hold"),
        (
            lambda core, t: core.store_array(t[:4].reshape(2, 2), np.array([[1, 2], [np.inf, 4]], ml_dtypes.bfloat16)),
            r"store_array with inf at \[1, 0\]: int32 does not hold that number",
        ),
    ],
)
def test_numbers_that_the_elements_do_not_hold(run: Any, body: Any, message: str) -> None:
    async def kernel(core: Core) -> None:
        body(core, core.nram.alloc(64, "int32"))

    with pytest.raises(OperandError, match=rf"^task 0 .*, test_vector_operands\.py:\d+, at .* ns: {message}"):
        run(kernel)


def test_scalar_stores_convert_as_c_does(run: Any) -> None:
    """Fractions are truncated and integers wrap, the same for one element and for arrays."""
    values: list[float] = [3.7, -3.7, -0.9, 2.0**31 - 1, -(2.0**31) - 0.5, 2**32 + 5, -(2**31) - 1]
    found = []

    async def kernel(core: Core) -> None:
        t = core.nram.alloc((2, len(values)), "int32")
        for place, value in enumerate(values):
            core.store(t[0, place], value)
            core.store_array(t[1, place : place + 1], np.array([value]))
        narrow = core.nram.alloc(2, "float16")
        core.store_array(narrow, np.array([1e30, np.nan]))
        found.extend((await core.load_array(t), await core.load_array(narrow)))

    run(kernel)
    assert found[0].tolist() == [[3, -3, 0, 2**31 - 1, -(2**31), 5, 2**31 - 1]] * 2
    assert np.isposinf(found[1][0])
    assert np.isnan(found[1][1])


def test_the_bits_of_an_unsigned_number(run: Any) -> None:
    found = []

    async def kernel(core: Core) -> None:
        t = core.nram.alloc(64, "int32")
        core.fill(t, 0xFFFFFFFE)
        core.add(t, t, 0xFFFFFFFF)
        await core.sync()
        found.append(core.peek(t)[0])

    run(kernel)
    assert found == [-3]


def test_a_whole_float_is_an_integer(run: Any) -> None:
    ones = np.ones(64, np.int32)
    tripled = compute(run, lambda core, dst, t: core.mul(dst, t, 3.0), ones, out=(64, "int32"))
    assert tripled.tolist() == [3] * 64


def test_a_long_loop_keeps_few_effects_of_instructions_that_have_ended() -> None:
    """They wait for an access to memory, which such a loop does not have."""
    waiting = []

    async def kernel(core: Core, out: View) -> None:
        total = core.nram.alloc(64, "float32")
        core.write_zero(total)
        for number in range(4 * MAX_EFFECTS):
            core.add(total, total, 1.0)
            if number % 64 == 63:
                await core.sync()
                waiting.append(len(core.issuer.unit.effects))
        await core.memcpy(out, total)

    result = mlusim.run(kernel, mlusim.Output((64,)), dim=1, kind="BLOCK")
    assert max(waiting) <= MAX_EFFECTS + 64
    assert result.output.tolist() == [4.0 * MAX_EFFECTS] * 64
