"""The documentation site: `sphinx-build -W --keep-going -n -b html docs build/site`.

The pages are plain Markdown and readable without Sphinx. Only docs/index.rst and docs/api/, which is generated from
docstrings and commands, need it. Lessons, the gallery and the pages of the project are elsewhere in the repository, and
are copied to docs/_pages/ for the build.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

import mlusim  # noqa: E402 - of this tree, not an installed one

project = "mlusim"
version = release = mlusim.__version__
project_copyright = "the authors of mlusim, Apache-2.0"

PAGES = DOCS / "_pages"
shutil.rmtree(PAGES, ignore_errors=True)
for source, name, kinds in (
    (
        ROOT / "lessons",
        "lessons",
        ("*.md", "*.py", "*.mlu", "pages/*.md", "pages/figures/*", "exercises/*.py", "exercises/*.mlu"),
    ),
    (ROOT / "reports", "gallery", ("README.md", "pictures/*")),
):
    for path in (found for kind in kinds for found in source.glob(kind)):
        target = PAGES / name / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
for source, name in (
    ("CHANGELOG.md", "changelog"),
    ("CONTRIBUTING.md", "contributing"),
    ("benchmarks/README.md", "benchmarks"),
):
    target = PAGES / "project" / f"{name}.md"
    target.parent.mkdir(exist_ok=True)
    # Links into docs/ lead two folders up from here.
    text = (ROOT / source).read_text(encoding="utf-8")
    target.write_text(re.sub(r"\]\((\.\./)?docs/", "](../../", text), encoding="utf-8")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "sphinx_copybutton",
]
suppress_warnings = ["toc.empty_glob"]  # the site builds without lessons or gallery

# Pages.
myst_heading_anchors = 3
smartquotes = False
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"

# Docstrings.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a line may name several
# Text in single backticks is code, and a link if it is a name of mlusim.
default_role = "py:obj"
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"mlusim\.planning\.plan\.Parameters"),  # a type variable
    ("py:obj", ".*"),  # the default role: most text in backticks is not a name
    # Libraries: their inventories would need a network.
    ("py:class", r"(collections|numpy|np|pathlib|os|typing|types|click|pandas|matplotlib)\..*"),
    # Imported for types only, so known by their unqualified names.
    ("py:class", r"(Path|PathLike|DataFrame|Figure|Canvas|Dtype)"),
    # Types in signatures that users receive and pass on, but never create.
    (
        "py:class",
        r"mlusim\.(analysis|cores|explore|hardware|log|log_tables|memory|ops|results)\..*|Request|Value|Rows|Addresses|Array|Integers",
    ),
]

# Looks.
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "mlusim"
html_copy_source = False
html_show_sphinx = False


# Names of modules, and what they are for, in the docstring of a package.
_LISTED = re.compile(r"  (?:\w+, )*\w+  ")


def _prepare_for_napoleon(_app: Any, what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    """Keep napoleon from reading a type at the beginning of a property.

    In the docstring of a module, mark code, and leave out the list of its modules, which is not for users.
    """
    if what == "property":
        lines[:0] = ["..", ""]  # a comment of RST; otherwise the text before a colon would be taken for the type
    if what == "module":
        listed = [_LISTED.match(line) is not None for line in lines]
        headings = [
            line.endswith(":") and following for line, following in zip(lines, [*listed[1:], False], strict=True)
        ]
        dropped = zip(lines, listed, headings, strict=True)
        lines[:] = [line for line, is_listed, is_heading in dropped if not (is_listed or is_heading)]
        for number in range(len(lines) - 1, 0, -1):
            if lines[number].startswith("    ") and not lines[number - 1] and not lines[number - 2].startswith("    "):
                lines[number:number] = ["::", ""]


def _as_code(_app: Any, _context: Any, lines: list[str]) -> None:
    """Mark the lines of a help text that click does not wrap: the first one is a heading, the rest is code."""
    for number in range(len(lines) - 1, -1, -1):
        if lines[number].startswith("| "):
            text = lines[number].removeprefix("| ")
            lines[number : number + 1] = [text] if text.startswith(" ") else [text, "", ".. code-block:: text", ""]


def _with_strategies(app: Any, context: Any, lines: list[str]) -> None:
    """Add the strategies of an operator, which its help lists after the options."""
    command = getattr(context.command, "_command", None)
    if command is not None:
        lines += ["", "Strategies, the first is the default:", ""]
        lines += [f"- ``{name}``: {about}" for name, about in command.operator.strategies.items()]
        lines.append("")
    _as_code(app, context, lines)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _prepare_for_napoleon, priority=400)
    app.connect("sphinx-click-process-description", _with_strategies)
    app.connect("sphinx-click-process-epilog", _as_code)
