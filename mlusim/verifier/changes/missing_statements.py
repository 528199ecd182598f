"""Statements that the source of a kernel may lack, and the places for them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

from mlusim.cores.core import Core
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.source_code import syntax_tree
from mlusim.verifier.changes.functions import Definition
from mlusim.verifier.changes.syntax_parts import Part, Place, allocated_by, method_of, names_in, places_in

_BLOCKS = ("body", "orelse", "finalbody")
_UNARY = ("move", "square", "abs", "neg", "exp", "sqrt", "recip", "relu")
_BINARY = ("add", "mul", "sub", "div", "maximum", "minimum")
_STEPS = ("+= 1", "^= 1", "-= 1", "//= 2", "*= 2")


@dataclass(frozen=True, slots=True)
class Gap:
    """A place for one more statement: beside one in a block of an owner."""

    owner: Any
    field: str
    index: int
    beside: ast.stmt
    side: Literal["before", "after"] = "before"

    def with_statement(self, statement: ast.stmt) -> Part:
        """Return the block with one more statement here."""
        block = getattr(self.owner, self.field)
        return Part(Place(self.owner, self.field), [*block[: self.index], deepcopy(statement), *block[self.index :]])

    @property
    def is_between_lines(self) -> bool:
        """Whether the statements before and after it are on different lines."""
        block, above = getattr(self.owner, self.field), self.index - 1
        if block[0].lineno == self.owner.lineno:
            return False
        return not 0 <= above < len(block) - 1 or block[above].end_lineno < block[self.index].lineno

    @property
    def below(self) -> Gap:
        """The place below the statement."""
        return replace(self, index=self.index + 1, side="after")


def gaps_in(function: Definition) -> Iterator[Gap]:
    """Yield the places in a function before each statement, and after the last one of each block.

    Not those in inner functions that cannot wait.
    """
    waiting: list[Any] = [function]
    while waiting:
        owner = waiting.pop(0)
        for field in _BLOCKS:
            block = getattr(owner, field, ())
            waiting += [statement for statement in block if not isinstance(statement, ast.FunctionDef | ast.ClassDef)]
            if not block or (field == "orelse" and isinstance(owner, ast.If) and _is_elif(block)):
                continue
            yield from (Gap(owner, field, index, statement) for index, statement in enumerate(block))
            yield Gap(owner, field, len(block), block[-1], "after")


def barriers_in_branches(function: Definition) -> Iterator[tuple[Gap, Gap]]:
    """Yield the places of the barriers in the branches of each `if`, and the places below that `if`."""
    gaps = {gap.beside: gap for gap in gaps_in(function) if gap.side == "before"}
    with_elif = (node for node in ast.walk(function) if isinstance(node, ast.If) and _is_elif(node.orelse))
    before_elif = {node.orelse[0]: node for node in with_elif}
    for gap in gaps.values():
        if isinstance(branch := gap.owner, ast.If) and method_of(_call_of(gap.beside)) in BARRIERS:
            while branch in before_elif:
                branch = before_elif[branch]
            yield gap, gaps[branch].below


def missing_statements(function: Definition, lines: Sequence[int]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield statements that some lines, the likeliest first, may lack before them, and where.

    Those of which a kernel has few come first.
    """
    gaps = [gap for gap in gaps_in(function) if gap.side == "before"]
    by_line = {gap.beside.lineno: gap for gap in gaps}
    near = [by_line[line] for line in dict.fromkeys(lines) if line in by_line]
    around = {gap: [other for other in reversed(gaps) if _is_around(other.beside, gap.beside)] for gap in near}
    allocations = {name: gap for gap in gaps if isinstance(gap.beside, ast.Assign) for name in allocated_by(gap.beside)}
    for gap in near[:1]:
        yield from _counterparts(gap, gaps) if isinstance(function, ast.AsyncFunctionDef) else ()
        yield from ((place, guard) for place in around[gap] for guard in _guards(gap, place, function))
    for of_few in (_cleared_sums(gaps), _updates(gaps), _begun_again(gaps), _cleared_buffers(allocations)):
        yield from of_few
    calls = {ast.unparse(gap.beside): gap.beside for gap in gaps if _call_of(gap.beside)}
    parameters = [argument.arg for argument in function.args.args]
    others = parameters if allocations else []
    for gap in near:
        yield from _first_writes(gap, _before(gap, around[gap], gaps), allocations, with_others=gap is near[0])
        yield from _repeated(gap, calls.values())
        yield from _instructions(gap, calls.values(), allocations or parameters, others)


