"""tin_shift: groups of channels move along time, each by its own shift, and zeros move in (Temporal Interlacing).

docs/semantics.md defines it, after the tin_shift document of mlu-ops, where |shift| >= T and INT_MIN are left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.dtypes import FLOAT16, FLOAT32, INT32, Dtype, dtype_name, dtype_of
from mlusim.errors import InputError
from mlusim.hardware import Board, board
from mlusim.kernels.tin_shift import kernel_of
from mlusim.ops.common import Call, Input, RunOptions, check_choice
from mlusim.ops.operator import Operator, Tensor, apply
from mlusim.planning.plan import Plan
from mlusim.planning.tin_shift import STRATEGIES
from mlusim.planning.tin_shift import plan_tin_shift as split
from mlusim.results.result import Result

_RULES = ("mluop", "adjoint")
_RANK = 4


def tin_shift_forward(
    x: ArrayLike,
    shifts: ArrayLike,
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """out[n, t, c] = x[n, t - k, c] where 0 <= t - k < T, else +0.0, with k = shifts[n, c // (C / G)].

    Args:
        x: [N, T, C, HW], float16 or float32, contiguous or not. T may be 0; N, C and HW may not.
        shifts: [N, G] int32, C a multiple of G. Any value: `|k| >= T` gives zeros.
        device: a preset's name, a TOML file, or a board.
        strategy: "documented" (the three tiers as mlu-ops describes them), "shipped", "tight", "batched", "pingpong",
            or "auto", the faster of the last two by prediction (`kernels.tin_shift_plan.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output is [N, T, C, HW] of x's dtype, bits as they were (NaN payloads, -0.0).

    Raises `InputError` for shapes and dtypes that break these rules, and what a run raises.
    """
    return apply(FORWARD, (x, shifts), {}, device, strategy, options)


def tin_shift_backward(
    grad: ArrayLike,
    shifts: ArrayLike,
    rule: str = "mluop",
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """The backward operator. By default it is NOT the gradient: it shifts the same way as the forward one.

    mlu-ops runs the identical kernel forward and backward and does not negate the shifts, nor does mmcv's CUDA kernel.
    The gradient of a shift by k is a shift by -k; `rule="adjoint"` gives that.

    Args:
        grad: [N, T, C, HW], float16 or float32: the gradient of the forward output.
        shifts: [N, G] int32, those of the forward operator.
        rule: "mluop": grad_in[n, t] = grad[n, t - k], as upstream; "adjoint": grad_in[n, t] = grad[n, t + k]. Zeros
            outside.
        device, strategy, options: as `tin_shift_forward`.

    Returns and raises as `tin_shift_forward`.
    """
    check_choice("rule", rule, _RULES)
    return apply(BACKWARD, (grad, shifts), {"sign": -1 if rule == "adjoint" else 1}, device, strategy, options)


def plan_tin_shift(
    shape: Sequence[int],
    groups: int = 1,
    dtype: object = "float32",
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    operator: str = "tin_shift_forward",
) -> Plan:
    """The plan of a tin_shift, without running it.

    Args:
        shape: (N, T, C, HW).
        groups: G, the second extent of shifts.
        dtype: float16 or float32.
        device, strategy: as `tin_shift_forward`.
        operator: what the plan calls itself.

    Raises as `tin_shift_forward`, and `PlanError` where not one element fits in NRAM.
    """
    extents = tuple(int(extent) for extent in shape)
    element = dtype_of(dtype)
    check_tin_shift("x", extents, element, (*extents[:1], groups), INT32)
    return _plan(extents, groups, element, device, strategy, operator)


def check_tin_shift(
    name: str, shape: tuple[int, ...], dtype: Dtype, shifts_shape: tuple[int, ...], shifts_dtype: Dtype
) -> None:
    """Raise `InputError` unless shapes and dtypes fit the operator; `name` is what its first tensor is called."""
    if len(shape) != _RANK:
        raise InputError(
            f"{name} has shape {list(shape)}, rank {len(shape)}: tin_shift takes [N, T, C, HW]; "
            f"reshape it, H and W as one axis"
        )
    if len(shifts_shape) != 2:  # noqa: PLR2004
        raise InputError(
            f"shifts has shape {list(shifts_shape)}, rank {len(shifts_shape)}: it is [N, G], one shift for each batch "
            "entry and group; shifts.reshape(N, -1)"
        )
    if dtype not in (FLOAT16, FLOAT32):
        raise InputError(f"{name} is {_type(dtype)}: tin_shift takes float16 or float32; {name}.astype('float32')")
    if shifts_dtype != INT32:
        raise InputError(f"shifts is {_type(shifts_dtype)}: it is int32; shifts.astype('int32')")
    batch, _, channels, hw = shape
    groups = shifts_shape[1]
    if shifts_shape[0] != batch:
        raise InputError(
            f"{name} has N = {batch} batch entries and shifts has {shifts_shape[0]}: the first dimensions are equal; "
            "give one row of shifts for each batch entry"
        )
    if not (batch and channels and groups and hw):
        raise InputError(
            f"{name} has shape {list(shape)} and shifts {list(shifts_shape)}: N, C, G and HW are at least 1, only T "
            "may be 0; skip the call where there is nothing to shift"
        )
    if channels % groups:
        near = next(divisor for divisor in range(groups, 0, -1) if channels % divisor == 0)
        raise InputError(
            f"C = {channels} channels do not divide into G = {groups} groups: C is a multiple of G; G = {near} would do"
        )


def _infer(x: Tensor, shifts: Tensor, **_: int) -> tuple[tuple[int, ...], Dtype]:
    check_tin_shift(x.name, x.shape, x.dtype, shifts.shape, shifts.dtype)
    return x.shape, x.dtype


def _prepare(operator: str, on: Board, strategy: str, x: Input, shifts: Input, *, sign: int = 1) -> Call:
    dtype = dtype_of(x.array.dtype)
    plan = _plan(x.array.shape, shifts.array.shape[1], dtype, on, strategy, operator)
    return Call(kernel=kernel_of(plan), plan=plan, inputs=(x, shifts), output_dtype=dtype, arguments=(sign,))


FORWARD = Operator(
    name="tin_shift_forward",
    tensors=("x", "shifts"),
    infer=_infer,
    prepare=partial(_prepare, "tin_shift_forward"),
    strategies=tuple(STRATEGIES),
    reads_values=("shifts",),
)
BACKWARD = replace(
    FORWARD,
    name="tin_shift_backward",
    tensors=("grad", "shifts"),
    prepare=partial(_prepare, "tin_shift_backward"),
)


def _plan(
    shape: tuple[Any, ...], groups: int, dtype: Dtype, device: str | Path | Board, strategy: str, operator: str
) -> Plan:
    check_choice("strategy", strategy, STRATEGIES)
    return split(board(device), shape, groups, dtype, strategy, operator)


def _type(dtype: Dtype) -> str:
    try:
        return dtype_name(dtype)
    except InputError:
        return str(dtype)
