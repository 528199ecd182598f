"""Copies of rows: `memcpy_rows`, `gather` and `scatter`; one record and one transfer stand for all copies of a loop."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.counted.row_loop import (
    RowLoop,
    Rows,
    check_index,
    check_no_overlap,
    check_rows,
    copied_rows,
    loop_of,
    loop_of_runs,
    row_bytes_of,
)
from mlusim.cores.machine.pipe import Transfer
from mlusim.cores.operands import Passed, check_view
from mlusim.cores.tasks.waiting import Waiting
from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, CopyError, OperandError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NONE, SCALAR
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy_limits import check_row
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.kinds import DIRECTION_CODES, DIRECTIONS, Direction, MemoryKind
from mlusim.memory.loop_costs import NO_ADDRESS, row_units, run_units, worst_row_units
from mlusim.memory.view import View
from mlusim.units import ceil_div

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.memory.addresses import Addresses

# Python 3.11 finds a member of an enumeration slowly.
_NRAM = MemoryKind.NRAM
_REACHED_BY_OFFSETS = (MemoryKind.GDRAM, MemoryKind.LDRAM, _NRAM)


def memcpy_rows(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    dst_rows: Rows = None,
    src_rows: Rows = None,
    *,
    lengths: Rows = None,
    blocking: bool = True,
) -> Waiting:
    """A loop of row copies, as `Core.memcpy_rows`. Iterations outside a window of the addresses copy nothing.

    The rows are copied in order, so for a repeated destination row the last value remains. The bus units of each row
    are charged separately; time: `mlusim.memory.loop_costs.rows_cost`. Raises `CopyError`, `OperandError` or
    `AccessError`.
    """
    for view in (dst, src):
        check_view("memcpy_rows", view)
    if lengths is not None:
        if dst_rows is not None or blocking:
            raise OperandError("memcpy_rows with lengths: omit dst_rows and pass blocking=False")
        method = "runs"
        loop = loop_of_runs(dst, src, src_rows, lengths)
        direction = _checked_direction(issuer, "memcpy_rows", dst, src, method)
    else:
        method = "blocking" if blocking else "queued"
        direction = _checked_direction(issuer, "memcpy_rows", dst, src, method)
        loop = loop_of(issuer, "memcpy_rows", dst, src, dst_rows, src_rows)
        if not loop.selected:
            return empty_loop(issuer, line, loop)
    return wait_for_loop(issuer, copy_loop(issuer, line, "memcpy_rows", dst, src, loop, direction, method=method))


def wait_for_loop(issuer: Issuer, record: int) -> Waiting:
    """Wait for the last copy of a loop."""
    issuer.task.unawaited = record
    return issuer.suspending


def empty_loop(issuer: Issuer, line: int, loop: RowLoop) -> Waiting:
    """Issue a loop of row copies in which no iteration has a row to copy."""
    issuer.begin()
    task = issuer.task
    start_ps = task.now_ps
    cycles = loop.iterations * (loop.address.cycles(issuer.board) + issuer.board.scalar_loop_cycles)
    task.now_ps += issuer.board.cycles_ps(cycles)
    record = issuer.record("scalar", SCALAR, line, start_ps, start_ps, task.now_ps, count=loop.iterations)
    issuer.log.loops[record] = loop.record("empty")
    task.unawaited = record
    return issuer.passing


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
    offset_view, nram_view = (dst, src) if name == "scatter" else (src, dst)
    if offset_view.memory not in _REACHED_BY_OFFSETS or nram_view.memory is not _NRAM:
        allowed = "from NRAM, GDRAM or LDRAM to this core's NRAM"
        if name == "scatter":
            allowed = "from this core's NRAM to NRAM, GDRAM or LDRAM"
        raise CopyError(f"{name} from {src!r} to {dst!r}: it goes {allowed}; stage the bytes through NRAM")
    # Before the offsets are read, so that a timing-only run, which has none, raises the same error.
    direction = _checked_direction(issuer, name, dst, src, "instruction")
    check_no_overlap(name, dst, src)
    issuer.unit.prepare(issuer.task.now_ps, (offsets,) if mask is None else (offsets, mask))
    check_rows(name, nram_view, None, offsets.size)
    rows: Integers | None = None
    selected: Integers | None = None
    if issuer.has_data:
        rows = copied_rows(offsets, offset_view.shape[0])
        if mask is not None:
            selected = np.flatnonzero(mask.typed())
            rows = rows[selected]
        try:
            check_rows(name, offset_view, rows, len(rows))
        except AccessError:
            # Record it for the checker, which can report that the offsets were used before their copy was complete.
            views, now_ps = (None, None, offsets), issuer.task.now_ps
            issuer.record(
                name, IO if offset_view.memory.off_chip else MOVE, line, now_ps, now_ps, NONE, views, alone_ps=0
            )
            raise
    elif known is not None and mask is None:
        rows, _ = known.resolve(name)
    count = offsets.size if rows is None else len(rows)
    dst_rows, src_rows = (rows, selected) if name == "scatter" else (selected, rows)
    loop = RowLoop(offsets.size, count, dst_rows, src_rows, NO_ADDRESS, (offsets,), unread=True, known=rows is not None)
    copy_loop(issuer, line, name, dst, src, loop, direction, method="instruction", mask=mask)


def copy_loop(
    issuer: Issuer,
    line: int,
    name: str,
    dst: View,
    src: View,
    loop: RowLoop,
    direction: Direction | None = None,
    *,
    method: str,
    mask: View | None = None,
) -> int:
    """Issue one transfer that represents the row copies of a loop; returns its record.

    Args:
        name: name of the operation.
        dst, src: views whose first axis is the rows.
        loop: the rows, and the cost of their addresses.
        direction: the direction, if the caller has checked it.
        method: `blocking`, `queued`, `runs` or `instruction`, as in `mlusim.memory.loop_costs.rows_cost`.
        mask: mask of a gather or scatter, for the log.
    """
    row_bytes = row_bytes_of(name, dst)
    if direction is None:
        direction = _checked_direction(issuer, name, dst, src, method)
    by_engine = method == "instruction"
    # The instruction takes time for every offset, masked or not.
    count = loop.iterations if by_engine else loop.selected
    shape = _rows_shape(dst, src, loop, direction, count, row_bytes, issuer.dram_unit_bytes)
    issuer.begin()
    unit, task = issuer.unit, issuer.task
    address = loop.address.cycles(issuer.board)
    cost = issuer.chip.rows_cost(
        shape, method, iterations=loop.iterations, address=address, memory_core=unit.is_memory_core
    )
    off_chip = direction.off_chip
    views = (dst, src, *loop.indices) if mask is None else (dst, src, *loop.indices, mask)
    record = issuer.record(
        name,
        IO if off_chip else MOVE,
        line,
        task.now_ps,
        task.now_ps,
        NONE,
        views,
        count=count,
        nbytes=shape.nbytes,
        detail=ASYNCHRONOUS if by_engine else BLOCKING,
        alone_ps=cost.alone_ps,
        bus_read=shape.bus_read_bytes,
        bus_write=shape.bus_write_bytes,
        direction=DIRECTION_CODES[direction],
    )
    log_addresses(issuer, record, dst, src, loop)
    issuer.log.loops[record] = loop.record(method)
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
    check_row(direction, row_bytes, dst, src, issuer.board.arch, issuer.dram_unit_bytes)
    return direction


def _rows_shape(
    dst: View, src: View, loop: RowLoop, direction: Direction, count: int, row_bytes: int, unit_bytes: int
) -> CopyShape:
    """Return the geometry of `count` row copies of a loop, with their bus bytes."""
    if loop.lengths is not None:
        return _runs_shape(dst, src, loop, direction, row_bytes, unit_bytes)
    bus_read = bus_write = partly = 0
    if src.memory.off_chip:
        bus_read, _ = _bus_bytes(src, loop, loop.src_rows, count, row_bytes, unit_bytes)
    if dst.memory.off_chip:
        bus_write, partly = _bus_bytes(dst, loop, loop.dst_rows, count, row_bytes, unit_bytes)
    return CopyShape(direction, row_bytes * count, row_bytes, count, (), (), bus_read + partly, bus_write, count > 1)


def _bus_bytes(
    view: View, loop: RowLoop, rows: Integers | None, count: int, row_bytes: int, unit_bytes: int
) -> tuple[int, int]:
    """Return the bus bytes of the rows of one side, in DRAM, and those of units that they touch partly."""
    if loop.unread:
        return worst_row_units(view, count, row_bytes, unit_bytes)
    return row_units(view, rows, count, row_bytes, unit_bytes)


def _runs_shape(
    dst: View, src: View, loop: RowLoop, direction: Direction, row_bytes: int, unit_bytes: int
) -> CopyShape:
    """Return the geometry of a loop over runs of rows: one segment each, of their mean length, and exact bus bytes."""
    starts, lengths = loop.src_rows, loop.lengths
    assert starts is not None
    assert lengths is not None
    nbytes, runs = loop.selected * row_bytes, len(lengths)
    bus_read = bus_write = partly = 0
    if src.memory.off_chip:
        bus_read, _ = run_units(src, starts, lengths, row_bytes, unit_bytes, writes=False)
    if dst.memory.off_chip:
        rows = np.cumsum(lengths) - lengths
        bus_write, partly = run_units(dst, rows, lengths, row_bytes, unit_bytes, writes=True)
    return CopyShape(direction, nbytes, ceil_div(nbytes, runs), runs, (), (), bus_read + partly, bus_write, runs > 1)


def log_addresses(issuer: Issuer, record: int, dst: View, src: View, loop: RowLoop) -> None:
    """Log the rows that a loop copies, as far as they are known: those of single rows in the narrowest type."""
    known_rows: dict[str, Integers] = {}
    if loop.lengths is not None:
        assert loop.src_rows is not None
        known_rows["src"], known_rows["lengths"] = loop.src_rows, loop.lengths
    else:
        if loop.dst_rows is not None:
            known_rows["dst"] = _logged_rows(loop.dst_rows, dst.shape[0])
        if loop.src_rows is not None:
            known_rows["src"] = _logged_rows(loop.src_rows, src.shape[0])
    if loop.unread and not (issuer.has_data or loop.known):
        # A timing-only run does not know the row numbers.
        known_rows["unknown"] = np.empty(0, np.int64)
    if known_rows:
        issuer.log.addresses[record] = known_rows


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
