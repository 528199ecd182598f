"""Names of numbers and buffers, and indices, that may be mistaken for others in the source of a kernel."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

from mlusim.verifier.changes.functions import Definition
from mlusim.verifier.changes.other_numbers import NUMBERS_OF_A_CORE, other_numbers
from mlusim.verifier.changes.syntax_parts import Part, Place, allocates, method_of, names_in, places_in, plus

# What has an index, the number of its axis, and whether the index is a slice.
_Axis = tuple[str, int | None, bool]
_WITH_NUMBERS = (ast.Subscript, ast.Call, ast.keyword, ast.Compare, ast.Assign)


@dataclass(frozen=True, slots=True)
class Names:
    """The names in a function.

    Attributes:
        related: by the name of a number, those in an assignment to it; of a loop variable, the others.
        counters: loop variables, and the numbers of a task or core: what an index may be.
        numbers: by name of a number, the line from which on it has a value.
        buffers: names of allocations.
        loops: by variable, its loops.
        indices: by axis, the different indices.
    """

    related: Mapping[str, Collection[str]]
    counters: Collection[ast.expr]
    numbers: Mapping[str, int]
    buffers: Collection[str]
    loops: Mapping[str, Collection[ast.For]]
    indices: Mapping[_Axis, Collection[ast.expr]]

    @classmethod
    def of(cls, function: Definition) -> Names:
        """Return those of a function."""
        nodes = list(ast.walk(function))
        loops: dict[str, list[ast.For]] = defaultdict(list)
        for loop in reversed([node for node in nodes if isinstance(node, ast.For)]):  # the innermost first
            for name in names_in(loop.target):
                loops[name].append(loop)
        indices: dict[_Axis, dict[str, ast.expr]] = defaultdict(dict)
        for node in (node for node in nodes if isinstance(node, ast.Subscript)):
            for place in places_in(node):
                indices[_axis(node, place)].setdefault(ast.unparse(place.content), place.content)
        core_ids = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in NUMBERS_OF_A_CORE[0]]
        assignments = [node for node in nodes if isinstance(node, ast.Assign)]
        numbers = _names_of_numbers(nodes, assignments, loops)
        related = _related(assignments, loops, numbers)
        counters = [*(ast.Name(name, ast.Load()) for name in loops if name in numbers), *core_ids]
        given_at = {name: min((loop.lineno for loop in loops.get(name, ())), default=0) for name in numbers}
        for assignment in reversed(assignments):
            given_at |= {name: assignment.lineno for name in names_in(*assignment.targets) if name in numbers}
        return cls(
            related,
            {ast.unparse(counter): counter for counter in counters}.values(),
            given_at,
            [name for node in assignments if allocates(node) for name in names_in(*node.targets)],
            loops,
            {axis: by_text.values() for axis, by_text in indices.items()},
        )

    def likely_changes(self, node: ast.AST) -> Iterator[Part]:
        """Yield the indices of other lines, and related names in an index or argument, wherever they stand there."""
        for place in places_in(node) if isinstance(node, _WITH_NUMBERS) else ():
            same_axis = self.indices[_axis(node, place)] if isinstance(node, ast.Subscript) else ()
            others = chain(same_axis, self._renamed(place.content), self._in_place_of(place.content, node))
            yield from self._known(node, place, others)

    def other_changes(self, node: ast.AST) -> Iterator[Part]:
        """Yield other buffers and numbers, indices of other buffers, and indices that lack a term."""
        for place in places_in(node) if isinstance(node, ast.Subscript) else ():
            yield from self._known(node, place, self._indices_elsewhere(place.content))
            used = ast.unparse(place.content)
            terms = (term for term in self._terms() if ast.unparse(term) not in used)
            yield from self._known(node, place, (_begun_at(place.content, term) for term in terms))
        for place in self._places_of_buffers(node):
            names = (name for name in self.buffers if name != place.content.id)
            yield from (Part(place, ast.Name(name, ast.Load())) for name in names)
        for place in places_in(node):
            if self._is_number(place.content):
                yield from self._known(node, place, self._terms())

    def _places_of_buffers(self, node: Any) -> Iterator[Place]:
        """Yield where a call reads a buffer, and where a buffer has an index."""
        places = [place for place in places_in(node) if place.index] if isinstance(node, ast.Call) else []
        places += [Place(node, "value")] if isinstance(node, ast.Subscript) else []
        return (place for place in places if isinstance(place.content, ast.Name) and place.content.id in self.buffers)

    def _known(self, node: Any, place: Place, others: Iterator[ast.expr]) -> Iterator[Part]:
        """Yield what may stand at a place, of names that have a value there."""
        return (Part(place, other) for other in others if self._are_known(names_in(other), node))

    def _are_known(self, names: Collection[str], node: Any) -> bool:
        """Return whether names have a value at a node: loop variables in their loops, others below an assignment."""
        line = getattr(node, "lineno", 0)
        around = (self.loops[name] for name in names if name in self.loops)
        in_loops = all(any(loop.lineno <= line <= (loop.end_lineno or 0) for loop in loops) for loops in around)
        return in_loops and all(self.numbers.get(name, 0) <= line for name in names)

    def _is_number(self, node: Any) -> bool:
        """Return whether a node is the value of a number or counter."""
        if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
            return False
        return ast.unparse(node) in (*self.numbers, *map(ast.unparse, self.counters))

    def _terms(self) -> Iterator[ast.expr]:
        """Yield the counters, and then the names of other numbers."""
        yield from self.counters
        yield from (ast.Name(name, ast.Load()) for name in self.numbers if name not in self.loops)

    def _renamed(self, content: Any) -> Iterator[ast.expr]:
        names = names_in(content) if isinstance(content, ast.Name | ast.BinOp | ast.Slice) else ()
        for before, after in ((name, other) for name in dict.fromkeys(names) for other in self.related.get(name, ())):
            changed = deepcopy(content)
            for name in ast.walk(changed):
                if isinstance(name, ast.Name) and name.id == before:
                    name.id = after
            yield changed

    def _in_place_of(self, content: Any, node: ast.AST) -> Iterator[ast.expr]:
        """Yield names in place of a number, and slices from a name on."""
        is_index = isinstance(node, ast.Subscript | ast.keyword)
        if is_index and isinstance(content, ast.Constant) and type(content.value) is int:
            yield from self.counters
        if isinstance(content, ast.Slice) and content.lower is None and isinstance(content.upper, ast.Name):
            for start in (ast.Name(name, ast.Load()) for name in self.related.get(content.upper.id, ())):
                yield _begun_at(content, start)

    def _indices_elsewhere(self, content: Any) -> Iterator[ast.expr]:
        """Yield the indices of other buffers; in place of a constant, also those one before or after."""
        is_slice = isinstance(content, ast.Slice)
        alike = [index for axis, indices in self.indices.items() for index in indices if axis[2] == is_slice]
        variable = {ast.unparse(index): index for index in alike if names_in(index)}
        yield from variable.values()
        if isinstance(content, ast.Constant):
            yield from chain.from_iterable(map(other_numbers, variable.values()))


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
    loaded = (
        node for node in assignments if isinstance(node.value, ast.Await) and method_of(node.value.value) == "load"
    )
    names |= dict.fromkeys(name for node in loaded for name in names_in(*node.targets))
    objects = (node for node in nodes if isinstance(node, ast.Subscript | ast.Attribute))
    of_objects = {node.value.id for node in objects if isinstance(node.value, ast.Name)}
    return {name: None for name in names if name not in of_objects}


def _related(
    assignments: Collection[ast.Assign], loops: Collection[str], numbers: Collection[str]
) -> dict[str, Collection[str]]:
    groups: list[tuple[Collection[str], Collection[str]]] = [(loops, loops)]
    groups += [(names_in(*node.targets), names_in(*node.targets, node.value)) for node in assignments]
    related: dict[str, dict[str, None]] = {name: {} for name in numbers}
    for name, other in ((name, other) for group, others in groups for name in group for other in others):
        if name != other and name in related and other in related:
            related[name][other] = related[other][name] = None
    return {name: list(others) for name, others in related.items()}


def _axis(node: ast.Subscript, place: Place) -> _Axis:
    return ast.unparse(node.value), place.index, isinstance(place.content, ast.Slice)
