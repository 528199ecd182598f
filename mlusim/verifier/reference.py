"""Comparison of an output with its reference: the elements that differ, and the operation that wrote the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import InputError
from mlusim.log import NONE, Log
from mlusim.memory.view import View
from mlusim.units import group_digits
from mlusim.verifier.accesses import accesses_of
from mlusim.verifier.coordinates import describe
from mlusim.verifier.findings import Finding, Site, site_of
from mlusim.verifier.geometry import union
from mlusim.verifier.producer import last_writer, producer_of

Array = np.ndarray[Any, Any]


def differs(
    log: Log,
    output: View,
    result: Array,
    expected: Array,
    tolerance: float = 0.0,
    repeat: Callable[[int], Mapping[int, Array]] | None = None,
) -> Finding | None:
    """Compare an output with its reference; None if they are equal.

    Args:
        log: the log of the run.
        output: the tensor.
        result, expected: arrays. Raises `InputError` if shape or element type differ.
        repeat: returns the contents of on-chip buffers at a time in ps, by allocation; used to show the operands.
        tolerance: largest difference relative to the reference; 0 compares bits, with all NaNs equal.
    """
    identity = output.allocation.identity
    allocation = log.allocations[identity]
    if expected.shape != result.shape or expected.dtype != result.dtype:
        raise InputError(
            f"the reference of {allocation.name} is {expected.dtype} {list(expected.shape)} and the output "
            f"{result.dtype} {list(result.shape)}: they must be the same"
        )
    wrong = np.flatnonzero(_unequal(result, expected, tolerance).reshape(-1))
    if not len(wrong):
        return None
    itemsize = result.dtype.itemsize
    positions = np.array(np.unravel_index(wrong, result.shape or (1,)))
    first = output.offset + np.array(output.strides or (0,), np.int64) @ positions
    starts, stops = union(first, first + itemsize)
    index = tuple(positions[:, 0].tolist()) if result.shape else ()
    writer, read = _origin(log, identity, int(first[0]), itemsize, repeat)
    return Finding(
        kind="wrong-value",
        title=f"{group_digits(len(wrong))} of {group_digits(result.size)} elements of {allocation.name} are wrong; "
        f"the first, {allocation.name}{list(index)}, is {result[index]!s} and should be {expected[index]!s}",
        region=describe(allocation, starts, stops),
        nbytes=int((stops - starts).sum()),
        sites=writer,
        location=read,
        rule="the output must equal the reference" + (f" within {tolerance:g} of it" if tolerance else ", bit by bit"),
        remedy=("check the operation that made these bytes" if len(writer) > 1 else "check where this store reads them")
        if writer
        else "no operation writes this element",
        fields={"tensor": allocation.name, "elements": len(wrong)},
    )


def _unequal(result: Array, expected: Array, tolerance: float) -> Array:
    raw = f"V{result.dtype.itemsize}" if result.dtype.itemsize > 8 else f"u{result.dtype.itemsize}"
    with np.errstate(all="ignore"):
        unequal: Array = np.asarray(result.reshape(result.shape or (1,)).copy().view(raw)) != np.asarray(
            expected.reshape(expected.shape or (1,)).copy().view(raw)
        )
        actual, reference = result.reshape(unequal.shape), expected.reshape(unequal.shape)
        unequal &= ~((actual != actual) & (reference != reference))  # noqa: PLR0124 - NaN alone is not itself
        if tolerance:
            unequal &= ~(np.abs(actual - reference) <= tolerance * np.abs(reference))
    return unequal


def _origin(
    log: Log, identity: int, byte: int, nbytes: int, repeat: Callable[[int], Mapping[int, Array]] | None
) -> tuple[tuple[Site, ...], str]:
    """Return the last writer of an element with the producer of the bytes it stored, and the producer's operands."""
    columns = log.columns()
    accesses = accesses_of(log, columns)
    store = last_writer(accesses, identity, byte, nbytes, len(log))
    if store == NONE:
        return (), ""
    sites = [site_of(log, store, "writes")]
    made = producer_of(log, columns, accesses, store, byte, nbytes)
    if made is None:
        return tuple(sites), ""
    sites.append(site_of(log, made.record, "makes"))
    on_chip = [read for read in made.reads if log.allocations[read.alloc].memory in ("nram", "sram")]
    if not on_chip or repeat is None:
        return tuple(sites), ""
    values = repeat(int(columns["start_ps"][made.record]))
    texts = []
    for read in on_chip:
        record = log.allocations[read.alloc]
        array = values.get(read.alloc)
        if array is None:
            continue
        coordinates = np.unravel_index(read.byte // dtype_of(record.dtype).itemsize, array.shape) if array.shape else ()
        at = [int(index) for index in coordinates]
        texts.append(f"{record.name}{at} = {array[tuple(at)]!s}")
    if not texts:
        return tuple(sites), ""
    return tuple(sites), f"{sites[1].operation} read {' and '.join(texts)}"
