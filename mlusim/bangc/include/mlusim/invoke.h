// Launches of host code without `<<<...>>>`: `cnrtInvokeKernel`, and its older forms, which take arguments one by one.
#ifndef MLUSIM_INVOKE_H_
#define MLUSIM_INVOKE_H_

#include <stdexcept>
#include <string>
#include <vector>

#define MLUSIM_HERE mlusim::File mlusim_f = __builtin_FILE(), int mlusim_l = __builtin_LINE()

// Bytes of the arguments, in the order in which they were added.
struct cnrtKernelParamsBuffer { std::vector<std::string> values; };
typedef cnrtKernelParamsBuffer *cnrtKernelParamsBuffer_t;
typedef struct cnrtKernelInitParam *cnrtKernelInitParam_t;

inline cnrtRet_t cnrtGetKernelParamsBuffer(cnrtKernelParamsBuffer_t *made) {
    return *made = new cnrtKernelParamsBuffer, cnrtSuccess;
}
inline cnrtRet_t cnrtKernelParamsBufferAddParam(cnrtKernelParamsBuffer_t buffer, const void *value, size_t size) {
    return buffer->values.emplace_back(static_cast<const char *>(value), size), cnrtSuccess;
}
inline cnrtRet_t cnrtDestroyKernelParamsBuffer(cnrtKernelParamsBuffer_t buffer) { return delete buffer, cnrtSuccess; }

// A kernel's own memory needs no preparation here.
inline cnrtRet_t cnrtCreateKernelInitParam(cnrtKernelInitParam_t *made) { return *made = nullptr, cnrtSuccess; }
inline cnrtRet_t cnrtInitKernelMemory(const void *, cnrtKernelInitParam_t) { return cnrtSuccess; }
inline cnrtRet_t cnrtDestroyKernelInitParamAndMemory(cnrtKernelInitParam_t) { return cnrtSuccess; }

// The older form takes the address of the handle.
inline cnrtRet_t cnrtDestroyNotifier(cnrtNotifier_t *notifier, MLUSIM_HERE) {
    return cnrtNotifierDestroy(*notifier, mlusim_f, mlusim_l);
}

namespace mlusim {

inline const Entry &entry_at(const void *function, const char *file, int line) {
    for (const Entry *one = mlusim_entries(); one; one = one->next)
        if (one->function == function) return *one;
    mlusim_leave(9, "a function that is no kernel, or a template of kernels: pass the address of one that has "
                 "__mlu_entry__ or __mlu_global__, and launch templates with <<<...>>>", file, line);
    __builtin_unreachable();
}

inline cnrtRet_t invoke(const Entry &entry, Grid dim, int kind, const std::vector<std::string> &values, void *queue,
                        const char *file, int line) {
    std::string bytes;
    bool fits = values.size() == entry.count;
    for (size_t k = 0; fits && k < entry.count; ++k) {
        fits = values[k].size() == entry.sizes[k];
        bytes += values[k];
        bytes.resize((bytes.size() + 15) / 16 * 16);
    }
    if (!fits) {
        static char text[200];
        snprintf(text, sizeof text, "%s with %zu arguments: it takes %zu, and each has to be as large as its parameter",
                 entry.name, values.size(), size_t(entry.count));
        mlusim_leave(9, text, file, line);
    }
    __mlusim_launch(entry.name, const_cast<void *>(entry.function), reinterpret_cast<void *>(entry.body), dim.x, dim.y,
                    dim.z, kind, queue, &bytes[0], bytes.size(), file, line);
    return cnrtSuccess;
}

}  // namespace mlusim

inline cnrtRet_t cnrtInvokeKernel(const void *function, cnrtDim3_t dim, cnrtFunctionType_t kind, void **arguments, size_t,
                                  cnrtQueue_t queue, MLUSIM_HERE) {
    const mlusim::Entry &entry = mlusim::entry_at(function, mlusim_f, mlusim_l);
    std::vector<std::string> values;
    for (size_t k = 0; k < entry.count && arguments[k]; ++k) values.emplace_back(static_cast<char *>(arguments[k]), entry.sizes[k]);
    return mlusim::invoke(entry, dim, kind, values, queue, mlusim_f, mlusim_l);
}
inline cnrtRet_t cnrtInvokeKernel_V2(const void *function, cnrtDim3_t dim, cnrtKernelParamsBuffer_t arguments,
                                     cnrtFunctionType_t kind, cnrtQueue_t queue, MLUSIM_HERE) {
    const mlusim::Entry &entry = mlusim::entry_at(function, mlusim_f, mlusim_l);
    return mlusim::invoke(entry, dim, kind, arguments->values, queue, mlusim_f, mlusim_l);
}
inline cnrtRet_t cnrtInvokeKernel_V3(const void *function, cnrtKernelInitParam_t, cnrtDim3_t dim,
                                     cnrtKernelParamsBuffer_t arguments, cnrtFunctionType_t kind, cnrtQueue_t queue,
                                     void *, MLUSIM_HERE) {
    return cnrtInvokeKernel_V2(function, dim, arguments, kind, queue, mlusim_f, mlusim_l);
}

