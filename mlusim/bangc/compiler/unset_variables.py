"""Local variables that are used before they are set: the compiler warns, and a call reports where that happens.

g++ follows variables through calls and captures, and also warns of those that some paths set. A use is therefore only
reported when it is executed and the variable holds the pattern of those without a value. For a variable that some paths
set, that takes a compilation with checks (`Options.checked`).
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from functools import partial

from mlusim.bangc.compiler.cache import INCLUDE
from mlusim.bangc.compiler.source import Source, Token, joined

# Options for these warnings, each on one line.
GNU_WARNINGS = (
    *("-O1", "-fno-sanitize=all", "-ftrivial-auto-var-init=uninitialized"),
    # They take a variable that one path sets for the value there.
    *("-fno-tree-ccp", "-fno-tree-fre", "-fno-tree-copy-prop", "-fno-tree-dominator-opts"),
    *("-Wuninitialized", "-Wmaybe-uninitialized", "-fno-diagnostics-show-caret"),
)
CLANG_WARNINGS = ("-O0", "-Wuninitialized", "-fno-caret-diagnostics")
# The calls that were inlined, file, line and variable. What is only passed by a pointer or a reference to constant
# values may be unused.
_WARNING = re.compile(
    r"((?:^ +inlined from .*\n)*)"
    r"^(.+?):(\d+):\d+: warning: (?:variable )?['\u2018]([^'\u2019]+)['\u2019] (is|may be) (?:used )?uninitialized"
    r"(?: when used here)? \[(?!.*\n.*note: by argument)",
    re.MULTILINE,
)
_CALL = re.compile(r" at (.+?):(\d+):\d+[,:]$", re.MULTILINE)
_DECLARED = re.compile(r"^(.+?):(\d+):\d+: note: ['\u2018](\w+)['\u2019] was declared here$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_BEFORE_MEMBERS = frozenset((".", "->", "::"))
_UNEVALUATED = frozenset(("decltype", "sizeof", "alignof", "typeof", "__typeof__", "noexcept"))
_BEFORE_VALUES = frozenset(("return", "else", "do", "case", "throw"))
_BEFORE_CONDITIONS = frozenset(("if", "while", "switch"))
_OF_DECLARATIONS = frozenset(("::", "<", ">", "*", "&"))
# Bodies of loops in which everything is executed have none of these; launches are rewritten.
_BRANCHES = frozenset(("?", "if", "for", "while", "do", "switch", "goto", "<<<"))
_UPDATES = frozenset(("+=", "-=", "*=", "/=", "%=", "|=", "&=", "^=", "<<=", ">>=", "++", "--"))
# File, line, variable, and whether no path sets it. That of a declaration is a use, too.
Use = tuple[str, int, str, bool]


def certain_warnings(messages: str) -> str:
    """Return the compiler's messages about variables that no path sets. A test of others would take simulated time."""
    kept: list[str] = []
    calls: list[str] = []
    is_certain = False
    for line in messages.splitlines(keepends=True):
        if ": warning: " in line:
            is_certain = "may be" not in line
            kept += [*calls, line] if is_certain else []
            calls = []
        elif ": note: " not in line:
            calls.append(line)
        elif is_certain:
            kept.append(line)
    return "".join(kept)


def unset_uses(messages: str) -> set[Use]:
    """Return the uses that a compiler's messages are about; of `record.member`, those of both names."""
    uses: set[Use] = {(file, int(line), name, False) for file, line, name in _DECLARED.findall(messages)}
    for calls, *place, words, certainty in _WARNING.findall(messages):
        names = _NAME.findall(words)
        for name in (*names[:1], *names[-1:]):
            file, line = next(filter(partial(_names, name), (place, *_CALL.findall(calls))), place)
            uses.add((file, int(line), name, certainty == "is"))
    return {use for use in uses if not use[0].startswith(str(INCLUDE))}


def _names(name: str, place: Sequence[str]) -> bool:
    """Return whether a line of a file has a name; a function that was inlined there may call the variable otherwise."""
    return bool(re.search(rf"\b{name}\b", linecache.getline(place[0], int(place[1]))))


def report_unset_variables(source: Source, uses: set[Use]) -> None:
    """Insert a test at the values of the variables in the lines of their uses, and where a declared one is updated.

    In `int n; for (...) if (...) n += 1; f(n);`, g++ only warns of the last use, where `n` may have another value.
    """
    certain = {use[:3]: use[3] for use in sorted(uses)}
    values: dict[int, bool] = {}
    for position, token in enumerate(source.tokens):
        is_certain = certain.get((token.file, token.line, token.text))
        if is_certain is not None and _is_value(source, position):
            values[position] = is_certain
        elif is_certain is not None:
            values = dict.fromkeys(_updates(source, position), False) | values
    for position, is_certain in values.items():
        name = source.tokens[position].text
        index = source.tokens[position + 2].text if source.next_text(position) == "[" else ""
        is_simple = index and source.next_text(position + 2) == "]"
        test = f"::mlusim::is_unset<{str(is_certain).lower()}>({f'{name}[{index}]' if is_simple else name})"
        hint = f'void(::__mlusim_hint("unset", "{name}"))'
        source.replace(position, position, f"({test} ? {hint} : void(), {name})")


