// Blocks that a program has allocated on the host's heap: a copy of CNRT must not leave the block of its pointer.
#pragma once

#include "fibre.h"
#include <malloc.h>
#include <map>

// The allocator rounds sizes up by less than this, to whole pages.
static const Word ROUNDING = 1 << 13;
// Sizes by address. A library may free a block unseen; the size that the allocator gives then tells.
static std::map<Word, Word> blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT void mlusim_allocated(void *block, size_t size) {
    if (!block) return;
    pthread_mutex_lock(&blocks_lock);
    blocks[Word(block)] = size;
    pthread_mutex_unlock(&blocks_lock);
}
EXPORT void mlusim_released(void *block) {
    pthread_mutex_lock(&blocks_lock);
    blocks.erase(Word(block));
    pthread_mutex_unlock(&blocks_lock);
}
// Finds the block that contains an address; returns its size, or 0 if there is none.
EXPORT Word mlusim_block(Word address, Word *base) {
    pthread_mutex_lock(&blocks_lock);
    auto next = blocks.upper_bound(address);
    Word size = 0;
    if (next != blocks.begin()) {
        --next;
        *base = next->first;
        if (address - next->first <= next->second) size = next->second;
    }
    pthread_mutex_unlock(&blocks_lock);
    return size && malloc_usable_size((void *)*base) - size < ROUNDING ? size : 0;
}
