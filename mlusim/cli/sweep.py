"""`mlusim sweep OPERATOR`, `mlusim sweep FILE.py:KERNEL`: every combination of the listed values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import console
from mlusim.cli.command_files import check_csv, check_file, check_picture
from mlusim.cli.help_format import SectionedCommand
from mlusim.cli.kernel_arguments import (
    arg_option,
    bind_compile_options,
    compile_section,
    given_options,
    launch_options,
    set_option,
    settings_of,
    theory_ops_option,
)
from mlusim.cli.operator_group import OperatorCommand, OperatorGroup
from mlusim.cli.operator_inputs import data_option, strategies_option
from mlusim.cli.operators import SUMMARIES, options_of
from mlusim.cli.option_types import assignments
from mlusim.cli.options import devices_option
from mlusim.cli.provenance import made_by
from mlusim.cli.sweep_options import SECTIONS, nram_limits_option, several_options, shapes_option
from mlusim.cli.sweep_table import print_sweep
from mlusim.errors import InputError, MlusimError
from mlusim.files import provenance_path

if TYPE_CHECKING:
    from mlusim.explore.axes import Axes
    from mlusim.explore.sweeping import Sweep
    from mlusim.ops.commands import Command

_DASK_S = 10  # time to wait for the scheduler's response
_PLOT = "time,efficiency,traffic"
_EXECUTION = ("workers", "retry", "shard", "merge")


def _make_operator(command: Command) -> click.Command:
    dtype = data_option(command, "Element types of the inputs, separated by commas.", several=True)
    return OperatorCommand(
        command,
        _sweep_operator,
        about=f"Sweep {command.name} over every combination of the values given. {SUMMARIES[command.name]}",
        example=f"mlusim sweep {command.name} {command.operator.example_usage} --strategy all --plot time",
        sections={
            "Values to combine": (
                shapes_option(required=True),
                dtype,
                devices_option,
                strategies_option(command, "Strategies, separated by commas, or all; see below."),
                *several_options(options_of(command.all_attributes)),
                nram_limits_option,
            ),
            **SECTIONS,
        },
    )


def _make_kernel(kernel_name: str) -> click.Command:
    """Create `mlusim sweep FILE.py:KERNEL`."""
    dtype = click.option(
        "--dtype",
        "element_type",
        multiple=True,
        metavar="DTYPES",
        help="Element types of the tensors without --arg, separated by commas. [default: float32]",
    )
    version = click.option(
        "--kernel-version",
        default="",
        metavar="TEXT",
        help="Version of what the hash of a point cannot include, such as a file that the kernel reads: a new version "
        "makes new points.",
    )
    settings = set_option(kernel_name, several=True)
    return SectionedCommand(
        kernel_name,
        sections={
            "Kernel": (arg_option, settings, theory_ops_option, launch_options(several=True), version),
            **compile_section(kernel_name),
            "Values to combine": (shapes_option(required=False), dtype, devices_option),
            **SECTIONS,
        },
        callback=partial(_sweep_kernel, kernel_name),
        help="Sweep a kernel of your own, `async def f(core, x, ..., out)`, or a plain function f(device, shape, "
        "dtype) that uploads and launches. Tensors of a kernel without --arg have the swept shape and type; those that "
        "it only stores to are outputs, or else the last one.\n\n\b\nExample:\n"
        "  mlusim sweep add.py:add --shape 1000000 --set tile=1024..8192*2 --cores 4..32*2",
    )


_HELP = """\
Simulate every combination of shapes, boards, strategies and other settings.

Values are separated by commas, or are a range: 16KiB..1MiB*2 doubles, 4..32+4 adds 4. Shapes and lists of axes contain
commas, so repeat the option for each. The sweep uses all cores of this machine. Each point is stored in an SQLite file
when it finishes, so the same command resumes after Ctrl-C or a crash. Points that a board cannot run
appear in the table with the reason.

