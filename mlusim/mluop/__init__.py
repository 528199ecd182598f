"""mluOp and CNRT on the simulated board: host programs of mlu-ops for tin_shift, in Python.

    device = mlusim.Device("mlu370-x4")
    status, handle = mluOpCreate(device)
    status, d_input = cnrtMalloc(device, input.nbytes)
    status = cnrtMemcpy(d_input, input, input.nbytes, cnrtMemcpyHostToDev)
    status, input_desc = mluOpCreateTensorDescriptor()
    status = mluOpSetTensorDescriptor(input_desc, MLUOP_LAYOUT_ARRAY, MLUOP_DTYPE_FLOAT, 4, input.shape)
    ...
    status = mluOpTinShiftForward(handle, input_desc, d_input, shifts_desc, d_shifts, output_desc, d_output)
    handle.last_result.time_us

Names, numbers and the order of checks are the vendor's. Values that C returns through a pointer are returned along
with the status, NULL is None, and the device is an argument instead of the thread's current one. There are no queues
and notifiers: an operator has run when its function returns, and `handle.last_result` has its time. No function raises
an exception for a wrong value of an argument: it returns a status and logs the reason (`logging`, "mlusim.mluop"). Too
few or too many arguments, which C does not compile, are a `TypeError`.

Functions:
  cnrt                     memory and copies
  handle, descriptor       contexts; tensor descriptors
  tin_shift                the operator

What they share:
  types, refusals          the vendor's enumerations; a status for the program, and the reason in the log
"""

from mlusim.mluop.cnrt import DevicePointer, cnrtFree, cnrtMalloc, cnrtMemcpy
from mlusim.mluop.descriptor import (
    mluOpCreateTensorDescriptor,
    mluOpDestroyTensorDescriptor,
    mluOpSetTensorDescriptor,
    mluOpSetTensorDescriptorEx,
    mluOpTensorDescriptor,
)
from mlusim.mluop.handle import mluOpCreate, mluOpDestroy, mluOpHandle
from mlusim.mluop.tin_shift import mluOpTinShiftBackward, mluOpTinShiftForward
from mlusim.mluop.types import cnrtMemTransDir_t, cnrtRet_t, mluOpDataType_t, mluOpStatus_t, mluOpTensorLayout_t

# In C the members of an enumeration are global names.
(
    MLUOP_STATUS_SUCCESS,
    MLUOP_STATUS_NOT_INITIALIZED,
    MLUOP_STATUS_ALLOC_FAILED,
    MLUOP_STATUS_BAD_PARAM,
    MLUOP_STATUS_INTERNAL_ERROR,
    MLUOP_STATUS_ARCH_MISMATCH,
    MLUOP_STATUS_EXECUTION_FAILED,
    MLUOP_STATUS_NOT_SUPPORTED,
    MLUOP_STATUS_NUMERICAL_OVERFLOW,
) = mluOpStatus_t
(
    MLUOP_DTYPE_INVALID,
    MLUOP_DTYPE_HALF,
    MLUOP_DTYPE_FLOAT,
    MLUOP_DTYPE_INT8,
    MLUOP_DTYPE_INT16,
    MLUOP_DTYPE_INT31,
    MLUOP_DTYPE_INT32,
    MLUOP_DTYPE_UINT8,
    MLUOP_DTYPE_BOOL,
    MLUOP_DTYPE_INT64,
    MLUOP_DTYPE_UINT32,
    MLUOP_DTYPE_UINT64,
    MLUOP_DTYPE_UINT16,
    MLUOP_DTYPE_DOUBLE,
    MLUOP_DTYPE_COMPLEX_HALF,
    MLUOP_DTYPE_COMPLEX_FLOAT,
    MLUOP_DTYPE_BFLOAT16,
) = mluOpDataType_t
(
    MLUOP_LAYOUT_NCHW,
    MLUOP_LAYOUT_NHWC,
    MLUOP_LAYOUT_HWCN,
    MLUOP_LAYOUT_NDHWC,
    MLUOP_LAYOUT_ARRAY,
    MLUOP_LAYOUT_NCDHW,
    MLUOP_LAYOUT_TNC,
    MLUOP_LAYOUT_NTC,
    MLUOP_LAYOUT_NC,
    MLUOP_LAYOUT_NLC,
    MLUOP_LAYOUT_NCL,
) = mluOpTensorLayout_t
(
    cnrtSuccess,
    cnrtErrorArgsInvalid,
    cnrtErrorNotSupport,
    cnrtErrorNoMem,
    cnrtErrorMemcpyDirectionInvalid,
    cnrtErrorCndrvFuncCall,
) = cnrtRet_t
(
    cnrtMemcpyHostToDev,
    cnrtMemcpyDevToDev,
    cnrtMemcpyDevToHost,
    cnrtMemcpyHostToHost,
    cnrtMemcpyPeerToPeer,
    cnrtMemcpyNoDirection,
) = cnrtMemTransDir_t

__all__ = [name for name in dir() if name.startswith(("mluOp", "cnrt", "MLUOP_", "DevicePointer"))]
