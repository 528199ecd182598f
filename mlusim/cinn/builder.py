"""NetBuilder: builds a net operator by operator, and checks every shape, type and argument immediately."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from os import PathLike
from typing import Any

from mlusim.cinn.net import Instruction, Variable, call_text, describe, in_context
from mlusim.cinn.program import Program
from mlusim.dtypes import Dtype, dtype_of
from mlusim.errors import InputError, nearest, shown
from mlusim.hardware import Board, board
from mlusim.inputs import as_shape, as_text, as_tuple
from mlusim.ops.argument_errors import explained
from mlusim.ops.bitcast_convert import BITCAST_CONVERT
from mlusim.ops.cast import CAST
from mlusim.ops.gather import GATHER, GATHER_ND
from mlusim.ops.index_select import INDEX_SELECT
from mlusim.ops.operator import Operator
from mlusim.ops.registry import BY_NAME
from mlusim.ops.reverse import FLIP, REVERSE, REVERSE_SEQUENCE
from mlusim.ops.scatter import SCATTER, SCATTER_ND
from mlusim.units import plural

Axes = int | Sequence[int]
VariableOrName = Variable | str


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

    @explained
    def flip(
        self,
        x: VariableOrName,
        axis: Axes | None = None,
        *,
        dim: Axes | None = None,
        dims: Axes | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """Reverse the elements of `x` along each of the axes."""
        return self._add(FLIP, (x,), _one_of("flip", axis=axis, dim=dim, dims=dims), name, strategy)

    @explained
    def reverse(
        self,
        x: VariableOrName,
        axis: Axes | None = None,
        *,
        dim: Axes | None = None,
        dims: Axes | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """Alias of flip."""
        return self._add(REVERSE, (x,), _one_of("reverse", axis=axis, dim=dim, dims=dims), name, strategy)

    @explained
    def reverse_sequence(
        self,
        x: VariableOrName,
        seq_lengths: VariableOrName,
        seq_axis: int | None = None,
        batch_axis: int | None = None,
        *,
        seq_dim: int | None = None,
        batch_dim: int | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """Reverse the first seq_lengths[b] elements of batch entry b along seq_axis (1; batch_axis 0)."""
        seq = _one_of("reverse_sequence", seq_axis=seq_axis, seq_dim=seq_dim)
        batch = _one_of("reverse_sequence", batch_axis=batch_axis, batch_dim=batch_dim)
        return self._add(REVERSE_SEQUENCE, (x, seq_lengths), seq | batch, name, strategy)

    @explained
    def gather(
        self,
        x: VariableOrName,
        index: VariableOrName,
        axis: int | None = None,
        *,
        dim: int | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """out[i] = x[i with coordinate `axis` (0) replaced by index[i]]."""
        return self._add(GATHER, (x, index), _one_of("gather", axis=axis, dim=dim), name, strategy)

    @explained
    def gather_nd(
        self,
        x: VariableOrName,
        index: VariableOrName,
        axes: Sequence[int] | None = None,
        mode: str = "aligned",
        *,
        batch_dims: int = 0,
        dims: Sequence[int] | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """As gather, with several coordinates replaced (by default the first ones).

        `mode` and `batch_dims` are those of `ops.gather_nd`.
        """
        attributes = _one_of("gather_nd", axes=axes, dims=dims) | {"mode": mode, "batch_dims": batch_dims}
        return self._add(GATHER_ND, (x, index), attributes, name, strategy)

    @explained
    def index_select(
        self,
        x: VariableOrName,
        index: VariableOrName,
        axis: int | None = None,
        *,
        dim: int | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """Select slices of `x` along `axis` (0) by a list of indices."""
        return self._add(INDEX_SELECT, (x, index), _one_of("index_select", axis=axis, dim=dim), name, strategy)

    @explained
    def scatter(
        self,
        x: VariableOrName,
        index: VariableOrName,
        src: VariableOrName,
        axis: int | None = None,
        *,
        dim: int | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """A copy of `x` with out[i with coordinate `axis` (0) replaced by index[i]] = src[i]; the last one wins."""
        return self._add(SCATTER, (x, index, src), _one_of("scatter", axis=axis, dim=dim), name, strategy)

    @explained
    def scatter_nd(
        self,
        x: VariableOrName,
        index: VariableOrName,
        src: VariableOrName,
        axes: Sequence[int] | None = None,
        mode: str = "aligned",
        *,
        dims: Sequence[int] | None = None,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """As scatter, with several coordinates replaced (by default the first ones); `mode` as in `ops.scatter_nd`."""
        attributes = _one_of("scatter_nd", axes=axes, dims=dims) | {"mode": mode}
        return self._add(SCATTER_ND, (x, index, src), attributes, name, strategy)

    @explained
    def cast(
        self,
        x: VariableOrName,
        dtype: object,
        *,
        saturate: bool = False,
        name: str | None = None,
        strategy: str | None = None,
    ) -> Variable:
        """Convert the elements of `x` to another type: Float(32), bool, "int8", ...; `saturate` as in `ops.cast`."""
        return self._add(CAST, (x,), {"dtype": dtype_of(dtype), "saturate": saturate}, name, strategy)

    @explained
    def bitcast_convert(
        self, x: VariableOrName, dtype: object, *, name: str | None = None, strategy: str | None = None
    ) -> Variable:
        """View the bytes of `x` as elements of another type; nothing is copied. The last dimension changes with it."""
        return self._add(BITCAST_CONVERT, (x,), {"dtype": dtype_of(dtype)}, name, strategy)

    def __getattr__(self, name: str) -> Callable[..., Variable]:
        """Return a method for any other operator: `builder.tin_shift(x, shifts)`.

        Its arguments are the operator's tensors, then its attributes by keyword, and `name` and `strategy` as above.
        """
        if name.startswith("_") or name not in BY_NAME:
            raise AttributeError(
                f"a net has no operator or attribute {name!r}; {nearest(name, BY_NAME)}its operators are "
                f"{', '.join(BY_NAME)}"
            )
        return partial(self._call, BY_NAME[name])

    def _call(
        self,
        operator: Operator,
        *inputs: VariableOrName,
        name: str | None = None,
        strategy: str | None = None,
        **arguments: Any,
    ) -> Variable:
        tensors = [*inputs, *(arguments.pop(role) for role in operator.tensors[len(inputs) :] if role in arguments)]
        if len(tensors) != len(operator.tensors):
            raise InputError(
                f"{operator.name} in net {self.name!r} with {plural(len(tensors), 'tensor')}: it takes "
                f"{', '.join(operator.tensors)}"
            )
        return self._add(operator, tensors, arguments, name, strategy)

    @explained
    def build(
        self,
        target: str | PathLike[str] | Board = "mlu370-x4",
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
            taken = {variable for instruction in self._instructions for variable in instruction.inputs}
            chosen = [instruction.output for instruction in self._instructions if instruction.output not in taken]
        else:
            named = as_tuple(outputs)
            named = named if isinstance(named, tuple) else (named,)
            chosen = list(dict.fromkeys(self._variable("build", "outputs", value) for value in named))
        return Program(self.name, board(target), tuple(self._inputs), tuple(self._instructions), tuple(chosen))

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
        where = f"{operator} in net {self.name!r}: {role}"
        if isinstance(value, str):
            if value in self._variables:
                return self._variables[value]
            known = ", ".join(self._variables) or "none yet"
            near = nearest(value, self._variables)
            raise InputError(f"{where} = {shown(value)} is not a variable of this net: {near}it has {known}")
        if not isinstance(value, Variable):
            raise InputError(
                f"{where} is of type {type(value).__name__}, not a variable: make one with "
                f"builder.create_input(Float(32), shape, name), and pass its values when the net is executed"
            )
        if value.builder is not self:
            raise InputError(f"{where} = {value!r} belongs to net {value.builder.name!r}: make it with this builder")
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
            taken = self._variables[name]
            raise InputError(f"{operator} in net {self.name!r}: name={name!r} is taken by {taken!r}: choose another")
        variable = self._variables[name] = Variable(self, name, shape, dtype)
        return variable


def _one_of(operator: str, **aliases: Any) -> dict[str, Any]:
    """Return the one argument that is not None, under the first of its names; empty if there is none."""
    passed = {name: value for name, value in aliases.items() if value is not None}
    if len(passed) > 1:
        both = " and ".join(f"{name}={shown(value)}" for name, value in passed.items())
        raise InputError(f"{operator}: {both} are names of one argument: pass one of them")
    return {next(iter(aliases)): value for value in passed.values()}
