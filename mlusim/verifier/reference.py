"""Comparison of an output with its reference: the elements that differ, and the operation that wrote the first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.dtypes import dtype_of
from mlusim.errors import InputError
from mlusim.log import NONE, Log
from mlusim.memory.view import View
from mlusim.units import group_digits
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import union
from mlusim.verifier.accesses.table import BY_ROWS, FILLS
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import Finding, Site, site_of, wrong_part
from mlusim.verifier.producer import Element, last_writer, lineage_of, loaded_before, sources_of
from mlusim.verifier.replaced import replaced_by
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, locations_of, source_file

# Differences up to this part of the largest value of the reference may be rounding: float16 has 10 bits.
_ROUNDING = 2.0**-10
# Wrong elements, the first and the last among them, of which the lines that made them are named.
_SAMPLE = 4


def differs(
    log: Log,
    output: View,
    result: Array,
    expected: Array,
    tolerance: float = 0.0,
    absolute_tolerance: float = 0.0,
    repeat: Callable[[int], Mapping[int, Array]] | None = None,
) -> Finding | None:
    """Compare an output with its reference; None if they are equal.

    Args:
        log: the log of the run.
        output: the tensor.
        result, expected: arrays. Raises `InputError` if shape or element type differ.
        repeat: returns the contents of on-chip buffers at a time in ps, by allocation; used to show the operands.
        tolerance: largest difference relative to the reference.
        absolute_tolerance: largest difference in addition to that. Without either, bits are compared, with all NaNs
            equal.
    """
    identity = output.allocation.identity
    allocation = log.allocations[identity]
    if expected.shape != result.shape or expected.dtype != result.dtype:
        raise InputError(
            f"the reference of {allocation.name} is {expected.dtype} {list(expected.shape)} and the output "
            f"{result.dtype} {list(result.shape)}: they must be the same"
            + ("" if expected.dtype == result.dtype else f"; convert the reference: .astype('{result.dtype}')")
        )
    wrong = _wrong(result, expected, tolerance, absolute_tolerance)
    if not len(wrong):
        return None
    itemsize = result.dtype.itemsize
    positions = np.array(np.unravel_index(wrong, result.shape or (1,)))
    first = _bytes_of(output, positions)
    starts, stops = union(first, first + itemsize)
    index = tuple(positions[:, 0].tolist()) if result.shape else ()
    run = Run(log)
    writer, read = _origin(run, identity, int(first[0]), result.dtype, repeat)
    right = np.array(np.unravel_index(_right_beside(wrong, result.size), result.shape or (1,)))
    sample = first[np.linspace(0, len(first) - 1, min(_SAMPLE, len(first)), dtype=np.int64)]
    wrongly, beside = (
        [lineage_of(run, Element(identity, int(byte), itemsize)) for byte in some]
        for some in (sample, _bytes_of(output, right))
    )
    made = wrongly[0]
    only, lacks = made.unlike(beside)
    lacking = f"let {locations_of(lacks)} make this element, too: those beside it were made there, and are right"
    through = set().union(*(one.made_at for one in wrongly))
    records = {record for one in wrongly for record in one.records}
    begin = _begin(run, identity, records)
    return Finding(
        kind="wrong-value",
        title=f"{group_digits(len(wrong))} of {group_digits(result.size)} elements of {allocation.name} are wrong; "
        f"the first, {allocation.name}{list(index)}, is {result[index]!s} and should be {expected[index]!s}",
        region=describe(allocation, starts, stops),
        nbytes=int((stops - starts).sum()),
        sites=writer,
        location=read,
        rule=_rule(tolerance, absolute_tolerance),
        remedies=(
            (
                *([lacking] if lacks else []),
                *_replaced_first(run, writer),
                _check(through, only, begin)
                + ("" if begin else _turns(writer[0]))
                + _if_rounding(result, expected, wrong),
            )
            if writer
            else (_nothing_writes(run, identity),)
        ),
        fields={
            "tensor": allocation.name,
            "elements": len(wrong),
            "through": [line.location for line in sorted(through)],
            "read_at": {buffer: line.location for buffer, line in made.read_at.items()},
        },
    )


def _replaced_first(run: Run, sites: tuple[Site, ...]) -> list[str]:
    """Return the remedy for a store of what has replaced another result that nothing had read."""
    if len(sites) == 1:
        return []
    stores, makes = sites
    alloc = int(run.columns["a_alloc"][stores.record])
    lost = replaced_by(run, makes.record, alloc)
    if lost < 0:
        return []
    other, buffer = run.site(lost, ""), run.log.allocations[alloc].name
    why = f"the first of them replaces what {other.operation} wrote at {other.location} before anything reads it"
    return [wrong_part(buffer, (makes, stores), why)]


def _check(through: Collection[SourceLine], only: Collection[SourceLine], begin: str) -> str:
    """Return what to check: the lines that made the bytes, and first those that did not make the right ones."""
    first = f": first {locations_of(only)}, where those beside it, which are right, were not made" if only else begin
    if not through:
        return f"check where this store reads them{first}"
    if len(through) == 1:
        return f"check the operation that made these bytes{begin}"
    return f"check the operations that made these bytes, at {locations_of(through)}{first}"


def _begin(run: Run, output: int, records: Collection[int]) -> str:
    """Return which of some records to begin with: those that read another tensor or buffer, and nothing the rest of it.

    Of addresses that a task has loaded, the rest may be meant for others.
    """
    accesses, fills = run.accesses, ops_among(run.log, FILLS)
    rests, lines = [], set[SourceLine]()
    reads = np.flatnonzero(np.isin(accesses.record, list(records)) & ~accesses.write)
    for alloc in np.unique(accesses.alloc[reads]).tolist():
        own, allocation = accesses.where(np.flatnonzero(accesses.alloc == alloc)), run.log.allocations[alloc]
        cells, rows = Cells(own, allocation.nbytes), reads[accesses.alloc[reads] == alloc]
        filled = cells.count(own.write & ~fills[run.columns["op"][own.record]]) > 0
        filled |= allocation.read_only or alloc in run.log.host.writes
        unread = filled & (cells.count(~own.write) == 0) & (alloc != output) & (alloc not in accesses.unknown)
        if unread.any() and not _at_loaded_address(run, int(rows[-1])):
            rests.append(describe(allocation, *cells.runs(unread)).rpartition(", ")[0])
            lines |= run.lines_of(rows)
    rest = " and ".join(dict.fromkeys(rests))
    return f": begin at {locations_of(lines)}{_loops(lines)}; nothing reads {rest}" if rests else ""


def _at_loaded_address(run: Run, row: int) -> bool:
    """Return whether a read may be at an address that was loaded: it is by rows, or its task has loaded integers."""
    allocations, alloc, record = run.log.allocations, int(run.accesses.alloc[row]), int(run.accesses.record[row])
    by_rows = run.log.ops[int(run.columns["op"][record])] in BY_ROWS
    if by_rows or allocations[alloc].memory != "gdram":
        return by_rows
    sources = {int(run.columns["a_alloc"][load]) for load in loaded_before(run, record)} - {alloc}
    return any(dtype_of(allocations[source].dtype).kind in "iu" for source in sources)


def _loops(lines: Iterable[SourceLine]) -> str:
    """Return the innermost loops around lines, as `, in the loop at kernel.py:5`; empty if there are none."""
    around = ((line.file, source_file(line.file).loops_around(line.line)) for line in lines)
    begins = {SourceLine(file, max(loops)[0]) for file, loops in around if loops}
    return f", in the loop at {locations_of(begins)}" if begins else ""


def _turns(store: Site) -> str:
    """Return, for a store that adds to what is there, the loop that repeats it: one of its turns may be missing."""
    loop = _loops((store,)) if store.operation in ATOMIC_NAMES else ""
    return f", and how often{loop.removeprefix(', in')} adds to them" if loop else ""


def _bytes_of(output: View, positions: Integers) -> Integers:
    """Return the first bytes of elements of an output; `positions`: their coordinates, one element per column."""
    return output.offset + np.array(output.strides or (0,), np.int64) @ positions


def _right_beside(wrong: Integers, size: int) -> Integers:
    """Return the flat positions of the last right element before the first wrong one, and of the first one after it."""
    ends = np.flatnonzero(np.diff(np.append(wrong, size)) > 1)
    after = int(wrong[ends[0]]) + 1 if len(ends) else size
    return np.array([flat for flat in (int(wrong[0]) - 1, after) if 0 <= flat < size], np.int64)


def _nothing_writes(run: Run, identity: int) -> str:
    """Return the remedy for an element that no operation writes, with the lines that write others of its tensor."""
    log = run.log
    writes = np.flatnonzero(run.accesses.write)
    of_tensors = np.array([allocation.memory == "gdram" for allocation in log.allocations], bool)
    own = writes[run.accesses.alloc[writes] == identity]
    others = own if len(own) else writes[of_tensors[run.accesses.alloc[writes]]]
    lines = locations_of(run.lines_of(others))
    if not lines:
        return "write this element: no operation writes an output; look for a condition that is never true"
    names = sorted({log.allocations[alloc].name for alloc in np.unique(run.accesses.alloc[others]).tolist()})
    what = f"others of {names[0]} are written" if len(own) else f"what is written is {' and '.join(names)},"
    return f"write this element, too: no operation does; {what} at {lines}"


def _wrong(result: Array, expected: Array, tolerance: float, absolute_tolerance: float) -> Array:
    """Return the flat positions of the elements that differ by more than the tolerances."""
    raw = f"V{result.dtype.itemsize}" if result.dtype.itemsize > 8 else f"u{result.dtype.itemsize}"
    actual, reference = np.ascontiguousarray(result).reshape(-1), np.ascontiguousarray(expected).reshape(-1)
    wrong = np.flatnonzero(np.asarray(actual.view(raw) != reference.view(raw)))
    with np.errstate(all="ignore"):
        actual, reference = actual[wrong], reference[wrong]
        tolerated = (actual != actual) & (reference != reference)  # noqa: PLR0124 - NaN alone is not itself
        if tolerance or absolute_tolerance:
            # An infinity is within no tolerance, and none makes a finite value an infinity.
            actual, reference = _wide(actual), _wide(reference)
            close = np.abs(actual - reference) <= absolute_tolerance + tolerance * np.abs(reference)
            tolerated |= (actual == reference) | (np.isfinite(reference) & close)
    kept: Array = wrong[~tolerated]
    return kept


def _wide(values: Array) -> Array:
    """Return values in a type in which their differences neither wrap nor overflow."""
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _rule(tolerance: float, absolute_tolerance: float) -> str:
    limits = [f"{tolerance:g} of it"] if tolerance else []
    limits += [f"{absolute_tolerance:g}"] if absolute_tolerance else []
    return "the output must equal the reference" + (f" within {' plus '.join(limits)}" if limits else ", bit by bit")


def _if_rounding(result: Array, expected: Array, wrong: Array) -> str:
    """Return, where all differences are as small as those of rounding, the tolerance that would admit them."""
    if result.dtype.kind in "biu":
        return ""
    with np.errstate(all="ignore"):
        actual, reference = _wide(result.reshape(-1)[wrong]), _wide(expected.reshape(-1)[wrong])
        finite = np.isfinite(expected)
        largest = float(np.abs(actual - reference).max())
        scale = float(np.abs(_wide(expected[finite])).max()) if finite.any() else 0.0
    if not 0 < largest <= _ROUNDING * scale:
        return ""
    return (
        f"; if it is only rounding (the largest difference is {largest:.2g}), allow it: absolute_tolerance or "
        "--absolute-tolerance"
    )


def _origin(
    run: Run, identity: int, byte: int, dtype: np.dtype[Any], repeat: Callable[[int], Mapping[int, Array]] | None
) -> tuple[tuple[Site, ...], str]:
    """Return the last writer of an element with the producer of the bytes it stored, and the producer's operands."""
    log, nbytes = run.log, dtype.itemsize
    store = last_writer(run, Element(identity, byte, nbytes), len(log))
    if store == NONE:
        return (), ""
    wrote = site_of(log, store, "writes")
    stored = [source for source in sources_of(run, store, byte) if _is_on_chip(log, source)][:1]
    producer = last_writer(run, replace(stored[0], nbytes=nbytes), store) if stored else NONE
    if producer == NONE:
        return (wrote,), ""
    made = site_of(log, producer, "makes")
    reads = [source for source in sources_of(run, producer, stored[0].byte) if _is_on_chip(log, source)]
    values = repeat(made.start_ps) if reads and repeat is not None else {}
    texts = [text for read in reads if (text := _operand(log, producer, read, values.get(read.alloc), dtype))]
    return (wrote, made), f"{made.operation} read {' and '.join(texts)}" if texts else ""


def _is_on_chip(log: Log, element: Element) -> bool:
    return log.allocations[element.alloc].memory in ("nram", "sram")


def _operand(log: Log, record: int, read: Element, array: Array | None, dtype: np.dtype[Any]) -> str:
    """Return an element with its value; empty if its value or its type is unknown.

    A buffer of a compiled kernel is bytes: its elements have the type of the result, unless the operation converts it.
    """
    if array is None:
        return ""
    allocation = log.allocations[read.alloc]
    itemsize = dtype_of(allocation.dtype).itemsize
    if itemsize != read.nbytes:
        if read.nbytes != dtype.itemsize or log.ops[log.records.op(record)] == "convert":
            return ""
        end = read.byte + read.nbytes
        value = np.frombuffer(array.tobytes()[read.byte : end], dtype)[0]
        return f"{allocation.name}[{read.byte}:{end}] = {value!s}"
    at = [int(index) for index in np.unravel_index(read.byte // itemsize, array.shape)] if array.shape else []
    return f"{allocation.name}{at} = {array[tuple(at)]!s}"
