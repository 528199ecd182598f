"""gather and gather_nd: elements or rows of x, chosen by an index.

docs/semantics.md defines them, after the
gather and scatter document of CINN, whose formula 1.1 drops a coordinate of the
index and whose assertion for gather_nd is wrong. Index 3 on an axis of 3 elements, as in one of its examples, is an
error here.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.dtypes import Dtype, dtype_of
from mlusim.hardware import Board, board
from mlusim.kernels.gather import kernel_of
from mlusim.ops.common import Call, Input, RunOptions, check_choice
from mlusim.ops.indices import check_values, lookups_along, lookups_nd
from mlusim.ops.operator import Operator, Tensor, apply, tensor_of
from mlusim.planning.gather import STRATEGIES
from mlusim.planning.gather import plan_gather as split
from mlusim.planning.lookup import Job
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan
from mlusim.results.result import Result


def gather(
    x: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """out[i] = x[i with coordinate `axis` replaced by index[i]]: torch.gather, ONNX GatherElements.

    Args:
        x: any element type, rank 1 or more.
        index: int32 or int64, of x's rank, no larger than x along the other axes; along `axis` any length, 0 too.
            Values -n to n - 1, negative ones counted from the end.
        axis: of x; negative from the end.
        device: a preset's name, a TOML file, or a board.
        strategy: "auto", "slab" or "rows" (`kernels.gather_plan.STRATEGIES`).
        options: see `RunOptions`.

    Returns the result; its output has index's shape and x's element type, bits as they were.

    Raises `InputError` for what breaks these rules, naming the value and its position, and what a run raises.
    """
    return apply(GATHER, (x, index), {"axis": axis}, device, strategy, options)


def gather_nd(
    x: ArrayLike,
    index: ArrayLike,
    axes: Sequence[int] | None = None,
    mode: str = "aligned",
    *,
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
    **options: Unpack[RunOptions],
) -> Result:
    """Elements or rows of x, by index tuples that the last axis of `index` holds, M coordinates each.

    Args:
        x: any element type and rank.
        index: int32 or int64. Values as `gather`. Aligned: shape m + (M,), m of x's rank and no larger than x along
            the axes that are not in `axes`. Standard: shape p + (M,), M at most x's rank.
        axes: the axis of x that each coordinate chooses on, by default the first M; aligned only.
        mode: "aligned": out[i] = x[i with coordinate axes[k] replaced by index[i, k], all k], of shape m: the
            document's. "standard": out[p] = x[index[p, 0], ..., index[p, M - 1]], of shape p + x.shape[M:]: that of
            TensorFlow and ONNX GatherND with batch_dims=0. With M = 0 each row is all of x.
        device, strategy, options: as `gather`.

    Returns and raises as `gather`.
    """
    return apply(GATHER_ND, (x, index), {"axes": axes, "mode": mode}, device, strategy, options)


def plan_gather(
    x_shape: Sequence[int],
    index_shape: Sequence[int],
    axis: int = 0,
    dtype: object = "float32",
    *,
    index_dtype: object = "int64",
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
) -> Plan:
    """The plan of a gather, without running it. Arguments and errors as `gather`, by shapes and element types."""
    x, index = _tensors(x_shape, index_shape, dtype, index_dtype)
    return _plan("gather", board(device), strategy, x, index, lookups_along("gather", x, index, axis))


def plan_gather_nd(
    x_shape: Sequence[int],
    index_shape: Sequence[int],
    axes: Sequence[int] | None = None,
    mode: str = "aligned",
    dtype: object = "float32",
    *,
    index_dtype: object = "int64",
    device: str | Path | Board = "mlu370-x4",
    strategy: str = "auto",
) -> Plan:
    """The plan of a gather_nd, without running it. Arguments and errors as `gather_nd`, by shapes and element types."""
    x, index = _tensors(x_shape, index_shape, dtype, index_dtype)
    return _plan("gather_nd", board(device), strategy, x, index, lookups_nd("gather_nd", x, index, axes, mode))


def _tensors(
    x_shape: Sequence[int], index_shape: Sequence[int], dtype: object, index_dtype: object
) -> tuple[Tensor, Tensor]:
    return (
        Tensor("x", tuple(int(extent) for extent in x_shape), dtype_of(dtype)),
        Tensor("index", tuple(int(extent) for extent in index_shape), dtype_of(index_dtype)),
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


def _lookups(operator: str, x: Tensor, index: Tensor, attributes: dict[str, Any]) -> Lookups:
    if operator == "gather":
        return lookups_along(operator, x, index, attributes.get("axis", 0))
    return lookups_nd(operator, x, index, attributes.get("axes"), attributes.get("mode", "aligned"))


def _infer(operator: str, x: Tensor, index: Tensor, **attributes: Any) -> tuple[tuple[int, ...], Dtype]:
    return _lookups(operator, x, index, attributes).value_shape, x.dtype


def _prepare(operator: str, on: Board, strategy: str, x: Input, index: Input, **attributes: Any) -> Call:
    tensor, tuples = tensor_of(x), tensor_of(index)
    lookups = _lookups(operator, tensor, tuples, attributes)
    check_values(operator, index.name, index.array, lookups)
    plan = _plan(operator, on, strategy, tensor, tuples, lookups)
    return Call(kernel=kernel_of(plan), plan=plan, inputs=(x, index), output_dtype=tensor.dtype)


def _operator(name: str) -> Operator:
    return Operator(
        name=name,
        tensors=("x", "index"),
        infer=partial(_infer, name),
        prepare=partial(_prepare, name),
        strategies=tuple(STRATEGIES),
        reads_values=("index",),
    )


GATHER = _operator("gather")
GATHER_ND = _operator("gather_nd")
