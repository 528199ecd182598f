"""The command line: help, boards, errors, exit codes, in real processes."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path

import click
import numpy as np
import pytest

import mlusim
from command_line import INPUTS, ROOT, RUN, call, error_of, expected, output_of, shifted
from mlusim.cli import main
from mlusim.cli.operators import SUMMARIES
from mlusim.hardware import presets
from mlusim.ops.commands import COMMANDS

PROGRAM = str(ROOT / "tests/bangc/kernels/program.mlu")


def process(*arguments, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-m", "mlusim", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)


def test_without_arguments_the_command_prints_help():
    assert output_of() == output_of("--help")
    assert "mlusim demo" in output_of()
    for name in ("run", "compare", "sweep", "tune"):
        alone = call(name)
        assert (alone.exit_code, alone.stdout, alone.stderr) == (2, "", output_of(name, "-h"))


def test_version_matches_pyproject():
    import tomllib

    version_file = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["version"]["path"]
    names = {}
    exec((ROOT / version_file).read_text(), names)
    assert output_of("--version").startswith(f"mlusim {names['__version__']}, ")
    assert mlusim.__version__ == names["__version__"]


@pytest.mark.parametrize("command", [*main.commands, *(f"run {name}" for name in SUMMARIES)])
def test_every_help_shows_an_example(command):
    text = output_of(*command.split(), "--help")
    assert f"  mlusim {command} " in text or f"  mlusim {command}\n" in text


@pytest.mark.parametrize("name", SUMMARIES)
@pytest.mark.parametrize("group", ["run", "compare"])
def test_every_operator_has_its_options_exactly_once(group, name):
    command = main.commands[group].get_command(click.Context(main), name)
    options = [option for parameter in command.params for option in parameter.opts]
    assert len(set(options)) == len(options)
    assert {f"--{tensor.flag_name.replace('_', '-')}" for tensor in COMMANDS[name].operator.inputs} <= set(options)


def test_the_demo_shifts_a_photograph_exactly(folder):
    text = output_of("demo", "--save", "inputs", "--out", "out.npy", "--explain")
    clip, shifts = np.load("inputs/clip.npy"), np.load("inputs/shifts.npy")
    assert clip.shape == (4, 8, 12, 112 * 112)
    assert 0.2 < clip.mean() < 0.8
    assert clip.std() > 0.1
    assert np.load("out.npy").tobytes() == shifted(clip, shifts).tobytes()
    assert "tier       2" in text
    assert "where time went" in text


@pytest.mark.slow
def test_the_demo_writes_a_report_with_a_film(folder):
    output_of("demo", "--report", "report", "--quiet", "--device", "mlu590-h8")
    assert Path("report/film.png").read_bytes().startswith(b"\x89PNG")
    assert Path("report/timeline.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(output_of("demo", "--json"))
    assert found["operator"] == "tin_shift_forward"


def test_devices_lists_every_preset():
    assert f"[default: {mlusim.hardware.DEFAULT_BOARD}]" in output_of("tune", "flip", "--help")
    text = output_of("devices")
    assert "mlu370-x4 372 8 x 4 1 000 MHz 307.2 GB/s 640 KiB 3.875 MiB 8" in " ".join(text.split())
    names = [board.name for board in presets()]
    assert [line.split()[0] for line in text.splitlines()[1:] if line and line.split()[0] in names] == names
    assert [board["name"] for board in json.loads(output_of("devices", "--json"))["boards"]] == names


def test_devices_shows_the_source_of_every_parameter():
    board = mlusim.board("mlu590-h8")
    text = " ".join(output_of("devices", "MLU590-H8").split())
    for name, source in board.sources.items():
        assert f"{name} " in text
        assert source.split()[0] in text
    (found,) = json.loads(output_of("devices", "mlu590-h8", "--json"))["boards"]
    assert found["sources"] == dict(board.sources)
    assert found["clock_hz"] == board.clock_hz


def test_a_board_printed_as_toml_is_the_same_board(folder):
    Path("copy.toml").write_text(output_of("devices", "mlu370-x4", "--toml"))
    (one,), (other,) = (
        json.loads(output_of("devices", name, "--json"))["boards"] for name in ("copy.toml", "mlu370-x4")
    )
    assert {key: one[key] for key in one if key != "sources"} == {key: other[key] for key in other if key != "sources"}


def test_usage_errors_name_the_help_command():
    assert error_of("runn").startswith("no command 'runn'; did you mean run? choose one of run, verify, compare, ")
    assert error_of("runn").endswith("; see `mlusim --help`")
    assert "see `mlusim run tin_shift --help`" in error_of("run", "tin_shift", "--strateg", "x")
    assert error_of("run", "tin_shit") == (
        f"no operator 'tin_shit'; did you mean tin_shift? choose one of {', '.join(SUMMARIES)}; "
        "a kernel of your own is FILE.py:KERNEL or FILE.mlu:ENTRY; see `mlusim run --help`"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("k.py:add", "--shape", "8"), "no command 'k.py:add'; did you mean `mlusim run k.py:add`? choose one of "),
        (("tin_shift",), "no command 'tin_shift'; did you mean `mlusim run tin_shift`? choose one of "),
        (("help",), "no command 'help'; did you mean `mlusim --help`? choose one of "),
        (("profile",), "no command 'profile'; did you mean `mlusim explain`? choose one of "),
        (("run", "tin_shift", "1,2,4,4"), "argument (1,2,4,4); a shape is given by an option: --shape 1,2,4,4; see "),
        (("run", "--device", "mlu290", "flip"), "option '--device'; options follow flip: mlusim run flip --device ..."),
        (
            ("devices", "--device", "mlu290"),
            "option '--device'; a board is the argument of this command: mlusim devices",
        ),
        (("run", "k.py::add"), "k.py::add: write one colon, k.py:add"),
        (
            ("bangc", "run", PROGRAM, "--with", PROGRAM, PROGRAM),
            f"name each with a --with of its own, --with {PROGRAM}; ",
        ),
    ],
)
def test_words_in_a_wrong_place_are_answered_with_the_right_command(words, message):
    assert message in error_of(*words)


@pytest.mark.parametrize("command", ["run", "compare", "tune", "sweep"])
def test_a_missing_option_of_an_operator_is_named_as_it_is_typed(command):
    assert error_of(command, "flip", "--shape", "3") == f"Missing option '--axis'; see `mlusim {command} flip --help`"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing --input and --shifts, or --shape for random inputs; see `mlusim run tin_shift --help`"),
        (("--input", "x.npy"), "missing --shifts; see `mlusim run tin_shift --help`"),
        ((*INPUTS, "--shape", "1,2,3,4"), "--input and --shape: inputs come from files or are random"),
        ((*INPUTS, "--seed", "1"), "--seed is for random inputs: it goes with --shape, not with files"),
        ((*INPUTS, "--dtype", "half"), "--dtype is for random inputs: it goes with --shape, not with files"),
        (("--shape", "1,2,3"), "shape of rank 3: tin_shift takes N,T,C,HW, such as 2,8,256,196"),
        (("--shape", "1,000"), "'1,000' is not a shape such as 2,8,256,196 or 2x8x256x196"),
        (("--shape", "1,2,x,y"), "'1,2,x,y' is not a shape such as 2,8,256,196 or 2x8x256x196"),
        (("--shape", "1x2,3x4"), "'1x2,3x4' mixes 'x' and ',': a shape has one separator, such as 1x2x3x4"),
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
        (("--shape", "1,2,4,4", "--device", "no.toml"), "no.toml: no such file"),
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
        (("--input", "x.npy:a", "--shifts", "shifts.npy"), "is an .npy file, which holds one array: omit `:a`"),
        (("--input", "shifts.npy", "--shifts", "shifts.npy"), "input has shape [2, 3], rank 2"),
        ((*INPUTS, "--out", "x.npy"), "--out x.npy is an input, and inputs are never overwritten: name another file"),
        ((*INPUTS, "--out", "link.npy"), "--out link.npy is an input, and inputs are never overwritten"),
        ((*INPUTS, "--out", "out.txt"), "--out out.txt: the result is written as .npy; name it out.npy"),
        ((*INPUTS, "--out", "no/out.npy"), "--out no/out.npy: there is no directory"),
        ((*INPUTS, "--out", "dir.npy"), "--out dir.npy is a directory: name a file in it"),
        ((*INPUTS, "--out", "out.npy", "--no-data"), "--out with --no-data: there is no result to write"),
        ((*INPUTS, "--report", "x.npy"), "--report x.npy is a file: name a directory"),
        ((*INPUTS, "--report", ""), "--report: the name of the directory is empty"),
        ((*INPUTS, "--out", ""), "--out: the name of the file is empty"),
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
    assert message in error_of("run", "tin_shift", *arguments)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_devices_errors():
    assert error_of("devices", "mlu59-h8").startswith("no board 'mlu59-h8'; did you mean mlu590-h8")
    assert error_of("devices", "--toml").startswith("--toml shows one board: name it")
    assert error_of("devices", "mlu370-x4", "--toml", "--json").startswith("--toml and --json are two ways")


def test_a_plan_that_fits_no_board_exits_with_code_1(folder):
    Path("tiny.toml").write_text('base = "mlu370-x4"\nnram_bytes = 131_100\n')
    assert "no element of 4 B fits" in error_of(*RUN, "--device", "tiny.toml", code=1)


def test_tensors_larger_than_gdram_exit_with_code_1():
    message = error_of("run", "tin_shift", "--shape", "1,64,64,2000000", "--no-data", code=1)
    assert message.startswith(
        "a tensor of float32 [1, 64, 64, 2000000] takes 32 768 000 000 B (30.52 GiB): it can never"
    )
    assert "GDRAM of mlu370-x4; choose a smaller shape" in message
    # Of two tensors, either alone would fit.
    message = error_of("run", "tin_shift", "--shape", "1,64,64,1000000", "--no-data", code=1)
    assert message.startswith("gdram.alloc of 16 384 000 000 B")


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (KeyboardInterrupt(), "interrupted", 130),
        (MemoryError("Unable to allocate 5 GiB"), "not enough memory on this machine: Unable to allocate 5 GiB", 1),
        (RuntimeError("two\nlines"), "internal error: RuntimeError: two lines. This is a bug in mlusim", 1),
        (mlusim.KernelError("broke", "task 3"), "task 3: broke", 1),
        (
            ModuleNotFoundError("No module named 'PIL'", name="PIL"),
            "the package PIL is missing: install mlusim again",
            1,
        ),
        (OSError(28, "No space left on device", "f"), "f: No space left on device", 2),
    ],
)
def test_any_exception_is_reported_in_one_line_with_an_exit_code(monkeypatch, error, line, code):
    def raise_it(*_arguments, **_options):
        raise error

    monkeypatch.setattr("mlusim.cli.run.read_operator_inputs", raise_it)
    assert error_of("run", "tin_shift", "--shape", "1,2,4,4", code=code).startswith(line)


def test_a_traceback_is_shown_on_request(monkeypatch):
    def raise_it(*_arguments, **_options):
        raise RuntimeError("deep inside")

    monkeypatch.setattr("mlusim.cli.run.read_operator_inputs", raise_it)
    result = call("--traceback", "run", "tin_shift", "--shape", "1,2,4,4")
    assert "Traceback" in result.stderr
    assert "in raise_it" in result.stderr
    assert result.exit_code == 1


def test_a_failed_write_leaves_the_old_file(folder, monkeypatch):
    Path("out.npy").write_bytes(b"before")

    def full(stream, *_arguments, **_options):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlusim.host.array_files.np.save", full)
    assert error_of(*RUN, "--out", "out.npy", "--force") == "--out out.npy: cannot be written: No space left on device"
    assert Path("out.npy").read_bytes() == b"before"
    assert sorted(path.name for path in folder.iterdir()) == ["out.npy", "shifts.npy", "x.npy"]


@pytest.mark.slow
def test_an_array_that_cannot_be_written_is_reported_with_the_reason(folder):
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (200, 200))
    ran = process(*RUN, "--out", "out.npy", "--quiet", preexec_fn=limit)
    assert (ran.returncode, ran.stderr) == (2, "error: --out out.npy: cannot be written: File too large\n")
    assert not Path("out.npy").exists()


def test_a_real_process_gives_the_same_result(folder):
    ran = process(*RUN, "--out", "out.npy")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert np.load("out.npy").tobytes() == expected().tobytes()
    assert ran.stdout == output_of(*RUN, "--out", "out.npy", "--force")


@pytest.mark.slow
def test_a_real_process_fails_in_one_line(folder):
    ran = process("run", "tin_shift", "--input", "no.npy", "--shifts", "shifts.npy")
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "error: --input no.npy: no such file\n")


@pytest.mark.parametrize("word", ["devices", "--help"])
def test_a_closed_pipe_is_no_error(word):
    reader, writer = os.pipe()
    os.close(reader)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mlusim", word]
    ran = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error():
    with Path("/dev/full").open("w") as full:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "mlusim", "devices"]
        ran = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (ran.returncode, ran.stderr) == (2, "error: the output cannot be written: No space left on device\n")


def test_the_help_has_the_summary_of_every_command():
    from mlusim.cli.command_line import SUMMARIES

    assert {name: command.get_short_help_str(1000) for name, command in main.commands.items()} == SUMMARIES


def test_the_help_imports_no_command():
    code = "import sys; from mlusim.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    ours = {name for name in done.stdout.split() if name.startswith("mlusim.cli.")}
    assert ours <= {
        f"mlusim.cli.{name}" for name in ("command_line", "help_format", "local_paths", "console", "standard_output")
    }
