"""`mlusim.run`: run a kernel on a temporary device, from arrays to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.core import Kernel
from mlusim.cores.tasks.launch_checks import kernel_name
from mlusim.errors import InputError, MlusimError, SimulatedTimeError
from mlusim.hardware import DEFAULT_BOARD, Board
from mlusim.host.arguments import InOut, Output
from mlusim.host.device import DEFAULT_MAX_OPERATIONS, DEFAULT_STALL_S, Device
from mlusim.host.kernel_keywords import by_name, check_own_names
from mlusim.host.steady.steady import check_steady, run_timed
from mlusim.host.steady.watch import Watch
from mlusim.inputs import as_array, check_operations, is_tensor
from mlusim.memory.view import View
from mlusim.results.result import Result


class Uploaded(NamedTuple):
    """The arguments of a launch on a device.

    Attributes:
        arguments: arguments of the kernel.
        inputs: the arrays among the arguments, by name.
        outputs: the tensors that the kernel may write, by name.
    """

    arguments: list[Any]
    inputs: dict[str, Array]
    outputs: dict[str, View]


def run(
    kernel: Kernel,
    *arguments: Any,
    device: str | Path | Board = DEFAULT_BOARD,
    dim: tuple[int, ...] | int | None = None,
    kind: str = "UNION1",
    data: bool = True,
    dma: str = "complete",
    max_operations: int = DEFAULT_MAX_OPERATIONS,
    stall_s: float = DEFAULT_STALL_S,
    progress: bool = False,
    check: bool = False,
    theory_ops: int | None = None,
    steady: bool = False,
    **settings: Any,
) -> Result:
    """Run a kernel on a device created for it.

    Args:
        kernel: an `async def` function whose first parameter is its `Core`.
        arguments: its other arguments. NumPy arrays become read-only inputs in GDRAM; `Output(shape, dtype)` becomes a
            tensor to write, `InOut(array)` one to modify in place; anything else is passed on.
        device: a preset's name, a TOML file, or a board.
        dim, kind: the launch, as in `Device.launch`; by default one task per core.
        data: False for a timing-only run, which has no outputs.
        dma, max_operations, stall_s, progress: as in `Device`.
        check: verify the run; the report is the result's `report`.
        steady: with `data=False`: simulate until the tasks reach a steady state and extrapolate the rest, with an error
            bound; the result's `steady` describes the extrapolation.
        theory_ops: operations that the computation requires, for compute_efficiency; 0 for pure data movement;
            None: unknown.
        settings: arguments of the kernel by parameter name, including arrays and outputs.

    Returns the result, with `outputs` by name, and `output` if there is exactly one. Raises what `Device.synchronize`
    raises and, with `check`, `VerificationError`, also in place of an error whose cause the checker finds.
    """
    check_own_names(kernel, len(arguments), locals(), run)
    check_operations(theory_ops)
    check_steady(steady=steady, data=data, check=check)
    positional, settings_of_kernel = by_name(kernel, arguments, settings, run)

    def launch_on_new_device(
        kernel: Kernel = kernel, *, dry: bool = False, watch: Watch | None = None
    ) -> tuple[Device, Uploaded]:
        simulated = Device(
            device, data=data, dma=dma, max_operations=max_operations, stall_s=stall_s, progress=progress, dry=dry
        )
        simulated.chip.observer = watch
        uploaded = launch(simulated, kernel, positional, settings_of_kernel, dim=dim, kind=kind)
        if check:
            simulated.watch_host_data()
        synchronize(simulated, check=check)
        return simulated, uploaded

    if steady:
        simulated, log = run_timed(lambda **options: launch_on_new_device(**options)[0])
        return Result(
            operator=kernel_name(kernel),
            output=None,
            board=simulated.board,
            plan=None,
            log=log,
            theory_ops=theory_ops,
        )
    simulated, uploaded = launch_on_new_device()
    if check and (checked := with_checks(kernel)):
        run_with_checks = launch_on_new_device(checked)
        if uses_unset(run_with_checks[0]):
            simulated, uploaded = run_with_checks
    outputs = {name: simulated.download(view) for name, view in uploaded.outputs.items()} if data else {}
    result = simulated.result(kernel_name(kernel), theory_ops=theory_ops)
    result.outputs = outputs
    if check:
        result.report = simulated.verify(name=result.operator).check(result)
    simulated.close()
    return result


def synchronize(device: Device, *, check: bool) -> None:
    """Run until all queues of a device are empty. Raises what `Device.synchronize` raises.

    With `check`, raises `VerificationError` in place of an error whose cause the checker finds, such as a race.
    """
    try:
        device.synchronize()
    except SimulatedTimeError:
        # The checker cannot read its log.
        raise
    except MlusimError as error:
        if check:
            report = device.verify()
            if all(finding.fields.get("error") != type(error).__name__ for finding in report.errors):
                report.check()
        raise


def with_checks(kernel: Kernel) -> Kernel | None:
    """Return a kernel of BANG C compiled with checks, as `mlusim.bangc.compile`; None if there are none, as in Python.

    The checks change the time of scalar code, so they are made in a run of their own, after one that has no error.
    """
    make = getattr(kernel, "with_checks", None)
    return make() if make else None


def uses_unset(device: Device) -> bool:
    """Return whether a run has used a local variable of C++ without a value, which no operation shows."""
    return any(kind == "unset" for kind, _ in device.log.remarks)


def launch(
    device: Device,
    kernel: Kernel,
    positional: Mapping[str, Any],
    settings: Mapping[str, Any],
    *,
    dim: tuple[int, ...] | int | None,
    kind: str,
) -> Uploaded:
    """Upload the arguments returned by `by_name` to a device and launch the kernel with them."""
    uploaded = upload(device, [*positional, *settings], [*positional.values(), *settings.values()])
    values = uploaded.arguments
    keywords = dict(zip(settings, values[len(positional) :], strict=True))
    device.launch(kernel, *values[: len(positional)], dim=dim, kind=kind, **keywords)
    return uploaded


def upload(device: Device, names: Sequence[str], arguments: Sequence[Any]) -> Uploaded:
    """Upload the arrays among the arguments to a device, and allocate the outputs. Raises `InputError`."""
    uploaded = Uploaded([], {}, {})
    for name, argument in zip(names, arguments, strict=True):
        if isinstance(argument, Output):
            uploaded.outputs[name] = argument.make(device, name)
            uploaded.arguments.append(uploaded.outputs[name])
        elif isinstance(argument, InOut):
            uploaded.inputs[name] = np.array(as_array(name, argument.array))
            uploaded.outputs[name] = device.upload(uploaded.inputs[name], name, keep_data=True, writable=True)
            uploaded.arguments.append(uploaded.outputs[name])
        elif isinstance(argument, View):
            raise InputError(
                f"{name} is {argument!r}: the kernel gets a device of its own, so pass arrays and Output(shape, "
                "dtype); for a device with views of your own launch there, and call device.result() or device.verify()"
            )
        elif isinstance(argument, np.ndarray) or is_tensor(argument):
            argument = as_array(name, argument)  # noqa: PLW2901 - the same, as NumPy has it
            uploaded.inputs[name] = argument
            # A broadcast scalar represents a tensor whose values do not matter.
            real = any(argument.strides) or argument.size <= 1
            uploaded.arguments.append(device.upload(argument, name, keep_data=real))
        elif argument is Output or argument is InOut:
            raise InputError(f"{name} is the class {argument.__name__}: pass Output(shape, dtype) or InOut(array)")
        else:
            uploaded.arguments.append(argument)
    return uploaded
