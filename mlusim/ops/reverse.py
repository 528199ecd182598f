"""reverse, its alias flip, and reverse_sequence. Defined in docs/semantics.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.dtypes import INT32, INT64, Dtype, dtype_name
from mlusim.errors import InputError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.host.random_tensors import RandomTensors
from mlusim.kernels.reverse import reverse_tiles
from mlusim.kernels.reverse_sequence import reverse_sequence_tiles
from mlusim.ops.argument_errors import converted, explained
from mlusim.ops.axes import normal_axes, normal_axis
from mlusim.ops.call import RunOptions, single
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Attribute, Options, Tensor, TensorSchema
from mlusim.ops.shared_arguments import X, extent, one_tensor
from mlusim.planning.plan import Plan
from mlusim.planning.reverse import STRATEGIES, plan_reverse
from mlusim.planning.reverse_sequence import STRATEGIES as SEQUENCE_STRATEGIES
from mlusim.planning.reverse_sequence import plan_reverse_sequence
from mlusim.results.result import Result

Axes = int | Sequence[int]
_SEQUENCE_RANK = 2


@explained
def reverse(
    x: ArrayLike,
    axis: Axes,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """out[i] = x[j], where j = n - 1 - i along the given axes.

    Args:
        x: any shape and element type, contiguous or not.
        axis: one axis or several, without repetition; negative ones count from the end. An empty list is a copy.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "strided", "mirror" or "mixed" (`planning.reverse.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape and dtype, bits unchanged.

    Raises `InputError` for an axis out of range or repeated (like NumPy and torch; other libraries toggle), and the
    errors of a run.
    """
    return apply(REVERSE, (x,), {"axis": axis}, device, strategy, options)


@explained
def flip(
    x: ArrayLike,
    axis: Axes,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Alias of `reverse`, under the name used by CINN's document; arguments, result and errors are the same."""
    return apply(FLIP, (x,), {"axis": axis}, device, strategy, options)


@explained
def reverse_sequence(
    x: ArrayLike,
    seq_lengths: ArrayLike,
    seq_axis: int = 1,
    batch_axis: int = 0,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Reverse the first L elements of each batch entry along the sequence axis; copy the others.

    out[.., b, .., s, ..] = x[.., b, .., L - 1 - s, ..] for s < L, else x[.., b, .., s, ..]; L is seq_lengths[b],
    clamped to 0 and the extent of the sequence axis (as in TVM).

    Args:
        x: rank 2 or more, any element type, contiguous or not.
        seq_lengths: int32 or int64, one per element of the batch axis. Read on the board, not by the host.
        seq_axis, batch_axis: different; negative ones count from the end.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "strided" or "staged" (`planning.reverse_sequence.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape and dtype, bits unchanged.

    Raises `InputError` for axes out of range or equal and for seq_lengths of another rank, length or dtype, and the
    errors of a run.
    """
    attributes = {"seq_axis": seq_axis, "batch_axis": batch_axis}
    return apply(REVERSE_SEQUENCE, (x, seq_lengths), attributes, device, strategy, options)


def _infer(operator: str, x: Tensor, *, axis: Axes) -> tuple[tuple[int, ...], Dtype]:
    normal_axes(operator, "axis", axis, len(x.shape))
    return x.shape, x.dtype


def _plan(operator: str, board: Board, strategy: str, x: Tensor, *, axis: Axes) -> Plan:
    axes = normal_axes(operator, "axis", axis, len(x.shape))
    return plan_reverse(board, x.shape, axes, x.dtype.itemsize, strategy, operator)


def _infer_sequence(x: Tensor, seq_lengths: Tensor, *, seq_axis: int, batch_axis: int) -> tuple[tuple[int, ...], Dtype]:
    _, batch = _sequence_axes(x.name, x.shape, seq_axis, batch_axis)
    name, entries = seq_lengths.name, x.shape[batch]
    if seq_lengths.shape != (entries,):
        raise InputError(
            f"reverse_sequence: {name} has shape {list(seq_lengths.shape)} and {x.name}, of shape {list(x.shape)}, has "
            f"{entries} batch entries along axis {batch}: {name} is [{entries}], one length for each"
        )
    if seq_lengths.dtype not in (INT32, INT64):
        raise InputError(
            f"reverse_sequence: {name} is {dtype_name(seq_lengths.dtype)}: lengths must be int32 or int64; "
            f"{converted(name, 'int32')}"
        )
    return x.shape, x.dtype


def _plan_sequence(
    board: Board, strategy: str, x: Tensor, _seq_lengths: Tensor, *, seq_axis: int, batch_axis: int
) -> Plan:
    return plan_reverse_sequence(
        board, x.shape, *_sequence_axes(x.name, x.shape, seq_axis, batch_axis), x.dtype.itemsize, strategy
    )


def _sequence_axes(name: str, shape: tuple[int, ...], seq_axis: Any, batch_axis: Any) -> tuple[int, int]:
    if len(shape) < _SEQUENCE_RANK:
        raise InputError(
            f"reverse_sequence: {name} has shape {list(shape)}, rank {len(shape)}: it needs a sequence and a batch "
            "axis, so rank 2 or more"
        )
    sequence = normal_axis("reverse_sequence", "seq_axis", seq_axis, len(shape))
    batch = normal_axis("reverse_sequence", "batch_axis", batch_axis, len(shape))
    if sequence == batch:
        raise InputError(
            f"reverse_sequence: seq_axis={seq_axis} and batch_axis={batch_axis} are one axis of {name}, of rank "
            f"{len(shape)}: they must differ; lengths along the batch axis say how much of the sequence axis is "
            "reversed"
        )
    return sequence, batch


def _example_sequence(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    entries, longest = (extent(shape, options[name]) for name in ("batch_axis", "seq_axis"))
    return [draw.elements(shape, dtype), draw.integers(0, longest + 1, (entries,))]


REVERSE = Operator(
    name="reverse",
    inputs=(X,),
    attributes=(
        Attribute(name="axis", kind="integers", required=True, help="Axes to reverse: 0,2 or -1.", example="0,2"),
    ),
    strategies=STRATEGIES,
    infer=partial(_infer, "reverse"),
    plan=partial(_plan, "reverse"),
    launches=single(reverse_tiles),
    example=one_tensor,
    usage="--input x.npy --axis 0,2 --out y.npy",
    example_usage="--shape 1024,1024 --axis -1",
)
FLIP = replace(
    REVERSE,
    name="flip",
    infer=partial(_infer, "flip"),
    plan=partial(_plan, "flip"),
    usage="--shape 64,1024 --dtype float16 --axis -1 --explain",
    example_usage="--shape 1024,1024 --axis -1",
)
REVERSE_SEQUENCE = Operator(
    name="reverse_sequence",
    inputs=(
        X,
        TensorSchema(
            name="seq_lengths", help="One int32 or int64 for each batch entry.", values_matter=True, dtype="index"
        ),
    ),
    attributes=(
        Attribute(name="seq_axis", kind="integer", default=1, help="The axis that is reversed."),
        Attribute(name="batch_axis", kind="integer", default=0, help="The axis of the batch entries, one length each."),
    ),
    strategies=SEQUENCE_STRATEGIES,
    infer=_infer_sequence,
    plan=_plan_sequence,
    launches=single(reverse_sequence_tiles),
    example=_example_sequence,
    usage="--input x.npy --seq-lengths lengths.npy --seq-axis 1 --out y.npy",
)
