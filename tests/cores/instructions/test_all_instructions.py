"""Every instruction of the table against an oracle written otherwise: Python's own numbers, one element at a time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.cores.instructions.c_forms import Form, form, forms_of
from mlusim.cores.instructions.conversion import ROUNDINGS, TYPE_WORDS
from mlusim.cores.instructions.record import FLOATS, Extent, Instruction, Match
from mlusim.cores.instructions.table import BY_INTRINSIC, INSTRUCTIONS
from mlusim.cores.instructions.vector_library import vector_casts, vector_functions
from mlusim.dtypes import BFLOAT16, FLOAT16, FLOAT32, dtype_of, is_float
from mlusim.errors import OperandError
from mlusim.host.device import Device

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(20)


def values(count: int, dtype: Any, *, low: float = -8, high: float = 8) -> Array:
    """Numbers of a type: halves of integers for floats, so that sums and products are exact in float32."""
    dtype = dtype_of(dtype)
    if is_float(dtype):
        return (rng.integers(int(low * 2), int(high * 2), count) / 2).astype(dtype)
    if dtype.kind == "u":
        return rng.integers(0, 16, count).astype(dtype)
    return rng.integers(int(low), int(high), count).astype(dtype)


def run(name: str, result: Array, *sources: Any, **attributes: Any) -> Array:
    """Compute into `result`, without NumPy's warnings, as the pipe does; sources as they come."""
    entry = INSTRUCTIONS[name]
    with np.errstate(all="ignore"):
        entry.compute(result, *sources, **{**entry.defaults, **attributes})
    return result


def close(actual: Array, expected: Any, dtype: Any) -> None:
    """Within two units of the last place of the type."""
    steps = {FLOAT16: 2e-3, BFLOAT16: 1.6e-2, FLOAT32: 3e-7}[dtype_of(dtype)]
    np.testing.assert_allclose(actual.astype(np.float64), expected, rtol=steps, atol=steps * 1e-2)


# ---- elementwise: name to a function of Python numbers

EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maxequal": max,
    "minequal": min,
    "maximum": max,
    "minimum": min,
    "nan_maximum": max,
    "nan_minimum": min,
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "and_": lambda a, b: int(bool(a) and bool(b)),
    "or_": lambda a, b: int(bool(a) or bool(b)),
    "xor": lambda a, b: int(bool(a) != bool(b)),
}
BITWISE: dict[str, Callable[[int, int], int]] = {
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "square": lambda a: a * a,
    "abs": abs,
    "neg": lambda a: -a,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": lambda a: math.copysign(math.floor(abs(a) + 0.5), a),
    "relu": lambda a: max(a, 0),
    "sign": lambda a: 1 if a >= 0 else -1,
    "not_": lambda a: int(not a),
}
FUNCTION: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log2,
    "log2": math.log2,
    "pow2": lambda a: 2.0**a,
    "sqrt": math.sqrt,
    "rsqrt": lambda a: 1 / math.sqrt(a),
    "recip": lambda a: 1 / a,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "active_exp": math.exp,
    "active_exphp": math.exp,
    "active_exp_less_0": math.exp,
    "active_log": math.log,
    "active_loghp": math.log,
    "active_sqrt": math.sqrt,
    "active_sqrthp": math.sqrt,
    "active_rsqrt": lambda a: 1 / math.sqrt(a),
    "active_rsqrthp": lambda a: 1 / math.sqrt(a),
    "active_recip": lambda a: 1 / a,
    "active_reciphp": lambda a: 1 / a,
    "active_recip_greater_1": lambda a: 1 / a,
    "active_sin": math.sin,
    "active_cos": math.cos,
    "active_tanh": math.tanh,
    "active_sigmoid": lambda a: 1 / (1 + math.exp(-a)),
    "active_gelu": lambda a: a / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))),
}
FUNCTION["active_gelup"] = FUNCTION["active_gelu"]
SERIES: dict[str, Callable[[float], float]] = {
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "sigmoid": FUNCTION["active_sigmoid"],
    "softplus": lambda a: math.log1p(math.exp(a)),
}

SPECIAL = {
    *(
        "add_tz",
        "cycle_add_tz",
        "div",
        "rem",
        "bnot",
        "sll",
        "srl",
        "fusion",
        "hypot",
        "relun",
        "convert",
        "mask_select",
    ),
    *("sum", "reduce_sum", "max", "min", "argmax", "argmin", "fabsmax", "fabsmin", "count", "count_bitindex", "popcnt"),
    *("findfirst1", "findlast1", "filter", "filter_bitindex", "select", "select_bitindex"),
    *("maskmove", "maskmove_bitindex", "transpose", "rotate90", "rotate180", "rotate270", "mirror", "pad"),
    *("reshape_nhwc2nchw", "reshape_nchw2nhwc", "reshape_filter", "lut", "write_value", "fill", "write_zero", "incseq"),
    *("sumpool", "avgpool", "maxpool", "minpool", "maxpool_index", "minpool_index", "maxpool_value_index"),
    *("minpool_value_index", "maxpool_bp", "avgpool_bp", "unpool", "expand_channel_mul", "expand_channel_mul_add"),
    *("matmul", "mlp", "conv", "conv_bias", "conv_partial", "integral", "fcmpfilter"),
    *("histogram", "rand", "to_int4", "from_int4"),
}
CYCLES = {f"cycle_{name.rstrip('_')}": name for name in (*EXACT, *BITWISE)}
BITINDEX = {f"{name}_bitindex": EXACT[name] for name in ("lt", "le", "gt", "ge", "eq", "ne")}
TAYLOR: dict[str, Callable[[float], float]] = {
    f"taylor{terms}_{name}": function for name, function in SERIES.items() for terms in (3, 4)
}


def test_every_instruction_has_an_oracle() -> None:
    tested = {*EXACT, *BITWISE, *UNARY, *FUNCTION, *SPECIAL, *CYCLES, *BITINDEX, *TAYLOR}
    assert tested == set(INSTRUCTIONS)


def types_of(name: str) -> list[Any]:
    """The number types of an instruction."""
    return [kind for kind in INSTRUCTIONS[name].types if kind.kind in "iufV" and kind.itemsize <= 8]


