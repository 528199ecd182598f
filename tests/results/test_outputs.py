"""`Result.output` and `Result.outputs`: one output, several, and names that a result does not have."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import mlusim

X = np.arange(64, dtype=np.float32)


async def low_and_high(core, x, low, high):
    if core.is_memory_core or core.task_id:
        return
    tile = core.nram.alloc(x.shape, x.dtype)
    await core.memcpy(tile, x)
    await core.memcpy(low, tile)
    await core.memcpy(high, tile)


def run():
    return mlusim.run(low_and_high, X, mlusim.Output.like(X), mlusim.Output.like(X))


def test_several_outputs_have_no_single_one(tmp_path):
    result = run()
    assert [*result.outputs] == ["low", "high"]
    assert np.array_equal(result.outputs["high"], X)
    with pytest.raises(mlusim.InputError, match=r"^the run has 2 outputs, low, high: take result\.outputs\['low'\]$"):
        _ = result.output
    with pytest.raises(mlusim.InputError, match=r"^a saved run holds one output, and this one has 2: .*np\.savez\("):
        result.save(tmp_path / "run.zip", output=True)
    assert mlusim.load(result.save(tmp_path / "run.zip")).output is None
    assert "float32 [64]" in result._repr_html_()
    assert [*pickle.loads(pickle.dumps(result)).outputs] == ["low", "high"]


def test_a_verified_run_has_its_outputs():
    report = mlusim.verify(low_and_high, X, mlusim.Output.like(X), mlusim.Output.like(X))
    assert np.array_equal(report.result.outputs["low"], X)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("time", r"^a result has no 'time': did you mean time_ps or time_us\? help\(mlusim\.Result\) lists all$"),
        ("parameters", r"^a result has no 'parameters': did you mean metrics\? help"),  # named once
        ("out", r"^a result has no 'out': did you mean output or outputs\?"),
        (
            "timeline",
            r"^a result has no 'timeline': result\.write_report\(DIRECTORY\) writes the timeline, and trace\.json",
        ),
        ("energy", r"^a result has no 'energy': energy is not modelled; result\.bytes_requested and result\.bus_bytes"),
        ("bandwidth", r"^a result has no 'bandwidth': result\.io_efficiency is the share of the peak bandwidth, "),
        ("zzz", r"^a result has no 'zzz': help\(mlusim\.Result\) lists all$"),
    ],
)
def test_a_name_that_a_result_does_not_have_suggests_the_nearest(name, message):
    with pytest.raises(AttributeError, match=message):
        getattr(run(), name)


def test_an_error_within_a_property_is_not_hidden():
    class Broken(mlusim.Result):
        @property
        def metrics(self):
            return self.missing

    broken = Broken(operator="", output=None, board=mlusim.board("mlu370-x4"), plan=None, log=mlusim.Device().log)
    with pytest.raises(AttributeError, match=r"^a result has no 'missing'"):
        _ = broken.metrics
