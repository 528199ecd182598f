"""The progress bar: the progress of a run, on a terminal only."""

from __future__ import annotations

import io

import numpy as np

import mlusim
from mlusim import progress
from mlusim.host.run_progress import RunProgress


async def copy_rows(core, x, out):
    if core.is_memory_core:
        return
    row = core.nram.alloc(x.shape[1:], x.dtype)
    for index in range(core.task_id, x.shape[0], core.task_dim):
        await core.memcpy(row, x[index])
        await core.memcpy(out[index], row)


def launched(kernel=copy_rows):
    device = mlusim.Device("mlu370-x4")
    x = device.upload(np.ones((64, 100), np.float32))
    out = device.alloc(x.shape, x.dtype)
    device.launch(kernel, x, out)
    return device


def test_progress_goes_from_0_to_100_percent():
    device = launched()
    bar = RunProgress(device._chip)
    assert bar.expected_bytes == 64 * 100 * 4
    assert bar.fraction() == 0
    device.synchronize()
    assert bar.fraction() == 1


def test_a_second_run_on_the_same_device_counts_its_own_bytes():
    device = launched()
    device.synchronize()
    x, out = device.upload(np.ones((64, 100), np.float32)), device.alloc((64, 100), np.float32)
    device.launch(copy_rows, x, out)
    bar = RunProgress(device._chip)
    assert bar.fraction() == 0
    device.synchronize()
    assert bar.fraction() == 1


def test_progress_never_exceeds_100_percent():
    async def twice(core, x, out):
        await copy_rows(core, x, out)
        await copy_rows(core, x, out)

    device = launched(twice)
    bar = RunProgress(device._chip)
    device.synchronize()
    assert bar.fraction() == 1


def test_a_launch_without_outputs_has_no_fraction():
    async def nothing(core):
        core.scalar()

    device = mlusim.Device("mlu370-x4")
    device.launch(nothing)
    assert RunProgress(device._chip).fraction() is None


def test_without_a_terminal_no_progress_is_drawn(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    device = launched()
    bar = RunProgress(device._chip)
    bar.show()
    device.synchronize()
    bar.show()
    bar.close()
    assert stream.getvalue() == ""


def test_a_terminal_shows_progress_and_simulated_time(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    device = launched()
    bar = RunProgress(device._chip)
    bar.show()
    device.synchronize()
    bar.show()
    bar.close()
    text = stream.getvalue()
    assert "0%" in text
    assert "100%" in text
    assert "128 operations" in text
    assert "ns simulated" in text


def test_importing_it_does_not_import_rich():
    assert "rich" not in vars(progress)
