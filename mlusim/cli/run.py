"""`mlusim run OPERATOR`: an operator on arrays from files, or on random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.help_format import SectionedCommand
from mlusim.cli.kernel import make_run
from mlusim.cli.kernel_arguments import METAVAR, is_kernel
from mlusim.cli.kernel_completion import complete_kernel
from mlusim.cli.operators import ENTRIES, flag, options_of, summaries
from mlusim.cli.option_types import ELEMENT_TYPE, FILE, NEW_FILE, SHAPE, SIZE, complete_from
from mlusim.cli.options import (
    check_option,
    csv_option,
    device_option,
    no_data_option,
    output_options,
    parameters,
    report_option,
    save_run_option,
    sensitivity_option,
    steady_option,
)
from mlusim.cli.outputs import Outputs, finish
from mlusim.cli.provenance import print_json, provenance
from mlusim.errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np

    from mlusim.hardware import Board
    from mlusim.ops.commands import Command

    Array = np.ndarray[Any, Any]


class OperatorGroup(click.Group):
    """A command per operator, created on demand."""

    def __init__(
        self,
        *args: Any,
        make: Callable[[Command], click.Command] | None = None,
        kernel: Callable[[str], click.Command],
        **attributes: Any,
    ) -> None:
        # Without an operator click would raise an error with the help as its text.
        attributes |= {"invoke_without_command": True, "subcommand_metavar": "OPERATOR|FILE.py:KERNEL [OPTIONS]"}
        super().__init__(*args, **attributes)
        self._make = make
        self._kernel = kernel

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the operators."""
        del ctx
        return list(ENTRIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the operator's command; None if there is no such operator."""
        del ctx
        command = ENTRIES.get(cmd_name)
        return self._make(command) if command and self._make else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete options and operators; a kernel's file, and its kernels."""
        from click.shell_completion import CompletionItem

        files = [] if incomplete.startswith("-") else complete_kernel(incomplete)
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, files)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As in click, and for a kernel in a file its command. The message lists the operators."""
        if args and is_kernel(args[0]):
            return args[0], self._kernel(args[0]), args[1:]
        if args and not args[0].startswith("-") and args[0] not in ENTRIES:
            near = nearest(args[0], ENTRIES)
            known = f"there are {', '.join(ENTRIES)}; a kernel of your own is FILE.py:KERNEL"
            raise click.UsageError(f"no operator {args[0]!r}; {near}{known}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the operators, and the options of a user kernel."""
        with formatter.section("Commands"):
            formatter.write_dl(list(summaries().items()))
        command = self._kernel(METAVAR)
        options = (parameter for parameter in command.get_params(ctx) if isinstance(parameter, click.Option))
        rows = [record for option in options if (record := option.get_help_record(ctx)) is not None]
        with formatter.section(f"Options of {METAVAR}, a kernel of your own"):
            formatter.write_dl(rows)


