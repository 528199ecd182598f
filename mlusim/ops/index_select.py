"""index_select: slices of x along one axis, selected by a list of indices.

Equivalent to ONNX Gather with an index of rank 1, torch.index_select, and numpy.take with an axis.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.dtypes import Dtype
from mlusim.errors import InputError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.host.random_tensors import RandomTensors
from mlusim.kernels.index_select import index_select_tiles
from mlusim.ops.argument_errors import explained
from mlusim.ops.axes import normal_axis
from mlusim.ops.call import RunOptions, single
from mlusim.ops.indices import check_index_type, check_lookups, plan_lookups
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Attribute, Options, Tensor
from mlusim.ops.shared_arguments import AXIS, INDEX, X, extent
from mlusim.planning.gather import STRATEGIES, plan_gather
from mlusim.planning.lookup_geometry import Lookups
from mlusim.results.result import Result


@explained
def index_select(
    x: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Select slices of x along `axis` by a list of indices: torch.index_select, ONNX Gather with a 1-D index.

    Args:
        x: any element type, rank 1 or more.
        index: int32 or int64, rank 1, of any length, including 0. Values from -n to n - 1; negative ones count from the
            end.
        axis: axis of x; negative values count from the end.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "slab" or "rows" (`planning.gather.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape with extent len(index) along `axis`, bits unchanged.

    Raises `InputError` for a violation of these rules, with the value and its position, and the errors of a run.
    """
    return apply(INDEX_SELECT, (x, index), {"axis": axis}, device, strategy, options)


def _infer(x: Tensor, index: Tensor, *, axis: int) -> tuple[tuple[int, ...], Dtype]:
    axis_number = normal_axis("index_select", "axis", axis, len(x.shape))
    check_index_type("index_select", index)
    if len(index.shape) != 1:
        raise InputError(
            f"index_select: {index.name} has shape {list(index.shape)}, rank {len(index.shape)}: it must be a list of "
            f"indices, of rank 1; pass {index.name}.reshape(-1), or use gather for an index of x's rank"
        )
    return (*x.shape[:axis_number], *index.shape, *x.shape[axis_number + 1 :]), x.dtype


def _lookups(x: Tensor, index: Tensor, *, axis: int) -> Lookups:
    """out[a, i, b] = x[a, index[i], b]: a gather of tuples of one coordinate, whose index repeats for every a."""
    axis_number = normal_axis("index_select", "axis", axis, len(x.shape))
    positions = (*x.shape[:axis_number], *index.shape)
    return Lookups(x_shape=x.shape, axes=(axis_number,), positions=positions, aligned=False, batch_dims=axis_number)


def _example(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    length = extent(shape, options["axis"])
    return [draw.elements(shape, dtype), draw.integers(0, length, (options["count"] or length,))]


INDEX_SELECT = Operator(
    name="index_select",
    inputs=(X, replace(INDEX, help="[K], int32 or int64; negative values count from the end.")),
    attributes=(AXIS,),
    strategies=STRATEGIES,
    infer=_infer,
    check=partial(check_lookups, "index_select", _lookups),
    plan=partial(plan_lookups, "index_select", _lookups, plan_gather),
    launches=single(index_select_tiles),
    example=_example,
    example_attributes=(
        Attribute(name="count", kind="count", help="With --shape: indices. [default: the extent of the axis]"),
    ),
    usage="--input x.npy --index i.npy --axis 1 --out y.npy",
)
