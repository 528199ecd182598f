"""Selection by a mask of elements or of bits: filter, collect, select, mask moves, and comparisons to bits.

Bit i of a bit mask is bit i % 8 of byte i // 8. `filter` and related instructions return the number of selected
elements in BANG C; here `count` or the awaited forms of `Core` do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.numerics import COMPARISONS
from mlusim.cores.instructions.record import ANY, DST, NUMBERS, SRC, Extent, Geometry, Instruction, Match, Operand, Runs
from mlusim.errors import OperandError
from mlusim.units import ceil_div, round_up

HEAD_BYTES = 128
# Which of the first elements a mask selects, from the mask and their number.
SelectedBy: TypeAlias = Callable[[Array, int], Array]

MASK = Operand("mask", Match.WIDTH, ANY)
BITMASK = Operand("bitmask", Match.FREE, ANY)
BITS = Operand("dst", Match.FREE, ANY, bits=True)
ROOM = Operand("dst", Match.WIDTH, ANY)


def _by_bits(mask: Array, count: int) -> Array:
    """Return the first `count` bits of a mask as booleans."""
    return np.unpackbits(mask.reshape(-1).view(np.uint8), count=count, bitorder="little").astype(bool)


def _by_elements(mask: Array, count: int) -> Array:
    """Return whether each element of a mask is nonzero."""
    selected: Array = mask.reshape(-1)[:count] != 0
    return selected


def _filter(result: Array, source: Array, mask: Array, *, selected_by: SelectedBy) -> Array:
    """Selected elements at the front of the result; the rest keeps its value. Returns their positions."""
    flat = source.reshape(-1)
    positions = np.flatnonzero(selected_by(mask, flat.size))
    selected = flat[positions]
    if selected.size > result.size:
        raise OperandError(
            f"a filter selects {selected.size} of {flat.size} elements, and dst has room for {result.size}: make dst "
            "as large as src"
        )
    result.reshape(-1).view(selected.dtype)[: selected.size] = selected
    return positions


def _select(result: Array, source: Array, mask: Array, *, selected_by: SelectedBy) -> tuple[Array, Array]:
    """The count in the first 4 B of a 128 B header, then the selected elements, zeros up to a multiple of 128 B.

    Returns which elements of the result are written, and the positions of those selected.
    """
    flat = source.reshape(-1)
    positions = np.flatnonzero(selected_by(mask, flat.size))
    selected = flat[positions]
    out = result.reshape(-1).view(np.uint8)
    nbytes = selected.size * selected.dtype.itemsize
    padded_bytes = min(round_up(nbytes, HEAD_BYTES), out.size - HEAD_BYTES)
    out[HEAD_BYTES : HEAD_BYTES + nbytes] = selected.view(np.uint8)
    out[HEAD_BYTES + nbytes : HEAD_BYTES + padded_bytes] = 0
    out[:4] = np.array([selected.size], np.uint32).view(np.uint8)
    width = result.dtype.itemsize
    written = np.zeros(result.size, bool)
    written[: ceil_div(4, width)] = True
    written[HEAD_BYTES // width : ceil_div(HEAD_BYTES + padded_bytes, width)] = True
    return written, positions


def _maskmove(result: Array, source: Array, mask: Array, *, selected_by: SelectedBy) -> Array:
    """Elements whose mask is set; the others of the result keep their value. Returns which are set."""
    flat = source.reshape(-1)
    selected = selected_by(mask, flat.size)
    np.copyto(result.reshape(-1)[: flat.size], flat, where=selected)
    return selected


def _mask_select(result: Array, mask: Array, a: Array, b: Array) -> Array:
    """Elements of `a` where the mask is set, elsewhere of `b`. Returns where it is set."""
    width = f"u{result.dtype.itemsize}" if result.dtype.itemsize <= 8 else f"V{result.dtype.itemsize}"
    selected: Array = mask.reshape(-1) != 0
    np.copyto(result.reshape(-1).view(width), np.where(selected, a.reshape(-1).view(width), b.reshape(-1).view(width)))
    return selected


def _compare_to_bits(operation: Callable[..., Array]) -> Callable[..., None]:
    def compute(result: Array, a: Array, b: Array) -> None:
        bits = np.packbits(operation(a.reshape(-1), b.reshape(-1)), bitorder="little")
        result.reshape(-1).view(np.uint8)[: bits.size] = bits

    return compute


def _mask_sizes(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, source, mask = operands
    if mask.size < source.size:
        return "mask needs as many elements as src"
    return "" if result.size else "dst needs one element"


def _bit_masked(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, source, mask = operands
    if source.size % 8:
        return "the number of elements must be a multiple of 8"
    if mask.nbytes * 8 < source.size:
        return f"the mask has {source.size // 8} B, one bit per element"
    return "" if result.size else "dst needs one element"


def _as_many(operands: Sequence[Extent], attributes: Mapping[str, Any], *, masked: Geometry) -> str:
    result, source, _ = operands
    return "dst needs as many elements as src" if result.size < source.size else masked(operands, attributes)


def _with_head(operands: Sequence[Extent], attributes: Mapping[str, Any], *, masked: Geometry) -> str:
    nbytes = round_up(operands[1].nbytes, HEAD_BYTES)
    if operands[0].nbytes < HEAD_BYTES + nbytes:
        return f"dst needs 128 B for the count, and {nbytes} B for all elements"
    return masked(operands, attributes)


def compares_to_bits(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    """Check the sizes of a comparison whose result is a bit mask; returns what is wrong, or an empty string."""
    result, first, second = operands
    if first.size != second.size:
        return "src0 and src1 need the same number of elements"
    if first.size % 8:
        return "the number of elements must be a multiple of 8"
    return "" if result.nbytes * 8 >= first.size else f"dst has {first.size // 8} B, one bit per element"


def _bit_bytes(_result: Extent, source: Extent) -> Runs:
    return Runs(source.size // 8)


_SELECTION = "Selection"
# Instructions whose data decides which elements of dst they write.
_SOME: dict[str, Any] = {"types": ANY, "selects": True, "writes_some": True}

SELECTION: list[Instruction] = [
    Instruction(
        name="filter",
        summary="dst = the elements of src whose mask is not 0, one after another",
        group=_SELECTION,
        compute=partial(_filter, selected_by=_by_elements),
        intrinsics=("__bang_collect", "__bang_filter"),
        c_signatures=("dst[n] src[n] mask[n] n",),
        operands=(ROOM, SRC, MASK),
        types=ANY,
        geometry=_mask_sizes,
        counts=True,
    ),
    Instruction(
        name="filter_bitindex",
        summary="dst = the elements of src whose bit in bitmask is 1, one after another",
        group=_SELECTION,
        compute=partial(_filter, selected_by=_by_bits),
        intrinsics=("__bang_collect_bitindex", "__bang_filter_bitindex", "__bang_maskmove_bitindex"),
        c_signatures=("dst[n] src[n] bitmask[bits(n)] n",),
        operands=(ROOM, SRC, BITMASK),
        types=ANY,
        geometry=_bit_masked,
        counts=True,
    ),
    Instruction(
        name="select",
        summary="dst = the number of elements of src whose index is not 0, in 128 B; then those elements",
        group=_SELECTION,
        compute=partial(_select, selected_by=_by_elements),
        c_signatures=("dst[head(n)] src[n] index[n] n",),
        operands=(ROOM, SRC, Operand("index", Match.WIDTH, ANY)),
        geometry=partial(_with_head, masked=_mask_sizes),
        **_SOME,
    ),
    Instruction(
        name="select_bitindex",
        summary="dst = the number of elements of src whose bit is 1, in 128 B; then those elements",
        group=_SELECTION,
        compute=partial(_select, selected_by=_by_bits),
        c_signatures=("dst[head(n)] src[n] bitindex[bits(n)] n",),
        operands=(ROOM, SRC, Operand("bitindex", Match.FREE, ANY)),
        geometry=partial(_with_head, masked=_bit_masked),
        **_SOME,
    ),
    Instruction(
        name="maskmove",
        summary="dst = src where mask is not 0; the rest of dst is unchanged",
        group=_SELECTION,
        compute=partial(_maskmove, selected_by=_by_elements),
        c_signatures=("dst[n] src[n] mask[n] n",),
        operands=(DST, SRC, MASK),
        geometry=partial(_as_many, masked=_mask_sizes),
        **_SOME,
    ),
    Instruction(
        name="maskmove_bitindex",
        summary="dst = src where the bit is 1; the rest of dst is unchanged",
        group=_SELECTION,
        compute=partial(_maskmove, selected_by=_by_bits),
        intrinsics=(),
        c_signatures=(),
        operands=(DST, SRC, BITMASK),
        geometry=partial(_as_many, masked=_bit_masked),
        **_SOME,
    ),
    Instruction(
        name="mask_select",
        summary="dst = src0 where mask is not 0, else src1: bits unchanged",
        group=_SELECTION,
        compute=_mask_select,
        intrinsics=(),
        c_signatures=(),
        operands=(DST, Operand("mask", Match.WIDTH, ANY), Operand("src0"), Operand("src1")),
        types=ANY,
        selects=True,
    ),
    *(
        Instruction(
            name=f"{name}_bitindex",
            summary=f"bit i of dst = 1 where src0[i] {sign} src1[i]",
            group="Comparison",
            compute=_compare_to_bits(operation),
            c_signatures=("dst[bits(n)] src0[n] src1[n] n",),
            operands=(BITS, Operand("src0"), Operand("src1")),
            types=NUMBERS,
            geometry=compares_to_bits,
            writes=_bit_bytes,
            multiple_2xx=512,
        )
        for name, (operation, sign) in COMPARISONS.items()
    ),
]
