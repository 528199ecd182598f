"""BANG C's argument lists: conversion of calls with pointers and counts to operands with shapes.

A signature lists the arguments in BANG C's order. `name[e, e]` is a pointer whose operand has that shape, `name` an
integer or a number, `name=VALUE` an optional one, `name:a,b` one that sets two attributes, `|number` a pointer that may
be a number, `value~dst` a number whose C type is the element type of `dst`. Shapes are arithmetic on the other
arguments; `itemsize` is the width of the pointer's element, `bits(n)` the number of elements that contain n bits,
`head(n)` the number that contain a count of 128 B and n elements, `lanes(n)` n rounded up to the 64 lanes of WRAM.

    __bang_transpose      dst[width,height] src[height,width] height width
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mlusim.cores.instructions.conversion import conversion
from mlusim.cores.instructions.int4 import int4_conversion
from mlusim.cores.instructions.record import Instruction
from mlusim.cores.instructions.table import BY_INTRINSIC, INSTRUCTIONS
from mlusim.cores.instructions.vector_library import vector_functions
from mlusim.errors import OperandError
from mlusim.units import ceil_div, round_up

_TOKEN = re.compile(r"(\w+)(\[[^\]]*\])?(\|number)?(?:=(\w+))?(?::([\w,]+))?(?:~(\w+))?$")
_HEAD_BYTES = 128
_LANES = 64


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a signature.

    Attributes:
        name: as in the signature.
        shape: expressions of its shape, for a pointer; None for a number.
        number: whether a number may be passed instead of the pointer.
        default: value if omitted; None if required.
        stands_for: attributes that it sets; by default the attribute of the same name.
        types: name of the pointer whose element type is this number's C type; "" for none.
    """

    name: str
    shape: tuple[str, ...] | None
    number: bool
    default: str | None
    stands_for: tuple[str, ...]
    types: str


@dataclass(frozen=True, slots=True)
class CSignature:
    """One argument list of an intrinsic.

    Attributes:
        instruction: the instruction issued.
        arguments: in BANG C's order.
        fixed: attributes implied by the intrinsic's name, such as the rounding of a conversion.
    """

    instruction: Instruction
    arguments: tuple[Argument, ...]
    fixed: Mapping[str, Any]

    @property
    def fewest(self) -> int:
        """Number of required arguments."""
        return sum(argument.default is None for argument in self.arguments)

    def bind(self, values: Sequence[Any], itemsizes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the operands and attributes of a call.

        Args:
            values: the arguments as passed; pointers are not examined, except for numbers in their place.
            itemsizes: bytes per element of each pointer, by its name in the signature.

        Returns the shape of each operand by its name (or the number passed instead of the pointer), and the attributes.
        Raises `OperandError` for a count that is not a positive integer.
        """
        by_name = dict(zip((argument.name for argument in self.arguments), values, strict=False))
        numbers: dict[str, Any] = {}
        for argument in self.arguments:
            if argument.shape is None or argument.name not in itemsizes:
                numbers[argument.name] = by_name.get(argument.name, argument.default)
        shapes: dict[str, Any] = {}
        for argument in self.arguments:
            if argument.shape is None:
                continue
            if argument.name not in itemsizes:
                shapes[argument.name] = by_name[argument.name]
                continue
            environment = {**numbers, "itemsize": itemsizes[argument.name]}
            shapes[argument.name] = tuple(evaluate(expression, environment) for expression in argument.shape)
        attributes = dict(self.instruction.defaults) | dict(self.fixed)
        for argument in self.arguments:
            for name in argument.stands_for:
                if name in self.instruction.attributes:
                    attributes[name] = numbers[argument.name]
        if "dst_position" in numbers:
            attributes["position"] = int(numbers["dst_position"]) - int(numbers["src_position"])
        return shapes, attributes


@cache
def _parse(text: str) -> tuple[Argument, ...]:
    arguments = []
    for token in text.split():
        match = _TOKEN.match(token)
        assert match is not None, f"{token!r} of the signature {text!r}"
        name, shape, number, default, stands_for, types = match.groups()
        arguments.append(
            Argument(
                name,
                tuple(_split(shape[1:-1])) if shape else None,
                bool(number),
                default,
                tuple(stands_for.split(",")) if stands_for else (name,),
                types or "",
            )
        )
    return tuple(arguments)


def _split(shape: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth = [""], 0
    for letter in shape:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def c_signatures_of(intrinsic: str) -> list[CSignature]:
    """Return every signature of an intrinsic; none if the name is not a vector or tensor instruction."""
    types_and_rounding = conversion(intrinsic)
    if types_and_rounding is not None:
        instruction = INSTRUCTIONS["convert"]
        signatures = (
            instruction.c_signatures
            if not intrinsic.startswith("__cn_vector_")
            else (_count_first(instruction.c_signatures[0]),)
        )
        return [
            CSignature(instruction, _parse(signature), {"rounding": types_and_rounding[2]}) for signature in signatures
        ]
    int4 = int4_conversion(intrinsic)
    if int4 is not None:
        instruction = INSTRUCTIONS[int4[0]]
        return [
            CSignature(instruction, _parse(signature), {"rounding": int4[1]}) for signature in instruction.c_signatures
        ]
    entry = BY_INTRINSIC.get(intrinsic)
    if entry is None:
        function = INSTRUCTIONS.get(vector_functions().get(intrinsic, ""))
        return [] if function is None else [CSignature(function, _parse(_count_first(function.c_signatures[0])), {})]
    # Functions of the vector library have the count as their first argument.
    count_first = intrinsic.startswith("__cn_vector_")
    return [
        CSignature(instruction, _parse(_count_first(signature) if count_first else signature), {})
        for instruction in INSTRUCTIONS.values()
        if intrinsic in instruction.intrinsics
        for signature in instruction.c_signatures
    ]


def _count_first(text: str) -> str:
    return " ".join(sorted(text.split(), key=lambda word: word != "n"))


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def evaluate(expression: str, values: Mapping[str, Any]) -> int:
    """Evaluate an expression of a shape: integers, names, + - * //, and the three functions of the grammar.

    Raises `OperandError` for a division by zero.
    """
    return _value(_tree(expression), values)


@cache
def _tree(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _value(node: ast.expr, values: Mapping[str, Any]) -> int:
    if isinstance(node, ast.Constant):
        assert isinstance(node.value, int), ast.dump(node)
        return node.value
    if isinstance(node, ast.Name):
        return int(values[node.id])
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, values), _value(node.right, values)
        if isinstance(node.op, ast.FloorDiv) and not right:
            divisor, divided = ast.unparse(node.right), ast.unparse(node)
            raise OperandError(f"{divisor} is 0, and an operand's extent is {divided}: pass a positive number")
        return _OPERATORS[type(node.op)](left, right)
    assert isinstance(node, ast.Call), ast.dump(node)
    assert isinstance(node.func, ast.Name), ast.dump(node)
    argument, width = _value(node.args[0], values), int(values["itemsize"])
    if node.func.id == "bits":
        return ceil_div(argument, 8 * width)
    if node.func.id == "head":
        return (_HEAD_BYTES + round_up(argument * width, _HEAD_BYTES)) // width
    return round_up(argument, _LANES)
