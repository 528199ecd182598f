"""`scalar_copy`: a loop of scalar code that copies elements within NRAM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlusim.cores.counted.row_copies import log_addresses
from mlusim.cores.counted.row_loop import RowLoop, Rows, loop_of, row_bytes_of
from mlusim.cores.operands import Passed, check_view
from mlusim.cores.tasks.waiting import Waiting
from mlusim.errors import OperandError
from mlusim.log import NONE, SCALAR
from mlusim.memory.allocation import check_usable
from mlusim.memory.loop_costs import scalar_copy_cycles
from mlusim.memory.view import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from mlusim.cores.issuer import Issuer


def scalar_copy(
    issuer: Issuer,
    line: int,
    dst: Passed,
    src: Passed,
    dst_rows: Rows = None,
    src_rows: Rows = None,
    extra_cycles: int = 0,
) -> Waiting:
    """A scalar loop within NRAM, as `Core.scalar_copy`. Iterations outside a window of the addresses copy nothing.

    For a repeated destination the last value remains. Cost: `mlusim.memory.loop_costs.scalar_copy_cycles`. Raises
    `OperandError` for views that do not fit or overlap, and `AccessError` for a row outside its view.
    """
    for view, write in ((dst, True), (src, False)):
        check_view("scalar_copy", view)
        if view.allocation.memory is not issuer.unit.nram or not view.is_contiguous:
            raise OperandError(f"scalar_copy of {view!r}: both sides must be contiguous views in this core's NRAM")
        check_usable(view.allocation, write=write)
    if dst.itemsize != src.itemsize or row_bytes_of("scalar_copy", dst) != row_bytes_of("scalar_copy", src):
        raise OperandError(f"scalar_copy of {src!r} to {dst!r}: elements and rows must have the same size")
    loop = loop_of(issuer, "scalar_copy", dst, src, dst_rows, src_rows)

    def finish() -> None:
        issuer.unit.apply_effects(issuer.task.now_ps)
        if issuer.has_data and loop.selected:
            issuer.unit.copy_rows(loop.effect(dst, src))

    return scalar_loop(issuer, line, dst, src, loop, extra_cycles, finish)


def scalar_loop(
    issuer: Issuer,
    line: int,
    dst: View,
    src: View,
    loop: RowLoop,
    extra_cycles: int,
    finish: Callable[[], Any] | None = None,
    name: str = "scalar_copy",
) -> Waiting:
    """Issue a scalar loop within NRAM whose rows are known: its time and record. `finish` moves the rows at its end."""
    issuer.begin()
    board, task = issuer.board, issuer.task
    row_elements = row_bytes_of(name, dst) // dst.itemsize
    per_iteration = loop.address.cycles(board) + extra_cycles
    cycles = scalar_copy_cycles(board, loop.iterations, loop.selected, row_elements, per_iteration)
    issue_ps = task.now_ps
    # In order with earlier vector instructions (`mlusim.cores.synchronisation.ordering`).
    start_ps = max(issue_ps, issuer.unit.vector_free_ps)
    end_ps = start_ps + board.cycles_ps(cycles)
    record = issuer.record(
        name,
        SCALAR,
        line,
        issue_ps,
        start_ps,
        end_ps,
        (dst, src, *loop.indices),
        count=loop.iterations,
        nbytes=loop.selected * row_elements * dst.itemsize,
        waited_for=issuer.unit.vector_record if start_ps > issue_ps else NONE,
    )
    log_addresses(issuer, record, dst, src, loop)
    issuer.log.loops[record] = loop.record("scalar", extra_cycles)
    task.unawaited = record
    if task.pending_io or task.pending_move:
        return Waiting(task, suspends=task.until(end_ps), finish=finish)
    task.now_ps = end_ps
    return Waiting(task, suspends=False, finish=finish)
