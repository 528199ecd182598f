"""Other numbers in the source of a kernel: one more or less, another term of a sum."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from mlusim.verifier.changes.syntax_parts import Part, Place, method_of, places_in

# Numbers of a core that are easily mistaken for each other.
NUMBERS_OF_A_CORE = (("task_id", "core_id", "cluster_id"), ("task_dim", "core_dim", "cluster_dim"))
_FUNCTIONS = ("min", "max")
_ARITHMETIC = (ast.BinOp, ast.Name, ast.Constant, ast.Attribute, ast.operator, ast.expr_context, ast.Subscript)
_WITH_EQUAL = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


def changes_of_numbers(node: ast.AST) -> Iterator[Part]:
    """Yield other numbers in a bound, condition, variable, result, index or size of an allocation."""
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and type(node.ops[0]) in _WITH_EQUAL:
        yield Part(Place(node, "ops", 0), _WITH_EQUAL[type(node.ops[0])]())
    for place in _places_of_numbers(node):
        yield from (Part(place, number) for number in other_numbers(place.content))
    for place in places_in(node):
        if isinstance(place.content, ast.Slice):
            yield from (Part(place, moved) for step in (1, -1) if (moved := _moved(place.content, step)))
        elif isinstance(place.content, ast.BinOp) and isinstance(place.content.op, ast.Add | ast.Sub):
            yield from (Part(place, moved) for moved in _moved_into_index(place.content))
        elif isinstance(place.content, ast.Subscript) and isinstance(index := place.content.slice, ast.BinOp):
            # A number of a list.
            element = ast.Subscript(place.content.value, index.left, ast.Load())
            yield Part(place, ast.BinOp(element, index.op, index.right))


def is_number(node: ast.expr) -> bool:
    """Return whether an expression is arithmetic on names and numbers."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in _FUNCTIONS:
            continue
        if not isinstance(part, _ARITHMETIC) or (isinstance(part, ast.Constant) and type(part.value) is not int):
            return False
    return True


def other_numbers(number: ast.expr) -> Iterator[ast.expr]:
    """Yield expressions for other numbers: one more or less, also in the operands of a product, quotient or rest."""
    if isinstance(number, ast.Constant):
        if type(number.value) is int:
            yield from (ast.Constant(value) for value in (number.value + 1, number.value - 1) if value >= 0)
    elif isinstance(number, ast.BinOp) and isinstance(number.op, ast.Add | ast.Sub):
        yield from _other_sums(number)
    elif isinstance(number, ast.BinOp):
        yield from (ast.BinOp(left, number.op, number.right) for left in other_numbers(number.left))
        yield from (ast.BinOp(number.left, number.op, right) for right in other_numbers(number.right))
        yield number.left
        if isinstance(number.op, ast.FloorDiv):
            # Rounded up.
            yield ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), number.left), number.op, number.right))
    elif isinstance(number, ast.Call) and is_number(number):
        for place, argument in enumerate(number.args):
            for other in other_numbers(argument):
                yield ast.Call(number.func, [*number.args[:place], other, *number.args[place + 1 :]], [])
    elif is_number(number):
        yield from (ast.BinOp(number, operator, ast.Constant(1)) for operator in (ast.Add(), ast.Sub()))


def _other_sums(number: ast.BinOp) -> Iterator[ast.expr]:
    """Yield a sum or difference with one more or less, with the other operator, or without one of its terms."""
    if not isinstance(number.right, ast.Constant):
        yield from (ast.BinOp(left, number.op, number.right) for left in other_numbers(number.left))
        if isinstance(number.left, ast.Constant):
            yield number.right
        if isinstance(number.right, ast.BinOp):
            yield from (ast.BinOp(number.left, number.op, right) for right in other_numbers(number.right))
        yield ast.BinOp(number.left, ast.Sub() if isinstance(number.op, ast.Add) else ast.Add(), number.right)
        yield number.left
        return
    for right in other_numbers(number.right):
        is_zero = isinstance(right, ast.Constant) and right.value == 0
        yield number.left if is_zero else ast.BinOp(number.left, number.op, right)


def _moved_into_index(total: ast.BinOp) -> Iterator[ast.expr]:
    """Yield the first term of a sum, with the other one added to an index in it."""
    for number, node in enumerate(ast.walk(total.left)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice | ast.Tuple):
            moved = deepcopy(total.left)
            element: Any = list(ast.walk(moved))[number]
            element.slice = ast.BinOp(element.slice, total.op, total.right)
            yield moved


def _moved(part: ast.Slice, step: int) -> ast.Slice | None:
    """Return a slice of the same length that begins one later or earlier; None if it has no such end."""
    if part.upper is None or (part.lower is None and step < 0):
        return None
    lower, upper = (more(edge, step) for edge in (part.lower or ast.Constant(0), part.upper))
    return ast.Slice(lower, upper)


def more(number: ast.expr, step: int) -> ast.expr:
    """Return a number with 1 more or less, as it would be written."""
    if isinstance(number, ast.Constant) and type(number.value) is int:
        return ast.Constant(number.value + step)
    if (
        isinstance(number, ast.BinOp)
        and isinstance(number.op, ast.Add | ast.Sub)
        and isinstance(number.right, ast.Constant)
        and type(number.right.value) is int
    ):
        value = number.right.value * (1 if isinstance(number.op, ast.Add) else -1) + step
        return _with_constant(number.left, value) if value else number.left
    return _with_constant(number, step)


def _with_constant(number: ast.expr, value: int) -> ast.expr:
    return ast.BinOp(number, ast.Add() if value > 0 else ast.Sub(), ast.Constant(abs(value)))


def _places_of_numbers(node: Any) -> Iterator[Place]:
    """Yield where the numbers of an expression or statement are."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        yield from (Place(node, "args", index) for index in range(len(node.args)))
    elif method_of(node) == "alloc" and node.args:
        size = node.args[0]
        yield from _places_of_elements(size) if isinstance(size, ast.Tuple) else [Place(node, "args", 0)]
    elif isinstance(node, ast.Compare):
        if not isinstance(node.left, ast.Constant):
            yield Place(node, "left")
        yield from (Place(node, "comparators", index) for index in range(len(node.comparators)))
    elif isinstance(node, ast.Return | ast.Assign) and isinstance(node.value, ast.Tuple):
        yield from _places_of_elements(node.value)
    elif _has_a_number(node):
        yield Place(node, "value")
    elif isinstance(node, ast.Subscript):
        for place in places_in(node):
            if isinstance(index := place.content, ast.Slice):
                yield from (Place(index, edge) for edge in ("lower", "upper") if getattr(index, edge) is not None)
            else:
                yield place


def _places_of_elements(node: ast.Tuple) -> Iterator[Place]:
    return (Place(node, "elts", index) for index, element in enumerate(node.elts) if is_number(element))


def _has_a_number(node: ast.AST) -> bool:
    """Return whether the value of an assignment, a `return` or an argument `cluster=` is a number."""
    if isinstance(node, ast.keyword):
        return node.arg == "cluster"
    if not isinstance(node, ast.Assign | ast.AugAssign | ast.Return) or node.value is None:
        return False
    return is_number(node.value) and not (isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name))
