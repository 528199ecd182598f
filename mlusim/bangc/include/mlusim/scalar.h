// Scalar intrinsics that are C++, and the words that the rewriter leaves.
#ifndef MLUSIM_SCALAR_H_
#define MLUSIM_SCALAR_H_

inline bool __is_mpu() { return mlusim_unit.is_memory_core != 0; }
inline bool __is_ipu() { return mlusim_unit.is_memory_core == 0; }


#include "mlusim/launch.h"

#endif  // MLUSIM_SCALAR_H_
