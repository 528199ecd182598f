"""The parts of tensors that a launch passes to its kernel: the windows in which the kernel may access them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mlusim.log import Log
from mlusim.memory.view import Pointer, View


def note_windows(arguments: Iterable[Any], log: Log) -> None:
    """Log the part of each tensor in a kernel's arguments, including those in containers (`Log.windows`)."""
    for identity, offset, box in _windows(arguments, log):
        log.windows.setdefault(identity, set()).add((offset, box))


def is_passed(identity: int, arguments: Iterable[Any], log: Log) -> bool:
    """Return whether a kernel's arguments contain a part of an allocation."""
    return any(identity == allocation for allocation, _, _ in _windows(arguments, log))


def _windows(arguments: Iterable[Any], log: Log) -> Iterator[tuple[int, int, int]]:
    """Yield allocation, offset and box of each tensor in a kernel's arguments, including those in containers."""
    for argument in arguments:
        if isinstance(argument, View):
            yield (
                argument.allocation.identity,
                argument.offset,
                log.box(argument.shape, argument.strides, argument.itemsize),
            )
        elif isinstance(argument, Pointer):
            nbytes = argument.allocation.nbytes
            yield argument.allocation.identity, 0, log.box((nbytes,), (1,), 1)
        elif isinstance(argument, list | tuple):
            yield from _windows(argument, log)
        elif isinstance(argument, Mapping):
            yield from _windows(argument.values(), log)
