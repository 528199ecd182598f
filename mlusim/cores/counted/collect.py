"""Selection of elements by a mask: `collect`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mlusim.cores.compute.uncached_vector import issue_counted, wait_for_register
from mlusim.cores.counted.row_loop import check_no_overlap
from mlusim.cores.operands import Passed, check_view
from mlusim.errors import MissingDataError, OperandError
from mlusim.memory import element_loops
from mlusim.memory.addresses import Addresses
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting


def collect(
    issuer: Issuer, line: int, dst: Passed, src: Passed, mask: Passed, *, known: Addresses | None = None
) -> Waiting:
    """dst[:n] = the elements of src where mask is not 0, in order, as `Core.collect`; the result of the wait is n (B).

    Args:
        dst: in NRAM, with room for all elements of `src`; only the first n elements are written.
        src, mask: in NRAM, of equal size; mask may have any element type.
        known: used to count in a timing-only run: the lookups within the windows of these addresses represent the
            elements of `src`.

    Two vector instructions, and a wait for the vector pipe: the count goes to a register. Raises `OperandError` for
    operands that do not fit, `MissingDataError` if a timing-only run has neither mask nor addresses.
    """
    for view in (dst, src, mask):
        check_view("collect", view)
    if mask.size != src.size or dst.size < src.size or dst.dtype != src.dtype:
        raise OperandError(
            f"collect of {src!r} by {mask!r} to {dst!r}: dst and src must have the same element type, mask and src the "
            "same number of elements, and dst at least as many"
        )
    check_no_overlap("collect", dst, src)
    check_no_overlap("collect", dst, mask)
    if not issuer.has_data and known is None:
        raise MissingDataError("collect in a timing-only run, which has no mask: name the addresses as `known`")
    counts: list[int] = []
    views = (dst.reshape(-1)[: src.size], src, mask)
    record = issue_counted(issuer, line, "collect", views, partial(_collect, dst, src, mask, counts), 2)

    def finish() -> int:
        if counts:
            issuer.log.addresses[record] = {"dst": issuer.log.positions(counts[0])}
        elif known is not None:
            _, selected = known.resolve("collect")
            return known.count if selected is None else len(selected)
        return counts[0]

    return wait_for_register(issuer, line, record, finish)


def _collect(dst: View, src: View, mask: View, counts: list[int]) -> None:
    selected = mask.typed().reshape(-1) != 0
    counts.append(element_loops.keep_selected(src.raw().reshape(-1), selected, dst.raw().reshape(-1)))
