"""cast: conversion of every element to another type, defined in docs/semantics.md; pairs: `cores.convert`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Unpack

from numpy.typing import ArrayLike

from mlusim.cores.convert import steps
from mlusim.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, Dtype, dtype_name, is_complex
from mlusim.errors import InputError, shown
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.kernels.bitcast import copy_tiles
from mlusim.kernels.cast import cast_tiles, clamps
from mlusim.ops.argument_errors import explained
from mlusim.ops.call import Launches, RunOptions
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Attribute, Tensor
from mlusim.ops.shared_arguments import DTYPE, X, one_tensor
from mlusim.planning.elementwise import STRATEGIES, plan_elementwise
from mlusim.planning.plan import Plan
from mlusim.results.result import Result

_NARROW = (FLOAT8_E4M3FN, FLOAT8_E5M2)


@explained
def cast(
    x: ArrayLike,
    dtype: object,
    *,
    saturate: bool = False,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Convert the elements of x to another type, as the vector unit does.

    A cast to the same type is a bitwise copy. To bool: x != 0. Integers wrap. To a float: round to nearest even,
    overflow to infinity; 32- and 64-bit sources are converted to 16- and 8-bit floats through float32, with two
    roundings. Float to integer truncates and saturates, and NaN becomes 0. Overflow to float8_e4m3fn, which has no
    infinity, becomes NaN unless `saturate` is set. A real number becomes a complex one with imaginary part +0; both
    parts of a complex number are converted.

    Args:
        x: any shape and element type, contiguous or not.
        dtype: the target: a NumPy dtype, a name, or CINN's `Float(32)` etc.
        saturate: only for float8_e4m3fn and float8_e5m2: values beyond the finite range, including infinities, become
            the largest finite value of their sign, and NaN stays NaN: the default of ONNX Cast. It costs up to two
            vector instructions.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "pingpong" or "serial" (`planning.elementwise.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape.

    Raises `InputError` for an element type that the board does not support and for complex to real; and the errors of a
    run.
    """
    return apply(CAST, (x,), {"dtype": dtype, "saturate": saturate}, device, strategy, options)


def _infer(x: Tensor, *, dtype: Dtype, saturate: bool) -> tuple[tuple[int, ...], Dtype]:
    if is_complex(x.dtype) and not is_complex(dtype):
        raise InputError(
            f"cast: {x.name} is {dtype_name(x.dtype)} and cannot become {dtype_name(dtype)}: complex to real would "
            f"drop the imaginary part; cast {x.name}.real, {x.name}.imag or abs({x.name})"
        )
    if not isinstance(saturate, bool):
        raise InputError(f"cast: saturate={shown(saturate)} is not a boolean: pass True or False")
    if saturate and dtype not in _NARROW:
        raise InputError(
            f"cast: saturate=True to {dtype_name(dtype)}: only casts to float8_e4m3fn and float8_e5m2 saturate on "
            "demand (floats to integers always do, integers wrap, other floats overflow to infinity); omit saturate"
        )
    if saturate and x.dtype == FLOAT8_E5M2 != dtype:
        raise InputError(
            f"cast: {x.name} is float8_e5m2, which the vector unit converts but does not compute on; cast it to "
            "float32 first, then cast the result with saturate=True"
        )
    return x.shape, dtype


def _passes(source: Dtype, target: Dtype, *, saturate: bool) -> int:
    return len(steps(source, target)) + (len(clamps(source, target)) if saturate else 0)


def _plan(board: Board, strategy: str, x: Tensor, *, dtype: Dtype, saturate: bool) -> Plan:
    passes = _passes(x.dtype, dtype, saturate=saturate)
    if saturate and x.dtype == BFLOAT16 and board.needs_aligned_vectors:
        raise InputError(
            f"cast: saturate=True from bfloat16 on {board.name}: the vector unit of arch {board.arch} does not compute "
            "on bfloat16; cast it to float32 first, then with saturate=True"
        )
    return plan_elementwise(board, math.prod(x.shape), x.dtype.itemsize, dtype.itemsize, passes, strategy, "cast")


def _launches(_: Plan, x: Tensor, *, dtype: Dtype, saturate: bool) -> Launches:
    passes = _passes(x.dtype, dtype, saturate=saturate)
    return Launches(
        kernels=(cast_tiles if passes else copy_tiles,),
        arguments=(True,) if saturate and passes else (),
        theory_ops=math.prod(x.shape) * passes,
    )


CAST = Operator(
    name="cast",
    inputs=(X,),
    attributes=(
        DTYPE,
        Attribute(
            name="saturate",
            kind="flag",
            default=False,
            quiet=True,
            help="For float8: values out of range become the largest finite value of their sign, as is the default "
            "in ONNX.",
        ),
    ),
    strategies=STRATEGIES,
    infer=_infer,
    plan=_plan,
    launches=_launches,
    example=one_tensor,
    usage="--input x.npy --dtype float16 --out y.npy",
    example_usage="--shape 4194304 --dtype int8",
    data_option="input_dtype",
)
