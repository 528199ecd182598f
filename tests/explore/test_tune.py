"""Tuning: the best plan is the fastest of all that ran, and reproduces its time."""

from __future__ import annotations

import functools
import json
import re
import shlex

import pytest

import mlusim
from command_line import output_of
from mlusim.analysis.breakdown import CAUSES
from mlusim.errors import InputError, MlusimError
from mlusim.explore.python_files import function_of
from mlusim.explore.tuning import why_slower
from mlusim.hardware.toml_board import to_toml

CASES = {
    "tin_shift": {"shape": (2, 8, 16, 196), "dtype": "float16", "groups": 2},
    "reverse": {"shape": (64, 512), "axis": (-1,)},
    "gather": {"shape": (64, 64), "axis": 1, "seed": 5},
    "cast": {"shape": (300_000,), "dtype": "int8", "input_dtype": "float16"},
}


def tune(operator, **given):
    return mlusim.tune(operator, workers=0, **(CASES[operator] | given))


@pytest.fixture(scope="module")
def tuned():
    """tuned(operator): the tuning of a case, made when it is first needed."""
    return functools.cache(tune)


@pytest.mark.parametrize("operator", CASES)
@pytest.mark.grid(2)
def test_the_best_is_the_fastest_tried_and_runs_in_the_same_time(operator, tuned):
    found = tuned(operator)
    times = [row["time_ps"] for row in found.rows]
    assert times == sorted(times)
    assert len(times) > 3
    assert found.run().time_ps == found.best["time_ps"]
    with pytest.raises(InputError, match=r"^data='no': choose True or False$"):
        found.run(data="no")
    # As `mlusim run` does it, with data: the command that the tuning gives.
    words = shlex.split(found.command)
    assert words[:3] == ["mlusim", "run", operator]
    assert json.loads(output_of(*words[1:], "--json"))["time_ps"] == found.best["time_ps"]


@pytest.mark.parametrize("operator", CASES)
@pytest.mark.slow
def test_tune_is_no_slower_than_a_sweep_over_strategies_and_limits(operator, tuned):
    """Compared with a sweep, which does not depend on the search."""
    found = tuned(operator)
    limits = [None, 200_000, 60_000, 20_000]
    swept = mlusim.sweep(operator, **CASES[operator], strategy="all", nram_limit_bytes=limits, workers=0)
    assert found.best["time_ps"] <= 1.02 * min(row["time_ps"] for row in swept.done)
    whole = [row["time_ps"] for row in swept.done if "nram_limit_bytes" not in row]
    assert found.best["time_ps"] <= min(whole)


def test_the_call_from_python_takes_the_same_time():
    import numpy as np

    found = tune("reverse", device="mlu590-h8")
    x = np.zeros((64, 512), np.float32)
    result = eval(found.call, {"mlusim": mlusim, "x": x})
    assert result.time_ps == found.best["time_ps"]


@pytest.mark.slow
def test_a_smaller_tile_can_win_and_the_command_says_so(tmp_path):
    """A board whose vector unit is so slow that clearing the whole NRAM for each item is what takes the time."""
    found = mlusim.tune("tin_shift", shape=(2, 8, 64, 196), strategy="shipped", workers=0)
    assert found.best["nram_limit_bytes"] is not None
    assert f"--nram-limit {found.best['nram_limit_bytes']}" in found.command
    assert f"nram_limit_bytes={found.best['nram_limit_bytes']}" in found.call
    assert found.rows[-1]["why"]
    assert json.loads(output_of(*shlex.split(found.command)[1:], "--json"))["time_ps"] == found.best["time_ps"]
    db = tmp_path / "points.sqlite"
    for _ in range(2):
        again = mlusim.tune("tin_shift", shape=(2, 8, 64, 196), strategy="shipped", workers=0, db=db)
        assert [row["time_ps"] for row in again.rows] == [row["time_ps"] for row in found.rows]


@pytest.mark.slow
def test_several_processes_find_the_same():
    one, many = tune("reverse").to_json(), mlusim.tune("reverse", workers=2, **CASES["reverse"]).to_json()
    assert one == many


def test_why_a_run_loses():
    best = dict.fromkeys((f"{cause}_us" for cause in CAUSES), 1.0)
    best |= {"time_ps": 10_000_000, "time_us": 10.0, "copies": 10, "traffic_ratio": 1.0, "tasks": 32}
    slower = best | {"time_ps": 16_000_000, "time_us": 16.0, "dma_latency_us": 7.0, "copies": 80}
    assert why_slower(slower, best) == "exposed DMA latency: 6.00 us more, 43.8 % of its time; 8.0 x the copies"
    assert why_slower(slower | {"traffic_ratio": 1.5, "tasks": 8}, best).endswith(
        "; 1.5 x the bytes on the bus; 8 tasks, not 32"
    )
    assert why_slower(best, best) == "as fast"


def test_reasons_for_slower_runs_match_their_figures(tuned):
    found = tuned("tin_shift")
    best = found.best
    for row in found.rows[1:]:
        assert row["slower"] == row["time_ps"] / best["time_ps"] - 1
        if row["slower"]:
            assert " us more, " in row["why"]
    text = json.dumps(found.to_json())
    assert json.loads(text)["best"]["time_ps"] == best["time_ps"]


