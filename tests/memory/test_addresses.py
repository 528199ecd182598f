"""Row numbers that loops compute from an index, compared with Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import AccessError
from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.allocation import Memory
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import MemorySize
from mlusim.memory.view import View


@st.composite
def axes(draw: st.DrawFn) -> IndexedAxis:
    """An axis whose extent and step are small, or about as large as 32 bits allow."""
    extent = draw(st.integers(1, 9) | st.integers((1 << 31) - 2, (1 << 31) + 2) | st.integers(1, 1 << 20))
    start = draw(st.integers(0, extent - 1))
    return IndexedAxis(
        extent=extent,
        step=draw(st.integers(0, 3) | st.integers(0, 1 << 12)),
        start=start,
        stop=draw(st.integers(start + 1, extent)),
    )


@given(
    columns=st.lists(axes(), max_size=3),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 4)),
    steps=st.tuples(st.integers(0, 5), st.integers(0, 1 << 29)),
    base=st.integers(0, 3) | st.integers((1 << 31) - 3, (1 << 31) + 3),
    data=st.data(),
)
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
def test_rows_equal_those_of_unlimited_integers(
    dtype: type,
    columns: list[IndexedAxis],
    shape: tuple[int, int],
    steps: tuple[int, int],
    base: int,
    data: st.DataObject,
) -> None:
    count = shape[0] * shape[1]
    limits = np.iinfo(dtype)
    tuples = [
        [data.draw(st.integers(max(-axis.extent, limits.min), min(axis.extent - 1, limits.max))) for axis in columns]
        for _ in range(count)
    ]
    memory = Memory(MemoryKind.NRAM, "the NRAM", MemorySize(1 << 10))
    index = View.of(
        memory.allocate(np.dtype(dtype).itemsize * count * len(columns), "index", 0),
        (count, len(columns)),
        np.dtype(dtype),
    )
    index.typed()[...] = np.reshape(tuples, index.shape)
    expected, selected = [], []
    for lookup, values in enumerate(tuples):
        wrapped = [value + axis.extent if value < 0 else value for value, axis in zip(values, columns, strict=True)]
        if all(axis.start <= value < axis.stop for value, axis in zip(wrapped, columns, strict=True)):
            row = base + lookup // shape[1] * steps[0] + lookup % shape[1] * steps[1]
            row += sum((value - axis.start) * axis.step for value, axis in zip(wrapped, columns, strict=True))
            expected.append(row)
            selected.append(lookup)
    addresses = Addresses(shape, steps, base=base, index=index if columns else None, axes=tuple(columns))
    rows, inside = addresses.resolve("a loop")
    assert rows.tolist() == expected
    assert inside is None or inside.tolist() == selected
    assert inside is not None or len(selected) == count


@pytest.mark.parametrize(("dtype", "value"), [("i1", -8), ("i4", 7), ("i8", -(1 << 63)), ("u8", (1 << 64) - 1)])
def test_a_value_outside_its_axis_is_an_error(dtype: str, value: int) -> None:
    memory = Memory(MemoryKind.NRAM, "the NRAM", MemorySize(1 << 10))
    index = View.of(memory.allocate(np.dtype(dtype).itemsize * 6, "index", 0), (3, 2), np.dtype(dtype))
    index.typed()[...] = [[0, 0], [0, value], [0, 0]]
    axes = tuple(IndexedAxis(extent=7, step=1, start=0, stop=7) for _ in range(2))
    with pytest.raises(AccessError, match=f"^a loop: index {value} of lookup 1, column 1, is outside an axis of 7$"):
        Addresses((3,), (1,), index=index, axes=axes).resolve("a loop")
