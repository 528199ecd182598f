// Scalar intrinsics that are plain C++: conversions with their rounding, bits, maths.
#ifndef MLUSIM_SCALAR_H_
#define MLUSIM_SCALAR_H_

#include <limits>

inline bool __is_mpu() { return mlusim_unit.is_memory_core != 0; }
inline bool __is_ipu() { return mlusim_unit.is_memory_core == 0; }

namespace mlusim {

// How a conversion rounds: to zero, to nearest even, half away from zero, down, up, away from zero, half up.
enum Rounding { TZ, RN, RD, DN, UP, OZ, RM };

// A value as a number of another type, and arithmetic on floats of 16 or 32 bits, in a mode.
template <class T, class S> T convert(S source, Rounding mode);
template <class T> T sum(T x, T y, Rounding mode);
template <class T> T difference(T x, T y, Rounding mode);
template <class T> T product(T x, T y, Rounding mode);
template <class T> T quotient(T x, T y, Rounding mode);
double erfinv(double x);
double erfcinv(double x);

// Whether a variable holds the pattern of those without a value. That of a bool is `false`, and the use of a pointer is
// an error of its own. Clang only warns of variables that no path sets. The bytes are volatile, as g++ may otherwise take
// a variable that one path sets to a constant for that constant.
template <bool certain, class T> __attribute__((always_inline)) inline bool is_unset(const volatile T &value) {
    using Element = typename std::remove_cv<typename std::remove_all_extents<T>::type>::type;
    if constexpr (std::is_pointer<Element>::value) return false;
#ifndef __clang__
    else if constexpr (!std::is_same<Element, bool>::value) {
        const volatile unsigned char *bytes = reinterpret_cast<const volatile unsigned char *>(&value);
        for (size_t i = 0; i < sizeof(T); ++i)
            if (bytes[i] != 0xFE) return false;
        return true;
    }
#endif
    else return certain;
}

}  // namespace mlusim

// Without a mode conversions round to zero, as the public header says. ASSUMED: those to bfloat16, which it lacks, round
// to nearest.
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
#define MLUSIM_FROM(sname, stype, tname, ttype, fallback) MLUSIM_CONVERT(tname, ttype, sname, stype, TZ)
MLUSIM_INTEGERS(MLUSIM_CONVERT, float, float)
MLUSIM_INTEGERS(MLUSIM_CONVERT, half, half)
MLUSIM_INTEGERS(MLUSIM_CONVERT, bfloat16, bfloat16_t)
MLUSIM_INTEGERS(MLUSIM_FROM, float, float)
MLUSIM_INTEGERS(MLUSIM_FROM, half, half)
MLUSIM_INTEGERS(MLUSIM_FROM, bfloat16, bfloat16_t)
MLUSIM_CONVERT(float, float, half, half, TZ)
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

// Scalar arithmetic, comparisons and conversions of the vendor's library. Names for floats end in their rounding;
// integers truncate.
#define MLUSIM_SCALAR_ROUNDED(name, call, kind, type)                                                                \
    inline type __cn_scalar_##name##_##kind##_rn(type x, type y) { return mlusim::call(x, y, mlusim::RN); }          \
    inline type __cn_scalar_##name##_##kind##_dn(type x, type y) { return mlusim::call(x, y, mlusim::DN); }          \
    inline type __cn_scalar_##name##_##kind##_up(type x, type y) { return mlusim::call(x, y, mlusim::UP); }          \
    inline type __cn_scalar_##name##_##kind##_tz(type x, type y) { return mlusim::call(x, y, mlusim::TZ); }
#define MLUSIM_SCALAR_FLOATS(name, call) \
    MLUSIM_SCALAR_ROUNDED(name, call, f32, float) MLUSIM_SCALAR_ROUNDED(name, call, f16, half)
#define MLUSIM_SCALAR_INTEGERS(name, expression)                                                  \
    inline int32_t __cn_scalar_##name##_s32(int32_t x, int32_t y) { return int32_t(expression); } \
    inline uint32_t __cn_scalar_##name##_u32(uint32_t x, uint32_t y) { return uint32_t(expression); }
#define MLUSIM_SCALAR_LONGS(name, expression)                                                      \
    inline int64_t __cn_scalar_##name##_s64(int64_t x, int64_t y) { return int64_t(expression); } \
    inline uint64_t __cn_scalar_##name##_u64(uint64_t x, uint64_t y) { return uint64_t(expression); }
