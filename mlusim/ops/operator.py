"""One record for each operator, so that its function, NetBuilder, mluOp and the command line do the same.

An operator is inferred from what is known before anything runs (names, shapes, element types), and prepared, its index
values checked and its split planned, when its inputs are there. `apply` does both and runs the call on a device of its
own; `apply_on_device` prepares and runs on a device that holds the tensors, for front ends that inferred before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from mlusim.analysis.launch_log import Operand, log_of_launch
from mlusim.dtypes import Dtype, dtype_of
from mlusim.errors import InputError, PlanError
from mlusim.hardware import Board, board
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.ops.common import Call, Input, RunOptions, check_choice, launch, run, verified
from mlusim.planning.request import Request
from mlusim.results.result import Result


class Tensor(NamedTuple):
    """What is known of a tensor before anything runs: its name in messages, its shape and its element type."""

    name: str
    shape: tuple[int, ...]
    dtype: Dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """How an operator is checked, inferred and prepared.

    Attributes:
        name: as in `mlusim.ops`.
        tensors: names of its input tensors, in the order in which its kernel takes them.
        infer: infer(*tensors, **attributes) gives shape and dtype of the output from one `Tensor` for each input.
            Raises `InputError` for shapes, dtypes and attributes that break a rule.
        prepare: prepare(board, strategy, *inputs, **attributes) gives the `Call`, from one `common.Input` for each
            input, inferred before. Raises `InputError` for index values that are out of range, `PlanError` where no
            split fits.
        strategies: names of its strategies, the default first.
        reads_values: the inputs whose values prepare or scalar code of the kernel looks at; of the others it sees
            shape and dtype only, so that in a timing-only run they need no bytes.
        view: view(x, **attributes) gives the output as a view of the input's bytes, in an operator that moves none.
    """

    name: str
    tensors: tuple[str, ...]
    infer: Callable[..., tuple[tuple[int, ...], Dtype]]
    prepare: Callable[..., Call]
    strategies: tuple[str, ...]
    reads_values: tuple[str, ...] = ()
    view: Callable[..., View] | None = None

    def call(
        self, board: Board, strategy: str, *inputs: Input, nram_limit_bytes: int | None = None, **attributes: Any
    ) -> Call:
        """Prepare, and note what was asked for, so that it can be planned again on another board.

        nram_limit_bytes: as in `RunOptions`; the planner sees a board with so much usable NRAM, the run the real one.
        """
        tensors = ((given.name, given.array.shape, given.array.dtype) for given in inputs)
        request = Request.of(self.name, strategy, tensors, attributes)
        if nram_limit_bytes is None:
            return replace(self.prepare(board, strategy, *inputs, **attributes), request=request)
        try:
            prepared = self.prepare(_limited(board, nram_limit_bytes), strategy, *inputs, **attributes)
        except PlanError as error:
            raise PlanError(f"with nram_limit_bytes = {nram_limit_bytes}: {error.message}") from None
        plan = replace(prepared.plan, board=board, nram_limit_bytes=nram_limit_bytes)
        return replace(prepared, plan=plan, request=replace(request, nram_limit_bytes=nram_limit_bytes))


def apply(
    operator: Operator,
    arrays: Sequence[ArrayLike],
    attributes: Mapping[str, Any],
    device: str | Path | Board,
    strategy: str | None,
    options: RunOptions,
) -> Result:
    """Infer, prepare and run an operator on arrays of the host: what each function of `mlusim.ops` does.

    Args:
        operator: its record.
        arrays: one for each of its tensors.
        attributes: axes, dtypes and the like.
        device: a preset's name, a TOML file, or a board.
        strategy: one of its strategies; None: its default.
        options: see `RunOptions`.
    """
    chosen = operator.strategies[0] if strategy is None else strategy
    check_choice("strategy", chosen, operator.strategies)
    inputs = [
        Input(name=name, array=np.asarray(array), keep_data=name in operator.reads_values)
        for name, array in zip(operator.tensors, arrays, strict=True)
    ]
    operator.infer(*(tensor_of(given) for given in inputs), **attributes)
    settings: dict[str, Any] = {**options}
    limit = settings.pop("nram_limit_bytes", None)
    return run(operator.call(board(device), chosen, *inputs, nram_limit_bytes=limit, **attributes), **settings)


def _limited(board: Board, nram_limit_bytes: int) -> Board:
    """The board with no more usable NRAM than that. Raises `InputError` for a limit that is none."""
    usable = board.nram_usable_bytes
    if isinstance(nram_limit_bytes, bool) or not isinstance(nram_limit_bytes, int):
        raise InputError(f"nram_limit_bytes={nram_limit_bytes!r} is not an integer: give it in bytes")
    if not 0 < nram_limit_bytes <= usable:
        raise InputError(
            f"nram_limit_bytes={nram_limit_bytes}: a limit is 1 to {usable}, the usable NRAM of {board.name}; leave it "
            "off for all of it"
        )
    return board.replace(nram_reserved_bytes=board.nram_bytes - nram_limit_bytes)


def tensor_of(given: Input) -> Tensor:
    """What is known of an input before anything runs. Raises `InputError` for an element type the board has not."""
    return Tensor(given.name, given.array.shape, dtype_of(given.array.dtype))


def apply_on_device(  # noqa: PLR0913
    operator: Operator,
    device: Device,
    tensors: Sequence[tuple[str, View]],
    attributes: Mapping[str, Any],
    strategy: str | None,
    output_name: str,
    *,
    output: View | None = None,
    check: bool | None = None,
    nram_limit_bytes: int | None = None,
) -> tuple[Result, View]:
    """Prepare and run an operator on tensors in the GDRAM of a device, and wait for it.

    Args:
        operator: its record; what it would infer from the tensors is taken as checked.
        device: where the tensors are; its queue is empty.
        tensors: name and contiguous view of each input.
        attributes: axes, dtypes and the like.
        strategy: one of its strategies; None: its default.
        output_name: what reports call the output.
        output: a contiguous view for it; None: it is allocated, or is a view of the input where the operator gives one.
        check, nram_limit_bytes: as in `RunOptions`.

    The values of index tensors are looked at in the simulated memory, a service of the simulator. Returns the profile
    of this launch alone, as a result without output, and the view of the output. Raises what `Operator.prepare` and
    `Device.synchronize` raise, `AllocationError`, and with `check` `VerificationError`.
    """
    chosen = operator.strategies[0] if strategy is None else strategy
    check_choice("strategy", chosen, operator.strategies)
    inputs = [
        Input(name=name, array=_array_of(view), keep_data=role in operator.reads_values)
        for role, (name, view) in zip(operator.tensors, tensors, strict=True)
    ]
    call = operator.call(device.board, chosen, *inputs, nram_limit_bytes=nram_limit_bytes, **attributes)
    plan = call.plan
    # A prepared call may have merged or split axes; the bytes are the same.
    views = [view.reshape(given.array.shape) for given, (_, view) in zip(call.inputs, tensors, strict=True)]
    operands = [Operand(name, view, read_only=True) for (name, _), view in zip(tensors, views, strict=True)]
    first_record, number = len(device.log), len(device.log.launches)
    if call.view:
        result = call.view(views[0])
    else:
        shape = plan.output_shape if call.output_shape is None else call.output_shape
        result = device.alloc(shape, call.output_dtype, output_name) if output is None else output
        target = result.reshape(plan.output_shape)
        operands.append(Operand(output_name, target, read_only=False))
        spaces = launch(device, call, views, target)
        device.synchronize()
        operands += [
            Operand(space.name, view, read_only=False) for space, view in zip(call.workspace, spaces, strict=False)
        ]
        for space_view in spaces:
            device.free(space_view)
    launched = range(number, len(device.log.launches))
    profile = Result(
        operator=operator.name,
        output=None,
        board=device.board,
        plan=plan,
        log=log_of_launch(device.log, launched, operands, first_record),
        theory_ops=call.theory_ops,
        request=call.request,
    )
    return verified(profile, check=check), result


def _array_of(view: View) -> np.ndarray[Any, Any]:
    """The elements on the simulated bytes; in a timing-only run, where there are none, their shape and dtype only."""
    if view.allocation.buffer is None:
        return np.broadcast_to(np.empty((), view.dtype), view.shape)
    return view.typed()
