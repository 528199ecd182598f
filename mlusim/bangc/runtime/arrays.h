// Arrays with a memory space: where their bytes are.
#pragma once

#include "faults.h"
#include "fibre.h"

// An image that is being loaded: its arenas, the last one for variables in GDRAM, which all images share; and references
// to arrays that a file declares without a size, set when another file of the image defines the array. A program's
// constructors may launch kernels, whose images are then loaded in between.
struct Loading {
    Arena *arenas[KINDS + 1];
    bool muted;  // host code prints nothing: static initializers run once for each image
    Loading *outer;
    Word declared_count;
    struct {
        Word kind;
        const char *name;
        void **reference;
    } declared[ARRAYS];
};
static Loading *loading;
// The record of calls by constructors of a core's image, which have no effect: those of the program's image have.
static Call unheard;

// Begin to load an image with these arenas; null: the image is loaded.
EXPORT void mlusim_loading(Arena **arenas, int mute) {
    Loading *outer = arenas ? loading : loading->outer;
    if (!arenas) free(loading);
    loading = outer;
    mlusim_call_record = arenas ? &unheard : nullptr;
    if (!arenas) return;
    loading = (Loading *)calloc(1, sizeof(Loading));
    memcpy(loading->arenas, arenas, sizeof loading->arenas);
    loading->muted = mute;
    loading->outer = outer;
}
// The running task; null while an image is loaded, and in host code.
static Fibre *task() { return current && current->device ? current : nullptr; }
// The arena of a memory; null in host code, which has no memory of a core.
static Arena *arena_of(Word space) {
    if (task() && space < KINDS) return task()->arenas[space];
    return loading ? loading->arenas[space] : nullptr;
}

// An array as its declaration describes it, and whether it is the same as a known one of its name and size.
struct Declaration {
    Word kind, size;
    const char *name, *file;
    Word line;
    const char *owner;
    const void *initial;

    Word space() const { return kind & ~Word(EXTERN); }

    // Whether the known array is this one: that of the cluster or the board, or one that another file defines.
    bool is(Array *known) const {
        if (known->size != size || strcmp(known->name, name)) return false;
        bool meets = (task() ? kind & EXTERN : (kind | known->kind) & EXTERN) && !*owner && !*known->owner;
        if (meets && !task()) {
            known->kind &= kind;
            if (!known->initial) known->initial = initial;
            // Its location distinguishes it from others of its name when the next image is loaded.
            if (!(kind & EXTERN)) {
                known->file = file;
                known->line = line;
            }
        }
        bool shared = space() == SRAM || space() == GDRAM;
        return meets || (shared && known->line == line && !strcmp(known->file, file) && !strcmp(known->owner, owner));
    }
};

// Provides an array with its bytes: when its image is loaded, or when its function first runs.
EXPORT void *mlusim_place(Word kind, const char *name, Word size, const char *file, int line, const char *owner,
                          const void *initial) {
    Declaration array{kind, size, name, file, Word(line), owner, initial};
    Word space = array.space();
    Arena *arena = arena_of(space);
    if (!arena) {
        remember(0, 0, 0, Word(__builtin_frame_address(0)));
        leave(PLACED, space, Word(name), Word(line));
    }
    for (Array *known = arena->arrays; known < arena->arrays + arena->count; ++known) {
        if (!array.is(known)) continue;
        Word offset = known->offset;
        if (task()) back(current, PLACED);  // another core may have provided it after this task began
        return (char *)arena->base + offset;
    }
    Word offset = (arena->used + GAP + arena->alignment - 1) / arena->alignment * arena->alignment;
    if (arena->count == ARRAYS) mlusim_leave(TOO_MANY, name, file, line);
    arena->arrays[arena->count++] = Array{kind, name, offset, size, file, Word(line), initial, owner};
    // An array that does not fit takes no room: its first use is an error.
    arena->used = offset + (offset + size > ARENA_MASK ? 0 : size);
    if (task()) back(current, PLACED);
    void *place = (char *)arena->base + (offset > ARENA_MASK ? 0 : offset);
    for (Word k = 0; !task() && k < loading->declared_count; ++k) {
        auto &declared = loading->declared[k];
        if (declared.kind == space && !strcmp(declared.name, name) && !*owner) *declared.reference = place;
    }
    return place;
}

// Finds an array of another file by its name, now or when that file is initialised.
EXPORT void *mlusim_find(Word space, const char *name, void **reference) {
    const Arena *arena = arena_of(space);
    for (Word k = 0; arena && k < arena->count; ++k)
        if (!strcmp(arena->arrays[k].name, name) && !*arena->arrays[k].owner) return (char *)arena->base + arena->arrays[k].offset;
    if (loading && !task() && loading->declared_count < ARRAYS)
        loading->declared[loading->declared_count++] = {space, name, reference};
    return nullptr;
}
