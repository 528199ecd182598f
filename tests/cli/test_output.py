"""Rules for every command: --json, --quiet, -o, exit codes, invalid output files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest

import mlusim
from command_line import call
from mlusim.cli import main
from mlusim.cli.command_files import write_bytes
from mlusim.cli.command_line import FAILED, INTERRUPTED, USAGE
from mlusim.cli.operators import SUMMARIES
from mlusim.files import atomic_write

SMALL = ("tin_shift", "--shape", "1x4x6x10")


def commands():
    """Every command with its words; of those for operators, the first operator's."""
    for name, command in main.commands.items():
        if not isinstance(command, click.Group):
            yield name, command
            continue
        context = click.Context(command)
        first = command.list_commands(context)[0]
        yield f"{name} {first}", command.get_command(context, first)


COMMANDS = dict(commands())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = mlusim.ops.tin_shift_forward(np.ones((1, 4, 6, 10), np.float32), np.ones((1, 2), np.int32))
    result.save("run.zip")
    return tmp_path


# What each command does on something small, and what it may write.
DOES = {
    "bangc": ("bangc", "check", Path(__file__).parents[1] / "bangc" / "kernels" / "basics.mlu"),
    "run": ("run", *SMALL),
    "run, planned": ("run", *SMALL, "--dry-run"),
    "compare": ("compare", *SMALL, "--strategy", "tight,pingpong"),
    "demo": ("demo",),
    "devices": ("devices",),
    "devices of one": ("devices", "mlu370-x4"),
    "report": ("report", "run.zip", "-o", "out"),
    "retime": ("retime", "run.zip", "--device", "mlu370-x8"),
    "sweep": ("sweep", *SMALL, "--no-db", "-j", "0"),
    "tune": ("tune", *SMALL, "--strategy", "tight", "-j", "0"),
    "validate": ("validate", "fill-one"),
    "verify": ("verify", *SMALL),
    "diff": ("diff", "run.zip", "run.zip"),
    "explain": ("explain", "run.zip"),
    "compile": ("compile", Path(__file__).parents[1] / "bangc" / "kernels" / "basics.mlu"),
    "inspect": ("inspect", "run.zip", "--at", "1us"),
}


def test_every_command_is_here():
    assert {name.partition(",")[0].partition(" ")[0] for name in DOES} == set(main.commands) - {"completion", "mcp"}


@pytest.mark.parametrize("name", DOES)
@pytest.mark.grid(6)
def test_json_output_contains_nothing_else(folder, name):
    done = call(*DOES[name], "--json")
    assert done.exit_code == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict | list)
    assert done.stderr == ""


@pytest.mark.parametrize("name", DOES)
def test_quiet_prints_nothing(folder, name):
    done = call(*DOES[name], "--quiet")
    assert (done.exit_code, done.stderr) == (0, "")
    if name == "tune":  # but the command that it was asked for
        assert re.fullmatch(r"mlusim run tin_shift .*\n", done.stdout)
    else:
        assert done.stdout == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_that_writes_a_file_has_a_short_form(name):
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    assert ("-o" in options) == (
        name.partition(" ")[0]
        not in ("compare", "tune", "completion", "diff", "bangc", "inspect", "explain", "compile", "mcp")
    )
    assert "-q" in options or name in ("completion", "mcp")
    assert "--json" in options or name in ("completion", "mcp")


@pytest.mark.parametrize("name", SUMMARIES)
@pytest.mark.parametrize("group", ["run", "compare", "sweep", "tune"])
def test_every_option_of_an_operator_is_in_its_help_once(group, name):
    command = main.commands[group].get_command(click.Context(main), name)
    text = call(group, name, "--help").stdout
    for parameter in command.params:
        for option in parameter.opts:
            assert len(re.findall(rf"^  (?:-\w, )?(?:--[\w-]+, )*{option}\b(?!-)", text, re.MULTILINE)) == 1, option
    heads = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert "Output" in heads
    assert heads[-1].startswith("Strategies")


def test_exit_codes_match_the_help():
    text = call("--help").stdout
    codes = re.findall(r"^ +(\d+)  ", text.partition("Exit codes:")[2], re.MULTILINE)
    assert [int(code) for code in codes] == [0, FAILED, USAGE, INTERRUPTED]


def test_a_board_as_a_file(folder):
    done = call("devices", "mlu370-x4", "--toml", "--out", "mine.toml")
    assert (done.exit_code, done.stdout) == (0, "")
    assert Path("mine.toml").read_text() == call("devices", "mlu370-x4", "--toml").stdout
    assert call("devices", "mine.toml", "--quiet").exit_code == 0
    Path("mine.toml").write_text('base = "mlu370-x4"\nclock_mhz = 900\n')
    refused = call("devices", "mine.toml", "--quiet")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: mine.toml: no parameter 'clock_mhz'")


