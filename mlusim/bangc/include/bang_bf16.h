// bfloat16: `bfloat16_t`, and its other name.
#ifndef MLUSIM_BANG_BF16_H_
#define MLUSIM_BANG_BF16_H_

#include "mlu.h"

typedef bfloat16_t __bang_bfloat16;

#endif
