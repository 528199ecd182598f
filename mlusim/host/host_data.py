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

import ast
import hashlib
import inspect
import itertools
import linecache
import re
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from operator import length_hint
from pathlib import Path
from types import (
    BuiltinMethodType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.tasks.launch_checks import parameter_names
from mlusim.memory.view import View
from mlusim.verifier.findings import Finding

if TYPE_CHECKING:
    from mlusim.cores.tasks.launch import Launch

_LARGEST_BYTES = 1 << 26
_LARGEST_ITEMS = 10_000
_DEPTH = 3
_MISSING = "missing"
# For a compiled kernel, by image and name: value when its file was loaded, and current value.
_Variables = Mapping[tuple[int, str], tuple[bytes, bytes]]
# What numbers can be read from.
_NUMERIC = (np.ndarray, np.generic, int, float, complex, bytearray, Iterator, AsyncIterator)
# Packages whose objects change for reasons of their own, such as caches, and pass no values between tasks.
_OTHERS = frozenset({"mlusim", "numpy", "ml_dtypes", "logging", "simpy"})


@dataclass(frozen=True, slots=True)
class _Named:
    """A name used by a function: a getter of its value, and the line that reads it (0: none)."""

    name: str
    value: Callable[[], Any]
    file: str
    line: int


class HostDataWatch:
    """The findings on the launches of a device, one per object.

    Attributes:
        findings: so far.
    """

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    @contextmanager
    def around(self, launches: Sequence[Launch]) -> Iterator[None]:
        """Compare the objects around the kernels of launches before and after they run; a single task shares none."""
        snapshots = [
            Snapshot.of_launch(launch.kernel, launch.arguments, launch.settings)
            for launch in launches
            if launch.dim != (1, 1, 1)
        ]
        try:
            yield
        finally:
            for snapshot in snapshots:
                self.findings += [finding for finding in snapshot.find() if finding not in self.findings]


class Snapshot:
    """The objects around a kernel before it runs; `find` compares them with their state afterwards.

    Args:
        kernel: the launched kernel; for a compiled one, the variables of its file are compared.
        arguments: its arguments by parameter.
    """

    def __init__(self, kernel: Any, arguments: Mapping[str, Any]) -> None:
        attributes: set[str] = set()
        self._named = [variable for variable in _names(kernel, arguments, attributes) if variable.line]
        self._contents = _Contents(frozenset(attributes))
        values = [variable.value() for variable in self._named]
        self._before = [(self._contents.state(value), self._contents.holds_numbers(value)) for value in values]
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
        for variable, (before, held_numbers) in zip(self._named, self._before, strict=True):
            value = variable.value()
            changed = self._contents.state(value) != before
            if changed and variable.name not in findings and (held_numbers or self._contents.holds_numbers(value)):
                findings[variable.name] = Finding(
                    kind="host-data",
                    title=f"tasks pass values through {variable.name}, a Python {type(value).__name__} of the host",
                    location=f"read at {variable.file.rpartition('/')[2]}:{variable.line}",
                    rule="cores share GDRAM and SRAM, and no Python objects of the host",
                    remedy="store the values to GDRAM or SRAM, and load them after a barrier",
                )
        for key, (fresh, now) in self._variables().items():
            name = key[1]
            if name not in findings and now not in (fresh, self._values.get(key, fresh)):
                findings[name] = Finding(
                    kind="host-data",
                    title=f"tasks leave values in {name}, a C++ variable without a memory space",
                    location=_first_named(name.rpartition("::")[2], self._file),
                    rule="whether its value persists to later tasks is the simulator's choice, not a rule of the board",
                    remedy="make it a local variable, or keep the values in GDRAM or SRAM (`__mlu_shared__`)",
                )
        return list(findings.values())


def _first_named(name: str, file: str) -> str:
    """Return the first line of a file that has a name, as text; empty if none has, as of a variable of a header."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    lines = enumerate(linecache.getlines(file), 1)
    return next((f"{Path(file).name}:{number}: {line.strip()}" for number, line in lines if word.search(line)), "")


def _names(kernel: Any, arguments: Mapping[str, Any], attributes: set[str]) -> Iterator[_Named]:
    """Yield the names that a kernel and the functions of its file use; adds the `attributes` that they read."""
    arguments = {**getattr(kernel, "keywords", {}), **arguments}
    kernel = inspect.unwrap(getattr(kernel, "func", kernel))
    if isinstance(kernel, MethodType):
        arguments = {next(iter(inspect.signature(kernel.__func__).parameters), "self"): kernel.__self__, **arguments}
        kernel = kernel.__func__
    todo, seen = [kernel], set()
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        reads = _reads(function, attributes)
        getters = _getters(function)
        given = {**_defaults(function), **(arguments if len(seen) == 1 else {})}
        getters |= {name: partial(_itself, argument) for name, argument in given.items()}
        file = function.__code__.co_filename
        for name, getter in getters.items():
            value = partial(_of_method, getter)
            now = value()
            todo += [used for used in _functions(now) if used.__code__.co_filename == file]
            # A function that is called is not thereby read: only its attributes are.
            line = reads.get(f"{name}." if isinstance(now, FunctionType) else name, 0)
            yield _Named(name, value, file, line)


def _getters(function: FunctionType) -> dict[str, Callable[[], Any]]:
    """By name, return what gives the current values of the globals and the variables of closures of a function."""
    code = function.__code__
    getters: dict[str, Callable[[], Any]] = {}
    for name in _global_names(code):
        if name in function.__globals__:
            getters[name] = partial(function.__globals__.get, name, _MISSING)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        getters[name] = partial(_content, cell)
    return getters


def _defaults(function: FunctionType) -> dict[str, Any]:
    """By parameter, return the defaults of a function: objects that all of its calls share."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(names, defaults, strict=True)), **(function.__kwdefaults__ or {})}


def _functions(value: Any) -> list[FunctionType]:
    """Return the functions behind a name: itself, or the methods of a class or of an instance's class."""
    if isinstance(value, FunctionType):
        return [value]
    owner = value if isinstance(value, type) else type(value)
    return [member for member in vars(owner).values() if isinstance(member, FunctionType)]


def _of_method(getter: Callable[[], Any]) -> Any:
    """Return a value, or the object of a bound method."""
    value = getter()
    return value.__self__ if isinstance(value, MethodType | BuiltinMethodType) else value


def _itself(argument: Any) -> Any:
    return argument


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def _global_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _global_names(constant)
    return names


def _reads(function: FunctionType, attributes: set[str]) -> dict[str, int]:
    """By name, return the first line of a function's source that reads it; adds the `attributes` read of anything.

    Under a name with a dot: the first line that does more with it than to call it. Empty without source.
    """
    file = function.__code__.co_filename
    if file not in linecache.cache and not Path(file).is_file():
        # `inspect` would return the source of the module that executes the text, and cache it for messages.
        return {}
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return {}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    lines_by_name: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not _only_written(node, parents):
            attributes.add(node.attr)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not _only_written(node, parents):
            line = first + node.lineno - 1
            parent = parents[node]
            is_called = isinstance(parent, ast.Call) and parent.func is node
            for key in (node.id,) if is_called else (node.id, f"{node.id}."):
                lines_by_name[key] = min(lines_by_name.get(key, line), line)
    return lines_by_name


def _only_written(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a name or attribute is only the target of an assignment or of a call whose result is dropped.

    Such as `seen[task][0] = 1` or `seen.append(1)`.
    """
    while True:
        parent = parents[node]
        if not (isinstance(parent, ast.Subscript | ast.Attribute) and parent.value is node):
            return False
        if not isinstance(parent.ctx, ast.Load):
            return True
        call = parents[parent]
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            return isinstance(parents[call], ast.Expr)
        node = parent


@dataclass(frozen=True, slots=True)
class _Contents:
    """What is compared of the objects around a kernel.

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
        left = length_hint(iterator, -1)
        return left if left >= 0 else object()

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
        found = ((name, inspect.getattr_static(value, name, _MISSING)) for name in sorted(read))
        return [
            (name, getattr(value, name) if isinstance(slot, MemberDescriptorType) else slot)
            for name, slot in found
            if slot is not _MISSING
        ]


def _draws(value: Any) -> bool:
    """Return whether a value is a generator of random numbers, which advances by each of them."""
    return isinstance(value, np.random.Generator) or callable(getattr(value, "getstate", None))