def test_compare_accepts_a_list_or_repeated_strategies():
    listed = json.loads(call("compare", *SMALL, "--json", "--strategy", "tight, pingpong").stdout)
    repeated = json.loads(call("compare", *SMALL, "--json", "--strategy", "tight", "--strategy", "pingpong").stdout)
    # Both say what was called, each in its own words.
    commands = [answer["provenance"].pop("command") for answer in (listed, repeated)]
    assert commands[0].endswith("--strategy 'tight, pingpong'")
    assert commands[1].endswith("--strategy tight --strategy pingpong")
    assert listed == repeated
    assert [row["strategy"] for row in listed["strategies"]] == ["tight", "pingpong"]


# Each is refused before anything runs: what would run is made to fail.
UNWRITABLE = [
    ("run", *SMALL, "-o", "{}.npy"),
    ("run", *SMALL, "--report", "{}"),
    ("run", *SMALL, "--save-run", "{}"),
    ("demo", "--out", "{}.npy"),
    ("demo", "--save", "{}"),
    ("devices", "mlu370-x4", "--toml", "-o", "{}"),
    ("report", "run.zip", "-o", "{}"),
    ("retime", "run.zip", "-o", "{}"),
    ("retime", "run.zip", "--report", "{}"),
    ("sweep", *SMALL, "-o", "{}.csv"),
    ("sweep", *SMALL, "--db", "{}"),
    ("sweep", *SMALL, "--no-db", "--picture", "{}.png"),
    ("tune", *SMALL, "--db", "{}"),
    ("validate", "fill-one", "-o", "{}.svg"),
]


@pytest.mark.parametrize("words", UNWRITABLE, ids=" ".join)
@pytest.mark.parametrize("place", ["run.zip/x", "/proc/x"])
def test_an_output_that_cannot_be_written_is_found_before_the_run(folder, monkeypatch, words, place):
    if not Path(place).parent.exists():
        pytest.skip(f"no {Path(place).parent} here")

    def too_late(*_arguments, **_options):
        raise AssertionError("it ran")

    monkeypatch.setattr("mlusim.host.device.Device.__init__", too_late)
    monkeypatch.setattr("mlusim.retiming.retime.retime", too_late)
    monkeypatch.setattr("mlusim.analysis.report_files.write_report", too_late)
    done = call(*(word.format(place) for word in words))
    assert (done.exit_code, done.stdout) == (2, ""), done.stderr
    assert re.match(rf"error: (--\S+ )?{place}.*\n\Z", done.stderr)
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["run.zip"]


def test_a_file_is_unchanged_if_writing_fails(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")

    def write_half():
        with atomic_write(path) as stream:
            stream.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert path.read_text() == "before"
    write_bytes("--out", path, b"after")
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_picture_is_unchanged_if_drawing_fails(folder, monkeypatch):
    Path("errors.svg").write_text("before")

    def fail(_figure, stream, _suffix):
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlusim.analysis.style.save_to", fail)
    done = call("validate", "fill-one", "-o", "errors.svg", "--force")
    assert (done.exit_code, done.stderr) == (
        2,
        "error: --plot errors.svg: cannot be written: No space left on device\n",
    )
    assert Path("errors.svg").read_text() == "before"
    assert sorted(path.name for path in folder.iterdir()) == ["errors.svg", "run.zip"]


def test_misspelt_names_get_a_suggestion(folder):
    assert "did you mean compare? " in call("compre").stderr
    assert "did you mean fill-one? " in call("validate", "fil-one").stderr
    assert "did you mean float16? " in call("run", "cast", "--shape", "3", "--dtype", "flot16").stderr
    assert "did you mean clock_hz (hertz)?" in call("retime", "run.zip", "--set", "clok_hz=900MHz").stderr
    assert "did you mean mlu590-h8 " in call("devices", "mlu59-h8").stderr


def test_a_usage_error_names_its_help_command():
    assert call("run", "cast", "--dtype").stderr.endswith("; see `mlusim run cast --help`\n")
    assert call("devices", "-o").stderr.endswith("; see `mlusim devices --help`\n")


def test_strategies_without_a_plan_are_named_and_the_rest_compared(folder):
    Path("tiny.toml").write_text('base = "mlu370-x4"\nnram_bytes = 131_200\n')
    words = ("compare", *SMALL, "--device", "tiny.toml")
    found = json.loads(call(*words, "--json").stdout)
    (refused,) = found["refused"]
    assert refused["strategy"] == "pingpong"
    assert "no element of 4 B fits" in refused["reason"]
    assert "documented" in [row["strategy"] for row in found["strategies"]]
    assert f"Not possible here: {refused['reason']}" in call(*words).stdout
    named = call(*words, "--strategy", "tight,pingpong")
    assert (named.exit_code, named.stdout) == (1, "")
    assert named.stderr == f"error: {refused['reason']}\n"


def test_ctrl_c_during_loading_prints_one_line(tmp_path):
    (tmp_path / "k.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nasync def k(core, x, out): ...\n"
    )
    words = [sys.executable, "-m", "mlusim", "run", "k.py:k", "--shape", "8"]
    done = subprocess.run(words, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "",
        "error: interrupted: k.py: line 2: the file was being loaded\n",
    )


def test_the_help_calls_only_an_axis_an_axis():
    text = call("run", "gather_nd", "--help").stdout
    assert "--batch-dims INTEGER" in text
    assert "--seq-axis AXIS" in call("run", "reverse_sequence", "--help").stdout
