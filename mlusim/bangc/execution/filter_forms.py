"""The filters in WRAM that a task has written: in rows from lane to lane, or in one piece.

C code passes only an address to a tensor instruction, so the layout of the filters there is that of the copy that wrote
them. `mlusim.cores.instructions.wram_layout` describes the two forms.

A piece at an address takes as many bytes of each lane as its share, 1/64 of its size. Two pieces may therefore be less
than a piece apart, as in the Fourier transforms of mlu-ops, which place the imaginary part half of 1/16 of WRAM behind
the real one. The simulated memory holds a piece contiguously, so the later one of such pieces is stored elsewhere in
its array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlusim.cores.instructions.wram_layout import LANES, lane_bytes
from mlusim.errors import CopyError, OperandError
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.hardware.board_record import Board
    from mlusim.memory.allocation import Allocation

# Copies to 16 lanes write another layout, which no public document describes fully.
_WIDE_LANES = 16


@dataclass(slots=True)
class _Rows:
    """Filters in rows: bytes [start, stop) of lane 0, and as many of the following lanes."""

    allocation: Allocation
    start: int
    stop: int
    lanes: int
    in_doubt: bool = False


@dataclass(slots=True)
class _Piece:
    """Bytes [start, stop) written without regard to lanes; `first` is the byte of the array that stores the first."""

    allocation: Allocation
    start: int
    stop: int
    first: int = 0
    in_doubt: bool = False

    @property
    def nbytes(self) -> int:
        return self.stop - self.start

    @property
    def share(self) -> int:
        """Bytes of each lane."""
        return -(-self.nbytes // LANES)


class FilterForms:
    """The forms of the filters that one task has copied to its WRAM."""

    def __init__(self, board: Board) -> None:
        self._lane = lane_bytes(board)
        self._rows: list[_Rows] = []
        self._pieces: dict[tuple[int, int], _Piece] = {}
        # No piece of an allocation is stored behind this byte.
        self._ends: dict[int, int] = {}
        # Pieces that are not stored at their address.
        self._moved: dict[tuple[int, int], _Piece] = {}

    def copied(self, allocation: Allocation, offset: int, size: int, loops: list[tuple[int, int]]) -> bool:
        """Note a copy to WRAM; returns whether the form or the place of filters has changed.

        Args:
            allocation, offset: the destination.
            size: bytes of a segment.
            loops: (number of segments, stride) of the destination, in bytes.

        Raises `CopyError` for strides between 16 lanes.
        """
        if any(count > 1 and stride == LANES // _WIDE_LANES * self._lane for count, stride in loops):
            raise CopyError(
                f"memcpy to WRAM with a stride of {group_digits(LANES // _WIDE_LANES * self._lane)} B, 1/16 of WRAM: "
                "the layout of filters in 16 lanes is not public; copy them to 64 lanes, or in one piece as "
                "__bang_reshape_filter arranges them"
            )
        lanes = max((count for count, stride in loops if stride == self._lane), default=0)
        loops_in_lane = [(count, stride) for count, stride in loops if stride != self._lane]
        stop = offset + size + sum((count - 1) * max(stride, 0) for count, stride in loops_in_lane)
        if not lanes:
            return self._note_piece(_Piece(allocation, offset, stop))
        return self._note_rows(_Rows(allocation, offset, stop, lanes))

    def in_rows(self, allocation: Allocation, offset: int) -> bool:
        """Return whether the filters at an address were written in rows. Raises `OperandError` if that is in doubt."""
        entries: tuple[_Rows | _Piece, ...] = (*self._rows, *self._pieces.values())
        for entry in entries:
            if entry.allocation is not allocation or not entry.start <= offset < entry.stop:
                continue
            if entry.in_doubt:
                raise OperandError(
                    f"filters at byte {group_digits(offset)} of {allocation.name}: a later copy overlaps them either "
                    "by its addresses or by its share of each lane of WRAM, but not by both, and no public document "
                    "defines how these relate; write filters in one form, and each behind the end of the others"
                )
            if isinstance(entry, _Rows):
                return True
        return False

    def place(self, allocation: Allocation, offset: int, nbytes: int) -> int:
        """Return where the bytes at an offset of an array are stored. Raises `OperandError` if that is in doubt."""
        if not self._moved:
            return offset
        piece_there = self._pieces.get((allocation.identity, offset))
        for piece in self._moved.values() if piece_there is None else (piece_there,):
            if piece.allocation is not allocation or not piece.start <= offset < piece.stop:
                continue
            if offset + nbytes > piece.stop:
                raise OperandError(
                    f"{group_digits(nbytes)} B at byte {group_digits(offset)} of {allocation.name}: they reach beyond "
                    f"the {group_digits(piece.nbytes)} B that were copied to byte {group_digits(piece.start)}, and "
                    "other filters overlap these by their addresses but not in the lanes of WRAM; copy all filters of "
                    "an instruction at once"
                )
            return piece.first + offset - piece.start
        return offset

    def _note_piece(self, piece: _Piece) -> bool:
        identity = piece.allocation.identity
        key = identity, piece.start
        previous = self._pieces.get(key)
        if previous is not None and previous.stop == piece.stop and not previous.in_doubt and not self._rows:
            return False
        piece.first = self._storage_of(piece, previous)
        self._ends[identity] = max(self._ends.get(identity, 0), piece.first + piece.nbytes)
        has_moved = piece.first != (previous.first if previous is not None else piece.start)
        self._moved.pop(key, None)
        if piece.first != piece.start:
            self._moved[key] = piece
        self._pieces[key] = piece
        changed, remaining = has_moved, []
        for rows in self._rows:
            by_address, by_lane = self._overlaps(rows, piece)
            if not (by_address and by_lane):
                remaining.append(rows)
            if by_address or by_lane:
                changed = True
                rows.in_doubt = True
        self._rows = remaining
        return changed

    def _storage_of(self, piece: _Piece, previous: _Piece | None) -> int:
        """Return where to store a piece: at its address, unless a piece in other bytes of the lanes is stored there."""
        start, nbytes, allocation = piece.start, piece.nbytes, piece.allocation
        if start >= self._ends.get(allocation.identity, 0) or piece.stop > allocation.nbytes:
            return start
        others = []
        for key, other in list(self._pieces.items()):
            if other.allocation is not allocation or other.start == start:
                continue
            if start < other.start + other.share and other.start < start + piece.share:
                # Overwritten in the lanes, too.
                self._moved.pop(key, None)
                del self._pieces[key]
                continue
            others.append(other)
        stored_ends = sorted(other.first + other.nbytes for other in others)
        for candidate in (start if previous is None else previous.first, start, *stored_ends):
            if candidate + nbytes <= allocation.nbytes and not any(
                _overlap(candidate, nbytes, other) for other in others
            ):
                return candidate
        # Full: what is overwritten must not be read.
        for other in others:
            other.in_doubt |= _overlap(start, nbytes, other)
        return start

    def _note_rows(self, new: _Rows) -> bool:
        for key, piece in list(self._pieces.items()):
            by_address, by_lane = self._overlaps(new, piece)
            if by_address and by_lane:
                del self._pieces[key]
            elif by_address or by_lane:
                piece.in_doubt = True
        if new in self._rows:
            return False
        self._rows = [
            rows
            for rows in self._rows
            if rows.allocation is not new.allocation or rows.start < new.start or rows.stop > new.stop
        ]
        self._rows.append(new)
        return True

    def _overlaps(self, rows: _Rows, piece: _Piece) -> tuple[bool, bool]:
        """Return whether both forms overlap: by address, and by the share of a lane of a piece that begins there."""
        if rows.allocation is not piece.allocation:
            return False, False
        by_address = any(
            lane * self._lane + rows.start < piece.stop and piece.start < lane * self._lane + rows.stop
            for lane in range(rows.lanes)
        )
        return by_address, rows.start < piece.start + piece.share and piece.start < rows.stop


def _overlap(first: int, nbytes: int, piece: _Piece) -> bool:
    """Return whether bytes of an array store parts of a piece."""
    return first < piece.first + piece.nbytes and piece.first < first + nbytes
