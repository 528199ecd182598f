"""Data that tasks pass to each other through Python objects, which on the board do not exist.

A kernel in Python can reach lists, dictionaries and arrays around it. Reading constants there is harmless, and so is
writing down what a test wants to look at. But where a run changes such an object and the kernel's code also reads it,
values flow from task to task by a way that no board has, free of charge.

Looked at: what the kernel, and functions of its file that it calls, name: closures, globals, arguments. Not seen: what
is reached through other modules.
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
# Of a compiled kernel, by image and name: value when its file was loaded, and value now.
_Variables = Mapping[tuple[int, str], tuple[bytes, bytes]]
# Methods that change a collection and, as a statement of their own, read nothing of it.
_WRITERS = frozenset({"append", "appendleft", "extend", "add", "update", "insert", "clear", "fill"})


@dataclass(frozen=True, slots=True)
class _Named:
    """A name that a function looks up: how to get its value now, and where the code reads it (0: nowhere)."""

    name: str
    value: Callable[[], Any]
    file: str
    line: int


class HostData:
    """The objects around a kernel before it runs; `find` compares them with those afterwards.

    Args:
        kernel: as it is launched; of a compiled one the variables of its file are compared.
        arguments: by parameter.
    """

    def __init__(self, kernel: Any, arguments: Mapping[str, Any]) -> None:
        self._named = [one for one in _names(kernel, arguments) if one.line]
        self._before = [_state(one.value()) for one in self._named]
        self._variables: Callable[[], _Variables] = getattr(kernel, "file_variables", dict)
        self._values = {key: now for key, (_, now) in self._variables().items()}

    @classmethod
    def of_launch(cls, kernel: Any, arguments: Sequence[Any], settings: Mapping[str, Any]) -> HostData:
        """The objects around a launch: what its kernel names, and arguments that are not tensors."""
        names = parameter_names(kernel, len(arguments))
        by_name = {**dict(zip(names, arguments, strict=True)), **settings}
        return cls(kernel, {name: value for name, value in by_name.items() if not isinstance(value, View)})

    def find(self) -> list[Finding]:
        """Objects that changed and that the code reads, and variables of compiled kernels, each as a finding."""
        found: dict[str, Finding] = {}
        for one, before in zip(self._named, self._before, strict=True):
            value = one.value()
            if one.name not in found and _state(value) != before and _holds_numbers(value):
                found[one.name] = Finding(
                    kind="host-data",
                    title=f"tasks pass values through {one.name}, a Python {type(value).__name__} of the host",
                    place=f"read at {one.file.rpartition('/')[2]}:{one.line}",
                    rule="cores have GDRAM and SRAM in common, and nothing of the host's Python",
                    remedy="store the values to GDRAM or SRAM, and load them behind a barrier",
                )
        for key, (fresh, now) in self._variables().items():
            name = key[1]
            if name not in found and now not in (fresh, self._values.get(key, fresh)):
                found[name] = Finding(
                    kind="host-data",
                    title=f"tasks leave values in {name}, a C++ variable without a memory space",
                    rule="what a core keeps of it for later tasks is the simulator's choice, no rule of a board",
                    remedy="make it a local variable, or keep the values in GDRAM or SRAM (`__mlu_shared__`)",
                )
        return list(found.values())


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
    """By name, the first line of a function's source that takes a value from it; nothing where there is no source."""
    file = function.__code__.co_filename
    if file not in linecache.cache and not Path(file).is_file():
        # `inspect` would take the source of the module that executes the text, and remember it for every message.
        return {}
    try:
        lines, first = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):
        return {}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and not _only_written(node, parents):
            line = first + node.lineno - 1
            found[node.id] = min(found.get(node.id, line), line)
    return found


def _only_written(name: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether the value of a name is but the target of an assignment, as in `seen[task][0] = 1` or `seen.append(1)`."""
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
    """What a change of a value's content changes; the identity of what cannot be looked into."""
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
    """The names of a kernel's parameters after `core`."""
    try:
        parameters = list(inspect.signature(kernel).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return [*named[:count], *(f"argument {number}" for number in range(len(named), count))]
