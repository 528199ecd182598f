"""`mlusim run|verify FILE.py:KERNEL`: a user's kernel, with the options of an operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.kernel_arguments import call_of, is_kernel, kernel_command
from mlusim.cli.kernel_completion import complete_reference
from mlusim.cli.option_types import FILE
from mlusim.cli.options import (
    check_option,
    csv_option,
    device_option,
    dma_option,
    no_data_option,
    output_options,
    parameters,
    report_option,
    save_run_option,
    sensitivity_option,
    steady_option,
)
from mlusim.cli.outputs import Outputs, finish
from mlusim.cli.provenance import print_findings
from mlusim.errors import InputError, VerificationError

if TYPE_CHECKING:
    from pathlib import Path

    from mlusim.explore.kernel_call import KernelCall
    from mlusim.hardware import Board
    from mlusim.ops.sensitivity import Sensitivity

_max_operations_option = click.option(
    "--max-operations",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Operations that one task may issue before it counts as endless. [default: 5000000]",
)

_out_option = click.option(
    "--out",
    "--output",
    "-o",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Write an output to FILE, as .npy; with several outputs, name each.",
)

# The last options of `run` and `verify`, and their section of the help.
_OUTPUT_OPTIONS = (_out_option, report_option, save_run_option, csv_option, output_options)
_OUTPUT = ("out", "report", "save_run", "operations", "as_json", "quiet")


def make_run(kernel_name: str) -> click.Command:
    """Create `mlusim run FILE.py:KERNEL`."""
    command = kernel_command(
        kernel_name,
        _run,
        "A kernel of your own.",
        "mlusim run add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000000 --report report/",
        sections={
            "What is done": ("check", "sensitivity", "no_data", "steady", "dma", "max_operations"),
            "Output": _OUTPUT,
        },
    )
    command.params += parameters(
        device_option,
        check_option,
        sensitivity_option,
        no_data_option,
        steady_option,
        dma_option,
        _max_operations_option,
        *_OUTPUT_OPTIONS,
    )
    return command


def _run(
    kernel_name: str,
    *,
    device: Board,
    check: bool,
    sensitivity: bool,
    no_data: bool,
    steady: bool,
    dma: str,
    max_operations: int | None,
    out: Sequence[str],
    **own: Any,
) -> int:
    inputs = inputs_of(kernel_name, own["arg"])
    outputs = Outputs.of(own, inputs)
    call = call_of(kernel_name, **own)
    return finish_kernel(
        call,
        device,
        outputs,
        check=check,
        sensitivity=sensitivity,
        no_data=no_data,
        steady=steady,
        dma=dma,
        max_operations=max_operations,
        out=out,
        title=f"{call.kernel.name} of {kernel_name} on {device.name}\n",
        inputs=inputs,
    )


def inputs_of(kernel_name: str, arguments: Sequence[str]) -> list[str]:
    """Return the files that a kernel's command reads."""
    return [kernel_name, *(text.partition("=")[2] or text for text in arguments)]


def finish_kernel(
    call: KernelCall,
    device: Board,
    outputs: Outputs,
    *,
    check: bool,
    sensitivity: bool = False,
    no_data: bool,
    steady: bool = False,
    dma: str,
    max_operations: int | None = None,
    out: Sequence[str],
    title: str,
    inputs: Sequence[str] = (),
) -> int:
    """Run a kernel with its arguments, write the requested files, print the summary; 1 if verification failed."""
    if out and no_data:
        raise InputError("--out with --no-data: there is no result to write")
    targets = _targets(out, inputs)
    options: dict[str, Any] = {} if call.kernel.launches else {"check": check, "dma": dma}
    if steady:
        options["steady"] = True
    if max_operations is not None:
        options["max_operations"] = max_operations
    try:
        result = call.run(device, data=not no_data, progress=not outputs.quiet, **options)
    except VerificationError as error:
        if not outputs.as_json:
            raise
        print_findings(error.report)
        return 1
    written = _write_outputs(targets, result.outputs)
    finish(
        result,
        outputs,
        checked=check,
        sensitivity=partial(_sensitivity, call, device, data=not no_data) if sensitivity else None,
        title=title,
        more={"outputs": written} if written else None,
    )
    if outputs.is_printed:
        _print_outputs(written)
    return 0 if result.report is None or result.report.ok else 1


def _sensitivity(call: KernelCall, device: Board, *, data: bool) -> list[Sensitivity]:
    """Return how the time of a kernel depends on the uncertain parameters of the board."""
    from mlusim.ops.sensitivity import sensitivity_of

    return sensitivity_of(device, lambda board: call.run(board, data=data).time_ps)


