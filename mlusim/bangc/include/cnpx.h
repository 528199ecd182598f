// Profiling marks. Names of this library are declared for the files that use them; its calls are errors.
#include "cnrt.h"
