"""Every vector instruction with every element type, compared with NumPy in wider types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlusim
from kernel_runs import compute
from mlusim import dtypes
from mlusim.cores.core import Core
from mlusim.cores.instructions.record import NUMBERS
from mlusim.errors import OperandError
from mlusim.host.device import Device
from mlusim.memory.view import View

Array = np.ndarray[Any, Any]
REAL = list(NUMBERS)


def nan(array: Array) -> Array:
    """Where an element is NaN: neither below, above nor equal to 0."""
    return ~((array < 0) | (array > 0) | (array == 0))


# The same rules, written otherwise: by Python's operators and `where`, not by NumPy's ufuncs.
MEANING: dict[str, Callable[[Array, Array], Array]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maxequal": lambda a, b: np.where(nan(a), a, np.where(nan(b), b, np.where(a >= b, a, b))),
    "minequal": lambda a, b: np.where(nan(a), a, np.where(nan(b), b, np.where(a <= b, a, b))),
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def wider(array: Array) -> Array:
    """A type in which sums and products of two elements are exact, or round innocuously."""
    if dtypes.is_float(array.dtype):
        return array.astype(np.float64 if array.itemsize >= 4 else np.float32)
    return array


def specials(dtype: np.dtype[Any], count: int, seed: int) -> Array:
    """Random bits of any kind: NaNs, infinities, subnormals, extremes of integers."""
    return np.random.default_rng(seed).integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype)


@np.errstate(all="ignore")
def assert_equal(actual: Array, expected: Array) -> None:
    """Compare bits, including the sign of zeros; all NaNs are equal."""
    assert actual.dtype == expected.dtype
    if dtypes.is_float(actual.dtype):
        nan = np.isnan(actual.astype(np.float64))
        np.testing.assert_array_equal(nan, np.isnan(expected.astype(np.float64)))
        actual, expected = actual[~nan], expected[~nan]
    assert actual.tobytes() == expected.tobytes()


BINARY = ("add", "sub", "mul", "maxequal", "minequal")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")
ROWS = ("sum_rows", "max_rows", "min_rows")


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", MEANING)
def test_binary_and_compare(run: Any, name: str, dtype: np.dtype[Any]) -> None:
    a, b = specials(dtype, 512, 1), specials(dtype, 512, 2)
    b[:64] = a[:64]  # equal pairs
    with np.errstate(all="ignore"):
        expected = MEANING[name](wider(a), wider(b)).astype(dtype)
        by_number = MEANING[name](wider(a), wider(b[100:101])).astype(dtype)
    assert_equal(compute(run, lambda core, dst, *ab: getattr(core, name)(dst, *ab), a, b, out=(512, dtype)), expected)
    number = b[100].item()
    assert_equal(compute(run, lambda core, dst, a: getattr(core, name)(dst, a, number), a, out=(512, dtype)), by_number)


@pytest.mark.parametrize("kind", ["float64", "complex64", "float8_e5m2"])
def test_types_that_the_vector_unit_lacks_are_refused(run: Any, kind: str) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(64, kind)
        core.add(tile, tile, tile)

    with pytest.raises(
        OperandError,
        match=rf": add of {kind} operands: mlu370-x4 has no such instruction; it takes float16, float32, bfloat16, .*; "
        "convert them first$",
    ):
        run(kernel)


def test_types_by_architecture(run: Any) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(64, "bfloat16")
        core.add(tile, tile, tile)

    with pytest.raises(OperandError, match=r": add of bfloat16 operands: mlu270-s4 has no such .* before arch 300; "):
        run(kernel, device="mlu270-s4")
    run(kernel)


def test_instructions_by_architecture(run: Any) -> None:
    async def kernel(core: Core) -> None:
        tile = core.nram.alloc(64, "float32")
        core.maximum(tile, tile, 0)

    with pytest.raises(
        OperandError,
        match=r": maximum exists from arch 300 on; mlu270-s4 is arch 270: compose it of others, or choose a",
    ):
        run(kernel, device="mlu270-s4")
    run(kernel)


@pytest.mark.parametrize("name", COMPARE)
def test_bool_compares(run: Any, name: str) -> None:
    a, b = (np.random.default_rng(k).integers(0, 2, 64).astype(bool) for k in (1, 2))
    got = compute(run, lambda core, dst, *ab: getattr(core, name)(dst, *ab), a, b, out=(64, bool))
    np.testing.assert_array_equal(got, MEANING[name](a, b))


@pytest.mark.parametrize("name", [*BINARY, *ROWS])
def test_arithmetic_on_bool_is_refused(run: Any, name: str) -> None:
    async def kernel(core: Core) -> None:
        tile, one = core.nram.alloc(64, bool), core.nram.alloc(1, bool)
        getattr(core, name)(*((tile, tile, tile) if name in BINARY else (one, tile)))

    with pytest.raises(OperandError, match=r" of bool operands: mlu370-x4 has no such instruction; it takes .*convert"):
        run(kernel)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("shape", [(96,), (7, 32), (3, 4, 16)])
@np.errstate(all="ignore")
def test_reductions(run: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Maxima and minima of any bits; sums that are exact in the element type."""
    rest = shape[1:] or (1,)
    bits = specials(dtype, math.prod(shape), 3).reshape(shape)
    if dtypes.is_float(dtype):
        bits = np.nan_to_num(bits.astype(np.float64), nan=1.0).astype(dtype)
    rows = bits.reshape(shape[0], -1)
    for name, pick in (("max_rows", MEANING["maxequal"]), ("min_rows", MEANING["minequal"])):
        expected = rows[0]
        for row in rows[1:]:
            expected = pick(expected, row)
        got = compute(run, lambda core, dst, src, name=name: getattr(core, name)(dst, src), bits, out=(rest, dtype))
        got, expected = got.reshape(-1), expected.astype(dtype)
        if len(shape) == 1:
            expected = np.array([fold(rows[:, 0], pick)], dtype)
        # Which of -0.0 and +0.0 is larger, IEEE leaves open.
        assert_equal(got + dtype.type(0), expected + dtype.type(0))
    small = np.random.default_rng(4).integers(0, 2, shape).astype(dtype)
    small.reshape(shape[0], -1)[4:] = 0  # 4 is exact in every type
    got = compute(run, lambda core, dst, src: core.sum_rows(dst, src), small, out=(rest, dtype))
    expected = small.astype(np.int64).sum(axis=0).reshape(rest) if len(shape) > 1 else small.astype(np.int64).sum()
    np.testing.assert_array_equal(got.astype(np.int64), np.reshape(expected, rest))


