"""Functions and activations, and fused arithmetic.

The board approximates most of these with tables or short series; the simulator computes them in IEEE arithmetic, in
float32 for the 16-bit types, rounded once. The last bits of a board differ. Outside the range that the vendor
documents for an activation (such as -7.75 to 10.25 for `active_exp`), the simulator returns the exact function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import function
from mlusim.cores.instructions.numerics import Ufunc, unary
from mlusim.cores.instructions.record import (
    ARCH_322,
    DST,
    FLOATS,
    NUMBERS,
    SERIES_2XX,
    SERIES_3XX,
    Extent,
    Instruction,
    Operand,
    Overlap,
)
from mlusim.cores.instructions.rounding import compute_fused
from mlusim.memory.allocation import POISON

_CUBIC = 0.044715


def widen(array: Array) -> Array:
    """Convert to the type in which functions are computed: float32 for narrower floats, else the type itself."""
    return array if array.dtype.itemsize >= 4 and array.dtype.kind == "f" else array.astype(np.float32)


def widened(operation: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return an operation that computes in that type."""
    return lambda a: operation(widen(a))


def one_operand(
    name: str, operation: Ufunc, summary: str, *, group: str, intrinsics: tuple[str, ...] = (), **properties: Any
) -> Instruction:
    """Return an instruction that computes each element of dst from one of src."""
    return Instruction(
        name=name,
        summary=summary,
        group=group,
        compute=unary(operation),
        intrinsics=intrinsics or ("__bang_{}",),
        c_signatures=("dst[n] src[n] n",),
        **properties,
    )


def sigmoid(a: Array) -> Array:
    """1 / (1 + exp(-a)), computed without overflow."""
    exponential = np.exp(-np.abs(a))
    values: Array = np.where(a >= 0, 1 / (1 + exponential), exponential / (1 + exponential)).astype(a.dtype)
    return values


def gelu(a: Array) -> Array:
    """The tanh form: a/2 (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3)))."""
    doubles = a.astype(np.float64)
    values: Array = doubles / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (doubles + _CUBIC * doubles**3)))
    return values


def softplus(a: Array) -> Array:
    """log(1 + exp(a))."""
    values: Array = np.logaddexp(a, a.dtype.type(0))
    return values


def _rsqrt(a: Array) -> Array:
    values: Array = 1 / np.sqrt(a)
    return values


def _relun(result: Array, a: Array, *, nvalue: Any) -> None:
    np.copyto(result, np.clip(a, 0, nvalue).astype(result.dtype).reshape(result.shape))


def _function(
    name: str,
    operation: Callable[[Array], Array],
    summary: str,
    cost: str,
    *intrinsics: str,
    since: int = SERIES_2XX,
    group: str = "Functions",
) -> Instruction:
    properties: dict[str, Any] = {"types": FLOATS, "cost": function(cost), "since": since, "exact": False}
    return one_operand(name, widened(operation), summary, group=group, intrinsics=intrinsics, **properties)


FUNCTIONS: list[Instruction] = [
    _function("exp", np.exp, "dst = e to the power of src", "exp", since=SERIES_3XX),
    _function("log", np.log2, "dst = the binary logarithm of src, as in the vendor's header", "log"),
    _function("log2", np.log2, "dst = the binary logarithm of src", "log"),
    _function("pow2", np.exp2, "dst = 2 to the power of src", "exp", "__bang_pow2", "__bang_active_pow2"),
    _function("sqrt", np.sqrt, "dst = the square root of src", "root"),
    _function("rsqrt", _rsqrt, "dst = 1 / the square root of src", "root"),
    _function("recip", np.reciprocal, "dst = 1 / src", "divide"),
    _function("sin", np.sin, "dst = the sine of src in radians", "trig", "__bang_sin", "__cn_vector_sin_f32"),
    _function("cos", np.cos, "dst = the cosine of src in radians", "trig", "__bang_cos", "__cn_vector_cos_f32"),
    _function("tanh", np.tanh, "dst = the hyperbolic tangent of src", "activation", since=SERIES_3XX),
]

