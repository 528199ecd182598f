"""Names of numbers and buffers, and indices, that may be mistaken for others in the source of a kernel."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from mlusim.cores.core import Core
from mlusim.memory.view import View
from mlusim.verifier.changes.functions import Definition
from mlusim.verifier.changes.other_numbers import NUMBERS_OF_A_CORE, is_number, more, other_numbers
from mlusim.verifier.changes.syntax_parts import Part, Place, allocated_by, method_of, names_in, places_in, plus

# What has an index, the number of its axis, and whether the index is a slice.
_Axis = tuple[str, int, bool]
_WITH_NUMBERS = (ast.Subscript, ast.Call, ast.keyword, ast.Compare, ast.Assign, ast.AugAssign)


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a function.

    Attributes:
        related: by the text of a number, those in an assignment to it; of a loop variable, the others; of a number of a
            core, the others alike, and of an id the loop variables; of an attribute, the others of its object.
        counters: loop variables, and the numbers of a task or core: what an index may be.
        numbers: by name of a number, the line from which on it has a value.
        tensors: names of parameters of operands.
        buffers: names of other operands.
        scopes: by variable of a loop, comprehension or inner function, where it has a value.
        indices: by axis, the different indices.
        parts: by name of a buffer, its different parts.
    """

    related: Mapping[str, Collection[ast.expr]]
    counters: Collection[ast.expr]
    numbers: Mapping[str, int]
    tensors: Collection[str]
    buffers: Collection[str]
    scopes: Mapping[str, Collection[Any]]
    indices: Mapping[_Axis, Collection[ast.expr]]
    parts: Mapping[str, Collection[ast.expr]]

    @classmethod
    def of(cls, function: Definition) -> Names:
        """Return those of a function."""
        nodes = list(ast.walk(function))
        loops = list(
            dict.fromkeys(name for node in nodes if isinstance(node, ast.For) for name in names_in(node.target))
        )
        indices: dict[_Axis, dict[str, ast.expr]] = defaultdict(dict)
        parts: dict[str, dict[str, ast.expr]] = defaultdict(dict)
        for node in (node for node in nodes if isinstance(node, ast.Subscript)):
            parts[ast.unparse(node.value)].setdefault(ast.unparse(node), node)
            for place in places_in(node):
                indices[_axis(node, place)].setdefault(ast.unparse(place.content), place.content)
        core_ids = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in NUMBERS_OF_A_CORE[0]]
        assignments = [node for node in nodes if isinstance(node, ast.Assign)]
        numbers = _names_of_numbers(nodes, assignments, loops)
        alike = [ast.Attribute(node.value, name, ast.Load()) for node in core_ids for name in NUMBERS_OF_A_CORE[0]]
        counters = [*(ast.Name(name, ast.Load()) for name in loops if name in numbers), *core_ids, *alike]
        scopes = _scopes(function)
        operands = [name for name in _names_of_operands(nodes, assignments) if name not in numbers]
        parameters = [argument.arg for node in nodes if isinstance(node, ast.arguments) for argument in node.args]
        unused = set(parameters).difference(node.id for node in nodes if isinstance(node, ast.Name))
        given_at = {name: min((scope.lineno for scope in scopes.get(name, ())), default=0) for name in numbers}
        for assignment in reversed(assignments):
            given_at |= {name: assignment.lineno for name in names_in(*assignment.targets) if name in numbers}
        return cls(
            _related(nodes, assignments, counters, numbers),
            {ast.unparse(counter): counter for counter in counters}.values(),
            given_at,
            [name for name in parameters if name in operands or name in unused],
            [name for name in operands if name not in parameters],
            scopes,
            {axis: by_text.values() for axis, by_text in indices.items()},
            {name: by_text.values() for name, by_text in parts.items()},
        )

    def likely_changes(self, node: ast.AST) -> Iterator[Part]:
        """Yield other tensors and buffers, the indices of other lines, and related names, wherever they stand there."""
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            yield from (Part(Place(node, "value"), other) for other in self._renamed(node.value))
        for place in places_in(node) if isinstance(node, _WITH_NUMBERS) else ():
            same_axis = self.indices[_axis(node, place)] if isinstance(node, ast.Subscript) else ()
            others = chain(same_axis, self._renamed(place.content), self._in_place_of(place.content, node))
            yield from self._known(node, place, others)
        if isinstance(node, ast.Subscript):
            yield from (Part(Place(node, "slice"), swapped) for swapped in self._with_swapped_counters(node.slice))
        for operands in (self.tensors, self.buffers):
            for place in self._places_of(operands, node):
                yield from self._others(operands, place)
        for place in self._places_of({*self.tensors, *self.buffers}, node):
            yield from self._known(
                node, place, self.parts.get(place.content.id, ()) if isinstance(node, ast.Call) else ()
            )
        if isinstance(node, ast.Assign | ast.AugAssign):
            place = Place(node.value, "left") if _is_sum(node.value) else Place(node, "value")
            is_step = isinstance(node, ast.AugAssign) and bool(names_in(node.value)) and is_number(node.value)
            if is_step or ast.unparse(place.content) in map(ast.unparse, self.counters):
                factors = chain(self._extents(), (ast.Name(name, ast.Load()) for name in self.numbers))
                yield from self._known(
                    node, place, (ast.BinOp(place.content, ast.Mult(), factor) for factor in factors)
                )

    def other_changes(self, node: ast.AST) -> Iterator[Part]:
        """Yield other numbers, indices of other buffers, and numbers that lack a term."""
        for place in places_in(node) if isinstance(node, ast.Subscript) else ():
            yield from self._known(node, place, self._indices_elsewhere(place.content))
            used = ast.unparse(place.content)
            terms = (term for term in self._terms() if ast.unparse(term) not in used)
            yield from self._known(node, place, (_begun_at(place.content, term) for term in terms))
        for place in places_in(node):
            if self._is_number(place.content):
                yield from self._known(node, place, self._terms())
                if isinstance(node, ast.Call) and hasattr(Core, method_of(node)):
                    terms = (term for term in self._terms() if names_in(place.content) != names_in(term))
                    yield from self._known(node, place, (plus(place.content, term) for term in terms))
                elif isinstance(node, ast.Call):
                    yield from (Part(place, more(place.content, step)) for step in (1, -1))

    def _places_of(self, operands: Collection[str], node: Any) -> Iterator[Place]:
        """Yield where a call reads one of some operands, and where one has an index."""
        first = 1 if hasattr(Core, method_of(node)) and len(node.args) > 1 else 0
        places = (
            [place for place in places_in(node) if (place.index or 0) >= first] if isinstance(node, ast.Call) else []
        )
        places += [Place(node, "value")] if isinstance(node, ast.Subscript) else []
        return (place for place in places if isinstance(place.content, ast.Name) and place.content.id in operands)

    def _others(self, operands: Collection[str], place: Place) -> Iterator[Part]:
        return (Part(place, ast.Name(name, ast.Load())) for name in operands if name != place.content.id)

    def _known(self, node: Any, place: Place, others: Iterable[ast.expr]) -> Iterator[Part]:
        """Yield what may stand at a place, of names that have a value there."""
        return (Part(place, other) for other in others if self._are_known(names_in(other), node))

    def _are_known(self, names: Collection[str], node: Any) -> bool:
        """Return whether names have a value at a node: those with a scope in it, others below an assignment."""
        line = getattr(node, "lineno", 0)
        around = (self.scopes[name] for name in names if name in self.scopes)
        in_scope = all(any(scope.lineno <= line <= scope.end_lineno for scope in scopes) for scopes in around)
        return in_scope and all(self.numbers.get(name, 0) <= line for name in names)

    def _is_number(self, node: Any) -> bool:
        """Return whether a node is the value of a number or counter, or the size of a tensor."""
        if isinstance(node, ast.Attribute) and node.attr == "size":
            return ast.unparse(node.value) in self.tensors
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return False
        return ast.unparse(node) in (*self.numbers, *map(ast.unparse, self.counters))

    def _terms(self) -> Iterator[ast.expr]:
        """Yield the counters, and then the names of other numbers."""
        yield from self.counters
        yield from (ast.Name(name, ast.Load()) for name in self.numbers if name not in self.scopes)

    def _extents(self) -> Iterator[ast.expr]:
        """Yield the factors that a number of a core or iteration may lack: the numbers of cores and clusters."""
        cores = {
            ast.unparse(counter.value): counter.value for counter in self.counters if isinstance(counter, ast.Attribute)
        }
        yield from (
            ast.Attribute(core, name, ast.Load()) for core in cores.values() for name in ("core_dim", "cluster_dim")
        )

    def _renamed(self, content: Any) -> Iterator[ast.expr]:
        if not isinstance(content, ast.Name | ast.Attribute | ast.BinOp | ast.Slice):
            return
        for before in dict.fromkeys(_texts_in(content)):
            for after in self.related.get(before, ()):
                yield _Renaming({before: after}).visit(deepcopy(content))

    def _with_swapped_counters(self, content: ast.expr) -> Iterator[ast.expr]:
        used = [counter for counter in self.counters if ast.unparse(counter) in _texts_in(content)]
        for first, second in combinations(used, 2):
            yield _Renaming({ast.unparse(first): second, ast.unparse(second): first}).visit(deepcopy(content))

    def _in_place_of(self, content: Any, node: ast.AST) -> Iterator[ast.expr]:
        """Yield names in place of a number, and slices from a name on."""
        is_index = isinstance(node, ast.Subscript | ast.keyword)
        if is_index and isinstance(content, ast.Constant) and type(content.value) is int:
            yield from self.counters
        if isinstance(content, ast.Slice) and content.lower is None and isinstance(content.upper, ast.Name):
            yield from (_begun_at(content, start) for start in self.related.get(content.upper.id, ()))

    def _indices_elsewhere(self, content: Any) -> Iterator[ast.expr]:
        """Yield the indices of other buffers; in place of a constant, also those one before or after."""
        is_slice = isinstance(content, ast.Slice)
        alike = [index for axis, indices in self.indices.items() for index in indices if axis[2] == is_slice]
        variable = {ast.unparse(index): index for index in alike if names_in(index)}
        yield from variable.values()
        if isinstance(content, ast.Constant):
            yield from chain.from_iterable(map(other_numbers, variable.values()))


