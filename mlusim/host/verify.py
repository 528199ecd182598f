"""`mlusim.verify`: runs a kernel on a temporary device and checks the kernel and its split."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.launch_checks import kernel_name
from mlusim.errors import AllocationError, AwaitError, BoardError, InputError, LaunchError, MlusimError, shown
from mlusim.hardware import Board, board
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, DEFAULT_STALL_S, Device
from mlusim.host.run import Kernel, Uploaded, by_name, launch
from mlusim.inputs import as_array, as_text, check_flags, check_operations
from mlusim.log import Log
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.results.memory_state import Repeat
from mlusim.verifier.check import check_log, with_findings
from mlusim.verifier.findings import Finding
from mlusim.verifier.reference import differs
from mlusim.verifier.report import Report

Reference = Array | Callable[..., Any] | tuple[Array, ...] | Mapping[str, Array] | None


def verify(
    kernel: Kernel,
    *arguments: Any,
    device: str | Path | Board = "mlu370-x4",
    dim: tuple[int, ...] | int | None = None,
    kind: str = "UNION1",
    reference: Reference = None,
    tolerance: float = 0.0,
    absolute_tolerance: float = 0.0,
    plan: Plan | None = None,
    planned: str = "",
    rewrites: bool | tuple[str, ...] = (),
    dma: str = "complete",
    max_operations: int = DEFAULT_MAX_OPERATIONS,
    stall_s: float = DEFAULT_STALL_S,
    data: bool = True,
    theory_ops: int | None = None,
    **settings: Any,
) -> Report:
    """Run a kernel and report races, unwritten and rewritten bytes, hangs and other errors.

    Args:
        kernel: an `async def` function whose first parameter is its `Core`.
        arguments: its other arguments. NumPy arrays become read-only inputs in GDRAM; `Output(shape, dtype)` becomes a
            tensor to write, `InOut(array)` one to modify in place; anything else is passed on. The report uses the
            kernel's parameter names.
        device: a preset's name, a TOML file, or a board.
        dim, kind: the launch, as in `Device.launch`; by default those of the plan, or one task per core.
        reference: the expected outputs: an array (for a single output), a tuple of arrays in the order of the outputs,
            a mapping by name, or a function of the input arrays that returns one of these.
        tolerance: largest difference relative to the reference, such as 1e-5.
        absolute_tolerance: largest difference in addition to that, such as 1e-6, for sums that cancel to almost 0.
            Without a tolerance, bits are compared, with all NaNs equal.
        plan: the split that the kernel should follow. It is checked first, and the run compared with it.
        planned: name of the output that the plan splits, if several outputs have the plan's shape.
        rewrites: names of outputs that may be written more than once; True for all.
        dma: "complete" or "late", as in `Device`.
        max_operations, stall_s: limits on endless tasks, as in `Device`.
        data: False for a timing-only run, which has no values to compare.
        theory_ops: operations that the kernel's purpose requires, for the compute efficiency of `report.result`.
        settings: arguments of the kernel by parameter name, as in `mlusim.run`.

    Returns the report: its `result` has the time and all figures of the run; `report.check()` raises
    `VerificationError` if it has errors. An error of the run itself (an access outside a view, a hang, an endless loop)
    is reported as a finding, not raised. Raises `InputError` and `LaunchError` for arguments that cannot be launched.
    """
    check_operations(theory_ops)
    check_flags(data=data)
    placed, named = by_name(kernel, arguments, settings, verify)
    _check_options(plan, planned, rewrites)
    tolerances = _tolerance("tolerance", tolerance), _tolerance("absolute_tolerance", absolute_tolerance)
    if plan is not None and dim is None:
        dim, kind = plan.dim, plan.kind

    def start() -> tuple[Device, Uploaded]:
        started = Device(board(device), data=data, dma=dma, max_operations=max_operations, stall_s=stall_s)
        return started, launch(started, kernel, placed, named, dim=dim, kind=kind)

    def buffers_at(time_ps: int) -> Mapping[int, Array]:
        # Each call uses a fresh device.
        device_then, _ = start()
        return device_then.buffers_at(time_ps)

    repeat: Repeat | None = buffers_at if data else None
    try:
        simulated, run = start()
        _check_rewrites(rewrites, list(run.outputs))
        expected = _expected(reference, list(run.inputs.values()), list(run.outputs)) if data else {}
    except AwaitError as error:
        return _refused(Device(board(device)), kernel, error)
    except (InputError, LaunchError, AllocationError, BoardError) as error:
        # The traceback should end at the caller's line.
        raise error.with_traceback(None) from None
    simulated.watch_host_data()
    stopped = _error_of(simulated)
    findings = list(simulated.host_data)
    outputs: dict[str, Array] = {}
    if stopped is None and data:
        outputs = {name: simulated.download(view) for name, view in run.outputs.items()}
        findings += _against(simulated.log, run.outputs, expected, outputs, tolerances, repeat)
    name = kernel_name(kernel)
    report = check_log(
        simulated.log, simulated.board, name=name, plan=plan, rewrites=rewrites, planned=planned, stopped=stopped
    )
    result = simulated.result(report.name, theory_ops=theory_ops)
    result.plan, result.repeat = plan, repeat
    if len(outputs) == 1:
        result.output = next(iter(outputs.values()))
    report = replace(with_findings(report, findings), outputs=outputs, result=result)
    result.report = report
    return report


def _refused(idle: Device, kernel: Kernel, error: AwaitError) -> Report:
    """Return the report of a launch that found calls of coroutine functions not awaited: nothing has run."""
    report = check_log(idle.log, idle.board, name=kernel_name(kernel), stopped=error)
    return replace(report, result=idle.result(report.name))


def _error_of(device: Device) -> MlusimError | None:
    """Run the queued launches; return the error that ended the run, if any."""
    try:
        device.synchronize()
    except MlusimError as error:
        return error
    return None


def _check_options(plan: Any, planned: Any, rewrites: Any) -> None:
    """Raise `InputError` for options of an invalid type or value."""
    if plan is not None and not isinstance(plan, Plan):
        raise InputError(f"plan={shown(plan)} is not a plan: make one with mlusim.plan(NAME, *shapes)")
    if as_text("planned", planned) and plan is None:
        raise InputError(
            f"planned={shown(planned)} names the output that a plan splits, and there is no plan: pass plan= too"
        )
    named = isinstance(rewrites, tuple | list | set | frozenset) and all(isinstance(name, str) for name in rewrites)
    if not (named or isinstance(rewrites, bool)):
        raise InputError(
            f"rewrites={shown(rewrites)}: pass a tuple of names of outputs, such as ('out',), or True for all"
        )


def _tolerance(name: str, value: Any) -> float:
    """Return a tolerance. Raises `InputError` for anything but a number of at least 0."""
    if not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        of = "relative to the reference" if name == "tolerance" else "the largest difference itself"
        raise InputError(f"{name}={shown(value)}: it must be a number of at least 0, {of}")
    return float(value)


def _check_rewrites(rewrites: Any, outputs: list[str]) -> None:
    """Raise `InputError` for a name that is not an output."""
    unknown = [] if isinstance(rewrites, bool) else [name for name in rewrites if name not in outputs]
    if unknown:
        raise InputError(f"rewrites names {unknown}, which are not outputs: the outputs are {sorted(outputs)}")


def _against(
    log: Log,
    views: Mapping[str, View],
    expected: Mapping[str, Array],
    outputs: dict[str, Array],
    tolerances: tuple[float, float],
    repeat: Repeat | None,
) -> list[Finding]:
    """Return the findings on outputs that differ from the reference. Raises `InputError` for another shape."""
    try:
        findings = [
            differs(log, views[name], outputs[name], reference, *tolerances, repeat)
            for name, reference in expected.items()
        ]
    except InputError as error:
        raise error.with_traceback(None) from None
    return [finding for finding in findings if finding is not None]


def _expected(reference: Reference, inputs: list[Array], outputs: list[str]) -> Mapping[str, Array]:
    """Return the expected outputs by name. Raises `InputError` for a failing reference or one for unknown outputs."""
    if reference is None:
        return {}
    references: Any = reference
    if callable(reference):
        try:
            # Copies: the function may compute in place, and the device may use the arrays themselves.
            references = reference(*(array.copy() for array in inputs))
        except Exception as error:  # noqa: BLE001 - whatever a function of the user raises
            raise InputError(_of_reference(reference, error)) from None
    # For one output, a tuple is that output, unless it holds one array, which is.
    alone = isinstance(references, tuple) and len(references) == 1 and isinstance(references[0], np.ndarray)
    if isinstance(references, tuple) and (len(outputs) > 1 or alone):
        if len(references) != len(outputs):
            raise InputError(
                f"a reference of {len(references)} arrays for {len(outputs)} outputs: {', '.join(outputs)}"
            )
        references = dict(zip(outputs, references, strict=True))
    if not isinstance(references, Mapping):
        references = as_array("the reference", references)
        if len(outputs) != 1:
            raise InputError(
                f"a reference of one array for {len(outputs)} outputs: pass a tuple of arrays, {', '.join(outputs)}, "
                "or a mapping by name; on the command line an .npz file of these names, or a function that returns one"
            )
        references = {outputs[0]: references}
    unknown = sorted(set(references) - set(outputs))
    if unknown:
        raise InputError(f"the reference names {unknown}, which are not outputs: the outputs are {sorted(outputs)}")
    return {name: as_array(f"the reference of {name}", array) for name, array in references.items()}


def _of_reference(reference: Callable[..., Any], error: Exception) -> str:
    """Describe the exception of a reference function and its line in the caller's code."""
    code = getattr(inspect.unwrap(reference), "__code__", None)
    frames = [frame for frame in extract_tb(error.__traceback__) if code and frame.filename == code.co_filename]
    if frames:
        at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}"
    elif code:
        at = f"{Path(code.co_filename).name}:{code.co_firstlineno}; it is called with the input arrays, in order"
    else:
        at = "it is called with the input arrays, in order"
    return f"the reference function raised {type(error).__name__}: {error}, at {at}"
