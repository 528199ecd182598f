"""Tests of compiled kernels need a C++ compiler: g++, clang++ or the one of the ziglang wheel."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import bangc
from mlusim.bangc import toolchain
from mlusim.errors import InputError

KERNELS = Path(__file__).parent / "kernels"
try:
    toolchain.find_compiler()
    MISSING = ""
except InputError as error:
    MISSING = str(error)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if MISSING and "/bangc/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture(scope="session")
def basics() -> bangc.Module:
    return bangc.compile(KERNELS / "basics.mlu")
