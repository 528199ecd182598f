"""Changes of the source of a kernel in Python: another number, name, call or operand, or one more call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from types import CodeType, FunctionType
from typing import Any

from mlusim.cores.core import Kernel
from mlusim.source_code import syntax_tree, tree_of_function
from mlusim.verifier.changes.functions import Definition, compiled, functions_of, replaced
from mlusim.verifier.changes.missing_statements import Gap, barriers_in_branches, gaps_in, missing_statements
from mlusim.verifier.changes.mistaken_names import Names
from mlusim.verifier.changes.other_calls import changes_of_calls, clamped, other_barriers
from mlusim.verifier.changes.other_numbers import changes_of_numbers
from mlusim.verifier.changes.source_text import Text
from mlusim.verifier.changes.syntax_parts import Part, Place, changed, names_in
from mlusim.verifier.source_file import SourceLine

EVERY_OUTPUT = "every output is right"
_Parts = Callable[[Any], Iterator[Part]]
_PartsOf = Callable[["FunctionSource"], _Parts]


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A function with another expression, or one more statement, in it.

    Attributes:
        function: the function: that of the kernel, or one that it calls.
        node: its definition.
        parts: what changes in it.
        at: the line.
        new: what to write there.
        remedy: what to write in place of what.
    """

    function: FunctionType
    node: Definition
    parts: tuple[Part, ...]
    at: SourceLine
    new: str
    remedy: str

    @contextmanager
    def applied(self, kernel: Kernel) -> Iterator[Kernel]:
        """Change the kernel for a while."""
        with changed(self.parts):
            ast.fix_missing_locations(self.node)
            with replaced(self.function, self.node):
                yield kernel


def source_changes_of(
    kernel: Kernel, lines: Collection[SourceLine], near: Collection[SourceLine]
) -> Iterator[SourceChange]:
    """Yield changes of a kernel in Python, those of each kind in turn: of names, calls and numbers.

    Args:
        kernel: the kernel.
        lines: where an error is, the likeliest first.
        near: where operations made wrong elements, the nearest first.
    """
    sources = [source for function in functions_of(kernel) if (source := FunctionSource.of(function))]
    close = dict.fromkeys((*lines, *near))
    close |= dict.fromkeys(line for source in sources for line in source.definitions(close))
    rest = [line for source in sources for line in source.lines if line not in close]

    def by_line(parts: _PartsOf, at: Iterable[SourceLine]) -> list[Iterator[SourceChange]]:
        return [chain(*[source.changes(parts(source), line) for source in sources]) for line in at]

    def of_kind(parts: _PartsOf) -> Iterator[SourceChange]:
        first, *others = [*by_line(parts, close), iter(())]
        return _alternate([first, chain(*by_line(parts, rest)), *others])

    names = by_line(lambda source: source.names.likely_changes, close)
    other_names = by_line(lambda source: source.names.likely_changes, rest)
    likely = chain(*names[: len(lines)], _alternate(names[len(lines) :]), _alternate(other_names))
    kinds: list[_PartsOf] = [
        lambda _: changes_of_calls,
        lambda _: changes_of_numbers,
        lambda source: source.names.other_changes,
        lambda source: partial(clamped, function=source.node),
    ]
    insertions_in = (source.insertions([*close, *rest]) for source in sources)
    # Likely names twice, so that they get a larger share of the runs.
    return _distinct(_alternate((likely, likely, *map(of_kind, kinds), *insertions_in)))


def barrier_changes_of(kernel: Kernel, waited_for: Collection[str] = ()) -> Iterator[SourceChange]:
    """Yield the changes of a kernel that have another barrier in place of one.

    And, of those waited for, one moved out of an `if`, and one more.
    """
    sources = [source for function in functions_of(kernel) if (source := FunctionSource.of(function))]
    yield from (change for source in sources for change in source.changes(other_barriers))
    yield from (change for source in sources for change in source.barriers(waited_for))


def _distinct(changes: Iterable[SourceChange]) -> Iterator[SourceChange]:
    remedies = set()
    for change in changes:
        if change.remedy not in remedies:
            remedies.add(change.remedy)
            yield change


