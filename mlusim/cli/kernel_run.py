"""The run of a user's kernel, and the files of its outputs, `--out`: for `mlusim run`, `verify` and `bangc run`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.files import check_output
from mlusim.cli.kernel_arguments import given
from mlusim.cli.options import csv_option, output_options, report_option, save_run_option
from mlusim.cli.outputs import Outputs, finish
from mlusim.cli.provenance import print_findings
from mlusim.errors import InputError, VerificationError

if TYPE_CHECKING:
    from pathlib import Path

    from mlusim.explore.kernel_call import KernelCall
    from mlusim.hardware import Board
    from mlusim.ops.sensitivity import Sensitivity

max_operations_option = click.option(
    "--max-operations",
    type=click.IntRange(min=1),
    metavar="NUMBER",
    help="Operations that one task may issue before it counts as endless. [default: 5000000]",
)

outs_option = click.option(
    "--out",
    "--output",
    "-o",
    multiple=True,
    metavar="[NAME=]FILE",
    help="Write an output to FILE, as .npy; with several outputs, name each.",
)

# The last options of `run` and `verify`, and their section of the help.
OUTPUT_OPTIONS = (outs_option, report_option, save_run_option, csv_option, output_options)
OUTPUT = ("out", "report", "save_run", "operations", "as_json", "quiet")


def inputs_of(kernel_name: str, arguments: Sequence[str]) -> list[str]:
    """Return the files that a kernel's command reads."""
    return [kernel_name, *(text.partition("=")[2] or text for text in arguments)]


def run_kernel(
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
    """Run a kernel, write the requested files and print the summary; returns the exit code, 1 if the checker objects.

    Args:
        call: the kernel with its arguments.
        device: the board.
        outputs: the files to write, and what to print.
        check, sensitivity, no_data, steady, dma, max_operations, out: the options of these names.
        title: printed above the summary.
        inputs: files that the command reads, which no output may replace.
    """
    if out and no_data:
        raise InputError("--out with --no-data: there is no result to write")
    targets = output_files(out, inputs)
    options = given(max_operations=max_operations) | ({} if call.kernel.launches else {"check": check, "dma": dma})
    try:
        result = call.run(device, data=not no_data, progress=not outputs.quiet, steady=steady, **options)
    except VerificationError as error:
        if not outputs.as_json:
            raise
        print_findings(error.report)
        return 1
    written = write_outputs(targets, result.outputs)
    finish(
        result,
        outputs,
        checked=check,
        sensitivity=partial(_sensitivity, call, device, data=not no_data) if sensitivity else None,
        title=title,
        more={"outputs": written} if written else None,
    )
    if outputs.is_printed:
        print_outputs(written)
    return 0 if result.report is None or result.report.ok else 1


def _sensitivity(call: KernelCall, device: Board, *, data: bool) -> list[Sensitivity]:
    """Return how the time of a kernel depends on the uncertain parameters of the board."""
    from mlusim.ops.sensitivity import sensitivity_of

    return sensitivity_of(device, lambda board: call.run(board, data=data).time_ps)


def write_outputs(targets: Mapping[str, Path], outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write the outputs of `--out`; returns a description of the files for JSON."""
    from mlusim.dtypes import dtype_name
    from mlusim.host.array_files import write_array

    written = []
    for name, path in targets.items():
        array = _output(outputs, name)
        write_array("--out", path, array)
        written.append({"file": str(path), "dtype": dtype_name(array.dtype), "shape": list(array.shape)})
    return written


def print_outputs(written: Sequence[Mapping[str, Any]]) -> None:
    """Print the files of `--out` that were written."""
    for file in written:
        show.print_text(f"wrote {file['file']}: {file['dtype']} {file['shape']}")


def output_files(out: Sequence[str], inputs: Sequence[str]) -> dict[str, Path]:
    """Return the files of `--out` by output name; an empty name for the only output."""
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
