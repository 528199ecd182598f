"""The page of a run as one HTML document. All names chosen by the user are escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.analysis.log_columns import LogColumns, check_run
from mlusim.analysis.page import charts
from mlusim.analysis.page.embed import asset, plotly_bundle, script_json
from mlusim.analysis.page.footer import footer
from mlusim.analysis.page.parts import esc, head
from mlusim.analysis.page.sections import Sections
from mlusim.units import plural

# To ?present, and back to the page as it is.
_LECTURE = '<a class="lecture" href="?present">For a lecture</a><a class="ends-lecture" href="?">As a page</a>'

if TYPE_CHECKING:
    from mlusim.results.result import Result


def page(result: Result, *, home: str = "", bundle: str = "") -> str:
    """Return the report of a run as one HTML document; the text depends only on the run.

    Args:
        result: the run.
        home: address of an index page that lists this one.
        bundle: address of plotly.min.js, for pages that share it; by default it is embedded.

    Raises `InputError` if plotly is not installed.
    """
    check_run(result)
    body = Sections(result, LogColumns(result.log, result.board))
    sections = "\n".join(body.all())
    title = f"{result.operator} on {result.board.name}"
    payload = {
        "figures": body.figures,
        "memories": body.memories,
        "tiles": body.tiles,
        "timeline": body.timeline,
        "look": charts.figure([], 0)["layout"],
    }
    links = "".join(f'<a href="#{name}">{text}</a>' for name, text in body.heads)
    back = f'<p><a href="{esc(home)}">All runs</a></p>' if home else ""
    loads = "It needs plotly.min.js in the same folder." if bundle else "This page is self-contained and loads nothing."
    # page.js runs the library after the page is shown: that takes longer than everything else on it.
    library = f'data-src="{esc(bundle)}">' if bundle else f">\n{plotly_bundle()}\n"
    return f"""{head(title)}<body>
<header>
{back}<h1>{esc(title)}</h1>
<p class="sub">{esc(_about(result))}</p>
<p class="model"><strong>A model, not a measurement.</strong> Error: {esc(result.known.text)}.</p>
{_stop_notice(result)}<nav aria-label="Sections">{links}{_LECTURE}</nav>
<noscript><p class="model">The charts need JavaScript; the tables do not.</p></noscript>
</header>
<main>
{sections}
</main>
{footer(result, loads)}<script type="text/plain" id="plotly" {library}</script>
<script type="application/json" id="data">{script_json(payload)}</script>
<script>
{asset("page.js")}</script>
</body>
</html>
"""


def _about(result: Result) -> str:
    plan = result.plan
    tensors = f"output {' x '.join(map(str, plan.output_shape)) or 'of rank 0'}, " if plan is not None else ""
    split = f"strategy {plan.strategy}, tier {plan.tier}, " if plan is not None else "a user's kernel, "
    return f"{tensors}{split}{plural(len(result.log), 'record')} of {plural(len(result.log.tasks), 'task')}"


def _stop_notice(result: Result) -> str:
    if not result.stopped:
        return ""
    return f'<p class="stopped"><strong>The run stopped with an error.</strong> {esc(result.stopped)}</p>\n'
