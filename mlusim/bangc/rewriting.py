"""Rewrite preprocessed BANG C so that a C++ compiler takes it, with every line where it was.

What has no meaning in C++ becomes calls of the headers: arrays with a memory space become references to bytes that the
simulator gives, `name<<<dim, type, queue>>>(...)` an object that launches, `__asm__` a call by the text of the
statement. Entries are registered by name at the end of the file. Text of system headers is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_MARKER = re.compile(r'^# (\d+) "([^"]*)"([ \d]*)\n', re.MULTILINE)
_TOKEN = re.compile(
    r"""(?P<raw>(?:u8|[uUL])?R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)")
    |(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
    |(?P<char>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?\d(?:[eEpP][+-]|['\w.])*)
    |(?P<word>[A-Za-z_]\w*)
    |(?P<launch><<<)
    |(?P<directive>^[ \t]*\#[^\n]*)
    |(?P<blank>\s+)
    |(?P<other>::|->|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_SPACES = {"__mlusim_nram": 0, "__mlusim_wram": 1, "__mlusim_shared": 2, "__mlusim_ldram": 3}
_ENTRY = "__mlusim_entry"
_ASSEMBLY = ("__asm__", "asm", "__asm")
_STORAGE = ("static", "extern", "inline", "constexpr", "constinit")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(slots=True)
class Token:
    """One token of the user's text: where it stands, and at which line of which file."""

    kind: str
    text: str
    start: int
    stop: int
    line: int
    file: str


@dataclass(slots=True)
class Entry:
    """A function that the host may launch."""

    name: str
    qualified: str
    parameters: tuple[str, ...]
    file: str
    line: int
    template: int = 0


@dataclass(slots=True)
class Rewritten:
    """The text to compile, its entries, and the words that are called like instructions."""

    text: str
    entries: list[Entry]
    calls: dict[str, tuple[str, int]]
    has_main: bool = False


@dataclass(slots=True)
class _State:
    text: str
    tokens: list[Token]
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    placed: dict[str, str] = field(default_factory=dict)
    number: int = 0


def rewrite(
    text: str,
    instantiate: tuple[str, ...] = (),
    own: tuple[str, ...] = (),
    unknown: Callable[[str], bool] = lambda _: False,
) -> Rewritten:
    """Rewrite the output of a preprocessor.

    Args:
        text: preprocessed text with line markers.
        instantiate: templates of entries to instantiate, such as `name<float, 4>`.
        own: folders whose headers are left as they are, beside the compiler's own.
        unknown: whether a name that is called is an intrinsic that there is not.
    """
    tokens = _tokens(text, own)
    state = _State(text, tokens)
    scopes: list[str] = []
    names: list[str] = []
    calls: dict[str, tuple[str, int]] = {}
    has_main = False
    defined = _defined_names(tokens)
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.text == "{" and token.kind == "other":
            scope, name = _scope(tokens, position)
            scopes.append(scope)
            names.append(name)
        elif token.text == "}" and token.kind == "other" and scopes:
            scopes.pop()
            names.pop()
        elif token.kind == "launch":
            _launch(state, position)
        elif token.kind == "word":
            if token.text in _SPACES:
                at_file_scope = all(scope == "namespace" for scope in scopes)
                in_class = bool(scopes) and scopes[-1] == "class"
                position = _array(state, position, at_file_scope=at_file_scope, in_class=in_class)
                continue
            if token.text == _ENTRY:
                _entry(state, position, [name for name in names if name])
            elif token.text in _ASSEMBLY:
                _assembly(state, position)
            elif token.text.startswith("__") and _next(tokens, position) == "(":
                calls.setdefault(token.text, (token.file, token.line))
                if token.text not in defined and unknown(token.text):
                    state.edits.append((token.start, token.stop, f'::mlusim::unknown("{token.text}")'))
            elif token.text == "main" and not scopes and _next(tokens, position) == "(":
                has_main = _main(state, position) or has_main
        position += 1
    for name in defined:
        calls.pop(name, None)
    return Rewritten(_apply(state) + _registrations(state, instantiate, has_main), state.entries, calls, has_main)


def _tokens(text: str, own: tuple[str, ...]) -> list[Token]:
    found: list[Token] = []
    markers = list(_MARKER.finditer(text))
    # The marker that enters a file tells whose it is: later ones also tell whose macro stands there.
    users: dict[str, bool] = {}
    for marker in markers:
        users.setdefault(marker[2], " 3" not in marker[3])
    for index, marker in enumerate(markers):
        if not users[marker[2]] or marker[2].startswith((*own, "<")):
            continue
        start, stop = marker.end(), markers[index + 1].start() if index + 1 < len(markers) else len(text)
        line, file = int(marker[1]), marker[2]
        for match in _TOKEN.finditer(text, start, stop):
            kind = match.lastgroup or "other"
            kind = "raw" if kind == "tag" else kind
            if kind not in ("blank", "directive"):
                found.append(Token(kind, match[0], match.start(), match.end(), line, file))
            line += match[0].count("\n")
    return found


def _next(tokens: list[Token], position: int) -> str:
    return tokens[position + 1].text if position + 1 < len(tokens) else ""


def _defined_names(tokens: list[Token]) -> set[str]:
    """Functions of the user's that are named like instructions: a word between a type and a parenthesis."""
    found = set()
    for position in range(1, len(tokens) - 1):
        token, before = tokens[position], tokens[position - 1]
        if (
            token.kind == "word"
            and token.text.startswith("__")
            and tokens[position + 1].text == "("
            and (before.kind == "word" or before.text in "*&>")
            and before.text not in ("return", "else", "do", "case")
            and _ends_as_definition(tokens, position + 1)
        ):
            found.add(token.text)
    return found


def _ends_as_definition(tokens: list[Token], position: int) -> bool:
    close = _match(tokens, position)
    return close + 1 < len(tokens) and tokens[close + 1].text in ("{", "const")


def _match(tokens: list[Token], position: int) -> int:
    """The token that closes the bracket at `position`."""
    depth = 0
    for index in range(position, len(tokens)):
        if tokens[index].kind != "other":
            continue
        if tokens[index].text in _OPENING:
            depth += 1
        elif tokens[index].text in _CLOSING:
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def _start_of_statement(tokens: list[Token], position: int) -> int:
    """The first token of the statement, or of the parameter, that a token is in."""
    depth = 0
    index = position
    while index > 0:
        before = tokens[index - 1]
        if before.kind == "other":
            if before.text in ")]":
                depth += 1
            elif before.text in "([":
                if depth == 0:
                    return index
                depth -= 1
            elif before.text in ";{}" and depth == 0:
                return index
        index -= 1
    return 0


def _scope(tokens: list[Token], position: int) -> tuple[str, str]:
    """What a brace opens: a namespace with its name, a class, or code."""
    words = [token.text for token in tokens[_start_of_statement(tokens, position) : position]]
    if "namespace" in words:
        rest = words[words.index("namespace") + 1 :]
        return "namespace", "".join(rest)
    if words[:1] == ["extern"] and len(words) == 2 and words[1].startswith('"'):  # noqa: PLR2004
        return "namespace", ""
    if any(word in ("class", "struct", "union", "enum") for word in words) and "(" not in words and "=" not in words:
        return "class", ""
    return "code", ""


def _launch(state: _State, position: int) -> None:
    tokens = state.tokens
    start = position - 1
    if start >= 0 and tokens[start].text == ">":
        depth = 0
        while start >= 0:
            depth += {">": 1, "<": -1}.get(tokens[start].text, 0)
            if depth == 0:
                break
            start -= 1
        start -= 1
    while start >= 2 and tokens[start - 1].text == "::" and tokens[start - 2].kind == "word":  # noqa: PLR2004
        start -= 2
    close = _closing_launch(tokens, position)
    if start < 0 or tokens[start].kind != "word" or close < 0:
        return
    name = " ".join(state.text[tokens[start].start : tokens[position].start].split())
    plain = tokens[start].text if tokens[start + 1].text != "::" else name.split("<")[0].split("::")[-1].strip()
    supplied = _arguments_of_template(tokens, start, position)
    known = [entry for entry in state.entries if entry.name == plain]
    deduced = len(known) > 1 or any(entry.template > supplied for entry in known)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    head = f'::mlusim::launcher("{quoted}", '
    middle = ", "
    if deduced:
        head += "[](auto... mlusim_a) { "
        middle = "(mlusim_a...); }, "
    state.edits.append((tokens[start].start, tokens[start].start, head))
    state.edits.append((tokens[position].start, tokens[position].stop, middle))
    state.edits.append((tokens[close].start, tokens[close + 2].stop, ")"))


def _arguments_of_template(tokens: list[Token], start: int, stop: int) -> int:
    depth = count = 0
    for token in tokens[start:stop]:
        if token.text == "<":
            depth += 1
            count = max(count, 1)
        elif token.text == ">":
            depth -= 1
        elif token.text == "," and depth == 1:
            count += 1
    return count


def _closing_launch(tokens: list[Token], position: int) -> int:
    depth = 0
    for index in range(position + 1, len(tokens) - 2):
        text = tokens[index].text
        if tokens[index].kind != "other":
            continue
        if text in _OPENING:
            depth += 1
        elif text in _CLOSING:
            depth -= 1
        elif text == ";":
            return -1
        elif text == ">" and depth == 0 and tokens[index + 1].text == ">" and tokens[index + 2].text == ">":
            return index
    return -1


def _array(state: _State, position: int, *, at_file_scope: bool, in_class: bool) -> int:
    """A declaration with a memory space; gives the position to go on at."""
    tokens = state.tokens
    marker = tokens[position]
    start = _start_of_statement(tokens, position)
    stop = _end_of_declaration(tokens, position)
    body = tokens[start:stop]
    texts = [token.text for token in body]
    is_array = "[" in texts[: texts.index("=")] if "=" in texts else "[" in texts
    if stop >= len(tokens) or tokens[stop].text != ";" or in_class or (not is_array and "*" in texts):
        # A parameter, a pointer or a member: the space says where it points, and the address says that too.
        state.edits.append((marker.start, marker.stop, ""))
        return position + 1
    if "typedef" in texts or "using" in texts or "(" in texts[: texts.index("=") if "=" in texts else None][:1]:
        state.edits.append((marker.start, marker.stop, ""))
        return position + 1
    kind = next(_SPACES[text] for text in texts if text in _SPACES)
    external = "extern" in texts
    words = _without_attributes([token for token in body if token.text not in _SPACES and token.text not in _STORAGE])
    declarators = _split(words)
    base, first = _base_and_declarator(declarators[0])
    new = [
        _reference(state, kind, base, declarator, marker, external=external, at_file_scope=at_file_scope)
        for declarator in (first, *declarators[1:])
    ]
    original = state.text[tokens[start].start : tokens[stop].stop]
    kept_lines = "\n" * original.count("\n")
    state.edits.append((tokens[start].start, tokens[stop].stop, " ".join(new) + kept_lines))
    return stop + 1


def _end_of_declaration(tokens: list[Token], position: int) -> int:
    depth = 0
    for index in range(position, len(tokens)):
        text = tokens[index].text
        if tokens[index].kind != "other":
            continue
        if text in _OPENING:
            depth += 1
        elif text in _CLOSING:
            depth -= 1
            if depth < 0:
                return len(tokens)
        elif text == ";" and depth == 0:
            return index
    return len(tokens)


def _without_attributes(tokens: list[Token]) -> list[Token]:
    kept: list[Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in ("__attribute__", "alignas", "__attribute", "__declspec"):
            index = _match(tokens, index + 1) + 1
            continue
        kept.append(tokens[index])
        index += 1
    return kept


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Declarators between the commas that are in no bracket."""
    parts: list[list[Token]] = [[]]
    depth = angle = 0
    for token in tokens:
        if token.kind == "other":
            depth += (token.text in _OPENING) - (token.text in _CLOSING)
            angle = max(angle + (token.text == "<") - (token.text == ">"), 0)
        if token.text == "," and not depth and not angle:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _base_and_declarator(tokens: list[Token]) -> tuple[str, list[Token]]:
    """The type of a declaration, and its first declarator: from the last word before its bounds on."""
    end = next((index for index, token in enumerate(tokens) if token.text in ("[", "=", "{")), len(tokens))
    return _joined(tokens[: end - 1]), tokens[end - 1 :]


def _joined(tokens: list[Token]) -> str:
    return " ".join(token.text for token in tokens)


def _reference(
    state: _State,
    kind: int,
    base: str,
    declarator: list[Token],
    marker: Token,
    *,
    external: bool,
    at_file_scope: bool,
) -> str:
    name = declarator[0].text
    equals = next((index for index, token in enumerate(declarator) if token.text in ("=", "{")), len(declarator))
    bounds, initial = _joined(declarator[1:equals]), declarator[equals:]
    if at_file_scope:
        if state.placed.get(name) == bounds:
            return ";"
        if not (external and not initial):
            state.placed[name] = bounds
        else:
            state.placed.setdefault(name, bounds)
    state.number += 1
    number = state.number
    file = marker.file.replace("\\", "\\\\").replace('"', '\\"')
    where = f'{kind}, "{name}", "{file}", {marker.line}'
    if initial:
        # At function scope the value is set whenever the declaration is reached.
        made = f"static {base} mlusim_i{number} {bounds} {_joined(initial)}; typedef decltype(mlusim_i{number}) "
        made += f"mlusim_t{number}; static mlusim_t{number} &{name} = *::mlusim::place<mlusim_t{number}>({where}, "
        return made + f"&mlusim_i{number});"
    return (
        f"typedef {base} mlusim_t{number} {bounds}; "
        f"static mlusim_t{number} &{name} = *::mlusim::place<mlusim_t{number}>({where});"
    )


def _entry(state: _State, position: int, namespaces: list[str]) -> None:
    tokens = state.tokens
    state.edits.append((tokens[position].start, tokens[position].stop, ""))
    opening = position + 1
    while opening < len(tokens) and tokens[opening].text not in ("(", ";", "{"):
        opening += 1
    if opening >= len(tokens) or tokens[opening].text != "(":
        return
    while tokens[opening - 1].text in ("__attribute__", "__launch_bounds__"):
        opening = _match(tokens, opening) + 1
        while opening < len(tokens) and tokens[opening].text not in ("(", ";", "{"):
            opening += 1
    name = tokens[opening - 1]
    close = _match(tokens, opening)
    if close + 1 >= len(tokens) or tokens[close + 1].text != "{":
        return
    start = _start_of_statement(tokens, position)
    before = tokens[start:position]
    template = 0
    if before and before[0].text == "template":
        template = max(_arguments_of_template(before, 0, len(before)), 1)
    names = tuple(_parameter_name(part) for part in _split(tokens[opening + 1 : close]) if part)
    names = () if names == ("void",) and close == opening + 2 else names
    qualified = "::".join([*namespaces, name.text])
    state.entries.append(Entry(name.text, qualified, names, name.file, name.line, template))


def _parameter_name(tokens: list[Token]) -> str:
    end = next((index for index, token in enumerate(tokens) if token.text in ("=", "[")), len(tokens))
    words = [token.text for token in tokens[:end] if token.kind == "word"]
    return words[-1] if words else ""


def _assembly(state: _State, position: int) -> None:
    tokens = state.tokens
    opening = position + 1
    while opening < len(tokens) and tokens[opening].text in ("volatile", "__volatile__", "goto", "inline"):
        opening += 1
    if opening >= len(tokens) or tokens[opening].text != "(":
        return
    close = _match(tokens, opening)
    inner = tokens[opening + 1 : close]
    text = "".join(token.text[1:-1] for token in _until(inner, (":", "::")) if token.kind == "string")
    operands = _operands(inner)
    lines = "\n" * state.text[tokens[position].start : tokens[close].stop].count("\n")
    call = ", ".join([f'"{text}"', *operands])
    state.edits.append((tokens[position].start, tokens[close].stop, f"__mlusim_assembly({call}){lines}"))


def _main(state: _State, position: int) -> bool:
    """The program's own `main` by another name, with the return that C++ grants it alone."""
    tokens = state.tokens
    opening = _match(tokens, position + 1) + 1
    if opening >= len(tokens) or tokens[opening].text != "{":
        return False
    end = tokens[_match(tokens, opening)].start
    state.edits.append((tokens[position].start, tokens[position].stop, "mlusim_main"))
    state.edits.append((end, end, "return 0; "))
    return True


def _until(tokens: list[Token], ends: tuple[str, ...]) -> list[Token]:
    for index, token in enumerate(tokens):
        if token.text in ends:
            return tokens[:index]
    return tokens


def _operands(tokens: list[Token]) -> list[str]:
    """Outputs by address, inputs by value, in the order of the statement."""
    found: list[str] = []
    section = 0
    for index, token in enumerate(tokens):
        if token.kind == "other" and token.text in (":", "::"):
            section += len(token.text)
        elif token.kind == "string" and section in (1, 2) and _next(tokens, index) == "(":
            inside = _joined(tokens[index + 2 : _match(tokens, index + 1)])
            found.append(f"&({inside})" if section == 1 else f"({inside})")
    return found


def _apply(state: _State) -> str:
    parts, position = [], 0
    for start, stop, new in sorted(state.edits, key=lambda edit: (edit[0], edit[1])):
        if start < position:
            continue
        parts += [state.text[position:start], new]
        position = stop
    parts.append(state.text[position:])
    return "".join(parts)


def _registrations(state: _State, instantiate: tuple[str, ...], has_main: bool) -> str:  # noqa: FBT001
    counts: dict[str, int] = {}
    for entry in state.entries:
        counts[entry.qualified] = counts.get(entry.qualified, 0) + 1
    lines = ['\n# 1 "<entries>"\n']

    def register(expression: str, name: str, entry: Entry) -> None:
        file = entry.file.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(
            f"static void *mlusim_entry_{len(lines)} = ::mlusim::enter(&{expression}, "
            f'"{name}", "{",".join(entry.parameters)}", "{file}", {entry.line});\n'
        )

    for entry in state.entries:
        if not entry.template and counts[entry.qualified] == 1:
            register(f"::{entry.qualified}", entry.name, entry)
    for wanted in instantiate:
        base = wanted.split("<", 1)[0].strip()
        for entry in state.entries:
            if base in (entry.name, entry.qualified):
                arguments = wanted.split("<", 1)[1]
                register(f"::{entry.qualified}<{arguments}", wanted, entry)
                break
    if has_main:
        lines.append(
            "static void mlusim_run_main(int count, char **words) "
            "{ ::mlusim::run_main(&::mlusim_main, count, words); }\n"
            'static void *mlusim_entry_main = ::mlusim::enter(&mlusim_run_main, "main", "argc,argv", "", 0);\n'
        )
    return "".join(lines)
