"""Loops that sort rows and their values into bins, by vector or scalar code."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.compute.uncached_vector import issue_counted, wait_for_register
from mlusim.cores.counted.row_loop import RowLoop, check_index, check_no_overlap
from mlusim.cores.counted.scalar_copy import scalar_loop
from mlusim.cores.operands import Passed, check_view
from mlusim.cores.scalar import arithmetic
from mlusim.dtypes import is_integer
from mlusim.errors import AccessError, MissingDataError, OperandError
from mlusim.memory import element_loops
from mlusim.memory.addresses import Addresses
from mlusim.memory.allocation import POISON
from mlusim.memory.bin_costs import (
    COLLECT_BINS_PASSES,
    MAX_BINS,
    bin_counter_cycles,
    scalar_bins_instructions,
)
from mlusim.memory.view import View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.tasks.waiting import Waiting


def collect_bins(
    issuer: Issuer,
    line: int,
    rows_out: Passed,
    values_out: Passed,
    rows: Passed,
    values: Passed,
    mask: Passed,
    *,
    size: int,
    bins: int,
    known: Addresses | None = None,
) -> Waiting:
    """Distribute rows and their values to bins of `size` rows each, in order within a bin.

    For each bin in turn `__bang_sub_scalar` and `__bang_lt` compute a mask of its rows, `__bang_collect` appends these
    and their values to those of the previous bins, and `__bang_count` counts them (B). If that is faster, the loop
    first sorts into groups of bins, then each group from there into `rows` and `values`, and moves both.

    Args:
        rows_out, values_out: in NRAM, of the size of `rows`: row numbers within their bin, and values.
        rows: integers in NRAM, 0 to size * bins - 1. Undefined afterwards, as fresh memory is.
        values: in NRAM, one per row, of any element type. Undefined afterwards.
        mask: scratch in NRAM, of the size and element type of `rows`. Undefined afterwards.
        size: rows per bin.
        bins: number of bins.
        known: used to count in a timing-only run: the lookups of these addresses represent `rows`.

    The result of the wait, in registers, is int64 of (bins + 1): the index in the lists where each bin begins, and
    their length. Cost: the vector instructions of `mlusim.memory.bin_costs.bin_levels`, and a wait for the vector pipe
    at the end. Not modelled: that wait for every bin. Raises `OperandError` for operands that do not fit,
    `AccessError` for a row outside all bins, `MissingDataError` if a timing-only run has neither rows nor addresses.
    """
    views = (rows_out, values_out, rows, values, mask)
    for view in views:
        check_view("collect_bins", view)
    if not is_integer(rows.dtype) or rows_out.dtype != rows.dtype or mask.itemsize != rows.itemsize:
        raise OperandError(f"collect_bins of {rows!r} to {rows_out!r} with {mask!r}: all must be integers of one width")
    if values_out.dtype != values.dtype or len({view.size for view in views}) > 1:
        raise OperandError(
            f"collect_bins of {rows!r} and {values!r} to {rows_out!r} and {values_out!r} with {mask!r}: as many "
            "elements each, values of one type"
        )
    _check_bins("collect_bins", size, bins, views)
    if not issuer.has_data and known is None:
        raise MissingDataError(
            "collect_bins in a timing-only run, which has no rows: name the addresses as `known`, or run with data"
        )
    bin_starts: list[Integers] = []
    record = issue_counted(
        issuer,
        line,
        "collect_bins",
        (rows_out, rows, values, rows, values, values_out, mask),
        partial(_distribute, *views, size, bins, bin_starts),
        COLLECT_BINS_PASSES * bins,
    )

    def finish() -> Integers:
        if not bin_starts and known is not None:
            numbers, _ = known.resolve("collect_bins")
            _check_inside("collect_bins", numbers, size, bins)
            bin_starts.append(_starts_of(numbers, size, bins))
        return bin_starts[0]

    return wait_for_register(issuer, line, record, finish)


def scalar_bins(
    issuer: Issuer,
    line: int,
    rows_out: Passed,
    values_out: Passed,
    rows: Addresses,
    values: Passed,
    counters: Passed,
    *,
    size: int,
) -> Waiting:
    """Distribute rows and their values to bins of `size` rows each by scalar loops, in order within a bin.

    A counting sort. The first loop counts the rows of each bin in NRAM; a loop over the bins replaces each count by the
    start of the bin; the second loop stores each row, numbered within its bin, and its value after the previous ones
    of its bin.

    Args:
        rows_out, values_out: in NRAM, as many elements as `rows`: row numbers within their bin, and values.
        rows: the row numbers, without windows, computed from index tuples in NRAM.
        values: in NRAM, one per row, of any element type.
        counters: integers in NRAM, one for each bin. Afterwards each is the end of its bin.
        size: rows per bin.

    The result of the wait, in registers, is int64 of (bins + 1): the index in the lists where each bin begins, and
    their length. Cost: `mlusim.memory.bin_costs.scalar_bins_cycles`, and `bin_counter_cycles` for each bin. Raises
    `OperandError` for operands that do not fit, `AccessError` for a row outside all bins.
    """
    name = "scalar_bins"
    views = (rows_out, values_out, values, counters)
    for view in views:
        check_view(name, view)
        check_index(issuer, name, view)
    if not isinstance(rows, Addresses) or rows.index is None or rows.pattern.narrowed:
        raise OperandError(f"{name} of {rows!r}: it computes rows from an index in NRAM, without windows")
    check_index(issuer, name, rows.index)
    if not (is_integer(rows_out.dtype) and is_integer(counters.dtype)) or values_out.dtype != values.dtype:
        raise OperandError(
            f"{name} of {values!r} to {rows_out!r} and {values_out!r} with {counters!r}: rows and counters must be "
            "integers, values of one type"
        )
    if {view.shape for view in views[:3]} != {(rows.count,)} or counters.ndim != 1:
        raise OperandError(
            f"{name} of {rows.count} rows and {values!r} to {rows_out!r} and {values_out!r} with {counters!r}: one "
            "axis each, as many values as rows"
        )
    bins = counters.size
    _check_bins(name, size, bins, (*views, rows.index))
    issuer.unit.update_memory(issuer.task.now_ps)
    numbers, _ = rows.resolve(name)
    _check_inside(name, numbers, size, bins)
    arithmetic(issuer, line, bin_counter_cycles(issuer.board), bins, counters=True)

    def finish() -> Integers:
        issuer.unit.update_memory(issuer.task.now_ps)
        if not issuer.has_data:
            return _starts_of(numbers, size, bins)
        row_numbers, starts = np.empty_like(numbers), np.empty(bins + 1, np.int64)
        limit = _limit(numbers, size, bins)
        element_loops.sort_into_bins(numbers, values.raw(), row_numbers, values_out.raw(), starts, size, limit)
        rows_out.typed()[...] = row_numbers
        counters.typed()[...] = starts[1:]
        return starts

    instructions = scalar_bins_instructions(rows.instructions)
    loop = RowLoop(rows.count, rows.count, None, None, instructions, (rows.index, rows_out, counters))
    return scalar_loop(issuer, line, values_out, values, loop, issuer.board.scalar_loop_cycles, finish, name)


def _check_bins(name: str, size: int, bins: int, views: tuple[View, ...]) -> None:
    if size < 1 or not 1 <= bins <= MAX_BINS:
        raise OperandError(f"{name} of {bins} bins of {size} rows: 1 to {MAX_BINS} bins, each of 1 or more")
    for first, second in combinations(views, 2):
        check_no_overlap(name, first, second)


def _distribute(
    rows_out: View,
    values_out: View,
    rows: View,
    values: View,
    mask: View,
    size: int,
    bins: int,
    bin_starts: list[Integers],
) -> None:
    numbers, value_bytes = rows.typed().reshape(-1), values.raw().reshape(-1)
    sorted_rows, sorted_values = rows_out.typed().reshape(-1), values_out.raw().reshape(-1)
    starts, limit = np.empty(bins + 1, np.int64), _limit(numbers, size, bins)
    if not element_loops.sort_into_bins(numbers, value_bytes, sorted_rows, sorted_values, starts, size, limit):
        raise _outside_bins("collect_bins", numbers, size, bins)
    bin_starts.append(starts)
    for scratch in (rows, values, mask):
        scratch.raw().view(np.uint8).fill(POISON)


def _limit(numbers: Any, size: int, bins: int) -> int:
    """Return the first number that is outside all bins, or that the type of `numbers` cannot express."""
    value_bits: int = 8 * numbers.itemsize - (numbers.dtype.kind == "i")
    return min(size * bins, 1 << value_bits)


def _check_inside(name: str, numbers: Any, size: int, bins: int) -> None:
    """Raise `AccessError` for a row outside all bins."""
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < size * bins:
        raise _outside_bins(name, numbers, size, bins)


def _outside_bins(name: str, numbers: Any, size: int, bins: int) -> AccessError:
    low, high = int(numbers.min()), int(numbers.max())
    return AccessError(f"{name}: row {low if low < 0 else high} is outside the {bins} bins of {size} rows")


def _starts_of(numbers: Any, size: int, bins: int) -> Integers:
    """Return where each bin begins in sorted order, and the number of rows."""
    bin_of, _ = element_loops.bins_and_remainders(numbers, size, bins)
    # NumPy sorts integers of at most 16 bits by radix if the sort is stable.
    return element_loops.starts_of(np.sort(bin_of, kind="stable"), bins)
