// `name<<<dim, type, queue>>>(arguments)` of host code.
#ifndef MLUSIM_LAUNCH_H_
#define MLUSIM_LAUNCH_H_

namespace mlusim {

template <class... P> MLUSIM_PLAIN inline void launch(const char *name, void *function, void (*body)(void *, char *),
                                                      const unsigned *dim, int kind, void *queue, const P &...values) {
    alignas(16) char bytes[Layout<P...>::offset(sizeof...(P)) + 16];
    size_t index = 0;
    ((__builtin_memcpy(bytes + Layout<P...>::offset(index), &values, sizeof(P)), ++index), ...);
    __mlusim_launch(name, function, reinterpret_cast<void *>(body), dim[0], dim[1], dim[2], kind, queue,
                    static_cast<char *>(bytes), Layout<P...>::offset(sizeof...(P)));
}

template <class F, class... A, size_t... I>
MLUSIM_PLAIN inline void call_functor(F *none, char *bytes, std::index_sequence<I...>) {
    (*none)((*reinterpret_cast<A *>(bytes + Layout<A...>::offset(I)))...);
}

template <class F, class... A> MLUSIM_PLAIN inline void functor_body(void *none, char *bytes) {
    call_functor<F, A...>(static_cast<F *>(none), bytes, std::index_sequence_for<A...>{});
}

template <class R, class... P> struct FunctionLauncher {
    const char *name;
    R (*function)(P...);
    unsigned dim[3];
    int kind;
    void *queue;
    void operator()(typename std::decay<P>::type... arguments) const {
        launch<typename std::decay<P>::type...>(name, reinterpret_cast<void *>(function), &body<P...>, dim, kind, queue,
                                                arguments...);
    }
};

template <class F> struct FunctorLauncher {
    const char *name;
    unsigned dim[3];
    int kind;
    void *queue;
    template <class... A> void operator()(A... arguments) const {
        launch<A...>(name, nullptr, &functor_body<F, A...>, dim, kind, queue, arguments...);
    }
};

template <class R, class... P, class D, class Q = void *>
inline FunctionLauncher<R, P...> launcher(const char *name, R (*kernel)(P...), D dim, int kind, Q queue = Q()) {
    return {name, kernel, {unsigned(dim.x), unsigned(dim.y), unsigned(dim.z)}, kind, (void *)(queue)};
}

template <class F, class D, class Q = void *, class = typename std::enable_if<std::is_class<F>::value>::type>
inline FunctorLauncher<F> launcher(const char *name, F, D dim, int kind, Q queue = Q()) {
    return {name, {unsigned(dim.x), unsigned(dim.y), unsigned(dim.z)}, kind, (void *)(queue)};
}

}  // namespace mlusim

#endif  // MLUSIM_LAUNCH_H_
