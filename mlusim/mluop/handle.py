"""The mluOp context: which board operators run on, and how their last run went."""
# ruff: noqa: N801, N802 - the vendor's names

from __future__ import annotations

from typing import Any

from mlusim.host.device import Device
from mlusim.mluop.report import refuse
from mlusim.mluop.types import mluOpStatus_t
from mlusim.ops.tin_shift import FORWARD
from mlusim.results.result import Result

_SUCCESS, _BAD_PARAM = mluOpStatus_t.MLUOP_STATUS_SUCCESS, mluOpStatus_t.MLUOP_STATUS_BAD_PARAM


class mluOpHandle:
    """The context that every operator is given.

    Attributes:
        device: the simulated board.
        strategy: which of the operator's strategies it runs.
        last_result: plan, log and figures of the last kernel that ran to its end, None before. Its `output` is None:
            that is in device memory.
        destroyed: whether `mluOpDestroy` has had it.
    """

    def __init__(self, device: Device, strategy: str) -> None:
        self.device = device
        self.strategy = strategy
        self.last_result: Result | None = None
        self.destroyed = False


def mluOpCreate(device: Device | None, *, strategy: str = "documented") -> tuple[mluOpStatus_t, mluOpHandle | None]:
    """Make a handle. C's out-parameter comes back beside the status: `status, handle = ...`.

    Args:
        device: the simulated board, where C has the thread's current device.
        strategy: of tin_shift; the vendor's library has no such choice, and "shipped" is what it does.

    BAD_PARAM, and None for the handle, where either is unknown.
    """
    if not isinstance(device, Device):
        reason = f"device is of type {type(device).__name__}, not a mlusim.Device: mluOpCreate(Device('mlu370-x4'))"
        return refuse("mluOpCreate", _BAD_PARAM, reason), None
    if strategy not in list(FORWARD.strategies):
        reason = f"strategy = {strategy!r}: it is one of {', '.join(FORWARD.strategies)}"
        return refuse("mluOpCreate", _BAD_PARAM, reason), None
    return _SUCCESS, mluOpHandle(device, strategy)


def mluOpDestroy(handle: mluOpHandle | None) -> mluOpStatus_t:
    """Give a handle up; memory and descriptors stay. BAD_PARAM for NULL and for one that was destroyed before."""
    fault = handle_fault(handle)
    if fault or handle is None:
        return refuse("mluOpDestroy", _BAD_PARAM, fault)
    handle.destroyed = True
    return _SUCCESS


def handle_fault(handle: Any) -> str:
    """Why an argument is not a handle to work with; "" where it is one."""
    if handle is None:
        return "handle is NULL"
    if not isinstance(handle, mluOpHandle):
        return f"handle is of type {type(handle).__name__}, not a handle: make it with mluOpCreate"
    return "handle was destroyed: make another with mluOpCreate" if handle.destroyed else ""
