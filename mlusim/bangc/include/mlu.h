// BANG C's header: keywords, types and instructions. Precedes every source file.
#ifndef MLUSIM_MLU_H_
#define MLUSIM_MLU_H_

#include <stddef.h>

// Of `special.h`.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS

// Counted by the simulator like plain loads and stores: these names have to precede those of the C library.
extern "C" {
void *memcpy(void *__restrict to, const void *__restrict from, size_t size) noexcept __asm__("__tsan_memcpy");
void *memmove(void *to, const void *from, size_t size) noexcept __asm__("__tsan_memmove");
void *memset(void *to, int value, size_t size) noexcept __asm__("__tsan_memset");
}

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmath>

#include "mlusim/core.h"

// Keywords; the rewriter handles those that begin with __mlusim.
#define __nram__ __mlusim_nram
#define __wram__ __mlusim_wram
#define __ldram__ __mlusim_ldram
#define __mlu_shared__ __mlusim_shared
#define __mlu_entry__ __mlusim_entry
#define __mlu_global__ __mlusim_entry
#define __mlu_const__ __mlusim_const
#define __mlu_device__ __mlusim_device
#define __mlu_func__ __mlusim_func
#define __mlu_host__ __mlusim_host
#define __mlu_builtin__
#define __mlu_simt__ __mlusim_func
#define __mlu_vector__ __mlusim_func
#define __mlu_grid__
#define __gdram__

// A builtin of clang, on which the vendor's compiler is based. Its expression is not evaluated there, either.
#ifndef __clang__
#define __builtin_assume(condition) ((void)sizeof(condition))
#endif

// As in the public `bang.h`.
#define BANG_VERSION 300
#define MAX_HALF_VALUE 65504
#define MIN_HALF_VALUE -65504
#define P_HALF_INF 0x7C00
#define N_HALF_INF 0xFC00
#define MAX_INT_VALUE 2147483647
#define MIN_INT_VALUE (-2147483647 - 1)

typedef int8_t fix8;
typedef int8_t int8;
typedef int16_t int16;

struct int4x2_t {
    unsigned char value;
};

typedef enum {
    GDRAM2NRAM = 0,
    NRAM2GDRAM,
    LDRAM2NRAM,
    NRAM2LDRAM,
    GDRAM2WRAM,
    WRAM2GDRAM,
    LDRAM2WRAM,
    WRAM2LDRAM,
    NRAM2NRAM,
    NRAM2WRAM,
    WRAM2NRAM,
    GDRAM2SRAM,
    SRAM2GDRAM,
    LDRAM2SRAM,
    SRAM2LDRAM,
    SRAM2NRAM,
    NRAM2SRAM,
    SRAM2WRAM,
    WRAM2SRAM,
    GDRAM2GDRAM,
    GDRAM2LDRAM,
    LDRAM2GDRAM,
    LDRAM2LDRAM,
    SRAM2SRAM,
} mluMemcpyDirection_t;

enum CompareMode { CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE };

struct uint3 {
    unsigned int x, y, z;
};

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int vx = 1, unsigned int vy = 1, unsigned int vz = 1) : x(vx), y(vy), z(vz) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

typedef enum {
    FUSION_FMA = 0,
    FUSION_FMS,
    FUSION_FAM,
    FUSION_FSM,
    FUSION_FAA,
    FUSION_FAS,
    FUSION_FSS,
    FUSION_FSA,
} mluFusionOpCode;

enum mluPoolBPOverlap { OVERLAP_ACC, OVERLAP_COVER };

#include "mlusim/math.h"
#include "cnrt.h"
#include "cn_api.h"
// Generated from the table of instructions, for each compiler and version.
#include "mlusim_intrinsics.h"
#include "mlusim/scalar.h"
#include "mlusim/invoke.h"
#include "mlusim/fusor.h"
#include "mlusim/pipeline.h"

#endif  // MLUSIM_MLU_H_
