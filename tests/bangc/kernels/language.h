#pragma once
enum class Mode { DOWN, UP };
const char *helper();
extern __nram__ int both[4];
__mlu_func__ void set_both(int value);
