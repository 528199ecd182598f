// Abnormal ends of compiled code: wild addresses, signals, `abort`, `exit`, and loops without end.
#pragma once

#include "fibre.h"
#include <csignal>
#include <cstdio>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

// Data of a fault: the last access before it, the stack's pointer, active calls and words of the stack. The process of
// a program shares it with its parent.
struct Fault {
    Word number, address, pc, accessed, sp, count, words[STACK_WORDS];
};
static Fault *fault;
// Whether a program runs in a process of its own; whether something runs that may fail, where to go on then, and the
// address at which it failed.
static bool own_process, trying;
static jmp_buf failed;
static Word failed_at;
// The instruction of the last access; seconds of processor time without a call, and `resumed` at the last of them.
static volatile Word accessed, ticks, last_seen;

// Describe a fault for Python: the active calls, and where it happened.
static void remember(Word number, Word address, Word pc, Word sp) {
    Word low = Word(current->stack) + GUARD, room = STACK_WORDS;
    if (sp < low && sp > low - 2 * GUARD) sp = low;
    Word rest = low + current->stack_size - 2 * GUARD - sp;
    fault->number = number;
    fault->address = address;
    fault->pc = pc;
    fault->accessed = accessed;
    fault->sp = sp;
    // The active calls; then the words of the stack, in case it was overwritten.
    fault->count = 0;
    trying = true;
    if (!_setjmp(failed)) fault->count = backtrace((void **)fault->words, FRAMES);
    trying = false;
    room -= fault->count;
    if (rest > current->stack_size) rest = 0;
    Word words = rest / 8 < room ? rest / 8 : room;
    memcpy(fault->words + fault->count, (void *)sp, words * 8);
    fault->count += words;
}
[[noreturn]] static void wild(Word address, Word pc, Word flags) {
    remember(0, address, pc, Word(__builtin_frame_address(0)));
    leave(WILD, address, pc, flags);
}

// Called by the headers for `abort`, `exit`, a failed assertion, an exception that nothing catches, and the heap.
EXPORT void mlusim_leave(int64_t kind, const char *text, const char *file, int line) {
    if (!current && kind == HEAP) return;  // a kernel runs, and a thread of the program's own beside it
    if (!current) {
        if (kind != EXIT) fprintf(stderr, "%s:%d: %s\n", file, line, text);
        fflush(stdout);
        _exit(kind == EXIT ? atoi(text) : 1);
    }
    remember(0, 0, 0, Word(__builtin_frame_address(0)));
    leave(LEFT, Word(kind) | Word(line) << 8, Word(text), Word(file));
}

// Called by checks of the compiler, with records of UBSan: a type's name follows four bytes.
struct Checked {
    const char *file;
    uint32_t line, column;
    const char *type;
    uint8_t alignment, is_store;
};
static const Checked *beyond_bounds;
static Word last_index;
// An index beyond the bounds of its type. Kernels use rows of an array as one, so this alone is no error.
EXPORT void __ubsan_handle_out_of_bounds(const Checked *where, Word index) {
    beyond_bounds = where;
    last_index = index;
}
// An access outside the variable, or the block of the heap, that it belongs to.
EXPORT void __ubsan_handle_type_mismatch_v1(const Checked *where, Word) {
    static char text[256], index[128];
    bool known = beyond_bounds && beyond_bounds->line == where->line;
    if (known) snprintf(index, sizeof index, ": index %lld of %s", (long long)last_index, beyond_bounds->type + 4);
    const char *verb = where->is_store ? "writes" : "reads";
    snprintf(text, sizeof text, "%s %s outside the array or variable%s", verb, where->type + 4, known ? index : "");
    mlusim_leave(OUTSIDE, text, "", 0);
}
EXPORT void __ubsan_handle_builtin_unreachable(void *) { mlusim_leave(UNREACHABLE, "", "", 0); }

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGVTALRM, SIGINT};
enum { COUNT = sizeof SIGNALS / sizeof *SIGNALS };
static struct sigaction before[COUNT];

static void on_signal(int number, siginfo_t *info, void *context) {
    bool is_fault = number != SIGVTALRM && number != SIGINT;
    if (trying && is_fault) {
        failed_at = Word(info->si_addr);
        _longjmp(failed, 1);
    }
    if (!current) {
        if (number == SIGINT) before[COUNT - 1].sa_handler(number);
        if (is_fault) {
            signal(number, SIG_DFL);
            raise(number);
        }
        return;
    }
    if (number == SIGVTALRM) {
        ticks = last_seen == resumed ? ticks + 1 : 0;
        last_seen = resumed;
        if (!foreign && ticks < current->limit_ticks) return;
    }
    const mcontext_t &machine = ((ucontext_t *)context)->uc_mcontext;
#ifdef __x86_64__
    Word pc = Word(machine.gregs[REG_RIP]), sp = Word(machine.gregs[REG_RSP]);
#else
    Word pc = Word(machine.pc), sp = Word(machine.sp);
#endif
    remember(foreign ? 0 : number, is_fault ? Word(info->si_addr) : 0, pc, sp);
    foreign = 0;
    // The heap of a process that has come to this may be corrupted, and its locks held.
    if (own_process && !current->device && number != SIGINT) _exit(1);
    leave(SIGNAL, number, 0, 0);
}

// Return where the data of faults is written; `own`: from now on, the program runs in a process of its own.
EXPORT Fault *mlusim_fault(int own) {
    void *first;
    own_process = own;
    backtrace(&first, 1);  // load the library that it needs now, not in a signal handler
    if (!fault) {
        int access = PROT_READ | PROT_WRITE;
        fault = (Fault *)mmap(nullptr, sizeof(Fault), access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    }
    return fault;
}

// Copy for the host; returns 0, or the first address that the program may not access. That of a wild one is unknown.
EXPORT Word mlusim_move(void *to, const void *from, Word size) {
    trying = true;
    bool is_done = !_setjmp(failed);
    if (is_done) memmove(to, from, size);
    trying = false;
    return is_done ? 0 : failed_at ? failed_at : ~Word(0);
}

// Handle the signals of faults, and a tick per second of processor time; or restore the handlers.
EXPORT void mlusim_guard(int on) {
    static stack_t own, old;
    static char room[1 << 16];
    static int depth;
    if (on ? depth++ : --depth) return;
    itimerval period = {{on, 0}, {on, 0}};
    if (on) {
        own.ss_sp = room;
        own.ss_size = sizeof room;
        runner = pthread_self();
        sigaltstack(&own, &old);
        struct sigaction action = {};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        for (int k = 0; k < COUNT; ++k) sigaction(SIGNALS[k], &action, &before[k]);
    }
    setitimer(ITIMER_VIRTUAL, &period, nullptr);
    if (!on) {
        for (int k = 0; k < COUNT; ++k) sigaction(SIGNALS[k], &before[k], nullptr);
        sigaltstack(&old, nullptr);
    }
}
