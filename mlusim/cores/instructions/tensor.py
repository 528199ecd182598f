"""The tensor pipe: matrix products and convolutions with filters in WRAM.

Filters are in WRAM in the layout of `wram_layout`. Products of floats are summed in float64 and rounded once (the board
adds float32 in a different order), products of integers in 64 bits, scaled by 2^fix_position if given. Tensor
instructions share the compute pipe with vector instructions, in order. Not modelled: their overlap on the board.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import Work
from mlusim.cores.instructions.record import (
    ARCH_322,
    SERIES_2XX,
    SERIES_3XX,
    Extent,
    Instruction,
    Match,
    Operand,
    Overlap,
    Shape,
    Types,
)
from mlusim.cores.instructions.wram_layout import LANES, filters_from
from mlusim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, Dtype

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board

_SOURCES: Types = {INT8: SERIES_2XX, INT16: SERIES_2XX, FLOAT16: SERIES_3XX, FLOAT32: SERIES_3XX, BFLOAT16: SERIES_3XX}
_RESULTS: Types = {FLOAT16: SERIES_2XX, FLOAT32: SERIES_2XX, INT16: SERIES_2XX, INT32: SERIES_2XX}
_RESULT = Operand("dst", Match.FREE, _RESULTS)
_WEIGHTS = Operand("weight", Match.FREE, _SOURCES, memory="wram")
_BIAS = Operand("bias", Match.FREE, _RESULTS, number=True)
_HALF_BYTES = 2
# ASSUMED: the tensor pipe of 2xx has no floats; its int16 rate is taken to be MLU590's fp16 rate.
_INTEGER_RATE_2XX = 4_096
_MAX_STRIDE = 1023


def peak_ops_per_cycle(board: Board, itemsize: int) -> int:
    """Operations per cycle of a core's tensor pipe, for elements of `itemsize` bytes; a multiply-add counts as two."""
    rate = board.tensor_ops_per_cycle_fp32 if itemsize > _HALF_BYTES else board.tensor_ops_per_cycle_fp16
    return (rate or _INTEGER_RATE_2XX) * (2 if itemsize < _HALF_BYTES else 1)


