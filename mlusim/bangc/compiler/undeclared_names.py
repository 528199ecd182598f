"""Recovery from compiler errors about a file's names: undeclared ones, and ones that clash with the headers.

A kernel's file often contains the host function that launches it, with calls of CNNL and of unsupported parts of CNRT.
The kernel needs none of them. If the compiler does not know such a name, it is declared as an object that converts to
any type, or as a function that raises an error when called.

Scalar maths functions that a file calls without declaration, such as `min` and `rsqrtf`, are defined for it.

The headers here include names of the C library that the vendor's do not: `y1`, `index`. If a name of the file clashes
with one of them, it is renamed throughout the file.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from functools import lru_cache

from mlusim.bangc.calls.host_calls import HOST_CALLS
from mlusim.bangc.compiler.headers import library_names
from mlusim.bangc.compiler.unset_variables import Use, unset_uses

# Prefix of renamed names.
OWN = "mlusim_own_"
_LIBRARY = re.compile(r"^(?:cn(?:rt|nl|cl|dev|px|papi|[A-Z])|CN(?:RT|NL|CL|PX|DEV|PAPI)?_)\w*$")
_OPEN, _CLOSE = "['\u2018`]", "['\u2019]"
_QUOTED = rf"{_OPEN}([A-Za-z_]\w*){_CLOSE}"
_ANY = rf"{_OPEN}([^'\u2018\u2019]+){_CLOSE}"
_TYPES = (rf"error: {_QUOTED} does not name a type", rf"error: unknown type name {_QUOTED}")
_OTHERS = (
    rf"error: {_QUOTED} was not declared in this scope",
    rf"error: {_QUOTED} has not been declared",
    rf"error: use of undeclared identifier {_QUOTED}",
)
_CLASHES = (
    rf"error: {_ANY} redeclared as different kind of entity",
    rf"error: redefinition of {_ANY}",
    rf"error: conflicting declaration (?:of C function )?{_ANY}",
    rf"error: conflicting types for {_ANY}",
    rf"error: ambiguating new declaration of {_ANY}",
    rf"error: reference to {_ANY} is ambiguous",
    r"error: typedef redefinition with different types[^\n]*\n[^\n]*?(\w+)\s*;",
    rf"error: call (?:of overloaded|to) {_ANY} is ambiguous",
)
# A launch of an entry that overloads a function of the headers. Clang shows the rewritten line. g++ shows that of the
# file, and gives the size of the entry's name as a string.
_CLANG_LAUNCH = re.compile(r"error: no matching function for call to \W?launcher\W*\n([^\n]*)")
_GNU_LAUNCH = re.compile(
    r"error: no matching function for call to \W?launcher\(const char ?\[(\d+)\][^\n]*<unresolved overloaded[^\n]*"
    r"\n([^\n]*)"
)
# Scalar functions under the names of other device languages, added to files that need them.
_MATHS = {
    "min": "template <class A, class B> inline auto min(A a, B b) { return b < a ? b : a; } ",
    "max": "template <class A, class B> inline auto max(A a, B b) { return a < b ? b : a; } ",
    "rsqrtf": "inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); } ",
    "rsqrt": "template <class A> inline A rsqrt(A x) { return A(1.0f / std::sqrt(float(x))); } ",
}
# Constants of the vendor's libraries whose number matters: array sizes and bounds of loops.
_NUMBERS = {"CNNL_DIM_MAX": 8}
# Undeclared constants count from here on, so that none equals one of the headers in a `switch`.
_FIRST_CONSTANT = 1 << 16
# The beginnings of constants of enumerations that the headers have in full.
_OF_ENUMERATION = re.compile(r"(cnrtFunc(?:tion)?Type|cnrtMemcpy|CNRT_FUNC_TYPE_|CNRT_MEM_TRANS_DIR_)[A-Z]")
_RUNTIME = "cnrt"
# A word of a name such as `cnrtDeviceReset`, and the letters of the shortest in which a slip is looked for.
_WORD = re.compile(r"[A-Z][a-z]+")
_SHORTEST_WORD = 5
# Letters of a name that one letter more or less does not make another.
_SHORTEST = 8
# The name in `float (& y1)[64]`, `int time`, `void swap(int&, int&)`, `index [4]`.
_NAMES = (
    re.compile(r"[&*]\s*([A-Za-z_]\w*)\s*\)"),
    re.compile(r"([A-Za-z_]\w*)\s*(?:<[^()]*>)?\s*(?:[(\[]|$)"),
)


@dataclass(slots=True)
class LearnedNames:
    """Names of a file, as learned from compiler messages.

    Attributes:
        types: undeclared type names of the vendor's libraries.
        others: their functions and constants, and unknown intrinsics.
        maths: undeclared scalar functions.
        clashing: names of the file that the headers also declare.
        unset: uses of local variables before they are set.
    """

    types: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)
    maths: set[str] = field(default_factory=set)
    clashing: set[str] = field(default_factory=set)
    unset: set[Use] = field(default_factory=set)

    def learn(self, message: str, declared: set[str], called_names: set[str]) -> bool:
        """Extract names from a compiler's messages; returns whether there were new ones.

        Args:
            message: the compiler's output.
            declared: names that the file itself declares.
            called_names: functions of the vendor's libraries and names with two underscores that it calls.
        """
        count_before = self._count()
        self.maths.update(_MATHS.keys() & undeclared_in(message))
        self.types.update(
            name for name in _names_matching(_TYPES, message) if is_of_library(name) and not is_slip(name, called_names)
        )
        self.unset.update(unset_uses(message))
        others = {name for name in undeclared_in(message) if not is_slip(name, called_names)}
        self.others.update(filter(is_of_library, others), others & called_names)
        self.types.update(name for name in self.others if name.endswith("_t"))
        self.others -= self.types
        self.clashing.update(
            ({_declared_name(text) for text in _names_matching(_CLASHES, message)} | _launched_entries(message))
            & declared
        )
        return self._count() > count_before

    def _count(self) -> int:
        return len(self.types) + len(self.others) + len(self.maths) + len(self.clashing) + len(self.unset)

    def declarations(self, called_names: set[str]) -> str:
        """Return C++ that declares the types, and the names that are not called, on one line."""
        constants = sorted(self.others - called_names - _NUMBERS.keys())
        return "".join(
            [_MATHS[name] for name in sorted(self.maths)]
            + [f"static constexpr int {name}{{{_NUMBERS[name]}}}; " for name in sorted(self.others & _NUMBERS.keys())]
            + [f"typedef ::mlusim::Foreign {name}; " for name in sorted(self.types)]
            + [
                f"static constexpr ::mlusim::ForeignConstant {name}{{{number}}}; "
                for number, name in enumerate(constants, _FIRST_CONSTANT)
            ]
        )


def is_of_library(name: str) -> bool:
    """Return whether a name looks like one of the vendor's host libraries."""
    return _LIBRARY.match(name) is not None


