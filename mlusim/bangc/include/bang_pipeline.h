// Waits for the pipes of a core by name: `bang::pipeline`.
#ifndef MLUSIM_BANG_PIPELINE_H_
#define MLUSIM_BANG_PIPELINE_H_

#include "mlu.h"

namespace bang {
using ::mlusim::memcpy_async;
using ::mlusim::pipeline;
}  // namespace bang

#endif  // MLUSIM_BANG_PIPELINE_H_
