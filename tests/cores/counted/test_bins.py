"""The instructions that sort into bins, collect_bins and scalar_bins, compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.errors import AccessError, MissingDataError, OperandError
from mlusim.hardware import board
from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.bin_costs import bin_levels


def sort(rows, values, size, bins, *, data=True, room=None):
    """Run collect_bins on one core; return the contents of its buffers."""
    device = mlusim.Device("mlu370-x4", data=data)
    given, held = device.upload(rows, "rows"), device.upload(values, "values")
    found = {}

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        count = len(rows) if room is None else room
        numbers = core.nram.alloc(len(rows), rows.dtype)
        mask, sorted_rows = core.nram.alloc(len(rows), rows.dtype), core.nram.alloc(count, rows.dtype)
        loaded, sorted_values = core.nram.alloc(len(rows), values.dtype), core.nram.alloc(len(rows), values.dtype)
        await core.memcpy(numbers, given)
        await core.memcpy(loaded, held)
        starts = await core.collect_bins(sorted_rows, sorted_values, numbers, loaded, mask, size=size, bins=bins)
        found.update(starts=starts, rows=sorted_rows.typed().copy(), values=sorted_values.typed().copy())
        found["scratch"] = {byte for view in (numbers, loaded, mask) for byte in view.typed().tobytes()}

    device.launch(kernel, dim=4)
    device.synchronize()
    return found


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 40), bins=st.integers(1, 300), count=st.integers(1, 500), seed=st.integers(0, 99))
def test_bins_are_in_order_and_stable(size, bins, count, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, size * bins, count).astype(np.int32)
    values = np.arange(count, dtype=np.float32)
    found = sort(rows, values, size, bins)
    kept = [np.flatnonzero(rows // size == number) for number in range(bins)]
    assert found["starts"].tolist() == [0, *np.cumsum([len(some) for some in kept])]
    assert np.array_equal(found["rows"], np.concatenate([rows[some] - n * size for n, some in enumerate(kept)]))
    assert np.array_equal(found["values"], values[np.concatenate(kept)])
    assert found["scratch"] == {0xFF}, "undefined, as fresh memory is"


def test_bins_may_be_larger_than_every_row():
    rows, values = np.array([5, 0, 3], np.int32), np.arange(3, dtype=np.float32)
    for found in (sort(rows, values, 1 << 40, 2), sort_by_scalars(rows, values, 1 << 40, 1)):
        assert found["starts"].tolist()[:2] == [0, 3]
        assert found["rows"].tolist() == [5, 0, 3]
        assert found["values"].tolist() == [0, 1, 2]


@given(bins=st.integers(1, 3000), count=st.integers(1, 40_000), skew=st.floats(0.1, 8), seed=st.integers(0, 99))
def test_the_time_of_sorting_in_groups(bins, count, skew, seed):
    """The sum over the instructions of both levels, for rows that need not be evenly distributed."""
    chosen = board("mlu370-x4")
    groups, charged = bin_levels(chosen, count * 4, bins)
    instruction = chosen.vector_startup_cycles + np.ceil(count * 4 / 128)
    assert charged <= 5 * bins * instruction
    if groups == 1:
        assert charged == 5 * bins * instruction
        return
    assert bins > 4
    each = -(-bins // groups)
    bin_of = (bins * np.random.default_rng(seed).random(count) ** skew).astype(int)
    in_group = np.bincount(bin_of // each, minlength=groups)
    bins_of = np.diff(np.minimum(each * np.arange(len(in_group) + 1), bins))
    parts = bins_of * (chosen.vector_startup_cycles + np.ceil(in_group * 4 / 128))
    summed = 5 * (groups * instruction + parts.sum()) + 2 * instruction
    assert summed <= charged
    if bins % groups == 0:
        assert charged <= summed + 5 * bins


def test_the_time_of_collect_bins():
    times = {}
    for bins in (3, 100):
        device = mlusim.Device("mlu370-x4", data=False)
        index = device.upload(np.arange(3000, dtype=np.int32), "index", keep_data=True)
        device.launch(sort_addresses, index, 3000, bins, dim=1, kind="BLOCK")
        device.synchronize()
        columns = device.log.columns()
        (record,) = np.flatnonzero(columns["op"] == device.log.ops.index("collect_bins"))
        times[bins] = columns["end_ps"][record] - columns["start_ps"][record]
    # 3,000 rows are 94 lines; 100 bins are 10 groups of 10.
    start = mlusim.board("mlu370-x4").vector_startup_cycles
    assert times[3] == 5 * 3 * (start + 94) * 1000
    assert times[100] == (5 * (10 * (start + 94) + 100 * (start + 1) + 10 * 94) + 2 * (start + 94)) * 1000


async def sort_addresses(core, index, count, bins):
    rows, mask, sorted_rows, values, sorted_values = (core.nram.alloc(count, np.int32) for _ in range(5))
    axis = IndexedAxis(extent=count, step=1, start=0, stop=count)
    addresses = Addresses((count,), (0,), index=rows, axes=(axis,), origin=index)
    size = -(-count // bins)
    await core.collect_bins(sorted_rows, sorted_values, rows, values, mask, size=size, bins=bins, known=addresses)


def test_collect_bins_names_invalid_arguments():
    rows, values = np.array([0, 9, 3], np.int32), np.zeros(3, np.float32)
    with pytest.raises(AccessError, match="row 9 is outside the 2 bins of 4 rows"):
        sort(rows, values, 4, 2)
    with pytest.raises(AccessError, match="row -1 is outside the 2 bins of 5 rows"):
        sort(rows - 1, values, 5, 2)
    with pytest.raises(OperandError, match="as many elements each"):
        sort(rows, values, 4, 3, room=4)
    with pytest.raises(OperandError, match="0 bins of 4 rows: 1 to 65536 bins"):
        sort(rows, values, 4, 0)
    with pytest.raises(OperandError, match="integers of one width"):
        sort(rows.astype(np.float32), values, 4, 3)
    with pytest.raises(MissingDataError, match="name the addresses as `known`"):
        sort(rows, values, 4, 3, data=False)


def sort_by_scalars(index, values, size, bins, *, axis=None, data=True, room=None):
    """Run scalar_bins on one core of a board whose vector unit cannot sort; return the contents of its buffers."""
    device = mlusim.Device("mlu290", data=data)
    given, held = device.upload(index, "index", keep_data=True), device.upload(values, "values")
    found = {}

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        count = len(values)
        loaded, tuples = core.nram.alloc(count, values.dtype), core.nram.alloc(count, index.dtype)
        sorted_rows, sorted_values = core.nram.alloc(room or count, np.int32), core.nram.alloc(count, values.dtype)
        counters = core.nram.alloc(bins, np.int32)
        await core.memcpy(tuples, given)
        await core.memcpy(loaded, held)
        along = axis or IndexedAxis(extent=size * bins, step=1, start=0, stop=size * bins)
        rows = Addresses((count,), (0,), index=tuples, axes=(along,), origin=given)
        starts = await core.scalar_bins(sorted_rows, sorted_values, rows, loaded, counters, size=size)
        found.update(starts=starts)
        if data:
            found.update(rows=sorted_rows.typed().copy(), values=sorted_values.typed().copy())
            found["ends"] = counters.typed().copy()

    device.launch(kernel, dim=4)
    device.synchronize()
    found["log"] = device.log
    return found


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 40), bins=st.integers(1, 300), count=st.integers(1, 500), seed=st.integers(0, 99))
def test_scalar_bins_are_in_order_and_stable(size, bins, count, seed):
    rng = np.random.default_rng(seed)
    index = rng.integers(-size * bins, size * bins, count).astype(np.int32)
    rows, values = index % (size * bins), np.arange(count, dtype=np.float32)
    found = sort_by_scalars(index, values, size, bins)
    order = sorted(range(count), key=lambda number: rows[number] // size)
    assert found["starts"].tolist() == [0, *np.cumsum(np.bincount(rows // size, minlength=bins))]
    assert found["ends"].tolist() == found["starts"].tolist()[1:]
    assert np.array_equal(found["rows"], rows[order] % size)
    assert np.array_equal(found["values"], values[order])
    assert np.array_equal(sort_by_scalars(index, values, size, bins, data=False)["starts"], found["starts"])


def test_the_time_of_scalar_bins():
    """MLU290: 14 cycles for a scalar access to NRAM, 3 for an operation, 2 for an addition, 4 for a loop, at 1 GHz."""
    log = sort_by_scalars(np.arange(40, dtype=np.int32), np.zeros(40, np.float32), 10, 4)["log"]
    columns = log.columns()
    times = {
        log.ops[code]: end - start
        for code, start, end in zip(columns["op"], columns["start_ps"], columns["end_ps"], strict=True)
    }
    # The counter of a bin: cleared, loaded, added to the sum, stored. The time includes the issue of 4 cycles.
    assert times["scalar"] == (4 * (3 * 14 + 2 + 2 * 4) - 4) * 1000
    # An address: a load, a comparison, a multiplication, two additions. Both loops: that, the bin by a multiplication
    # and a shift, its counter loaded, incremented, stored. The second: the row within the bin, stored; the value moved.
    address = 14 + 2 * 3 + 2 * 2
    first = address + 2 * 3 + 2 * 14 + 2 + 4
    second = address + 2 * 3 + 2 * 14 + 2 + 4 + (3 + 2 + 14) + 2 * 14
    assert times["scalar_bins"] == 40 * (first + second) * 1000


def test_scalar_bins_names_invalid_arguments():
    index, values = np.array([0, 9, 3], np.int32), np.zeros(3, np.float32)
    ten = IndexedAxis(extent=10, step=1, start=0, stop=10)
    with pytest.raises(AccessError, match="scalar_bins: row 9 is outside the 2 bins of 4 rows"):
        sort_by_scalars(index, values, 4, 2, axis=ten)
    with pytest.raises(OperandError, match="one axis each, as many values as rows"):
        sort_by_scalars(index, values, 4, 3, room=4)
    with pytest.raises(OperandError, match="0 rows: 1 to 65536 bins, each of 1 or more"):
        sort_by_scalars(index, values, 0, 3, axis=ten)
    with pytest.raises(OperandError, match="it computes rows from an index in NRAM, without windows"):
        sort_by_scalars(index, values, 4, 3, axis=IndexedAxis(extent=10, step=1, start=2, stop=10))


async def by_scalar_bins(core, sorted_rows, sorted_values, index, values, counters):
    along = IndexedAxis(extent=32, step=1, start=0, stop=32)
    addresses = Addresses((32,), (0,), index=index, axes=(along,))
    await core.scalar_bins(sorted_rows, sorted_values, addresses, values, counters, size=1)


async def by_collect_bins(core, *buffers):
    await core.collect_bins(*buffers, size=8, bins=4)


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(("board", "sort"), [("mlu290", by_scalar_bins), ("mlu370-x4", by_collect_bins)])
def test_the_verifier_sees_all_accesses_of_sorting(board, sort, which, waits):
    device = mlusim.Device(board)
    rows = device.upload(np.arange(32, dtype=np.int32), "rows")

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        buffers = [core.nram.alloc(32, np.int32, f"buffer {number}") for number in range(5)]
        await core.memcpy(buffers[2], rows)
        await core.memcpy(buffers[3], rows)
        # An operand that is on its way from GDRAM while the sort reads or writes it.
        core.memcpy_async(buffers[which], rows)
        if waits:
            await core.sync_io()
        await sort(core, *buffers)
        await core.sync()

    device.launch(kernel, dim=4)
    device.synchronize()
    races = [finding for finding in device.verify().findings if finding.kind == "race"]
    assert bool(races) is not waits
    assert all(f"buffer {which}" in race.title + race.region for race in races)