MLUSIM_SCALAR_FLOATS(add, sum) MLUSIM_SCALAR_FLOATS(sub, difference) MLUSIM_SCALAR_FLOATS(mul, product)
MLUSIM_SCALAR_FLOATS(div, quotient) MLUSIM_SCALAR_INTEGERS(add, x + y) MLUSIM_SCALAR_INTEGERS(sub, x - y)
MLUSIM_SCALAR_INTEGERS(mul, x * y) MLUSIM_SCALAR_INTEGERS(div, x / y) MLUSIM_SCALAR_LONGS(add, x + y)
MLUSIM_SCALAR_INTEGERS(max, x > y ? x : y) MLUSIM_SCALAR_INTEGERS(min, x < y ? x : y)
MLUSIM_SCALAR_LONGS(max, x > y ? x : y)
// The high half of the product.
inline int32_t __cn_scalar_mulh_s32(int32_t x, int32_t y) { return int32_t(int64_t(x) * y >> 32); }
inline uint32_t __cn_scalar_mulh_u32(uint32_t x, uint32_t y) { return uint32_t(uint64_t(x) * y >> 32); }
inline float __cn_scalar_exp10_f32(float x) { return float(std::pow(10.0, double(x))); }
inline half __cn_scalar_exp10_f16(half x) { return half(__cn_scalar_exp10_f32(float(x))); }
inline float __cn_scalar_accurate_sqrt_f32(float x) { return std::sqrt(x); }
inline int __cn_scalar_isfinite_f32(float x) { return std::isfinite(x); }
inline float __cn_scalar_abs_f32(float x) { return std::fabs(x); }
inline half __cn_scalar_abs_f16(half x) { return half(std::fabs(float(x))); }
#define MLUSIM_RECIPROCAL(name, kind, type, mode) \
    inline type __cn_scalar_##name##_##kind(type x) { return mlusim::quotient(type(1), x, mlusim::mode); }
#define MLUSIM_SCALAR_RECIPROCALS(name)                                                              \
    MLUSIM_RECIPROCAL(name, f32_rn, float, RN) MLUSIM_RECIPROCAL(name, f16_rn, half, RN)             \
    MLUSIM_RECIPROCAL(name, f32_dn, float, DN) MLUSIM_RECIPROCAL(name, f16_dn, half, DN)             \
    MLUSIM_RECIPROCAL(name, f32_up, float, UP) MLUSIM_RECIPROCAL(name, f16_up, half, UP)             \
    MLUSIM_RECIPROCAL(name, f32_tz, float, TZ) MLUSIM_RECIPROCAL(name, f16_tz, half, TZ)
MLUSIM_SCALAR_RECIPROCALS(rcp)
inline float __cn_scalar_erfinv_f32(float x) { return float(mlusim::erfinv(x)); }
inline half __cn_scalar_erfinv_f16(half x) { return half(float(mlusim::erfinv(float(x)))); }
inline float __cn_scalar_erfcinv_f32(float x) { return float(mlusim::erfcinv(x)); }
inline half __cn_scalar_erfcinv_f16(half x) { return half(float(mlusim::erfcinv(float(x)))); }
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
inline float __cn_scalar_cast_s64_to_f32_tz(int64_t x) { return mlusim::convert<float>(x, mlusim::TZ); }
inline int64_t __cn_scalar_cast_f32_to_s64_tz(float x) { return mlusim::convert<int64_t>(x, mlusim::TZ); }
inline int64_t __cn_scalar_cast_s32_to_s64(int32_t x) { return x; }
inline uint64_t __cn_scalar_cast_u32_to_u64(uint32_t x) { return x; }
inline int64_t __cn_scalar_cast_u8_to_s64(uint8_t x) { return x; }

// Atomics that return the old value. That of `cas` is ASSUMED to do so, too: the public header has it return its third
// argument, and leaves the old value unused.
#define MLUSIM_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define MLUSIM_OLD(...) ;
#define MLUSIM_ATOMIC(name, intrinsic, kind, type)                               \
    type __cn_scalar_##name##_##kind(type *target, type value, MLUSIM_PLACE)     \
        MLUSIM_OLD(type, intrinsic, target, value)
#define MLUSIM_SWAP(name, intrinsic, kind, type)                                             \
    type __cn_scalar_##name##_##kind(type *target, type compare, type value, MLUSIM_PLACE)   \
        MLUSIM_OLD(type, intrinsic, target, compare, value)
