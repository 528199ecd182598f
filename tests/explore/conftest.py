"""A kernel file of a user, and a sweep in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

KERNELS = """\
import os
import signal
import time

from neighbour import DOUBLE


async def add(core, x, y, out, tile=1024):
    if core.is_memory_core:
        return
    a = core.nram.alloc(tile, x.dtype)
    b = core.nram.alloc(tile, x.dtype)
    for start in range(core.task_id * tile, x.size, core.task_dim * tile):
        n = min(tile, x.size - start)
        await core.memcpy(a[:n], x[start : start + n])
        await core.memcpy(b[:n], y[start : start + n])
        core.add(a[:n], a[:n], b[:n])
        await core.sync()
        await core.memcpy(out[start : start + n], a[:n])


def add_twice(device, shape, dtype, tile=1024):
    x, y, out = (device.alloc(shape, dtype, name) for name in "xyz")
    for _ in range(DOUBLE):
        device.launch(add, x, y, out, tile)


async def divides_by_zero(core, x, out):
    1 / 0


async def dies(core, x, out, how="no"):
    if how == "yes":
        os.kill(os.getpid(), signal.SIGKILL)


def slow(device, shape, dtype, number=0):
    time.sleep(0.15)
    x, y, out = (device.alloc(shape, dtype, name) for name in "xyz")
    device.launch(add, x, y, out)
"""


@pytest.fixture
def kernels(tmp_path):
    """Path of a file with kernels, in a folder with a file that it imports."""
    folder = tmp_path / "kernels"
    folder.mkdir()
    (folder / "neighbour.py").write_text("DOUBLE = 2\n")
    path = folder / "kernels.py"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def start(tmp_path):
    """start(*arguments): `mlusim ...` in a process and a session of its own, in tmp_path."""
    running = []

    def begin(*arguments):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
        running.append(
            subprocess.Popen(
                [sys.executable, "-m", "mlusim", *map(str, arguments)],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return running[-1]

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()
