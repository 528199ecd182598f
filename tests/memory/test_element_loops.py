"""Loops over elements, in NumPy and in C, against loops over Python's lists."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mlusim.memory import element_loops
from mlusim.version import is_compiled


def in_numpy():
    """Return the module as it is where there is no compiler."""
    spec = importlib.util.spec_from_file_location("element_loops_in_numpy", element_loops.__file__)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {"mlusim.memory._element_loops": None}):
        spec.loader.exec_module(module)
    return module


try:
    from mlusim.memory import _element_loops
except ImportError:
    IN_C = None
else:
    IN_C = _element_loops
# In a checkout, the functions in C are absent.
LOOPS = [pytest.param(in_numpy(), id="NumPy")] + ([pytest.param(IN_C, id="C")] if IN_C else [])
VALUES = st.sampled_from(["u1", "u2", "u4", "i8", "V16"])


def test_the_compiled_package_uses_c():
    assert (IN_C is not None) == is_compiled()
    for name in (
        "copy_runs",
        "keep_selected",
        "rows_of_lookups",
        "rows_of_runs",
        "scatter_rows",
        "sort_into_bins",
        "units_of_runs",
    ):
        assert getattr(element_loops, name) is getattr(IN_C or element_loops, name)


def random_values(rng, count, dtype, row=()):
    return rng.integers(0, 256, (count, *row, np.dtype(dtype).itemsize), np.uint8).view(dtype).reshape(count, *row)


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("room", [7, 1 << 18])
@given(
    VALUES,
    st.sampled_from([(), (3,)]),
    st.sampled_from(["i4", "i8"]),
    st.sampled_from([None, "i4", "i8"]),
    st.integers(0, 90),
    st.integers(0),
)
def test_of_values_for_one_row_the_last_remains(loops, room, dtype, row, row_type, origin_type, count, seed):
    rng = np.random.default_rng(seed)
    to, origin = random_values(rng, room, dtype, row), random_values(rng, 90, dtype, row)
    rows = rng.integers(max(room - 7, 0), room, count)
    origin_rows = None if origin_type is None else rng.integers(0, 90, count).astype(origin_type)
    expected = to.copy()
    for number, of_origin in zip(rows.tolist(), range(count) if origin_rows is None else origin_rows, strict=True):
        expected[number] = origin[of_origin]
    loops.scatter_rows(to, rows.astype(row_type), origin, origin_rows)
    assert to.tobytes() == expected.tobytes()


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize("row", [7, 1 << 31, -8])
def test_a_row_outside_is_an_error(loops, row):
    to, values, rows = np.zeros(7, np.float32), np.ones(7, np.float32), np.array([0, row])
    with pytest.raises(IndexError, match="index"):
        loops.scatter_rows(to, rows, values, None)
    with pytest.raises(IndexError, match="index"):
        loops.scatter_rows(to, np.zeros(2, np.int32), values, rows)
    with pytest.raises(IndexError, match="index"):
        loops.scatter_rows(to, np.zeros(8, np.int32), values, None)


@pytest.mark.parametrize("loops", LOOPS)
@given(VALUES, st.lists(st.booleans(), max_size=70), st.integers(0, 3), st.integers(0))
def test_selected_values_are_kept_in_order(loops, dtype, selected, room, seed):
    rng = np.random.default_rng(seed)
    values, to = random_values(rng, len(selected), dtype), random_values(rng, sum(selected) + room, dtype)
    expected = [value for value, chosen in zip(values.tolist(), selected, strict=True) if chosen]
    behind = to[len(expected) :].tolist()
    assert loops.keep_selected(values, np.array(selected, bool), to) == len(expected)
    assert to.tolist() == expected + behind


@st.composite
def axis_of_lookups(draw):
    """extent, start, stop, step; the window is often the whole axis."""
    extent = draw(st.integers(1, 9) | st.integers(1, (1 << 20) + 1))
    start = draw(st.just(0) | st.integers(0, extent - 1))
    return extent, start, draw(st.just(extent) | st.integers(start + 1, extent)), draw(st.integers(0, 300))


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize(("index_type", "row_type"), [("i4", "i4"), ("i4", "i8"), ("i8", "i8")])
@given(
    st.lists(axis_of_lookups(), min_size=1, max_size=3), st.integers(0, 40), st.booleans(), st.integers(0), st.data()
)
def test_lookups_within_their_windows_have_rows(loops, index_type, row_type, axes, count, positional, seed, data):
    rng = np.random.default_rng(seed)
    index = np.stack([rng.integers(-extent, extent, count) for extent, *_ in axes], axis=1).astype(index_type)
    positions = rng.integers(0, 1000, count) if positional else None
    expected = []
    for lookup, values in enumerate(index.tolist()):
        row = 7 + (int(positions[lookup]) if positional else 0)
        wrapped = [value % extent for value, (extent, *_) in zip(values, axes, strict=True)]
        row += sum((value - start) * step for value, (_, start, _, step) in zip(wrapped, axes, strict=True))
        if all(start <= value < stop for value, (_, start, stop, _) in zip(wrapped, axes, strict=True)):
            expected.append((row, lookup))
    windowed = any((start, stop) != (0, extent) for extent, start, stop, _ in axes)
    rows, selected = np.empty(count, row_type), np.empty(count, np.int64) if windowed else None
    arguments = index.reshape(-1), np.array(axes, np.int64), positions, 7, rows, selected
    assert loops.rows_of_lookups(*arguments) == len(expected)
    assert rows[: len(expected)].tolist() == [row for row, _ in expected]
    if windowed:
        assert selected[: len(expected)].tolist() == [lookup for _, lookup in expected]
    if count:
        column = data.draw(st.integers(0, len(axes) - 1))
        extent, limits = axes[column][0], np.iinfo(index_type)
        wrong = data.draw(st.sampled_from([limits.min, -extent - 1, extent, limits.max]))
        index[data.draw(st.integers(0, count - 1)), column] = wrong
        assert loops.rows_of_lookups(index.reshape(-1), *arguments[1:]) == -1


@pytest.mark.parametrize("loops", LOOPS)
@given(VALUES, st.sampled_from([(), (3,)]), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))), st.integers(0))
def test_runs_are_joined(loops, dtype, row, runs, seed):
    origin = random_values(np.random.default_rng(seed), 20, dtype, row)
    bounds = [sorted(run) for run in runs]
    expected = [value for first, last in bounds for value in origin.tolist()[first:last]]
    to = random_values(np.random.default_rng(), len(expected), dtype, row)
    lengths = np.array([last - first for first, last in bounds], np.int64)
    loops.copy_runs(to, origin, np.array([first for first, _ in bounds], np.int64), lengths)
    assert to.tolist() == expected


@pytest.mark.parametrize("loops", LOOPS)
@pytest.mark.parametrize(("begin", "length"), [(19, 2), (0, 1), (0, 3), (1 << 40, 2)])
def test_runs_that_do_not_fit_are_an_error(loops, begin, length):
    with pytest.raises(ValueError, match=r"\S"):
        loops.copy_runs(np.zeros(2, np.uint8), np.zeros(20, np.uint8), np.array([begin]), np.array([length]))


def sum_of(runs):
    return sum(length for _, length in runs)


def as_arrays(runs):
    return np.array([begin for begin, _ in runs], np.int64), np.array([length for _, length in runs], np.int64)


@pytest.mark.parametrize("loops", LOOPS)
@given(st.lists(st.integers(-5, 50), unique=True), st.integers(-3, 3), st.integers(-3, 3))
def test_runs_have_rows_if_they_ascend_without_overlap(loops, bounds, more, longer):
    bounds.sort()
    runs = [(first, last - first) for first, last in zip(bounds[::2], bounds[1::2])]  # noqa: B905 - the last may be odd
    assert loops.rows_of_runs(*as_arrays(runs)) == sum_of(runs)
    if not runs:
        return
    first, last = runs[0][0], sum(runs[-1])
    assert loops.rows_of_runs(*as_arrays([*runs, (last + more, 2)])) == (0 if more < 0 else sum_of(runs) + 2)
    assert loops.rows_of_runs(*as_arrays([(first - 2, 2 + longer), *runs])) == (
        sum_of(runs) + 2 + longer if -2 < longer <= 0 else 0
    )


@pytest.mark.parametrize("loops", LOOPS)
def test_runs_up_to_the_largest_number_do_not_wrap(loops):
    largest = (1 << 63) - 1
    assert loops.rows_of_runs(*as_arrays([(5, largest - 7), (largest, 1)])) == largest - 6
    assert loops.rows_of_runs(*as_arrays([(5, largest), (6, 1)])) == 0


@pytest.mark.parametrize("loops", LOOPS)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 300))),
    st.integers(0, 600),
    st.integers(1, 70),
    st.sampled_from([32, 64, 512]),
)
def test_the_units_of_runs_are_counted(loops, runs, base, row_bytes, unit_bytes):
    touched = covered = 0
    for begin, length in runs:
        in_units = [0] * ((base + 600 * row_bytes) // unit_bytes + 1)
        for byte in range(base + begin * row_bytes, base + (begin + length) * row_bytes):
            in_units[byte // unit_bytes] += 1
        touched += sum(count > 0 for count in in_units)
        covered += in_units.count(unit_bytes)
    assert loops.units_of_runs(*as_arrays(runs), base, row_bytes, unit_bytes) == (touched, covered)


@pytest.mark.parametrize("loops", LOOPS)
@given(
    st.sampled_from(["i1", "u1", "i2", "i4", "u4", "i8"]),
    VALUES,
    st.integers(1, 1 << 33),
    st.integers(1, 300),
    st.integers(0, 50),
    st.integers(0),
)
def test_bins_hold_their_numbers_in_order(loops, number_type, dtype, size, bins, count, seed):
    limit = min(size * bins, int(np.iinfo(number_type).max) + 1)
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, limit, count).astype(number_type)
    values = random_values(rng, count, dtype)
    expected = [[] for _ in range(bins)]
    for number, value in zip(numbers.tolist(), values.tolist(), strict=True):
        expected[number // size].append((number % size, value))
    sorted_numbers, sorted_values, starts = np.empty_like(numbers), np.empty_like(values), np.empty(bins + 1, np.int64)
    assert loops.sort_into_bins(numbers, values, sorted_numbers, sorted_values, starts, size, limit)
    found = list(zip(sorted_numbers.tolist(), sorted_values.tolist(), strict=True))
    assert [found[first:last] for first, last in pairwise(starts.tolist())] == expected
    assert (starts[0], starts[-1]) == (0, count)


@pytest.mark.parametrize("loops", LOOPS)
@given(st.sampled_from(["i1", "i4", "i8"]), st.integers(1, 40), st.integers(1, 3), st.integers(), st.integers(0, 9))
def test_a_number_outside_the_limit_leaves_everything(loops, number_type, size, bins, outside, place):
    limits = np.iinfo(number_type)
    assume(limits.min <= outside <= limits.max and not 0 <= outside < size * bins)
    numbers, values = np.zeros(10, number_type), np.ones(10, np.float32)
    numbers[place] = outside
    found = np.full(10, 7, number_type), np.full(10, 7, np.float32), np.full(bins + 1, 7)
    limit = min(size * bins, int(limits.max) + 1)
    assert not loops.sort_into_bins(numbers, values, *found, size, limit)
    assert all((array == 7).all() for array in found)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 641, 87382, (1 << 16) - 1, (1 << 31) - 1, (1 << 32) - 1])
@pytest.mark.parametrize("loops", LOOPS)
def test_numbers_at_the_bounds_of_bins_are_divided_exactly(loops, size):
    """The division by a multiplication is exact for all 32-bit numbers."""
    bins = min(((1 << 32) - 1) // size + 1, 1 << 16)
    edges = np.arange(bins, dtype=np.uint64) * np.uint64(size)
    numbers = np.unique(np.concatenate((edges, edges + np.uint64(size - 1)))).astype(np.uint64)
    numbers = numbers[numbers < min(size * bins, 1 << 32)].astype(np.uint32)
    limit = min(size * bins, 1 << 32)
    within, positions = np.empty_like(numbers), np.empty(len(numbers), np.int64)
    starts = np.empty(bins + 1, np.int64)
    assert loops.sort_into_bins(numbers, np.arange(len(numbers)), within, positions, starts, size, limit)
    # They ascend, so they stay where they are.
    assert np.array_equal(positions, np.arange(len(numbers)))
    assert np.array_equal(within, numbers % np.uint64(size))
    assert np.array_equal(np.diff(starts), np.bincount((numbers // np.uint64(size)).astype(np.int64), minlength=bins))


@pytest.mark.skipif(IN_C is None, reason="not compiled")
def test_in_c_arrays_that_do_not_fit_are_an_error():
    integers, values = np.zeros(4, np.int64), np.zeros(4, np.float32)
    with pytest.raises(ValueError, match="not C-contiguous"):
        IN_C.scatter_rows(np.zeros((4, 2), np.float32)[:, 0], integers, values, None)
    for rows, origin_rows in ((integers.astype(np.int16), None), (integers, integers.astype(np.int16))):
        with pytest.raises(TypeError, match="takes row numbers of 4 or 8 bytes"):
            IN_C.scatter_rows(values.copy(), rows, values, origin_rows)
    with pytest.raises(TypeError, match="one row of the origin for each row"):
        IN_C.scatter_rows(values.copy(), integers, values, integers[:3])
    with pytest.raises(TypeError, match="takes 4 arguments, not 2"):
        IN_C.scatter_rows(values, integers)
    for selected, room in ((np.ones(3, bool), 4), (np.ones(4, bool), 3), (np.ones(4, np.int16), 4)):
        with pytest.raises(TypeError, match="keep_selected: the arrays do not fit together"):
            IN_C.keep_selected(values, selected, np.empty(room, np.float32))
    with pytest.raises(TypeError, match="one length for each begin"):
        IN_C.copy_runs(values, values.copy(), integers, integers[:2])
    for index, axes, rows in ((integers[:3], integers, integers), (integers, integers.astype(np.int32), integers)):
        with pytest.raises(TypeError, match="rows_of_lookups: the arrays do not fit together"):
            IN_C.rows_of_lookups(index, axes, None, 0, rows + 0, None)
    with pytest.raises(TypeError, match="rows_of_lookups: the arrays do not fit together"):
        IN_C.rows_of_lookups(integers, integers, None, 0, np.empty(4, np.int32), None)
    for runs in ((integers, integers[:2]), (integers, values.astype(np.int32))):
        with pytest.raises(TypeError, match="one length for each begin"):
            IN_C.rows_of_runs(*runs)
        with pytest.raises(TypeError, match="one length for each begin"):
            IN_C.units_of_runs(*runs, 0, 4, 64)
    for starts, size, limit in ((2, 4, 9), (1, 4, 4), (3, 0, 1)):
        with pytest.raises(TypeError, match="do not fit together"):
            IN_C.sort_into_bins(integers, values, integers + 0, values + 0, np.empty(starts, np.int64), size, limit)
    with pytest.raises(TypeError, match="do not fit together"):
        IN_C.sort_into_bins(integers, values, integers + 0, values[:2] + 0, np.empty(2, np.int64), 4, 4)
