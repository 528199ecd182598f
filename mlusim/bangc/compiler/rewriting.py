"""Rewriting of preprocessed BANG C to C++, preserving line numbers.

Constructs that are not C++ become calls of the headers: arrays with a memory space become references to bytes provided
by the simulator, `name<<<dim, type, queue>>>(...)` an object that launches, `__asm__` a call with the text of the
statement. Text of system headers is not examined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mlusim.bangc.calls import intrinsics
from mlusim.bangc.calls.host_calls import PARAMETERS, parameters_and_body
from mlusim.bangc.compiler.device_functions import FUNCTION_WORD, HOST_WORD, linkage
from mlusim.bangc.compiler.entries import (
    ENTRY_WORD,
    Entry,
    entry_of,
    name_entries,
    name_with_defaults,
    registrations,
    rewrite_main,
    specialised_name,
)
from mlusim.bangc.compiler.headers import DECLARATIONS, header_words
from mlusim.bangc.compiler.host_functions import report_host_functions
from mlusim.bangc.compiler.launches import keep_function, rewrite_launch
from mlusim.bangc.compiler.memory_arrays import SPACES, UNNAMED, MemoryArrays
from mlusim.bangc.compiler.missing_returns import report_missing_returns
from mlusim.bangc.compiler.source import (
    CLASS,
    CODE,
    LINKAGE,
    NAMESPACE,
    Source,
    Token,
    joined,
    matching,
    outside_brackets,
    source_of,
)
from mlusim.bangc.compiler.undeclared_names import OWN, LearnedNames
from mlusim.bangc.compiler.unknown_names import is_unknown
from mlusim.bangc.compiler.unset_variables import Use, report_unset_variables, with_single_iterations

_NAMED_OPERAND = re.compile(r"%\[(\w+)\]")
_ASSEMBLY = ("__asm__", "asm", "__asm")
_NO_TYPES = ("return", "else", "do", "case", "goto", "new", "delete", "throw", "sizeof", "using", "namespace")

# What stands before and after a function that is a value.
_BEFORE_VALUES = ("(", "{", ",", "=", "==", "!=", "return", "?", ":", "<")
_AFTER_VALUES = (")", "}", ",", ";", ":", ">")


@dataclass(slots=True)
class Rewritten:
    """The text to compile, its entries, words used like instructions, and names that it declares.

    Attributes `unsized` and `defined` are those of its arrays with a memory space, as in `MemoryArrays`. `once` is the
    text for warnings, and `unset` the uses of variables that `text` reports.
    """

    text: str
    entries: list[Entry]
    calls: dict[str, tuple[str, int]]
    has_main: bool = False
    declared: set[str] = field(default_factory=set)
    unsized: dict[str, tuple[str, int]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    once: str = ""
    unset: frozenset[Use] = frozenset()


def rewrite(
    text: str,
    instantiate: tuple[str, ...] = (),
    learned: LearnedNames | None = None,
    own_functions: frozenset[str] = frozenset(),
) -> Rewritten:
    """Rewrite the output of a preprocessor.

    Args:
        text: preprocessed text with line markers.
        instantiate: templates of entries to instantiate, such as `name<float, 4>`.
        learned: what the compiler has said about the file's names.
        own_functions: functions of the board that no other file of the program shares.
    """
    learned = learned or LearnedNames()
    source = source_of(text)
    report_host_functions(source)
    report_missing_returns(source)
    _rename(source, learned.clashing & _declared_names(source))
    report_unset_variables(source, learned.unset)
    rewriter = _Rewriter(source, learned, own_functions)
    rewriter.run()
    calls, tokens = rewriter.calls, source.tokens
    head = learned.declarations(set(calls))
    declared = intrinsics.declarations({token.text for token in tokens if token.kind == "word"} - header_words())
    if declared:
        head += f'\n# 1 "{DECLARATIONS}" 1\n{declared}# {tokens[0].line} "{tokens[0].file}" 2\n'
    if tokens:
        # Before what the rewriter has inserted there.
        source.edits.insert(0, (tokens[0].start, tokens[0].start, head))
    entries, has_main, arrays = rewriter.entries, rewriter.has_main, rewriter.arrays
    name_entries(entries)
    end = registrations(entries, instantiate, has_main=has_main)
    return Rewritten(
        source.edited() + end,
        entries,
        calls,
        has_main,
        _declared_names(source),
        arrays.unsized,
        arrays.defined,
        with_single_iterations(source) + end,
        frozenset(learned.unset),
    )


class _Rewriter:
    """One pass over the tokens of a file, from the first to the last.

    Attributes:
        arrays: the arrays with a memory space.
        entries: the entries so far.
        calls: intrinsics and functions of the vendor's libraries that it calls, with file and line of the first call.
        has_main: whether it defines `main`.
    """

    def __init__(self, source: Source, learned: LearnedNames, own_functions: frozenset[str]) -> None:
        self.arrays = MemoryArrays(source)
        self.entries: list[Entry] = []
        self.calls: dict[str, tuple[str, int]] = {}
        self.has_main = False
        self._source = source
        self._learned = learned
        self._own_functions = own_functions
        self._defined = _defined_names(source)
        # Entries of which a parameter has a default value, and the kinds and names of the enclosing scopes.
        self._with_defaults: set[str] = set()
        self._declared: list[Entry] = []
        self._scopes: list[tuple[str, str]] = []
        # The brace of the function that contains the current token, until its first launch.
        self._body = 0

    def run(self) -> None:
        """Rewrite the whole file."""
        position = 0
        while position < len(self._source.tokens):
            position = self._token(position)

    def _token(self, position: int) -> int:
        """Rewrite what begins with a token; returns the position to continue at."""
        token = self._source.tokens[position]
        if token.kind == "word":
            return self._word(position, token)
        if token.kind == "launch":
            rewrite_launch(self._source, position, self.entries, self._with_defaults)
            if self._body:
                keep_function(self._source, self._body)
                self._body = 0
        elif token.kind == "other" and token.text == "{":
            if all(kind != CODE for kind, _ in self._scopes):
                self._body = position
            self._scopes.append(self._source.scope(position))
        elif token.kind == "other" and token.text == "}" and self._scopes:
            self._scopes.pop()
        return position + 1

    def _word(self, position: int, token: Token) -> int:
        if token.text in SPACES:
            return self.arrays.rewrite(
                position,
                "::".join(name or UNNAMED for _, name in self._scopes),
                at_file_scope=self._at_file_scope,
                in_class=bool(self._scopes) and self._scopes[-1][0] == CLASS,
            )
        if token.text == FUNCTION_WORD:
            is_global = self._at_file_scope and all(name != LINKAGE for _, name in self._scopes)
            word = linkage(self._source, position, self._own_functions) if is_global else ""
            self._source.replace(position, position, word)
        elif token.text == HOST_WORD:
            self._source.replace(position, position, "")
        elif token.text == ENTRY_WORD:
            self._entry(position)
        elif token.text == "static" and _is_specialisation(self._source, position):
            # Its linkage is its template's. Clang, on which the vendor's compiler is based, ignores the word.
            self._source.replace(position, position, "")
        elif token.text == "decltype":
            self.arrays.rewrite_type(position)
        elif token.text in _ASSEMBLY:
            _assembly(self._source, position)
        elif self._source.next_text(position) == "(":
            self._call(position, token)
        elif token.text in PARAMETERS:
            _function_as_value(self._source, position)
        return position + 1

    @property
    def _at_file_scope(self) -> bool:
        return all(kind == NAMESPACE for kind, _ in self._scopes)

    def _entry(self, position: int) -> None:
        optional = name_with_defaults(self._source, position)
        if optional is not None:
            self._with_defaults.add(optional)
        namespaces = tuple(name for kind, name in self._scopes if kind == NAMESPACE and name != LINKAGE)
        if _is_specialisation(self._source, position):
            name = specialised_name(self._source, position)
            known = {entry.qualified for entry in self.entries}
            self.entries += [entry for entry in self._declared if entry.name == name and entry.qualified not in known]
        entry = entry_of(self._source, position, namespaces)
        if entry is not None and self._at_file_scope:
            (self.entries if entry.is_defined else self._declared).append(entry)

    def _call(self, position: int, token: Token) -> None:
        """Note a call of an intrinsic or a library, and replace one of what is not simulated."""
        undeclared = token.text in self._learned.others
        if token.text in self._defined:
            return
        if undeclared or token.text.startswith("__"):
            self.calls.setdefault(token.text, (token.file, token.line))
            if undeclared or is_unknown(token.text):
                self._source.replace(position, position, f'::mlusim::unknown("{token.text}")')
        elif token.text == "main" and not self._scopes:
            self.has_main = rewrite_main(self._source, position) or self.has_main


def _function_as_value(source: Source, position: int) -> None:
    """Rewrite a function of CNRT that is not called, such as `cnrtFree` or `&cnrtFree`, to a lambda with its line.

    In an argument of a template or of `decltype`, where no lambda can be, it becomes a function without a line.
    """
    tokens, first, name = source.tokens, position, source.tokens[position].text
    for prefix in ("::", "&"):
        first -= tokens[first - 1].text == prefix
    text_before, text_after = tokens[first - 1].text, source.next_text(position)
    if text_before in _BEFORE_VALUES and text_after in _AFTER_VALUES:
        is_type = text_before == "<" or text_after == ">" or tokens[first - 2].text == "decltype"
        value = f"&mlusim_of_{name}" if is_type else f"(+[]{parameters_and_body(name)})"
        source.replace(first, position, value)


def _rename(source: Source, names: set[str]) -> None:
    """Rename names of the file wherever they stand, except in `std::name`, which is the library's."""
    for position, token in enumerate(source.tokens):
        if token.kind == "word" and token.text in names and not _is_of_std(source, position):
            source.replace(position, position, OWN + token.text)
            token.text = OWN + token.text


