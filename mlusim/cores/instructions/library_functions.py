"""Functions of the vendor's vector library that no single instruction computes, such as `__cn_vector_pow_f32`.

The library computes them in several steps, and its last bits differ; the simulator computes each in IEEE arithmetic, in
one instruction. ASSUMED: it takes as long as the most expensive function of the vector unit among its steps. Results in
special cases are those of the public header, `bang_math_decls.h`, which are C's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import function, stream
from mlusim.cores.instructions.functions import one_operand, widen, widened
from mlusim.cores.instructions.record import ANY, DST, FLOATS, INTEGERS, SERIES_3XX, SRC, Instruction, Match, Operand
from mlusim.cores.instructions.rounding import DIRECTED, round_result

_NORMAL = NormalDist()
_LN_10 = math.log(10)


def _elementwise(operation: Callable[[float], float]) -> Callable[[Array], Array]:
    """Return a function that applies a function of one number to each element of an array."""

    def of_array(a: Array) -> Array:
        return np.fromiter((operation(x) for x in a.reshape(-1).tolist()), np.float64, a.size).reshape(a.shape)

    return of_array


def _erfcinv(x: float) -> float:
    if not 0 < x < 2:
        return {0.0: math.inf, 2.0: -math.inf}.get(x, math.nan)
    return -_NORMAL.inv_cdf(x / 2) / math.sqrt(2)


def _erfinv(x: float) -> float:
    if not -1 < x < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    # Near 0, the series' first term; a step of Newton's method makes either value exact to float32.
    estimate = x * math.sqrt(math.pi) / 2 if abs(x) < 1e-3 else math.copysign(_erfcinv(1 - abs(x)), x)
    return estimate - (math.erf(estimate) - x) * math.sqrt(math.pi) / 2 * math.exp(estimate * estimate)


def _names(name: str) -> tuple[str, str]:
    """Return the names of a function of the library, for float and for half."""
    return f"__cn_vector_{name}_f32", f"__cn_vector_{name}_f16"


def _unary(name: str, operation: Callable[[Array], Array], summary: str, cost: str) -> Instruction:
    """Return a function of one operand; `cost`: the class of functions whose time it takes, "" for one pass."""
    return one_operand(
        name,
        widened(operation),
        summary,
        group="Functions",
        intrinsics=_names(name),
        types=FLOATS,
        cost=function(cost) if cost else stream,
        exact=not cost,
    )


def _binary(
    name: str, operation: Callable[[Array, Array], Array], summary: str, cost: str, **properties: Any
) -> Instruction:
    """Return a function of two operands; `cost` as in `_unary`, `properties` replaces properties of the instruction."""

    def compute(result: Array, a: Array, b: Array) -> None:
        second = b.reshape(-1) if b.dtype.kind in "iu" else widen(b.reshape(-1))
        np.copyto(result.reshape(-1), operation(widen(a.reshape(-1)), second), casting="unsafe")

    return Instruction(
        name=name,
        summary=summary,
        group="Functions",
        compute=compute,
        c_signatures=("dst[n] src0[n] src1[n] n",),
        types=FLOATS,
        cost=function(cost) if cost else stream,
        exact=not cost,
        **{
            "intrinsics": _names(name),
            "operands": (DST, Operand("src0"), Operand("src1")),
            **properties,
        },
    )


def _test(name: str, operation: Callable[[Array], Array], summary: str) -> Instruction:
    """Return a test of each element, whose result is an integer as wide as the operand."""
    return one_operand(
        name,
        lambda a: operation(widen(a)).astype(np.int8),
        summary,
        group="Comparison",
        intrinsics=_names(name),
        operands=(Operand("dst", Match.WIDTH, ANY), SRC),
        types=FLOATS,
    )


def _rounded_arithmetic(name: str, operation: str, rounding: str) -> Instruction:
    """Return arithmetic that rounds in another mode than to nearest; `name`: recip, or that of its `operation`."""

    def compute(result: Array, *sources: Array) -> None:
        *first, last = (source.reshape(-1) for source in sources)
        np.copyto(
            result.reshape(-1), round_result(operation, first[0] if first else np.ones_like(last), last, rounding)
        )

    is_reciprocal = name == "recip"
    return Instruction(
        name=f"{name}_{rounding}",
        summary=f"dst = {_SYMBOLS[name]}, rounded {_DIRECTIONS[rounding]}",
        group="Arithmetic",
        compute=compute,
        intrinsics=tuple(
            f"__cn_vector_{'rcp' if is_reciprocal else name}_{kind}_{rounding}" for kind in ("f32", "f16")
        ),
        c_signatures=("dst[n] src[n] n" if is_reciprocal else "dst[n] src0[n] src1[n] n",),
        operands=(DST, SRC) if is_reciprocal else (DST, Operand("src0"), Operand("src1")),
        types=FLOATS,
        cost=function("divide") if operation == "div" else stream,
    )


_DIRECTIONS = {"dn": "down", "up": "up", "tz": "to zero"}
_SYMBOLS = {"add": "src0 + src1", "sub": "src0 - src1", "mul": "src0 * src1", "div": "src0 / src1", "recip": "1 / src"}
LIBRARY: list[Instruction] = [
    *(
        _rounded_arithmetic(name, "div" if name == "recip" else name, rounding)
        for name in _SYMBOLS
        for rounding in DIRECTED
        # `add_tz` is an instruction of the hardware.
        if (name, rounding) != ("add", "tz")
    ),
    _unary("tan", np.tan, "dst = the tangent of src in radians", "trig"),
    _unary("asin", np.arcsin, "dst = the arc sine of src", "trig"),
    _unary("acos", np.arccos, "dst = the arc cosine of src", "trig"),
    _unary("atan", np.arctan, "dst = the arc tangent of src", "trig"),
    _unary("sinh", np.sinh, "dst = the hyperbolic sine of src", "exp"),
    _unary("cosh", np.cosh, "dst = the hyperbolic cosine of src", "exp"),
    _unary("expm1", np.expm1, "dst = e to the power of src, minus 1", "exp"),
    _unary("exp10", lambda a: np.exp(a.astype(np.float64) * _LN_10), "dst = 10 to the power of src", "exp"),
    _unary("log1p", np.log1p, "dst = the natural logarithm of 1 + src", "log"),
    _unary("log10", np.log10, "dst = the decimal logarithm of src", "log"),
    _unary("erf", _elementwise(math.erf), "dst = the error function of src", "exp"),
    _unary("erfinv", _elementwise(_erfinv), "dst = the inverse of the error function at src", "exp"),
    _unary("erfcinv", _elementwise(_erfcinv), "dst = the inverse of 1 minus the error function at src", "exp"),
    _unary("trunc", np.trunc, "dst = src rounded to zero", ""),
    _binary("pow", np.power, "dst = src0 to the power of src1", "exp"),
    _binary("atan2", np.arctan2, "dst = the angle of the point (src1, src0), from -pi to pi", "trig"),
    _binary(
        "hypot",
        np.hypot,
        "dst = the square root of src0 squared plus src1 squared",
        "root",
        intrinsics=("__cn_vector_hypot_f32",),
        since=SERIES_3XX,
    ),
    _binary(
        "scalbn",
        # Beyond these exponents every result is 0 or infinite. NumPy takes no exponents of 64 bits without a sign, and
        # NumPy 2.0 no negative limit for integers without a sign.
        lambda a, b: np.ldexp(a, np.clip(b.astype(np.float64), -999, 999).astype(np.int32)),
        "dst = src0 times 2 to the power of the integer src1",
        "",
        operands=(DST, Operand("src0"), Operand("src1", Match.FREE, INTEGERS)),
    ),
    _binary(
        "fmax",
        np.fmax,
        "dst = the larger of src0 and src1; the other where one is NaN",
        "",
        intrinsics=_names("max"),
    ),
    _binary(
        "fmin",
        np.fmin,
        "dst = the smaller of src0 and src1; the other where one is NaN",
        "",
        intrinsics=_names("min"),
    ),
    _test("isnan", np.isnan, "dst, an integer, = 1 where src is NaN, else 0"),
    _test("isinf", np.isinf, "dst, an integer, = 1 where src is infinite, else 0"),
]