\b
Examples:
  mlusim sweep tin_shift --shape 2,8,256,196 --strategy all --nram 2KiB..512KiB*2 --plot time,efficiency
  mlusim sweep reverse --shape 1024,1024 --axis 0 --axis 0,1 --device mlu370-x4,mlu590-h8 -o reverse.csv
  mlusim sweep add.py:add --shape 1000000 --set tile=1024..8192*2 --cores 4..32*2
"""


def _sweep_operator(command: Command, **options: Any) -> None:
    attributes = {attribute.name: options.pop(attribute.name) for attribute in command.all_attributes}
    values = {name: _flat(value) for name, value in attributes.items()}
    values = {name: value for name, value in values.items() if value not in (None, [])}
    types: list[Any] = _flat(options.pop("element_type"))
    if types:
        values[command.operator.data_option] = types
    _sweep(command.name, values, **options)


def _sweep_kernel(
    kernel: str,
    *,
    arg: Sequence[str],
    element_type: Any,
    settings: Sequence[str],
    dim: Any,
    kind: list[str] | None,
    theory_ops: int | None,
    **options: Any,
) -> None:
    from mlusim.explore.user_kernels import kernel_of

    kernel = bind_compile_options(kernel, options)
    values = given_options(dtype=_flat(element_type), dim=list(dim), kind=kind, theory_ops=theory_ops)
    user_kernel = kernel_of(kernel)
    for name, text in _varied(options["vary"]).items():
        if name in user_kernel.settings:
            raise InputError(f"--vary {name}={text}: {name} is a parameter of the kernel; write --set {name}={text}")
    _sweep(kernel, values, settings=settings_of(user_kernel, settings), arguments=arg, **options)


def _flat(value: Any) -> Any:
    """Flatten the lists of a repeated option."""
    if not isinstance(value, tuple):
        return value
    return [item for part in value for item in (part if isinstance(part, list) else [part])]


def _varied(texts: Sequence[str]) -> dict[str, str]:
    """Return the values of `--vary` by parameter of the board."""
    return assignments("--vary", texts, "NAME=VALUES")


def _sweep(
    operation: str,
    operation_options: dict[str, Any],
    *,
    db: str,
    no_db: bool,
    dask: str | None,
    output: str | None,
    plot: str | None,
    against: str | None,
    picture: str | None,
    full: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run the points of a sweep, write and print its table.

    Args:
        operation: the operator or kernel.
        operation_options: its own options.
        db, no_db, dask, output, plot, against, picture, full, as_json, quiet: the options of these names.
        options: those of `_EXECUTION`, as in `mlusim.sweep`; the others are those of `_axes`.
    """
    from mlusim.explore.sweeping import run_axes

    execution = {name: options.pop(name) for name in _EXECUTION}
    target = None if output is None else _table_file(output)
    if not no_db:
        try:
            check_file("--db", db)
        except InputError as error:
            raise InputError(f"{error.message}; --no-db runs without the file") from None
    axes = _axes(operation, operation_options, **options)
    axes.count()
    draw = _plotter(axes, plot, against, picture, output)
    with _client(dask, execution["workers"]) as client:
        sweep = run_axes(axes, db=None if no_db else db, client=client, progress=not quiet, **execution)
    sweep.made_by = made_by()
    for line in sweep.damaged:
        click.echo(f"warning: {line}", err=True)
    files = _write(sweep, target, draw)
    if as_json:
        console.print_json(sweep.to_json() | {"written": [str(path) for path in files]})
    elif not quiet:
        problem = _problem(sweep)
        print_sweep(sweep, None if no_db else db, full=full, reported=problem["message"] if problem else "")
        for path in files:
            console.print_text(f"wrote {path}")
    _raise_for_failures(sweep)


def _write(sweep: Sweep, target: Path | None, draw: Callable[[Sweep], Path] | None) -> list[Path]:
    """Write the table and the picture, as far as requested; return the files."""
    files = []
    if target is not None:
        files.append(sweep.save(target))
        files += [provenance_path(target)] if target.suffix.lower() == ".csv" else []
    if draw is not None and sweep.done:
        files.append(draw(sweep))
    return files


