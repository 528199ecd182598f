"""Parts of syntax trees: where an expression stands, and what may stand there instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

COPIES = ("memcpy", "memcpy_async")


@dataclass(frozen=True, slots=True)
class Place:
    """A field of a node, and the index in it if it is a list."""

    holder: Any
    field: str
    index: int | None = None

    @property
    def content(self) -> Any:
        """What stands there."""
        value = getattr(self.holder, self.field)
        return value if self.index is None else value[self.index]

    def put(self, content: Any) -> None:
        """Let something else stand there."""
        if self.index is None:
            setattr(self.holder, self.field, content)
        else:
            getattr(self.holder, self.field)[self.index] = content


class Part(NamedTuple):
    """What stands at a place after a change."""

    place: Place
    new: Any


@contextmanager
def changed(parts: Sequence[Part]) -> Iterator[None]:
    """Change some parts of a syntax tree for a while."""
    before = [part.place.content for part in parts]
    for part in parts:
        part.place.put(part.new)
    try:
        yield
    finally:
        for part, content in zip(reversed(parts), reversed(before), strict=True):
            part.place.put(content)


def places_in(node: Any) -> Iterator[Place]:
    """Yield the places right in a node; of what has an index, that of the index of each axis."""
    if isinstance(node, ast.Subscript):
        node, fields = (node.slice, ["elts"]) if isinstance(node.slice, ast.Tuple) else (node, ["slice"])
    else:
        fields = node._fields
    for field in fields:
        value = getattr(node, field)
        indices = range(len(value)) if isinstance(value, list) else [None]
        yield from (Place(node, field, index) for index in indices)


def names_in(*nodes: ast.AST) -> list[str]:
    """Return the names in expressions."""
    return [name.id for node in nodes for name in ast.walk(node) if isinstance(name, ast.Name)]


def plus(number: ast.expr | None, term: ast.expr) -> ast.expr:
    """Return the sum of a number, None for 0, and a term."""
    if number is None or (isinstance(number, ast.Constant) and number.value == 0):
        return term
    is_name = isinstance(number, ast.Constant | ast.Name)
    return ast.BinOp(term, ast.Add(), number) if is_name else ast.BinOp(number, ast.Add(), term)


def method_of(node: Any) -> str:
    """Return the name of the method that is called, without `cycle_`; "" if it is none."""
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return node.func.attr.removeprefix("cycle_") if is_method else ""


def allocated_by(node: ast.Assign) -> list[str]:
    """Return the names of the buffers that an assignment allocates."""
    is_allocation = any(method_of(value) == "alloc" for value in ast.walk(node.value))
    targets = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
    return [ast.unparse(target) for target in targets] if is_allocation else []