PAIRS = [(name, kind) for name in EXACT for kind in types_of(name) if kind.kind in "iu" or kind in FLOATS]


@pytest.mark.parametrize(("name", "kind"), PAIRS, ids=str)
def test_two_vectors_a_number_and_segments(name: str, kind: Any) -> None:
    """Operands that are exact in every type; integers may wrap."""
    a, b = values(96, kind), values(96, kind)
    b[:16] = a[:16]

    def expect(x: Array, y: Array) -> list[Any]:
        with np.errstate(all="ignore"):
            return [
                np.asarray(EXACT[name](p.item(), q.item())).astype(np.float64 if is_float(kind) else object)
                for p, q in zip(x, y, strict=True)
            ]

    def wrapped(numbers: list[Any]) -> Array:
        if is_float(kind):
            return np.array(numbers, np.float64).astype(kind)
        bits = kind.itemsize * 8
        return np.array([int(number) % (1 << bits) for number in numbers], f"u{kind.itemsize}").view(kind)

    got = run(name, np.empty(96, kind), a, b)
    assert got.tobytes() == wrapped(expect(a, b)).tobytes()
    number = b[40].reshape(())
    assert run(name, np.empty(96, kind), a, number).tobytes() == wrapped(expect(a, np.full(96, number, kind))).tobytes()
    cycle = f"cycle_{name.rstrip('_')}"
    segment = b[:12].copy()
    got = run(cycle, np.empty(96, kind), a, segment)
    assert got.tobytes() == wrapped(expect(a, np.resize(segment, 96))).tobytes()
    in_place = a.copy()
    assert run(name, in_place, in_place, b).tobytes() == wrapped(expect(a, b)).tobytes()


@pytest.mark.parametrize("name", ["maxequal", "minequal", "maximum", "minimum", "nan_maximum", "nan_minimum"])
@pytest.mark.parametrize("kind", [FLOAT16, FLOAT32, BFLOAT16], ids=str)
def test_nan_goes_through_extrema(name: str, kind: Any) -> None:
    a, b = np.array([math.nan, 1, math.nan], kind), np.array([1, math.nan, math.nan], kind)
    assert np.isnan(run(name, np.zeros(3, kind), a, b).astype(np.float64)).all()


@pytest.mark.parametrize("name", BITWISE)
@pytest.mark.parametrize("kind", ["int8", "int16", "uint32", "float32", "float16", "bfloat16", "int64"])
def test_bits(name: str, kind: str) -> None:
    dtype = dtype_of(kind)
    a, b = (rng.integers(0, 256, 24 * dtype.itemsize, np.uint8).view(dtype) for _ in range(2))
    expected = bytes(BITWISE[name](x, y) for x, y in zip(a.tobytes(), b.tobytes(), strict=True))
    assert run(name, np.zeros(24, dtype), a, b).tobytes() == expected
    expected = bytes(BITWISE[name](x, y) for x, y in zip(a.tobytes(), b[3:4].tobytes() * 24, strict=True))
    assert run(name, np.zeros(24, dtype), a, b[3].reshape(())).tobytes() == expected
    expected = bytes(BITWISE[name](x, y) for x, y in zip(a.tobytes(), b[:8].tobytes() * 3, strict=True))
    assert run(f"cycle_{name}", np.zeros(24, dtype), a, b[:8]).tobytes() == expected


@pytest.mark.parametrize("kind", ["uint8", "int16", "int32", "uint32", "float32"])
def test_bit_not(kind: str) -> None:
    a = rng.integers(0, 256, 64, np.uint8).view(dtype_of(kind))
    assert run("bnot", np.zeros_like(a), a).tobytes() == bytes(255 - byte for byte in a.tobytes())


@pytest.mark.parametrize("kind", ["int32", "uint32", "int16", "uint8"])
@pytest.mark.parametrize("name", ["sll", "srl"])
def test_shifts_move_zeros_in(name: str, kind: str) -> None:
    dtype = dtype_of(kind)
    bits = dtype.itemsize * 8
    a = rng.integers(0, 256, 16 * dtype.itemsize, np.uint8).view(dtype)
    for count in (0, 1, bits - 1, bits, 200 if bits > 8 else 100):
        unsigned = [int(x) % (1 << bits) for x in a]
        expected = [(x << count) % (1 << bits) if name == "sll" else x >> count for x in unsigned]
        got = run(name, np.zeros_like(a), a, np.array(count).astype(dtype))
        assert [int(x) % (1 << bits) for x in got] == expected
        assert run(name, np.zeros_like(a), a, np.full(16, count).astype(dtype)).tobytes() == got.tobytes()


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in UNARY for kind in types_of(name)], ids=str)
def test_one_vector(name: str, kind: Any) -> None:
    if name == "neg" and kind.kind == "u":
        return
    a = values(64, kind)
    expected = np.array([UNARY[name](x.item()) for x in a]).astype(kind)
    got = run(name, np.empty(64, kind), a)
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


def test_sign_of_zeros_is_1() -> None:
    assert run("sign", np.empty(3, np.float32), np.array([0.0, -0.0, -1e-30], np.float32)).tolist() == [1, 1, -1]


@pytest.mark.parametrize("kind", [FLOAT16, FLOAT32, BFLOAT16], ids=str)
@pytest.mark.parametrize("name", FUNCTION)
def test_functions(name: str, kind: Any) -> None:
    a = (rng.random(64) * 5 + 0.1).astype(kind)
    if not any(word in name for word in ("log", "sqrt", "recip")):
        a[::2] *= -1
    close(run(name, np.empty(64, kind), a), [FUNCTION[name](float(x)) for x in a], kind)
    assert not INSTRUCTIONS[name].exact


@pytest.mark.parametrize("name", TAYLOR)
def test_series_have_two_scratch_operands(name: str) -> None:
    a = (rng.random(32) * 4 - 2).astype(np.float32)
    got = run(name, np.empty(32, np.float32), a, np.empty(32, np.float32), np.empty(32, np.float32))
    np.testing.assert_allclose(got, [TAYLOR[name](float(x)) for x in a], rtol=1e-6, atol=1e-7)


