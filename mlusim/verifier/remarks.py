"""Findings from remarks: observations made while operations ran that their records do not show."""

from __future__ import annotations

from dataclasses import replace

from mlusim.log import NONE, Log
from mlusim.log_tables import Remark
from mlusim.verifier.findings import Finding, Site, owner_of
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine

_BEYOND = (
    "an index must be less than the length of its table. ASSUMED: an element with a larger index keeps its value, "
    "because kernels of the vendor rely on it"
)
_MEMORY_CORE = (
    "a union launch runs the kernel on the memory cores too, which have no NRAM and no WRAM. ASSUMED: instructions on "
    "these memories do nothing there, later atomics are dropped, and so are stores of plain C++ that has read them"
)
_QUEUES = (
    "a CNRT call waits for the queue that it names, or for the default queue. No public document says that it waits "
    "for other queues. ASSUMED: it does"
)
_PARALLEL_QUEUES = (
    "queues run in parallel: a copy or a launch waits only for what was put into its own queue before it, and for "
    "notifiers"
)
_NOTIFIERS = (
    "put both into one queue",
    (
        "let the second queue wait for a notifier that is placed after the first of them: cnrtPlaceNotifier, "
        "cnrtQueueWaitNotifier"
    ),
    "call cnrtQueueSync for the first queue between them",
)
_INTO_THE_TABLE = (
    "clamp or mask the indices first (maximum, minimum, band), or pass the whole table and its length in elements"
)
_TEST_OF_THE_CORE = (
    "if (__is_mpu()) return; before the code for the MLU cores or, if barriers follow, which count the memory core, "
    "if (!__is_mpu()) around this line"
)
_OF_HOST = (
    "a function without __mlu_func__ is a host function. ASSUMED: the vendor's compiler refuses calls of it from "
    "device code, since all functions that the vendor's kernels call are declared with __mlu_func__"
)
_WITHOUT_RETURN = (
    "in C++, the end of a function that returns a value must not be reached: the value is undefined, and compilers may "
    "omit the code that leads there"
)
_UNSET = (
    "in C++, a local variable without an initial value has none until it is set, and so has each element of an array"
)
# Kinds that are about C++ and not about an operation.
_OF_FUNCTIONS = frozenset(("host-function", "no-return", "unset"))
# By kind of remark: the rule and the remedies.
RULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "lookup": (_BEYOND, (_INTO_THE_TABLE,)),
    "lookup-again": (_BEYOND, ("look the mask up once, and reuse the result",)),
    "unordered": (_PARALLEL_QUEUES, _NOTIFIERS),
    "unsynced": (_QUEUES, ("call cnrtQueueSync for its queue first, or let this queue wait for a notifier of it",)),
    "memory-core": (_MEMORY_CORE, (_TEST_OF_THE_CORE,)),
    "host-function": (_OF_HOST, ("declare the function with __mlu_func__",)),
    "unset": (_UNSET, ("set the variable on each path to this line, or where it is declared",)),
    "no-return": (_WITHOUT_RETURN, ("return the value on each path, or declare the function void",)),
}


def find_remarks(run: Run, padding: set[int]) -> list[Finding]:
    """Return a finding for each remark of the log.

    Lookups of uninitialised indices are left out: `uninitialised` reports them where they reach an output.

    `padding`: the records of such lookups.
    """
    log = run.log
    # By line, the other lookups beyond the table. Runs saved by earlier versions do not have their records.
    lookups = {remark.line: remark.times for remark in log.remarks.values() if remark.kind == "lookup"}
    for record in padding:
        lookups[int(run.columns["line"][record])] -= 1
    return [
        _finding(log, remark, lookups[remark.line] if remark.kind == "lookup" else remark.times)
        for remark in log.remarks.values()
        if remark.kind != "lookup" or lookups[remark.line]
    ]


def _finding(log: Log, remark: Remark, times: int) -> Finding:
    file, line, function = log.lines[remark.line]
    rule, remedies = RULES[remark.kind]
    finding = Finding(kind=remark.kind, title=remark.title, rule=rule, remedies=remedies, times=times)
    if remark.task == NONE:
        # A line of a program's host code.
        at = SourceLine(file, line)
        location = f"{function}, {at.location}: {at.source}"
        return replace(finding, location=location, fields={"file": file, "line": line})
    task = log.tasks[remark.task]
    site = Site(
        role="in" if remark.kind in _OF_FUNCTIONS else "calls",
        operation=remark.operation,
        file=file,
        line=line,
        function=function,
        **owner_of(task),
        pipe=_pipe(remark, is_memory_core=task.is_memory_core),
        start_ps=remark.at_ps,
        end_ps=remark.at_ps,
        record=-1,
    )
    return replace(finding, sites=(site,))


def _pipe(remark: Remark, *, is_memory_core: bool) -> str:
    if remark.kind in _OF_FUNCTIONS:
        return "scalar"
    return "sync" if is_memory_core else "vector"