def _is_of_std(source: Source, position: int) -> bool:
    return position > 1 and [token.text for token in source.tokens[position - 2 : position]] == ["std", "::"]


def _declared_names(source: Source) -> set[str]:
    """Return names that may be declared here: words after a type, or after another name of the declaration."""
    tokens = source.tokens
    return {
        token.text
        for previous, token, following in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.kind == "word"
        and following.text in ("[", "(", "=", ";", ",", ")", "{")
        and ((previous.kind == "word" and previous.text not in _NO_TYPES) or previous.text in (",", "*", "&", ">"))
    }


def _defined_names(source: Source) -> set[str]:
    """Return functions of the user with names of instructions: a word between a type and a parenthesis.

    One that is only declared is another file's, unless its name is that of an instruction.
    """
    tokens = source.tokens
    names = set()
    for position in range(1, len(tokens) - 1):
        token, previous = tokens[position], tokens[position - 1]
        if (
            token.kind == "word"
            and token.text.startswith("__")
            and tokens[position + 1].text == "("
            and (previous.kind == "word" or previous.text in "*&>")
            and previous.text not in ("return", "else", "do", "case", "throw")
        ):
            text_after = source.next_text(source.matching(position + 1))
            elsewhere = text_after == ";" and previous.kind == "word" and is_unknown(token.text)
            if source.body_of(position + 1) >= 0 or elsewhere:
                names.add(token.text)
    return names


