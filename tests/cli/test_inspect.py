"""`mlusim inspect RUN --at TIME`."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import mlusim
from mlusim.cli.inspect import inspect, time_ps
from mlusim.errors import InputError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        await core.memcpy(out, held)

    device = mlusim.Device()
    x = device.upload(np.ones((8, 8), np.float32), "x")
    device.launch(kernel, x, device.alloc(x.shape, x.dtype, "out"), kind="BLOCK", dim=1)
    device.synchronize()
    return device.save(tmp_path_factory.mktemp("runs") / "run.zip"), device.log


def test_the_buffers_of_a_core(saved):
    path, log = saved
    end_ns = int(log.columns()["end_ps"][0]) / 1000
    text = CliRunner().invoke(inspect, [str(path), "--at", f"{end_ns}ns"], catch_exceptions=False).output
    assert "cluster 0 core 0: task 0" in text
    assert "  last     memcpy at test_inspect.py:" in text
    assert "  NRAM     held float32 [8, 8], 256 B: written by memcpy at test_inspect.py:" in text
    data = json.loads(CliRunner().invoke(inspect, [str(path), "--at", f"{end_ns - 1}", "--json"]).output)
    assert data["buffers"][0]["written"] is None
    assert [step["operation"] for step in data["running"]] == ["memcpy"]


@pytest.mark.parametrize(
    ("text", "ps"), [("1780", 1_780_000), ("1.78us", 1_780_000), ("1 780 ns", 1_780_000), ("5ps", 5)]
)
def test_times(text, ps):
    assert time_ps(text) == ps


def test_an_invalid_time_is_an_error():
    with pytest.raises(InputError, match=r"^--at soon: a time is a number of nanoseconds, or has a unit: 1780, 1.78us"):
        time_ps("soon")
    with pytest.raises(InputError, match=r"^--at 1e400: a time is a number"):
        time_ps("1e400")
