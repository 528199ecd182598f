"""`mlusim compare OPERATOR`, `mlusim compare FILE.py:KERNEL`: strategies or kernels on one input; equal results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli.compare_table import comparison_json, print_comparison
from mlusim.cli.kernel_arguments import METAVAR, call_of, given_options, kernel_command, settings_of
from mlusim.cli.kernel_completion import complete_kernel_argument
from mlusim.cli.operator_group import OperatorCommand, OperatorGroup
from mlusim.cli.operator_inputs import input_sections, inputs_json, read_operator_inputs, strategies_option
from mlusim.cli.operators import SUMMARIES
from mlusim.cli.options import devices_option, full_option, print_options, steady_option
from mlusim.cli.provenance import print_with_provenance, provenance
from mlusim.errors import InputError, PlanError

if TYPE_CHECKING:
    from mlusim.explore.kernel_call import KernelCall
    from mlusim.hardware import Board
    from mlusim.ops.call import Call
    from mlusim.ops.commands import Command
    from mlusim.results.result import Result

_no_data_option = click.option("--no-data", is_flag=True, help="Timing only: results are not compared.")
_OUTPUT_OPTIONS = (_no_data_option, steady_option, full_option, print_options)
_PRINTING = ("full", "as_json", "quiet")


def _make_operator(command: Command) -> click.Command:
    strategies = strategies_option(
        command, "Strategies, separated by commas, or all; may be repeated. [default: all]", "strategies"
    )
    return OperatorCommand(
        command,
        _compare,
        about=f"Strategies of {command.name} side by side. {SUMMARIES[command.name]}",
        example=f"mlusim compare {command.name} {_example(command)}",
        sections={
            **input_sections(command),
            "Board and split": (devices_option, strategies),
            "Output": _OUTPUT_OPTIONS,
        },
    )


_HELP = """\
Compare the strategies of an operator on one input, or kernels of your own.

Runs each, checks that the results are equal bit for bit, and prints time, bytes and where the time went.

\b
Examples:
  mlusim compare tin_shift --shape 2,8,256,196 --dtype float16 --device mlu370-x4
  mlusim compare tin_shift --input clip.npy --shifts shifts.npy --strategy documented,pingpong
  mlusim compare add.py:simple add.py:buffered --shape 1000000
"""


def _example(command: Command) -> str:
    """Return the first tensors of its example for `mlusim run`, without files to write."""
    return command.operator.usage.partition(" --out")[0].partition(" --explain")[0]


def _compare(
    command: Command, *, device: str, strategies: tuple[str, ...], no_data: bool, steady: bool, **options: Any
) -> None:
    from mlusim.explore.axis_values import boards_of
    from mlusim.host.steady.steady import check_steady
    from mlusim.ops.call import run

    check_steady(steady=steady, data=not no_data)
    boards = boards_of(device)
    operator, _ = command.choose(options)
    arrays = read_operator_inputs(command, options, boards, data=not no_data)
    listed = [name.strip() for text in strategies for name in text.split(",")]
    named_strategies = () if "all" in listed else tuple(dict.fromkeys(listed))
    # Errors are reported before the first run.
    calls, refused = _prepare_calls(
        product(boards, named_strategies or operator.strategies),
        partial(command.prepare, options, arrays),
        labelled=len(boards) > 1,
    )
    if refused and (named_strategies or not calls):
        first = next(iter(refused.values()))
        raise first if named_strategies else PlanError(f"no strategy of {operator.name} has a plan for this: {first}")
    names = [board.name for board in boards]
    shapes = ", ".join(f"{array.dtype} {list(array.shape)}" for array in arrays)
    _run_and_print(
        {label: partial(run, call, data=not no_data, steady=steady) for label, call in calls.items()},
        boards,
        {"operator": operator.name, "board": names[0], "boards": names, "inputs": inputs_json(arrays)},
        title=f"{operator.name} on {', '.join(names)}: {shapes}",
        case_heading="device, strategy" if len(boards) > 1 else "strategy",
        refused={label: str(error) for label, error in refused.items()},
        data=not no_data,
        **{name: options[name] for name in _PRINTING},
    )


def _run_and_print(
    runs: Mapping[str, Callable[..., Result]],
    boards: Iterable[Board],
    facts: Mapping[str, Any],
    *,
    title: str,
    case_heading: str,
    refused: Mapping[str, str],
    data: bool,
    full: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Run each case, check that the results are equal, and print the comparison.

    Args:
        runs: the cases, by label.
        boards: their boards.
        facts: what was compared, for the JSON.
        title, case_heading, refused, data, full: as for `print_comparison`.
        as_json, quiet: the options of these names.
    """
    from mlusim.explore.compare import compare as run_all

    rows = run_all(lambda strategy: runs[strategy](progress=not quiet), runs)
    if as_json:
        content = {**facts, **comparison_json(rows, refused, data=data)}
        print_with_provenance("compare", content, provenance(boards))
    elif not quiet:
        print_comparison(title, case_heading, rows, refused, data=data, full=full)


