"""Entries of a binary: address, parameters, and signature as a kernel."""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from mlusim.bangc.calls.type_codes import ONLY_READ, POINTER, dtype_of_code, kind_of
from mlusim.errors import MlusimError
from mlusim.host.arguments import ParameterType, Role

if TYPE_CHECKING:
    from mlusim.bangc.execution.image import Image


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of an entry: its name, the code of its type, its bytes."""

    name: str
    code: int
    size: int

    @property
    def type(self) -> ParameterType:
        """The type of arguments for it."""
        dtype = dtype_of_code(self.code) if kind_of(self.code) else None
        if not self.code & POINTER:
            return ParameterType(Role.NUMBER, dtype)
        return ParameterType(Role.INPUT if self.code & ONLY_READ else Role.OUTPUT, dtype)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """An entry, the same in every image: its address and parameters."""

    name: str
    file: str
    line: int
    function: int
    body: int
    parameters: tuple[Parameter, ...]


def entry_point(image: Image, record: Any) -> EntryPoint:
    """Return the entry of a record of an image."""
    names = [name for name in record.parameters.decode().split(",") if name]
    count = int(record.count)
    names += [f"argument{number}" for number in range(len(names), count)]
    parameters = tuple(
        Parameter(names[k] or f"argument{k}", int(record.codes[k]), int(record.sizes[k])) for k in range(count)
    )
    return EntryPoint(
        record.name.decode(),
        os.fsdecode(record.file),
        int(record.line),
        int(record.function) - image.base,
        int(record.body) - image.base,
        parameters,
    )


def signature_of(point: EntryPoint) -> inspect.Signature:
    """Return the signature of a kernel: `core` and the entry's own parameters, each with its `ParameterType`."""
    names: list[str] = []
    parameters = [inspect.Parameter("core", inspect.Parameter.POSITIONAL_ONLY)]
    for parameter in point.parameters:
        name = parameter.name
        if iskeyword(name):
            name = f"{name}_"
        elif not name.isidentifier() or name in ("core", *names):
            name = f"{name}_{len(names)}"
        names.append(name)
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=parameter.type))
    try:
        return inspect.Signature(parameters)
    except ValueError as error:
        raise MlusimError(f"{point.name}: its parameters {names} are not names: {error}") from error
