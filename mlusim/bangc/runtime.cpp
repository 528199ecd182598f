// The interface between compiled kernels and the simulator: fibres, the memory map, plain C++ accesses, faults.
//
// A task's C++ runs on its own stack until it needs the simulator: it fills a Call and switches back to its caller.
// All images share this library; each core has an image, a copy of the kernel's shared object.
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>
#include <ucontext.h>

#define EXPORT extern "C" __attribute__((visibility("default")))
typedef uint64_t Word;
static const Word NRAM_BYTES_MASK = (Word(1) << 28) - 1;  // each arena reserves 256 MiB of addresses
// Unused addresses before and after each array: an index that leaves its array does not reach another one.
static const Word GAP = 1 << 16;
enum { ARGUMENTS = 32, SLOTS = 512, ARRAYS = 2048, KINDS = 4, GUARD = 1 << 16, FRAMES = 64, BATCH = 1 << 13, STACK_WORDS = 4096, NRAM = 0, WRAM = 1, SRAM = 2, LDRAM = 3, GDRAM = 4, EXTERN = 8, IN_FLIGHT = 4, WRITTEN = 8, DROPPED = 1 << 14, FRESH = 1 << 15, POISON = 0xFF };
// Of `mlusim_leave`: a call of exit or of the heap, a memory with more arrays than there is room for.
enum { EXIT = 2, HEAP = 6, TOO_MANY = 7 };
// Why a fibre switches back; smaller than the numbers of intrinsics.
enum { FINISHED = -1, SETTLE = -2, DRAIN = -3, SIGNAL = -4, WILD = -5, PLACED = -6, PRINT = -7, LEFT = -8, SKIPPED = -9, UNSYNCED = -10 };
// Known calls of a task, and the number of entries searched for one; the value that resuming returns for the first.
enum { KNOWN_CALLS = 1 << 12, PROBES = 8 };
static const int64_t FIRST_KNOWN = int64_t(1) << 32;

