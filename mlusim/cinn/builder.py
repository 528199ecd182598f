"""NetBuilder: builds a net operator by operator, and checks every shape, type and argument immediately."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from mlusim import ops
from mlusim.cinn.net import Instruction, Variable, call_text, describe, in_context
from mlusim.cinn.program import Program
from mlusim.dtypes import Dtype, dtype_of
from mlusim.errors import InputError, shown
from mlusim.hardware import DEFAULT_BOARD, Board, board
from mlusim.inputs import as_shape, as_text, as_tuple
from mlusim.ops.argument_errors import explained, mismatch
from mlusim.ops.operator import Operator
from mlusim.ops.registry import BY_NAME, operator_of
from mlusim.ops.schema import Attribute
from mlusim.spelling import nearest
from mlusim.units import plural

VariableOrName = Variable | str


def _method(name: str) -> Callable[..., Variable]:
    """Return the method that adds an operator: with the tensors and attributes of its function in `mlusim.ops`."""
    operator, function = operator_of(name), getattr(ops, name)
    spellings = {attribute.name: (attribute.name, *_names_in_cinn(attribute)) for attribute in operator.attributes}
    signature = _signature(function, operator.tensors, spellings)

    def add(self: NetBuilder, *args: Any, **kwargs: Any) -> Variable:
        try:
            bound = signature.bind(self, *args, **kwargs).arguments
        except TypeError:
            raise mismatch(add, (self, *args), kwargs) from None
        attributes = {}
        for attribute, names in spellings.items():
            values = {word: bound[word] for word in names if bound.get(word) is not None}
            if len(values) > 1:
                conflict = " and ".join(f"{word}={shown(value)}" for word, value in values.items())
                raise InputError(f"{name}: {conflict} are names of one argument: pass one of them")
            if values:
                (attributes[attribute],) = values.values()
        tensors = [bound[role] for role in operator.tensors]
        return self._add(operator, tensors, attributes, bound.get("name"), bound.get("strategy"))

    add.__name__, add.__qualname__ = name, f"NetBuilder.{name}"
    add.__doc__ = f"{function.__doc__.partition(chr(10))[0]}\n\nArguments as in `mlusim.ops.{name}`."
    add.__signature__ = signature  # type: ignore[attr-defined]  # a function takes any attribute
    return add


def _names_in_cinn(attribute: Attribute) -> list[str]:
    """Return the other names of an attribute, in CINN's documents: dim for axis, dims for axes."""
    several = ["dims"] if attribute.name == "axis" and attribute.kind == "integers" else []
    other = attribute.name.replace("axis", "dim").replace("axes", "dims")
    return [] if other == attribute.name else [other, *several]


def _signature(function: Any, tensors: Iterable[str], spellings: Mapping[str, Sequence[str]]) -> inspect.Signature:
    """Return the signature of a method: the function's tensors and attributes, their other names, name, strategy."""
    own_parameters = {
        name: parameter.replace(annotation=inspect.Parameter.empty)
        for name, parameter in inspect.signature(function).parameters.items()
    }
    parameters = [
        inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(own_parameters[name] for name in tensors),
    ]
    for name, names in spellings.items():
        # A required attribute may be passed by its other name.
        optional = len(names) > 1 and own_parameters[name].default is inspect.Parameter.empty
        parameters.append(own_parameters[name].replace(default=None) if optional else own_parameters[name])
    others = [word for names in spellings.values() for word in names[1:]]
    parameters += [
        inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, default=None) for word in (*others, "name", "strategy")
    ]
    return inspect.Signature(parameters)


