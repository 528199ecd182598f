"""Source files, in Python or C++: lines, loops, branches and calls, and where a sync could stand between two lines."""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from pathlib import Path

from mlusim.source_code import source_name, syntax_tree
from mlusim.verifier import cpp_text

Lines = tuple[int, int]

_LOOP = re.compile(r"\b(?:for|while|do)\b")
_IF = re.compile(r"\bif\b")
_SWITCH = re.compile(r"\bswitch\b")
_EXIT = re.compile(r"\b(?:return|continue|break)\b")
# A call, or the definition of a function, also of a template.
_CALL = re.compile(r"\b(\w+)\s*(?:<[^<>;{}()]*>\s*)?\(")
_NO_CALLS = frozenset(
    {"if", "for", "while", "switch", "return", "sizeof", "constexpr", "catch", "decltype", "noexcept"}
)
_NO_CALLS |= {"alignas", "alignof", "requires", "static_assert"}
# The depth of calls that is searched.
_MOST_CALLERS = 3


@dataclass(frozen=True, slots=True, order=True)
class SourceLine:
    """A line of a source file.

    Attributes:
        file: its path.
        line: its number, from 1 on; 0 if it is unknown.
    """

    file: str
    line: int

    @property
    def is_compiled(self) -> bool:
        """Whether the line belongs to a compiled kernel."""
        return not self.file.startswith("<") and Path(self.file).suffix not in ("", ".py")

    @property
    def location(self) -> str:
        """`kernel.py:41`."""
        return location_of(self.file, self.line)

    @property
    def source(self) -> str:
        """The text of the line, stripped; empty if it cannot be read."""
        return linecache.getline(self.file, self.line).strip()


def location_of(file: str, line: int) -> str:
    """Return a line as text: `kernel.py:41`."""
    return f"{source_name(file)}:{line}"


def locations_of(lines: Iterable[SourceLine]) -> str:
    """Return lines as text, in the order of their files: `kernel.py:41, kernel.py:43 and kernel.py:50`."""
    locations = [line.location for line in sorted(lines)]
    return " and ".join([", ".join(locations[:-1]), *locations[-1:]] if locations[1:] else locations)


