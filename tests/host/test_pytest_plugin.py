"""The pytest plugin: a test suite that verifies a kernel fails with the report."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# The plugin is loaded by `-p`, whether or not an installed mlusim registers it.
PLUGIN = ("-p", "mlusim.host.pytest_plugin", "-p", "no:cacheprovider")

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

FIXTURE = """
def test_sound(verify_kernel):
    assert verify_kernel(sound, X, Output.like(X), reference=X, kind="BLOCK", dim=1).ok

def test_short(verify_kernel):
    verify_kernel(short, X, Output.like(X), kind="BLOCK", dim=1)

def test_wrong(verify_kernel):
    verify_kernel(short, X, Output.like(X), reference=2 * X, kind="BLOCK", dim=1)

def test_option(verify_kernel):
    verify_kernel(sound, X, Output.like(X), refrence=X)

def test_launch(verify_kernel):
    verify_kernel(sound, X, Output.like(X), dim=3)

async def any_setting(core, x, out, **settings):
    assert settings == {"tile": 4}
    await sound(core, x, out)

def test_setting(verify_kernel):
    assert verify_kernel(any_setting, X, Output.like(X), kind="BLOCK", dim=1, tile=4).ok
"""

MARKERS = """
import pytest

@pytest.mark.mlusim(rewrite=("out",))
def test_name():
    pass

@pytest.mark.mlusim("out")
def test_position():
    pass

@pytest.mark.mlusim(rewrites="out")
def test_text():
    pass
"""

HINTS = """
def test_careful(verify_kernel):
    verify_kernel(careful, X, Output.like(X), kind="BLOCK", dim=1)
"""

OPERATORS = """
def test_operator(request):
    with mlusim.verifier.checked(False) if not request.config.getoption("--mlusim-check") else open(__file__):
        report = mlusim.ops.cast(X, "float16").report
    assert (report is not None) == request.config.getoption("--mlusim-check")
"""

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

@pytest.mark.mlusim(partial=("out",))
def test_partial():
    run(short)

@pytest.mark.mlusim(verify=False)
def test_left_alone():
    run(short)

def test_operator():
    # Devices of mlusim itself are those of --mlusim-check.
    mlusim.ops.scatter(np.zeros((4, 2), np.float32), np.array([[0, 0], [0, 0]]), np.ones((2, 2), np.float32))
"""

ERRORS = """
async def raises(core, x, out):
    divide(core)

def divide(core):
    return 1 // core.task_id

async def too_large(core, x, out):
    core.nram.alloc(10**7, x.dtype)

def test_raises():
    mlusim.run(raises, X, Output.like(X), kind="BLOCK", dim=1)

def test_too_large():
    mlusim.run(too_large, X, Output.like(X), kind="BLOCK", dim=1)

def test_memory_core():
    mlusim.run(too_large, X, Output.like(X))

def test_internal(monkeypatch):
    monkeypatch.setattr(mlusim.Device, "synchronize", None)
    mlusim.run(sound, X, Output.like(X), kind="BLOCK", dim=1)
"""

SUITE = {
    "errors": ERRORS,
    "fixture": FIXTURE,
    "markers": MARKERS,
    "hints": HINTS,
    "operators": OPERATORS,
    "devices": DEVICES,
}


