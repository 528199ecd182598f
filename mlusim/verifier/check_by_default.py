"""Verification by default: operators inside `checked()`, devices inside `watched()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from sys import _getframe
from typing import Any

from mlusim.inputs import check_flags

_default: ContextVar[bool] = ContextVar("mlusim_check", default=False)
_devices: ContextVar[list[Any] | None] = ContextVar("mlusim_devices", default=None)


@contextmanager
def checked(on: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002 - a switch
    """Verify every operator that runs in the `with` block, unless called with `check=False`. For test suites."""
    check_flags(on=on)
    token = _default.set(on)
    try:
        yield
    finally:
        _default.reset(token)


def is_checked(choice: bool | None) -> bool:  # noqa: FBT001 - the one argument
    """Return the choice of a call, or the default if it is None."""
    return _default.get() if choice is None else choice


@contextmanager
def watched() -> Iterator[list[Any]]:
    """Collect the devices constructed in the `with` block by code outside mlusim, to verify them afterwards."""
    devices: list[Any] = []
    token = _devices.set(devices)
    try:
        yield devices
    finally:
        _devices.reset(token)


def note_device(device: Any) -> bool:
    """Add a device to the list of an enclosing `watched()` if code outside mlusim constructed it.

    Returns whether it was added.
    """
    devices = _devices.get()
    if devices is None or str(_getframe(2).f_globals.get("__name__", "")).startswith("mlusim."):
        return False
    devices.append(device)
    return True