struct Call { Word result; int64_t op, line, count; const char *file; const Word *codes; Word value[ARGUMENTS]; };
struct Known { Word epoch, number, size, words[ARGUMENTS + 5]; };
struct Range { Word base, size, read_only; };
struct Run { Word pc, address; int64_t stride; Word count, meta; };
struct Slot { Run run; Word next, low, high, array; };  // the bytes and the number of the array that it accessed last
struct Array { Word kind; const char *name; Word offset, size; const char *file; Word line; const void *initial; const char *owner; };  // owner: the function that declares it, with its template arguments
// The addresses of the arrays of one memory; the cores of a cluster share that of their SRAM.
struct Arena { Word base, used, alignment, count; Array arrays[ARRAYS]; };
struct Fibre {
    Call call;
    Arena *arenas[KINDS];
    Range *ranges;
    Word range_count, in_flight, image, image_size, device, absent, astray, pending, limit_ticks;  // absent: a bit for each memory that the core lacks; astray: whether the core has a value from an absent memory
    Run *runs;
    Word run_count, run_capacity;
    char *stack;
    Word stack_size, drops, skipped;  // drops: the number of calls without an effect that return at once before one is reported (0: none); skipped: their number so far
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

// Data of a signal: the last access before it, the stack's pointer and top. A program's process shares it with its parent.
struct Fault { Word number, address, pc, accessed, sp, count, words[STACK_WORDS]; };
// The running fibre; null in a thread that a program starts, and while static initializers run.
static thread_local Fibre *current __attribute__((tls_model("initial-exec")));
static Arena *loading[KINDS + 1];  // the last one: variables in GDRAM, shared by all images
// References to arrays that a file declares without a size; set when another file of the image defines the array.
static struct { Word kind; const char *name; void **reference; } declared[ARRAYS];
static Word declared_count;
static pthread_t runner;
static volatile Word ticks, resumed, last_seen, foreign, accessed;
static Fault *fault;
static bool own_process, muted, tracing; static jmp_buf untraced;
extern "C" __attribute__((visibility("default"))) Call *mlusim_call_record = nullptr;

// A store that a memory core computes from a memory that it lacks is taken back before anything else can read it: the
// compiled code stores as soon as its access is counted, and cannot be told not to.
static void take_back(Fibre *f) {
    if (f->undo_size) memcpy((void *)f->undo, f->undo_bytes, f->undo_size), f->undo_size = 0;
}
static void will_take_back(Fibre *f, Word address, Word size) {
    if (size > f->undo_room) f->undo_bytes = (char *)realloc(f->undo_bytes, f->undo_room = size);
    memcpy(f->undo_bytes, (void *)address, size), f->undo = address, f->undo_size = size;
}

// Switch from a fibre to its caller. `swapcontext` would make a system call for the signal mask at every switch.
static void cross(Fibre *f) {
    take_back(f);
    f->sp = Word(__builtin_frame_address(0)) - 64;  // with the registers saved by this function
    if (!_setjmp(f->here)) _longjmp(f->back, 1);
}
static void back(Fibre *f, int64_t why) { f->call.op = why, cross(f); }
static void flush_slot(Fibre *f, Slot &slot) {
    if (slot.run.count && f->run_count == f->run_capacity) back(f, DRAIN);
    if (slot.run.count) f->runs[f->run_count++] = slot.run;
    slot.run.count = 0;
}
static void flush(Fibre *f) {
    for (Word k = 0; k < f->used_slots; ++k) flush_slot(f, f->slots[f->order[k]]);
    f->used_slots = 0;
}
// By operation, the number of first values of a known call that may differ, and whether it has no effect on absent memories.
static const unsigned char *varying, *droppable;
static bool has_no_effect(const Fibre *f) {
    const Call &call = f->call;
    if (!droppable[call.op] || call.value[0] - Word(f->stack) < f->stack_size) return false;
    for (int64_t k = 0; k < call.count; ++k)
        for (Word kind = 0; call.codes[k] >> 16 && kind < KINDS; ++kind)
            if (f->absent >> kind & 1 && call.value[k] - f->arenas[kind]->base <= NRAM_BYTES_MASK) return true;
    return false;
}
EXPORT void mlusim_switch() {
    Fibre *f = current;
    if (!f) {  // a thread of the program: the runner ends the process
        foreign = 1;
        for (pthread_kill(runner, SIGVTALRM);;) pause();
    }
    if (f->drops && has_no_effect(f)) {
        if (++f->skipped < f->drops) return (void)(f->call.result = 0);
        Call saved = f->call;
        back(f, SKIPPED), f->skipped = 0, f->call = saved;
    }
    f->pending = 1;
    if (Call saved; f->used_slots) saved = f->call, flush(f), f->call = saved;
    cross(f);
}
[[noreturn]] static void leave(int64_t why, Word first, Word second, Word third) {
    Fibre *f = current;
    take_back(f), f->call.op = why, f->call.value[0] = first, f->call.value[1] = second, f->call.value[2] = third;
    _longjmp(f->back, 1);
}

static void remember(Word number, Word address, Word pc, Word sp) {
    Word low = Word(current->stack) + GUARD, room = STACK_WORDS;
    if (sp < low && sp > low - 2 * GUARD) sp = low;
    Word rest = low + current->stack_size - 2 * GUARD - sp;
    fault->number = number, fault->address = address, fault->pc = pc, fault->accessed = accessed, fault->sp = sp;
    // The active calls; then the words of the stack, in case it was overwritten.
    fault->count = 0, tracing = true;
    if (!_setjmp(untraced)) fault->count = backtrace((void **)fault->words, FRAMES);
    tracing = false, room -= fault->count, rest = rest > current->stack_size ? 0 : rest / 8 < room ? rest / 8 : room;
    memcpy(fault->words + fault->count, (void *)sp, rest * 8), fault->count += rest;
}
[[noreturn]] static void wild(Word address, Word pc, Word flags) {
    remember(0, address, pc, Word(__builtin_frame_address(0))), leave(WILD, address, pc, flags);
}

// The number of ascending numbers, `step` words apart, that are at most `value`.
static Word up_to(const Word *numbers, Word step, Word count, Word value) {
    Word low = 0;
    for (Word middle; low < count;) middle = (low + count) / 2, (numbers[middle * step] <= value ? low = middle + 1 : count = middle);
    return low;
}
static int64_t range_of(const Fibre *f, Word address) {
    Word low = up_to(&f->ranges->base, sizeof(Range) / 8, f->range_count, address);
    return low && address - f->ranges[low - 1].base < f->ranges[low - 1].size ? int64_t(low) - 1 : -1;
}
static bool in_array(const Arena *arena, Word address, Word size, Slot &slot) {
    Word low = up_to(&arena->arrays->offset, sizeof(Array) / 8, arena->count, address - arena->base);
    if (!low) return false;
    slot.low = arena->base + arena->arrays[low - 1].offset, slot.high = slot.low + arena->arrays[low - 1].size;
    slot.array = low - 1;
    return address + size <= slot.high;
}

// Whether bytes have the value of fresh memory.
static bool fresh(Word at, Word size) { for (; size && *(unsigned char *)at == POISON; --size) ++at; return !size; }
// Host memory belongs to the program, but a copy may still use it.
static void touch_of_host(Fibre *f, Word address, Word size, Word write, Word pc) {
    int64_t found = range_of(f, address);
    if (found < 0) return;
    Word flags = f->ranges[found].read_only;
    if (!(flags & IN_FLIGHT)) wild(address, pc, write | size << 1);
    if (!write && !(flags & WRITTEN)) return;
    Call saved = f->call;
    f->call.value[0] = address, f->call.value[1] = pc, f->call.value[2] = write;
    back(f, UNSYNCED), f->call = saved;
}
static void touch(Word address, Word size, Word write, Word pc) {
    Fibre *f = current;
    accessed = pc;
    if (!f) return;
    take_back(f);
    bool own = address - Word(f->stack) < f->stack_size || address - f->image < f->image_size;
    if (!f->device) return (own ? f->in_flight : f->range_count) ? touch_of_host(f, address, size, write, pc) : (void)0;
    if (own) return;
    Word kind = KINDS, range = 0, read_only = 0;
    for (Word k = 0; k < KINDS; ++k)
        if (f->arenas[k] && address - f->arenas[k]->base <= NRAM_BYTES_MASK) kind = k;
    Word number = ((pc - f->image) * 0x9E3779B97F4A7C15ull) >> 55;  // wherever the image was loaded
    Slot &slot = f->slots[number];
    bool out = (address < slot.low || address + size > slot.high) && kind < KINDS && !in_array(f->arenas[kind], address, size, slot);
    if (kind == KINDS) {
        int64_t found = range_of(f, address);
        const Range &hit = f->ranges[found < 0 ? 0 : found];
        range = Word(found), read_only = hit.read_only & 1;
        out = found < 0 || address - hit.base + size > hit.size || (read_only && write) || hit.read_only & 2;
    }
    if (out) wild(address, pc, write | size << 1);
    if (kind < KINDS) range = slot.array;  // a run stays in its array
    if (f->pending && !(read_only && !write)) back(f, SETTLE), f->pending = 0;
    if (++f->recent == BATCH) flush(f), back(f, DRAIN), f->recent = 0;  // other tasks may change what a loop waits for
    bool common = kind == KINDS || kind == SRAM, dropped = f->astray && write && common;
    if (!common && !write) f->astray |= f->absent >> kind & 1;
    Word meta = (dropped ? DROPPED : 0) | size | write << 8 | kind << 9 | range << 16 | (!write && fresh(address, size) ? FRESH : 0);
    if (slot.run.count) {
        if (slot.run.pc == pc && (slot.run.meta | FRESH) == (meta | FRESH)) {
            if (slot.run.count == 1) slot.run.stride = int64_t(address - slot.run.address), slot.next = address;
            if (address == slot.next) {
                ++slot.run.count, slot.next += slot.run.stride, slot.run.meta |= meta;
                return dropped ? will_take_back(f, address, size) : (void)0;
            }
        }
        flush_slot(f, slot);
    } else {
        f->order[f->used_slots++] = uint16_t(number);
    }
    slot.run = Run{pc, address, 0, 1, meta};
    if (dropped) will_take_back(f, address, size);
}

#define HERE (Word(__builtin_return_address(0)) - 1)
#define ACCESS(name, size, write) EXPORT void __tsan_##name(void *a) { touch(Word(a), size, write, HERE); }
#define SIZES(n) \
    ACCESS(read##n, n, 0) ACCESS(write##n, n, 1) ACCESS(unaligned_read##n, n, 0) ACCESS(unaligned_write##n, n, 1) \
    ACCESS(volatile_read##n, n, 0) ACCESS(volatile_write##n, n, 1) \
    EXPORT void __tsan_read_write##n(void *a) { touch(Word(a), n, 0, HERE); touch(Word(a), n, 1, HERE); } \
    EXPORT void __tsan_unaligned_read_write##n(void *a) { touch(Word(a), n, 0, HERE); touch(Word(a), n, 1, HERE); }
SIZES(1) SIZES(2) SIZES(4) SIZES(8) SIZES(16)
static void touch_all(Word address, Word n, Word write, Word pc) {
    for (Word at = address, left = n, size; left; at += size, left -= size) size = left < 8 ? left : 8, touch(at, size, write, pc);
    if (n && current && current->undo_size) will_take_back(current, address, n);
}
EXPORT void __tsan_read_range(void *a, Word n) { touch_all(Word(a), n, 0, HERE); } EXPORT void __tsan_write_range(void *a, Word n) { touch_all(Word(a), n, 1, HERE); }
EXPORT void __tsan_vptr_update(void **, void *) {} EXPORT void __tsan_vptr_read(void **) {}
EXPORT void __tsan_func_entry(void *) {} EXPORT void __tsan_func_exit() {} EXPORT void __tsan_init() {}
// `std::atomic`, and counts of `std::shared_ptr`.
#define ATOMIC(n, T, name, body, ...) EXPORT T __tsan_atomic##n##_##name(volatile T *a, ##__VA_ARGS__) { touch(Word(a), n / 8, 0, HERE), touch(Word(a), n / 8, 1, HERE); return body; }
#define UPDATE(n, T, name) ATOMIC(n, T, name, __atomic_##name(a, v, __ATOMIC_SEQ_CST), T v, int)
#define SWAP(n, T, name) EXPORT int __tsan_atomic##n##_##name(volatile T *a, T *old, T v, int, int) { touch(Word(a), n / 8, 0, HERE), touch(Word(a), n / 8, 1, HERE); return __atomic_compare_exchange_n(a, old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); }
#define ATOMICS(n, T) \
    EXPORT T __tsan_atomic##n##_load(const volatile T *a, int) { touch(Word(a), n / 8, 0, HERE); return __atomic_load_n(a, __ATOMIC_SEQ_CST); } \
    EXPORT void __tsan_atomic##n##_store(volatile T *a, T v, int) { touch(Word(a), n / 8, 1, HERE), __atomic_store_n(a, v, __ATOMIC_SEQ_CST); } \
    ATOMIC(n, T, exchange, __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST), T v, int) \
    UPDATE(n, T, fetch_add) UPDATE(n, T, fetch_sub) UPDATE(n, T, fetch_and) UPDATE(n, T, fetch_or) UPDATE(n, T, fetch_xor) UPDATE(n, T, fetch_nand) \
    SWAP(n, T, compare_exchange_strong) SWAP(n, T, compare_exchange_weak) \
    ATOMIC(n, T, compare_exchange_val, (__atomic_compare_exchange_n(a, &old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST), old), T old, T v, int, int)
ATOMICS(8, uint8_t) ATOMICS(16, uint16_t) ATOMICS(32, uint32_t) ATOMICS(64, uint64_t)
EXPORT void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); } EXPORT void __tsan_atomic_signal_fence(int) {}
#define MOVES(name, moves) EXPORT void *name(void *to, const void *from, Word n) { return touch_all(Word(from), n, 0, HERE), touch_all(Word(to), n, 1, HERE), moves(to, from, n); }
#define SETS(name) EXPORT void *name(void *to, int value, Word n) { return touch_all(Word(to), n, 1, HERE), memset(to, value, n); }
MOVES(__tsan_memcpy, memcpy) MOVES(__tsan_memmove, memmove) SETS(__tsan_memset)
MOVES(__wrap_memcpy, memcpy) MOVES(__wrap_memmove, memmove) SETS(__wrap_memset)  // called by C++ headers

