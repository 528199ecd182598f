"""Operators on the command line: their names and summaries, and their attributes as options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.option_types import ELEMENT_TYPE, INTEGERS, SHAPE
from mlusim.errors import flag_of

if TYPE_CHECKING:
    from mlusim.ops.schema import Attribute

# The operators, as in `mlusim.ops.commands`, whose import takes half a second: help and completion need only these.
SUMMARIES = {
    "bitcast_convert": "Reinterpret the bytes as elements of another type.",
    "cast": "Convert every element to another type.",
    "gather": "Select elements along an axis by an index of the same rank.",
    "gather_nd": "Select elements or rows by tuples of coordinates.",
    "index_select": "Select slices along an axis by a list of indices.",
    "reverse": "Reverse the order of elements along axes.",
    "flip": "The same as reverse.",
    "reverse_sequence": "Reverse the first elements of each batch entry, by its sequence length.",
    "scatter": "Copy a tensor and replace elements along an axis by an index; the last duplicate wins.",
    "scatter_nd": "Copy a tensor and replace elements or rows at tuples of coordinates; the last duplicate wins.",
    "tin_shift": "Shift groups of channels along time, each by its own amount; zeros move in.",
}


def options_of(attributes: tuple[Attribute, ...]) -> list[click.Parameter]:
    """Return click's options for attributes of an operator, or of its example inputs."""
    return [_option(attribute) for attribute in attributes]


def _option(attribute: Attribute) -> click.Option:
    name, text = flag_of(attribute.name), attribute.help
    if attribute.kind == "flag":
        return click.Option([name], is_flag=True, help=text)
    kinds: dict[str, tuple[Any, str | None]] = {
        "integer": (int, "AXIS" if attribute.name.endswith("axis") else "INTEGER"),
        "integers": (INTEGERS, "AXES"),
        "dtype": (ELEMENT_TYPE, "DTYPE"),
        "shape": (SHAPE, "SHAPE"),
        "count": (click.IntRange(min=1), "NUMBER"),
        "choice": (click.Choice(attribute.choices), None),
    }
    kind, metavar = kinds[attribute.kind]
    return click.Option(
        [name],
        type=kind,
        # Even None, if given, is a default that satisfies a required option.
        **({} if attribute.default is None else {"default": attribute.default, "show_default": True}),
        required=attribute.required,
        metavar=metavar,
        help=text,
    )