class _Renaming(ast.NodeTransformer):
    """Puts other expressions in place of names and attributes, by their text."""

    def __init__(self, others: Mapping[str, ast.expr]) -> None:
        self._others = others

    def visit(self, node: ast.AST) -> Any:
        """Return what stands in place of a node that is read."""
        is_read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        other = self._others.get(ast.unparse(node)) if is_read else None
        return self.generic_visit(node) if other is None else deepcopy(other)


def _texts_in(content: ast.AST) -> list[str]:
    return [ast.unparse(node) for node in ast.walk(content) if isinstance(node, ast.Name | ast.Attribute)]


def _scopes(function: Definition) -> dict[str, list[Any]]:
    """Return by variable of a loop, comprehension or inner function the nodes in which it has a value."""
    scopes: dict[str, list[Any]] = defaultdict(list)
    for node in ast.walk(function):
        if isinstance(node, ast.For):
            names = names_in(node.target)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            names = names_in(*(generator.target for generator in node.generators))
        elif isinstance(node, Definition) and node is not function:
            names = [argument.arg for argument in node.args.args]
        else:
            continue
        for name in names:
            scopes[name].append(node)
    return scopes


def _is_sum(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)


def _begun_at(content: Any, term: ast.expr) -> ast.expr:
    """Return an index, or a slice, with another term."""
    if not isinstance(content, ast.Slice):
        return plus(content, term)
    return ast.Slice(plus(content.lower, term), content.upper and plus(content.upper, term))


