"""Files of a command are distinct, inputs are never overwritten, and foreign files only with --force."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim.cli import main

FLIP = ("run", "flip", "--axis", "0", "--quiet")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a user's files and a saved run."""
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.arange(12, dtype=np.int32).reshape(3, 4))
    (tmp_path / "notes.txt").write_text("mine")
    mlusim.ops.flip(np.zeros((4, 4), np.int8), 0, data=False).save("a.zip")
    (tmp_path / "kern.py").write_text("async def kernel(core, x, out):\n    core.scalar(1)\n")
    (tmp_path / "mine.toml").write_text('base = "mlu370-x4"\n')
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def error_of(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    return stop.value.code, capsys.readouterr().err


SHAPE = ("--shape", "3,4")
SWEEP = ("sweep", "flip", "--axis", "0", "--shape", "3,4..8*2", "--workers", "0", "--quiet")

CLASHES = [
    ((*FLIP, *SHAPE, "--out", "s.npy", "--save-run", "s.npy"), "--save-run s.npy are one file: name two"),
    ((*FLIP, *SHAPE, "--out", "s.npy", "--save-run", "./s.npy"), "are one file: name two"),
    ((*FLIP, *SHAPE, "--save-run", "r/report.html", "--report", "r"), "are one file: name two"),
    ((*FLIP, "--input", "x.npy", "--out", "x.npy"), "--out x.npy is an input, and inputs are never overwritten"),
    ((*FLIP, "--input", "x.npy", "--save-run", "x.npy"), "--save-run x.npy is an input"),
    ((*FLIP, "--input", "x.npy", "--save-run", "link.npy"), "--save-run link.npy is an input"),
    ((*FLIP, *SHAPE, "--device", "mine.toml", "--save-run", "mine.toml"), "--save-run mine.toml is an input"),
    (("retime", "a.zip", "--set", "clock_hz=1GHz", "--save-run", "a.zip"), "--save-run a.zip is an input"),
    ((*SWEEP, "--db", "p.csv", "-o", "p.csv"), "--out p.csv and --db p.csv are one file: name two"),
    ((*SWEEP, "--db", "p.png", "--plot", "time", "--picture", "p.png"), "are one file: name two"),
    ((*SWEEP, "-o", "p.csv", "--db", "p.sqlite", "--merge", "p.sqlite"), "is an input"),
    ((*SWEEP, "--db", "sweep.png", "--plot", "time"), "are one file: name two"),
    (
        ("sweep", "kern.py:kernel", *SHAPE, "--workers", "0", "--db", "kern.py"),
        "kern.py is not an SQLite file of a sweep: name another file",
    ),
]


@pytest.mark.parametrize("command", ["compare flip", "compile k.py", "explain r.zip", "inspect r.zip", "bangc check ."])
def test_commands_that_write_no_files_have_no_force(folder, capsys, command):
    code, text = error_of((*command.split(), "--force"), capsys)
    assert (code, "No such option '--force'" in text) == (2, True)


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize(("arguments", "message"), CLASHES)
def test_two_options_must_not_write_the_same_file(folder, capsys, arguments, message, force):
    (folder / "link.npy").symlink_to("x.npy")
    if "--merge" in arguments:
        mlusim.sweep("flip", shape=(3, 4), axis=0, workers=0, db="p.sqlite")
    (folder / "r").mkdir()
    before = contents(folder)
    code, text = error_of((*arguments, *force), capsys)
    assert code == 2
    assert message in text
    assert contents(folder) == before


REPLACED = [
    (*FLIP, *SHAPE, "--out", "x.npy"),
    (*FLIP, *SHAPE, "--save-run", "x.npy"),
    (*FLIP, *SHAPE, "--save-run", "notes.txt"),
    (*FLIP, *SHAPE, "--report", "."),
    ("demo", "--quiet", "--save", "."),
    ("demo", "--quiet", "--save-run", "notes.txt"),
    ("retime", "a.zip", "--quiet", "--keep-split", "-d", "mlu590-h8", "--save-run", "x.npy"),
    (*SWEEP, "--no-db", "-o", "table.csv"),
    (*SWEEP, "--no-db", "--plot", "time", "--picture", "sweep.png"),
    (*SWEEP, "--no-db", "--plot", "time"),
    ("devices", "mlu370-x4", "--toml", "-o", "notes.txt"),
    ("report", "a.zip", "-o", ".", "--quiet"),
]


@pytest.mark.parametrize("arguments", REPLACED, ids=lambda words: "_".join(words[:1] + words[-2:]))
def test_foreign_files_are_replaced_only_with_force(folder, capsys, arguments):
    for name in ("clip.npy", "table.csv", "sweep.png", "summary.json"):
        (folder / name).write_bytes(b"mine")
    before = contents(folder)
    code, text = error_of(arguments, capsys)
    assert code == 2
    assert ": name another file, or add --force" in text
    assert contents(folder) == before
    code, text = error_of((*arguments, "--force"), capsys)
    assert (code, text) == (0, "")
    after = contents(folder)
    assert sum(after[name] != content for name, content in before.items()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        (*FLIP, *SHAPE, "--save-run", "b.zip"),
        (*FLIP, *SHAPE, "--report", "r"),
        (*SWEEP, "-o", "t.csv", "--plot", "time"),
        ("devices", "mlu370-x4", "--toml", "-o", "board.toml"),
        ("report", "a.zip", "-o", "r", "--quiet"),
    ],
    ids=lambda words: words[0] + words[-1],
)
@pytest.mark.grid(2)
def test_files_written_by_mlusim_are_replaced(folder, capsys, arguments):
    for _ in range(2):
        assert error_of(arguments, capsys) == (0, "")


