"""`mlusim run OPERATOR`, `mlusim run FILE.py:KERNEL`: one run, and what it took."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.kernel_arguments import call_of, kernel_command
from mlusim.cli.kernel_run import OUTPUT_OPTIONS, inputs_of, max_operations_option, run_kernel
from mlusim.cli.operator_group import OperatorCommand, OperatorGroup
from mlusim.cli.operator_inputs import input_sections, inputs_json, read_operator_inputs, strategy_option
from mlusim.cli.operators import SUMMARIES
from mlusim.cli.option_types import SIZE
from mlusim.cli.options import (
    check_option,
    csv_option,
    device_option,
    dma_option,
    explain_option,
    no_data_option,
    out_option,
    output_options,
    report_option,
    save_run_option,
    sensitivity_option,
    steady_option,
)
from mlusim.cli.outputs import Outputs, write_and_print
from mlusim.cli.provenance import print_with_provenance, provenance
from mlusim.errors import InputError

if TYPE_CHECKING:
    from mlusim.hardware import Board
    from mlusim.ops.commands import Command


def make_operator(command: Command) -> click.Command:
    """Create `mlusim run OPERATOR`."""
    nram_limit = click.option(
        "--nram-limit", type=SIZE, metavar="SIZE", help="Limit on the NRAM of a core that the plan uses: 64KiB."
    )
    dry_run = click.option("--dry-run", is_flag=True, help="Plan only: print the plan, and run nothing.")
    return OperatorCommand(
        command,
        _run,
        about=SUMMARIES[command.name],
        example=f"mlusim run {command.name} {command.operator.usage}",
        sections={
            **input_sections(command),
            "Board and split": (device_option, strategy_option(command.name), nram_limit),
            "Run": (dry_run, no_data_option, steady_option, check_option, sensitivity_option, dma_option),
            "Output": (
                out_option,
                report_option,
                save_run_option,
                csv_option,
                explain_option,
                output_options,
            ),
        },
    )


_HELP = """\
Run an operator, or a kernel of your own, on a simulated board.

Reads .npy files (or .npz, as file.npz:key), runs the operator's kernel on the board, writes the exact result, and
prints time, bytes on every link, efficiency, and where the time went.

\b
Examples:
  mlusim run tin_shift --input clip.npy --shifts shifts.npy --out shifted.npy --report reports/
  mlusim run tin_shift --shape 2,8,256,196 --dtype float16 --device mlu590-h8 --explain
  mlusim run add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000000 --report reports/

bfloat16 and the 8-bit floats, which .npy cannot name, are written as records with one field, named after the
type: np.load("y.npy")["bfloat16"].view("bfloat16").
"""


def _run(
    command: Command,
    *,
    device: Board,
    strategy: str | None,
    explain: bool,
    dry_run: bool,
    check: bool,
    sensitivity: bool,
    no_data: bool,
    steady: bool,
    dma: str,
    nram_limit: int | None,
    **options: Any,
) -> None:
    inputs = [options[tensor.flag_name] for tensor in command.operator.inputs if options[tensor.flag_name] is not None]
    outputs = Outputs.of(options, inputs)
    if outputs.arrays and (no_data or dry_run):
        raise InputError(f"--out with {'--no-data' if no_data else '--dry-run'}: there is no result to write")
    if dry_run:
        _check_dry_run(outputs)
    else:
        from mlusim.host.steady.steady import check_steady

        check_steady(steady=steady, data=not no_data, check=check)
    record, _ = command.choose(options)
    arrays = read_operator_inputs(command, options, [device], data=not no_data)
    call = command.prepare(options, arrays, device, strategy, nram_limit)
    if (explain or dry_run) and outputs.is_printed:
        console.print_text(call.plan.explain() + ("" if dry_run else "\n"))
    if dry_run:
        if outputs.as_json:
            content = {"operator": record.name, "board": device.name, "inputs": inputs_json(arrays)}
            print_with_provenance("plan", content | {"plan": call.plan.to_json()}, provenance([device]))
        return
    from mlusim.ops.call import run as run_call
    from mlusim.ops.sensitivity import sensitivity as sensitivity_of

    result = run_call(call, data=not no_data, dma=dma, progress=not outputs.quiet, check=check or None, steady=steady)
    write_and_print(
        result,
        outputs,
        checked=check,
        sensitivity=partial(sensitivity_of, call) if sensitivity else None,
        entries={"plan": call.plan.to_json()} if explain else None,
    )


def _check_dry_run(outputs: Outputs) -> None:
    """Raise `InputError` for options that write what only a run has."""
    for option, value, problem in (
        ("--report", outputs.report, "there is nothing to report"),
        ("--save-run", outputs.saved, "there is nothing to save"),
        ("--csv", outputs.operations, "there are no operations"),
    ):
        if value is not None:
            raise InputError(f"{option} with --dry-run: nothing runs, so {problem}")


def _make_kernel(kernel_name: str) -> click.Command:
    """Create `mlusim run FILE.py:KERNEL`."""
    return kernel_command(
        kernel_name,
        _run_kernel,
        about="A kernel of your own.",
        example="mlusim run add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000000 --report report/",
        device=device_option,
        sections={
            "Run": (
                check_option,
                sensitivity_option,
                no_data_option,
                steady_option,
                dma_option,
                max_operations_option,
            ),
            "Output": OUTPUT_OPTIONS,
        },
    )


def _run_kernel(kernel_name: str, *, device: Board, **options: Any) -> int:
    inputs = inputs_of(kernel_name, options["arg"])
    outputs = Outputs.of(options, inputs)
    call = call_of(kernel_name, options)
    title = f"{call.kernel.name} of {kernel_name} on {device.name}\n"
    return run_kernel(call, device, outputs, title=title, **options)


run = OperatorGroup("run", help=_HELP, create=make_operator, make_kernel=_make_kernel)
