"""Sweeps of operators: points equal runs; the grid, files of points, tables."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import mlusim
from mlusim.errors import BoardError, InputError
from mlusim.explore import read_sweep
from mlusim.explore.axes import changed_board
from mlusim.explore.point_figures import FIGURES, PLAN_FIGURES
from sweeping_here import SHAPE, X4, here, inputs


async def kernel(core):
    """Never runs."""


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("strategy", ["documented", "batched"])
def test_a_point_matches_a_run_of_the_operator(dtype, strategy):
    (row,) = here("tin_shift", shape=SHAPE, dtype=dtype, strategy=strategy, device="mlu590-h8").rows
    x, shifts = inputs("tin_shift", SHAPE, dtype)
    run = mlusim.ops.tin_shift_forward(x, shifts, device="mlu590-h8", strategy=strategy)
    metrics = run.metrics
    assert row["status"] == "done"
    assert row["time_ps"] == run.time_ps
    assert row["time_us"] == run.time_us
    assert row["cycles"] == run.cycles
    assert (row["bus_read_bytes"], row["bus_write_bytes"]) == (run.bus_bytes["read"], run.bus_bytes["write"])
    assert row["requested_bytes"] == sum(run.bytes_requested.values())
    assert row["io_efficiency"] == run.io_efficiency
    assert row["peak_nram_bytes"] == metrics.peak_nram_bytes
    assert row["copies"] == metrics.operations["memcpy"]
    assert row["lower_bound_us"] * 1e6 == pytest.approx(run.lower_bound.time_ps)
    assert row["tier"] == run.plan.tier
    assert row["dma_latency_us"] * 1e6 * run.board.cores == pytest.approx(metrics.where_time_went["dma_latency"])
    assert set(PLAN_FIGURES) | set(FIGURES) < set(row)


@pytest.mark.parametrize(
    ("operator", "axes", "call"),
    [
        ("reverse", {"shape": (32, 40), "axis": (0, 1)}, lambda x: mlusim.ops.reverse(x, (0, 1))),
        ("gather", {"shape": (32, 40), "axis": 1}, lambda *a: mlusim.ops.gather(*a, axis=1)),
        ("cast", {"shape": (32, 40), "dtype": "int8"}, lambda x: mlusim.ops.cast(x, "int8")),
        ("scatter_nd", {"shape": (32, 40), "mode": "standard"}, lambda *a: mlusim.ops.scatter_nd(*a, mode="standard")),
    ],
)
def test_operators_with_attributes(operator, axes, call):
    (row,) = here(operator, **axes).rows
    options = {name: value for name, value in axes.items() if name not in ("shape", "dtype")}
    assert row["time_ps"] == call(*inputs(operator, axes["shape"], **options)).time_ps


def test_timing_only_gives_the_same_figures_as_data():
    given = {"shape": (16, 24), "axis": [0, 1], "seed": 3}
    without, with_data = (here("scatter", data=data, **given).rows for data in (False, True))
    assert without == with_data


def test_an_nram_limit_matches_the_operators_argument():
    rows = here("tin_shift", shape=SHAPE, strategy="tight", nram_limit_bytes=[None, 400, 100], nram_bytes=[None]).rows
    x, shifts = inputs("tin_shift", SHAPE)
    assert [row["status"] for row in rows] == ["done", "done", "impossible"]
    assert "with nram_limit_bytes = 100: " in rows[2]["message"]
    run = mlusim.ops.tin_shift_forward(x, shifts, strategy="tight", nram_limit_bytes=400)
    assert rows[1]["time_ps"] == run.time_ps > rows[0]["time_ps"]
    assert run.plan.board == X4
    assert run.plan.nram_limit_bytes == 400
    assert "limited to 400 B" in run.plan.explain()
    assert run.metrics.peak_nram_bytes <= 400
    run.plan.check()


def test_every_combination_in_order():
    found = here("reverse", shape=[(8, 8), (8, 16)], axis=[0, 1], dtype=["float16", "int8"], strategy="all")
    strategies = ["auto", "strided", "mirror", "mixed"]
    expected = [
        (shape, dtype, strategy, axis)
        for shape in ("8x8", "8x16")
        for dtype in ("float16", "int8")
        for strategy in strategies
        for axis in (0, 1)
    ]
    assert [(row["shape"], row["dtype"], row["strategy"], row["axis"]) for row in found.rows] == expected
    assert found.axes == ["shape_1", "dtype", "strategy", "axis"]
    assert found.counts == {"done": 32, "impossible": 0, "failed": 0, "died": 0}


def test_a_list_is_an_axis_and_a_tuple_a_value():
    assert here("reverse", shape=(4, 4), axis=(0, 1)).rows[0]["axis"] == "0,1"
    assert [row["axis"] for row in here("reverse", shape=(4, 4), axis=[0, (0, 1), 0]).rows] == [0, "0,1"]


def test_scalars_of_numpy_are_numbers():
    found = here("reverse", shape=(4, 4), axis=list(np.arange(2)))
    assert [(row["axis"], row["status"]) for row in found.rows] == [(0, "done"), (1, "done")]
    assert [row["axis"] for row in here("reverse", shape=(4, 4), axis=np.array(1)).rows] == [1]


@pytest.mark.parametrize("operator", ["gather_nd", "scatter_nd"])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"axes": 1}, "axes=1 is not a list of axes: name one for each coordinate"),
        ({"index_shape": 99}, "index has shape [99], 99 coordinates a lookup, and input has rank 2"),
        ({"index_shape": "x"}, "index_shape 'x': a shape is an integer or a tuple of integers"),
        ({"index_shape": (-1,)}, "index_shape [-1]: an extent cannot be negative"),
        ({"index_shape": 10**20}, "a tensor of int32 [100000000000000000000] takes"),
    ],
)
def test_options_are_checked_before_inputs_are_drawn(operator, options, message):
    (row,) = here(operator, shape=(4, 6), **options).rows
    assert row["status"] == "impossible"
    assert message in row["message"]


def test_boards_of_other_sizes():
    given = {"shape": SHAPE, "strategy": "documented", "nram_bytes": [None, "512..1KiB*2"][1:]}
    rows = here(
        "tin_shift", cores=[1, 8, 32], vary={"dram_bandwidth_bytes_per_s": ["307.2GB/s", 614.4e9]}, **given
    ).rows
    assert len(rows) == 12
    assert {(row["cores"], row["clusters"]) for row in rows} == {(1, 1), (8, 2), (32, 8)}
    assert {row["nram_usable_bytes"] for row in rows} == {512, 1024}
    assert {row["dram_bandwidth_bytes_per_s"] for row in rows} == {307_200_000_000, 614_400_000_000}
    board = X4.replace(nram_bytes=512 + X4.nram_reserved_bytes, clusters=2, dram_bandwidth_bytes_per_s=614_400_000_000)
    run = mlusim.ops.tin_shift_forward(*inputs("tin_shift", SHAPE), device=board, strategy="documented")
    chosen = [row for row in rows if (row["cores"], row["nram_usable_bytes"]) == (8, 512)]
    assert chosen[1]["time_ps"] == run.time_ps


def test_fewer_cores_leave_the_others_idle(kernels):
    few, grid = (
        mlusim.sweep(f"{kernels}:add", shape=100_000, workers=0, **given).rows[0]
        for given in ({"cores": 8}, {"dim": (4, 2, 1)})
    )
    assert few["time_ps"] == grid["time_ps"]
    assert few["idle_us"] < grid["idle_us"]


def test_parts_of_clusters_and_none():
    board = changed_board(X4, {"cores": 2})
    assert (board.clusters, board.cores_per_cluster) == (1, 2)
    with pytest.raises(BoardError, match=r"^mlu370-x4: 6 cores are not whole clusters of 4; use 4 or 8$"):
        changed_board(X4, {"cores": 6})


def test_tiers_change_at_the_planners_boundaries():
    rows = here("tin_shift", shape=SHAPE, strategy="tight", nram_bytes="128..4KiB*2").rows
    row_bytes, unit_bytes = 49 * 4, 4 * 49 * 4
    for row in rows:
        usable = row["nram_usable_bytes"]
        assert row["tier"] == (1 if usable >= unit_bytes else 2 if usable >= row_bytes else 3)
    assert {row["tier"] for row in rows} == {1, 2, 3}


def test_an_impossible_point_is_a_row_with_its_reason():
    given = {
        "shape": [SHAPE, (2, 4)],
        "nram_bytes": [64, 1024],
        "cores": [4, 6],
        "vary": {"dram_read_efficiency": [0.1, 0.95]},
    }
    found = here("tin_shift", **given)
    assert len(found) == 16
    reasons = {
        (row["shape"], row["nram_usable_bytes"], row["cores"], row["dram_read_efficiency"]): row["message"]
        for row in found.rows
        if row["status"] == "impossible"
    }
    assert len(reasons) == 15
    assert "not whole clusters" in reasons["2x4x8x49", 1024, 6, 0.95]
    assert "must be less than dram_read_efficiency = 0.1" in reasons["2x4x8x49", 1024, 4, 0.1]
    assert "takes N,T,C,HW" in reasons["2x4", 1024, 4, 0.95]
    assert "no element of 4 B fits" in reasons["2x4x8x49", 64, 4, 0.95]
    assert repr(found) == "<sweep of 16 points: 1 done, 15 impossible>"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"operation": "tinshift"},
            r"no operator 'tinshift'; did you mean tin_shift\? choose one of bitcast_convert, cast, .*",
        ),
        ({"shape": []}, r"nothing to sweep: shape has no values; pass at least one"),
        ({"device": "mlu999"}, r"no board 'mlu999'.*"),
        ({"device": 3}, r"3 is not a board: name a preset or a TOML file, or pass a Board"),
        ({"strategy": "tihgt"}, r"strategy='tihgt': did you mean tight\? .*"),
        ({"colour": 1}, r"colour: tin_shift has no such option; it has backward, rule, groups"),
        (
            {"shape": None, "shpae": (2, 8)},
            r"shpae: tin_shift has no such option; did you mean shape\? it has backward, .*",
        ),
        # Not a misspelt `shape`: an option of other operators.
        ({"index_shape": (2, 2)}, r"index_shape: tin_shift has no such option; it has backward, rule, groups"),
        ({"strategi": "tight"}, r"strategi: tin_shift has no such option; did you mean strategy\? it has backward, .*"),
        ({"vary": {"clock": 1}}, r"vary: 'clock' lacks its unit; did you mean clock_hz \(hertz\)\?"),
        ({"vary": {"clock_hz": [1.5]}}, r"clock_hz: 1\.5 is not a whole number"),
        (
            {"vary": {"clusters": 2}, "cores": 4},
            r"vary: cores decides the board's clusters: pass only one of the two",
        ),
        ({"vary": {"name": ["x"]}}, r"vary: no parameter 'name'; .*"),
        ({"cores": 0}, r"cores: 0 is not a whole number above 0"),
        ({"nram_bytes": "1.5KiB,x"}, r"nram_bytes: 'x' is neither a number.*"),
        ({"shape": "2,b"}, r"shape: 'b' is neither a number.*"),
        ({"shape": (2, -1)}, r"shape \[2, -1\]: an extent cannot be negative"),
        ({"shape": np.array([4, 5])}, r"shape=array\(\[4, 5\]\) may be one shape or several: pass tuple.*"),
        ({"shape": [None]}, r"shape None: a shape is an integer or a tuple of integers, such as \(2, 8, 256, 196\)"),
        ({"rule": "adjoint"}, r"--rule adjoint without --backward.*"),
        ({"workers": -1}, r"workers=-1: pass a number of processes, or 0 for this one"),
        (
            {"workers": 10**6},
            r"workers=1000000: this machine has \d+ cores, and more than 4 processes per core are no faster",
        ),
        ({"workers": None, "client": 3}, r"client=3 is not a dask\.distributed\.Client"),
        ({"client": 3}, r"workers and client: points run on this machine or on the cluster; drop one of them"),
        ({"operation": mlusim.ops.tin_shift_backward}, r"tin_shift_backward is an option of tin_shift: .*"),
        ({"operation": 3}, r"3 is neither the name of an operator nor a function"),
        ({"operation": kernel(1)}, r"the kernel is a coroutine object instead of a function: pass `kernel` itself .*"),
        (
            {"shape": [(n,) for n in range(1200)], "nram_limit_bytes": list(range(1, 1000))},
            r"1198800 points \(1200 of .*",
        ),
    ],
)
def test_invalid_sweeps_are_errors(given, message):
    values = {"operation": "tin_shift", "shape": SHAPE, "workers": 0} | given
    with pytest.raises((InputError, BoardError), match=f"^{message}$"):
        mlusim.sweep(values.pop("operation"), **values)


def test_reverse_needs_its_axis():
    with pytest.raises(InputError, match=r"^axis: reverse needs it; give a value, or a list of them to sweep$"):
        here("reverse", shape=(4, 4))


def test_an_operators_function_stands_for_its_name():
    assert here(mlusim.ops.flip, shape=(4, 4), axis=0).rows[0]["operator"] == "flip"
    assert here(mlusim.ops.tin_shift_forward, shape=SHAPE).rows[0]["operator"] == "tin_shift"


def test_finished_points_do_not_run_again(tmp_path, kernels):
    db = tmp_path / "points.sqlite"
    first = mlusim.sweep(f"{kernels}:add", shape=[100, 200], db=db, workers=0)
    more = mlusim.sweep(f"{kernels}:add", shape=[100, 200, 300], db=db, workers=0)
    assert (first.found, more.found) == (0, 2)
    # The time of the host is what it was when the point ran.
    assert more.rows[:2] == first.rows
    assert len(read_sweep(db)) == 3
    with pytest.raises(InputError, match=r"gone\.sqlite: no such file$"):
        read_sweep(tmp_path / "gone.sqlite")


def test_the_columns_of_a_row_are_those_of_its_own_sweep(tmp_path):
    def swept(**axes):
        db = tmp_path / "points.sqlite"
        return mlusim.sweep("reverse", shape=(64, 64), axis=0, db=db, workers=0, **axes).rows

    (plain,) = swept()
    clocks_hz = [X4.clock_hz, X4.clock_hz // 2]
    varied = swept(vary={"clock_hz": clocks_hz})
    assert [row["clock_hz"] for row in varied] == clocks_hz
    assert varied[0] == plain | {"clock_hz": X4.clock_hz}
    assert swept() == [plain]


def test_the_remedy_of_an_impossible_point_is_one_of_its_own_sweep(tmp_path):
    def remedy(**axes):
        db = tmp_path / "points.sqlite"
        (row,) = mlusim.sweep("reverse", shape=(64, 64), axis=0, db=db, workers=0, **axes).rows
        return row["message"].rpartition("; ")[2]

    by_parameter = remedy(vary={"nram_bytes": X4.nram_reserved_bytes + 64})
    assert remedy(nram_bytes=64) == "raise nram_bytes"
    assert remedy(vary={"nram_bytes": X4.nram_reserved_bytes + 64}) == by_parameter
    assert by_parameter == "give the board more nram_bytes or fewer nram_reserved_bytes"


def test_failed_points_run_again_on_request(tmp_path, kernels):
    given = {"operation": f"{kernels}:divides_by_zero", "shape": 4, "db": tmp_path / "points.sqlite", "workers": 0}
    operation = given.pop("operation")
    assert [mlusim.sweep(operation, **given, retry=retry).found for retry in (False, False, True)] == [0, 1, 0]


def test_tables_by_suffix(tmp_path):
    found = here("tin_shift", shape=[SHAPE, (2, 3)], dtype="float16", strategy="tight", seed=np.int64(0))
    found.save(tmp_path / "table.json")
    assert json.loads((tmp_path / "table.json").read_text()) == found.to_json()
    assert found.to_json()["rows"] == found.rows
    import csv

    found.save(tmp_path / "table.csv")
    about = json.loads((tmp_path / "table.csv.json").read_text())
    assert about | {"rows": found.rows} == found.to_json()
    assert about["provenance"]["boards"]["mlu370-x4"]["clock_hz"] == 1_000_000_000
    assert found.rows[0]["tensors"].startswith("input=float16:")
    done, refused = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    assert float(done["time_us"]) == found.rows[0]["time_us"]
    assert int(done["bus_read_bytes"]) == found.rows[0]["bus_read_bytes"]
    assert (refused["status"], refused["time_us"]) == ("impossible", "")
    with pytest.raises(InputError, match=r"table\.txt: a table is a \.parquet, \.csv or \.json file: use one"):
        found.save(tmp_path / "table.txt")
    with pytest.raises(InputError, match=r"name a file in an existing directory$"):
        found.save(tmp_path / "gone" / "table.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv", "table.csv.json", "table.json"]


@pytest.mark.slow
def test_a_table_goes_through_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    found = here("tin_shift", shape=[SHAPE, (2, 3)], dtype="float16", strategy=["tight", "batched"])
    table = found.table()
    assert len(table) == 4
    assert table["time_us"].tolist()[:2] == [row["time_us"] for row in found.rows[:2]]
    assert table["time_ps"].dtype == "Int64"
    back = pandas.read_parquet(found.save(tmp_path / "table.parquet"))
    assert back.columns.tolist() == table.columns.tolist()
    assert back.attrs | {"rows": found.rows} == table.attrs | {"rows": found.rows} == found.to_json()
    assert back["strategy"].tolist() == ["tight", "batched"] * 2
    assert back["time_us"].dropna().tolist() == table["time_us"].dropna().tolist()


def test_without_pandas_the_message_says_what_to_install(monkeypatch, tmp_path):
    found = here("reverse", shape=(4,), axis=0)
    for name in ("pandas", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"^a table needs pandas: pip install pandas; `rows` has the same as dicts$"):
        found.table()
    with pytest.raises(InputError, match=r"Parquet needs pyarrow: pip install pyarrow, or name a \.csv$"):
        found.save(tmp_path / "table.parquet")


def test_a_parameter_called_strategy_is_a_setting():
    async def copy(core, x, out, strategy="whole"):
        if core.is_memory_core or core.task_id:
            return
        buffer = core.nram.alloc(x.shape, x.dtype)
        for part in [slice(0, x.size)] if strategy == "whole" else [slice(0, 32), slice(32, x.size)]:
            await core.memcpy(buffer[part], x[part])
            await core.memcpy(out[part], buffer[part])

    whole, parts = here(copy, shape=64, strategy=["whole", "parts"]).rows
    assert [whole["strategy"], parts["strategy"]] == ["whole", "parts"]
    assert whole["time_ps"] < parts["time_ps"]
    best = mlusim.tune(copy, shape=64, strategy=["whole", "parts"], workers=0)
    assert best.best["strategy"] == "whole"


@pytest.mark.parametrize("name", ["tin_shift", "reverse", "gather", "cast"])
def test_too_little_nram_names_the_value_that_was_swept(name):
    shape = {"tin_shift": (2, 8, 16, 49)}.get(name, (64, 64))
    more = {"reverse": {"axis": [0]}, "gather": {"index_shape": (8, 64)}, "cast": {"dtype": "float16"}}.get(name, {})
    (row,) = here(name, shape=shape, nram_bytes=1, **more).rows
    assert row["status"] == "impossible"
    assert row["message"].endswith("; raise nram_bytes")
