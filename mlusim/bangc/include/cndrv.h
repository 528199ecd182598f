#include "cn_api.h"
