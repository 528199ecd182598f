"""Data that tasks exchange through Python objects, which do not exist on the board.

A Python kernel can access lists, dictionaries and arrays in its scope. Reading constants from them is harmless, and so
is recording values for a test. But if a run modifies such an object and the kernel's code also reads it, values flow
between tasks in a way that no board provides, free of charge.

Examined: objects named by the kernel and by the functions and classes of its file that it uses: closures, globals,
arguments and defaults, `self`, attributes of functions, classes and instances, iterators and random generators. Not
seen: objects reached through other modules, results of cached functions, and objects that an earlier run of the same
kernel left with the values that this run writes again.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import linecache
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from operator import length_hint
from types import MemberDescriptorType, ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.tasks.launch_checks import parameter_names
from mlusim.host.names_used import MISSING, names_used
from mlusim.memory.view import View
from mlusim.source_code import source_name
from mlusim.verifier.findings import Finding

if TYPE_CHECKING:
    from mlusim.cores.tasks.launch import Launch

_LARGEST_BYTES = 1 << 26
_LARGEST_ITEMS = 10_000
_DEPTH = 3
# For a compiled kernel, by image and name: value when its file was loaded, and current value.
_Variables = Mapping[tuple[int, str], tuple[bytes, bytes]]
# Types that numbers can be read from.
_NUMERIC = (np.ndarray, np.generic, int, float, complex, bytearray, Iterator, AsyncIterator)
# Packages whose objects change for reasons of their own, such as caches, and pass no values between tasks.
_OTHERS = frozenset({"mlusim", "numpy", "ml_dtypes", "logging", "simpy"})


@contextmanager
def compared(launches: Sequence[Launch], findings: list[Finding]) -> Iterator[None]:
    """Compare the objects around the kernels of launches before and after they run; a single task shares none.

    Adds to the findings, one per object.
    """
    snapshots = [
        Snapshot.of_launch(launch.kernel, launch.arguments, launch.settings)
        for launch in launches
        if launch.dim != (1, 1, 1)
    ]
    try:
        yield
    finally:
        for snapshot in snapshots:
            findings += [finding for finding in snapshot.find() if finding not in findings]


class Snapshot:
    """The objects around a kernel before it runs; `find` compares them with their state afterwards.

    Args:
        kernel: the launched kernel; for a compiled one, the variables of its file are compared.
        arguments: its arguments by parameter.
    """

    def __init__(self, kernel: Any, arguments: Mapping[str, Any]) -> None:
        attributes: set[str] = set()
        self._used_variables = [variable for variable in names_used(kernel, arguments, attributes) if variable.line]
        self._contents = _Contents(frozenset(attributes))
        values = [variable.value() for variable in self._used_variables]
        self._states_before = [(self._contents.state(value), self._contents.holds_numbers(value)) for value in values]
        self._file = getattr(getattr(kernel, "__code__", None), "co_filename", "")
        self._variables: Callable[[], _Variables] = getattr(kernel, "file_variables", dict)
        self._values = {key: now for key, (_, now) in self._variables().items()}

    @classmethod
    def of_launch(cls, kernel: Any, arguments: Sequence[Any], settings: Mapping[str, Any]) -> Snapshot:
        """Take a snapshot of the objects around a launch: those that its kernel names, and arguments except tensors."""
        names = parameter_names(kernel, len(arguments))
        by_name = {**dict(zip(names, arguments, strict=True)), **settings}
        return cls(kernel, {name: value for name, value in by_name.items() if not isinstance(value, View)})

    def find(self) -> list[Finding]:
        """Return a finding per object that changed and is read, and per changed variable of a compiled kernel."""
        findings: dict[str, Finding] = {}
        for variable, (state_before, held_numbers) in zip(self._used_variables, self._states_before, strict=True):
            value = variable.value()
            changed = self._contents.state(value) != state_before
            if changed and variable.name not in findings and (held_numbers or self._contents.holds_numbers(value)):
                findings[variable.name] = Finding(
                    kind="host-data",
                    title=f"tasks pass values through {variable.name}, a Python {type(value).__name__} of the host",
                    location=f"read at {variable.file.rpartition('/')[2]}:{variable.line}",
                    rule="cores share GDRAM and SRAM, and no Python objects of the host",
                    remedies=("store the values to GDRAM or SRAM, and load them after a barrier",),
                )
        for key, (fresh, now) in self._variables().items():
            name = key[1]
            if name not in findings and now not in (fresh, self._values.get(key, fresh)):
                findings[name] = Finding(
                    kind="host-data",
                    title=f"tasks leave values in {name}, a C++ variable without a memory space",
                    location=_first_named(name.rpartition("::")[2], self._file),
                    rule="whether its value persists to later tasks is the simulator's choice, not a rule of the board",
                    remedies=("make it a local variable, or keep the values in GDRAM or SRAM (`__mlu_shared__`)",),
                )
        return list(findings.values())


def _first_named(name: str, file: str) -> str:
    """Return the first line of a file that has a name, as text; empty if none has, as of a variable of a header."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    lines = enumerate(linecache.getlines(file), 1)
    return next((f"{source_name(file)}:{number}: {line.strip()}" for number, line in lines if word.search(line)), "")


