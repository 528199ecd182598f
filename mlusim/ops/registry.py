"""All operators by name, collected from the modules of this package."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mlusim.errors import InputError, choose_one, shown
from mlusim.ops.operator import Operator


def _operators() -> dict[str, Operator]:
    operators: dict[str, Operator] = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem in {"__init__", "commands", "registry"}:
            continue
        values = vars(import_module(f"mlusim.ops.{path.stem}")).values()
        operators |= {value.name: value for value in values if isinstance(value, Operator)}
    return operators


OPERATORS = _operators()
# Also by the names of their commands: tin_shift is the forward operator.
BY_NAME = OPERATORS | {
    operator.command: operator for operator in OPERATORS.values() if operator.command and not operator.variant
}


def operator_of(name: str) -> Operator:
    """Return an operator by its name or that of its command. Raises `InputError`."""
    if not isinstance(name, str) or name not in BY_NAME:
        raise InputError(f"no operator {shown(name)}; {choose_one(name, BY_NAME)}")
    return BY_NAME[name]