_activation = partial(_function, group="Activations")
ACTIVATIONS: list[Instruction] = [
    _activation("active_exp", np.exp, "dst = e to the power of src", "activation"),
    _activation("active_exphp", np.exp, "dst = e to the power of src, more precise", "exp"),
    _activation("active_exp_less_0", np.exp, "dst = e to the power of src, for src < 0", "activation"),
    _activation("active_log", np.log, "dst = the natural logarithm of src", "activation"),
    _activation("active_loghp", np.log, "dst = the natural logarithm of src, more precise", "log"),
    _activation("active_sqrt", np.sqrt, "dst = the square root of src", "activation"),
    _activation("active_sqrthp", np.sqrt, "dst = the square root of src, more precise", "root"),
    _activation("active_rsqrt", _rsqrt, "dst = 1 / the square root of src", "activation"),
    _activation("active_rsqrthp", _rsqrt, "dst = 1 / the square root of src, more precise", "root"),
    _activation("active_recip", np.reciprocal, "dst = 1 / src", "activation"),
    _activation("active_reciphp", np.reciprocal, "dst = 1 / src, more precise", "divide"),
    _activation("active_recip_greater_1", np.reciprocal, "dst = 1 / src, for src > 1", "activation"),
    _activation("active_sin", np.sin, "dst = the sine of src, within 2 pi of 0", "activation"),
    _activation("active_cos", np.cos, "dst = the cosine of src, within 2 pi of 0", "activation"),
    _activation("active_tanh", np.tanh, "dst = the hyperbolic tangent of src", "activation"),
    _activation(
        "active_sigmoid",
        sigmoid,
        "dst = 1 / (1 + exp(-src))",
        "activation",
        "__bang_active_sigmoid",
        "__bang_active_sigmoid_hp",
    ),
    _activation("active_gelu", gelu, "dst = gelu(src), the tanh form", "activation"),
    _activation("active_gelup", gelu, "dst = gelu(src), the tanh form, more precise", "activation"),
    Instruction(
        name="relun",
        summary="dst = src clamped between 0 and nvalue",
        group="Activations",
        compute=_relun,
        c_signatures=("dst[n] src[n] n nvalue",),
        attributes=("nvalue",),
        types=FLOATS,
    ),
]


def _taylor(name: str, operation: Callable[[Array], Array], summary: str, terms: int) -> Instruction:
    """Return a series with two scratch vectors of the source's size, whose contents are undefined afterwards."""

    def compute(result: Array, a: Array, aux1: Array, aux2: Array) -> None:
        unary(widened(operation))(result, a)
        for scratch in (aux1, aux2):
            # Undefined, as fresh memory is.
            scratch.reshape(-1).view(np.uint8)[...] = POISON

    def marks(result: Array, source: Array, *_: Array) -> None:
        np.copyto(result, source.reshape(result.shape))

    return Instruction(
        name=f"taylor{terms}_{name}",
        summary=f"{summary}, by {terms} terms of its series; aux1 and aux2 are scratch of src's size",
        group="Series",
        compute=compute,
        c_signatures=("dst[n] src[n] aux1[n] aux2[n] n",),
        operands=(DST, Operand("src"), Operand("aux1", scratch=True), Operand("aux2", scratch=True)),
        types=FLOATS,
        overlap=Overlap.APART,
        marks=marks,
        count=lambda _, __: 2 * terms,
        exact=False,
    )


SERIES: list[Instruction] = [
    _taylor(name, operation, summary, terms)
    for name, operation, summary in (
        ("sin", np.sin, "dst = the sine of src"),
        ("cos", np.cos, "dst = the cosine of src"),
        ("tanh", np.tanh, "dst = the hyperbolic tangent of src"),
        ("sigmoid", sigmoid, "dst = 1 / (1 + exp(-src))"),
        ("softplus", softplus, "dst = log(1 + exp(src))"),
    )
    for terms in (3, 4)
]

# The last two letters of each name the operation on the first two operands, then the operation with the third.
_STEP = {"A": np.add, "S": np.subtract, "M": np.multiply}
FUSION_OPERATIONS = ("FMA", "FMS", "FAM", "FSM", "FAA", "FAS", "FSS", "FSA")


def _fusion(result: Array, a: Array, b: Array, c: Array, *, operation: str) -> None:
    """Round once, as a fused multiply-add does."""
    flat = a.reshape(-1)
    second, third = (np.resize(x.reshape(-1), flat.shape) if x.ndim else x for x in (b, c))
    if flat.dtype.kind in "iu":
        values = _STEP[operation[2]](_STEP[operation[1]](flat, second), third)
    else:
        values = compute_fused(operation[1], operation[2], flat, second, third)
    np.copyto(result.reshape(-1), values)


def _fusion_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    if attributes["operation"] not in FUSION_OPERATIONS:
        return f"the operation must be one of {', '.join(FUSION_OPERATIONS)}"
    result, source, *others = operands
    if result.size != source.size:
        return "dst and src0 need the same number of elements"
    if any(not other.size or source.size % other.size for other in others):
        return "the number of elements of src0 must be a multiple of that of src1 and of src2"
    return ""


FUSED: list[Instruction] = [
    Instruction(
        name="fusion",
        summary="dst = (src0 op src1) op src2, rounded once; operation is FMA, FMS, FAM, FSM, FAA, FAS, FSS or FSA",
        group="Arithmetic",
        compute=_fusion,
        c_signatures=(
            "operation dst[n] src0[n] src1[m]|number src2[m]|number n m",
            "operation dst[n] src0[n] src1[n]|number src2[n]|number n",
        ),
        operands=(DST, Operand("src0"), Operand("src1", number=True), Operand("src2", number=True)),
        attributes=("operation",),
        types=NUMBERS,
        geometry=_fusion_sizes,
        since=ARCH_322,
    ),
]
