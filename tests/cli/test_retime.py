"""`mlusim retime`, and `--save-run` of the commands that run something."""

from __future__ import annotations

import json

import pytest

import mlusim
from command_line import error_of, output_of
from mlusim.analysis.provenance import provenance
from mlusim.retiming.retime import plan_on


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "cast.zip"
    output_of("run", "cast", "--shape", "1000,64", "--dtype", "int8", "--save-run", path, "--quiet")
    return path


def test_a_run_and_the_demo_are_saved(run, tmp_path):
    assert mlusim.load(run).operator == "cast"
    demo = tmp_path / "demo.zip"
    assert f"wrote {demo}: the run" in output_of("demo", "--save-run", demo)
    assert mlusim.load(demo).plan.operator == "tin_shift_forward"
    answer = json.loads(output_of("demo", "--save-run", demo, "--json"))
    assert answer["run"] == "demo.zip"


def test_an_unwritable_save_path_is_reported_before_the_run(tmp_path):
    words = ("run", "flip", "--shape", "4,4", "--axis", "0", "--save-run")
    assert "there is no directory" in error_of(*words, tmp_path / "none" / "run.zip")
    assert "is a directory" in error_of(*words, tmp_path)
    assert "nothing runs, so there is nothing to save" in error_of(*words, tmp_path / "run.zip", "--dry-run")
    assert list(tmp_path.iterdir()) == []


def test_retiming_on_the_same_board_gives_the_same_time(run):
    text = output_of("retime", run)
    recorded = mlusim.load(run).time_us
    assert f"cast: {recorded:.2f} us on mlu370-x4, as recorded\n{recorded:.2f} us (0.0 %) on mlu370-x4\n" in text
    assert "where time went" in text


def test_parameters_accept_units_and_any_number_format(run):
    words = ("--set", "kernel_start_ps=5us", "--set", "dram_mixing_reach=0.5", "--set", "name=mine")
    answer = json.loads(output_of("retime", run, *words, "--keep-split", "--json"))
    parameters = {"kernel_start_ps": 5_000_000, "dram_mixing_reach": 0.5, "name": "mine"}
    recorded = mlusim.load(run)
    again = mlusim.retime(run, keep_split=True, **parameters)
    assert answer["time_ps"] == again.time_ps
    assert answer["board"]["name"] == "mine"
    assert answer["retimed"] == {
        "run": "cast.zip",
        "recorded_board": "mlu370-x4",
        "recorded_provenance": json.loads(json.dumps(provenance(recorded))),
        "recorded_time_ps": recorded.time_ps,
        "parameters": parameters,
        "other_split": plan_on(recorded, recorded.board.replace(**parameters))[1] or None,
    }
    same = json.loads(output_of("retime", run, "--set", "name=mine", "--json"))
    assert same["retimed"]["other_split"] is None


def test_keeping_the_split_is_reported(run, tmp_path):
    plan = mlusim.load(run).plan
    one_cluster = plan.board.replace(clusters=1, max_union=1)
    other = mlusim.plan("cast", (1000, 64), dtype="int8", device=one_cluster)
    assert other.dim != plan.dim
    message = error_of("retime", run, "--set", "clusters=1", "--set", "max_union=1")
    assert f"cast would be split differently on mlu370-x4: grid {other.dim} instead of {plan.dim}" in message
    words = ("retime", run, "--set", "clusters=1", "--set", "max_union=1", "--keep-split")
    saved, report = tmp_path / "again.zip", tmp_path / "report"
    text = output_of(*words, "--save-run", saved, "--report", report)
    assert f"The recorded split was kept; a new run on that board would use another: grid {other.dim}" in text
    assert mlusim.load(saved).board.clusters == 1
    assert (report / "timeline.svg").exists()
    assert json.loads(output_of(*words, "--json"))["retimed"]["other_split"].startswith("grid")


def test_a_user_kernel(tmp_path):
    async def works(core):
        core.scalar(1000)

    device = mlusim.Device("mlu370-x4")
    device.launch(works, dim=4)
    device.synchronize()
    text = output_of("retime", device.save(tmp_path / "own.zip"), "--device", "mlu590-h8")
    assert "The run has no plan to compare" in text
    assert "on mlu590-h8" in text


def test_mistakes_are_one_line(run, tmp_path):
    (tmp_path / "none.zip").write_bytes(b"none")
    assert "is not a saved run" in error_of("retime", tmp_path / "none.zip")
    assert "no such file" in error_of("retime", tmp_path / "missing.zip")
    assert "no parameter 'foo'" in error_of("retime", run, "--set", "foo=1")
    assert "--set clock_hz: write PARAMETER=VALUE" in error_of("retime", run, "--set", "clock_hz")
    assert "a board has one value of clock_hz" in error_of("retime", run, "--set", "clock_hz=1GHz,2GHz")
    assert "clock_hz" in error_of("retime", run, "--set", "clock_hz=fast")
    assert "no-such" in error_of("retime", run, "--device", "no-such")
    assert "vector operands are rounded out" in error_of("retime", run, "--device", "mlu270-s4")
