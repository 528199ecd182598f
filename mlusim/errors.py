"""Every error that mlusim raises on purpose.

    MlusimError
    ├── BoardError              a board record or TOML file that breaks a rule
    ├── InputError              an argument that breaks a rule (also a ValueError)
    │   └── ArgumentsError      a misspelt, missing or additional argument (also a TypeError)
    ├── PlanError               a split that cannot be made, or does not cover its output
    ├── CompileError            a BANG C file that does not compile; its text is the compiler's
    ├── LaunchError             a launch that the board cannot hold
    ├── VerificationError       a kernel or split that does not hold; its text is the report
    └── KernelError             raised while a kernel runs; names task, line and time
        ├── AllocationError     does not fit, freed, freed twice
        ├── AccessError         outside an allocation or view, or a write to an input
        ├── CopyError           forbidden direction, stride, segment count or alignment of a copy
        ├── OperandError        operand of a vector or scalar instruction
        ├── UnknownNameError    a method that a core does not have (also an AttributeError)
        ├── MissingDataError    a scalar load of bytes that a timing-only run does not have
        ├── AwaitError          a forgotten await, or an await of something foreign
        ├── OperationLimitError a task that does not end
        ├── SimulatedTimeError  a run that takes longer, on the simulated clock, than the log can hold
        └── HangError           deadlock: tasks that wait for something that never happens

A message names the task, the time, the values, the rule and the remedy. The fields are in `args`, because SimPy may
raise an exception again as `type(error)(*error.args)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

# Called with each error of a run as it is created, so that errors which a kernel catches leave a trace.
NOTED: ContextVar[Callable[[MlusimError], None] | None] = ContextVar("mlusim_noted", default=None)
# Whether a command is running, so that errors name its options, and not the parameters of functions.
IN_COMMAND: ContextVar[bool] = ContextVar("mlusim_in_command", default=False)
# Characters of a value that a message shows.
_SHOWN = 200
# The address of an object, which differs from run to run.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class MlusimError(Exception):
    """Base of all errors of mlusim. `str(error)` is the message."""

    # File and line of the kernel, or of host code, that `location` names; line 0 if it names none.
    source: tuple[str, int] = ("", 0)

    def __init__(self, message: str, location: str = "") -> None:
        super().__init__(message, location)
        note = NOTED.get()
        if note is not None:
            note(self)

    @property
    def message(self) -> str:
        """The message without its location: what happened, the rule and the remedy."""
        return str(self.args[0])

    @property
    def location(self) -> str:
        """Task, kernel line and simulated time, or an empty string outside a kernel."""
        return str(self.args[1])

    def locate(self, location: str, source: tuple[str, int] = ("", 0)) -> None:
        """Set the location and the line that it names, unless they are set already."""
        if not self.location:
            self.args = (self.message, location)
            self.source = source

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class BoardError(MlusimError):
    """A board that does not exist, or whose record or TOML file breaks a rule."""


class InputError(MlusimError, ValueError):
    """An argument that breaks a rule: of a function, an operator or a command."""


class ArgumentsError(InputError, TypeError):
    """A call with an argument that its function does not have, or without one that it needs."""


class PlanError(MlusimError):
    """A split that cannot be made on this board, or that does not cover its output."""


class LaunchError(MlusimError):
    """A launch that the board cannot hold: task type, grid or queue."""


class CompileError(MlusimError):
    """A BANG C file that does not compile, or does not link: the compiler's message at the user's line."""


class VerificationError(MlusimError):
    """A kernel, or its split, that verification found wrong. `str(error)` is the text of `report`."""

    report: Any = None


class KernelError(MlusimError):
    """Something a kernel did that the board forbids, or an exception that the kernel's own code raised."""


class AllocationError(KernelError):
    """An allocation that does not fit, or a use of memory that was freed."""


class AccessError(KernelError):
    """An access outside an allocation or a view, or a write to a read-only input."""


class CopyError(KernelError):
    """A copy that the hardware forbids: direction, stride, segment count, size or alignment."""


class OperandError(KernelError):
    """An operand that a vector or scalar instruction does not take."""


class UnknownNameError(KernelError, AttributeError):
    """A method or instruction that a core does not have."""


class MissingDataError(KernelError):
    """A scalar load of bytes that a timing-only run does not have."""


class AwaitError(KernelError):
    """A coroutine that was never awaited, or an await of an object that is not the simulator's.

    Attributes:
        dropped: if a coroutine ended that never started; the error is raised when the task next does something.
    """

    def __init__(self, message: str, location: str = "", *, dropped: bool = False) -> None:
        self.dropped = dropped
        super().__init__(message, location)


class OperationLimitError(KernelError):
    """A task that issued more operations than the limit, or none for too long.

    Attributes:
        polls: whether the tasks of the run only read what no task will write.
    """

    polls: bool = False


class SimulatedTimeError(KernelError):
    """A run that takes more simulated time than the log can hold and add up."""


class HangError(KernelError):
    """A deadlock: tasks that wait for something that never happens.

    Attributes:
        own_lock: if a task waits for a lock that it holds: the task, as an index into the log, and the lock's number.
    """

    own_lock: tuple[int, int] | None = None


def flag_of(name: str) -> str:
    """Return the command-line option of a parameter: `--index-shape`."""
    return f"--{name.replace('_', '-')}"


def for_caller(command: str, python: str) -> str:
    """Return the remedy for the command line, or that for Python, as the caller of mlusim needs it."""
    return command if IN_COMMAND.get() else python


def shown(value: object) -> str:
    """Return the repr of a value for a message: one line; if long, an array by its shape, and others cut."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a repr may raise anything
        text = f"<{type(value).__name__}>"
    text = _ADDRESS.sub("", " ".join(text.split()))
    if len(text) > _SHOWN and type(value).__module__ == "numpy" and hasattr(value, "shape"):
        return f"<array of {value.dtype} {[*value.shape]}>"  # type: ignore[attr-defined]  # NumPy is not imported here
    return f"{text[:_SHOWN]}..." if len(text) > _SHOWN else text
