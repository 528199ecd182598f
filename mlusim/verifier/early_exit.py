"""Findings of runs that ended early: hangs, and errors raised in a kernel."""

from __future__ import annotations

import linecache
import re
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import numpy as np

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
from mlusim.verifier.findings import Finding, site_of
from mlusim.verifier.happens_before import Order
from mlusim.verifier.races import job_of

_PACKAGE = Path(__file__).resolve().parent.parent
_LINE = re.compile(r"[^\s,]+\.\w+:\d+")
_KERNELS = _PACKAGE / "kernels"
_KINDS: dict[type[BaseException], str] = {
    AccessError: "access",
    AllocationError: "allocation",
    AwaitError: "await",
    CopyError: "copy",
    OperandError: "operand",
    OperationLimitError: "endless",
}
_RULES = {
    "access": "an access lies inside its view and its allocation; inputs are never written",
    "allocation": "on-chip memory is small, and a buffer lives as long as its scope",
    "await": "a kernel awaits what blocks: memcpy, load, sync, barriers",
    "copy": "the limits of __memcpy",
    "operand": "the limits of the instruction",
    "endless": "a task of a real kernel ends",
}
_NAMED_TASKS = 12


def stop_finding(error: BaseException, log: Log, order: Order) -> Finding:
    """Return the finding for an error that ended a run."""
    if isinstance(error, HangError):
        finding = _hang(log, order)
        if finding is not None:
            return finding
        return Finding(kind="hang", title=error.message)
    text = error.message if isinstance(error, MlusimError) else f"{type(error).__name__}: {error}"
    kind = next((kind for known, kind in _KINDS.items() if isinstance(error, known)), "stopped")
    location = error.where if isinstance(error, MlusimError) else ""
    raised = error.__cause__ or error
    at = _file_and_line(_line_of(location), log, raised.__traceback__)
    source = _source_line(at) or _source(error.__traceback__)
    return Finding(
        kind=kind,
        title=text,
        place=_with_source(location, source),
        rule=_RULES.get(kind, ""),
        fields={"error": type(error).__name__, **_as_fields(at)},
    )


def find_swallowed(log: Log) -> list[Finding]:
    """Return a finding per source line at which kernels caught errors."""
    times: dict[str, int] = {}
    first: dict[str, tuple[str, str]] = {}
    for message, where in log.swallowed:
        line = _line_of(where) or where
        times[line] = times.get(line, 0) + 1
        first.setdefault(line, (message, where))
    findings = []
    for line, (message, where) in first.items():
        at = _file_and_line(line, log)
        findings.append(
            Finding(
                kind="swallowed",
                title=f"the kernel caught an error and went on: {message}",
                place=_with_source(where, _source_line(at)),
                rule="the board raises nothing that a kernel could catch: it leaves the operation out, or does another",
                remedy="mend what the error says, and let errors end the run",
                times=times[line],
                fields=_as_fields(at),
            )
        )
    return findings


def _with_source(place: str, source: str) -> str:
    return f"{place}: {source}" if place and source else place or source


def _line_of(where: str) -> str:
    """Extract `kernel.py:41` from a location."""
    match = _LINE.search(where)
    return match[0] if match else ""


def _file_and_line(line: str, log: Log | None = None, traceback: TracebackType | None = None) -> tuple[str, int]:
    """Resolve `kernel.py:41` to a file and line number by the files in a traceback or a log; ("", 0) if unknown."""
    name, _, number = line.partition(":")
    files = []
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    for file in (*files, *(file for file, _, _ in (log.lines if log else ()))):
        if number and Path(file).name == name:
            return file, int(number)
    return "", 0


def _source_line(at: tuple[str, int]) -> str:
    """Return the text of a line; empty if it cannot be read."""
    return linecache.getline(*at).strip()


def _as_fields(at: tuple[str, int]) -> dict[str, str | int]:
    """Return `file` and `line` as fields of a finding, as in its sites; empty if the line is unknown."""
    file, line = at
    return {"file": file, "line": line} if line else {}


def _hang(log: Log, order: Order) -> Finding | None:
    """Return the finding for a hang: the tasks waiting at each barrier, and participants that have returned."""
    open_tasks = [task for task, record in enumerate(log.tasks) if record.end_ps < 0]
    last = order.first[np.array(open_tasks, np.int64) + 1] - 1
    waiting = last[order.is_barrier[last]] if len(log) else last
    if not len(waiting):
        return None
    lines: dict[int, list[int]] = {}
    for position in waiting.tolist():
        lines.setdefault(int(order.line[position]), []).append(position)
    sites = tuple(
        replace(site_of(log, int(order.record[positions[0]]), "waits", "sync"), end_ps=-1)
        for positions in lines.values()
    )
    tasks = order.task[waiting].tolist()
    jobs = {job_of(log, task) for task in tasks}
    returned = [task for task, record in enumerate(log.tasks) if record.end_ps >= 0 and job_of(log, task) in jobs]
    at = "; ".join(
        f"{site.place} {_names(log, order.task[positions].tolist())}"
        for site, positions in zip(sites, lines.values(), strict=True)
    )
    returned_text = f"; returned: {_names(log, returned)}" if returned else "; none has returned"
    barriers: dict[str, list[int]] = {}
    for site, positions in zip(sites, lines.values(), strict=True):
        barriers.setdefault(site.operation, []).extend(order.task[positions].tolist())
    if len(barriers) > 1:
        title = "crossed barriers: " + "; ".join(
            f"{_names(log, sorted(tasks))} {'waits' if len(tasks) == 1 else 'wait'} in {name}"
            for name, tasks in barriers.items()
        )
        remedy = f"let all of them reach one barrier, {' or '.join(barriers)}, in the same order"
    else:
        count = "1 task waits" if len(tasks) == 1 else f"{len(tasks)} tasks wait"
        title = f"deadlock: {count} in {next(iter(barriers))}, which not all of its participants reach"
        remedy = "let all of them reach the same barriers" + (", and none return before the last" if returned else "")
    return Finding(
        kind="hang",
        title=title,
        place=f"{at}{returned_text}",
        sites=sites,
        rule="a barrier counts all cores and memory cores, including returned ones (sync_all_ipu: no memory cores)",
        remedy=remedy,
        fields={"waiting": len(tasks), "returned": len(returned), "barriers": list(barriers)},
    )


def _names(log: Log, tasks: list[int]) -> str:
    """Format tasks as `tasks 0, 1, 2 and the memory core of cluster 0`."""
    cores = [str(log.tasks[task].task_id) for task in tasks if not log.tasks[task].is_memory_core]
    memory = [str(log.tasks[task].cluster) for task in tasks if log.tasks[task].is_memory_core]
    parts = []
    for names, singular, plural in (
        (cores, "task", "tasks"),
        (memory, "memory core of cluster", "memory cores of clusters"),
    ):
        if names:
            beyond = len(names) - _NAMED_TASKS
            shown = ", ".join(names[:_NAMED_TASKS]) + (f" and {beyond} more" if beyond > 0 else "")
            parts.append(f"{singular if len(names) == 1 else plural} {shown}")
    return " and ".join(parts)


def _source(traceback: TracebackType | None) -> str:
    """Return the source text of the innermost kernel line in a traceback."""
    text = ""
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        foreign = any(part in file.parts for part in ("simpy", "site-packages"))
        if not foreign and (_PACKAGE not in file.parents or _KERNELS in file.parents):
            text = linecache.getline(str(file), traceback.tb_lineno).strip()
        traceback = traceback.tb_next
    return text if "synchronize" not in text else ""
