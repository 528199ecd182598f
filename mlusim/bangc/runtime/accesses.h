// Plain C++ accesses to memory: which memory they are in, and the runs that they form. The compiler's instrumentation,
// that of ThreadSanitizer, calls a function for each access.
#pragma once

#include "faults.h"
#include "fibre.h"

// The number of ascending numbers, `step` words apart, that are at most `value`.
static Word up_to(const Word *numbers, Word step, Word count, Word value) {
    Word low = 0;
    while (low < count) {
        Word middle = (low + count) / 2;
        if (numbers[middle * step] <= value)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}
// The number of the range that contains an address; -1 for none.
static int64_t range_of(const Fibre *f, Word address) {
    Word low = up_to(&f->ranges->base, sizeof(Range) / 8, f->range_count, address);
    bool inside = low && address - f->ranges[low - 1].base < f->ranges[low - 1].size;
    return inside ? int64_t(low) - 1 : -1;
}
// Whether an access lies in one array of a memory, which the slot gets.
static bool in_array(const Arena *arena, Word address, Word size, Slot &slot) {
    Word low = up_to(&arena->arrays->offset, sizeof(Array) / 8, arena->count, address - arena->base);
    if (!low) return false;
    slot.low = arena->base + arena->arrays[low - 1].offset;
    slot.high = slot.low + arena->arrays[low - 1].size;
    slot.array = low - 1;
    return address + size <= slot.high;
}
// Whether bytes have the value of fresh memory.
static bool is_fresh(Word at, Word size) {
    for (; size && *(unsigned char *)at == POISON; --size) ++at;
    return !size;
}

// An access by host code. Host memory belongs to the program, but a copy may still use it.
static void touch_of_host(Fibre *f, Word address, Word size, Word write, Word pc) {
    int64_t found = range_of(f, address);
    if (found < 0) return;
    Word flags = f->ranges[found].flags;
    if (!(flags & IN_FLIGHT)) wild(address, pc, write | size << 1);
    if (!write && !(flags & WRITTEN)) return;
    Call saved = f->call;
    f->call.value[0] = address;
    f->call.value[1] = pc;
    f->call.value[2] = write;
    back(f, UNSYNCED);
    f->call = saved;
}

// Add an access to the run of its instruction, if it continues that at an equal step; otherwise begin another one.
static void collect(Fibre *f, Slot &slot, Word number, const Run &access, Word size, bool dropped) {
    if (slot.run.count) {
        if (slot.run.pc == access.pc && (slot.run.meta | FRESH) == (access.meta | FRESH)) {
            if (slot.run.count == 1) {
                slot.run.stride = int64_t(access.address - slot.run.address);
                slot.next = access.address;
            }
            if (access.address == slot.next) {
                ++slot.run.count;
                slot.next += slot.run.stride;
                slot.run.meta |= access.meta;
                if (dropped) will_take_back(f, access.address, size);
                return;
            }
        }
        flush_slot(f, slot);
    } else {
        f->order[f->used_slots++] = uint16_t(number);
    }
    slot.run = access;
    if (dropped) will_take_back(f, access.address, size);
}

// The memory of an address; KINDS for GDRAM, or none.
static Word kind_of(const Fibre *f, Word address) {
    Word kind = KINDS;
    for (Word k = 0; k < KINDS; ++k)
        if (f->arenas[k] && address - f->arenas[k]->base <= ARENA_MASK) kind = k;
    return kind;
}
// Whether an address is one of the task's stack, or of its variables.
static bool is_own(const Fibre *f, Word address) {
    return address - Word(f->stack) < f->stack_size || address - f->image < f->image_size;
}

// Called by the headers before an access by a function that names its memory.
EXPORT void mlusim_expect(const void *address, int memory, const char *name, const char *file, int line) {
    static const char *const names[] = {"NRAM", "WRAM", "SRAM", "LDRAM", "GDRAM"};
    if (!current || !current->device || is_own(current, Word(address))) return;
    Word kind = kind_of(current, Word(address));
    bool known = kind < KINDS || range_of(current, Word(address)) >= 0;
    // LDRAM is a part of the same DRAM.
    if (!known || kind == Word(memory) || (kind >= LDRAM && memory >= LDRAM)) return;
    static char text[96];
    snprintf(text, sizeof text, "%s with an address in %s: pass one in %s", name, names[kind], names[memory]);
    mlusim_leave(OTHER_MEMORY, text, file, line);
}

static void touch(Word address, Word size, Word write, Word pc) {
    Fibre *f = current;
    accessed = pc;
    if (!f) return;
    take_back(f);
    bool own = is_own(f, address);
    if (!f->device) {
        if (own ? f->in_flight : f->range_count) touch_of_host(f, address, size, write, pc);
        return;
    }
    if (own) return;
    Word kind = kind_of(f, address), range = 0;
    bool read_only = false;
    Word number = ((pc - f->image) * 0x9E3779B97F4A7C15ull) >> 55;  // wherever the image was loaded
    Slot &slot = f->slots[number];
    bool out;
    if (kind < KINDS) {
        bool beside = address < slot.low || address + size > slot.high;
        out = beside && !in_array(f->arenas[kind], address, size, slot);
    } else {
        int64_t found = range_of(f, address);
        const Range &hit = f->ranges[found < 0 ? 0 : found];
        range = Word(found);
        read_only = hit.flags & READ_ONLY;
        out = found < 0 || address - hit.base + size > hit.size || (read_only && write) || hit.flags & NO_BYTES;
    }
    if (out) wild(address, pc, write | size << 1);
    if (kind < KINDS) range = slot.array;  // a run stays in its array
    if (f->pending && !(read_only && !write)) {
        back(f, SETTLE);
        f->pending = 0;
    }
    if (++f->recent == BATCH) {  // other tasks may change what a loop waits for
        flush(f);
        back(f, DRAIN);
        f->recent = 0;
    }
    bool common = kind == KINDS || kind == SRAM, dropped = f->astray && write && common;
    if (!common && !write) f->astray |= f->absent >> kind & 1;
    Word meta = size | write << 8 | kind << 9 | range << 16;
    if (dropped) meta |= DROPPED;
    if (!write && is_fresh(address, size)) meta |= FRESH;
    collect(f, slot, number, Run{pc, address, 0, 1, meta}, size, dropped);
}
static void touch_all(Word address, Word n, Word write, Word pc) {
    Word at = address;
    for (Word left = n, size; left; at += size, left -= size) {
        size = left < 8 ? left : 8;
        touch(at, size, write, pc);
    }
    if (n && current && current->undo_size) will_take_back(current, address, n);
}

#define HERE (Word(__builtin_return_address(0)) - 1)
#define ACCESS(name, size, write) \
    EXPORT void __tsan_##name(void *a) { touch(Word(a), size, write, HERE); }
#define READ_WRITE(name, size) \
    EXPORT void __tsan_##name(void *a) { \
        touch(Word(a), size, 0, HERE); \
        touch(Word(a), size, 1, HERE); \
    }
