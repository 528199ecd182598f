"""Device functions in a program of several files: each file keeps its own.

The vendor's compiler compiles the code for the board of each file by itself, so that two files may define functions of
one name, and templates of one name that differ. The linker would refuse the former and merge the latter. A function
that its file defines thus becomes `static`, unless another file only declares it: the files then share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlusim.bangc.compiler.entries import ENTRY_WORD
from mlusim.bangc.compiler.source import Source
from mlusim.bangc.compiler.undeclared_names import OWN

FUNCTION_WORD, HOST_WORD = "__mlusim_func", "__mlusim_host"
# Words before a function whose linkage they determine, or that show that no function is declared.
_OTHER = frozenset(("static", "extern", "friend", "typedef", "using", "operator", HOST_WORD, ENTRY_WORD))


@dataclass(frozen=True, slots=True)
class Declared:
    """The functions of the board that a file declares: those that it defines, and those that it does not."""

    defined: frozenset[str]
    undefined: frozenset[str]


def declared_functions(source: Source) -> Declared:
    """Return the functions of the board that a file declares."""
    defined: set[str] = set()
    names: set[str] = set()
    for position, token in enumerate(source.tokens):
        if token.text == FUNCTION_WORD:
            name, has_body = _function(source, position)
            if name:
                (defined if has_body else names).add(name)
    return Declared(frozenset(defined), frozenset(names - defined))


def own_functions(files: Iterable[Declared]) -> frozenset[str]:
    """Return the names of functions that every file that declares them defines: each file has its own."""
    several = list(files)
    return frozenset().union(*(functions.defined for functions in several)) - frozenset().union(
        *(functions.undefined for functions in several)
    )


def linkage(source: Source, position: int, own_names: frozenset[str]) -> str:
    """Return the word for the function word at `position`: `static`, or an empty text."""
    first = source.start_of_statement(position)
    if any(token.text == FUNCTION_WORD for token in source.tokens[first:position]):
        return ""
    return "static" if _function(source, position)[0] in own_names else ""


def _function(source: Source, position: int) -> tuple[str, bool]:
    """Return the name of the function that a function word declares, and whether it has a body.

    The name is empty if its linkage is determined otherwise: that of a specialisation is its template's.
    """
    tokens = source.tokens
    start = source.start_of_statement(position)
    opening = source.parameters_of(position + 1)
    if opening < 0:
        return "", False
    texts_before = [token.text for token in tokens[start:opening]]
    name = tokens[opening - 1]
    of_template = texts_before[0] == "template" and (texts_before[1:2] != ["<"] or texts_before[1:3] == ["<", ">"])
    if of_template or _OTHER.intersection(texts_before) or tokens[opening - 2].text in ("::", "~"):
        return "", False
    return name.text.removeprefix(OWN), source.body_of(opening) >= 0
