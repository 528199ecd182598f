"""Shared by gather and scatter: checks of axes, of shapes in both modes and of index values; the plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index as as_index
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import INT32, INT64, dtype_name
from mlusim.errors import InputError, shown
from mlusim.hardware import Board
from mlusim.inputs import MAX_RANK, as_tuple, check_choice
from mlusim.ops.argument_errors import converted
from mlusim.ops.axes import normal_axes, normal_axis
from mlusim.ops.call import Input
from mlusim.ops.schema import Tensor
from mlusim.planning.box_sizes import Extents
from mlusim.planning.lookup import LookupProblem
from mlusim.planning.lookup_geometry import Lookups
from mlusim.planning.plan import Plan

MODES = ("aligned", "standard")


def lookups_along(operator: str, x: Tensor, index: Tensor, *, axis: int) -> Lookups:
    """Return the lookups of gather and scatter: one index value per element, on one axis.

    Raises `InputError` unless ranks are equal and index is no larger than x along the other axes.
    """
    check_index_type(operator, index)
    rank = len(x.shape)
    if not rank or len(index.shape) != rank:
        raise InputError(
            f"{x.name} has shape {list(x.shape)} and {index.name} {list(index.shape)}: {operator} needs equal "
            f"ranks of at least 1, an index value per element; for whole rows use {operator}_nd(..., mode='standard')"
        )
    if rank == MAX_RANK:
        raise InputError(
            f"{operator}: {x.name} has rank {rank}: its lookups have one more axis, and NumPy arrays have at most "
            f"{MAX_RANK}; reshape away an axis of extent 1"
        )
    axis_number = normal_axis(operator, "axis", axis, rank)
    problem = _extents_problem(x, index.name, index.shape, (axis_number,))
    if problem:
        raise InputError(f"{operator}: {problem}")
    return Lookups(x_shape=x.shape, axes=(axis_number,), positions=index.shape, aligned=True)


def lookups_nd(
    operator: str,
    x: Tensor,
    index: Tensor,
    src: Tensor | None = None,
    *,
    axes: Sequence[int] | None,
    mode: str,
    batch_dims: int = 0,
) -> Lookups:
    """Return the lookups of gather_nd and scatter_nd: index tuples in the last axis of index.

    Args:
        operator: name, for messages.
        x, index: the tensors.
        src: the updates of scatter_nd; None for gather_nd.
        axes: the axis of x for each coordinate; None: the first ones.
        mode: one of `MODES`.
        batch_dims: number of leading axes that x and index share.

    Raises `InputError` for shapes that do not fit the mode, with a hint if they fit the other one.
    """
    check_choice("mode", mode, MODES)
    check_index_type(operator, index)
    if not index.shape:
        raise InputError(f"{index.name} has rank 0: the last axis of the index of {operator} holds its coordinates")
    columns = index.shape[-1]
    shared_axes = _batch_dims_of(operator, x, index, batch_dims, mode)
    if columns > len(x.shape) - shared_axes:
        raise InputError(
            f"{index.name} has shape {list(index.shape)}, {columns} coordinates a lookup, and {x.name} has rank "
            f"{len(x.shape)}: the last axis of the index of {operator} may be at most that long"
            + (f", minus the {shared_axes} axes of batch_dims" if shared_axes else "")
        )
    indexed_axes = _axes_of(operator, axes, columns, len(x.shape), mode, shared_axes)
    problems = {
        "aligned": _aligned_problem(x, index, src, indexed_axes),
        "standard": _standard_problem(x, index, src),
    }
    problem = problems.pop(mode)
    if problem:
        other, fits = problems.popitem()
        hint = f"; these shapes fit mode={other!r}" if fits is None and axes is None else ""
        raise InputError(f"{operator}, mode={mode!r}: {problem}{hint}")
    return Lookups(
        x_shape=x.shape,
        axes=indexed_axes,
        positions=index.shape[:-1],
        aligned=mode == "aligned",
        batch_dims=shared_axes,
    )


def _batch_dims_of(operator: str, x: Tensor, index: Tensor, batch_dims: Any, mode: str) -> int:
    """Return the number of batch axes, in standard mode. Raises `InputError` if x and the index differ along them."""
    try:
        count = as_index(batch_dims)
    except TypeError:
        count = None
    if count is None or isinstance(batch_dims, bool):
        raise InputError(f"batch_dims={shown(batch_dims)} of {operator}: a number of axes must be an integer")
    max_axes = min(len(x.shape), len(index.shape) - 1)
    if not 0 <= count <= max_axes:
        raise InputError(
            f"batch_dims={count} of {operator}: {x.name} has shape {list(x.shape)} and {index.name} "
            f"{list(index.shape)}, whose last axis holds coordinates, so batch_dims must be 0 to {max_axes}"
        )
    if count and mode == "aligned":
        raise InputError(
            f"batch_dims={count} of {operator} belongs to mode='standard', the rule of ONNX and TensorFlow; in mode "
            "'aligned', the default, all axes that are not indexed are shared: pass mode='standard' too, "
            "or omit batch_dims"
        )
    if x.shape[:count] != index.shape[:count]:
        raise InputError(
            f"batch_dims={count} of {operator}: {x.name} has shape {list(x.shape)} and {index.name} "
            f"{list(index.shape)}: their first {count} axes are equal"
        )
    return count


def _axes_of(operator: str, axes: Sequence[int] | None, columns: int, rank: int, mode: str, first: int) -> Extents:
    if axes is None:
        return tuple(range(first, first + columns))
    if isinstance(axes, frozenset):
        raise InputError(f"{operator}: axes={shown(set(axes))}: a set has no order; pass a tuple, such as (0, 1)")
    requested = as_tuple(axes)
    if not isinstance(requested, tuple):
        raise InputError(f"{operator}: axes={shown(axes)} is not a list of axes: name one for each coordinate")
    indexed_axes = normal_axes(operator, "axes", requested, rank)
    if len(indexed_axes) != columns:
        raise InputError(
            f"axes={list(requested)} and an index of {columns} coordinates a lookup: {operator} takes one axis for each"
        )
    if mode == "standard" and indexed_axes != tuple(range(first, first + columns)):
        raise InputError(
            f"axes={list(requested)}: mode 'standard' of {operator} indexes the first axes of x; omit axes, "
            "transpose x, or pass mode='aligned'"
        )
    return indexed_axes


def _aligned_problem(x: Tensor, index: Tensor, src: Tensor | None, axes: Extents) -> str | None:
    """Return why shapes do not fit mode aligned; None if they do."""
    shapes = f"{x.name} has shape {list(x.shape)}, {index.name} {list(index.shape)}"
    if src is None:
        if len(index.shape) != len(x.shape) + 1:
            return f"{shapes}: the index has x's rank plus one, {len(x.shape) + 1}"
        return _extents_problem(x, index.name, index.shape[:-1], axes)
    if len(src.shape) != len(x.shape) or index.shape != (*src.shape, len(axes)):
        return (
            f"{shapes}, {src.name} {list(src.shape)}: src has x's rank, and the index the shape of src and one more "
            "axis for its coordinates"
        )
    return _extents_problem(x, src.name, src.shape, axes)


def _standard_problem(x: Tensor, index: Tensor, src: Tensor | None) -> str | None:
    """Return why shapes do not fit mode standard; None if they do."""
    src_shape = (*index.shape[:-1], *x.shape[index.shape[-1] :])
    if src is None or src.shape == src_shape:
        return None
    return (
        f"{x.name} has shape {list(x.shape)}, {index.name} {list(index.shape)}, {src.name} {list(src.shape)}: src has "
        f"the shape of the index without its last axis, then that of x without the indexed axes: {list(src_shape)}"
    )


def _extents_problem(x: Tensor, name: str, positions: Extents, axes: Extents) -> str | None:
    """Describe an axis along which the index exceeds x, other than the indexed axes; None if there is none."""
    for axis, (count, extent) in enumerate(zip(positions, x.shape, strict=True)):
        if axis not in axes and count > extent:
            return (
                f"{name} has {count} along axis {axis} and {x.name} {extent}: along axes that are not "
                f"indexed (indexed: {list(axes)}) it may be no larger than x; cut it to {extent}"
            )
    return None


def check_lookups(operator: str, lookups_of: Callable[..., Lookups], *inputs: Input, **attributes: Any) -> None:
    """Raise `InputError` for an index value out of range; the index is the second input. See `plan_lookups`."""
    index = inputs[1]
    check_values(operator, index.name, index.array, lookups_of(*(value.tensor for value in inputs), **attributes))


def plan_lookups(
    operator: str,
    lookups_of: Callable[..., Lookups],
    planner: Callable[[LookupProblem], Plan],
    board: Board,
    strategy: str,
    x: Tensor,
    index: Tensor,
    *others: Tensor,
    **attributes: Any,
) -> Plan:
    """Return the plan of lookups, which lookups_of(x, index, *others, **attributes) returns; as `Operator.plan`."""
    lookups = lookups_of(x, index, *others, **attributes)
    return planner(
        LookupProblem(
            board=board,
            lookups=lookups,
            itemsize=x.dtype.itemsize,
            index_itemsize=index.dtype.itemsize,
            strategy=strategy,
            operator=operator,
            repeats=len(index.shape) < len(lookups.positions),
        )
    )


def check_index_type(operator: str, index: Tensor) -> None:
    """Raise `InputError` unless an index is int32 or int64."""
    if index.dtype not in (INT32, INT64):
        raise InputError(
            f"{index.name} is {dtype_name(index.dtype)}: an index of {operator} is int32 or int64; "
            f"{converted(index.name, 'int64')}"
        )


def check_values(operator: str, name: str, index: Array, lookups: Lookups) -> None:
    """Raise `InputError` for the first index value out of range for its axis; negative values count from the end.

    A service of the simulator, in 64 bits and column by column: the board itself does not check.
    """
    if not index.size:
        return
    tuples = index.ndim > len(lookups.positions)
    for column, (axis, extent) in enumerate(zip(lookups.axes, lookups.indexed_extents, strict=True)):
        values: Any = index[..., column] if tuples else index
        # As unsigned numbers, negative ones exceed every extent: most indices need one pass.
        if int(values.view(f"u{values.itemsize}").max()) < extent:
            continue
        if int(values.min()) >= -extent and int(values.max()) < extent:
            continue
        indices = values.astype(np.int64, copy=False)
        location = np.unravel_index(int(np.argmax((indices < -extent) | (indices >= extent))), indices.shape)
        position = [int(part) for part in location] + ([column] if tuples else [])
        range_text = f"so an index is {-extent} to {extent - 1}" if extent else "so no index is allowed"
        raise InputError(
            f"{operator}: {name}{position} = {int(indices[location])}: axis {axis} of x has {extent} elements, "
            f"{range_text}"
        )
