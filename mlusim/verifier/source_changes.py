"""Changes of the numbers in the source of a kernel in Python: of bounds, conditions, variables and indices."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import partial, wraps
from types import CodeType, FunctionType, MethodType
from typing import Any

from mlusim.cores.core import Kernel
from mlusim.files import syntax_tree
from mlusim.verifier.source_file import SourceLine

EVERY_OUTPUT = "every output is right"
_ENCLOSING = "enclosing"
_CALLS = ("min", "max")
# Numbers of a core that are easily mistaken for each other.
_NUMBERS_OF_A_CORE = (("task_id", "core_id", "cluster_id"), ("task_dim", "core_dim", "cluster_dim"))
Definition = ast.AsyncFunctionDef | ast.FunctionDef


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A function with another number in it.

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

    def applied(self, kernel: Kernel) -> Kernel:
        """Return the kernel with the change."""
        function, of_kernel = self.function, _function_of(kernel)
        code = _compiled(function, self.node)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        closure = tuple(cells[name] for name in code.co_freevars)
        changed = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
        changed.__kwdefaults__ = function.__kwdefaults__
        if function is not of_kernel:
            names = of_kernel.__globals__ | {function.__name__: changed}
            changed = FunctionType(
                of_kernel.__code__, names, of_kernel.__name__, of_kernel.__defaults__, of_kernel.__closure__
            )
            changed.__kwdefaults__ = of_kernel.__kwdefaults__
        return _with_function(kernel, changed)


def _function_of(kernel: Any) -> Any:
    """Return the function of a kernel, which may be a method, or have some arguments already."""
    kernel = inspect.unwrap(kernel)
    if isinstance(kernel, partial):
        return _function_of(kernel.func)
    return kernel.__func__ if isinstance(kernel, MethodType) else kernel


def _with_function(kernel: Any, function: FunctionType) -> Kernel:
    """Return a kernel with another function."""
    kernel = inspect.unwrap(kernel)
    if isinstance(kernel, partial):
        return partial(_with_function(kernel.func, function), *kernel.args, **kernel.keywords)
    if isinstance(kernel, MethodType):
        return MethodType(function, kernel.__self__)
    return wraps(kernel)(function)


def _functions_of(kernel: Kernel) -> Iterator[FunctionType]:
    """Yield the function of a kernel in Python, and those of its file that it calls by their names."""
    function = _function_of(kernel)
    if not isinstance(function, FunctionType) or hasattr(function, "bangc_module"):
        return
    yield function
    for name in function.__code__.co_names:
        called = function.__globals__.get(name)
        if isinstance(called, FunctionType) and called.__code__.co_filename == function.__code__.co_filename:
            yield called


def _compiled(function: FunctionType, node: Definition) -> CodeType:
    """Return the code of a function with another definition."""
    file, name = function.__code__.co_filename, function.__code__.co_name
    outer = syntax_tree(f"def {_ENCLOSING}({', '.join(function.__code__.co_freevars)}): pass").body[0]
    outer.body = [node]  # type: ignore[attr-defined]  # of a definition
    code: Any = compile(ast.Module([outer], []), file, "exec", dont_inherit=True)
    for part in (_ENCLOSING, name):
        code = next(one for one in code.co_consts if isinstance(one, CodeType) and one.co_name == part)
    return code  # type: ignore[no-any-return]  # Any for the loop


def _is_source_of(function: FunctionType, node: Definition) -> bool:
    """Return whether a function still is what its file says."""
    ours, theirs = _compiled(function, node), function.__code__
    constants = [[one for one in code.co_consts if not isinstance(one, CodeType)] for code in (ours, theirs)]
    same = constants[0] == constants[1]
    return same and all(getattr(ours, name) == getattr(theirs, name) for name in ("co_code", "co_names"))


def source_changes_of(kernel: Kernel, lines: Collection[int], *, only_there: bool) -> Iterator[SourceChange]:
    """Yield changes of the bounds, conditions and variables of a kernel in Python, and of the indices on some lines.

    `only_there`: only of these lines.
    """
    for function in _functions_of(kernel):
        yield from _changes_of(function, lines, only_there=only_there)


def _changes_of(function: FunctionType, lines: Collection[int], *, only_there: bool) -> Iterator[SourceChange]:
    node = _definition(function.__code__)
    if node is None or not _is_source_of(function, node):
        return
    nodes: list[Any] = list(ast.walk(node))
    parents = {child: parent for parent in nodes for child in ast.iter_child_nodes(parent)}
    seen = set()
    for at, one in enumerate(nodes):
        if only_there and getattr(one, "lineno", 0) not in lines:
            continue
        for field, place in _numbers(one, lines):
            shown = nodes.index(_distinct(one, parents))
            for number in _others(_at(one, field, place)):
                changed = deepcopy(node)
                copies = list(ast.walk(changed))
                _put(copies[at], field, place, number)
                ast.fix_missing_locations(changed)
                old, new = ast.unparse(nodes[shown]), ast.unparse(copies[shown])
                if (old, new, one.lineno) not in seen:
                    seen.add((old, new, one.lineno))
                    line = SourceLine(function.__code__.co_filename, one.lineno)
                    text = f"write `{new}` in place of `{old}` at {line.location}: then {EVERY_OUTPUT}"
                    yield SourceChange(function, changed, line, new, text)


def _distinct(node: Any, parents: Mapping[Any, Any]) -> Any:
    """Return an expression, or what is around it if its statement or condition has another of the same text."""
    around = node
    while not isinstance(around, ast.stmt) and not hasattr(parents[around], "body"):
        around = parents[around]
    return around if ast.unparse(around).count(ast.unparse(node)) > 1 else node


def _definition(code: CodeType) -> Definition | None:
    """Return the definition of a function, without its decorators; None if its source cannot be read."""
    try:
        tree = syntax_tree("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, Definition) and node.name == code.co_name:
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if first == code.co_firstlineno:
                node.decorator_list = []
                return node
    return None


def _numbers(node: ast.AST, lines: Collection[int]) -> Iterator[tuple[str, int | None]]:
    """Yield where the numbers of an expression or statement are: a field, and the place in it."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        yield from (("args", place) for place in range(len(node.args)))
    elif isinstance(node, ast.Compare):
        yield "left", None
        yield from (("comparators", place) for place in range(len(node.comparators)))
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        yield from (("value.elts", place) for place, one in enumerate(node.value.elts) if _is_number(one))
    elif _has_a_number(node):
        yield "value", None
    elif isinstance(node, ast.Subscript) and node.lineno in lines:
        if isinstance(node.slice, ast.Tuple):
            yield from ((part, place) for place, one in enumerate(node.slice.elts) for part in _parts(one))
        else:
            yield from ((part, -1) for part in _parts(node.slice))


