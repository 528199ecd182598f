"""`mlusim.verify`: its arguments, results and errors."""

from __future__ import annotations

import importlib
import re

import numpy as np
import pytest

import mlusim
from doubling import ONE, X, double, triple
from kernel_lines import at
from mlusim import Device, InOut, InputError, LaunchError, Output, VerificationError, verify
from mlusim.hardware import board


def test_the_report_uses_the_kernels_parameter_names():
    report = verify(double, X, Output(X.shape), 3.0, reference=X * 3, **ONE)
    assert report.ok
    assert [use.name for use in report.tensors] == ["x", "out"]
    assert (report.outputs["out"] == X * 3).all()
    assert report.check() is report


def test_outputs_do_not_share_memory_with_arguments():
    x = X.copy()
    verify(double, x, Output.like(x), **ONE)
    assert (x == X).all()


def test_a_view_of_another_device_is_refused():
    view = Device().upload(X)
    with pytest.raises(InputError, match=r"^x is <view of input .*: the kernel gets a device of its own"):
        verify(double, view, Output.like(X), **ONE)


def test_a_kernel_that_cannot_be_launched_raises():
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


def test_a_report_says_that_values_were_not_compared():
    headline, second, *_ = verify(double, X, Output.like(X), **ONE).text().splitlines()
    assert headline == "double on mlu370-x4: sound (3 operations of 1 task)"
    assert second == "values of out not compared: pass a reference"
    compared = verify(double, X, Output.like(X), reference=2 * X, **ONE)
    assert "not compared" not in compared.text()
    assert compared.to_json()["compared"] == ["out"]


def test_verify_takes_a_board_and_late_copies():
    report = verify(double, X, Output.like(X), device=board("mlu590-h8"), dma="late", reference=X * 2, **ONE)
    assert report.ok
    assert str(report).startswith("double on mlu590-h8: sound (3 operations of 1 task)\n\nsplit proof\n")


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


def test_a_faulty_operator_raises_its_report(monkeypatch):
    async def forgetful(core, x, out, plan):
        if not core.is_memory_core:
            core.scalar()

    monkeypatch.setattr(importlib.import_module("mlusim.ops.cast"), "cast_tiles", forgetful)
    assert mlusim.ops.cast(X, "float16", check=False).report is None
    with pytest.raises(VerificationError, match=r"^cast on mlu370-x4: 1 error, \d hints? ") as caught:
        mlusim.ops.cast(X, "float16", check=True)
    (finding,) = caught.value.report.errors
    assert finding.title == "output is never written"
    assert finding.remedy == "look for a bound that is too small, or a tile that is skipped"
    assert "\nthe plan assigns them to" in finding.rule


def test_the_report_has_the_result_of_the_run():
    report = verify(double, X, Output.like(X), reference=X * 2, theory_ops=64, **ONE)
    result = report.result
    assert result.time_us > 0
    assert result.metrics.time_ps == result.log.launches[0].end_ps
    assert (result.output == X * 2).all()
    assert result.theory_ops == 64
    assert result.report is report


async def double_in_place(core, x, factor=2.0):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    core.mul(held, held, factor)
    await core.memcpy(x, held)


def test_a_kernel_works_in_place():
    x = X.copy()
    report = verify(double_in_place, InOut(x), reference=lambda x: 2 * x, **ONE)
    assert report.findings == (), report.text()
    assert (report.outputs["x"] == 2 * X).all()
    assert (x == X).all()
    assert not verify(double_in_place, InOut(x), 3.0, reference=lambda x: 2 * x, **ONE).ok
    assert [error.kind for error in verify(double_in_place, X, **ONE).errors] == ["access"]


def test_an_upload_that_kernels_may_write():
    device, x = Device(), X.copy()
    view = device.upload(x, "x", writable=True)
    device.launch(double_in_place, view, **ONE)
    device.synchronize()
    assert device.verify().findings == ()
    assert (device.download(view) == 2 * X).all()
    assert (x == X).all()


async def rows(core, x, out, skip=-1):
    held = core.nram.alloc(x.shape[1], x.dtype, "held")
    for row in range(core.task_id, x.shape[0], core.task_dim):
        if row != skip:
            await core.memcpy(held, x[row])
            await core.memcpy(out[row], held)


