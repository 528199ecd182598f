"""`Result.memory_at`: the contents of on-chip buffers at a moment of a run."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from doubling import ONE, X, triple
from mlusim import InputError, Output, verify


def test_memory_at_a_moment_steps_back_through_a_run():
    result = verify(triple, X, Output.like(X), **ONE).result
    log, columns = result.log, result.log.columns()
    end = {log.ops[op]: int(time) for op, time in zip(columns["op"], columns["end_ps"], strict=True)}
    before = result.memory_at((end["mul"] - 1) / 1000)
    assert before["twice"].written is None
    assert [step.operation for step in before["twice"].writing] == ["mul"]
    assert np.isnan(before["twice"].values).all()
    assert (before["held"].values == X).all()
    after = result.memory_at(end["mul"] / 1000)
    assert (after["twice"].values == 2 * X).all()
    assert after["twice"].written.operation == "mul"
    last = result.memory_at(end["add"] / 1000)
    assert (last["twice"].values == 3 * X).all()
    assert last.task == 0
    assert "NRAM     twice float32 [8, 8], 256 B: written by add at doubling.py:" in last.text()
    assert result.memory_at(log.tasks[0].end_ps / 1000).buffers == ()
    # And back again: each moment stands alone.
    assert (result.memory_at(end["mul"] / 1000)["twice"].values == 2 * X).all()
    with pytest.raises(InputError, match=r"^core 32: mlu370-x4 has cores 0 to 31"):
        result.memory_at(np.int64(0), 32)
    with pytest.raises(InputError, match=r"^time .* ns: the run lasts from 0 ns to "):
        result.memory_at(1e9)
    with pytest.raises(InputError, match=r"^no buffer 'other' at .*: choose one of held, twice"):
        last["other"]


def test_memory_at_of_a_saved_run_says_that_it_has_no_values(tmp_path):
    result = verify(triple, X, Output.like(X), **ONE).result
    time_ns = int(result.log.columns()["end_ps"].max()) / 1000 - 1
    loaded = mlusim.load(result.save(tmp_path / "run.mlusim")).memory_at(time_ns)
    assert all(buffer.values is None for buffer in loaded.buffers)
    assert "values   unknown: a saved or timing-only run has none" in loaded.text()
    assert "not known" not in result.memory_at(time_ns).text()
