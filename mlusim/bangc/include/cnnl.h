// Types of CNNL, the vendor's library of operators, for files whose headers use them. Its functions are not available.
#ifndef MLUSIM_CNNL_H_
#define MLUSIM_CNNL_H_

#include "cnrt.h"

typedef enum {
    CNNL_STATUS_SUCCESS = 0,
    CNNL_STATUS_NOT_INITIALIZED = 1,
    CNNL_STATUS_ALLOC_FAILED = 2,
    CNNL_STATUS_BAD_PARAM = 3,
    CNNL_STATUS_INTERNAL_ERROR = 4,
    CNNL_STATUS_ARCH_MISMATCH = 5,
    CNNL_STATUS_EXECUTION_FAILED = 6,
    CNNL_STATUS_NOT_SUPPORTED = 7,
    CNNL_STATUS_NUMERICAL_OVERFLOW = 8,
} cnnlStatus_t;

typedef enum {
    CNNL_DTYPE_INVALID = 0,
    CNNL_DTYPE_HALF = 1,
    CNNL_DTYPE_FLOAT = 2,
    CNNL_DTYPE_INT8 = 3,
    CNNL_DTYPE_INT16 = 4,
    CNNL_DTYPE_INT31 = 5,
    CNNL_DTYPE_INT32 = 6,
    CNNL_DTYPE_UINT8 = 7,
    CNNL_DTYPE_BOOL = 8,
    CNNL_DTYPE_INT64 = 9,
} cnnlDataType_t;

typedef enum { CNNL_LAYOUT_NCHW = 0, CNNL_LAYOUT_NHWC = 1, CNNL_LAYOUT_HWCN = 2, CNNL_LAYOUT_ARRAY = 4 } cnnlTensorLayout_t;
typedef enum { CNNL_POINTER_MODE_HOST = 0, CNNL_POINTER_MODE_DEVICE = 1 } cnnlPointerMode_t;

#define MLUSIM_CNNL_OPAQUE(name) typedef struct name##Struct *name##_t;
MLUSIM_CNNL_OPAQUE(cnnlHandle)
MLUSIM_CNNL_OPAQUE(cnnlTensorDescriptor)
MLUSIM_CNNL_OPAQUE(cnnlMatMulDescriptor)
MLUSIM_CNNL_OPAQUE(cnnlMatMulAlgo)
MLUSIM_CNNL_OPAQUE(cnnlMatMulHeuristicResult)
MLUSIM_CNNL_OPAQUE(cnnlTransposeDescriptor)
MLUSIM_CNNL_OPAQUE(cnnlOpTensorDescriptor)
MLUSIM_CNNL_OPAQUE(cnnlReduceDescriptor)
MLUSIM_CNNL_OPAQUE(cnnlConvolutionDescriptor)
MLUSIM_CNNL_OPAQUE(cnnlNmsDescriptor)
#undef MLUSIM_CNNL_OPAQUE

#endif  // MLUSIM_CNNL_H_