def test_values_beyond_numbers_do_not_warn_or_raise() -> None:
    odd = np.array([math.nan, math.inf, -math.inf, -1, 0, 3e38], np.float32)

    async def kernel(core: Core) -> None:
        x, y, zero = (core.nram.alloc(6, "float32") for _ in range(3))
        core.store_array(x, odd)
        core.write_zero(zero)
        for name in FUNCTION:
            getattr(core, name)(y, x)
        core.div(y, x, zero)
        core.add(y, x, 3e300)
        await core.sync()

    device = Device("mlu370-x4")
    device.launch(kernel, dim=1, kind="BLOCK")
    device.synchronize()


@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16", "int32", "int16", "uint32"])
def test_division_and_remainder(kind: str) -> None:
    a, b = values(64, kind), values(64, kind)
    b[b == 0] = 3
    quotient, remainder = run("div", np.empty_like(a), a, b), run("rem", np.empty_like(a), a, b)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    if is_float(a.dtype):
        pairs = [(float(x), float(y)) for x, y in pairs]
        close(quotient, [x / y for x, y in pairs], kind)
        close(remainder, [math.fmod(x, y) for x, y in pairs], kind)
    else:
        assert quotient.tolist() == [math.trunc(x / y) for x, y in pairs]
        assert remainder.tolist() == [x - y * math.trunc(x / y) for x, y in pairs]
    for name in ("div", "rem"):
        by_number = run(name, np.empty_like(a), a, b[5].reshape(()))
        assert by_number.tobytes() == run(name, np.empty_like(a), a, np.full_like(b, b[5])).tobytes()


def test_integers_divided_by_zero_are_0() -> None:
    a, zero = np.array([5, -5, 0], np.int32), np.zeros(3, np.int32)
    assert run("div", np.empty_like(a), a, zero).tolist() == [0, 0, 0]
    assert run("rem", np.empty_like(a), a, zero).tolist() == [0, 0, 0]


@pytest.mark.parametrize("operation", ["FMA", "FMS", "FAM", "FSM", "FAA", "FAS", "FSS", "FSA"])
@pytest.mark.parametrize("kind", ["float32", "float16", "int32"])
def test_fusion(operation: str, kind: str) -> None:
    step = {"M": lambda x, y: x * y, "A": lambda x, y: x + y, "S": lambda x, y: x - y}
    a, b, c = values(24, kind), values(24, kind), values(8, kind)
    expected = [
        step[operation[2]](step[operation[1]](float(x), float(y)), float(z))
        for x, y, z in zip(a, b, np.resize(c, 24), strict=True)
    ]
    got = run("fusion", np.empty_like(a), a, b, c, operation=operation)
    np.testing.assert_array_equal(got.astype(np.float64), np.array(expected).astype(a.dtype).astype(np.float64))
    number = np.asarray(2).astype(a.dtype)
    same = run("fusion", np.empty_like(a), a, number, np.full_like(a, 3), operation=operation)
    assert run("fusion", np.empty_like(a), a, number, np.asarray(3).astype(a.dtype), operation=operation).tobytes() == (
        same.tobytes()
    )


def test_fusion_rounds_once() -> None:
    a = np.array([1 + 2**-12], np.float32)
    got = run("fusion", np.empty(1, np.float32), a, a, np.array([-1], np.float32), operation="FMA")
    assert got[0] == np.float32((1 + 2**-12) ** 2 - 1) != a[0] * a[0] - np.float32(1)


def test_sums_rounded_to_zero() -> None:
    a, b = np.array([1, -1, 0.5], np.float16), np.array([2**-11 * 1.5, -(2**-11) * 1.5, 0.25], np.float16)
    assert run("add_tz", np.empty(3, np.float16), a, b).tolist() == [1, -1, 0.75]
    assert run("add", np.empty(3, np.float16), a, b).tolist() == [1 + 2**-10, -1 - 2**-10, 0.75]
    got = run("cycle_add_tz", np.empty(2, np.float16), a[:2], b[:1])
    assert got.tolist() == [1, -1 + 2**-10]


def test_the_vector_library_takes_the_count_first() -> None:
    names = [argument.name for argument in form("__cn_vector_sin_f32", 3).arguments]
    assert names == ["n", "dst", "src"]
    names = [argument.name for argument in form("__cn_vector_mod_scalar_u64", 4).arguments]
    assert names == ["n", "dst", "src0", "src1"]
    assert form("__cn_vector_cast_f32_to_s32", 3).fixed == {"rounding": None}
    assert form("__cn_vector_cast_f32_to_s32_up", 3).fixed == {"rounding": "up"}
    assert form("__cn_vector_add_s64", 4).instruction.name == "add"
    for name in (*vector_functions(), *vector_casts()):
        choices = forms_of(name)
        assert choices, name
        assert [one.arguments[0].name for one in choices] == ["n"] * len(choices), name


def test_hypot_and_relun() -> None:
    a, b = np.array([3, 5, 1e30], np.float32), np.array([4, 12, 1e30], np.float32)
    close(run("hypot", np.empty(3, np.float32), a, b), [5, 13, math.sqrt(2) * 1e30], "float32")
    got = run("relun", np.empty(4, np.float32), np.array([-1, 2, 7, 6], np.float32), nvalue=6)
    assert got.tolist() == [0, 2, 6, 6]


# ---- reductions


@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16", "int32", "int8"])
def test_sums(kind: str) -> None:
    a = values(100, kind, low=-2, high=2)
    result = np.full(3, 7).astype(a.dtype)
    total = sum(float(x) for x in a)
    assert float(run("sum", result, a)[0]) == float(np.array(total).astype(a.dtype))
    assert result[1] == 7
    if is_float(a.dtype):
        each = 128 // a.dtype.itemsize
        lines = np.ones(4 * each).astype(a.dtype)
        lines[:each] = 2
        got = run("reduce_sum", np.full(4 * each, 9).astype(a.dtype), lines)
        assert got[::each].astype(float).tolist() == [2 * each, each, each, each]
        assert set(got[1:each].astype(float).tolist()) == {9}


