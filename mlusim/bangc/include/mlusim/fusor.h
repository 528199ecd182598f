// The class of `bang_fusor.h`, in the header that precedes every file, so that macros of the file do not affect it.
#ifndef MLUSIM_FUSOR_H_
#define MLUSIM_FUSOR_H_

#define MLUSIM_FUSED(name, intrinsic)                                                         \
    fusor &name(MLUSIM_PLACE) {                                                               \
        intrinsic(dst_, src_, count_, file, line);                                            \
        return next();                                                                        \
    }
#define MLUSIM_FUSED_VECTORS(name, intrinsic)                                                 \
    template <class V> fusor &name(V *other, MLUSIM_PLACE) {                                  \
        intrinsic(dst_, src_, other, count_, file, line);                                     \
        return next();                                                                        \
    }
#define MLUSIM_FUSED_SCALAR(name, intrinsic)                                                  \
    template <class V, class = typename std::enable_if<!std::is_pointer<V>::value>::type>     \
    fusor &name(V value, MLUSIM_PLACE) {                                                      \
        intrinsic(dst_, src_, T(value), count_, file, line);                                  \
        return next();                                                                        \
    }
#define MLUSIM_FUSED_BOTH(name, vectors, scalar) MLUSIM_FUSED_VECTORS(name, vectors) MLUSIM_FUSED_SCALAR(name, scalar)

namespace mlusim {

// The board fuses such a chain into one instruction; here each step is an instruction, at the line of its call.
template <class T> class fusor {
  public:
    fusor(T *dst, const T *src, int count) : dst_(dst), src_(const_cast<T *>(src)), count_(count) {}
    MLUSIM_FUSED_BOTH(add, __bang_add, __bang_add_scalar)
    MLUSIM_FUSED_BOTH(sub, __bang_sub, __bang_sub_scalar)
    MLUSIM_FUSED_BOTH(mul, __bang_mul, __bang_mul_scalar)
    MLUSIM_FUSED_BOTH(eq, __bang_eq, __bang_eq_scalar)
    MLUSIM_FUSED_BOTH(ne, __bang_ne, __bang_ne_scalar)
    MLUSIM_FUSED_BOTH(lt, __bang_lt, __bang_lt_scalar)
    MLUSIM_FUSED_BOTH(le, __bang_le, __bang_le_scalar)
    MLUSIM_FUSED_BOTH(gt, __bang_gt, __bang_gt_scalar)
    MLUSIM_FUSED_BOTH(ge, __bang_ge, __bang_ge_scalar)
    MLUSIM_FUSED_VECTORS(div, __bang_div)
    MLUSIM_FUSED_VECTORS(maximum, __bang_maximum)
    MLUSIM_FUSED_VECTORS(minimum, __bang_minimum)
    MLUSIM_FUSED(abs, __bang_abs)
    MLUSIM_FUSED(sqrt, __bang_sqrt)
    MLUSIM_FUSED(rsqrt, __bang_rsqrt)
    MLUSIM_FUSED(recip, __bang_recip)
    MLUSIM_FUSED(log, __bang_log)
    MLUSIM_FUSED(square, __bang_square)
    MLUSIM_FUSED(floor, __bang_floor)
    MLUSIM_FUSED(relu, __bang_relu)
    MLUSIM_FUSED(sin, __bang_sin)
    MLUSIM_FUSED(cos, __bang_cos)

  private:
    fusor &next() {
        src_ = dst_;
        return *this;
    }
    T *dst_, *src_;
    int count_;
};

}  // namespace mlusim

#endif  // MLUSIM_FUSOR_H_
