// Functions of the headers that every compiled file shares: they are compiled once, for each compiler.
#include "mlu.h"

#include <string>
#include <vector>

namespace mlusim {
Entry *&entries() {
    static Entry *first = nullptr;
    return first;
}
Entry *&instances() {
    static Entry *first = nullptr;
    return first;
}
}  // namespace mlusim

extern "C" {
mlusim_unit_variables mlusim_unit;
mlusim::Entry *mlusim_entries() { return mlusim::entries(); }
}

// A kernel has no heap: the linker redirects its functions here. Static initializers and host code may use the heap,
// whose blocks bound the copies of CNRT.
extern "C" {
void mlusim_allocated(void *block, size_t size);
void mlusim_released(void *block);
__attribute__((visibility("default"))) int mlusim_in_kernel;
#define MLUSIM_HEAP(result, function, said, parameters, before, call, after)                              \
    result __real_##function parameters;                                                                  \
    __attribute__((no_sanitize("thread"))) result __wrap_##function parameters { \
        if (mlusim_in_kernel) mlusim_leave(6, said, "", 0);                                               \
        before __real_##function call;                                                                    \
        after                                                                                             \
    }
#define MLUSIM_ALLOCATES(function, said, parameters, call, size) \
    MLUSIM_HEAP(void *, function, said, parameters, void *block =, call, mlusim_allocated(block, size); return block;)
#define MLUSIM_RELEASES(function, said, parameters, call) \
    MLUSIM_HEAP(void, function, said, parameters, mlusim_released(old);, call, )
MLUSIM_ALLOCATES(malloc, "malloc", (size_t size), (size), size)
MLUSIM_ALLOCATES(calloc, "calloc", (size_t count, size_t size), (count, size), count * size)
MLUSIM_HEAP(void *, realloc, "realloc", (void *old, size_t size), mlusim_released(old); void *block =, (old, size),
            mlusim_allocated(block, size); return block;)
MLUSIM_RELEASES(free, "free", (void *old), (old))
MLUSIM_ALLOCATES(_Znwm, "operator new", (size_t size), (size), size)
MLUSIM_ALLOCATES(_Znam, "operator new[]", (size_t size), (size), size)
MLUSIM_RELEASES(_ZdlPv, "operator delete", (void *old), (old))
MLUSIM_RELEASES(_ZdaPv, "operator delete[]", (void *old), (old))
MLUSIM_RELEASES(_ZdlPvm, "operator delete", (void *old, size_t size), (old, size))
MLUSIM_RELEASES(_ZdaPvm, "operator delete[]", (void *old, size_t size), (old, size))
MLUSIM_HEAP(void *, __cxa_allocate_exception, "throw", (size_t size), return, (size), )
#undef MLUSIM_RELEASES
#undef MLUSIM_ALLOCATES
#undef MLUSIM_HEAP
}

// Functions passed to `atexit`, and destructors of objects outside functions, the last one first. They may call CNRT, so
// they run at the end of `main`, not when the file is unloaded; those of a kernel's copy of the file never run.
struct mlusim_ending {
    void (*function)(void *);
    void *argument;
    mlusim_ending *next;
};
extern "C" {
mlusim_ending *mlusim_endings;
__attribute__((no_sanitize("thread"))) int __wrap___cxa_atexit(
    void (*function)(void *), void *argument, void *) {
    if (!mlusim_in_kernel) mlusim_endings = new mlusim_ending{function, argument, mlusim_endings};
    return 0;
}
}

namespace mlusim {

void finish() {
    while (mlusim_ending *last = mlusim_in_kernel ? nullptr : mlusim_endings) {
        mlusim_endings = last->next;
        last->function(last->argument);
        delete last;
    }
}

MLUSIM_PLAIN void terminated() {
    const char *what = "it is not a std::exception";
    if (!mlusim_call_record) __builtin_trap();
    if (std::exception_ptr thrown = std::current_exception()) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::exception &one) {
            what = one.what();
        } catch (...) {
        }
        mlusim_leave(3, what, "", 0);
    }
    mlusim_leave(0, "", "", 0);
    __builtin_unreachable();
}

}  // namespace mlusim

// The compiler calls this when a function finds its frame overwritten.
extern "C" __attribute__((noreturn, no_stack_protector)) void __stack_chk_fail() {
    mlusim_leave(4, "", "", 0);
    __builtin_unreachable();
}

