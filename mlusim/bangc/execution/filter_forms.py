"""Which filters in WRAM a task has written in rows from lane to lane, and which in one piece.

C code passes only an address to a tensor instruction, so the layout of the filters there is that of the copy that wrote
them. `mlusim.cores.instructions.wram_layout` describes the two forms.
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
    doubtful: bool = False


@dataclass(slots=True)
class _Piece:
    """Bytes [start, stop) written without regard to lanes."""

    allocation: Allocation
    start: int
    stop: int
    doubtful: bool = False


class FilterForms:
    """The forms of the filters that one task has copied to its WRAM."""

    def __init__(self, board: Board) -> None:
        self._lane = lane_bytes(board)
        self._rows: list[_Rows] = []
        self._pieces: dict[tuple[int, int], _Piece] = {}

    def copied(self, allocation: Allocation, offset: int, size: int, loops: list[tuple[int, int]]) -> bool:
        """Note a copy to WRAM; returns whether the form of earlier filters has changed.

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
        within = [(count, stride) for count, stride in loops if stride != self._lane]
        stop = offset + size + sum((count - 1) * max(stride, 0) for count, stride in within)
        if not lanes:
            return self._note_piece(_Piece(allocation, offset, stop))
        return self._note_rows(_Rows(allocation, offset, stop, lanes))

    def in_rows(self, allocation: Allocation, offset: int) -> bool:
        """Whether the filters at an address were written in rows. Raises `OperandError` if that is in doubt."""
        written: tuple[_Rows | _Piece, ...] = (*self._rows, *self._pieces.values())
        for entry in written:
            if entry.allocation is not allocation or not entry.start <= offset < entry.stop:
                continue
            if entry.doubtful:
                raise OperandError(
                    f"filters at byte {group_digits(offset)} of {allocation.name}: a later copy overlaps them either "
                    "by its addresses or by its share of each lane of WRAM, but not by both. One of the two was in "
                    "one piece and the other from lane to lane, and no public document defines how their "
                    "addresses relate; write both in the same form"
                )
            if isinstance(entry, _Rows):
                return True
        return False

    def _note_piece(self, piece: _Piece) -> bool:
        self._pieces[piece.allocation.identity, piece.start] = piece
        changed, remaining = False, []
        for rows in self._rows:
            by_address, by_lane = self._meet(rows, piece)
            if not (by_address and by_lane):
                remaining.append(rows)
            if by_address or by_lane:
                changed = True
                rows.doubtful = True
        self._rows = remaining
        return changed

    def _note_rows(self, new: _Rows) -> bool:
        for key, piece in list(self._pieces.items()):
            by_address, by_lane = self._meet(new, piece)
            if by_address and by_lane:
                del self._pieces[key]
            elif by_address or by_lane:
                piece.doubtful = True
        if new in self._rows:
            return False
        self._rows = [
            rows
            for rows in self._rows
            if rows.allocation is not new.allocation or rows.start < new.start or rows.stop > new.stop
        ]
        self._rows.append(new)
        return True

    def _meet(self, rows: _Rows, piece: _Piece) -> tuple[bool, bool]:
        """Whether both forms overlap: by their addresses, and by the share of a lane of a piece that begins there."""
        if rows.allocation is not piece.allocation:
            return False, False
        by_address = any(
            lane * self._lane + rows.start < piece.stop and piece.start < lane * self._lane + rows.stop
            for lane in range(rows.lanes)
        )
        share = -(-(piece.stop - piece.start) // LANES)
        return by_address, rows.start < piece.start + share and piece.start < rows.stop
