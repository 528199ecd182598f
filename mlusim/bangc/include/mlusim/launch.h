// `name<<<dim, type, queue>>>(arguments)` of host code.
#ifndef MLUSIM_LAUNCH_H_
#define MLUSIM_LAUNCH_H_

namespace mlusim {

// A grid: a `cnrtDim3_t`, a `dim3`, `{x, y, z}`, or tasks in x alone.
struct Grid {
    unsigned x, y, z;
    template <class D, class = decltype(D::x)> Grid(const D &dim) : x(dim.x), y(dim.y), z(dim.z) {}
    Grid(int tasks) : x(unsigned(tasks)), y(1), z(1) {}
    template <class X, class Y, class Z> Grid(X x, Y y, Z z) : x(unsigned(x)), y(unsigned(y)), z(unsigned(z)) {}
};

// The type of a launch: a constant of `cnrtFunctionType_t`, no plain number.
struct LaunchType {
    int number;
    template <class T>
    static constexpr bool is_type = std::is_convertible<T, int>::value && !std::is_arithmetic<T>::value;
    template <class T, class = typename std::enable_if<is_type<T>>::type>
    LaunchType(T type) : number(int(type)) {}
    // No template, which would be ambiguous: such a constant converts itself, too.
    LaunchType(const ForeignConstant &type) : number(int(type.word)) {}
};

// The location and the parameters of a launch.
struct Launch {
    const char *name, *file;
    int line;
    unsigned dim[3];
    int kind;
    void *queue;
};

template <class... P>
MLUSIM_PLAIN inline void launch(const Launch &one, void *function, void (*body)(void *, char *), const P &...values) {
    alignas(16) char bytes[Layout<P...>::offset(sizeof...(P)) + 16];
    size_t index = 0;
    ((__builtin_memcpy(bytes + Layout<P...>::offset(index), &values, sizeof(P)), ++index), ...);
    __mlusim_launch(one.name, function, reinterpret_cast<void *>(body), one.dim[0], one.dim[1], one.dim[2], one.kind,
                    one.queue, static_cast<char *>(bytes), Layout<P...>::offset(sizeof...(P)), one.file, one.line);
}

template <class F, class... A, size_t... I>
MLUSIM_PLAIN inline void call_functor(F *none, char *bytes, std::index_sequence<I...>) {
    (*none)((*reinterpret_cast<A *>(bytes + Layout<A...>::offset(I)))...);
}

template <class F, class... A> MLUSIM_PLAIN inline void functor_body(void *none, char *bytes) {
    std::set_terminate(&terminated);
    call_functor<F, A...>(static_cast<F *>(none), Layout<A...>(bytes).bytes, std::index_sequence_for<A...>{});
}

template <class R, class... P> struct FunctionLauncher {
    Launch one;
    R (*function)(P...);
    void operator()(typename std::decay<P>::type... arguments) const {
        launch<typename std::decay<P>::type...>(one, reinterpret_cast<void *>(function), function ? &body<P...> : nullptr,
                                                arguments...);
    }
};

template <class F> struct FunctorLauncher {
    Launch one;
    template <class... A> void operator()(A... arguments) const {
        launch<A...>(one, nullptr, &functor_body<F, A...>, arguments...);
    }
};

template <class R, class... P, class Q = void *>
inline FunctionLauncher<R, P...> launcher(const char *name, R (*kernel)(P...), Grid dim, LaunchType type, Q &&queue = Q(),
                                          File file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {{name, file, line, {dim.x, dim.y, dim.z}, type.number, (void *)(queue)}, kernel};
}

template <class F, class Q = void *, class = typename std::enable_if<std::is_class<F>::value>::type>
inline FunctorLauncher<F> launcher(const char *name, F, Grid dim, LaunchType type, Q &&queue = Q(),
                                   File file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {{name, file, line, {dim.x, dim.y, dim.z}, type.number, (void *)(queue)}};
}

}  // namespace mlusim

#endif  // MLUSIM_LAUNCH_H_
