"""Loops over the elements of arrays for which NumPy needs several passes.

`_element_loops.c` has the same functions. They replace these where the package is compiled; results are the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array, Flags, Integers
from mlusim.units import ceil_div


def scatter_rows(to: Array, rows: Integers, origin: Array, origin_rows: Integers | None) -> None:
    """to[rows[i]] = origin[origin_rows[i]], in order: of repeated rows the last one stored remains.

    Args:
        to: contiguous; a row has as many bytes as one of `origin`.
        rows: int32 or int64, contiguous, 0 or more and below the number of rows of `to`.
        origin: contiguous; shares no bytes with `to`.
        origin_rows: as `rows`, of `origin`, one for each of `rows`; None for 0, 1, 2, ...

    Raises IndexError for a row outside `to` or `origin`, possibly after earlier rows are stored.
    """
    values = origin[: len(rows)] if origin_rows is None else origin[as_numpy_index(origin_rows)]
    if len(values) < len(rows):
        raise IndexError(f"the row at index {len(values)} is outside the {len(values)} rows of the origin")
    # NumPy assigns in order; tests check it.
    to.reshape(-1).view(values.dtype).reshape(-1, *values.shape[1:])[as_numpy_index(rows)] = values


def as_numpy_index(rows: Integers) -> Integers:
    """Return row numbers of the type by which NumPy indexes; it converts others more slowly than `astype` does."""
    return rows.astype(np.int64, copy=False)


def keep_selected(values: Array, selected: Flags, to: Array) -> int:
    """Store the selected values one after the other, and return how many there are.

    Args:
        values: contiguous, of one axis.
        selected: one for each value, contiguous.
        to: of the element type of `values`, contiguous, of one axis, with room for those selected. What lies behind
            them keeps its value. Shares no bytes with `values`.
    """
    positions = selected.nonzero()[0]
    values.take(positions, out=to[: len(positions)], mode="clip")
    return len(positions)


def rows_of_lookups(
    index: Integers, axes: Integers, positions: Integers | None, base: int, rows: Integers, selected: Integers | None
) -> int:
    """Store the row that each lookup addresses, of lookups whose values are all within their windows.

    The row is base + its position + the sum of (value - start) * step over its values.

    Args:
        index: int32 or int64, contiguous: the values of the first lookup, of the second, ...
        axes: int64 of (values of a lookup, 4), contiguous: extent, start and stop of the window, step.
        positions: int64, contiguous, one for each lookup; None for zeros.
        base: row at position 0 if all values are at the start of their windows.
        rows: int64, or int32 if the index is int32 and all results fit. Receives the rows.
        selected: int64; receives the number of the lookup of each row. None if all values are within their windows.

    Returns the number of rows, or -1 for a value outside -extent .. extent - 1; `rows` and `selected` are undefined
    beyond it.
    """
    rows[...] = base
    if positions is not None:
        rows += positions.astype(rows.dtype, copy=False)
    is_selected: Any = True
    for column, (extent, start, stop, step) in enumerate(axes.tolist()):
        column_values = index[column :: len(axes)]
        if len(column_values) and (column_values.min() < -extent or column_values.max() >= extent):
            return -1
        values = column_values.astype(rows.dtype)
        # The sign bit, spread over the word, selects the extent without a branch.
        values += (values >> (8 * values.itemsize - 1)) & extent
        if (start, stop) != (0, extent):
            is_selected &= (values >= start) & (values < stop)
        values -= start
        values *= step
        rows += values
    if selected is None:
        return len(rows)
    numbers = np.flatnonzero(np.broadcast_to(is_selected, len(rows)))
    selected[: len(numbers)], rows[: len(numbers)] = numbers, rows[numbers]
    return len(numbers)


def rows_of_runs(begins: Integers, lengths: Integers) -> int:
    """Return the number of rows of runs; 0 if a run has none, or begins before the end of the previous one.

    Args:
        begins, lengths: int64, contiguous: the first row of each run, and its number of rows.
    """
    rows, end = 0, None
    for begin, length in zip(begins.tolist(), lengths.tolist()):  # noqa: B905 - one length for each
        if length <= 0 or (end is not None and begin < end):
            return 0
        end = begin + length
        rows += length
    return rows


def units_of_runs(begins: Integers, lengths: Integers, base: int, row_bytes: int, unit_bytes: int) -> tuple[int, int]:
    """Return the bus units that runs of rows touch, and those that one run covers.

    Args:
        begins, lengths: as `rows_of_runs` takes them, all 0 or more.
        base: address of row 0.
        row_bytes, unit_bytes: size of a row and of a unit.
    """
    units = covered = 0
    # A list has some tens of runs: too few for arrays to be faster.
    for begin, length in zip(begins.tolist(), lengths.tolist()):  # noqa: B905 - one length for each
        first = base + begin * row_bytes
        last = first + length * row_bytes
        units += ceil_div(last, unit_bytes) - first // unit_bytes
        covered += max(last // unit_bytes - ceil_div(first, unit_bytes), 0)
    return units, covered


def copy_runs(to: Array, origin: Array, begins: Integers, lengths: Integers) -> None:
    """Store runs of rows of `origin` in `to`, one after the other.

    Args:
        to: contiguous, with rows of the same shape and type.
        origin: contiguous; shares no bytes with `to`.
        begins, lengths: int64, contiguous: the first row of each run, and its number of rows. The sum of the lengths is
            the number of rows of `to`.

    Raises ValueError for runs that exceed `origin` or `to`, possibly after earlier ones are copied.
    """
    # A slice of a memoryview costs the host a third of a slice of an array.
    origin_bytes = origin.data
    runs = zip(begins.tolist(), lengths.tolist())  # noqa: B905 - one length for each
    run_bytes = b"".join([origin_bytes[begin : begin + length] for begin, length in runs])
    to[...] = np.frombuffer(run_bytes, origin.dtype).reshape(to.shape)


def sort_into_bins(
    numbers: Integers,
    values: Array,
    sorted_numbers: Integers,
    sorted_values: Array,
    starts: Integers,
    size: int,
    limit: int,
) -> bool:
    """Sort numbers into bins of `size` numbers each, and values with them, in order within a bin.

    Args:
        numbers: integers, contiguous.
        values: contiguous, one for each number.
        sorted_numbers, sorted_values: as many, of the same types, contiguous; they share no bytes with the first two.
            Receive the numbers, counted from the first of their bin, and the values.
        starts: int64 of (bins + 1): receives where each bin begins in the sorted arrays, and their length.
        size: numbers per bin, 1 or more.
        limit: every number must be 0 or more and less; at most size * bins and the range of the type.

    Returns false, without effect, if a number is outside the limit.
    """
    # As unsigned numbers, negative ones exceed every limit.
    if len(numbers) and int(np.maximum.reduce(numbers.view(f"u{numbers.itemsize}"))) >= limit:
        return False
    bin_of, number_in_bin = bins_and_remainders(numbers, size, len(starts) - 1)
    order = store_sorted(bin_of, number_in_bin, values, sorted_numbers, sorted_values)
    starts[...] = starts_of(bin_of, len(starts) - 1, order)
    return True


def bins_and_remainders(numbers: Integers, size: int, bins: int) -> tuple[Any, Any]:
    """Return the bin of each number, in the narrowest type, and the number counted from the first of its bin."""
    bin_type = np.uint8 if bins <= 1 << 8 else np.uint16
    if size > np.iinfo(numbers.dtype).max:
        # All of them are in the first bin.
        return np.zeros(len(numbers), bin_type), numbers
    multiples = numbers // size
    bin_of = multiples.astype(bin_type)
    # The remainder of the division: NumPy divides by vector instructions, and `%` does not.
    multiples *= size
    return bin_of, np.subtract(numbers, multiples, out=multiples)


def store_sorted(bin_of: Any, numbers: Any, values: Array, sorted_numbers: Integers, sorted_values: Array) -> Any:
    """Store numbers and values in the order of the bins, and return it, or None if they were in this order."""
    numbers = numbers.astype(sorted_numbers.dtype, copy=False)
    # The reduction of `all`, without its calls in Python.
    if np.logical_and.reduce(bin_of[1:] >= bin_of[:-1]):
        sorted_numbers[...], sorted_values[...] = numbers, values
        return None
    order = bin_of.argsort(kind="stable")
    numbers.take(order, out=sorted_numbers, mode="clip")
    values.take(order, out=sorted_values, mode="clip")
    return order


def starts_of(bin_of: Any, bins: int, order: Any = None) -> Integers:
    """Return where each bin begins in a list of bins, which `order` sorts if it is not sorted, and its length."""
    starts = np.full(bins + 1, len(bin_of))
    # Bins of another type than `bin_of` would make NumPy convert all of `bin_of`.
    starts[:-1] = bin_of.searchsorted(np.arange(bins, dtype=bin_of.dtype), sorter=order)
    return starts


if not TYPE_CHECKING:
    with suppress(ImportError):
        from mlusim.memory import _element_loops as in_c

        rows_of_lookups, scatter_rows, sort_into_bins = in_c.rows_of_lookups, in_c.scatter_rows, in_c.sort_into_bins
        keep_selected = in_c.keep_selected
        rows_of_runs, units_of_runs, copy_runs = in_c.rows_of_runs, in_c.units_of_runs, in_c.copy_runs
