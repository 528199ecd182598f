"""scatter by strategy "bins", compared with NumPy."""

from __future__ import annotations

import io
import zipfile
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim
from mlusim import ops
from mlusim.errors import PlanError
from mlusim.kernels.sorted_scatter import run_lists
from operator_runs import BOARDS, on, scattered

RNG = np.random.default_rng(7)


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
    assert result.output.tobytes() == scattered(x, index, src, axis).tobytes()
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


@pytest.mark.grid(24)
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
@pytest.mark.parametrize("rows", [6000, 12_000, 40_000])
def test_chunks_are_sorted_into_the_regions_that_they_reach(device, rows):
    """A chunk of whole rows reaches a few regions; where vector instructions sort, one region needs no sorting."""
    x = RNG.standard_normal((rows, 64)).astype(np.float32)
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
        counts = [columns["count"][columns["op"] == at] for at, op in enumerate(result.log.ops) if op == "collect_bins"]
        # The last chunk may be smaller, and reach one region less.
        assert 0 <= (reached > 1).sum() - sum(map(len, counts)) <= 1
        assert all(count.max() <= 5 * reached.max() for count in counts)


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


def divided(begins, lengths, room):
    runs = run_lists(begins, lengths, room)
    return [(count, runs.begins[part].tolist(), runs.lengths[part].tolist()) for count, part in runs.lists]


def updates_of(begins, lengths):
    return [*chain(*(range(begin, begin + length) for begin, length in zip(begins, lengths, strict=True)))]


def test_lists_divide_runs_in_order():
    lengths = np.array([5, 0, 3, 9, 1])
    begins = np.array([0, 10, 20, 30, 40])
    assert divided(begins, lengths, 6) == [(6, [0, 20], [5, 1]), (6, [21, 30], [2, 4]), (6, [34, 40], [5, 1])]
    # A run longer than a list.
    assert divided(begins[3:4], lengths[3:4], 4) == [(4, [30], [4]), (4, [34], [4]), (1, [38], [1])]
    assert divided(begins, 0 * lengths, 6) == []


@given(lengths=st.lists(st.integers(0, 9), max_size=20), room=st.integers(1, 12))
def test_lists_contain_every_update_once(lengths, room):
    begins = np.cumsum([0, *lengths])[:-1] * 2
    runs = divided(begins, np.array(lengths, np.int64), room)
    found = [updates_of(*part) for _, *part in runs]
    assert list(chain(*found)) == updates_of(begins.tolist(), lengths)
    assert [count for count, *_ in runs] == list(map(len, found))
    assert all(len(part) == room for part in found[:-1])


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
        assert np.array_equal(result.outputs["out"], scattered(*arrays.values(), 1).view(np.float32)[:, ::-1])


def test_a_plan_beyond_32_bits_counts_rows_in_64():
    plan = mlusim.plan("scatter", (1, 1 << 31), (1, 1 << 20), (1, 1 << 20), axis=1, input_dtype="int8", strategy="bins")
    plan.check()
    assert plan.parameters.binning.width == 8
