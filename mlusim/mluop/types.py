"""The vendor's enumerations, with its names and numbers.

Sources: mlu-ops, `mlu_op.h` (`mluOpStatus_t`, `mluOpDataType_t`, `mluOpTensorLayout_t`); CNRT 6, `cnrt.h` (`cnrtRet_t`,
of which only the values that this package returns, and `cnrtMemTransDir_t`).
"""

from __future__ import annotations

from enum import IntEnum
from operator import index
from typing import Any

from mlusim.dtypes import Dtype, dtype_of


class mluOpStatus_t(IntEnum):
    """The status that every mluOp function returns."""

    MLUOP_STATUS_SUCCESS = 0
    MLUOP_STATUS_NOT_INITIALIZED = 1
    MLUOP_STATUS_ALLOC_FAILED = 2
    MLUOP_STATUS_BAD_PARAM = 3
    MLUOP_STATUS_INTERNAL_ERROR = 4
    MLUOP_STATUS_ARCH_MISMATCH = 5
    MLUOP_STATUS_EXECUTION_FAILED = 6
    MLUOP_STATUS_NOT_SUPPORTED = 7
    MLUOP_STATUS_NUMERICAL_OVERFLOW = 8


class mluOpDataType_t(IntEnum):
    """Element type of a tensor descriptor."""

    MLUOP_DTYPE_INVALID = 0
    MLUOP_DTYPE_HALF = 1
    MLUOP_DTYPE_FLOAT = 2
    MLUOP_DTYPE_INT8 = 3
    MLUOP_DTYPE_INT16 = 4
    MLUOP_DTYPE_INT31 = 5
    MLUOP_DTYPE_INT32 = 6
    MLUOP_DTYPE_UINT8 = 7
    MLUOP_DTYPE_BOOL = 8
    MLUOP_DTYPE_INT64 = 9
    MLUOP_DTYPE_UINT32 = 11
    MLUOP_DTYPE_UINT64 = 12
    MLUOP_DTYPE_UINT16 = 13
    MLUOP_DTYPE_DOUBLE = 14
    MLUOP_DTYPE_COMPLEX_HALF = 15
    MLUOP_DTYPE_COMPLEX_FLOAT = 16
    MLUOP_DTYPE_BFLOAT16 = 17


class mluOpTensorLayout_t(IntEnum):
    """Layout of a tensor descriptor. tin_shift accepts any and uses only the dimensions, as mlu-ops does."""

    MLUOP_LAYOUT_NCHW = 0
    MLUOP_LAYOUT_NHWC = 1
    MLUOP_LAYOUT_HWCN = 2
    MLUOP_LAYOUT_NDHWC = 3
    MLUOP_LAYOUT_ARRAY = 4
    MLUOP_LAYOUT_NCDHW = 5
    MLUOP_LAYOUT_TNC = 6
    MLUOP_LAYOUT_NTC = 7
    MLUOP_LAYOUT_NC = 8
    MLUOP_LAYOUT_NLC = 9
    MLUOP_LAYOUT_NCL = 10


class cnrtRet_t(IntEnum):
    """The status that the memory functions return."""

    cnrtSuccess = 0
    cnrtErrorArgsInvalid = 100006
    cnrtErrorNotSupport = 100050
    cnrtErrorNoMem = 100100
    cnrtErrorMemcpyDirectionInvalid = 632013
    cnrtErrorCndrvFuncCall = 632015


class cnrtMemTransDir_t(IntEnum):
    """Direction of a `cnrtMemcpy`."""

    cnrtMemcpyHostToDev = 0
    cnrtMemcpyDevToDev = 1
    cnrtMemcpyDevToHost = 2
    cnrtMemcpyHostToHost = 3
    cnrtMemcpyPeerToPeer = 4
    cnrtMemcpyNoDirection = 5


ELEMENT_TYPES: dict[mluOpDataType_t, Dtype] = {
    mluOpDataType_t[f"MLUOP_DTYPE_{name}"]: dtype_of(dtype)
    for name, dtype in {
        "BOOL": "bool",
        "INT8": "int8",
        "INT16": "int16",
        "INT32": "int32",
        "INT64": "int64",
        "UINT8": "uint8",
        "UINT16": "uint16",
        "UINT32": "uint32",
        "UINT64": "uint64",
        "HALF": "float16",
        "BFLOAT16": "bfloat16",
        "FLOAT": "float32",
        "DOUBLE": "float64",
        "COMPLEX_FLOAT": "complex64",
    }.items()
}
"""The element type of each data type that mlusim supports."""


def c_integer(value: Any) -> int | None:
    """Return an integer argument of C, which may be one of NumPy; None if it is none."""
    try:
        return index(value)
    except TypeError:
        return None


def is_member(value: object, kind: type[IntEnum]) -> bool:
    """Return whether a value is a member of an enumeration, or its number, as in C."""
    return c_integer(value) in tuple(kind)
