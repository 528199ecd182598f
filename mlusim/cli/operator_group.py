"""Groups of commands for operators and kernels: `mlusim run OPERATOR`, `mlusim run FILE.py:KERNEL`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.help_format import SectionedCommand, Sections, option_rows
from mlusim.cli.kernel_arguments import METAVAR
from mlusim.cli.kernel_completion import complete_kernel
from mlusim.cli.operators import SUMMARIES
from mlusim.source_code import is_kernel_name
from mlusim.spelling import choose_one

if TYPE_CHECKING:
    from mlusim.ops.commands import Command


@click.pass_context
def help_if_alone(context: click.Context) -> None:
    """Print the help of a group without a subcommand; within the program this is wrong usage, exit code 2."""
    if context.invoked_subcommand is None:
        inner = context.parent is not None
        click.echo(context.get_help(), err=inner)
        context.exit(2 if inner else 0)


def _check_single(text: str) -> None:
    """Raise `click.UsageError` if a text is several names of kernels, as in a.py:add,b.py:add."""
    names = text.split(",")
    if len(names) > 1 and all(map(is_kernel_name, names)):
        raise click.UsageError(
            f"{text} is {len(names)} kernels: separate them by spaces for `mlusim compare`; other commands take one"
        )


class OperatorGroup(click.Group):
    """A command per operator, and one for a kernel of the user; each is created when it is used.

    Args:
        name, help: of the group.
        create: creates the command of an operator.
        make_kernel: creates the command of FILE.py:KERNEL.
    """

    def __init__(
        self,
        name: str,
        *,
        help: str,  # noqa: A002 - click's name
        create: Callable[[Command], click.Command],
        make_kernel: Callable[[str], click.Command],
    ) -> None:
        # Without an operator click would raise an error with the help as its text.
        super().__init__(
            name,
            help=help,
            callback=help_if_alone,
            invoke_without_command=True,
            subcommand_metavar=f"OPERATOR|{METAVAR} [OPTIONS]",
        )
        self._create = create
        self._make_kernel = make_kernel

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the operators."""
        del ctx
        return list(SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the operator's command; None if there is no such operator."""
        del ctx
        if cmd_name not in SUMMARIES:
            return None
        from mlusim.ops.commands import COMMANDS

        return self._create(COMMANDS[cmd_name])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete options and operators; a kernel's file, and its kernels."""
        from click.shell_completion import CompletionItem

        files = [] if incomplete.startswith("-") else complete_kernel(incomplete)
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, files)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As in click, and for a kernel in a file its command. The message lists the operators."""
        if args and is_kernel_name(args[0]):
            _check_single(args[0])
            return args[0], self._make_kernel(args[0]), args[1:]
        if args and not args[0].startswith("-") and args[0] not in SUMMARIES:
            if Path(args[0]).is_file():
                raise click.UsageError(
                    f"{args[0]} is a file, and no kernel: write FILE.py:KERNEL or FILE.mlu:ENTRY; a saved run is for "
                    "explain, diff, report, inspect and retime",
                    ctx,
                )
            operators_text = choose_one(args[0], SUMMARIES)
            raise click.UsageError(
                f"no operator {args[0]!r}; {operators_text}; a kernel of your own is FILE.py:KERNEL or FILE.mlu:ENTRY",
                ctx,
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the operators, and the options of a user kernel."""
        with formatter.section("Operators"):
            formatter.write_dl(list(SUMMARIES.items()))
        rows = option_rows(ctx, self._make_kernel(METAVAR).get_params(ctx))
        with formatter.section(f"Options of {METAVAR}, a kernel of your own in a .py or .mlu file"):
            formatter.write_dl(rows)


class OperatorCommand(SectionedCommand):
    """A command for one operator, whose help ends with the operator's strategies.

    Args:
        command: the operator.
        callback: called with it, and with the options by name.
        about, example: the first and the last lines of the help.
        sections: as in `SectionedCommand`.
    """

    def __init__(
        self,
        command: Command,
        callback: Callable[..., Any],
        *,
        about: str,
        example: str,
        sections: Sections,
    ) -> None:
        super().__init__(
            command.name,
            sections=sections,
            callback=partial(callback, command),
            help=f"{about}\n\n\b\nExample:\n  {example}",
            short_help=SUMMARIES[command.name],
        )
        self._command = command

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write name and summary of each strategy."""
        del ctx
        with formatter.section("Strategies (the first is the default)"):
            formatter.write_dl(list(self._command.operator.strategies.items()))
