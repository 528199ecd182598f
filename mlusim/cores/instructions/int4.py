"""Conversions to and from 4-bit integers, two per byte.

ASSUMED: the low half of a byte contains the first of its two numbers; no public document specifies it. Numbers saturate
at -8 and 7. Rounding and `position` are those of other conversions (`mlusim.cores.instructions.conversion`); without a
mode, numbers round to nearest, ties to even.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.conversion import ROUNDINGS, TYPE_WORDS, convert_elements, wrong_attributes
from mlusim.cores.instructions.record import ARCH_322, SRC, Extent, Instruction, Match, Operand, Overlap, Types
from mlusim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, UINT8

_WIDE: Types = dict.fromkeys((FLOAT16, FLOAT32, BFLOAT16, INT8, INT16, INT32), ARCH_322)
_PACKED: Types = {UINT8: ARCH_322}
_WORDS = "|".join(sorted((word for word, dtype in TYPE_WORDS.items() if dtype in _WIDE), key=len, reverse=True))
_NAME = re.compile(rf"^__bang_(?:(?:{_WORDS})2(int4)|(int4)2(?:{_WORDS}))(?:_({'|'.join(ROUNDINGS)}))?$")
_LOWEST, _HIGHEST = -8, 7


def int4_conversion(name: str) -> tuple[str, str | None] | None:
    """Return instruction and rounding of a name such as `__bang_half2int4_rn`; None for other names."""
    match = _NAME.match(name)
    if match is None:
        return None
    return "to_int4" if match[1] else "from_int4", match[3]


def int4_intrinsics() -> list[str]:
    """Return all names."""
    endings = ("", *(f"_{mode}" for mode in ROUNDINGS))
    pairs = [(word, "int4") for word in _WORDS.split("|")] + [("int4", word) for word in _WORDS.split("|")]
    return [f"__bang_{source}2{target}{ending}" for source, target in pairs for ending in endings]


def _pack(result: Array, source: Array, *, rounding: str | None = None, position: int = 0) -> None:
    numbers = np.empty(source.size, np.int32)
    convert_elements(numbers, source, rounding=rounding or "rn", position=position)
    halves = np.clip(numbers, _LOWEST, _HIGHEST).astype(np.uint8) & 0xF
    result.reshape(-1)[:] = halves[::2] | halves[1::2] << 4


def _unpack(result: Array, source: Array, *, rounding: str | None = None, position: int = 0) -> None:
    pairs = source.reshape(-1).view(np.int8)
    numbers = np.stack([pairs << 4 >> 4, pairs >> 4], axis=1)
    convert_elements(result, numbers, rounding=rounding or "rn", position=position)


def _pack_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    dst, src = operands
    complaint = f"dst has 1 B for 2 elements of src, which has {src.size}" if src.size != 2 * dst.size else ""
    return wrong_attributes(attributes) or complaint


def _unpack_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    dst, src = operands
    complaint = f"dst has 2 elements for 1 B of src, which has {src.size} B" if dst.size != 2 * src.size else ""
    return wrong_attributes(attributes) or complaint


def _packed_marks(result: Array, source: Array, **_: Any) -> None:
    """As `Instruction.marks`: a byte depends on its two elements."""
    result.reshape(-1)[...] = source.reshape(-1, 2).max(axis=1)


def _unpacked_marks(result: Array, source: Array, **_: Any) -> None:
    result.reshape(-1)[...] = source.reshape(-1).repeat(2)


_COMMON: dict[str, Any] = {
    "group": "Conversion",
    "attributes": ("rounding", "position"),
    "defaults": {"rounding": None, "position": 0},
    "overlap": Overlap.CONVERT,
    "since": ARCH_322,
}
INT4: list[Instruction] = [
    Instruction(
        name="to_int4",
        marks=_packed_marks,
        summary="dst = src as 4-bit integers, two in a byte, the first in its low half (ASSUMED)",
        compute=_pack,
        geometry=_pack_sizes,
        intrinsics=("__bang_float2int4_rn", "__bang_half2int4_rn"),
        c_signatures=("dst[n//2] src[n] n position", "dst[n//2] src[n] n dst_position src_position"),
        operands=(Operand("dst", Match.FREE, _PACKED), SRC),
        types=_WIDE,
        **_COMMON,
    ),
    Instruction(
        name="from_int4",
        marks=_unpacked_marks,
        summary="dst = the 4-bit integers in src, two in a byte, the first in its low half (ASSUMED)",
        compute=_unpack,
        geometry=_unpack_sizes,
        intrinsics=("__bang_int42float_rn", "__bang_int42half_rn"),
        c_signatures=("dst[n] src[n//2] n position", "dst[n] src[n//2] n dst_position src_position"),
        operands=(Operand("dst", Match.FREE, _WIDE), SRC),
        types=_PACKED,
        **_COMMON,
    ),
]
