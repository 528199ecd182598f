"""The output of commands that run something: the result, the run, the operations, the report, a summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mlusim.cli import console
from mlusim.cli.command_files import (
    check_csv,
    check_directory,
    check_file,
    check_output,
    is_device_or_fifo,
    write_bytes,
)
from mlusim.cli.provenance import made_by, verification_json
from mlusim.errors import InputError
from mlusim.units import plural, signed_percent

if TYPE_CHECKING:
    from mlusim.ops.sensitivity import Sensitivity
    from mlusim.results.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The files that a command writes, and what it prints.

    Attributes:
        arrays: files of outputs, by name of the output; an empty name for the only one.
        report: directory of the report.
        saved: file of the run.
        operations: file of the operations, as a table.
        as_json: print JSON instead of text.
        quiet: print nothing.
    """

    arrays: Mapping[str, Path] = field(default_factory=dict)
    report: str | None = None
    saved: Path | None = None
    operations: Path | None = None
    as_json: bool = False
    quiet: bool = False

    @classmethod
    def of(cls, options: dict[str, Any], inputs: Sequence[str] = ()) -> Self:
        """Take `--out`, `--report`, `--save-run`, `--csv`, `--json` and `--quiet` out of the options of a command.

        Raises `InputError` for a file that cannot be written, or that is one of the inputs.
        """
        save_run, operations = options.pop("save_run", None), options.pop("operations", None)
        out = options.pop("out", None)
        check_directory("--report", options["report"])
        return cls(
            arrays={"": check_output(out, inputs)} if isinstance(out, str) else _output_files(out or (), inputs),
            report=options.pop("report"),
            saved=check_file("--save-run", save_run, inputs) if save_run is not None else None,
            operations=check_csv("--csv", operations, inputs) if operations is not None else None,
            as_json=options.pop("as_json"),
            quiet=options.pop("quiet"),
        )

    @property
    def is_printed(self) -> bool:
        """Whether text for people is printed."""
        return not (self.as_json or self.quiet)


def write_and_print(
    result: Result,
    outputs: Outputs,
    *,
    checked: bool = False,
    sensitivity: Callable[[], list[Sensitivity]] | None = None,
    title: str = "",
    entries: Mapping[str, Any] | None = None,
) -> None:
    """Write the result, the run and the report, and print the summary.

    Args:
        result: the run.
        outputs: the files to write, and what to print.
        checked: whether the findings of the checker are part of the summary.
        sensitivity: computes how the time depends on uncertain parameters; None: it is not asked for.
        title: printed above the summary.
        entries: further entries of the JSON.
    """
    from mlusim.analysis.summary import rows, to_json

    result.made_by = made_by() | result.made_by
    content, lines = _write_files(result, outputs)
    content = {**(entries or {}), **content}
    files: list[Path] = []
    if outputs.report is not None:
        from mlusim.analysis.report_files import write_report

        files = write_report(result, outputs.report)
        content["report"] = [str(path) for path in files]
    if checked and result.report is not None:
        content["verification"] = verification_json(result.report)
        lines.append(f"\n{result.report.text()}")
    sensitivities = None if sensitivity is None else sensitivity()
    if sensitivities is not None:
        content["sensitivity"] = [row._asdict() for row in sensitivities]
    if outputs.as_json:
        console.print_json(to_json(result) | content)
    elif outputs.quiet:
        if checked and result.report is not None:
            console.print_errors(result.report)
    else:
        if title:
            console.print_text(title)
        console.print_summary(result, rows(result))
        if sensitivities is not None:
            _print_sensitivity(sensitivities)
        for line in lines:
            console.print_text(line)
        if files:
            console.print_text(f"report in {outputs.report}: {', '.join(path.name for path in files)}")


def _write_files(result: Result, outputs: Outputs) -> tuple[dict[str, Any], list[str]]:
    """Write the output, the run and the operations; return them as JSON, and as lines for the terminal."""
    content: dict[str, Any] = {}
    lines: list[str] = []
    arrays = result.outputs or ({} if result.output is None else {"": result.output})
    files = write_arrays(outputs.arrays, arrays)
    if files:
        # An operator has one output.
        content |= {"outputs": files} if result.outputs else {"output": files[0]}
        lines += map(wrote, files)
    if outputs.saved is not None:
        content["run"] = str(result.save(outputs.saved))
        lines.append(f"wrote {outputs.saved}: the run")
    if outputs.operations is not None:
        content["csv"] = str(_write_csv(result, outputs.operations))
        provenance = (
            "" if is_device_or_fifo(outputs.operations) else f", and {outputs.operations.name}.json: their provenance"
        )
        lines.append(f"wrote {outputs.operations}: {plural(result.log.count, 'operation')}{provenance}")
    return content, lines


def write_arrays(files: Mapping[str, Path], outputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write outputs to the files of `--out`; return a description of these for JSON."""
    from mlusim.dtypes import dtype_name
    from mlusim.host.array_files import write_array

    descriptions = []
    for name, path in files.items():
        array = _output(outputs, name)
        write_array("--out", path, array)
        descriptions.append({"file": str(path), "dtype": dtype_name(array.dtype), "shape": list(array.shape)})
    return descriptions


def wrote(file: Mapping[str, Any]) -> str:
    """Return the line for the terminal about a file of `write_arrays`."""
    return f"wrote {file['file']}: {file['dtype']} {file['shape']}"


def _output_files(out: Sequence[str], inputs: Sequence[str]) -> dict[str, Path]:
    """Return the files of `--out` by output name; an empty name for the only output."""
    paths: dict[str, Path] = {}
    for text in out:
        name, equals, file = text.partition("=")
        if not equals:
            name, file = "", text
        if name in paths:
            raise InputError(f"--out {text}: give each output one file, and name it: --out NAME=FILE.npy")
        path = check_output(file, inputs)
        if any(path.resolve() == other.resolve() for other in paths.values()):
            raise InputError(f"--out {text}: another output goes to {file}: name two files")
        paths[name] = path
    return paths


def _output(outputs: Mapping[str, Any], name: str) -> Any:
    names = list(outputs)
    if not names:
        raise InputError("--out: the kernel has no output; give one as --arg out=float32:2,8,64")
    if not name and len(names) > 1:
        raise InputError(f"--out: the kernel has several outputs; name one, as in --out {names[0]}=FILE.npy")
    if name and name not in names:
        raise InputError(f"--out {name}: the kernel has no such output; it has {', '.join(names)}")
    return outputs[name or names[0]]


def _print_sensitivity(sensitivities: Iterable[Sensitivity]) -> None:
    console.print_text("\nTime with one parameter 20 % smaller and larger:")
    console.print_columns(
        ("parameter", "-20 %", "+20 %", "source"),
        [(row.field, *map(signed_percent, (row.less, row.more)), row.source) for row in sensitivities],
        right=(1, 2),
    )


def _write_csv(result: Result, path: Path) -> Path:
    """Write the operations, and next to them the summary, which says where they come from; return the path."""
    from mlusim.analysis.summary import to_json
    from mlusim.files import provenance_path

    path = Path(result.log.to_csv(path))
    if not is_device_or_fifo(path):
        write_bytes("--csv", provenance_path(path), (json.dumps(to_json(result), indent=2) + "\n").encode())
    return path
