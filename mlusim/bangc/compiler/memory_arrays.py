"""Rewriting of declarations with a memory space, such as `__nram__ float tile[64];`, as references to memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from mlusim.bangc.compiler.source import (
    CLASSES,
    Source,
    Token,
    closing_angle,
    joined,
    matching,
    outside_brackets,
    quoted,
    split_at_commas,
    without_attributes,
)
from mlusim.bangc.compiler.undeclared_names import OWN
from mlusim.errors import CompileError

# Added to a memory's number: the array may be another file's, as in `runtime/arrays.h`.
_EXTERN = 8
# In scopes, for a namespace without a name.
UNNAMED = "(unnamed)"
# The owner of an array that other files may declare.
_OF_ALL_FILES = '""'
SPACES = {"__mlusim_nram": 0, "__mlusim_wram": 1, "__mlusim_shared": 2, "__mlusim_ldram": 3}
# Words of variables in GDRAM; they also stand before functions.
_VARIABLES = {"__mlusim_device": 4, "__mlusim_const": 4}
SPACES |= _VARIABLES
_STORAGE = ("static", "extern", "inline", "constexpr", "constinit")
_TYPE_WITH_PARENTHESES = ("decltype", "typeof", "__typeof__")
_START_OF_BOUNDS = ("[", "=", "{")
_POINTING = frozenset(("*", "&"))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declaration:
    """What the arrays of one declaration have in common.

    Attributes:
        kind: number of the memory.
        base: the type.
        marker: the word of the memory space.
        scope: at file scope, the enclosing namespaces; None within functions and classes.
        owner: the function or class, in C++: each instance of a template has arrays of its own.
        storage: of the references.
        external: declared by `extern`.
    """

    kind: int
    base: str
    marker: Token
    scope: str | None
    owner: str
    storage: str = "static"
    external: bool

    def place(self, name: str) -> str:
        """Return arguments in C++: memory, name, file and line of an array."""
        marker = self.marker
        return f"{self.kind}, {quoted(name.removeprefix(OWN))}, {quoted(marker.file)}, {marker.line}"


class MemoryArrays:
    """Rewrites the declarations of one file.

    Attributes:
        unsized: arrays that it declares without a size, with file and line of the declaration.
        sized: arrays that it declares with their size.
        defined: those of them that other files may declare without.
    """

    def __init__(self, source: Source) -> None:
        self.unsized: dict[str, tuple[str, int]] = {}
        self.sized: set[str] = set()
        self.defined: set[str] = set()
        self._source = source
        self._placed: dict[tuple[str, str], str] = {}
        self._number = 0

    def rewrite(self, position: int, scope: str, *, at_file_scope: bool, in_class: bool) -> int:
        """Rewrite the declaration of the word at `position`; returns the position to continue at.

        Args:
            position: position of the memory space's word.
            scope: the enclosing namespaces; `UNNAMED` for one without a name.
            at_file_scope: outside of every function and class.
            in_class: a member.
        """
        source, tokens = self._source, self._source.tokens
        is_variable = tokens[position].text in _VARIABLES
        start = self._start(position)
        stop = source.end_of_declaration(position)
        for index in range(start, min(stop, len(tokens))):
            self.rewrite_type(index)
        body = without_attributes(tokens[start:stop])
        words = {token.text for token in body}
        is_global = is_variable and at_file_scope and _is_global(tokens[start:stop])
        is_static_member = in_class and not is_variable and "static" in words
        if (
            stop >= len(tokens)
            or (in_class and not is_static_member)
            or (is_variable and not is_global)
            or not _is_variable(body)
        ):
            # A parameter, a pointer or a member: the space is that of the target, which its address determines anyway.
            source.replace(position, position, "")
            return position + 1
        declaration = [token for token in body if token.text not in SPACES and token.text not in _STORAGE]
        parameters = _end_of_template_parameters(declaration)
        declarators = split_at_commas(declaration[parameters:])
        base, declarators[0] = _base_and_declarator(declarators[0])
        if not all(declarators):
            # A variable without a name: the compiler says what is missing.
            source.replace(position, position, "")
            return position + 1
        shared = _Declaration(
            kind=next(SPACES[token.text] for token in body if token.text in SPACES),
            base=base,
            marker=tokens[position],
            scope=scope if at_file_scope else None,
            owner=_owner(scope, words, at_file_scope=at_file_scope),
            external="extern" in words,
        )
        if base.endswith("::") or parameters:
            # The definition of a static member, which the class defines here, or a template.
            _refuse_value(declarators[0], shared.marker)
            text = "" if base.endswith("::") else _template(shared, joined(declaration[:parameters]), declarators[0])
        else:
            if shared.external:
                declarators = [self._with_bounds(declarator, stop) for declarator in declarators]
            is_constant = is_global and _is_constant(body)
            text = self._arrays(shared, declarators, is_member=is_static_member, is_constant=is_constant)
        source.replace(start, stop, text or ";")
        return stop + 1

    def _arrays(
        self, shared: _Declaration, declarators: list[list[Token]], *, is_member: bool, is_constant: bool
    ) -> str:
        """Return what stands for a declaration of arrays; "" if all were declared before."""
        new = []
        if is_member:
            self._number += 1
            shared = replace(shared, owner=f"mlusim_o{self._number}()", storage="inline static")
            new.append(f"static const char *{shared.owner} {{ return __PRETTY_FUNCTION__; }}")
        if "{" in shared.base:
            self._number += 1
            new.append(f"typedef {shared.base} mlusim_s{self._number};")
            shared = replace(shared, base=f"mlusim_s{self._number}")
        for declarator in declarators:
            if declarator[0].text in ("*", "&", "("):
                new.append(f"{shared.base} {joined(declarator)};")
            else:
                new.append((self._constant if is_constant else self._declared)(shared, declarator))
        return " ".join(filter(None, new))

    def _declared(self, shared: _Declaration, declarator: list[Token]) -> str:
        """Return what stands for the declaration of an array; "" for one that repeats an earlier declaration."""
        has_value = _end_of_bounds(declarator) < len(declarator)
        defined_here = has_value or not shared.external
        if not self._is_new(shared, declarator):
            # Declared by `extern` before: this defines it.
            return self._reference(shared, declarator, is_definition=True) if defined_here else ""
        if not has_value and [token.text for token in declarator[1:3]] == ["[", "]"]:
            if shared.external:
                return self._elsewhere(shared, declarator)
            name, marker = declarator[0].text.removeprefix(OWN), shared.marker
            raise CompileError(f"{marker.file}:{marker.line}: {name} has no size: declare it with one, as {name}[64]")
        return self._reference(shared if defined_here else replace(shared, kind=shared.kind | _EXTERN), declarator)

    def rewrite_type(self, position: int) -> None:
        """Rewrite `decltype(name)` of an array, whose name is a reference here, to the type of the array."""
        tokens_there = self._source.tokens[position : position + 4]
        if [word.text for word in tokens_there[::3]] != ["decltype", ")"] or tokens_there[2].text not in self.sized:
            return
        for index, text in ((position, "::std::remove_reference_t<decltype"), (position + 3, ")>")):
            self._source.replace(index, index, text)
            self._source.tokens[index].text = text

    def _with_bounds(self, declarator: list[Token], position: int) -> list[Token]:
        """Return a declarator `name[]` with the bounds of its definition, if there is one after `position`."""
        tokens, (name, *bounds) = self._source.tokens, [token.text for token in declarator]
        for index in range(position, len(tokens) - 2) if bounds[:2] == ["[", "]"] else ():
            if tokens[index].text == name and tokens[index + 1].text == "[" and tokens[index + 2].text != "]":
                start = self._source.start_of_statement(index)
                if any(token.text in SPACES for token in tokens[start:index]):
                    defined = split_at_commas(tokens[index : self._source.end_of_declaration(index)])[0]
                    return defined[: _end_of_bounds(defined)]
        return declarator

    def _start(self, position: int) -> int:
        """Return the first token of the declaration, after a label if there is one."""
        start = self._source.start_of_statement(position)
        for index in range(position - 1, start - 1, -1):
            if self._source.tokens[index].text == ":":
                return index + 1
        return start

    def _is_new(self, shared: _Declaration, declarator: list[Token]) -> bool:
        """Return whether a name of the file is declared for the first time: `extern` may come before and after."""
        if shared.scope is None:
            return True
        key, bounds = (shared.scope, declarator[0].text), joined(declarator[1 : _end_of_bounds(declarator)])
        initial = _end_of_bounds(declarator) < len(declarator)
        if self._placed.get(key) == bounds or (shared.external and not initial and key in self._placed):
            return False
        self._placed[key] = bounds
        return True

    def _elsewhere(self, shared: _Declaration, declarator: list[Token]) -> str:
        """Return a pointer to an array that another file defines with its size, found by name when the files load."""
        name, self._number = declarator[0].text, self._number + 1
        self.unsized[name] = shared.marker.file, shared.marker.line
        element, text = f"mlusim_t{self._number}", quoted(name.removeprefix(OWN))
        return (
            f"typedef {shared.base} {element} {joined(declarator[3:])}; "
            f"static {element} *{name} = ::mlusim::array_elsewhere<{element}>({shared.kind}, {text}, &{name});"
        )

    def _reference(self, shared: _Declaration, declarator: list[Token], *, is_definition: bool = False) -> str:
        """Return a reference to an array; `is_definition`: to one declared before, which it defines."""
        name = declarator[0].text
        self.sized.add(name)
        if shared.owner == _OF_ALL_FILES:
            self.defined.add(name)
        end = _end_of_bounds(declarator)
        bounds, initial = joined(declarator[1:end]), joined(declarator[end:])
        self._number += 1
        number = self._number
        reference = f"mlusim_r{number}" if is_definition else name
        array_type, value = f"{shared.base} mlusim_t{number} {bounds}", ""
        definition = ""
        if initial:
            # At function scope the value is set whenever the declaration is reached.
            definition = f"{shared.storage} {shared.base} mlusim_i{number} {bounds} {initial}; "
            array_type, value = f"decltype(mlusim_i{number}) mlusim_t{number}", f", &mlusim_i{number}"
        return (
            f"{definition}typedef {array_type}; {shared.storage} mlusim_t{number} &{reference} = "
            f"*::mlusim::array_in_memory<mlusim_t{number}>({shared.place(name)}, {shared.owner}{value});"
        )

    def _constant(self, shared: _Declaration, declarator: list[Token]) -> str:
        """Return a constant without bounds: in GDRAM if it is a record; others stay constant expressions."""
        name, initial = declarator[0].text, joined(declarator[1:])
        self._number += 1
        value = f"mlusim_i{self._number}"
        constant = f"::mlusim::constant({value}, {shared.place(name)})"
        return (
            f"static {shared.base} {value} {initial}; static ::mlusim::Constant<decltype({value})> {name} = {constant};"
        )


def _owner(scope: str, words: Collection[str], *, at_file_scope: bool) -> str:
    """Return the owner of a declaration's arrays."""
    if "extern" in words:
        return _OF_ALL_FILES
    if not at_file_scope:
        return "__PRETTY_FUNCTION__"
    return '"static"' if UNNAMED in scope or "static" in words else _OF_ALL_FILES