namespace mlusim {

inline double whole(double x, Rounding mode) {
    switch (mode) {
        case TZ: return std::trunc(x);
        case RN: return std::nearbyint(x);
        case RD: return std::round(x);
        case DN: return std::floor(x);
        case UP: return std::ceil(x);
        case OZ: return x < 0 ? std::floor(x) : std::ceil(x);
        default: return std::floor(x + 0.5);
    }
}

// The next float of 16 or 32 bits towards an infinity.
template <class T> inline T step(T value, bool up) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
    constexpr int64_t sign = int64_t(1) << (8 * sizeof(T) - 1);
    Bits bits;
    __builtin_memcpy(&bits, &value, sizeof(T));
    int64_t ordered = (bits & sign ? sign - bits : int64_t(bits)) + (up ? 1 : -1);
    bits = Bits(ordered < 0 ? sign - ordered : ordered);
    __builtin_memcpy(&value, &bits, sizeof(T));
    return value;
}

// The nearest float, or the neighbour that the mode selects; `error` has the sign of the exact value minus the nearest.
template <class T> inline T directed(T near, double error, Rounding mode) {
    bool negative = std::signbit(float(near));
    if (error < 0 && (mode == DN || mode == (negative ? OZ : TZ))) return step(near, false);
    if (error > 0 && (mode == UP || mode == (negative ? TZ : OZ))) return step(near, true);
    return near;
}

// The value of a float; of an infinity, that of the float which would follow the largest one.
template <class T> inline double place(T value) {
    if (!std::isinf(float(value))) return double(float(value));
    T last = step(value, value < T(0)), one_before = step(last, value < T(0));
    return 2 * double(float(last)) - double(float(one_before));
}

template <class T> inline T narrow(double x, Rounding mode) {
    T near = T(float(x));
    double error = x - double(float(near));
    if (!(std::isfinite(x) && error != 0)) return near;
    if (mode != RD && mode != RM) return directed(near, error, mode);
    T low = directed(near, error, DN), high = directed(near, error, UP);
    if (x - place(low) != place(high) - x) return near;
    return mode == RD && x < 0 ? low : high;
}

// Arithmetic on floats of 16 or 32 bits in a mode. The sign of the error is exact: operands have at most 24 bits.
template <class T> T sum(T x, T y, Rounding mode) {
    T near = T(float(x) + float(y));
    double a = double(float(x)), b = double(float(y)), total = a + b, part = total - a, error = total - double(float(near));
    return directed(near, error != 0 ? error : (a - (total - part)) + (b - part), mode);
}
template <class T> T difference(T x, T y, Rounding mode) { return sum(x, T(-y), mode); }
template <class T> T product(T x, T y, Rounding mode) {
    T near = T(float(x) * float(y));
    return directed(near, double(float(x)) * double(float(y)) - double(float(near)), mode);
}
template <class T> T quotient(T x, T y, Rounding mode) {
    T near = T(float(x) / float(y));
    double rest = double(float(x)) - double(float(near)) * double(float(y));
    return directed(near, std::signbit(float(y)) ? -rest : rest, mode);
}

// The inverse of the error function at x; `complement` is 1 - |x|, more exactly than x tells near 1. Winitzki's
// approximation, then Halley's method.
inline double inverse_erf(double x, double complement) {
    if (!(complement > 0)) return complement == 0 ? std::copysign(INFINITY, x) : NAN;
    bool small = std::fabs(x) < 0.5;
    double log = small ? std::log1p(-x * x) : std::log(complement * (2 - complement)), half = 4.3307 + log / 2;
    double y = std::sqrt(std::sqrt(half * half - log / 0.147) - half);
    for (int k = 0; k < 3; ++k) {
        double excess = small ? std::erf(y) - std::fabs(x) : complement - std::erfc(y);
        double newton = excess / (1.1283791670955126 * std::exp(-y * y));
        y -= newton / (1 + y * newton);
    }
    return std::copysign(y, x);
}
double erfinv(double x) { return inverse_erf(x, 1 - std::fabs(x)); }
double erfcinv(double x) { return inverse_erf(1 - x, x < 1 ? x : 2 - x); }

