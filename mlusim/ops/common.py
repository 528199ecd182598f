"""The common part of all operators: the options of a run, and the run itself, from arrays to a result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import numpy as np

from mlusim.dtypes import Dtype
from mlusim.errors import InputError, nearest
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, Device
from mlusim.host.steady.steady import check_steady, timed, too_few
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.planning.request import Request
from mlusim.results.result import Result
from mlusim.verifier.switch import is_checked

Array = np.ndarray[Any, Any]


class RunOptions(TypedDict, total=False):
    """Options that every operator takes, by keyword.

    Attributes:
        data: False for a timing-only run: tensors have sizes but no bytes, and the result has no output.
        dma: "complete" or "late": when an asynchronous copy acts (see `mlusim.host.device.Device`).
        progress: show a progress line for runs longer than a second or two.
        max_operations: operations that one task may issue before it counts as endless.
        check: verify the run: races, bytes read unwritten, the split (`mlusim.verifier`). The report is the result's
            `report`, and an error in it is a `VerificationError`. By default off, but in `mlusim.verifier.checked()`.
        steady: with `data=False`: simulate until the tasks repeat themselves, and extrapolate the rest with a bound
            (`mlusim.host.steady`). The result's `steady` says what was done.
        nram_limit_bytes: the most NRAM of a core that the plan may use: smaller tiles, and another tier where that
            follows. By default all that is usable on the board.
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
        name: what messages and reports call it.
        array: its elements.
        keep_data: scalar code reads it, so it has its bytes in a timing-only run too.
    """

    name: str
    array: Array
    keep_data: bool = False


class Workspace(NamedTuple):
    """A tensor of GDRAM that a call needs in addition, for what its kernels leave to later ones.

    Attributes:
        name: what reports call it.
        shape, dtype: of the tensor.
        keep_data: scalar code reads it, so it has bytes in a timing-only run too.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Dtype
    keep_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One operator, checked and planned, ready to run. What makes it is the operator's record, `ops.operator.Operator`.

    Attributes:
        kernel: called as kernel(core, *inputs, output, *workspace, plan, *arguments).
        before: kernels of earlier launches, in order, called in the same way; the end of a launch is the barrier
            between all cores.
        workspace: tensors that are allocated for the call and given back after it.
        plan: its split; names operator, strategy and board.
        inputs: tensors that it reads.
        output_dtype: element type of its output; the shape is the plan's.
        arguments: further arguments of the kernel.
        theory_ops: operations that the operator itself needs, for compute_efficiency.
        output_shape: of the result; None: the plan's, which may have merged or split axes.
        view: gives the output as a view of the first input, in a call that moves nothing.
        request: the call that made it.
    """

    kernel: Callable[..., Coroutine[Any, None, None]]
    plan: Plan
    inputs: tuple[Input, ...]
    output_dtype: Dtype
    before: tuple[Callable[..., Coroutine[Any, None, None]], ...] = ()
    workspace: tuple[Workspace, ...] = ()
    arguments: tuple[Any, ...] = ()
    theory_ops: int = 0
    output_shape: tuple[int, ...] | None = None
    view: Callable[[View], View] | None = None
    request: Request | None = None


def launch(device: Device, call: Call, inputs: Sequence[View], output: View) -> list[View]:
    """Queue a call on a device that holds its tensors already; nothing where the plan has nothing to do.

    Gives the tensors of its workspace, which are to be freed when the call is over.
    """
    plan = call.plan
    if not plan.tier:
        return []
    spaces = [
        device.alloc(space.shape, space.dtype, space.name, workspace=True, keep_data=space.keep_data)
        for space in call.workspace
    ]
    for kernel in (*call.before, call.kernel):
        device.launch(kernel, *inputs, output, *spaces, plan, *call.arguments, dim=plan.dim, kind=plan.kind)
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
    """Run a call on a device of its own: upload, launch, download. For the options see `RunOptions`.

    Raises what `Device.synchronize` raises, `AllocationError` where the tensors do not fit in GDRAM, and with `check`
    `VerificationError`.
    """
    plan = call.plan
    check_steady(steady=steady, data=data, check=bool(check))

    def launched(*, dry: bool) -> tuple[Device, View]:
        device = Device(plan.board, data=data, dma=dma, progress=progress, max_operations=max_operations, dry=dry)
        inputs = [device.upload(value.array, value.name, keep_data=value.keep_data) for value in call.inputs]
        output = call.view(inputs[0]) if call.view else device.alloc(plan.output_shape, call.output_dtype)
        spaces = launch(device, call, inputs, output)
        device.synchronize()
        for space in spaces:
            device.free(space)
        return device, output

    if steady:
        tiles = int(np.bincount(plan.tiles.task).max()) if len(plan.tiles) else 0
        device, log = timed(lambda dry: launched(dry=dry)[0], too_few(tiles))
    else:
        device, output = launched(dry=False)
        log = device.log
    array = None
    if data:
        array = device.download(output if call.output_shape is None else output.reshape(call.output_shape))
    # A device is a web of references that Python frees late; its memories must not wait for that.
    device.close()
    result = Result(
        operator=plan.operator,
        output=array,
        board=plan.board,
        plan=plan,
        log=log,
        theory_ops=call.theory_ops,
        request=call.request,
    )
    return verified(result, check=False if steady else check)


def verified(result: Result, *, check: bool | None) -> Result:
    """The same result, with its report where it is to be checked. Raises `VerificationError`."""
    if is_checked(check):
        from mlusim.verifier.check import check_log

        report = check_log(result.log, result.board, name=result.operator, plan=result.plan)
        result.report = report.check()
    return result


def check_choice(what: str, value: str, known: Iterable[str]) -> None:
    """Raise `InputError` for a name that is not among those known, with the nearest one."""
    names = list(known)
    if value in names:
        return
    raise InputError(f"{what}={value!r}: {nearest(str(value), names)}choose one of {', '.join(names)}")
