"""Instructions with an operand in WRAM: products in the layout of `wram_layout`, convolutions, expanded channels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.convolution import CONV, CONV_PLUS
from mlusim.cores.instructions.cost import Work
from mlusim.cores.instructions.record import ANY, ARCH_322, DST, NUMBERS, SRC, Extent, Instruction, Match, Operand
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
from mlusim.cores.instructions.wram_layout import LANES, filters_from

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board

_WEIGHTS = Operand("weight", Match.FREE, SOURCES, memory="wram")
_BIAS = Operand("bias", Match.FREE, RESULTS, number=True)
_WRAM = Operand("wram", memory="wram", match=Match.FREE, types=ANY)


def _product(board: Board, work: Work) -> int:
    """Cost of a product (m, n) of (m, k) by (n, k): m n k is the root of the product of the three sizes."""
    return tensor_cycles(board, work, math.isqrt(work.sizes[0] * work.sizes[1] * work.sizes[2]))


def _triangle(board: Board, work: Work) -> int:
    """Cost of multiplying every block of 64 B by a square matrix."""
    return tensor_cycles(board, work, work.sizes[1] * (_BLOCK_BYTES // work.itemsizes[1]))


def _matmul(result: Array, source: Array, weight: Array, *, fix_position: int = 0) -> None:
    store_rounded(result, multiply(source, filters_from(weight, result.shape[1]), fix_position))


def _mlp(result: Array, source: Array, weight: Array, bias: Array, *, fix_position: int = 0) -> None:
    values = multiply(source.reshape(1, -1), filters_from(weight, result.size), fix_position)
    store_rounded(result, values.astype(np.float64) + bias.reshape(1, -1).astype(np.float64))


def _matmul_marks(result: Array, source: Array, weight: Array, **_: Any) -> None:
    """As `Instruction.marks`: row i of the result depends on row i of the source, column c on filter c."""
    filters = filters_from(weight, result.shape[1])
    np.maximum(source.max(axis=1)[:, None], filters.max(axis=1), out=result)


def _mlp_marks(result: Array, source: Array, weight: Array, *bias: Array, **_: Any) -> None:
    filters = filters_from(weight, result.size).max(axis=1)
    flat = np.maximum.reduce([np.maximum(source.max(), filters), *(values.reshape(-1) for values in bias)])
    result[...] = flat.reshape(result.shape)


def _matmul_sizes(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, source = operands[0].shape, operands[1].shape
    if len(result) != 2 or len(source) != 2 or result[0] != source[0]:
        return "dst is (m, n) and src (m, k)"
    if result[1] % LANES:
        return "n must be a multiple of 64, the lanes of WRAM"
    if operands[2].size != result[1] * source[1]:
        return f"weight needs n * k = {result[1] * source[1]} elements"
    return ""


def _mlp_sizes(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, source, weight, bias = operands
    if result.size % LANES:
        return "dst has a multiple of 64 elements, the lanes of WRAM"
    if not bias.is_number and bias.size != result.size:
        return "bias needs as many elements as dst"
    return "" if weight.size == result.size * source.size else f"weight has {result.size * source.size} elements"


_BLOCK_BYTES, _KERNEL_BYTES = 64, 4096


def _integral(result: Array, source: Array, kernel: Array, *, fix_position: int = 0) -> None:
    """For each block: the kernel's square matrix times 64 B of the source, plus the last sum of the previous block."""
    side = _BLOCK_BYTES // source.dtype.itemsize
    matrix = kernel.reshape(-1)[: side * side].reshape(side, side).astype(np.float64)
    blocks = source.reshape(-1, side).astype(np.float64) @ matrix.T
    offsets = np.concatenate(([0.0], np.cumsum(blocks[:-1, -1])))
    store_rounded(result, np.ldexp(blocks + offsets[:, None], fix_position))


