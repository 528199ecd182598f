"""`mlusim verify`: run and verify a user's kernel or an operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.kernel_arguments import call_of, given_options, kernel_command
from mlusim.cli.kernel_completion import complete_reference
from mlusim.cli.kernel_run import OUTPUT_OPTIONS, inputs_of, max_operations_option
from mlusim.cli.operator_group import OperatorGroup
from mlusim.cli.option_types import FILE
from mlusim.cli.options import device_option, dma_option
from mlusim.cli.outputs import Outputs, write_and_print, write_arrays, wrote
from mlusim.cli.provenance import print_findings
from mlusim.cli.run import make_operator
from mlusim.errors import InputError
from mlusim.source_code import KERNEL_SUFFIXES, is_kernel_name

if TYPE_CHECKING:
    from mlusim.hardware import Board

_HELP = """\
Verify a kernel of your own: races, uninitialised reads, deadlocks, wrong results. Each finding has
its location, the rule and the remedy.

For an operator, this is `mlusim run OPERATOR --check`. The exit code is 1 if there is an error.

\b
Examples:
  mlusim verify add.py:add --shape 1000000
  mlusim verify add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000 --reference add.py:expected
  mlusim verify cast --shape 4096 --dtype float16
"""


_VERIFICATION_OPTIONS = (
    click.option(
        "--reference",
        type=FILE,
        shell_complete=complete_reference,
        metavar="FILE",
        help="Expected output: an .npy file (for several outputs, an .npz file with their names), or "
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
    dma_option,
    click.option("--rewrites", multiple=True, metavar="NAME", help="An output that may be written more than once."),
    click.option("--partial", multiple=True, metavar="NAME", help="An output of which a part may stay unwritten."),
    max_operations_option,
)


class VerifyGroup(OperatorGroup):
    """A kernel has its own options; an operator those of `mlusim run`, and `--check`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As `mlusim run`, with `--check`."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if is_kernel_name(str(name)) else [*rest, "--check"]


def _make_kernel(kernel_name: str) -> click.Command:
    """Create `mlusim verify FILE.py:KERNEL`."""
    return kernel_command(
        kernel_name,
        _verify,
        about="Verify a kernel of your own: races, uninitialised reads, deadlocks, wrong results.",
        example="mlusim verify add.py:add --shape 1000000 --reference add.py:expected",
        device=device_option,
        sections={
            "Verification": _VERIFICATION_OPTIONS,
            "Output": OUTPUT_OPTIONS,
        },
    )


def _verify(
    kernel_name: str,
    *,
    device: Board,
    reference: str | None,
    **options: Any,
) -> int:
    inputs = inputs_of(kernel_name, options["arg"])
    outputs = Outputs.of(options, inputs)
    call = call_of(kernel_name, options)
    expected = None if reference is None else _reference(reference)
    verified = call.verify(device, reference=expected, **given_options(**options))
    written = [] if verified.stopped else write_arrays(outputs.arrays, verified.outputs)
    files = [name for name in (outputs.saved, outputs.operations, outputs.report) if name]
    if verified.result is not None and files:
        write_and_print(verified.result, replace(outputs, arrays={}, as_json=False, quiet=True))
    if outputs.as_json:
        print_findings(verified)
    elif outputs.quiet:
        console.print_errors(verified)
    else:
        console.print_text(verified.text())
        for file in written:
            console.print_text(wrote(file))
        for name in files:
            console.print_text(f"wrote {name}")
    return 0 if verified.ok else 1


def _reference(text: str) -> Any:
    """Return an array from a file, or a function from a file."""
    if text.endswith(KERNEL_SUFFIXES):
        raise InputError(f"--reference {text}: name a function in it, as in {text}:expected")
    if is_kernel_name(text):
        from mlusim.explore.python_files import function_of

        return function_of(text)
    from mlusim.host.array_files import read_arrays

    return read_arrays("--reference", text)


verify = VerifyGroup("verify", help=_HELP, create=make_operator, make_kernel=_make_kernel)
