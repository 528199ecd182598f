"""`mlusim run OPERATOR`: an operator on arrays from files, or on random ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
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
    check_directory,
    csv_option,
    device_option,
    output_options,
    report_option,
    save_run_option,
    sensitivity_option,
    steady_option,
)
from mlusim.cli.provenance import made_by, print_json, provenance, verification_json
from mlusim.errors import InputError, nearest

if TYPE_CHECKING:
    import numpy as np

    from mlusim.hardware import Board
    from mlusim.ops.commands import Command
    from mlusim.ops.sensitivity import Sensitivity
    from mlusim.results.result import Result

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
    made = OperatorCommand(
        command.name,
        command=command,
        params=input_options(command),
        sections=input_sections(command) | _SECTIONS,
        callback=partial(_run, command),
        help=f"{command.summary}\n\n\b\nExample:\n  mlusim run {command.name} {command.usage}",
        short_help=command.summary,
    )
    options = (
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
        click.option("--check", is_flag=True, help="Verify the run: races, uninitialised reads, the split proof."),
        sensitivity_option,
        click.option("--no-data", is_flag=True, help="Timing only: tensors have sizes but no bytes."),
        steady_option,
        click.option(
            "--nram-limit", type=SIZE, metavar="SIZE", help="Limit on the NRAM of a core that the plan uses: 64KiB."
        ),
        output_options,
    )
    # Applied to a command, as here, click's decorators append each option.
    target: Any = made
    for option in (device_option, *options):
        option(target)
    return made


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
    device: Any,
    strategy: str | None,
    out: str | None,
    report: str | None,
    save_run: str | None,
    operations: str | None,
    explain: bool,
    dry_run: bool,
    check: bool,
    sensitivity: bool,
    no_data: bool,
    steady: bool,
    nram_limit: int | None,
    as_json: bool,
    quiet: bool,
    **own: Any,
) -> None:
    from mlusim.cli.files import check_csv, check_file, check_output

    inputs = [own[tensor.flag_name] for tensor in command.tensors if own[tensor.flag_name] is not None]
    target = check_output("--out", out, inputs) if out is not None else None
    check_directory("--report", report)
    saved = check_file("--save-run", save_run, inputs) if save_run is not None else None
    table = check_csv("--csv", operations, inputs) if operations is not None else None
    if target and (no_data or dry_run):
        raise InputError(f"--out with {'--no-data' if no_data else '--dry-run'}: there is no result to write")
    if dry_run:
        _check_dry_run(report, saved, table)
    record, _ = command.choose(own)
    arrays = read_inputs(command, own, [device], data=not no_data)
    call = command.prepare(own, arrays, device, strategy, nram_limit)
    if (explain or dry_run) and not (as_json or quiet):
        show.print_text(call.plan.explain())
    if dry_run:
        if as_json:
            content = {"operator": record.name, "board": device.name, "inputs": inputs_json(arrays)}
            print_json("plan", content | {"plan": call.plan.to_json()}, provenance([device]))
        return
    from mlusim.ops.call import run as run_call
    from mlusim.ops.sensitivity import sensitivity as sensitivity_of

    result = run_call(call, data=not no_data, progress=not quiet, check=check or None, steady=steady)
    finish(
        result,
        target=target,
        report=report,
        saved=saved,
        operations=table,
        as_json=as_json,
        quiet=quiet,
        spaced=explain,
        checked=check,
        sensitivity=partial(sensitivity_of, call) if sensitivity else None,
        more={"plan": call.plan.to_json()} if explain else None,
    )


def _check_dry_run(report: str | None, saved: Path | None, table: Path | None) -> None:
    """Raise `InputError` for options that write what only a run has."""
    for option, value, problem in (
        ("--report", report, "there is nothing to report"),
        ("--save-run", saved, "there is nothing to save"),
        ("--csv", table, "there are no operations"),
    ):
        if value is not None:
            raise InputError(f"{option} with --dry-run: nothing runs, so {problem}")


def _write_csv(result: Result, path: Path) -> Path:
    """Write the operations, and beside them the summary, which says where they come from; return the path."""
    from mlusim.analysis.summary import to_json
    from mlusim.cli.files import write_bytes
    from mlusim.cli.paths import is_through
    from mlusim.files import beside

    path = Path(result.log.to_csv(path))
    if not is_through(path):
        write_bytes("--csv", beside(path), (json.dumps(to_json(result), indent=2) + "\n").encode())
    return path


def inputs_json(arrays: Iterable[Array]) -> list[dict[str, Any]]:
    """Return shape and element type of each input, in the operator's order."""
    return [{"shape": list(array.shape), "dtype": str(array.dtype)} for array in arrays]


def finish(
    result: Result,
    *,
    target: Path | None,
    report: str | None,
    as_json: bool,
    quiet: bool,
    saved: Path | None = None,
    operations: Path | None = None,
    spaced: bool = False,
    checked: bool = False,
    sensitivity: Callable[[], list[Sensitivity]] | None = None,
    title: str = "",
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the result, the run and the report, and print the summary."""
    from mlusim.analysis.summary import rows, to_json

    result.made_by = made_by() | result.made_by
    written, lines = _write_files(result, target, saved, operations)
    written = {**(more or {}), **written}
    files: list[Path] = []
    if report is not None:
        from mlusim.analysis.pictures import write_report

        files = write_report(result, report)
        written["report"] = [str(path) for path in files]
    if checked and result.report is not None:
        written["verification"] = verification_json(result.report)
        lines.append(f"\n{result.report.text()}")
    sensitivities = None if sensitivity is None else sensitivity()
    if sensitivities is not None:
        written["sensitivity"] = [row._asdict() for row in sensitivities]
    if as_json:
        show.print_json(to_json(result) | written)
    elif not quiet:
        if spaced:
            show.print_text("")
        if title:
            show.print_text(title)
        show.print_summary(result, rows(result))
        if sensitivities is not None:
            _print_sensitivity(sensitivities)
        for line in lines:
            show.print_text(line)
        if files:
            show.print_wrapped(f"report in {report}: {', '.join(path.name for path in files)}")


def _write_files(
    result: Result, target: Path | None, saved: Path | None, operations: Path | None
) -> tuple[dict[str, Any], list[str]]:
    """Write the output, the run and the operations; return them as JSON, and as lines for the terminal."""
    written: dict[str, Any] = {}
    lines = []
    if target is not None and result.output is not None:
        from mlusim.cli.files import write_array
        from mlusim.dtypes import dtype_name

        write_array("--out", target, result.output)
        name, shape = dtype_name(result.output.dtype), list(result.output.shape)
        written["output"] = {"file": str(target), "dtype": name, "shape": shape}
        lines.append(f"wrote {target}: {name} {shape}")
    if saved is not None:
        written["run"] = str(result.save(saved))
        lines.append(f"wrote {saved}: the run")
    if operations is not None:
        written["csv"] = str(_write_csv(result, operations))
        lines.append(f"wrote {operations}: {result.log.count} operations, and {operations.name}.json: their provenance")
    return written, lines


def _print_sensitivity(sensitivities: Iterable[Sensitivity]) -> None:
    show.print_text("\nTime with one parameter 20 % smaller and larger:")
    show.print_columns(
        ("parameter", "-20 %", "+20 %", "source"),
        [(row.field, f"{100 * row.less:+.1f} %", f"{100 * row.more:+.1f} %", row.source) for row in sensitivities],
        right=(1, 2),
    )