template <class T, class S> T convert(S source, Rounding mode) {
    if constexpr (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value || std::is_same<T, float>::value)
        return narrow<T>(double(source), mode);
    else if constexpr (std::is_floating_point<T>::value) return T(source);
    else if constexpr (std::is_integral<S>::value) return T(source);
    else {
        double value = whole(double(float(source)), mode);
        if (value != value) return T(0);
        if (value <= double(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
        if (value >= double(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
        return T(value);
    }
}

#define MLUSIM_MADE(type, whole)                                \
    template whole convert<whole, type>(type, Rounding);        \
    template type convert<type, whole>(whole, Rounding);
#define MLUSIM_FLOAT(type, other)                                                                       \
    MLUSIM_MADE(type, bool) MLUSIM_MADE(type, char) MLUSIM_MADE(type, signed char) MLUSIM_MADE(type, unsigned char)   \
    MLUSIM_MADE(type, short) MLUSIM_MADE(type, unsigned short) MLUSIM_MADE(type, int) MLUSIM_MADE(type, unsigned)     \
    MLUSIM_MADE(type, long) MLUSIM_MADE(type, unsigned long) MLUSIM_MADE(type, other)
MLUSIM_FLOAT(float, half) MLUSIM_FLOAT(half, bfloat16_t) MLUSIM_FLOAT(bfloat16_t, float)
#define MLUSIM_ROUNDED(type)                                                                            \
    template type sum(type, type, Rounding);                                                            \
    template type difference(type, type, Rounding);                                                     \
    template type product(type, type, Rounding);                                                        \
    template type quotient(type, type, Rounding);
MLUSIM_ROUNDED(float) MLUSIM_ROUNDED(half)

}  // namespace mlusim

// Bytes of the arguments, in the order in which they were added.
// The functions that `scalar.h` declares.
#undef MLUSIM_PLACE
#define MLUSIM_PLACE const char *file, int line
#undef MLUSIM_OLD
#define MLUSIM_OLD(type, intrinsic, ...) { type old = 0; return intrinsic(&old, __VA_ARGS__, file, line), old; }
MLUSIM_ALL_ATOMICS

struct cnrtKernelParamsBuffer { std::vector<std::string> values; };

cnrtRet_t cnrtGetKernelParamsBuffer(cnrtKernelParamsBuffer_t *made) {
    return *made = new cnrtKernelParamsBuffer, cnrtSuccess;
}
cnrtRet_t cnrtKernelParamsBufferAddParam(cnrtKernelParamsBuffer_t buffer, const void *value, size_t size) {
    return buffer->values.emplace_back(static_cast<const char *>(value), size), cnrtSuccess;
}
cnrtRet_t cnrtDestroyKernelParamsBuffer(cnrtKernelParamsBuffer_t buffer) { return delete buffer, cnrtSuccess; }

cnrtRet_t cnrtDestroyNotifier(cnrtNotifier_t *notifier, mlusim::File mlusim_f, int mlusim_l) {
    return cnrtNotifierDestroy(*notifier, mlusim_f, mlusim_l);
}

namespace mlusim {

static const Entry &entry_at(const void *function, const char *file, int line) {
    for (const Entry *first : {entries(), instances()})
        for (const Entry *one = first; one; one = one->next)
            if (one->function == function) return *one;
    mlusim_leave(9, "a function that is no kernel: pass the address of one that has __mlu_entry__ or __mlu_global__",
                 file, line);
    __builtin_unreachable();
}

static cnrtRet_t invoke(const Entry &entry, Grid dim, int kind, const std::vector<std::string> &values, void *queue,
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

cnrtRet_t cnrtInvokeKernel(const void *function, cnrtDim3_t dim, cnrtFunctionType_t kind, void **arguments, size_t,
                                  cnrtQueue_t queue, mlusim::File mlusim_f, int mlusim_l) {
    const mlusim::Entry &entry = mlusim::entry_at(function, mlusim_f, mlusim_l);
    std::vector<std::string> values;
    for (size_t k = 0; k < entry.count && arguments[k]; ++k) values.emplace_back(static_cast<char *>(arguments[k]), entry.sizes[k]);
    return mlusim::invoke(entry, dim, kind, values, queue, mlusim_f, mlusim_l);
}
cnrtRet_t cnrtInvokeKernel_V2(const void *function, cnrtDim3_t dim, cnrtKernelParamsBuffer_t arguments,
                                     cnrtFunctionType_t kind, cnrtQueue_t queue, mlusim::File mlusim_f, int mlusim_l) {
    const mlusim::Entry &entry = mlusim::entry_at(function, mlusim_f, mlusim_l);
    return mlusim::invoke(entry, dim, kind, arguments->values, queue, mlusim_f, mlusim_l);
}
cnrtRet_t cnrtInvokeKernel_V3(const void *function, cnrtKernelInitParam_t, cnrtDim3_t dim,
                                     cnrtKernelParamsBuffer_t arguments, cnrtFunctionType_t kind, cnrtQueue_t queue,
                                     void *, mlusim::File mlusim_f, int mlusim_l) {
    return cnrtInvokeKernel_V2(function, dim, arguments, kind, queue, mlusim_f, mlusim_l);
}

cnrtRet_t cnrtGetDeviceProperties(cnrtDeviceProp_t *prop, int device) {
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

cnrtRet_t cnrtGetDeviceInfo(cnrtDeviceInfo_t *info, int device) {
    cnrtDeviceProp_t prop;
    if (cnrtRet_t status = cnrtGetDeviceProperties(&prop, device)) return status;
    *info = cnrtDeviceInfo_t{};
    static_assert(sizeof prop.name >= sizeof info->device_name, "a prefix of the name is copied");
    __builtin_memcpy(info->device_name, prop.name, sizeof info->device_name - 1);
    info->core_num = prop.clusterCount * prop.McorePerCluster;
    return cnrtSuccess;
}