inline cnrtRet_t cnrtGetDeviceProperties(cnrtDeviceProp_t *prop, int device) {
    *prop = cnrtDeviceProp_t{};
    if (cnrtRet_t status = __mlusim_device_name(static_cast<char *>(prop->name), int(sizeof prop->name), device)) return status;
    auto get = [device](cnrtDeviceAttr_t attribute) {
        int value = 0;
        cnrtDeviceGetAttribute(&value, attribute, device);
        return value;
    };
    prop->totalMem = prop->totalGlobalMem = size_t(get(cnrtAttrTotalMemSize));
    prop->ECCEnabled = get(cnrtAttrEccEnabled);
    prop->clusterClockRate = get(cnrtAttrClusterClockRate);
    prop->memClockRate = get(cnrtAttrMemClockRate);
    prop->memBusWidth = get(cnrtAttrMemBusWidth);
    prop->computeCapabilityMajor = prop->major = get(cnrtAttrComputeCapabilityMajor);
    prop->computeCapabilityMinor = prop->minor = get(cnrtAttrComputeCapabilityMinor);
    prop->clusterCount = prop->maxClusterCount = get(cnrtAttrClusterCount);
    prop->McorePerCluster = get(cnrtAttrMcorePerCluster);
    prop->maxClusterCountPerUnionTask = get(cnrtAttrMaxClusterCountPerUnionTask);
    prop->isMultipleTensorProcessor = get(cnrtAttrIsMultipleTensorProcessor);
    prop->maxL2CacheSize = get(cnrtAttrMaxL2CacheSize);
    prop->NramSizePerMcore = prop->NRAMSizePerMcore = get(cnrtAttrNramSizePerMcore);
    prop->WeightRamSizePerMcore = prop->WRAMSizePerMcore = prop->WramSizePerMcore = get(cnrtAttrWeightRamSizePerMcore);
    prop->maxSharedMemSizePerCluster = prop->maxSharedRamSizePerCluster = get(cnrtAttrMaxSharedMemorySizePerCluster);
    prop->localMemSizePerMcore = get(cnrtAttrLocalMemSizePerMcore);
    prop->maxDim[0] = prop->maxDimX = get(cnrtAttrMaxDimX);
    prop->maxDim[1] = prop->maxDimY = get(cnrtAttrMaxDimY);
    prop->maxDim[2] = prop->maxDimZ = get(cnrtAttrMaxDimZ);
    prop->maxQueueCount = get(cnrtAttrMaxQueueCount);
    prop->maxNotifierCount = get(cnrtAttrMaxNotifierCount);
    prop->MLUIsaVersion = prop->mluIsaVersion = get(cnrtAttrMLUIsaVersion);
    return cnrtSuccess;
}

// Of older versions of CNRT.
inline cnrtRet_t cnrtGetDeviceInfo(cnrtDeviceInfo_t *info, int device) {
    cnrtDeviceProp_t prop;
    if (cnrtRet_t status = cnrtGetDeviceProperties(&prop, device)) return status;
    *info = cnrtDeviceInfo_t{};
    static_assert(sizeof prop.name >= sizeof info->device_name, "a prefix of the name is copied");
    __builtin_memcpy(info->device_name, prop.name, sizeof info->device_name - 1);
    info->core_num = prop.clusterCount * prop.McorePerCluster;
    return cnrtSuccess;
}

// Runs immediately: earlier copies and launches of all queues have completed. The host itself has not waited for them.
inline cnrtRet_t cnrtInvokeHostFunc(cnrtQueue_t queue, cnrtHostFn_t function, void *argument, MLUSIM_HERE) {
    __mlusim_host_function(queue, true, mlusim_f, mlusim_l);
    function(argument);
    return __mlusim_host_function(queue, false, mlusim_f, mlusim_l);
}

template <class T> inline cnrtRet_t cnrtConvertFloatToHalfArray(T *halves, const float *floats, int count) {
    static_assert(sizeof(T) == sizeof(half), "a half has 2 bytes");
    for (int k = 0; k < count; ++k) {
        half one = half(floats[k]);
        __builtin_memcpy(halves + k, &one, sizeof one);
    }
    return cnrtSuccess;
}
template <class T> inline cnrtRet_t cnrtConvertHalfToFloatArray(float *floats, const T *halves, int count) {
    static_assert(sizeof(T) == sizeof(half), "a half has 2 bytes");
    for (int k = 0; k < count; ++k) {
        half one;
        __builtin_memcpy(&one, halves + k, sizeof one);
        floats[k] = float(one);
    }
    return cnrtSuccess;
}

// Filters in the order of `__bang_reshape_filter`: those of lane 0 first, where filter i is of lane i % 64.
inline cnrtRet_t cnrtFilterReshape(void *to, const void *from, int n, int h, int w, int c, cnrtDataType_t type) {
    // The low digit of the number of a type is the logarithm of its bytes, plus one; bfloat16 has the width of half.
    const int digit = (type == cnrtBfloat ? cnrtHalf : type) & 0xf;
    const size_t bytes = size_t(h) * w * c << (digit - 1), lanes = 64, rows = n / lanes;
    if (n % lanes) return cnrtErrorArgsInvalid;
    for (size_t k = 0; k < size_t(n); ++k)
        __builtin_memcpy(static_cast<char *>(to) + (k % lanes * rows + k / lanes) * bytes,
                         static_cast<const char *>(from) + k * bytes, bytes);
    return cnrtSuccess;
}

inline cnrtRet_t cnrtCreateQuantizedParam(cnrtQuantizedParam_t *made, int position, float scale, int offset) {
    *made = new typename std::remove_pointer<cnrtQuantizedParam_t>::type{position, scale, offset};
    return cnrtSuccess;
}
inline cnrtRet_t cnrtDestroyQuantizedParam(cnrtQuantizedParam_t parameter) { return delete parameter, cnrtSuccess; }

#endif  // MLUSIM_INVOKE_H_
