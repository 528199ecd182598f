"""Other calls in the source of a kernel: instructions, operands, barriers, sizes of tiles, and calls that may lack."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Literal

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.source_code import syntax_tree
from mlusim.verifier.changes.functions import Definition
from mlusim.verifier.changes.other_numbers import more
from mlusim.verifier.changes.syntax_parts import Part, Place, allocates, method_of, names_in, places_in

_COPIES = ("memcpy", "memcpy_async")
# Their first argument is what they write, and in another memory.
_FROM_ELSEWHERE = (*_COPIES, "store", "store_array", "alloc")
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


def changes_of_calls(node: ast.AST) -> Iterator[Part]:
    """Yield other instructions, operands and operators, and sums in place of values."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Subscript) and not allocates(node):
        before = deepcopy(node.targets[0])
        before.ctx = ast.Load()
        yield Part(Place(node, "value"), ast.BinOp(before, ast.Add(), node.value))
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        yield Part(Place(node, "op"), ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())
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


def other_barriers(node: ast.AST) -> Iterator[Part]:
    """Yield another barrier in place of one, those of a cluster first."""
    if method_of(node) in BARRIERS:
        yield from _with_methods(node, sorted(BARRIERS, key=lambda name: not BARRIERS[name].within_cluster))


def clamped(node: ast.AST, function: Definition) -> Iterator[Part]:
    """Yield the size or the end of a tile, at most what is left of a tensor that the function slices by it."""
    if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
        return
    name, tensors = node.targets[0].id, {argument.arg for argument in function.args.args}
    for sliced in (part for part in ast.walk(function) if isinstance(part, ast.Subscript)):
        tensor = sliced.value.id if isinstance(sliced.value, ast.Name) else ""
        for axis, index in enumerate(place.content for place in places_in(sliced)):
            upper = index.upper if isinstance(index, ast.Slice) else None
            if upper is None or tensor not in tensors or name not in names_in(upper):
                continue
            left = f"{tensor}.shape[{axis}]"
            if not isinstance(upper, ast.Name) and index.lower is not None:
                left += f" - {ast.unparse(index.lower)}"
            limit = syntax_tree(f"min({ast.unparse(node.value)}, {left})").body[0]
            yield Part(Place(node, "value"), limit.value)  # type: ignore[attr-defined]  # of an expression


@dataclass(frozen=True, slots=True)
class Gap:
    """A place for one more statement: beside one in the body or the `else` of an owner."""

    owner: Any
    field: str
    index: int
    beside: ast.stmt
    side: Literal["before", "after"]

    def with_statement(self, statement: ast.stmt) -> Part:
        """Return the block with one more statement here."""
        block = getattr(self.owner, self.field)
        return Part(Place(self.owner, self.field), [*block[: self.index], deepcopy(statement), *block[self.index :]])


def gaps_in(function: Definition) -> Iterator[Gap]:
    """Yield the places in a function before each statement, and after the last one of each block."""
    for owner in ast.walk(function):
        for field in ("body", "orelse"):
            block = getattr(owner, field, ())
            if not isinstance(block, list) or (field == "orelse" and isinstance(owner, ast.If) and _is_elif(block)):
                continue
            yield from (Gap(owner, field, index, statement, "before") for index, statement in enumerate(block))
            yield from (Gap(owner, field, len(block), statement, "after") for statement in block[-1:])


def barriers_in_branches(function: Definition) -> Iterator[tuple[Gap, Gap]]:
    """Yield the places of the barriers in the branches of each `if`, and the places below that `if`."""
    gaps = {gap.beside: gap for gap in gaps_in(function) if gap.side == "before"}
    with_elif = (node for node in ast.walk(function) if isinstance(node, ast.If) and _is_elif(node.orelse))
    before_elif = {node.orelse[0]: node for node in with_elif}
    for gap in gaps.values():
        if isinstance(branch := gap.owner, ast.If) and method_of(_call_of(gap.beside)) in BARRIERS:
            while branch in before_elif:
                branch = before_elif[branch]
            yield gap, replace(gaps[branch], index=gaps[branch].index + 1, side="after")


def insertions(function: Definition, lines: Sequence[int]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield zeros in a sum, before it or its loop; below some lines, copies of what they write."""
    gaps = [gap for gap in gaps_in(function) if gap.side == "before"]
    for gap in gaps:
        for call in _sums_in(gap.beside) if isinstance(gap.beside, ast.For | ast.While | ast.Expr) else ():
            cleared = ast.Call(ast.Attribute(call.func.value, "write_zero", ast.Load()), call.args[:1], [])
            yield gap, ast.Expr(cleared)
    copies = {ast.unparse(gap.beside): gap.beside for gap in gaps if method_of(_call_of(gap.beside)) in _COPIES}
    by_line = {gap.beside.lineno: gap for gap in gaps}
    for gap in (by_line[line] for line in lines if line in by_line):
        call = _call_of(gap.beside)
        written = names_in(*call.args[:1]) if call else []
        for copy in copies.values():
            if copy is not gap.beside and not {*written}.isdisjoint(names_in(*_call_of(copy).args[1:])):
                yield replace(gap, index=gap.index + 1, side="after"), copy


def _sums_in(statement: ast.stmt) -> Iterator[Any]:
    """Yield the instructions in a loop or statement whose result is also an operand."""
    nodes: Iterator[Any] = ast.walk(statement)
    for node in nodes:
        if method_of(node) in ("add", "sub", "maximum", "minimum") and node.args:
            texts = [ast.unparse(argument) for argument in node.args]
            if texts[0] in texts[1:]:
                yield node


def _call_of(statement: ast.AST) -> Any:
    """Return the call that is a statement, awaited or not; None if it is none."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    return value if isinstance(value, ast.Call) else None


def _is_elif(block: Sequence[ast.stmt]) -> bool:
    return len(block) == 1 and isinstance(block[0], ast.If)


def _with_methods(call: Any, names: Collection[str]) -> Iterator[Part]:
    """Yield calls of other methods."""
    for name in names:
        full = name if not call.func.attr.startswith("cycle_") else f"cycle_{name}"
        yield Part(Place(call, "func"), ast.Attribute(call.func.value, full, call.func.ctx))


def _with_operands(call: ast.Call) -> Iterator[Part]:
    """Yield a call with its operands in another order, with other numbers, and with one operand in place of another."""
    is_instruction = bool(method := method_of(call)) and method not in _FROM_ELSEWHERE
    if method not in _FROM_ELSEWHERE:
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
    if method_of(call) not in _COPIES or len(call.args) < 2:
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
