"""Elementwise instructions: arithmetic, comparison, logic and bits; with a number operand and in `cycle_` form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import function
from mlusim.cores.instructions.functions import one_operand
from mlusim.cores.instructions.numerics import (
    COMPARISONS,
    Ufunc,
    add_to_zero,
    binary,
    cycle,
    divide,
    on_bits,
    relu,
    remainder,
    round_half_away,
    shift_left,
    shift_right,
    sign,
)
from mlusim.cores.instructions.record import (
    ARCH_322,
    DST,
    FLOATS,
    INTEGERS,
    NUMBERS,
    SERIES_2XX,
    SERIES_3XX,
    Extent,
    Instruction,
    Operand,
    Overlap,
    same_size,
)
from mlusim.dtypes import BOOL

SRC0 = Operand("src0")
SRC1 = Operand("src1", number=True)
SEG = Operand("seg")


def cycle_sizes(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    """Check that result and source are equally long and a whole number of segments."""
    result, source, segment = (operand.size for operand in operands)
    if result != source:
        return "dst and src need the same number of elements"
    return (
        "" if segment and source % segment == 0 else "the number of elements of src must be a multiple of that of seg"
    )


def _compare(result: Array, a: Array, b: Array, *, mode: str) -> None:
    binary(_MODES[mode])(result, a, b)


def _known_mode(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    if attributes["mode"] not in _MODES:
        return f"the mode must be one of {', '.join(_MODES)}"
    return same_size(operands, attributes)


# Names of comparisons as an attribute.
_MODES = {name.upper(): operation for name, (operation, _) in COMPARISONS.items()}


def _two_operands(
    name: str,
    operation: Ufunc,
    summary: str,
    *,
    group: str,
    intrinsics: tuple[str, ...] = (),
    scalar: bool = True,
    cycles: bool = True,
    **properties: Any,
) -> list[Instruction]:
    """Return an instruction on two vectors, or a vector and a number, and its `cycle_` form."""
    stem = name.rstrip("_")
    spellings = ("__bang_{}", "__bang_{}_scalar") if scalar else ("__bang_{}",)
    main = Instruction(
        name=name,
        summary=summary,
        group=group,
        compute=binary(operation),
        ufunc=operation if isinstance(operation, np.ufunc) else None,
        intrinsics=intrinsics or spellings,
        operands=(DST, SRC0, SRC1),
        **({"c_signatures": ("dst[n] src0[n] src1[n]|number n",)} | properties),
    )
    if not cycles:
        return [main]
    return [
        main,
        replace(
            main,
            name=f"cycle_{stem}",
            summary=f"{summary.replace('src0', 'src').replace('src1', 'seg')}; seg repeats along src",
            compute=cycle(operation),
            ufunc=None,
            intrinsics=("__bang_{}",),
            c_signatures=("dst[n] src[n] seg[m] n m",),
            operands=(DST, Operand("src"), SEG),
            geometry=cycle_sizes,
        ),
    ]


_arithmetic = partial(_two_operands, group="Arithmetic")
_arithmetic_alone = partial(one_operand, group="Arithmetic")
ARITHMETIC: list[Instruction] = [
    *_arithmetic(
        "add", np.add, "dst = src0 + src1", intrinsics=("__bang_add", "__bang_add_scalar", "__bang_add_const")
    ),
    *_arithmetic(
        "add_tz",
        add_to_zero,
        "dst = src0 + src1, rounded to zero",
        intrinsics=("__bang_add_tz", "__cn_vector_add_f32_tz", "__cn_vector_add_f16_tz"),
        types=FLOATS,
    ),
    *_arithmetic(
        "sub", np.subtract, "dst = src0 - src1", intrinsics=("__bang_sub", "__bang_sub_scalar", "__bang_sub_const")
    ),
    *_arithmetic(
        "mul", np.multiply, "dst = src0 * src1", intrinsics=("__bang_mul", "__bang_mul_scalar", "__bang_mul_const")
    ),
    *_arithmetic(
        "div",
        divide,
        "dst = src0 / src1; integers truncate",
        intrinsics=("__bang_div", "__cn_vector_div_f32_rn", "__cn_vector_div_s32"),
        # Arch 372 requires a scratch buffer.
        c_signatures=("dst[n] src0[n] src1[n]|number n", "dst[n] src0[n] src1[n]|number src_addition[n] n"),
        cycles=False,
        cost=function("divide"),
    ),
    *_arithmetic(
        "rem",
        remainder,
        "dst = the remainder of src0 / src1, with src0's sign",
        intrinsics=("__bang_rem", "__cn_vector_mod_scalar_u64"),
        cycles=False,
        since=SERIES_3XX,
        cost=function("divide"),
    ),
    *_arithmetic(
        "maxequal",
        np.maximum,
        "dst = the larger of src0 and src1; NaN where either is",
        intrinsics=("__bang_maxequal", "__bang_maxeq_scalar"),
    ),
    *_arithmetic(
        "minequal",
        np.minimum,
        "dst = the smaller of src0 and src1; NaN where either is",
        intrinsics=("__bang_minequal", "__bang_mineq_scalar"),
    ),
    # ASSUMED: they pass over NaN, since the public header has names of their own for those that do not, and a kernel
    # of the vendor adds NaN to the result of `__bang_maximum`.
    *_arithmetic(
        "maximum",
        np.fmax,
        "dst = the larger of src0 and src1; the other where one is NaN",
        scalar=False,
        since=SERIES_3XX,
    ),
    *_arithmetic(
        "minimum",
        np.fmin,
        "dst = the smaller of src0 and src1; the other where one is NaN",
        scalar=False,
        since=SERIES_3XX,
    ),
    *_arithmetic(
        "nan_maximum",
        np.maximum,
        "dst = the larger of src0 and src1; NaN where either is",
        scalar=False,
        since=SERIES_3XX,
        types=FLOATS,
    ),
    *_arithmetic(
        "nan_minimum",
        np.minimum,
        "dst = the smaller of src0 and src1; NaN where either is",
        scalar=False,
        since=SERIES_3XX,
        types=FLOATS,
    ),
    _arithmetic_alone("square", np.square, "dst = src * src"),
    _arithmetic_alone("abs", np.abs, "dst = the magnitude of src", intrinsics=("__bang_abs", "__bang_active_abs")),
    _arithmetic_alone("neg", np.negative, "dst = -src"),
    _arithmetic_alone(
        "floor", np.floor, "dst = src rounded down", types=FLOATS, since=SERIES_3XX, overlap=Overlap.APART
    ),
    _arithmetic_alone("ceil", np.ceil, "dst = src rounded up", types=FLOATS, since=SERIES_3XX),
    _arithmetic_alone(
        "round",
        round_half_away,
        "dst = src rounded to the nearest integer, halves away from zero",
        types=FLOATS,
        since=SERIES_3XX,
        overlap=Overlap.APART,
    ),
    _arithmetic_alone("relu", relu, "dst = the larger of src and 0", intrinsics=("__bang_relu", "__bang_active_relu")),
    _arithmetic_alone(
        "sign",
        sign,
        "dst = 1 where src >= 0 (including -0.0), else -1",
        types=FLOATS,
        intrinsics=("__bang_active_sign",),
    ),
]

_COMPARISON = "Comparison"
COMPARISON: list[Instruction] = [
    instruction
    for name, (operation, sign_) in COMPARISONS.items()
    for instruction in _two_operands(
        name,
        operation,
        f"dst = 1 where src0 {sign_} src1, else 0",
        group=_COMPARISON,
        types={**NUMBERS, BOOL: SERIES_2XX},
        intrinsics=("__bang_{}", "__bang_{}_scalar", *(("__bang_ge_const",) if name == "ge" else ())),
    )
]

COMPARISON += [
    Instruction(
        name="fcmpfilter",
        summary="dst = 1 where src0 and src1 compare as mode says (EQ, NE, LT, LE, GT or GE), else 0",
        group=_COMPARISON,
        compute=_compare,
        c_signatures=("mode dst[n] src0[n] src1[n]|number n",),
        operands=(DST, SRC0, SRC1),
        attributes=("mode",),
        types=FLOATS,
        geometry=_known_mode,
        since=ARCH_322,
    )
]

_logic = partial(_two_operands, group="Logic and bits")
_logic_alone = partial(one_operand, group="Logic and bits")
LOGIC: list[Instruction] = [
    *_logic("and_", np.logical_and, "dst = 1 where src0 and src1 are not 0, else 0"),
    *_logic("or_", np.logical_or, "dst = 1 where src0 or src1 is not 0, else 0"),
    *_logic("xor", np.logical_xor, "dst = 1 where exactly one of src0 and src1 is not 0, else 0"),
    _logic_alone("not_", np.logical_not, "dst = 1 where src is 0, else 0"),
    *_logic("band", on_bits(np.bitwise_and), "dst = src0 & src1, bit by bit"),
    *_logic("bor", on_bits(np.bitwise_or), "dst = src0 | src1, bit by bit"),
    *_logic("bxor", on_bits(np.bitwise_xor), "dst = src0 ^ src1, bit by bit"),
    _logic_alone("bnot", on_bits(np.bitwise_not), "dst = ~src, bit by bit"),
    *_logic(
        "sll",
        shift_left,
        "dst = src0 shifted left by src1 bits",
        types=INTEGERS,
        scalar=False,
        cycles=False,
        since=SERIES_3XX,
    ),
    *_logic(
        "srl",
        shift_right,
        "dst = src0 shifted right by src1 bits, with zeros shifted in",
        types=INTEGERS,
        scalar=False,
        cycles=False,
        since=SERIES_3XX,
    ),
]
