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
    first, last = (tokens[body].stop, tokens[end].start) if in_braces else (tokens[body].start, tokens[end].stop)
    return [(first, first, "{ "), (last, last, " } break; " if in_braces else " break; }")]