class NetBuilder:
    """A net under construction.

        builder = NetBuilder("test_basic")
        a = builder.create_input(Float(32), (8, 24), "A")
        i = builder.create_input(Int(32), (3, 24), "index")
        b = builder.gather(a, index=i, dim=0)
        result = builder.build("mlu370-x4").execute({"A": a_data, "index": i_data})
        result[b], result.cycles

    Every method that adds an operator accepts variables of this builder (or their names), and the keywords `name`, of
    its output (by default var_0, var_1, ...), and `strategy`, one of the operator's. As in CINN's documentation, `dim`
    and `dims` are aliases of `axis` and `axes`. It returns the output's `Variable`, with its shape and dtype inferred.
    If the operator rejects its arguments, it raises `InputError` with the operator's name and the names and shapes of
    its inputs.

    The operators are documented in `mlusim.ops`; the same schemas infer, check and plan them here.
    """

    def __init__(self, name: str) -> None:
        self.name = as_text("NetBuilder: name", name)
        if not name:
            raise InputError("NetBuilder: name='' is empty: messages and results name the net by it")
        self._variables: dict[str, Variable] = {}
        self._inputs: list[Variable] = []
        self._instructions: list[Instruction] = []

    @explained
    def create_input(self, type: object, shape: Sequence[int], name: str | None = None) -> Variable:  # noqa: A002 - its name in CINN
        """Add a tensor whose values are passed when the net is executed.

        Args:
            type: Float(32), Int(32), ... or any name of a dtype.
            shape: extents, 0 or more each.
            name: unique in the net.
        """
        if not isinstance(as_tuple(shape), tuple):
            raise InputError(f"create_input: shape {shown(shape)} must be a sequence of integers, such as (8, 24)")
        extents = as_shape("create_input: shape", shape)
        variable = self._new_variable("create_input", name, extents, dtype_of(type))
        self._inputs.append(variable)
        return variable

    bitcast_convert = _method("bitcast_convert")
    cast = _method("cast")
    flip = _method("flip")
    gather = _method("gather")
    gather_nd = _method("gather_nd")
    index_select = _method("index_select")
    reverse = _method("reverse")
    reverse_sequence = _method("reverse_sequence")
    scatter = _method("scatter")
    scatter_nd = _method("scatter_nd")
    tin_shift = _method("tin_shift")
    tin_shift_backward = _method("tin_shift_backward")
    tin_shift_forward = _method("tin_shift_forward")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a net has no operator or attribute {name!r}; {nearest(name, BY_NAME)}its operators are "
            f"{', '.join(BY_NAME)}"
        )

    @explained
    def build(
        self,
        target: str | PathLike[str] | Board = DEFAULT_BOARD,
        *,
        outputs: VariableOrName | Iterable[VariableOrName] | None = None,
    ) -> Program:
        """Return the current net as a program for a board; the builder remains usable.

        Args:
            target: a preset's name, a TOML file, or a board.
            outputs: the variable or variables to return; by default those that are not inputs of an operator.

        Raises `InputError` for a net without operators, and for unknown outputs.
        """
        if not self._instructions:
            raise InputError(f"net {self.name!r} has no operator: add one, such as builder.flip(x, axis=0)")
        if outputs is None:
            used = {variable for instruction in self._instructions for variable in instruction.inputs}
            chosen_variables = [
                instruction.output for instruction in self._instructions if instruction.output not in used
            ]
        else:
            variables = as_tuple(outputs)
            variables = variables if isinstance(variables, tuple) else (variables,)
            chosen_variables = list(dict.fromkeys(self._variable("build", "outputs", value) for value in variables))
        return Program(
            self.name, board(target), tuple(self._inputs), tuple(self._instructions), tuple(chosen_variables)
        )

    def __str__(self) -> str:
        """Return the program, one line per variable."""
        rows = [(variable.name, "input", variable) for variable in self._inputs]
        rows += [(instruction.output.name, instruction.call, instruction.output) for instruction in self._instructions]
        name_width = max((len(name) for name, _, _ in rows), default=0)
        call_width = max((len(call) for _, call, _ in rows), default=0)
        lines = [
            f"  {name:{name_width}} = {call:{call_width}}  {describe(variable.shape, variable.dtype)}"
            for name, call, variable in rows
        ]
        return "\n".join([f"net {self.name}", *lines])

    def __repr__(self) -> str:
        inputs, operators = plural(len(self._inputs), "input"), plural(len(self._instructions), "operator")
        return f"<NetBuilder {self.name!r}: {inputs}, {operators}>"

    def _add(
        self,
        operator: Operator,
        tensors: Sequence[VariableOrName],
        attributes: dict[str, Any],
        name: str | None,
        strategy: str | None,
    ) -> Variable:
        """Infer an operator and add it; nothing is added if it raises."""
        inputs = tuple(
            self._variable(operator.name, role, variable)
            for role, variable in zip(operator.tensors, tensors, strict=True)
        )
        # Sequences become tuples here, independent of later changes by the caller.
        attributes = operator.complete(attributes)
        try:
            shape, dtype = operator.infer(*(variable.tensor for variable in inputs), **attributes)
            operator.strategy(strategy)
        except InputError as error:
            raise in_context(error, self.name, call_text(operator, inputs, attributes), inputs) from error
        output = self._new_variable(operator.name, name, shape, dtype)
        self._instructions.append(Instruction(operator, inputs, attributes, output, strategy))
        return output

    def _variable(self, operator: str, role: str, value: Any) -> Variable:
        """Return the variable that an argument refers to."""
        context = f"{operator} in net {self.name!r}: {role}"
        if isinstance(value, str):
            if value in self._variables:
                return self._variables[value]
            names = ", ".join(self._variables) or "none yet"
            suggestion = nearest(value, self._variables)
            raise InputError(f"{context} = {shown(value)} is not a variable of this net: {suggestion}it has {names}")
        if not isinstance(value, Variable):
            raise InputError(
                f"{context} is of type {type(value).__name__}, not a variable: make one with "
                f"builder.create_input(Float(32), shape, name), and pass its values when the net is executed"
            )
        if value.builder is not self:
            raise InputError(f"{context} = {value!r} belongs to net {value.builder.name!r}: make it with this builder")
        return value

    def _new_variable(self, operator: str, name: str | None, shape: tuple[int, ...], dtype: Dtype) -> Variable:
        if name is None:
            number = len(self._variables)
            name = f"var_{number}"
            while name in self._variables:
                number += 1
                name = f"var_{number}"
        if not isinstance(name, str) or not name:
            raise InputError(f"{operator} in net {self.name!r}: name={name!r} is a string of at least one character")
        if name in self._variables:
            existing = self._variables[name]
            raise InputError(f"{operator} in net {self.name!r}: name={name!r} is taken by {existing!r}: choose another")
        variable = self._variables[name] = Variable(self, name, shape, dtype)
        return variable
