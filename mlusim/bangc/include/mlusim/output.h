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

extern "C" __attribute__((visibility("default"))) int mlusim_in_kernel;

namespace mlusim {
// At the start of an entry: host code launches entries, and does not call them.
MLUSIM_PLAIN inline void entered(const char *name) {
    if (!mlusim_in_kernel) mlusim_leave(8, name, "", 0);
}
}  // namespace mlusim

namespace mlusim {

// Runs what was passed to `atexit`, and destructors of objects outside functions.
void finish();

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