def _integral_marks(result: Array, source: Array, kernel: Array, **_: Any) -> None:
    """As `Instruction.marks`: an element depends on its block of 64 B and those before it."""
    blocks = np.maximum.accumulate(source.reshape(-1, kernel.size * _BLOCK_BYTES // _KERNEL_BYTES).max(axis=1))
    result.reshape(len(blocks), -1)[...] = np.maximum(blocks, kernel.max())[:, None]


def _integral_sizes(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, source, kernel = operands
    if result.size != source.size:
        return "dst and src need the same number of elements"
    if source.nbytes % _BLOCK_BYTES:
        return f"src is a multiple of {_BLOCK_BYTES} B"
    return _kernel_of_blocks(source, kernel)


def _kernel_of_blocks(source: Extent, kernel: Extent) -> str:
    """Check a kernel that is 64 rows of 64 B, each an element for every one of a block of the source."""
    if kernel.itemsize != source.itemsize:
        return "the elements of kernel must be as wide as those of src"
    return "" if kernel.nbytes == _KERNEL_BYTES else f"the kernel has {_KERNEL_BYTES} B: {_ROWS} rows of 64 B"


def _histogram(result: Array, source: Array, kernel: Array) -> None:
    """Count the elements of src that equal each row of the kernel, by position within 64 B."""
    rows = kernel.reshape(_ROWS, -1)
    flat = source.reshape(-1)
    values = rows[:, np.arange(flat.size) % rows.shape[1]]
    store_rounded(result, (flat == values).sum(axis=1).astype(np.float64))


def _histogram_sizes(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    if operands[0].size != _ROWS:
        return f"dst has {_ROWS} elements, one for each row of the kernel"
    return _kernel_of_blocks(*operands[1:])


def _all_rows(board: Board, work: Work) -> int:
    """Cost of comparing every element with every row."""
    return tensor_cycles(board, work, work.sizes[1] * _ROWS)


def _expand_mul(result: Array, weights: Array, _filter: Array, source: Array, *addends: Array) -> None:
    values = source.reshape(weights.size, -1) * weights.reshape(-1, 1)
    for addend in addends:
        values = values + addend.reshape(values.shape)
    np.copyto(result.reshape(-1), values.reshape(-1))


def _expand_marks(result: Array, weights: Array, ones: Array, *sources: Array) -> None:
    """As `Instruction.marks`: a row depends on its weight, and all on the filter in WRAM."""
    rows = np.maximum(weights.reshape(-1, 1), ones.max(initial=0))
    result[...] = np.maximum.reduce(sources).reshape(result.shape)
    by_row = result.reshape(weights.size, -1)
    np.maximum(by_row, rows, out=by_row)


def _check_channels(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    result, weights, _, *others = operands
    if any(other.size != result.size for other in others):
        return "dst and the sources with channels need the same number of elements"
    return "" if weights.size and result.size % weights.size == 0 else "dst has a whole number of channels per weight"


_ROWS = 64

TENSOR: list[Instruction] = [
    Instruction(
        name="matmul",
        summary="dst (m, n) = src (m, k) times the n filters of k elements in weight",
        compute=_matmul,
        marks=_matmul_marks,
        c_signatures=("dst[m,n] src[m,k] weight[n,k] m k n", "dst[m,n] src[m,k] weight[n,k] m k n fix_position"),
        operands=(RESULT, SRC, _WEIGHTS),
        attributes=("fix_position",),
        defaults={"fix_position": 0},
        types=SOURCES,
        combination=products_exist,
        geometry=_matmul_sizes,
        cost=_product,
        **TENSOR_PIPE,
    ),
    Instruction(
        name="mlp",
        summary="dst (n) = src (k) times the n filters of k elements in weight, plus bias",
        compute=_mlp,
        marks=_mlp_marks,
        c_signatures=(
            "dst[height] src[width] bias[height] weight[height,width] height width fix_position",
            "dst[height] src[width] weight[height,width] height width fix_position",
            "dst[height] src[width] weight[height,width] height width",
        ),
        operands=(RESULT, SRC, _WEIGHTS, _BIAS),
        attributes=("fix_position",),
        defaults={"fix_position": 0},
        types=SPLIT_SOURCES,
        combination=products_exist,
        geometry=_mlp_sizes,
        cost=_product,
        **TENSOR_PIPE,
    ),
    CONV,
    Instruction(
        name="integral",
        summary="dst[i] = src[0] + ... + src[i], where kernel is a lower triangle of ones, 64 B per row",
        compute=_integral,
        marks=_integral_marks,
        c_signatures=(
            "dst[n] src[n] kernel[4096//itemsize] n",
            "dst[n] src[n] kernel[4096//itemsize] n fix_position",
        ),
        operands=(RESULT, SRC, KERNEL),
        attributes=("fix_position",),
        defaults={"fix_position": 0},
        types=SOURCES,
        geometry=_integral_sizes,
        cost=_triangle,
        since=ARCH_322,
        **TENSOR_PIPE,
    ),
    Instruction(
        name="histogram",
        summary="dst[i] = the number of elements of src that equal row i of kernel; all 64 B of a row hold one value",
        compute=_histogram,
        c_signatures=("dst[64] src[n] kernel[4096//itemsize] n",),
        operands=(RESULT, SRC, KERNEL),
        types=SOURCES,
        geometry=_histogram_sizes,
        cost=_all_rows,
        **TENSOR_PIPE,
    ),
    *CONV_PLUS,
]

# Names of the instructions that run on the tensor pipe.
TENSOR_OPERATIONS = frozenset(instruction.name for instruction in TENSOR if instruction.tensor)

# They use WRAM, but not the tensor pipe.
EXPANSION: list[Instruction] = [
    Instruction(
        name=f"expand_channel_{name}",
        summary=f"dst[i, c] = src1[i, c] * src0[i]{addend}; wram holds a filter of ones (ASSUMED, not read)",
        group="Tensor",
        compute=_expand_mul,
        marks=_expand_marks,
        c_signatures=(f"dst[n,channels] src0[n] wram[1] src1[n,channels] {argument}n channels",),
        operands=(DST, Operand("src0"), _WRAM, Operand("src1"), *operands),
        types=NUMBERS,
        geometry=_check_channels,
        since=592,
    )
    for name, addend, argument, operands in (
        ("mul", "", "", ()),
        ("mul_add", " + src2[i, c]", "src2[n,channels] ", (Operand("src2"),)),
    )
]