def _template(shared: _Declaration, header: str, declarator: list[Token]) -> str:
    """Return a template of references: each instance is initialised, and so placed, when the file is loaded."""
    name, bounds, marker = declarator[0].text, joined(declarator[1:]), shared.marker
    if shared.kind == SPACES["__mlusim_shared"]:
        raise CompileError(
            f"{marker.file}:{marker.line}: {name}: a template of variables in SRAM is not simulated; declare the "
            "array at file scope or in a function"
        )
    array = f'*::mlusim::array_in_memory<{shared.base} {bounds}>({shared.place(name)}, "")'
    return f"{header} static {shared.base} (&{name}){bounds} = {array};"


def _refuse_value(declarator: list[Token], marker: Token) -> None:
    """Raise `CompileError` if a static member or a template of variables has a value."""
    if _end_of_bounds(declarator) < len(declarator):
        raise CompileError(
            f"{marker.file}:{marker.line}: {declarator[0].text}: a static member or a template with a memory space has "
            "no value in its definition; set it in the kernel"
        )


def _end_of_template_parameters(tokens: list[Token]) -> int:
    """Return where a declaration continues after `template <...>`; 0 if it is not a template."""
    is_template = bool(tokens) and tokens[0].text == "template"
    return closing_angle(tokens, 1) + 1 if is_template else 0


