"""`Operator`: a schema that its function, NetBuilder, mluOp and the command line are derived from.

The output of an operator is inferred from names, shapes and element types, before anything runs. When its inputs are
available, the call is prepared: inferred, index values checked, split planned. `apply` prepares a call and runs it on a
temporary device, `mlusim.ops.on_device` on a device that holds the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.dtypes import Dtype, dtype_of
from mlusim.errors import AllocationError, InputError, PlanError, shown
from mlusim.hardware import DEFAULT_BOARD, Board, board
from mlusim.host.random_tensors import RandomTensors
from mlusim.inputs import as_array, as_count, as_shape, check_choice
from mlusim.memory.view import View
from mlusim.ops.argument_errors import unknown_argument
from mlusim.ops.call import Call, Input, Launches, RunOptions, run
from mlusim.ops.schema import Attribute, Options, Tensor, TensorSchema
from mlusim.planning.plan import Plan
from mlusim.planning.request import Request
from mlusim.planning.split import MORE_NRAM
from mlusim.results.result import Result
from mlusim.spelling import it_has
from mlusim.units import format_bytes, plural

_ELEMENT_TYPES = "element types are input_dtype and index_dtype"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Operator:
    """The schema of an operator.

    Attributes:
        name: as in `mlusim.ops`.
        inputs: its input tensors, in the order of the kernel's parameters.
        attributes: its other arguments.
        strategies: name and summary of each strategy, the default first.
        infer: infer(*tensors, **attributes) returns shape and element type of the output, given one `Tensor` per input.
            Raises `InputError` for shapes, element types and attributes that break a rule.
        plan: plan(board, strategy, *tensors, **attributes) returns the split, after inference. Raises `PlanError` if no
            split fits.
        launches: launches(plan, *tensors, **attributes) returns the `Launches` that run a plan.
        check: check(*inputs, **attributes) raises `InputError` for values out of range, given one `Input` per tensor;
            None if all values are valid.
        example: example(draw, shape, dtype, options) returns random inputs; `draw` is a `RandomTensors`, and
            `options` contains the operator's attributes and `example_attributes`.
        example_attributes: options of such inputs besides shape and element type.
        usage: arguments of an example command line.
        example_usage: the same with example inputs, for `mlusim sweep` and `mlusim tune`.
        view: view(x, **attributes) returns the output as a view of the input's bytes, for strategy "view".
        command: its name on the command line; by default `name`.
        variant: the command-line flag that selects it among the operators of one command.
        data_option: the option for the element type of example inputs.
    """

    name: str
    inputs: tuple[TensorSchema, ...]
    attributes: tuple[Attribute, ...] = ()
    strategies: Mapping[str, str]
    infer: Callable[..., tuple[tuple[int, ...], Dtype]]
    plan: Callable[..., Plan]
    launches: Callable[..., Launches]
    check: Callable[..., None] | None = None
    example: Callable[[RandomTensors, tuple[int, ...], Dtype, Options], list[Array]]
    example_attributes: tuple[Attribute, ...] = ()
    usage: str
    example_usage: str = "--shape 512,512"
    view: Callable[..., View] | None = None
    command: str = ""
    variant: Attribute | None = None
    data_option: str = "dtype"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Its functions cannot be pickled; a pickled net refers to its operators by name.
        from mlusim.ops.registry import operator_of

        return operator_of, (self.name,)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of its input tensors."""
        return tuple(tensor.name for tensor in self.inputs)

    @property
    def reads_values(self) -> tuple[str, ...]:
        """Inputs that need their bytes even in a timing-only run."""
        return tuple(tensor.name for tensor in self.inputs if tensor.values_matter)

    def strategy(self, name: str | None) -> str:
        """Return a strategy by name; None: the default. Raises `InputError` for an unknown one."""
        if name is None:
            return next(iter(self.strategies))
        check_choice("strategy", name, self.strategies)
        return name

    def complete(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of a call: the given values, normalised, and defaults for the others.

        Raises `InputError` for an attribute that the operator does not have, and for a missing one.
        """
        by_name = {attribute.name: attribute for attribute in self.attributes}
        for name in values:
            if name not in by_name:
                raise InputError(f"{self.name} has no attribute {shown(name)}: {it_has(by_name, name)}")
        completed = {}
        for name, attribute in by_name.items():
            if name in values:
                completed[name] = attribute.normalise(values[name])
            elif attribute.required:
                example = f", such as {attribute.example}" if attribute.example else ""
                raise InputError(f"{self.name}: {name} is missing: pass a value{example}")
            else:
                completed[name] = attribute.default
        return completed

    def make_plan(
        self, board: Board, strategy: str, *tensors: Tensor, nram_limit_bytes: int | None = None, **attributes: Any
    ) -> Plan:
        """Return the split of tensors that have passed inference.

        nram_limit_bytes: as in `RunOptions`; limits the board that the planner sees, not the one that runs.
        Raises `PlanError` if no split fits.
        """
        if nram_limit_bytes is None:
            return _cached_plan(self, board, strategy, tensors, attributes)
        limit = _as_limit(board, nram_limit_bytes)
        limited = board.replace(nram_reserved_bytes=board.nram_bytes - limit)
        try:
            plan = self.plan(limited, strategy, *tensors, **attributes)
        except PlanError as error:
            message = error.message.replace(MORE_NRAM, "raise nram_limit_bytes")
            raise PlanError(f"with nram_limit_bytes = {limit}: {message}") from None
        if plan.nram_bytes > limit:
            raise PlanError(
                f"with nram_limit_bytes = {limit}: {self.name} needs {plan.nram_bytes} B of NRAM at least, "
                f"buffers rounded up to {board.vector_alignment_bytes} B; raise nram_limit_bytes to that"
            )
        return replace(plan, board=board, nram_limit_bytes=limit)

    def prepare(
        self, board: Board, strategy: str | None, *inputs: Input, nram_limit_bytes: int | None = None, **attributes: Any
    ) -> Call:
        """Infer the output, check the values of the inputs, split the work, and record the request for replanning.

        Raises `InputError` for invalid arguments and values out of range, `AllocationError` for an input larger than
        the board's GDRAM, and `PlanError` if no split fits.
        """
        strategy = self.strategy(strategy)
        attributes = self.complete(attributes)
        tensors = tuple(value.tensor for value in inputs)
        shape, dtype = self.infer(*tensors, **attributes)
        _check_size(self.name, board, tensors)
        if self.check is not None:
            self.check(*inputs, **attributes)
        plan = self.make_plan(board, strategy, *tensors, nram_limit_bytes=nram_limit_bytes, **attributes)
        request = Request.of(self.name, strategy, tensors, attributes)
        return Call(
            plan=plan,
            launches=self.launches(plan, *tensors, **attributes),
            inputs=inputs,
            output_shape=shape,
            output_dtype=dtype,
            view=partial(self.view, **attributes) if self.view and plan.strategy == "view" else None,
            request=replace(request, nram_limit_bytes=plan.nram_limit_bytes),
        )


# Cache of recent plans, by the identity of their board, which is kept with them so that no other board gets its id.
# Planning takes longer than a small run, and nets and loops repeat calls.
_PLAN_CACHE_SIZE = 32
_plan_cache: dict[tuple[Any, ...], tuple[Board, Plan]] = {}
_plan_cache_lock = Lock()


def _cached_plan(
    operator: Operator, board: Board, strategy: str, tensors: tuple[Tensor, ...], attributes: Mapping[str, Any]
) -> Plan:
    """Return the plan of a call, cached for the same board object (equality is not enough)."""
    key = (operator.name, id(board), strategy, tensors, *attributes.items())
    try:
        cached = _plan_cache.get(key)
    except TypeError:
        # An attribute is not hashable.
        return operator.plan(board, strategy, *tensors, **attributes)
    if cached is None:
        cached = board, operator.plan(board, strategy, *tensors, **attributes)
        cached[1].tiles.freeze()
        with _plan_cache_lock:
            while len(_plan_cache) >= _PLAN_CACHE_SIZE:
                del _plan_cache[next(iter(_plan_cache))]
            _plan_cache[key] = cached
    return cached[1]


def _as_input(operator: Operator, tensor: TensorSchema, value: ArrayLike) -> Array:
    """Return an input as an array. A list of Python's integers takes the element type of the tensor if they fit."""
    array = as_array(f"{operator.name}: {tensor.name}", value)
    if isinstance(value, list | tuple) and tensor.dtype not in ("", "index"):
        typed = array.astype(tensor.dtype) if array.dtype.kind == "i" else array
        return typed if np.array_equal(typed, array) else array
    return array


def apply(
    operator: Operator,
    arrays: Sequence[ArrayLike],
    attributes: Mapping[str, Any],
    device: str | Path | Board,
    strategy: str | None,
    options: RunOptions,
) -> Result:
    """Prepare and run an operator on host arrays; implements the functions of `mlusim.ops`.

    Args:
        operator: its schema.
        arrays: one per input tensor.
        attributes: axes, dtypes etc.
        device: a preset's name, a TOML file, or a board.
        strategy: one of its strategies; None: its default.
        options: see `RunOptions`.
    """
    inputs = [
        Input(name=tensor.name, array=_as_input(operator, tensor, array), keep_data=tensor.values_matter)
        for tensor, array in zip(operator.inputs, arrays, strict=True)
    ]
    settings: dict[str, Any] = {**options}
    unknown_settings = [name for name in settings if name not in RunOptions.__annotations__]
    if unknown_settings:
        names = [*operator.tensors, *attributes, "device", "strategy", *RunOptions.__annotations__]
        raise unknown_argument(operator.name, unknown_settings[0], names)
    limit = settings.pop("nram_limit_bytes", None)
    return run(operator.prepare(board(device), strategy, *inputs, nram_limit_bytes=limit, **attributes), **settings)


def plan(
    operator: str,
    *shapes: Sequence[int],
    input_dtype: object = "float32",
    index_dtype: object = "int64",
    device: str | Path | Board = DEFAULT_BOARD,
    strategy: str | None = None,
    nram_limit_bytes: int | None = None,
    **attributes: Any,
) -> Plan:
    """Return the plan of an operator without running it.

        mlusim.plan("gather", (8192, 64), (4096, 64), axis=0, device="mlu590-h8").explain()

    Args:
        operator: its name, as in `mlusim.ops`.
        shapes: shapes of its input tensors, in order.
        input_dtype: element type of its data.
        index_dtype: element type of its index; ignored by operators that support a single type.
        device: a preset's name, a TOML file, or a board.
        strategy: one of its strategies; None: its default.
        nram_limit_bytes: as in `ops.call.RunOptions`.
        attributes: axes, modes etc., as in its function.

    Raises as the operator does.
    """
    from mlusim.ops.registry import operator_of

    schema = operator_of(operator)
    attribute_names = {attribute.name for attribute in schema.attributes}
    for name in attributes:
        if "dtype" in name and name not in attribute_names:
            raise InputError(f"plan of {schema.name} with {name}: {_ELEMENT_TYPES}")
    if "shape" in attributes and "shape" not in attribute_names:
        example = ", ".join([repr(schema.name), *(["(...)"] * len(schema.inputs))])
        raise InputError(
            f"plan of {schema.name} takes no shape=: pass the shapes of its tensors, {', '.join(schema.tensors)}, by "
            f"position: mlusim.plan({example}, ...)"
        )
    if len(shapes) != len(schema.inputs):
        types = f"; {_ELEMENT_TYPES}" if len(shapes) > len(schema.inputs) else ""
        raise InputError(
            f"plan of {schema.name} with {plural(len(shapes), 'shape')}: pass one for each of its "
            f"tensors, {', '.join(schema.tensors)}{types}"
        )
    data = dtype_of(input_dtype)
    index = dtype_of(index_dtype)
    tensors = [
        Tensor(
            tensor.name,
            as_shape(f"{schema.name}: the shape of {tensor.name}", shape),
            data if not tensor.dtype else index if tensor.dtype == "index" else dtype_of(tensor.dtype),
        )
        for tensor, shape in zip(schema.inputs, shapes, strict=True)
    ]
    completed = schema.complete(attributes)
    schema.infer(*tensors, **completed)
    target = board(device)
    _check_size(schema.name, target, tensors)
    return schema.make_plan(target, schema.strategy(strategy), *tensors, nram_limit_bytes=nram_limit_bytes, **completed)


def _check_size(operator: str, board: Board, tensors: Iterable[Tensor]) -> None:
    """Raise `AllocationError` for a tensor larger than the board's GDRAM, whose split could have billions of tiles."""
    for tensor in tensors:
        nbytes = math.prod(tensor.shape) * tensor.dtype.itemsize
        if nbytes > board.gdram_bytes:
            raise AllocationError(
                f"{operator}: {tensor.name} takes {format_bytes(nbytes)}: it can never fit in the GDRAM of "
                f"{board.name}, {format_bytes(board.gdram_bytes)}; choose a smaller shape or element type"
            )


def _as_limit(board: Board, nram_limit_bytes: Any) -> int:
    """Return a limit on NRAM in bytes. Raises `InputError` for an invalid one."""
    usable = board.nram_usable_bytes
    limit = as_count("nram_limit_bytes", nram_limit_bytes)
    if limit > usable:
        raise InputError(
            f"nram_limit_bytes={shown(limit)}: a limit must be 1 to {usable}, the usable NRAM of {board.name}; omit it "
            "to use all of it"
        )
    return limit
