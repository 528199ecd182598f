// The interface between compiled kernels and the simulator.
//
// A task's C++ runs on its own stack until it needs the simulator: it fills a Call and switches back to its caller.
// All images share this library; each core has an image, a copy of the kernel's shared object.
//
//   fibre.h     fibres, what they share with Python, and the switch to their caller
//   accesses.h  plain C++ accesses to memory
//   arrays.h    arrays with a memory space
//   faults.h    wild addresses, signals, and other abnormal ends
//   heap.h      blocks of a program on the heap of the host
//   here        calls of the simulator, known calls, and the functions that Python calls to run a fibre
#include "accesses.h"
#include "arrays.h"
#include "faults.h"
#include "fibre.h"
#include "heap.h"
#include <cstdarg>

// By operation, the number of first values of a known call that may differ, and whether it has no effect on absent
// memories.
static const unsigned char *varying, *droppable;
EXPORT void mlusim_operations(const unsigned char *differ, const unsigned char *drop) {
    varying = differ;
    droppable = drop;
}
// Whether the call of a memory core is dropped: it uses a memory that the core lacks, and returns nothing to the task.
static bool has_no_effect(const Fibre *f) {
    const Call &call = f->call;
    if (!droppable[call.op] || call.value[0] - Word(f->stack) < f->stack_size) return false;
    for (int64_t k = 0; k < call.count; ++k)
        for (Word kind = 0; call.codes[k] >> 16 && kind < KINDS; ++kind)
            if (f->absent >> kind & 1 && call.value[k] - f->arenas[kind]->base <= ARENA_MASK) return true;
    return false;
}

// Called by the headers when the call record is filled; returns when it has its result.
EXPORT void mlusim_switch() {
    Fibre *f = current;
    if (!f && mlusim_call_record == &unheard) {
        unheard.result = 0;
        return;
    }
    if (!f) {  // a thread of the program: the runner ends the process
        foreign = 1;
        for (pthread_kill(runner, SIGVTALRM);;) pause();
    }
    if (f->drops && has_no_effect(f)) {
        if (++f->skipped < f->drops) {
            f->call.result = 0;
            return;
        }
        Call saved = f->call;
        back(f, SKIPPED);
        f->skipped = 0;
        f->call = saved;
    }
    f->pending = 1;
    if (f->used_slots) {
        Call saved = f->call;
        flush(f);
        f->call = saved;
    }
    cross(f);
}

// Whether a task of a kernel, and not `main`, is for the first time where `seen` is.
EXPORT bool mlusim_enters_host(char *seen) { return current && current->device && !*seen && (*seen = 1); }

EXPORT int mlusim_print(const char *format, va_list list) {
    if (!current) {
        if (loading && loading->muted) return 0;
        int length = vprintf(format, list);
        fflush(stdout);
        return length;
    }
    char *text;
    int length = vasprintf(&text, format, list);
    fflush(stdout);
    flush(current);
    current->call.value[0] = Word(text);
    back(current, PRINT);
    free(text);
    return length;
}

// The known call with the same location, types and values as the present one, but for the values that may differ; with
// `learn`, an entry for it. Null if there is none.
static Known *known_call(Fibre *f, bool learn) {
    const Call &call = f->call;
    Word words[ARGUMENTS + HEAD], size = HEAD, hash = 0;
    memcpy(words, &call.op, HEAD * sizeof(Word));
    for (Word k = varying ? varying[call.op] : 0; k < Word(call.count); ++k) words[size++] = call.value[k];
    for (Word k = 0; k < size; ++k) hash = mixed(hash, words[k]);
    for (Word probe = 0; probe < PROBES; ++probe) {
        Known &one = f->known[((hash >> 40) + probe) % KNOWN_CALLS];
        bool is_free = one.epoch != f->epoch;
        if (!is_free && one.size == size && !memcmp(one.words, words, size * sizeof(Word))) return &one;
        if (!is_free) continue;
        if (!learn) return nullptr;
        one.epoch = f->epoch;
        one.size = size;
        memcpy(one.words, words, size * sizeof(Word));
        return &one;
    }
    return nullptr;
}
// From now on, resuming returns FIRST_KNOWN plus this number for equal calls; returns 0 if there is no room.
EXPORT int mlusim_know(Fibre *f, Word number) {
    Known *one = known_call(f, true);
    if (one) one->number = number;
    return one != nullptr;
}
EXPORT void mlusim_forget(Fibre *f) { ++f->epoch; }

EXPORT Fibre *mlusim_fibre(Word stack_bytes, Word run_capacity) {
    Fibre *f = (Fibre *)calloc(1, sizeof(Fibre));
    f->runs = (Run *)malloc(run_capacity * sizeof(Run));
    f->run_capacity = run_capacity;
    f->known = (Known *)calloc(KNOWN_CALLS, sizeof(Known));
    f->epoch = 1;
    f->stack_size = stack_bytes;
    f->stack = (char *)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Its ends are protected, to detect stack overflows and writes beyond the first frame.
    mprotect(f->stack, GUARD, PROT_NONE);
    mprotect(f->stack + stack_bytes - GUARD, GUARD, PROT_NONE);
    return f;
}
EXPORT void mlusim_free(Fibre *f) {
    munmap(f->stack, f->stack_size);
    free(f->runs);
    free(f->known);
    free(f->undo_bytes);
    free(f);
}

static void begin() {
    current->body(current->function, current->arguments);
    flush(current);
    back(current, FINISHED);
}
// Prepare a fibre to call a function when it is resumed.
EXPORT void mlusim_start(Fibre *f, void (*body)(void *, char *), void *function, char *arguments) {
    getcontext(&f->first);
    mlusim_forget(f);
    f->first.uc_stack.ss_sp = f->stack;
    f->first.uc_stack.ss_size = f->stack_size - GUARD;
    f->first.uc_link = nullptr;
    f->body = body;
    f->function = function;
    f->arguments = arguments;
    f->started = f->astray = f->drops = f->skipped = 0;
    f->undo_size = f->pending = f->run_count = f->used_slots = f->recent = 0;
    for (int k = 0; k < SLOTS; ++k) f->slots[k].run.count = 0;
    makecontext(&f->first, begin, 0);
}
// The body of a fibre that runs the static initializers of a program's image.
EXPORT void mlusim_initialize(void *initializers, char *count) {
    for (Word k = 0; k < Word(count); ++k) ((void (**)())initializers)[k]();
}
// Run a fibre until it switches back, and return why.
EXPORT int64_t mlusim_resume(Fibre *f) {
    Fibre *outer = current;
    current = f;
    ++resumed;
    mlusim_call_record = &f->call;
    if (!_setjmp(f->back)) {
        if (f->started++) _longjmp(f->here, 1);
        setcontext(&f->first);
    }
    f = current;
    current = outer;
    mlusim_call_record = outer ? &outer->call : nullptr;
    Known *one = f->call.op < 0 || !f->device ? nullptr : known_call(f, false);
    return one ? FIRST_KNOWN + int64_t(one->number) : f->call.op;
}
// A digest of the registers and the stack of a fibre.
EXPORT Word mlusim_state(const Fibre *f) {
    Word hash = 0;
    const Word *parts[][2] = {
        {(const Word *)&f->here, (const Word *)(&f->here + 1)},
        {(const Word *)f->sp, (const Word *)(f->stack + f->stack_size - GUARD)},
    };
    for (auto [word, end] : parts)
        while (word < end) hash = mixed(hash, *word++);
    return hash;
}
