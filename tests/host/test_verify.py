"""`mlusim.verify`: what it takes, gives and refuses."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest

import mlusim
from mlusim import Device, InputError, LaunchError, Output, VerificationError, verify
from mlusim.hardware import board

X = np.arange(64, dtype=np.float32).reshape(8, 8)
ONE = {"kind": "BLOCK", "dim": 1}


async def double(core, x, out, factor=2.0):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    core.mul(held, held, factor)
    await core.sync()
    await core.memcpy(out, held)


async def both(core, x, up, down):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    for out, factor in ((up, 2.0), (down, 0.5)):
        await core.memcpy(held, x)
        core.mul(held, held, factor)
        await core.sync()
        await core.memcpy(out, held)


def test_the_report_has_the_output_and_the_kernels_own_names():
    report = verify(double, X, Output(X.shape), 3.0, reference=X * 3, **ONE)
    assert report.ok
    assert [use.name for use in report.tensors] == ["x", "out"]
    assert (report.outputs["out"] == X * 3).all()
    assert report.check() is report


def test_no_output_shares_memory_with_what_was_given():
    x = X.copy()
    verify(double, x, Output.like(x), **ONE)
    assert (x == X).all()


@pytest.mark.parametrize("reference", [X * 2, lambda x: x * 2, {"out": X * 2}])
def test_a_reference_is_an_array_a_function_or_a_mapping(reference):
    assert verify(double, X, Output.like(X), reference=reference, **ONE).ok
    wrong = verify(double, X, Output.like(X), 3.0, reference=reference, **ONE)
    assert [finding.kind for finding in wrong.errors] == ["wrong-value"]
    assert wrong.errors[0].fields == {"elements": 63}


def test_references_of_two_outputs():
    outputs = (Output.like(X), Output.like(X))
    assert verify(both, X, *outputs, reference={"up": X * 2, "down": X / 2}, **ONE).ok
    with pytest.raises(InputError, match=r"^a reference of one array for 2 outputs: give a mapping by name"):
        verify(both, X, *outputs, reference=X, **ONE)
    with pytest.raises(InputError, match=r"^the reference names \['left'\], which are no outputs: .*'down', 'up'"):
        verify(both, X, *outputs, reference={"left": X}, **ONE)


def test_a_reference_of_another_shape_or_type_is_refused():
    with pytest.raises(InputError, match=r"^the reference of out is float64 \[8, 8\] and the output float32 \[8, 8\]"):
        verify(double, X, Output.like(X), reference=X.astype(float), **ONE)


def test_bits_or_a_tolerance():
    bits = X.copy()
    bits[0, 0] = -0.0
    assert not verify(double, X, Output.like(X), reference=bits * 2, **ONE).ok
    assert verify(double, X, Output.like(X), reference=X * 2.0001, tolerance=1e-3, **ONE).ok
    assert not verify(double, X, Output.like(X), reference=X * 2.01, tolerance=1e-3, **ONE).ok
    nan = np.full((8, 8), np.nan, np.float32)
    assert verify(double, nan, Output.like(X), reference=-nan, **ONE).ok


def test_a_view_of_another_device_is_refused():
    view = Device().upload(X)
    with pytest.raises(InputError, match=r"^x is <view of input .*: verify makes a device of its own"):
        verify(double, view, Output.like(X), **ONE)


def test_what_cannot_be_launched_is_raised():
    with pytest.raises(LaunchError, match=r"dim.x = 3 for UNION1"):
        verify(double, X, Output.like(X), dim=3)


def test_a_kernel_without_parameters_of_its_own():
    async def anything(core, *arguments):
        await double(core, *arguments)

    report = verify(anything, X, Output.like(X), **ONE)
    assert [use.name for use in report.tensors] == ["argument 0", "argument 1"]


def test_a_timing_only_run_is_verified_too():
    report = verify(double, X, Output.like(X), data=False, reference=X, **ONE)
    assert report.ok
    assert report.outputs == {}


def test_on_another_board_and_late():
    report = verify(double, X, Output.like(X), device=board("mlu590-h8"), dma="late", reference=X * 2, **ONE)
    assert report.ok
    assert str(report).startswith("double on mlu590-h8: sound (4 operations of 1 task)\n\nsplit proof\n")


def test_a_buffer_larger_than_the_chips_is_refused():
    async def large(core, x, out):
        core.nram.alloc(1 << 20, "uint8", "large")

    report = verify(large, X, Output.like(X), **ONE)
    assert re.match(r"nram.alloc of 1 048 576 B \(1 MiB\) does not fit: 655 360 B usable", report.errors[0].title)


def test_device_verify_sees_every_launch():
    device = Device()
    x, y, z = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "y"), device.alloc(X.shape, X.dtype, "z")
    device.launch(double, x, y, **ONE)
    device.launch(double, y, z, **ONE)
    device.synchronize()
    report = device.verify().check()
    assert report.name == "double"
    assert [use.times_read for use in report.tensors] == [1, 1, 0]


def test_a_wrong_operator_raises_its_report(monkeypatch):
    async def forgetful(core, x, out, plan):
        if not core.is_memory_core:
            core.scalar()

    monkeypatch.setattr(sys.modules["mlusim.ops.cast"], "cast_tiles", forgetful)
    assert mlusim.ops.cast(X, "float16", check=False).report is None
    with pytest.raises(VerificationError, match=r"^cast on mlu370-x4: 1 error, \d hints? ") as caught:
        mlusim.ops.cast(X, "float16", check=True)
    (finding,) = caught.value.report.errors
    assert finding.title == "output is never written"
    assert finding.remedy.startswith(
        "look for a bound that is too small, or a tile that is skipped\nthe plan gives them to"
    )