def _is_global(declaration: list[Token]) -> bool:
    """Return whether a declaration with a word of `_VARIABLES` is of variables that need an address in GDRAM.

    Functions may have these words, too.
    """
    texts = [token.text for token in declaration]
    if "template" in texts or "constexpr" in texts or any(word in SPACES and word not in _VARIABLES for word in texts):
        return False
    body = without_attributes(declaration)
    has_value = any(word in texts for word in ("=", "{"))
    return _is_variable(body) and (has_value or not _is_constant(body)) and not _is_of_class(body)


def _is_constant(body: list[Token]) -> bool:
    """Return whether a declaration is of constants without bounds."""
    texts = [token.text for token in body]
    return "[" not in texts and ("const" in texts or "__mlusim_const" in texts)


def _is_of_class(body: list[Token]) -> bool:
    """Return whether a variable at file scope is the definition of a static member."""
    base, _ = _base_and_declarator(body)
    return base.endswith("::")


def _is_variable(body: list[Token]) -> bool:
    """Return whether a declaration is of arrays or plain variables, not of a pointer, reference, function or type."""
    texts = [token.text for token in body]
    if "typedef" in texts or "using" in texts:
        return False
    is_pointer = False
    for index in outside_brackets(body, _end_of_members(body)):
        if texts[index] in _START_OF_BOUNDS:
            return texts[index] == "[" or not is_pointer
        if texts[index] == "(" and not (index and texts[index - 1] in _TYPE_WITH_PARENTHESES):
            return False
        is_pointer |= texts[index] in _POINTING
    return not is_pointer


