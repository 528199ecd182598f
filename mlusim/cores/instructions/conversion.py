"""Conversions between element types, with BANG C's rounding modes and scale positions.

`dst = src` in dst's type. The rules are those of `cores.convert`; in addition, conversions to a float of 32
bits or less support every rounding mode, and `position` scales by a power of two before rounding: a float becomes the
integer src / 2^position, an integer the float src * 2^position. Integers have a position each: between them, `position`
is that of dst minus that of src.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.convert import ROUND, steps
from mlusim.cores.convert import convert as convert_array
from mlusim.cores.instructions.record import ANY, Extent, Instruction, Match, Operand, Overlap, same_size
from mlusim.cores.instructions.rounding import narrow
from mlusim.cores.instructions.vector_library import vector_casts
from mlusim.dtypes import FLOAT32, INT64, Dtype, dtype_of, is_complex, is_float, is_integer
from mlusim.errors import shown

ROUNDINGS = tuple(ROUND)

# BANG C's names of element types in the names of its conversions; fix8 and fix16 are integers with a scale.
TYPE_WORDS: Mapping[str, Dtype] = {
    word: dtype_of(name)
    for name, words in {
        "float16": ("half",),
        "float32": ("float",),
        "bfloat16": ("bfloat16",),
        "int8": ("int8", "char", "fix8"),
        "uint8": ("uint8", "uchar"),
        "int16": ("int16", "short", "fix16"),
        "uint16": ("uint16", "ushort"),
        "int32": ("int32", "int"),
        "uint32": ("uint32", "uint"),
        "int64": ("int64",),
        "uint64": ("uint64",),
    }.items()
    for word in words
}
_WORDS = "|".join(sorted(TYPE_WORDS, key=len, reverse=True))
_NAME = re.compile(rf"^(?:__)?(?:bang_)?({_WORDS})2({_WORDS})(?:_({'|'.join(ROUNDINGS)}))?$")


def conversion(name: str) -> tuple[Dtype, Dtype, str | None] | None:
    """Return source type, target type and rounding of a name such as `__bang_float2half_rn` or `float2int_tz`.

    Without an ending, integers become floats by rounding to zero, as the public header says; ASSUMED: those of 64 bits,
    which it lacks, round to nearest. Returns None if the name is not a conversion between element types.
    """
    match = _NAME.match(vector_casts().get(name, name))
    if match is None:
        return None
    source, target = TYPE_WORDS[match[1]], TYPE_WORDS[match[2]]
    to_zero = is_integer(source) and source.itemsize < INT64.itemsize and is_float(target)
    return source, target, match[3] or ("tz" if to_zero else None)


def convert_elements(result: Array, source: Array, *, rounding: str | None = None, position: int = 0) -> None:
    """Convert as the instruction does: rounding of narrower floats and scales included. Arrays may overlap."""
    flat, out = source.reshape(-1), result.reshape(-1)
    if np.may_share_memory(flat, out):
        flat = flat.copy()
    if position:
        with np.errstate(all="ignore"):
            flat = _scale(flat, out.dtype, position)
    to_integer = is_float(flat.dtype) and is_integer(out.dtype)
    if rounding not in {None, "rn"} and is_float(out.dtype) and out.dtype.itemsize <= FLOAT32.itemsize:
        np.copyto(out, narrow(flat, out.dtype, str(rounding)))
        return
    convert_array(flat, out.dtype, rounding if to_integer else None, out=out)


def _scale(values: Array, target: Dtype, position: int) -> Array:
    if is_integer(target) and (is_float(values.dtype) or is_integer(values.dtype)):
        return np.ldexp(values.astype(np.float64), -position)
    if is_integer(values.dtype) and is_float(target):
        return np.ldexp(values.astype(np.float64), position)
    return values


def _complex_stay_complex(types: Sequence[Dtype]) -> str:
    target, source = types
    if is_complex(source) and not is_complex(target):
        return "a complex number has two parts; view src as its real and imaginary parts in turn, and convert those"
    return ""


def _passes(types: Sequence[Dtype], _attributes: Mapping[str, Any]) -> int:
    return max(1, len(steps(types[1], types[0])))


def wrong_attributes(attributes: Mapping[str, Any]) -> str:
    """Return the error in rounding or position, or an empty string."""
    rounding = attributes.get("rounding")
    if rounding is not None and rounding not in ROUNDINGS:
        return f"rounding {shown(rounding)} is unknown: the modes are None, {', '.join(ROUNDINGS)}"
    if abs(int(attributes.get("position", 0))) > 127:
        return "position must be from -127 to 127"
    return ""


def _geometry(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    return wrong_attributes(attributes) or same_size(operands, attributes)


CONVERSION: list[Instruction] = [
    Instruction(
        name="convert",
        summary="dst = src in dst's element type; rounding is None, tz, rn, rd, dn, up, oz or rm",
        group="Conversion",
        compute=convert_elements,
        intrinsics=("__bang_float2half_rn", "__bang_half2float", "__bang_float2int32", "__bang_int322float"),
        c_signatures=(
            "dst[n] src[n] n",
            "dst[n] src[n] n position",
            # Older headers require a scratch buffer for some of them.
            "dst[n] src[n] src_addition[n] n",
            "dst[n] src[n] n dst_position src_position",
            "dst[n] dst_addition[n] src[n] src_addition[n] n",
        ),
        operands=(Operand("dst", Match.FREE, ANY), Operand("src")),
        attributes=("rounding", "position"),
        defaults={"rounding": None, "position": 0},
        types=ANY,
        combination=_complex_stay_complex,
        geometry=_geometry,
        overlap=Overlap.CONVERT,
        count=_passes,
    ),
]