def _write_outputs(targets: Mapping[str, Path], outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write the outputs of `--out`; returns a description of the files for JSON."""
    from mlusim.cli.files import write_array
    from mlusim.dtypes import dtype_name

    written = []
    for name, path in targets.items():
        array = _output(outputs, name)
        write_array("--out", path, array)
        written.append({"file": str(path), "dtype": dtype_name(array.dtype), "shape": list(array.shape)})
    return written


def _print_outputs(written: Sequence[Mapping[str, Any]]) -> None:
    for file in written:
        show.print_text(f"wrote {file['file']}: {file['dtype']} {file['shape']}")


def _targets(out: Sequence[str], inputs: Sequence[str]) -> dict[str, Path]:
    """Return the files of `--out` by output name; an empty name for the only output."""
    from mlusim.cli.files import check_output

    paths: dict[str, Path] = {}
    for text in out:
        name, equals, file = text.partition("=")
        if not equals:
            name, file = "", text
        path = check_output("--out", file, inputs)
        if any(path.resolve() == other.resolve() for other in paths.values()):
            raise InputError(f"--out {text}: another output goes to {file}: name two files")
        paths[name] = path
    return paths


def _output(outputs: Mapping[str, Any], name: str) -> Any:
    known = list(outputs)
    if not known:
        raise InputError("--out: the kernel has no output; give one as --arg out=float32:2,8,64")
    if not name and len(known) > 1:
        raise InputError(f"--out: the kernel has several outputs; name one, as in --out {known[0]}=FILE.npy")
    if name and name not in known:
        raise InputError(f"--out {name}: the kernel has no such output; it has {', '.join(known)}")
    return outputs[name or known[0]]


def make_verify(kernel_name: str) -> click.Command:
    """Create `mlusim verify FILE.py:KERNEL`."""
    command = kernel_command(
        kernel_name,
        _verify,
        "Verify a kernel of your own: races, uninitialised reads, deadlocks, wrong results.",
        "mlusim verify add.py:add --shape 1000000 --reference add.py:expected",
        sections={
            "Verification": ("reference", "tolerance", "absolute_tolerance", "dma", "rewrites", "max_operations"),
            "Output": _OUTPUT,
        },
    )
    command.params += parameters(
        device_option,
        click.option(
            "--reference",
            type=FILE,
            shell_complete=complete_reference,
            metavar="FILE",
            help="What the output should be: an .npy file (of several outputs an .npz file of their names), or "
            "FILE.py:FUNCTION, a function of the inputs.",
        ),
        click.option(
            "--tolerance",
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="NUMBER",
            help="Largest difference from the reference, relative to it. [default: 0, bit for bit]",
        ),
        click.option(
            "--absolute-tolerance",
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="NUMBER",
            help="Largest difference in addition to that, for results near 0. [default: 0]",
        ),
        click.option("--rewrites", multiple=True, metavar="NAME", help="An output that may be written more than once."),
        dma_option,
        _max_operations_option,
        *_OUTPUT_OPTIONS,
    )
    return command


def _verify(
    kernel_name: str,
    *,
    device: Board,
    reference: str | None,
    tolerance: float,
    absolute_tolerance: float,
    rewrites: Sequence[str],
    dma: str,
    max_operations: int | None,
    out: Sequence[str],
    **own: Any,
) -> int:
    inputs = inputs_of(kernel_name, own["arg"])
    outputs = Outputs.of(own, inputs)
    call = call_of(kernel_name, **own)
    targets = _targets(out, inputs)
    expected = None if reference is None else _reference(reference)
    more: dict[str, Any] = {} if max_operations is None else {"max_operations": max_operations}
    more |= {"tolerance": tolerance, "absolute_tolerance": absolute_tolerance}
    verified = call.verify(device, reference=expected, rewrites=tuple(rewrites), dma=dma, **more)
    written = [] if verified.stopped else _write_outputs(targets, verified.outputs)
    files = [name for name in (outputs.saved, outputs.operations, outputs.report) if name]
    if verified.result is not None and files:
        finish(verified.result, replace(outputs, as_json=False, quiet=True))
    if outputs.as_json:
        print_findings(verified)
    elif not outputs.quiet:
        show.print_text(verified.text())
        _print_outputs(written)
        for name in files:
            show.print_text(f"wrote {name}")
    return 0 if verified.ok else 1


def _reference(text: str) -> Any:
    """Return an array from a file, or a function from a file."""
    if is_kernel(text):
        from mlusim.explore.sources import function_of

        return function_of(text)
    from mlusim.host.array_files import read_arrays

    return read_arrays("--reference", text)
