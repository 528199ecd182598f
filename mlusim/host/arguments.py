"""Kernel arguments as text, in one syntax for every front end.

  x=x.npy                a tensor from a file, also file.npz:key
  x=random:float32:1000  random elements
  out=float32:2,8,64     a tensor for the kernel to write
  y=inout:y.npy          a tensor that it modifies in place
  8, scale=0.5, on=true  a number or a boolean

Arguments without `name=` are assigned to the remaining parameters in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.dtypes import ALL, dtype_name, dtype_of, nearest_dtype
from mlusim.errors import InputError, for_caller, shown
from mlusim.hardware import Board
from mlusim.host.array_files import read_array
from mlusim.host.random_tensors import RandomTensors
from mlusim.inputs import as_array, as_count, as_shape, parse_shape
from mlusim.spelling import it_has

if TYPE_CHECKING:
    from mlusim.host.device import Device
    from mlusim.memory.view import View


# By whether inputs are declared, as in BANG C: which tensors of `--shape` are inputs, and which outputs.
_ROLES = {
    False: "those that the kernel only stores to are outputs, or else the last one",
    True: "pointers to const are inputs, the others outputs",
}
FORMS = (
    "a file (x.npy, x.npz:key; inout:x.npy: the kernel may write it), an output (float32:2,8,64), random elements "
    "(random:float32:1000), or a number"
)
_RANDOM, IN_PLACE = "random", "inout:"
_ARRAY_FILE = re.compile(r"\.(npy|npz)(:.*)?$", re.IGNORECASE)
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor for a kernel to write, filled with 0xFF bytes.

    Attributes:
        shape: extents.
        dtype: element type.
        pitch: elements from the start of one row (of the last axis) to the next, if larger than the row; 0 for a
            contiguous tensor. Kernels must not write the gap between rows.
    """

    shape: tuple[int, ...]
    dtype: Any = "float32"
    pitch: int = 0

    def __post_init__(self) -> None:
        """Raise `InputError` for what is not a shape, an element type or a pitch, where the output is declared."""
        shape, pitch = as_shape("Output: the shape", self.shape), as_count("Output: pitch", self.pitch, minimum=0)
        dtype_of(self.dtype, "Output")
        if pitch and (not shape or pitch < shape[-1]):
            raise InputError(f"Output: a pitch of {pitch} elements for {list(shape)}: at least the last extent")

    @classmethod
    def like(cls, array: ArrayLike) -> Output:
        """Create an output with the shape and the element type of an array."""
        if isinstance(array, int | tuple):
            raise InputError(f"Output.like({shown(array)}) takes an array: Output({shown(array)}, dtype) takes a shape")
        model = as_array("Output.like: the argument", array)
        return cls(model.shape, model.dtype)

    def make(self, device: Device, name: str) -> View:
        """Allocate the tensor on a device."""
        shape, dtype, pitch = as_shape("Output: the shape", self.shape), dtype_of(self.dtype), self.pitch
        if not pitch:
            return device.alloc(shape, dtype, name)
        padded = device.alloc((*shape[:-1], pitch), dtype, name)
        return padded[..., : shape[-1]] if pitch > shape[-1] else padded


@dataclass(frozen=True, slots=True, eq=False)
class InOut:
    """A tensor that a kernel reads and writes in place, initialised with a copy of `array`."""

    array: Array


@dataclass(frozen=True, slots=True)
class RandomInput:
    """An input of random elements."""

    shape: tuple[int, ...]
    dtype: Any = "float32"


@dataclass(frozen=True, slots=True)
class FileInput:
    """An input from an .npy or .npz file; `in_place`: a copy of it that the kernel may modify."""

    path: str
    in_place: bool = False


class Role(Enum):
    """The role of a parameter with a declared type."""

    INPUT = "a tensor that is only read"
    OUTPUT = "a tensor to write"
    NUMBER = "a number"


