"""Fixtures shared by the tests of the host interface."""

from __future__ import annotations

import pytest

import mlusim
from mluop_programs import Call, created
from mlusim.mluop import cnrtMalloc


@pytest.fixture(scope="module")
def device():
    return mlusim.Device("mlu370-x4")


@pytest.fixture
def call(device):
    call = Call(created(device))
    for tensor in (call.input, call.shifts, call.output):
        _, tensor.pointer = cnrtMalloc(device, 480)
    return call
