"""Functions of the board that return a value, and whose end a task reaches: a `return` is missing.

Compilers only warn. The value is undefined, so a call before the closing brace reports that it is reached.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlusim.bangc.compiler.device_functions import FUNCTION_WORD, HOST_WORD
from mlusim.bangc.compiler.entries import ENTRY_WORD
from mlusim.bangc.compiler.host_functions import functions, is_parameter
from mlusim.bangc.compiler.source import Source, Token, joined

# Words of declarations without a type, or whose type may be void without saying so.
_UNKNOWN = frozenset(("void", "auto", "decltype", "operator", "constexpr", "consteval"))
_SPECIFIERS = frozenset(("static", "inline", "virtual", "explicit", "friend", "extern", FUNCTION_WORD))
_POINTING = frozenset(("*", "&"))
# What stands between the parameters of a lambda and its type.
_BEFORE_ARROW = frozenset((")", "mutable", "noexcept", FUNCTION_WORD))
_OF_TYPE = frozenset(("::", "<", ">", ",", "*", "&"))


def report_missing_returns(source: Source) -> None:
    """Insert a call before the end of each function and lambda of the board that returns a value."""
    for position, first, of_class in functions(source):
        name = joined(source.tokens[first:position])
        declared = source.tokens[source.start_of_statement(position) : first]
        body, texts = source.body_of(position), {token.text for token in declared}
        if body < 0 or not texts & {FUNCTION_WORD, ENTRY_WORD} or HOST_WORD in texts:
            continue
        end = source.matching(body)
        if FUNCTION_WORD in texts and name != of_class and _returns(declared):
            _insert(source, end, name)
        for brace in _lambdas(source, body, end):
            _insert(source, source.matching(brace), "a lambda")


def _returns(declared: list[Token]) -> bool:
    """Return whether the words before a function's name are a type, and not void nor one that may be void."""
    texts = [token.text for token in declared]
    is_pointer = texts[-1:] in (["*"], ["&"])
    kind = next((word for word in reversed(texts) if word not in _SPECIFIERS), "")
    unknown_texts = _UNKNOWN.intersection(texts) - ({"void"} if is_pointer else set())
    if unknown_texts or not kind or any("enable_if" in word for word in texts):
        return False
    return kind not in ("~", "::") and not (is_parameter(declared, kind) and not is_pointer)


def _lambdas(source: Source, body: int, end: int) -> Iterator[int]:
    """Yield the opening braces of lambdas with a type: `[](...) -> float {`."""
    tokens = source.tokens
    for position in range(body, end):
        if tokens[position].text != "->" or tokens[position - 1].text not in _BEFORE_ARROW:
            continue
        brace = position + 1
        while brace < end and (tokens[brace].kind == "word" or tokens[brace].text in _OF_TYPE):
            brace += 1
        kind = {token.text for token in tokens[position:brace]}
        if tokens[brace].text == "{" and (not _UNKNOWN.intersection(kind) or _POINTING.intersection(kind)):
            yield brace


def _insert(source: Source, end: int, name: str) -> None:
    source.insert(end, f'; ::__mlusim_hint("no-return", "{name}");')
