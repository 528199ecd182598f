"""Changes of the source of a kernel in Python: another number, operator, instruction, operand or barrier."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from operator import methodcaller
from types import CodeType, FunctionType
from typing import Any

from mlusim.cores.core import Kernel
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.source_code import tree_of_function
from mlusim.verifier.functions import Definition, compiled, functions_of, replaced
from mlusim.verifier.mistaken_names import NUMBERS_OF_A_CORE, Names, Part, Place, names_in
from mlusim.verifier.source_file import SourceLine

EVERY_OUTPUT = "every output is right"
_CALLS = ("min", "max")
# Their first argument is what they write, and in another memory.
_FROM_ELSEWHERE = ("memcpy", "memcpy_async", "store", "store_array", "alloc")
_WITH_EQUAL = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
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
Parts = Callable[[Any, "_Source"], Iterator[Part]]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A function with another expression in it.

    Attributes:
        function: the function: that of the kernel, or one that it calls.
        node: its definition, changed.
        at: the line.
        new: what to write there.
        remedy: what to write in place of what.
    """

    function: FunctionType
    node: Definition
    at: SourceLine
    new: str
    remedy: str

    @contextmanager
    def applied(self, kernel: Kernel) -> Iterator[Kernel]:
        """Change the kernel for a while."""
        with replaced(self.function, self.node):
            yield kernel


def source_changes_of(
    kernel: Kernel, lines: Collection[SourceLine], near: Collection[SourceLine] | None = None
) -> Iterator[SourceChange]:
    """Yield changes of a kernel in Python: in turn, of names, of what else may be wrong on some lines, and of numbers.

    Args:
        kernel: the kernel.
        lines: where an error is, the likeliest first.
        near: where operations made wrong elements, the nearest first; None to change `lines` only.
    """
    sources = [source for function in functions_of(kernel) if (source := _Source.of(function, lines))]
    if near is not None:
        sources = [replace(source, lines={*lines, *near}) for source in sources]
        near = dict.fromkeys((*near, *(line for source in sources for line in source.definitions())))
        sources = [replace(source, lines={*lines, *near}) for source in sources]
    all_lines = dict.fromkeys((*([] if near is None else [None]), *lines, *(near or ())))
    on_each = _by_line(sources, _names_in, [line for line in near or () if line not in lines])
    names = chain(*_by_line(sources, _names_in, lines), chain.from_iterable(zip_longest(*on_each)))
    kinds = (_in_turn(_by_line(sources, parts, all_lines)) for parts in (_others_in, _numbers_in))
    likeliest = filter(None, names)
    changes = _in_turn((likeliest, likeliest, *kinds))
    seen: set[str] = set()
    for change in changes:
        if change.remedy not in seen:
            seen.add(change.remedy)
            yield change


def other_barriers_of(kernel: Kernel) -> Iterator[SourceChange]:
    """Yield the changes of a kernel that have another barrier in place of one."""
    sources = (_Source.of(function, ()) for function in functions_of(kernel))
    return (change for source in sources if source for change in source.changes(_barriers_in))


def _by_line(
    sources: Sequence[_Source], parts: Parts, lines: Iterable[SourceLine | None]
) -> Iterator[Iterator[SourceChange]]:
    """Yield the changes on each of some lines; for None, those off all lines of the sources."""
    for line in lines:
        yield chain.from_iterable(map(methodcaller("changes", parts, line), sources))


def _in_turn(kinds: Iterable[Iterator[SourceChange]]) -> Iterator[SourceChange]:
    """Yield one change of each kind in turn, with one more kind in each turn, so that the first kinds get most."""
    waiting, begun = iter(kinds), list[Iterator[SourceChange]]()
    while True:
        begun += islice(waiting, 1)
        found = [next(one, None) for one in begun]
        begun = [one for one, change in zip(begun, found, strict=True) if change is not None]
        yield from (change for change in found if change is not None)
        if not begun and not found:
            return


