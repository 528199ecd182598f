"""The pytest plugin: a test suite that verifies a kernel fails with the report."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "mlusim.host.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def only_this_plugin(monkeypatch):
    """The inner runs load the plugin by `-p`, whether or not an installed mlusim registers it."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


KERNELS = """
import numpy as np
import mlusim
from mlusim import Output

X = np.ones((8, 8), np.float32)


async def sound(core, x, out):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    await core.memcpy(out, held)


async def careful(core, x, out):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    await core.sync()
    await core.memcpy(out, held)


async def short(core, x, out):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    await core.memcpy(out[0:7], held[0:7])
"""


def test_the_fixture_passes_and_fails_with_the_report(pytester: pytest.Pytester):
    pytester.makepyfile(
        KERNELS
        + """
def test_sound(verify_kernel):
    assert verify_kernel(sound, X, Output.like(X), reference=X, kind="BLOCK", dim=1).ok

def test_short(verify_kernel):
    verify_kernel(short, X, Output.like(X), kind="BLOCK", dim=1)
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "never-written: short on mlu370-x4: 1 error (2 operations of 1 task)",
            "error: never-written: 32 B of out are never written",
            "  nearby *.py:*  await core.memcpy(out[[]0:7], held[[]0:7])",
            "  bytes  out[[]7, 0:8], 32 B",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_hints_fail_a_test_on_request(pytester: pytest.Pytester):
    pytester.makepyfile(
        KERNELS
        + """
def test_careful(verify_kernel):
    verify_kernel(careful, X, Output.like(X), kind="BLOCK", dim=1)
"""
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
    result = pytester.runpytest_subprocess(*PLUGIN, "--mlusim-hints")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["hint: redundant-sync: sync orders nothing on any path that ran"])


def test_operators_are_checked_on_request(pytester: pytest.Pytester):
    pytester.makepyfile(
        KERNELS
        + """
def test_operator(request):
    with mlusim.verifier.checked(False) if not request.config.getoption("--mlusim-check") else open(__file__):
        report = mlusim.ops.cast(X, "float16").report
    assert (report is not None) == request.config.getoption("--mlusim-check")
"""
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)
    pytester.runpytest_subprocess(*PLUGIN, "--mlusim-check").assert_outcomes(passed=1)


def test_the_summary_line_names_the_kinds(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile(
        KERNELS
        + """
def test_short(verify_kernel):
    verify_kernel(short, X, Output.like(X), reference=2 * X, kind="BLOCK", dim=1)
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.stdout.fnmatch_lines(["FAILED *::test_short - Failed: never-written, wrong-value: short on mlu370-x4: *"])


def test_invalid_arguments_give_a_one_line_error(pytester: pytest.Pytester):
    pytester.makepyfile(
        KERNELS
        + """
def test_option(verify_kernel):
    verify_kernel(sound, X, Output.like(X), refrence=X)

def test_launch(verify_kernel):
    verify_kernel(sound, X, Output.like(X), dim=3)
"""
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(failed=2)
    text = result.stdout.str()
    assert "During handling" not in text
    assert "verify_kernel has no option 'refrence': did you mean reference? choose one of device, dim, " in text
    assert "verify_kernel: LaunchError: sound: dim.x = 3 for UNION1" in text
    assert len(text.splitlines()) < 30


DEVICES = """
import mlusim, pytest

def run(kernel):
    device = mlusim.Device()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    device.launch(kernel, x, out, kind="BLOCK", dim=1)
    device.launch(kernel, x, out, kind="BLOCK", dim=1)
    device.synchronize()

async def twice(core, x, out):
    await sound(core, x, out)
    await sound(core, x, out)

def test_sound():
    run(sound)

def test_short():
    run(short)

@pytest.mark.mlusim(rewrites=("out",))
def test_twice():
    run(twice)

@pytest.mark.mlusim(verify=False)
def test_left_alone():
    run(short)

def test_operator():
    # Devices of mlusim itself are those of --mlusim-check.
    mlusim.ops.scatter(np.zeros((4, 2), np.float32), np.array([[0, 0], [0, 0]]), np.ones((2, 2), np.float32))
"""


def test_a_flag_verifies_the_devices_of_a_test(pytester: pytest.Pytester):
    pytester.makepyfile(KERNELS + DEVICES)
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=5)
    result = pytester.runpytest_subprocess(*PLUGIN, "--mlusim-devices", "--strict-markers")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["never-written: short on mlu370-x4: 1 error (4 operations of 2 tasks)"])
