"""Rows by offsets: `__gather` and `__scatter`, and the transfer that stands for many row copies."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import numpy as np

from mlusim.cores.pipe import Transfer
from mlusim.cores.rows import Loop, check_apart, check_rows, move_rows, row_bytes_of, rows_shape
from mlusim.cores.scalar import ScalarOperations
from mlusim.dtypes import is_integer
from mlusim.errors import CopyError, OperandError
from mlusim.log import IO, MOVE, NO_OPERAND, NONE
from mlusim.memory.addresses import Indices
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy import check_row
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, Direction, MemoryKind
from mlusim.memory.loops import Turn, rows_cost
from mlusim.memory.view import View

_REACHED_BY_OFFSETS = (MemoryKind.GDRAM, MemoryKind.LDRAM, MemoryKind.NRAM)


class OffsetOperations(ScalarOperations):
    """Instructions of a core that move rows by offsets."""

    def gather(self, dst: View, src: View, offsets: View, mask: View | None = None) -> None:
        """dst[i] = src[offsets[i]] by one `__gather`, from arch 592 on: asynchronous.

        Args:
            dst: (count, ...) in NRAM; rows contiguous.
            src: (rows, ...) in GDRAM, LDRAM or this core's NRAM; rows of the same size.
            offsets: count integers in NRAM, row numbers of `src` (the instruction's byte offsets over the row size).
            mask: count elements in NRAM; where one is 0, the row of `dst` stays as it is.

        On the IO pipe, or the Move pipe within NRAM. Time: `mlusim.memory.loops.rows_cost`, whatever offsets and mask
        hold. Raises `OperandError` before arch 592, `AccessError` for a row outside `src`.
        """
        self._by_offsets("gather", dst, src, offsets, mask, sys._getframe(1))

    def scatter(self, dst: View, src: View, offsets: View, mask: View | None = None) -> None:
        """dst[offsets[i]] = src[i] by one `__scatter`, from arch 592 on, from NRAM. In order; else as `gather`."""
        self._by_offsets("scatter", dst, src, offsets, mask, sys._getframe(1))

    def _by_offsets(self, name: str, dst: View, src: View, offsets: View, mask: View | None, frame: Any) -> None:
        if not self.board.has_gather:
            raise OperandError(
                f"__{name} exists from arch 592 on and {self.board.name} is arch {self.board.arch}: load the offsets "
                "with load_array and use memcpy_rows or scalar_copy"
            )
        if not is_integer(offsets.dtype) or not offsets.size:
            raise OperandError(f"{name} with offsets {offsets!r}: they are integers, one or more")
        if mask is not None and mask.size != offsets.size:
            raise OperandError(f"{name} with mask {mask!r} for {offsets.size} offsets: it has one element for each")
        for view in (offsets, mask):
            self._check_index(name, view)
        far, near = (dst, src) if name == "scatter" else (src, dst)
        if far.memory not in _REACHED_BY_OFFSETS or near.memory is not MemoryKind.NRAM:
            raise CopyError(f"{name} from {src!r} to {dst!r}: it goes from NRAM to NRAM, GDRAM or LDRAM or back")
        check_apart(name, dst, src)
        self._unit.apply_until(self._task.now_ps)
        check_rows(name, near, None, offsets.size)
        rows: Indices | None = None
        kept: Indices | None = None
        if self._chip.data:
            rows = offsets.typed().reshape(-1).astype(np.int64)
            if mask is not None:
                kept = np.flatnonzero(mask.typed())
                rows = rows[kept]
            check_rows(name, far, rows, len(rows))
        count = offsets.size if rows is None else len(rows)
        dst_rows, src_rows = (rows, kept) if name == "scatter" else (kept, rows)
        loop = Loop(offsets.size, count, dst_rows, src_rows, Turn(), (offsets,), unread=True)
        self._rows(dst, src, loop, name, frame, how="instruction", mask=mask)

    def _rows(
        self, dst: View, src: View, loop: Loop, name: str, frame: Any, *, how: str, mask: View | None = None
    ) -> None:
        """One transfer that stands for the row copies of a loop."""
        row_bytes = row_bytes_of(name, dst)
        if row_bytes != row_bytes_of(name, src) or dst.itemsize != src.itemsize:
            raise CopyError(f"{name} of rows of {src!r} to rows of {dst!r}: rows must be equally large")
        for view, write in ((dst, True), (src, False)):
            self._check_reach(view.allocation.memory)
            check_usable(view.allocation, write=write)
        direction = DIRECTIONS.get((src.memory, dst.memory))
        if direction is None:
            raise CopyError(f"no __memcpy goes {src.memory.value} to {dst.memory.value}; stage the bytes through NRAM")
        if how == "queued" and not direction.asynchronous:
            raise CopyError(f"memcpy_async has no {direction.name}: use memcpy_rows(..., blocking=True)")
        check_row(direction, row_bytes, dst, src, self.board.arch, self.board.dram_unit_bytes)
        by_engine = how == "instruction"
        # The instruction takes its time for every offset, masked or not.
        count = loop.turns if by_engine else loop.kept
        shape = rows_shape(dst, src, loop, direction, count, self.board.dram_unit_bytes)
        self._begin()
        unit, task = self._unit, self._task
        address = loop.address.cycles(self.board)
        cost = rows_cost(self.board, shape, how, turns=loop.turns, address=address, memory_core=unit.is_memory_core)
        off_chip = direction.off_chip
        indices = [self._operand(view) for view in (*loop.indices, *(() if mask is None else (mask,)))]
        record = self._record(
            name,
            IO if off_chip else MOVE,
            frame,
            task.now_ps,
            task.now_ps,
            NONE,
            count,
            shape.nbytes,
            int(not by_engine),
            self._operand(dst),
            self._operand(src),
            indices[0] if indices else NO_OPERAND,
            alone_ps=cost.alone_ps,
            bus_read=shape.bus_read_bytes,
            bus_write=shape.bus_write_bytes,
            direction=DIRECTION_CODES[direction],
        )
        self._keep_addresses(record, loop)
        self._log.loops[record] = loop.record(how)
        if indices[1:]:
            self._log.more_operands[record] = indices[1:]
        effect = None
        if self._chip.data and loop.kept:
            effect = partial(move_rows, dst, src, loop.dst_rows, loop.src_rows, loop.kept)
        if off_chip:
            task.pending_io += 1
        else:
            task.pending_move += 1
        if direction is Direction.GDRAM2SRAM:
            unit = unit.cluster.memory_core
        pipe = unit.io if off_chip else unit.move
        pipe.submit(Transfer(pipe, task, record, task.now_ps, cost, effect, not by_engine))

    def _keep_addresses(self, record: int, loop: Loop) -> None:
        kept = {key: rows for key, rows in (("dst", loop.dst_rows), ("src", loop.src_rows)) if rows is not None}
        if loop.unread and not self._chip.data:
            # A timing-only run does not know which rows these are.
            kept["unknown"] = np.empty(0, np.int64)
        if kept:
            self._log.addresses[record] = kept

    def _check_index(self, name: str, index: View | None) -> None:
        if index is None:
            return
        if index.allocation.memory is not self._unit.nram or not index.is_contiguous:
            raise OperandError(f"{name} with {index!r}: indices, offsets and masks are contiguous in this core's NRAM")
        check_usable(index.allocation, write=False)
