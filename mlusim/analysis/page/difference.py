"""diff.html: two runs on one page, with both timelines on the same time scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.page.footer import origin
from mlusim.analysis.page.pages import document
from mlusim.analysis.page.parts import esc, table
from mlusim.analysis.small_pictures import share_bar, swatches
from mlusim.analysis.timeline_picture import draw_two_timelines
from mlusim.files import atomic_write, directory_for, utf8
from mlusim.units import format_us, group_digits, percent, ratio, signed_us

if TYPE_CHECKING:
    from mlusim.explore.diff import Difference, MetricChange
    from mlusim.explore.suggestions import Suggestion
    from mlusim.results.result import Result


def write_difference(difference: Difference, tries: Sequence[Suggestion], directory: Path) -> Path:
    """Write diff.html, and return its path. Raises `InputError`."""
    path = directory / "diff.html"
    with directory_for(directory), atomic_write(path) as stream:
        stream.write(utf8(difference_page(difference, tries)))
    return path


def difference_page(difference: Difference, tries: Sequence[Suggestion]) -> str:
    """Return the page: both runs, their timelines, the difference by cause, line and figure, and suggestions.

    `tries` are those of `mlusim.explore.suggestions.what_to_try` for the second run. The text depends only on the
    runs.
    """
    runs = {"A": difference.before, "B": difference.after}
    names = dict(zip(runs, difference.names, strict=True))
    total = f"{signed_us(difference.time_ps)} us"
    figures = [(esc(metric.name), *map(esc, figure_cells(metric))) for metric in difference.metrics]
    origins = "".join(f"<h3>{name}</h3>{origin(result)}" for name, result in runs.items())
    content = (
        f"{_runs(runs, names)}<h2>Timelines, on one scale</h2>{_timelines(runs, names)}"
        f"<h2>By cause</h2><p>{total} in all, per core on average, without cores that have no work in both runs.</p>"
        f"{_causes(difference)}<h2>By source line</h2>{_lines(difference)}"
        f"<h2>By figure</h2>{table(('figure', 'A', 'B', 'B / A'), figures, (1, 2, 3))}{_tries(difference.after, tries)}"
        f"<h2>Where the figures come from</h2>{origins}"
    )
    first, second = difference.names
    title = f"{first}, twice" if first == second else f"{first}, and {second}"
    return document(f"{title}: {total}", content)


def _runs(runs: dict[str, Result], names: dict[str, str]) -> str:
    """Return the table of the runs, and the colours of its causes."""
    longest_ps = max(result.time_ps for result in runs.values())
    rows = [
        (name, esc(names[name]), format_us(result.time_ps), share_bar(result.metrics, longest_ps, 420, 18))
        for name, result in runs.items()
    ]
    colours = swatches(result.metrics for result in runs.values())
    return table(("", "run", "time", "where the time went, per core on average"), rows, (2,)) + colours


def _causes(difference: Difference) -> str:
    changes = difference.causes_ps.items()
    rows = [(esc(CAUSES[name]), signed_us(time_ps)) for name, time_ps in changes if time_ps]
    return table(("cause", "us"), rows, (1,))


def _lines(difference: Difference) -> str:
    rows = [
        (esc(line.location), f"<code>{esc(line.text)}</code>", signed_us(line.time_ps))
        for line in difference.lines
        if line.time_ps
    ]
    return table(("line, A > B", "source", "us"), rows, (2,))


def figure_cells(metric: MetricChange) -> tuple[str, str, str]:
    """Return a figure of both runs as text: the first run's value, the second's, and their ratio."""
    text = percent if metric.name.endswith("efficiency") else _number
    return text(metric.before), text(metric.after), ratio(metric.after, metric.before)


def _number(value: float) -> str:
    return group_digits(int(value)) if float(value).is_integer() else f"{value:.2f}"


def _tries(result: Result, tries: Sequence[Suggestion]) -> str:
    if not tries:
        return ""
    rows = [
        (
            esc(suggestion.change),
            esc(suggestion.assumption),
            format_us(suggestion.time_ps),
            f"{percent(1 - suggestion.time_ps / result.time_ps)}",
        )
        for suggestion in tries
    ]
    return (
        "<h2>What to try for B</h2><p>Predictions, with one loss removed.</p>"
        f"{table(('change', 'time if', 'time', 'less'), rows, (2, 3))}"
    )


def _timelines(runs: dict[str, Result], names: dict[str, str]) -> str:
    canvas = draw_two_timelines(
        [(LogColumns(result.log, result.board), f"{name}: {names[name]}") for name, result in runs.items()]
    )
    svg = canvas.svg().decode()
    return f'<figure class="timelines">{svg[svg.index("<svg") :]}</figure>'