def run_shell(command, folder):
    return subprocess.run(
        ["/bin/sh", "-c", command.replace("mlusim", f"{sys.executable} -m mlusim")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.mark.slow
def test_outputs_that_are_closed(folder):
    for command in ("mlusim devices >&-", "mlusim devices >&- 2>&-", "mlusim devices 2>&-"):
        ran = run_shell(command, folder)
        assert (ran.returncode, ran.stderr) == (0, "")
    ran = run_shell("mlusim sweep flip --shape 4,4 --axis 0 --workers 0 >&-", folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    with mlusim.explore.store.Store(folder / "sweep.sqlite") as store:
        assert len(store.all()) == 1


def test_a_closed_pipe_is_not_an_error(folder):
    ran = run_shell("{ mlusim devices mlu370-x4; echo $? >&2; } | head -n 1 >/dev/null", folder)
    assert ran.stderr == "0\n"


@pytest.mark.parametrize("module", ["options", "validate"])
def test_ctrl_c_while_the_command_line_or_a_command_loads(monkeypatch, capsys, module):
    from mlusim.__main__ import main as start

    class Interrupt:
        def find_spec(self, name, path=None, target=None):
            if name == f"mlusim.cli.{module}":
                raise KeyboardInterrupt

    for name in [name for name in sys.modules if name.startswith("mlusim.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(mlusim, "cli")
    monkeypatch.setattr(sys, "argv", ["mlusim", "validate", "--help"])
    monkeypatch.setattr(sys, "meta_path", [Interrupt(), *sys.meta_path])
    with pytest.raises(SystemExit) as stop:
        start()
    assert stop.value.code == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_workers_leave_ctrl_c_to_their_parent():
    from mlusim.explore.runner import Runner

    before = signal.getsignal(signal.SIGINT)
    assert before is not signal.SIG_IGN
    with Runner(1) as runner:
        pool = runner._executor()
        assert pool.submit(signal.getsignal, signal.SIGINT).result() is signal.SIG_IGN
    assert signal.getsignal(signal.SIGINT) is before


def test_device_files_are_written_through(folder, capsys):
    assert error_of((*FLIP, *SHAPE, "--save-run", "/dev/null"), capsys) == (0, "")
    assert not Path("/dev/null").is_file()


def test_operations_written_to_a_device_have_no_provenance_beside_them(folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["run", "flip", "--axis", "0", *SHAPE, "--csv", "/dev/null"])
    assert stop.value.code == 0
    assert re.search(r"wrote /dev/null: \d+ operations$", capsys.readouterr().out, re.MULTILINE)
    assert not Path("/dev/null.json").exists()


KERNEL = "async def kernel(core, x, out):\n    pass\n\nasync def two(core, x, a, b):\n    pass\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mine.py:kernel", "--arg", "x=x.npy", "--arg", "out=int32:3,4", "--out", "x.npy"), "is an input"),
        (("mine.py:kernel", "--arg", "x.npy", "--arg", "out=int32:3,4", "--save-run", "x.npy"), "is an input"),
        (("mine.py:kernel", "--shape", "4", "--save-run", "mine.py"), "is an input"),
        (("mine.py:kernel", "--shape", "4", "--out", "o.npy", "--save-run", "o.npy"), "are one file: name two"),
        (("mine.py:two", "--shape", "4", "--out", "a.npy", "--out", "b.npy"), "--out b.npy: give each output one file"),
    ],
)
def test_a_users_kernel_writes_all_output_files(folder, capsys, words, message):
    (folder / "mine.py").write_text(KERNEL)
    before = contents(folder)
    code, text = error_of(("run", *words, "--quiet", "--force"), capsys)
    assert code == 2, text
    assert message in text
    assert contents(folder) == before


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text there")
@pytest.mark.slow
def test_names_that_are_not_text_are_written_with_question_marks(folder):
    name = os.fsdecode(b"k\xe9.py")
    (folder / "kern.py").rename(name)
    words = (
        "mlusim",
        "run",
        f"{name}:kernel",
        "--shape",
        "4",
        "--report",
        "rep",
        "--csv",
        "ops.csv",
        "--save-run",
        "b.zip",
    )
    environment = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
    for command in (words, ("mlusim", "report", "b.zip", "a.zip", "--out", "pages")):
        ran = subprocess.run([sys.executable, "-m", *command], env=environment, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
        assert command is not words or b"kernel of k?.py:kernel" in ran.stdout
    assert "k?.py" in (folder / "ops.csv").read_text(encoding="utf-8")
    assert "k?.py" in (folder / "rep" / "report.html").read_text(encoding="utf-8")


def test_a_failed_demo_leaves_no_empty_directory(folder, capsys, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mlusim.host.array_files.np.save", full)
    code, text = error_of(("demo", "--quiet", "--save", "full/d"), capsys)
    assert code == 2, text
    assert text.endswith("cannot be written: No space left on device\n")
    assert not (folder / "full").exists()
