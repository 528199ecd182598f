"""Reductions: sums, extrema with their index, counts and positions of nonzero elements.

Sums are computed in the next wider float type and rounded once; the board adds in a different order. Not modelled: on
arch 2xx, `reduce_sum`, `count` and `count_bitindex` also set the rest of each 128 B of the result to 0 (B).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.instructions.record import (
    ANY,
    DST,
    FLOATS,
    NUMBERS,
    SERIES_2XX,
    SERIES_3XX,
    SRC,
    Extent,
    Instruction,
    Match,
    Operand,
    Overlap,
    Runs,
    same_size,
)
from mlusim.dtypes import INT32, UINT8, UINT16, UINT32
from mlusim.units import ceil_div

LINE_BYTES = 128
_INDEX_BYTES = 8
_NOT_FOUND = 0xFFFF_FFFF

# The first element of a 32-bit result contains the number.
COUNT = Operand("dst", Match.FREE, {UINT32: SERIES_2XX, INT32: SERIES_2XX})


def total(values: Array) -> Any:
    """Return the sum along the last axis: in float64 for float32, in float32 for 16-bit floats, rounded once.

    Sums of integers wrap.
    """
    if values.dtype.kind in "iu":
        return np.add.reduce(values, axis=-1, dtype=values.dtype)
    wider = values.astype(np.float64 if values.dtype.itemsize >= 4 else np.float32)
    return np.add.reduce(wider, axis=-1).astype(values.dtype)


def _sum(result: Array, source: Array) -> None:
    result.reshape(-1)[0] = total(source.reshape(-1))


def _reduce_lines(result: Array, source: Array) -> None:
    """Write each 128 B line's sum to its first element; the others keep their value."""
    per_line = LINE_BYTES // source.dtype.itemsize
    flat, firsts = source.reshape(-1), result.reshape(-1)[::per_line]
    full_lines = flat.size // per_line
    firsts[:full_lines] = total(flat[: full_lines * per_line].reshape(full_lines, per_line))
    firsts[full_lines:] = total(flat[full_lines * per_line :])


