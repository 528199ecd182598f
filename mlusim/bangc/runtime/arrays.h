// Arrays with a memory space: where their bytes are.
#pragma once

#include "faults.h"
#include "fibre.h"

// The arenas of the image that is being loaded; the last one: variables in GDRAM, shared by all images.
static Arena *loading[KINDS + 1];
// References to arrays that a file declares without a size; set when another file of the image defines the array.
static struct {
    Word kind;
    const char *name;
    void **reference;
} declared[ARRAYS];
static Word declared_count;
// Whether host code prints nothing: static initializers run once for each image.
static bool muted;

EXPORT void mlusim_loading(Arena **arenas, int mute) {
    declared_count = 0;
    muted = mute;
    for (int k = 0; k <= KINDS; ++k) loading[k] = arenas ? arenas[k] : nullptr;
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
        bool meets = current ? kind & EXTERN : (kind | known->kind) & EXTERN;
        if (meets && !current) {
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
    Arena *arena = current && space < KINDS ? current->arenas[space] : loading[space];
    if (!arena || (current && !current->device)) {  // host code has no memory of a core
        remember(0, 0, 0, Word(__builtin_frame_address(0)));
        leave(PLACED, space, Word(name), Word(line));
    }
    for (Array *known = arena->arrays; known < arena->arrays + arena->count; ++known) {
        if (!array.is(known)) continue;
        Word offset = known->offset;
        if (current) back(current, PLACED);  // another core may have provided it after this task began
        return (char *)arena->base + offset;
    }
    Word offset = (arena->used + GAP + arena->alignment - 1) / arena->alignment * arena->alignment;
    if (arena->count == ARRAYS) mlusim_leave(TOO_MANY, name, file, line);
    arena->arrays[arena->count++] = Array{kind, name, offset, size, file, Word(line), initial, owner};
    arena->used = offset + size;
    if (current) back(current, PLACED);
    // Arrays that are too large are never used.
    void *place = (char *)arena->base + (arena->used > ARENA_MASK ? 0 : offset);
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
