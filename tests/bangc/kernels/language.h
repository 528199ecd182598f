#pragma once
enum class Mode { DOWN, UP };
const char *helper();
