// A chain of operations on one vector: the first reads the source, each writes the destination.
#ifndef MLUSIM_BANG_FUSOR_H_
#define MLUSIM_BANG_FUSOR_H_

#include "mlu.h"

namespace bang {
namespace experimental {
using ::mlusim::fusor;
}  // namespace experimental
}  // namespace bang

#endif  // MLUSIM_BANG_FUSOR_H_
