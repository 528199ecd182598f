"""`mlusim compare|tune FILE.py:KERNEL`: compare user kernels, and find their fastest settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.kernel_arguments import METAVAR, call_of, kernel_command, settings_of
from mlusim.cli.kernel_completion import complete_kernel_argument
from mlusim.cli.options import (
    device_name_option,
    devices_option,
    full_option,
    output_options,
    parameters,
    steady_option,
)

if TYPE_CHECKING:
    from mlusim.explore.kernel_call import KernelCall
    from mlusim.results.result import Result


def make_compare(kernel_name: str) -> click.Command:
    """Create `mlusim compare FILE.py:KERNEL [FILE.py:KERNEL]...`."""
    command = kernel_command(
        kernel_name,
        _compare,
        "Compare kernels of your own, or one with several settings; checks that their outputs are equal.",
        "mlusim compare add.py:simple add.py:buffered --shape 1000000",
        several=True,
        sections={"Output": ("no_data", "steady", "full", "as_json", "quiet")},
    )
    command.params += parameters(
        click.argument("others", nargs=-1, metavar=f"[{METAVAR}]...", shell_complete=complete_kernel_argument),
        devices_option,
        click.option("--no-data", is_flag=True, help="Timing only: results are not compared."),
        steady_option,
        full_option,
        output_options,
    )
    return command


def _compare(
    kernel_name: str,
    *,
    others: Sequence[str],
    device: str,
    no_data: bool,
    steady: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
    **own: Any,
) -> None:
    from mlusim.bangc.kernel_files import KernelName, is_kernel_file
    from mlusim.cli.comparison import print_comparison
    from mlusim.explore.axis_values import boards_of
    from mlusim.explore.compare import compare

    boards = boards_of(device)
    calls = {}
    more = {"steady": True} if steady else {}
    options = kernel_name.options if isinstance(kernel_name, KernelName) else {}
    kernels = (kernel_name, *(KernelName(other, options) if is_kernel_file(other) else other for other in others))
    for name in kernels:
        for board in boards:
            for label, call in _calls(name, **own):
                words = [call.kernel.name if len({*kernels}) > 1 else "", board.name if len(boards) > 1 else "", label]
                calls[", ".join(filter(None, words)) or call.kernel.name] = (call, board)

    def operation(strategy: str) -> Result:
        call, board = calls[strategy]
        return call.run(board, data=not no_data, progress=not quiet, **more)

    rows = compare(operation, calls)
    title = f"{', '.join(kernels)} on {', '.join(board.name for board in boards)}"
    facts = {
        "kernels": list(kernels),
        "boards": [board.name for board in boards],
        "inputs": next(iter(calls.values()))[0].tensors(),
    }
    print_comparison(
        title, "kernel", rows, facts, boards=boards, data=not no_data, full=full, as_json=as_json, quiet=quiet
    )


def _calls(
    kernel_name: str, *, settings: Sequence[str], dim: Sequence[tuple[int, ...]], kind: list[str] | None, **own: Any
) -> list[tuple[str, KernelCall]]:
    """Return a call per combination of settings and launches, each with a label of its differences."""
    from dataclasses import replace
    from itertools import product

    from mlusim.explore.sources import kernel_of

    base = call_of(kernel_name, settings=(), dim=None, kind=None, **own)
    axes: dict[str, list[Any]] = settings_of(kernel_of(kernel_name), settings)
    launches: dict[str, list[Any]] = {"dim": list(dim)} if dim else {}
    if kind:
        launches["kind"] = kind
    lists = [*axes.items(), *launches.items()]  # a setting may also be named dim or kind
    results = []
    for values in product(*(several for _, several in lists)):
        pairs = [(name, value) for (name, _), value in zip(lists, values, strict=True)]
        label = ", ".join(f"{name}={value}" for (name, value), (_, of) in zip(pairs, lists, strict=True) if len(of) > 1)
        results.append((label, replace(base, settings=dict(pairs[: len(axes)]), launch=dict(pairs[len(axes) :]))))
    return results


def make_tune(kernel_name: str) -> click.Command:
    """Create `mlusim tune FILE.py:KERNEL`."""
    from mlusim.cli.tune import TUNE_OPTIONS

    command = kernel_command(
        kernel_name,
        _tune,
        "Find the fastest settings of a kernel of your own, by running every combination of the given values.",
        "mlusim tune add.py:add --shape 1000000 --set tile=1024..16384*2",
        several=True,
        sections={
            "How it runs": ("db", "workers"),
            "Output": ("show_all", "full", "as_json", "quiet"),
        },
    )
    command.params += parameters(device_name_option, *TUNE_OPTIONS)
    return command


def _tune(
    kernel_name: str,
    *,
    device: str,
    db: str | None,
    workers: int | None,
    show_all: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
    arg: Sequence[str],
    settings: Sequence[str],
    shape: tuple[int, ...] | None,
    dtype: Any,
    seed: int,
    steady: bool,
    dim: Sequence[tuple[int, ...]],
    kind: list[str] | None,
    theory_ops: int | None,
) -> None:
    from mlusim.cli.tune import print_tuning
    from mlusim.explore.sources import kernel_of
    from mlusim.explore.tuning import tune

    if db is not None:
        from mlusim.cli.files import check_file

        check_file("--db", db)
    options: dict[str, Any] = {}
    if dim:
        options["dim"] = list(dim)
    if kind:
        options["kind"] = kind
    if theory_ops is not None:
        options["theory_ops"] = theory_ops
    tuning = tune(
        kernel_name,
        shape=shape,
        arguments=arg,
        dtype=dtype,
        device=device,
        seed=seed,
        steady=steady,
        db=db,
        workers=workers,
        progress=not (quiet or as_json),
        settings=settings_of(kernel_of(kernel_name), settings),
        **options,
    )
    print_tuning(tuning, show_all=show_all, full=full, as_json=as_json, quiet=quiet)
    if len(tuning.rows) == 1 and not (tuning.refused or quiet or as_json):
        show.print_text(
            "\nNothing was varied: give several values, such as --set NAME=4,8,16 or --dim 4,1,1 --dim 4,8,1"
        )