#define MLUSIM_SCALAR_SWAPS(name, intrinsic)                                                            \
    MLUSIM_SWAP(name, intrinsic, s32, int32_t) MLUSIM_SWAP(name, intrinsic, u32, uint32_t)              \
    MLUSIM_SWAP(name, intrinsic, s16, int16_t) MLUSIM_SWAP(name, intrinsic, u16, uint16_t)
#define MLUSIM_SCALAR_UNSIGNED_ATOMICS(name, intrinsic) \
    MLUSIM_ATOMIC(name, intrinsic, u32, uint32_t) MLUSIM_ATOMIC(name, intrinsic, u16, uint16_t)
#define MLUSIM_SCALAR_ATOMICS(name, intrinsic)                                                      \
    MLUSIM_ATOMIC(name, intrinsic, s32, int32_t) MLUSIM_ATOMIC(name, intrinsic, s16, int16_t)       \
    MLUSIM_SCALAR_UNSIGNED_ATOMICS(name, intrinsic)
#define MLUSIM_SCALAR_FLOAT_ATOMICS(name, intrinsic)                                                \
    MLUSIM_ATOMIC(name, intrinsic, f32, float) MLUSIM_ATOMIC(name, intrinsic, f16, half)
#define MLUSIM_ALL_ATOMICS \
    MLUSIM_SCALAR_ATOMICS(atomic_add, __bang_atomic_add) MLUSIM_SCALAR_FLOAT_ATOMICS(atomic_add, __bang_atomic_add) \
    MLUSIM_SCALAR_ATOMICS(atomic_exch, __bang_atomic_exch) MLUSIM_SCALAR_FLOAT_ATOMICS(atomic_exch, __bang_atomic_exch) \
    MLUSIM_SCALAR_ATOMICS(atomic_max, __bang_atomic_max) MLUSIM_SCALAR_FLOAT_ATOMICS(atomic_max, __bang_atomic_max) \
    MLUSIM_SCALAR_ATOMICS(atomic_min, __bang_atomic_min) MLUSIM_SCALAR_FLOAT_ATOMICS(atomic_min, __bang_atomic_min) \
    MLUSIM_SCALAR_ATOMICS(atomic_and, __bang_atomic_and) MLUSIM_SCALAR_ATOMICS(atomic_or, __bang_atomic_or) \
    MLUSIM_SCALAR_ATOMICS(atomic_xor, __bang_atomic_xor) \
    MLUSIM_SCALAR_UNSIGNED_ATOMICS(atomic_inc, __bang_atomic_inc) \
    MLUSIM_SCALAR_UNSIGNED_ATOMICS(atomic_dec, __bang_atomic_dec) \
    MLUSIM_SCALAR_SWAPS(atomic_cas, __bang_atomic_cas)
MLUSIM_ALL_ATOMICS

// A scalar load or store by the name of its memory: a plain C++ access, which is counted, of an address in that memory.
extern "C" void mlusim_expect(const volatile void *address, int memory, const char *name, const char *file, int line);
#define MLUSIM_LOAD(name, memory) \
    template <class T> inline T name(const T *address, MLUSIM_PLACE) { \
        return mlusim_expect(address, memory, #name, file, line), *address; \
    }
#define MLUSIM_STORE(name, memory) \
    template <class T, class V> inline void name(T *address, V value, MLUSIM_PLACE) { \
        mlusim_expect(address, memory, #name, file, line); \
        *address = T(value); \
    }
MLUSIM_LOAD(__load_nram, 0) MLUSIM_LOAD(__load_sram, 2) MLUSIM_LOAD(__load_ldram, 3) MLUSIM_LOAD(__load_gdram, 4)
MLUSIM_STORE(__store_nram, 0) MLUSIM_STORE(__store_sram, 2) MLUSIM_STORE(__store_ldram, 3) MLUSIM_STORE(__store_gdram, 4)

inline bool __is_nram(const volatile void *address) { return __mlusim_memory(address) == 0; }
inline bool __is_wram(const volatile void *address) { return __mlusim_memory(address) == 1; }
inline bool __is_sram(const volatile void *address) { return __mlusim_memory(address) == 2; }
inline bool __is_ldram(const volatile void *address) { return __mlusim_memory(address) == 3; }
inline bool __is_gdram(const volatile void *address) { return __mlusim_memory(address) == 4; }
inline bool __is_dram(const volatile void *address) { return __mlusim_memory(address) >= 3; }

namespace mlusim {

// A call of an unknown intrinsic: an error when it is reached.
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
