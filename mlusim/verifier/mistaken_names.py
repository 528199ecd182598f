"""Names of numbers, and indices, that may be mistaken for others in the source of a kernel."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

from mlusim.verifier.functions import Definition

# Part of a node: a field, and the index in it; and what stands there after a change.
Place = tuple[Any, str, int | None]
Part = tuple[Place, Any]
# What has an index, the number of its axis, and whether the index is a slice.
_Axis = tuple[str, int | None, bool]
# Numbers of a core that are easily mistaken for each other.
NUMBERS_OF_A_CORE = (("task_id", "core_id", "cluster_id"), ("task_dim", "core_dim", "cluster_dim"))
_WITH_NUMBERS = (ast.Subscript, ast.Call, ast.keyword, ast.Compare, ast.Assign)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of numbers in a function.

    Attributes:
        alike: by the name of a number, those in an assignment to it; of a loop variable, the others.
        turns: what an index may be: loop variables, and the numbers of a task or core.
        loops: by variable, its loops.
        indices: by axis, the different indices.
    """

    alike: Mapping[str, Collection[str]]
    turns: Collection[ast.expr]
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
        for index in (node for node in nodes if isinstance(node, ast.Subscript)):
            for place, held in _held(index):
                indices[_axis(index, place, held)].setdefault(ast.unparse(held), held)
        ids = [node for node in nodes if isinstance(node, ast.Attribute) and node.attr in NUMBERS_OF_A_CORE[0]]
        alike = _alike(nodes, loops)
        turns = [*(ast.Name(name, ast.Load()) for name in loops if name in alike), *ids]
        return cls(
            alike,
            {ast.unparse(turn): turn for turn in turns}.values(),
            loops,
            {axis: found.values() for axis, found in indices.items()},
        )

    def changes(self, node: ast.AST) -> Iterator[Part]:
        """Yield the indices of other lines, and other names in an index or argument, wherever they stand there."""
        for place, held in _held(node) if isinstance(node, _WITH_NUMBERS) else ():
            alike = self.indices[_axis(node, place, held)] if isinstance(node, ast.Subscript) else ()
            others = chain(alike, self._renamed(held), self._in_place_of(held, node))
            yield from ((place, other) for other in others if self._are_known(names_in(other), node))

    def _are_known(self, names: Collection[str], node: Any) -> bool:
        """Return whether the loops of variables are around a node."""
        loops = (self.loops[name] for name in names if name in self.loops)
        return all(any(one.lineno <= node.lineno <= (one.end_lineno or 0) for one in ones) for ones in loops)

    def _renamed(self, held: Any) -> Iterator[ast.expr]:
        names = names_in(held) if isinstance(held, ast.Name | ast.BinOp | ast.Slice) else ()
        for before, after in ((name, other) for name in dict.fromkeys(names) for other in self.alike.get(name, ())):
            changed = deepcopy(held)
            for name in ast.walk(changed):
                if isinstance(name, ast.Name) and name.id == before:
                    name.id = after
            yield changed

    def _in_place_of(self, held: Any, node: ast.AST) -> Iterator[ast.expr]:
        """Yield names in place of a number, and slices from a name on."""
        is_index = isinstance(node, ast.Subscript | ast.keyword)
        if is_index and isinstance(held, ast.Constant) and type(held.value) is int:
            yield from self.turns
        if isinstance(held, ast.Slice) and held.lower is None and isinstance(held.upper, ast.Name):
            for start in (ast.Name(name, ast.Load()) for name in self.alike.get(held.upper.id, ())):
                yield ast.Slice(start, ast.BinOp(start, ast.Add(), held.upper))


def names_in(*nodes: ast.AST) -> list[str]:
    """Return the names in expressions."""
    return [one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)]


def _alike(nodes: Collection[ast.AST], loops: Collection[str]) -> dict[str, Collection[str]]:
    numeric = (held for node in nodes if isinstance(node, ast.BinOp | ast.Slice) for _, held in _held(node))
    numbers = {*loops, *(held.id for held in numeric if isinstance(held, ast.Name))}
    objects = (node for node in nodes if isinstance(node, ast.Subscript | ast.Attribute))
    numbers -= {node.value.id for node in objects if isinstance(node.value, ast.Name)}
    assigned = (node for node in nodes if isinstance(node, ast.Assign))
    groups = [(loops, loops), *((names_in(*one.targets), names_in(*one.targets, one.value)) for one in assigned)]
    found: dict[str, dict[str, None]] = {name: {} for name in numbers}
    for name, other in ((name, other) for group, others in groups for name in group for other in others):
        if name != other and {name, other} <= numbers:
            found[name][other] = found[other][name] = None
    return {name: list(others) for name, others in found.items()}


def _held(node: Any) -> Iterator[tuple[Place, Any]]:
    """Yield the expressions right in a node, with their places; of what has an index, the index of each axis."""
    if isinstance(node, ast.Subscript):
        node, fields = (node.slice, ["elts"]) if isinstance(node.slice, ast.Tuple) else (node, ["slice"])
    else:
        fields = node._fields
    for field in fields:
        value = getattr(node, field)
        if isinstance(value, list):
            yield from (((node, field, at), one) for at, one in enumerate(value))
        else:
            yield (node, field, None), value


def _axis(node: ast.Subscript, place: Place, held: ast.expr) -> _Axis:
    return ast.unparse(node.value), place[2], isinstance(held, ast.Slice)