@dataclass(frozen=True, slots=True)
class _Source:
    """A function with its definition, and the lines on which it may be wrong, the likeliest first.

    `names`: those that may be mistaken for each other.
    """

    function: FunctionType
    node: Definition
    names: Names
    lines: Collection[SourceLine]

    @classmethod
    def of(cls, function: FunctionType, lines: Collection[SourceLine]) -> _Source | None:
        """Return the source of a function; None if it cannot be read, or no longer is what its file says."""
        node = _definition(function)
        if node is None or not _is_source_of(function, node):
            return None
        return cls(function, node, Names.of(node), lines)

    def line_of(self, node: ast.AST) -> SourceLine:
        """Return the line on which an expression or statement begins."""
        return SourceLine(self.function.__code__.co_filename, getattr(node, "lineno", 0))

    def is_near(self, node: ast.AST) -> bool:
        """Return whether an expression or statement begins on one of the lines."""
        return self.line_of(node) in self.lines

    def definitions(self) -> Iterator[SourceLine]:
        """Yield the lines of the assignments to names that its lines use."""
        nodes = list(ast.walk(self.node))
        used = {one.id for one in nodes if isinstance(one, ast.Name) and self.is_near(one)}
        assigned = (one for one in nodes if isinstance(one, ast.Assign) and used.intersection(names_in(*one.targets)))
        return (self.line_of(one) for one in assigned if "alloc" not in ast.unparse(one.value))

    def changes(self, parts: Parts, at: SourceLine | None = None) -> Iterator[SourceChange]:
        """Yield the changes of some parts of its expressions and statements at a line; by default off its lines."""
        nodes: list[Any] = list(ast.walk(self.node))
        parents = {child: parent for parent in nodes for child in ast.iter_child_nodes(parent)}
        seen = set()
        for one in nodes:
            line = self.line_of(one)
            if line != at and (at or line in self.lines):
                continue
            shown = -1
            for (holder, field, place), part in parts(one, self):
                shown = nodes.index(_distinct(one, parents)) if shown < 0 else shown
                changed = deepcopy(self.node)
                copies = list(ast.walk(changed))
                held = copies[nodes.index(holder)]
                if place is None:
                    setattr(held, field, deepcopy(part))
                else:
                    getattr(held, field)[place] = deepcopy(part)
                ast.fix_missing_locations(changed)
                old, new = ast.unparse(nodes[shown]), ast.unparse(copies[shown])
                if old != new and (old, new, one.lineno) not in seen:
                    seen.add((old, new, one.lineno))
                    text = f"write `{new}` in place of `{old}` at {line.location}: then {EVERY_OUTPUT}"
                    yield SourceChange(self.function, changed, line, new, text)


def _is_source_of(function: FunctionType, node: Definition) -> bool:
    """Return whether a function still is what its file says."""
    ours, theirs = compiled(function, node), function.__code__
    constants = [[one for one in code.co_consts if not isinstance(one, CodeType)] for code in (ours, theirs)]
    same = constants[0] == constants[1]
    return same and all(getattr(ours, name) == getattr(theirs, name) for name in ("co_code", "co_names"))


def _distinct(node: Any, parents: Mapping[Any, Any]) -> Any:
    """Return an expression, or what is around it if its statement or condition has another of the same text.

    A slice, and the tuple of an index, are no expressions of their own: they are shown with what they index.
    """
    while isinstance(node, ast.Slice) or (isinstance(node, ast.Tuple) and isinstance(parents[node], ast.Subscript)):
        node = parents[node]
    around = node
    while not isinstance(around, ast.stmt) and not hasattr(parents[around], "body"):
        around = parents[around]
    return around if ast.unparse(around).count(ast.unparse(node)) > 1 else node


