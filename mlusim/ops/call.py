"""The common part of all operators: the options of a run, and the run itself, from arrays to a result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.core import Kernel
from mlusim.dtypes import Dtype, dtype_of
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, Device
from mlusim.host.run import synchronize
from mlusim.host.steady.refusals import too_few
from mlusim.host.steady.steady import check_steady, run_timed
from mlusim.host.steady.watch import Watch
from mlusim.memory.view import View
from mlusim.ops.schema import Tensor
from mlusim.planning.plan import Plan
from mlusim.planning.request import Request
from mlusim.results.result import Result
from mlusim.verifier.check_by_default import is_checked


class RunOptions(TypedDict, total=False):
    """Keyword options of every operator.

    Attributes:
        data: False for a timing-only run: tensors have sizes but no bytes, and the result has no output.
        dma: "complete" or "late": when an asynchronous copy takes effect (see `mlusim.host.device.Device`).
        progress: show a progress bar for runs longer than a second or two.
        max_operations: limit on the operations issued by one task; beyond it, the task counts as endless.
        check: verify the run: races, uninitialised reads, the split (`mlusim.verifier`). The report is the result's
            `report`; errors raise `VerificationError`. Off by default, except inside `mlusim.verifier.checked()`.
        steady: with `data=False`: simulate until the tasks reach a steady state, and extrapolate the rest with an error
            bound (`mlusim.host.steady`). The result's `steady` describes the extrapolation.
        nram_limit_bytes: NRAM per core that the plan may use; a limit leads to smaller tiles, and possibly to another
            tier. By default all usable NRAM of the board.
    """

    data: bool
    dma: str
    progress: bool
    max_operations: int
    check: bool
    steady: bool
    nram_limit_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One input tensor of a call.

    Attributes:
        name: name in messages and reports.
        array: its elements.
        keep_data: scalar code reads it, so it needs its bytes even in a timing-only run.
    """

    name: str
    array: Array
    keep_data: bool = False

    @property
    def tensor(self) -> Tensor:
        """Its name, shape and element type. Raises `InputError` for an unsupported element type."""
        return Tensor(self.name, self.array.shape, dtype_of(self.array.dtype))


class Workspace(NamedTuple):
    """A GDRAM tensor for data passed from earlier to later launches, which write every element before they read it.

    Attributes:
        name: name in reports.
        shape, dtype: of the tensor.
        keep_data: scalar code reads it, so it needs its bytes even in a timing-only run.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    keep_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """The launches that run a plan, in order; the end of each is a barrier between all cores.

    Attributes:
        kernels: the kernel of each, called as kernel(core, *inputs, output, *workspace, plan, *arguments).
        workspace: tensors allocated for the launches and freed after them.
        arguments: additional arguments of the kernels.
        theory_ops: operations that the operator itself requires, for compute_efficiency.
    """

    kernels: tuple[Kernel, ...]
    workspace: tuple[Workspace, ...] = ()
    arguments: tuple[Any, ...] = ()
    theory_ops: int = 0


def single(kernel: Kernel) -> Callable[..., Launches]:
    """Return the `launches` of an operator with one kernel, whatever its plan."""

    def launches(*_: Any, **__: Any) -> Launches:
        return Launches(kernels=(kernel,))

    return launches


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """An operator call, checked and planned, ready to run. Created by `Operator.prepare`.

    Attributes:
        plan: its split; contains operator, strategy and board.
        launches: the kernels that run it, with their arguments.
        inputs: its input tensors.
        output_shape, output_dtype: of the result; the plan may have merged or split axes.
        view: returns the output as a view of the first input, for a call that moves nothing.
        request: the request that the call was created from.
    """

    plan: Plan
    launches: Launches
    inputs: tuple[Input, ...]
    output_shape: tuple[int, ...]
    output_dtype: Dtype
    view: Callable[[View], View] | None = None
    request: Request


def launch(device: Device, call: Call, inputs: Sequence[View], output: View) -> list[View]:
    """Queue a call on a device that already holds its tensors; nothing if the plan has nothing to do.

    Returns the tensors of its workspace, which the caller frees when the call has run.
    """
    plan = call.plan
    if not plan.tier:
        return []
    spaces = [
        device.alloc(space.shape, space.dtype, space.name, workspace=True, keep_data=space.keep_data, overwritten=True)
        for space in call.launches.workspace
    ]
    arguments = (*inputs, output, *spaces, plan, *call.launches.arguments)
    for kernel in call.launches.kernels:
        device.launch(kernel, *arguments, dim=plan.dim, kind=plan.kind)
    return spaces


def run(
    call: Call,
    *,
    data: bool = True,
    dma: str = "complete",
    progress: bool = False,
    max_operations: int = DEFAULT_MAX_OPERATIONS,
    check: bool | None = None,
    steady: bool = False,
) -> Result:
    """Run a call on a temporary device: upload, launch, download. For the options see `RunOptions`.

    Raises what `Device.synchronize` raises, `AllocationError` if the tensors do not fit in GDRAM, and with `check`
    `VerificationError`, also in place of an error whose cause the checker finds.
    """
    plan = call.plan
    check_steady(steady=steady, data=data, check=False if check is None else check)

    def launch_on_new_device(*, dry: bool = False, watch: Watch | None = None) -> tuple[Device, View]:
        device = Device(plan.board, data=data, dma=dma, progress=progress, max_operations=max_operations, dry=dry)
        device.chip.observer = watch
        inputs = [device.upload(value.array, value.name, keep_data=value.keep_data) for value in call.inputs]
        if call.view:
            output = call.view(inputs[0])
        else:
            # The tiles of a plan cover the output.
            output = device.alloc(plan.output_shape, call.output_dtype, overwritten=True)
        spaces = launch(device, call, inputs, output)
        synchronize(device, check=not steady and is_checked(check))
        for space in spaces:
            device.free(space)
        return device, output

    if steady:
        tiles = int(np.bincount(plan.tiles.task).max()) if len(plan.tiles) else 0
        device, log = run_timed(lambda **options: launch_on_new_device(**options)[0], too_few(tiles))
    else:
        device, output = launch_on_new_device()
        log = device.log
    array = None
    if data:
        array = device.download(output.reshape(call.output_shape))
    # Release its memories before the result is made, whose figures take memory, too.
    device.close()
    result = Result(
        operator=plan.operator,
        output=array,
        board=plan.board,
        plan=plan,
        log=log,
        theory_ops=call.launches.theory_ops,
        request=call.request,
    )
    return with_report(result, check=False if steady else check)


def with_report(result: Result, *, check: bool | None) -> Result:
    """Add a report to the result if it is to be verified. Raises `VerificationError`."""
    if is_checked(check):
        from mlusim.verifier.check import check_log

        report = check_log(result.log, result.board, name=result.operator, plan=result.plan)
        result.report = report.check(result)
    return result
