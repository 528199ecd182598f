"""The mluOp context: the board that operators run on, and the result of their last run."""

from __future__ import annotations

from typing import Any

from mlusim.errors import InputError
from mlusim.host.device import Device
from mlusim.mluop.refusals import object_fault, refuse
from mlusim.mluop.types import mluOpStatus_t
from mlusim.ops.tin_shift import FORWARD
from mlusim.results.result import Result

_SUCCESS, _BAD_PARAM = mluOpStatus_t.MLUOP_STATUS_SUCCESS, mluOpStatus_t.MLUOP_STATUS_BAD_PARAM


class mluOpHandle:
    """The context argument of every operator.

    Attributes:
        device: the simulated board.
        strategy: the operator's strategy to run.
        last_result: plan, log and figures of the last kernel that completed, None before. Its `output` is None: the
            output is in device memory.
        destroyed: whether `mluOpDestroy` was called for it.
    """

    def __init__(self, device: Device, strategy: str) -> None:
        self.device = device
        self.strategy = strategy
        self.last_result: Result | None = None
        self.destroyed = False


def mluOpCreate(device: Device | None, *, strategy: str = "documented") -> tuple[mluOpStatus_t, mluOpHandle | None]:
    """Create a handle. C's out-parameter is returned with the status: `status, handle = ...`.

    Args:
        device: the simulated board, instead of the thread's current device in C.
        strategy: strategy of tin_shift; "shipped" is that of the vendor's library, which offers no choice.

    BAD_PARAM, and None for the handle, for anything but a device that can run, and for an unknown strategy.
    """
    if not isinstance(device, Device):
        reason = f"device is of type {type(device).__name__}, not a mlusim.Device: mluOpCreate(Device('mlu370-x4'))"
        return refuse("mluOpCreate", _BAD_PARAM, reason), None
    try:
        device.check_can_run()
    except InputError as error:
        return refuse("mluOpCreate", _BAD_PARAM, error.message), None
    if not (isinstance(strategy, str) and strategy in FORWARD.strategies):
        reason = f"strategy = {strategy!r}: it must be one of {', '.join(FORWARD.strategies)}"
        return refuse("mluOpCreate", _BAD_PARAM, reason), None
    return _SUCCESS, mluOpHandle(device, strategy)


def mluOpDestroy(handle: mluOpHandle | None) -> mluOpStatus_t:
    """Destroy a handle; memory and descriptors remain. BAD_PARAM for NULL and for one that is already destroyed."""
    fault = handle_fault(handle)
    if fault or handle is None:
        return refuse("mluOpDestroy", _BAD_PARAM, fault)
    handle.destroyed = True
    return _SUCCESS


def handle_fault(handle: Any) -> str:
    """Return why an argument is not a usable handle; "" if it is."""
    return object_fault(handle, "handle", mluOpHandle, "mluOpCreate")
