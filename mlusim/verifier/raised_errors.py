"""Errors that kernels raise: the one that ended the run, and those that a kernel caught."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from inspect import CO_COROUTINE
from traceback import walk_tb
from typing import Any

from mlusim.errors import (
    AccessError,
    AllocationError,
    AwaitError,
    CopyError,
    HangError,
    MlusimError,
    OperandError,
    OperationLimitError,
)
from mlusim.log import Log
from mlusim.verifier.call_sites import calls_around
from mlusim.verifier.deadlocks import deadlock, locks_in_use
from mlusim.verifier.findings import Finding
from mlusim.verifier.polling import last_poll
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, location_of, source_file

# By error, the kind of its finding, the rule, and the remedy if the message has none.
_KINDS: dict[type[MlusimError], tuple[str, str, str]] = {
    AccessError: ("access", "an access must lie inside its view and its allocation, and inputs are read-only", ""),
    AllocationError: ("allocation", "a buffer must fit in its memory, and exists until its scope ends", ""),
    AwaitError: ("await", "a kernel must await what blocks: memcpy, load, sync, barriers", ""),
    CopyError: ("copy", "__memcpy accepts only certain directions, sizes and strides", ""),
    HangError: (
        "hang",
        "a task acquires a lock once, and releases it before it acquires it again",
        "unlock it before, or lock it once; a helper that is called with the lock held must not lock it again",
    ),
    OperandError: ("operand", "an instruction accepts only operands of certain memories, element types and sizes", ""),
    OperationLimitError: (
        "endless",
        "every task must end",
        "check that what ends {loop} changes: an index, a counter, a flag, an atomic that another task updates",
    ),
}
_VIEW = re.compile(r"<view of (.+?) \((\w+)\)")
_UNLOCK = re.compile(r"unlock (\d+): this task does not hold that lock(?:; it holds lock (\d+))?")
_SIZE = "correct the index, the size, or the bound of {loop}; or make that buffer or tensor larger"


def stop_finding(error: BaseException, run: Run) -> Finding:
    """Return the finding for an error that ended a run."""
    if not isinstance(error, MlusimError):
        name = type(error).__name__
        return Finding(kind="stopped", title=f"{name}: {error}", fields={"error": name})
    if isinstance(error, HangError) and not error.location:
        return deadlock(run) or Finding(kind="hang", title=error.message)
    kind, rule, remedy = next(
        (_KINDS[error_class] for error_class in _KINDS if isinstance(error, error_class)), ("stopped", "", "")
    )
    if kind == "access" and (" is outside " in error.message or ", which has " in error.message):
        remedy = _SIZE
    at = SourceLine(*error.source)
    calls = _calls(error, at, run.log)
    remedy = remedy.format(loop=_loop_text(at, calls))
    refused = _refused(error.message)
    # Where a task acquired the lock that it waits for itself, or that it holds in place of the one that it releases.
    locks, lock = locks_in_use(run), None
    if isinstance(error, HangError) and error.own_lock:
        lock = locks.get(error.own_lock)
    elif "holds" in refused:
        lock = next(record for (_, number), record in locks.items() if number == refused["holds"])
        acquires = location_of(*run.log.lines[int(run.columns["line"][lock])][:2])
        remedy = f"acquire and release the same lock: {acquires} acquires lock {refused['holds']}"
    poll = last_poll(run) if isinstance(error, OperationLimitError) and error.polls else None
    remedies = (poll.remedy, remedy) if poll else (remedy,)
    return Finding(
        kind=kind,
        title=error.message,
        location=_with_source(error.location, at) + _call_locations(calls),
        region=poll.region if poll else "",
        sites=(poll.site,) if poll else () if lock is None else (run.site(lock, "locks"),),
        rule=rule,
        remedies=tuple(filter(None, remedies)),
        fields={"error": type(error).__name__, **_line_fields(at), **_named_buffer(error.message)},
        clues=refused,
    )


def _loop_text(at: SourceLine, calls: Sequence[SourceLine]) -> str:
    """Return `the loop at kernel.py:5` if there is one around a line or the only call of its function."""
    loops = [
        location_of(line.file, begin)
        for line in (at, *calls[: len(calls) == 1])
        for begin, _ in source_file(line.file).loops_around(line.line)
    ]
    return f"the loop at {loops[0]}" if len(loops) == 1 else "its loop"


def find_swallowed(log: Log, stopped: BaseException | None) -> list[Finding]:
    """Return a finding per source line at which kernels caught errors.

    `stopped`: the error that ended the run, which a `finally` may have delayed.
    """
    ended = (stopped.message, stopped.location) if isinstance(stopped, MlusimError) else ()
    by_line: dict[SourceLine | str, list[tuple[str, str, SourceLine]]] = {}
    for message, location, file, line in log.swallowed:
        if (message, location) == ended:
            continue
        at = SourceLine(file, line)
        by_line.setdefault(at if at.line else location, []).append((message, location, at))
    return [
        Finding(
            kind="swallowed",
            title=f"the kernel caught an error and went on: {message}",
            location=_with_source(location, at),
            rule="a board raises no exceptions: it skips the operation, or does something else",
            remedies=("fix the cause of the error, and do not catch it in the kernel",),
            times=1 + len(others),
            fields=_line_fields(at),
        )
        for (message, location, at), *others in by_line.values()
    ]


def _refused(message: str) -> dict[str, Any]:
    """Return what a message begins with, an operation if one was refused, and the lock that it names.

    `lock`: one that is released and not held; `holds`: one that the task holds instead.
    """
    refused: dict[str, Any] = {"operation": message.partition(" ")[0]}
    if unlock := _UNLOCK.match(message):
        refused |= {"lock": int(unlock[1])} if unlock[2] is None else {"holds": int(unlock[2])}
    return refused


def _named_buffer(message: str) -> dict[str, str]:
    """Return the first buffer that a message names, as fields of a finding."""
    view = _VIEW.search(message)
    return {} if view is None else {"buffer": view[1], "memory": view[2]}


def _with_source(location: str, at: SourceLine) -> str:
    return f"{location}: {at.source}" if location and at.source else location


def _calls(error: MlusimError, at: SourceLine, log: Log) -> tuple[SourceLine, ...]:
    """Return the line that called the function around an error; of C++, which has no traceback, all that may have."""
    if at.is_compiled:
        return calls_around(log, at)
    frames = [(frame.f_code, line) for frame, line in walk_tb(error.__traceback__)]
    kernel = next((number for number, (code, _) in enumerate(frames) if code.co_flags & CO_COROUTINE), len(frames))
    lines = [SourceLine(code.co_filename, line) for code, line in frames[kernel:]]
    number = lines.index(at) if at in lines else 0
    return tuple(lines[max(number - 1, 0) : number])


def _call_locations(calls: Iterable[SourceLine]) -> str:
    """Return where the helper function around an error is called."""
    callers = " or ".join(call.location for call in calls)
    return f", called at {callers}" if callers else ""


def _line_fields(at: SourceLine) -> dict[str, str | int]:
    """Return `file` and `line` as fields of a finding, as in its sites; empty if the line is unknown."""
    return {"file": at.file, "line": at.line} if at.line else {}