def test_the_search_stops_at_the_lower_bound(tuned, monkeypatch):
    monkeypatch.setattr("mlusim.explore.tuning_search._LOWER_BOUND_RATIO", 1e9)
    found = tune("tin_shift")
    assert found.at_lower_bound
    monkeypatch.undo()
    assert len(found.rows) <= 6 < len(tuned("tin_shift").rows)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": [(4, 4), (8, 8)]}, r"shape_0 has several values: tune takes one; sweep takes several"),
        ({"device": "mlu370-x4,mlu590-h8"}, r"device has several values: tune takes one; sweep takes several"),
        ({"strategy": "bes"}, r"strategy='bes': .*"),
        ({"axis": 7}, r"reverse: axis=7 of a tensor of rank 2: .*"),
    ],
)
def test_invalid_searches_are_errors(given, message):
    with pytest.raises(InputError, match=f"^{message}"):
        tune("reverse", **given)


def test_nothing_fits(tmp_path):
    path = tmp_path / "tiny.toml"
    path.write_text('base = "mlu370-x4"\nnram_reserved_bytes = 786368\n')
    with pytest.raises(MlusimError, match=r"^reverse: no plan can run on tiny: tiny has 64 B of usable NRAM"):
        tune("reverse", device=str(path))


def test_a_kernel_is_tuned_over_its_settings(kernels):
    found = mlusim.tune(f"{kernels}:add", shape=4000, tile=[64, 256, 1024], workers=0)
    assert [row["time_ps"] for row in found.rows] == sorted(row["time_ps"] for row in found.rows)
    assert found.run().time_ps == found.best["time_ps"]
    assert repr(found).startswith(f"<tuning of add on mlu370-x4: best tile = {found.best['tile']}, ")
    with pytest.raises(InputError, match=r"^device has several values: tune takes one; sweep takes several$"):
        mlusim.tune(f"{kernels}:add", shape=4, device=["mlu370-x4", "mlu590-h8"])


def test_tune_without_anything_to_vary_is_an_error(kernels):
    text = output_of("tune", f"{kernels}:add", "--shape", "4096", "--workers", "0")
    assert "1 setting ran" in text
    assert "Nothing was varied: give several values, such as --set NAME=4,8,16" in text


def test_tune_shows_why_a_setting_cannot_run(kernels):
    text = output_of("tune", f"{kernels}:add", "--shape", "4096", "--set", "tile=-5,512", "--workers", "0")
    assert "1 setting ran; 1 could not run\ncould not run: tile = -5: " in text
    assert "alloc of shape [-5]: an extent cannot be negative" in text
    assert "Nothing was varied" not in text
    # The lower bound of 4096 elements is below the time of a launch.
    assert re.search(r"^the best takes [\d.]+ us, the launch alone 0.98 us$", text, re.MULTILINE)


LAUNCHES = """
async def copy(core, x, out, rows):
    if not core.is_memory_core:
        tile = core.nram.alloc((rows, x.shape[1]), x.dtype)
        for row in range(core.task_id * rows, x.shape[0], core.task_dim * rows):
            await core.memcpy(tile, x[row : row + rows])
            await core.memcpy(out[row : row + rows], tile)


def launch(device, shape, dtype, rows=1):
    x, out = device.alloc(shape, dtype, "x"), device.alloc(shape, dtype, "out")
    device.launch(copy, x, out, rows)
"""


def test_a_function_is_named_so_that_the_command_and_the_call_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "launches.py").write_text(LAUNCHES)
    launch = function_of("launches.py:launch")
    found = mlusim.tune(launch, shape=(256, 64), rows=[1, 2], workers=0)
    assert json.loads(output_of(*shlex.split(found.command)[1:], "--json"))["time_ps"] == found.best["time_ps"]
    names = {"mlusim": mlusim, "launch": launch}
    exec(found.call, names)
    assert names["device"].result().time_ps == found.best["time_ps"]
    # The inputs of a run without data have no contents; they count as inputs.
    assert found.best["compulsory_bytes"] == found.best["bus_read_bytes"] + found.best["bus_write_bytes"]


def test_a_changed_board_is_a_file_in_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = mlusim.board("mlu370-x4").replace(dram_bandwidth_bytes_per_s=10**9)
    found = mlusim.tune("reverse", shape=(64, 64), axis=0, device=board, strategy="mirror", workers=0)
    assert "device='mlu370-x4.toml'" in found.call
    (tmp_path / "mlu370-x4.toml").write_text(to_toml(board))
    assert json.loads(output_of(*shlex.split(found.command)[1:], "--json"))["time_ps"] == found.best["time_ps"]


def test_launch_parameters_that_are_none_are_left_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "launches.py").write_text(LAUNCHES)
    arguments = ("x=random:float32:256,64", "out=float32:256,64", "rows=2")
    copy = functools.partial(mlusim.tune, "launches.py:copy", arguments=arguments, workers=0)
    found, plain = copy(dim=None, kind=None, theory_ops=None), copy()
    assert (found.command, found.best) == (plain.command, plain.best)


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("tune", "tin_shift", "--shape", "2,8,16,196", "--dtype", "float16", "--groups", "2", "--workers", "0")
    found = tune("tin_shift")
    text = output_of(*words)
    assert "the fastest first:" in text
    assert f"  {found.command}\n  {found.call}\n" in text
    assert f"{len(found.rows)} plans ran" in text
    assert output_of(*words, "--quiet") == f"{found.command}\n"
    printed = json.loads(output_of(*words, "--json"))
    assert printed.pop("provenance")["boards"].keys() == {found.board.name}
    assert printed.pop("format") == "mlusim-tune/1"
    assert printed == json.loads(json.dumps(found.to_json()))
    assert len(output_of(*words, "--all").splitlines()) > len(text.splitlines())
    assert list(tmp_path.iterdir()) == []


def test_an_operators_function_stands_for_its_name():
    assert mlusim.tune(mlusim.ops.flip, shape=(64, 64), axis=0, workers=0).operator == "flip"
