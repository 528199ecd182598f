"""Transposes, rotations, mirrors, padding, layouts of filters, lookups in tables, and fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlusim.arrays import Array, as_element
from mlusim.cores.instructions.record import (
    ANY,
    DST,
    INTEGERS,
    NUMBERS,
    SERIES_2XX,
    SERIES_3XX,
    SRC,
    Extent,
    Instruction,
    Match,
    Operand,
    Overlap,
    Shape,
)
from mlusim.cores.instructions.wram_layout import LANES, filter_layout
from mlusim.dtypes import INT16


def _rearrange_by(rearrange: Callable[[Array], Array]) -> Callable[..., None]:
    def compute(result: Array, source: Array) -> None:
        np.copyto(result, rearrange(source).reshape(result.shape))

    return compute


def _check_shape(result_shape: Callable[[Shape], Shape], ndim: int, change: str) -> Callable[..., str]:
    def check(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
        result, source = operands[0], operands[1]
        if len(source.shape) != ndim or result.shape != result_shape(source.shape):
            return f"it takes {change}"
        return ""

    return check


def _layout(
    name: str, summary: str, move: Callable[..., None], signature: str, geometry: Callable[..., str], **properties: Any
) -> Instruction:
    """An instruction that moves the marks of elements with them."""
    return Instruction(
        name=name,
        summary=summary,
        group="Layout",
        compute=move,
        marks=move,
        c_signatures=(signature,),
        types=ANY,
        geometry=geometry,
        overlap=Overlap.APART,
        **properties,
    )


def _matrix(name: str, rearrange: Callable[[Array], Array], summary: str, *, swaps: bool) -> Instruction:
    result = "width,height" if swaps else "height,width"
    change = "(h, w) to (w, h)" if swaps else "(h, w) to (h, w)"
    geometry = _check_shape((lambda shape: shape[::-1]) if swaps else (lambda shape: shape), 2, change)
    signature = f"dst[{result}] src[height,width] height width"
    return _layout(name, summary, _rearrange_by(rearrange), signature, geometry, sides_2xx=True)


def _check_same_shape(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    if operands[0].shape != operands[1].shape or not operands[0].shape:
        return "shapes must be equal and of rank 1 or more"
    return ""


def _pad(result: Array, source: Array, *, pad_top: int, pad_left: int, pad_value: Any = 0, **_: int) -> None:
    height, width, _ = source.shape
    values = source.copy()
    _fill(result, value=pad_value)
    result[pad_top : pad_top + height, pad_left : pad_left + width] = values


def _check_pad(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    result, source = operands[0].shape, operands[1].shape
    if len(source) != 3:
        return "src is (height, width, channel)"
    pads = [int(attributes[f"pad_{side}"]) for side in ("top", "bottom", "left", "right")]
    if min(pads) < 0:
        return "pads must not be negative"
    expected = (source[0] + pads[0] + pads[1], source[1] + pads[2] + pads[3], source[2])
    return "" if result == expected else f"dst is {list(expected)}"


def _reshape_filter(result: Array, source: Array) -> None:
    np.copyto(result.reshape(-1), filter_layout(source, source.shape[0]).reshape(-1))


def _check_filters(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, source = operands
    if len(source.shape) < 2 or source.shape[0] % LANES:
        return f"src is (n, height, width, channel) with n a multiple of {LANES}: pad it with zero filters"
    return "" if result.size == source.size else "dst and src need the same number of elements"


def _look_up(result: Array, index: Array, table: Array) -> tuple[Array, tuple[str, str, Array] | None]:
    """Look elements up in a table. Elements whose index is beyond its end keep their values.

    Returns which entries of the table are used, and for the checker None or (kind, title, the elements that keep their
    values).

    ASSUMED: no public document defines what the board does. A gradient kernel of the vendor looks a mask up twice in a
    table of 0 and all ones, the second time in place; its results are correct only if all ones is unchanged.
    """
    # A copy: the lookup may be in place.
    positions = index.reshape(-1).view(f"u{index.itemsize}").astype(np.int64)
    in_table = positions < table.size
    entries = table.reshape(-1).view(result.dtype)
    flat = result.reshape(-1)
    used_entries = np.zeros(table.size, bool)
    used_entries[positions[in_table]] = True
    if in_table.all():
        np.copyto(flat, entries[positions])
        return used_entries, None
    position = int(np.argmin(in_table))
    in_place = np.may_share_memory(result, index)
    is_repeated = in_place and bool(np.isin(positions[~in_table], table.reshape(-1).view(f"u{table.itemsize}")).all())
    np.copyto(flat, entries[np.where(in_table, positions, 0)], where=in_table)
    value = int(positions[position])
    word = f"{value} ({value:#x})" if value >= 1 << (8 * index.itemsize - 1) else str(value)
    title = f"lut: element {position} of {len(positions)} is the index {word}, and the table has {table.size} elements"
    return used_entries, ("lookup-again" if is_repeated else "lookup", title, np.flatnonzero(~in_table))


def _table_marks(result: Array, index: Array, table: Array) -> None:
    np.maximum(index.reshape(result.shape), table.max(), out=result)


def _check_table(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, index, table = operands
    if result.size != index.size:
        return "dst and src need the same number of elements"
    return "" if table.size and table.size % LANES == 0 else "the table has a multiple of 64 elements"


def _fill(result: Array, *, value: Any) -> None:
    np.copyto(result, as_element(value, result.dtype))


def _zero(result: Array) -> None:
    result.reshape(-1).view(np.uint8).fill(0)


def _incseq(result: Array) -> None:
    np.copyto(result.reshape(-1), np.arange(result.size), casting="unsafe")


_TABLE_TYPES = {kind: since for kind, since in INTEGERS.items() if kind.itemsize in {2, 4}}

_PAD_FORMS = (
    (
        "dst[height+pad_top+pad_bottom,width+pad_left+pad_right,channel] src[height,width,channel] "
        "channel height width pad_top pad_bottom pad_left pad_right"
    ),
    (
        "dst[height+pad_top+pad_bottom,width+pad_left+pad_right,channel] src[height,width,channel] "
        "channel height width pad_top pad_bottom pad_left pad_right pad_value"
    ),
    (
        "dst[height+pad_height+pad_height,width+pad_width+pad_width,channel] src[height,width,channel] "
        "channel height width pad_height:pad_top,pad_bottom pad_width:pad_left,pad_right pad_value"
    ),
    (
        "dst[height+pad_height+pad_height,width+pad_width+pad_width,channel] src[height,width,channel] "
        "channel height width pad_height:pad_top,pad_bottom pad_width:pad_left,pad_right"
    ),
)

LAYOUT: list[Instruction] = [
    _matrix("transpose", lambda a: a.T, "dst (w, h) = src (h, w) with its axes exchanged", swaps=True),
    _matrix("rotate90", lambda a: np.rot90(a, -1), "dst (w, h) = src (h, w) rotated right by 90 degrees", swaps=True),
    _matrix("rotate180", lambda a: a[::-1, ::-1], "dst (h, w) = src (h, w) rotated by 180 degrees", swaps=False),
    _matrix("rotate270", np.rot90, "dst (w, h) = src (h, w) rotated left by 90 degrees", swaps=True),
    _layout(
        "mirror",
        "dst = src with its last axis reversed",
        _rearrange_by(lambda a: a[..., ::-1]),
        "dst[height,width] src[height,width] height width",
        _check_same_shape,
    ),
    Instruction(
        name="pad",
        summary="dst = src (height, width, channel) with rows and columns of pad_value around it",
        group="Layout",
        compute=_pad,
        marks=lambda result, source, **attributes: _pad(result, source, **{**attributes, "pad_value": 0}),
        c_signatures=_PAD_FORMS,
        attributes=("pad_top", "pad_bottom", "pad_left", "pad_right", "pad_value"),
        defaults={"pad_value": 0},
        types=ANY,
        geometry=_check_pad,
        overlap=Overlap.APART,
    ),
    _layout(
        "reshape_nhwc2nchw",
        "dst (n, c, h, w) = src (n, h, w, c)",
        _rearrange_by(lambda a: a.transpose(0, 3, 1, 2)),
        "dst[n,c,h,w] src[n,h,w,c] n h w c",
        _check_shape(lambda s: (s[0], s[3], s[1], s[2]), 4, "(n, h, w, c) to (n, c, h, w)"),
    ),
    _layout(
        "reshape_nchw2nhwc",
        "dst (n, h, w, c) = src (n, c, h, w)",
        _rearrange_by(lambda a: a.transpose(0, 2, 3, 1)),
        "dst[n,h,w,c] src[n,c,h,w] n h w c",
        _check_shape(lambda s: (s[0], s[2], s[3], s[1]), 4, "(n, c, h, w) to (n, h, w, c)"),
    ),
    _layout(
        "reshape_filter",
        "dst = filters src (n, h, w, c) in the layout of WRAM: (64, n / 64, h, w, c), filter i in lane i % 64",
        _reshape_filter,
        "dst[n,h,w,c] src[n,h,w,c] n h w c",
        _check_filters,
    ),
    Instruction(
        name="lut",
        summary="dst = table[src], element by element",
        group="Tables",
        compute=_look_up,
        intrinsics=("__bang_lut", "__bang_lut_s16", "__bang_lut_s32"),
        c_signatures=("dst[n] src[n] table[table_length] n table_length",),
        operands=(Operand("dst", Match.WIDTH, ANY), SRC, Operand("table", Match.WIDTH, ANY)),
        types=_TABLE_TYPES,
        geometry=_check_table,
        looks_up=True,
        marks=_table_marks,
        since=220,
    ),
]

_WRITE_VALUE = Instruction(
    name="write_value",
    summary="every element of dst = value",
    group="Fills",
    compute=_fill,
    intrinsics=(
        "__bang_write_value",
        "__nramset",
        "__memset_nram",
        *(f"__nramset_{kind}" for kind in ("half", "float", "short", "int", "unsigned_short", "unsigned_int")),
    ),
    c_signatures=("dst[n] n value~dst",),
    operands=(DST,),
    attributes=("value",),
    types=ANY,
    multiple_2xx=64,
)


def _random(result: Array, *, seed: int) -> None:
    limits = np.iinfo(result.dtype)
    numbers = np.random.default_rng(seed).integers(limits.min, limits.max + 1, result.size)
    result.reshape(-1)[:] = numbers.astype(result.dtype)


FILLS: list[Instruction] = [
    _WRITE_VALUE,
    # The simulator's short name for it.
    replace(_WRITE_VALUE, name="fill", intrinsics=()),
    Instruction(
        name="write_zero",
        summary="every byte of dst = 0",
        group="Fills",
        compute=_zero,
        c_signatures=("dst[n] n",),
        operands=(DST,),
        types=ANY,
    ),
    Instruction(
        name="rand",
        summary="dst = random numbers, uniform over the type, determined by seed; those of a board differ",
        group="Fills",
        compute=_random,
        c_signatures=("dst[n] n",),
        operands=(DST,),
        attributes=("seed",),
        defaults={"seed": 0},
        types={INT16: SERIES_2XX},
    ),
    Instruction(
        name="incseq",
        summary="dst = 0, 1, 2, ...",
        group="Fills",
        compute=_incseq,
        c_signatures=("dst[n] n",),
        operands=(DST,),
        types=NUMBERS,
        since=SERIES_3XX,
    ),
]
