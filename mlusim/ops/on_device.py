"""Operators on tensors that a device holds already: for nets, and for the host interface of mlu-ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mlusim.analysis.launch_log import Operand, log_of_launch
from mlusim.arrays import Array
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.ops.call import Input, launch, with_report
from mlusim.ops.operator import Operator
from mlusim.results.result import Result


def apply_on_device(
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
        operator: its schema.
        device: the device that holds the tensors; its queue is empty.
        tensors: name and contiguous view of each input.
        attributes: axes, dtypes etc.
        strategy: one of its strategies; None: its default.
        output_name: name of the output in reports.
        output: a contiguous view for it; None: allocate it, or return a view of the input if the operator supports
            that.
        check, nram_limit_bytes: as in `RunOptions`.

    The values of index tensors are checked in the simulated memory, a service of the simulator. Returns the profile of
    this launch alone, as a result without output, and the view of the output. Raises what `Operator.prepare` and
    `Device.synchronize` raise, `AllocationError`, and with `check` `VerificationError`.
    """
    inputs = [
        Input(name=name, array=_array_of(view), keep_data=role in operator.reads_values)
        for role, (name, view) in zip(operator.tensors, tensors, strict=True)
    ]
    call = operator.prepare(device.board, strategy, *inputs, nram_limit_bytes=nram_limit_bytes, **attributes)
    plan = call.plan
    # A prepared call may have merged or split axes; the bytes are the same.
    views = [view.reshape(value.array.shape) for value, (_, view) in zip(call.inputs, tensors, strict=True)]
    operands = [Operand(name, view, read_only=True) for (name, _), view in zip(tensors, views, strict=True)]
    first_record, number = len(device.log), len(device.log.launches)
    if call.view:
        result = call.view(views[0])
    else:
        result = device.alloc(call.output_shape, call.output_dtype, output_name) if output is None else output
        target = result.reshape(plan.output_shape)
        operands.append(Operand(output_name, target, read_only=False))
        spaces = launch(device, call, views, target)
        device.synchronize()
        for space, view in zip(call.launches.workspace, spaces, strict=False):
            operands.append(Operand(space.name, view, read_only=False))
            device.free(view)
    launched = range(number, len(device.log.launches))
    profile = Result(
        operator=operator.name,
        output=None,
        board=device.board,
        plan=plan,
        log=log_of_launch(device.log, launched, operands, first_record),
        theory_ops=call.launches.theory_ops,
        request=call.request,
    )
    return with_report(profile, check=check), result


def _array_of(view: View) -> Array:
    """Return the elements on the simulated bytes; in a timing-only run only an array of that shape and dtype."""
    if view.allocation.buffer is None:
        return np.broadcast_to(np.empty((), view.dtype), view.shape)
    return view.typed().view()
