// Scalar maths of half and bfloat16, which are ambiguous or missing in the standard library.
#ifndef MLUSIM_MATH_H_
#define MLUSIM_MATH_H_

#include <algorithm>
#include <cmath>
#include <iosfwd>
#include <limits>

#define MLUSIM_ONE(name)                                                       \
    inline half name(half x) { return half(std::name(float(x))); }             \
    inline bfloat16_t name(bfloat16_t x) { return bfloat16_t(std::name(float(x))); }
#define MLUSIM_TWO(name)                                                       \
    inline half name(half x, half y) { return half(std::name(float(x), float(y))); } \
    inline bfloat16_t name(bfloat16_t x, bfloat16_t y) { return bfloat16_t(std::name(float(x), float(y))); }
#define MLUSIM_TEST(name)                                                      \
    inline bool name(half x) { return std::name(float(x)); }                   \
    inline bool name(bfloat16_t x) { return std::name(float(x)); }

#define MLUSIM_ALL                                                             \
    MLUSIM_ONE(sin) MLUSIM_ONE(cos) MLUSIM_ONE(tan) MLUSIM_ONE(exp) MLUSIM_ONE(exp2) MLUSIM_ONE(log)             \
    MLUSIM_ONE(log2) MLUSIM_ONE(log10) MLUSIM_ONE(sqrt) MLUSIM_ONE(floor) MLUSIM_ONE(ceil) MLUSIM_ONE(round)     \
    MLUSIM_ONE(trunc) MLUSIM_ONE(fabs) MLUSIM_ONE(tanh) MLUSIM_ONE(rint) MLUSIM_ONE(atan) MLUSIM_ONE(acos)       \
    MLUSIM_ONE(asin) MLUSIM_TWO(pow) MLUSIM_TWO(fmod) MLUSIM_TWO(atan2)                                          \
    MLUSIM_TWO(fmax) MLUSIM_TWO(fmin) MLUSIM_TEST(isnan) MLUSIM_TEST(isinf) MLUSIM_TEST(isfinite) MLUSIM_TEST(signbit)

namespace mlusim {

constexpr float power_of_two(int exponent) {
    float value = 1;
    for (; exponent > 0; --exponent) value *= 2;
    for (; exponent < 0; ++exponent) value /= 2;
    return value;
}

// The limits of a type with that many binary digits; 2 to the power of `Exponent` is the first number beyond it.
template <class T, int Digits, int Exponent> struct Limits : std::numeric_limits<float> {
    static constexpr int digits = Digits, digits10 = (Digits - 1) * 3 / 10, max_digits10 = 2 + Digits * 3 / 10;
    static constexpr int max_exponent = Exponent, min_exponent = 3 - Exponent;
    static constexpr int max_exponent10 = Exponent * 3 / 10, min_exponent10 = (2 - Exponent) * 3 / 10;
    static constexpr T min() noexcept { return T(power_of_two(2 - Exponent)); }
    static constexpr T max() noexcept { return T((2 - power_of_two(1 - Digits)) * power_of_two(Exponent - 1)); }
    static constexpr T lowest() noexcept { return T(-max()); }
    static constexpr T epsilon() noexcept { return T(power_of_two(1 - Digits)); }
    static constexpr T round_error() noexcept { return T(0.5f); }
    static constexpr T denorm_min() noexcept { return T(power_of_two(3 - Exponent - Digits)); }
    static constexpr T infinity() noexcept { return T(std::numeric_limits<float>::infinity()); }
    static constexpr T quiet_NaN() noexcept { return T(std::numeric_limits<float>::quiet_NaN()); }
    static constexpr T signaling_NaN() noexcept { return quiet_NaN(); }
};

}  // namespace mlusim

namespace std {
#ifndef __STDCPP_FLOAT16_T__
template <> struct numeric_limits<half> : mlusim::Limits<half, 11, 16> {};
#endif
template <> struct numeric_limits<bfloat16_t> : mlusim::Limits<bfloat16_t, 8, 128> {};
MLUSIM_ALL
// The standard library's streams show no half before C++23.
template <class C, class T> inline basic_ostream<C, T> &operator<<(basic_ostream<C, T> &stream, half x) {
    return stream << float(x);
}
inline half abs(half x) { return x < half(0) ? half(-x) : x; }
inline bfloat16_t abs(bfloat16_t x) { return bfloat16_t(std::fabs(float(x))); }
using ::acosf;
using ::asinf;
using ::atan2f;
using ::atanf;
using ::ceilf;
using ::cosf;
using ::exp2f;
using ::expf;
using ::fabsf;
using ::floorf;
using ::fmaxf;
using ::fminf;
using ::fmodf;
using ::log10f;
using ::log2f;
using ::logf;
using ::powf;
using ::roundf;
using ::sinf;
using ::sqrtf;
using ::tanf;
using ::tanhf;
using ::truncf;
}  // namespace std

// The standard header includes the additions above.
using std::sin;
using std::cos;
using std::tan;
using std::exp;
using std::exp2;
using std::log;
using std::log2;
using std::log10;
using std::sqrt;
using std::floor;
using std::ceil;
using std::round;
using std::trunc;
using std::fabs;
using std::tanh;
using std::rint;
using std::atan;
using std::acos;
using std::asin;
using std::pow;
using std::fmod;
using std::atan2;
using std::fmax;
using std::fmin;
using std::isnan;
using std::isinf;
using std::isfinite;
using std::signbit;
using std::abs;

#endif  // MLUSIM_MATH_H_
