"""Other calls in the source of a kernel: instructions, operands, barriers, sizes of copies and tiles."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from copy import deepcopy
from itertools import pairwise, product
from typing import Any

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.source_code import syntax_tree
from mlusim.verifier.changes.functions import Definition
from mlusim.verifier.changes.other_numbers import is_number, more, other_numbers
from mlusim.verifier.changes.syntax_parts import COPIES, Part, Place, allocated_by, method_of, names_in, places_in

# Their first argument is what they write, and in another memory.
_FROM_ELSEWHERE = (*COPIES, "store", "store_array", "alloc")
_MODES = ("rn", "tz", "dn", "up", "oz", "rd")
# Methods that are easily mistaken for each other.
_METHODS = [
    names.split()
    for names in (
        "add sub mul div maximum minimum",
        "lt le gt ge eq ne",
        "and_ or_ xor",
        "relu abs neg square",
        "floor ceil round trunc",
        "sqrt rsqrt recip",
        "sum_rows max_rows min_rows",
        "max min",
        "argmax argmin",
        "atomic_add atomic_max atomic_min",
        "atomic_reduce_add atomic_reduce_max atomic_reduce_min",
    )
]


_OPPOSITES = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}


def changes_of_calls(node: ast.AST) -> Iterator[Part]:
    """Yield other instructions, operands and operators, and sums in place of values."""
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name | ast.Subscript)
        and not allocated_by(node)
    ):
        before = deepcopy(node.targets[0])
        before.ctx = ast.Load()
        yield Part(Place(node, "value"), ast.BinOp(before, ast.Add(), node.value))
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        yield Part(Place(node, "op"), ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPPOSITES:
        yield Part(Place(node, "ops", 0), _OPPOSITES[type(node.ops[0])]())
    elif isinstance(node, ast.Call):
        yield from _with_methods(node, next((names for names in _METHODS if method_of(node) in names), ()))
        yield from _with_operands(node)
        yield from _with_sizes(node)
        for first, second in pairwise(range(len(node.keywords))):
            values = _swapped([keyword.value for keyword in node.keywords], first, second)
            named = [ast.keyword(keyword.arg, value) for keyword, value in zip(node.keywords, values, strict=True)]
            yield Part(Place(node, "keywords"), named)
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        swapped = (_swapped(node.elts, first, second) for first, second in pairwise(range(len(node.elts))))
        yield from (Part(Place(node, "elts"), elements) for elements in swapped)


def _values_of(node: ast.Assign) -> Iterator[tuple[str, Place]]:
    """Yield the names that an assignment sets, and where their values are."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        names = enumerate(target.elts)
        yield from ((name.id, Place(value, "elts", index)) for index, name in names if isinstance(name, ast.Name))
    elif isinstance(target, ast.Name):
        yield target.id, Place(node, "value")


def other_barriers(node: ast.AST) -> Iterator[Part]:
    """Yield another barrier in place of one, those of a cluster first."""
    if method_of(node) in BARRIERS:
        yield from _with_methods(node, sorted(BARRIERS, key=lambda name: not BARRIERS[name].within_cluster))


def clamped(node: ast.AST, function: Definition) -> Iterator[Part]:
    """Yield the size or the end of a tile, at most what is left of a tensor that the function slices by it."""
    places = dict(_values_of(node)) if isinstance(node, ast.Assign) else {}
    tensors = {argument.arg for argument in function.args.args}
    for sliced in (part for part in ast.walk(function) if isinstance(part, ast.Subscript)):
        tensor = sliced.value.id if isinstance(sliced.value, ast.Name) else ""
        for axis, index in enumerate(place.content for place in places_in(sliced)):
            upper = index.upper if isinstance(index, ast.Slice) else None
            left = f"{tensor}.shape[{axis}]"
            if not isinstance(upper, ast.Name) and isinstance(index, ast.Slice) and index.lower is not None:
                left += f" - {ast.unparse(index.lower)}"
            for name in names_in(upper) if upper is not None and tensor in tensors else ():
                if place := places.get(name):
                    limit = syntax_tree(f"min({ast.unparse(place.content)}, {left})").body[0]
                    yield Part(place, limit.value)  # type: ignore[attr-defined]  # of an expression


def _with_methods(call: Any, names: Collection[str]) -> Iterator[Part]:
    """Yield calls of other methods."""
    for name in names:
        full = name if not call.func.attr.startswith("cycle_") else f"cycle_{name}"
        yield Part(Place(call, "func"), ast.Attribute(call.func.value, full, call.func.ctx))


def _with_operands(call: ast.Call) -> Iterator[Part]:
    """Yield a call with its operands in another order, with other numbers, and with one operand in place of another."""
    is_instruction = bool(method := method_of(call)) and method not in _FROM_ELSEWHERE
    if method not in _FROM_ELSEWHERE and getattr(call.func, "id", "") not in ("min", "max"):
        for first, second in pairwise(range(len(call.args))):
            yield Part(Place(call, "args"), _swapped(call.args, first, second))
    if not is_instruction:
        return
    for index, argument in enumerate(call.args):
        yield from (Part(Place(call, "args", index), value) for value in _other_values(argument))
    for index in range(1, len(call.args)):
        others = {ast.unparse(other): other for other in call.args if not isinstance(other, ast.Constant)}
        yield from (Part(Place(call, "args", index), other) for other in others.values())


def _with_sizes(call: ast.Call) -> Iterator[Part]:
    """Yield a copy of one more or less, of both operands, at each pair of slices."""
    if method_of(call) not in COPIES or len(call.args) < 2:
        return
    ends: list[list[ast.Slice]] = [
        [node for node in ast.walk(operand) if isinstance(node, ast.Slice) and node.upper] for operand in call.args[:2]
    ]
    for first, second in product(*(range(len(slices)) for slices in ends)):
        for step in (1, -1):
            operands = deepcopy(call.args)
            for operand, number in zip(operands, (first, second), strict=False):
                slices = [node for node in ast.walk(operand) if isinstance(node, ast.Slice) and node.upper]
                slices[number].upper = more(slices[number].upper, step)  # type: ignore[arg-type]  # not None
            yield Part(Place(call, "args"), operands)


def _swapped(values: list[Any], first: int, second: int) -> list[Any]:
    swapped = list(values)
    swapped[first], swapped[second] = values[second], values[first]
    return swapped


def _other_values(number: ast.expr) -> Iterator[ast.expr]:
    """Yield other values of a number, or of a rounding mode, that an instruction takes."""
    value: Any = number.value if isinstance(number, ast.Constant) else None
    if type(value) in (int, float):
        yield from map(ast.Constant, (value + 1, value - 1, 2 * value, value / 2, -value))
    elif value in _MODES:
        yield from map(ast.Constant, _MODES)
    elif isinstance(number, ast.BinOp) and is_number(number):
        yield from other_numbers(number)