def _base_and_declarator(tokens: list[Token]) -> tuple[str, list[Token]]:
    """Return the type of a declaration, and its first declarator: from the last word before its bounds on."""
    members = _end_of_members(tokens)
    bounds_positions = (index for index in outside_brackets(tokens, members) if tokens[index].text in _START_OF_BOUNDS)
    end = next(bounds_positions, len(tokens))
    return joined(tokens[: end - 1]), tokens[end - 1 :]


def _end_of_members(tokens: list[Token]) -> int:
    """Return where a declaration continues after the members of the record that it defines; 0 if it defines none."""
    for index in outside_brackets(tokens):
        if tokens[index].text in _START_OF_BOUNDS:
            # `struct {`, `struct Name {`, `struct Name : Base {`, but not the value in `struct Name name{1}`.
            texts = [word.text for word in tokens[:index]]
            is_class = ":" in texts or any(word in CLASSES for word in texts[-2:])
            is_record = tokens[index].text == "{" and is_class
            return matching(tokens, index) + 1 if is_record else 0
    return 0


def _end_of_bounds(declarator: list[Token]) -> int:
    """Return the start of the initial value: an `=` or a `{` outside of brackets."""
    depth = 0
    for index, token in enumerate(declarator):
        if not depth and token.text in ("=", "{"):
            return index
        depth += (token.text in ("[", "(")) - (token.text in ("]", ")"))
    return len(declarator)
