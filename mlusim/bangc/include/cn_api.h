// CNDRV, the driver's interface: contexts, device attributes, what a union may take.
#ifndef MLUSIM_CN_API_H_
#define MLUSIM_CN_API_H_

#include "cnrt.h"

typedef enum { CN_SUCCESS = 0, CN_ERROR_INVALID_VALUE = 100007, CN_ERROR_UNKNOWN = 100999 } CNresult;
typedef int CNdev;
typedef struct CNctxStruct *CNcontext;
typedef struct CNkernelStruct *CNkernel;
typedef struct CNmoduleStruct *CNmodule;
typedef cnrtQueue_t CNqueue;
typedef uint64_t CNaddr;
typedef cnrtNotifier_t CNnotifier;

typedef enum {
    CN_KERNEL_CLASS_BLOCK = 1,
    CN_KERNEL_CLASS_UNION = 4,
    CN_KERNEL_CLASS_UNION2 = 8,
    CN_KERNEL_CLASS_UNION4 = 16,
    CN_KERNEL_CLASS_UNION8 = 32,
    CN_KERNEL_CLASS_UNION16 = 64,
    CN_KERNEL_CLASS_NONE = 128,
} KernelClass;

typedef enum {
    CN_CTX_CONFIG_UNION_LIMIT = 1,
    CN_CTX_CONFIG_VISIBLE_CLUSTER = 2,
    CN_CTX_CONFIG_VISIBLE_CLUSTER_NUM = 3,
} CNctxConfigParamType;

typedef union {
    KernelClass unionLimit;
    unsigned long long visibleCluster;
    int visibleClusterNumber;
} CNctxConfigParam;

typedef enum {
    CN_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 1,
    CN_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 2,
    CN_DEVICE_ATTRIBUTE_MAX_CLUSTER_COUNT = 20,
    CN_DEVICE_ATTRIBUTE_MAX_CLUSTER_COUNT_PER_UNION_TASK = 21,
    CN_DEVICE_ATTRIBUTE_MAX_CORE_COUNT_PER_CLUSTER = 22,
    CN_DEVICE_ATTRIBUTE_NRAM_SIZE_PER_MCORE = 30,
    CN_DEVICE_ATTRIBUTE_WEIGHT_RAM_SIZE_PER_MCORE = 31,
    CN_DEVICE_ATTRIBUTE_MAX_SHARED_RAM_SIZE_PER_CLUSTER = 32,
    CN_DEVICE_ATTRIBUTE_MAX_L2_CACHE_SIZE = 33,
    CN_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_TOTAL_SIZE = 34,
    CN_DEVICE_ATTRIBUTE_MAX_BLOCK_TASK_DIM_X = 40,
    CN_DEVICE_ATTRIBUTE_MAX_BLOCK_TASK_DIM_Y = 41,
    CN_DEVICE_ATTRIBUTE_MAX_BLOCK_TASK_DIM_Z = 42,
    CN_DEVICE_ATTRIBUTE_MLU_ISA_VERSION = 50,
    CN_DEVICE_ATTRIBUTE_IS_MULTIPLE_TENSOR_PROCESSOR = 51,
    CN_DEVICE_ATTRIBUTE_CLUSTER_CLOCK_RATE = 52,
} CNdevice_attribute;

#endif  // MLUSIM_CN_API_H_
