"""Verification by default: operators inside `checked()`, devices inside `watched()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from sys import _getframe
from typing import Any

_default: ContextVar[bool] = ContextVar("mlusim_check", default=False)
_devices: ContextVar[list[Any] | None] = ContextVar("mlusim_devices", default=None)


@contextmanager
def checked(on: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002 - a switch
    """Verify every operator that runs inside, unless its call says `check=False`. For a test suite."""
    token = _default.set(on)
    try:
        yield
    finally:
        _default.reset(token)


def is_checked(choice: bool | None) -> bool:  # noqa: FBT001
    """The choice of a call, or the default."""
    return _default.get() if choice is None else choice


@contextmanager
def watched() -> Iterator[list[Any]]:
    """Collect the devices that are made inside by code that is not mlusim's own, to verify them afterwards."""
    found: list[Any] = []
    token = _devices.set(found)
    try:
        yield found
    finally:
        _devices.reset(token)


def note_device(device: Any) -> bool:
    """Add a device to those of `watched()`, where one is open and the caller of its constructor is not mlusim's own.

    Returns whether it was.
    """
    found = _devices.get()
    if found is None or str(_getframe(2).f_globals.get("__name__", "")).startswith("mlusim."):
        return False
    found.append(device)
    return True
