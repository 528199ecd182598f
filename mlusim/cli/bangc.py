"""`mlusim bangc`: BANG C files: run an entry or a whole program, and check which files compile."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.help_format import SectionedCommand
from mlusim.cli.kernel_arguments import (
    arg_option,
    call_of,
    dtype_option,
    launch_options,
    shape_option,
    theory_ops_option,
)
from mlusim.cli.kernel_run import outs_option, run_kernel
from mlusim.cli.operator_group import help_if_alone
from mlusim.cli.options import (
    COMPILE_OPTIONS,
    check_option,
    compile_options,
    device_option,
    dma_option,
    no_data_option,
    output_options,
    print_options,
    report_option,
    save_run_option,
    seed_option,
)
from mlusim.cli.outputs import Outputs, write_and_print
from mlusim.cli.provenance import print_with_provenance, provenance_without_runs
from mlusim.errors import InputError, KernelError, MlusimError
from mlusim.source_code import file_and_kernel, is_kernel_name
from mlusim.spelling import choose_one

if TYPE_CHECKING:
    from mlusim.bangc.host.program import Program
    from mlusim.bangc.module import Module
    from mlusim.bangc.survey import Surveyed
    from mlusim.hardware import Board

_HELP = """\
Run BANG C, unmodified, on a simulated board.

A .mlu file is compiled by the C++ compiler of this machine, or by the one that `pip install 'mlusim[bangc]'` installs,
and runs as native code: run only files that you trust.

\b
Examples:
  mlusim bangc run kernel.mlu --entry add --arg a=a.npy --arg b=b.npy --arg out=float32:1000 --arg 1000 --check
  mlusim bangc run program.mlu
  mlusim bangc check kernels/
"""


class _Group(click.Group):
    """A group whose message for an unknown command lists its commands."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As in click; for a file in the place of a command, the message names `run`."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            suggestion = f"did you mean `mlusim bangc run {args[0]}`? " if is_kernel_name(args[0]) else ""
            commands_text = choose_one(args[0], self.commands)
            raise click.UsageError(f"no command {args[0]!r} of bangc; {suggestion}{commands_text}", ctx)
        return super().resolve_command(ctx, args)


bangc = _Group("bangc", help=_HELP, callback=help_if_alone, invoke_without_command=True)


_entry_option = click.option(
    "--entry", "-e", metavar="NAME", help="The kernel: name, or 'name<float, 4>'. [default: main, or the only entry]"
)
_sources_option = click.option(
    "--with", "sources", multiple=True, metavar="FILE", help="Another source file. May be repeated."
)
_SECTIONS = {
    "Entry and arguments": (_entry_option, shape_option, dtype_option, arg_option, seed_option),
    "Compilation": (_sources_option, compile_options),
    "Board and launch": (device_option, launch_options(several=False), theory_ops_option),
    "Run": (check_option, no_data_option, dma_option),
    "Output": (outs_option, report_option, save_run_option, output_options),
}


_RUN_HELP = """\
Run an entry of a .mlu file on arrays, or its main() as a program.

\b
Examples:
  mlusim bangc run kernel.mlu --entry add --arg a=a.npy --arg b=b.npy --arg out=float32:1000 --arg 1000 --check
  mlusim bangc run kernel.mlu --entry 'fill<float, 4>' --arg out=float32:64 --arg 1.5 --dim 4 --kind UNION1
  mlusim bangc run program.mlu --with kernel.mlu -- 3 input.txt
"""


# Endings of source files.
_SOURCES = (".mlu", ".cpp", ".cc")
_ERROR_LINES = 6  # of the compiler's message, for each file of a folder


class _Run(SectionedCommand):
    """A command that takes arguments of a program, after `--` or not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click. Without `--`, a source file among the arguments is one that `--with` was to name."""
        is_apart = "--" in args
        remaining = super().parse_args(ctx, args)
        for word in () if is_apart else ctx.params["words"]:
            if word.endswith(_SOURCES) and Path(word).is_file():
                raise click.UsageError(
                    f"{word} is another source file: name each with a --with of its own, --with {word}; to pass its "
                    "name to main, write -- before main's arguments",
                    ctx,
                )
        return remaining


@bangc.command("run", cls=_Run, sections=_SECTIONS, help=_RUN_HELP)
@click.argument("file", metavar="FILE[:ENTRY]")
@click.argument("words", nargs=-1, metavar="[-- ARGUMENTS...]")
def run(
    *,
    file: str,
    entry: str | None,
    words: tuple[str, ...],
    device: Board,
    **options: Any,
) -> int:
    """Run an entry of a .mlu file on arrays, or its main() as a program."""
    from mlusim.bangc.module import compile as compile_file

    outputs = Outputs.of(options)
    file, kernel_name = file_and_kernel(file)
    if kernel_name and entry not in {None, kernel_name}:
        raise InputError(f"{file}:{kernel_name} and --entry {entry} are two kernels: name one")
    entry = kernel_name or entry
    compiling = {name: options.pop(name) for name in ("sources", *COMPILE_OPTIONS)}
    module = compile_file(file, device, **compiling)
    if entry is None and module.has_main:
        return _program(module, device, outputs, words=words, **options)
    if words:
        raise InputError(f"{' '.join(words)}: arguments are for a program's main; give a kernel its own with --arg")
    if entry is None:
        if not module.entries:
            raise InputError(f"{file}: it has neither a kernel, a function with __mlu_entry__, nor a main")
        if len(module.entries) != 1 or "<" in module.entries[0]:
            raise InputError(f"{file}: name one of its entries with --entry: {', '.join(module.entries)}")
        entry = module.entries[0]
    call = call_of(module[entry], options)
    title = f"{entry} of {module.path.name} on {device.name}\n"
    return run_kernel(call, device, outputs, title=title, **options)


