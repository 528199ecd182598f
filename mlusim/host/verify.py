"""`mlusim.verify`: run a kernel on a device of its own, and say what is wrong with it and its split."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import InputError, MlusimError
from mlusim.hardware import Board, board
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, Device
from mlusim.memory.view import View
from mlusim.planning.plan import Plan
from mlusim.verifier.check import check_log, sort_findings
from mlusim.verifier.compare import differs
from mlusim.verifier.findings import Finding
from mlusim.verifier.report import Report

Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]
Reference = Array | Callable[..., Any] | Mapping[str, Array] | None


@dataclass(frozen=True, slots=True)
class Output:
    """Where `verify` gives a kernel a tensor to write: shape and element type. Fresh bytes are 0xFF."""

    shape: tuple[int, ...]
    dtype: Any = "float32"

    @classmethod
    def like(cls, array: Array) -> Output:
        """As an array is."""
        return cls(array.shape, array.dtype)


def verify(  # noqa: PLR0913
    kernel: Kernel,
    *arguments: Any,
    device: str | Path | Board = "mlu370-x4",
    dim: tuple[int, int, int] | int | None = None,
    kind: str = "UNION1",
    reference: Reference = None,
    tolerance: float = 0.0,
    plan: Plan | None = None,
    planned: str = "",
    rewrites: bool | tuple[str, ...] = (),
    dma: str = "complete",
    max_operations: int = DEFAULT_MAX_OPERATIONS,
    stall_s: float = 20.0,
    data: bool = True,
) -> Report:
    """Run a kernel and report races, unwritten and rewritten bytes, hangs and the rest of what can be wrong.

    Args:
        kernel: an `async def` function; its first parameter is its `Core`.
        arguments: the rest. NumPy arrays become inputs in GDRAM, which no kernel may write; `Output(shape, dtype)`
            a tensor for it to write; anything else is passed on. Names in the report are the kernel's own.
        device: a preset's name, a TOML file, or a board.
        dim, kind: the launch, as `Device.launch`; by default those of the plan, or one task for every core.
        reference: what the outputs should be: an array (of one output), a mapping by name, or a function of the input
            arrays that gives either.
        tolerance: largest difference from the reference, relative to it; 0 compares bits but for NaN.
        plan: the split that the kernel should follow. It is proved first, and the run compared with it.
        planned: which output the plan splits, by name, where more than one has the plan's shape.
        rewrites: outputs that may be written more than once, by name; True for all.
        dma: "complete" or "late", as `Device`.
        max_operations, stall_s: limits on a task that does not end, as `Device`.
        data: False for a timing-only run, which has no values to compare.

    Returns the report; `report.check()` raises `VerificationError` where it has errors. An error of the run itself
    (an access outside a view, a hang, an endless loop) is a finding too, not raised. Raises `InputError` and
    `LaunchError` for arguments that cannot be launched.
    """
    record = board(device)
    names = _names(kernel, len(arguments))
    on = Device(record, data=data, dma=dma, max_operations=max_operations, stall_s=stall_s)
    inputs: list[Array] = []
    outputs: dict[str, View] = {}
    given: list[Any] = []
    for name, argument in zip(names, arguments, strict=True):
        if isinstance(argument, Output):
            outputs[name] = on.alloc(argument.shape, dtype_of(argument.dtype), name)
            given.append(outputs[name])
        elif isinstance(argument, np.ndarray):
            inputs.append(argument)
            given.append(on.upload(argument, name, keep_data=True))
        elif isinstance(argument, View):
            raise InputError(
                f"{name} is {argument!r}: verify makes a device of its own, so it takes arrays and Output(shape, "
                "dtype); for a device with views of your own launch there and call device.verify()"
            )
        else:
            given.append(argument)
    if plan is not None and dim is None:
        dim, kind = plan.dim, plan.kind
    on.launch(kernel, *given, dim=dim, kind=kind)
    stopped: MlusimError | None = None
    try:
        on.synchronize()
    except MlusimError as error:
        stopped = error
    report = check_log(
        on.log,
        record,
        name=getattr(kernel, "__name__", "kernel"),
        plan=plan,
        rewrites=rewrites,
        outputs=tuple(outputs),
        planned=planned,
        stopped=stopped,
    )
    if stopped is not None or not data:
        return report
    results = {name: on.download(view) for name, view in outputs.items()}
    wrong = _against_reference(on, results, outputs, reference, inputs, tolerance)
    return replace(report, findings=tuple(sort_findings([*wrong, *report.findings])), outputs=results)


def _names(kernel: Kernel, count: int) -> list[str]:
    """What the kernel calls its arguments after `core`."""
    try:
        parameters = list(inspect.signature(kernel).parameters.values())[1:]
    except (TypeError, ValueError):
        parameters = []
    named = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return [*named[:count], *(f"argument {number}" for number in range(len(named), count))]


def _against_reference(
    device: Device,
    results: dict[str, Array],
    outputs: dict[str, View],
    reference: Reference,
    inputs: list[Array],
    tolerance: float,
) -> list[Finding]:
    if reference is None:
        return []
    wanted: Any = reference(*inputs) if callable(reference) else reference
    if not isinstance(wanted, Mapping):
        if len(results) != 1:
            raise InputError(
                f"a reference of one array for {len(results)} outputs: give a mapping by name, {sorted(results)}"
            )
        wanted = {next(iter(results)): wanted}
    unknown = sorted(set(wanted) - set(results))
    if unknown:
        raise InputError(f"the reference names {unknown}, which are no outputs: they are {sorted(results)}")
    found = []
    for name, expected in wanted.items():
        finding = differs(device.log, outputs[name].allocation.identity, results[name], np.asarray(expected), tolerance)
        if finding is not None:
            found.append(finding)
    return found