def _definition(function: FunctionType) -> Definition | None:
    """Return the definition of a function, without its decorators; None if its source cannot be read."""
    tree, first = tree_of_function(function) or (ast.Module([], []), 0)
    node = next(iter(tree.body), None)
    if not isinstance(node, Definition):
        return None
    ast.increment_lineno(node, first - 1)
    node.decorator_list = []
    return node


def _numbers_in(node: ast.AST, source: _Source) -> Iterator[Part]:
    """Yield other numbers in a bound, condition, variable or result; in an index, only on the lines of the source."""
    is_index = isinstance(node, ast.Subscript)
    if is_index and not source.is_near(node):
        return
    if isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and type(node.ops[0]) in _WITH_EQUAL:
        yield (node, "ops", 0), _WITH_EQUAL[type(node.ops[0])]()
    for holder, field, at in _numbers(node):
        held = getattr(holder, field)
        yield from (((holder, field, at), number) for number in _others(held if at is None else held[at]))


def _names_in(node: ast.AST, source: _Source) -> Iterator[Part]:
    """Yield other names and indices on the lines of the source."""
    return source.names.changes(node) if source.is_near(node) else iter(())


def _others_in(node: ast.AST, source: _Source) -> Iterator[Part]:
    """Yield other instructions, operands and operators on the lines of the source, and sums in place of values."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Subscript):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) or source.is_near(node):
            before = deepcopy(target)
            before.ctx = ast.Load()
            yield (node, "value", None), ast.BinOp(before, ast.Add(), node.value)
    if not source.is_near(node):
        return
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.Sub):
        yield (node, "op", None), ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    elif isinstance(node, ast.Call):
        yield from _methods(node, next((names for names in _METHODS if _method(node) in names), ()))
        swaps = range(len(node.args) - 1) if _method(node) not in _FROM_ELSEWHERE else ()
        yield from (((node, "args", None), _swapped(node.args, place)) for place in swaps)
        for place in range(len(node.keywords) - 1):
            values = _swapped([one.value for one in node.keywords], place)
            named = [ast.keyword(one.arg, to) for one, to in zip(node.keywords, values, strict=True)]
            yield (node, "keywords", None), named
        for place, one in enumerate(node.args):
            yield from (((node, "args", place), value) for value in _values(one))
    elif isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        yield from (((node, "elts", None), _swapped(node.elts, place)) for place in range(len(node.elts) - 1))


def _barriers_in(node: ast.AST, _: _Source) -> Iterator[Part]:
    if isinstance(node, ast.Call) and _method(node) in BARRIERS:
        yield from _methods(node, sorted(BARRIERS, key=lambda name: not BARRIERS[name].within_cluster))


def _method(call: ast.Call) -> str:
    """Return the name of the method that is called, without `cycle_`; "" if it is none."""
    return call.func.attr.removeprefix("cycle_") if isinstance(call.func, ast.Attribute) else ""


def _methods(call: Any, names: Collection[str]) -> Iterator[Part]:
    """Yield calls of other methods."""
    for name in names:
        full = name if not call.func.attr.startswith("cycle_") else f"cycle_{name}"
        yield (call, "func", None), ast.Attribute(call.func.value, full, call.func.ctx)


def _swapped(values: list[Any], place: int) -> list[Any]:
    return [*values[:place], values[place + 1], values[place], *values[place + 2 :]]


def _values(number: ast.expr) -> Iterator[ast.expr]:
    """Yield other values of a number, or of a rounding mode, that an instruction takes."""
    value: Any = number.value if isinstance(number, ast.Constant) else None
    if type(value) in (int, float):
        yield from map(ast.Constant, (value + 1, value - 1, 2 * value, value / 2, -value))
    elif value in _MODES:
        yield from map(ast.Constant, _MODES)


def _numbers(node: Any) -> Iterator[Place]:
    """Yield where the numbers of an expression or statement are."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        yield from ((node, "args", at) for at in range(len(node.args)))
    elif isinstance(node, ast.Compare):
        if not isinstance(node.left, ast.Constant):
            yield node, "left", None
        yield from ((node, "comparators", at) for at in range(len(node.comparators)))
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        yield from ((node.value, "elts", at) for at, one in enumerate(node.value.elts) if _is_number(one))
    elif _has_a_number(node):
        yield node, "value", None
    elif isinstance(node, ast.Subscript):
        index: Any = node.slice
        many = isinstance(index, ast.Tuple)
        for at, one in enumerate(index.elts if many else [index]):
            if isinstance(one, ast.Slice):
                yield from ((one, edge, None) for edge in ("lower", "upper") if getattr(one, edge) is not None)
            else:
                yield (index, "elts", at) if many else (node, "slice", None)