class Suite:
    """The output of pytest on some of these files, and how each test ended."""

    def __init__(self, folder: Path, *options: str) -> None:
        clean = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *PLUGIN, "-v", *options],
            cwd=folder,
            env=clean | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200", "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        self.text = done.stdout
        ended = re.findall(r"^test_(\w+)\.py::test_(\w+) (PASSED|FAILED|ERROR)", self.text, re.MULTILINE)
        self.ended = {(file, name): how for file, name, how in ended}
        assert self.ended, done.stdout + done.stderr

    def passed(self, file: str) -> dict[str, bool]:
        """Whether each test of a file passed."""
        return {name: how == "PASSED" for (of, name), how in self.ended.items() if of == file}

    def failure(self, name: str) -> str:
        """What is printed on the failure of a test."""
        found = re.search(rf"^_+ test_{name} _+\n(.*?)(?=^_+ test_|^=+ )", self.text, re.MULTILINE | re.DOTALL)
        assert found, self.text
        return found[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("suite")
    for name, text in SUITE.items():
        (path / f"test_{name}.py").write_text(KERNELS + text)
    return path


@pytest.fixture(scope="module")
def plain(folder: Path) -> Suite:
    """The whole suite, without any option of the plugin."""
    return Suite(folder)


def test_the_fixture_passes_and_fails_with_the_report(plain: Suite) -> None:
    passed = plain.passed("fixture")
    assert (passed["sound"], passed["short"], passed["setting"]) == (True, False, True)
    pytest.LineMatcher(plain.failure("short").splitlines()).fnmatch_lines(
        [
            "never-written: short on mlu370-x4: 1 error (2 operations of 1 task)",
            "error: never-written: 32 B of out are never written",
            "  nearby test_fixture.py:*  await core.memcpy(out[[]0:7], held[[]0:7])",
            "  bytes  out[[]7, 0:8], 32 B",
        ]
    )
    assert "Traceback" not in plain.text


def test_hints_fail_a_test_on_request(plain: Suite, folder: Path) -> None:
    assert plain.passed("hints") == {"careful": True}
    asked = Suite(folder, "--mlusim-hints", "test_hints.py")
    assert asked.passed("hints") == {"careful": False}
    assert "\nhint: redundant-sync: sync orders nothing on any path that ran\n" in asked.failure("careful")


def test_operators_are_checked_on_request(plain: Suite, folder: Path) -> None:
    assert plain.passed("operators") == {"operator": True}
    assert Suite(folder, "--mlusim-check", "test_operators.py").passed("operators") == {"operator": True}


def test_the_summary_line_names_the_kinds(plain: Suite) -> None:
    line = "\nFAILED test_fixture.py::test_wrong - Failed: never-written, wrong-value: short on mlu370-x4: "
    assert line in plain.text


def test_invalid_arguments_give_a_one_line_error(plain: Suite) -> None:
    option, launch = plain.failure("option"), plain.failure("launch")
    assert "verify_kernel: ArgumentsError: sound has no parameter 'refrence': did you mean reference? " in option
    assert "verify_kernel: LaunchError: sound: dim.x = 3 for UNION1" in launch
    for text in (option, launch):
        assert "During handling" not in text
        assert len(text.splitlines()) < 8
    assert (plain.passed("fixture")["option"], plain.passed("fixture")["launch"]) == (False, False)


def test_wrong_arguments_of_the_marker_give_a_one_line_error(plain: Suite) -> None:
    assert plain.failure("name").strip() == (
        "@pytest.mark.mlusim has no argument rewrite: did you mean rewrites? choose rewrites, partial or verify"
    )
    assert plain.failure("position").strip() == (
        "@pytest.mark.mlusim has no argument 'out': choose rewrites, partial or verify"
    )
    assert "@pytest.mark.mlusim rewrites='out': pass a tuple of names" in plain.failure("text")


def test_a_flag_verifies_the_devices_of_a_test(plain: Suite, folder: Path) -> None:
    every = {"sound", "short", "twice", "partial", "left_alone", "operator"}
    assert plain.passed("devices") == dict.fromkeys(every, True)
    asked = Suite(folder, "--mlusim-devices", "--strict-markers", "test_devices.py")
    assert asked.passed("devices") == dict.fromkeys(every - {"short"}, True) | {"short": False}
    assert "never-written: short on mlu370-x4: 1 error (4 operations of 2 tasks)\n" in asked.failure("short")


def test_tracebacks_show_the_test_and_the_kernel(plain: Suite) -> None:
    """The frames between them are hidden, except where the error is not one of mlusim's."""
    raises, too_large, memory_core, internal = (
        plain.failure(name) for name in ("raises", "too_large", "memory_core", "internal")
    )
    assert re.findall(r"^(\S+):\d+: ", raises, re.MULTILINE) == ["test_errors.py"] * 5
    assert re.findall(r"^(\S+):\d+: ", too_large, re.MULTILINE) == ["test_errors.py"] * 2
    assert re.findall(r"^(\S+):\d+: ", memory_core, re.MULTILINE) == ["test_errors.py"] * 2
    assert "E   " + " " * 4 + "mlusim.errors.AllocationError: task 0 (cluster 0, core 0), test_errors.py:" in too_large
    assert re.search(r"^\S*mlusim\S+\.py:\d+: TypeError", internal, re.MULTILINE)
