"""Rows by offsets: `__gather`, `__scatter`, and one transfer that represents many row copies."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.counted.row_loop import RowLoop, check_apart, check_rows, row_bytes_of, rows_shape
from mlusim.cores.machine.pipe import Transfer
from mlusim.cores.operands import Passed, check_view
from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, CopyError, OperandError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NO_OPERAND, NONE
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy_limits import check_row
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, Direction, MemoryKind
from mlusim.memory.loop_costs import NO_ADDRESS
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.memory.addresses import Addresses

_INT32 = np.dtype(np.int32)
# Python 3.11 finds a member of an enumeration slowly.
_NRAM = MemoryKind.NRAM
_REACHED_BY_OFFSETS = (MemoryKind.GDRAM, MemoryKind.LDRAM, _NRAM)


def by_offsets(
    issuer: Issuer,
    line: int,
    name: str,
    dst: Passed,
    src: Passed,
    offsets: Passed,
    mask: Passed,
    known: Addresses | None = None,
) -> None:
    """One asynchronous `__gather` or `__scatter`, as `Core.gather` and `Core.scatter`, by `name`.

    Args:
        dst, src: (count, ...) in NRAM and (rows, ...) in GDRAM, LDRAM or this core's NRAM; rows contiguous and equally
            large.
        offsets: count integers in NRAM, row numbers (the instruction's byte offsets over the row size).
        mask: count elements in NRAM; rows whose element is 0 are not copied.

    The offsets and the mask are read at issue: ASSUMED, the sources do not specify it.

    Runs on the IO pipe, or the Move pipe within NRAM. Time: `mlusim.memory.loop_costs.rows_cost`, whatever offsets and
    mask. Raises `OperandError` before arch 592, `AccessError` for a row outside its tensor.
    """
    if not issuer.board.has_gather:
        raise OperandError(
            f"__{name} exists from arch 592 on and {issuer.board.name} is arch {issuer.board.arch}: load the offsets "
            "with load_array and use memcpy_rows or scalar_copy"
        )
    for side in (dst, src, offsets, *(() if mask is None else (mask,))):
        check_view(name, side)
    if not is_integer(offsets.dtype) or not offsets.size:
        raise OperandError(f"{name} with offsets {offsets!r}: they must be integers, one or more")
    if mask is not None and mask.size != offsets.size:
        raise OperandError(f"{name} with mask {mask!r} for {offsets.size} offsets: it must have one element for each")
    for view in (offsets, mask):
        check_index(issuer, name, view)
    far, near = (dst, src) if name == "scatter" else (src, dst)
    if far.memory not in _REACHED_BY_OFFSETS or near.memory is not _NRAM:
        raise CopyError(f"{name} from {src!r} to {dst!r}: it goes from NRAM to NRAM, GDRAM or LDRAM or back")
    check_apart(name, dst, src)
    issuer.unit.prepare(issuer.task.now_ps, (offsets,) if mask is None else (offsets, mask))
    check_rows(name, near, None, offsets.size)
    rows: Integers | None = None
    selected: Integers | None = None
    if issuer.has_data:
        rows = copied_rows(offsets, far.shape[0])
        if mask is not None:
            selected = np.flatnonzero(mask.typed())
            rows = rows[selected]
        try:
            check_rows(name, far, rows, len(rows))
        except AccessError:
            # Record it for the checker, which can report that the offsets were used before their copy was complete.
            operand, now_ps = issuer.operand(offsets), issuer.task.now_ps
            issuer.record(name, IO if far.memory.off_chip else MOVE, line, now_ps, now_ps, NONE, b=operand, alone_ps=0)
            raise
    elif known is not None and mask is None:
        rows, _ = known.resolve(name)
    count = offsets.size if rows is None else len(rows)
    dst_rows, src_rows = (rows, selected) if name == "scatter" else (selected, rows)
    loop = RowLoop(offsets.size, count, dst_rows, src_rows, NO_ADDRESS, (offsets,), unread=True, known=rows is not None)
    copy_loop(issuer, line, name, dst, src, loop, method="instruction", mask=mask)


def copy_loop(
    issuer: Issuer, line: int, name: str, dst: View, src: View, loop: RowLoop, *, method: str, mask: View | None = None
) -> int:
    """Issue one transfer that represents the row copies of a loop; returns its record.

    Args:
        name: name of the operation.
        dst, src: views whose first axis is the rows.
        loop: the rows, and the cost of their addresses.
        method: `blocking`, `queued`, `runs` or `instruction`, as in `mlusim.memory.loop_costs.rows_cost`.
        mask: mask of a gather or scatter, for the log.
    """
    direction = _checked_direction(issuer, name, dst, src, method)
    by_engine = method == "instruction"
    # The instruction takes time for every offset, masked or not.
    count = loop.iterations if by_engine else loop.selected
    shape = rows_shape(dst, src, loop, direction, count, issuer.board.dram_unit_bytes)
    issuer.begin()
    unit, task = issuer.unit, issuer.task
    address = loop.address.cycles(issuer.board)
    cost = issuer.chip.rows_cost(
        shape, method, iterations=loop.iterations, address=address, memory_core=unit.is_memory_core
    )
    off_chip = direction.off_chip
    indices = [issuer.operand(view) for view in (*loop.indices, *(() if mask is None else (mask,)))]
    record = issuer.record(
        name,
        IO if off_chip else MOVE,
        line,
        task.now_ps,
        task.now_ps,
        NONE,
        count=count,
        nbytes=shape.nbytes,
        detail=ASYNCHRONOUS if by_engine else BLOCKING,
        dst=issuer.operand(dst),
        a=issuer.operand(src),
        b=indices[0] if indices else NO_OPERAND,
        alone_ps=cost.alone_ps,
        bus_read=shape.bus_read_bytes,
        bus_write=shape.bus_write_bytes,
        direction=DIRECTION_CODES[direction],
    )
    log_addresses(issuer, record, dst, src, loop)
    issuer.log.loops[record] = loop.record(method)
    if indices[1:]:
        issuer.log.more_operands[record] = indices[1:]
    effect = loop.effect(dst, src) if issuer.has_data and loop.selected else None
    if direction.by_memory_core:
        unit = unit.cluster.memory_core
    pipe = unit.io if off_chip else unit.move
    transfer = Transfer(pipe, task, record, task.now_ps, cost, effect, not by_engine)
    if method == "blocking":
        task.when_idle(partial(pipe.submit_after_wait, transfer))
    else:
        pipe.submit(transfer)
    return record


def _checked_direction(issuer: Issuer, name: str, dst: View, src: View, method: str) -> Direction:
    """Return the direction of a loop of row copies. Raises `CopyError` or `AccessError` if it is not allowed."""
    row_bytes = row_bytes_of(name, dst)
    if row_bytes != row_bytes_of(name, src) or dst.itemsize != src.itemsize:
        raise CopyError(f"{name} of rows of {src!r} to rows of {dst!r}: rows must have the same size")
    for view, write in ((dst, True), (src, False)):
        issuer.check_reach(view.allocation.memory)
        check_usable(view.allocation, write=write)
    direction = DIRECTIONS.get((src.memory, dst.memory))
    if direction is None:
        raise CopyError(
            f"__memcpy has no direction {src.memory.value} to {dst.memory.value}; stage the bytes through NRAM"
        )
    if method == "queued" and not direction.asynchronous:
        raise CopyError(f"memcpy_async has no {direction.name}: use memcpy_rows(..., blocking=True)")
    check_row(direction, row_bytes, dst, src, issuer.board.arch, issuer.board.dram_unit_bytes)
    return direction


def log_addresses(issuer: Issuer, record: int, dst: View, src: View, loop: RowLoop) -> None:
    """Log the rows that a loop copies, as far as they are known, in the narrowest type that holds all rows."""
    known_rows = {
        key: _logged_rows(rows, view.shape[0])
        for key, rows, view in (("dst", loop.dst_rows, dst), ("src", loop.src_rows, src))
        if rows is not None
    }
    if loop.lengths is not None:
        known_rows["lengths"] = loop.lengths.copy()
    if loop.unread and not (issuer.has_data or loop.known):
        # A timing-only run does not know the row numbers.
        known_rows["unknown"] = np.empty(0, np.int64)
    if known_rows:
        issuer.log.addresses[record] = known_rows


def copied_rows(offsets: View, extent: int) -> Integers:
    """Return the row numbers in NRAM as they are now: int32 as such if all rows have such numbers, others as int64."""
    numbers = offsets.typed().reshape(-1)
    narrow = numbers.dtype == _INT32 and extent <= 1 << 31
    return numbers.copy() if narrow else numbers.astype(np.int64)


def _logged_rows(rows: Integers, extent: int) -> Integers:
    """Return row numbers in the type of the log, copied if the kernel could change them."""
    logged = _row_type(extent)
    # Rows of int32 are those of `copied_rows`, which no kernel has.
    return rows.view(logged) if rows.itemsize == logged.itemsize == 4 else rows.astype(logged)


@cache
def _row_type(extent: int) -> np.dtype[Any]:
    """Return the type of a logged row number; a log of 8 B for each takes more memory than the data that is copied."""
    narrow = np.min_scalar_type(max(extent - 1, 0))
    return narrow if narrow.itemsize < 8 else np.dtype(np.int64)


def check_index(issuer: Issuer, name: str, index: View | None) -> None:
    """Raise `OperandError` for indices, offsets or a mask that are not contiguous in this core's NRAM."""
    if index is None:
        return
    if index.allocation.memory is not issuer.unit.nram or not index.is_contiguous:
        raise OperandError(f"{name} with {index!r}: indices, offsets and masks must be contiguous in this core's NRAM")
    check_usable(index.allocation, write=False)
