// CNRT, the runtime of a host program: memory, queues, notifiers and launches of the simulated board.
#ifndef MLUSIM_CNRT_H_
#define MLUSIM_CNRT_H_
// The guard of the vendor's header: a copy of it in a folder of the program adds nothing.
#define __CNRT_H
#define CNRT_MAJOR_VERSION 6
#define CNRT_MINOR_VERSION 7
#define CNRT_PATCH_VERSION 0
#define CNRT_VERSION (CNRT_MAJOR_VERSION * 10000 + CNRT_MINOR_VERSION * 100 + CNRT_PATCH_VERSION)

#include "mlusim/core.h"

typedef enum {
    cnrtSuccess = 0,
    cnrtErrorInit = 632001,
    cnrtErrorNoDevice = 632002,
    cnrtErrorDeviceInvalid = 632003,
    cnrtErrorNotReady = 632005,
    cnrtErrorArgsInvalid = 632007,
    cnrtErrorInvalidSymbol = 632008,
    cnrtErrorQueueInvalid = 632009,
    cnrtErrorNoMem = 632014,
    cnrtErrorSys = 632015,
    cnrtErrorKernelUserTrap = 632016,
    cnrtErrorUnknown = 632999,
    CNRT_RET_SUCCESS = cnrtSuccess,
    CNRT_RET_ERR_INVALID = cnrtErrorArgsInvalid,
    CNRT_RET_ERR_NOMEM = cnrtErrorNoMem,
    CNRT_RET_ERR_NODEV = cnrtErrorNoDevice,
    CNRT_RET_ERR_NOT_READY = cnrtErrorNotReady,
    CNRT_RET_ERR_UNKNOWN = cnrtErrorUnknown,
} cnrtRet_t;

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
typedef cnrtFunctionType_t cnrtJobType_t;

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
    CNRT_MEM_TRANS_DIR_PEER2PEER,
    CNRT_MEM_TRANS_DIR_NODIR,
} cnrtMemTransDir_t;

// A copy of rows, `height` of them in each of `depth` planes: byte (x, y, z) lies at ptr + (z * ysize + y) * pitch + x.
typedef struct { size_t x, y, z; } cnrtPos_t;
typedef struct { size_t pitch; void *ptr; size_t xsize, ysize; } cnrtPitchedPtr_t;
typedef struct { size_t depth, height, width; } cnrtExtent_t;
typedef struct {
    void *dst;
    cnrtPos_t dstPos;
    cnrtPitchedPtr_t dstPtr;
    cnrtExtent_t extent;
    cnrtMemTransDir_t dir;
    void *src;
    cnrtPos_t srcPos;
    cnrtPitchedPtr_t srcPtr;
} cnrtMemcpy3dParam_t;

typedef enum { cnrtMemTypeUnknown = 0, cnrtMemTypeHost = 1, cnrtMemTypeDevice = 2, cnrtMemTypeLocked = 3 } cnrtMemType_t;
typedef struct {
    cnrtMemType_t type;
    int deviceId, device;
    void *hostPointer, *devicePointer;
} cnrtPointerAttributes_t;

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
    cnrtUlonglong = 0x34,
    cnrtBoolean = 0x41,
    cnrtFloat16 = 0x12,
    cnrtFloat32 = 0x13,
    cnrtFloat64 = 0x14,
    cnrtInt8 = 0x21,
    cnrtInt16 = 0x22,
    cnrtInt32 = 0x23,
    cnrtInt64 = 0x24,
    cnrtUInt8 = 0x31,
    cnrtUInt16 = 0x32,
    cnrtUInt32 = 0x33,
    cnrtBool = 0x41,
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
    cnrtRounding_rz = cnrtRounding_tz,
    cnrtRounding_ro = cnrtRounding_oz,
    cnrtRounding_ru = cnrtRounding_up,
    cnrtRounding_rd = cnrtRounding_dn,
} cnrtRoundingMode_t;
// The representation of a number as an integer: value = integer * 2^position / scale.
typedef struct { int position; float scale; int offset; } *cnrtQuantizedParam_t;
typedef void (*cnrtHostFn_t)(void *);
typedef enum { CNRT_NOTIFIER_DEFAULT = 0, CNRT_NOTIFIER_DISABLE_TIMING_ALL = 2, cnrtNotifierDefault = 0, cnrtNotifierDisableTimingAll = 2 } cnrtNotifierFlag_t;
typedef enum { cnrtDeviceScheduleSpin = 0, cnrtDeviceScheduleBlock = 1, cnrtDeviceScheduleYield = 2, cnrtDeviceScheduleAuto = 3 } cnrtDeviceFlag_t;
typedef enum { cnrtQueueDefault = 0, cnrtQueueSyncSpin = 1, cnrtQueueSyncBlock = 2, cnrtQueueSyncYield = 4 } cnrtQueueFlag_t;

typedef struct { unsigned int x, y, z; } cnrtDim3_t;
typedef struct cnrtQueue *cnrtQueue_t;
typedef struct cnrtNotifier *cnrtNotifier_t;
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
    cnrtAttrMemClockRate = 53,
    cnrtAttrMemBusWidth = 54,
    cnrtAttrMaxQueueCount = 55,
    cnrtAttrMaxNotifierCount = 56,
    cnrtAttrEccEnabled = 57,
    cnrtAttrLocalMemSizePerMcore = 58,
} cnrtDeviceAttr_t;
#define CNRT_DEVICE_NAME_LEN 64
typedef struct { unsigned char uuid[16]; } cnrtUUID_t;
// Sizes per core and cluster in bytes, memory in MiB, clocks in kHz.
typedef struct cnrtDeviceProp {
    char name[CNRT_DEVICE_NAME_LEN];
    cnrtUUID_t uuid;
    int pciBusID, pciDeviceID, pciDomainID;
    size_t totalMem;
    size_t totalGlobalMem;
    int ECCEnabled, clusterClockRate, memClockRate, memBusWidth;
    int computeCapabilityMajor, computeCapabilityMinor, major, minor;
    int clusterCount, maxClusterCount, McorePerCluster, maxClusterCountPerUnionTask, isMultipleTensorProcessor;
    int maxL2CacheSize, maxPersistingL2CacheSize;
    int NramSizePerMcore, NRAMSizePerMcore, WeightRamSizePerMcore, WRAMSizePerMcore, WramSizePerMcore;
    int maxSharedMemSizePerCluster, maxSharedRamSizePerCluster, localMemSizePerMcore;
    int maxDim[3], maxDimX, maxDimY, maxDimZ;
    int maxQueueCount, maxNotifierCount, MLUIsaVersion, mluIsaVersion;
} cnrtDeviceProp_t;

// Of older versions: `core_num` counts all cores; `core_version` is no constant's.
#define CNRT_DEVICE_NAME_SIZE 64
typedef struct {
    char device_name[CNRT_DEVICE_NAME_SIZE];
    mlusim::Foreign core_version;
    int core_num;
} cnrtDeviceInfo_t;

#ifndef CNRT_CHECK
#define CNRT_CHECK(...)                                                                             \
    do {                                                                                            \
        cnrtRet_t mlusim_status = (__VA_ARGS__);                                                    \
        if (mlusim_status != cnrtSuccess) {                                                         \
            printf("[%s:%d] CNRT error, code=%d (%s)\n", __FILE__, __LINE__, int(mlusim_status),     \
                   cnrtGetErrorStr(mlusim_status));                                                 \
            exit(1);                                                                                \
        }                                                                                           \
    } while (0)
#endif

#endif  // MLUSIM_CNRT_H_
