// A chain of operations on one vector: the first reads the source, each writes the destination.
#ifndef MLUSIM_BANG_FUSOR_H_
#define MLUSIM_BANG_FUSOR_H_

#include "mlu.h"

namespace bang {
namespace experimental {

// The board fuses such a chain into one instruction; here each step is one of its own.
template <class T> class fusor {
  public:
    fusor(T *dst, const T *src, int count) : dst_(dst), src_(const_cast<T *>(src)), count_(count) {}
    template <class V> fusor &add(V *other) {
        __bang_add(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &add(V value) {
        __bang_add_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &sub(V *other) {
        __bang_sub(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &sub(V value) {
        __bang_sub_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &mul(V *other) {
        __bang_mul(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &mul(V value) {
        __bang_mul_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &div(V *other) {
        __bang_div(dst_, src_, other, count_);
        return next();
    }
    template <class V> fusor &maximum(V *other) {
        __bang_maximum(dst_, src_, other, count_);
        return next();
    }
    template <class V> fusor &minimum(V *other) {
        __bang_minimum(dst_, src_, other, count_);
        return next();
    }
    template <class V> fusor &eq(V *other) {
        __bang_eq(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &eq(V value) {
        __bang_eq_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &ne(V *other) {
        __bang_ne(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &ne(V value) {
        __bang_ne_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &lt(V *other) {
        __bang_lt(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &lt(V value) {
        __bang_lt_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &le(V *other) {
        __bang_le(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &le(V value) {
        __bang_le_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &gt(V *other) {
        __bang_gt(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &gt(V value) {
        __bang_gt_scalar(dst_, src_, T(value), count_);
        return next();
    }
    template <class V> fusor &ge(V *other) {
        __bang_ge(dst_, src_, other, count_);
        return next();
    }
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type> fusor &ge(V value) {
        __bang_ge_scalar(dst_, src_, T(value), count_);
        return next();
    }
    fusor &abs() {
        __bang_abs(dst_, src_, count_);
        return next();
    }
    fusor &sqrt() {
        __bang_sqrt(dst_, src_, count_);
        return next();
    }
    fusor &rsqrt() {
        __bang_rsqrt(dst_, src_, count_);
        return next();
    }
    fusor &recip() {
        __bang_recip(dst_, src_, count_);
        return next();
    }
    fusor &log() {
        __bang_log(dst_, src_, count_);
        return next();
    }
    fusor &square() {
        __bang_square(dst_, src_, count_);
        return next();
    }
    fusor &floor() {
        __bang_floor(dst_, src_, count_);
        return next();
    }
    fusor &relu() {
        __bang_relu(dst_, src_, count_);
        return next();
    }
    fusor &sin() {
        __bang_sin(dst_, src_, count_);
        return next();
    }
    fusor &cos() {
        __bang_cos(dst_, src_, count_);
        return next();
    }

  private:
    fusor &next() {
        src_ = dst_;
        return *this;
    }
    T *dst_, *src_;
    int count_;
};

}  // namespace experimental
}  // namespace bang

#endif  // MLUSIM_BANG_FUSOR_H_
