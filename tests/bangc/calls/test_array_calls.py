"""Intrinsics in C++ that move, reduce, select, pool and convert, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from called_intrinsics import FLOATS, POISON, TYPES, Array, assert_equal, compiled, results
from mlusim import Device, bangc

H, W, C = 6, 5, 4  # an image in `a`
N = H * W * C


def _image(a: Array) -> Array:
    return a.reshape(H, W, C)


def _windows(a: Array, kernel_height: int, kernel_width: int, stride_width: int, stride_height: int) -> Array:
    """The pixels of each window along the third axis."""
    seen = np.lib.stride_tricks.sliding_window_view(_image(a), (kernel_height, kernel_width), (0, 1))
    seen = seen[::stride_height, ::stride_width]
    return seen.reshape(*seen.shape[:3], -1).swapaxes(2, 3)


def _bit_list(mask: Array) -> Array:
    return np.packbits(mask != 0, bitorder="little")


def _extremum(index: Any, a: Array) -> bytes:
    """The number, then its index in 64 bits."""
    return a[index].tobytes() + np.uint64(index).tobytes()


def _padded(a: Array) -> Array:
    return np.pad(_image(a), ((1, 2), (3, 0), (0, 0)), constant_values=a.dtype.type(3))


def _sums_of_lines(a: Array) -> Array:
    """The sum of each 128 B in its first element; the others stay as they were."""
    line = 128 // a.itemsize
    result = np.full(a.nbytes, POISON, np.uint8).view(a.dtype)
    result[::line] = a.reshape(-1, line).sum(axis=1, dtype=np.float64)
    return result


FUSIONS: dict[str, Callable[[Array, Array], Array]] = {
    "FMA": lambda a, b: a * b + b,
    "FMS": lambda a, b: a * b - b,
    "FAM": lambda a, b: (a + b) * b,
    "FSM": lambda a, b: (a - b) * b,
    "FAA": lambda a, b: a + b + b,
    "FAS": lambda a, b: a + b - b,
    "FSS": lambda a, b: a - b - b,
    "FSA": lambda a, b: a - b + b,
}


def _fused(name: str) -> Callable[[Array, Array], Array]:
    """A fusion of integers, exact in float64 and rounded once."""
    return lambda a, b: FUSIONS[name](a.astype(np.float64), b.astype(np.float64)).astype(a.dtype)


ROWS, COLUMNS = H * W, C
MOVES: dict[str, Callable[[Array, Array], Any]] = {
    f"__bang_transpose(out, a, {ROWS}, {COLUMNS})": lambda a, _: a.reshape(ROWS, COLUMNS).T,
    f"__bang_rotate90(out, a, {ROWS}, {COLUMNS})": lambda a, _: np.rot90(a.reshape(ROWS, COLUMNS), -1),
    f"__bang_rotate180(out, a, {ROWS}, {COLUMNS})": lambda a, _: np.rot90(a.reshape(ROWS, COLUMNS), 2),
    f"__bang_rotate270(out, a, {ROWS}, {COLUMNS})": lambda a, _: np.rot90(a.reshape(ROWS, COLUMNS), 1),
    f"__bang_mirror(out, a, {ROWS}, {COLUMNS})": lambda a, _: a.reshape(ROWS, COLUMNS)[:, ::-1],
    f"__bang_pad(out, a, {C}, {H}, {W}, 1, 2, 3, 0, T(3))": lambda a, _: _padded(a),
    f"__bang_filter(out, a, b, {N})": lambda a, b: a[b != 0],
    f"__bang_collect(out, a, b, {N})": lambda a, b: a[b != 0],
    f"__bang_maxpool(out, a, {C}, {H}, {W}, 3, 2, 1, 2)": lambda a, _: _windows(a, 3, 2, 1, 2).max(axis=2),
    f"__bang_minpool(out, a, {C}, {H}, {W}, 3, 2, 1, 2)": lambda a, _: _windows(a, 3, 2, 1, 2).min(axis=2),
    f"__bang_maxpool(out, a, {C}, {H}, {W}, 2, 2)": lambda a, _: _windows(a, 2, 2, 2, 2).max(axis=2),
    f"__bang_sumpool(out, a, {C}, {H}, {W}, 2, 3, 2, 1)": lambda a, _: (
        _windows(a, 2, 3, 2, 1).sum(axis=2, dtype=np.float64).astype(a.dtype)
    ),
    f"*out = __bang_sum(a, {N})": lambda a, _: a.sum(dtype=np.float64, keepdims=True).astype(a.dtype),
    f"*(uint32_t *)out = __bang_count(b, {N})": lambda _, b: np.uint32(np.count_nonzero(b)),
    f"*(uint32_t *)out = __bang_findfirst1(b, {N})": lambda _, b: np.uint32(np.flatnonzero(b)[0]),
    f"*(uint32_t *)out = __bang_findlast1(b, {N})": lambda _, b: np.uint32(np.flatnonzero(b)[-1]),
    f"__bang_write_value(out, {N}, T(7))": lambda a, _: np.full(N, 7, a.dtype),
    f"__bang_write_zero(out, {N})": lambda a, _: np.zeros(N, a.dtype),
    f"__bang_maskmove(b, a, b, {N})": lambda a, b: np.where(b != 0, a, b),
    f"__bang_gt_bitindex(out, a, b, {N})": lambda a, b: _bit_list(a > b),
    f"__bang_le_bitindex(out, a, b, {N})": lambda a, b: _bit_list(a <= b),
    f"__bang_argmax(out, a, {N})": lambda a, _: _extremum(a.argmax(), a),
    f"__bang_argmin(out, a, {N})": lambda a, _: _extremum(a.argmin(), a),
    f"__bang_max(out, a, {N})": lambda a, _: _extremum(a.argmax(), a),
    "__bang_reduce_sum(out, a, 64)": lambda a, _: _sums_of_lines(a[:64]),
    f"__bang_incseq(out, {N})": lambda a, _: np.arange(N).astype(a.dtype),
    f"__bang_maskmove_bitindex(out, a, b, {N})": lambda a, b: a[
        np.unpackbits(b.view("u1"), bitorder="little")[:N] == 1
    ],
    f"__bang_filter_bitindex(out, a, b, {N})": lambda a, b: a[np.unpackbits(b.view("u1"), bitorder="little")[:N] == 1],
    **{f"{{ __bang_fusion(FUSION_{name}, out, a, b, b, {N}, {N}); }}": _fused(name) for name in FUSIONS},
}


def _halves(a: Array) -> tuple[Array, Array]:
    """The halves next to each number, below and above it; both are the number itself where it is one."""
    near = a.astype(np.float16)
    below = np.where(near > a, np.nextafter(near, np.float16(-np.inf)), near)
    return below, np.where(near < a, np.nextafter(near, np.float16(np.inf)), near)


def _off_zero(a: Array, below: Array, above: Array) -> Array:
    """The nearer of two numbers, the one away from zero in a tie: the mode `rd`."""
    to_below, to_above = a - below.astype(np.float32), above.astype(np.float32) - a
    return np.where((to_below < to_above) | ((to_below == to_above) & (a < 0)), below, above)


def _nearest(a: Array) -> Array:
    return _off_zero(a, np.floor(a), np.ceil(a))


def _each(kind: str, value: str) -> str:
    return f"for (int i = 0; i < {N}; ++i) (({kind} *)out)[i] = {value}"


CONVERSIONS: dict[tuple[str, str], Callable[[Array], Array]] = {
    ("float", f"__bang_float2half_rn((half *)out, (float *)a, {N})"): lambda a: a.astype(np.float16),
    ("float", f"__bang_float2half_rd((half *)out, (float *)a, {N})"): lambda a: _off_zero(a, *_halves(a)),
    ("float", f"__bang_float2half_dn((half *)out, (float *)a, {N})"): lambda a: _halves(a)[0],
    ("float", f"__bang_float2half_up((half *)out, (float *)a, {N})"): lambda a: _halves(a)[1],
    ("float", f"__bang_float2half_tz((half *)out, (float *)a, {N})"): lambda a: np.where(a < 0, *_halves(a)[::-1]),
    ("half", f"__bang_half2float((float *)out, (half *)a, {N})"): lambda a: a.astype(np.float32),
    ("float", f"__bang_float2bfloat16_rn((bfloat16_t *)out, (float *)a, {N})"): lambda a: a.astype(ml_dtypes.bfloat16),
    ("bfloat16_t", f"__bang_bfloat162float((float *)out, (bfloat16_t *)a, {N})"): lambda a: a.astype(np.float32),
    ("float", f"__bang_float2int32((int *)out, (float *)a, {N})"): lambda a: np.trunc(a).astype(np.int32),
    ("float", f"__bang_float2int32_rd((int *)out, (float *)a, {N}, 0)"): lambda a: _nearest(a).astype(np.int32),
    ("float", f"__bang_float2int32_tz((int *)out, (float *)a, {N}, 0)"): lambda a: np.trunc(a).astype(np.int32),
    ("float", f"__bang_float2int32_up((int *)out, (float *)a, {N}, 0)"): lambda a: np.ceil(a).astype(np.int32),
    ("float", f"__bang_float2int32_dn((int *)out, (float *)a, {N}, 0)"): lambda a: np.floor(a).astype(np.int32),
    ("float", f"__bang_float2int32_rn((int *)out, (float *)a, {N}, 0)"): lambda a: np.rint(a).astype(np.int32),
    ("half", f"__bang_half2int16_rd((short *)out, (half *)a, {N}, -2)"): lambda a: _nearest(a * 4).astype(np.int16),
    ("float", f"__bang_float2int8_rd((int8_t *)out, (float *)a, {N}, 1)"): lambda a: _nearest(a / 2).astype(np.int8),
    ("int", f"__bang_int322float_rn((float *)out, (int *)a, {N}, 0)"): lambda a: a.astype(np.float32),
    ("int", f"__bang_int322float((float *)out, (int *)a, {N}, 0)"): lambda a: a.astype(np.float32),
    ("short", f"__bang_int162half_rn((half *)out, (short *)a, {N}, -3)"): lambda a: (a / 8).astype(np.float16),
    ("int8_t", f"__bang_int82float((float *)out, (int8_t *)a, {N}, -1)"): lambda a: (a / 2).astype(np.float32),
    ("half", f"__bang_half2int32_tz((int *)out, (half *)a, {N}, 0)"): lambda a: np.trunc(a).astype(np.int32),
    ("half", f"__bang_half2int16_tz((short *)out, (half *)a, {N}, 0)"): lambda a: np.trunc(a).astype(np.int16),
    ("float", f"__bang_float2int16_rd((short *)out, (float *)a, {N}, 0)"): lambda a: _nearest(a).astype(np.int16),
    ("short", f"__bang_int162float((float *)out, (short *)a, {N}, 0)"): lambda a: a.astype(np.float32),
    ("int", f"__bang_int322float_rd((float *)out, (int *)a, {N}, 0)"): lambda a: a.astype(np.float32),
    ("float", _each("int", "__float2int32(((float *)a)[i])")): lambda a: np.trunc(a).astype(np.int32),
    ("float", _each("int", "__float2int32_up(((float *)a)[i])")): lambda a: np.ceil(a).astype(np.int32),
    ("float", _each("half", "__float2half_rd(((float *)a)[i])")): lambda a: _off_zero(a, *_halves(a)),
    ("half", _each("float", "__half2float(((half *)a)[i])")): lambda a: a.astype(np.float32),
    ("half", _each("int", "__half2int32_up(((half *)a)[i])")): lambda a: np.ceil(a).astype(np.int32),
    ("bfloat16_t", _each("float", "__bfloat162float(((bfloat16_t *)a)[i])")): lambda a: a.astype(np.float32),
    ("float", _each("float", "__cn_scalar_max_f32(((float *)a)[i], 2.5f)")): lambda a: np.maximum(a, np.float32(2.5)),
    ("uint8_t", f"__bang_uchar2half((half *)out, (uint8_t *)a, {N})"): lambda a: a.astype(np.float16),
}


@pytest.fixture(scope="module", params=["mlu370-x4", pytest.param("mlu590-h8", marks=pytest.mark.slow)])
def board(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def moves(board: str, tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    return compiled(list(MOVES), tmp_path_factory.mktemp("calls"), board)


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.slow
def test_moves_reductions_selections_and_pools(moves: bangc.Module, type_name: str) -> None:
    rng = np.random.default_rng(4)
    a = (rng.permutation(N) - N // 2).astype(TYPES[type_name])
    b = np.where(rng.random(N) < 0.4, 0, rng.integers(-9, 9, N)).astype(a.dtype)
    for row, (call, function) in zip(results(moves, type_name, (a, b), len(MOVES)), MOVES.items(), strict=True):
        expected = function(a, b)
        raw = expected if isinstance(expected, bytes) else np.ascontiguousarray(expected).tobytes()
        assert row.tobytes()[: len(raw)] == raw, call


@pytest.fixture(scope="module")
def conversions(board: str, tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    return compiled([call for _, call in CONVERSIONS], tmp_path_factory.mktemp("calls"), board)


@pytest.mark.parametrize("type_name", sorted({source for source, _ in CONVERSIONS}))
def test_conversions(conversions: bangc.Module, type_name: str) -> None:
    rng = np.random.default_rng(4)
    numbers = np.where(
        rng.random(N) < 0.5, rng.uniform(0, 50, N), rng.integers(0, 50 * 64, N) / 64
    )  # the latter are ties
    signs = 1 if type_name == "uint8_t" else rng.choice([-1, 1], N)
    a = (numbers * signs).astype(TYPES[type_name])
    rows = results(conversions, "int8_t", (a.view(np.int8), a.view(np.int8)), len(CONVERSIONS))
    for row, ((source, call), function) in zip(rows, CONVERSIONS.items(), strict=True):
        if source == type_name:
            expected = function(a)
            assert_equal(row.view(expected.dtype)[:N], expected, call, {"a": a})


def test_objects_that_convert_to_pointers_and_numbers_are_arguments(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "objects.mlu"
    file.write_text(
        "#include <bang.h>\n#include <type_traits>\n"
        "template <class T> struct Buffer {\n  T *first;\n  operator T *() { return first; }\n};\n"
        "struct Count {\n  int *value;\n  operator int() const { return *value; }\n};\n"
        "struct Scale {\n  float value;\n  operator float() const { return value; }\n};\n"
        "__mlu_entry__ void objects(float *out, const float *x) {\n"
        "  __nram__ float a[64], b[64];\n  __nram__ int n;\n  n = 64;\n"
        "  Buffer<float> in{a}, result{b};\n  Count count{&n};\n"
        "  __memcpy(in, x, std::integral_constant<int, 256>(), GDRAM2NRAM);\n"
        "  for (int k = 0; k < 2; ++k) {\n"
        "    __bang_mul_scalar(result, in, Scale{2.5f}, count);\n    __bang_add(in, in, result, count);\n  }\n"
        "  out[64] = __bang_sum(in, count);\n"
        "  __memcpy(out, in, count * sizeof(float), NRAM2GDRAM);\n}\n"
    )
    x = np.arange(64, dtype=np.float32)
    expected = (x * np.float32(3.5) * np.float32(3.5)).astype(np.float32)
    device = Device("mlu590-h8")
    out = device.alloc(65, "float32")
    device.launch(bangc.compile(file, device, compiler=compiler)["objects"], out, device.upload(x), dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(out).tolist() == [*expected.tolist(), float(expected.sum())]