def _assembly(source: Source, position: int) -> None:
    """Rewrite an assembly statement to a call with its text and its operands."""
    tokens = source.tokens
    opening = position + 1
    while opening < len(tokens) and tokens[opening].text in ("volatile", "__volatile__", "goto", "inline"):
        opening += 1
    if opening >= len(tokens) or tokens[opening].text != "(":
        return
    close = source.matching(opening)
    inner = tokens[opening + 1 : close]
    text = "".join(token.text[1:-1] for token in _until(inner, (":", "::")) if token.kind == "string")
    if not text.strip():
        # Says something to the compiler alone.
        return
    operands = _operands(inner)
    names = [name for name in dict.fromkeys(_NAMED_OPERAND.findall(text)) if name in operands]
    call = ", ".join([f'"{text}"', *(operands[name] for name in names)])
    source.replace(position, close, f"__mlusim_assembly({call})")


def _is_specialisation(source: Source, position: int) -> bool:
    start = source.start_of_statement(position)
    return [token.text for token in source.tokens[start : start + 3]] == ["template", "<", ">"]


def _until(tokens: list[Token], end_texts: tuple[str, ...]) -> list[Token]:
    return tokens[: next((index for index, token in enumerate(tokens) if token.text in end_texts), len(tokens))]


def _operands(tokens: list[Token]) -> dict[str, str]:
    """Return outputs by address and inputs by value, by name."""
    operands: dict[str, str] = {}
    section = 0
    for index in outside_brackets(tokens):
        token = tokens[index]
        if token.kind == "other" and token.text in (":", "::"):
            section += len(token.text)
        elif token.text == "(" and tokens[index - 1].kind == "string" and section in (1, 2):
            operand = joined(tokens[index + 1 : matching(tokens, index)])
            name = tokens[index - 3].text if tokens[index - 2].text == "]" else str(len(operands))
            operands[name] = f"&({operand})" if section == 1 else f"({operand})"
    return operands