def test_an_output_with_a_pitch():
    report = verify(rows, X, Output((8, 8), X.dtype, pitch=32), reference=X, **ONE)
    assert report.findings == (), report.text()
    assert "all 256 B written exactly once" in report.text()
    gap = verify(rows, X, Output((8, 8), X.dtype, pitch=32), 3, reference=X, **ONE)
    (finding,) = gap.errors
    (wrong,) = finding.folded
    assert (finding.kind, wrong.kind) == ("never-written", "wrong-value")
    assert finding.region == wrong.region == "out[3, 0:8], 32 B"
    with pytest.raises(InputError, match=r"^Output: a pitch of 7 elements for \[8, 8\]: at least the last extent"):
        verify(rows, X, Output((8, 8), X.dtype, pitch=7), **ONE)


def test_writes_into_the_pitch_gap_are_reported():
    async def wide(core, x, out):
        held = core.nram.alloc((8, 32), x.dtype, "held")
        core.write_zero(held)
        await core.sync()
        await core.memcpy(held[:, 0:8], x)
        whole = out.allocation
        assert whole.nbytes == 8 * 32 * 4
        await core.memcpy(out, held[:, 0:8])
        await core.memcpy(out[0:1], held[0:1, 0:8])

    report = verify(wide, X, Output((8, 8), X.dtype, pitch=32), **ONE)
    assert [finding.kind for finding in report.errors] == ["written-again"]


def test_an_untouched_output_is_an_error_of_device_verify():
    async def idle(core, out):
        core.scalar()

    device = Device()
    device.launch(idle, device.alloc((8,), "float32", "out"), **ONE)
    device.alloc((8,), "float32", "later")
    device.synchronize()
    report = device.verify()
    assert [finding.kind for finding in report.errors] == ["never-written"]
    assert report.errors[0].title == "out is never written"
    assert [finding.title for finding in report.hints] == ["no operation uses later, 32 B of GDRAM passed by the host"]


def test_outputs_in_a_list_are_outputs():
    async def first_only(core, x, outs):
        await rows(core, x, outs[0])

    device = Device()
    outs = [device.alloc(X.shape, X.dtype, name) for name in ("left", "right")]
    device.launch(first_only, device.upload(X), outs, **ONE)
    device.synchronize()
    assert [finding.title for finding in device.verify().errors] == ["right is never written"]


def test_an_output_that_is_only_read_was_meant_as_an_input():
    async def total(core, x, y, out):
        tile, other = core.nram.alloc(64, x.dtype), core.nram.alloc(64, y.dtype)
        await core.memcpy(tile, x)
        await core.memcpy(other, y)
        core.add(tile, tile, other)
        await core.memcpy(out, tile)

    (finding,) = verify(total, *[Output((64,), "float32")] * 3, **ONE).errors
    assert finding.title == "x is an output, but only read"
    assert [other.title for other in finding.folded if other.kind == finding.kind] == ["y is an output, but only read"]
    assert finding.remedies == tuple(
        f"if {name} is an input, pass an array, on the command line --arg {name}=random:float32:64 or a file; "
        "else let the kernel store to it"
        for name in "xy"
    )


