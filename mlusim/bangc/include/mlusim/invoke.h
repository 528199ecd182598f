// Launches of host code without `<<<...>>>`: `cnrtInvokeKernel`, and its older forms, which take arguments one by one.
#ifndef MLUSIM_INVOKE_H_
#define MLUSIM_INVOKE_H_

#include <vector>

#define MLUSIM_HERE mlusim::File mlusim_f = __builtin_FILE(), int mlusim_l = __builtin_LINE()

// Bytes of the arguments, in the order in which they were added.
typedef struct cnrtKernelParamsBuffer *cnrtKernelParamsBuffer_t;
typedef struct cnrtKernelInitParam *cnrtKernelInitParam_t;

cnrtRet_t cnrtGetKernelParamsBuffer(cnrtKernelParamsBuffer_t *made);
cnrtRet_t cnrtKernelParamsBufferAddParam(cnrtKernelParamsBuffer_t buffer, const void *value, size_t size);
cnrtRet_t cnrtDestroyKernelParamsBuffer(cnrtKernelParamsBuffer_t buffer);

// A kernel's own memory needs no preparation here.
inline cnrtRet_t cnrtCreateKernelInitParam(cnrtKernelInitParam_t *made) { return *made = nullptr, cnrtSuccess; }
inline cnrtRet_t cnrtInitKernelMemory(const void *, cnrtKernelInitParam_t) { return cnrtSuccess; }
inline cnrtRet_t cnrtDestroyKernelInitParamAndMemory(cnrtKernelInitParam_t) { return cnrtSuccess; }

// The older form takes the address of the handle.
cnrtRet_t cnrtDestroyNotifier(cnrtNotifier_t *notifier, MLUSIM_HERE);

cnrtRet_t cnrtInvokeKernel(const void *function, cnrtDim3_t dim, cnrtFunctionType_t kind, void **arguments, size_t,
                           cnrtQueue_t queue, MLUSIM_HERE);
cnrtRet_t cnrtInvokeKernel_V2(const void *function, cnrtDim3_t dim, cnrtKernelParamsBuffer_t arguments,
                              cnrtFunctionType_t kind, cnrtQueue_t queue, MLUSIM_HERE);
cnrtRet_t cnrtInvokeKernel_V3(const void *function, cnrtKernelInitParam_t, cnrtDim3_t dim,
                              cnrtKernelParamsBuffer_t arguments, cnrtFunctionType_t kind, cnrtQueue_t queue, void *,
                              MLUSIM_HERE);

cnrtRet_t cnrtGetDeviceProperties(cnrtDeviceProp_t *prop, int device);
// Of older versions of CNRT.
cnrtRet_t cnrtGetDeviceInfo(cnrtDeviceInfo_t *info, int device);

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
