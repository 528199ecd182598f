"""`mlusim.verify`: runs a kernel on a temporary device and checks the kernel and its split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial as partial_call
from pathlib import Path
from typing import Any

from mlusim.arrays import Array
from mlusim.cores.core import Kernel
from mlusim.cores.tasks.launch_checks import kernel_name
from mlusim.errors import (
    AllocationError,
    AwaitError,
    BoardError,
    InputError,
    LaunchError,
    OperationLimitError,
    shown,
)
from mlusim.hardware import DEFAULT_BOARD, Board, board
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, DEFAULT_STALL_S, Device
from mlusim.host.kernel_keywords import by_name, check_own_names
from mlusim.host.other_runs import OtherRuns, error_of, where_written
from mlusim.host.references import Reference, as_tolerance, check_outputs, differences, expected_outputs
from mlusim.host.run import Uploaded, launch, uses_unset, with_checks
from mlusim.host.silence import silent
from mlusim.inputs import as_text, check_flags, check_operations
from mlusim.memory.allocation import POISON
from mlusim.planning.plan import Plan
from mlusim.verifier.changes.functions import ONE_AT_A_TIME
from mlusim.verifier.check import check_log, check_names
from mlusim.verifier.consequences.other_results import by_other_results
from mlusim.verifier.report import Report


def verify(
    kernel: Kernel,
    *arguments: Any,
    device: str | Path | Board = DEFAULT_BOARD,
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
    `SimulatedTimeError` for a run that takes longer than the log can hold. Calls in several threads run one after
    another.
    """
    check_own_names(kernel, len(arguments), locals(), verify)
    check_operations(theory_ops)
    check_flags(data=data)
    positional, settings_of_kernel = by_name(kernel, arguments, settings, verify)
    _check_options(plan, planned)
    check_names(rewrites=rewrites, partial=partial)
    tolerances = as_tolerance("tolerance", tolerance), as_tolerance("absolute_tolerance", absolute_tolerance)
    if plan is not None and dim is None:
        dim, kind = plan.dim, plan.kind

    limits = {"max_operations": max_operations, "stall_s": stall_s}
    runs = _Runs(kernel, positional, settings_of_kernel, device, data=data, dma=dma, limits=limits, dim=dim, kind=kind)
    check = partial_call(
        check_log, name=kernel_name(kernel), plan=plan, rewrites=rewrites, partial=partial, planned=planned
    )

    with ONE_AT_A_TIME:
        try:
            simulated, uploaded = runs.start()
            inputs, names = list(uploaded.inputs.values()), list(uploaded.outputs)
            for option, of_option in (("rewrites", rewrites), ("partial", partial)):
                check_outputs(option, () if isinstance(of_option, bool) else of_option, names)
            expected = expected_outputs(reference, inputs, names) if data else {}
        except AwaitError as error:
            return _refused(Device(board(device)), kernel, error)
        except (InputError, LaunchError, AllocationError, BoardError) as error:
            # The traceback should end at the caller's line.
            raise error.with_traceback(None) from None
        simulated.watch_host_data()
        run_error = error_of(simulated)
        if run_error is None and (checked := with_checks(kernel)):
            run_with_checks, uploaded_again = runs.start(changed=checked)
            run_with_checks.watch_host_data()
            run_error = error_of(run_with_checks)
            if run_error or uses_unset(run_with_checks):
                simulated, uploaded = run_with_checks, uploaded_again
        views, repeat = uploaded.outputs, runs.buffers_at if data else None
        outputs = {name: simulated.download(view) for name, view in views.items()} if data and not run_error else {}
        findings = list(simulated.host_data)
        if outputs:
            compared = where_written(simulated.log, views, expected, outputs, partial=partial)
            findings += differences(simulated.log, views, compared, outputs, tolerances, repeat)
        report = check(simulated.log, simulated.board, stopped=run_error, found=findings)
        if expected:
            others = OtherRuns(
                kernel=kernel,
                start=runs.start,
                log=simulated.log,
                outputs=outputs,
                expected=expected,
                tolerances=tolerances,
                partial=partial,
                stall_s=stall_s,
                is_sound=lambda run: check(run.log, run.board).ok,
                polls=isinstance(run_error, OperationLimitError),
            )
            further = others.in_order, others.from_zeros, others.fixing, others.fixing_barriers
            report = replace(report, findings=by_other_results(report.findings, *further))
        result = simulated.result(report.name, theory_ops=theory_ops)
        result.plan, result.repeat, result.outputs = plan, repeat, outputs
        result.report = replace(report, outputs=outputs, compared=tuple(expected), result=result)
        return result.report


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of a kernel, each on a fresh device; `arguments` and `settings` are those of `by_name`."""

    kernel: Kernel
    arguments: Any
    settings: Any
    board: str | Path | Board
    _: KW_ONLY
    data: bool
    dma: str
    limits: Mapping[str, Any]
    dim: tuple[int, ...] | int | None
    kind: str

    def start(
        self,
        *,
        fresh_byte: int = POISON,
        changed: Kernel | None = None,
        limits: Mapping[str, Any] | None = None,
        **board_changes: int,
    ) -> tuple[Device, Uploaded]:
        """Queue the kernel, as `mlusim.host.other_runs.Start`."""
        target, dma = board(self.board).replace(**board_changes), "complete" if board_changes else self.dma
        new_device = Device(target, data=self.data, dma=dma, **(limits or self.limits))
        new_device.chip.refuses_repetition = True
        new_device.chip.fill_fresh(fresh_byte)
        kernel = changed or self.kernel
        return new_device, launch(new_device, kernel, self.arguments, self.settings, dim=self.dim, kind=self.kind)

    def buffers_at(self, time_ps: int) -> Mapping[int, Array]:
        """Return the contents of the buffers at a time of a further run."""
        with silent():
            return self.start()[0].buffers_at(time_ps)


def _refused(idle: Device, kernel: Kernel, error: AwaitError) -> Report:
    """Return the report of a launch that found calls of coroutine functions not awaited: nothing has run."""
    report = check_log(idle.log, idle.board, name=kernel_name(kernel), stopped=error)
    return replace(report, result=idle.result(report.name))


def _check_options(plan: Any, planned: Any) -> None:
    """Raise `InputError` for options of an invalid type or value."""
    if plan is not None and not isinstance(plan, Plan):
        raise InputError(f"plan={shown(plan)} is not a plan: make one with mlusim.plan(NAME, *shapes)")
    if as_text("planned", planned) and plan is None:
        raise InputError(
            f"planned={shown(planned)} names the output that a plan splits, and there is no plan: pass plan= too"
        )