@pytest.mark.parametrize("kind", ["float16", "float32", "bfloat16", "int32"])
@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("max", lambda x: x),
        ("argmax", lambda x: x),
        ("min", lambda x: -x),
        ("argmin", lambda x: -x),
        ("fabsmax", abs),
        ("fabsmin", lambda x: -abs(x)),
    ],
)
def test_extrema_have_their_index_behind_them(name: str, better: Any, kind: str) -> None:
    a = values(77, kind)
    numbers = [float(x) for x in a]
    index = max(range(77), key=lambda i: (better(numbers[i]), -i))
    width = a.dtype.itemsize
    raw = np.full(16, 0xAB, np.uint8)
    room = raw.view(a.dtype)
    run(name, room, a)
    assert float(room[0]) == (abs(numbers[index]) if name.startswith("fabs") else numbers[index])
    assert int(raw[width : width + 8].view(np.uint64)[0]) == index
    assert set(raw[width + 8 :].tolist()) <= {0xAB}


def test_counts_and_positions() -> None:
    a = np.array([0, -0.0, 1, math.nan, 0, -2, 0], np.float32)
    assert run("count", np.zeros(1, np.uint32), a)[0] == 3
    assert run("findfirst1", np.zeros(1, np.uint32), a)[0] == 2
    assert run("findlast1", np.zeros(1, np.uint32), a)[0] == 5
    assert run("findfirst1", np.zeros(1, np.uint32), np.zeros(9, np.float16))[0] == 0xFFFFFFFF
    assert run("findlast1", np.zeros(1, np.int32), np.zeros(9, np.float16))[0] == -1
    bits = rng.integers(0, 256, 64, np.uint8)
    expected = sum(byte.bit_count() for byte in bits.tolist())
    for name in ("count_bitindex", "popcnt"):
        assert run(name, np.zeros(1, np.uint32), bits.view(np.uint32))[0] == expected


