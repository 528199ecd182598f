"""Shared by the instructions of the tensor pipe: operands, cost, products, and the rounding of results.

Products of floats are summed in float64 and rounded once (the board adds float32 in a different order), products of
integers in 64 bits, scaled by 2^fix_position if given. Tensor instructions share the compute pipe with vector
instructions, in order. Not modelled: their overlap on the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.cost import Work
from mlusim.cores.instructions.record import SERIES_2XX, SERIES_3XX, Match, Operand, Overlap, Types
from mlusim.dtypes import BFLOAT16, FLOAT16, FLOAT32, INT8, INT16, INT32, Dtype
from mlusim.units import ceil_div

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board

SOURCES: Types = {INT8: SERIES_2XX, INT16: SERIES_2XX, FLOAT16: SERIES_3XX, FLOAT32: SERIES_3XX, BFLOAT16: SERIES_3XX}
RESULTS: Types = {FLOAT16: SERIES_2XX, FLOAT32: SERIES_2XX, INT16: SERIES_2XX, INT32: SERIES_2XX}
RESULT = Operand("dst", Match.FREE, RESULTS)
# ASSUMED: integers of 32 bits are multiplied by integers of 16 bits as two products of their halves, as the vendor's
# headers describe. Scalar loops split each number of the source, and add the two products of each result.
SPLIT_SOURCES: Types = {**SOURCES, INT32: SERIES_2XX}
# Loads and stores of NRAM in an iteration of these loops; each is charged with one ordinary operation.
_SPLIT_ACCESSES = 7
_JOIN_ACCESSES = 3
KERNEL = Operand("kernel", Match.FREE, SOURCES, memory="wram")
# Fields of every instruction that runs on it.
TENSOR_PIPE: dict[str, Any] = {"group": "Tensor", "overlap": Overlap.APART, "tensor": True, "multiple_2xx": 64}
_HALF_BYTES, _FLOAT_BYTES = 2, 4
# T: LT_PEAK_FP32_FP16_COMPUTE_FORCE_370 is half of the peak of halves, and twice that of floats.
_HALVES_BY_FLOATS = 2


def peak_ops_per_cycle(board: Board, itemsize: int, *, integers: bool) -> int:
    """Operations per cycle of a core's tensor pipe, for elements of `itemsize` bytes; a multiply-add counts as two.

    A board without floats in its tensor pipe has their rate 0. A log of such a board may not say that its elements were
    integers.
    """
    if itemsize < _HALF_BYTES:
        return board.tensor_ops_per_cycle_int8
    if itemsize > _HALF_BYTES:
        return board.tensor_ops_per_cycle_fp32 or board.tensor_ops_per_cycle_int16
    return (0 if integers else board.tensor_ops_per_cycle_fp16) or board.tensor_ops_per_cycle_int16


def tensor_cycles(board: Board, work: Work, multiply_adds: int) -> int:
    """Cost of a start-up and the multiply-adds at the rate of the wider operand, or of floats by halves (T)."""
    smaller, larger = sorted(work.itemsizes[1:3])
    if work.integers and larger == _FLOAT_BYTES:
        accesses = _SPLIT_ACCESSES * work.sizes[1] + _JOIN_ACCESSES * work.sizes[0]
        halves = replace(work, itemsizes=(work.itemsizes[0], _HALF_BYTES, _HALF_BYTES))
        loops = accesses * (board.scalar_nram_cycles + board.scalar_op_cycles)
        return 2 * tensor_cycles(board, halves, multiply_adds) + loops
    if (smaller, larger) == (_HALF_BYTES, _FLOAT_BYTES):
        rate = peak_ops_per_cycle(board, smaller, integers=False) // _HALVES_BY_FLOATS
    else:
        rate = peak_ops_per_cycle(board, larger, integers=work.integers)
    ops_per_cycle = max(1, int(rate * board.tensor_efficiency))
    return board.tensor_startup_cycles + ceil_div(2 * multiply_adds, ops_per_cycle)


def products_exist(types: Sequence[Dtype]) -> str:
    """Check the element types of the result, the source and the filters: returns "" or the rule that is violated."""
    result, source, filters = types[:3]
    if (source.kind in "iu") != (filters.kind in "iu"):
        return "integers are multiplied by integers, and floats by floats; convert one of them first"
    if source == INT32 and (filters != INT16 or result != FLOAT32):
        return "int32 is multiplied by int16 filters, to a float32 result, only; convert the others first"
    return ""


def multiply(rows: Array, filters: Array, scale: int) -> Array:
    """Return (m, k) times (n, k) transposed, in float64 or 64-bit integers."""
    if rows.dtype.kind in "iu" and filters.dtype.kind in "iu":
        values: Array = rows.astype(np.int64) @ filters.astype(np.int64).T
    else:
        values = rows.astype(np.float64) @ filters.astype(np.float64).T
    return np.ldexp(values.astype(np.float64), scale) if scale else values


def store_rounded(result: Array, values: Array) -> None:
    """Store the values, rounded once to the result's type; integers saturate."""
    if result.dtype.kind in "iu":
        limits = np.iinfo(result.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    np.copyto(result.reshape(-1), values.reshape(-1), casting="unsafe")
