"""Shell completion, through click and in a real bash."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from command_line import call
from mlusim.cli import main
from mlusim.cli.operators import SUMMARIES
from mlusim.cli.shells import SHELLS
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
        ("compare ", list(SUMMARIES)),
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
def test_the_last_word(tmp_path, monkeypatch, line, wanted):
    monkeypatch.chdir(tmp_path)
    assert completed(line) == wanted


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell(shell):
    done = call("completion", shell)
    assert done.exit_code == 0
    assert "_MLUSIM_COMPLETE" in done.stdout
    assert f"{shell}_complete" in done.stdout
    assert call("completion", env={"SHELL": f"/usr/bin/{shell}"}).stdout == done.stdout


def test_an_unsupported_shell_is_an_error():
    done = call("completion", env={"SHELL": "/bin/csh"})
    assert (done.exit_code, done.stderr) == (
        2,
        "error: which shell? $SHELL does not say: name it, as in `mlusim completion bash`\n",
    )
    assert call("completion", "csh").exit_code == 2


KERNELS = """\
raise SystemExit('loaded')
async def simple(core, x, out, tile=64): ...
async def add(core, x, out, tile=64, *, turns=1, deep): ...
def wanted(x): ...
"""


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """The current folder: a file of kernels that cannot be imported, a folder, and files that hold no kernel."""
    monkeypatch.chdir(tmp_path)
    Path("k.py").write_text(KERNELS)
    Path("twice.mlu").write_text("__mlu_entry__ void twice(float *x, int n) {}\n")
    Path("kinds").mkdir()
    Path("kinds/more.py").write_text(KERNELS)
    Path("k.npy").touch()
    return tmp_path


@pytest.mark.parametrize("command", ["run", "verify", "compare", "tune", "sweep"])
def test_kernels_and_their_settings_are_completed_without_running_their_file(kernels, command):
    assert completed(f"{command} k") == ["k.py:", "kinds/"]
    assert completed(f"{command} kinds/") == ["kinds/more.py:"]
    assert completed(f"{command} k.py:") == ["k.py:simple", "k.py:add"]
    assert completed(f"{command} twice.mlu:tw") == ["twice.mlu:twice"]
    assert completed(f"{command} missing.py:") == []
    assert completed(f"{command} missing/") == []
    assert completed(f"{command} k.py:add --set t") == ["tile=", "turns="]
    assert completed(f"{command} k.py:simple --set ") == ["tile="]
    assert completed(f"{command} missing.py:other --set ") == []


def test_further_kernels_and_references_are_completed(kernels):
    assert completed("compare k.py:add k.py:s") == ["k.py:simple"]
    assert completed("verify k.py:add --reference k.py:") == ["k.py:wanted"]
    assert completed("verify k.py:add --reference k") == ["<file>"]


# What bash asks for a line, and what it is given: what comes after the last `:` or `=`, where it splits words.
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("mlusim run k.py:a", "plain,add"),
        ("mlusim tune k.py:add --set ti", "plain,tile="),
        ("X=1 mlusim run cast --device=mlu29", "plain,mlu290-m5"),
        ("mlusim run cast --input x=k", "file,x=k"),
    ],
)
def test_a_line_of_bash(kernels, monkeypatch, line, wanted):
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_WORDBREAKS", " \t\n\"'><=;|&(:")
    said = SHELLS["bash"](main, {}, "mlusim", "_MLUSIM_COMPLETE").complete()
    assert said.split("\n") == [wanted]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_that_do_not_split_words_get_whole_words(kernels, shell):
    found = SHELLS[shell](main, {}, "mlusim", "_MLUSIM_COMPLETE").get_completions(["run", "cast"], "--device=mlu29")
    assert [item.value for item in found] == ["--device=mlu290-m5"]


@pytest.fixture
def home(kernels):
    """The environment of a shell that finds mlusim, in `kernels`."""
    commands = kernels / "bin"
    commands.mkdir()
    (commands / "mlusim").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mlusim "$@"\n')
    (commands / "mlusim").chmod(0o755)
    (kernels / ".bashrc").write_text('PS1="ready> "\nbind "set show-all-if-ambiguous on"\n')
    (kernels / ".zshrc").write_text(f'PS1="ready> "\nautoload -Uz compinit; compinit -u -d "{kernels}/dump"\n')
    for name in ("bash", "zsh"):
        with (kernels / f".{name}rc").open("a") as start:
            start.write(f'eval "$(mlusim completion {name})"\n')
    return os.environ | {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
        "ZDOTDIR": str(kernels),
        "XDG_CONFIG_HOME": str(kernels),
        "XDG_DATA_HOME": str(kernels),
    }


def program(name):
    return shutil.which(name) or pytest.skip(f"no {name} here")


@pytest.fixture
def terminal(home, kernels):
    """An interactive shell on a terminal, with mlusim's completion as the documentation installs it."""
    running = []

    def start(*words):
        leader, follower = pty.openpty()
        at = {"stdin": follower, "stdout": follower, "stderr": follower}
        running.append(subprocess.Popen(words, **at, cwd=kernels, env=home, start_new_session=True))
        os.close(follower)

        def say(text, until):
            os.write(leader, text.encode())
            said, ends = "", time.monotonic() + 60
            while until not in said:
                assert time.monotonic() < ends, said
                if select.select([leader], [], [], 0.5)[0]:
                    said += os.read(leader, 4096).decode()
                said = re.sub(r" ?\x08", "", said)  # zsh takes the space after a value back where another word begins
            return said

        say("", "ready> ")
        return say

    yield start
    for ran in running:
        ran.kill()
        ran.wait()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_in_a_real_shell(terminal, shell):
    options = ["--noprofile", "--rcfile", ".bashrc"] if shell == "bash" else []
    say = terminal(program(shell), *options, "-i")
    say("mlusim run tin_s\t--strategy ping\t", "pingpong")
    say("--input k.n\t", "k.npy")
    say("--device=mlu29\t", "mlu290-m5")
    say("\nmlusim run k.p\tsi\t", "k.py:simple")
    say("--set ti\t64", "tile=64")


@pytest.mark.slow
def test_in_a_real_fish(home, kernels):
    lines = ["run tin_s", "run k.py:si", "tune k.py:add --set ti", "run cast --device=mlu29", "run cast --input k.n"]
    (kernels / "fish/completions").mkdir(parents=True)
    script = "mlusim completion fish > fish/completions/mlusim.fish;" + ";".join(
        f'complete -C "mlusim {line}"' for line in lines
    )
    said = subprocess.run([program("fish"), "-c", script], env=home, capture_output=True, text=True, check=True)
    assert [line.split("\t")[0] for line in said.stdout.splitlines()] == [
        "tin_shift",
        "k.py:simple",
        "tile=",
        "--device=mlu290-m5",
        "k.npy",
    ]