def is_slip(name: str, called: Container[str]) -> bool:
    """Return whether an unknown name is a slip, and so remains an error: of one of the headers, or in one of its words.

    CNNL is not in the headers, so its functions may resemble those that are.
    """
    if not name.startswith(_RUNTIME):
        return name not in called and bool(meant_by(name, called))
    return bool(meant_by(name, called)) or any(map(_is_misspelt, _WORD.findall(name)))


def _is_misspelt(word: str) -> bool:
    """Return whether a word of a name differs by a slip from a word of the libraries; in a plural, it does not."""
    known = _library_words()
    if len(word) < _SHORTEST_WORD or word.removesuffix("s") in known or f"{word}s" in known:
        return False
    return any(abs(len(word) - len(other)) <= 1 and _differ_by_a_slip(word, other) for other in known)


@lru_cache(maxsize=1)
def _library_words() -> frozenset[str]:
    words = {word for name in _known_names() for word in _WORD.findall(name)}
    return frozenset(word for word in words if len(word) >= _SHORTEST_WORD)


@lru_cache(maxsize=1)
def _known_names() -> list[str]:
    return sorted(library_names() | HOST_CALLS.keys())


def meant_by(name: str, called: Container[str]) -> list[str]:
    """Return the names of the headers that an unknown one may stand for: of its enumeration, if not called, or a slip.

    A slip lacks the `_t` of a type, or differs by its case, by one letter, or by two swapped ones. Names that differ by
    a digit are different names.
    """
    match = None if name in called else _OF_ENUMERATION.match(name)
    if match:
        return [
            other for other in sorted(library_names()) if other.startswith(match[1]) and _OF_ENUMERATION.match(other)
        ]
    return [
        other
        for other in _known_names()
        if other == f"{name}_t"
        or (
            min(len(name), len(other)) >= _SHORTEST
            and abs(len(name) - len(other)) <= 1
            and re.sub(r"\d", "", name) != re.sub(r"\d", "", other)
            and (name.lower() == other.lower() or _differ_by_a_slip(name, other))
        )
    ]


def _differ_by_a_slip(one: str, other: str) -> bool:
    """Return whether one letter more, less or another, or two swapped ones, make two words equal."""
    start = next((at for at, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
    a, b = one[start:], other[start:]
    swapped = a[:2] == b[1::-1] and a[2:] == b[2:]
    return swapped or a[1:] == b[1:] or a[1:] == b or a == b[1:]


def undeclared_in(message: str) -> set[str]:
    """Return the undeclared functions and constants that a compiler's output names."""
    return _names_matching((*_TYPES, *_OTHERS), message)


def _names_matching(patterns: tuple[str, ...], message: str) -> set[str]:
    return {name for pattern in patterns for name in re.findall(pattern, message)}


def _launched_entries(message: str) -> set[str]:
    """Return the entries that the lines of failed launches launch, for g++ words of the length of the entry's name."""
    words = {
        word
        for size, line in _GNU_LAUNCH.findall(message)
        for word in re.findall(r"\w+", line)
        if len(word) == int(size) - 1
    }
    return words.union(*(re.findall(r"launcher\(\"(\w+)\"", line) for line in _CLANG_LAUNCH.findall(message)))


def _declared_name(text: str) -> str:
    """Return the name that a declaration in a message declares."""
    match = next(filter(None, (pattern.search(text) for pattern in _NAMES)), None)
    return match[1] if match else ""