@dataclass(frozen=True, slots=True)
class _Contents:
    """Fingerprints of the objects around a kernel, to compare them.

    Attributes:
        attributes: names that the kernel reads of classes, instances and functions; others may hold notes.
    """

    attributes: frozenset[str]

    def state(self, value: Any, depth: int = _DEPTH) -> Any:
        """Return a fingerprint of a value's content, or the identity of an opaque value."""
        if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= _LARGEST_BYTES:
            return hashlib.blake2b(value.tobytes()).digest()
        if isinstance(value, bool | int | float | complex | bytearray | np.generic):
            return repr(value)
        if isinstance(value, Iterator | AsyncIterator):
            return self._position(value, depth)
        if _draws(value):
            return repr(value.bit_generator.state if isinstance(value, np.random.Generator) else value.getstate())
        items = self._items(value) if depth else None
        if items is None:
            return id(value)
        if len(items) > _LARGEST_ITEMS:
            return len(items)
        return [(str(key), self.state(item, depth - 1)) for key, item in items]

    def holds_numbers(self, value: Any, depth: int = _DEPTH) -> bool:
        """Return whether a value is or contains something that numbers can be read from."""
        if isinstance(value, _NUMERIC) or _draws(value):
            return True
        items = self._items(value) if depth else None
        return any(self.holds_numbers(item, depth - 1) for _, item in items or ())

    def _position(self, iterator: Any, depth: int) -> Any:
        """Return how far an iterator has advanced; a new object where it does not tell: who names it advances it."""
        frame = getattr(iterator, "gi_frame", getattr(iterator, "ag_frame", iterator))
        if frame is None:
            return "exhausted"
        if frame is not iterator:
            return frame.f_lasti, self.state(dict(frame.f_locals), depth - 1) if depth else 0
        if isinstance(iterator, itertools.count):
            return repr(iterator)
        length = length_hint(iterator, -1)
        return length if length >= 0 else object()

    def _items(self, value: Any) -> list[tuple[Any, Any]] | None:
        """Return the parts of a collection, or attributes of a function, a class or an instance; None if opaque."""
        if isinstance(value, dict):
            return list(value.items())
        if isinstance(value, SimpleNamespace):
            return list(vars(value).items())
        if isinstance(value, list | tuple | set | frozenset) or type(value).__name__ in {"deque", "array"}:
            return list(enumerate(value))
        owner = value if isinstance(value, type) else type(value)
        if isinstance(value, ModuleType) or owner.__module__.partition(".")[0] in _OTHERS:
            return None
        read = [name for name in self.attributes if not isinstance(getattr(owner, name, None), cached_property)]
        attributes = ((name, inspect.getattr_static(value, name, MISSING)) for name in sorted(read))
        return [
            (name, getattr(value, name) if isinstance(slot, MemberDescriptorType) else slot)
            for name, slot in attributes
            if slot is not MISSING
        ]


def _draws(value: Any) -> bool:
    """Return whether a value is a generator of random numbers, which advances by each of them."""
    return isinstance(value, np.random.Generator) or callable(getattr(value, "getstate", None))
