"""Tests of compiled kernels need a C++ compiler: g++, clang++ or the one of the ziglang wheel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlusim import bangc
from mlusim.bangc.compiler import toolchain
from mlusim.errors import InputError

# The tests run with another compiler than the default one by `CXX=ziglang pytest tests/bangc`.
if os.environ.get("CXX"):
    _default = toolchain.find_compiler
    toolchain.find_compiler = lambda command=None: _default(command or os.environ["CXX"])
KERNELS = Path(__file__).parent / "kernels"
try:
    toolchain.find_compiler()
    MISSING = ""
except InputError as error:
    MISSING = str(error)


@pytest.fixture(params=["g++", "ziglang"])
def compiler(request: pytest.FixtureRequest) -> str:
    """Each compiler that is there: a test that needs one that is not is skipped."""
    return _available(request.param)


@pytest.fixture
def both_compilers() -> tuple[str, str]:
    """The system's compiler and the wheel's; a test is skipped without either."""
    return _available("g++"), _available("ziglang")


def _available(command: str) -> str:
    try:
        toolchain.find_compiler(command)
    except InputError as error:
        pytest.skip(str(error))
    return command


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if MISSING and "/bangc/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def basics() -> bangc.Module:
    return bangc.compile(KERNELS / "basics.mlu")
