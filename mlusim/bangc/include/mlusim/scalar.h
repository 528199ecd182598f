// Scalar intrinsics that are plain C++: conversions with their rounding, bits, maths.
#ifndef MLUSIM_SCALAR_H_
#define MLUSIM_SCALAR_H_

#include <limits>

inline bool __is_mpu() { return mlusim_unit.is_memory_core != 0; }
inline bool __is_ipu() { return mlusim_unit.is_memory_core == 0; }

namespace mlusim {

// How a conversion rounds: to zero, to nearest even, half away from zero, down, up, away from zero, half up.
enum Rounding { TZ, RN, RD, DN, UP, OZ, RM };

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

// The next 16-bit float towards an infinity.
template <class T> inline T step(T value, bool up) {
    uint16_t bits;
    __builtin_memcpy(&bits, &value, 2);
    int ordered = bits & 0x8000 ? 0x8000 - bits : bits;
    ordered += up ? 1 : -1;
    bits = uint16_t(ordered < 0 ? 0x8000 - ordered : ordered);
    __builtin_memcpy(&value, &bits, 2);
    return value;
}

template <class T> inline T narrow(double x, Rounding mode) {
    T near = T(float(x));
    double back = double(float(near));
    if (mode == RN || back == x || x != x) return near;
    T low = back > x ? step(near, false) : near, high = back < x ? step(near, true) : near;
    bool negative = x < 0;
    double below = double(float(low)), above = double(float(high));
    switch (mode) {
        case DN: return low;
        case UP: return high;
        case TZ: return negative ? high : low;
        case OZ: return negative ? low : high;
        default:
            if (x - below != above - x) return near;
            return mode == RD && negative ? low : high;
    }
}

template <class T, class S> inline T convert(S source, Rounding mode) {
    if constexpr (std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value)
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

}  // namespace mlusim

#define MLUSIM_CONVERT(sname, stype, tname, ttype, fallback)                                                     \
    inline ttype __##sname##2##tname(stype x) { return mlusim::convert<ttype>(x, mlusim::fallback); }             \
    inline ttype __##sname##2##tname##_tz(stype x) { return mlusim::convert<ttype>(x, mlusim::TZ); }              \
    inline ttype __##sname##2##tname##_rn(stype x) { return mlusim::convert<ttype>(x, mlusim::RN); }              \
    inline ttype __##sname##2##tname##_rd(stype x) { return mlusim::convert<ttype>(x, mlusim::RD); }              \
    inline ttype __##sname##2##tname##_dn(stype x) { return mlusim::convert<ttype>(x, mlusim::DN); }              \
    inline ttype __##sname##2##tname##_up(stype x) { return mlusim::convert<ttype>(x, mlusim::UP); }              \
    inline ttype __##sname##2##tname##_oz(stype x) { return mlusim::convert<ttype>(x, mlusim::OZ); }              \
    inline ttype __##sname##2##tname##_rm(stype x) { return mlusim::convert<ttype>(x, mlusim::RM); }
#define MLUSIM_INTEGERS(of, sname, stype)                                                                        \
    of(sname, stype, int, int, TZ) of(sname, stype, int32, int32_t, TZ) of(sname, stype, uint, unsigned, TZ)      \
    of(sname, stype, uint32, uint32_t, TZ) of(sname, stype, short, short, TZ) of(sname, stype, int16, int16_t, TZ) \
    of(sname, stype, ushort, unsigned short, TZ) of(sname, stype, uint16, uint16_t, TZ)                           \
    of(sname, stype, char, char, TZ) of(sname, stype, int8, int8_t, TZ) of(sname, stype, uchar, unsigned char, TZ) \
    of(sname, stype, uint8, uint8_t, TZ) of(sname, stype, int64, int64_t, TZ)                                     \
    of(sname, stype, uint64, uint64_t, TZ) of(sname, stype, bool, bool, TZ)
#define MLUSIM_FROM(sname, stype, tname, ttype, fallback) MLUSIM_CONVERT(tname, ttype, sname, stype, RN)
MLUSIM_INTEGERS(MLUSIM_CONVERT, float, float)
MLUSIM_INTEGERS(MLUSIM_CONVERT, half, half)
MLUSIM_INTEGERS(MLUSIM_CONVERT, bfloat16, bfloat16_t)
MLUSIM_INTEGERS(MLUSIM_FROM, float, float)
MLUSIM_INTEGERS(MLUSIM_FROM, half, half)
MLUSIM_INTEGERS(MLUSIM_FROM, bfloat16, bfloat16_t)
MLUSIM_CONVERT(float, float, half, half, RN)
MLUSIM_CONVERT(half, half, float, float, RN)
MLUSIM_CONVERT(float, float, bfloat16, bfloat16_t, RN)
MLUSIM_CONVERT(bfloat16, bfloat16_t, float, float, RN)
MLUSIM_CONVERT(half, half, bfloat16, bfloat16_t, RN)
MLUSIM_CONVERT(bfloat16, bfloat16_t, half, half, RN)

inline unsigned __popcnt(uint64_t x) { return unsigned(__builtin_popcountll(x)); }
inline unsigned __popcnt(uint32_t x) { return unsigned(__builtin_popcount(x)); }
inline unsigned __popcnt(int x) { return unsigned(__builtin_popcount(unsigned(x))); }
inline unsigned __popcnt(uint16_t x) { return unsigned(__builtin_popcount(x)); }
inline unsigned __popcnt(uint8_t x) { return unsigned(__builtin_popcount(x)); }

#define MLUSIM_SCALAR(name)                                                                    \
    inline float __cn_scalar_##name##_f32(float x) { return std::name(x); }                    \
    inline half __cn_scalar_##name##_f16(half x) { return half(std::name(float(x))); }         \
    inline float __nv_##name##f(float x) { return std::name(x); }
MLUSIM_SCALAR(sin) MLUSIM_SCALAR(cos) MLUSIM_SCALAR(tan) MLUSIM_SCALAR(exp) MLUSIM_SCALAR(exp2)
MLUSIM_SCALAR(log) MLUSIM_SCALAR(log2) MLUSIM_SCALAR(log10) MLUSIM_SCALAR(log1p) MLUSIM_SCALAR(sqrt)
MLUSIM_SCALAR(atan) MLUSIM_SCALAR(asin) MLUSIM_SCALAR(acos) MLUSIM_SCALAR(tanh) MLUSIM_SCALAR(erf)
MLUSIM_SCALAR(floor) MLUSIM_SCALAR(ceil) MLUSIM_SCALAR(round) MLUSIM_SCALAR(trunc) MLUSIM_SCALAR(fabs)
MLUSIM_SCALAR(cbrt) MLUSIM_SCALAR(expm1) MLUSIM_SCALAR(lgamma) MLUSIM_SCALAR(tgamma) MLUSIM_SCALAR(sinh)
MLUSIM_SCALAR(cosh)
#define MLUSIM_SCALAR2(name, call)                                                                       \
    inline float __cn_scalar_##name##_f32(float x, float y) { return std::call(x, y); }                  \
    inline half __cn_scalar_##name##_f16(half x, half y) { return half(std::call(float(x), float(y))); } \
    inline float __nv_##call##f(float x, float y) { return std::call(x, y); }
MLUSIM_SCALAR2(pow, pow) MLUSIM_SCALAR2(atan2, atan2) MLUSIM_SCALAR2(fmod, fmod) MLUSIM_SCALAR2(hypot, hypot)
MLUSIM_SCALAR2(max, fmax) MLUSIM_SCALAR2(min, fmin)

// Scalar arithmetic, comparisons and conversions of the vendor's library, rounded to nearest even; integers truncate.
#define MLUSIM_SCALAR_FLOATS(name, expression)                                                                      \
    inline float __cn_scalar_##name##_f32_rn(float x, float y) { return expression; }                               \
    inline half __cn_scalar_##name##_f16_rn(half a, half b) { float x = float(a), y = float(b); return half(expression); }
#define MLUSIM_SCALAR_INTEGERS(name, expression)                                                  \
    inline int32_t __cn_scalar_##name##_s32(int32_t x, int32_t y) { return int32_t(expression); } \
    inline uint32_t __cn_scalar_##name##_u32(uint32_t x, uint32_t y) { return uint32_t(expression); }
#define MLUSIM_SCALAR_LONGS(name, expression)                                                      \
    inline int64_t __cn_scalar_##name##_s64(int64_t x, int64_t y) { return int64_t(expression); } \
    inline uint64_t __cn_scalar_##name##_u64(uint64_t x, uint64_t y) { return uint64_t(expression); }
MLUSIM_SCALAR_FLOATS(add, x + y) MLUSIM_SCALAR_FLOATS(sub, x - y) MLUSIM_SCALAR_FLOATS(mul, x * y)
MLUSIM_SCALAR_FLOATS(div, x / y) MLUSIM_SCALAR_INTEGERS(add, x + y) MLUSIM_SCALAR_INTEGERS(sub, x - y)
MLUSIM_SCALAR_INTEGERS(mul, x * y) MLUSIM_SCALAR_INTEGERS(div, x / y) MLUSIM_SCALAR_LONGS(add, x + y)
MLUSIM_SCALAR_INTEGERS(max, x > y ? x : y) MLUSIM_SCALAR_INTEGERS(min, x < y ? x : y)
MLUSIM_SCALAR_LONGS(max, x > y ? x : y)
inline float __cn_scalar_exp10_f32(float x) { return float(std::pow(10.0, double(x))); }
inline half __cn_scalar_exp10_f16(half x) { return half(__cn_scalar_exp10_f32(float(x))); }
inline float __cn_scalar_accurate_sqrt_f32(float x) { return std::sqrt(x); }
inline int __cn_scalar_isfinite_f32(float x) { return std::isfinite(x); }
inline float __cn_scalar_abs_f32(float x) { return std::fabs(x); }
inline half __cn_scalar_abs_f16(half x) { return half(std::fabs(float(x))); }
inline float __cn_scalar_rcp_f32_rn(float x) { return 1.0f / x; }
inline half __cn_scalar_rcp_f16_rn(half x) { return half(1.0f / float(x)); }
inline float __cn_scalar_rsqrt_f32(float x) { return 1.0f / std::sqrt(x); }
inline half __cn_scalar_rsqrt_f16(half x) { return half(1.0f / std::sqrt(float(x))); }
inline int __cn_scalar_isnan_f32(float x) { return x != x; }
inline int __cn_scalar_isnan_f16(half x) { return x != x; }
inline int __cn_scalar_isinf_f32(float x) { return std::fabs(x) == INFINITY; }
inline int __cn_scalar_isinf_f16(half x) { return std::fabs(float(x)) == INFINITY; }
inline float __cn_scalar_mod_f32(float x, float y) { return std::fmod(x, y); }
inline half __cn_scalar_mod_f16(half x, half y) { return half(std::fmod(float(x), float(y))); }
inline float __cn_scalar_scalbn_f32(float x, int n) { return std::scalbn(x, n); }
inline half __cn_scalar_scalbn_f16(half x, int n) { return half(std::scalbn(float(x), n)); }
inline float __cn_scalar_cast_f16_to_f32(half x) { return float(x); }
inline half __cn_scalar_cast_f32_to_f16_rn(float x) { return half(x); }
inline float __cn_scalar_cast_s32_to_f32_rn(int32_t x) { return float(x); }
inline float __cn_scalar_cast_u32_to_f32_rn(uint32_t x) { return float(x); }
inline int32_t __cn_scalar_cast_f32_to_s32_rn(float x) { return mlusim::convert<int32_t>(x, mlusim::RN); }
inline int32_t __cn_scalar_cast_f32_to_s32_tz(float x) { return mlusim::convert<int32_t>(x, mlusim::TZ); }
inline int32_t __cn_scalar_cast_f32_to_s32_dn(float x) { return mlusim::convert<int32_t>(x, mlusim::DN); }
inline int32_t __cn_scalar_cast_f32_to_s32_up(float x) { return mlusim::convert<int32_t>(x, mlusim::UP); }
inline uint32_t __cn_scalar_cast_f32_to_u32_rn(float x) { return mlusim::convert<uint32_t>(x, mlusim::RN); }
inline int64_t __cn_scalar_cast_f32_to_s64_tz(float x) { return mlusim::convert<int64_t>(x, mlusim::TZ); }
inline int64_t __cn_scalar_cast_s32_to_s64(int32_t x) { return x; }
inline uint64_t __cn_scalar_cast_u32_to_u64(uint32_t x) { return x; }
inline int64_t __cn_scalar_cast_u8_to_s64(uint8_t x) { return x; }

// A scalar load or store by its memory's name: plain C++ does it, and is seen.
template <class T> inline T __load_gdram(const T *address) { return *address; }
template <class T> inline T __load_ldram(const T *address) { return *address; }
template <class T> inline T __load_sram(const T *address) { return *address; }
template <class T> inline T __load_nram(const T *address) { return *address; }
template <class T, class V> inline void __store_gdram(T *address, V value) { *address = T(value); }
template <class T, class V> inline void __store_ldram(T *address, V value) { *address = T(value); }
template <class T, class V> inline void __store_sram(T *address, V value) { *address = T(value); }
template <class T, class V> inline void __store_nram(T *address, V value) { *address = T(value); }

inline bool __is_nram(const volatile void *address) { return __mlusim_memory(address) == 0; }
inline bool __is_wram(const volatile void *address) { return __mlusim_memory(address) == 1; }
inline bool __is_sram(const volatile void *address) { return __mlusim_memory(address) == 2; }
inline bool __is_ldram(const volatile void *address) { return __mlusim_memory(address) == 3; }
inline bool __is_gdram(const volatile void *address) { return __mlusim_memory(address) == 4; }
inline bool __is_dram(const volatile void *address) { return __mlusim_memory(address) >= 3; }

namespace mlusim {

// A call of an intrinsic that the simulator does not know: an error when it is reached.
struct Unknown {
    const char *name, *file;
    int line;
    template <class... A> Anything operator()(const A &...) const { return __mlusim_unknown(name, file, line); }
};

inline Unknown unknown(const char *name, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {name, file, line};
}

}  // namespace mlusim

#include "mlusim/launch.h"
#include "mlusim/vector.h"
#include "mlusim/output.h"

#endif  // MLUSIM_SCALAR_H_