def test_a_device_whose_run_raised_has_errors():
    async def outside(core, x, out):
        await rows(core, x, out)
        await core.memcpy(out[0], x[8])

    device = Device()
    device.launch(outside, device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out"), **ONE)
    with pytest.raises(mlusim.AccessError):
        device.synchronize()
    report = device.verify()
    assert [finding.kind for finding in report.errors] == ["access"]
    assert report.errors[0].location.endswith("await core.memcpy(out[0], x[8])")
    assert "1 error" in str(report).splitlines()[0]


def test_an_error_that_the_kernel_catches_is_a_finding():
    async def careless(core, x, out):
        for row in range(9):
            try:
                await rows(core, x[row : row + 1], out[row : row + 1])
            except mlusim.AccessError:
                core.scalar()

    report = verify(careless, X, Output.like(X), reference=X, **ONE)
    (finding,) = report.errors
    assert finding.kind == "swallowed"
    assert finding.title.startswith(
        "the kernel caught an error and went on: slice [8:9] is outside axis 0 of <view of x"
    )
    assert "test_verify.py:" in finding.location
    assert finding.location.endswith("await rows(core, x[row : row + 1], out[row : row + 1])")


def test_a_caught_allocation_error_is_reported_once():
    async def tries(core, x, out):
        try:
            core.nram.alloc(1 << 22, "uint8", "large")
        except mlusim.AllocationError:
            await rows(core, x, out)

    report = verify(tries, X, Output.like(X), reference=X, **ONE)
    assert [(finding.kind, finding.times) for finding in report.errors] == [("swallowed", 1)]


def test_errors_do_not_carry_over_to_the_next_run():
    with pytest.raises(InputError):
        Device("mlu370-x4", dma="never")
    assert verify(double, X, Output.like(X), reference=X * 2, **ONE).findings == ()


def test_invalid_arguments_show_only_the_callers_line():
    with pytest.raises(LaunchError) as caught:
        verify(double, X, Output.like(X), dim=3)
    files = [entry.path.name for entry in caught.traceback]
    assert files == ["test_verify.py", "verify.py"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"plan": 3}, "plan=3 is not a plan: make one with mlusim.plan(NAME, *shapes)"),
        ({"planned": "out"}, "planned='out' names the output that a plan splits, and there is no plan: pass plan= too"),
        ({"rewrites": "out"}, "rewrites='out': pass a tuple of names of outputs, such as ('out',), or True for all"),
        ({"rewrites": 3}, "rewrites=3: pass a tuple of names of outputs, such as ('out',), or True for all"),
        ({"rewrites": ("o",)}, "rewrites names ['o'], which are not outputs: the outputs are ['out']"),
        ({"partial": "out"}, "partial='out': pass a tuple of names of outputs, such as ('out',), or True for all"),
        ({"partial": ("x",)}, "partial names ['x'], which are not outputs: the outputs are ['out']"),
        ({"tolerance": "1"}, "tolerance='1': it must be a number of at least 0, relative to the reference"),
        ({"tolerance": -1.0}, "tolerance=-1.0: it must be a number of at least 0, relative to the reference"),
        (
            {"absolute_tolerance": -1},
            "absolute_tolerance=-1: it must be a number of at least 0, the largest difference itself",
        ),
        ({"tolerance": float("nan")}, "tolerance=nan: it must be a number of at least 0, relative to the reference"),
    ],
)
def test_meaningless_options_are_refused(options, message):
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        verify(double, X, Output.like(X), **options)


def test_a_device_refuses_a_text_for_the_names_of_outputs():
    """A string would allow every output whose name is a substring."""
    device = Device()
    device.launch(double, device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out"), 2, **ONE)
    device.synchronize()
    with pytest.raises(InputError, match=r"^rewrites='outputs': pass a tuple of names of outputs"):
        device.verify(rewrites="outputs")


def test_the_class_output_is_not_an_output():
    with pytest.raises(InputError, match=r"^out is the class Output: pass Output\(shape, dtype\) or InOut\(array\)$"):
        verify(double, X, Output)


def test_a_wrong_value_names_its_producer_and_operands():
    report = verify(triple, X, Output.like(X), reference=X * 2, **ONE)
    (finding,) = report.errors
    assert [(site.role, site.operation) for site in finding.sites] == [("writes", "memcpy"), ("makes", "add")]
    assert finding.sites[1].source == "core.add(twice, twice, held)"
    assert finding.location == "add read twice[0, 1] = 2.0 and held[0, 1] = 1.0"
    load, multiply, add = (at(triple, call) for call in ("memcpy(held", "core.mul", "core.add"))
    assert finding.remedies == (f"check the operations that made these bytes, at {load}, {multiply} and {add}",)


def test_a_helper_that_is_not_awaited_is_a_finding():
    async def helper(core, out, row):
        await core.memcpy(out, row)

    async def kernel(core, x, out):
        row = core.nram.alloc(8, x.dtype, "row")
        await core.memcpy(row, x[0])
        helper(core, out[0], row)

    report = verify(kernel, X, Output.like(X), reference=X, **ONE)
    (finding,) = report.errors
    location = f"{at(kernel, 'helper(core')}: helper(core, out[0], row)"
    assert (finding.kind, finding.location, report.stopped) == ("await", location, True)
    assert "write `await helper(...)`" in report.text()


def test_a_checked_run_names_the_cause_of_an_error():
    async def lookup(core, x, index, out, wait):
        rows = core.nram.alloc(8, index.dtype, "rows")
        core.memcpy_async(rows, index)
        if wait:
            await core.sync_io()
        for row, source in enumerate(await core.load_array(rows)):
            await core.memcpy(out[row], x[int(source)])

    arguments = X, np.arange(8, dtype=np.int32), Output.like(X)
    with pytest.raises(
        VerificationError, match="race: load_array reads rows before memcpy is known to have written it"
    ):
        mlusim.run(lookup, *arguments, False, check=True, **ONE)
    beyond = X, np.arange(1, 9, dtype=np.int32), Output.like(X)
    with pytest.raises(mlusim.AccessError, match="index 8 is outside"):
        mlusim.run(lookup, *beyond, True, check=True, **ONE)
