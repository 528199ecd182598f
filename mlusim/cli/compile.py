"""`mlusim compile FILE...`: whether kernels compile or load, and their parameters; no kernel runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.options import compile_options, device_option, print_options
from mlusim.cli.provenance import print_with_provenance, provenance_without_runs
from mlusim.errors import InputError
from mlusim.inputs import as_file
from mlusim.source_code import file_and_kernel

if TYPE_CHECKING:
    from mlusim.bangc.survey import Surveyed
    from mlusim.hardware import Board

_HELP = """\
Compile BANG C files, or load Python files, and show their kernels, parameters and errors. No kernel runs.

Loading a Python file executes its top level. The exit code is 1 if a file has an error.

\b
Examples:
  mlusim compile add.py kernel.mlu
  mlusim compile add.py --json
"""


@click.command(name="compile", help=_HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@device_option
@compile_options
@print_options
def compile_(*, files: Sequence[str], device: Board, as_json: bool, quiet: bool, **options: Any) -> int:
    """Compile or load kernels."""
    for file in files:
        if (file_name := file_and_kernel(file)[0]) != file:
            raise InputError(f"{file} is a kernel, and all kernels of a file are compiled: name the file, {file_name}")
        if Path(file).suffix not in {".py", ".mlu"}:
            raise InputError(f"{file} is not a kernel file: name a .py or a .mlu file")
        as_file(file)
    reports = []
    for file in files:
        is_python = file.endswith(".py")
        report, surveyed = (_python_kernels(file), None) if is_python else _bangc_kernels(file, device, options)
        reports.append(report)
        if not (as_json or quiet):
            _print(report, surveyed)
    if as_json:
        content = {"ok": not any(report["error"] for report in reports), "files": reports}
        print_with_provenance("compile", content, provenance_without_runs([device]))
    return int(any(report["error"] for report in reports))


def _print(report: dict[str, Any], surveyed: Surveyed | None) -> None:
    """Print the kernels of a file; of BANG C as `mlusim bangc check` does."""
    if surveyed is not None:
        from mlusim.cli.bangc import print_surveyed

        print_surveyed(surveyed, error_lines=len(surveyed.error))
        return
    console.print_text(f"{report['file']}: {report['error'] or 'compiles'}")
    for name, parameters in report["kernels"].items():
        console.print_text(f"  {name}({', '.join(parameters)})")


def _python_kernels(file: str) -> dict[str, Any]:
    """Load a Python file: its kernels with their parameters, tensors first, then settings with their defaults."""
    import ast

    from mlusim.explore.python_files import source_text
    from mlusim.explore.user_kernels import kernel_of

    kernels: dict[str, list[str]] = {}
    try:
        body = ast.parse(source_text(Path(file)), file).body
        for node in body:
            if isinstance(node, ast.AsyncFunctionDef) and not node.name.startswith("_"):
                kernel = kernel_of(f"{file}:{node.name}")
                settings = (f"{name}={value!r}" for name, value in kernel.settings.items())
                kernels[node.name] = [*kernel.tensors, *settings]
        error = "" if kernels else "it has no kernel, an `async def` whose first parameter is the core"
    except SyntaxError as fault:
        error = f"{f'line {fault.lineno}: ' if fault.lineno else ''}SyntaxError: {fault.msg}"
    except InputError as fault:
        error = fault.message
    return {"file": file, "error": error, "kernels": kernels}


def _bangc_kernels(file: str, device: Board, options: dict[str, Any]) -> tuple[dict[str, Any], Surveyed]:
    """Compile a BANG C file: its entries with their parameters as declared, and its missing intrinsics."""
    from mlusim.bangc.survey import survey

    (surveyed,) = survey([file], device, **options)
    missing = "\n  ".join(("missing intrinsics:", *surveyed.remedies)) if surveyed.missing else ""
    kernels = {name: list(parameters) for name, parameters in surveyed.parameters.items()}
    return {"file": file, "error": surveyed.error or missing, "kernels": kernels}, surveyed
