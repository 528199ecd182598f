#include "mlu.h"
