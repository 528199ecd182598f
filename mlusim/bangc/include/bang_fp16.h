// Half precision: `half`, and its other name.
#ifndef MLUSIM_BANG_FP16_H_
#define MLUSIM_BANG_FP16_H_

#include "mlu.h"

typedef half __half;

#endif
