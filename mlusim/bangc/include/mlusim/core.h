// Shared by compiled kernels and the simulator: the call record, memory spaces, entries and launches.
#ifndef MLUSIM_CORE_H_
#define MLUSIM_CORE_H_

#include <stddef.h>
#include <stdint.h>

#include <exception>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

typedef _Float16 half;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wliteral-suffix"
// A constant of type half, such as 127.0h.
constexpr half operator""h(long double value) { return half(value); }
#pragma GCC diagnostic pop

#define MLUSIM_PLAIN __attribute__((no_sanitize("thread"), noinline, unused))

// The upper half of a float. Each operation is computed in float and rounded to nearest even.
struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    bfloat16_t(float value) {
        uint32_t word;
        __builtin_memcpy(&word, &value, 4);
        bool nan = (word & 0x7fffffffu) > 0x7f800000u;
        bits = uint16_t(nan ? (word >> 16) | 0x40 : (word + 0x7fffu + ((word >> 16) & 1)) >> 16);
    }
    operator float() const {
        uint32_t word = uint32_t(bits) << 16;
        float value;
        __builtin_memcpy(&value, &word, 4);
        return value;
    }
    bfloat16_t operator+() const { return *this; }
    bfloat16_t operator-() const { return bfloat16_t(-float(*this)); }
    bfloat16_t &operator++() { return *this = bfloat16_t(float(*this) + 1); }
    bfloat16_t &operator--() { return *this = bfloat16_t(float(*this) - 1); }
    bfloat16_t operator++(int) { bfloat16_t before = *this; ++*this; return before; }
    bfloat16_t operator--(int) { bfloat16_t before = *this; --*this; return before; }
};
// As with half: two bfloat16_t, or one and an integer, give a bfloat16_t; with a wider type the result is of that type.
template <class T>
using mlusim_with_bfloat16 = std::enable_if_t<std::is_arithmetic<T>::value || std::is_same<T, half>::value,
    std::conditional_t<std::is_integral<T>::value, bfloat16_t, std::common_type_t<float, T>>>;
#define MLUSIM_BFLOAT16(op)                                                                                           \
    inline bfloat16_t operator op(bfloat16_t a, bfloat16_t b) { return bfloat16_t(float(a) op float(b)); }            \
    template <class T> inline mlusim_with_bfloat16<T> operator op(bfloat16_t a, T b) {                                \
        return mlusim_with_bfloat16<T>(float(a) op b);                                                                \
    }                                                                                                                 \
    template <class T> inline mlusim_with_bfloat16<T> operator op(T a, bfloat16_t b) {                                \
        return mlusim_with_bfloat16<T>(a op float(b));                                                                \
    }                                                                                                                 \
    template <class T> inline bfloat16_t &operator op##=(bfloat16_t &a, T b) { return a = bfloat16_t(float(a op b)); }
MLUSIM_BFLOAT16(+) MLUSIM_BFLOAT16(-) MLUSIM_BFLOAT16(*) MLUSIM_BFLOAT16(/)
typedef bfloat16_t bfloat16;
typedef bfloat16_t bf16;

extern "C" {
struct mlusim_record {
    uint64_t result;
    int64_t op, line, count;
    const char *file;
    const uint64_t *codes;
    uint64_t value[32];
};
extern struct mlusim_record *mlusim_call_record;
void mlusim_switch();
bool mlusim_enters_host(char *seen);
void *mlusim_place(uint64_t kind, const char *name, uint64_t size, const char *file, int line, const char *owner,
                   const void *initial);
void *mlusim_find(uint64_t kind, const char *name, void **reference);
}