def _prepare_calls(
    combinations: Iterable[tuple[Board, str]], prepare: Callable[[Board, str], Call], *, labelled: bool
) -> tuple[dict[str, Call], dict[str, PlanError]]:
    """Return the calls of boards and strategies that have a plan, and the errors of the others, both by label.

    labelled: labels contain the board, as there are several.
    """
    calls: dict[str, Call] = {}
    refused: dict[str, PlanError] = {}
    for board, name in combinations:
        label = f"{board.name}, {name}" if labelled else name
        try:
            calls[label] = prepare(board, name)
        except PlanError as error:
            refused[label] = error
    return calls, refused


def _make_kernel(kernel_name: str) -> click.Command:
    """Create `mlusim compare FILE.py:KERNEL [FILE.py:KERNEL]...`."""
    others = click.argument("others", nargs=-1, metavar=f"[{METAVAR}]...", shell_complete=complete_kernel_argument)
    return kernel_command(
        kernel_name,
        _compare_kernels,
        about="Compare kernels of your own, or one with several settings, and check that their outputs are equal.",
        example="mlusim compare add.py:simple add.py:buffered --shape 1000000",
        device=devices_option,
        several=True,
        sections={"Kernels": (others,), "Output": _OUTPUT_OPTIONS},
    )


def _compare_kernels(
    kernel_name: str,
    *,
    others: Sequence[str],
    device: str,
    no_data: bool,
    steady: bool,
    **options: Any,
) -> None:
    from mlusim.bangc.kernel_files import KernelName, is_kernel_file
    from mlusim.explore.axis_values import boards_of

    boards = boards_of(device)
    runs = {}
    printing = {name: options.pop(name) for name in _PRINTING}
    compiling = kernel_name.options if isinstance(kernel_name, KernelName) else {}
    kernels = (kernel_name, *(KernelName(other, compiling) if is_kernel_file(other) else other for other in others))
    repeated = [name for name in dict.fromkeys(kernels) if kernels.count(name) > 1]
    if repeated:
        raise InputError(
            f"{repeated[0]} is named twice: name each kernel once; --set and --device give it several variants"
        )
    variants = {name: _calls(name, **options) for name in kernels}
    calls = [call for variant in variants.values() for _, call in variant]
    functions = [variant[0][1].kernel.name for variant in variants.values()]
    for name, variant in variants.items():
        for board, (label, call) in product(boards, variant):
            # Functions of the same name in two files are told apart by their files.
            kernel = name if functions.count(call.kernel.name) > 1 else call.kernel.name
            labels = [kernel if len(variants) > 1 else "", board.name if len(boards) > 1 else "", label]
            case = ", ".join(filter(None, labels)) or kernel
            runs[case] = partial(call.run, board, data=not no_data, steady=steady)
    varied = ["kernel"] * (len(variants) > 1) + ["device"] * (len(boards) > 1)
    varied += ["settings"] * any(label for variant in variants.values() for label, _ in variant)
    names = [board.name for board in boards]
    _run_and_print(
        runs,
        boards,
        {"kernels": list(kernels), "boards": names, "inputs": calls[0].tensors()},
        title=f"{', '.join(kernels)} on {', '.join(names)}",
        case_heading=", ".join(varied) or "kernel",
        refused={},
        data=not no_data,
        **printing,
    )


def _calls(
    kernel_name: str, *, settings: Sequence[str], dim: Sequence[tuple[int, ...]], kind: list[str] | None, **options: Any
) -> list[tuple[str, KernelCall]]:
    """Return a call per combination of settings and launches, each with a label of its differences."""
    from dataclasses import replace

    from mlusim.explore.user_kernels import kernel_of

    base = call_of(kernel_name, {**options, "settings": (), "dim": None, "kind": None})
    axes: dict[str, list[Any]] = settings_of(kernel_of(kernel_name), settings)
    lists = [*axes.items(), *given_options(dim=list(dim), kind=kind).items()]  # a setting may also be named dim or kind
    results = []
    for values in product(*(several for _, several in lists)):
        pairs = [(name, value) for (name, _), value in zip(lists, values, strict=True)]
        swept = [pair for pair, (_, listed) in zip(pairs, lists, strict=True) if len(listed) > 1]
        label = ", ".join(f"{name}={value}" for name, value in swept)
        results.append((label, replace(base, settings=dict(pairs[: len(axes)]), launch=dict(pairs[len(axes) :]))))
    return results


compare = OperatorGroup("compare", help=_HELP, create=_make_operator, make_kernel=_make_kernel)
