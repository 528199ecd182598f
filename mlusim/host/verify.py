"""`mlusim.verify`: runs a kernel on a temporary device and checks the kernel and its split."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.core import Kernel
from mlusim.cores.tasks.launch_checks import kernel_name
from mlusim.errors import (
    AllocationError,
    AwaitError,
    BoardError,
    InputError,
    LaunchError,
    MlusimError,
    OperationLimitError,
    SimulatedTimeError,
    shown,
)
from mlusim.hardware import Board, board
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, DEFAULT_STALL_S, Device
from mlusim.host.kernel_keywords import by_name, check_own_names
from mlusim.host.references import Reference, as_tolerance, differences, expected_outputs
from mlusim.host.run import Uploaded, launch
from mlusim.host.silence import silent
from mlusim.inputs import as_text, check_flags, check_operations
from mlusim.log import Log
from mlusim.memory.allocation import POISON
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.results.memory_state import Repeat
from mlusim.verifier.changes import Change, mending_remedies
from mlusim.verifier.check import check_log, check_names
from mlusim.verifier.consequences.other_results import OtherRun, by_other_results
from mlusim.verifier.findings import Finding
from mlusim.verifier.order.happens_before import BY_OFFSETS
from mlusim.verifier.report import Report
from mlusim.verifier.run import Run
from mlusim.verifier.source_changes import SourceChange
from mlusim.verifier.split.coverage import written_elements
from mlusim.verifier.wrong_values import wrong_elements

# So long that each operation of a core is done before its next one is issued.
_SLOW_ISSUE_CYCLES = 1 << 24
# A kernel with a change may issue this many times as many operations.
_LONGER = 8
# A change may make a loop endless: how long it may issue nothing, and after how many such runs no other is tried.
_STALL_S, _MOST_STALLS = 0.5, 2


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
    partial: bool | tuple[str, ...] = (),
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
        reference: the expected outputs: an array (for a single output), a tuple or list of arrays in the order of the
            outputs, a mapping by name, or a function of the input arrays that returns one of these. An output is not
            compared if it is None in the tuple, or not in the mapping, such as a workspace.
        tolerance: largest difference relative to the reference, such as 1e-5.
        absolute_tolerance: largest difference in addition to that, such as 1e-6, for sums that cancel to almost 0.
            Without a tolerance, bits are compared, with all NaNs equal.
        plan: the split that the kernel should follow. It is checked first, and the run compared with it.
        planned: name of the output that the plan splits, if several outputs have the plan's shape.
        rewrites: names of outputs that may be written more than once; True for all.
        partial: names of outputs of which a part may stay unwritten, such as the results of a filter, whose number
            depends on the data; True for all. Elements that are never written are not compared with the reference.
        dma: "complete" or "late", as in `Device`.
        max_operations, stall_s: limits on endless tasks, as in `Device`. A run whose latest operations, a twenty-fifth
            of `max_operations`, access the same operands again and again counts as endless if it is in a `while` loop
            and no number changes by which that decides.
        data: False for a timing-only run, which has no values to compare.
        theory_ops: operations that the computation requires, for the compute efficiency of `report.result`.
        settings: arguments of the kernel by parameter name, as in `mlusim.run`.

    Returns the report: its `result` has the time and all figures of the run; `report.check()` raises
    `VerificationError` if it has errors. An error of the run itself (an access outside a view, a hang, an endless loop)
    is reported as a finding, not raised. Raises `InputError` and `LaunchError` for arguments that cannot be launched,
    `SimulatedTimeError` for a run that takes longer than the log can hold.
    """
    check_own_names(kernel, len(arguments), locals(), verify)
    check_operations(theory_ops)
    check_flags(data=data)
    placed, named = by_name(kernel, arguments, settings, verify)
    _check_options(plan, planned)
    check_names(rewrites=rewrites, partial=partial)
    tolerances = as_tolerance("tolerance", tolerance), as_tolerance("absolute_tolerance", absolute_tolerance)
    if plan is not None and dim is None:
        dim, kind = plan.dim, plan.kind

    limits = {"max_operations": max_operations, "stall_s": stall_s}
    stalls = 0

    def start(
        *, fresh_byte: int = POISON, changed: Kernel = kernel, limits: Mapping[str, Any] = limits, **parameters: int
    ) -> tuple[Device, Uploaded]:
        target, effect = board(device).replace(**parameters), "complete" if parameters else dma
        started = Device(target, data=data, dma=effect, **limits)
        started.chip.refuses_repetition = True
        started.chip.fill_fresh(fresh_byte)
        return started, launch(started, changed, placed, named, dim=dim, kind=kind)

    def buffers_at(time_ps: int) -> Mapping[int, Array]:
        # Each call uses a fresh device.
        device_then, _ = start()
        return device_then.buffers_at(time_ps)

    repeat: Repeat | None = buffers_at if data else None
    try:
        simulated, run = start()
        _check_outputs(list(run.outputs), rewrites=rewrites, partial=partial)
        expected = expected_outputs(reference, list(run.inputs.values()), list(run.outputs)) if data else {}
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
        written = _where_written(simulated.log, run.outputs, expected, outputs, partial=partial)
        findings += differences(simulated.log, run.outputs, written, outputs, tolerances, repeat)

    def checked(device: Device, stopped: MlusimError | None = None, found: Sequence[Finding] = ()) -> Report:
        return check_log(
            device.log,
            device.board,
            name=kernel_name(kernel),
            plan=plan,
            rewrites=rewrites,
            partial=partial,
            planned=planned,
            stopped=stopped,
            found=found,
        )

    report = checked(simulated, stopped, findings)
    if expected:

        def in_order() -> OtherRun:
            return _other_run(*start(issue_cycles=_SLOW_ISSUE_CYCLES), expected, tolerances)

        def from_zeros() -> OtherRun:
            return _other_run(*start(fresh_byte=0), expected, tolerances, outputs)

        def is_mended(change: Change | SourceChange) -> bool:
            nonlocal stalls
            if stalls == _MOST_STALLS:
                return False
            most = {"max_operations": _LONGER * (len(simulated.log) + 1), "stall_s": min(stall_s, _STALL_S)}
            # What the kernel prints, it has printed before.
            with silent():
                device, run = start(changed=change.applied(kernel), limits=most)
                if error := _error_of(device):
                    stalls += isinstance(error, OperationLimitError) and len(device.log) < most["max_operations"]
                    return False
            results = {name: device.download(view) for name, view in run.outputs.items()}
            merged = _where_written(device.log, run.outputs, expected, results, partial=partial)
            is_wrong = any(len(wrong_elements(results[name], merged[name], *tolerances)) for name in merged)
            return not is_wrong and checked(device).ok

        def mending(records: Sequence[int], lines: Collection[int]) -> list[str]:
            return mending_remedies(kernel, simulated.log, records, lines, is_mended)

        report = replace(report, findings=by_other_results(report.findings, in_order, from_zeros, mending))
    result = simulated.result(report.name, theory_ops=theory_ops)
    result.plan, result.repeat = plan, repeat
    result.outputs = outputs
    report = replace(report, outputs=outputs, result=result)
    result.report = report
    return report


