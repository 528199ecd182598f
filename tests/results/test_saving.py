"""Saving a run where that fails, or is interrupted: an error, and never a damaged file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mlusim
from mlusim import ops


def a_run(rows):
    return ops.flip(np.empty((rows, 3), np.int8), 1)


def test_an_unwritable_path_is_an_error(tmp_path):
    run = a_run(0)
    with pytest.raises(mlusim.InputError, match="the run cannot be saved there: No such file or directory"):
        run.save(tmp_path / "none" / "run")
    with pytest.raises(mlusim.InputError, match="the run cannot be saved there: Is a directory"):
        run.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = a_run(0).save(tmp_path / "run")
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(mlusim.InputError, match="No space left on device"):
        a_run(8).save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_a_kill_never_leaves_a_partial_file(tmp_path):
    """Saved repeatedly and killed in between: the file can always be read."""
    code = (
        "import sys, numpy as np, mlusim\n"
        "runs = [mlusim.ops.flip(np.zeros((64, n), np.int8), 0, device='mlu370-x4', data=False) for n in (64, 4096)]\n"
        "runs[0].save(sys.argv[1])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for run in runs:\n"
        "        run.save(sys.argv[1])\n"
    )
    path = tmp_path / "run"
    for delay_s in (0.0, 0.013, 0.03):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            time.sleep(delay_s)
            process.send_signal(signal.SIGKILL)
        assert mlusim.load(path).operator == "flip"
