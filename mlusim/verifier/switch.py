"""Whether operators are verified where the call does not say: off, but inside `checked()`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_default: ContextVar[bool] = ContextVar("mlusim_check", default=False)


@contextmanager
def checked(on: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002 - a switch
    """Verify every operator that runs inside, unless its call says `check=False`. For a test suite."""
    token = _default.set(on)
    try:
        yield
    finally:
        _default.reset(token)


def is_checked(choice: bool | None) -> bool:  # noqa: FBT001
    """What a call chose, or else the default here."""
    return _default.get() if choice is None else choice
