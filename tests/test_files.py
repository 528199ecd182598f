"""Atomic writes of files: links, devices, modes, killed processes, and recognition of mlusim's files."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import files
from mlusim.files import atomic_write, cannot_read
from mlusim.own_files import is_ours
from mlusim.source_code import source_name


@pytest.fixture(params=["nameless", "named"])
def way(request, monkeypatch):
    """Both ways to a scratch file: Linux has nameless ones, not on every file system."""
    if request.param == "named":
        monkeypatch.setattr(files, "_NAMELESS", 0)
    elif not files._NAMELESS:
        pytest.skip("this system has no nameless files")


def write(path, content=b"new"):
    with atomic_write(path) as stream:
        stream.write(content)


def test_a_new_file_has_the_mode_of_the_umask_and_an_old_one_keeps_its_own(tmp_path, way):
    old = os.umask(0o027)
    try:
        write(tmp_path / "new")
        (tmp_path / "plain").touch()
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    for mode in (0o600, 0o664, 0o755):
        (tmp_path / "old").write_bytes(b"old")
        (tmp_path / "old").chmod(mode)
        write(tmp_path / "old")
        assert stat.S_IMODE((tmp_path / "old").stat().st_mode) == mode
        assert (tmp_path / "old").read_bytes() == b"new"


def test_a_failed_write_leaves_only_the_old_file(tmp_path, way):
    (tmp_path / "old").write_bytes(b"old")
    for name in ("old", "none"):
        with suppress(RuntimeError), atomic_write(tmp_path / name) as stream:
            stream.write(b"half")
            raise RuntimeError
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("old", b"old")]


def test_symbolic_links_are_followed_and_kept(tmp_path, way):
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub/file")
    for content in (b"one", b"two"):
        write(tmp_path / "link", content)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "sub" / "file").read_bytes() == content
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["file"]


def test_scratch_file_names_are_unpredictable(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_NAMELESS", 0)
    seen = set()
    for _ in range(8):
        with atomic_write(tmp_path / "file"):
            seen |= {path.name for path in tmp_path.iterdir()} - {"file"}
    assert len(seen) == 8
    assert all(str(os.getpid()) not in name or len(name) > 24 for name in seen)
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    monkeypatch.setattr("os.urandom", bytes)
    (tmp_path / f".file.{bytes(8).hex()}.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write(tmp_path / "file")
    assert victim.read_bytes() == b"mine"


def test_devices_and_fifos_are_written_through(tmp_path):
    write("/dev/null")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()))
    reader.start()
    mlusim.ops.flip(np.zeros((4, 4), np.int8), 0).save(fifo)
    reader.join(30)
    assert got[0].startswith(b"PK\x03\x04")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["fifo"]


def test_paths_that_are_not_files_are_refused(tmp_path):
    import socket

    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="Not a regular file"):
            write(tmp_path / "s")


@pytest.mark.skipif(not files._NAMELESS, reason="this system has no nameless files")
def test_a_kill_leaves_nothing(tmp_path):
    code = (
        "import sys, time\nfrom mlusim.files import atomic_write\n"
        "with atomic_write(sys.argv[1]) as stream:\n"
        "    stream.write(b'half')\n    stream.flush()\n    print('in', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "file"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_files_of_mlusim_are_recognised(tmp_path):
    """Every kind of file that mlusim writes is known again, but for .npy; files like them are not."""
    from mlusim.cli import main

    run = mlusim.ops.flip(np.zeros((4, 4), np.int8), 0)
    run.save(tmp_path / "run.zip")
    from mlusim.analysis.report_files import write_report

    write_report(run, tmp_path / "report")
    found = mlusim.sweep("flip", shape=[(4, 4), (8, 8)], axis=0, workers=0, db=tmp_path / "points.sqlite")
    found.save(tmp_path / "t.csv")
    found.save(tmp_path / "t.json")
    found.plot(tmp_path / "p.svg")
    found.plot(tmp_path / "p.png")
    with pytest.raises(SystemExit):
        main(["devices", "mlu370-x4", "--toml", "-o", str(tmp_path / "mine.toml")])
    made = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    assert len(made) >= 16
    assert [path.name for path in made if not is_ours(path)] == []


@pytest.mark.slow
def test_a_parquet_table_of_mlusim_is_recognised(tmp_path):
    pytest.importorskip("pyarrow")
    mlusim.sweep("flip", shape=(4, 4), axis=0, workers=0).save(tmp_path / "t.parquet")
    assert is_ours(tmp_path / "t.parquet")


def test_files_of_other_programs_are_recognised(tmp_path):
    import sqlite3
    import zipfile

    np.save(tmp_path / "x.npy", np.zeros(3))
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    (tmp_path / "kernel.py").write_text("import mlusim\n")
    (tmp_path / "a.json").write_text('{"mlusim": 1}')
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "page.html").write_text("<!DOCTYPE html><title>on mlusim</title>")
    (tmp_path / "empty").touch()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as archive:
        archive.writestr("a.txt", "run.json")
    with sqlite3.connect(tmp_path / "mine.db") as base:
        base.execute("create table mine (a)")
    base.close()
    assert [path.name for path in Path(tmp_path).iterdir() if is_ours(path)] == []
    assert not is_ours(tmp_path / "none")


@pytest.mark.parametrize("path", [None, 3, b"run.zip", "", "a\0b", ["run.zip"]])
def test_values_that_are_not_paths_are_refused(path):
    run = mlusim.ops.flip(np.zeros((4, 4), np.int8), 0)
    for use in (run.save, mlusim.load):
        with pytest.raises(mlusim.InputError, match=r"is not a path: pass a string such as 'run\.zip'"):
            use(path)


HOLDER = """
import sys, time
from mlusim.files import scratch_folder
with scratch_folder() as folder:
    (folder / "kernel.so").touch()
    print(folder, flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(not files._LOCKS, reason="this system has no locks of files")
def test_only_scratch_folders_of_dead_processes_are_removed(tmp_path, monkeypatch):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", HOLDER]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as killed,
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as alive,
    ):
        dead, used = (Path(process.stdout.readline().decode().strip()) for process in (killed, alive))
        killed.kill()
        killed.wait()
        link = tmp_path / f"{files._FOLDER}link"
        link.symlink_to(used)
        monkeypatch.setattr(files, "_STALE_S", -1)
        files._remove_stale.cache_clear()
        files._remove_stale(tmp_path)
        assert [dead.exists(), (used / "kernel.so").exists(), link.is_symlink()] == [False, True, True]
        alive.kill()


def test_a_cell_of_a_notebook_has_its_number():
    pytest.importorskip("IPython")
    program = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import mlusim, numpy as np", store_history=True)
shell.run_cell("async def wrong(core, x):\\n    x[70]", store_history=True)
shell.run_cell('''
try:
    mlusim.run(wrong, np.zeros(64, np.float32), dim=1, kind="BLOCK")
except mlusim.MlusimError as error:
    print(error)
''', store_history=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "task 0 (cluster 0, core 0), In[2]:2, at" in done.stdout
    assert source_name("/a folder/kernel.py") == "kernel.py"


def test_a_missing_file_is_named_with_a_similar_one(tmp_path):
    (tmp_path / "double.py").touch()
    missing = FileNotFoundError()
    assert cannot_read(tmp_path / "duoble.py", missing) == (
        f"{tmp_path / 'duoble.py'}: no such file; did you mean double.py?"
    )
    assert cannot_read(tmp_path / "duoble.npy", missing, "--input duoble.npy") == "--input duoble.npy: no such file"
    assert cannot_read(Path("x"), PermissionError(13, "Permission denied")) == "x: cannot be read: Permission denied"