def _alternate(groups: Iterable[Iterator[SourceChange]]) -> Iterator[SourceChange]:
    """Yield one change of each group in turn, with one more group in each round, so that the first ones get most."""
    waiting, begun = iter(groups), list[Iterator[SourceChange]]()
    while True:
        begun += islice(waiting, 1)
        changes = [next(group, None) for group in begun]
        begun = [group for group, change in zip(begun, changes, strict=True) if change is not None]
        yield from (change for change in changes if change is not None)
        if not changes:
            return


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function with its definition, and the names in it."""

    function: FunctionType
    node: Definition
    names: Names
    text: Text

    @classmethod
    def of(cls, function: FunctionType) -> FunctionSource | None:
        """Return the source of a function; None if it cannot be read, or no longer is what its file says."""
        node = definition_of(function)
        if node is None or not _is_source_of(function, node):
            return None
        return cls(function, node, Names.of(node), Text(function.__code__.co_filename, node))

    @property
    def lines(self) -> list[SourceLine]:
        """The lines of its statements."""
        return [self.line_of(node) for node in ast.walk(self.node) if isinstance(node, ast.stmt)]

    def line_of(self, node: ast.AST) -> SourceLine:
        """Return the line on which an expression or statement begins."""
        return SourceLine(self.function.__code__.co_filename, getattr(node, "lineno", 0))

    def definitions(self, lines: Collection[SourceLine]) -> list[SourceLine]:
        """Return the lines of the assignments to names that some lines use, and of the loops over them."""
        nodes: list[Any] = list(ast.walk(self.node))
        used = {node.id for node in nodes if isinstance(node, ast.Name) and self.line_of(node) in lines}
        targets: dict[Any, list[ast.expr]] = {node: node.targets for node in nodes if isinstance(node, ast.Assign)}
        targets |= {node: [node.target] for node in nodes if isinstance(node, ast.AugAssign | ast.For)}
        return [self.line_of(node) for node in nodes if used.intersection(names_in(*targets.get(node, ())))]

    def changes(self, parts: _Parts, at: SourceLine | None = None) -> Iterator[SourceChange]:
        """Yield the changes of some parts of its expressions and statements; of those at a line, if one is given."""
        nodes: list[Any] = list(ast.walk(self.node))
        parents = {child: parent for parent in nodes for child in ast.iter_child_nodes(parent)}
        for node in nodes:
            line = self.line_of(node)
            if at is not None and line != at:
                continue
            for place, new_part in ((part.place, part.new) for part in parts(node)):
                shown, part = _shown(node, parents), Part(place, deepcopy(new_part))
                with changed([part]):
                    after = ast.unparse(shown)
                if after != ast.unparse(shown):
                    old, new = self.text.of_change(shown, part, after)
                    yield self._change([part], line, new, f"write `{new}` in place of `{old}` at {line.location}")

    def insertions(self, lines: Collection[SourceLine]) -> Iterator[SourceChange]:
        """Yield one more statement, which some lines may lack."""
        own_lines = [line.line for line in lines if line.file == self.function.__code__.co_filename]
        missing = missing_statements(self.node, own_lines)
        return (self._with_statement(gap, statement) for gap, statement in missing if gap.is_between_lines)

    def barriers(self, names: Collection[str]) -> Iterator[SourceChange]:
        """Yield barriers moved out of an `if`, and one more of some, at each place below the parameter of the core."""
        for gap, below in barriers_in_branches(self.node) if names else ():
            line, around, text = self.line_of(gap.beside), self.line_of(below.beside), ast.unparse(gap.beside)
            what = f"move `{text}` at {line.location} below the `if` at {around.location}"
            parts = [below.with_statement(gap.beside), Part(Place(gap.owner, gap.field, gap.index), ast.Pass())]
            yield self._change(parts, line, text, what)
        core = self.function.__code__.co_varnames[0] if self.function.__code__.co_argcount else ""
        for name in names if core and isinstance(self.node, ast.AsyncFunctionDef) else ():
            call = syntax_tree(f"async def _(): await {core}.{name}()").body[0]
            statement = call.body[0]  # type: ignore[attr-defined]  # of a definition
            yield from (self._with_statement(gap, statement) for gap in gaps_in(self.node) if gap.is_between_lines)

    def _with_statement(self, gap: Gap, statement: ast.stmt) -> SourceChange:
        line, text = self.line_of(gap.beside), ast.unparse(statement).replace("\n    ", " ")
        return self._change([gap.with_statement(statement)], line, text, f"write `{text}` {gap.side} {line.location}")

    def _change(self, parts: Sequence[Part], line: SourceLine, new: str, what: str) -> SourceChange:
        return SourceChange(self.function, self.node, tuple(parts), line, new, f"{what}: then {EVERY_OUTPUT}")


def _is_source_of(function: FunctionType, node: Definition) -> bool:
    """Return whether a function still is what its file says."""
    ours, theirs = compiled(function, node), function.__code__
    constants = [[value for value in code.co_consts if not isinstance(value, CodeType)] for code in (ours, theirs)]
    is_same = constants[0] == constants[1]
    return is_same and all(getattr(ours, name) == getattr(theirs, name) for name in ("co_code", "co_names"))


def _shown(node: Any, parents: Mapping[Any, Any]) -> Any:
    """Return an expression, or what is around it if its statement or condition has another of the same text.

    A slice, and the tuple of an index, are no expressions of their own: they are shown with what they index.
    """
    while isinstance(node, ast.Slice) or (isinstance(node, ast.Tuple) and isinstance(parents[node], ast.Subscript)):
        node = parents[node]
    around = node
    while not isinstance(around, ast.stmt) and not hasattr(parents[around], "body"):
        around = parents[around]
    return around if ast.unparse(around).count(ast.unparse(node)) > 1 else node


def definition_of(function: FunctionType) -> Definition | None:
    """Return the definition of a function, without its decorators; None if its source cannot be read."""
    tree, first = tree_of_function(function) or (ast.Module([], []), 0)
    node = next(iter(tree.body), None)
    if not isinstance(node, Definition) or node.name != function.__code__.co_name:
        return None
    ast.increment_lineno(node, first - 1)
    node.decorator_list = []
    return node
