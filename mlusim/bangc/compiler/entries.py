"""Entries: functions that the host may launch, and `main`. They are registered by name at the end of the file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from mlusim.bangc.compiler.source import (
    Source,
    Token,
    closing_angle,
    joined,
    outside_brackets,
    quoted,
    spaced,
    split_at_commas,
)
from mlusim.bangc.compiler.undeclared_names import OWN
from mlusim.errors import CompileError

ENTRY_WORD = "__mlusim_entry"
MAIN = "mlusim_main"
_CONTROL = ("if", "constexpr", "for", "while", "switch", "catch")
# The file name of the lines that are appended.
ENTRIES = "<entries>"
_INVOKE = "cnrtInvokeKernel"
# The last word of a template's parameter without a name.
_TYPE_WORDS = ("typename", "class", "auto", "bool", "char", "short", "int", "long", "unsigned", "signed")
# The number of parameters of a template with a parameter pack.
_PACK = 1 << 16


@dataclass(slots=True)
class Entry:
    """A function that the host may launch.

    Attributes:
        name: name in the source; `launch_name` identifies it.
        scopes: the enclosing namespaces; an empty name for an anonymous one.
        parameters: names of its parameters.
        types: their declarations, without default values.
        file, line: location of its definition.
        template: number of template parameters, `_PACK` if one is a pack; 0 for a function.
        is_defined: false for a template that is only declared: its specialisations may be entries.
        launch_name: the name, with namespaces or types if another entry has the same name; empty for a member.
    """

    name: str
    scopes: tuple[str, ...]
    parameters: tuple[str, ...]
    types: tuple[str, ...]
    file: str
    line: int
    template: int = 0
    is_defined: bool = True
    launch_name: str = ""

    @property
    def qualified(self) -> str:
        """The name with its namespaces."""
        return "::".join([*(scope for scope in self.scopes if scope), self.name])


def entry_of(source: Source, position: int, scopes: tuple[str, ...]) -> Entry | None:
    """Return the entry of the word at `position`, and replace the word; None for a declaration, except of a template.

    The body then begins with a check that it runs on the board: not inlined, so that a call by host code has a line.
    """
    tokens = source.tokens
    source.replace(position, position, "__attribute__((noinline))")
    opening = source.parameters_of(position + 1)
    if opening < 0:
        return None
    name = tokens[opening - 1]
    # `void space::kernel(...)`: the namespaces in its name. Its parameters are looked up in them, too.
    outer = opening - 2
    while tokens[outer].text == "::" and tokens[outer - 1].text != "void":
        outer -= 2
    scopes = (*scopes, *(token.text for token in tokens[outer + 1 : opening - 1 : 2]))
    close, body = source.matching(opening), source.body_of(opening)
    tokens_before = tokens[source.start_of_statement(position) : position]
    template = 0
    arguments: list[str] = []
    if [token.text for token in tokens_before[:2]] == ["template", "<"]:
        template = max(_parameters_of_template(tokens_before), 1)
        arguments = _own_arguments(tokens_before)
    is_defined = body >= 0
    if not is_defined and not template:
        return None
    if is_defined and body + 1 < len(tokens):
        source.insert(body + 1, f"::mlusim::entered({quoted(name.text.removeprefix(OWN))}); ")
    parts = [part for part in split_at_commas(tokens[opening + 1 : close]) if part]
    if len(parts) == 1 and spaced(parts[0]) == "void":
        parts = []
    for part in map(_without_default, parts):
        if any(token.text == "&" for token in part):
            raise CompileError(
                f"{name.file}:{part[0].line}: {joined(part)} of {name.text.removeprefix(OWN)}: the host would pass the "
                "address of its own object, which a core cannot access; pass it by value, or a pointer to device memory"
            )
    types = tuple(spaced(_without_default(part)) for part in parts)
    if arguments and is_defined and body + 1 < len(tokens) and any(token.text.startswith(_INVOKE) for token in tokens):
        source.insert(body + 1, _instance(name, arguments, types))
    return Entry(
        name.text,
        scopes,
        tuple(_parameter_name(part) for part in parts),
        types,
        name.file,
        name.line,
        template,
        is_defined,
    )


def specialised_name(source: Source, position: int) -> str:
    """Return the name of the template that the function declared from `position` on specialises."""
    tokens = source.tokens
    return next(tokens[i - 1].text for i in range(position, len(tokens)) if tokens[i].text in ("<", "(", ";"))


def name_with_defaults(source: Source, position: int) -> str | None:
    """Return the name of the function of the entry word at `position` if a parameter has a default value."""
    opening = source.parameters_of(position + 1)
    if opening < 0:
        return None
    parameters = source.tokens[opening : source.matching(opening)]
    return source.tokens[opening - 1].text if any(token.text == "=" for token in parameters) else None


def _parameters_of_template(tokens: list[Token]) -> int:
    parts = split_at_commas(tokens[2 : closing_angle(tokens, 1)])
    # A pack takes more arguments than any launch gives.
    has_pack = any("..." in spaced(part).replace(" ", "") for part in parts)
    return _PACK if has_pack else len(parts)


def _own_arguments(tokens: list[Token]) -> list[str]:
    """Return the arguments with which a template names its own instance; empty if a parameter has no name."""
    arguments = []
    for part in split_at_commas(tokens[2 : closing_angle(tokens, 1)]):
        words = [token.text for token in _without_default(part)]
        if len(words) < 2 or not words[-1].isidentifier() or words[-1] in _TYPE_WORDS or words[-2] == "::":
            return []
        arguments.append(words[-1] + " ..." * (words[-2] == "..."))
    return arguments


def _instance(name: Token, arguments: list[str], types: tuple[str, ...]) -> str:
    """Return a statement that registers the instance of a template, so that `cnrtInvokeKernel` finds its address."""
    own = f"{name.text}<{', '.join(arguments)}>"
    called = quoted(own.replace(OWN, ""))
    return (
        f"struct mlusim_name {{ static constexpr const char *text() {{ return {called}; }} }}; "
        f"(void)&::mlusim::instance<static_cast<void (*)({', '.join(types)})>(&{own}), mlusim_name>; "
    )


def _without_default(tokens: list[Token]) -> list[Token]:
    return tokens[: next((index for index in outside_brackets(tokens) if tokens[index].text == "="), len(tokens))]


def _parameter_name(tokens: list[Token]) -> str:
    name = ""
    for index in outside_brackets(tokens):
        if tokens[index].text in ("=", "["):
            break
        name = tokens[index].text if tokens[index].kind == "word" else name
    return name


def name_entries(entries: list[Entry]) -> None:
    """Set each entry's shortest unique name: its own, with namespaces, or with types."""
    names = Counter(entry.name for entry in entries)
    qualified = Counter(entry.qualified for entry in entries)
    for entry in entries:
        if names[entry.name] == 1:
            entry.launch_name = entry.name.removeprefix(OWN)
        elif qualified[entry.qualified] == 1 or entry.template:
            entry.launch_name = entry.qualified
        else:
            types = ", ".join(map(_type_alone, entry.types, entry.parameters))
            entry.launch_name = (
                f"{entry.name if names[entry.name] == qualified[entry.qualified] else entry.qualified}({types})"
            )


