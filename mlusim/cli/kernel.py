"""`mlusim run|verify|compare|tune FILE.py:KERNEL`: a kernel of the user's own, with the options of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from mlusim.cli import show
from mlusim.cli.options import (
    ELEMENT_TYPE,
    FILE,
    INTEGERS,
    SHAPE,
    SectionedCommand,
    check_directory,
    device_name_option,
    device_option,
    devices_option,
    full_option,
    output_options,
    report_option,
    save_run_option,
)
from mlusim.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from mlusim.explore.kernel_call import KernelCall
    from mlusim.results.result import Result

METAVAR = "FILE.py:KERNEL"
_SECTIONS = {
    "Arguments": ("arg", "settings", "shape", "dtype", "seed", "theory_ops"),
    "Board and launch": ("device", "dim", "kind"),
}


def is_kernel(word: str) -> bool:
    """Whether a word of the command line names a kernel in a file, not an operator."""
    return word.endswith((".py", ".mlu")) or ".py:" in word or ".mlu:" in word


def argument_options(*, several: bool = False) -> list[click.Parameter]:
    """Options for a kernel's arguments and its launch; `several`: settings and launches may have several values."""
    more = "; may be repeated, and VALUES be a list or range: tile=1024..8192*2" if several else "; may be repeated"
    operations = click.Option(
        ["--theory-ops"],
        type=click.IntRange(min=0),
        metavar="NUMBER",
        help="Operations that the kernel's purpose needs, for compute_efficiency; 0: it only moves data. "
        "[default: unknown]",
    )
    return [
        operations,
        click.Option(
            ["--arg"],
            multiple=True,
            metavar="[NAME=]VALUE",
            help="An argument, by name or in order: x=x.npy; out=float32:2,8,64, a tensor to write; "
            "x=random:float32:1000; a number. May be repeated.",
        ),
        click.Option(
            ["--set", "settings"],
            multiple=True,
            metavar="NAME=VALUES" if several else "NAME=VALUE",
            help=f"A parameter that has a default: tile=4096{more}.",
        ),
        click.Option(
            ["--shape"],
            type=SHAPE,
            metavar="SHAPE",
            help="Shape of the tensors without --arg: random inputs, and the last one the output.",
        ),
        click.Option(["--dtype"], type=ELEMENT_TYPE, metavar="DTYPE", help="Their element type. [default: float32]"),
        click.Option(
            ["--seed"],
            type=click.IntRange(min=0),
            default=0,
            metavar="NUMBER",
            help="Of random inputs. [default: 0]",
        ),
        click.Option(
            ["--dim"],
            multiple=several,
            type=INTEGERS,
            metavar="GRID",
            help="Grid of the launch: 4,8,1. [default: a task for every core]",
        ),
        click.Option(
            ["--kind"],
            metavar="KINDS" if several else "KIND",
            help=f"BLOCK, UNION1, UNION2, ...{', separated by commas' if several else ''} [default: UNION1]",
        ),
    ]


def call_of(  # noqa: PLR0913 - the options of the command
    given: str,
    *,
    arg: Sequence[str],
    settings: Sequence[str],
    shape: tuple[int, ...] | None,
    dtype: Any,
    seed: int,
    dim: tuple[int, ...] | None,
    kind: str | None,
    theory_ops: int | None = None,
) -> KernelCall:
    """The kernel of `FILE.py:KERNEL` with its arguments. Raises `InputError`."""
    from mlusim.explore.kernel_call import KernelCall
    from mlusim.explore.sources import kernel_of

    kernel = kernel_of(given)
    values = settings_of(kernel, settings)
    several = [name for name, found in values.items() if len(found) != 1]
    if several:
        raise InputError(f"--set {several[0]}: one value for one run; `mlusim compare`, tune and sweep take several")
    launch: dict[str, Any] = {} if dim is None else {"dim": dim}
    return KernelCall(
        kernel=kernel,
        arguments=tuple(arg),
        shape=shape,
        dtype=dtype or "float32",
        settings={name: found[0] for name, found in values.items()},
        launch=launch | ({"kind": kind.upper()} if kind else {}),
        seed=seed,
        theory_ops=theory_ops,
    )


