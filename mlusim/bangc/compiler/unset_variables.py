"""Local variables that are used before they are set: the compiler warns, and a call reports where that happens.

Only warnings of uses that no path reaches with a value count: those of g++ without optimisation, and `-Wuninitialized`
of clang. A use is reported when it is executed, so code that never runs has no error.
"""

from __future__ import annotations

import re

from mlusim.bangc.compiler.source import Source

# Options for these warnings, each on one line.
GNU_WARNINGS = ("-O0", "-Wuninitialized", "-Wmaybe-uninitialized", "-fno-diagnostics-show-caret")
CLANG_WARNINGS = ("-O0", "-Wuninitialized", "-fno-caret-diagnostics")
# File, line and variable. What is only passed by a pointer or a reference to constant values may be unused.
_WARNING = re.compile(
    r"^(.+?):(\d+):\d+: warning: (?:variable )?['\u2018](\w+)[^'\u2019]*['\u2019] (?:is|may be) (?:used )?uninitialized"
    r"(?: when used here)? \[(?!.*\n.*note: by argument)",
    re.MULTILINE,
)
_BEFORE_MEMBERS = frozenset((".", "->", "::"))
_BEFORE_VALUES = frozenset(("return", "else", "do", "case", "throw"))
# Bodies of loops in which everything is executed have none of these; launches are rewritten.
_BRANCHES = frozenset(("?", "&&", "||", "if", "for", "while", "do", "switch", "goto", "<<<"))
# File, line, variable.
Use = tuple[str, int, str]


def unset_uses(messages: str) -> set[Use]:
    """Return the uses that a compiler's messages are about."""
    return {(file, int(line), name) for file, line, name in _WARNING.findall(messages)}


def report_unset_variables(source: Source, uses: set[Use]) -> None:
    """Insert a call at each use; of several statements with the variable in one line, the first is meant."""
    mentions: dict[Use, list[int]] = {}
    for position, token in enumerate(source.tokens):
        use = (token.file, token.line, token.text)
        if use in uses and _is_value(source, position):
            mentions.setdefault(use, []).append(position)
    for (_, _, name), positions in mentions.items():
        start = source.start_of_statement(positions[0])
        last = [position for position in positions if source.start_of_statement(position) == start][-1]
        # A pointer's own use is an error, and says more.
        is_pointer, hint = f"::std::is_pointer<decltype({name})>::value", f'::__mlusim_hint("unset", "{name}")'
        source.replace(last, last, f"({is_pointer} ? void() : void({hint}), {name})")


def _is_value(source: Source, position: int) -> bool:
    """Return whether a name is neither declared, set nor captured here, nor a member."""
    tokens, opening = source.tokens, source.opening(position - 1)
    before = tokens[position - 1]
    is_declared = before.kind == "word" and before.text not in _BEFORE_VALUES
    if is_declared or before.text in _BEFORE_MEMBERS or source.next_text(position) == "=":
        return False
    is_index = tokens[opening - 1].kind == "word" or tokens[opening - 1].text in ")]"
    return opening < 0 or tokens[opening].text != "[" or is_index


def with_single_iterations(source: Source) -> str:
    """Return the text with loops without branches ended after one iteration.

    All uses in the first one are executed. In `float sum; for (...) sum += x[i];`, the value may otherwise be that of
    an earlier one, and g++ is not certain.
    """
    before = list(source.edits)
    for position, token in enumerate(source.tokens):
        if token.text in ("for", "while") and token.kind == "word" and source.next_text(position) == "(":
            _end_after_one(source, position)
    text, source.edits[:] = source.edited(), before
    return text


def _end_after_one(source: Source, position: int) -> None:
    tokens, body = source.tokens, source.matching(position + 1) + 1
    if body >= len(tokens) or tokens[body].text == ";":
        return
    in_braces = tokens[body].text == "{"
    end = source.matching(body) if in_braces else source.end_of_declaration(body)
    if end + 1 < len(tokens) and not any(token.text in _BRANCHES for token in tokens[position + 1 : end]):
        source.insert(body + in_braces, "{ ")
        source.insert(end + (not in_braces), " break; }" if not in_braces else " } break; ")
