"""A fixture shared by the tests of CINN: the builder of a net."""

from __future__ import annotations

import pytest

from mlusim.cinn import NetBuilder


@pytest.fixture
def builder():
    return NetBuilder("test_basic")