def settings_of(kernel: Any, texts: Sequence[str]) -> dict[str, list[Any]]:
    """Values of `--set NAME=VALUES`, of the types of the defaults. Raises `InputError`."""
    from mlusim.errors import nearest

    found: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name, values = name.strip().replace("-", "_"), values.strip()
        if not (name and equals and values):
            raise InputError(f"--set {text}: write NAME=VALUE")
        if name not in kernel.settings:
            has = f"it has {', '.join(kernel.settings)}" if kernel.settings else "it has none"
            near = nearest(name, kernel.settings)
            raise InputError(f"--set {name}: {kernel.name} has no such parameter with a default; {near}{has}")
        found[name] = _setting(name, values, kernel.settings[name])
    return found


def _setting(name: str, text: str, default: Any) -> list[Any]:
    """Values of a setting, of its default's type."""
    from mlusim.explore.values import numbers

    if isinstance(default, bool):
        words = {"true": True, "false": False, "1": True, "0": False}
        parts = [part.strip().lower() for part in text.split(",")]
        if not all(part in words for part in parts):
            raise InputError(f"--set {name}={text}: choose true or false")
        return [words[part] for part in parts]
    if isinstance(default, int | float):
        return numbers(name, text, whole=isinstance(default, int))
    return text.split(",")


def _command(given: str, callback: Callable[..., Any], about: str, example: str, **more: Any) -> Any:
    sections = {**_SECTIONS, **more.pop("sections", {})}
    several = more.pop("several", False)
    return SectionedCommand(
        given,
        params=argument_options(several=several),
        sections=sections,
        callback=partial(callback, given),
        help=f"{about}\n\n\b\nExample:\n  {example}",
        short_help=about,
        **more,
    )


def make_run(given: str) -> click.Command:
    """`mlusim run FILE.py:KERNEL`."""
    command = _command(
        given,
        _run,
        "A kernel of your own.",
        "mlusim run add.py:add --arg x=x.npy --arg y=y.npy --arg out=float32:1000000 --report report/",
        sections={
            "What is done": ("check", "no_data", "dma"),
            "Output": ("out", "report", "save_run", "as_json", "quiet"),
        },
    )
    for option in (
        device_option,
        click.option("--check", is_flag=True, help="Verify the run: races, bytes read unwritten, who writes what."),
        click.option("--no-data", is_flag=True, help="Timing only: tensors have sizes but no bytes."),
        click.option(
            "--dma",
            type=click.Choice(["complete", "late"]),
            default="complete",
            show_default=True,
            help="When an asynchronous copy acts: as it completes, or only when a sync orders it.",
        ),
        click.option(
            "--out",
            "--output",
            "-o",
            multiple=True,
            metavar="[NAME=]FILE",
            help="Write an output there, as .npy; by name where there are several.",
        ),
        report_option,
        save_run_option,
        output_options,
    ):
        option(command)
    return command  # type: ignore[no-any-return]


def _run(  # noqa: PLR0913 - the options of the command
    given: str,
    *,
    device: Any,
    check: bool,
    no_data: bool,
    dma: str,
    out: Sequence[str],
    report: str | None,
    save_run: str | None,
    as_json: bool,
    quiet: bool,
    **own: Any,
) -> None:
    check_directory("--report", report)
    call = call_of(given, **own)
    finish_kernel(
        call,
        device,
        check=check,
        no_data=no_data,
        dma=dma,
        out=out,
        report=report,
        save_run=save_run,
        as_json=as_json,
        quiet=quiet,
        title=f"{call.kernel.name} of {given} on {device.name}\n",
        inputs=[given, *(text.partition("=")[2] or text for text in own["arg"])],
    )


def finish_kernel(  # noqa: PLR0913 - the options of the command
    call: KernelCall,
    device: Any,
    *,
    check: bool,
    no_data: bool,
    dma: str,
    out: Sequence[str],
    report: str | None,
    save_run: str | None,
    as_json: bool,
    quiet: bool,
    title: str,
    inputs: Sequence[str] = (),
) -> int:
    """Run a kernel with its arguments, write what is asked for, print the summary; 1 where verification failed."""
    from mlusim.cli.files import check_file, write_array
    from mlusim.cli.run import finish
    from mlusim.dtypes import dtype_name

    saved = check_file("--save-run", save_run, inputs) if save_run is not None else None
    if out and no_data:
        raise InputError("--out with --no-data: there is no result to write")
    targets = _targets(out, inputs)
    options = {} if call.kernel.launches else {"check": check, "dma": dma}
    result = call.run(device, data=not no_data, progress=not quiet, **options)
    written = []
    for name, path in targets.items():
        array = _output(result, name)
        write_array("--out", path, array)
        written.append({"file": str(path), "dtype": dtype_name(array.dtype), "shape": list(array.shape)})
    finish(
        result,
        target=None,
        report=report,
        saved=saved,
        as_json=as_json,
        quiet=quiet,
        checked=check,
        title=title,
        more={"outputs": written} if written else None,
    )
    if not (as_json or quiet):
        for one in written:
            show.print_text(f"wrote {one['file']}: {one['dtype']} {one['shape']}")
    return 0 if result.report is None or result.report.ok else 1