def _updates(source: Source, position: int) -> Iterator[int]:
    """Yield where a variable is updated from its declaration to the end of its block."""
    tokens, index, depth = source.tokens, position + 1, 0
    while index < len(tokens) and depth >= 0:
        depth += (tokens[index].text == "{") - (tokens[index].text == "}")
        if tokens[index].text == tokens[position].text:
            before, behind = (joined(part) for part in (tokens[index - 2 : index], tokens[index + 1 : index + 3]))
            if (behind in _UPDATES or before in ("++", "--")) and _is_value(source, index):
                yield index
        index += 1


def _is_value(source: Source, position: int) -> bool:
    """Return whether a name is neither declared, set nor captured here, nor a member, nor takes an address."""
    tokens, start = source.tokens, source.start_of_statement(position)
    words, before, operand = tokens[start:position], tokens[position - 1].text, tokens[position - 2]
    # After an operand, `&` is the binary operator.
    is_operand = operand.kind in ("word", "number") and operand.text not in _BEFORE_VALUES
    takes_address = before == "&" and not (is_operand or operand.text == "]")
    if before in _BEFORE_MEMBERS or takes_address or _text_after_operand(source, position) == "=":
        return False
    opening = tokens[start - 1].text if start else ""
    if opening == "[":
        return tokens[start - 2].kind == "word" or tokens[start - 2].text in ")]"
    if opening == "(" and tokens[start - 2].text in _UNEVALUATED:
        return False
    is_condition = opening == "(" and tokens[start - 2].text in _BEFORE_CONDITIONS
    if is_condition or not words or words[0].kind != "word" or words[0].text in _BEFORE_VALUES:
        return True
    # A comparison; an argument of a call, which no type precedes.
    is_call = opening == "(" and tokens[start - 2].kind == "word" and not _may_end_type(tokens[start - 3])
    if before == "<" or is_call:
        return True
    # A type precedes a name that is declared, or other names do, as in `float *x, *y`.
    if all(word.kind == "word" or word.text in _OF_DECLARATIONS for word in words):
        return False
    last = next(word.text for word in reversed(words) if word.text not in _OF_DECLARATIONS)
    return last != "," or (opening == "(" and tokens[start - 2].text != "for") or (opening == "{" and len(words) == 2)


def _may_end_type(token: Token) -> bool:
    """Return whether a token may be the last one of a type, before the name of a function."""
    return token.text in (">", "*", "&") or (token.kind == "word" and token.text not in _BEFORE_VALUES)


def _text_after_operand(source: Source, position: int) -> str:
    """Return the token after a name with its indices and members: `=` where a part of it is set."""
    while source.next_text(position) in ("[", ".", "->"):
        position = source.matching(position + 1) if source.next_text(position) == "[" else position + 2
    return source.next_text(position)


def with_single_iterations(source: Source) -> str:
    """Return the text with loops without branches ended after one iteration.

    All uses in the first one are executed. In `float sum; for (...) sum += x[i];`, the value may otherwise be that of
    an earlier one, and g++ is not certain.
    """
    before, end_of_constant = list(source.edits), -1
    for position, token in enumerate(source.tokens):
        if token.text == "constexpr":
            # The compiler may need its result.
            end_of_constant = max(end_of_constant, _end_of_function(source, position))
        elif token.text in ("for", "while") and position > end_of_constant and source.next_text(position) == "(":
            # Before what has been inserted there: the statement after the loop may be a launch.
            source.edits[:0] = _end_after_one(source, position)
    text, source.edits[:] = source.edited(), before
    return text


def _end_of_function(source: Source, position: int) -> int:
    """Return the brace that ends the function that a word begins to declare; -1 for anything else."""
    parameters = source.parameters_of(position + 1)
    body = source.body_of(parameters) if parameters > position + 1 else -1
    return source.matching(body) if body >= 0 else -1


def _end_after_one(source: Source, position: int) -> list[tuple[int, int, str]]:
    """Return the edits that end a loop after one iteration; none if it has branches."""
    tokens, body = source.tokens, source.matching(position + 1) + 1
    if body + 1 >= len(tokens) or tokens[body].text == ";":
        return []
    in_braces = tokens[body].text == "{"
    end = source.matching(body) if in_braces else source.end_of_declaration(body)
    if end >= len(tokens) or any(token.text in _BRANCHES for token in tokens[position + 1 : end]):
        return []
    # These are two tokens each.
    if any(operator in source.text[tokens[position].start : tokens[end].start] for operator in ("&&", "||")):
        return []
    first, last = (tokens[body].stop, tokens[end].start) if in_braces else (tokens[body].start, tokens[end].stop)
    return [(first, first, "{ "), (last, last, " } break; " if in_braces else " break; }")]