namespace mlusim {

// The file of a call, a default argument. No other argument converts to it: one too many, such as 0, is an error.
struct File {
    const char *name;
    template <class T, class = typename std::enable_if<std::is_same<T, const char *>::value>::type>
    File(T file) : name(file) {}
    operator const char *() const { return name; }
};

// Element types by number: kind << 8 | bytes; a pointer has bit 16 set.
enum Kind { OTHER = 0, SIGNED = 1, UNSIGNED = 2, FLOAT = 3, BFLOAT = 4, BOOL = 5 };

template <class T, size_t N = sizeof(T)> constexpr uint64_t record_size(int) { return N < 256 ? N : 0; }
template <class T> constexpr uint64_t record_size(...) { return 0; }

template <class T> constexpr uint64_t scalar_code() {
    using U = typename std::remove_cv<T>::type;
    if constexpr (std::is_void<U>::value) return 0;
    else if constexpr (std::is_enum<U>::value) return scalar_code<typename std::underlying_type<U>::type>();
    else if constexpr (std::is_same<U, bool>::value) return BOOL << 8 | 1;
    else if constexpr (std::is_same<U, bfloat16_t>::value) return BFLOAT << 8 | 2;
    else if constexpr (std::is_same<U, half>::value) return FLOAT << 8 | 2;
    else if constexpr (std::is_floating_point<U>::value) return FLOAT << 8 | sizeof(U);
    else if constexpr (std::is_integral<U>::value)
        return (std::is_signed<U>::value ? SIGNED : UNSIGNED) << 8 | sizeof(U);
    else if constexpr (std::is_function<U>::value) return 0;
    else return record_size<U>(0);
}

template <class T> constexpr uint64_t code() {
    using U = typename std::remove_cv<typename std::remove_reference<T>::type>::type;
    if constexpr (std::is_null_pointer<U>::value) return 1 << 16;
    else if constexpr (std::is_pointer<U>::value) {
        using P = typename std::remove_cv<typename std::remove_pointer<U>::type>::type;
        if constexpr (std::is_pointer<P>::value) return 1 << 16 | UNSIGNED << 8 | 8;
        else return 1 << 16 | scalar_code<P>();
    } else return scalar_code<U>();
}

// For a parameter of an entry, and what an intrinsic writes: whether it is a pointer to const.
template <class T> constexpr uint64_t only_read() {
    return std::is_pointer<T>::value && std::is_const<typename std::remove_pointer<T>::type>::value ? 1 << 17 : 0;
}

template <class T> MLUSIM_PLAIN inline uint64_t bits(const T &value) {
    using U = typename std::remove_cv<T>::type;
    if constexpr (std::is_null_pointer<U>::value) return 0;
    else if constexpr (std::is_pointer<U>::value) return uint64_t(value);
    else if constexpr (std::is_same<U, bfloat16_t>::value || std::is_same<U, half>::value ||
                       std::is_floating_point<U>::value) {
        double wide = double(float(value));
        if constexpr (sizeof(U) > 4) wide = double(value);
        uint64_t word;
        __builtin_memcpy(&word, &wide, 8);
        return word;
    } else if constexpr (std::is_enum<U>::value || std::is_integral<U>::value) return uint64_t(int64_t(value));
    else {
        // A record by value: its address; it lives as long as the call.
        return uint64_t(&value);
    }
}

// The type in which an instruction takes an argument: that of the pointer or the number that an object converts to.
template <class T, class = void> struct Taken { using type = T; };
template <class T>
struct Taken<T, std::enable_if_t<std::is_class<T>::value && !std::is_class<decltype(+std::declval<T &>())>::value>> {
    using type = decltype(+std::declval<T &>());
};

// Of an argument as an instruction takes it: whether it is a pointer or a float, and the element that a pointer points to:
// 0 for numbers and null, bytes for void and records. A rule of an intrinsic compares elements or their widths.
template <class A> constexpr uint64_t taken() { return code<typename Taken<A>::type>(); }
template <class A> constexpr bool is_pointer() { return taken<A>() >> 16; }
template <class A> constexpr bool is_float() { return taken<A>() >> 8 == FLOAT || taken<A>() >> 8 == BFLOAT; }
template <class A> constexpr uint64_t element() {
    if (!is_pointer<A>() || std::is_null_pointer<A>::value) return 0;
    return taken<A>() & 0xff00 ? taken<A>() & 0xffff : UNSIGNED << 8 | 1;
}
template <class A> constexpr uint64_t width() { return element<A>() & 0xff; }
constexpr bool agree(std::initializer_list<uint64_t> values) {
    uint64_t first = 0;
    for (uint64_t value : values) {
        if (first && value && value != first) return false;
        if (!first) first = value;
    }
    return true;
}
// Whether it points to elements of a type, or is null. Integers may have another sign.
template <class A, uint64_t wanted> constexpr bool is_element() {
    constexpr uint64_t found = taken<A>() & 0xffff, kind = found >> 8;
    constexpr bool integers = wanted >> 8 <= UNSIGNED && (kind == SIGNED || kind == UNSIGNED);
    return !element<A>() || found == wanted || (integers && found % 256 == wanted % 256);
}

template <class... A>
MLUSIM_PLAIN inline uint64_t issue(int op, const char *file, int line, const A &...arguments) {
    // Before the record is filled, because a conversion is the user's code.
    if constexpr (!(std::is_same<A, typename Taken<A>::type>::value && ...))
        return issue<typename Taken<A>::type...>(op, file, line, const_cast<A &>(arguments)...);
    static const uint64_t codes[] = {code<A>()..., 0};
    mlusim_record *record = mlusim_call_record;
    uint64_t count = 0;
    ((record->value[count++] = bits<A>(arguments)), ...);
    record->op = op;
    record->line = line;
    record->file = file;
    record->codes = codes;
    record->count = int64_t(sizeof...(A));
    mlusim_switch();
    return record->result;
}

// The address that a call of CNRT passes, and none for an object, which is an error. The compiler sizes up what an
// expression without side effects points to.
template <class T, std::enable_if_t<!std::is_class<T>::value, int> = 0>
__attribute__((const, always_inline)) inline const void *pointer(T value) { return (const void *)value; }
template <class T, std::enable_if_t<std::is_class<T>::value, int> = 0>
inline const void *pointer(const T &) { return nullptr; }

// Whether a value is a host object that wraps a queue, a notifier or memory, and what it wraps.
template <class T> constexpr bool is_handle() {
    using U = typename std::remove_reference<T>::type;
    return std::is_class<U>::value && std::is_convertible<U &, const void *>::value;
}
struct ForeignConstant;
template <class T> MLUSIM_PLAIN inline decltype(auto) handle(T &value) {
    if constexpr (std::is_same<typename std::remove_cv<T>::type, ForeignConstant>::value) return uint64_t(value.word);
    else if constexpr (is_handle<T>()) return const_cast<void *>(static_cast<const void *>(value));
    else return (value);
}

// The result of an unsupported call, which never returns.
struct Anything {
    template <class T> operator T() const { return T(); }
};

// A constant of the vendor's libraries that is missing in the headers here, and a value of such a type.
struct ForeignConstant {
    uint64_t word;
    template <class T> constexpr operator T() const {
        if constexpr (std::is_enum<T>::value || std::is_arithmetic<T>::value) return T(word);
        else return T();
    }
};
struct Foreign {
    uint64_t word;
    constexpr Foreign(uint64_t value = 0) : word(value) {}
    constexpr Foreign(ForeignConstant value) : word(value.word) {}
    // Not from `Anything`, which converts itself: that is ambiguous for clang.
    template <class T> static constexpr bool known = std::is_integral<T>::value || std::is_same<T, Anything>::value;
    template <class T, class = typename std::enable_if<!known<T>>::type> Foreign(const T &) : word(0) {}
    constexpr operator int() const { return int(word); }
    template <class T> operator T *() const { return nullptr; }
};
#define MLUSIM_COMPARED(type)                                                                                  \
    template <class T> constexpr bool operator==(const type &, const T &) { return true; }                     \
    template <class T> constexpr bool operator!=(const type &, const T &) { return false; }                    \
    template <class T> constexpr bool operator==(const T &, const type &) { return true; }                     \
    template <class T> constexpr bool operator!=(const T &, const type &) { return false; }
MLUSIM_COMPARED(Anything)
#undef MLUSIM_COMPARED
constexpr bool operator==(const Foreign &one, const Foreign &other) { return one.word == other.word; }
constexpr bool operator!=(const Foreign &one, const Foreign &other) { return one.word != other.word; }
constexpr bool operator==(const Foreign &one, const ForeignConstant &other) { return one.word == other.word; }
constexpr bool operator!=(const Foreign &one, const ForeignConstant &other) { return one.word != other.word; }
constexpr bool operator==(const ForeignConstant &one, const ForeignConstant &other) { return one.word == other.word; }
constexpr bool operator!=(const ForeignConstant &one, const ForeignConstant &other) { return one.word != other.word; }
// A status of the headers is compared with one that they lack.
template <class T> using Number = typename std::enable_if<std::is_enum<T>::value || std::is_arithmetic<T>::value>::type;
template <class T, class = Number<T>> constexpr bool operator==(T one, ForeignConstant other) { return one == T(other); }
template <class T, class = Number<T>> constexpr bool operator!=(T one, ForeignConstant other) { return one != T(other); }
template <class T, class = Number<T>> constexpr bool operator==(ForeignConstant one, T other) { return T(one) == other; }
template <class T, class = Number<T>> constexpr bool operator!=(ForeignConstant one, T other) { return T(one) != other; }

// A log shows the number.
template <class S, class = typename std::enable_if<std::is_class<S>::value>::type>
inline S &operator<<(S &stream, const Foreign &value) { return stream << value.word, stream; }

// The element that a pointer points to.
template <class P> struct Element {
    using type = typename std::remove_cv<typename std::remove_pointer<typename Taken<P>::type>::type>::type;
};

template <class T> MLUSIM_PLAIN inline T result(uint64_t word) {
    if constexpr (std::is_same<T, bfloat16_t>::value || std::is_same<T, half>::value ||
                  std::is_floating_point<T>::value) {
        double wide;
        __builtin_memcpy(&wide, &word, 8);
        if constexpr (std::is_same<T, bfloat16_t>::value) return bfloat16_t(float(wide));
        else return T(wide);
    } else if constexpr (std::is_same<T, Anything>::value) return T();
    else if constexpr (std::is_pointer<T>::value) return T(word);
    else return T(word);
}

template <class T>
MLUSIM_PLAIN inline T *array_in_memory(uint64_t kind, const char *name, const char *file, int line, const char *owner,
                                       const void *initial = nullptr) {
    return reinterpret_cast<T *>(mlusim_place(kind, name, sizeof(T), file, line, owner, initial));
}

// A constant at file scope: a record in memory, or a number.
template <class T> using Constant = std::conditional_t<std::is_class<T>::value || std::is_union<T>::value, T &, T>;
template <class T> MLUSIM_PLAIN constexpr Constant<T> constant(T &value, uint64_t kind, const char *name, const char *file, int line) {
    if constexpr (std::is_reference<Constant<T>>::value) return *array_in_memory<T>(kind, name, file, line, "", &value);
    else return value;
}

// The address of an array that another file defines with its size; `reference` is set when that file is initialised.
template <class T> MLUSIM_PLAIN inline T *array_elsewhere(uint64_t kind, const char *name, T **reference) {
    return reinterpret_cast<T *>(mlusim_find(kind, name, reinterpret_cast<void **>(reference)));
}

// Arguments of a kernel lie one after another, each at a multiple of 16 bytes.
template <class... P> struct Layout {
    static constexpr size_t count = sizeof...(P);
    static constexpr size_t slot(size_t bytes) { return (bytes + 15) / 16 * 16; }
    static constexpr size_t offset(size_t index) {
        constexpr size_t sizes[] = {sizeof(P)..., 0};
        size_t sum = 0;
        for (size_t k = 0; k < index; ++k) sum += slot(sizes[k]);
        return sum;
    }
    // A copy on the task's stack, from which records may be copied by accesses that are counted.
    alignas(16) char bytes[offset(count) + 1];
    MLUSIM_PLAIN explicit Layout(const char *from) {
        for (size_t k = 0; k < offset(count); ++k) bytes[k] = from[k];
    }
};

template <class... P, size_t... I>
MLUSIM_PLAIN inline void unpack(void (*function)(P...), char *bytes, std::index_sequence<I...>) {
    function((*reinterpret_cast<typename std::remove_cv<typename std::remove_reference<P>::type>::type *>(
        bytes + Layout<typename std::decay<P>::type...>::offset(I)))...);
}

// Called for an uncaught exception, with the stack of the `throw`.
[[noreturn]] void terminated();

template <class... P> MLUSIM_PLAIN inline void body(void *function, char *bytes) {
    std::set_terminate(&terminated);
    Layout<typename std::decay<P>::type...> own(bytes);
    unpack(reinterpret_cast<void (*)(P...)>(function), own.bytes, std::index_sequence_for<P...>{});
}

// An entry that the host may launch by name. The list is built when the image is loaded.
struct Entry {
    const char *name, *parameters, *file;
    int64_t line;
    void *function;
    void (*body)(void *, char *);
    uint64_t count;
    const uint64_t *codes, *sizes;
    Entry *next;
};

Entry *&entries();
// The instances of templates, which the host may invoke by their addresses.
Entry *&instances();

template <class R, class... P> struct Registered : Entry {
    MLUSIM_PLAIN Registered(R (*kernel)(P...), const char *what, const char *names, const char *where, int at, Entry *&list) {
        static const uint64_t all_codes[] = {(::mlusim::code<P>() | ::mlusim::only_read<P>())..., 0};
        static const uint64_t all_sizes[] = {sizeof(P)..., 0};
        name = what;
        parameters = names;
        file = where;
        line = at;
        function = reinterpret_cast<void *>(kernel);
        Entry::body = &::mlusim::body<P...>;
        count = sizeof...(P);
        codes = all_codes;
        sizes = all_sizes;
        next = list;
        list = this;
    }
};

template <class R, class... P>
MLUSIM_PLAIN inline Registered<R, P...> *enter(R (*kernel)(P...), const char *name, const char *names, const char *file,
                                               int line) {
    return new Registered<R, P...>(kernel, name, names, file, line, entries());
}

template <class R, class... P> MLUSIM_PLAIN inline Entry *enter_instance(R (*kernel)(P...), const char *name) {
    return new Registered<R, P...>(kernel, name, "", "", 0, instances());
}
// Its instance is loaded with that of the template that refers to it.
template <auto kernel, class Name> Entry *const instance = enter_instance(kernel, Name::text());

}  // namespace mlusim

