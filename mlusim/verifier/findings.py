"""`Finding`: what happened, where, the numbers, the rule and the remedy; as text and as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Self, TypeGuard

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.cores.synchronisation.locks import LOCK_NAMES
from mlusim.log import PIPES, Log
from mlusim.log_tables import TaskRecord
from mlusim.units import format_ns, group_digits
from mlusim.verifier.call_sites import call_sites
from mlusim.verifier.core_names import core_at
from mlusim.verifier.source_file import SourceLine, either_of, function_around, location_of, source_file

ERROR, HINT = "error", "hint"
# The memories that each core has of its own.
PRIVATE = ("nram", "wram", "ldram")

# Descriptions of the kinds, in report order: causes before consequences.
_ERRORS = {
    "hang": "a deadlock: tasks wait forever",
    "endless": "a task does not end",
    "access": "an access outside an allocation or a view, or a write to an input",
    "allocation": "an allocation that does not fit, or memory that was freed",
    "copy": "a copy that the hardware forbids",
    "operand": "an operand that an instruction does not take",
    "await": "a blocking operation that was not awaited",
    "swallowed": "the kernel caught an error and went on",
    "stopped": "the run stopped with another error",
    "bad-plan": "the plan is invalid",
    "race": "two operations of one task touch the same bytes, and nothing orders them",
    "release": "a buffer is released while a transfer may still use it",
    "task-race": "two tasks touch the same bytes, and nothing orders them",
    "unordered": "a copy, and a copy or launch in another queue, use the same memory, and nothing orders them",
    "host-data": "tasks pass values through Python objects of the host",
    "uninitialised": "uninitialised bytes reach an output, a register or an address",
    "unset": "a local variable is used, and was never set",
    "lookup": "an index is beyond the end of its table",
    "never-written": "bytes of an output are never written",
    "written-again": "bytes of an output are written more than once",
    "not-planned": "the run does not do what its plan says",
    "wrong-value": "the output differs from the reference",
}
_HINTS = {
    "unused": "an allocation is never used",
    "left": "memory is left allocated",
    "unread": "nothing reads a result",
    "redundant-sync": "a sync orders nothing",
    "unawaited": "a task ends while a copy of its own may still run",
    "overlapping-copy": "a copy within a buffer overlaps itself, and is correct only in ascending order",
    "lookup-again": "an index is beyond the end of its table, and is already an entry of the table",
    "unselected": "elements that a filter did not write are stored with those that it selected",
    "memory-core": "a memory core runs code for the MLU cores",
    "host-function": "code for the board calls a host function",
    "no-return": "a function ends without its return",
    "stale": "bytes of an earlier launch are copied back again",
    "unsynced": "a program uses memory without waiting for its transfer",
}
KINDS = _ERRORS | _HINTS
HINTS = frozenset(_HINTS)

_BOLD, _RED, _YELLOW, _CYAN, _DIM, _END = "\x1b[1m", "\x1b[31m", "\x1b[33m", "\x1b[36m", "\x1b[2m", "\x1b[0m"


class Way(Enum):
    """In which way a remedy fixes a finding, as far as other findings and other runs depend on it."""

    PART = "correct the part of a buffer that a line accesses"
    ACCESS = "correct or move another access: no sync would fix the finding"
    CALL = "correct a call of a helper function"
    OPERANDS = "correct the operands of a line"
    IN_PLACE = "store one buffer in place of another"
    WRITE = "write bytes before they are read"
    BLOCK = "wait for a copy where it is issued"
    BARRIER = "add a barrier below the first of two operations"
    LOCK = "hold a lock in every task"
    ONE_TASK = "let one task do it alone"


class Remedy(str):
    """The text of a remedy that other modules have to recognise.

    Attributes:
        way: in which way it fixes the finding.
        of: the name of the buffer, or the location, that it is about, or how to write the bytes; "" if not needed.
    """

    __slots__ = ("of", "way")
    way: Way | None
    of: str

    def __new__(cls, text: str, way: Way | None = None, of: str = "") -> Self:
        """Return the text as a remedy."""
        remedy = super().__new__(cls, text)
        remedy.way, remedy.of = way, of
        return remedy


def fixes_by(remedy: str, *ways: Way, of: str | None = None) -> TypeGuard[Remedy]:
    """Return whether a remedy fixes its finding in one of some ways; `of`: and is about that buffer or location."""
    return isinstance(remedy, Remedy) and remedy.way in ways and of in (None, remedy.of)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site(SourceLine):
    """One operation of a finding, at its line in the kernel.

    Attributes:
        role: its part in the finding: `writes`, `reads`, `issued first, writes`.
        operation: its name.
        function: the function around its line.
        task: `task 3` or `memory core`.
        cluster, core, pipe: the pipe that executed it.
        start_ps, end_ps: simulated time; end -1 if it did not complete.
        record: its record in the log.
        tile: the tile of the plan, if any.
        called_at: if the line is in a helper function, the lines that may have called it.
    """

    role: str
    operation: str
    function: str
    task: str
    cluster: int
    core: str
    pipe: str
    start_ps: int
    end_ps: int
    record: int
    tile: str = ""
    called_at: tuple[SourceLine, ...] = ()

    @property
    def at(self) -> SourceLine:
        """The line alone."""
        return SourceLine(self.file, self.line)

    def call(self, name: str, at: SourceLine | None = None) -> str:
        """Format a blocking call in the kernel's language: `await core.sync_io()` or, in BANG C, `__sync_io()`.

        `at`: where it belongs, if that is not the function of this operation.
        """
        if not self.is_compiled:
            return f"`await {core_at(at or self.at)}.{name}`"
        lock, _, number = name.rstrip(")").partition("(")
        return f"`__bang_{lock}({number}, {number})`" if lock in LOCK_NAMES else f"`__{name}`"

    @property
    def owner(self) -> str:
        """`task 3 (cluster 0, core 3)`, as in errors that end a run."""
        return f"{self.task} (cluster {self.cluster}, {self.core})"

    @property
    def who(self) -> str:
        """`task 3, cluster 0 core 3, io pipe`, or `memory core of cluster 0, io pipe`."""
        pipe = f", {self.pipe} pipe" if self.pipe in PIPES[:-1] else f", {self.pipe}" if self.pipe != "sync" else ""
        if self.task == self.core:
            return f"{self.core} of cluster {self.cluster}{pipe}"
        return f"{self.task}, cluster {self.cluster} {self.core}{pipe}"

    @property
    def when(self) -> str:
        """`1 840 ns to 2 010 ns`, or `from 1 840 ns, not completed`."""
        if self.end_ps < 0:
            return f"from {format_ns(self.start_ps)}, not completed"
        return f"{format_ns(self.start_ps)} to {format_ns(self.end_ps)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One error or hint.

    Attributes:
        kind: a key of `KINDS`.
        title: one line: what happened, to which bytes.
        location: task and time of an error that ended the run.
        region: the bytes, in tensor coordinates.
        nbytes: number of bytes concerned.
        sites: the operations concerned, the first one first.
        rule: the rule of the hardware.
        remedies: alternative ways to fix it, the likeliest first.
        times: number of occurrences; the sites are those of the first.
        fields: additional data for programs; docs/programs.md lists them by kind.
        clues: what tells whether other findings have the same cause, and what fixes that; not in JSON.
        folded: consequences of the same fault.
    """

    kind: str
    title: str
    location: str = ""
    region: str = ""
    nbytes: int = 0
    sites: tuple[Site, ...] = ()
    rule: str = ""
    remedies: tuple[str, ...] = ()
    times: int = 1
    fields: dict[str, Any] = field(default_factory=dict)
    clues: dict[str, Any] = field(default_factory=dict)
    folded: tuple[Finding, ...] = ()

    @property
    def severity(self) -> str:
        """`error`, or `hint` if nothing is wrong."""
        return HINT if self.kind in HINTS else ERROR

    @property
    def writes_twice(self) -> bool:
        """Whether all of its operations write the bytes."""
        return all(site.role == "writes" for site in self.sites)

    @property
    def lines(self) -> set[SourceLine]:
        """The lines of its operations."""
        return {site.at for site in self.sites}

    @property
    def remedy(self) -> str:
        """The remedies as text, one per line."""
        first, *others = self.remedies or ("",)
        return first + "".join(f"\nor{',' if other.startswith('if ') else ''} {other}" for other in others)

    @property
    def unfolded(self) -> tuple[Finding, ...]:
        """The finding, and those that are folded into it."""
        return (replace(self, folded=()), *self.folded)

    def fold(self, *others: Finding) -> Finding:
        """Return the finding with others, and what is folded into them, as consequences of the same fault."""
        return replace(self, folded=(*self.folded, *(finding for other in others for finding in other.unfolded)))

    def text(self, *, colour: bool = False) -> str:
        """Format for the terminal; `colour` adds ANSI codes."""

        def paint(code: str, text: str) -> str:
            return f"{code}{text}{_END}" if colour else text

        head = paint(_BOLD + (_YELLOW if self.severity == HINT else _RED), f"{self.severity}: {self.kind}:")
        lines = [f"{head} {paint(_BOLD, self.title)}"]
        for site in self.sites:
            lines.append(f"  {site.role:<6} {paint(_CYAN, site.location)}  {site.source or site.operation}")
            tile = f", {site.tile}" if site.tile else ""
            lines.append(f"         {paint(_DIM, f'{site.who}{tile}, {site.when}')}")
            if site.called_at:
                calls = " or ".join(call.location for call in site.called_at)
                lines.append(f"         {paint(_DIM, f'called at {calls}')}")
        if self.location:
            lines.append(f"  at     {self.location}")
        if self.region:
            lines.append(f"  bytes  {self.region}")
        if self.times > 1:
            lines.append(f"  times  {group_digits(self.times)}; the first is shown")
        for finding in self.folded:
            kind = "" if finding.kind == self.kind else f"{finding.kind}: "
            origin = "; ".join(filter(None, (" and ".join(site.location for site in finding.sites), finding.location)))
            lines.append(f"  also   {kind}{finding.title}{': ' if origin else ''}{origin}")
        for name, text in (("rule", self.rule), ("remedy", self.remedy)):
            if text:
                first, *continuation = text.split("\n")
                lines += [f"  {name:<6} {first}", *(f"         {line}" for line in continuation)]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON types."""
        names = ("kind", "severity", "title", "location", "region", "nbytes", "sites", "rule", "remedy", "times")
        return {
            **{name: getattr(self, name) for name in names},
            "sites": [asdict(site) | {"source": site.source} for site in self.sites],
            "folded": [finding.to_json() for finding in self.folded],
            **self.fields,
        }


def wrong_part(buffer: str, sites: Iterable[SourceLine], why: str = "", *, which: str = "") -> Remedy:
    """Return the remedy for a line, of several, that accesses a wrong part of a buffer or tensor.

    `why`: how that shows; `which`: what the last of the lines does.
    """
    at = either_of(_chooses(buffer, site) for site in sites)
    reason = f", which {which}" if which else f": {why}" if why else ""
    return Remedy(f"correct the part of {buffer} at {at}{reason}", Way.PART, buffer)


def write_bytes(where: str, how: str) -> Remedy:
    """Return the remedy for bytes that are read before anything writes them: where to write them, and how."""
    return Remedy(f"write these bytes {where} ({how}), or read only bytes that were written", Way.WRITE, how)


def _chooses(buffer: str, site: SourceLine) -> SourceLine:
    """Return the only call of a helper function, if that names a buffer, and the line of the operation does not."""
    calls, name = site.called_at if isinstance(site, Site) else (), re.compile(rf"\b{re.escape(buffer)}\b")
    return calls[0] if len(calls) == 1 and name.search(calls[0].source) and not name.search(site.source) else site


def dividing_loop(site: Site) -> str:
    """Return where the outermost loop without a barrier begins that is around an operation; "" if there is none.

    It is in the function of the operation, or of its only call. With a barrier, tasks pass a loop together.
    """
    return next((location_of(file, begin) for file, begin, barrier in _loops_of(site) if not barrier), "")


def outermost_loop(site: Site) -> str:
    """Return where the outermost loop around an operation begins, without a barrier if there is one; else ""."""
    return dividing_loop(site) or next((location_of(file, begin) for file, begin, _ in _loops_of(site)), "")


def _loops_of(site: Site) -> list[tuple[str, int, bool]]:
    """Return file and first line of the loops around an operation, outermost first, and whether each has a barrier."""
    at = site.called_at[0] if len(site.called_at) == 1 else site.at
    source = source_file(at.file)
    function, _ = source.function(at.line)
    barriers = [line for line, name in source.calls if name.lstrip("._") in BARRIERS]
    loops = sorted(loop for loop in source.loops_around(at.line) if loop[0] >= function[0])
    return [(at.file, begin, any(begin <= line <= end for line in barriers)) for begin, end in loops]


def in_one_function(first: Site, second: Site) -> tuple[SourceLine, SourceLine]:
    """Return the locations of two operations; of one in a helper function, that of its call if only one is possible.

    A call is possible if it is in a function with the other operation, or with a call of that.
    """
    pairs = [
        (one, other)
        for one in (first.at, *first.called_at)
        for other in (second.at, *second.called_at)
        if one.file == other.file and function_around(one.file, one.line) == function_around(other.file, other.line)
    ]
    if (first.at, second.at) in pairs:
        return first.at, second.at
    calls = ({pair[side] for pair in pairs} for side in (0, 1))
    one, other = (
        locations.pop() if len(locations) == 1 else site.at
        for locations, site in zip(calls, (first, second), strict=True)
    )
    return one, other


def between(first: Site, second: Site) -> str:
    """Return where something belongs between two operations: `between k.py:8 and k.py:9`."""
    return place_between(first, second)[0]


def place_between(first: Site, second: Site) -> tuple[str, SourceLine]:
    """Return what `between` does, and a line of the function that it means."""
    one, other = in_one_function(first, second)
    begin, end = one.location, other.location
    if begin != end:
        # A helper function with several calls: only the other operation has one place.
        in_helper = [line == site.at and bool(site.called_at) for line, site in ((one, first), (other, second))]
        if in_helper == [True, False]:
            return f"before {end}", other
        return (f"after {begin}" if in_helper == [False, True] else f"between {begin} and {end}"), one
    if first.operation != second.operation:
        return f"between the {first.operation} and the {second.operation} at {begin}", one
    return f"between the two calls of {first.operation} at {begin}", one


def owner_of(task: TaskRecord) -> dict[str, Any]:
    """Return the task of an operation, and where it ran, as fields of its site."""
    if task.is_memory_core:
        return {"task": "memory core", "cluster": task.cluster, "core": "memory core"}
    return {"task": f"task {task.task_id}", "cluster": task.cluster, "core": f"core {task.core}"}


def site_of(log: Log, record: int, role: str, lane: str = "") -> Site:
    """Return the operation of a record as a site."""
    values = log.records.values(record)
    task = log.tasks[values["task"]]
    file, line, function = log.lines[values["line"]]
    return Site(
        role=role,
        operation=log.ops[values["op"]],
        file=file,
        line=line,
        function=function,
        **owner_of(task),
        pipe=lane or PIPES[values["pipe"]],
        start_ps=values["start_ps"],
        end_ps=values["end_ps"],
        record=record,
        called_at=call_sites(log, record),
    )
