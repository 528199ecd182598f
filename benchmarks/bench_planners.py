"""How much slower the plan of "auto" is than the best plan of an exhaustive search by simulation, on random calls.

    python benchmarks/bench_planners.py                       25 calls for each operator
    python benchmarks/bench_planners.py --calls 200 --show 5 gather cast

A call has a random shape, element type, board and, for two in five, a limit on NRAM. The best plan is the fastest of
all strategies, each with all of that NRAM and with a half, a third, a quarter, a sixth, an eighth and a sixteenth of
it, which gives other tiles and grids. All plans are simulated, timing only. The table has the mean and the largest loss
of "auto", the number of calls with a loss above 15 %, and the mean error of the predicted time of "auto".
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import InputError, OperationLimitError, PlanError
from mlusim.hardware import Board
from mlusim.hardware import board as board_of
from mlusim.hardware.presets import preset_names
from mlusim.host.random_tensors import RandomTensors
from mlusim.ops.call import Call, run
from mlusim.ops.commands import COMMANDS, Command
from mlusim.planning.plan import Plan
from mlusim.units import PS_PER_US

PARTS = (1, 2, 3, 4, 6, 8, 16)
TYPES = ("int8", "float16", "float32", "int64")
MOST_ELEMENTS = 1 << 19
LARGE_LOSS = 0.15
MOST_OPERATIONS = 200_000
ENDLESS_PS = 1 << 62


def shape_of(rng: random.Random, rank: int) -> tuple[int, ...]:
    """Return extents whose product is distributed evenly over orders of magnitude."""
    total = math.exp(rng.uniform(math.log(64), math.log(MOST_ELEMENTS)))
    cuts = [0.0, *sorted(rng.random() for _ in range(rank - 1)), 1.0]
    return tuple(max(1, round(total ** (b - a))) for a, b in pairwise(cuts))


def call_of(name: str, rng: random.Random) -> tuple[tuple[int, ...], str, dict[str, Any]]:
    """Return shape, element type and options of a call."""
    shape = shape_of(rng, rng.choice((2, 2, 3, 4)))
    dtype, axis = rng.choice(TYPES), rng.randrange(len(shape))
    if name == "tin_shift":
        groups, time_steps = rng.choice((1, 2, 4)), rng.choice((4, 8, 16))
        channels = groups * rng.choice((1, 3, 8, 16, 48))
        hw = max(1, int(math.exp(rng.uniform(2, math.log(MOST_ELEMENTS / time_steps / channels)))))
        shape = (rng.choice((1, 2)), time_steps, channels, hw)
        return shape, rng.choice(("float16", "float32")), {"groups": groups}
    every: dict[str, dict[str, Any]] = {
        "reverse": {"axis": tuple(number for number in range(len(shape)) if rng.random() < 1 / 2) or (axis,)},
        "reverse_sequence": {"seq_axis": axis, "batch_axis": (axis + 1) % len(shape)},
        "gather": {"axis": axis},
        "scatter": {"axis": axis},
        "index_select": {"axis": axis, "count": rng.randint(1, 2 * shape[axis])},
        "gather_nd": {"mode": "standard", "index_shape": (rng.randint(1, 2000 // len(shape)), 1)},
        "scatter_nd": {"mode": "standard", "index_shape": (rng.randint(1, 2000 // len(shape)), 1)},
        "cast": {"dtype": dtype_of(rng.choice(("float16", "float32", "int8")))},
    }
    options = every[name]
    if name.endswith("_nd"):
        shape = (shape[0], max(1, min(math.prod(shape[1:]), MOST_ELEMENTS // options["index_shape"][0])))
    return shape, dtype, options


def planned(
    command: Command, options: dict[str, Any], arrays: list[Any], board: Board, strategy: str, limit: int | None
) -> Call | None:
    """Return a call with its plan; None if it does not fit."""
    try:
        return command.prepare(options, arrays, board, strategy, limit)
    except (PlanError, InputError):
        return None


def signature(plan: Plan) -> tuple[object, ...]:
    """Return a key of a plan among those of one call: plans with equal keys are simulated once."""
    tiles = plan.tiles
    columns = (tiles.task, tiles.start, tiles.stop, tiles.nram_bytes)
    return (plan.strategy, plan.kind, plan.dim, repr(plan.parameters), *(column.tobytes() for column in columns))


def simulated(call: Call) -> int:
    """Return the time of a call in picoseconds, timing only; a huge number if a task issues too many operations."""
    try:
        return run(call, data=False, check=False, max_operations=MOST_OPERATIONS).time_ps
    except OperationLimitError:
        return ENDLESS_PS


def loss(name: str, rng: random.Random) -> tuple[float, float, str] | None:
    """Return the loss of auto relative to the best plan, the error of its prediction, and the best plan."""
    command = COMMANDS[name]
    board = board_of(rng.choice(preset_names()))
    usable = board.nram_usable_bytes
    room = usable if rng.random() < 3 / 5 else int(math.exp(rng.uniform(math.log(1 << 13), math.log(usable))))
    shape, dtype, given = call_of(name, rng)
    options = command.options(given)
    arrays = command.example(RandomTensors(rng.randrange(1 << 30), data=False), shape, dtype_of(dtype), options)
    mine = planned(command, options, arrays, board, "auto", room)
    if mine is None:
        return None
    times = {signature(mine.plan): simulated(mine)}
    mine_ps = best_ps = times[signature(mine.plan)]
    predicted_ps, what = mine.plan.predicted_ps, "auto"
    for strategy in command.operator.strategies:
        for part in PARTS:
            call = planned(command, options, arrays, board, strategy, room // part)
            if call is None or signature(call.plan) in times:
                continue
            time_ps = times[signature(call.plan)] = simulated(call)
            if time_ps < best_ps:
                best_ps, what = time_ps, f"{strategy} with {room // part} B, {len(call.plan.tiles)} tiles"
    off = abs(predicted_ps / mine_ps - 1) if predicted_ps else 0.0
    where = f"{board.name} {list(shape)} {dtype} {given}, NRAM {room} B"
    how = f"{mine.plan.strategy} {len(mine.plan.tiles)} tiles, {mine_ps / PS_PER_US:.1f} us, best {what}"
    return mine_ps / best_ps - 1, off, f"{where}: {how}"


def main() -> None:
    """Print a row for each operator."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("operators", nargs="*", default=[])
    parser.add_argument("--calls", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=math.inf, help="most for each operator")
    parser.add_argument("--show", type=int, default=0, help="the worst calls of each operator, to standard error")
    options = parser.parse_args()
    names = options.operators or [name for name in COMMANDS if name not in {"bitcast_convert", "flip"}]
    print("| operator | calls | mean | worst | beyond 15 % | prediction off by, mean |")
    print("| --- | --: | --: | --: | --: | --: |")
    for name in names:
        rng = random.Random(name)  # noqa: S311 - calls that come out the same each time
        begin, rows = time.perf_counter(), list[tuple[float, float, str]]()
        while len(rows) < options.calls and time.perf_counter() - begin < options.seconds:
            call = loss(name, rng)
            if call is not None:
                rows.append(call)
        losses = np.array([row[0] for row in rows])
        print(
            f"| {name} | {len(rows)} | {losses.mean():.1%} | {losses.max():.1%} | {int((losses > LARGE_LOSS).sum())} | "
            f"{np.mean([row[1] for row in rows]):.1%} |",
            flush=True,
        )
        for share, off, what in sorted(rows, reverse=True)[: options.show]:
            print(f"{name}: {share:.1%}, predicted {off:.1%} off: {what}", file=sys.stderr)


if __name__ == "__main__":
    main()
