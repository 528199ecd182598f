"""scatter by strategy "bins" against NumPy, and the operation that sorts."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import ops
from mlusim.errors import AccessError, MissingDataError, OperandError, PlanError
from mlusim.hardware import board
from mlusim.kernels.scatter_bins import lists
from mlusim.memory.addresses import Addresses, IndexedAxis
from mlusim.memory.loops import bin_levels

# The vector instructions of the first cannot sort; scalar loops do.
BOARDS = ("mlu270-s4", "mlu370-x4", "mlu590-h8")
RNG = np.random.default_rng(7)


def on(name: str, nram_bytes: int | None = None):
    chosen = board(name)
    return chosen if nram_bytes is None else chosen.replace(nram_bytes=nram_bytes, nram_reserved_bytes=0)


def expected(x, index, src, axis):
    """One update after the other, in row-major order."""
    out = x.copy()
    for place in np.ndindex(index.shape):
        to = list(place)
        to[axis] = index[place]
        out[tuple(to)] = src[place]
    return out


def bits(count: int, dtype: str):
    """Elements of random bits: NaN of both kinds among them."""
    return RNG.integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8).view(dtype)


@st.composite
def scatters(draw):
    rank = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 9)) for _ in range(rank)]
    axis = draw(st.integers(0, rank - 1))
    shape[axis] = draw(st.sampled_from([1, 3, 40, 333]))
    index_shape = [draw(st.integers(1, extent)) for extent in shape]
    index_shape[axis] = draw(st.sampled_from([1, 7, 150]))
    src_shape = [extent + draw(st.integers(0, 2)) for extent in index_shape]
    return tuple(shape), tuple(index_shape), tuple(src_shape), axis


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    case=scatters(),
    dtype=st.sampled_from(["int8", "float16", "float32", "float64", "complex128"]),
    wide=st.booleans(),
    device=st.sampled_from(BOARDS),
    nram_bytes=st.sampled_from([None, 1 << 14, 1 << 12]),
)
def test_updates_apply_in_order(case, dtype, wide, device, nram_bytes):
    shape, index_shape, src_shape, axis = case
    x = bits(int(np.prod(shape)), dtype).reshape(shape)
    src = bits(int(np.prod(src_shape)), dtype).reshape(src_shape)
    index = RNG.integers(-shape[axis], shape[axis], index_shape).astype("int64" if wide else "int32")
    result = ops.scatter(x, index, src, axis, device=on(device, nram_bytes), strategy="bins", check=True)
    assert result.output.tobytes() == expected(x, index, src, axis).tobytes()
    assert result.output.shape == shape


@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("places", [1, 5, 1000])
def test_the_last_of_thousands_of_updates_of_one_element_wins(device, places):
    x = np.zeros((1, 20_000), np.float32)
    index = RNG.integers(0, places, (1, 60_000)).astype(np.int32) * (20_000 // places)
    src = np.arange(60_000, dtype=np.float32).reshape(1, -1)
    result = ops.scatter(x, index, src, 1, device=on(device, 1 << 14), strategy="bins", check=True, dma="late")
    out = x.copy()
    for at, value in zip(index[0], src[0], strict=True):
        out[0, at] = value
    assert np.array_equal(result.output, out)
    assert result.plan.parameters.binning.chunks > 50


@pytest.mark.grid(3)
@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("strategy", ["rows", "slab", "bins"])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dma", ["complete", "late"])
def test_every_strategy_sorts_many_updates_of_windows(device, strategy, axis, dma):
    shape = [2, 3, 4]
    shape[axis] = 20_000
    x = RNG.standard_normal(shape).astype(np.float32)
    index_shape = [min(extent, 3) for extent in shape]
    index_shape[axis] = 30_000
    index = (RNG.random(index_shape) ** 3 * 20_000).astype(np.int64) - 20_000
    src = RNG.standard_normal(index_shape).astype(np.float32)
    result = ops.scatter(x, index, src, axis, device=on(device, 1 << 15), strategy=strategy, check=True, dma=dma)
    assert result.plan.strategy == strategy
    assert result.plan.tier == (3 if strategy == "rows" else 2)
    if strategy == "bins" or ((strategy, axis) != ("rows", 2) and device != "mlu270-s4"):
        # Elsewhere, rows are cut into a few windows each, and filtering may be faster.
        assert result.log.launches[0].kernel == "scatter_sort"
    assert result.output.tobytes() == in_order(x, index, src, axis).tobytes()


def in_order(x, index, src, axis):
    """NumPy assigns through one index array in order."""
    out = x.copy()
    coordinates = list(np.indices(index.shape))
    coordinates[axis] = index
    out.reshape(-1)[
        np.ravel_multi_index([part % n for part, n in zip(coordinates, x.shape, strict=True)], x.shape).reshape(-1)
    ] = src.reshape(-1)
    return out


@pytest.mark.parametrize("device", BOARDS)
def test_chunks_are_sorted_into_the_regions_that_they_reach(device):
    """A row of [600, 64] is a few elements of a region: no chunk reaches more than three of them."""
    x = RNG.standard_normal((6000, 64)).astype(np.float32)
    index = RNG.integers(-64, 64, x.shape).astype(np.int32)
    result = ops.scatter(x, index, x, 1, device=device, strategy="bins", check=True)
    assert result.output.tobytes() == in_order(x, index, x, 1).tobytes()
    binning, lookups = result.plan.parameters.binning, result.plan.parameters.lookups
    lowest, reach = binning.lowest_rows(lookups), lookups.reach(binning.sizes)
    reached = (lowest + reach) // binning.size - lowest // binning.size + 1
    assert reached.max() <= 3 < binning.bins
    columns = result.log.columns()
    if device == "mlu270-s4":
        # The counters of a chunk; each record of "scalar" stands for those of its bins.
        assert columns["count"][columns["op"] == result.log.ops.index("scalar")].max() <= 3
    else:
        assert columns["count"][columns["op"] == result.log.ops.index("collect_bins")].max() <= 5 * 3


@pytest.mark.parametrize("strategy", ["rows", "slab", "bins"])
def test_boards_without_sorting_vector_instructions_sort_by_scalar_loops(strategy):
    """On 64 cores, it is faster than that each filters all updates for those of its own window."""
    x = RNG.standard_normal(200_000).astype(np.float32)
    index = RNG.integers(-200_000, 200_000, x.shape)
    result = ops.scatter(x, index, x, 0, device="mlu290", strategy=strategy, check=True)
    assert result.output.tobytes() == in_order(x, index, x, 0).tobytes()
    assert {"scalar_bins", "scalar"} <= set(result.log.ops)
    assert result.log.launches[0].kernel == "scatter_sort"
    predicted = result.plan.predicted_ps
    assert predicted is not None
    assert abs(result.time_ps / predicted - 1) < 0.05
    assert mlusim.retime(result, "mlu290", keep_split=True).time_ps == result.time_ps


def test_lists_divide_runs_in_order():
    lengths = np.array([5, 0, 3, 9, 1])
    begins = np.array([0, 10, 20, 30, 40])
    runs = [(count, first.tolist(), counts.tolist()) for count, first, counts in lists(begins, lengths, 6)]
    assert runs == [(6, [0, 20], [5, 1]), (6, [21, 30], [2, 4]), (6, [34, 40], [5, 1])]
    # A run longer than a list.
    assert [part[0] for part in lists(begins[3:4], lengths[3:4], 4)] == [4, 4, 1]
    assert [part[1].tolist() for part in lists(begins[3:4], lengths[3:4], 4)] == [[30], [34], [38]]
    assert list(lists(begins, 0 * lengths, 6)) == []


@pytest.mark.parametrize("device", BOARDS)
def test_tuples_of_two_columns(device):
    x = RNG.standard_normal((37, 53)).astype(np.float32)
    index = np.stack([RNG.integers(-37, 37, (4, 500)), RNG.integers(-53, 53, (4, 500))], axis=-1)
    src = RNG.standard_normal((4, 500)).astype(np.float32)
    result = ops.scatter_nd(x, index, src, mode="standard", device=device, strategy="bins", check=True)
    out = x.copy()
    for place in np.ndindex(src.shape):
        out[tuple(index[place])] = src[place]
    assert np.array_equal(result.output, out)


@pytest.mark.slow
@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("strategy", ["bins", "rows"])
def test_a_timing_only_run_takes_the_time_of_a_run_with_data(device, strategy):
    x = RNG.standard_normal((3, 30_000)).astype(np.float32)
    index = RNG.integers(-30_000, 30_000, x.shape).astype(np.int32)
    run = ops.scatter(x, index, x, 1, device=on(device, 1 << 16), strategy=strategy)
    timed = ops.scatter(x, index, x, 1, device=on(device, 1 << 16), strategy=strategy, data=False)
    assert timed.output is None
    assert timed.time_ps == run.time_ps


@pytest.mark.parametrize("device", BOARDS)
def test_auto_chooses_bins_for_many_updates_of_a_large_axis(device):
    x = RNG.standard_normal((1, 1 << 20)).astype(np.float32)
    index = RNG.integers(0, 1 << 20, x.shape).astype(np.int32)
    result = ops.scatter(x, index, x, 1, device=device)
    assert result.plan.parameters.strategy == "bins"
    assert result.plan.predicted_ps == pytest.approx(result.time_ps, rel=0.15)
    out = x.copy()
    np.put_along_axis(out, index.astype(np.int64), x, 1)
    assert np.array_equal(result.output, out)


@pytest.mark.slow
@pytest.mark.parametrize("device", BOARDS)
def test_a_bins_run_can_be_saved_loaded_and_retimed(device, tmp_path):
    x = RNG.standard_normal((2, 5_000)).astype(np.float32)
    index = RNG.integers(0, 5_000, x.shape).astype(np.int32)
    result = ops.scatter(x, index, x, 1, device=on(device, 1 << 14), strategy="bins")
    place = result.save(tmp_path / "run.zip")
    loaded = mlusim.load(place)
    assert [record.workspace for record in loaded.log.allocations] == [
        record.workspace for record in result.log.allocations
    ]
    again = mlusim.retime(loaded)
    assert again.time_ps == result.time_ps
    # The numbers of interned geometries follow the order in which they come up; what they stand for is the same.
    mine, others = again.log.columns(), result.log.columns()
    for name in (
        "op",
        "task",
        "issue_ps",
        "start_ps",
        "end_ps",
        "bytes_requested",
        "bus_read_bytes",
        "bus_write_bytes",
    ):
        assert np.array_equal(mine[name], others[name]), name


def test_a_file_without_the_column_of_workspaces_loads(tmp_path):
    x = RNG.standard_normal((4, 64)).astype(np.float32)
    place = ops.reverse(x, [1]).save(tmp_path / "run.zip")
    older = tmp_path / "older.zip"
    with zipfile.ZipFile(place) as given, zipfile.ZipFile(older, "w") as written:
        for name in given.namelist():
            content = given.read(name)
            if name == "log/allocations.npy":
                table = io.BytesIO()
                np.save(table, np.load(io.BytesIO(content))[:-1])
                content = table.getvalue()
            written.writestr(name, content)
    assert mlusim.load(older).log.allocations == mlusim.load(place).log.allocations


def test_the_workspace_is_freed_and_is_not_an_output():
    x = RNG.standard_normal((2, 5_000)).astype(np.float32)
    index = RNG.integers(0, 5_000, x.shape).astype(np.int32)
    result = ops.scatter(x, index, x, 1, strategy="bins")
    spaces = [record for record in result.log.allocations if record.workspace]
    assert {record.name for record in spaces} == {"bin starts", "sorted updates"}
    assert all(record.end_ps > 0 for record in spaces)
    assert result.metrics.compulsory_bytes == {"read": 2 * x.nbytes + index.nbytes, "write": x.nbytes}


def test_bins_names_the_reason_if_it_does_not_apply():
    x, index = np.zeros((4, 6), np.float32), np.zeros((5, 1), np.int32)
    with pytest.raises(PlanError, match=r"each lookup here replaces a row of 6; choose strategy 'rows' or 'auto'"):
        ops.scatter_nd(x, index, np.zeros((5, 6), np.float32), mode="standard", strategy="bins")
    with pytest.raises(PlanError, match=r"a region of x and an update do not fit together in the"):
        ops.scatter(x, index[:4], x, 1, device=on("mlu370-x4", 256), strategy="bins")


def sort(rows, values, size, bins, *, data=True, room=None):
    """What collect_bins leaves behind, by one core."""
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
        found["left"] = numbers.typed().copy()

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
    groups, _ = bin_levels(board("mlu370-x4"), count * 4, bins)
    assert np.array_equal(found["left"], found["rows"] if groups > 1 else rows - size * (bins - 1))


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
    assert times[3] == 5 * 3 * (22 + 94) * 1000
    assert times[100] == (5 * (10 * (22 + 94) + 100 * (22 + 1) + 10 * 94) + 2 * (22 + 94)) * 1000


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
    """What scalar_bins leaves behind, by one core of a board whose vector instructions cannot sort."""
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
    # The counter of a bin: cleared, loaded, added to the sum, stored.
    assert times["scalar"] == 4 * (3 * 14 + 2 + 2 * 4) * 1000
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


@pytest.mark.parametrize("data", [True, False])
def test_store_array_keeps_its_numbers_where_the_tensor_keeps_its_bytes(data):
    device = mlusim.Device("mlu370-x4", data=data)
    kept = device.alloc((4, 3), np.int32, "table", workspace=True, keep_data=True)
    read = []

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        for row in range(4):
            core.store_array(kept[row], np.arange(3) * row)
        await core.sync()
        read.append(await core.load_array(kept))

    device.launch(kernel, dim=4)
    device.synchronize()
    assert read[0].tolist() == [[0, 0, 0], [0, 1, 2], [0, 2, 4], [0, 3, 6]]
    assert device.verify().ok


def test_load_array_reads_the_origin_in_a_timing_only_run():
    device = mlusim.Device("mlu370-x4", data=False)
    table = device.alloc((2, 3), np.int32, "table", workspace=True, keep_data=True)
    read = []

    async def kernel(core):
        if core.is_memory_core or core.task_id:
            return
        core.store_array(table, np.arange(6).reshape(2, 3))
        await core.sync()
        near = core.nram.alloc((2, 3), np.int32)
        await core.memcpy(near, table)
        read.append(await core.load_array(near, origin=table))
        with pytest.raises(OperandError, match=r"load_array of .* from .*: both must have the same shape and type"):
            core.load_array(near, origin=table[0])

    device.launch(kernel, dim=4)
    device.synchronize()
    assert read[0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_store_array_takes_numbers_of_the_shape():
    device = mlusim.Device("mlu370-x4")
    table = device.alloc((3,), np.int32)

    async def kernel(core):
        if not core.is_memory_core:
            core.store_array(table, np.arange(4))

    device.launch(kernel, dim=4)
    with pytest.raises(OperandError, match=r"store_array of shape \[4\]"):
        device.synchronize()


@pytest.mark.parametrize("device", BOARDS)
@pytest.mark.parametrize("data", [True, False])
def test_a_net_runs_both_launches_as_one_operator(device, data):
    from mlusim.cinn import Float, Int, NetBuilder

    builder = NetBuilder("two launches")
    x, index = builder.create_input(Float(32), (2, 9_000), "x"), builder.create_input(Int(32), (2, 700), "index")
    src = builder.create_input(Float(32), (2, 800), "src")
    put = builder.scatter(x, index, src, 1, strategy="bins", name="put")
    builder.reverse(put, [1], name="out")
    arrays = {
        "x": RNG.standard_normal((2, 9_000)).astype(np.float32),
        "index": RNG.integers(-9_000, 9_000, (2, 700)).astype(np.int32),
        "src": RNG.standard_normal((2, 800)).astype(np.float32),
    }
    result = builder.build(device).execute(arrays, check=True, data=data)
    log = result.steps[0].result.log
    assert [launch.kernel for launch in log.launches] == ["scatter_sort", "scatter_regions"]
    assert {task.launch for task in log.tasks} == {0, 1}
    assert {record.name for record in log.allocations if record.workspace} == {"bin starts", "sorted updates"}
    if data:
        assert np.array_equal(result.outputs["out"], expected(*arrays.values(), 1)[:, ::-1])


def test_a_plan_beyond_32_bits_counts_rows_in_64():
    plan = ops.plan_scatter((1, 1 << 31), (1, 1 << 20), 1, "int8", strategy="bins")
    plan.check()
    assert plan.parameters.binning.width == 8
