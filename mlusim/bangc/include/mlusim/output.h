// Output and exits, which go to the simulator instead of the C library.
#ifndef MLUSIM_OUTPUT_H_
#define MLUSIM_OUTPUT_H_

#include <stdarg.h>
#include <sys/time.h>
#include <unistd.h>

// These headers undefine names that are defined below, so they come first.
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <exception>

extern "C" {
int mlusim_print(const char *format, va_list list);
void mlusim_leave(int64_t kind, const char *text, const char *file, int line);
}

__attribute__((format(printf, 1, 2))) inline int mlusim_printf(const char *format, ...) {
    va_list list;
    va_start(list, format);
    int length = mlusim_print(format, list);
    va_end(list);
    return length;
}

namespace mlusim {
// No compiler promotes a bfloat16_t, and clang no half: they are shown as floats.
template <class T> inline T shown(T value) { return value; }
inline double shown(bfloat16_t value) { return float(value); }
inline double shown(half value) { return float(value); }
template <class... A>
using with_halves = std::enable_if_t<((std::is_same<A, half>::value || std::is_same<A, bfloat16_t>::value) || ...)>;
}  // namespace mlusim
template <class... A, class = mlusim::with_halves<A...>> inline int mlusim_printf(const char *format, A... values) {
    return mlusim_printf(format, mlusim::shown(values)...);
}
template <class... A, class = mlusim::with_halves<A...>> inline int fprintf(FILE *file, const char *format, A... values) {
    return fprintf(file, format, mlusim::shown(values)...);
}
template <class... A, class = mlusim::with_halves<A...>> inline int sprintf(char *text, const char *format, A... values) {
    return sprintf(text, format, mlusim::shown(values)...);
}
template <class... A, class = mlusim::with_halves<A...>>
inline int snprintf(char *text, size_t size, const char *format, A... values) {
    return snprintf(text, size, format, mlusim::shown(values)...);
}

namespace mlusim {

// Exits pass the line of their caller.
[[noreturn]] inline void stop(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    mlusim_leave(0, "", file, line);
    __builtin_unreachable();
}
[[noreturn]] inline void failed(const char *text, const char *file, int line) {
    mlusim_leave(1, text, file, line);
    __builtin_unreachable();
}
// `__assert(text, file, line)` always fails, as in the C library; with a condition it may.
[[noreturn]] inline void checked(const char *text, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    failed(text, file, line);
}
inline void checked(bool condition, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    if (!condition) failed("__assert", file, line);
}
[[noreturn]] inline void ended(int status, const char *file = "", int line = 0) {
    static char text[16];
    snprintf(text, sizeof text, "%d", status);
    mlusim_leave(2, text, file, line);
    __builtin_unreachable();
}

}  // namespace mlusim

