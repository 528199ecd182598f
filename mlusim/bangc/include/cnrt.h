// CNRT, the runtime of a host program: memory, queues, notifiers and launches of the simulated board.
#ifndef MLUSIM_CNRT_H_
#define MLUSIM_CNRT_H_

#include "mlusim/core.h"

typedef enum {
    cnrtSuccess = 0,
    cnrtErrorNotReady = 632005,
    cnrtErrorArgsInvalid = 632007,
    cnrtErrorNoMem = 632014,
    cnrtErrorUnknown = 632999,
} cnrtRet_t;
#define CNRT_RET_SUCCESS cnrtSuccess

typedef enum {
    cnrtFuncTypeBlock = 1,
    cnrtFuncTypeUnion1 = 4,
    cnrtFuncTypeUnion2 = 8,
    cnrtFuncTypeUnion4 = 16,
    cnrtFuncTypeUnion8 = 32,
    cnrtFuncTypeUnion16 = 64,
    cnrtFunctionTypeBlock = 1,
    cnrtFunctionTypeUnion1 = 4,
    cnrtFunctionTypeUnion2 = 8,
    cnrtFunctionTypeUnion4 = 16,
    cnrtFunctionTypeUnion8 = 32,
    cnrtFunctionTypeUnion16 = 64,
    cnrtFuncTypeMutable = -1,
    CNRT_FUNC_TYPE_MUTABLE = -1,
    CNRT_FUNC_TYPE_BLOCK = 1,
    CNRT_FUNC_TYPE_UNION1 = 4,
    CNRT_FUNC_TYPE_UNION2 = 8,
    CNRT_FUNC_TYPE_UNION4 = 16,
    CNRT_FUNC_TYPE_UNION8 = 32,
    CNRT_FUNC_TYPE_UNION16 = 64,
} cnrtFunctionType_t;

typedef enum {
    cnrtMemcpyHostToDev = 0,
    cnrtMemcpyDevToHost,
    cnrtMemcpyDevToDev,
    cnrtMemcpyHostToHost,
    cnrtMemcpyPeerToPeer,
    cnrtMemcpyNoDirection,
    CNRT_MEM_TRANS_DIR_HOST2DEV = 0,
    CNRT_MEM_TRANS_DIR_DEV2HOST,
    CNRT_MEM_TRANS_DIR_DEV2DEV,
    CNRT_MEM_TRANS_DIR_HOST2HOST,
} cnrtMemTransDir_t;

typedef enum {
    cnrtHalf = 0x12,
    cnrtFloat = 0x13,
    cnrtDouble = 0x14,
    cnrtBfloat = 0x18,
    cnrtChar = 0x21,
    cnrtShort = 0x22,
    cnrtInt = 0x23,
    cnrtLonglong = 0x24,
    cnrtUchar = 0x31,
    cnrtUshort = 0x32,
    cnrtUint = 0x33,
    cnrtBoolean = 0x41,
    CNRT_FLOAT16 = 0x12,
    CNRT_FLOAT32 = 0x13,
    CNRT_FLOAT64 = 0x14,
    CNRT_INT8 = 0x21,
    CNRT_INT16 = 0x22,
    CNRT_INT32 = 0x23,
    CNRT_INT64 = 0x24,
    CNRT_UINT8 = 0x31,
    CNRT_BOOL = 0x41,
} cnrtDataType_V2_t;
typedef cnrtDataType_V2_t cnrtDataType_t;
typedef enum {
    cnrtRounding_rm,
    cnrtRounding_tz,
    cnrtRounding_oz,
    cnrtRounding_up,
    cnrtRounding_dn,
    cnrtRounding_rn,
} cnrtRoundingMode_t;

typedef struct { unsigned int x, y, z; } cnrtDim3_t;
typedef struct cnrtQueueStruct *cnrtQueue_t;
typedef struct cnrtNotifierStruct *cnrtNotifier_t;
typedef int cnrtDev_t;
// Device attributes; the numbers are those of `cn_api.h`.
typedef enum {
    cnrtAttrComputeCapabilityMajor = 1,
    cnrtAttrComputeCapabilityMinor = 2,
    cnrtAttrClusterCount = 20,
    cnrtAttrMaxClusterCountPerUnionTask = 21,
    cnrtAttrMcorePerCluster = 22,
    cnrtAttrNramSizePerMcore = 30,
    cnrtAttrWeightRamSizePerMcore = 31,
    cnrtAttrMaxSharedMemorySizePerCluster = 32,
    cnrtAttrMaxL2CacheSize = 33,
    cnrtAttrTotalMemSize = 34,
    cnrtAttrMaxDimX = 40,
    cnrtAttrMaxDimY = 41,
    cnrtAttrMaxDimZ = 42,
    cnrtAttrMLUIsaVersion = 50,
    cnrtAttrIsMultipleTensorProcessor = 51,
    cnrtAttrClusterClockRate = 52,
} cnrtDeviceAttr_t;
typedef struct { char name[64]; int clusterCount, McorePerCluster, maxClusterCountPerUnionTask; } cnrtDeviceProp_t;


#ifndef CNRT_CHECK
#define CNRT_CHECK(...)                                                                             \
    do {                                                                                            \
        cnrtRet_t mlusim_status = (__VA_ARGS__);                                                    \
        if (mlusim_status != cnrtSuccess) {                                                         \
            printf("[%s:%d] CNRT error, code=%d\n", __FILE__, __LINE__, int(mlusim_status));        \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)
#endif

#endif  // MLUSIM_CNRT_H_
