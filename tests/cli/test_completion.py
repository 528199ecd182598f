"""What a shell completes: through click's own machinery, and in a real bash."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from mlusim.cli import main
from mlusim.cli.entries import ENTRIES
from mlusim.hardware.presets import preset_names

ROOT = Path(__file__).resolve().parent.parent.parent


def completed(line):
    """Values for the last word of a line."""
    *words, last = line.split(" ")
    found = ShellComplete(main, {}, "mlusim", "_MLUSIM_COMPLETE").get_completions(words, last)
    return [item.value if item.type == "plain" else f"<{item.type}>" for item in found]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("re", ["report", "retime"]),
        ("run tin", ["tin_shift"]),
        ("compare ", list(ENTRIES)),
        ("run cast --sen", ["--sensitivity"]),
        ("run tin_shift --strategy p", ["pingpong"]),
        ("compare tin_shift --strategy tight,d", ["tight,documented"]),
        ("sweep tin_shift --strategy a", ["auto", "all"]),
        ("demo --strategy sh", ["shipped"]),
        ("sweep flip --vary dram_band", ["dram_bandwidth_bytes_per_s="]),
        ("retime a.zip --set clo", ["clock_hz="]),
        ("run tin_shift --device mlu59", [name for name in preset_names() if name.startswith("mlu59")]),
        ("sweep cast --device mlu370-x4,mlu29", ["mlu370-x4,mlu290-m5"]),
        ("devices mlu27", ["mlu270-s4", "mlu270-d4"]),
        ("run tin_shift --device ./my", ["<file>"]),
        ("run cast --dtype b", ["bool", "bfloat16"]),
        ("run cast --input x", ["<file>"]),
        ("run cast --report x", ["<dir>"]),
        ("report sh", ["<file>"]),
        ("retime sh", ["<file>"]),
        ("validate fill", ["fill-one"]),
        ("completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_the_last_word(line, wanted):
    assert completed(line) == wanted


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell):
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert "_MLUSIM_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout
    assert CliRunner().invoke(main, ["completion"], env={"SHELL": f"/usr/bin/{shell}"}).stdout == done.stdout


def test_a_shell_that_is_not_known():
    done = CliRunner().invoke(main, ["completion"], env={"SHELL": "/bin/csh"})
    assert (done.exit_code, done.stderr) == (
        2,
        "error: which shell? $SHELL does not say: name it, as in `mlusim completion bash`\n",
    )
    assert CliRunner().invoke(main, ["completion", "csh"]).exit_code == 2


@pytest.fixture
def bash(tmp_path):
    """An interactive bash on a terminal, with mlusim's completion as the documentation installs it."""
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("no bash here")
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "mlusim").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mlusim "$@"\n')
    (commands / "mlusim").chmod(0o755)
    start = tmp_path / "rc"
    start.write_text('PS1="ready> "\nbind "set show-all-if-ambiguous on"\neval "$(mlusim completion bash)"\n')
    (tmp_path / "clip.npy").touch()
    leader, follower = pty.openpty()
    environment = os.environ | {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
    }
    ran = subprocess.Popen(
        [shell, "--noprofile", "--rcfile", str(start), "-i"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
    )
    os.close(follower)

    def say(text, until):
        os.write(leader, text.encode())
        said, ends = "", time.monotonic() + 30
        while until not in said:
            assert time.monotonic() < ends, said
            if select.select([leader], [], [], 0.5)[0]:
                said += os.read(leader, 4096).decode()
        return said

    say("", "ready> ")
    yield say
    ran.kill()
    ran.wait()
    os.close(leader)


@pytest.mark.slow
def test_in_a_real_bash(bash):
    assert "pingpong " in bash("mlusim run tin_s\t--strategy ping\t", "pingpong ")
    assert "clip.npy " in bash("--input cl\t", "clip.npy ")
    assert "mlu590-m9dg" in bash("--device mlu59\t", "mlu590-m9dg")


@pytest.mark.parametrize("command", ["run", "verify", "compare", "tune", "sweep"])
def test_settings_of_a_kernel_are_completed_without_running_its_file(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(
        "raise SystemExit('loaded')\n"
        "async def add(core, x, out, tile=64, *, turns=1, deep): ...\n"
        "async def other(core, rows=3): ...\n"
    )
    assert completed(f"{command} k.py:add --set t") == ["tile=", "turns="]
    assert completed(f"{command} k.py:other --set ") == ["rows="]
    assert completed(f"{command} missing.py:other --set ") == []