def _has_a_number(node: ast.AST) -> bool:
    """Return whether the value of an assignment, a `return` or an argument `cluster=` is a number."""
    if isinstance(node, ast.keyword):
        return node.arg == "cluster"
    if not isinstance(node, ast.Assign | ast.Return) or node.value is None:
        return False
    return _is_number(node.value) and (isinstance(node, ast.Return) or isinstance(node.targets[0], ast.Name))


def _parts(index: ast.expr) -> tuple[str, ...]:
    if not isinstance(index, ast.Slice):
        return ("slice",)
    return tuple(f"slice.{part}" for part in ("lower", "upper") if getattr(index, part) is not None)


def _at(node: Any, field: str, place: int | None) -> ast.expr:
    return _holder(node, field, place)[2]


def _put(node: Any, field: str, place: int | None, number: ast.expr) -> None:
    holder, key, _ = _holder(node, field, place)
    if isinstance(key, int):
        holder[key] = number
    else:
        setattr(holder, key, number)


def _holder(node: Any, field: str, place: int | None) -> tuple[Any, Any, ast.expr]:
    """Return what holds a number: a list and an index, or a node and a field; and the number."""
    name, _, part = field.partition(".")
    if name == "slice" and part:
        index = node.slice if place == -1 else node.slice.elts[place]
        return index, part, getattr(index, part)
    if name == "slice":
        return (node, "slice", node.slice) if place == -1 else (node.slice.elts, place, node.slice.elts[place])
    if name == "value" and part and place is not None:
        return node.value.elts, place, node.value.elts[place]
    if place is None:
        return node, name, getattr(node, name)
    values = getattr(node, name)
    return values, place, values[place]


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
    elif isinstance(number, ast.Call) and _is_number(number):
        for place, argument in enumerate(number.args):
            for other in _others(argument):
                yield ast.Call(number.func, [*number.args[:place], other, *number.args[place + 1 :]], [])
    elif _is_number(number):
        yield from (ast.BinOp(number, operator, ast.Constant(1)) for operator in (ast.Add(), ast.Sub()))
        if isinstance(number, ast.Attribute):
            alike = (name for names in _NUMBERS_OF_A_CORE if number.attr in names for name in names)
            yield from (ast.Attribute(number.value, name, number.ctx) for name in alike if name != number.attr)


def _sums(number: ast.BinOp) -> Iterator[ast.expr]:
    """Yield a sum or difference with one more or less."""
    if not isinstance(number.right, ast.Constant):
        yield from (ast.BinOp(left, number.op, number.right) for left in _others(number.left))
        if isinstance(number.left, ast.Constant):
            yield number.right
        if isinstance(number.right, ast.BinOp):
            yield from (ast.BinOp(number.left, number.op, right) for right in _others(number.right))
        return
    for right in _others(number.right):
        is_zero = isinstance(right, ast.Constant) and right.value == 0
        yield number.left if is_zero else ast.BinOp(number.left, number.op, right)