#define SIZES(n) \
    ACCESS(read##n, n, 0) \
    ACCESS(write##n, n, 1) \
    ACCESS(unaligned_read##n, n, 0) \
    ACCESS(unaligned_write##n, n, 1) \
    ACCESS(volatile_read##n, n, 0) \
    ACCESS(volatile_write##n, n, 1) \
    READ_WRITE(read_write##n, n) \
    READ_WRITE(unaligned_read_write##n, n)
SIZES(1)
SIZES(2)
SIZES(4)
SIZES(8)
SIZES(16)
EXPORT void __tsan_read_range(void *a, Word n) { touch_all(Word(a), n, 0, HERE); }
EXPORT void __tsan_write_range(void *a, Word n) { touch_all(Word(a), n, 1, HERE); }
EXPORT void __tsan_vptr_update(void **, void *) {}
EXPORT void __tsan_vptr_read(void **) {}
EXPORT void __tsan_func_entry(void *) {}
EXPORT void __tsan_func_exit() {}
EXPORT void __tsan_init() {}

// `std::atomic`, and counts of `std::shared_ptr`.
#define ATOMIC(n, T, name, body, ...) \
    EXPORT T __tsan_atomic##n##_##name(volatile T *a, ##__VA_ARGS__) { \
        touch(Word(a), n / 8, 0, HERE); \
        touch(Word(a), n / 8, 1, HERE); \
        return body; \
    }
#define UPDATE(n, T, name) ATOMIC(n, T, name, __atomic_##name(a, v, __ATOMIC_SEQ_CST), T v, int)
#define EXCHANGED(old) __atomic_compare_exchange_n(a, old, v, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
#define SWAP(n, T, name) \
    EXPORT int __tsan_atomic##n##_##name(volatile T *a, T *old, T v, int, int) { \
        touch(Word(a), n / 8, 0, HERE); \
        touch(Word(a), n / 8, 1, HERE); \
        return EXCHANGED(old); \
    }
#define ATOMICS(n, T) \
    EXPORT T __tsan_atomic##n##_load(const volatile T *a, int) { \
        touch(Word(a), n / 8, 0, HERE); \
        return __atomic_load_n(a, __ATOMIC_SEQ_CST); \
    } \
    EXPORT void __tsan_atomic##n##_store(volatile T *a, T v, int) { \
        touch(Word(a), n / 8, 1, HERE); \
        __atomic_store_n(a, v, __ATOMIC_SEQ_CST); \
    } \
    ATOMIC(n, T, exchange, __atomic_exchange_n(a, v, __ATOMIC_SEQ_CST), T v, int) \
    UPDATE(n, T, fetch_add) \
    UPDATE(n, T, fetch_sub) \
    UPDATE(n, T, fetch_and) \
    UPDATE(n, T, fetch_or) \
    UPDATE(n, T, fetch_xor) \
    UPDATE(n, T, fetch_nand) \
    SWAP(n, T, compare_exchange_strong) \
    SWAP(n, T, compare_exchange_weak) \
    ATOMIC(n, T, compare_exchange_val, (EXCHANGED(&old), old), T old, T v, int, int)
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
EXPORT void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
EXPORT void __tsan_atomic_signal_fence(int) {}

#define MOVES(name, moves) \
    EXPORT void *name(void *to, const void *from, Word n) { \
        touch_all(Word(from), n, 0, HERE); \
        touch_all(Word(to), n, 1, HERE); \
        return moves(to, from, n); \
    }
#define SETS(name) \
    EXPORT void *name(void *to, int value, Word n) { \
        touch_all(Word(to), n, 1, HERE); \
        return memset(to, value, n); \
    }
MOVES(__tsan_memcpy, memcpy)
MOVES(__tsan_memmove, memmove)
SETS(__tsan_memset)
// Called by C++ headers.
MOVES(__wrap_memcpy, memcpy)
MOVES(__wrap_memmove, memmove)
SETS(__wrap_memset)
