"""Tensor descriptors: layout, element type, dimensions and strides of a tensor, without its data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import index
from typing import Any

from mlusim.memory.layout import contiguous_strides
from mlusim.mluop.refusals import LOGGER, object_fault, refuse
from mlusim.mluop.types import ELEMENT_TYPES, c_integer, is_member, mluOpDataType_t, mluOpStatus_t, mluOpTensorLayout_t
from mlusim.units import group_digits

# K: a tensor with at least this many elements is "large".
LARGE_TENSOR_NUM = 2**31
_INT_MAX = 2**31 - 1

_SUCCESS, _BAD_PARAM = mluOpStatus_t.MLUOP_STATUS_SUCCESS, mluOpStatus_t.MLUOP_STATUS_BAD_PARAM


class mluOpTensorDescriptor:
    """A tensor without its data, defined by `mluOpSetTensorDescriptor`. Until then it has no dimensions.

    Attributes:
        layout, dtype: the vendor's enumerations.
        dims: extents.
        strides: elements from one index to the next along each dimension.
        destroyed: whether `mluOpDestroyTensorDescriptor` was called for it.
    """

    def __init__(self) -> None:
        self.layout = mluOpTensorLayout_t.MLUOP_LAYOUT_ARRAY
        self.dtype = mluOpDataType_t.MLUOP_DTYPE_FLOAT
        self.dims: tuple[int, ...] = ()
        self.strides: tuple[int, ...] = ()
        self.destroyed = False

    @property
    def element_num(self) -> int:
        """Number of elements, without a limit on its size."""
        return math.prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of the contiguous tensor; its element type must be one of `ELEMENT_TYPES`."""
        return self.element_num * ELEMENT_TYPES[self.dtype].itemsize

    @property
    def is_strided(self) -> bool:
        """Whether strides are not those of a contiguous tensor, as mlu-ops compares them, whatever its elements.

        Strides of dimensions of extent 1 are ignored. Of a tensor without elements, those that PyTorch computes
        are contiguous too: it counts an extent of 0 as 1.
        """
        at_least_one = tuple(max(extent, 1) for extent in self.dims)
        return all(
            any(
                extent != 1 and stride != contiguous
                for extent, stride, contiguous in zip(self.dims, self.strides, expected, strict=True)
            )
            for expected in (contiguous_strides(self.dims, 1), contiguous_strides(at_least_one, 1))
        )

    def __repr__(self) -> str:
        return f"<descriptor of {self.dtype.name} {list(self.dims)}>"


def mluOpCreateTensorDescriptor() -> tuple[mluOpStatus_t, mluOpTensorDescriptor]:
    """Create a descriptor. C's out-parameter is returned with the status: `status, desc = ...`."""
    return _SUCCESS, mluOpTensorDescriptor()


def mluOpDestroyTensorDescriptor(desc: mluOpTensorDescriptor | None) -> mluOpStatus_t:
    """Destroy a descriptor. BAD_PARAM for NULL and for one that is already destroyed."""
    fault = descriptor_fault(desc, "desc")
    if fault or desc is None:
        return refuse("mluOpDestroyTensorDescriptor", _BAD_PARAM, fault)
    desc.destroyed = True
    return _SUCCESS


def mluOpSetTensorDescriptor(
    desc: mluOpTensorDescriptor | None,
    layout: mluOpTensorLayout_t,
    dtype: mluOpDataType_t,
    dimNb: int,
    dimSize: Sequence[int] | None,
) -> mluOpStatus_t:
    """Define a descriptor as a contiguous tensor.

    Args:
        desc: the descriptor.
        layout, dtype: the vendor's enumerations.
        dimNb: number of dimensions, at least 1.
        dimSize: extents, 0 to 2^31 - 1 each; the first dimNb are read, as in C.

    A tensor of 2^31 elements or more gives a warning; only operators reject it. BAD_PARAM for NULL, for no dimension,
    for missing or impossible extents, and for a layout or data type that does not exist.
    """
    return _set("mluOpSetTensorDescriptor", desc, layout, dtype, dimNb, {"dimSize": dimSize})


def mluOpSetTensorDescriptorEx(
    desc: mluOpTensorDescriptor | None,
    layout: mluOpTensorLayout_t,
    dtype: mluOpDataType_t,
    dimNb: int,
    dimSize: Sequence[int] | None,
    dimStride: Sequence[int] | None,
) -> mluOpStatus_t:
    """As `mluOpSetTensorDescriptor`, with strides in elements. Contiguous strides are the same as none."""
    arrays = {"dimSize": dimSize, "dimStride": dimStride}
    return _set("mluOpSetTensorDescriptorEx", desc, layout, dtype, dimNb, arrays)


def descriptor_fault(desc: Any, name: str) -> str:
    """Return why an argument is not a usable descriptor; "" if it is."""
    return object_fault(desc, name, mluOpTensorDescriptor, "mluOpCreateTensorDescriptor")


def _set(
    function: str, desc: Any, layout: int, dtype: int, count: int, arrays: dict[str, Sequence[int] | None]
) -> mluOpStatus_t:
    fault = descriptor_fault(desc, "desc")
    read: dict[str, tuple[int, ...]] = {}
    for name, values in arrays.items():
        fault = fault or _array_fault(values, name, count, read)
    if not fault and not is_member(layout, mluOpTensorLayout_t):
        fault = f"layout = {layout!r} is not a mluOpTensorLayout_t"
    if not fault and not is_member(dtype, mluOpDataType_t):
        fault = f"dtype = {dtype!r} is not a mluOpDataType_t"
    if fault:
        return refuse(function, _BAD_PARAM, fault)
    desc.layout, desc.dtype = mluOpTensorLayout_t(layout), mluOpDataType_t(dtype)
    desc.dims = read["dimSize"]
    desc.strides = read.get("dimStride", contiguous_strides(desc.dims, 1))
    if desc.element_num >= LARGE_TENSOR_NUM:
        LOGGER.warning(
            "[%s] %s has %s elements: operators take fewer than 2^31", function, desc, group_digits(desc.element_num)
        )
    return _SUCCESS


def _array_fault(values: Any, name: str, count: Any, read: dict[str, tuple[int, ...]]) -> str:
    """Read a C array of `count` numbers into `read`; returns why it cannot be read, or ""."""
    dimensions = c_integer(count)
    if dimensions is None:
        return f"dimNb = {count!r:.200}: it must be an integer, the number of dimensions"
    if dimensions < 1:
        return f"dimNb = {dimensions}: a tensor has at least 1 dimension"
    if values is None:
        return f"{name} is NULL"
    try:
        numbers = tuple(index(value) for _, value in zip(range(dimensions), values, strict=False))
    except (TypeError, OverflowError):
        return f"{name} = {values!r:.200}: it must be a sequence of integers"
    if len(numbers) < dimensions:
        return f"{name} has {len(numbers)} numbers and dimNb is {dimensions}: give one for each dimension"
    if min(numbers) < 0 or max(numbers) > _INT_MAX:
        return f"{name} = {list(numbers)}: each is 0 to 2^31 - 1"
    read[name] = numbers
    return ""
