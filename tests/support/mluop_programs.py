"""Programs that call the host API."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mlusim.mluop import (
    MLUOP_DTYPE_FLOAT,
    MLUOP_DTYPE_INT32,
    MLUOP_LAYOUT_ARRAY,
    MLUOP_STATUS_BAD_PARAM,
    MLUOP_STATUS_NOT_SUPPORTED,
    MLUOP_STATUS_SUCCESS,
    mluOpCreate,
    mluOpCreateTensorDescriptor,
    mluOpSetTensorDescriptor,
    mluOpSetTensorDescriptorEx,
    mluOpTinShiftBackward,
    mluOpTinShiftForward,
)

FUNCTIONS = {
    mluOpTinShiftForward: ("mluOpTinShiftForward", "input", "output"),
    mluOpTinShiftBackward: ("mluOpTinShiftBackward", "grad_output", "grad_input"),
}


def descriptor(dims, dtype, strides=None):
    status, desc = mluOpCreateTensorDescriptor()
    assert status == MLUOP_STATUS_SUCCESS
    if strides is None:
        assert mluOpSetTensorDescriptor(desc, MLUOP_LAYOUT_ARRAY, dtype, len(dims), dims) == MLUOP_STATUS_SUCCESS
    else:
        status = mluOpSetTensorDescriptorEx(desc, MLUOP_LAYOUT_ARRAY, dtype, len(dims), dims, strides)
        assert status == MLUOP_STATUS_SUCCESS
    return desc


def created(device, **options):
    status, handle = mluOpCreate(device, **options)
    assert status == MLUOP_STATUS_SUCCESS
    return handle


@dataclass
class Tensor:
    dims: list[int]
    dtype: int
    strided: bool = False
    pointer: object = None
    null_desc: bool = False
    desc: object = None

    def descriptor(self):
        if self.null_desc or self.desc is not None:
            return self.desc
        if not self.strided:
            return descriptor(self.dims, self.dtype)
        strides = [*(int(np.prod(self.dims[axis + 1 :])) for axis in range(len(self.dims) - 1)), 2]
        return descriptor(self.dims, self.dtype, strides)


@dataclass
class Call:
    """Valid arguments of a call, for a test to invalidate."""

    handle: object
    input: Tensor = field(default_factory=lambda: Tensor([2, 3, 4, 5], MLUOP_DTYPE_FLOAT))
    shifts: Tensor = field(default_factory=lambda: Tensor([2, 2], MLUOP_DTYPE_INT32))
    output: Tensor = field(default_factory=lambda: Tensor([2, 3, 4, 5], MLUOP_DTYPE_FLOAT))

    def run(self, function=mluOpTinShiftForward):
        tensors = (self.input, self.shifts, self.output)
        return function(self.handle, *(part for tensor in tensors for part in (tensor.descriptor(), tensor.pointer)))


BAD, UNSUPPORTED = MLUOP_STATUS_BAD_PARAM, MLUOP_STATUS_NOT_SUPPORTED