class OperatorCommand(SectionedCommand):
    """A command whose help ends with the operator's strategies."""

    def __init__(self, *args: Any, command: Command, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._command = command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write name and summary of each strategy."""
        del ctx
        with formatter.section("Strategies (the first is the default)"):
            formatter.write_dl(list(self._command.strategies.items()))


def input_options(command: Command) -> list[click.Parameter]:
    """Return the options of an operator's inputs and attributes."""
    own: list[click.Parameter] = [
        click.Option([flag(tensor.flag_name)], type=FILE, metavar="FILE", help=tensor.help)
        for tensor in command.tensors
    ]
    return [
        *own,
        *options_of(command.attributes),
        click.Option(
            ["--shape"], type=SHAPE, metavar="SHAPE", help="Random inputs of this shape: 2,8,256,196 or 2x8x256x196."
        ),
        click.Option(
            [flag(command.data_option), "random_dtype"],
            type=ELEMENT_TYPE,
            metavar="DTYPE",
            help="With --shape: element type. [default: float32]",
        ),
        *options_of(command.example_attributes),
        click.Option(
            ["--seed"],
            type=click.IntRange(min=0),
            metavar="NUMBER",
            help="With --shape: seed of the random inputs. [default: 0]",
        ),
    ]


def input_sections(command: Command) -> dict[str, list[str]]:
    """Return the headings for them in the help, and the options under each."""
    random = [attribute.name for attribute in command.example_attributes]
    return {
        "Operator": [attribute.name for attribute in command.attributes],
        "Inputs, from .npy or .npz files": [tensor.flag_name for tensor in command.tensors],
        "Inputs, random": ["shape", "random_dtype", *random, "seed"],
    }


def read_inputs(
    command: Command, options: dict[str, Any], boards: Iterable[Board], *, data: bool = True
) -> list[Array]:
    """Return the operator's inputs: all from files, or all random. Raises `InputError`."""
    from mlusim.cli.files import read_array

    flags = {tensor.flag_name: flag(tensor.flag_name) for tensor in command.tensors}
    files = {name: options[name] for name in flags if options[name] is not None}
    if options["shape"] is not None:
        if files:
            raise InputError(
                f"{flags[next(iter(files))]} and --shape: inputs come from files or are random, not both; drop --shape"
            )
        from mlusim.dtypes import FLOAT32
        from mlusim.host.random_tensors import RandomTensors

        draw = RandomTensors(options["seed"] or 0, data=data, boards=boards)
        return command.example(draw, options["shape"], options["random_dtype"] or FLOAT32, options)
    missing = [flags[name] for name in flags if name not in files]
    if missing:
        random = ", or --shape for random inputs" if not files else ""
        context = click.get_current_context(silent=True)
        path = context.command_path if context else f"mlusim run {command.name}"
        raise InputError(f"missing {' and '.join(missing)}{random}; see `{path} --help`")
    random_only = {attribute.name: flag(attribute.name) for attribute in command.example_attributes}
    for name, option in {"random_dtype": flag(command.data_option), "seed": "--seed", **random_only}.items():
        if options[name] is not None:
            raise InputError(f"{option} is for random inputs: it goes with --shape, not with files")
    return [read_array(flags[name], files[name]) for name in flags]


def strategy_option(name: str, text: str = "How it is split and moved: see below.") -> Callable[..., Any]:
    """--strategy; the first one is the default."""
    complete = complete_from(lambda: ENTRIES[name].strategies)
    return click.option("--strategy", metavar="NAME", shell_complete=complete, help=text)


_SECTIONS = {
    "Board and split": ("device", "strategy", "nram_limit"),
    "What is done": ("dry_run", "no_data", "steady", "check", "sensitivity"),
    "Output": ("out", "report", "save_run", "operations", "explain", "as_json", "quiet"),
}


def make_operator(command: Command) -> click.Command:
    """Create `mlusim run OPERATOR`."""
    options = parameters(
        device_option,
        strategy_option(command.name),
        click.option(
            "--out", "--output", "-o", type=NEW_FILE, metavar="FILE", help="Write the result to FILE, as .npy."
        ),
        report_option,
        save_run_option,
        csv_option,
        click.option(
            "--explain",
            is_flag=True,
            help="Print the plan: unit, tier, arithmetic, tiles, balance; with --json all tiles.",
        ),
        click.option("--dry-run", is_flag=True, help="Plan only: print the plan, and run nothing."),
        check_option,
        sensitivity_option,
        no_data_option,
        steady_option,
        click.option(
            "--nram-limit", type=SIZE, metavar="SIZE", help="Limit on the NRAM of a core that the plan uses: 64KiB."
        ),
        output_options,
    )
    return OperatorCommand(
        command.name,
        command=command,
        params=[*input_options(command), *options],
        sections=input_sections(command) | _SECTIONS,
        callback=partial(_run, command),
        help=f"{command.summary}\n\n\b\nExample:\n  mlusim run {command.name} {command.usage}",
        short_help=command.summary,
    )


_HELP = """\
Run an operator, or a kernel of your own, on a simulated board.

Reads .npy files (or .npz, as file.npz:key), runs the operator's kernel on the board, writes the exact result, and
prints what it took: time, bytes on every link, efficiency, and where the time went.

\b
Examples:
  mlusim run tin_shift --input clip.npy --shifts shifts.npy --out shifted.npy --report reports/
  mlusim run tin_shift --shape 2,8,256,196 --dtype float16 --device mlu590-h8 --explain
  mlusim run add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000000 --report reports/

bfloat16 and the 8-bit floats, which .npy cannot name, are written as records with one field, named after the
type: np.load("y.npy")["bfloat16"].view("bfloat16").
"""


@click.group(cls=OperatorGroup, help=_HELP, make=make_operator, kernel=make_run)
@click.pass_context
def run(context: click.Context) -> None:
    """Run an operator, or a kernel of your own, on a simulated board."""
    help_if_alone(context)


def help_if_alone(context: click.Context) -> None:
    """Print the help of a group without a subcommand; within the program this is wrong usage, exit code 2."""
    if context.invoked_subcommand is None:
        inner = context.parent is not None
        click.echo(context.get_help(), err=inner)
        context.exit(2 if inner else 0)


def _run(
    command: Command,
    *,
    device: Board,
    strategy: str | None,
    out: str | None,
    explain: bool,
    dry_run: bool,
    check: bool,
    sensitivity: bool,
    no_data: bool,
    steady: bool,
    nram_limit: int | None,
    **own: Any,
) -> None:
    inputs = [own[tensor.flag_name] for tensor in command.tensors if own[tensor.flag_name] is not None]
    outputs = Outputs.of(own, inputs, out=out)
    if outputs.array and (no_data or dry_run):
        raise InputError(f"--out with {'--no-data' if no_data else '--dry-run'}: there is no result to write")
    if dry_run:
        _check_dry_run(outputs)
    record, _ = command.choose(own)
    arrays = read_inputs(command, own, [device], data=not no_data)
    call = command.prepare(own, arrays, device, strategy, nram_limit)
    if (explain or dry_run) and outputs.is_printed:
        show.print_text(call.plan.explain())
    if dry_run:
        if outputs.as_json:
            content = {"operator": record.name, "board": device.name, "inputs": inputs_json(arrays)}
            print_json("plan", content | {"plan": call.plan.to_json()}, provenance([device]))
        return
    from mlusim.ops.call import run as run_call
    from mlusim.ops.sensitivity import sensitivity as sensitivity_of

    result = run_call(call, data=not no_data, progress=not outputs.quiet, check=check or None, steady=steady)
    finish(
        result,
        outputs,
        spaced=explain,
        checked=check,
        sensitivity=partial(sensitivity_of, call) if sensitivity else None,
        more={"plan": call.plan.to_json()} if explain else None,
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


def inputs_json(arrays: Iterable[Array]) -> list[dict[str, Any]]:
    """Return shape and element type of each input, in the operator's order."""
    return [{"shape": list(array.shape), "dtype": str(array.dtype)} for array in arrays]