@dataclass(frozen=True, slots=True)
class ParameterType:
    """The declared type of a kernel parameter: of a BANG C entry, or annotated as `int` or `float` in Python.

    Attributes:
        role: role of the parameter; a pointer to const is an input.
        dtype: element type, int64 or float64 for an annotation; None for types without one, such as a pointer to void.
    """

    role: Role
    dtype: np.dtype[Any] | None

    def __repr__(self) -> str:
        """As C declares it, for the signature of a kernel in messages."""
        name = "void" if self.dtype is None else dtype_name(self.dtype)
        return name if self.role is Role.NUMBER else f"{'const ' if self.role is Role.INPUT else ''}{name} *"


class Argument(NamedTuple):
    """One argument.

    Attributes:
        name: name of its parameter; empty for positional arguments.
        value: `Output`, `RandomInput`, `FileInput`, a number or a boolean.
        text: the original text, for messages.
    """

    name: str
    value: Any
    text: str


def parse_argument(text: str) -> Argument:
    """Parse `value` or `name=value`. Raises `InputError`."""
    if not isinstance(text, str):
        raise InputError(f"{shown(text)} is not an argument as text: write {FORMS}, with or without NAME=")
    name, equals, value = text.partition("=")
    if not equals:
        name, value = "", text
    name = name.strip()
    if equals and not name.isidentifier():
        raise InputError(f"{_as_argument(text)}: {shown(name)} is not a parameter's name; write NAME=VALUE or VALUE")
    return Argument(name, _value(_as_argument(text), value.strip()), text)


def _value(argument: str, text: str) -> Any:
    if _ARRAY_FILE.search(text):
        in_place = text.startswith(IN_PLACE)
        return FileInput(text.removeprefix(IN_PLACE), in_place)
    kind, colon, text_after = text.partition(":")
    if colon:
        is_random = kind == _RANDOM
        if is_random:
            kind, colon, text_after = text_after.partition(":")
        if not colon:
            raise InputError(f"{argument}: write random:DTYPE:SHAPE, such as random:float32:1000")
        names = [dtype_name(dtype) for dtype in ALL]
        if kind not in names:
            raise InputError(f"{argument}: {shown(kind)} is not an element type; {nearest_dtype(kind)}choose {FORMS}")
        return (RandomInput if is_random else Output)(_shape(argument, text_after), dtype_of(kind))
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    raise InputError(f"{argument}: {shown(text)} is not an argument; choose {FORMS}")


def _shape(argument: str, text: str) -> tuple[int, ...]:
    try:
        return parse_shape(text)
    except InputError as error:
        raise InputError(f"{argument}: {error.message}") from None


def assign(
    kernel: str,
    parameters: Sequence[str],
    arguments: Iterable[Argument],
    *,
    shape: tuple[int, ...] | None = None,
    dtype: Any = "float32",
    optional: Sequence[str] = (),
    types: Mapping[str, ParameterType] | None = None,
) -> dict[str, Any]:
    """Assign arguments to the parameters of a kernel; return them in parameter order.

    Args:
        kernel: its name, for messages.
        parameters: names of the required parameters, without the core.
        arguments: from `parse_argument`.
        shape, dtype: of the tensors for parameters without an argument: random inputs and outputs; without an output in
            `types`, the last one is the output. None: every parameter needs an argument.
        optional: names of parameters with a default.
        types: declared types of parameters, by name. With `shape`, they determine inputs, outputs and element types.

    Raises `InputError` for an argument without a parameter, a parameter without an argument, an output for a read-only
    parameter, and a value that is not of the declared type of its number.
    """
    values = _by_parameter(kernel, parameters, arguments, optional)
    missing_names = [name for name in parameters if name not in values]
    types = types or {}
    roles = {declared.role for declared in types.values()}
    if missing_names and shape is None:
        names_text = " and ".join(filter(None, (", ".join(missing_names[:-1]), missing_names[-1])))
        raise InputError(
            f"{kernel}: no argument for {names_text}; give {for_caller('--shape', 'shape=...')} for random tensors "
            f"({_ROLES[Role.INPUT in roles]}), or {_as_argument(f'{missing_names[0]}=...')}, {FORMS}"
        )
    tensors = [name for name in parameters if not isinstance(values.get(name), int | float)]
    for name in missing_names:
        declared = types.get(name)
        if declared is not None and declared.role is Role.NUMBER:
            of_type = f" ({declared.dtype.name})" if declared.dtype is not None else ""
            raise InputError(f"{kernel}: {name} is a number{of_type}: give {_as_argument(f'{name}=NUMBER')}")
        is_last = name == tensors[-1] and Role.OUTPUT not in roles
        output = is_last if declared is None else declared.role is Role.OUTPUT
        element = dtype if declared is None or declared.dtype is None else declared.dtype
        values[name] = (Output if output else RandomInput)(shape or (), dtype_of(element))
    for name, declared in types.items():
        value = values.get(name)
        if declared.role is Role.NUMBER and declared.dtype is not None and value is not None:
            values[name] = _number(kernel, name, declared.dtype, value)
        if isinstance(value, Output) and declared.role is Role.INPUT:
            shaped = f"{dtype_name(dtype_of(value.dtype))}:{','.join(map(str, value.shape))}"
            raise InputError(
                f"{kernel}: {name} is only read (a pointer to const), and {shaped} is a tensor to write; give "
                f"{_as_argument(f'{name}=random:{shaped}')} or {name}=FILE.npy"
            )
    return {name: values[name] for name in (*parameters, *optional) if name in values}


