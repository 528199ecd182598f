"""Elementwise intrinsics in C++ on special values, in place, and at sizes and addresses of all kinds, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from called_intrinsics import FLOATS, POISON, Array, assert_equal, compiled, results, values
from mlusim import bangc


def _bits(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    def on_bits(a: Array, b: Array) -> Array:
        return function(a.view(f"u{a.itemsize}"), b.view(f"u{a.itemsize}")).view(a.dtype)

    return on_bits


def _truth(function: Callable[[Any, Any], Any]) -> Callable[[Array, Array], Array]:
    return lambda a, b: function(a != 0, b != 0)


BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "maxequal": np.maximum,
    "minequal": np.minimum,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": _truth(np.logical_and),
    "or": _truth(np.logical_or),
    "xor": _truth(np.logical_xor),
    "band": _bits(np.bitwise_and),
    "bor": _bits(np.bitwise_or),
    "bxor": _bits(np.bitwise_xor),
}
SINCE_300: dict[str, Callable[[Array, Array], Any]] = {"maximum": np.fmax, "minimum": np.fmin}
OF_FLOATS: dict[str, Callable[[Array, Array], Any]] = {
    "div": lambda a, b: a / b,
    "nan_maximum": np.maximum,
    "nan_minimum": np.minimum,
}
SCALAR = ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor", "band", "bor", "bxor")
UNARY: dict[str, Callable[[Array], Any]] = {
    "square": lambda a: a * a,
    "abs": np.abs,
    "active_abs": np.abs,
    "neg": np.negative,
    "not": lambda a: a == 0,
    "bnot": lambda a: np.invert(a.view(f"u{a.itemsize}")).view(a.dtype),
    "relu": lambda a: np.where(a > 0, a, np.where(np.isnan(a), a, a.dtype.type(0))),
    "active_relu": lambda a: np.where(a > 0, a, np.where(np.isnan(a), a, a.dtype.type(0))),
}
FUNCTIONS: dict[str, Callable[[Array], Any]] = {
    "sqrt": np.sqrt,
    "recip": np.reciprocal,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin,
    "cos": np.cos,
    "exp": np.exp,
    "log2": np.log2,
    "pow2": np.exp2,
    "tanh": np.tanh,
    "active_exp": np.exp,
    "active_exphp": np.exp,
    "active_exp_less_0": np.exp,
    "active_log": np.log,
    "active_recip": np.reciprocal,
    "active_reciphp": np.reciprocal,
    "active_sqrt": np.sqrt,
    "active_rsqrt": lambda a: 1 / np.sqrt(a),
    "active_tanh": np.tanh,
    "active_sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "active_loghp": np.log,
    "active_sqrthp": np.sqrt,
    "active_sin": np.sin,
    "active_cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
}
CYCLE = {f"cycle_{name}": function for name, function in {**BINARY, **SINCE_300}.items()}
IN_PLACE = ("add", "mul", "lt", "and", "bxor", "maxequal")
CALLS: dict[str, Callable[..., Any]] = {
    **{f"__bang_{name}(out, a, b, n)": function for name, function in {**BINARY, **SINCE_300}.items()},
    **{f"__bang_{name}({to}, a, b, n)": BINARY[name] for name in IN_PLACE for to in ("a", "b")},
    **{f"__bang_{name}(out, a, b, n, m)": function for name, function in CYCLE.items()},
    "__bang_cycle_sub(a, a, b, n, m)": BINARY["sub"],
    **{f"__bang_{name}_scalar(out, a, T(s), n)": BINARY[name] for name in SCALAR},
    "__bang_maxeq_scalar(out, a, T(s), n)": np.maximum,
    "__bang_mineq_scalar(out, a, T(s), n)": np.minimum,
    "__bang_mul_scalar(a, a, T(s), n)": BINARY["mul"],
    "__bang_add_const(out, a, T(s), n)": BINARY["add"],
    **{f"__bang_{name}(out, a, n)": function for name, function in UNARY.items()},
    "__bang_square(a, a, n)": UNARY["square"],
}
CALLS_OF_FLOATS: dict[str, Callable[..., Any]] = {
    **{f"__bang_{name}(out, a, b, n)": function for name, function in OF_FLOATS.items()},
    "__bang_div(b, a, b, n)": OF_FLOATS["div"],
    **{f"__bang_{name}(out, a, n)": function for name, function in FUNCTIONS.items()},
    "__bang_active_exp(a, a, n)": np.exp,
}
RARE = ("bfloat16_t", "uint16_t")
TWO = 2.0  # the number in calls with a scalar
# Elements of a and b, elements of a segment, and the offset of all operands from an aligned address.
SIZES = ((256, 32, 0), (37, 37, 1), (1, 1, 3))
BOARDS = ("mlu370-x4", pytest.param("mlu590-h8", marks=pytest.mark.slow))


@pytest.fixture(scope="module", params=BOARDS)
def module(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    return compiled(list(CALLS), tmp_path_factory.mktemp("calls"), request.param)


@pytest.fixture(scope="module", params=BOARDS)
def of_floats(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bangc.Module:
    return compiled(list(CALLS_OF_FLOATS), tmp_path_factory.mktemp("calls"), request.param)


@pytest.mark.parametrize(
    "type_name", ["float", "half", "int", "int8_t", *(pytest.param(name, marks=pytest.mark.slow) for name in RARE)]
)
def test_arithmetic_comparison_and_logic(module: bangc.Module, type_name: str) -> None:
    for n, m, offset in SIZES:
        a, b = values(type_name, n, seed=n), values(type_name, n, seed=n + 1)
        rows = results(module, type_name, (a, b), len(CALLS), n=n, m=m, offset=offset, s=TWO)
        for row, (call, function) in zip(rows, CALLS.items(), strict=True):
            second = (
                np.full(n, TWO).astype(a.dtype) if "T(s)" in call else np.resize(b[:m], n) if "cycle" in call else b
            )
            operands = {"a": a, "b": second} if call.count(",") > 2 else {"a": a}
            with np.errstate(all="ignore"):
                expected = function(*operands.values()).astype(a.dtype)
            assert_equal(row[:n], expected, call, operands)
            if "(out," in call:
                assert set(row[n:].view(np.uint8)) == {POISON}, f"{call} wrote beyond its {n} elements"


@pytest.mark.parametrize("type_name", FLOATS)
@pytest.mark.grid(4)
def test_division_and_functions(of_floats: bangc.Module, type_name: str) -> None:
    for n, m, offset in SIZES:
        a, b = values(type_name, n, seed=n), values(type_name, n, seed=n + 1)
        rows = results(of_floats, type_name, (a, b), len(CALLS_OF_FLOATS), n=n, m=m, offset=offset)
        for row, (call, function) in zip(rows, CALLS_OF_FLOATS.items(), strict=True):
            operands = {"a": a, "b": b} if call.count(",") > 2 else {"a": a}
            with np.errstate(all="ignore"):
                expected = function(*(one.astype(np.float64) for one in operands.values())).astype(a.dtype)
            tolerance = 3 * float(ml_dtypes.finfo(a.dtype).eps)
            assert_equal(row[:n], expected, call, operands, tolerance)
