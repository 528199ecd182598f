"""cast: every element converted to another type. docs/semantics.md defines it; `cores.convert` has the pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from numpy.typing import ArrayLike

from mlusim.cores.convert import steps
from mlusim.dtypes import Dtype, dtype_name, dtype_of, is_complex
from mlusim.errors import InputError
from mlusim.hardware import Board, board
from mlusim.kernels.bitcast import copy_tiles
from mlusim.kernels.cast import cast_tiles
from mlusim.ops.common import Call, Input, RunOptions, check_choice
from mlusim.ops.operator import Operator, Tensor, apply
from mlusim.planning.flat import STRATEGIES, plan_flat
from mlusim.planning.plan import Plan
from mlusim.results.result import Result


def cast(
    x: ArrayLike,
    dtype: object,
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """The elements of x converted to another type, as the vector unit converts them.

    The same type is a bit copy. To bool: x != 0. Integers wrap. To a float: nearest even, overflow to infinity; 32-
    and 64-bit sources reach 16- and 8-bit floats through float32, in two roundings. Float to integer truncates and
    saturates, and NaN gives 0.

    Args:
        x: any shape and element type, contiguous or not.
        dtype: the target: a NumPy dtype, a name, or CINN's `Float(32)` and the like.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "pingpong" or "serial" (`kernels.flat_plan.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape.

    Raises `InputError` for an element type that the board does not know and for complex to real, and what a run raises.
    """
    return apply(CAST, (x,), {"dtype": dtype}, device, strategy, options)


def plan_cast(
    shape: Sequence[int],
    source: object,
    target: object,
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
) -> Plan:
    """The plan of a cast from one element type to another, without running it. Arguments and errors as `cast`."""
    check_choice("strategy", strategy, STRATEGIES)
    origin, end = dtype_of(source), dtype_of(target)
    _check("x", origin, end)
    return _plan(board(device), math.prod(int(extent) for extent in shape), origin, end, strategy)


def _check(name: str, source: Dtype, target: Dtype) -> None:
    if is_complex(source) and not is_complex(target):
        raise InputError(
            f"cast: {name} is {dtype_name(source)} and cannot become {dtype_name(target)}: complex to real would drop "
            f"the imaginary part; cast {name}.real, {name}.imag or abs({name})"
        )


def _plan(on: Board, count: int, source: Dtype, target: Dtype, strategy: str) -> Plan:
    return plan_flat(on, count, source.itemsize, target.itemsize, len(steps(source, target)), strategy, "cast")


def _infer(x: Tensor, *, dtype: object) -> tuple[tuple[int, ...], Dtype]:
    target = dtype_of(dtype)
    _check(x.name, x.dtype, target)
    return x.shape, target


def _prepare(on: Board, strategy: str, x: Input, *, dtype: object) -> Call:
    source, target = dtype_of(x.array.dtype), dtype_of(dtype)
    passes = len(steps(source, target))
    return Call(
        kernel=cast_tiles if passes else copy_tiles,
        plan=_plan(on, x.array.size, source, target, strategy),
        inputs=(x,),
        output_dtype=target,
        theory_ops=x.array.size * passes,
        output_shape=x.array.shape,
    )


CAST = Operator(name="cast", tensors=("x",), infer=_infer, prepare=_prepare, strategies=tuple(STRATEGIES))
