// Fibres: what they share with Python (`mlusim/bangc/runtime_layout.py`), and the switch to their caller.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <ucontext.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
typedef uint64_t Word;

// Each arena reserves 256 MiB of addresses; an offset in it has no bits beyond these.
static const Word ARENA_MASK = (Word(1) << 28) - 1;
// Unused addresses before and after each array: an index that leaves its array does not reach another one.
static const Word GAP = 1 << 16;
// Protected bytes at each end of a stack.
static const Word GUARD = 1 << 16;
enum {
    ARGUMENTS = 32,        // most values of a call
    HEAD = 5,              // words of a call between its result and its values
    SLOTS = 512,           // instructions whose accesses are collected at a time
    ARRAYS = 2048,         // most arrays in a memory
    FRAMES = 64,           // most active calls in the data of a fault
    STACK_WORDS = 4096,    // most words of the stack there
    BATCH = 1 << 13,       // accesses after which other tasks run
    KNOWN_CALLS = 1 << 12, // calls of a task that are remembered
    PROBES = 8,            // entries searched for one
    POISON = 0xFF,         // each byte of fresh memory
};
// Memories. EXTERN is added to one: the array may be another file's.
enum { NRAM, WRAM, SRAM, LDRAM, GDRAM, KINDS = 4, EXTERN = 8 };
// Flags of a range: what is written never, has no bytes, and may be used, or written, by a copy in flight.
enum { READ_ONLY = 1, NO_BYTES = 2, IN_FLIGHT = 4, WRITTEN = 8 };
// Flags of a run: stores of a memory core that are taken back; loads of bytes with the value of fresh memory.
enum { DROPPED = 1 << 14, FRESH = 1 << 15 };
// Why a fibre switches back; smaller than the numbers of intrinsics.
enum {
    FINISHED = -1,
    SETTLE = -2,
    DRAIN = -3,
    SIGNAL = -4,
    WILD = -5,
    PLACED = -6,
    PRINT = -7,
    LEFT = -8,
    SKIPPED = -9,
    UNSYNCED = -10,
};
// Of `mlusim_leave`: a call of exit or of the heap, a memory with more arrays than there is room for, an
// address in another memory than the function's, an access outside its variable, code marked as unreachable.
enum { EXIT = 2, HEAP = 6, TOO_MANY = 7, OTHER_MEMORY = 10, OUTSIDE = 11, UNREACHABLE = 12 };
// The value that resuming returns for the first known call.
static const int64_t FIRST_KNOWN = int64_t(1) << 32;

struct Call {
    Word result;
    int64_t op, line, count;
    const char *file;
    const Word *codes;
    Word value[ARGUMENTS];
};
struct Known {
    Word epoch, number, size, words[ARGUMENTS + HEAD];
};
struct Range {
    Word base, size, flags;
};
struct Run {
    Word pc, address;
    int64_t stride;
    Word count, meta;
};
// The latest run of an instruction; the bytes and the number of the array that it accessed last.
struct Slot {
    Run run;
    Word next, low, high, array;
};
struct Array {
    Word kind;
    const char *name;
    Word offset, size;
    const char *file;
    Word line;
    const void *initial;
    const char *owner;  // the function that declares it, with its template arguments; "" if other files may use it
};
// The addresses of the arrays of one memory; the cores of a cluster share that of their SRAM.
struct Arena {
    Word base, used, alignment, count;
    Array arrays[ARRAYS];
};
struct Fibre {
    Call call;
    Arena *arenas[KINDS];
    Range *ranges;
    Word range_count, in_flight, image, image_size, device;
    Word absent;  // a bit for each memory that the core lacks
    Word astray;  // whether the core has a value from such a memory
    Word pending, limit_ticks;
    Run *runs;
    Word run_count, run_capacity;
    char *stack;
    Word stack_size;
    Word drops;    // the calls without an effect that return at once before one is reported; 0: none
    Word skipped;  // their number so far
    // From here on, C++ alone.
    Word sp, used_slots;
    uint16_t order[SLOTS];
    Slot slots[SLOTS];
    jmp_buf here, back;
    ucontext_t first;
    Word started, recent;
    Word undo, undo_size, undo_room;  // the bytes to take back
    char *undo_bytes;
    void (*body)(void *, char *), *function;
    char *arguments;
    Known *known;
    Word epoch;
};

// The call record of the running fibre, which the headers fill.
EXPORT Call *mlusim_call_record;
Call *mlusim_call_record = nullptr;
// The running fibre; null in a thread that a program starts, and while static initializers run.
static thread_local Fibre *current __attribute__((tls_model("initial-exec")));
// Where fibres run, and the number of times that one has been resumed.
static pthread_t runner;
static volatile Word resumed;
// Whether a thread of the program has called the board's runtime.
static volatile Word foreign;

// A store that a memory core computes from a memory that it lacks is taken back before anything else can read it: the
// compiled code stores as soon as its access is counted, and cannot be told not to.
static void take_back(Fibre *f) {
    if (!f->undo_size) return;
    memcpy((void *)f->undo, f->undo_bytes, f->undo_size);
    f->undo_size = 0;
}
static void will_take_back(Fibre *f, Word address, Word size) {
    if (size > f->undo_room) {
        f->undo_room = size;
        f->undo_bytes = (char *)realloc(f->undo_bytes, size);
    }
    memcpy(f->undo_bytes, (void *)address, size);
    f->undo = address;
    f->undo_size = size;
}

// Switch from a fibre to its caller. `swapcontext` would make a system call for the signal mask at every switch.
static void cross(Fibre *f) {
    take_back(f);
    f->sp = Word(__builtin_frame_address(0)) - 64;  // with the registers saved by this function
    if (!_setjmp(f->here)) _longjmp(f->back, 1);
}
static void back(Fibre *f, int64_t why) {
    f->call.op = why;
    cross(f);
}
// Deliver the runs of accesses that were collected.
static void flush_slot(Fibre *f, Slot &slot) {
    if (slot.run.count && f->run_count == f->run_capacity) back(f, DRAIN);
    if (slot.run.count) f->runs[f->run_count++] = slot.run;
    slot.run.count = 0;
}
static void flush(Fibre *f) {
    for (Word k = 0; k < f->used_slots; ++k) flush_slot(f, f->slots[f->order[k]]);
    f->used_slots = 0;
}
// Switch from a fibre to its caller for good. The accesses before a fault tell why: those that there is room for.
[[noreturn]] static void leave(int64_t why, Word first, Word second, Word third) {
    Fibre *f = current;
    take_back(f);
    if (why == WILD || why == SIGNAL)
        for (Word k = 0; k < f->used_slots && f->run_count < f->run_capacity; ++k) flush_slot(f, f->slots[f->order[k]]);
    f->call.op = why;
    f->call.value[0] = first;
    f->call.value[1] = second;
    f->call.value[2] = third;
    _longjmp(f->back, 1);
}

static Word mixed(Word hash, Word word) { return ((hash ^ word) * 0x9E3779B97F4A7C15ull) ^ hash >> 29; }