def _cleared_sums(gaps: Sequence[Gap]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield zeros before the loops and statements that sum."""
    for gap in gaps:
        for call in _sums_in(gap.beside) if isinstance(gap.beside, ast.For | ast.While | ast.Expr) else ():
            yield gap, _call(call.func.value, "write_zero", call.args[0])


def _cleared_buffers(allocations: Mapping[str, Gap]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield zeros below the allocations."""
    for name, gap in allocations.items():
        alloc: Any = next(node for node in ast.walk(gap.beside) if method_of(node) == "alloc")
        if isinstance(memory := alloc.func.value, ast.Attribute):
            yield gap.below, _call(memory.value, "write_zero", _expression(name))


def _is_around(outer: ast.stmt, inner: ast.stmt) -> bool:
    """Return whether a statement is another one, or has it in a block."""
    return outer.lineno <= inner.lineno and (inner.end_lineno or 0) <= (outer.end_lineno or 0)


def _counterparts(gap: Gap, gaps: Sequence[Gap]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield what sets a flag that an atomic looks at, or releases a lock, below the other calls in the function."""
    call = _call_of(gap.beside)
    if method_of(call) == "lock":
        name, operands = "unlock", call.args
    elif method_of(call).startswith("atomic_") and len(call.args) > 1:
        name, operands = "atomic_reduce_exch", [call.args[1], ast.Constant(1)]
    else:
        return
    for other in (other for other in gaps if _call_of(other.beside) and other is not gap):
        yield other.below, ast.Expr(ast.Await(_call(call.func.value, name, *operands).value))


def _guards(gap: Gap, place: Gap, function: Definition) -> Iterator[ast.stmt]:
    """Yield `continue` or `return` for where a slice in a statement is empty, or an index is beyond its tensor."""
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For | ast.While)]
    in_loop = any(_is_around(loop, place.beside) for loop in loops if loop is not place.beside)
    tensors = [argument.arg for argument in function.args.args]
    for part in (node for node in ast.walk(gap.beside) if isinstance(node, ast.Subscript)):
        for axis, index in enumerate(spot.content for spot in places_in(part)):
            condition = ""
            if isinstance(index, ast.Slice):
                lower = ast.unparse(index.lower) if index.lower else "0"
                condition = f"{lower} >= {ast.unparse(index.upper)}" if index.upper else ""
            elif ast.unparse(part.value) in tensors:
                condition = f"{ast.unparse(index)} >= {ast.unparse(part.value)}.shape[{axis}]"
            if condition:
                yield ast.If(_expression(condition), [ast.Continue() if in_loop else ast.Return()], [])


def _before(gap: Gap, around: Sequence[Gap], gaps: Sequence[Gap]) -> list[Gap]:
    """Return the places before a statement and before those around it, and before the branches and loops above."""
    blocks = (ast.If, ast.For, ast.While)
    above = [other for other in reversed(gaps) if isinstance(other.beside, blocks) and _ends_above(other, gap)]
    same_block = [other for other in above if any(other.owner is place.owner for place in around)]
    return [*around[:1], *same_block, *around[1:]]


def _ends_above(gap: Gap, other: Gap) -> bool:
    return (gap.beside.end_lineno or 0) < other.beside.lineno


def _first_writes(
    gap: Gap, places: Sequence[Gap], allocations: Mapping[str, Gap], *, with_others: bool
) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield zeros for what a call reads, and copies of other buffers to it."""
    if not (call := _call_of(gap.beside)):
        return
    for operand in (operand for operand in call.args[1:] if names_in(operand)):
        buffer = _whole(operand)
        allocation = allocations.get(ast.unparse(buffer))
        at = [*places, *([allocation.below] if allocation else [])]
        yield from ((place, _call(call.func.value, "write_zero", buffer)) for place in at)
        others = map(_expression, allocations) if with_others and allocation else ()
        yield from ((place, _call(call.func.value, "move", buffer, other)) for other in others for place in places)


def _repeated(gap: Gap, calls: Collection[ast.stmt]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield calls of other lines that read what a statement writes, below it."""
    own = _call_of(gap.beside)
    written = {*names_in(*own.args[:1])} if own else set()
    for statement in calls:
        other = _call_of(statement)
        if statement is not gap.beside and not written.isdisjoint(names_in(*other.args[1:])):
            yield gap.below, statement


def _instructions(
    gap: Gap, calls: Collection[ast.stmt], buffers: Collection[str], tensors: Collection[str]
) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield instructions on what a call reads, before it: on what nothing else writes, with what nothing else reads."""
    if not (own := _call_of(gap.beside)):
        return
    others = [call for statement in calls if (call := _call_of(statement)).args]
    results = {ast.unparse(call.args[0]): call.args[0] for call in others}
    written = {ast.unparse(_whole(result)) for result in results.values()}
    read = {ast.unparse(_whole(operand)) for call in others for operand in call.args[1:]}
    names = ((operand, ast.unparse(_whole(operand))) for operand in own.args[1:] if names_in(operand))
    for operand, buffer in ((operand, name) for operand, name in names if name not in tensors):
        if buffer in buffers and buffer not in written:
            yield from (
                (gap, _call(own.func.value, name, operand, source)) for source in results.values() for name in _UNARY
            )
        for name, source in ((ast.unparse(_whole(result)), result) for result in results.values()):
            if name in buffers and name not in read:
                yield from ((gap, _call(own.func.value, method, operand, operand, source)) for method in _BINARY)
        yield from ((gap, _call(own.func.value, name, operand, operand)) for name in _UNARY[1:])


def _updates(gaps: Sequence[Gap]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield assignments at the end of a loop to what has a value before it and is read, but never set in it."""
    assigned = [(name, gap.beside) for gap in gaps for name in _set_by(gap.beside)]
    for loop in (gap.beside for gap in gaps if isinstance(gap.beside, ast.For | ast.While)):
        inside = {name: node for name, node in assigned if _is_around(loop, node)}
        inside |= dict.fromkeys(names_in(loop.target), loop) if isinstance(loop, ast.For) else {}
        before = {name: node for name, node in assigned if node.lineno < loop.lineno and _begins(node, name)}
        read = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        gap = Gap(loop, "body", len(loop.body), loop.body[-1], "after")
        for name in (name for name in before if name in read and name not in inside):
            texts = [*(f"{name} = {other}" for other in inside), *(f"{name} {step}" for step in _STEPS)]
            yield from ((gap, syntax_tree(text).body[0]) for text in texts)


def _begun_again(gaps: Sequence[Gap]) -> Iterator[tuple[Gap, ast.stmt]]:
    """Yield the first values of sums at the beginning of a loop around them."""
    for loop in (gap.beside for gap in gaps if isinstance(gap.beside, ast.For | ast.While)):
        inside = [gap.beside for gap in gaps if gap.beside is not loop and _is_around(loop, gap.beside)]
        sums = {name for node in inside if isinstance(node, ast.AugAssign) for name in names_in(node.target)}
        sums -= {name for node in inside if isinstance(node, ast.Assign) for name in names_in(*node.targets)}
        for before in (gap.beside for gap in gaps if gap.beside.lineno < loop.lineno):
            if any(_begins(before, name) for name in sums.intersection(_set_by(before))):
                yield Gap(loop, "body", 0, loop.body[0]), before


def _set_by(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.Assign) and not allocated_by(statement):
        return names_in(*statement.targets)
    return names_in(statement.target) if isinstance(statement, ast.AugAssign) else []


def _begins(statement: ast.stmt, name: str) -> bool:
    """Return whether an assignment gives a name another name's value, or one without names but that of a module."""
    if not isinstance(statement, ast.Assign):
        return False
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        value = next(
            (element for at, element in zip(target.elts, value.elts, strict=False) if names_in(at) == [name]), value
        )
    return isinstance(value, ast.Name) or (
        not any(isinstance(node, ast.Call | ast.Tuple) for node in ast.walk(value))
        and {*names_in(value)} <= {"math", "np", "numpy"}
    )


def _sums_in(statement: ast.stmt) -> Iterator[Any]:
    """Yield the instructions in a loop or statement whose result is also an operand."""
    nodes: Iterator[Any] = ast.walk(statement)
    for node in nodes:
        if method_of(node) in ("add", "sub", "maximum", "minimum") and node.args:
            texts = [ast.unparse(argument) for argument in node.args]
            if texts[0] in texts[1:]:
                yield node


def _call(core: ast.expr, method: str, *operands: ast.expr) -> ast.Expr:
    """Return a call of a method of a core."""
    return ast.Expr(ast.Call(ast.Attribute(core, method, ast.Load()), list(operands), []))


def _expression(text: str) -> ast.expr:
    statement: Any = syntax_tree(text).body[0]
    return statement.value  # type: ignore[no-any-return]  # an expression


def _whole(operand: Any) -> Any:
    """Return the buffer that an operand is a part of."""
    while isinstance(operand, ast.Subscript):
        operand = operand.value
    return operand


def _call_of(statement: ast.AST) -> Any:
    """Return the call of a method of the core that is a statement, awaited or not; None if it is none."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    value = value.value if isinstance(value, ast.Await) else value
    return value if hasattr(Core, method_of(value)) else None


def _is_elif(block: Sequence[ast.stmt]) -> bool:
    return len(block) == 1 and isinstance(block[0], ast.If)
