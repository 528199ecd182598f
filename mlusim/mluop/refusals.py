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


def first_refusal(function: str, checks: Iterable[tuple[Any, Status, str]]) -> Status | None:
    """Evaluate (fails, status, reason) checks and reject at the first that fails; returns None if none does.

    Checks from a generator are evaluated one at a time, so that each may rely on the previous ones.
    """
    for fails, status, reason in checks:
        if fails:
            return refuse(function, status, reason)
    return None
