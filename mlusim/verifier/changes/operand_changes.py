"""How a change of the operations of one line is applied to a running kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from sys import _getframe
from typing import Any

from mlusim.cores.core import Core, Kernel
from mlusim.memory.view import View
from mlusim.verifier.source_file import SourceLine

# The arguments of an operation.
Passed = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the operations of one line.

    Attributes:
        at: the line.
        methods: the methods of `Core` that may issue them.
        of: returns their arguments, changed.
        remedy: what to do in the kernel.
        rank: from the likeliest on.
    """

    at: SourceLine
    methods: tuple[str, ...]
    of: Callable[[Any, Passed], Passed]
    remedy: str
    rank: tuple[int, ...] = (0, 0)

    @contextmanager
    def applied(self, kernel: Kernel) -> Iterator[Kernel]:
        """Change the kernel for a while."""

        @wraps(kernel)
        async def changed(core: Core, *arguments: Any, **settings: Any) -> None:
            if self.at.is_compiled:
                vars(core)["change"] = self._of_address
            else:
                vars(core).update({name: self._method(core, getattr(core, name)) for name in self.methods})
            await kernel(core, *arguments, **settings)

        yield changed

    def _method(self, core: Core, issue: Callable[..., Any]) -> Callable[..., Any]:
        def method(*arguments: Any, **named: Any) -> Any:
            frame = _getframe(1)
            passed = arguments
            if frame.f_lineno == self.at.line and frame.f_code.co_filename == self.at.file:
                bound = signature(issue).bind(*arguments, **named)
                passed, named = self.of(core, bound.args), bound.kwargs
            return issue(*passed, **named)

        return method

    def _of_address(self, task: Any, line: int, values: Passed) -> Passed:
        """Return the values of a call of compiled code, changed if it is at the line."""
        if task.issuer.log.lines[line][:2] != (self.at.file, self.at.line):
            return values
        return self.of(task, values)


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of a tensor or buffer: its number, its stride in bytes, its extent; and how much of it is accessed."""

    number: int
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
        view: Any = passed[self.position]
        if isinstance(view, View):
            strides = zip(view.shape, view.strides, strict=True)
            count = next((one for one, stride in strides if stride == self.axis.stride), 1)
            view = View(view.allocation, self.axis.moved(view.offset, self.step, count), view.layout)
        else:
            _, offset = core.locate(view)
            view += self.axis.moved(offset, self.step, self.axis.count) - offset
        return *passed[: self.position], view, *passed[self.position + 1 :]


@dataclass(frozen=True, slots=True)
class Rename:
    """Another buffer or tensor as an operand."""

    position: int
    name: str

    def __call__(self, _: Any, passed: Passed) -> Passed:
        """Return the arguments with the other one in its place."""
        view = passed[self.position]
        other = next(one for one in view.allocation.memory.live if one.name == self.name)
        return *passed[: self.position], View(other, view.offset, view.layout), *passed[self.position + 1 :]


@dataclass(frozen=True, slots=True)
class Size:
    """Another size of both operands along an axis."""

    axis: int
    step: int

    def __call__(self, _: Any, passed: Passed) -> Passed:
        """Return the arguments with another size; unchanged if there is no room for it."""
        sized = []
        for view in passed[:2]:
            shape = tuple(extent + self.step * (at == self.axis) for at, extent in enumerate(view.shape))
            last = sum((extent - 1) * stride for extent, stride in zip(shape, view.strides, strict=True))
            if 0 in shape or view.offset + last + view.itemsize > view.allocation.nbytes:
                return passed
            sized.append(View.strided(view.allocation, view.offset, shape, view.strides, view.dtype))
        return (*sized, *passed[2:])


@dataclass(frozen=True, slots=True)
class Argument:
    """Another argument of a compiled call: the one at another place, or another number."""

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


def clear(core: Core, passed: Passed) -> Passed:
    """Write zeros to the result first."""
    core.write_zero(passed[0])
    return passed