def _other_run(
    device: Device,
    run: Uploaded,
    expected: Mapping[str, Array],
    tolerances: tuple[float, float],
    unlike: Mapping[str, Array] = MappingProxyType({}),
) -> OtherRun:
    """Run a kernel again on another device. Its result is right if all of it is, or most of what is `unlike` outputs.

    An error may end it. And offsets are read at issue, when what earlier copies bring may not be in memory yet.
    """
    if _error_of(device) is not None or {*BY_OFFSETS} & {*device.log.ops}:
        return OtherRun(device.log, None)
    outputs = {name: device.download(view) for name, view in run.outputs.items()}
    expected = _where_written(device.log, run.outputs, expected, outputs, partial=True)
    wrong = {name: wrong_elements(outputs[name], reference, *tolerances) for name, reference in expected.items()}
    elements, number = sum(map(len, wrong.values())), 0
    if unlike:
        elements = 0
        for name, positions in wrong.items():
            differ = [one[name].reshape(-1, 1).view(np.uint8) for one in (outputs, unlike)]
            differs = (differ[0] != differ[1]).any(axis=1)
            number += int(np.count_nonzero(differs))
            elements += int(np.count_nonzero(differs[positions]))
    # A single element may be right by chance.
    tells = not unlike or number > 1
    names = frozenset(name for name, positions in wrong.items() if len(positions))
    return OtherRun(device.log, elements <= number // 2 if tells else None, names)


def _refused(idle: Device, kernel: Kernel, error: AwaitError) -> Report:
    """Return the report of a launch that found calls of coroutine functions not awaited: nothing has run."""
    report = check_log(idle.log, idle.board, name=kernel_name(kernel), stopped=error)
    return replace(report, result=idle.result(report.name))


def _error_of(device: Device) -> MlusimError | None:
    """Run the queued launches; return the error that ended the run, if any. Raises `SimulatedTimeError`."""
    try:
        device.synchronize()
    except SimulatedTimeError:
        # The checker cannot read its log.
        raise
    except MlusimError as error:
        return error
    return None


def _where_written(
    log: Log,
    views: Mapping[str, View],
    expected: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    partial: bool | tuple[str, ...],
) -> Mapping[str, Array]:
    """Return the expected outputs; those of `partial` with their own bytes where no operation has written."""
    merged = dict(expected)
    for name in expected if partial is True else set(partial or ()) & set(expected):
        reference, result = expected[name], outputs[name]
        # The comparison raises an error for another shape or element type.
        if (reference.shape, reference.dtype) == (result.shape, result.dtype):
            merged[name] = np.where(written_elements(Run(log), views[name]), reference, result)
    return merged


def _check_options(plan: Any, planned: Any) -> None:
    """Raise `InputError` for options of an invalid type or value."""
    if plan is not None and not isinstance(plan, Plan):
        raise InputError(f"plan={shown(plan)} is not a plan: make one with mlusim.plan(NAME, *shapes)")
    if as_text("planned", planned) and plan is None:
        raise InputError(
            f"planned={shown(planned)} names the output that a plan splits, and there is no plan: pass plan= too"
        )


def _check_outputs(outputs: list[str], **options: bool | tuple[str, ...]) -> None:
    """Raise `InputError` for an option with a name that is not an output."""
    for option, names in options.items():
        unknown = [] if isinstance(names, bool) else [name for name in names if name not in outputs]
        if unknown:
            raise InputError(f"{option} names {unknown}, which are not outputs: the outputs are {sorted(outputs)}")
