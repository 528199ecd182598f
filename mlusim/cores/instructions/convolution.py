"""Convolutions on the tensor pipe, with filters in WRAM in the layout of `wram_layout`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import Work
from mlusim.cores.instructions.record import SRC, Extent, Instruction, Match, Operand
from mlusim.cores.instructions.tensor_pipe import (
    KERNEL,
    RESULT,
    RESULTS,
    SOURCES,
    SPLIT_SOURCES,
    TENSOR_PIPE,
    multiply,
    products_exist,
    store_rounded,
    tensor_cycles,
)
from mlusim.cores.instructions.windows import Windows
from mlusim.cores.instructions.wram_layout import LANES, filters_from
from mlusim.dtypes import Dtype
from mlusim.units import round_up

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board

# ASSUMED: no public source states a limit; this one rejects arguments that were passed in the wrong order.
_MAX_STRIDE = 1023


def _convolution(board: Board, work: Work) -> int:
    """Cost of a convolution: a window of all input channels per result."""
    return tensor_cycles(board, work, work.sizes[0] * work.count)


def _depth(_types: Sequence[Dtype], attributes: Mapping[str, Any]) -> int:
    return _windows(attributes).positions * int(attributes["channel_input"])


def _windows(attributes: Mapping[str, Any]) -> Windows:
    names = (f"{quantity}_{side}" for quantity in ("kernel", "stride", "dilation") for side in ("height", "width"))
    return Windows(*(int(attributes[name]) for name in names))


def _convolve(result: Array, source: Array, weight: Array, *, fix_position: int = 0, **attributes: Any) -> Array:
    """Filters (channel_output, kernel_height, kernel_width, channel_input) over (height, width, channel_input)."""
    windows = _windows(attributes)
    channels = result.shape[2]
    filters = filters_from(weight, round_up(channels, LANES))[:channels].reshape(channels, windows.positions, -1)
    total: Any = 0
    for position, window in enumerate(windows.elements(source, *result.shape[:2])):
        total = total + multiply(window.reshape(-1, source.shape[2]), filters[:, position], 0)
    return np.ldexp(total.astype(np.float64), fix_position) if fix_position else np.asarray(total)


def _conv(result: Array, source: Array, weight: Array, **attributes: Any) -> None:
    store_rounded(result, _convolve(result, source, weight, **attributes))


def _conv_plus(result: Array, source: Array, weight: Array, addend: Array, **attributes: Any) -> None:
    """`addend` has the result's shape, or one element per channel."""
    values = _convolve(result, source, weight, **attributes).reshape(-1, result.shape[2]).astype(np.float64)
    store_rounded(result, values + addend.reshape(-1, result.shape[2]).astype(np.float64))


def _conv_marks(result: Array, source: Array, weight: Array, *addend: Array, **attributes: Any) -> None:
    """As `Instruction.marks`: a pixel depends on its window of the source, a channel on its filter."""
    rows, columns, channels = result.shape
    filters = filters_from(weight, round_up(channels, LANES)).max(axis=1)
    result[...] = filters[:channels]
    for values in addend:
        flat = result.reshape(-1, channels)
        np.maximum(flat, values.reshape(-1, channels), out=flat)
    for window in _windows(attributes).elements(source.max(axis=2), rows, columns):
        np.maximum(result, window[..., None], out=result)


def _conv_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    result, source = operands[0].shape, operands[1].shape
    if len(source) != 3 or len(result) != 3:
        return "dst is (height, width, channel_output) and src (height, width, channel_input)"
    if int(attributes["channel_input"]) != source[2]:
        return f"channel_input is src's last axis, {source[2]}"
    if not all(1 <= int(attributes[name]) <= _MAX_STRIDE for name in _STEPS):
        return f"strides and dilations must be from 1 to {_MAX_STRIDE}"
    if any(int(attributes[name]) != 1 for name in _SPREAD):
        return "a dilated result (outdilation) is not modelled: write it with 1, then spread it with a strided copy"
    shape = (*_windows(attributes).fitting(*source[:2]), result[2])
    if min(shape) < 1 or result != shape:
        return f"dst is {list(shape)}"
    size = round_up(result[2], LANES) * _windows(attributes).positions * source[2]
    return "" if operands[2].size == size else f"kernel has {size} elements, filters padded to a multiple of 64"


_STEPS = ("stride_width", "stride_height", "dilation_width", "dilation_height")
_SPREAD = ("outdilation_width", "outdilation_height")
_CONV_RESULT = "dst[(height-kernel_height)//stride_height+1,(width-kernel_width)//stride_width+1,channel_output]"
_REACHED = (
    "[(height-(kernel_height-1)*indilation_height-1)//stride_height+1,"
    "(width-(kernel_width-1)*indilation_width-1)//stride_width+1,channel_output]"
)
_CONV_KERNEL = "kernel[lanes(channel_output),kernel_height,kernel_width,channel_input]"
_CONV_ARGUMENTS = "channel_input height width kernel_height kernel_width stride_width stride_height channel_output"
_CONV_ATTRIBUTES = ("channel_input", "kernel_height", "kernel_width", *_STEPS, "fix_position", *_SPREAD)


def _conv_signatures(addend: str = "") -> tuple[str, ...]:
    """Argument lists of a convolution; `{}` in `addend` is replaced by the shape of the result."""
    shape_text = _CONV_RESULT.removeprefix("dst")
    out_dilation = "outdilation_width outdilation_height"
    dilated = "indilation_width:dilation_width indilation_height:dilation_height"
    return tuple(
        " ".join(
            f"dst{shape} src[height,width,channel_input] {_CONV_KERNEL} {addend.format(shape)} {_CONV_ARGUMENTS} "
            f"{scalars}".split()
        )
        for shape, scalars in (
            (shape_text, ""),
            (shape_text, "fix_position"),
            (_REACHED, f"fix_position {dilated}"),
            (_REACHED, f"{dilated} {out_dilation}"),
            (_REACHED, f"fix_position {dilated} {out_dilation}"),
        )
    )


def _conv_plus_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    result, addend = operands[0], operands[3]
    sizes = (result.size, result.shape[-1])
    if addend.size not in sizes:
        return f"the addend has {sizes[0]} elements, or {sizes[1]}, one for each channel"
    return _conv_sizes(operands[:3], attributes)


CONV = Instruction(
    name="conv",
    summary="dst (height, width, channel_output) = src (height, width, channel_input) convolved with kernel",
    compute=_conv,
    marks=_conv_marks,
    c_signatures=_conv_signatures(),
    operands=(RESULT, SRC, KERNEL),
    attributes=_CONV_ATTRIBUTES,
    defaults=dict.fromkeys((*_STEPS, *_SPREAD), 1) | {"fix_position": 0},
    types=SPLIT_SOURCES,
    combination=products_exist,
    geometry=_conv_sizes,
    cost=_convolution,
    count=_depth,
    **TENSOR_PIPE,
)
CONV_PLUS: list[Instruction] = [
    replace(
        CONV,
        name=name,
        summary=f"dst = the convolution of src with kernel, as `conv`, plus {addend}",
        compute=_conv_plus,
        intrinsics=(intrinsic,),
        c_signatures=_conv_signatures(form),
        operands=(RESULT, SRC, KERNEL, Operand(operand, Match.FREE, RESULTS)),
        types=SOURCES,
        geometry=_conv_plus_sizes,
    )
    for name, intrinsic, operand, form, addend in (
        ("conv_bias", "__bang_conv", "bias", "bias[channel_output]", "bias, one element for each channel"),
        ("conv_partial", "__bang_conv_partial", "partial", "partial{}", "partial, of dst's shape"),
    )
]
