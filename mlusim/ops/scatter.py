"""scatter and scatter_nd: a copy of x in which an index says where the elements or rows of src go.

docs/semantics.md defines them, after the
gather and scatter document of CINN, whose formula 2.1 drops a coordinate of the
index and says input where src is meant, and whose sketches change their argument. Of several updates of one place the
last in row-major order of the index stays, whatever the number of cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.dtypes import Dtype, dtype_name, dtype_of
from mlusim.errors import InputError
from mlusim.hardware import Board, board
from mlusim.kernels.scatter import kernels_of
from mlusim.ops.common import Call, Input, RunOptions, Workspace, check_choice
from mlusim.ops.indices import check_values, lookups_along, lookups_nd
from mlusim.ops.operator import Operator, Tensor, apply, tensor_of
from mlusim.planning.lookup import Job
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan
from mlusim.planning.scatter import STRATEGIES
from mlusim.planning.scatter import plan_scatter as split
from mlusim.planning.scatter_bins import workspaces
from mlusim.results.result import Result


def scatter(
    x: ArrayLike,
    index: ArrayLike,
    src: ArrayLike,
    axis: int = 0,
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """A copy of x with out[i with coordinate `axis` replaced by index[i]] = src[i]: as torch.scatter.

    Args:
        x: any element type, rank 1 or more. It is not written.
        index: int32 or int64, of x's rank, no larger than src, nor than x along the other axes. Values -n to n - 1,
            negative ones counted from the end. Of equal places the last in row-major order wins.
        src: of x's rank and element type; what lies beyond index is not used.
        axis: of x; negative from the end.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "slab", "rows" or "bins" (`kernels.scatter_plan.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has x's shape and element type, bits as they were.

    Raises `InputError` for what breaks these rules, naming the value and its position, and what a run raises.
    """
    return apply(SCATTER, (x, index, src), {"axis": axis}, device, strategy, options)


def scatter_nd(
    x: ArrayLike,
    index: ArrayLike,
    src: ArrayLike,
    axes: Sequence[int] | None = None,
    mode: str = "aligned",
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """A copy of x with elements or rows replaced, by index tuples that the last axis of `index` holds, M each.

    Args:
        x: any element type and rank. It is not written.
        index: int32 or int64. Values and duplicates as `scatter`. Aligned: shape src.shape + (M,). Standard: p + (M,).
        src: of x's element type. Aligned: of x's rank, no larger than x along the axes that are not in `axes`.
            Standard: of shape p + x.shape[M:].
        axes: the axis of x that each coordinate chooses on, by default the first M; aligned only.
        mode: "aligned": out[i with coordinate axes[k] replaced by index[i, k], all k] = src[i]: the document's.
            "standard": out[index[p, 0], ..., index[p, M - 1]] = src[p]: that of ONNX ScatterND.
        device, strategy, options: as `scatter`.

    Returns and raises as `scatter`.
    """
    return apply(SCATTER_ND, (x, index, src), {"axes": axes, "mode": mode}, device, strategy, options)


def plan_scatter(
    x_shape: Sequence[int],
    index_shape: Sequence[int],
    axis: int = 0,
    dtype: object = "float32",
    *,
    src_shape: Sequence[int] | None = None,
    index_dtype: object = "int64",
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
) -> Plan:
    """The plan of a scatter, without running it. src_shape: by default index_shape. Else as `scatter`."""
    x, index, src = _tensors(x_shape, index_shape, index_shape if src_shape is None else src_shape, dtype, index_dtype)
    return _plan("scatter", board(device), strategy, x, index, _lookups("scatter", x, index, src, {"axis": axis}))


def plan_scatter_nd(  # noqa: PLR0913 - as the operator, and its element types
    x_shape: Sequence[int],
    index_shape: Sequence[int],
    src_shape: Sequence[int],
    axes: Sequence[int] | None = None,
    mode: str = "aligned",
    dtype: object = "float32",
    *,
    index_dtype: object = "int64",
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
) -> Plan:
    """The plan of a scatter_nd, without running it: as `scatter_nd`, by shapes and element types."""
    x, index, src = _tensors(x_shape, index_shape, src_shape, dtype, index_dtype)
    lookups = _lookups("scatter_nd", x, index, src, {"axes": axes, "mode": mode})
    return _plan("scatter_nd", board(device), strategy, x, index, lookups)


def _tensors(
    x_shape: Sequence[int], index_shape: Sequence[int], src_shape: Sequence[int], dtype: object, index_dtype: object
) -> tuple[Tensor, Tensor, Tensor]:
    element = dtype_of(dtype)
    return (
        Tensor("x", tuple(int(extent) for extent in x_shape), element),
        Tensor("index", tuple(int(extent) for extent in index_shape), dtype_of(index_dtype)),
        Tensor("src", tuple(int(extent) for extent in src_shape), element),
    )


def _plan(operator: str, on: Board, strategy: str, x: Tensor, index: Tensor, lookups: Lookups) -> Plan:
    check_choice("strategy", strategy, STRATEGIES)
    return split(
        Job(
            board=on,
            lookups=lookups,
            itemsize=x.dtype.itemsize,
            index_itemsize=index.dtype.itemsize,
            strategy=strategy,
            operator=operator,
        )
    )


def _lookups(operator: str, x: Tensor, index: Tensor, src: Tensor, attributes: dict[str, Any]) -> Lookups:
    if x.dtype != src.dtype:
        raise InputError(
            f"{x.name} is {dtype_name(x.dtype)} and {src.name} {dtype_name(src.dtype)}: {operator} moves bits, so both "
            f"have one element type; cast one of them"
        )
    if operator == "scatter_nd":
        return lookups_nd(operator, x, index, attributes.get("axes"), attributes.get("mode", "aligned"), src)
    lookups = lookups_along(operator, x, index, attributes.get("axis", 0))
    if len(src.shape) != len(index.shape):
        raise InputError(
            f"{index.name} has shape {list(index.shape)} and {src.name} {list(src.shape)}: {operator} takes a src of "
            f"x's rank, {len(x.shape)}"
        )
    for axis, (count, extent) in enumerate(zip(index.shape, src.shape, strict=True)):
        if count > extent:
            raise InputError(
                f"{operator}: {index.name} has {count} along axis {axis} and {src.name} {extent}: each index value "
                f"takes an element of src, so index is no larger; cut it to {extent}"
            )
    return lookups


def _infer(operator: str, x: Tensor, index: Tensor, src: Tensor, **attributes: Any) -> tuple[tuple[int, ...], Dtype]:
    _lookups(operator, x, index, src, attributes)
    return x.shape, x.dtype


def _prepare(operator: str, on: Board, strategy: str, x: Input, index: Input, src: Input, **attributes: Any) -> Call:
    tensor, tuples = tensor_of(x), tensor_of(index)
    lookups = _lookups(operator, tensor, tuples, tensor_of(src), attributes)
    check_values(operator, index.name, index.array, lookups)
    plan = _plan(operator, on, strategy, tensor, tuples, lookups)
    *before, kernel = kernels_of(plan)
    spaces = workspaces(plan, tensor.dtype) if before else {}
    return Call(
        kernel=kernel,
        before=tuple(before),
        workspace=tuple(Workspace(name, *space) for name, space in spaces.items()),
        plan=plan,
        inputs=(x, index, src),
        output_dtype=tensor.dtype,
        output_shape=tensor.shape,
    )


def _operator(name: str) -> Operator:
    return Operator(
        name=name,
        tensors=("x", "index", "src"),
        infer=partial(_infer, name),
        prepare=partial(_prepare, name),
        strategies=tuple(STRATEGIES),
        reads_values=("index",),
    )


SCATTER = _operator("scatter")
SCATTER_ND = _operator("scatter_nd")
