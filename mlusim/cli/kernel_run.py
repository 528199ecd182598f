"""The run of a user's kernel: for `mlusim run` and `bangc run`; and options that `mlusim verify` has too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from mlusim.cli.kernel_arguments import given_options
from mlusim.cli.options import csv_option, output_options, report_option, save_run_option
from mlusim.cli.outputs import Outputs, write_and_print
from mlusim.cli.provenance import print_findings
from mlusim.errors import InputError, VerificationError

if TYPE_CHECKING:
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

# The last options of `run` and `verify`.
OUTPUT_OPTIONS = (outs_option, report_option, save_run_option, csv_option, output_options)


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
    title: str,
) -> int:
    """Run a kernel, write the requested files and print the summary; returns the exit code, 1 if the checker objects.

    Args:
        call: the kernel with its arguments.
        device: the board.
        outputs: the files to write, and what to print.
        check, sensitivity, no_data, steady, dma, max_operations: the options of these names.
        title: printed above the summary.
    """
    if outputs.arrays and no_data:
        raise InputError("--out with --no-data: there is no result to write")
    options = given_options(max_operations=max_operations) | (
        {} if call.kernel.launches else {"check": check, "dma": dma}
    )
    try:
        result = call.run(device, data=not no_data, progress=not outputs.quiet, steady=steady, **options)
    except VerificationError as error:
        if not outputs.as_json:
            raise
        print_findings(error.report)
        return 1
    write_and_print(
        result,
        outputs,
        checked=check,
        sensitivity=partial(_sensitivity, call, device, data=not no_data) if sensitivity else None,
        title=title,
    )
    return 0 if result.report is None or result.report.ok else 1


def _sensitivity(call: KernelCall, device: Board, *, data: bool) -> list[Sensitivity]:
    """Return how the time of a kernel depends on the uncertain parameters of the board."""
    from mlusim.ops.sensitivity import sensitivity_of

    return sensitivity_of(device, lambda board: call.run(board, data=data).time_ps)
