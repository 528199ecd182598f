"""Errors of mluOp: a status for the program, and the reason in the log `mlusim.mluop`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, TypeVar

LOGGER = logging.getLogger("mlusim.mluop")
Status = TypeVar("Status", bound=IntEnum)


def refuse(function: str, status: Status, reason: str) -> Status:
    """Log an error as the vendor's library does, its function in brackets, and return the status."""
    LOGGER.error("[%s] %s: %s", function, status.name, reason)
    return status


def object_fault(value: Any, name: str, kind: type[Any], maker: str) -> str:
    """Return why an argument is not a usable handle or descriptor, which `maker` returns; "" if it is."""
    if value is None:
        return f"{name} is NULL"
    if not isinstance(value, kind):
        return f"{name} is of type {type(value).__name__}, not a {kind.__name__}: make it with {maker}"
    return f"{name} was destroyed: make another with {maker}" if value.destroyed else ""


def first_refusal(function: str, checks: Iterable[tuple[Any, Status, str]]) -> Status | None:
    """Evaluate (fails, status, reason) checks and reject at the first that fails; returns None if none does.

    Checks from a generator are evaluated one at a time, so that each may rely on the previous ones.
    """
    for fails, status, reason in checks:
        if fails:
            return refuse(function, status, reason)
    return None