def either_of(lines: Iterable[SourceLine]) -> str:
    """Return lines as text, each once: `kernel.py:43 or kernel.py:41`."""
    return " or ".join(dict.fromkeys(line.location for line in lines))


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """The calls of helper functions of a file that a run recorded, also of those that the source does not call by name.

    Attributes:
        file: the file.
        by_line: by line of a helper function, the files and lines that called it.
        lambdas: lines whose operations were issued in a lambda.
    """

    file: str
    by_line: Mapping[int, Collection[tuple[str, int]]]
    lambdas: Collection[int]

    def callers(self, line: int) -> set[tuple[str, int]]:
        """Return the files and lines that called the function around a line; a lambda has no line but its own.

        What a comprehension issues is called by the function around it.
        """
        if line in self.lambdas:
            return set(self.by_line.get(line, ()))
        source = source_file(self.file)
        function = source.function(line)
        helper_lines = self.by_line.keys() - set(self.lambdas)
        calls = {call for at in helper_lines if source.function(at) == function for call in self.by_line[at]}
        return {(file, call) for file, call in calls if file != self.file or source.function(call) != function}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The structure of a source file, as ranges of lines; empty if it cannot be read.

    Attributes:
        loops: every loop.
        branches: both branches of every `if` with an `else`.
        conditional: every branch of every `if`.
        ifs: every `if`, with all of its branches.
        exits: the lines of `return`, `continue` and `break`, each with the function or loop whose rest it skips.
        continues: the lines of `continue` alone.
        functions: every function, with its name; in Python, that of a method begins with a dot.
        synchronous: the functions that cannot await anything.
        calls: the lines of calls, with the name of the function.
        single_calls: the lines that are one call of a variable, such as `job()`, and nothing else.
    """

    loops: tuple[Lines, ...]
    branches: tuple[tuple[Lines, Lines], ...]
    conditional: tuple[Lines, ...]
    ifs: tuple[Lines, ...]
    exits: tuple[tuple[int, Lines], ...]
    functions: tuple[tuple[Lines, str], ...]
    calls: tuple[tuple[int, str], ...]
    continues: tuple[int, ...] = ()
    synchronous: frozenset[Lines] = frozenset()
    single_calls: frozenset[int] = frozenset()

    def loop_around(self, one: int, other: int) -> Lines:
        """Return the first and the last line of the innermost loop around both lines; (0, 0) if there is none."""
        return max((loop for loop in self.loops if _within(one, loop) and _within(other, loop)), default=(0, 0))

    def loops_around(self, line: int) -> list[Lines]:
        """Return the first and the last line of every loop around a line, of its function and those around that."""
        return [loop for loop in self.loops if _within(line, loop)]

    def loop_repeated(self, line: int, following: int, recorded: RecordedCalls, *, once: bool) -> int:
        """Return the first line of the loop whose next iteration a task begins between two lines that it passes.

        It is 0 if there is none. Lines of a helper function count as those that call it, if only one order of these is
        possible.

        Args:
            line, following: the lines.
            recorded: the calls that the run recorded.
            once: the task passes both lines once. Then they may be the stages of a pipeline with one tile: in different
                iterations, if they are under different conditions.
        """
        for levels in product(self._call_levels(line, recorded), self._call_levels(following, recorded)):
            loops = {
                self.loop_around(one, other)[0]
                if other <= one or (once and self._under_different_conditions(one, other))
                else 0
                for one, other in product(*levels)
                if self._are_in_one_function(one, other)
            }
            if len(loops) == 1 and 0 not in loops:
                return loops.pop()
        return 0

    def _call_levels(self, line: int, recorded: RecordedCalls) -> Iterator[set[int]]:
        """Yield a line, the lines that call its function, and those that call the functions of these.

        The line of a lambda is left out: what is around it there does not repeat it. Calls outside loops count only if
        there are none in loops.
        """
        lines = {line}
        for _ in range(_MOST_CALLERS):
            if lines.isdisjoint(recorded.lambdas):
                yield lines
            calls = {call for line in lines for call in self._callers(line, recorded)}
            lines = {call for call in calls if self.loops_around(call)} or calls
            if not lines:
                return

    def _callers(self, line: int, recorded: RecordedCalls) -> list[int]:
        """Return the lines that call the function around a line by its name, or else those that the run recorded."""
        body, name = self.function(line)
        callers = [call for call, callee in self.calls if callee == name and not _within(call, body)]
        if callers and line not in recorded.lambdas:
            return callers
        return [call for file, call in recorded.callers(line) if file == recorded.file]

    def _under_different_conditions(self, one: int, other: int) -> bool:
        """Return whether both lines are in a branch of an `if` that does not contain the other line."""
        return all(
            any(_within(line, branch) and not _within(counterpart, branch) for branch in self.conditional)
            for line, counterpart in ((one, other), (other, one))
        )

    def function(self, line: int) -> tuple[Lines, str]:
        """Return the lines and the name of the innermost function around a line; (0, 0) and "" if there is none."""
        return max((function for function in self.functions if _within(line, function[0])), default=((0, 0), ""))

    def _are_in_one_function(self, one: int, other: int) -> bool:
        return self.function(one) == self.function(other)

    def can_wait(self, line: int, recorded: RecordedCalls) -> bool:
        """Return whether a sync may stand at a line: in Python, only a coroutine function awaits."""
        return line not in recorded.lambdas and self.function(line)[0] not in self.synchronous

    def exclude_each_other(self, one: int, other: int) -> bool:
        """Return whether two lines are in different branches of one `if`: a task that passes one skips the other."""
        return any(
            _within(one, first) and _within(other, second)
            for branches in self.branches
            for first, second in (branches, branches[::-1])
        )

    def on_separate_paths(self, one: int, other: int) -> bool:
        """Return whether no task passes both lines: an `if` separates them, or the branch of the upper one is left."""
        upper, lower = sorted((one, other))
        return self.exclude_each_other(one, other) or any(
            _within(upper, branch) and not _within(lower, branch) and self.may_skip(branch, lower)
            for branch in self.conditional
        )

    def line_passed_by_all(self, first: int, last: int) -> int:
        """Return the last line at which a barrier may stand between two lines of a function so that all tasks pass it.

        It is the first line of the outermost loop or `if` around the last line that is not around the first one, or of
        an earlier `if` in which tasks leave the function or the iteration; the last line if there is none, or if the
        two are in different branches.
        """
        if first >= last or self.exclude_each_other(first, last) or not self._are_in_one_function(first, last):
            return last
        outermost = self.begin_of_outermost(last, first)
        skipping_ifs = [block for block in self.ifs if self.may_skip(block, last)]
        return min(line for line in (outermost, *(block[0] for block in skipping_ifs), last) if first < line <= last)

    def line_before_conditions(self, line: int, other: int) -> int:
        """Return the first line of what decides whether a task passes a line, on the path that does not pass another.

        That is the outermost loop or `if` around the line that is not around the other one, or an earlier `if` of the
        path in which tasks leave the function or the iteration; the line itself if there is none.
        """
        outermost = self.begin_of_outermost(line, other)
        path = max((branch[0] for branch in self.conditional if _within(outermost, branch)), default=0)
        skipping_ifs = [block for block in self.ifs if self.may_skip(block, line)]
        earlier = [block[0] for block in skipping_ifs if path <= block[0] < outermost and not _within(other, block)]
        return min(earlier, default=outermost)

    def may_skip(self, block: Lines, line: int) -> bool:
        """Return whether a task may leave a part of the source so that it skips a line behind it."""
        return any(_within(exit_line, block) and _within(line, skipped) for exit_line, skipped in self.exits)

    def continues_before(self, line: int, loop: Lines) -> list[int]:
        """Return the lines of `continue` above a line that end an iteration of a loop."""
        return [at for at in self.continues if at < line and self.loop_around(at, at) == loop]

    def begin_of_outermost(self, line: int, other: int) -> int:
        """Return the first line of the outermost loop or `if` around a line and not around another one, or the line."""
        begins = (block[0] for block in (*self.loops, *self.ifs) if _within(line, block) and not _within(other, block))
        return min(begins, default=line)

    def decides(self, line: int, other: int) -> bool:
        """Return whether an `if` that begins at a line or below it is around another line."""
        return any(line <= begin <= other <= end for begin, end in self.ifs)

    def end_of_block(self, line: int, other: int) -> int:
        """Return the last line of the outermost loop or `if` between a line and another one, or the other."""
        return max((end for begin, end in (*self.loops, *self.ifs) if line <= begin <= other <= end), default=other)

    def is_passed_every_iteration(self, loop: Lines, line: int) -> bool:
        """Return whether a line of a loop is neither in a loop nor in a branch inside of it, nor skipped by others."""
        if self.may_skip((loop[0], line - 1), line):
            return False
        enclosing = [block for block in (*self.loops, *self.conditional) if _within(line, block)]
        return _within(line, loop) and all(block[0] <= loop[0] and block[1] >= loop[1] for block in enclosing)


def function_around(file: str, line: int) -> str:
    """Return the name of the innermost function around a line; "" if there is none, or no source."""
    return source_file(file).function(line)[1]


def _within(line: int, lines: Lines) -> bool:
    return lines[0] <= line <= lines[1]


@lru_cache(maxsize=64)
def source_file(file: str) -> SourceFile:
    """Return what a file consists of."""
    text = "".join(linecache.getlines(file))
    try:
        nodes = list(ast.walk(syntax_tree(text)))
    except (SyntaxError, ValueError):
        return _cpp_file(text)
    return _python_file(nodes)


def _python_file(nodes: Sequence[ast.AST]) -> SourceFile:
    loops = [_lines([node]) for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    if_nodes = [node for node in nodes if isinstance(node, ast.If)]
    branches = [(_lines(node.body), _lines(node.orelse)) for node in if_nodes if node.orelse]
    ifs = [_lines([node]) for node in if_nodes]
    conditional = [_lines(body) for node in if_nodes for body in (node.body, node.orelse) if body]
    methods = {body for node in nodes if isinstance(node, ast.ClassDef) for body in node.body}
    functions = [
        (_lines([node]), f".{node.name}" if node in methods else node.name)
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    calls = [(node.lineno, _callee_name(node.func)) for node in nodes if isinstance(node, ast.Call)]
    calls += _calls_of_parameters(nodes)
    returns = (node.lineno for node in nodes if isinstance(node, ast.Return))
    exits = _exits_of(returns, [body for body, _ in functions])
    exits += _exits_of((node.lineno for node in nodes if isinstance(node, ast.Continue | ast.Break)), loops)
    synchronous = frozenset(_lines([node]) for node in nodes if isinstance(node, ast.FunctionDef))
    single_calls = frozenset(
        node.lineno
        for node in nodes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name)
    )
    continues = tuple(node.lineno for node in nodes if isinstance(node, ast.Continue))
    ranges = tuple(loops), tuple(branches), tuple(conditional), tuple(ifs)
    return SourceFile(*ranges, exits, tuple(functions), tuple(calls), continues, synchronous, single_calls)


def use_texts(texts: Mapping[str, str]) -> None:
    """Let source files have these texts from now on: those of a saved run, whose files have no folder."""
    for file, text in texts.items():
        lines = text.splitlines(keepends=True)
        if not Path(file).is_absolute() and linecache.getlines(file) != lines:
            linecache.cache[file] = len(text), None, lines, file
            source_file.cache_clear()


def _calls_of_parameters(nodes: Sequence[ast.AST]) -> list[tuple[int, str]]:
    """Return the lines that call a parameter, with the names of the functions of the file that are passed for it."""
    defined = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    calls = []
    for passing_call in (node for node in nodes if isinstance(node, ast.Call)):
        function = defined.get(_callee_name(passing_call.func).removeprefix("."))
        if function is None:
            continue
        names = [parameter.arg for parameter in function.args.args if parameter.arg != "self"]
        arguments = dict(zip(names, passing_call.args, strict=False))
        arguments |= {str(keyword.arg): keyword.value for keyword in passing_call.keywords}
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and (value := arguments.get(_callee_name(call.func))) is not None:
                name = _callee_name(value)
                calls += [(call.lineno, name)] if name.removeprefix(".") in defined else []
    return calls


def _lines(statements: Sequence[ast.stmt]) -> Lines:
    return statements[0].lineno, statements[-1].end_lineno or statements[-1].lineno


def _callee_name(callee: ast.expr) -> str:
    return f".{callee.attr}" if isinstance(callee, ast.Attribute) else callee.id if isinstance(callee, ast.Name) else ""


def _cpp_file(text: str) -> SourceFile:
    code = cpp_text.without_comments(text)

    def lines(start: int, end: int) -> Lines:
        return code.count("\n", 0, start) + 1, code.count("\n", 0, end) + 1

    loops, branches, conditional, ifs, functions, calls = [], [], [], [], [], []
    for match in _LOOP.finditer(code):
        start = match.end() if match.group() == "do" else cpp_text.after_brackets(code, match.end())
        loops.append(lines(match.start(), cpp_text.end_of_statement(code, start)))
    for match in _IF.finditer(code):
        start = cpp_text.after_brackets(code, match.end())
        end = cpp_text.end_of_branch(code, start)
        conditional.append(lines(start, end))
        other = cpp_text.ELSE.match(code, end + 1)
        if other:
            conditional.append(lines(other.end(), cpp_text.end_of_statement(code, other.end())))
            branches.append((conditional[-2], conditional[-1]))
        ifs.append((lines(match.start(), match.start())[0], conditional[-1][1]))
    header_end = 0
    for match in (match for match in _CALL.finditer(code) if match[1] not in _NO_CALLS):
        opening = cpp_text.body_of(code, cpp_text.after_brackets(code, match.end() - 1))
        if opening < 0:
            calls.append((lines(match.start(), match.start())[0], match[1]))
        elif match.start() >= header_end:
            # What a constructor initialises looks like a function, too.
            functions.append((lines(match.start(), cpp_text.end_of_block(code, opening)), match[1]))
            header_end = opening
    switches = [(match.start(), cpp_text.after_brackets(code, match.end())) for match in _SWITCH.finditer(code)]
    skipped = {"return": [body for body, _ in functions] or [lines(0, len(code))], "continue": loops}
    skipped["break"] = [*loops, *(lines(start, cpp_text.end_of_statement(code, end)) for start, end in switches)]
    exit_statements = [(lines(match.start(), match.start())[0], match.group()) for match in _EXIT.finditer(code)]
    exits = tuple(chain.from_iterable(_exits_of([line], skipped[keyword]) for line, keyword in exit_statements))
    ranges = tuple(loops), tuple(branches), tuple(conditional), tuple(ifs)
    continues = tuple(line for line, keyword in exit_statements if keyword == "continue")
    return SourceFile(*ranges, exits, tuple(functions), tuple(calls), continues)


def _exits_of(lines: Iterable[int], blocks: Collection[Lines]) -> tuple[tuple[int, Lines], ...]:
    """Return lines that leave the innermost of some parts around them, with that part."""
    innermost = ((line, max((block for block in blocks if _within(line, block)), default=None)) for line in lines)
    return tuple((line, block) for line, block in innermost if block)
