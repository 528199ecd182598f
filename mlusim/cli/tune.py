"""`mlusim tune OPERATOR`: the fastest strategy and tiles for a shape on a board, with the reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.kernel_search import make_tune
from mlusim.cli.operators import flag, options_of
from mlusim.cli.option_types import ELEMENT_TYPE, NEW_FILE, SHAPE, complete_from
from mlusim.cli.options import (
    device_name_option,
    full_option,
    json_option,
    parameters,
    seed_option,
    steady_option,
    workers_option,
)
from mlusim.cli.provenance import print_json, provenance
from mlusim.cli.run import OperatorCommand, OperatorGroup, help_if_alone
from mlusim.units import PS_PER_US, plural

if TYPE_CHECKING:
    from mlusim.explore.tuning import Tuning
    from mlusim.ops.commands import Command

_SHOWN = 8
_REASONS = 3
_EXAMPLES = {
    "tin_shift": "--shape 2,8,256,196 --dtype float16",
    "reverse": "--shape 1024,1024 --axis -1",
    "flip": "--shape 1024,1024 --axis -1",
    "cast": "--shape 4194304 --dtype int8",
    "bitcast_convert": "--shape 4096,2 --dtype float64",
}


def _make_tune(command: Command) -> click.Command:
    dtype = click.option(
        flag(command.data_option),
        "element_type",
        type=ELEMENT_TYPE,
        metavar="DTYPE",
        help="Element type of the inputs. [default: float32]",
    )
    run = parameters(
        click.option("--shape", required=True, type=SHAPE, metavar="SHAPE", help="Shape of the inputs: 2,8,256,196."),
        dtype,
        device_name_option,
        click.option(
            "--strategy",
            multiple=True,
            metavar="NAMES",
            shell_complete=complete_from(lambda: command.strategies),
            help="Strategies, separated by commas. [default: all]",
        ),
    )
    own = options_of((*command.attributes, *command.example_attributes))
    return OperatorCommand(
        command.name,
        command=command,
        params=[*run, *own, *parameters(seed_option, *TUNE_OPTIONS)],
        sections={
            "What to tune": [parameter.name or "" for parameter in (*run, *own)],
            "How it runs": ("seed", "steady", "db", "workers"),
            "Output": ("show_all", "full", "as_json", "quiet"),
        },
        callback=partial(_tune, command),
        help=f"Find the fastest strategy and tiles of {command.name}. {command.summary}\n\n\b\nExample:\n"
        f"  mlusim tune {command.name} {_EXAMPLES.get(command.name, '--shape 512,512')}",
        short_help=command.summary,
    )


# The options of tuning, for operators and kernels.
TUNE_OPTIONS = (
    steady_option,
    click.option(
        "--db",
        type=NEW_FILE,
        metavar="FILE",
        help="SQLite file for finished points, as for `mlusim sweep`. [default: none]",
    ),
    workers_option,
    click.option("--all", "show_all", is_flag=True, help=f"Print every plan that ran, not the first {_SHOWN}."),
    full_option,
    json_option,
    click.option("--quiet", "-q", is_flag=True, help="Print the command for the best one, and nothing else."),
)


_HELP = """\
Find the fastest strategy and tiles for a shape on a board, by simulation; for a kernel of your own, the fastest
settings.

Every strategy is tried with all of NRAM, and with limits that make its tiles smaller. The table says why each of the
others is slower, and the last lines run the best one again.

\b
Examples:
  mlusim tune tin_shift --shape 2,8,256,196 --dtype float16 --device mlu590-h8
  mlusim tune add.py:add --shape 1000000 --set tile=1024..16384*2
