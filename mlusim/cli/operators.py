"""Operators on the command line: their names for help and completion, and their attributes as options.

The arguments of an operator are its schema, `mlusim.ops.commands`. Importing it loads the simulator and NumPy, so the
names and summaries shown in every help are read from the text of the schemas, and the rest when a command needs it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.option_types import ELEMENT_TYPE, INTEGERS, SHAPE
from mlusim.errors import flag_of

if TYPE_CHECKING:
    from mlusim.ops.commands import Command
    from mlusim.ops.schema import Attribute

_OPS = Path(__file__).parents[1] / "ops"


@cache
def summaries() -> dict[str, str]:
    """Return name and summary of each operator's command, without importing the simulator."""
    names: dict[str, str] = {}
    for path in sorted(_OPS.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            keywords = {
                keyword.arg: keyword.value.value for keyword in node.keywords if isinstance(keyword.value, ast.Constant)
            }
            name = keywords.get("command") or keywords.get("name")
            if "summary" in keywords and isinstance(name, str):
                names[name] = str(keywords["summary"])
    return names


class Entries(Mapping[str, "Command"]):
    """The commands by name. Names are available without imports; a command is imported on lookup."""

    def __getitem__(self, name: str) -> Command:
        from mlusim.ops.commands import COMMANDS

        return COMMANDS[name]

    def __contains__(self, name: object) -> bool:
        return name in summaries()

    def __iter__(self) -> Iterator[str]:
        return iter(summaries())

    def __len__(self) -> int:
        return len(summaries())


ENTRIES = Entries()


def options_of(attributes: tuple[Attribute, ...]) -> list[click.Parameter]:
    """Return click's options for attributes of an operator, or of its example inputs."""
    return [_option(attribute) for attribute in attributes]


def _option(attribute: Attribute) -> click.Option:
    name, text = flag_of(attribute.name), attribute.help
    if attribute.kind == "flag":
        return click.Option([name], is_flag=True, help=text)
    kinds: dict[str, tuple[Any, str | None]] = {
        "integer": (int, "AXIS"),
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
        default=attribute.default,
        show_default=attribute.default is not None,
        required=attribute.required,
        metavar=metavar,
        help=text,
    )
