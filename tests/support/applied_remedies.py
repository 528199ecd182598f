"""The first remedy of a finding, applied to the source of a kernel as its text says."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlusim.verifier.findings import Finding

Lines = list[str]
# A line of the kernel's file, and a call in the language of the kernel.
AT = r"\w+\.(?:py|mlu):(\d+)"
CALL = r"`((?:await [\w.]+\.\w+|__\w+)\([\d, ]*\))`"


def ways_to_apply(finding: Finding, lines: Lines) -> list[Lines]:
    """Return the source after each of the changes that a finding's first remedy allows; none if it asks for thought."""
    remedy = finding.remedies[0] if finding.remedies else ""
    for pattern, apply in _FORMS.items():
        if found := re.match(pattern, remedy):
            return [way for way in apply(Source(lines, finding.region), *found.groups()) if way]
    # The end of a scope, and what lies between two operations of one line, are no lines.
    assert not re.match(CALL, remedy) or re.search(r" before the scope | between the ", remedy), f"new form: {remedy}"
    return []


class Source:
    """The lines of a file, and the bytes of the finding, such as `tile[0, 0:40]` with their size and memory."""

    def __init__(self, lines: Lines, region: str) -> None:
        self.lines = lines
        self.part = region.partition("]")[0] + "]"

    def indent(self, number: int) -> str:
        line = self.lines[number - 1]
        return line[: len(line) - len(line.lstrip())]

    def end_of_statement(self, number: int) -> int:
        """Return the last line of the statement that begins at a line."""
        last = number
        while _depth("".join(self.lines[number - 1 : last])) > 0:
            last += 1
        return last

    def end_of_block(self, number: int) -> int:
        """Return the last line of the block that begins below a line."""
        indent, last = len(self.indent(number)), self.end_of_statement(number)
        for later in range(last + 1, len(self.lines) + 1):
            line = self.lines[later - 1].strip()
            if line and (len(self.indent(later)) <= indent):
                break
            if line:
                last = later
        return last

    def end_of_if(self, number: int) -> int:
        """Return the last line of the `if` that begins at a line, with its other branches."""
        last = self.end_of_block(number)
        while last < len(self.lines) and self.lines[last].startswith(self.indent(number) + "el"):
            last = self.end_of_block(last + 1)
        return last

    def before(self, number: int, *calls: str) -> tuple[int, Lines]:
        return number - 1, [self.indent(number) + _statement(call) for call in calls]

    def after(self, number: int, *calls: str) -> tuple[int, Lines]:
        return self.end_of_statement(number), [self.indent(number) + _statement(call) for call in calls]

    def inside(self, number: int, call: str, *, last: bool) -> tuple[int, Lines]:
        """At the beginning or the end of the block below a line."""
        at = self.end_of_block(number) if last else self.end_of_statement(number)
        return at, [self.indent(number) + "    " + _statement(call)]

    def with_lines(self, *insertions: tuple[int, Lines]) -> Lines:
        lines = list(self.lines)
        for at, new in sorted(insertions, reverse=True):
            lines[at:at] = new
        return lines

    def with_line(self, number: int, line: str) -> Lines:
        return [*self.lines[: number - 1], line, *self.lines[number:]]


def _depth(text: str) -> int:
    return sum(text.count(opening) - text.count(closing) for opening, closing in ("()", "[]"))


def _statement(call: str) -> str:
    return f"{call};" if call.startswith("__") else call


def _in_place(source: Source, new: str, old: str, *numbers: str | None) -> list[Lines]:
    lines = list(source.lines)
    for number in filter(None, numbers):
        lines[int(number) - 1] = lines[int(number) - 1].replace(_name(old) + "(", _name(new) + "(")
    return [lines]


def _name(call: str) -> str:
    found = re.search(r"\w+(?=\()", call)
    return found[0] if found else call


def _between(source: Source, call: str, first: str, second: str) -> list[Lines]:
    return [source.with_lines(source.after(int(first), call)), source.with_lines(source.before(int(second), call))]


def _before(source: Source, call: str, *numbers: str) -> list[Lines]:
    return [source.with_lines(*(source.before(int(number), call) for number in numbers))]


def _after(source: Source, call: str, number: str) -> list[Lines]:
    return [source.with_lines(source.after(int(number), call))]


def _after_and_before(source: Source, call: str, first: str, second: str) -> list[Lines]:
    return [source.with_lines(source.after(int(first), call), source.before(int(second), call))]


def _end_of_loop(source: Source, call: str, number: str) -> list[Lines]:
    return [source.with_lines(source.inside(int(number), call, last=True))]


def _beginning_of_loop(source: Source, call: str, number: str) -> list[Lines]:
    return [source.with_lines(source.inside(int(number), call, last=False))]