def _line_marks(result: Array, source: Array) -> None:
    """As `Instruction.marks`; the result is the first element of each line. Elements have 4 or 2 bytes."""
    flat = source.reshape(-1)
    per_line = next(count for count in (LINE_BYTES // 4, LINE_BYTES // 2) if ceil_div(flat.size, count) == result.size)
    result[...] = np.maximum.reduceat(flat, np.arange(0, flat.size, per_line))


def _extremum(pick: Callable[[Array], Any], *, magnitude: bool = False) -> Callable[..., None]:
    """Return numerics that write the value, then its index in 64 bits: 10 B for 16-bit elements, 12 B for 32-bit."""

    def compute(result: Array, source: Array) -> None:
        flat = np.abs(source.reshape(-1)) if magnitude else source.reshape(-1)
        index = int(pick(flat))
        value = flat[index : index + 1].view(np.uint8)
        out = result.reshape(-1).view(np.uint8)
        out[: value.size] = value
        out[value.size : value.size + _INDEX_BYTES] = np.array([index], np.uint64).view(np.uint8)

    return compute


def _count(result: Array, source: Array) -> None:
    result.reshape(-1)[0] = np.count_nonzero(source.reshape(-1) != 0)


def _count_bits(result: Array, source: Array) -> None:
    result.reshape(-1)[0] = np.bitwise_count(source.reshape(-1).view(np.uint8)).sum(dtype=np.int64)


def _find(position: int) -> Callable[..., None]:
    def compute(result: Array, source: Array) -> None:
        positions = np.flatnonzero(source.reshape(-1) != 0)
        result.reshape(-1).view(np.uint32)[0] = positions[position] if positions.size else _NOT_FOUND

    return compute


def one_element(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    """Check that the result has an element."""
    return "" if operands[0].size else "dst needs one element"


def _line_sums(operands: Sequence[Extent], attributes: Mapping[str, Any]) -> str:
    """Check that the result has the source's size."""
    complaint = same_size(operands, attributes)
    return (
        f"{complaint}, as the sum of each 128 B is stored at its place; for one sum of all, use sum"
        if complaint
        else ""
    )


def _first_element(result: Extent, _source: Extent) -> Runs:
    return Runs(result.itemsize)


def _value_and_index_bytes(_result: Extent, source: Extent) -> Runs:
    return Runs(source.itemsize + _INDEX_BYTES)


def _first_of_lines(result: Extent, _source: Extent) -> Runs:
    return Runs(result.itemsize, ceil_div(result.nbytes, LINE_BYTES), LINE_BYTES)


def _value_and_index(operands: Sequence[Extent], _attributes: Mapping[str, Any]) -> str:
    nbytes = operands[1].itemsize + _INDEX_BYTES
    return "" if operands[0].nbytes >= nbytes else f"dst needs {nbytes} B, for the value and its index in 64 bits"


def _reduction(
    name: str, summary: str, compute: Callable[..., None], *signatures: str, **properties: Any
) -> Instruction:
    return Instruction(
        name=name,
        summary=summary,
        group="Reductions",
        compute=compute,
        c_signatures=signatures,
        **properties,
    )


def _number(
    name: str,
    summary: str,
    compute: Callable[..., None],
    operands: tuple[Operand, ...] = (COUNT, SRC),
    **properties: Any,
) -> Instruction:
    """Return a reduction to one number, which may go to a register."""
    return _reduction(
        name,
        f"dst[0] = {summary}",
        compute,
        "dst[1] src[n] n",
        "src[n] n",
        operands=operands,
        geometry=one_element,
        writes=_first_element,
        to_register=True,
        **properties,
    )


REDUCTIONS: list[Instruction] = [
    _number("sum", "the sum of src", _sum, (DST, SRC), types=NUMBERS),
    _reduction(
        "reduce_sum",
        "the first element of each 128 B of dst = the sum of those 128 B of src; the other elements are unchanged",
        _reduce_lines,
        "dst[n] src[n] n",
        types=FLOATS,
        geometry=_line_sums,
        writes=_first_of_lines,
        marks=_line_marks,
    ),
    *(
        _reduction(
            name,
            f"dst = the {of_src}, then {index} in 64 bits",
            _extremum(np.argmin if name.endswith("min") else np.argmax, magnitude=name.startswith("fabs")),
            "dst[(itemsize+8+itemsize-1)//itemsize] src[n] n",
            geometry=_value_and_index,
            writes=_value_and_index_bytes,
            types=NUMBERS,
            since=since,
            # As the headers state, for the older two only (B).
            overlap=Overlap.APART if name in {"max", "min"} else Overlap.SAME,
        )
        for name, of_src, index, since in (
            ("max", "largest of src", "its index", SERIES_2XX),
            ("min", "smallest of src", "its index", SERIES_2XX),
            ("argmax", "largest of src", "the index of the first one,", SERIES_3XX),
            ("argmin", "smallest of src", "the index of the first one,", SERIES_3XX),
            ("fabsmax", "largest magnitude of src", "its index", SERIES_3XX),
            ("fabsmin", "smallest magnitude of src", "its index", SERIES_3XX),
        )
    ),
    _number("count", "the number of elements of src that are not 0", _count),
    _number("count_bitindex", "the number of bits of src that are 1", _count_bits, types=ANY),
    _number(
        "popcnt",
        "the number of bits of src that are 1",
        _count_bits,
        types={UINT32: SERIES_2XX, UINT16: SERIES_2XX, UINT8: SERIES_2XX},
    ),
    _number("findfirst1", "the index of the first element of src that is not 0; 0xFFFFFFFF if none", _find(0)),
    _number("findlast1", "the index of the last element of src that is not 0; 0xFFFFFFFF if none", _find(-1)),
]