EXPORT void mlusim_leave(int64_t kind, const char *text, const char *file, int line);
// Provides an array with its bytes: when its image is loaded, or when its function first runs.
EXPORT void *mlusim_place(Word kind, const char *name, Word size, const char *file, int line, const char *owner, const void *initial) {
    Word space = kind & ~Word(EXTERN);
    Arena *arena = current && space < KINDS ? current->arenas[space] : loading[space];
    if (!arena || (current && !current->device)) {  // host code has no memory of a core
        remember(0, 0, 0, Word(__builtin_frame_address(0)));
        leave(PLACED, space, Word(name), Word(line));
    }
    for (Array *known = arena->arrays; known < arena->arrays + arena->count; ++known) {
        if (known->size != size || strcmp(known->name, name)) continue;
        bool same = (space == SRAM || space == GDRAM) && known->line == Word(line) && !strcmp(known->file, file) && !strcmp(known->owner, owner);  // that of the cluster or the board
        bool meets = current ? kind & EXTERN : (kind | known->kind) & EXTERN;  // defined by another file
        if (meets && !current) known->kind &= kind, known->initial = known->initial ? known->initial : initial;
        // Its location distinguishes it from others of its name when the next image is loaded.
        if (meets && !current && !(kind & EXTERN)) known->file = file, known->line = Word(line);
        if (!same && !meets) continue;
        Word offset = known->offset;
        if (current) back(current, PLACED);  // another core may have provided it after this task began
        return (char *)arena->base + offset;
    }
    Word offset = (arena->used + GAP + arena->alignment - 1) / arena->alignment * arena->alignment;
    if (arena->count == ARRAYS) mlusim_leave(TOO_MANY, name, file, line);
    arena->arrays[arena->count++] = Array{kind, name, offset, size, file, Word(line), initial, owner};
    arena->used = offset + size;
    if (current) back(current, PLACED);
    void *place = (char *)arena->base + (arena->used > NRAM_BYTES_MASK ? 0 : offset);  // arrays that are too large are never used
    for (Word k = 0; !current && k < declared_count; ++k)
        if (declared[k].kind == space && !strcmp(declared[k].name, name)) *declared[k].reference = place;
    return place;
}
// Finds an array of another file by its name, now or when that file is initialised.
EXPORT void *mlusim_find(Word space, const char *name, void **reference) {
    const Arena *arena = current && space < KINDS ? current->arenas[space] : loading[space];
    for (Word k = 0; arena && k < arena->count; ++k)
        if (!strcmp(arena->arrays[k].name, name)) return (char *)arena->base + arena->arrays[k].offset;
    if (!current && declared_count < ARRAYS) declared[declared_count++] = {space, name, reference};
    return nullptr;
}

