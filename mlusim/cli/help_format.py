"""The help of commands: options by section, and examples that continue on the next line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
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
            for part in _shell_lines(line, self.width):
                self.write(f"{part}\n")


def _shell_lines(line: str, width: int) -> list[str]:
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


# A parameter of a command, or a decorator that adds one or several to a function.
Option = click.Parameter | Callable[[Any], Any]
Sections = Mapping[str, Sequence[Option]]


class SectionedCommand(click.Command):
    """A command whose help groups its options under headings.

    Args:
        params: parameters under the last heading.
        sections: by heading, the parameters under it.
    """

    context_class = HelpContext

    def __init__(
        self,
        name: str | None,
        *,
        params: Sequence[click.Parameter] | None = None,
        sections: Sections | None = None,
        **attributes: Any,
    ) -> None:
        self._sections = {
            head: [parameter for option in options for parameter in _parameters(option)]
            for head, options in (sections or {}).items()
        }
        super().__init__(name, params=[*(params or ()), *chain(*self._sections.values())], **attributes)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        listed = [*chain(*self._sections.values())]
        others = [parameter for parameter in self.get_params(ctx) if parameter not in listed]
        last = "Other" if self._sections else "Options"
        for head, parameters in (*self._sections.items(), (last, others)):
            if rows := option_rows(ctx, parameters):
                with formatter.section(head):
                    formatter.write_dl(rows)


def option_rows(ctx: click.Context, parameters: Sequence[click.Parameter]) -> list[tuple[str, str]]:
    """Return the rows of the help for those parameters that are options; the usage line shows the others."""
    options = (parameter for parameter in parameters if isinstance(parameter, click.Option))
    return [record for option in options if (record := option.get_help_record(ctx)) is not None]


def _parameters(option: Option) -> list[click.Parameter]:
    """Return the parameters that a decorator adds, in their order."""
    if isinstance(option, click.Parameter):
        return [option]

    def function() -> None:
        """Collect them."""

    added: list[click.Parameter] = option(function).__click_params__
    return added[::-1]
