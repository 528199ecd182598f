"""The command line: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import mlusim
from mlusim.cli import main
from mlusim.cli.entries import ENTRIES, summaries
from mlusim.cli.files import read_array, write_array
from mlusim.dtypes import ALL
from mlusim.hardware import presets
from mlusim.ops.commands import COMMANDS

ROOT = Path(__file__).resolve().parent.parent.parent


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def succeed(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def fail(*arguments, code=2):
    """The one line that a failing command prints."""
    result = call(*arguments)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    assert result.exit_code == code
    return result.stderr.removeprefix("error: ").rstrip("\n")


def process(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "mlusim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)


def shifted(x, shifts):
    """tin_shift, element by element in time."""
    out = np.zeros_like(x)
    per_group = x.shape[2] // shifts.shape[1]
    for n, t, c in np.ndindex(x.shape[:3]):
        source = t - int(shifts[n, c // per_group])
        if 0 <= source < x.shape[1]:
            out[n, t, c] = x[n, source, c]
    return out


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 4, 6, 10), np.float32)
    x[0, 0, 0, :2] = np.array([0x7FA00001, 0x80000000], np.uint32).view(np.float32)  # a signalling NaN, -0.0
    np.save("x.npy", x)
    np.save("shifts.npy", np.array([[1, -2, 4], [0, 3, -1]], np.int32))
    return tmp_path


INPUTS = ("--input", "x.npy", "--shifts", "shifts.npy")
RUN = ("run", "tin_shift", *INPUTS)


def expected():
    return shifted(np.load("x.npy"), np.load("shifts.npy"))


# ---------------------------------------------------------------- help


def test_alone_it_prints_its_help_and_how_to_start():
    assert succeed() == succeed("--help")
    assert "mlusim demo" in succeed()
    for name in ("run", "compare", "sweep", "tune"):
        alone = call(name)
        assert (alone.exit_code, alone.stdout, alone.stderr) == (2, "", succeed(name, "-h"))


def test_version_is_that_of_the_one_file_that_pyproject_reads():
    import tomllib

    version_file = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]["path"]
    names = {}
    exec((ROOT / version_file).read_text(), names)  # noqa: S102 - the project's own file
    assert succeed("--version") == f"mlusim {names['__version__']}\n"
    assert mlusim.__version__ == names["__version__"]


@pytest.mark.parametrize("command", [*main.commands, *(f"run {name}" for name in ENTRIES)])
def test_every_help_shows_an_example(command):
    text = succeed(*command.split(), "--help")
    assert f"  mlusim {command} " in text or f"  mlusim {command}\n" in text


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("group", ["run", "compare"])
def test_every_operator_has_its_options_and_no_option_twice(group, name):
    command = main.commands[group].get_command(click.Context(main), name)
    options = [option for parameter in command.params for option in parameter.opts]
    assert len(set(options)) == len(options)
    assert {f"--{tensor.flag_name.replace('_', '-')}" for tensor in ENTRIES[name].tensors} <= set(options)


# ---------------------------------------------------------------- run


def test_run_writes_the_exact_result_and_prints_the_table(folder):
    text = succeed(*RUN, "--out", "out.npy")
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
    succeed("run", "tin_shift", "--input", "one.npz", "--shifts", "both.npz:shifts", "-o", "out.npy", "-q")
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
def test_arrays_in_other_orders(folder, store):
    x = np.load("x.npy").copy()
    x[0, 0, 0, 0] = 1.0  # NumPy itself quiets a signalling NaN when it swaps bytes
    np.save("y.npy", store(x))
    succeed("run", "tin_shift", "--input", "y.npy", "--shifts", "shifts.npy", "-o", "out.npy", "-q")
    assert np.load("out.npy").tobytes() == shifted(x, np.load("shifts.npy")).tobytes()


def test_backward_by_both_rules(folder):
    succeed(*RUN, "--backward", "-o", "mluop.npy", "-q")
    succeed(*RUN, "--backward", "--rule", "adjoint", "-o", "adjoint.npy", "-q")
    assert np.load("mluop.npy").tobytes() == expected().tobytes()
    assert np.load("adjoint.npy").tobytes() == shifted(np.load("x.npy"), -np.load("shifts.npy")).tobytes()


@pytest.mark.parametrize("strategy", ["documented", "shipped", "tight", "batched", "pingpong"])
def test_every_strategy_and_a_board_from_a_file(folder, strategy):
    Path("small.toml").write_text('base = "mlu370-x4"\nclusters = 1\nmax_union = 1\nnram_bytes = 131_328\n')
    succeed(*RUN, "--strategy", strategy, "--device", "small.toml", "-o", "out.npy", "-q")
    assert np.load("out.npy").tobytes() == expected().tobytes()


def test_json_holds_the_same_figures_as_the_result(folder):
    found = json.loads(succeed(*RUN, "--json", "-o", "out.npy", "--report", "report"))
    result = mlusim.ops.tin_shift_forward(np.load("x.npy"), np.load("shifts.npy"))
    assert found["time_ps"] == result.time_ps
    assert found["bus_bytes"] == result.bus_bytes
    assert found["output"] == {"file": "out.npy", "dtype": "float32", "shape": [2, 4, 6, 10]}
    assert {"timeline.png", "tile_map.svg", "summary.json", "trace.json"} <= {Path(p).name for p in found["report"]}
    assert all(Path(path).stat().st_size for path in found["report"])
    assert json.loads(Path("report/summary.json").read_text())["time_ps"] == result.time_ps


def test_quiet_prints_nothing_and_still_writes(folder):
    assert succeed(*RUN, "--quiet", "-o", "out.npy") == ""
    assert Path("out.npy").exists()


def test_explain_and_dry_run(folder):
    plan = succeed(*RUN, "--dry-run")
    assert plan.startswith("tin_shift_forward on mlu370-x4, strategy batched\n")
    assert "tier       1 (whole units)" in plan
    explained = succeed(*RUN, "--explain")
    assert explained.startswith(plan + "\n")
    assert "io_efficiency" in explained
    data = json.loads(succeed(*RUN, "--dry-run", "--json"))
    wanted = mlusim.ops.plan_tin_shift((2, 4, 6, 10), 3)
    assert data == {
        "operator": "tin_shift_forward",
        "board": "mlu370-x4",
        "plan": json.loads(json.dumps(wanted.to_json())),
    }
    assert data["plan"]["tier"] == 1
    written = np.zeros(data["plan"]["output_shape"], int)
    for box in data["plan"]["boxes"]:
        written[tuple(map(slice, box["start"], box["stop"]))] += 1
    assert (written == 1).all()
    run = json.loads(succeed(*RUN, "--explain", "--json"))
    assert run["plan"] == data["plan"]
    assert run["time_ps"] > 0
    assert "boxes" not in json.loads(succeed(*RUN, "--json"))["plan"]


def test_check_adds_the_proof(folder):
    text = succeed(*RUN, "--check")
    assert "tin_shift_forward on mlu370-x4: sound" in text
    assert "split proof" in text
    assert json.loads(succeed(*RUN, "--check", "--json"))["verification"]["ok"] is True
    assert "verification" not in json.loads(succeed(*RUN, "--json"))


def test_a_run_that_is_not_sound_prints_its_report_and_fails(folder, monkeypatch):
    def unsound(*_arguments, **options):
        assert options["check"] is True
        raise mlusim.VerificationError("tin_shift: 1 error\n\nerror: race: two lines")

    monkeypatch.setattr("mlusim.ops.common.run", unsound)
    result = call(*RUN, "--check")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: tin_shift: 1 error\n\nerror: race: two lines\n"


def test_timing_only_gives_the_time_of_the_run_with_data():
    shape = ("--shape", "2x8x16x49", "--dtype", "half", "--seed", 3)
    with_data = json.loads(succeed("run", "tin_shift", *shape, "--json"))
    without = json.loads(succeed("run", "tin_shift", *shape, "--json", "--no-data"))
    assert without["time_ps"] == with_data["time_ps"] > 0


def test_timing_only_tensors_take_no_memory():
    tracemalloc.start()
    found = json.loads(succeed("run", "tin_shift", "--shape", "1,2,4,20000000", "--no-data", "--json"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found["theory_io_bytes"] == 2 * 2 * 4 * 20_000_000 * 4 + 4 * 4
    assert peak < 50_000_000


def test_random_inputs_repeat_and_follow_the_seed():
    def time_ps(*more):
        return json.loads(succeed("run", "tin_shift", "--shape", "4,16,32,50", "--json", *more))["time_ps"]

    assert time_ps() == time_ps("--seed", 0) == time_ps("--groups", 4)
    assert time_ps("--seed", 1) != time_ps("--seed", 2)


# ---------------------------------------------------------------- the other operators


def _flip_lengths(x, lengths):
    return np.stack(
        [np.concatenate([row[:length][::-1], row[length:]]) for row, length in zip(x, lengths, strict=True)]
    )


def _put(x, index, src, axis):
    out = x.copy()
    np.put_along_axis(out, index, src, axis)
    return out


def _put_rows(x, index, src):
    out = x.copy()
    for row, values in zip(index, src, strict=True):
        out[tuple(row)] = values
    return out


_X = np.random.default_rng(2).standard_normal((5, 6, 8)).astype(np.float32)
_INDEX = np.random.default_rng(3).integers(-6, 6, (5, 6, 8))
_SRC = _X[::-1].copy()
_ORDER = np.argsort(np.random.default_rng(4).random(_X.shape), axis=1)
_ROWS = np.array([[0, 1], [4, 5], [-1, 0]])
_LENGTHS = np.array([0, 1, 3, 6, 2], np.int32)
OPERATORS = {
    "reverse": ("reverse --input x --axis 0,-1", {"x": _X}, np.flip(_X, (0, 2))),
    "flip": ("flip --input x --axis 1", {"x": _X}, np.flip(_X, 1)),
    "reverse_sequence": (
        "reverse_sequence --input x --seq-lengths n",
        {"x": _X, "n": _LENGTHS},
        _flip_lengths(_X, _LENGTHS),
    ),
    "gather": (
        "gather --input x --index i --axis 1",
        {"x": _X, "i": _INDEX},
        np.take_along_axis(_X, _INDEX % 6, 1),
    ),
    "gather_nd": (
        "gather_nd --input x --index i --mode standard",
        {"x": _X, "i": _ROWS},
        _X[_ROWS[:, 0], _ROWS[:, 1]],
    ),
    "index_select": (
        "index_select --input x --index n --axis -1",
        {"x": _X, "n": _LENGTHS},
        _X[:, :, _LENGTHS],
    ),
    "scatter": (
        "scatter --input x --index i --src s --axis 1",
        {"x": _X, "i": _ORDER, "s": _SRC},
        _put(_X, _ORDER, _SRC, 1),
    ),
    "scatter_nd": (
        "scatter_nd --input x --index i --src s --mode standard",
        {"x": _X, "i": _ROWS, "s": _SRC[0, :3]},
        _put_rows(_X, _ROWS, _SRC[0, :3]),
    ),
    "cast": ("cast --input x --dtype half", {"x": _X}, _X.astype(np.float16)),
    "bitcast_convert": ("bitcast_convert --input x --dtype uint8", {"x": _X}, _X.view(np.uint8).reshape(5, 6, 8, 4)),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_operator_on_files(tmp_path, monkeypatch, operator):
    monkeypatch.chdir(tmp_path)
    command, arrays, wanted = OPERATORS[operator]
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    words = [f"{word}.npy" if word in arrays else word for word in command.split()]
    printed = succeed("run", *words, "--out", "out.npy")
    out = np.load("out.npy")
    assert (out.dtype, out.shape, out.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())
    assert "io_efficiency" in printed
    assert succeed("run", *words, "--dry-run").startswith(f"{operator} on mlu370-x4, strategy ")


def test_every_operator_is_tested_here():
    assert {*OPERATORS, "tin_shift"} == set(ENTRIES)


def test_help_reads_the_same_names_and_summaries_as_the_schemas():
    assert summaries() == {name: command.summary for name, command in COMMANDS.items()}
    assert list(summaries()) == list(COMMANDS)


RANDOM = {
    "tin_shift": "--shape 2,4,6,10 --groups 3",
    "reverse": "--shape 5,6,8 --axis 0,2 --dtype int64",
    "flip": "--shape 40 --axis 0 --dtype bool",
    "reverse_sequence": "--shape 5,6,8 --dtype complex64",
    "index_select": "--shape 5,6,8 --axis 1 --count 3",
    "gather": "--shape 5,6,8 --axis 1 --index-shape 5,20,7",
    "gather_nd": "--shape 5,6,8 --axes 0,2",
    "scatter": "--shape 5,6,8 --axis -1",
    "scatter_nd": "--shape 5,6,8 --mode standard --index-shape 30,2",
    "cast": "--shape 5,6,8 --input-dtype int32 --dtype bfloat16",
    "bitcast_convert": "--shape 5,6,2 --dtype float64",
}


@pytest.mark.parametrize("operator", ENTRIES)
def test_strategies_of_an_operator_on_random_inputs(operator):
    words = RANDOM[operator].split()
    found = json.loads(succeed("compare", operator, *words, "--json"))
    assert found["results_equal"] is True
    assert len(found["strategies"]) > 1
    names = [row["strategy"] for row in found["strategies"]]
    refused = [row["strategy"] for row in found["refused"]]
    assert [*names, *refused] == [*ENTRIES[operator].strategies]
    table = succeed("compare", operator, *words)
    assert f"All {len(names)} results are equal, bit for bit." in table
    timed = json.loads(succeed("compare", operator, *words, "--json", "--no-data"))
    assert [row["time_ps"] for row in timed["strategies"]] == [row["time_ps"] for row in found["strategies"]]


@pytest.mark.parametrize("dtype", [dtype.name for dtype in ALL])
def test_every_element_type_goes_through_a_file_and_back(tmp_path, dtype):
    array = np.frombuffer(np.random.default_rng(5).bytes(16 * 6), np.dtype(dtype)).reshape(3, -1)
    path = tmp_path / "x.npy"
    write_array("--out", path, array)
    found = read_array("--input", str(path))
    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    scalar = array[0, 0].reshape(())
    write_array("--out", path, scalar)
    assert read_array("--input", str(path)).shape == ()


def test_bfloat16_as_the_help_says_and_as_numpy_writes_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.arange(-8, 8, dtype=np.float32).reshape(4, 4) / 3
    np.save("x.npy", x)
    succeed("run", "cast", "--input", "x.npy", "--dtype", "bfloat16", "-q", "-o", "y.npy")
    assert np.array_equal(np.load("y.npy")["bfloat16"].view("bfloat16"), x.astype("bfloat16"))
    np.save("z.npy", x.astype("bfloat16"))
    for name in ("y.npy", "z.npy"):
        succeed("run", "cast", "--input", name, "--dtype", "float32", "-q", "--force", "-o", "back.npy")
        assert np.array_equal(np.load("back.npy"), x.astype("bfloat16").astype(np.float32))


# ---------------------------------------------------------------- compare, demo, devices


def test_compare_shows_each_strategy_and_that_results_are_equal(folder):
    text = succeed("compare", "tin_shift", *INPUTS)
    names = ["auto:", "documented", "shipped", "tight", "batched", "pingpong"]
    assert [line.split()[0] for line in text.splitlines() if line.split()[:1] and line.split()[0] in names] == names
    assert "All 6 results are equal, bit for bit." in text
    found = json.loads(succeed("compare", "tin_shift", *INPUTS, "--json", "--strategy", "tight"))
    result = mlusim.ops.tin_shift_forward(np.load("x.npy"), np.load("shifts.npy"), strategy="tight")
    assert found["strategies"][0]["time_ps"] == result.time_ps
    assert len(found["strategies"]) == 1


def test_compare_without_data_says_that_it_compared_nothing():
    text = succeed("compare", "tin_shift", "--shape", "1,4,4,9", "--no-data")
    assert "Timing only: results were not compared." in text


def test_the_demo_shifts_a_photograph_exactly(folder):
    text = succeed("demo", "--save", "inputs", "--out", "out.npy", "--explain")
    clip, shifts = np.load("inputs/clip.npy"), np.load("inputs/shifts.npy")
    assert clip.shape == (4, 8, 12, 112 * 112)
    assert 0.2 < clip.mean() < 0.8
    assert clip.std() > 0.1
    assert np.load("out.npy").tobytes() == shifted(clip, shifts).tobytes()
    assert "tier       2" in text
    assert "where time went" in text


@pytest.mark.slow
def test_the_demo_reports_with_a_film(folder):
    succeed("demo", "--report", "report", "--quiet", "--device", "mlu590-h8")
    assert Path("report/film.png").read_bytes().startswith(b"\x89PNG")
    assert Path("report/timeline.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(succeed("demo", "--json"))
    assert found["operator"] == "tin_shift_forward"


def test_devices_lists_every_preset():
    text = succeed("devices")
    names = [board.name for board in presets()]
    assert [line.split()[0] for line in text.splitlines()[1:] if line and line.split()[0] in names] == names
    assert [board["name"] for board in json.loads(succeed("devices", "--json"))] == names


def test_devices_shows_one_with_the_source_of_every_parameter():
    board = mlusim.board("mlu590-h8")
    text = " ".join(succeed("devices", "MLU590-H8").split())
    for name, source in board.sources.items():
        assert f"{name} " in text
        assert source.split()[0] in text
    found = json.loads(succeed("devices", "mlu590-h8", "--json"))
    assert found["sources"] == dict(board.sources)
    assert found["clock_hz"] == board.clock_hz


def test_a_board_printed_as_toml_is_the_same_board(folder):
    Path("copy.toml").write_text(succeed("devices", "mlu370-x4", "--toml"))
    one, other = (
        json.loads(succeed("devices", "copy.toml", "--json")),
        json.loads(succeed("devices", "mlu370-x4", "--json")),
    )
    assert {key: one[key] for key in one if key != "sources"} == {key: other[key] for key in other if key != "sources"}


# ---------------------------------------------------------------- errors


def test_usage_errors_name_the_command_whose_help_tells_more():
    assert fail("runn").startswith("no command 'runn'; did you mean run? there are run, verify, compare, ")
    assert fail("runn").endswith("; see `mlusim --help`")
    assert "see `mlusim run tin_shift --help`" in fail("run", "tin_shift", "--strateg", "x")
    assert fail("run", "tin_shit") == (
        f"no operator 'tin_shit'; did you mean tin_shift? there are {', '.join(ENTRIES)}; "
        "a kernel of your own is FILE.py:KERNEL; see `mlusim run --help`"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing --input and --shifts, or --shape for random inputs; see `mlusim run tin_shift --help`"),
        (("--input", "x.npy"), "missing --shifts; see `mlusim run tin_shift --help`"),
        ((*INPUTS, "--shape", "1,2,3,4"), "--input and --shape: inputs come from files or are random"),
        ((*INPUTS, "--seed", "1"), "--seed is for random inputs: it goes with --shape, not with files"),
        ((*INPUTS, "--dtype", "half"), "--dtype is for random inputs: it goes with --shape, not with files"),
        (("--shape", "1,2,3"), "--shape of rank 3: tin_shift takes N,T,C,HW, such as 2,8,256,196"),
        (("--shape", "1,2,x,y"), "'1,2,x,y' is not a shape such as 2,8,256,196 or 2x8x256x196"),
        (("--shape", "1,2,-3,4"), "'1,2,-3,4' is not a shape"),
        (("--shape", "1,2,4,4", "--dtype", "flot"), "dtype 'flot' is not an element type"),
        (("--shape", "1,2,4,4", "--dtype", "int8"), "input is int8: tin_shift takes float16 or float32"),
        (("--shape", "1,2,4,4", "--groups", "3"), "C = 4 channels do not divide into G = 3 groups"),
        (("--shape", "1,2,4,4", "--strategy", "pingpon"), "did you mean pingpong?"),
        (("--shape", "1,2,4,4", "--rule", "adjoint"), "--rule adjoint without --backward"),
        (("--shape", "1,2,4,4", "--device", "mlu37-x4"), "no board 'mlu37-x4'; did you mean mlu370-x4"),
        (
            ("--shape", "1,2,4,4", "--device", "mlu370-x4,mlu590-h8"),
            "names several boards; `mlusim compare` and `mlusim s",
        ),
        (("--shape", "1,2,4,4", "--device", "no.toml"), "no.toml: cannot be read: No such file or directory"),
        (("--input", "no.npy", "--shifts", "shifts.npy"), "--input no.npy: no such file"),
        (("--input", ".", "--shifts", "shifts.npy"), "--input .: cannot be read: Is a directory"),
        (("--input", "text.npy", "--shifts", "shifts.npy"), "--input text.npy is not an .npy or .npz file"),
        (("--input", "empty.npy", "--shifts", "shifts.npy"), "--input empty.npy is not an .npy or .npz file"),
        (("--input", "cut.npy", "--shifts", "shifts.npy"), "--input cut.npy cannot be read as an array"),
        (("--input", "cut.npz", "--shifts", "shifts.npy"), "--input cut.npz cannot be read as an array"),
        (("--input", "objects.npy", "--shifts", "shifts.npy"), "--input objects.npy holds Python objects, not numbers"),
        (
            ("--input", "text_array.npy", "--shifts", "shifts.npy"),
            "holds <U3, which is not an element type of the board",
        ),
        (("--input", "two.npz", "--shifts", "shifts.npy"), "holds several arrays: a, b; name one, as in two.npz:a"),
        (("--input", "two.npz:c", "--shifts", "shifts.npy"), "two.npz has no array 'c': a, b; name one"),
        (("--input", "x.npy:a", "--shifts", "shifts.npy"), "is an .npy file, which holds one array: leave `:a` off"),
        (("--input", "shifts.npy", "--shifts", "shifts.npy"), "input has shape [2, 3], rank 2"),
        ((*INPUTS, "--out", "x.npy"), "--out x.npy is an input, and inputs are never overwritten: name another file"),
        ((*INPUTS, "--out", "link.npy"), "--out link.npy is an input, and inputs are never overwritten"),
        ((*INPUTS, "--out", "out.txt"), "--out out.txt: the result is written as .npy; name it out.npy"),
        ((*INPUTS, "--out", "no/out.npy"), "--out no/out.npy: there is no directory"),
        ((*INPUTS, "--out", "dir.npy"), "--out dir.npy is a directory: name a file in it"),
        ((*INPUTS, "--out", "out.npy", "--no-data"), "--out with --no-data: there is no result to write"),
        ((*INPUTS, "--report", "x.npy"), "--report x.npy is a file: name a directory"),
        ((*INPUTS, "--report", "report", "--dry-run"), "--report with --dry-run: nothing runs"),
    ],
)
def test_a_wrong_input_is_one_line_and_code_2(folder, arguments, message):
    Path("text.npy").write_text("not an array")
    Path("empty.npy").touch()
    Path("cut.npy").write_bytes(Path("x.npy").read_bytes()[:200])
    np.savez("two.npz", a=np.zeros(3), b=np.zeros(3))
    Path("cut.npz").write_bytes(Path("two.npz").read_bytes()[:200])
    np.save("objects.npy", np.array([None, 1], object))
    np.save("text_array.npy", np.array(["one", "two"]))
    Path("link.npy").symlink_to("x.npy")
    Path("dir.npy").mkdir()
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert message in fail("run", "tin_shift", *arguments)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_devices_errors():
    assert fail("devices", "mlu59-h8").startswith("no board 'mlu59-h8'; did you mean mlu590-h8")
    assert fail("devices", "--toml").startswith("--toml shows one board: name it")
    assert fail("devices", "mlu370-x4", "--toml", "--json").startswith("--toml and --json are two ways")


def test_a_plan_that_no_board_can_hold_fails_with_code_1(folder):
    Path("tiny.toml").write_text('base = "mlu370-x4"\nnram_bytes = 131_100\n')
    assert "no element of 4 B fits" in fail(*RUN, "--device", "tiny.toml", code=1)


def test_tensors_that_do_not_fit_in_gdram_fail_with_code_1():
    message = fail("run", "tin_shift", "--shape", "1,64,64,2000000", "--no-data", code=1)
    assert message.startswith("a tensor of float32 [1, 64, 64, 2000000] takes 32 768 000 000 B (30.52 GiB): it never")
    assert "GDRAM of mlu370-x4; give a smaller shape" in message
    # Of two tensors, either alone would fit.
    message = fail("run", "tin_shift", "--shape", "1,64,64,1000000", "--no-data", code=1)
    assert message.startswith("gdram.alloc of 16 384 000 000 B")


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (MemoryError("Unable to allocate 5 GiB"), "not enough memory on this machine: Unable to allocate 5 GiB", 1),
        (RuntimeError("two\nlines"), "internal error: RuntimeError: two lines. This is a defect of mlusim", 1),
        (mlusim.KernelError("broke", "task 3"), "task 3: broke", 1),
        (OSError(28, "No space left on device", "f"), "f: No space left on device", 2),
    ],
)
def test_whatever_is_raised_is_one_line_and_a_code(monkeypatch, error, line, code):
    def raise_it(*_arguments, **_options):
        raise error

    monkeypatch.setattr("mlusim.cli.run.read_inputs", raise_it)
    assert fail("run", "tin_shift", "--shape", "1,2,4,4", code=code).startswith(line)


def test_a_traceback_is_shown_where_asked_for(monkeypatch):
    def raise_it(*_arguments, **_options):
        raise RuntimeError("deep inside")

    monkeypatch.setattr("mlusim.cli.run.read_inputs", raise_it)
    result = call("--traceback", "run", "tin_shift", "--shape", "1,2,4,4")
    assert "Traceback" in result.stderr
    assert "in raise_it" in result.stderr
    assert result.exit_code == 1


def test_a_write_that_fails_leaves_what_was_there(folder, monkeypatch):
    Path("out.npy").write_bytes(b"before")

    def full(stream, *_arguments, **_options):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlusim.host.array_files.np.save", full)
    assert fail(*RUN, "--out", "out.npy", "--force") == "--out out.npy: cannot be written: No space left on device"
    assert Path("out.npy").read_bytes() == b"before"
    assert sorted(path.name for path in folder.iterdir()) == ["out.npy", "shifts.npy", "x.npy"]


# ---------------------------------------------------------------- as real processes


def test_a_real_process_gives_the_same_result(folder):
    ran = process(*RUN, "--out", "out.npy")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert np.load("out.npy").tobytes() == expected().tobytes()
    assert ran.stdout == succeed(*RUN, "--out", "out.npy", "--force")


def test_a_real_process_fails_in_one_line(folder):
    ran = process("run", "tin_shift", "--input", "no.npy", "--shifts", "shifts.npy")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "error: --input no.npy: no such file\n")


def test_a_reader_who_leaves_early_gets_no_traceback():
    command = f"{sys.executable} -m mlusim devices | true"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    shell = ["/bin/sh", "-c", command]
    ran = subprocess.run(shell, capture_output=True, text=True, check=False, env=environment)
    assert ran.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error():
    with Path("/dev/full").open("w") as full:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "mlusim", "devices"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (2, "error: No space left on device\n")


def on_a_terminal(*arguments, interrupt_after=None, **environment):
    """Output and exit code of a process whose standard streams are a terminal."""
    child, terminal = pty.fork()
    if not child:
        values = {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "100"} | environment
        command = [sys.executable, "-m", "mlusim", *map(str, arguments)]
        os.execve(sys.executable, command, os.environ | values)  # noqa: S606
    output = b""
    started = time.monotonic()
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        output += part
        if interrupt_after and interrupt_after in output:
            os.kill(child, signal.SIGINT)
            interrupt_after = None
        assert part
        assert time.monotonic() - started < 300, "it hangs"
    os.close(terminal)
    return output.decode(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_colour_on_a_terminal_unless_it_is_not_wanted():
    arguments = ("run", "tin_shift", "--shape", "1,4,8,49")
    coloured, code = on_a_terminal(*arguments)
    plain, _ = on_a_terminal(*arguments, NO_COLOR="1")
    assert code == 0
    assert "\x1b[31m" in coloured  # the verdict on so small a shape
    assert "\x1b[31m" not in plain
    error, code = on_a_terminal("devices", "no")
    assert (code, error.startswith("\x1b[31m\x1b[1merror:\x1b[0m no board")) == (2, True)


def test_a_long_run_shows_its_progress_on_a_terminal_and_stops_at_once_when_interrupted():
    shape = ("run", "tin_shift", "--shape", "64,32,4096,1", "--no-data", "--strategy", "documented")
    output, code = on_a_terminal(*shape, interrupt_after=b"operations")
    assert "simulating" in output
    assert "%" in output
    assert "error:\x1b[0m interrupted" in output
    assert "Traceback" not in output
    assert code == 130