def _targets(out: Sequence[str], inputs: Sequence[str]) -> dict[str, Path]:
    """Files of `--out`, by the output's name; an empty name for the only one."""
    from mlusim.cli.files import check_output

    found: dict[str, Path] = {}
    for text in out:
        name, equals, file = text.partition("=")
        if not equals:
            name, file = "", text
        path = check_output("--out", file, inputs)
        if any(path.resolve() == other.resolve() for other in found.values()):
            raise InputError(f"--out {text}: another output goes to {file}: name two files")
        found[name] = path
    return found


def _output(result: Result, name: str) -> Any:
    known = list(result.outputs)
    if not known:
        raise InputError("--out: the kernel has no output; give one as --arg out=float32:2,8,64")
    if not name and len(known) > 1:
        raise InputError(f"--out: the kernel has several outputs; name one, as in --out {known[0]}=FILE.npy")
    if name and name not in known:
        raise InputError(f"--out {name}: the kernel has no such output; it has {', '.join(known)}")
    return result.outputs[name or known[0]]


def make_verify(given: str) -> click.Command:
    """`mlusim verify FILE.py:KERNEL`."""
    command = _command(
        given,
        _verify,
        "Verify a kernel of your own: races, bytes read unwritten, hangs, wrong results.",
        "mlusim verify add.py:add --shape 1000000 --reference add.py:expected",
        sections={"Verification": ("reference", "tolerance", "dma", "rewrites"), "Output": ("as_json", "quiet")},
    )
    for option in (
        device_option,
        click.option(
            "--reference",
            type=FILE,
            metavar="FILE",
            help="What the output should be: an .npy file, or FILE.py:FUNCTION, a function of the inputs.",
        ),
        click.option(
            "--tolerance",
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="NUMBER",
            help="Largest difference from the reference, relative to it. [default: 0, bit for bit]",
        ),
        click.option("--rewrites", multiple=True, metavar="NAME", help="An output that may be written more than once."),
        click.option(
            "--dma",
            type=click.Choice(["complete", "late"]),
            default="complete",
            show_default=True,
            help="When an asynchronous copy acts: as it completes, or only when a sync orders it.",
        ),
        output_options,
    ):
        option(command)
    return command  # type: ignore[no-any-return]


def _verify(
    given: str,
    *,
    device: Any,
    reference: str | None,
    tolerance: float,
    rewrites: Sequence[str],
    dma: str,
    as_json: bool,
    quiet: bool,
    **own: Any,
) -> int:
    call = call_of(given, **own)
    wanted = None if reference is None else _reference(reference)
    report = call.verify(device, reference=wanted, tolerance=tolerance, rewrites=tuple(rewrites), dma=dma)
    if as_json:
        show.print_json(_without_folders(report.to_json()))
    elif not quiet:
        show.print_text(report.text())
    return 0 if report.ok else 1


def _without_folders(value: Any) -> Any:
    """The same JSON, files by their names: nothing of this machine."""
    from pathlib import PurePath

    if isinstance(value, dict):
        return {
            key: PurePath(item).name if key == "file" and isinstance(item, str) else _without_folders(item)
            for key, item in value.items()
        }
    return [_without_folders(item) for item in value] if isinstance(value, list) else value


def _reference(text: str) -> Any:
    """An array from a file, or a function from a file."""
    if is_kernel(text):
        from mlusim.explore.sources import function_of

        return function_of(text)
    from mlusim.cli.files import read_array

    return read_array("--reference", text)