def _names_of_numbers(
    nodes: Collection[ast.AST], assignments: Collection[ast.Assign], loops: Collection[str]
) -> dict[str, None]:
    """Return the names of loop variables, operands of arithmetic and comparisons, indices, and loaded numbers."""
    holders = (node for node in nodes if isinstance(node, ast.BinOp | ast.Compare | ast.Slice | ast.Subscript))
    contents = (place.content for node in holders for place in places_in(node))
    names = dict.fromkeys((*loops, *(content.id for content in contents if isinstance(content, ast.Name))))
    given = (node for node in assignments if _is_loaded(node.value) or getattr(node.value, "attr", "") == "shape")
    names |= dict.fromkeys(name for node in given for name in names_in(*node.targets))
    objects = (node for node in nodes if isinstance(node, ast.Subscript | ast.Attribute))
    of_objects = {node.value.id for node in objects if isinstance(node.value, ast.Name)}
    slices = {name for node in assignments if "slice" in names_in(node.value) for name in names_in(*node.targets)}
    return {name: None for name in names if name not in of_objects | slices}


def _is_loaded(value: ast.expr) -> bool:
    return isinstance(value, ast.Await) and method_of(value.value) == "load"


def _names_of_operands(nodes: Collection[ast.AST], assignments: Collection[ast.Assign]) -> dict[str, None]:
    """Return the names of allocations, of what copies and instructions access, and of what is assigned with these."""
    names = dict.fromkeys(name for node in assignments for name in allocated_by(node))
    calls = [node for node in nodes if isinstance(node, ast.Call) and hasattr(Core, method_of(node))]
    operands = [operand for node in calls for operand in node.args]
    bases = [operand.value if isinstance(operand, ast.Subscript) else operand for operand in operands]
    names |= dict.fromkeys(base.id for base in bases if isinstance(base, ast.Name))
    targets = [names_in(*node.targets) for node in assignments if isinstance(node.targets[0], ast.Tuple)]
    return names | dict.fromkeys(name for group in targets if not names.keys().isdisjoint(group) for name in group)


