"""`mlusim run` and `compare` on files."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import mlusim
from command_line import INPUTS, RUN, call, expected, output_of, shifted


def test_run_writes_the_exact_result_and_prints_the_table(folder):
    text = output_of(*RUN, "--out", "out.npy")
    out = np.load("out.npy")
    assert out.tobytes() == expected().tobytes()
    assert out.dtype == np.float32
    for label in ("time", "cycles", "GDRAM2NRAM requested", "DRAM bus, read", "io_efficiency", "compute_efficiency"):
        assert f"\n{label} " in f"\n{text}"
    assert "vendor's bar" in text
    assert "wrote out.npy: float32 [2, 4, 6, 10]" in text
    assert "\x1b" not in text


def test_npz_with_one_array_or_with_a_key(folder):
    np.savez("both.npz", x=np.load("x.npy"), shifts=np.load("shifts.npy"))
    np.savez_compressed("one.npz", np.load("x.npy"))
    output_of("run", "tin_shift", "--input", "one.npz", "--shifts", "both.npz:shifts", "-o", "out.npy", "-q")
    assert np.load("out.npy").tobytes() == expected().tobytes()


@pytest.mark.parametrize(
    "store",
    [
        lambda x: x.astype(">f4"),
        np.asfortranarray,
        lambda x: x[:, ::-1][:, ::-1],
    ],
    ids=["big endian", "Fortran order", "reversed twice"],
)
def test_arrays_in_any_memory_order(folder, store):
    x = np.load("x.npy").copy()
    x[0, 0, 0, 0] = 1.0  # NumPy itself quiets a signalling NaN when it swaps bytes
    np.save("y.npy", store(x))
    output_of("run", "tin_shift", "--input", "y.npy", "--shifts", "shifts.npy", "-o", "out.npy", "-q")
    assert np.load("out.npy").tobytes() == shifted(x, np.load("shifts.npy")).tobytes()


def test_backward_by_both_rules(folder):
    output_of(*RUN, "--backward", "-o", "mluop.npy", "-q")
    output_of(*RUN, "--backward", "--rule", "adjoint", "-o", "adjoint.npy", "-q")
    assert np.load("mluop.npy").tobytes() == expected().tobytes()
    assert np.load("adjoint.npy").tobytes() == shifted(np.load("x.npy"), -np.load("shifts.npy")).tobytes()


@pytest.mark.parametrize("strategy", ["documented", "shipped", "tight", "batched", "pingpong"])
def test_every_strategy_and_a_board_from_a_file(folder, strategy):
    Path("small.toml").write_text('base = "mlu370-x4"\nclusters = 1\nmax_union = 1\nnram_bytes = 131_328\n')
    output_of(*RUN, "--strategy", strategy, "--device", "small.toml", "-o", "out.npy", "-q")
    assert np.load("out.npy").tobytes() == expected().tobytes()


def test_json_has_the_figures_of_the_result(folder):
    found = json.loads(output_of(*RUN, "--json", "-o", "out.npy", "--report", "report"))
    result = mlusim.ops.tin_shift_forward(np.load("x.npy"), np.load("shifts.npy"))
    assert found["time_ps"] == result.time_ps
    assert found["bus_bytes"] == result.bus_bytes
    assert found["output"] == {"file": "out.npy", "dtype": "float32", "shape": [2, 4, 6, 10]}
    assert {"timeline.png", "tile_map.svg", "summary.json", "trace.json"} <= {Path(p).name for p in found["report"]}
    assert all(Path(path).stat().st_size for path in found["report"])
    assert json.loads(Path("report/summary.json").read_text())["time_ps"] == result.time_ps


def test_quiet_prints_nothing_but_writes_files(folder):
    assert output_of(*RUN, "--quiet", "-o", "out.npy") == ""
    assert Path("out.npy").exists()


def test_explain_and_dry_run(folder):
    plan = output_of(*RUN, "--dry-run")
    assert plan.startswith("tin_shift_forward on mlu370-x4, strategy batched\n")
    assert "tier       1 (whole units)" in plan
    explained = output_of(*RUN, "--explain")
    assert explained.startswith(plan + "\n")
    assert "io_efficiency" in explained
    data = json.loads(output_of(*RUN, "--dry-run", "--json"))
    wanted = mlusim.plan("tin_shift_forward", (2, 4, 6, 10), (2, 3))
    provenance = data.pop("provenance")
    assert provenance["boards"].keys() == {"mlu370-x4"}
    assert data == {
        "format": "mlusim-plan/1",
        "operator": "tin_shift_forward",
        "board": "mlu370-x4",
        "inputs": [{"shape": [2, 4, 6, 10], "dtype": "float32"}, {"shape": [2, 3], "dtype": "int32"}],
        "plan": json.loads(json.dumps(wanted.to_json())),
    }
    assert data["plan"]["tier"] == 1
    written = np.zeros(data["plan"]["output_shape"], int)
    for box in data["plan"]["boxes"]:
        written[tuple(map(slice, box["start"], box["stop"]))] += 1
    assert (written == 1).all()
    run = json.loads(output_of(*RUN, "--explain", "--json"))
    assert run["plan"] == data["plan"]
    assert run["time_ps"] > 0
    assert "boxes" not in json.loads(output_of(*RUN, "--json"))["plan"]


def test_check_adds_the_proof(folder):
    text = output_of(*RUN, "--check")
    assert "tin_shift_forward on mlu370-x4: sound" in text
    assert "split proof" in text
    assert json.loads(output_of(*RUN, "--check", "--json"))["verification"]["ok"] is True
    assert "verification" not in json.loads(output_of(*RUN, "--json"))


def test_a_run_with_errors_prints_its_report_and_fails(folder, monkeypatch):
    def unsound(*_arguments, **options):
        assert options["check"] is True
        raise mlusim.VerificationError("tin_shift: 1 error\n\nerror: race: two lines")

    monkeypatch.setattr("mlusim.ops.call.run", unsound)
    result = call(*RUN, "--check")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: tin_shift: 1 error\n\nerror: race: two lines\n"


def test_timing_only_gives_the_time_of_the_run_with_data():
    shape = ("--shape", "2x8x16x49", "--dtype", "half", "--seed", 3)
    with_data = json.loads(output_of("run", "tin_shift", *shape, "--json"))
    without = json.loads(output_of("run", "tin_shift", *shape, "--json", "--no-data"))
    assert without["time_ps"] == with_data["time_ps"] > 0


def test_late_copies_change_neither_result_nor_time_of_an_operator(folder):
    for dma in ("complete", "late"):
        output_of(*RUN, "--dma", dma, "--out", f"{dma}.npy", "--csv", f"{dma}.csv")
        assert np.load(f"{dma}.npy").tobytes() == expected().tobytes()
    assert Path("late.csv").read_text() == Path("complete.csv").read_text()


@pytest.mark.parametrize("command", ["run", "compare"])
def test_steady_with_data_is_refused_before_the_inputs_are_made(command):
    result = call(command, "reverse", "--shape", "100000,100000", "--axis", "0", "--steady")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: --steady with data:")


def test_timing_only_tensors_take_no_memory():
    tracemalloc.start()
    found = json.loads(output_of("run", "tin_shift", "--shape", "1,2,4,20000000", "--no-data", "--json"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found["theory_io_bytes"] == 2 * 2 * 4 * 20_000_000 * 4 + 4 * 4
    assert peak < 50_000_000


def test_random_inputs_repeat_and_follow_the_seed():
    def time_ps(*more):
        return json.loads(output_of("run", "tin_shift", "--shape", "4,16,32,50", "--json", *more))["time_ps"]

    assert time_ps() == time_ps("--seed", 0) == time_ps("--groups", 4)
    assert time_ps("--seed", 1) != time_ps("--seed", 2)


def test_compare_shows_each_strategy_and_whether_results_are_equal(folder):
    text = output_of("compare", "tin_shift", *INPUTS)
    names = ["auto:", "documented", "shipped", "tight", "batched", "pingpong"]
    assert [line.split()[0] for line in text.splitlines() if line.split()[:1] and line.split()[0] in names] == names
    assert "All 6 results are equal, bit for bit." in text
    found = json.loads(output_of("compare", "tin_shift", *INPUTS, "--json", "--strategy", "tight"))
    result = mlusim.ops.tin_shift_forward(np.load("x.npy"), np.load("shifts.npy"), strategy="tight")
    assert found["strategies"][0]["time_ps"] == result.time_ps
    assert len(found["strategies"]) == 1


def test_compare_without_data_compares_no_results():
    text = output_of("compare", "tin_shift", "--shape", "1,4,4,9", "--no-data")
    assert "Timing only: results were not compared." in text
