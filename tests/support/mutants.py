"""Mutants of a kernel: single changes of its source, made in the syntax tree."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

Kernel = Callable[..., Any]


def mutants(kernel: Kernel) -> Iterator[tuple[str, Callable[[], Kernel]]]:
    """Name of each, and a function that makes it: a sync dropped, a blocking copy not waited for, a bound off by one, a
    buffer one element too small, the first or last turn of a loop skipped, or done twice."""
    seen: Counter[str] = Counter()
    for number, (name, _) in enumerate(_changes(_tree(kernel))):
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} ({seen[name]})", partial(_mutant, kernel, number)


def _mutant(kernel: Kernel, number: int) -> Kernel:
    tree = _tree(kernel)
    _, change = list(_changes(tree))[number]
    change()
    return _compiled(tree, kernel)


def _tree(kernel: Kernel) -> ast.Module:
    lines, first = inspect.getsourcelines(kernel)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    return tree


def _compiled(tree: ast.Module, kernel: Kernel) -> Kernel:
    ast.fix_missing_locations(tree)
    names = dict(kernel.__globals__)
    exec(compile(tree, inspect.getsourcefile(kernel) or "?", "exec"), names)
    return names[kernel.__name__]


def _changes(tree: ast.Module) -> Iterator[tuple[str, Callable[[], None]]]:
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and field in ("body", "orelse"):
                for position, statement in enumerate(value):
                    yield from _of_statement(value, position, statement)
        if isinstance(node, ast.Slice):
            for side in ("lower", "upper"):
                bound = getattr(node, side)
                if bound is not None:
                    for step in (1, -1):
                        yield f"[{ast.unparse(node)}] {side} {step:+d}", _setter(node, side, _moved(bound, step))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
            for position, bound in enumerate(node.args[:2]):
                for step in (1, -1):
                    yield (
                        f"{ast.unparse(node)} argument {position} {step:+d}",
                        _item_setter(node.args, position, _moved(bound, step)),
                    )
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "alloc":
            size = node.args[0]
            if isinstance(size, ast.Tuple):
                for position, extent in enumerate(size.elts):
                    yield (
                        f"{ast.unparse(node)} extent {position} -1",
                        _item_setter(size.elts, position, _moved(extent, -1)),
                    )
            else:
                yield f"{ast.unparse(node)} -1", _item_setter(node.args, 0, _moved(size, -1))


def _of_statement(body: list[Any], position: int, statement: ast.stmt) -> Iterator[tuple[str, Callable[[], None]]]:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Await):
        call = statement.value.value
        name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
        if name.startswith("sync"):
            yield f"no {name}", _item_setter(body, position, ast.Pass())
        if name == "memcpy":
            issued = ast.parse(ast.unparse(call).replace("core.memcpy", "core.memcpy_async", 1)).body[0]
            ast.increment_lineno(issued, statement.lineno - 1)
            yield f"not waited for: {ast.unparse(call)}", _item_setter(body, position, issued)
    if isinstance(statement, ast.For):
        for what, text in (
            ("skips its first turn", "list({0})[1:]"),
            ("skips its last turn", "list({0})[:-1]"),
            ("does its first turn twice", "list({0})[:1] + list({0})"),
            ("does its last turn twice", "list({0}) + list({0})[-1:]"),
        ):
            iterator = ast.parse(text.format(ast.unparse(statement.iter)), mode="eval").body
            yield f"loop over {ast.unparse(statement.iter)} {what}", _setter(statement, "iter", iterator)


def _moved(bound: ast.expr, step: int) -> ast.expr:
    return ast.BinOp(bound, ast.Add() if step > 0 else ast.Sub(), ast.Constant(1))


def _setter(node: ast.AST, name: str, value: ast.AST) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _item_setter(some: list[Any], position: int, value: ast.AST) -> Callable[[], None]:
    return lambda: some.__setitem__(position, value)