def _related(
    nodes: Collection[ast.AST],
    assignments: Collection[ast.Assign],
    counters: Collection[ast.expr],
    numbers: Collection[str],
) -> dict[str, Collection[ast.expr]]:
    loops = [counter.id for counter in counters if isinstance(counter, ast.Name)]
    groups: list[tuple[Collection[str], Collection[str]]] = [(loops, loops)]
    groups += [(names_in(*node.targets), names_in(*node.targets, node.value)) for node in assignments]
    related: dict[str, dict[str, ast.expr]] = defaultdict(dict)
    for name, other in ((name, other) for group, others in groups for name in group for other in others):
        if name != other and name in numbers and other in numbers:
            related[name][other], related[other][name] = ast.Name(other, ast.Load()), ast.Name(name, ast.Load())
    attributes: list[Any] = [
        node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    ]
    for attribute in attributes:
        if group := next((names for names in NUMBERS_OF_A_CORE if attribute.attr in names), ()):
            alike: list[ast.expr] = [
                ast.Attribute(attribute.value, name, ast.Load()) for name in group if name != attribute.attr
            ]
            alike += [ast.Name(name, ast.Load()) for name in loops if name in numbers and group is NUMBERS_OF_A_CORE[0]]
            related[ast.unparse(attribute)] = {ast.unparse(other): other for other in alike}
        elif not hasattr(Core, attribute.attr) and not hasattr(View, attribute.attr):
            object_name = ast.unparse(attribute.value)
            alike = [
                other for other in attributes if other is not attribute and ast.unparse(other.value) == object_name
            ]
            related[ast.unparse(attribute)] = {ast.unparse(other): other for other in alike}
    return {text: list(others.values()) for text, others in related.items()}


def _axis(node: ast.Subscript, place: Place) -> _Axis:
    return ast.unparse(node.value), place.index or 0, isinstance(place.content, ast.Slice)
