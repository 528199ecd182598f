"""tin_shift: groups of channels move along time, each by its own shift, and zeros move in (Temporal Interlacing).

Defined in docs/semantics.md after the tin_shift document of mlu-ops, which leaves |shift| >= T and INT_MIN open.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.dtypes import FLOAT16, FLOAT32, INT32, Dtype, dtype_name
from mlusim.errors import InputError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.host.random_tensors import RandomTensors
from mlusim.inputs import check_choice
from mlusim.kernels.tin_shift import kernel_of
from mlusim.ops.argument_errors import converted, explained
from mlusim.ops.call import Launches, RunOptions
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Attribute, Options, Tensor, TensorSchema
from mlusim.planning.plan import Plan
from mlusim.planning.tin_shift import STRATEGIES, plan_tin_shift
from mlusim.results.result import Result

_RULES = ("mluop", "adjoint")
_RANK = 4
# Numbers of groups that the remedy tries: bounded, so that the error comes at once for any G.
_TRIED = 65_536


@explained
def tin_shift_forward(
    x: ArrayLike,
    shifts: ArrayLike,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """out[n, t, c] = x[n, t - k, c] if 0 <= t - k < T, else +0.0, where k = shifts[n, c // (C / G)].

    Args:
        x: [N, T, C, HW], float16 or float32, contiguous or not. T may be 0; N, C and HW may not.
        shifts: [N, G] int32, C a multiple of G. Any value is allowed; where `|k| >= T`, the result is zeros.
        device: a preset's name, a TOML file, or a board.
        strategy: "documented" (the three tiers as described by mlu-ops), "shipped", "tight", "batched", "pingpong", or
            "auto", the faster of the last two by prediction (`planning.tin_shift.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output is [N, T, C, HW] of x's dtype, bits unchanged (NaN payloads, -0.0).

    Raises `InputError` for shapes and dtypes that break these rules, and the errors of a run.
    """
    return apply(FORWARD, (x, shifts), {}, device, strategy, options)


@explained
def tin_shift_backward(
    grad: ArrayLike,
    shifts: ArrayLike,
    rule: str = "mluop",
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """The backward operator. By default it is NOT the gradient: it shifts in the same direction as the forward one.

    mlu-ops runs the identical kernel forward and backward without negating the shifts, as does mmcv's CUDA kernel. The
    gradient of a shift by k is a shift by -k; `rule="adjoint"` computes that.

    Args:
        grad: [N, T, C, HW], float16 or float32: the gradient of the forward output.
        shifts: [N, G] int32, those of the forward operator.
        rule: "mluop": grad_in[n, t] = grad[n, t - k], as upstream; "adjoint": grad_in[n, t] = grad[n, t + k]. Zeros
            outside.
        device, strategy, options: as in `tin_shift_forward`.

    Returns and raises as `tin_shift_forward`.
    """
    return apply(BACKWARD, (grad, shifts), {"rule": rule}, device, strategy, options)


def check_tin_shift(
    name: str, shape: tuple[int, ...], dtype: Dtype, shifts_shape: tuple[int, ...], shifts_dtype: Dtype
) -> None:
    """Raise `InputError` unless shapes and dtypes fit the operator; `name` is the first tensor's name in messages."""
    if len(shape) != _RANK:
        raise InputError(
            f"{name} has shape {list(shape)}, rank {len(shape)}: tin_shift takes [N, T, C, HW]; "
            f"reshape it, H and W as one axis"
        )
    if len(shifts_shape) != 2:
        raise InputError(
            f"shifts has shape {list(shifts_shape)}, rank {len(shifts_shape)}: it must be [N, G], one shift for each "
            "batch entry and group; shifts.reshape(N, -1)"
        )
    if dtype not in (FLOAT16, FLOAT32):
        rule = "tin_shift takes float16 or float32"
        raise InputError(f"{name} is {_type(dtype)}: {rule}; {converted(name, 'float32')}")
    if shifts_dtype != INT32:
        raise InputError(f"shifts is {_type(shifts_dtype)}: it must be int32; {converted('shifts', 'int32')}")
    batch, _, channels, hw = shape
    groups = shifts_shape[1]
    if shifts_shape[0] != batch:
        raise InputError(
            f"{name} has N = {batch} batch entries and shifts has {shifts_shape[0]}: the first dimensions must be "
            "equal; give one row of shifts for each batch entry"
        )
    if not (batch and channels and groups and hw):
        raise InputError(
            f"{name} has shape {list(shape)} and shifts {list(shifts_shape)}: N, C, G and HW must be at least 1; only "
            "T may be 0; skip the call where there is nothing to shift"
        )
    if channels % groups:
        max_groups = min(groups, channels)
        candidates = range(max_groups, max(max_groups - _TRIED, 0), -1)
        fitting = next((divisor for divisor in candidates if channels % divisor == 0), 1)
        raise InputError(
            f"C = {channels} channels do not divide into G = {groups} groups: C must be a multiple of G; "
            f"G = {fitting} would do"
        )


def _type(dtype: Dtype) -> str:
    try:
        return dtype_name(dtype)
    except InputError:
        return str(dtype)


def _infer(x: Tensor, shifts: Tensor, *, rule: str = "mluop") -> tuple[tuple[int, ...], Dtype]:
    check_choice("rule", rule, _RULES)
    check_tin_shift(x.name, x.shape, x.dtype, shifts.shape, shifts.dtype)
    return x.shape, x.dtype


def _plan(operator: str, board: Board, strategy: str, x: Tensor, shifts: Tensor, **_: Any) -> Plan:
    shape: Any = x.shape
    return plan_tin_shift(board, shape, shifts.shape[1], x.dtype, strategy, operator)


def _launches(plan: Plan, *_: Tensor, rule: str = "mluop") -> Launches:
    return Launches(kernels=(kernel_of(plan),), arguments=(-1 if rule == "adjoint" else 1,))


def _example(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    if len(shape) != _RANK:
        raise InputError(f"shape of rank {len(shape)}: tin_shift takes N,T,C,HW, such as 2,8,256,196")
    batch, time, channels, _ = shape
    groups = options["groups"] or next((g for g in (4, 3, 2) if channels % g == 0), 1)
    # Shifts of up to half the time in both directions, so that both retained and vacated rows are exercised.
    farthest = max(time // 2, 1)
    return [draw.elements(shape, dtype), draw.integers(-farthest, farthest + 1, (batch, groups))]


_X = TensorSchema(name="x", option="input", help="[N, T, C, HW], float16 or float32.")
_SHIFTS = TensorSchema(
    name="shifts",
    help="[N, G], int32: one shift for each batch entry and group of C / G channels.",
    values_matter=True,
    dtype="int32",
)
_SUMMARIES = {name: strategy.summary for name, strategy in STRATEGIES.items()}

FORWARD = Operator(
    name="tin_shift_forward",
    command="tin_shift",
    inputs=(_X, _SHIFTS),
    strategies=_SUMMARIES,
    infer=_infer,
    plan=partial(_plan, "tin_shift_forward"),
    launches=_launches,
    example=_example,
    example_attributes=(
        Attribute(
            name="groups",
            kind="count",
            help="With --shape: groups of channels, each with its own shift. [default: 4, or a divisor of the "
            "channels]",
        ),
    ),
    usage="--input clip.npy --shifts shifts.npy --out shifted.npy --report reports/",
    example_usage="--shape 2,8,256,196 --dtype float16",
)
BACKWARD = replace(
    FORWARD,
    name="tin_shift_backward",
    inputs=(replace(_X, name="grad"), _SHIFTS),
    attributes=(
        Attribute(
            name="rule",
            kind="choice",
            default="mluop",
            choices=_RULES,
            help="Backward only. mluop: as in mlu-ops, which is NOT the gradient; adjoint: the gradient.",
        ),
    ),
    plan=partial(_plan, "tin_shift_backward"),
    variant=Attribute(
        name="backward", kind="flag", default=False, help="The backward operator instead of the forward one."
    ),
)
