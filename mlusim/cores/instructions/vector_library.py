"""Functions of the vendor's vector library by their public names, such as `__cn_vector_add_f32_rn(n, dst, a, b)`.

Each is an instruction of the table with the number of elements first, and its types in its name; `library_functions`
has those that no instruction of the hardware computes, such as arithmetic that rounds down.
"""

from __future__ import annotations

import re
from functools import cache

_FLOATS, _WORDS, _LONGS = ("f16", "f32"), ("s32", "u32"), ("s64", "u64")
# The instruction, its types, and whether the name includes the rounding of floats.
_FUNCTIONS = {
    "add": ("add", (*_FLOATS, *_WORDS, *_LONGS), True),
    "sub": ("sub", (*_FLOATS, *_WORDS), True),
    "mul": ("mul", (*_FLOATS, *_WORDS), True),
    "div": ("div", (*_FLOATS, *_WORDS), True),
    "rcp": ("recip", _FLOATS, True),
    # Those of floats are the instructions fmax and fmin: if one number is NaN, the result is the other.
    "max": ("maximum", (*_WORDS, *_LONGS), False),
    "min": ("minimum", _WORDS, False),
    "mod": ("rem", _FLOATS, False),
    "hypot": ("hypot", _FLOATS, False),
    "exp2": ("pow2", _FLOATS, False),
    # The natural logarithm; `log` of the vector unit is the binary one.
    "log": ("active_loghp", _FLOATS, False),
    "accurate_sqrt": ("sqrt", ("f32",), False),
    **{
        name: (name, _FLOATS, False)
        for name in ("abs", "ceil", "cos", "exp", "floor", "log2", "round", "rsqrt", "sin", "sqrt", "tanh")
    },
}
_TYPES = {"f16": "half", "f32": "float", "s32": "int", "u32": "uint32", "s64": "int64", "u64": "uint64", "u8": "uint8"}
_CASTS = (
    *(f"f32_to_s32{rounding}" for rounding in ("", "_dn", "_rn", "_tz", "_up")),
    *("f16_to_f32", "f32_to_f16_rn", "s32_to_f32_rn", "s32_to_s64", "u32_to_f32_rn", "u32_to_u64", "f32_to_u32_rn"),
    *("f32_to_s64_tz", "s64_to_f32_tz", "u8_to_s64"),
)
_CAST = re.compile(r"__cn_vector_cast_([fsu]\d+)_to_([fsu]\d+)(?:_(\w\w))?")


@cache
def vector_functions() -> dict[str, str]:
    """Return the instruction of each function, by the function's name."""
    return {
        f"__cn_vector_{name}_{kind}{'_rn' if rounded and kind in _FLOATS else ''}": instruction
        for name, (instruction, kinds, rounded) in _FUNCTIONS.items()
        for kind in kinds
    }


@cache
def vector_casts() -> dict[str, str]:
    """Return the conversion of each cast, such as `float2int_tz`, by the cast's name."""
    conversions = {}
    for cast_name in _CASTS:
        name = f"__cn_vector_cast_{cast_name}"
        parts = _CAST.fullmatch(name)
        assert parts is not None
        rounding = f"_{parts[3]}" if parts[3] else ""
        conversions[name] = f"{_TYPES[parts[1]]}2{_TYPES[parts[2]]}{rounding}"
    return conversions
