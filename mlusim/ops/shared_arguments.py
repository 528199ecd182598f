"""Tensors and attributes that several operators have, and random example inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import Dtype
from mlusim.errors import InputError
from mlusim.host.random_tensors import RandomTensors
from mlusim.ops.indices import MODES
from mlusim.ops.schema import Attribute, Options, TensorSchema

X = TensorSchema(name="x", option="input", help="Any shape and element type.")
INDEX = TensorSchema(
    name="index", help="int32 or int64; negative values count from the end.", values_matter=True, dtype="index"
)
AXIS = Attribute(name="axis", kind="integer", default=0, help="The axis that the index selects along.")
AXES = Attribute(
    name="axes",
    kind="integers",
    help="Aligned: the axis that each coordinate indexes, such as 0,2. [default: the first axes]",
)
MODE = Attribute(
    name="mode",
    kind="choice",
    default="aligned",
    choices=MODES,
    help="aligned: as in CINN's document; standard: as in TensorFlow and ONNX.",
)
BATCH_DIMS = Attribute(
    name="batch_dims",
    kind="integer",
    default=0,
    quiet=True,
    help="Standard: leading axes that x and the index share, as in ONNX.",
)
INDEX_SHAPE = Attribute(
    name="index_shape",
    kind="shape",
    help="With --shape: shape of the index. [default: an index for each element, or row]",
)
DTYPE = Attribute(
    name="dtype",
    kind="dtype",
    required=True,
    help="Element type of the result: float16, bfloat16, int8, ...",
    example="float16",
)


def extent(shape: tuple[int, ...], axis: Any) -> int:
    """Return an extent of a shape; 1 for an invalid axis, which the operator itself reports."""
    return shape[axis] if isinstance(axis, int) and -len(shape) <= axis < len(shape) else 1


def one_tensor(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, _options: Options) -> list[Array]:
    """Return example inputs of an operator with one tensor."""
    return [draw.elements(shape, dtype)]


def example_along(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    """Draw x and an index along an axis."""
    index_shape = shape if options["index_shape"] is None else options["index_shape"]
    index = draw.integers(0, extent(shape, options["axis"]), index_shape)
    return [draw.elements(shape, dtype), index]


def example_nd(draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
    """Draw x and an index of tuples."""
    index_shape = options["index_shape"]
    aligned = options["mode"] == "aligned"
    batch_dims = options.get("batch_dims") or 0
    # The operator itself reports axes that are not a list.
    axes = options["axes"] if isinstance(options["axes"], tuple) else ()
    if index_shape is None:
        columns = len(axes or (0,))
        index_shape = (*shape, columns) if aligned else (*shape[: batch_dims + 1], columns)
    if not index_shape or not shape:
        raise InputError("index_shape: the last axis of the index holds the coordinates, so it has rank 1 or more")
    if index_shape[-1] > len(shape):
        # More coordinates than x has axes, which the operator itself reports.
        return [draw.elements(shape, dtype), draw.integers(0, 1, index_shape)]
    first = 0 if aligned else batch_dims
    indexed = (aligned and axes) or range(first, first + index_shape[-1])
    columns_drawn = [draw.integers(0, extent(shape, axis), index_shape[:-1]) for axis in indexed[: index_shape[-1]]]
    index = np.stack(columns_drawn, axis=-1) if columns_drawn else np.zeros(index_shape, np.int32)
    return [draw.elements(shape, dtype), index]
