"""Rewriting of preprocessed BANG C to C++, preserving line numbers.

Constructs that are not C++ become calls of the headers: arrays with a memory space become references to bytes provided
by the simulator, `name<<<dim, type, queue>>>(...)` an object that launches, `__asm__` a call with the text of the
statement. Text of system headers is not examined.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlusim.bangc.compiler.device_functions import FUNCTION_WORD, HOST_WORD, linkage
from mlusim.bangc.compiler.entries import (
    ENTRY_WORD,
    Entry,
    entry_of,
    name_entries,
    name_with_defaults,
    registrations,
    rewrite_main,
)
from mlusim.bangc.compiler.launches import rewrite_launch
from mlusim.bangc.compiler.memory_arrays import SPACES, MemoryArrays
from mlusim.bangc.compiler.source import Source, Token, joined, source_of
from mlusim.bangc.compiler.toolchain import DECLARATIONS
from mlusim.bangc.compiler.undeclared_names import OWN, SecondLook

_ASSEMBLY = ("__asm__", "asm", "__asm")
_NAMESPACE, _CLASS, _CODE = "namespace", "class", "code"


@dataclass(slots=True)
class Rewritten:
    """The text to compile, its entries, words used like instructions, and names that it declares.

    Attributes `unsized` and `defined` are those of its arrays with a memory space, as in `MemoryArrays`.
    """

    text: str
    entries: list[Entry]
    calls: dict[str, tuple[str, int]]
    has_main: bool = False
    declared: set[str] = field(default_factory=set)
    unsized: dict[str, tuple[str, int]] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Names:
    """Known names.

    Attributes:
        own: folders whose headers are left unchanged, in addition to the compiler's own.
        unknown: whether a called name is an intrinsic that does not exist.
        declarations: C++ that declares the intrinsics among some words.
    """

    own: tuple[str, ...] = ()
    unknown: Callable[[str], bool] = lambda _: False
    declarations: Callable[[set[str]], str] = lambda _: ""


def rewrite(
    text: str,
    instantiate: tuple[str, ...] = (),
    names: Names | None = None,
    look: SecondLook | None = None,
    own_functions: frozenset[str] = frozenset(),
) -> Rewritten:
    """Rewrite the output of a preprocessor.

    Args:
        text: preprocessed text with line markers.
        instantiate: templates of entries to instantiate, such as `name<float, 4>`.
        names: known names.
        look: earlier messages of the compiler about the file's names.
        own_functions: functions of the board that no other file of the program shares.
    """
    names = names or Names()
    source = source_of(text, names.own)
    tokens = source.tokens
    if look is not None:
        _rename(source, look.clashing & _declared_names(source))
    arrays = MemoryArrays(source)
    scopes: list[tuple[str, str]] = []
    entries: list[Entry] = []
    with_defaults: set[str] = set()
    calls: dict[str, tuple[str, int]] = {}
    has_main = False
    defined = _defined_names(source)
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.text == "{" and token.kind == "other":
            scopes.append(_scope(source, position))
        elif token.text == "}" and token.kind == "other" and scopes:
            scopes.pop()
        elif token.kind == "launch":
            rewrite_launch(source, position, entries, with_defaults)
        elif token.kind == "word":
            if token.text in SPACES:
                position = arrays.rewrite(
                    position,
                    "::".join(name for _, name in scopes),
                    at_file_scope=all(kind == _NAMESPACE for kind, _ in scopes),
                    in_class=bool(scopes) and scopes[-1][0] == _CLASS,
                )
                continue
            if token.text == FUNCTION_WORD:
                is_global = all(scope[0] == _NAMESPACE and scope[1] != _LINKAGE for scope in scopes)
                source.replace(position, position, linkage(source, position, own_functions) if is_global else "")
            elif token.text == HOST_WORD:
                source.replace(position, position, "")
            elif token.text == ENTRY_WORD:
                optional = name_with_defaults(source, position)
                if optional is not None:
                    with_defaults.add(optional)
                entry = entry_of(source, position, _namespaces(scopes))
                if entry is not None and all(kind == _NAMESPACE for kind, _ in scopes):
                    entries.append(entry)
            elif token.text in _ASSEMBLY:
                _assembly(source, position)
            elif token.text.startswith("__") and source.next_text(position) == "(":
                calls.setdefault(token.text, (token.file, token.line))
                undeclared = look is not None and token.text in look.others
                if token.text not in defined and (undeclared or names.unknown(token.text)):
                    source.replace(position, position, f'::mlusim::unknown("{token.text}")')
            elif look is not None and token.text in look.others and source.next_text(position) == "(":
                calls.setdefault(token.text, (token.file, token.line))
                source.replace(position, position, f'::mlusim::unknown("{token.text}")')
            elif token.text == "main" and not scopes and source.next_text(position) == "(":
                has_main = rewrite_main(source, position) or has_main
        position += 1
    for name in defined:
        calls.pop(name, None)
    if look is not None and tokens:
        source.insert(0, look.declarations(set(calls)))
    declared = names.declarations({token.text for token in tokens if token.kind == "word"})
    if declared:
        source.insert(0, f'\n# 1 "{DECLARATIONS}" 1\n{declared}# {tokens[0].line} "{tokens[0].file}" 2\n')
    name_entries(entries)
    end = registrations(entries, instantiate, has_main=has_main)
    text = source.edited() + end
    return Rewritten(text, entries, calls, has_main, _declared_names(source), arrays.unsized, arrays.defined)


def _namespaces(scopes: list[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(name for kind, name in scopes if kind == _NAMESPACE and name != _LINKAGE)


# Represents the name of `extern "C" {`, which opens no namespace.
_LINKAGE = '"C"'


def _scope(source: Source, position: int) -> tuple[str, str]:
    """Return what a brace opens: a namespace with its name, a class, or code."""
    words = [token.text for token in source.tokens[source.start_of_statement(position) : position]]
    if "namespace" in words:
        return _NAMESPACE, "".join(words[words.index("namespace") + 1 :])
    if words[:1] == ["extern"] and len(words) == 2 and words[1].startswith('"'):
        return _NAMESPACE, _LINKAGE
    if any(word in ("class", "struct", "union", "enum") for word in words) and "(" not in words and "=" not in words:
        return _CLASS, ""
    return _CODE, ""


def _rename(source: Source, names: set[str]) -> None:
    for position, token in enumerate(source.tokens):
        if token.kind == "word" and token.text in names:
            source.replace(position, position, OWN + token.text)
            token.text = OWN + token.text


def _declared_names(source: Source) -> set[str]:
    """Return names that may be declared here: words after a type, or after another name of the declaration."""
    tokens = source.tokens
    return {
        token.text
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False)
        if token.kind == "word"
        and after.text in ("[", "(", "=", ";", ",", ")", "{")
        and ((before.kind == "word" and before.text not in _NO_TYPES) or before.text in (",", "*", "&", ">"))
    }


_NO_TYPES = ("return", "else", "do", "case", "goto", "new", "delete", "throw", "sizeof", "using", "namespace")


def _defined_names(source: Source) -> set[str]:
    """Return functions of the user with names of instructions: a word between a type and a parenthesis."""
    tokens = source.tokens
    names = set()
    for position in range(1, len(tokens) - 1):
        token, before = tokens[position], tokens[position - 1]
        if (
            token.kind == "word"
            and token.text.startswith("__")
            and tokens[position + 1].text == "("
            and (before.kind == "word" or before.text in "*&>")
            and before.text not in ("return", "else", "do", "case")
            and source.next_text(source.matching(position + 1)) in ("{", "const")
        ):
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
    call = ", ".join([f'"{text}"', *_operands(source, opening + 1, close)])
    source.replace(position, close, f"__mlusim_assembly({call})")


def _until(tokens: list[Token], ends: tuple[str, ...]) -> list[Token]:
    return tokens[: next((index for index, token in enumerate(tokens) if token.text in ends), len(tokens))]


def _operands(source: Source, start: int, stop: int) -> list[str]:
    """Return outputs by address, inputs by value, in the order of the statement."""
    found: list[str] = []
    section = 0
    for index in range(start, stop):
        token = source.tokens[index]
        if token.kind == "other" and token.text in (":", "::"):
            section += len(token.text)
        elif token.kind == "string" and section in (1, 2) and source.next_text(index) == "(":
            inside = joined(source.tokens[index + 2 : source.matching(index + 1)])
            found.append(f"&({inside})" if section == 1 else f"({inside})")
    return found
