"""The calls that an operation of a helper function may come from, by the log and the source."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mlusim.log import Log
from mlusim.verifier.source_file import RecordedCalls, SourceLine, function_around, source_file

# Records of the log, of all tasks, that are searched on either side of the operation.
_NEARBY = 2000
# A pipeline calls its stages before its loop, in it, and for the rest after it.
_MOST_CALLS = 5


def call_sites(log: Log, record: int) -> tuple[SourceLine, ...]:
    """Return the lines that may have called the function of an operation; none if the function is the kernel itself.

    The log has the line of an operation and the lines that call its function, but not which call led to this operation.
    Calls that are not between the lines of the task's operations before and after it are left out. If more than a few
    remain, none is returned.
    """
    file, line, _ = log.lines[log.records.values(record)["line"]]
    calls = _calls(log, file, line)
    if len(calls) > 1:
        line_before, line_after = _neighbours(
            log, record, {(name, function_around(name, call)) for name, call in calls}
        )
        calls = [call for call in calls if _is_between(call, line_before, line_after)] or calls
    return _few_lines(calls)


def calls_around(log: Log, at: SourceLine) -> tuple[SourceLine, ...]:
    """Return the lines that call the function around a line, if a few do; of an operation, `call_sites` knows more."""
    return _few_lines(_calls(log, at.file, at.line))


def _few_lines(calls: Iterable[tuple[str, int]]) -> tuple[SourceLine, ...]:
    lines = tuple(SourceLine(*call) for call in sorted(set(calls)))
    return lines if len(lines) <= _MOST_CALLS else ()


def recorded_calls(log: Log, file: str) -> RecordedCalls:
    """Return the calls of the helper functions of a file that a run recorded."""
    by_line = {line: calls for (name, line), calls in log.calls.items() if name == file}
    return RecordedCalls(file, by_line, {line for name, line in log.lambdas if name == file})


def _calls(log: Log, file: str, line: int) -> list[tuple[str, int]]:
    """Return file and line of every call of the function around a line, in other functions; else of those recorded."""
    recorded = recorded_calls(log, file)
    (first, last), name = source_file(file).function(line)
    calls = [
        (caller, call)
        for caller in dict.fromkeys(name for name, _, _ in log.lines)
        for call, callee in source_file(caller).calls
        if name and callee == name and not (caller == file and first <= call <= last) and function_around(caller, call)
    ]
    if not calls or line in recorded.lambdas:
        calls = [call for call in recorded.callers(line) if function_around(*call)]
    return calls


def _neighbours(log: Log, record: int, functions: set[tuple[str, str]]) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return file and line of the operations of a task before and after a record in one of these functions."""
    first, last = max(0, record - _NEARBY), min(len(log.records), record + _NEARBY)
    lines, tasks = (log.records.column(name, slice(first, last)) for name in ("line", "task"))
    records_of_task = np.flatnonzero(tasks == tasks[record - first]) + first
    locations = {code: log.lines[code][:2] for code in np.unique(lines).tolist()}
    function_lines = {
        code for code, location in locations.items() if (location[0], function_around(*location)) in functions
    }
    neighbours = [
        next(
            (locations[code] for at in records.tolist() if (code := int(lines[at - first])) in function_lines), ("", 0)
        )
        for records in (records_of_task[records_of_task < record][::-1], records_of_task[records_of_task > record])
    ]
    return neighbours[0], neighbours[1]


def _is_between(call: tuple[str, int], line_before: tuple[str, int], line_after: tuple[str, int]) -> bool:
    """Return whether a call comes after one line and before another, which may be in the next iteration of a loop.

    Lines of other functions do not count, but one of the two has to be in the function of the call.
    """
    function = call[0], function_around(*call)
    begin, end = (
        line if (file, function_around(file, line)) == function else 0 for file, line in (line_before, line_after)
    )
    if begin and end and end <= begin:
        return begin <= call[1] or call[1] <= end
    return bool(begin or end) and begin <= call[1] <= (end or call[1])
