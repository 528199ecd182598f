"""Several runs: one page each, and an index that compares them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from mlusim.analysis.lower_bound import LOSSES
from mlusim.analysis.page.embed import plotly_bundle
from mlusim.analysis.page.html import page
from mlusim.analysis.page.parts import esc, head, table
from mlusim.analysis.small_pictures import share_bar, swatches
from mlusim.errors import InputError, shown
from mlusim.files import atomic_write, directory_for, utf8
from mlusim.inputs import as_path, check_is
from mlusim.units import format_us, percent, short_bytes

if TYPE_CHECKING:
    from mlusim.results.result import Result

HEADS = (
    *("run", "operator", "board", "strategy or launch", "time", "x bound"),
    *("io_efficiency", "bus", "largest loss", ""),
)
NUMBERS = (4, 5, 6, 7)
BUNDLE = "plotly.min.js"


def write_pages(results: Mapping[str, Result], directory: str | os.PathLike[str]) -> list[Path]:
    """Write NAME.html per run, index.html and plotly.min.js, shared by the pages; returns the files, index first.

    Each file is written atomically. Raises `InputError` if they cannot be written or plotly is not installed.
    """
    target = as_path(directory)
    check_is("results", results, Mapping, "pass a dictionary of names and results")
    for name in results:
        if not isinstance(name, str) or name in {"", ".", ".."} or any(letter in name for letter in "/\\\0"):
            raise InputError(
                f"{shown(name)} is not a name for a page, which is a file in {target}: remove the separators"
            )
    # Without plotly, no directory is made.
    library = plotly_bundle()
    with directory_for(target):
        # One copy of the library for all pages: embedding it adds 5 MB to each.
        _write(target / BUNDLE, library)
        pages = [
            _write(target / f"{name}.html", page(result, home="index.html", bundle=BUNDLE))
            for name, result in results.items()
        ]
        return [_write(target / "index.html", index(results)), *pages, target / BUNDLE]


def index(results: Mapping[str, Result]) -> str:
    """Return the page that compares runs: one row each, with the causes of their time."""
    longest_ps = max((result.time_ps for result in results.values()), default=0)
    lines = (run_row(f"{name}.html", name, result, longest_ps) for name, result in results.items())
    rows = table(HEADS, lines, NUMBERS)
    return document(
        f"{len(results)} runs",
        f"<p>Times are those of the model. The bars show where the time went, per core on average; a bar is as long as "
        f"its run, relative to the slowest.</p>{swatches(result.metrics for result in results.values())}{rows}",
    )


def document(title: str, content: str) -> str:
    """Return a page of text and tables, without scripts."""
    return f"""{head(title)}<body>
<header>
<h1>{esc(title)}</h1>
<p class="model"><strong>A model, not a measurement.</strong></p>
</header>
<main>
{content}
</main>
</body>
</html>
"""


def run_row(link: str, name: str, result: Result, longest_ps: int) -> list[str]:
    """Return the cells of `HEADS` as HTML."""
    metrics, bound = result.metrics, result.lower_bound
    return [
        # A path relative to the folder: a name such as `javascript:...` is not an address, and `#` begins no fragment.
        f'<a href="./{quote(link)}">{esc(name)}</a>',
        esc(result.operator),
        f'<span class="name">{esc(result.board.name)}</span>',
        esc(result.strategy or _launches_text(result)),
        format_us(metrics.time_ps),
        f"{result.time_ps / bound.time_ps:.2f}" if bound.time_ps else "",
        percent(metrics.io_efficiency),
        short_bytes(sum(metrics.bus_bytes.values())),
        esc(largest_loss(result)),
        share_bar(metrics, longest_ps),
    ]


def largest_loss(result: Result) -> str:
    """Return the largest part of the time above the lower bound, with its share; "" if there is no such time."""
    bound = result.lower_bound
    above_ps = result.time_ps - bound.time_ps
    if not above_ps:
        return ""
    share = bound.losses_ps[bound.largest_loss] / result.board.cores / above_ps
    return f"{LOSSES[bound.largest_loss]} ({percent(share)})"


def _launches_text(result: Result) -> str:
    """Describe the launches of a user's kernel, which has no strategy."""
    launches = result.log.launches
    if not launches:
        return ""
    others = f" and {len(launches) - 1} more" if len(launches) > 1 else ""
    return f"{launches[0].kind} {launches[0].dim}{others}"


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as stream:
        stream.write(utf8(text))
    return path
