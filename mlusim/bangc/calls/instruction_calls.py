"""Vector and tensor instructions as C calls: pointers become views, numbers attributes.

The argument lists are those of `mlusim.cores.instructions.c_signatures`. The interpretation of a list of types and
numbers is cached; a call then only has to look up its addresses.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mlusim.bangc.calls.type_codes import (
    BFLOAT,
    FLOAT,
    POINTER,
    SIGNED,
    UNSIGNED,
    code_of_dtype,
    kind_of,
    nbytes_of,
    on_board,
    type_code,
)
from mlusim.cores.compute import vector
from mlusim.cores.instructions.c_signatures import CSignature, c_signatures_of
from mlusim.cores.instructions.conversion import ROUNDINGS, conversion
from mlusim.cores.instructions.int4 import int4_intrinsics
from mlusim.cores.instructions.table import BY_INTRINSIC
from mlusim.cores.instructions.vector_library import vector_casts, vector_functions
from mlusim.errors import OperandError

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask
    from mlusim.cores.instructions.record import Instruction

_CONVERSIONS = (
    "half",
    "float",
    "bfloat16",
    "int8",
    "uint8",
    "char",
    "uchar",
    "int16",
    "uint16",
    "short",
    "ushort",
    "int32",
    "uint32",
    "int",
    "uint",
    "int64",
    "uint64",
    "fix8",
)
_ROUNDINGS = ("", *(f"_{mode}" for mode in ROUNDINGS))
# Attributes that C passes as members of an enumeration, in their order.
_ENUMERATIONS = {
    "operation": ("FMA", "FMS", "FAM", "FSM", "FAA", "FAS", "FSS", "FSA"),
    "overlap": ("ACC", "COVER"),
    "mode": ("EQ", "NE", "LT", "LE", "GT", "GE"),
}
# The element type of a fill by the ending of its name; otherwise it is the C type of the value.
_ELEMENTS = {
    "half": type_code(FLOAT, 2),
    "float": type_code(FLOAT, 4),
    "short": type_code(SIGNED, 2),
    "int": type_code(SIGNED, 4),
    "unsigned_short": type_code(UNSIGNED, 2),
    "unsigned_int": type_code(UNSIGNED, 4),
}
# Numbers of arguments of conversions and fills with strides.
_STRIDED_CONVERSIONS, _STRIDED_FILLS = (6, 7), (5, 7)


def vector_intrinsics() -> dict[str, list[CSignature]]:
    """Return every vector and tensor intrinsic with its argument lists."""
    table = {name: _with_registers(c_signatures_of(name)) for name in BY_INTRINSIC}
    for source in _CONVERSIONS:
        for target in _CONVERSIONS:
            for rounding in _ROUNDINGS:
                name = f"__bang_{source}2{target}{rounding}"
                if source != target and (signatures := c_signatures_of(name)):
                    table[name] = signatures
    table |= {name: c_signatures_of(name) for name in int4_intrinsics()}
    table |= {name: c_signatures_of(name) for name in (*vector_functions(), *vector_casts())}
    return {name: signatures for name, signatures in table.items() if signatures}


def _with_registers(signatures: list[CSignature]) -> list[CSignature]:
    """Return the signatures, and those without a result if the number may go to a register."""
    if not signatures or not signatures[0].instruction.to_register:
        return signatures
    result = signatures[0].instruction.operands[0].name
    shorter = [
        CSignature(
            signature.instruction, tuple(part for part in signature.arguments if part.name != result), signature.fixed
        )
        for signature in signatures
    ]
    return signatures + [
        signature
        for signature in shorter
        if all(len(signature.arguments) != len(other.arguments) for other in signatures)
    ]


def result_types(signatures: list[CSignature]) -> dict[int, str]:
    """Return the C++ return type of an intrinsic, by its number of arguments."""
    instruction = signatures[0].instruction
    types: dict[int, str] = {}
    for signature in signatures:
        result = "void"
        if instruction.counts:
            result = "uint32_t"
        elif all(argument.name != instruction.operands[0].name for argument in signature.arguments):
            result = "element" if instruction.name == "sum" else "uint32_t"
        for count in range(signature.fewest, len(signature.arguments) + 1):
            types.setdefault(count, result)
    if instruction.name == "convert":
        types |= dict.fromkeys(_STRIDED_CONVERSIONS, "void")
    if instruction.name == "write_value":
        types |= dict.fromkeys(_STRIDED_FILLS, "void")
    return types


class SignatureCalls:
    """The calls of one intrinsic.

    Args:
        name: its name.
        signatures: its argument lists.
    """

    def __init__(self, name: str, signatures: list[CSignature]) -> None:
        self._name = name
        self._signatures = signatures
        self._element = _ELEMENTS.get(name.removeprefix("__nramset_")) if name.startswith("__nramset_") else None
        # By the codes of its values: signature, arguments that decide how the call is read, counts that are floats, and
        # the codes that the name determines.
        self._chosen: dict[tuple[int, ...], tuple[CSignature, list[int], list[int], list[int]]] = {}
        # By these codes and arguments: what `_plan` returns.
        self._plans: dict[Any, tuple[CSignature, list[tuple[int, Any, bool]], list[Any]]] = {}

    def issue(self, task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None] | None:
        """Execute a call: the instruction, or one for each segment."""
        operands = self._operands(task, codes, values)
        if operands is None:
            for segment in _segments(self._signatures, values) or ():
                self.issue(task, line, codes[: len(segment)], segment)
            return None
        waiting = vector.call(task.issuer, line, *operands, {})
        return None if waiting is None else task.set_result_later(waiting)

    def prepare(
        self, task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]
    ) -> Callable[[], Awaitable[None] | None] | None:
        """Return a function that repeats a call; None for a call that represents several."""
        operands = self._operands(task, codes, values)
        return None if operands is None else vector.prepare_call(task.issuer, line, *operands)

    def _operands(
        self, task: CompiledTask, codes: list[int], values: tuple[Any, ...]
    ) -> tuple[Instruction, tuple[Any, ...]] | None:
        """Return the instruction with its operands and attributes; None for a call that represents several."""
        if self._element is not None:
            codes = [POINTER | self._element, codes[1], self._element]
        types = tuple(codes)
        choice = self._chosen.get(types)
        if choice is None:
            if _segments(self._signatures, values) is not None:
                return None
            signature = _choose(self._signatures, codes)
            floats = _counts_given_as_floats(signature, codes)
            choice = signature, _deciding(signature, codes), floats, _named_types(self._name, signature, codes)
            self._chosen[types] = choice
        signature, deciding, floats, codes = choice
        if floats:
            # Converted as in C.
            values = tuple(int(value) if position in floats else value for position, value in enumerate(values))
        key = (types, *[values[position] for position in deciding])
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = _plan(signature, codes, values)
        signature, operands, attributes = plan
        codes = _typed_by_values(signature, codes)
        arguments = [
            shape
            if position < 0
            else values[position]
            if shape is None
            else (task.filters if is_filter else task.view)(codes[position], values[position], shape)
            for position, shape, is_filter in operands
        ]
        return signature.instruction, (*arguments, *attributes)


def _deciding(signature: CSignature, codes: list[int]) -> list[int]:
    """Return the arguments whose values affect how a call is interpreted: all numbers that are not mere operands."""
    instruction = signature.instruction
    shape_text = " ".join(expression for argument in signature.arguments for expression in argument.shape or ())
    given = {operand.name for operand in instruction.operands if operand.number} - set(re.findall(r"\w+", shape_text))
    return [
        position
        for position, (argument, code) in enumerate(zip(signature.arguments, codes, strict=False))
        if code < POINTER
        and not (argument.name in given and not any(name in instruction.attributes for name in argument.stands_for))
    ]


def _counts_given_as_floats(signature: CSignature, codes: list[int]) -> list[int]:
    """Return the positions of counts and extents passed as a float, such as `n / 2.0f`."""
    shape_text = " ".join(expression for argument in signature.arguments for expression in argument.shape or ())
    names = set(re.findall(r"\w+", shape_text))
    return [
        position
        for position, (argument, code) in enumerate(zip(signature.arguments, codes, strict=False))
        if code < POINTER and kind_of(code) in (FLOAT, BFLOAT) and argument.shape is None and argument.name in names
    ]


def _segments(signatures: list[CSignature], values: tuple[Any, ...]) -> list[tuple[Any, ...]] | None:
    """Split a call with strides into one call per segment; None for a call without strides.

    A conversion ends in the strides of dst and src in bytes and the number of segments minus one; a fill in (stride,
    repetitions minus one) of one or two loops. ASSUMED: each segment costs an instruction.
    """
    name = signatures[0].instruction.name
    if name == "convert" and len(values) in _STRIDED_CONVERSIONS:
        *arguments, to_stride, from_stride, segments = values
        dst, src, *numbers = arguments
        return [(dst + k * to_stride, src + k * from_stride, *numbers) for k in range(int(segments) + 1)]
    if name == "write_value" and len(values) in _STRIDED_FILLS:
        dst, count, value, inner_stride, inner, *arguments = values
        outer_stride, outer = arguments or (0, 0)
        return [
            (dst + j * outer_stride + k * inner_stride, count, value)
            for j in range(int(outer) + 1)
            for k in range(int(inner) + 1)
        ]
    return None


def _choose(signatures: list[CSignature], codes: list[int]) -> CSignature:
    """Return the signature with that many arguments and pointers in the same positions.

    A number is accepted for a pointer: null is one.
    """
    fitting = [signature for signature in signatures if signature.fewest <= len(codes) <= len(signature.arguments)]
    for signature in fitting:
        pairs = zip(signature.arguments, codes, strict=False)
        if all(argument.number or (code >= POINTER) == bool(argument.shape) for argument, code in pairs):
            return signature
    return fitting[0]


def _named_types(name: str, signature: CSignature, codes: list[int]) -> list[int]:
    """Return the codes with the element types that the name of a conversion states; signs and bits may differ."""
    cast = conversion(name)
    if cast is None:
        return codes
    source, target, _ = cast
    return [
        code if argument.shape is None else POINTER | code_of_dtype(target if argument.name == "dst" else source)
        for argument, code in zip(signature.arguments, codes, strict=False)
    ]


def _refuse_int4(signature: CSignature, codes: list[int]) -> None:
    """Raise `OperandError` for a pointer to int4x2_t."""
    for argument, code in zip(signature.arguments, codes, strict=False):
        # A byte that is neither an integer nor a float.
        if code == POINTER | 1:
            raise OperandError(
                f"{signature.instruction.intrinsics[0]}: {argument.name} is int4x2_t: products and convolutions of "
                "int4 are not simulated, because no public document defines their layout in WRAM; convert it to int8 "
                "in NRAM with __bang_int42int8_rn, from arch 322 on, and pass that"
            )


def _typed_by_values(signature: CSignature, codes: list[int]) -> list[int]:
    """Return the codes with the element type of a number if its C type determines it, as in fills."""
    for number, argument in enumerate(signature.arguments[: len(codes)]):
        if argument.types:
            positions = [position for position, other in enumerate(signature.arguments) if other.name == argument.types]
            codes = [on_board(code) for code in codes]
            codes = [POINTER | codes[number] if position in positions else code for position, code in enumerate(codes)]
    return codes


def _plan(
    signature: CSignature, codes: list[int], values: tuple[Any, ...]
) -> tuple[CSignature, list[tuple[int, Any, bool]], list[Any]]:
    """Return the operands in the order of the instruction, and attributes.

    An operand is the position of its argument and a shape, or None for a number; or -1 and the number of an omitted
    one; and whether it is a filter in WRAM.
    """
    instruction = signature.instruction
    if instruction.tensor:
        _refuse_int4(signature, codes)
    codes = _typed_by_values(signature, codes)
    positions = {argument.name: position for position, argument in enumerate(signature.arguments[: len(codes)])}
    itemsizes = {
        argument.name: max(nbytes_of(codes[position]), 1)
        for position, argument in enumerate(signature.arguments[: len(codes)])
        if argument.shape is not None and codes[position] >= POINTER
    }
    shapes, attributes = signature.bind(values, itemsizes)
    for name, names in _ENUMERATIONS.items():
        number = attributes.get(name)
        if isinstance(number, int) and 0 <= number < len(names):
            attributes[name] = names[number]
    operands: list[tuple[int, Any, bool]] = []
    for operand in instruction.operands:
        shape = shapes.get(operand.name)
        if isinstance(shape, tuple):
            operands.append((positions[operand.name], shape, operand.memory == "wram" and len(shape) > 1))
        elif operand.name in shapes:
            operands.append((positions[operand.name], None, False))
        elif operand.number:
            # An operand that this argument list omits, such as the bias of a product.
            operands.append((-1, 0, False))
    return signature, operands, [attributes[name] for name in instruction.attributes]