EXPORT void mlusim_loading(Arena **arenas, int mute) {
    declared_count = 0;
    for (int k = 0; k <= KINDS; ++k) loading[k] = arenas ? arenas[k] : nullptr, muted = mute;  // static initializers run once for each image
}
EXPORT int mlusim_print(const char *format, va_list list) {
    char *text;
    if (!current && muted) return 0;
    if (int length; !current) return length = vprintf(format, list), fflush(stdout), length;
    int length = vasprintf(&text, format, list);
    fflush(stdout), flush(current);
    current->call.value[0] = Word(text), back(current, PRINT);
    return free(text), length;
}
EXPORT void mlusim_leave(int64_t kind, const char *text, const char *file, int line) {
    if (!current && kind == HEAP) return;  // a kernel runs, and a thread of the program's own beside it
    if (!current && kind == EXIT) fflush(stdout), _exit(atoi(text));
    if (!current) fprintf(stderr, "%s:%d: %s\n", file, line, text), fflush(stdout), _exit(1);
    remember(0, 0, 0, Word(__builtin_frame_address(0)));
    leave(LEFT, Word(kind) | Word(line) << 8, Word(text), Word(file));
}

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGVTALRM, SIGINT};
enum { COUNT = sizeof SIGNALS / sizeof *SIGNALS };
static struct sigaction before[COUNT];
static void on_signal(int number, siginfo_t *info, void *context) {
    if (tracing && number != SIGVTALRM && number != SIGINT) _longjmp(untraced, 1);
    if (!current) {
        if (number == SIGINT) before[COUNT - 1].sa_handler(number);
        if (number != SIGVTALRM && number != SIGINT) signal(number, SIG_DFL), raise(number);
        return;
    }
    if (number == SIGVTALRM) ticks = last_seen == resumed ? ticks + 1 : 0, last_seen = resumed;
    if (number == SIGVTALRM && !foreign && ticks < current->limit_ticks) return;
    const mcontext_t &machine = ((ucontext_t *)context)->uc_mcontext;
#ifdef __x86_64__
    Word pc = Word(machine.gregs[REG_RIP]), sp = Word(machine.gregs[REG_RSP]);
#else
    Word pc = Word(machine.pc), sp = Word(machine.sp);
#endif
    remember(foreign ? 0 : number, number == SIGVTALRM || number == SIGINT ? 0 : Word(info->si_addr), pc, sp);
    foreign = 0;
    own_process && !current->device && number != SIGINT ? _exit(1) : leave(SIGNAL, number, 0, 0);
}

