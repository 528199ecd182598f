"""The names that a kernel uses: of closures and globals, arguments and defaults, and the lines that read them.

Followed are the functions of its file, and the methods of classes and instances, that it names.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import BuiltinMethodType, CodeType, FunctionType, MethodType
from typing import Any

from mlusim.source_code import tree_of_function

# Stands for a value that does not exist.
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class NameUsed:
    """A name used by a function: a getter of its value, and the line that reads it (0: none)."""

    name: str
    value: Callable[[], Any]
    file: str
    line: int


def names_used(kernel: Any, arguments: Mapping[str, Any], attributes: set[str]) -> Iterator[NameUsed]:
    """Yield the names that a kernel and the functions of its file use; adds the `attributes` that they read."""
    arguments = {**getattr(kernel, "keywords", {}), **arguments}
    kernel = inspect.unwrap(getattr(kernel, "func", kernel))
    if isinstance(kernel, MethodType):
        arguments = {next(iter(inspect.signature(kernel.__func__).parameters), "self"): kernel.__self__, **arguments}
        kernel = kernel.__func__
    todo, visited = [kernel], set()
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or function in visited:
            continue
        visited.add(function)
        reads = _reads(function, attributes)
        getters = _getters(function)
        passed_values = {**_defaults(function), **(arguments if len(visited) == 1 else {})}
        getters |= {name: partial(passed_values.get, name) for name in passed_values}
        file = function.__code__.co_filename
        for name, getter in getters.items():
            value = partial(_of_method, getter)
            now = value()
            todo += [function_used for function_used in _functions(now) if function_used.__code__.co_filename == file]
            # A function that is called is not thereby read: only its attributes are.
            line = reads.get(f"{name}." if isinstance(now, FunctionType) else name, 0)
            yield NameUsed(name, value, file, line)


def _getters(function: FunctionType) -> dict[str, Callable[[], Any]]:
    """By name, return what gives the current values of the globals and the variables of closures of a function."""
    code = function.__code__
    getters: dict[str, Callable[[], Any]] = {}
    for name in _global_names(code):
        if name in function.__globals__:
            getters[name] = partial(function.__globals__.get, name, MISSING)
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


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


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
    function_tree = tree_of_function(function)
    if function_tree is None:
        return {}
    tree, first = function_tree
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
