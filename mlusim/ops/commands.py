"""Operators as commands: the options of `mlusim run NAME`, `compare`, `sweep` and `tune`, and example inputs.

A command is one operator, or several selected by a flag: `tin_shift` has `--backward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlusim.arrays import Array
from mlusim.dtypes import Dtype
from mlusim.errors import InputError, flag_of, shown
from mlusim.hardware import Board
from mlusim.host.random_tensors import RandomTensors
from mlusim.ops.call import Call, Input
from mlusim.ops.operator import Operator
from mlusim.ops.registry import OPERATORS
from mlusim.ops.schema import Attribute, Options
from mlusim.spelling import choose_one, it_has


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """One or several operators under one name."""

    name: str
    operators: tuple[Operator, ...]

    @property
    def operator(self) -> Operator:
        """The operator that is selected without flags; inputs and strategies of the command are its own."""
        return self.operators[0]

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The flags that select an operator, and the attributes of all operators.

        Attributes of operators behind a flag have no default here: they require their flag.
        """
        by_name = {operator.variant.name: operator.variant for operator in self.operators if operator.variant}
        for operator in self.operators:
            for attribute in operator.attributes:
                by_name[attribute.name] = replace(attribute, default=None) if operator.variant else attribute
        return tuple(by_name.values())

    @property
    def all_attributes(self) -> tuple[Attribute, ...]:
        """Its attributes, and those of its example inputs."""
        return *self.attributes, *self.operator.example_attributes

    def options(self, values: Options) -> dict[str, Any]:
        """Return all options by name, with defaults. Raises `InputError` for unknown and for missing options."""
        attributes = {attribute.name: attribute for attribute in self.all_attributes}
        for name in values:
            if name not in attributes:
                raise InputError(f"{name}: {self.name} has no such option; {it_has(attributes, name)}")
        for name, attribute in attributes.items():
            if attribute.required and name not in values:
                raise InputError(f"{name}: {self.name} needs it; give a value, or a list of them to sweep")
        return {name: values.get(name, attribute.default) for name, attribute in attributes.items()}

    def choose(self, options: Options) -> tuple[Operator, dict[str, Any]]:
        """Return the selected operator and its attributes. Raises `InputError` for options of another operator."""
        operator_chosen = next(
            (operator for operator in self.operators if operator.variant and options[operator.variant.name]),
            self.operator,
        )
        for operator in self.operators:
            for attribute in operator.attributes:
                value = options[attribute.name]
                if operator.variant and operator is not operator_chosen and value is not None:
                    flag = flag_of(operator.variant.name)
                    raise InputError(
                        f"{flag_of(attribute.name)} {value} without {flag}: only {operator.name} takes it; add {flag}"
                    )
        attributes = {
            attribute.name: options[attribute.name]
            for attribute in operator_chosen.attributes
            if options[attribute.name] is not None
        }
        return operator_chosen, operator_chosen.complete(attributes)

    def example(self, draw: RandomTensors, shape: tuple[int, ...], dtype: Dtype, options: Options) -> list[Array]:
        """Return inputs of a shape and element type, for the given options. Raises `InputError` for invalid options."""
        operator, attributes = self.choose(options)
        of_example = {
            attribute.name: attribute.normalise(options[attribute.name])
            for attribute in self.operator.example_attributes
        }
        return operator.example(draw, shape, dtype, {**options, **of_example, **attributes})

    def prepare(
        self,
        options: Options,
        arrays: Sequence[Array],
        device: Board,
        strategy: str | None,
        nram_limit_bytes: int | None = None,
    ) -> Call:
        """Check the arrays, choose the strategy and plan the call, without running it. Raises as the operator does.

        Messages refer to inputs by the names of their options.
        """
        operator, attributes = self.choose(options)
        inputs = [
            Input(name=tensor.flag_name, array=array, keep_data=tensor.values_matter)
            for tensor, array in zip(operator.inputs, arrays, strict=True)
        ]
        return operator.prepare(device, strategy, *inputs, nram_limit_bytes=nram_limit_bytes, **attributes)


def _commands() -> dict[str, Command]:
    operators_by_name: dict[str, list[Operator]] = {}
    for operator in OPERATORS.values():
        operators_by_name.setdefault(operator.command or operator.name, []).append(operator)
    return {name: Command(name, tuple(operators)) for name, operators in operators_by_name.items()}


COMMANDS = _commands()


def command_of(name: str) -> Command:
    """Return a command by name. Raises `InputError`."""
    if name not in COMMANDS:
        raise InputError(f"no operator {shown(name)}; {choose_one(name, COMMANDS)}; a kernel is file.py:function")
    return COMMANDS[name]