def _cycles(board: Board, work: Work, multiply_adds: int) -> int:
    """Cost of a start-up and the multiply-adds at the rate of the wider operand; int8 at twice the rate of int16."""
    rate = peak_ops_per_cycle(board, max(work.itemsizes[1], work.itemsizes[2]))
    reached = max(1, int(rate * board.tensor_efficiency))
    return board.tensor_startup_cycles - (-2 * multiply_adds // reached)


def _product(board: Board, work: Work) -> int:
    """Cost of a product (m, n) of (m, k) by (n, k): m n k is the root of the product of the three sizes."""
    return _cycles(board, work, math.isqrt(work.sizes[0] * work.sizes[1] * work.sizes[2]))


def _convolution(board: Board, work: Work) -> int:
    """Cost of a convolution: a window of all input channels per result."""
    return _cycles(board, work, work.sizes[0] * work.count)


def _triangle(board: Board, work: Work) -> int:
    """Cost of multiplying every block of 64 B by a square matrix."""
    return _cycles(board, work, work.sizes[1] * (_BLOCK_BYTES // work.itemsizes[1]))


def _depth(types: Sequence[Dtype], attributes: Mapping[str, Any]) -> int:
    del types
    window = int(attributes["kernel_height"]) * int(attributes["kernel_width"])
    return window * int(attributes["channel_input"])


def _multiply(rows: Array, filters: Array, scale: int) -> Array:
    """Return (m, k) times (n, k) transposed, in float64 or 64-bit integers."""
    if rows.dtype.kind in "iu" and filters.dtype.kind in "iu":
        values: Array = rows.astype(np.int64) @ filters.astype(np.int64).T
    else:
        values = rows.astype(np.float64) @ filters.astype(np.float64).T
    return np.ldexp(values.astype(np.float64), scale) if scale else values


def _store(result: Array, values: Array) -> None:
    """Store the values, rounded once to the result's type; integers saturate."""
    if result.dtype.kind in "iu":
        limits = np.iinfo(result.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    with np.errstate(all="ignore"):
        np.copyto(result.reshape(-1), values.reshape(-1), casting="unsafe")


def _matmul(result: Array, source: Array, weight: Array, *, fix_position: int = 0) -> None:
    _store(result, _multiply(source, filters_from(weight, result.shape[1]), fix_position))


def _mlp(result: Array, source: Array, weight: Array, bias: Array, *, fix_position: int = 0) -> None:
    values = _multiply(source.reshape(1, -1), filters_from(weight, result.size), fix_position)
    _store(result, values.astype(np.float64) + bias.reshape(1, -1).astype(np.float64))


def conv_shape(source: Shape, attributes: Mapping[str, Any]) -> tuple[int, int]:
    """Height and width of a convolution's result."""
    high, wide = int(attributes["kernel_height"]), int(attributes["kernel_width"])
    down, across = int(attributes["stride_height"]), int(attributes["stride_width"])
    reach_down = (high - 1) * int(attributes.get("dilation_height", 1)) + 1
    reach_across = (wide - 1) * int(attributes.get("dilation_width", 1)) + 1
    return (source[0] - reach_down) // down + 1, (source[1] - reach_across) // across + 1


def _convolved(result: Array, source: Array, weight: Array, *, fix_position: int = 0, **attributes: Any) -> Array:
    """Filters (channel_output, kernel_height, kernel_width, channel_input) over (height, width, channel_input)."""
    high, wide = int(attributes["kernel_height"]), int(attributes["kernel_width"])
    down, across = int(attributes["stride_height"]), int(attributes["stride_width"])
    step_down, step_across = int(attributes["dilation_height"]), int(attributes["dilation_width"])
    rows, columns = conv_shape(source.shape, attributes)
    lanes = -(-result.shape[2] // LANES) * LANES
    filters = filters_from(weight, lanes)[: result.shape[2]].reshape(result.shape[2], high * wide, -1)
    total: Any = 0
    for position in range(high * wide):
        row, column = divmod(position, wide)
        first_row, first_column = row * step_down, column * step_across
        window = source[
            first_row : first_row + (rows - 1) * down + 1 : down,
            first_column : first_column + (columns - 1) * across + 1 : across,
        ]
        total = total + _multiply(window.reshape(rows * columns, -1), filters[:, position], 0)
    return np.ldexp(total.astype(np.float64), fix_position) if fix_position else np.asarray(total)


def _conv(result: Array, source: Array, weight: Array, **attributes: Any) -> None:
    _store(result, _convolved(result, source, weight, **attributes))


def _conv_plus(result: Array, source: Array, weight: Array, addend: Array, **attributes: Any) -> None:
    """`addend` has the result's shape, or one element per channel."""
    values = _convolved(result, source, weight, **attributes).reshape(-1, result.shape[2]).astype(np.float64)
    _store(result, values + addend.reshape(-1, result.shape[2]).astype(np.float64))


def _matmul_marks(result: Array, source: Array, weight: Array, **_: Any) -> None:
    """As `Instruction.marks`: row i of the result depends on row i of the source, column c on filter c."""
    filters = filters_from(weight, result.shape[1])
    np.maximum(source.max(axis=1)[:, None], filters.max(axis=1), out=result)


def _mlp_marks(result: Array, source: Array, weight: Array, *bias: Array, **_: Any) -> None:
    filters = filters_from(weight, result.size).max(axis=1)
    flat = np.maximum.reduce([np.maximum(source.max(), filters), *(values.reshape(-1) for values in bias)])
    result[...] = flat.reshape(result.shape)


def _conv_marks(result: Array, source: Array, weight: Array, *addend: Array, **attributes: Any) -> None:
    """As `Instruction.marks`: a pixel depends on its window of the source, a channel on its filter."""
    rows, columns, channels = result.shape
    filters = filters_from(weight, -(-channels // LANES) * LANES).max(axis=1)
    result[...] = filters[:channels]
    for values in addend:
        flat = result.reshape(-1, channels)
        np.maximum(flat, values.reshape(-1, channels), out=flat)
    pixels = source.max(axis=2)
    down, across = int(attributes["stride_height"]), int(attributes["stride_width"])
    for row in range(int(attributes["kernel_height"])):
        for column in range(int(attributes["kernel_width"])):
            first = row * int(attributes["dilation_height"]), column * int(attributes["dilation_width"])
            window = pixels[
                first[0] : first[0] + (rows - 1) * down + 1 : down,
                first[1] : first[1] + (columns - 1) * across + 1 : across,
            ]
            np.maximum(result, window[..., None], out=result)


def _matmul_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    del attributes
    result, source = operands[0].shape, operands[1].shape
    if len(result) != 2 or len(source) != 2 or result[0] != source[0]:
        return "dst is (m, n) and src (m, k)"
    if result[1] % LANES:
        return "n is a multiple of 64, the lanes of WRAM"
    if operands[2].size != result[1] * source[1]:
        return f"weight has n * k elements, {result[1] * source[1]}"
    return ""


def _mlp_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    del attributes
    result, source, weight, bias = operands
    if result.size % LANES:
        return "dst has a multiple of 64 elements, the lanes of WRAM"
    if not bias.is_number and bias.size != result.size:
        return "bias needs as many elements as dst"
    return "" if weight.size == result.size * source.size else f"weight has {result.size * source.size} elements"


def _conv_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    result, source = operands[0].shape, operands[1].shape
    if len(source) != 3 or len(result) != 3:
        return "dst is (height, width, channel_output) and src (height, width, channel_input)"
    if int(attributes["channel_input"]) != source[2]:
        return f"channel_input is src's last axis, {source[2]}"
    if not all(1 <= int(attributes[name]) <= _MAX_STRIDE for name in _STEPS):
        return f"strides and dilations are from 1 to {_MAX_STRIDE}"
    if any(int(attributes[name]) != 1 for name in _SPREAD):
        return "a dilated result (outdilation) is not modelled: write it with 1, then spread it with a strided copy"
    expected = (*conv_shape(source, attributes), result[2])
    if min(expected) < 1 or result != expected:
        return f"dst is {list(expected)}"
    lanes = -(-result[2] // LANES) * LANES
    needed = lanes * int(attributes["kernel_height"]) * int(attributes["kernel_width"]) * source[2]
    return "" if operands[2].size == needed else f"kernel has {needed} elements, filters padded to a multiple of 64"


_STEPS = ("stride_width", "stride_height", "dilation_width", "dilation_height")
_SPREAD = ("outdilation_width", "outdilation_height")
_SRC = Operand("src")
_CONV_RESULT = "dst[(height-kernel_height)//stride_height+1,(width-kernel_width)//stride_width+1,channel_output]"
_REACHED = (
    "[(height-(kernel_height-1)*indilation_height-1)//stride_height+1,"
    "(width-(kernel_width-1)*indilation_width-1)//stride_width+1,channel_output]"
)
_CONV_KERNEL = "kernel[lanes(channel_output),kernel_height,kernel_width,channel_input]"
_CONV_ARGUMENTS = "channel_input height width kernel_height kernel_width stride_width stride_height channel_output"

_BLOCK_BYTES, _KERNEL_BYTES = 64, 4096


def _integral(result: Array, source: Array, kernel: Array, *, fix_position: int = 0) -> None:
    """For each block: the kernel's square matrix times 64 B of the source, plus the last sum of the previous block."""
    side = _BLOCK_BYTES // source.dtype.itemsize
    matrix = kernel.reshape(-1)[: side * side].reshape(side, side).astype(np.float64)
    blocks = source.reshape(-1, side).astype(np.float64) @ matrix.T
    before = np.concatenate(([0.0], np.cumsum(blocks[:-1, -1])))
    _store(result, np.ldexp(blocks + before[:, None], fix_position))


def _integral_marks(result: Array, source: Array, kernel: Array, **_: Any) -> None:
    """As `Instruction.marks`: an element depends on its block of 64 B and those before it."""
    blocks = np.maximum.accumulate(source.reshape(-1, kernel.size * _BLOCK_BYTES // _KERNEL_BYTES).max(axis=1))
    result.reshape(len(blocks), -1)[...] = np.maximum(blocks, kernel.max())[:, None]


def _integral_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    del attributes
    result, source, kernel = operands
    if result.size != source.size:
        return "dst and src need the same number of elements"
    if source.nbytes % _BLOCK_BYTES:
        return f"src is a multiple of {_BLOCK_BYTES} B"
    return "" if kernel.nbytes == _KERNEL_BYTES else f"the kernel has {_KERNEL_BYTES} B"


def _histogram(result: Array, source: Array, kernel: Array) -> None:
    """Count the elements of src that equal each row of the kernel, by position within 64 B."""
    rows = kernel.reshape(_ROWS, -1)
    flat = source.reshape(-1)
    against = rows[:, np.arange(flat.size) % rows.shape[1]]
    _store(result, (flat == against).sum(axis=1).astype(np.float64))


def _histogram_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    del attributes
    if operands[0].size != _ROWS:
        return f"dst has {_ROWS} elements, one for each row of the kernel"
    return "" if operands[2].nbytes == _KERNEL_BYTES else f"the kernel has {_KERNEL_BYTES} B: {_ROWS} rows of 64 B"


def _all_rows(board: Board, work: Work) -> int:
    """Cost of comparing every element with every row."""
    return _cycles(board, work, work.sizes[1] * _ROWS)


_ROWS = 64
_KERNEL = Operand("kernel", Match.FREE, _SOURCES, memory="wram")
_CONV_ATTRIBUTES = ("channel_input", "kernel_height", "kernel_width", *_STEPS, "fix_position", *_SPREAD)


def _conv_signatures(addend: str = "") -> tuple[str, ...]:
    """Argument lists of a convolution; `{}` in `addend` is replaced by the shape of the result."""
    plain = _CONV_RESULT.removeprefix("dst")
    spread = "outdilation_width outdilation_height"
    dilated = "indilation_width:dilation_width indilation_height:dilation_height"
    return tuple(
        " ".join(
            f"dst{shape} src[height,width,channel_input] {_CONV_KERNEL} {addend.format(shape)} {_CONV_ARGUMENTS} "
            f"{more}".split()
        )
        for shape, more in (
            (plain, ""),
            (plain, "fix_position"),
            (_REACHED, f"fix_position {dilated}"),
            (_REACHED, f"{dilated} {spread}"),
            (_REACHED, f"fix_position {dilated} {spread}"),
        )
    )


def _conv_plus_sizes(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    result, addend = operands[0], operands[3]
    expected = (result.size, result.shape[-1])
    if addend.size not in expected:
        return f"the addend has {expected[0]} elements, or {expected[1]}, one for each channel"
    return _conv_sizes(operands[:3], attributes)


TENSOR: list[Instruction] = [
    Instruction(
        name="matmul",
        summary="dst (m, n) = src (m, k) times the n filters of k elements in weight",
        group="Tensor",
        compute=_matmul,
        marks=_matmul_marks,
        intrinsics=("__bang_matmul",),
        c_signatures=("dst[m,n] src[m,k] weight[n,k] m k n", "dst[m,n] src[m,k] weight[n,k] m k n fix_position"),
        operands=(_RESULT, _SRC, _WEIGHTS),
        attributes=("fix_position",),
        defaults={"fix_position": 0},
        types=_SOURCES,
        geometry=_matmul_sizes,
        overlap=Overlap.APART,
        cost=_product,
        tensor=True,
        multiple_2xx=64,
    ),
    Instruction(
        name="mlp",
        summary="dst (n) = src (k) times the n filters of k elements in weight, plus bias",
        group="Tensor",
        compute=_mlp,
        marks=_mlp_marks,
        intrinsics=("__bang_mlp",),
        c_signatures=(
            "dst[height] src[width] bias[height] weight[height,width] height width fix_position",
            "dst[height] src[width] weight[height,width] height width fix_position",
            "dst[height] src[width] weight[height,width] height width",
        ),
        operands=(_RESULT, _SRC, _WEIGHTS, _BIAS),
        attributes=("fix_position",),
        defaults={"fix_position": 0},
        types=_SOURCES,
        geometry=_mlp_sizes,
        overlap=Overlap.APART,
        cost=_product,
        tensor=True,
        multiple_2xx=64,
    ),
    Instruction(
        name="conv",
        summary="dst (height, width, channel_output) = src (height, width, channel_input) convolved with kernel",
        group="Tensor",
        compute=_conv,
        marks=_conv_marks,
        intrinsics=("__bang_conv",),
        c_signatures=_conv_signatures(),
        operands=(_RESULT, _SRC, _KERNEL),
        attributes=_CONV_ATTRIBUTES,
        defaults=dict.fromkeys((*_STEPS, *_SPREAD), 1) | {"fix_position": 0},
        types=_SOURCES,
        geometry=_conv_sizes,
        overlap=Overlap.APART,
        cost=_convolution,
        count=_depth,
        tensor=True,
        multiple_2xx=64,
    ),
]
_CONV = TENSOR[-1]
TENSOR += [
    Instruction(
        name="integral",
        summary="dst[i] = src[0] + ... + src[i], where kernel is a lower triangle of ones, 64 B per row",
        group="Tensor",
        compute=_integral,
        marks=_integral_marks,
        intrinsics=("__bang_integral",),
        c_signatures=(
            "dst[n] src[n] kernel[4096//itemsize] n",
            "dst[n] src[n] kernel[4096//itemsize] n fix_position",
        ),
        operands=(_RESULT, _SRC, _KERNEL),
        attributes=("fix_position",),
        defaults={"fix_position": 0},
        types=_SOURCES,
        geometry=_integral_sizes,
        overlap=Overlap.APART,
        cost=_triangle,
        since=ARCH_322,
        tensor=True,
        multiple_2xx=64,
    ),
    Instruction(
        name="histogram",
        summary="dst[i] = how often src equals row i of kernel, where a row is one value in all of its 64 B",
        group="Tensor",
        compute=_histogram,
        intrinsics=("__bang_histogram",),
        c_signatures=("dst[64] src[n] kernel[4096//itemsize] n",),
        operands=(_RESULT, _SRC, _KERNEL),
        types=_SOURCES,
        geometry=_histogram_sizes,
        overlap=Overlap.APART,
        cost=_all_rows,
        tensor=True,
        multiple_2xx=64,
    ),
    *(
        replace(
            _CONV,
            name=name,
            summary=f"dst = the convolution of src with kernel, as `conv`, plus {addend}",
            compute=_conv_plus,
            intrinsics=(intrinsic,),
            c_signatures=_conv_signatures(form),
            operands=(_RESULT, _SRC, _KERNEL, Operand(operand, Match.FREE, _RESULTS)),
            geometry=_conv_plus_sizes,
        )
        for name, intrinsic, operand, form, addend in (
            ("conv_bias", "__bang_conv", "bias", "bias[channel_output]", "bias, one element for each channel"),
            ("conv_partial", "__bang_conv_partial", "partial", "partial{}", "partial, of dst's shape"),
        )
    ),
]

# Names of the instructions that run on the tensor pipe.
TENSOR_OPERATIONS = frozenset(instruction.name for instruction in TENSOR if instruction.tensor)
