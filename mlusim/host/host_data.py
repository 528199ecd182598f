"""Data that tasks exchange through Python objects, which do not exist on the board.

A Python kernel can access lists, dictionaries and arrays in its scope. Reading constants from them is harmless, and so
is recording values for a test. But if a run modifies such an object and the kernel's code also reads it, values flow
between tasks in a way that no board provides, free of charge.

Examined: objects named by the kernel and by the functions of its file that it calls: closures, globals, arguments. Not
seen: objects reached through other modules, and objects that an earlier run of the same kernel left with the values
that this run writes again.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from mlusim.memory.view import View
from mlusim.verifier.findings import Finding

_LARGEST_BYTES = 1 << 26
_LARGEST_ITEMS = 10_000
_DEPTH = 3
_MISSING = "missing"
# For a compiled kernel, by image and name: value when its file was loaded, and current value.
_Variables = Mapping[tuple[int, str], tuple[bytes, bytes]]
# Methods that modify a collection without reading it, if used as a statement.
_WRITERS = frozenset({"append", "appendleft", "extend", "add", "update", "insert", "clear", "fill"})


@dataclass(frozen=True, slots=True)
class _Named:
    """A name used by a function: a getter of its value, and the line that reads it (0: none)."""

    name: str
    value: Callable[[], Any]
    file: str
    line: int


class HostData:
    """A snapshot of the objects around a kernel before it runs; `find` compares it with their state afterwards.

    Args:
        kernel: the launched kernel; for a compiled one, the variables of its file are compared.
        arguments: its arguments by parameter.
    """

    def __init__(self, kernel: Any, arguments: Mapping[str, Any]) -> None:
        self._named = [variable for variable in _names(kernel, arguments) if variable.line]
        self._before = [_state(variable.value()) for variable in self._named]
        self._variables: Callable[[], _Variables] = getattr(kernel, "file_variables", dict)
        self._values = {key: now for key, (_, now) in self._variables().items()}

    @classmethod
    def of_launch(cls, kernel: Any, arguments: Sequence[Any], settings: Mapping[str, Any]) -> HostData:
        """Take a snapshot of the objects around a launch: those that its kernel names, and arguments except tensors."""
        names = parameter_names(kernel, len(arguments))
        by_name = {**dict(zip(names, arguments, strict=True)), **settings}
        return cls(kernel, {name: value for name, value in by_name.items() if not isinstance(value, View)})

    def find(self) -> list[Finding]:
        """Return a finding per object that changed and is read, and per changed variable of a compiled kernel."""
        findings: dict[str, Finding] = {}
        for variable, before in zip(self._named, self._before, strict=True):
            value = variable.value()
            if variable.name not in findings and _state(value) != before and _holds_numbers(value):
                findings[variable.name] = Finding(
                    kind="host-data",
                    title=f"tasks pass values through {variable.name}, a Python {type(value).__name__} of the host",
                    place=f"read at {variable.file.rpartition('/')[2]}:{variable.line}",
                    rule="cores share GDRAM and SRAM, and no Python objects of the host",
                    remedy="store the values to GDRAM or SRAM, and load them after a barrier",
                )
        for key, (fresh, now) in self._variables().items():
            name = key[1]
            if name not in findings and now not in (fresh, self._values.get(key, fresh)):
                findings[name] = Finding(
                    kind="host-data",
                    title=f"tasks leave values in {name}, a C++ variable without a memory space",
                    rule="whether its value persists to later tasks is the simulator's choice, not a rule of the board",
                    remedy="make it a local variable, or keep the values in GDRAM or SRAM (`__mlu_shared__`)",
                )
        return list(findings.values())


def _names(kernel: Any, arguments: Mapping[str, Any]) -> Iterator[_Named]:
    todo, seen = [inspect.unwrap(getattr(kernel, "func", kernel))], set()
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.add(function)
        code = function.__code__
        reads = _reads(function)
        getters: dict[str, Callable[[], Any]] = {}
        for name in _global_names(code):
            if name in function.__globals__:
                getters[name] = partial(function.__globals__.get, name, _MISSING)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            getters[name] = partial(_content, cell)
        if len(seen) == 1:
            for name, argument in arguments.items():
                getters[name] = partial(_itself, argument)
        for name, value in getters.items():
            if isinstance(value(), FunctionType):
                if value().__code__.co_filename == code.co_filename:
                    todo.append(value())
            else:
                yield _Named(name, value, code.co_filename, reads.get(name, 0))


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


def _reads(function: FunctionType) -> dict[str, int]:
    """By name, return the first line of a function's source that reads it; empty without source."""
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
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not _only_written(node, parents):
            line = first + node.lineno - 1
            lines_by_name[node.id] = min(lines_by_name.get(node.id, line), line)
    return lines_by_name


def _only_written(name: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a name is only the target of an assignment, as in `seen[task][0] = 1` or `seen.append(1)`."""
    node: ast.AST = name
    while True:
        parent = parents[node]
        if not (isinstance(parent, ast.Subscript | ast.Attribute) and parent.value is node):
            return False
        if not isinstance(parent.ctx, ast.Load):
            return True
        call = parents[parent]
        if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
            return parent.attr in _WRITERS and isinstance(parents[call], ast.Expr)
        node = parent


def _state(value: Any, depth: int = _DEPTH) -> Any:
    """Return a fingerprint of a value's content, or the identity of an opaque value."""
    if isinstance(value, np.ndarray) and value.dtype != object and value.nbytes <= _LARGEST_BYTES:
        return hashlib.blake2b(value.tobytes()).digest()
    if isinstance(value, bool | int | float | complex | np.generic):
        return repr(value)
    items = _items(value)
    if items is None or depth == 0:
        return id(value)
    if len(items) > _LARGEST_ITEMS:
        return len(items)
    return [(str(key), _state(item, depth - 1)) for key, item in items]


def _items(value: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, SimpleNamespace):
        return list(vars(value).items())
    if isinstance(value, list | tuple | set | frozenset) or type(value).__name__ == "deque":
        return list(enumerate(value))
    return None


def _holds_numbers(value: Any, depth: int = _DEPTH) -> bool:
    if isinstance(value, np.ndarray | np.generic | int | float | complex):
        return True
    items = _items(value) if depth else None
    return any(_holds_numbers(item, depth - 1) for _, item in items or ())


def parameter_names(kernel: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a kernel's parameters after `core`."""
    try:
        parameters = list(inspect.signature(kernel).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    named = [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    return [*named[:count], *(f"argument {number}" for number in range(len(named), count))]