// A kernel has no heap: the linker redirects its functions here. Static initializers and host code may use the heap,
// whose blocks bound the copies of CNRT.
extern "C" {
void mlusim_allocated(void *block, size_t size);
void mlusim_released(void *block);
__attribute__((visibility("default"), used, weak)) int mlusim_in_kernel;
#define MLUSIM_HEAP(result, function, said, parameters, before, call, after)                              \
    result __real_##function parameters;                                                                  \
    __attribute__((weak, used, visibility("hidden"), no_sanitize("thread"))) result __wrap_##function parameters { \
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

namespace mlusim {
// At the start of an entry: host code launches entries, and does not call them.
MLUSIM_PLAIN inline void entered(const char *name) {
    if (!mlusim_in_kernel) mlusim_leave(8, name, "", 0);
}
}  // namespace mlusim

// Functions passed to `atexit`, and destructors of objects outside functions, the last one first. They may call CNRT, so
// they run at the end of `main`, not when the file is unloaded; those of a kernel's copy of the file never run.
struct mlusim_ending {
    void (*function)(void *);
    void *argument;
    mlusim_ending *next;
};
extern "C" {
__attribute__((visibility("hidden"), weak)) mlusim_ending *mlusim_endings;
__attribute__((weak, used, visibility("hidden"), no_sanitize("thread"))) int __wrap___cxa_atexit(
    void (*function)(void *), void *argument, void *) {
    if (!mlusim_in_kernel) mlusim_endings = new mlusim_ending{function, argument, mlusim_endings};
    return 0;
}
}

namespace mlusim {

inline void finish() {
    while (mlusim_ending *last = mlusim_in_kernel ? nullptr : mlusim_endings) {
        mlusim_endings = last->next;
        last->function(last->argument);
        delete last;
    }
}

// Called for an uncaught exception, with the stack of the `throw`.
[[noreturn]] MLUSIM_PLAIN inline void terminated() {
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

// A program's `main`, with any parameters.
template <class F> inline void run_main(F *function, int count, char **words) {
    std::set_terminate(&terminated);
    int status;
    if constexpr (std::is_invocable_r<int, F, int, char **>::value) status = function(count, words);
    else if constexpr (std::is_invocable_r<int, F, int, const char **>::value)
        status = function(count, const_cast<const char **>(words));
    else status = function();
    finish();
    ended(status);
}

}  // namespace mlusim

[[noreturn]] inline void mlusim_exit(int status, const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    ::mlusim::finish();
    ::mlusim::ended(status, file, line);
}
[[noreturn]] inline void mlusim_quick_exit(int status, const char *file = __builtin_FILE(),
                                           int line = __builtin_LINE()) {
    ::mlusim::ended(status, file, line);
}
[[noreturn]] inline void mlusim_abort(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    ::mlusim::stop(file, line);
}
#define abort mlusim_abort
namespace std {
using ::mlusim_abort;
using ::mlusim_exit;
using ::mlusim_quick_exit;
using ::mlusim_printf;
}

// The compiler calls this when a function finds its frame overwritten.
extern "C" __attribute__((visibility("hidden"), weak, used, noreturn, no_stack_protector)) void __stack_chk_fail() {
    mlusim_leave(4, "", "", 0);
    __builtin_unreachable();
}

#define exit(status) mlusim_exit(status)
#define _exit(status) mlusim_quick_exit(status)
#define _Exit(status) mlusim_quick_exit(status)
#define quick_exit(status) mlusim_quick_exit(status)

namespace mlusim {
template <class T> inline void dump(T value) {
    if constexpr (std::is_integral<T>::value && std::is_unsigned<T>::value)
        mlusim_printf("breakdump: %llu\n", static_cast<unsigned long long>(value));
    else if constexpr (std::is_integral<T>::value || std::is_enum<T>::value)
        mlusim_printf("breakdump: %lld\n", static_cast<long long>(value));
    else mlusim_printf("breakdump: %g\n", double(float(value)));
}
}  // namespace mlusim
// Print registers, one per line.
template <class... A> inline void __breakdump_scalar(A... values) { (::mlusim::dump(values), ...); }

// Inside a kernel the clock is the simulated one.
inline int mlusim_time_of_day(struct timeval *value, void *zone = nullptr) {
    if (!mlusim_unit.task_dim) return gettimeofday(value, static_cast<struct timezone *>(zone));
    uint64_t microseconds = __mlusim_now();
    value->tv_sec = time_t(microseconds / 1000000);
    value->tv_usec = suseconds_t(microseconds % 1000000);
    return 0;
}
#define gettimeofday(value, zone) mlusim_time_of_day(value, zone)

#define __bang_printf(...) mlusim_printf(__VA_ARGS__)
#define printf(...) mlusim_printf(__VA_ARGS__)
#undef assert
#define assert(condition) \
    ((condition) ? (void)0 : ::mlusim::failed(#condition, __FILE__, __LINE__))
#define __assert(...) ::mlusim::checked(__VA_ARGS__)
#define __assert_fail(text, file, line, function) ::mlusim::failed(text, file, line)

#endif  // MLUSIM_OUTPUT_H_