def _table_file(output: str) -> Path:
    """Return the file of the table, checked before anything runs."""
    from mlusim.explore.table import check_table

    check = check_csv if output.lower().endswith(".csv") else check_file
    return check_table(check("--out", output))


def _axes(
    operation: str,
    operation_options: dict[str, Any],
    *,
    shape: Any,
    strategy: Sequence[str] = (),
    bandwidth: Any,
    vary: Sequence[str],
    **points: Any,
) -> Axes:
    """Return the axes of a sweep: `operation_options`, of the operator or kernel, and the options of every sweep."""
    from mlusim.explore.axis_arguments import axes_of

    varied: dict[str, Any] = {**_varied(vary)}
    if bandwidth is not None and varied.setdefault("dram_bandwidth_bytes_per_s", bandwidth) is not bandwidth:
        raise InputError("--bandwidth and --vary dram_bandwidth_bytes_per_s are one parameter: give one of them")
    return axes_of(
        operation,
        shape=_flat(shape) or None,
        dtype=operation_options.pop("dtype", None),
        strategy=list(strategy) or None,
        vary=varied,
        options=operation_options,
        **points,
    )


def _problem(sweep: Sweep) -> dict[str, Any] | None:
    """Return the row that the error of the command is about: the first that failed, or of which none is possible."""
    failed_row = next((row for row in sweep.rows if row["status"] in ("failed", "died")), None)
    return failed_row if failed_row or sweep.done else next(iter(sweep.rows), None)


def _raise_for_failures(sweep: Sweep) -> None:
    """Raise `MlusimError` if a point failed, or none is possible."""
    problem = _problem(sweep)
    if problem is None:
        return
    failed_points = sweep.counts["failed"] + sweep.counts["died"]
    if failed_points:
        summary = f"{failed_points} of {len(sweep)} points failed; the first"
    else:
        summary = (
            "the point is impossible" if len(sweep) == 1 else f"none of {len(sweep)} points is possible; the first"
        )
    raise MlusimError(f"{summary}: {problem['message']}")


def _plotter(
    axes: Axes, plot: str | None, against: str | None, picture: str | None, output: str | None
) -> Callable[[Sweep], Path] | None:
    """Return the function that draws the picture, checked before anything runs; None without --picture."""
    from mlusim.analysis.sweep_plot import check_plot
    from mlusim.explore.point import Point
    from mlusim.explore.point_figures import FIGURES

    if plot is None and against is None and picture is None:
        return None
    metrics = [name.strip() for name in (plot or _PLOT).split(",") if name.strip()]
    path = Path(picture) if picture else Path(output).with_suffix(".png") if output else Path("sweep.png")
    check_picture("--picture", str(path))
    rows = [dict(point.columns if isinstance(point, Point) else point.row) for point in axes.points()]
    column = check_plot(rows, axes.columns(), metrics, against, [*FIGURES])

    def draw(sweep: Sweep) -> Path:
        sweep.plot(path, metrics=metrics, against=column)
        return path

    return draw


def _client(address: str | None, workers: int | None) -> AbstractContextManager[Any]:
    """Return a context with a Dask client, or with None. Raises `InputError` if no scheduler answers."""
    if address is None:
        return nullcontext()
    if workers is not None:
        raise InputError("--dask and --workers: the cluster has its own workers; drop one of them")
    try:
        create_client: Any = import_module("distributed").Client
    except ImportError:
        raise InputError("--dask needs dask.distributed: pip install distributed") from None
    try:
        client: AbstractContextManager[Any] = create_client(address, timeout=_DASK_S)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"--dask {address}: no scheduler answers there: {error}") from None
    return client


sweep = OperatorGroup("sweep", help=_HELP, create=_make_operator, make_kernel=_make_kernel)
