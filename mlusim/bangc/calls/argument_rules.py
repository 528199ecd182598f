"""Rules for the types of an intrinsic's arguments. The C++ compiler checks every call, also one that never runs.

A rule is a condition in C++ on the types `A0`, `A1`, ... of the arguments, and the text of the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mlusim.bangc.calls.host_calls import ADDRESSES
from mlusim.bangc.calls.type_codes import code_of_dtype
from mlusim.cores.instructions.c_signatures import CSignature
from mlusim.cores.instructions.conversion import conversion
from mlusim.cores.instructions.record import Match
from mlusim.cores.instructions.table import BY_INTRINSIC

# Intrinsics with these endings take a number as their second source, others a vector; these take either.
_OF_NUMBERS = ("_scalar", "_const")
_OF_EITHER = frozenset(
    f"__bang_{name}" for name in ("div", "rem", "maximum", "fusion", "fcmpfilter", "sll", "srl", "sra")
)
# Intrinsics outside the tables of instructions, as patterns: the names of their first arguments, a pointer with a star,
# "" for one that may be either; and what the others are.
_STRIDES = "a stride or a number of segments"
_LISTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("__memcpy(_async)?", ("*dst", "*src", "size", "dir"), _STRIDES),
    ("__bang_move", ("*dst", "*src", "size"), _STRIDES),
    ("__(bang_)?(gather|scatter)(_async)?", ("*dst", "*src", "*offsets", "", ""), _STRIDES),
    ("__bang_atomic_cas", ("*dst", "*src1", "", ""), "size"),
    ("__bang_atomic_reduce_cas", ("*dst", "", ""), "size"),
    ("__bang_atomic_(?!reduce_).*", ("*dst", "*src1", ""), "size"),
    ("__bang_atomic_reduce_.*", ("*dst", ""), _STRIDES),
    ("__(gdram|sram|ldram)set|__nramset_async", ("*dst", "elem_count", "value"), _STRIDES),
)
Rule = tuple[str, str]


def argument_rules(name: str, signatures: Sequence[CSignature], count: int) -> list[Rule]:
    """Return the rules for calls of an intrinsic with that many arguments: what all its argument lists require."""
    for pattern, first, others in _LISTS:
        if re.fullmatch(pattern, name):
            return list(_list_rules(name, [*first, *[others] * count][:count]))
    if name in ADDRESSES:
        text = "is an address, and an object was passed; pass its data() or its address"
        return [(f"!::std::is_class<A{at}>::value", f"{name}: argument {at + 1} {text}") for at in ADDRESSES[name]]
    fitting = [signature for signature in signatures if signature.fewest <= count <= len(signature.arguments)]
    # A call with strides has the arguments of one without, then the strides.
    fitting = fitting or [signature for signature in signatures[:1] if len(signature.arguments) < count]
    rules = [dict.fromkeys(_rules(name, signature, count)) for signature in fitting]
    return [rule for rule in rules[0] if all(rule in other for other in rules)] if rules else []


def _list_rules(name: str, arguments: Sequence[str]) -> Iterator[Rule]:
    names = [argument.lstrip("*") or "a pointer or a number" for argument in arguments]
    for position, argument in enumerate(arguments):
        if argument:
            yield _pointer_or_number(name, names, position, is_pointer=argument.startswith("*"))
        if argument == "*dst":
            yield _not_const(name, position)
    if "_atomic_" in name:
        elements = ", ".join(f"::mlusim::element<A{position}>()" for position in range(min(len(arguments), 4)))
        yield (
            f"::mlusim::agree({{{elements}}})",
            f"{name}: its pointers must have one element type; cast one to the type of its values",
        )


def _rules(name: str, signature: CSignature, count: int) -> Iterator[Rule]:
    arguments = signature.arguments[:count]
    names = [argument.name for argument in arguments]
    for position, argument in enumerate(arguments):
        if argument.number:
            yield from _vector_or_number(name, signature, position)
        else:
            yield _pointer_or_number(name, names, position, is_pointer=argument.shape is not None)
        if argument.name == "dst":
            yield _not_const(name, position)
    pointers = {argument.name: f"A{position}" for position, argument in enumerate(arguments) if argument.shape}
    cast = conversion(name)
    if cast is None:
        yield from _matching_types(name, signature, pointers)
        return
    # Signs may differ: whether `char` is signed depends on the compiler. `__bang_int2float` also takes the bits of
    # integers in an array of floats (B).
    for pointer, kind in pointers.items():
        dtype = cast[1] if pointer == "dst" else cast[0]
        codes = [code_of_dtype(dtype)] + [code_of_dtype(cast[1])] * name.startswith("__bang_int2float")
        accepted = " || ".join(f"::mlusim::is_element<{kind}, {code}>()" for code in dict.fromkeys(codes))
        remedy = "cast the pointer, or call the conversion of its type"
        yield accepted, f"{name}: {pointer} must point to {dtype.name}; {remedy}"


def _pointer_or_number(name: str, names: Sequence[str], position: int, *, is_pointer: bool) -> Rule:
    """Return the rule for an argument that is a pointer, where an integer may be null or an address; or a number."""
    kind, expected, passed = ("is_float", "pointer", "number") if is_pointer else ("is_pointer", "number", "pointer")
    argument_text = f"{name}: argument {position + 1}, {names[position]}, is a {expected}, and a {passed} was passed"
    return f"!::mlusim::{kind}<A{position}>()", f"{argument_text}; the arguments are ({', '.join(names)})"


def _not_const(name: str, position: int) -> Rule:
    """Return the rule for a pointer to what the intrinsic writes."""
    condition = f"!::mlusim::only_read<typename ::mlusim::Taken<A{position}>::type>()"
    return condition, f"{name}: argument {position + 1}, dst, is written, and a pointer to const was passed"


def _vector_or_number(name: str, signature: CSignature, position: int) -> Iterator[Rule]:
    """Yield the rule for a source that is a vector or a number: the name says which (B)."""
    if name.startswith("__cn_vector_") or name in _OF_EITHER:
        return
    takes_number = name.endswith(_OF_NUMBERS)
    names = {other for other in BY_INTRINSIC if BY_INTRINSIC[other].name == signature.instruction.name}
    others = sorted(other for other in names if other.endswith(_OF_NUMBERS) != takes_number)
    expected, passed = ("a number", "a vector") if takes_number else ("a vector", "a number")
    remedy = f"call {others[-1]}" if others else "pass a number" if takes_number else "fill an array with it"
    condition = f"{'!' if takes_number else ''}::mlusim::is_pointer<A{position}>()"
    argument_text = f"{name}: argument {position + 1}, {signature.arguments[position].name}, is"
    yield condition, f"{argument_text} {expected}, and {passed} was passed; {remedy}"


def _matching_types(name: str, signature: CSignature, pointers: dict[str, str]) -> Iterator[Rule]:
    """Yield the rules for operands that have the element type of the first source, or its width."""
    by_value = {argument.types for argument in signature.arguments}
    operands = [
        operand
        for operand in signature.instruction.operands
        if operand.name in pointers and operand.name not in by_value
    ]
    same_type = [operand.name for operand in operands if operand.match is Match.SAME]
    same_width = [operand.name for operand in operands if operand.match is Match.WIDTH]
    reference = same_type[-1:] or [operand.name for operand in operands[:1]]
    for function, group, rule in (
        ("element", same_type, "one element type; convert one first, or cast its pointer to the type of its values"),
        ("width", [*reference, *same_width], "elements of the same width; convert one first"),
    ):
        if len(group) > 1:
            values = ", ".join(f"::mlusim::{function}<{pointers[pointer]}>()" for pointer in group)
            yield (
                f"::mlusim::agree({{{values}}})",
                f"{name}: {', '.join(group[:-1])} and {group[-1]} must point to {rule}",
            )
