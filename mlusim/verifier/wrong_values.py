"""Comparison of an output with its reference: the elements that differ, and the operation that wrote the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.dtypes import dtype_of
from mlusim.errors import InputError, flag_of
from mlusim.log import NONE, Log
from mlusim.memory.view import View
from mlusim.units import group_digits
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.geometry import union
from mlusim.verifier.findings import Finding, Site, site_of
from mlusim.verifier.producer import Element, Lineage, last_writer, lineage_of, sources_of
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import locations_of
from mlusim.verifier.value_remedies import remedies_of

# Differences up to this part of the largest value of the reference may be rounding: float16 has 10 bits. Those of a few
# units in the last place probably are.
_ROUNDING = 2.0**-10
_FEW_UNITS = 16
# Wrong elements, the first and the last among them, of which the lines that made them are named.
_SAMPLE = 4
_MOSTLY = 0.9


def compare_output(
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
    _check_reference(allocation.name, result, expected)
    wrong = wrong_elements(result, expected, tolerance, absolute_tolerance)
    if not len(wrong):
        return None
    itemsize = result.dtype.itemsize
    positions = np.array(np.unravel_index(wrong, result.shape or (1,)))
    first_bytes = _first_bytes(output, positions)
    starts, stops = union(first_bytes, first_bytes + itemsize)
    index = tuple(positions[:, 0].tolist()) if result.shape else ()
    run = Run(log)
    sites, operand_values = _origin(run, identity, int(first_bytes[0]), result.dtype, repeat)
    # Of few right ones, those beside wrong ones may be right by chance.
    right = _right_neighbours(wrong, result.shape) if len(wrong) < _MOSTLY * result.size else wrong[:0]
    right_positions = np.array(np.unravel_index(right, result.shape or (1,)))
    sample = first_bytes[np.linspace(0, len(first_bytes) - 1, min(_SAMPLE, len(first_bytes)), dtype=np.int64)]
    wrong_lineages, right_lineages = (
        [lineage_of(run, Element(identity, int(byte), itemsize)) for byte in element_bytes]
        for element_bytes in (sample, _first_bytes(output, right_positions))
    )
    remedies = remedies_of(run, sites, wrong_lineages, right_lineages) if sites else [_missing_write(run, identity)]
    making_lines = set().union(*(lineage.made_at for lineage in wrong_lineages))
    return Finding(
        kind="wrong-value",
        title=f"{group_digits(len(wrong))} of {group_digits(result.size)} elements of {allocation.name} are wrong; "
        f"the first, {allocation.name}{list(index)}, is {result[index]!s} and should be {expected[index]!s}",
        region=describe(allocation, starts, stops),
        nbytes=int((stops - starts).sum()),
        sites=sites,
        location=operand_values,
        rule=_rule(tolerance, absolute_tolerance),
        remedies=tuple(_with_tolerance(remedies, result, expected, wrong)),
        fields={
            "tensor": allocation.name,
            "elements": len(wrong),
            "through": [line.location for line in sorted(making_lines)],
        },
        clues={
            "made_by": _making_lines(wrong_lineages),
            "records": list(dict.fromkeys(record for lineage in wrong_lineages for record in lineage.records)),
            "read_at": {buffer: line.location for buffer, line in wrong_lineages[0].read_at.items()},
        },
    )


def _check_reference(name: str, result: Array, expected: Array) -> None:
    if expected.shape != result.shape or expected.dtype != result.dtype:
        raise InputError(
            f"the reference of {name} is {expected.dtype} {list(expected.shape)} and the output "
            f"{result.dtype} {list(result.shape)}: they must be the same"
            + ("" if expected.dtype == result.dtype else f"; convert the reference: .astype('{result.dtype}')")
        )


def _with_tolerance(remedies: Sequence[str], result: Array, expected: Array, wrong: Integers) -> list[str]:
    """Return the remedies with that of a tolerance: the first if all differences are rounding, else if they may be."""
    differences = _largest_differences(result, expected, wrong)
    is_rounding = _is_rounding(differences.share, result.dtype)
    if not (is_rounding or 0 < differences.share <= _ROUNDING):
        return list(remedies)
    is_relative = differences.relative <= max(differences.share, _ROUNDING)
    name, of_it = ("tolerance", " of it") if is_relative else ("absolute_tolerance", "")
    limit = f"{_rounded_up(differences.relative if is_relative else differences.absolute):g}"
    allowance = (
        f"{flag_of(name)} {limit} (in Python {name}={limit}): the largest difference from the reference is at most "
        f"{limit}{of_it}"
    )
    if is_rounding:
        return [f"allow for rounding: {allowance}", *remedies]
    return [*remedies[:-1], f"{remedies[-1]}; if it is only rounding, allow for it: {allowance}"]


def _rounded_up(value: float) -> float:
    """Return a positive value with two digits, rounded up."""
    exponent = math.floor(math.log10(value)) - 1
    return float(f"{math.ceil(value / 10.0**exponent)}e{exponent}")


def _making_lines(lineages: Sequence[Lineage]) -> list[str]:
    """Return the lines of all operations that made some elements; none if others may have."""
    if not all(lineage.are_all and lineage.records for lineage in lineages):
        return []
    return [line.location for line in sorted(set().union(*(lineage.lines for lineage in lineages)))]


def _first_bytes(output: View, positions: Integers) -> Integers:
    """Return the first bytes of elements of an output; `positions`: their coordinates, one element per column."""
    return output.offset + np.array(output.strides or (0,), np.int64) @ positions


def _right_neighbours(wrong: Integers, shape: tuple[int, ...]) -> Integers:
    """Return the flat positions of the last right element before the first wrong one, and of the first one after it.

    If the first wrong one begins its row, that is not beside it; the one in the row before is.
    """
    size, row, first = math.prod(shape), math.prod(shape[-1:]), int(wrong[0])
    run_ends = np.flatnonzero(np.diff(np.append(wrong, size)) > 1)
    after = int(wrong[run_ends[0]]) + 1 if len(run_ends) else size
    before = first - 1 if first % row else first - row
    return np.array([flat for flat in (before, after) if 0 <= flat < size], np.int64)


def _missing_write(run: Run, identity: int) -> str:
    """Return the remedy for an element that no operation writes, with the lines that write others of its tensor."""
    log = run.log
    writes = np.flatnonzero(run.accesses.write)
    of_tensors = np.array([allocation.memory == "gdram" for allocation in log.allocations], bool)
    writes_to_output = writes[run.accesses.alloc[writes] == identity]
    other_writes = writes_to_output if len(writes_to_output) else writes[of_tensors[run.accesses.alloc[writes]]]
    lines = locations_of(run.lines_of(other_writes))
    if not lines:
        return "write this element: no operation writes an output; look for a condition that is never true"
    names = sorted({log.allocations[alloc].name for alloc in np.unique(run.accesses.alloc[other_writes]).tolist()})
    written = (
        f"others of {names[0]} are written" if len(writes_to_output) else f"what is written is {' and '.join(names)},"
    )
    return f"write this element, too: no operation does; {written} at {lines}"


def wrong_elements(result: Array, expected: Array, tolerance: float, absolute_tolerance: float) -> Array:
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
    beyond_tolerance: Array = wrong[~tolerated]
    return beyond_tolerance


def _wide(values: Array) -> Array:
    """Return values in a type in which their differences neither wrap nor overflow."""
    return values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)


def _rule(tolerance: float, absolute_tolerance: float) -> str:
    limits = [f"{tolerance:g} of it"] if tolerance else []
    limits += [f"{absolute_tolerance:g}"] if absolute_tolerance else []
    return "the output must equal the reference" + (f" within {' plus '.join(limits)}" if limits else ", bit by bit")


def are_rounded(result: Array, expected: Array, wrong: Array) -> bool:
    """Return whether the elements at these flat positions differ by rounding only, as sums in another order do."""
    return bool(len(wrong)) and _is_rounding(_largest_differences(result, expected, wrong).share, result.dtype)


def _is_rounding(share: float, dtype: np.dtype[Any]) -> bool:
    return 0 < share <= _rounding_limit(dtype)


class _Differences(NamedTuple):
    """The largest difference of the wrong elements from the reference; all are 0 for integers.

    Attributes:
        absolute: the difference.
        share: that as a part of the largest value of the reference; infinite if that is 0.
        relative: the largest difference as a part of the element's own reference; infinite if one is 0.
    """

    absolute: float
    share: float
    relative: float


def _largest_differences(result: Array, expected: Array, wrong: Array) -> _Differences:
    if result.dtype.kind in "biu":
        return _Differences(0.0, 0.0, 0.0)
    with np.errstate(all="ignore"):
        actual, reference = _wide(result.reshape(-1)[wrong]), _wide(expected.reshape(-1)[wrong])
        finite = np.isfinite(expected)
        difference = np.abs(actual - reference)
        largest = float(difference.max())
        relative = float(np.where(difference == 0, 0, difference / np.abs(reference)).max())
        scale = float(np.abs(_wide(expected[finite])).max()) if finite.any() else 0.0
    return _Differences(largest, largest / scale if scale else np.inf, relative)


def _rounding_limit(dtype: np.dtype[Any]) -> float:
    """Return a few units in the last place of 1, fewer for narrow types, but at least one."""
    unit = float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]  # no types in ml_dtypes
    return max(unit, min(_FEW_UNITS * unit, _ROUNDING))


def _origin(
    run: Run, identity: int, byte: int, dtype: np.dtype[Any], repeat: Callable[[int], Mapping[int, Array]] | None
) -> tuple[tuple[Site, ...], str]:
    """Return the last writer of an element with the producer of the bytes it stored, and the producer's operands."""
    log, nbytes = run.log, dtype.itemsize
    store = last_writer(run, Element(identity, byte, nbytes), len(log))
    if store == NONE:
        return (), ""
    store_site = site_of(log, store, "writes")
    stored_elements = [source for source in sources_of(run, store, byte) if _is_on_chip(log, source)][:1]
    producer = last_writer(run, replace(stored_elements[0], nbytes=nbytes), store) if stored_elements else NONE
    if producer == NONE:
        return (store_site,), ""
    producer_site = site_of(log, producer, "makes")
    operands = [source for source in sources_of(run, producer, stored_elements[0].byte) if _is_on_chip(log, source)]
    values = repeat(producer_site.start_ps) if operands and repeat is not None else {}
    texts = [
        text for operand in operands if (text := _operand(log, producer, operand, values.get(operand.alloc), dtype))
    ]
    return (store_site, producer_site), f"{producer_site.operation} read {' and '.join(texts)}" if texts else ""


def _is_on_chip(log: Log, element: Element) -> bool:
    return log.allocations[element.alloc].memory in ("nram", "sram")


def _operand(log: Log, record: int, element: Element, array: Array | None, dtype: np.dtype[Any]) -> str:
    """Return an element with its value; empty if its value or its type is unknown.

    A buffer of a compiled kernel is bytes: its elements have the type of the result, unless the operation converts it.
    """
    if array is None:
        return ""
    allocation = log.allocations[element.alloc]
    itemsize = dtype_of(allocation.dtype).itemsize
    if itemsize != element.nbytes:
        if element.nbytes != dtype.itemsize or log.ops[log.records.op(record)] == "convert":
            return ""
        end = element.byte + element.nbytes
        value = np.frombuffer(array.tobytes()[element.byte : end], dtype)[0]
        return f"{allocation.name}[{element.byte}:{end}] = {value!s}"
    index = [*map(int, np.unravel_index(element.byte // itemsize, array.shape))] if array.shape else []
    return f"{allocation.name}{index} = {array[tuple(index)]!s}"