def fold(values: Array, pick: Callable[[Array, Array], Array]) -> Any:
    result = values[0]
    for value in values[1:]:
        result = pick(result, value)
    return result


def test_integer_sums_wrap_and_float_sums_are_close(run: Any) -> None:
    numbers = np.full(100, 100, np.int8)
    got = compute(run, lambda core, dst, src: core.sum_rows(dst, src), numbers, out=(1, np.int8))
    assert int(got[0]) == (10_000 + 128) % 256 - 128
    floats = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
    got = compute(run, lambda core, dst, src: core.sum_rows(dst, src), floats, out=(1, np.float32))
    assert float(got[0]) == pytest.approx(math.fsum(floats.tolist()), abs=1e-4)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_fill(run: Any, dtype: np.dtype[Any]) -> None:
    values: list[Any] = [0, 1, True, 3.0]
    if dtypes.is_float(dtype):
        values += [-0.0, 0.0, float("nan"), float("inf"), -1.5, 1e300]
    if dtype in dtypes.SIGNED:
        values += [-1, -100]
    for value in values:
        with np.errstate(all="ignore"):
            expected = np.full(33, value, dtype) if dtype.kind != "b" else np.full(33, bool(value))
        got = compute(run, lambda core, dst, value=value: core.fill(dst, value), out=(33, dtype))
        assert_equal(got, expected) if not dtypes.is_complex(dtype) else np.testing.assert_array_equal(got, expected)
    zeros = compute(run, lambda core, dst: core.write_zero(dst), out=((3, 11), dtype))
    assert zeros.tobytes() == bytes(33 * dtype.itemsize)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_select_transpose_and_mirror_move_bits(run: Any, dtype: np.dtype[Any]) -> None:
    a, b = specials(dtype, 96, 6), specials(dtype, 96, 7)
    mask = np.random.default_rng(8).integers(0, 2, 96).astype(dtype)

    def bits(array: Array) -> Array:
        return array.copy().view(np.uint8).reshape(*array.shape, -1)

    got = compute(run, lambda core, dst, m, a, b: core.mask_select(dst, m, a, b), mask, a, b, out=(96, dtype))
    chosen = mask.astype(complex) != 0
    assert got.tobytes() == np.where(chosen[:, None], bits(a), bits(b)).tobytes()
    matrix = a.reshape(8, 12)
    turned = compute(run, lambda core, dst, src: core.transpose(dst, src), matrix, out=((12, 8), dtype))
    assert turned.tobytes() == bits(matrix).transpose(1, 0, 2).tobytes()
    mirrored = compute(run, lambda core, dst, src: core.mirror(dst, src), matrix, out=((8, 12), dtype))
    assert mirrored.tobytes() == bits(matrix)[:, ::-1].tobytes()


