"""Run the lessons and write their pages: prose, code, output and pictures.

    python lessons/build.py                all of them
    python lessons/build.py 03 07          these
    python lessons/build.py --notebooks    the notebooks, without running them; needs `pip install '.[lessons]'`

A lesson is a Python script in the percent format: a cell begins with `# %%`, a cell of prose with `# %% [markdown]`.
Pages, pictures and notebooks are the same bytes on every machine.
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tools
from mlusim.analysis.canvas import Canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).resolve().parent
PAGES = HERE / "pages"
LESSONS = sorted(HERE.glob("[0-9][0-9]_*.py"))
_CELL = re.compile(r"^# %%(?P<kind>.*)\n", re.MULTILINE)


def cells(text: str) -> list[tuple[str, str]]:
    """(`markdown` or `code`, text) of each cell of a script."""
    parts = _CELL.split(text)[1:]
    listed = []
    for kind, body in zip(parts[::2], parts[1::2], strict=True):
        stripped = body.strip("\n")
        if "[markdown]" in kind:
            listed.append(
                ("markdown", "\n".join(line.removeprefix("#").removeprefix(" ") for line in stripped.split("\n")))
            )
        elif stripped:
            listed.append(("code", stripped))
    return listed


def render(lesson: Path) -> tuple[str, list[tuple[str, Figure | Canvas]]]:
    """The page of a lesson, and its pictures by name. Raises what the lesson raises, its assertions included."""
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(lesson)}
    page: list[str] = []
    figures: list[tuple[str, Figure | Canvas]] = []
    tools.collect(figures)
    source = lesson.read_text(encoding="utf-8")
    try:
        for kind, text in cells(source):
            if kind == "markdown":
                page.append(text)
                continue
            page.append(f"```python\n{text}\n```")
            shown = len(figures)
            printed = io.StringIO()
            # Line numbers are those of the file, for messages that contain them.
            above = source[: source.index(text)].count("\n")
            with redirect_stdout(printed):
                exec(compile("\n" * above + text, str(lesson), "exec"), names)  # noqa: S102 - our script
            if printed.getvalue():
                page.append(f"```text\n{printed.getvalue().rstrip()}\n```")
            page += [f"![{_title(figure)}](figures/{name}.svg)" for name, figure in figures[shown:]]
    finally:
        tools.collect(None)
    page += ["---", f"This page was made by `lessons/build.py` from [`{lesson.name}`](../{lesson.name})."]
    return "\n\n".join(page) + "\n", figures


def _title(figure: Figure | Canvas) -> str:
    """Return a text alternative of a picture."""
    if isinstance(figure, Canvas):
        return figure.title
    return figure.get_suptitle() or "; ".join(
        filter(None, (axes.get_title("left") or axes.get_title() for axes in figure.axes))
    )


def notebook(lesson: Path) -> str:
    """A lesson as a notebook, without outputs. Raises `ImportError` where jupytext is not installed."""
    import jupytext

    book = jupytext.reads(lesson.read_text(encoding="utf-8"), fmt="py:percent")
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(book.cells):
        cell.id = f"{lesson.stem}-{number}"
    text: str = jupytext.writes(book, fmt="ipynb")
    return text


def main(chosen: list[str]) -> None:
    """Write pages and pictures, or the notebooks."""
    if "--notebooks" in chosen:
        for lesson in LESSONS:
            lesson.with_suffix(".ipynb").write_text(notebook(lesson), encoding="utf-8")
        return
    figures_folder = PAGES / "figures"
    figures_folder.mkdir(parents=True, exist_ok=True)
    for lesson in LESSONS:
        if chosen and lesson.name[:2] not in chosen:
            continue
        page, figures = render(lesson)
        (PAGES / f"{lesson.stem}.md").write_text(page, encoding="utf-8")
        for name, figure in figures:
            (figures_folder / f"{name}.svg").write_bytes(tools.svg_of(figure))
        print(f"{lesson.name}: {len(figures)} pictures")


if __name__ == "__main__":
    main(sys.argv[1:])