def _program(module: Module, device: Board, outputs: Outputs, **options: Any) -> int:
    from mlusim.bangc.host.own_process import run_apart
    from mlusim.bangc.host.program import Program
    from mlusim.host.device import Device

    if options["arg"] or outputs.arrays or options["no_data"]:
        raise InputError(
            f"{module.path.name} is a program: it takes no --arg, --out or --no-data; name a kernel --entry"
        )
    simulated = Device(device, dma=options["dma"])
    if options["check"]:
        module = module.for_board(module.board, checked=True)
    program = Program(module, simulated, tuple(options["words"]))
    return run_apart(program, partial(_run_program, program, outputs, **options))


def _run_program(program: Program, outputs: Outputs, **options: Any) -> int:
    """Run a program, verify it and write the requested files.

    Returns its status; 1 if that is 0 and the checker has found an error. Raises `VerificationError` in place of an
    error whose cause the checker finds, such as a race.
    """
    simulated, module = program.device, program.module
    try:
        status = program.run()
    except MlusimError as error:
        report = None
        with suppress(InputError):  # a launch is still queued
            report = simulated.verify() if options["check"] and simulated.log.launches else None
        errors = report.errors if report else []
        consequences = [folded for finding in errors for folded in finding.folded]
        is_consequence = any(folded.fields.get("error") == type(error).__name__ for folded in consequences)
        if report is not None and (is_consequence or any(finding.kind == "unset" for finding in errors)):
            report.check()
        if report is not None and type(error) is KernelError and error.location.startswith("main"):
            # `main` may have ended because of what the checker finds: with `assert`, `abort` or an exception.
            console.print_errors(report)
        raise
    if options["check"] or outputs.report or outputs.saved or outputs.as_json:
        result = simulated.result(module.path.stem, theory_ops=options["theory_ops"])
        if options["check"]:
            result.report = simulated.verify()
        checks = ", compiled with checks: scalar code may take longer" if module.options.checked else ""
        write_and_print(
            result,
            outputs,
            checked=options["check"],
            title=f"{module.path.name} on {simulated.board.name}{checks}\n",
            entries={"status": status},
        )
        if not (outputs.as_json or outputs.quiet):
            is_sound = result.report is not None and result.report.ok
            what = "; the checker does not compare values of a program: main compares what it copies back"
            console.print_text(f"\nmain returned {status}{what if is_sound else ''}")
        if result.report is not None and not result.report.ok:
            return status or 1
    return status


@bangc.command("check")
@click.argument("paths", nargs=-1, required=True, metavar="FILE-OR-FOLDER...")
@compile_options
@device_option
@print_options
def check(
    *,
    paths: Sequence[str],
    device: Board,
    as_json: bool,
    quiet: bool,
    **compiling: Any,
) -> int:
    """Compile .mlu files; list their entries and intrinsics.

    Intrinsics that mlusim lacks are named. The exit code is 0 if every file compiles and nothing is missing, else 1.
    """
    from mlusim.bangc.survey import survey

    surveys = []
    for file in survey(paths, device, **compiling):
        surveys.append(file)
        if not (as_json or quiet):
            print_surveyed(file)
    missing = sorted({name for file in surveys for name in file.missing})
    compiled = sum(file.compiles for file in surveys)
    if as_json:
        content = {"files": [file.to_json() for file in surveys], "compile": compiled, "missing": missing}
        print_with_provenance("bangc-check", content, provenance_without_runs([device]))
    elif not quiet:
        names = ", ".join(missing) or "none"
        console.print_text(f"{compiled} of {len(surveys)} files compile; missing intrinsics: {names}")
    return 0 if compiled == len(surveys) and not missing else 1


def print_surveyed(file: Surveyed, error_lines: int = _ERROR_LINES) -> None:
    """Print the entries and intrinsics of a file, or the first `error_lines` lines of the compiler's message."""
    console.print_text(f"{file.file}: {'compiles' if file.compiles else 'does not compile'}")
    for name, parameters in file.parameters.items():
        console.print_text(f"  {name}({', '.join(parameters)})")
    if file.has_main:
        console.print_text("  main")
    if file.known:
        console.print_text(f"  intrinsics  {len(file.known)}: {', '.join(file.known)}")
    for remedy in file.remedies:
        console.print_text(f"  missing     {remedy}")
    if file.libraries:
        console.print_text(f"  host code   not simulated: {', '.join(file.libraries)}")
    if file.error:
        console.print_text("  " + "\n  ".join(file.error.splitlines()[1 : error_lines + 1]))