def _has_a_number(node: ast.AST) -> bool:
    """Return whether the value of an assignment, a `return` or an argument `cluster=` is a number."""
    if isinstance(node, ast.keyword):
        return node.arg == "cluster"
    if not isinstance(node, ast.Assign | ast.Return) or node.value is None:
        return False
    return _is_number(node.value) and (isinstance(node, ast.Return) or isinstance(node.targets[0], ast.Name))


def _is_number(node: ast.expr) -> bool:
    """Return whether an expression is arithmetic on names and numbers."""
    allowed = (ast.BinOp, ast.Name, ast.Constant, ast.Attribute, ast.operator, ast.expr_context, ast.Subscript)
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in _CALLS:
            continue
        if not isinstance(one, allowed) or (isinstance(one, ast.Constant) and type(one.value) is not int):
            return False
    return True


def _others(number: ast.expr) -> Iterator[ast.expr]:
    """Yield expressions for other numbers: one more or less, also in the operands of a product, quotient or rest."""
    if isinstance(number, ast.Constant):
        if type(number.value) is int:
            yield from (ast.Constant(value) for value in (number.value + 1, number.value - 1) if value >= 0)
    elif isinstance(number, ast.BinOp) and isinstance(number.op, ast.Add | ast.Sub):
        yield from _sums(number)
    elif isinstance(number, ast.BinOp):
        yield from (ast.BinOp(left, number.op, number.right) for left in _others(number.left))
        yield from (ast.BinOp(number.left, number.op, right) for right in _others(number.right))
        if isinstance(number.op, ast.FloorDiv):
            # Rounded up.
            yield ast.UnaryOp(ast.USub(), ast.BinOp(ast.UnaryOp(ast.USub(), number.left), number.op, number.right))
    elif isinstance(number, ast.Call) and _is_number(number):
        for place, argument in enumerate(number.args):
            for other in _others(argument):
                yield ast.Call(number.func, [*number.args[:place], other, *number.args[place + 1 :]], [])
    elif _is_number(number):
        yield from (ast.BinOp(number, operator, ast.Constant(1)) for operator in (ast.Add(), ast.Sub()))
        if isinstance(number, ast.Attribute):
            alike = (name for names in NUMBERS_OF_A_CORE if number.attr in names for name in names)
            yield from (ast.Attribute(number.value, name, number.ctx) for name in alike if name != number.attr)


def _sums(number: ast.BinOp) -> Iterator[ast.expr]:
    """Yield a sum or difference with one more or less, or with the other operator."""
    if not isinstance(number.right, ast.Constant):
        yield from (ast.BinOp(left, number.op, number.right) for left in _others(number.left))
        if isinstance(number.left, ast.Constant):
            yield number.right
        if isinstance(number.right, ast.BinOp):
            yield from (ast.BinOp(number.left, number.op, right) for right in _others(number.right))
        yield ast.BinOp(number.left, ast.Sub() if isinstance(number.op, ast.Add) else ast.Add(), number.right)
        return
    for right in _others(number.right):
        is_zero = isinstance(right, ast.Constant) and right.value == 0
        yield number.left if is_zero else ast.BinOp(number.left, number.op, right)
