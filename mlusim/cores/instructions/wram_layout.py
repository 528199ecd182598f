"""The layout of filters in WRAM, which the tensor pipe reads.

WRAM has 64 lanes. Filter i is row i // 64 of lane i % 64. A kernel writes filters in one of two forms:

- **In one piece**: a contiguous copy of n filters of k elements in the order of `reshape_filter`, (64, n / 64, k). Each
  lane gets an equal part.
- **In rows**: a copy with strides. Lane l begins 1/64 of the memory's size after lane l - 1, and each row of a lane at
  a multiple of 64 B.

The simulated WRAM stores the bytes where the copy writes them, and tensor instructions read either form: a contiguous
operand is one piece, an operand with the strides of lanes consists of rows.

ASSUMED: no public document describes the layout. This is what public kernels do: gradients and forward kernels of
deformable attention write rows before `__bang_conv`; Fourier transforms and matrix products write one piece. They
disagree about the address of the next piece. One adds 1/64 of the piece's size, others the whole size, or 1/32 of WRAM
whatever the size. All agree if a piece of n bytes occupies n / 64 bytes of each lane, from its address on
(`mlusim.bangc.execution.filter_forms`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.arrays import Array
from mlusim.errors import OperandError
from mlusim.memory.layout import contiguous_strides
from mlusim.memory.view import View
from mlusim.units import round_up

if TYPE_CHECKING:
    from mlusim.dtypes import Dtype
    from mlusim.hardware.board_record import Board
    from mlusim.memory.allocation import Allocation

LANES = 64
_ROW_BYTES = 64


def lane_bytes(board: Board) -> int:
    """Bytes of a lane, which is also the distance between the addresses of two lanes."""
    return board.wram_bytes // LANES


def filter_layout(source: Array, filters: int) -> Array:
    """Return n filters, `source`, in the order of one piece: (64, n / 64, k)."""
    return source.reshape(filters // LANES, LANES, -1).transpose(1, 0, 2)


def filters_from(weights: Array, filters: int) -> Array:
    """Return filters (n, k) from WRAM, in either form: (64, n / 64, k)."""
    return weights.reshape(LANES, filters // LANES, -1).transpose(1, 0, 2).reshape(filters, -1)


def rows_view(board: Board, allocation: Allocation, offset: int, shape: tuple[int, ...], dtype: Dtype) -> View:
    """Return the rows of n filters, (64, n / 64, ...), lane 0 of which begins at a byte of an allocation.

    Args:
        board: the board, for the size of its WRAM.
        allocation, offset: the start of lane 0.
        shape: (n, ...), with n a multiple of 64: (n, k), or (n, height, width, channel).
        dtype: element type.

    Raises `OperandError` for a filter of several pixels that do not fill 64 B each: where a pixel begins is not known.
    """
    row = contiguous_strides(shape[1:], dtype.itemsize)
    pixel = shape[-1] * dtype.itemsize
    nbytes = row[0] * shape[1]
    if nbytes > pixel and pixel % _ROW_BYTES:
        raise OperandError(
            f"filters {list(shape)} in rows from lane to lane of WRAM, with {pixel} B a pixel: where the next pixel of "
            "a filter begins is not known unless pixels are multiples of 64 B; pad the channels, or let "
            "__bang_reshape_filter arrange the filters and copy them in one piece"
        )
    pitch = round_up(nbytes, _ROW_BYTES)
    extents = (LANES, shape[0] // LANES, *shape[1:])
    return View.strided(allocation, offset, extents, (lane_bytes(board), pitch, *row), dtype)


def check_filters(name: str, board: Board, view: View) -> None:
    """Raise `OperandError` for an operand in WRAM that is neither one piece nor rows in 64 lanes."""
    if view.is_contiguous:
        return
    shape, strides = view.shape, view.strides
    inner = contiguous_strides(shape[2:], view.itemsize)
    lanes = len(shape) > 2 and shape[0] == LANES and strides[0] == lane_bytes(board)
    rows = lanes and strides[2:] == inner and (shape[1] == 1 or strides[1] % _ROW_BYTES == 0)
    if not rows:
        raise OperandError(
            f"{name} of {view!r} with strides {list(strides)}: filters in WRAM are contiguous, or rows "
            f"(64, n / 64, k) with {lane_bytes(board)} B from lane to lane and a multiple of {_ROW_BYTES} B from row "
            "to row"
        )
