"""The help of commands: options by section, and examples that continue on the next line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import click
from click.formatting import wrap_text

_WORD = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^\s\"'])+")  # a shell word, quotes included


class HelpFormatter(click.HelpFormatter):
    """click's formatter, but an example wider than the terminal continues on the next line, in shell syntax."""

    def write_text(self, text: str) -> None:
        """Write a text with its paragraphs wrapped."""
        indent = " " * self.current_indent
        lines = wrap_text(text, self.width, indent, indent, preserve_paragraphs=True)
        for line in lines.split("\n"):
            for part in _continued(line, self.width):
                self.write(f"{part}\n")


def _continued(line: str, width: int) -> list[str]:
    """Break a command of `mlusim` into shell lines of at most `width`, where there is an option to break at."""
    if len(line) <= width or not line.lstrip().startswith("mlusim "):
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    # Keep an option and its values together.
    options: list[str] = []
    for word in _WORD.findall(line):
        if not options or word.startswith(("--", "-o", '"', "&&")):
            options.append(word)
        else:
            options[-1] += f" {word}"
    parts = [indent + options[0]]
    for option in options[1:]:
        if len(parts[-1]) + len(option) + len(" " + " \\") > width:
            parts.append(f"{indent}    {option}")
        else:
            parts[-1] += f" {option}"
    return [*(f"{part} \\" for part in parts[:-1]), parts[-1]]


class HelpContext(click.Context):
    """A context with our help formatter."""

    formatter_class = HelpFormatter


class SectionedCommand(click.Command):
    """A command whose help groups its options under headings.

    Args:
        sections: names of parameters, or of options, under each heading; all others come last.
    """

    context_class = HelpContext

    def __init__(self, *args: Any, sections: Mapping[str, Iterable[str]] | None = None, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self._sections = {head: tuple(names) for head, names in (sections or {}).items()}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        records = {}
        for parameter in self.get_params(ctx):
            # Arguments are shown in the usage line.
            record = None if isinstance(parameter, click.Argument) else parameter.get_help_record(ctx)
            if record is not None:
                records[parameter.name or ""] = record
        for head, names in self._sections.items():
            rows = [records.pop(name) for name in names if name in records]
            if rows:
                with formatter.section(head):
                    formatter.write_dl(rows)
        if records:
            with formatter.section("Other" if self._sections else "Options"):
                formatter.write_dl(list(records.values()))
