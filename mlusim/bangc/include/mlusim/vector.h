// Vector registers of the 5xx series: 256 bytes each, computed as C++ and stored by an instruction.
#ifndef MLUSIM_VECTOR_H_
#define MLUSIM_VECTOR_H_

template <class T> struct mlusim_vv {
    static constexpr int lanes = 256 / int(sizeof(T));
    T lane[lanes];
};
typedef mlusim_vv<float> vv_float;
typedef mlusim_vv<half> vv_half;
typedef mlusim_vv<bfloat16_t> vv_bfloat16;
typedef mlusim_vv<int8_t> vv_int8;
typedef mlusim_vv<uint8_t> vv_uint8;
typedef mlusim_vv<int16_t> vv_int16;
typedef mlusim_vv<uint16_t> vv_uint16;
typedef mlusim_vv<int32_t> vv_int32;
typedef mlusim_vv<uint32_t> vv_uint32;
typedef mlusim_vv<int64_t> vv_int64;
typedef mlusim_vv<uint64_t> vv_uint64;
typedef vv_int32 vv_int;
typedef vv_uint32 vv_uint;
typedef mlusim_vv<bool> vv_bool;

namespace mlusim {
template <class T> inline T lane_of(const mlusim_vv<T> &v, int k) { return v.lane[k]; }
template <class T> inline T lane_of(T v, int) { return v; }
}  // namespace mlusim

inline unsigned __vv_get_length() { return 256; }

#define MLUSIM_VV2(name, expression)                                                              \
    template <class T, class A, class B> inline void __vv_##name(mlusim_vv<T> &d, A p, B q) {     \
        for (int k = 0; k < mlusim_vv<T>::lanes; ++k) {                                           \
            T a = T(mlusim::lane_of(p, k)), b = T(mlusim::lane_of(q, k));                         \
            d.lane[k] = T(expression);                                                            \
        }                                                                                         \
    }
MLUSIM_VV2(add, a + b) MLUSIM_VV2(sub, a - b) MLUSIM_VV2(mul, a *b) MLUSIM_VV2(xor, a ^ b) MLUSIM_VV2(and, a &b)
MLUSIM_VV2(or, a | b) MLUSIM_VV2(max, a > b ? a : b) MLUSIM_VV2(min, a < b ? a : b) MLUSIM_VV2(sll, a << b)
MLUSIM_VV2(srl, a >> b) MLUSIM_VV2(div, a / b) MLUSIM_VV2(index, a + T(k) * b)
MLUSIM_VV2(mulh, T(((sizeof(T) == 4 && std::is_unsigned<T>::value) ? uint64_t(a) * uint64_t(b)
                                                                     : uint64_t(int64_t(a) * int64_t(b))) >>
                   (8 * sizeof(T))))

template <class T, class A, class B, class C> inline void __vv_trixor(mlusim_vv<T> &d, A p, B q, C r) {
    for (int k = 0; k < mlusim_vv<T>::lanes; ++k)
        d.lane[k] = T(mlusim::lane_of(p, k)) ^ T(mlusim::lane_of(q, k)) ^ T(mlusim::lane_of(r, k));
}
template <class T, class A> inline void __vv_move(mlusim_vv<T> &d, A value) {
    for (int k = 0; k < mlusim_vv<T>::lanes; ++k) d.lane[k] = T(mlusim::lane_of(value, k));
}
template <class T, class P> inline void __vv_load(mlusim_vv<T> &d, const P *source) {
    for (int k = 0; k < mlusim_vv<T>::lanes; ++k) d.lane[k] = T(source[k]);
}
template <class P, class T>
inline void __vv_store(P *target, const mlusim_vv<T> &v, int count = mlusim_vv<T>::lanes, MLUSIM_PLACE) {
    __mlusim_vv_store(target, static_cast<const void *>(v.lane), count, file, line);
}

#endif  // MLUSIM_VECTOR_H_
