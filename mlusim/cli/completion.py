"""`mlusim completion SHELL`: completion of commands, operators, boards, strategies and files."""

from __future__ import annotations

import os
from pathlib import Path

import click

from mlusim.cli.help_format import SectionedCommand
from mlusim.errors import InputError

_SHELLS = ("bash", "zsh", "fish")
_HELP = """\
Print a script that completes the commands and arguments of mlusim with the Tab key.

It completes commands, options, operators, kernels of FILE.py: and their settings, boards, strategies, element types
and files.

\b
To install it for every new shell:
  echo 'eval "$(mlusim completion bash)"' >> ~/.bashrc
  echo 'eval "$(mlusim completion zsh)"' >> ~/.zshrc
  mlusim completion fish > ~/.config/fish/completions/mlusim.fish

\b
Examples:
  mlusim completion bash
  eval "$(mlusim completion)"         # for this shell, named by $SHELL
"""


@click.command(cls=SectionedCommand, help=_HELP)
@click.argument("shell", type=click.Choice(_SHELLS), required=False, metavar="[bash|zsh|fish]")
def completion(shell: str | None) -> None:
    """Print the script that makes a shell complete commands."""
    from mlusim.cli.shells import SHELLS

    if shell is None:
        shell = Path(os.environ.get("SHELL", "")).name
        if shell not in _SHELLS:
            raise InputError(f"which shell? $SHELL does not say: name it, as in `mlusim completion {_SHELLS[0]}`")
    context = click.get_current_context().find_root()
    click.echo(SHELLS[shell](context.command, {}, "mlusim", "_MLUSIM_COMPLETE").source())