extern "C" {
__attribute__((visibility("default"))) mlusim::Entry *mlusim_entries();

// The task's coordinates and dimensions; set when it starts.
struct mlusim_unit_variables {
    int task_id, task_id_x, task_id_y, task_id_z, task_dim, task_dim_x, task_dim_y, task_dim_z;
    int core_id, core_dim, cluster_id, cluster_dim, is_memory_core;
};
extern __attribute__((visibility("default"))) mlusim_unit_variables mlusim_unit;
}

// Variables, so that a member or a local variable of a program may have the same name.
static const int &taskId = mlusim_unit.task_id;
static const int &taskIdX = mlusim_unit.task_id_x;
static const int &taskIdY = mlusim_unit.task_id_y;
static const int &taskIdZ = mlusim_unit.task_id_z;
static const int &taskDim = mlusim_unit.task_dim;
static const int &taskDimX = mlusim_unit.task_dim_x;
static const int &taskDimY = mlusim_unit.task_dim_y;
static const int &taskDimZ = mlusim_unit.task_dim_z;
static const int &coreId = mlusim_unit.core_id;
static const int &coreDim = mlusim_unit.core_dim;
static const int &clusterId = mlusim_unit.cluster_id;
static const int &clusterDim = mlusim_unit.cluster_dim;

#endif  // MLUSIM_CORE_H_
