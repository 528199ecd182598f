"""scatter and scatter_nd: a copy of x in which elements or rows of src replace those addressed by an index.

Defined in docs/semantics.md after CINN's gather and scatter document, whose formula 2.1 drops a coordinate of the index
and says input instead of src, and whose sketches modify their argument. If an element has several updates, the last in
row-major order of the index wins, whatever the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.dtypes import Dtype, dtype_name
from mlusim.errors import InputError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.host.random_tensors import RandomTensors
from mlusim.kernels.scatter import kernels_of
from mlusim.ops.argument_errors import explained
from mlusim.ops.call import Launches, RunOptions, Workspace
from mlusim.ops.indices import check_lookups, lookups_along, lookups_nd, plan_lookups
from mlusim.ops.operator import Operator, apply
from mlusim.ops.schema import Options, Tensor, TensorSchema
from mlusim.ops.shared_arguments import AXES, AXIS, INDEX, INDEX_SHAPE, MODE, X, example_along, example_nd
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan
from mlusim.planning.scatter import STRATEGIES, plan_scatter
from mlusim.planning.sorted_scatter import SortedParameters, workspaces
from mlusim.results.result import Result


@explained
def scatter(
    x: ArrayLike,
    index: ArrayLike,
    src: ArrayLike,
    axis: int = 0,
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Copy x, with out[i with coordinate `axis` replaced by index[i]] = src[i]: as torch.scatter.

    Args:
        x: any element type, rank 1 or more. It is not modified.
        index: int32 or int64, of x's rank, no larger than src, nor than x along the other axes. Values from -n to
            n - 1; negative ones count from the end. Of repeated targets the last in row-major order wins.
        src: of x's rank and element type; elements beyond the extents of index are not used.
        axis: axis of x; negative values count from the end.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "slab", "rows" or "bins" (`planning.scatter.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape and element type, bits unchanged.

    Raises `InputError` for a violation of these rules, with the value and its position, and the errors of a run.
    """
    return apply(SCATTER, (x, index, src), {"axis": axis}, device, strategy, options)


@explained
def scatter_nd(
    x: ArrayLike,
    index: ArrayLike,
    src: ArrayLike,
    axes: Sequence[int] | None = None,
    mode: str = "aligned",
    *,
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Copy x, replacing elements or rows by index tuples, the last axis of `index`, with M coordinates each.

    Args:
        x: any element type and rank. It is not modified.
        index: int32 or int64. Values and duplicates as in `scatter`. Aligned: shape src.shape + (M,). Standard: p +
            (M,).
        src: of x's element type. Aligned: of x's rank, no larger than x along axes that are not in `axes`. Standard: of
            shape p + x.shape[M:].
        axes: the axis of x for each coordinate, by default the first M; aligned only.
        mode: "aligned": out[i with coordinate axes[k] replaced by index[i, k], all k] = src[i]: as in CINN's document.
            "standard": out[index[p, 0], ..., index[p, M - 1]] = src[p]: as in ONNX ScatterND.
        device, strategy, options: as in `scatter`.

    Returns and raises as `scatter`.
    """
    return apply(SCATTER_ND, (x, index, src), {"axes": axes, "mode": mode}, device, strategy, options)


def _lookups(x: Tensor, index: Tensor, src: Tensor, *, axis: int) -> Lookups:
    _check_types("scatter", x, src)
    lookups = lookups_along("scatter", x, index, axis=axis)
    if len(src.shape) != len(index.shape):
        raise InputError(
            f"{index.name} has shape {list(index.shape)} and {src.name} {list(src.shape)}: scatter takes a src of "
            f"x's rank, {len(x.shape)}"
        )
    for axis_number, (count, available) in enumerate(zip(index.shape, src.shape, strict=True)):
        if count > available:
            raise InputError(
                f"scatter: {index.name} has {count} along axis {axis_number} and {src.name} {available}: each index "
                f"value takes an element of src, so index may be no larger; cut it to {available}"
            )
    return lookups


def _lookups_nd(x: Tensor, index: Tensor, src: Tensor, *, axes: Sequence[int] | None, mode: str) -> Lookups:
    _check_types("scatter_nd", x, src)
    return lookups_nd("scatter_nd", x, index, src, axes=axes, mode=mode)


def _check_types(operator: str, x: Tensor, src: Tensor) -> None:
    if x.dtype != src.dtype:
        raise InputError(
            f"{x.name} is {dtype_name(x.dtype)} and {src.name} {dtype_name(src.dtype)}: {operator} moves bits, so "
            "both must have the same element type; cast one of them"
        )


def _infer(
    lookups_of: Callable[..., Lookups], x: Tensor, *others: Tensor, **attributes: Any
) -> tuple[tuple[int, ...], Dtype]:
    lookups_of(x, *others, **attributes)
    return x.shape, x.dtype


def _launches(plan: Plan, x: Tensor, *_: Tensor, **__: Any) -> Launches:
    spaces = workspaces(plan, x.dtype) if isinstance(plan.parameters, SortedParameters) else {}
    return Launches(
        kernels=kernels_of(plan), workspace=tuple(Workspace(name, *space) for name, space in spaces.items())
    )


def _example(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    x, index = example_along(draw, shape, dtype, options)
    return [x, index, draw.elements(index.shape, dtype)]


def _example_nd(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    x, index = example_nd(draw, shape, dtype, options)
    row_shape = () if options["mode"] == "aligned" else shape[index.shape[-1] :]
    return [x, index, draw.elements((*index.shape[:-1], *row_shape), dtype)]


_SRC = TensorSchema(name="src", help="The new elements, of the input's element type.")

SCATTER = Operator(
    name="scatter",
    inputs=(X, INDEX, _SRC),
    attributes=(AXIS,),
    strategies=STRATEGIES,
    example=_example,
    example_attributes=(INDEX_SHAPE,),
    usage="--input x.npy --index i.npy --src s.npy --axis 1 --out y.npy",
    infer=partial(_infer, _lookups),
    check=partial(check_lookups, "scatter", _lookups),
    plan=partial(plan_lookups, "scatter", _lookups, plan_scatter),
    launches=_launches,
)
SCATTER_ND = replace(
    SCATTER,
    name="scatter_nd",
    attributes=(AXES, MODE),
    example=_example_nd,
    usage="--input x.npy --index i.npy --src s.npy --mode standard --out y.npy",
    infer=partial(_infer, _lookups_nd),
    check=partial(check_lookups, "scatter_nd", _lookups_nd),
    plan=partial(plan_lookups, "scatter_nd", _lookups_nd, plan_scatter),
)