def _as_argument(text: str) -> str:
    """Return how the caller gives an argument."""
    return for_caller(f"--arg {text}", f"arguments=[{text!r}]")


def _by_parameter(
    kernel: str, parameters: Sequence[str], arguments: Iterable[Argument], optional: Sequence[str]
) -> dict[str, Any]:
    """Return the values of arguments by parameter: those with a name, then the others in order. Raises `InputError`."""
    values: dict[str, Any] = {}
    positional = []
    for argument in arguments:
        # A C++ parameter `in` is called `in_` in Python.
        name = f"{argument.name}_" if iskeyword(argument.name) else argument.name
        if not name:
            positional.append(argument)
        elif name in values:
            raise InputError(f"{_as_argument(argument.text)}: {argument.name} is given twice")
        elif name in parameters or name in optional:
            values[name] = argument.value
        else:
            has = it_has([*parameters, *optional], argument.name)
            raise InputError(f"{_as_argument(argument.text)}: {kernel} has no parameter {argument.name!r}; {has}")
    unassigned = [name for name in parameters if name not in values]
    if len(positional) > len(unassigned):
        text = positional[len(unassigned)].text
        raise InputError(f"{_as_argument(text)}: {kernel} has no parameter left for it")
    values |= {name: argument.value for name, argument in zip(unassigned, positional, strict=False)}
    return values


def _number(kernel: str, name: str, dtype: np.dtype[Any], value: Any) -> Any:
    """Return the value for a parameter declared as a number of this type. Raises `InputError`."""
    if not isinstance(value, int | float):
        form = _as_argument(f"{name}=NUMBER")
        raise InputError(f"{kernel}: {name} is a number ({dtype.name}), not a tensor: give {form}")
    if dtype.kind not in "iu":
        return value
    if isinstance(value, float) and not value.is_integer():
        raise InputError(f"{kernel}: {name} is {dtype.name}, and {value:g} is not a whole number: round it")
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise InputError(f"{kernel}: {name} is {dtype.name}, and {value:g} is not {limits.min} to {limits.max}")
    return int(value) if isinstance(value, float) else value


def read_inputs(
    arguments: Mapping[str, Any], *, seed: int = 0, data: bool = True, boards: Iterable[Board] = ()
) -> dict[str, Any]:
    """Replace files and random inputs by arrays.

    Args:
        arguments: from `assign`.
        seed: seed of the random elements.
        data: False: random inputs have a shape but no elements.
        boards: the boards that will hold the tensors, as for `RandomTensors`.

    Raises `InputError` for a file that cannot be read.
    """
    draw = RandomTensors(seed, data=data, boards=boards)

    def read(name: str, value: Any) -> Any:
        match value:
            case FileInput():
                array = read_array(f"--arg {name}=", value.path)
                return InOut(array) if value.in_place else array
            case RandomInput():
                return draw.elements(value.shape, dtype_of(value.dtype))
            case _:
                return value

    return {name: read(name, value) for name, value in arguments.items()}