// End the program's process: its heap may be corrupted, and its locks held.
EXPORT Fault *mlusim_fault(int own) {
    void *first;
    own_process = own, backtrace(&first, 1);  // load the library that it needs now, not in a signal handler
    if (!fault) fault = (Fault *)mmap(nullptr, sizeof(Fault), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return fault;
}

// Handle the signals of faults, and a tick per second of processor time; or restore the handlers.
EXPORT void mlusim_guard(int on) {
    static stack_t own, old;
    static char room[1 << 16];
    static int depth;
    if (on ? depth++ : --depth) return;
    itimerval period = {{on, 0}, {on, 0}};
    if (on) {
        own.ss_sp = room, own.ss_size = sizeof room, runner = pthread_self(), sigaltstack(&own, &old);
        struct sigaction action = {};
        action.sa_sigaction = on_signal, action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART;
        for (int k = 0; k < COUNT; ++k) sigaction(SIGNALS[k], &action, &before[k]);
    }
    setitimer(ITIMER_VIRTUAL, &period, nullptr);
    for (int k = 0; !on && k < COUNT; ++k) sigaction(SIGNALS[k], &before[k], nullptr), sigaltstack(&old, nullptr);
}

// Whether a call with the same location, types and values is known.
static Known *known_call(Fibre *f, bool learn) {
    const Call &call = f->call;
    Word words[ARGUMENTS + 5], size = 5, hash = 0;
    memcpy(words, &call.op, 5 * sizeof(Word));
    for (Word k = varying ? varying[call.op] : 0; k < Word(call.count); ++k) words[size++] = call.value[k];
    for (Word k = 0; k < size; ++k) hash = ((hash ^ words[k]) * 0x9E3779B97F4A7C15ull) ^ hash >> 29;
    for (Word probe = 0; probe < PROBES; ++probe) {
        Known &one = f->known[((hash >> 40) + probe) % KNOWN_CALLS];
        bool free = one.epoch != f->epoch;
        if (!free && one.size == size && !memcmp(one.words, words, size * sizeof(Word))) return &one;
        if (free && learn) return one.epoch = f->epoch, one.size = size, memcpy(one.words, words, size * sizeof(Word)), &one;
        if (free) return nullptr;
    }
    return nullptr;
}
EXPORT void mlusim_operations(const unsigned char *differ, const unsigned char *drop) { varying = differ, droppable = drop; }
// From now on, resuming returns FIRST_KNOWN plus this number for equal calls; returns 0 if there is no room.
EXPORT int mlusim_know(Fibre *f, Word number) {
    Known *one = known_call(f, true);
    return one ? one->number = number, 1 : 0;
}
EXPORT void mlusim_forget(Fibre *f) { ++f->epoch; }

static void begin() { current->body(current->function, current->arguments), flush(current), back(current, FINISHED); }
EXPORT Fibre *mlusim_fibre(Word stack_bytes, Word run_capacity) {
    Fibre *f = (Fibre *)calloc(1, sizeof(Fibre));
    f->runs = (Run *)malloc(run_capacity * sizeof(Run)), f->run_capacity = run_capacity, f->stack_size = stack_bytes;
    f->known = (Known *)calloc(KNOWN_CALLS, sizeof(Known)), f->epoch = 1;
    // Its ends are protected, to detect stack overflows and writes beyond the first frame.
    f->stack = (char *)mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(f->stack, GUARD, PROT_NONE), mprotect(f->stack + stack_bytes - GUARD, GUARD, PROT_NONE);
    return f;
}

// A digest of its registers and its stack.
EXPORT Word mlusim_state(const Fibre *f) {
    Word hash = 0, *parts[][2] = {{(Word *)&f->here, (Word *)(&f->here + 1)}, {(Word *)f->sp, (Word *)(f->stack + f->stack_size - GUARD)}};
    for (auto [word, end] : parts)
        while (word < end) hash = ((hash ^ *word++) * 0x9E3779B97F4A7C15ull) ^ hash >> 29;
    return hash;
}
EXPORT void mlusim_free(Fibre *f) { munmap(f->stack, f->stack_size), free(f->runs), free(f->known), free(f->undo_bytes), free(f); }
EXPORT void mlusim_start(Fibre *f, void (*body)(void *, char *), void *function, char *arguments) {
    getcontext(&f->first), mlusim_forget(f);
    f->first.uc_stack.ss_sp = f->stack, f->first.uc_stack.ss_size = f->stack_size - GUARD, f->first.uc_link = nullptr;
    f->body = body, f->function = function, f->arguments = arguments, f->started = f->astray = f->drops = f->skipped = f->undo_size = f->pending = f->run_count = f->used_slots = f->recent = 0;
    for (int k = 0; k < SLOTS; ++k) f->slots[k].run.count = 0;
    makecontext(&f->first, begin, 0);
}

EXPORT int64_t mlusim_resume(Fibre *f) {
    Fibre *outer = current;
    current = f, ++resumed, mlusim_call_record = &f->call;
    if (!_setjmp(f->back)) f->started++ ? _longjmp(f->here, 1) : (void)setcontext(&f->first);
    f = current, current = outer, mlusim_call_record = outer ? &outer->call : nullptr;
    Known *one = f->call.op < 0 || !f->device ? nullptr : known_call(f, false);
    return one ? FIRST_KNOWN + int64_t(one->number) : f->call.op;
}
