"""How a change of the calls of one line is applied to a running compiled kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

from mlusim.cores.core import Core, Kernel
from mlusim.verifier.source_file import SourceLine

# The arguments of a call.
Passed = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the calls of one line.

    Attributes:
        at: the line.
        of: returns their arguments, changed.
        remedy: what to do in the kernel.
        rank: from the likeliest on.
    """

    at: SourceLine
    of: Callable[[Any, Passed], Passed]
    remedy: str
    rank: tuple[int, ...] = (0, 0)

    @contextmanager
    def applied(self, kernel: Kernel) -> Iterator[Kernel]:
        """Change the kernel for a while."""

        @wraps(kernel)
        async def changed(core: Core, *arguments: Any, **settings: Any) -> None:
            vars(core)["change"] = self._of_line
            await kernel(core, *arguments, **settings)

        yield changed

    def _of_line(self, task: Any, line: int, values: Passed) -> Passed:
        """Return the values of a call, changed if it is at the line."""
        if task.issuer.log.lines[line][:2] != (self.at.file, self.at.line):
            return values
        return self.of(task, values)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a tensor or buffer: its stride in bytes, its extent; and how much of it is accessed."""

    stride: int
    extent: int
    count: int

    def moved(self, offset: int, step: int, count: int) -> int:
        """Return an offset with another index; beyond the end, it goes on at the beginning."""
        index = offset // self.stride % self.extent
        there = index + step
        if not 0 <= there <= self.extent - count:
            if self.extent % count or index % count or step % count:
                return offset
            there %= self.extent
        return offset + (there - index) * self.stride


@dataclass(frozen=True, slots=True)
class Move:
    """Another index of an operand along an axis."""

    position: int
    axis: Axis
    step: int

    def __call__(self, core: Any, passed: Passed) -> Passed:
        """Return the arguments with the other index."""
        address: Any = passed[self.position]
        _, offset = core.locate(address)
        address += self.axis.moved(offset, self.step, self.axis.count) - offset
        return *passed[: self.position], address, *passed[self.position + 1 :]


@dataclass(frozen=True, slots=True)
class Argument:
    """Another argument of a call: the one at another place, or another number."""

    position: int
    place: int = 0
    number: Callable[[Any], Any] | None = None

    def __call__(self, _: Any, passed: Passed) -> Passed:
        """Return the arguments with the other one; unchanged if there is no number."""
        if self.number and not (self.position < len(passed) and isinstance(passed[self.position], int | float)):
            return passed
        other = self.number(passed[self.position]) if self.number else passed[self.place]
        return *passed[: self.position], other, *passed[self.position + 1 :]


def swap(_: Any, passed: Passed) -> Passed:
    """Swap the sources."""
    return passed[0], passed[2], passed[1], *passed[3:]