"""


@click.group(
    cls=OperatorGroup, help=_HELP, short_help="Find the fastest strategy and tiles.", make=_make_tune, kernel=make_tune
)
@click.pass_context
def tune(context: click.Context) -> None:
    """Find the fastest strategy and tiles for a shape and board."""
    help_if_alone(context)


def _tune(
    command: Command,
    *,
    shape: Any,
    element_type: Any,
    device: str,
    strategy: tuple[str, ...],
    seed: int,
    steady: bool,
    db: str | None,
    workers: int | None,
    show_all: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
    **own: Any,
) -> None:
    from mlusim.explore.tuning import tune as search

    if db is not None:
        from mlusim.cli.files import check_file

        check_file("--db", db)
    options = {name: value for name, value in own.items() if value is not None}
    if element_type is not None:
        options[command.data_option] = element_type
    tuning = search(
        command.name,
        shape=shape,
        device=device,
        strategy=list(strategy) or "all",
        seed=seed,
        steady=steady,
        db=db,
        workers=workers,
        progress=not (quiet or as_json),
        **options,
    )
    print_tuning(tuning, show_all=show_all, full=full, as_json=as_json, quiet=quiet)


def print_tuning(tuning: Tuning, *, show_all: bool, full: bool, as_json: bool, quiet: bool) -> None:
    """Print the result of tuning: a table and the best command, or JSON."""
    if as_json:
        print_json("tune", tuning.to_json(), provenance([tuning.board]))
        return
    if quiet:
        show.print_exact(tuning.command)
        return
    rows = tuning.rows if show_all else tuning.rows[:_SHOWN]
    shape = f" {tuning.best['shape'].replace('x', ',')}" if "shape" in tuning.best else ""
    show.print_text(f"{tuning.operator}{shape} on {tuning.board.name}, the fastest first:\n")
    _print_rows(tuning, rows, full=full)
    slower = len(tuning.rows) - len(rows)
    hidden = [f"{slower} slower ones; --all shows them"] if slower else []
    show.print_text("\n" + "\n".join([*hidden, *_notes(tuning)]))
    show.print_text("\nThe best one, from the shell and from Python:")
    show.print_command(tuning.command)
    show.print_call(tuning.call)


def _has_plans(tuning: Tuning) -> bool:
    """Whether an operator was tuned, whose points have plans with tiers; else a kernel."""
    return "tier" in tuning.best


def _print_rows(tuning: Tuning, rows: Sequence[dict[str, Any]], *, full: bool) -> None:
    """Print the table of the points."""
    from mlusim.analysis.summary import us_text

    has_plans = _has_plans(tuning)
    settings = _plan_columns(full=full) if has_plans else _kernel_columns(tuning)
    columns = [*settings, "time", "", "why it is slower"]
    lines = []
    for row in rows:
        cells = _plan_cells(row, full=full) if has_plans else [str(row.get(axis, "")) for axis in settings]
        why = row["why"] if full else row["why"].partition(";")[0].partition(":")[0]
        best_or_slower = "best" if row is tuning.best else _slower(row["slower"])
        lines.append([*cells, us_text(row["time_ps"]), best_or_slower, why])
    first_number, keys = (1, 2) if has_plans else (0, len(tuning.axes))
    show.print_columns(columns, lines, right=range(first_number, len(columns) - 1), keys=keys)


def _notes(tuning: Tuning) -> list[str]:
    """Return the lines below the table: what was tried, and how good the best is."""
    from mlusim.analysis.summary import us_text

    best = tuning.best
    tried = f"{plural(len(tuning.rows), 'plan')} ran"
    if tuning.repeats:
        tried += f", {tuning.repeats} more settings gave the same plans"
    if tuning.refused:
        tried += f", {len(tuning.refused)} {'did not fit' if _has_plans(tuning) else 'could not run'}"
    notes = [tried]
    if not _has_plans(tuning):
        notes += [f"could not run: {settings}: {message}" for settings, _, message in tuning.refused[:_REASONS]]
    bound = us_text(round(best["lower_bound_us"] * PS_PER_US))
    over = f"{best['time_us'] / best['lower_bound_us']:.2f} x " if best["lower_bound_us"] else ""
    early = ", so the search ended early" if tuning.at_lower_bound else ""
    notes.append(f"the best takes {over}the lower bound of {bound}{early}")
    if tuning.as_good:
        notes.append(f"{tuning.as_good} within 2 % of the best: no measurement tells them apart")
    return notes


def _kernel_columns(tuning: Tuning) -> list[str]:
    return list(tuning.axes)


def _plan_columns(*, full: bool) -> list[str]:
    return ["strategy", "NRAM limit", "tier", *(["tiles", "NRAM"] if full else [])]


def _plan_cells(row: Mapping[str, Any], *, full: bool) -> list[str]:
    from mlusim.explore.axis_values import text_of
    from mlusim.units import short_bytes

    return [
        row["strategy"] if row["strategy"] != "auto" else f"auto: {row['plan_strategy']}",
        "" if row["nram_limit_bytes"] is None else text_of("nram_bytes", row["nram_limit_bytes"]),
        str(row["tier"]),
        *([str(row["tiles"]), short_bytes(row["plan_nram_bytes"])] if full else []),
    ]


def _slower(part: float | None) -> str:
    from mlusim.analysis.summary import percent

    if not part:
        return "equal" if part is not None else ""
    return f"+{percent(part)}"