def _type_alone(declaration: str, name: str) -> str:
    tokens = declaration.split()
    return " ".join(tokens[:-1]) if len(tokens) > 1 and tokens[-1] == name else declaration


def rewrite_main(source: Source, position: int) -> bool:
    """Rename the program's `main`, except to itself, and add the implicit return that C++ grants only to `main`."""
    opening = source.matching(position + 1) + 1
    is_try = opening < len(source.tokens) and source.tokens[opening].text == "try"
    opening += is_try
    if opening >= len(source.tokens) or source.tokens[opening].text != "{":
        return False
    source.replace(position, position, MAIN)
    closing = source.matching(opening)
    source.insert(closing, "return 0; ")
    body_start = opening + 1
    while body_start < closing:
        if source.tokens[body_start].text in ("__func__", "__FUNCTION__"):
            source.replace(body_start, body_start, '"main"')
        body_start = (body_start if _is_block(source, body_start) else source.matching(body_start)) + 1
    while is_try and source.next_text(closing) == "catch":
        closing = source.matching(source.matching(closing + 2) + 1)
        source.insert(closing, "return 0; ")
    return True


def _is_block(source: Source, position: int) -> bool:
    """Return whether a token opens no body of a lambda or of a method, which have names of their own, and no values."""
    text_before = source.tokens[position - 1].text
    if source.tokens[position].text != "{" or text_before in ("{", "}", ";", ":", "else", "do", "try"):
        return True
    condition = source.opening(position - 1) if text_before == ")" else 0
    # None is found for a `for` with semicolons.
    return condition < 0 or (condition > 0 and source.tokens[condition - 1].text in _CONTROL)


def registrations(entries: list[Entry], instantiate: tuple[str, ...], *, has_main: bool) -> str:
    """Return the end of the file: an object per entry, in the entry's namespace, that registers it."""
    end = f'\n# 1 "{ENTRIES}"\n'
    lines = [end]
    for number, entry in enumerate(entries):
        if not entry.template:
            pointer = f"static_cast<void (*)({', '.join(entry.types)})>(&{entry.name})"
            lines.append(_registration(number, entry, pointer, entry.launch_name))
    for number, instance in enumerate(instantiate, len(entries)):
        base, arguments = instance.split("<", 1)
        for entry in entries:
            if entry.template and base.strip() in (entry.name, entry.qualified, entry.launch_name):
                lines.append(_registration(number, entry, f"&{entry.name}<{arguments}", instance))
                break
    lines.append(f"{end};\n")
    if has_main:
        lines.append(
            f"static void mlusim_run_main(int count, char **words) {{ ::mlusim::run_main(&::{MAIN}, count, words); }}\n"
            'static void *mlusim_entry_main = ::mlusim::enter(&mlusim_run_main, "main", "argc,argv", "", 0);\n'
        )
    return "".join(lines)


def _registration(number: int, entry: Entry, pointer: str, name: str) -> str:
    head = "".join(f"namespace {scope} {{ " for scope in entry.scopes)
    parameters = ",".join(entry.parameters).replace(OWN, "")
    return (
        f"# {entry.line} {quoted(entry.file)}\n"
        f"{head}static void *mlusim_entry_{number} = ::mlusim::enter({pointer}, {quoted(name)}, "
        f'"{parameters}", {quoted(entry.file)}, {entry.line});{" }" * len(entry.scopes)}\n'
    )
