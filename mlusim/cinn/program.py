"""A built net and its execution on one device: inputs are uploaded once, intermediates stay in GDRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from numpy.typing import ArrayLike

from mlusim.arrays import Array
from mlusim.cinn.net import Instruction, Variable, describe, in_context
from mlusim.cinn.result import NetResult, Step
from mlusim.dtypes import dtype_of
from mlusim.errors import InputError, shown
from mlusim.hardware import Board
from mlusim.host.device import Device
from mlusim.inputs import as_array, check_flags, check_is
from mlusim.log import NONE
from mlusim.memory.allocation import Allocation
from mlusim.memory.view import View
from mlusim.ops.argument_errors import explained, unknown_argument
from mlusim.ops.call import RunOptions
from mlusim.ops.on_device import apply_on_device
from mlusim.units import plural


class Program:
    """A net for one board. `len`, iteration and indexing access its instructions.

    Attributes:
        name: name of the net.
        board: the target board.
        inputs: variables whose values are passed to `execute`.
        instructions: its operators, in order.
        outputs: variables whose values a run returns.
    """

    def __init__(
        self,
        name: str,
        target: Board,
        inputs: tuple[Variable, ...],
        instructions: tuple[Instruction, ...],
        outputs: tuple[Variable, ...],
    ) -> None:
        check_is("target", target, Board, "build a program by builder.build('mlu370-x4')")
        parts = (
            ("inputs", inputs, Variable),
            ("instructions", instructions, Instruction),
            ("outputs", outputs, Variable),
        )
        for argument, values, kind in parts:
            if not (isinstance(values, tuple) and all(isinstance(value, kind) for value in values)):
                rule = f"pass a tuple of {kind.__name__} objects, or build a program by builder.build('mlu370-x4')"
                raise InputError(f"{argument}={shown(values)}: {rule}")
        self.name = name
        self.board = target
        self.instructions = instructions
        self.outputs = outputs
        used_variables = {variable for instruction in instructions for variable in instruction.inputs}
        self.inputs = tuple(variable for variable in inputs if variable in used_variables or variable in outputs)
        self._unused = tuple(variable for variable in inputs if variable not in self.inputs)

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, position: int) -> Instruction:
        return self.instructions[position]

    def __repr__(self) -> str:
        return f"<program {self.name!r} on {self.board.name}: {plural(len(self), 'operator')}>"

    @explained
    def execute(self, inputs: Mapping[Any, ArrayLike], **options: Unpack[RunOptions]) -> NetResult:
        """Run the net on a new device.

        Args:
            inputs: the array of each input, by its name or variable; shape and dtype as declared, no conversion. Inputs
                that no operator uses may be left out.
            options: see `RunOptions`; `steady` is for single operators. In a timing-only run the result has no outputs,
                and an index computed within the net is an error, because its values are not known.

        Operators run one after another; each intermediate is freed after its last use. Index values are checked before
        the launch that uses them, in the simulated memory if an operator computed them, at no simulated cost. Not
        modelled: fusion of operators, the host link.

        Raises `InputError`, naming the operator, for missing, unknown and mismatching inputs and for index values out
        of range; `PlanError`; and the errors of a run.
        """
        arrays = self._arrays(inputs)
        settings: dict[str, Any] = {**options}
        self._check_options(settings)
        per_operator = {name: settings.pop(name, None) for name in ("check", "nram_limit_bytes")}
        run = _Run(self, Device(self.board, **settings), per_operator)
        for variable in self.inputs:
            run.upload(variable, arrays[variable])
        steps = [run.step(position, instruction) for position, instruction in enumerate(self.instructions)]
        return run.finish(steps)

    def _check_options(self, settings: dict[str, Any]) -> None:
        """Remove `steady`, which is off. Raises `InputError` and, for unknown options, `ArgumentsError`."""
        if settings.pop("steady", False):
            raise InputError(f"net {self.name!r}: steady=True is for an operator of its own, as in mlusim.ops")
        if settings.get("check") is not None:
            check_flags(check=settings["check"])
        if "device" in settings:
            raise InputError(f"net {self.name!r}: a program is built for its board: builder.build(device)")
        option_names = [name for name in RunOptions.__annotations__ if name != "steady"]
        for name in settings:
            if name not in option_names:
                raise unknown_argument("execute", name, option_names)

    def _arrays(self, inputs: Mapping[Any, ArrayLike]) -> dict[Variable, Array]:
        """Return the array of each input, checked."""
        net = f"net {self.name!r}"
        by_name = {variable.name: variable for variable in (*self.inputs, *self._unused)}
        arrays: dict[Variable, Array] = {}
        if not isinstance(inputs, Mapping):
            raise InputError(
                f"{net}: inputs of type {type(inputs).__name__} have no names: execute({{name: array, ...}}), for "
                f"{', '.join(by_name)}"
            )
        for key, value in inputs.items():
            name = key.name if isinstance(key, Variable) else key
            variable = by_name.get(name)
            if variable is None or (isinstance(key, Variable) and key is not variable):
                raise InputError(f"{net} has no input {key!r}: its inputs are {', '.join(by_name)}")
            if variable in arrays:
                raise InputError(f"{net}: input {name!r} is given twice, by name and as a variable: give it once")
            array = as_array(f"{net}: input {name!r}", value)
            dtype = dtype_of(array.dtype)
            if array.shape != variable.shape or dtype != variable.dtype:
                raise InputError(
                    f"{net}: input {name!r} is {describe(array.shape, dtype)} and was declared as "
                    f"{describe(variable.shape, variable.dtype)}: pass it as declared"
                )
            arrays[variable] = array
        missing_names = [variable.name for variable in self.inputs if variable not in arrays]
        if missing_names:
            names = ", ".join(map(repr, missing_names))
            raise InputError(f"{net}: input {names} is missing: execute({{name: array, ...}})")
        return arrays


class _Run:
    """One execution: the memory of each variable, until its last use."""

    def __init__(self, program: Program, device: Device, options: Mapping[str, Any]) -> None:
        self._program = program
        self._options = options
        self._device = device
        self._views: dict[Variable, View] = {}
        self._uploaded: list[Allocation] = []
        self._last_use: dict[Variable, int] = {}
        # Memory whose values planners or scalar code read keeps its bytes in a timing-only run.
        self._read_by_host: set[Variable] = set()
        for position, instruction in enumerate(program.instructions):
            self._last_use |= dict.fromkeys((*instruction.inputs, instruction.output), position)
        for instruction in reversed(program.instructions):
            for role, variable in zip(instruction.operator.tensors, instruction.inputs, strict=True):
                is_viewed = instruction.operator.view is not None and instruction.output in self._read_by_host
                if role in instruction.operator.reads_values or is_viewed:
                    self._read_by_host.add(variable)
        self._last_use |= dict.fromkeys(program.outputs, len(program))

    def upload(self, variable: Variable, array: Array) -> None:
        """Upload an input to GDRAM."""
        is_read_by_host = variable in self._read_by_host
        view = self._views[variable] = self._device.upload(array, variable.name, keep_data=is_read_by_host)
        self._uploaded.append(view.allocation)

    def step(self, position: int, instruction: Instruction) -> Step:
        """Run one operator, and free the memory that is not used after it."""
        output = instruction.output
        self._check_values(instruction)
        try:
            result, view = apply_on_device(
                instruction.operator,
                self._device,
                [(variable.name, self._views[variable]) for variable in instruction.inputs],
                instruction.attributes,
                instruction.strategy,
                output.name,
                **self._options,
            )
        except InputError as error:
            raise in_context(error, self._program.name, instruction.call, instruction.inputs) from error
        # Later operators read it as an input, and inputs are never written.
        view.allocation.read_only = True
        self._views[output] = view
        self._free(position)
        return Step(instruction, result)

    def finish(self, steps: list[Step]) -> NetResult:
        """Download the outputs and free all memory."""
        program, device = self._program, self._device
        outputs = {}
        if device.data:
            # A downloaded array refers to the simulated bytes, and an input's are the caller's: return each only once.
            uploaded = {*self._uploaded}
            for variable in program.outputs:
                view = self._views[variable]
                array = device.download(view)
                outputs[variable.name] = array.copy() if view.allocation in uploaded else array
                uploaded.add(view.allocation)
        named_allocations = {*self._uploaded, *(self._views[variable].allocation for variable in program.outputs)}
        self._free(len(program))
        self._mark_intermediates({allocation.identity for allocation in named_allocations})
        return NetResult(program.name, program.board, device.log, tuple(steps), outputs)

    def _free(self, position: int) -> None:
        """Free the memory whose variables are not used after this position."""
        unused_variables = [variable for variable in self._views if self._last_use[variable] <= position]
        views = {view.allocation: view for view in map(self._views.pop, unused_variables)}
        needed_allocations = {view.allocation for view in self._views.values()}
        for allocation, view in views.items():
            if allocation not in needed_allocations:
                self._device.free(view)

    def _mark_intermediates(self, named_identities: set[int]) -> None:
        """Record that all memory other than the net's inputs and outputs is neither, for figures of the whole log."""
        for identity, record in enumerate(self._device.log.allocations):
            if record.task == NONE and identity not in named_identities:
                record.workspace = True

    def _check_values(self, instruction: Instruction) -> None:
        """Raise `InputError` if an operator reads values that a timing-only run does not have."""
        for role, variable in zip(instruction.operator.tensors, instruction.inputs, strict=True):
            if role in instruction.operator.reads_values and self._views[variable].allocation.buffer is None:
                error = InputError(
                    f"{variable.name} is computed in the net, and a timing-only run has no values to look at: make it "
                    "an input, or run with data=True"
                )
                raise in_context(error, self._program.name, instruction.call, instruction.inputs)
