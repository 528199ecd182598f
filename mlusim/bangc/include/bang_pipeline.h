// Waits for the pipes of a core by name, and copies and instructions with such an object: `bang::pipeline`.
#ifndef MLUSIM_BANG_PIPELINE_H_
#define MLUSIM_BANG_PIPELINE_H_

#include "mlu.h"

namespace bang {
using ::mlusim::memcpy_async;
using ::mlusim::pipeline;
namespace vector = ::mlusim::vector;
}  // namespace bang

#endif  // MLUSIM_BANG_PIPELINE_H_