# ---- selection


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "int64"])
def test_selection(kind: str) -> None:
    a = values(64, kind)
    mask = rng.integers(0, 2, 64)
    chosen = [x for x, m in zip(a.tolist(), mask, strict=True) if m]
    by_element = mask.astype(a.dtype)
    by_bit = np.array([sum(int(mask[8 * byte + bit]) << bit for bit in range(8)) for byte in range(8)], np.uint8)
    head = 128 // a.dtype.itemsize
    for name, selector in (("filter", by_element), ("filter_bitindex", by_bit)):
        result = np.full(64, 99).astype(a.dtype)
        run(name, result, a, selector)
        assert result.tolist() == chosen + [99] * (64 - len(chosen))
        in_place = a.copy()
        run(name, in_place, in_place, selector)
        assert in_place.tolist()[: len(chosen)] == chosen
    for name, selector in (("select", by_element), ("select_bitindex", by_bit)):
        result = np.full(head + max(64, head), 99).astype(a.dtype)
        run(name, result, a, selector)
        assert result.view(np.uint32)[0] == len(chosen)
        assert result[head:].tolist()[: len(chosen)] == chosen
        padded = -(-len(chosen) // head) * head
        assert set(result[head:].tolist()[len(chosen) : padded]) <= {0}
    for name, selector in (("maskmove", by_element), ("maskmove_bitindex", by_bit)):
        result = np.full(64, 99).astype(a.dtype)
        assert run(name, result, a, selector).tolist() == [
            x if m else 99 for x, m in zip(a.tolist(), mask, strict=True)
        ]
    other = values(64, kind)
    blend = run("mask_select", np.empty_like(a), by_element, a, other)
    assert blend.tolist() == [x if m else y for x, y, m in zip(a.tolist(), other.tolist(), mask, strict=True)]


@pytest.mark.parametrize("name", BITINDEX)
def test_comparisons_to_bits(name: str) -> None:
    a, b = values(64, "float32", low=-2, high=2), values(64, "float32", low=-2, high=2)
    got = run(name, np.zeros(2, np.float32), a, b).view(np.uint8)
    bits = [(int(got[i // 8]) >> (i % 8)) & 1 for i in range(64)]
    assert bits == [BITINDEX[name](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


# ---- layout


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int8", "complex64"])
def test_matrices(kind: str) -> None:
    a = np.arange(24).astype(dtype_of(kind)).reshape(4, 6)
    at = {
        "transpose": ((6, 4), lambda i, j: (j, i)),
        "rotate90": ((6, 4), lambda i, j: (j, 3 - i)),
        "rotate180": ((4, 6), lambda i, j: (3 - i, 5 - j)),
        "rotate270": ((6, 4), lambda i, j: (5 - j, i)),
        "mirror": ((4, 6), lambda i, j: (i, 5 - j)),
    }
    for name, (shape, goes) in at.items():
        got = run(name, np.zeros(shape, a.dtype), a)
        for i, j in itertools.product(range(4), range(6)):
            assert got[goes(i, j)] == a[i, j], name


def test_pad_and_layouts() -> None:
    a = np.arange(1, 25, dtype=np.int16).reshape(2, 3, 4)
    got = run("pad", np.full((5, 6, 4), 9, np.int16), a, pad_top=1, pad_bottom=2, pad_left=3, pad_right=0)
    assert got[1:3, 3:6].tolist() == a.tolist()
    assert got.sum() == a.sum()
    got = run("pad", np.empty((3, 3, 4), np.int16), a, pad_top=0, pad_bottom=1, pad_left=0, pad_right=0, pad_value=-7)
    assert got[:2].tolist() == a.tolist()
    assert set(got[2].reshape(-1).tolist()) == {-7}
    b = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    nchw = run("reshape_nhwc2nchw", np.zeros((2, 5, 3, 4), np.float32), b)
    assert all(nchw[n, c, h, w] == b[n, h, w, c] for n, h, w, c in np.ndindex(*b.shape))
    assert run("reshape_nchw2nhwc", np.zeros_like(b), nchw).tolist() == b.tolist()
    filters = np.arange(128 * 6, dtype=np.int32).reshape(128, 1, 2, 3)
    laid = run("reshape_filter", np.zeros(128 * 6, np.int32), filters).reshape(64, 2, 6)
    assert all(laid[i % 64, i // 64].tolist() == filters[i].reshape(-1).tolist() for i in range(128))


def test_tables_and_fills() -> None:
    table = np.arange(64, dtype=np.float32) * 3
    index = rng.integers(0, 64, 40).astype(np.uint32)
    got = run("lut", np.zeros(40, np.float32), index, table)
    assert got.tolist() == [3 * int(i) for i in index]
    beyond = np.array([64, 5, 2**32 - 1], np.uint32)
    assert run("lut", np.full(3, 7, np.float32), beyond, table).tolist() == [7, 15, 7]
    assert run("write_value", np.zeros(5, np.float16), value=-1.5).tolist() == [-1.5] * 5
    assert math.copysign(1, run("write_value", np.zeros(1, np.float32), value=-0.0)[0]) == -1
    assert run("fill", np.zeros(3, np.int8), value=7).tolist() == [7] * 3
    assert run("write_value", np.zeros(3, np.int8), value=300).tolist() == [44] * 3
    assert run("write_zero", np.full(5, math.nan)).tobytes() == bytes(40)
    assert run("incseq", np.zeros(9, np.float16)).tolist() == list(range(9))


# ---- pools


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize(("window", "stride"), [((2, 3), (2, 1)), ((1, 4), (4, 1)), ((3, 3), (3, 3)), ((2, 2), None)])
def test_pools(kind: str, window: tuple[int, int], stride: tuple[int, int] | None) -> None:
    """stride is (width, height), as BANG C has it."""
    high, wide, channels = 6, 8, 5
    a = values(high * wide * channels, kind, low=-4, high=4).reshape(high, wide, channels)
    across, down = stride or window[::-1]
    rows, columns = (high - window[0]) // down + 1, (wide - window[1]) // across + 1
    arguments: dict[str, Any] = {"kernel_height": window[0], "kernel_width": window[1]}
    if stride:
        arguments |= {"stride_width": across, "stride_height": down}

    def pixels(i: int, j: int, c: int) -> list[float]:
        return [
            float(a[i * down + y, j * across + x, c]) for y, x in itertools.product(range(window[0]), range(window[1]))
        ]

    shape = (rows, columns, channels)
    for name, fold in (("sumpool", sum), ("maxpool", max), ("minpool", min)):
        got = run(name, np.zeros(shape, a.dtype), a, **arguments)
        for at in np.ndindex(*shape):
            assert float(got[at]) == float(np.array(fold(pixels(*at))).astype(a.dtype)), name
    for name, fold in (("maxpool", max), ("minpool", min)):
        index = run(f"{name}_index", np.zeros(shape, np.uint32), a, **arguments)
        nbytes = index.size * a.dtype.itemsize
        pair = np.zeros(2 * nbytes, np.uint8)
        run(f"{name}_value_index", pair, a, value_index_stride=nbytes, **arguments)
        places = pair[nbytes:].view(f"u{a.dtype.itemsize}").reshape(shape)
        best = pair[:nbytes].view(a.dtype).reshape(shape)
        for at in np.ndindex(*shape):
            found = pixels(*at)
            assert index[at] == places[at] == found.index(fold(found))
            assert float(best[at]) == fold(found)
    if is_float(a.dtype):
        got = run("avgpool", np.zeros(shape, a.dtype), a, **arguments)
        means = [sum(pixels(*at)) / (window[0] * window[1]) for at in np.ndindex(*shape)]
        close(got.reshape(-1), means, kind)


def test_dilated_pools_with_index() -> None:
    a = values(7 * 8 * 2, "float32").reshape(7, 8, 2)
    arguments = {"kernel_height": 2, "kernel_width": 3, "stride_height": 2, "stride_width": 1, "in_dh": 3, "in_dw": 2}
    rows, columns = (7 - 4) // 2 + 1, 8 - 5 + 1
    nbytes = rows * columns * 2 * 4
    pair = run("maxpool_value_index", np.zeros(2 * nbytes, np.uint8), a, value_index_stride=nbytes, **arguments)
    best = pair[:nbytes].view(np.float32).reshape(rows, columns, 2)
    for i, j, c in np.ndindex(rows, columns, 2):
        assert best[i, j, c] == max(a[2 * i + 3 * y, j + 2 * x, c] for y in range(2) for x in range(3))
    lengths = [len(one.arguments) for one in forms_of("__bang_maxpool_value_index")]
    assert lengths == [10, 14]
    shapes, _ = forms_of("__bang_maxpool_value_index")[1].bind(
        [0, 0, 2, 7, 8, 2, 3, 1, 2, nbytes, 3, 2, 1, 1], {"dst": 4, "src": 4}
    )
    assert shapes["dst"] == (2 * rows * columns * 2,)


@pytest.mark.parametrize("overlap", ["ACC", "COVER"])
def test_pools_backward(overlap: str) -> None:
    high, wide, channels, window, across, down = 5, 7, 3, (2, 3), 2, 1
    rows, columns = (high - window[0]) // down + 1, (wide - window[1]) // across + 1
    gradient = values(rows * columns * channels, "float32").reshape(rows, columns, channels)
    places = rng.integers(0, 6, gradient.shape).astype(np.int32)
    arguments = {"kernel_height": 2, "kernel_width": 3, "stride_width": across, "stride_height": down}
    if overlap == "ACC":
        expected = np.zeros((high, wide, channels))
        average = np.zeros_like(expected)
        for i, j, c in np.ndindex(*gradient.shape):
            y, x = divmod(int(places[i, j, c]), 3)
            expected[i * down + y, j * across + x, c] += gradient[i, j, c]
            average[i * down : i * down + 2, j * across : j * across + 3, c] += gradient[i, j, c] / 6
        got = run("maxpool_bp", np.ones_like(expected, np.float32), gradient, places, overlap=overlap, **arguments)
        np.testing.assert_array_equal(got, expected)
        got = run("avgpool_bp", np.ones_like(expected, np.float32), gradient, overlap=overlap, **arguments)
        np.testing.assert_allclose(got, average, rtol=1e-6, atol=1e-6)
    else:
        apart = {**arguments, "stride_width": 3, "stride_height": 2}
        small = gradient[:2, :2].copy()
        accumulated = run("avgpool_bp", np.ones((4, 6, 3), np.float32), small, overlap="ACC", **apart)
        covered = run("avgpool_bp", np.ones((4, 6, 3), np.float32), small, overlap="COVER", **apart)
        np.testing.assert_array_equal(accumulated, covered)


def test_unpool() -> None:
    small = np.array([[[5.0], [6.0]]], np.float32)
    got = run("unpool", np.full((3, 7, 1), 9, np.float32), small, kernel_height=3, kernel_width=2, stride_width=3,
              stride_height=3, index=3)  # fmt: skip
    assert got[:, :, 0].tolist() == [
        [0, 0, 9, 0, 0, 9, 9],
        [0, 5, 9, 0, 6, 9, 9],
        [0, 0, 9, 0, 0, 9, 9],
    ]


# ---- tensor


@pytest.mark.parametrize(("kind", "target"), [("float32", "float32"), ("float16", "float32"), ("int8", "int32")])
def test_matmul_takes_filters_as_reshape_filter_leaves_them(kind: str, target: str) -> None:
    m, n, k = 5, 128, 12
    a, filters = values(m * k, kind).reshape(m, k), values(n * k, kind).reshape(n, k)
    weights = run("reshape_filter", np.empty(n * k, filters.dtype), filters.reshape(n, 1, 1, k))
    got = run("matmul", np.empty((m, n), dtype_of(target)), a, weights)
    for i, j in itertools.product(range(m), range(n)):
        assert float(got[i, j]) == sum(float(x) * float(y) for x, y in zip(a[i], filters[j], strict=True))
    bias = values(n, "float32")
    got = run("mlp", np.empty(n, np.float32), a[0], weights, bias)
    for j in range(n):
        assert got[j] == sum(float(x) * float(y) for x, y in zip(a[0], filters[j], strict=True)) + bias[j]


def test_integer_products_saturate_and_scale() -> None:
    a, weights = np.full((1, 64), 100, np.int8), np.full((64, 64), 100, np.int8)
    assert run("matmul", np.empty((1, 64), np.int16), a, weights)[0, 0] == 32767
    assert run("matmul", np.empty((1, 64), np.float32), a, weights, fix_position=-3)[0, 0] == 640000 / 8


@pytest.mark.parametrize("dilation", [1, 2])
def test_conv(dilation: int) -> None:
    high, wide, inputs, outputs = 6, 7, 3, 64
    a = values(high * wide * inputs, "float32").reshape(high, wide, inputs)
    filters = values(outputs * 2 * 3 * inputs, "float32").reshape(outputs, 2, 3, inputs)
    kernel = run("reshape_filter", np.empty(filters.size, np.float32), filters)
    reach_y, reach_x = dilation + 1, 2 * dilation + 1
    rows, columns = (high - reach_y) // 2 + 1, (wide - reach_x) // 1 + 1
    got = run(
        "conv",
        np.empty((rows, columns, outputs), np.float32),
        a,
        kernel,
        channel_input=inputs,
        kernel_height=2,
        kernel_width=3,
        stride_width=1,
        stride_height=2,
        dilation_width=dilation,
        dilation_height=dilation,
    )
    for i, j, o in np.ndindex(*got.shape):
        expected = sum(
            float(a[2 * i + y * dilation, j + x * dilation, c]) * float(filters[o, y, x, c])
            for y, x, c in np.ndindex(2, 3, inputs)
        )
        assert got[i, j, o] == expected


@pytest.mark.parametrize(("name", "shape"), [("conv_bias", (64,)), ("conv_partial", (2, 3, 64))])
def test_a_convolution_plus_what_was_there(name: str, shape: tuple[int, ...]) -> None:
    a, filters = values(4 * 4 * 2, "float32").reshape(4, 4, 2), values(64 * 2 * 2 * 2, "float32").reshape(64, 2, 2, 2)
    kernel = run("reshape_filter", np.empty(filters.size, np.float32), filters)
    given = {"channel_input": 2, "kernel_height": 2, "kernel_width": 2, "stride_height": 2}
    plain = run("conv", np.empty((2, 3, 64), np.float32), a, kernel, **given)
    addend = values(math.prod(shape), "float32").reshape(shape)
    got = run(name, np.empty((2, 3, 64), np.float32), a, kernel, addend, **given)
    assert got.tolist() == (plain + addend).tolist()


def test_argument_lists_of_products_and_convolutions() -> None:
    """The height of mlp's weights is that of its result; the fourth pointer of conv is the bias."""
    numbers = [128, 12, 3]
    shapes, attributes = form("__bang_mlp", 7).bind([0, 0, 0, 0, *numbers], dict.fromkeys(("dst", "src", "bias"), 4))
    assert (shapes["dst"], shapes["src"], shapes["bias"]) == ((128,), (12,), (128,))
    assert attributes["fix_position"] == 3
    lists = [(one.instruction.name, len(one.arguments)) for one in forms_of("__bang_conv")]
    assert lists == [("conv", n) for n in (11, 12, 14, 15, 16)] + [("conv_bias", n) for n in (12, 13, 15, 16, 17)]
    dilated = forms_of("__bang_conv")[2]
    shapes, _ = dilated.bind([0, 0, 0, 8, 9, 10, 3, 2, 1, 2, 64, 0, 3, 2], {"dst": 4, "src": 4, "kernel": 4})
    assert shapes["dst"] == ((9 - 5) // 2 + 1, (10 - 4) // 1 + 1, 64)


@pytest.mark.parametrize(("kind", "target"), [("int16", "int32"), ("float32", "float32"), ("int8", "int16")])
def test_integral(kind: str, target: str) -> None:
    source = values(192, kind, low=-2, high=2)
    side = 64 // source.dtype.itemsize
    kernel = np.zeros(4096 // source.dtype.itemsize, source.dtype)
    kernel[: side * side] = np.tril(np.ones((side, side))).reshape(-1)
    got = run("integral", np.empty(192, dtype_of(target)), source, kernel)
    total = 0.0
    for x, y in zip(source.tolist(), got.tolist(), strict=True):
        total += x
        assert y == total


@pytest.mark.parametrize("mode", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_comparison_by_mode(mode: str) -> None:
    a, b = values(40, "float32", low=-2, high=2), values(40, "float32", low=-2, high=2)
    got = run("fcmpfilter", np.empty(40, np.float32), a, b, mode=mode)
    assert got.tolist() == run(mode.lower(), np.empty(40, np.float32), a, b).tolist()
    got = run("fcmpfilter", np.empty(40, np.float32), a, np.float32(0.5), mode=mode)
    assert got.tolist() == run(mode.lower(), np.empty(40, np.float32), a, np.full(40, 0.5, np.float32)).tolist()


def test_expansion_of_channels() -> None:
    weights, a, b = values(6, "float32"), values(24, "float32"), values(24, "float32")
    scratch = np.zeros(1, np.float32)
    got = run("expand_channel_mul", np.empty(24, np.float32), weights, scratch, a)
    assert got.tolist() == [a[i] * weights[i // 4] for i in range(24)]
    got = run("expand_channel_mul_add", np.empty(24, np.float32), weights, scratch, a, b)
    assert got.tolist() == [a[i] * weights[i // 4] + b[i] for i in range(24)]


# ---- conversions


@pytest.mark.parametrize("target", [FLOAT16, BFLOAT16], ids=str)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_narrow_floats_round_in_every_mode(rounding: str, target: Any) -> None:
    """Against a search among all values of the narrower type."""
    with np.errstate(invalid="ignore"):
        finite = np.arange(1 << 16, dtype=np.uint16).view(target).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    source = np.concatenate(
        [
            (rng.standard_normal(200) * 10.0 ** rng.integers(-6, 4, 200)).astype(np.float32),
            ((finite[20000:20040] + finite[20001:20041]) / 2).astype(np.float32),
            np.array([0.0, -0.0, 1.0], np.float32),
        ]
    )
    got = run("convert", np.empty(source.size, target), source, rounding=rounding).astype(np.float64)
    for x, y in zip(source.astype(np.float64), got, strict=True):
        low, high = finite[finite <= x].max(), finite[finite >= x].min()
        near = low if x - low < high - x else high
        tie = low != high and x - low == high - x
        expected = {
            "tz": low if x > 0 else high,
            "dn": low,
            "up": high,
            "oz": high if x > 0 else low,
            "rd": near if not tie else (high if x > 0 else low),
            "rm": near if not tie else high,
            "rn": float(np.float64(np.float32(x).astype(target))),
        }[rounding]
        assert y == expected, (x, rounding)


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [
        (None, [1, -1, 2, -2, 0]),
        ("tz", [1, -1, 2, -2, 0]),
        ("rn", [2, -2, 2, -2, 0]),
        ("rd", [2, -2, 3, -3, 1]),
        ("dn", [1, -2, 2, -3, 0]),
        ("up", [2, -1, 3, -2, 1]),
        ("oz", [2, -2, 3, -3, 1]),
        ("rm", [2, -1, 3, -2, 1]),
    ],
)
def test_floats_to_integers(rounding: str | None, expected: list[int]) -> None:
    source = np.array([1.5, -1.5, 2.5, -2.5, 0.5], np.float32)
    assert run("convert", np.empty(5, np.int32), source, rounding=rounding).tolist() == expected


@pytest.mark.parametrize(
    ("rounding", "expected"),
    [("rn", 2**24), ("tz", 2**24), ("up", 2**24 + 2), ("oz", 2**24 + 2), ("rd", 2**24 + 2), ("dn", 2**24)],
)
def test_integers_to_floats_round(rounding: str, expected: int) -> None:
    source = np.array([2**24 + 1], np.int32)
    assert run("convert", np.empty(1, np.float32), source, rounding=rounding)[0] == expected


def test_positions_scale_by_powers_of_two() -> None:
    assert run(
        "convert", np.empty(2, np.int8), np.array([40, -24], np.float32), rounding="rn", position=3
    ).tolist() == [
        5,
        -3,
    ]
    assert run("convert", np.empty(2, np.float32), np.array([5, -3], np.int16), position=3).tolist() == [40, -24]


def test_positions_between_integers_are_of_each_side() -> None:
    found = form("__bang_short2int", 5)
    _, attributes = found.bind([0, 0, 2, 3, 5], {"dst": 4, "src": 2})
    source = np.array([1, -3], np.int16)
    # 1 * 2^5 is 4 * 2^3.
    assert run("convert", np.empty(2, np.int32), source, **attributes).tolist() == [4, -12]
    assert run("convert", np.empty(2, np.int8), np.array([5, -700], np.int16), position=1, rounding="dn").tolist() == [
        2,
        -128,
    ]


@pytest.mark.parametrize("rounding", [None, *ROUNDINGS])
def test_int4(rounding: str | None) -> None:
    source = np.array([1.5, -2.5, 0.25, 99, -99, -0.75, 7, np.nan], np.float32)
    expected = {
        None: [2, -2, 0, 7, -8, -1, 7, 0],
        "rn": [2, -2, 0, 7, -8, -1, 7, 0],
        "tz": [1, -2, 0, 7, -8, 0, 7, 0],
        "dn": [1, -3, 0, 7, -8, -1, 7, 0],
        "up": [2, -2, 1, 7, -8, 0, 7, 0],
        "rd": [2, -3, 0, 7, -8, -1, 7, 0],
        "oz": [2, -3, 1, 7, -8, -1, 7, 0],
        "rm": [2, -2, 0, 7, -8, -1, 7, 0],
    }[rounding]
    packed = run("to_int4", np.empty(4, np.uint8), source, rounding=rounding)
    assert [byte & 15 for byte in packed.tolist()] == [number % 16 for number in expected[::2]]
    assert [byte >> 4 for byte in packed.tolist()] == [number % 16 for number in expected[1::2]]
    assert run("from_int4", np.empty(8, np.float16), packed).tolist() == expected
    assert run("from_int4", np.empty(8, np.int8), packed).tolist() == expected
    assert run("from_int4", np.empty(8, np.float32), packed, position=-1).tolist() == [x / 2 for x in expected]
    assert run("to_int4", np.empty(4, np.uint8), source * 2, rounding=rounding, position=1).tolist() == packed.tolist()


@pytest.mark.parametrize(
    ("name", "dst", "src", "message"),
    [
        ("to_int4", np.empty(16, np.uint8), np.ones(8, np.float32), "dst has 1 B for 2 elements of src, which has 8"),
        (
            "from_int4",
            np.empty(8, np.float32),
            np.ones(16, np.uint8),
            "dst has 2 elements for 1 B of src, which has 16 B",
        ),
    ],
)
def test_the_packed_side_of_int4_is_the_right_one(name: str, dst: Any, src: Any, message: str) -> None:
    operands = [Extent(one.shape, one.itemsize) for one in (dst, src)]
    assert message in INSTRUCTIONS[name].geometry(operands, {"rounding": None, "position": 0})


@pytest.mark.parametrize(("kind", "target"), [("int8", "int32"), ("int16", "float32"), ("float16", "float32")])
def test_histogram(kind: str, target: str) -> None:
    source = values(256, kind)
    lanes = 64 // source.itemsize
    kernel = np.repeat(np.arange(-32, 32).astype(kind), lanes)
    expected = [sum(float(x) == k for x in source.tolist()) for k in range(-32, 32)]
    assert run("histogram", np.empty(64, target), source, kernel).tolist() == expected


def test_random_numbers_are_uniform_and_follow_from_the_seed() -> None:
    drawn = [run("rand", np.empty(1 << 16, np.int16), seed=seed) for seed in (1, 1, 2)]
    assert np.array_equal(drawn[0], drawn[1])
    assert (drawn[0] == drawn[2]).mean() < 0.01
    counts = np.bincount((drawn[0].astype(np.int64) + 32768) // 4096, minlength=16)
    assert abs(counts - 4096).max() < 6 * 64


@pytest.mark.parametrize("source", sorted(set(TYPE_WORDS)))
def test_conversions_by_name(source: str) -> None:
    for target in TYPE_WORDS:
        if source == target:
            continue
        for ending in ("", *(f"_{mode}" for mode in ROUNDINGS)):
            found = form(f"__bang_{source}2{target}{ending}", 3)
            assert found.instruction is INSTRUCTIONS["convert"]
            assert found.fixed == {"rounding": ending[1:] or None}


# ---- BANG C's argument lists


def every_form() -> list[tuple[str, Form]]:
    return [(name, one) for name in BY_INTRINSIC for one in forms_of(name)]


@pytest.mark.parametrize(("name", "one"), every_form(), ids=lambda item: item if isinstance(item, str) else "")
def test_forms_name_the_operands_and_attributes(name: str, one: Form) -> None:
    entry: Instruction = one.instruction
    names = {argument.name for argument in one.arguments}
    stands = {attribute for argument in one.arguments for attribute in argument.stands_for}
    for operand in entry.operands:
        assert operand.name in names or operand.number or entry.to_register, name
    for attribute in entry.attributes:
        assert attribute in stands or attribute in entry.defaults or attribute in one.fixed, name
    pointers = [argument for argument in one.arguments if argument.shape is not None]
    assert {argument.name for argument in pointers} <= {operand.name for operand in entry.operands} | {"src_addition"}


def test_a_call_becomes_shapes_and_attributes() -> None:
    transposed = form("__bang_transpose", 4)
    assert transposed.bind([0, 0, 3, 5], {"dst": 4, "src": 4})[0] == {"dst": (5, 3), "src": (3, 5)}
    pool = form("__bang_sumpool", 9)
    shapes, attributes = pool.bind([0, 0, 64, 6, 8, 2, 3, 1, 2], {"dst": 2, "src": 2})
    assert shapes == {"dst": (3, 6, 64), "src": (6, 8, 64)}
    assert attributes == {"kernel_height": 2, "kernel_width": 3, "stride_width": 1, "stride_height": 2}
    fused = form("__bang_fusion", 6)
    shapes, attributes = fused.bind(["FMA", 0, 0, 2.0, 0, 96], {"dst": 4, "src0": 4, "src2": 4})
    assert shapes == {"dst": (96,), "src0": (96,), "src1": 2.0, "src2": (96,)}
    assert attributes == {"operation": "FMA"}
    bits = form("__bang_gt_bitindex", 4)
    assert bits.bind([0, 0, 0, 256], {"dst": 4, "src0": 4, "src1": 4})[0]["dst"] == (8,)
    padded = form("__bang_pad", 7)
    shapes, attributes = padded.bind([0, 0, 4, 5, 6, 1, 2], {"dst": 4, "src": 4})
    assert shapes["dst"] == (7, 10, 4)
    assert attributes == {"pad_top": 1, "pad_bottom": 1, "pad_left": 2, "pad_right": 2, "pad_value": 0}
    valued = form("__bang_pad", 10)
    shapes, attributes = valued.bind([0, 0, 4, 5, 6, 1, 2, 3, 4, 7], {"dst": 4, "src": 4})
    assert shapes["dst"] == (8, 13, 4)
    assert attributes["pad_value"] == 7
    both = form("__bang_int322int16", 5)
    assert both.bind([0, 0, 8, 3, 1], {"dst": 2, "src": 4})[1]["position"] == 2


def test_unknown_intrinsics_name_the_nearest() -> None:
    with pytest.raises(OperandError, match=r"^__bang_ad is not an instruction; did you mean __bang_p?ad"):
        form("__bang_ad", 4)
    with pytest.raises(OperandError, match=r"^__bang_add takes 4 arguments, not 2$"):
        form("__bang_add", 2)


def test_first_sources_decide_the_type() -> None:
    for entry in INSTRUCTIONS.values():
        assert entry.operands[0].name == "dst"
        assert any(operand.match is Match.SAME for operand in entry.operands)
        assert entry.summary[0].islower() or entry.summary[0].isdigit(), entry.name
