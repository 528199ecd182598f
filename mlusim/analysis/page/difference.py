"""diff.html: two runs on one page, with both timelines on one scale of time."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.notebook import share_bar, swatches
from mlusim.analysis.page.footer import origin
from mlusim.analysis.page.pages import document
from mlusim.analysis.page.parts import esc, table
from mlusim.analysis.records import Records
from mlusim.analysis.style import drawing
from mlusim.analysis.table import us_text
from mlusim.analysis.timeline import draw_two_timelines
from mlusim.errors import InputError
from mlusim.files import atomic_write

if TYPE_CHECKING:
    from mlusim.results.result import Result


def write_difference(found: Any, directory: Path) -> Path:
    """Write diff.html for a `mlusim.explore.diff.Difference`; gives its path. Raises `InputError`."""
    path = directory / "diff.html"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as stream:
            stream.write(difference_page(found).encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def difference_page(found: Any) -> str:
    """The page: both runs, the difference by cause and by line, the two timelines. The same runs give the same text."""
    runs = {"A": found.before, "B": found.after}
    longest_ps = max(result.time_ps for result in runs.values())
    head = table(
        ("", "run", "board", "strategy", "time", "where the time went, per core on average"),
        [
            (
                name,
                esc(result.operator),
                esc(result.board.name),
                esc(result.strategy),
                us_text(result.time_ps),
                share_bar(result.metrics, longest_ps, 420, 18),
            )
            for name, result in runs.items()
        ],
        (4,),
    )
    names = [name for name in CAUSES if any(result.metrics.where_time_went[name] for result in runs.values())]
    causes = [(esc(CAUSES[name]), f"{value / 1e6:+.2f}") for name, value in found.causes_ps.items() if value]
    lines = [
        (
            esc(f"{line.file}:{line.before or '-'} > {line.after or '-'}" if line.file else ""),
            f"<code>{esc(line.text)}</code>",
            f"{line.time_ps / 1e6:+.2f}",
        )
        for line in found.lines
        if line.time_ps
    ]
    total = f"{found.time_ps / 1e6:+.2f} us"
    origins = "".join(f"<h3>{name}</h3>{origin(result)}" for name, result in runs.items())
    content = (
        f"{head}{swatches(names)}<h2>Timelines, on one scale</h2>{_timelines(runs)}"
        f"<h2>By cause</h2><p>{total} in all, per core on average.</p>{table(('cause', 'us'), causes, (1,))}"
        f"<h2>By source line</h2>{table(('line, A > B', 'source', 'us'), lines, (2,))}"
        f"<h2>Where the figures come from</h2>{origins}"
    )
    return document(f"{found.before.operator} and {found.after.operator}: {total}", content)


def _timelines(runs: dict[str, Result]) -> str:
    with drawing():
        figure = draw_two_timelines(
            [
                (Records(result.log, result.board), f"{name}: {result.operator} on {result.board.name}")
                for name, result in runs.items()
            ]
        )
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": "mlusim"})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]