def _waited_for(source: Source, number: str) -> list[Lines]:
    line = source.lines[int(number) - 1]
    line = re.sub(r"([\w.]+)\.memcpy_async\(", r"await \1.memcpy(", line).replace("__memcpy_async(", "__memcpy(")
    return [source.with_line(int(number), line)]


def _written_before(source: Source, number: str) -> list[Lines]:
    name = source.part.partition("[")[0]
    if not any(re.match(rf"\s+(?:\w+, )*{name}(?:, \w+)* = ", line) for line in source.lines):
        # The kernel has no variable of this name.
        return []
    return [source.with_lines(source.before(int(number), f"core.write_zero({source.part}); await core.sync_compute()"))]


def _locked(source: Source, first: str, last: str, lock: str, unlock: str) -> list[Lines]:
    end = source.end_of_statement(int(last)), [source.indent(int(first)) + _statement(unlock)]
    return [source.with_lines(source.before(int(first), lock), end)]


def _moved(source: Source, number: str, before: str) -> list[Lines]:
    end = source.end_of_statement(int(number))
    moved = source.lines[int(number) - 1 : end]
    text = [source.indent(int(before)) + line.strip() for line in moved]
    lines = source.with_lines((int(before) - 1, text))
    gap = len(text) if int(before) <= int(number) else 0
    del lines[int(number) - 1 + gap : end + gap]
    return [lines]


def _moved_below(source: Source, number: str, around: str) -> list[Lines]:
    """Move a statement out of an `if`, below it."""
    text = source.indent(int(around)) + source.lines[int(number) - 1].strip()
    lines = source.with_lines((source.end_of_if(int(around)), [text]))
    lines[int(number) - 1] = source.indent(int(number)) + "pass"
    return [lines]


def _moved_after(source: Source, number: str, after: str) -> list[Lines]:
    following = source.end_of_statement(int(after)) + 1
    text = source.lines[int(number) - 1].strip()
    lines = source.with_lines((following - 1, [source.indent(int(after)) + text]))
    del lines[int(number) - 1]
    return [lines]


def _reached_by_all(source: Source, number: str, _: str) -> list[Lines]:
    line = source.lines[int(number) - 1]
    return [source.with_line(int(number), re.sub(r"if [^:]*: ", "", line))]


def _begun_with(source: Source, statement: str) -> list[Lines]:
    numbers = [number for number, line in enumerate(source.lines, 1) if line.startswith(("async def kernel", "__mlu_"))]
    return [source.with_lines((source.end_of_statement(numbers[0]), ["    " + statement]))]


def _written(source: Source, new: str, old: str, number: str) -> list[Lines]:
    line = source.lines[int(number) - 1]
    # Parentheses and spaces may differ.
    return [source.with_line(int(number), line.replace(old, new))] if old in line else []


_CORES = r"(?:memory )?cores"
_FORMS: dict[str, Callable[..., list[Lines]]] = {
    rf"{CALL} in place of {CALL} at {AT}(?: and {AT})?$": _in_place,
    rf"{CALL} in .*, after {AT} in the {_CORES}, before {AT} in the {_CORES}": _after_and_before,
    rf"{CALL} in .*, before {AT} in the {_CORES}, before {AT} in the {_CORES}": _before,
    rf"{CALL}.* between {AT} and (?:the atomic at )?{AT}": _between,
    rf"{CALL}.* after {AT} and before {AT}$": _between,
    rf"{CALL}.* at the beginning of the loop at {AT}$": _beginning_of_loop,
    rf"{CALL}.* at the end of the loop at {AT}$": _end_of_loop,
    rf"{CALL}.* before {AT}$": _before,
    rf"{CALL} in the {_CORES}, once before (?:the loop at )?{AT}$": _before,
    rf"{CALL}.* after {AT}$": _after,
    rf"wait for the copy at {AT}": _waited_for,
    rf"write these bytes before {AT} ": _written_before,
    rf"hold the same lock in every task from {AT} to {AT}: {CALL}, {CALL}$": _locked,
    rf"move the (?:barrier|lock) at {AT} before {AT}$": _moved,
    rf"move the unlock at {AT} after {AT}$": _moved_after,
    rf"let {AT} come before the (?:atomic|barrier) at {AT}": _moved,
    rf"let all cores reach the barrier at {AT} before {AT}$": _reached_by_all,
    r"begin it with `(.*)`": _begun_with,
    rf"move `.*` at {AT} below the `if` at {AT}: then every output is right$": _moved_below,
    rf"write `(.*)` before {AT}: then every output is right$": _before,
    rf"write `(.*)` after {AT}: then every output is right$": _after,
    rf"write `(.*)` in place of `(.*)` at {AT}: then every output is right$": _written,
}
