"""`mlusim verify`: run and verify a user's kernel or an operator."""

from __future__ import annotations

from typing import Any

import click

from mlusim.cli.kernel import make_verify
from mlusim.cli.kernel_arguments import is_kernel
from mlusim.cli.run import OperatorGroup, help_if_alone, make_operator

_HELP = """\
Verify a kernel of your own: races, uninitialised reads, deadlocks, wrong results; where, why, and the remedy.

For an operator, this is `mlusim run OPERATOR --check`. The exit code is 1 if there is an error.

\b
Examples:
  mlusim verify add.py:add --shape 1000000
  mlusim verify add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000 --reference add.py:expected
  mlusim verify cast --shape 4096 --dtype float16
"""


class VerifyGroup(OperatorGroup):
    """A kernel has its own options; an operator those of `mlusim run`, and `--check`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As `mlusim run`, with `--check`."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest if is_kernel(str(name)) else [*rest, "--check"]


@click.group(
    cls=VerifyGroup, help=_HELP, short_help="Verify a kernel or an operator.", make=make_operator, kernel=make_verify
)
@click.pass_context
def verify(context: click.Context) -> None:
    """Verify a kernel or an operator."""
    help_if_alone(context)
