"""Docstrings of compiled classes, which mypyc leaves out, read from their source when `help` asks for them."""

from __future__ import annotations

import ast
import sys
from inspect import cleandoc
from pathlib import Path


def restore_docstring(cls: type) -> None:
    """Give a class without a docstring that of its source, with its public methods."""
    if not cls.__doc__:
        cls.__doc__ = _FromSource()  # type: ignore[assignment]  # a descriptor, which returns a string


class _FromSource:
    """The docstring of a class, read at its first use: most programs never ask for it."""

    def __get__(self, _: object, cls: type) -> str | None:
        compiled = sys.modules[cls.__module__].__file__ or ""
        source = Path(compiled).with_name(f"{cls.__module__.rpartition('.')[2]}.py")
        try:
            tree = ast.parse(source.read_text(encoding="utf-8"))
        except OSError:
            return None
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__]
        return _class_docstring(classes[0]) if classes else None


def _class_docstring(node: ast.ClassDef) -> str:
    methods = [
        f"{method.name}{_parameters(method)}: {(ast.get_docstring(method) or '').partition(chr(10))[0]}"
        for method in node.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
    ]
    return cleandoc(ast.get_docstring(node) or "") + "\n\nMembers:\n" + "\n".join(f"    {text}" for text in methods)


def _parameters(method: ast.FunctionDef) -> str:
    """Return the parameters in parentheses; nothing for a property."""
    if any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in method.decorator_list):
        return ""
    arguments = method.args
    arguments.args = arguments.args[1:]
    return f"({ast.unparse(arguments)})"