def test_select_takes_any_mask_of_the_width(run: Any) -> None:
    mask = np.array([0, 1, 0x8000_0000, 7], np.uint32)
    a, b = np.array([1, 2, 3, 4], np.float32), np.array([-1, -2, -3, -4], np.float32)
    got = compute(run, lambda core, dst, *rest: core.mask_select(dst, *rest), mask, a, b, out=(4, np.float32))
    assert got.tolist() == [-1, 2, 3, 4]
    as_float = compute(
        run, lambda core, dst, *rest: core.mask_select(dst, *rest), mask.view("f4"), a, b, out=(4, np.float32)
    )
    assert as_float.tolist() == [-1, 2, -3, 4]  # -0.0 is 0


@pytest.mark.parametrize(
    ("source", "target", "first"),
    [
        ("float32", "int32", 0),
        ("float32", "float16", 0),
        ("int64", "float16", 0),
        ("float16", "float32", 200),
        ("bfloat16", "float32", 256),
    ],
)
def test_convert_in_place(run: Any, source: str, target: str, first: int) -> None:
    """A result no wider than its source may begin where the source does; a wider one may end there, or before."""
    array = np.arange(-50, 50).astype(source)
    device = Device()
    x, out = device.upload(array), device.alloc(100, target)

    async def kernel(core: Core, x: View, out: View) -> None:
        buffer = core.nram.alloc(1024, "uint8")
        tile = buffer[first : first + array.nbytes].view(source)
        await core.memcpy(tile, x)
        result = buffer.view(target)[:100]
        core.convert(result, tile)
        await core.sync()
        await core.memcpy(out, result)

    run(kernel, x, out, device=device)
    np.testing.assert_array_equal(device.download(out), array.astype(target))


def test_a_result_in_a_register_includes_a_copy_that_ends_before_the_instruction():
    async def kernel(core, x, out):
        tile = core.nram.alloc(x.shape, x.dtype)
        core.write_zero(tile)
        await core.sync_compute()
        core.memcpy_async(tile, x)
        core.scalar(10_000_000)
        core.store(out[0], await core.sum(tile))
        await core.sync()

    x = np.arange(8, dtype=np.float32)
    assert mlusim.run(kernel, x, mlusim.Output(1), kind="BLOCK", dim=1).output[0] == x.sum()
