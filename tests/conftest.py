"""Every operator that a test runs is verified: races, uninitialised reads, the split. A test may say `check=False`."""

from __future__ import annotations

import filecmp
import gc
import os
import signal
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import mlusim
from mlusim.verifier import checked
from mlusim.verifier.changes import search

# Their assertions explain themselves as those of the tests do.
pytest.register_assert_rewrite(*(path.stem for path in (Path(__file__).parent / "support").iterdir()))

# Deadlines fail on a busy machine, and say nothing of a simulator. By default the examples are the same each time, so
# that a commit fails for what it changes; HYPOTHESIS_PROFILE=thorough and `pytest -m fuzz` look for new ones.
settings.register_profile("quick", max_examples=25, deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None)
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    """`pytest -m fuzz` takes an hour; by default the same tests take seconds."""
    # A shell starts what runs in its background with Ctrl-C ignored, and our tests of Ctrl-C would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _keep_compiled_modules(config)
    _require_this_checkout()
    # The search for a change that fixes a wrong kernel takes up to a second each time. `test_changes` has it.
    search.MOST_COST = 0
    if config.getoption("markexpr") == "fuzz":
        os.environ.setdefault("MLUSIM_FUZZ", "2000")
        settings.load_profile("fuzz")


def _keep_compiled_modules(config: pytest.Config) -> None:
    """Where no bytecode may be written beside the modules, each of the hundreds of processes would compile them.

    The processes, and the workers of pytest-xdist, share a temporary folder of bytecode.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        folder = tempfile.TemporaryDirectory(prefix="mlusim-bytecode-", ignore_cleanup_errors=True)
        os.environ["PYTHONPYCACHEPREFIX"] = folder.name
        config.add_cleanup(folder.cleanup)


def _require_this_checkout() -> None:
    """`pytest` tests the installed package, which may be compiled: its sources must be those of this checkout."""
    package, checkout = Path(mlusim.__file__).parent, Path(__file__).parents[1] / "mlusim"
    if package == checkout:
        return
    sources = [file.relative_to(checkout) for suffix in ("py", "h") for file in checkout.rglob(f"*.{suffix}")]
    _, different, missing = filecmp.cmpfiles(package, checkout, sources, shallow=False)
    if old := different + missing:
        pytest.exit(
            f"the installed package, {package}, is not that of this checkout: {old[0]} differs. "
            f"Install it again with pip install '.[test]', or test the checkout with python -m pytest",
            returncode=pytest.ExitCode.USAGE_ERROR,
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases of a `grid(n)` every n-th runs by default; `-m slow` runs the others."""
    for item in items:
        mark = item.get_closest_marker("grid")
        # A digest of the name spreads what runs over all parameters, and is the same on every machine.
        if mark is not None and zlib.crc32(item.name.encode()) % mark.args[0]:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Python's collector would walk thousands of collected tests again and again, a seventh of the suite's time.

    A device is about 1,500 objects in cycles. A collection of a few devices finds them in the processor's cache.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden/table.json anew")


@pytest.fixture(autouse=True)
def verify_operators() -> Iterator[None]:
    with checked():
        yield


@pytest.fixture(scope="session")
def onnx_cases():
    """onnx_cases(module): name, attributes, inputs and outputs of ONNX's own node tests of an operator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("onnx")
        from onnx import helper

    def collect(module):
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore")
            cases = pytest.importorskip(f"onnx.backend.test.case.node.{module}")
            found = []

            def expect(node, inputs, outputs, name, **_):
                attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
                found.append((name, attributes, inputs, outputs))

            patch.setattr(cases, "expect", expect)
            for kind in [kind for kind in vars(cases).values() if isinstance(kind, type)]:
                for name in [name for name in dir(kind) if name.startswith("export")]:
                    getattr(kind, name)()
        return found

    return collect
