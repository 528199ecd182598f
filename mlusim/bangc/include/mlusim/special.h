// The special functions of C++17, for files that name one (`headers.py`).
#if defined(__GLIBCXX__) && __cplusplus >= 201703L
#define _GLIBCXX_USE_STD_SPEC_FUNCS 1
#include <bits/specfun.h>
#endif
