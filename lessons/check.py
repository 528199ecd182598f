"""Check an exercise: `python lessons/check.py lessons/exercises/03_double_buffering.py`.

An exercise of your own is a function that returns an `Exercise`: `python lessons/check.py halve.py class.py:halve`.

It prints "pass", or the first problem: a finding of `mlusim.verify` (wrong values, races, bytes that were never
written, a buffer that does not fit), or the distance to the target of the lesson. The exit code is 0 for a pass, 1 for
a problem, and 2 for a file that is not an exercise.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mlusim
from mlusim import Board, board
from mlusim.explore.python_files import function_of
from mlusim.units import group_digits
from tools import Step, run

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(11)
X4 = board("mlu370-x4")


@dataclass(frozen=True)
class Case:
    """One run of an exercise.

    Attributes:
        inputs: arrays for the kernel.
        expected: the expected output.
        extra: further arguments, after the output.
        on: the board.
        dim, kind: the launch.
    """

    inputs: tuple[Array, ...]
    expected: Array
    extra: tuple[Any, ...] = ()
    on: Board = X4
    dim: int | None = None
    kind: str = "UNION1"


@dataclass(frozen=True)
class Exercise:
    """Cases whose results must be correct, and a target for the last case: returns what is missing, or nothing."""

    cases: list[Case]
    aim: Callable[[Step], str] = lambda _: ""


class NotYetError(Exception):
    """The problem, in words for the learner."""


def floats(*shape: int) -> Array:
    """Return random numbers."""
    return RNG.standard_normal(shape).astype(np.float32)


def small(nram_bytes: int) -> Board:
    """Return a board with little NRAM."""
    return X4.replace(nram_bytes=nram_bytes, nram_reserved_bytes=0)


def at_most(what: str, value: float, limit: float, hint: str, unit: str = "") -> str:
    """Return the message for a figure that is too large; empty if it is not."""
    if value <= limit:
        return ""
    found, most = group_digits(round(value)), group_digits(round(limit))
    return f"correct, but {what} is {found}{unit} and should be at most {most}{unit}: {hint}"


def time_at_most(limit_us: float, hint: str, what: str = "the time") -> Callable[[Step], str]:
    """Return the target of an exercise for its time."""
    return lambda step: at_most(what, step.result.time_us, limit_us, hint, " us")


def one_core() -> Exercise:
    """01: scale a vector."""
    cases = [Case((x := floats(count),), 2 * x, dim=1, kind="BLOCK") for count in (8192, 8192 * 5)]
    return Exercise(cases)


def all_cores() -> Exercise:
    """02: distribute tiles."""

    def aim(step: Step) -> str:
        busy = step.result.metrics.task_busy_ps
        idle = int((busy == 0).sum() - 8)  # the memory cores have nothing to do
        if idle > 0:
            return f"correct, but {idle} of 32 tasks do nothing: task k takes tiles k, k + task_dim, ..."
        return ""

    cases = [Case((x := floats(count), y := floats(count)), x + y) for count in (4096 * 3, 4096 * 32, 4096 * 70)]
    return Exercise(cases, aim)


def double_buffering() -> Exercise:
    """03: hide the compute and the start-up of copies."""
    cases = [Case((x := floats(4096 * tiles),), 3 * x, dim=1, kind="BLOCK") for tiles in (1, 2, 3, 100)]
    hint = "let load i + 1, compute i and store i - 1 share a step"
    return Exercise(cases, time_at_most(120, hint, "the time of one core"))


def sram() -> Exercise:
    """04: load a table once for a cluster."""

    def aim(step: Step) -> str:
        table = 4096 * 24 * 4
        return at_most(
            "the number of bytes read from DRAM", step.result.bus_bytes["read"], 8 * table,
            "each of 8 clusters needs the table once; its memory core can load it to SRAM", " B",
        )  # fmt: skip

    cases = []
    for parts in (1, 2, 24):
        x = RNG.integers(-9, 9, (parts, 4096)).astype(np.float32)
        cases.append(Case((x,), np.broadcast_to(x.sum(axis=0), (32, 4096)).astype(np.float32)))
    return Exercise(cases, aim)


def three_tiers() -> Exercise:
    """05: a copy that must also work where a channel does not fit."""
    x = floats(12, 10, 64)
    return Exercise([Case((x,), x), Case((x,), x, on=small(1024)), Case((x,), x, on=small(768))])


def time_split() -> Exercise:
    """06: all boundaries."""
    x = floats(10, 16)
    cases = []
    for shift in (0, 4, -4, 8, 1, -1, 5, -5, 9, -9, 10, -11):
        expected = np.zeros_like(x)
        kept = max(10 - abs(shift), 0)
        source, target = max(-shift, 0), max(shift, 0)
        expected[target : target + kept] = x[source : source + kept]
        cases.append(Case((x,), expected, extra=(shift,), on=small(256), dim=1, kind="BLOCK"))
    return Exercise(cases)


def clearing() -> Exercise:
    """07: clear the margins only."""

    def aim(step: Step) -> str:
        columns, log = step.result.log.columns(), step.result.log
        fills = np.isin(columns["op"], [log.ops.index(name) for name in ("fill", "write_zero") if name in log.ops])
        cleared = int(columns["bytes_requested"][fills].sum())
        return at_most(
            "the size of what is cleared", cleared, 64 * 2 * 32 * 4,
            "the margins of a row are 2 x 32 elements; the middle is loaded anyway", " B",
        )  # fmt: skip

    cases = []
    for rows in (1, 40, 64):
        x = floats(rows, 500)
        cases.append(Case((x,), np.pad(x, ((0, 0), (32, 32))), extra=(32,)))
    return Exercise(cases, aim)


def gather() -> Exercise:
    """08: copy runs of rows."""
    rows = [*range(40, 72), 3, *range(100, 140), 7, 9, *range(200, 256)]

    def aim(step: Step) -> str:
        operations = step.result.metrics.operations
        copies = sum(count for name, count in operations.items() if name.startswith("memcpy"))
        return at_most("the number of copies", copies, 2 * 6 + 6, "find the 6 sequences of consecutive rows")

    x = floats(256, 64)
    cases = [
        Case((x,), x[chosen], extra=(chosen,), dim=1, kind="BLOCK") for chosen in ([5], [1, 3, 2], [0, 1, 255], rows)
    ]
    return Exercise(cases, aim)


def small_stores() -> Exercise:
    """09: store whole units."""

    def aim(step: Step) -> str:
        bus = step.result.bus_bytes["write"]
        return at_most(
            "the number of bytes written on the bus", bus, 256 * 8 * 4, "collect rows in NRAM, store once", " B"
        )

    cases = []
    for rows in (8, 256):
        x = floats(rows, 64)
        cases.append(Case((x,), x[:, :8].copy(), dim=1, kind="BLOCK"))
    return Exercise(cases, aim)


def missing_sync() -> Exercise:
    """10: races that the result does not show."""
    return Exercise([Case((x := floats(4096 * tiles), y := floats(4096 * tiles)), x * y + x) for tiles in (1, 32, 40)])


def fill_the_bus() -> Exercise:
    """11: a fast copy."""

    def aim(step: Step) -> str:
        share = step.gbytes_per_s * 1e9 / X4.dram_bandwidth_bytes_per_s
        if share >= 0.7:
            return ""
        return f"correct, but at {share:.0%} of the DRAM's bandwidth; the target is 70 %: larger tiles, two buffers"

    return Exercise([Case((x := floats(count),), x) for count in (32, 10_000, 1 << 21)], aim)


def matmul_ladder() -> Exercise:
    """12: three stages around the tensor pipe."""
    weights = RNG.integers(-8, 8, (256, 128)).astype(np.float32)  # the filters, one a row
    laid = np.ascontiguousarray(weights.reshape(4, 64, 128).swapaxes(0, 1))
    cases = []
    for rows in (128, 1280, 16384):
        x = RNG.integers(-8, 8, (rows, 128)).astype(np.float32)
        cases.append(Case((x, laid), x @ weights.T, on=board("mlu370-x8")))
    return Exercise(cases, time_at_most(150, "let load i + 1, matmul i and store i - 1 share a step"))


def bang_c() -> Exercise:
    """13: three stages in BANG C."""
    cases = []
    for count in (100, 4096 * 3 + 64, 4096 * 100):
        x, y = floats(count), floats(count)
        cases.append(Case((x, y), x + y, (count,), dim=1, kind="BLOCK"))
    hint = "let the loads of tile i + 1, the add of tile i and the store of tile i - 1 share a step"
    return Exercise(cases, time_at_most(150, hint, "the time of one core"))


EXERCISES: dict[str, Callable[[], Exercise]] = {
    "01": one_core,
    "02": all_cores,
    "03": double_buffering,
    "04": sram,
    "05": three_tiers,
    "06": time_split,
    "07": clearing,
    "08": gather,
    "09": small_stores,
    "10": missing_sync,
    "11": fill_the_bus,
    "12": matmul_ladder,
    "13": bang_c,
}


def load_kernel(path: Path) -> Any:
    """Return the function `kernel` of a file. Raises `NotYetError` if there is none."""
    try:
        kernel = function_of(f"{path}:kernel")
    except mlusim.InputError as error:
        raise NotYetError(str(error)) from error
    if not inspect.iscoroutinefunction(kernel):
        raise NotYetError("`kernel` is not a kernel: write it as `async def kernel(core, ...)`, without `yield`")
    return kernel


def exercise_of(name: str) -> Exercise:
    """Return the exercise of `file.py:function`. Raises `mlusim.InputError`."""
    try:
        exercise = function_of(name)()
    except TypeError as error:
        raise mlusim.InputError(f"{name}: {error}; an exercise is a function without arguments") from error
    if not isinstance(exercise, Exercise) or not exercise.cases:
        raise mlusim.InputError(f"{name} returns no exercise with cases: return Exercise([Case((x,), 2 * x)])")
    return exercise


def check(path: Path, exercise: Exercise | None = None) -> str:
    """Return the message for a pass; `exercise`: one of your own. Raises `NotYetError` with the problem."""
    exercise = exercise or EXERCISES[path.name[:2]]()
    kernel = load_kernel(path)
    for case in exercise.cases:
        target = mlusim.Output.like(case.expected)
        try:
            report = mlusim.verify(
                kernel, *case.inputs, target, *case.extra, device=case.on, dim=case.dim, kind=case.kind,
                reference=case.expected, max_operations=100_000, stall_s=5.0,
            )  # fmt: skip
        except mlusim.MlusimError as error:
            raise NotYetError(str(error)) from error
        if not report.ok:
            shapes = ", ".join(str(list(array.shape)) for array in case.inputs)
            given = "".join(f", {extra!r}" for extra in case.extra)
            findings = str(report).partition("\n\nsplit proof")[0].partition("\n\n")[2]
            raise NotYetError(f"with inputs {shapes}{given}:\n\n{findings}")
    last = exercise.cases[-1]
    step = run(
        kernel, *last.inputs, out=(last.expected.shape, last.expected.dtype), board=last.on, extra=last.extra,
        dim=last.dim, kind=last.kind,
    )  # fmt: skip
    missing = exercise.aim(step)
    if missing:
        raise NotYetError(missing)
    return (
        f"pass: {len(exercise.cases)} cases are correct and free of races; the last takes {step.result.time_us:.2f} us"
    )


def main(arguments: list[str]) -> int:
    """Check the file named on the command line."""
    own = len(arguments) == 2
    file = Path(arguments[0] if len(arguments) in (1, 2) else "")
    if file.suffix == ".mlu":
        file = file.with_suffix(".py")  # which compiles it
    if arguments and not file.is_file():
        print(f"{file}: no such file", file=sys.stderr)
        return 2
    if not own and file.name[:2] not in EXERCISES:
        print(
            f"usage: python lessons/check.py lessons/exercises/NN_name.py ({min(EXERCISES)} to {max(EXERCISES)}), "
            "or FILE.py CLASS.py:FUNCTION for an exercise of your own",
            file=sys.stderr,
        )
        return 2
    try:
        exercise = exercise_of(arguments[1]) if own else None
    except mlusim.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        print(check(file, exercise))
    except NotYetError as error:
        print(f"not yet: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.modules["check"] = sys.modules["__main__"]  # an exercise of your own imports its classes from here
    sys.exit(main(sys.argv[1:]))