def make_compare(given: str) -> click.Command:
    """`mlusim compare FILE.py:KERNEL [FILE.py:KERNEL]...`."""
    command = _command(
        given,
        _compare,
        "Kernels of your own side by side, or one with several settings; their outputs are checked equal.",
        "mlusim compare add.py:simple add.py:buffered --shape 1000000",
        several=True,
        sections={"Output": ("no_data", "full", "as_json", "quiet")},
    )
    for option in (
        click.argument("others", nargs=-1, metavar=f"[{METAVAR}]..."),
        devices_option,
        click.option("--no-data", is_flag=True, help="Timing only: results are not compared."),
        full_option,
        output_options,
    ):
        option(command)
    return command  # type: ignore[no-any-return]


def _compare(
    given: str, *, others: Sequence[str], device: str, no_data: bool, full: bool, as_json: bool, quiet: bool, **own: Any
) -> None:
    from mlusim.cli.comparison import print_comparison
    from mlusim.explore.compare import compare
    from mlusim.explore.grid import boards_of

    boards = boards_of(device)
    calls = {}
    kernels = (given, *others)
    for name in kernels:
        for board in boards:
            for label, call in _calls(name, **own):
                words = [call.kernel.name if len({*kernels}) > 1 else "", board.name if len(boards) > 1 else "", label]
                calls[", ".join(filter(None, words)) or call.kernel.name] = (call, board)

    def operation(strategy: str) -> Result:
        call, board = calls[strategy]
        return call.run(board, data=not no_data, progress=not quiet)

    rows = compare(operation, calls)
    title = f"{', '.join(kernels)} on {', '.join(board.name for board in boards)}"
    facts = {"kernels": list(kernels), "boards": [board.name for board in boards]}
    print_comparison(title, "kernel", rows, facts, data=not no_data, full=full, as_json=as_json, quiet=quiet)


def _calls(
    given: str, *, settings: Sequence[str], dim: Sequence[tuple[int, ...]], kind: str | None, **own: Any
) -> list[tuple[str, KernelCall]]:
    """A call for each combination of settings and launches, with what tells it from the others."""
    from dataclasses import replace
    from itertools import product

    from mlusim.explore.sources import kernel_of

    base = call_of(given, settings=(), dim=None, kind=None, **own)
    axes: dict[str, list[Any]] = settings_of(kernel_of(given), settings)
    launches: dict[str, list[Any]] = {"dim": list(dim)} if dim else {}
    if kind:
        launches["kind"] = kind.upper().split(",")
    found = []
    for values in product(*axes.values(), *launches.values()):
        chosen = dict(zip((*axes, *launches), values, strict=True))
        label = ", ".join(f"{name}={value}" for name, value in chosen.items() if len((axes | launches)[name]) > 1)
        setting = {name: value for name, value in chosen.items() if name in axes}
        launch = {name: value for name, value in chosen.items() if name in launches}
        found.append((label, replace(base, settings=setting, launch=launch)))
    return found


def make_tune(given: str) -> click.Command:
    """`mlusim tune FILE.py:KERNEL`."""
    from mlusim.cli.tune import tune_options

    command = _command(
        given,
        _tune,
        "Find the fastest settings of a kernel of your own: every combination of the values given runs.",
        "mlusim tune add.py:add --shape 1000000 --set tile=1024..16384*2",
        several=True,
        sections={
            "How it runs": ("db", "workers"),
            "Output": ("show_all", "full", "as_json", "quiet"),
        },
    )
    device_name_option(command)
    command.params += tune_options()
    return command  # type: ignore[no-any-return]


def _tune(  # noqa: PLR0913 - the options of the command
    given: str,
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
    dim: Sequence[tuple[int, ...]],
    kind: str | None,
    theory_ops: int | None,
) -> None:
    from mlusim.cli.tune import print_tuning
    from mlusim.explore.sources import kernel_of
    from mlusim.explore.tuning import tune

    if db is not None:
        from mlusim.cli.files import check_file

        check_file("--db", db)
    options: dict[str, Any] = settings_of(kernel_of(given), settings)
    if dim:
        options["dim"] = list(dim)
    if kind:
        options["kind"] = kind.upper().split(",")
    if theory_ops is not None:
        options["theory_ops"] = theory_ops
    found = tune(
        given,
        shape=shape,
        arguments=arg,
        dtype=dtype,
        device=device,
        seed=seed,
        db=db,
        workers=workers,
        progress=not (quiet or as_json),
        **options,
    )
    print_tuning(found, show_all=show_all, full=full, as_json=as_json, quiet=quiet)
