"""The cases of the gallery: each operator on a small realistic shape, with statements about its runs.

`about` and `look` are statements about a run, and `holds` checks them: `build.py` stops if one is false.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import mlusim
from mlusim.analysis.summary import percent
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.planning.plan import Plan
    from mlusim.results.result import Result

BOARDS = ("mlu370-x4", "mlu290-m5", "mlu590-h8")
_SEED = 3


@dataclass(frozen=True, kw_only=True)
class Case:
    """One operator.

    Attributes:
        name: name of its files.
        title: title of its section.
        shape: description of its input.
        run: function that runs it on a board.
        about: a statement about all its runs.
        look: a statement about one run, with its numbers.
        holds: whether both are true of a run.
    """

    name: str
    title: str
    shape: str
    run: Callable[[str], Result]
    about: str
    look: Callable[[Result], str]
    holds: Callable[[Result], bool]


def _random() -> np.random.Generator:
    return np.random.default_rng(_SEED)


def _floats(*shape: int, dtype: str = "float32") -> Any:
    return _random().standard_normal(shape, np.float32).astype(dtype)


def _indices(most: int, *shape: int) -> Any:
    return _random().integers(0, most, shape).astype(np.int32)


_SHIFTS = np.array([[-1, 0, 1, 2], [3, -3, 1, 0]], np.int32)


# Tolerance for equality with the compulsory bytes: partial bus units add a little.
_NEAR = 0.1


def _times(run: Result, side: str) -> float:
    """Return the bytes on the bus over the compulsory ones, of reads or writes."""
    least = run.metrics.compulsory_bytes[side]
    return run.bus_bytes[side] / least if least else 0.0


def _once(run: Result) -> bool:
    return all(run.bus_bytes[side] == run.metrics.compulsory_bytes[side] for side in ("read", "write"))


def _share(run: Result, *causes: str) -> float:
    """Return the fraction of the time of all cores with these causes."""
    metrics = run.metrics
    return sum(metrics.where_time_went[cause] for cause in causes) / max(metrics.core_time_ps, 1)


CASES = (
    Case(
        name="flip",
        title="flip",
        shape="eight images, float32 [8, 3, 224, 224], mirrored from left to right (axis -1)",
        run=lambda board: mlusim.ops.flip(_floats(8, 3, 224, 224), -1, device=board),
        about=(
            "The mirrored axis is the contiguous one, so each core reverses rows after loading them, as the vector "
            "lane of the timeline shows. Each byte crosses the bus once."
        ),
        look=lambda run: f"{percent(_share(run, 'vector'))} of the time is reversal that no copy hides.",
        holds=lambda run: _once(run) and run.metrics.pipe_busy_ps["vector"] > 0,
    ),
    Case(
        name="reverse",
        title="reverse",
        shape="float16 [256, 56, 56] along axis 0",
        run=lambda board: mlusim.ops.reverse(_floats(256, 56, 56, dtype="float16"), 0, device=board),
        about=(
            "Only whole rows are reordered, so strided copies are enough: the vector lane of the timeline is empty, "
            "and each byte crosses the bus once."
        ),
        look=lambda run: f"{_plan(run).tasks} tasks, {len(_plan(run).tiles)} tiles.",
        holds=lambda run: _once(run) and not run.metrics.pipe_busy_ps["vector"],
    ),
    Case(
        name="reverse_sequence",
        title="reverse_sequence",
        shape="64 sequences of up to 128 steps, float16 [64, 128, 256], random lengths",
        run=lambda board: mlusim.ops.reverse_sequence(
            _floats(64, 128, 256, dtype="float16"), _indices(128, 64) + 1, device=board
        ),
        about=(
            "Each entry has its own length; elements beyond it are copied unchanged, in the same pass. The tile map "
            "shows the entries, and the timeline shows which cores finish early."
        ),
        look=lambda run: (
            f"{len(_plan(run).tiles)} tiles for {_plan(run).tasks} tasks on {run.board.cores} cores, which are idle "
            f"for {percent(_share(run, 'idle'))} of the time."
        ),
        holds=lambda run: _times(run, "write") == 1 and _share(run, "idle") > 0,
    ),
    Case(
        name="gather",
        title="gather",
        shape="float32 [512, 256], index int32 [128, 256], axis 0",
        run=lambda board: mlusim.ops.gather(_floats(512, 256), _indices(512, 128, 256), 0, device=board),
        about=(
            "Each element of the output comes from an arbitrary row of its column: accesses of 4 B on a bus of 64 B "
            "units. The report's source view shows the cost by line."
        ),
        look=lambda run: (
            f"{_split(run)}. The bus reads {_times(run, 'read'):.1f} times the compulsory bytes, and the run takes "
            f"{run.time_ps / run.lower_bound.time_ps:.0f} times its lower bound."
        ),
        holds=lambda run: run.time_ps > 5 * run.lower_bound.time_ps and _times(run, "read") > 1,
    ),
    Case(
        name="gather_nd",
        title="gather_nd",
        shape="an embedding: float32 [8192, 256], 2048 rows of it (standard mode)",
        run=lambda board: mlusim.ops.gather_nd(
            _floats(8192, 256), _indices(8192, 2048, 1), mode="standard", device=board
        ),
        about=(
            "Rows of 1 KiB are loaded one by one, once for each lookup. The compulsory bytes are those of the rows "
            "looked up, each once."
        ),
        look=lambda run: (
            f"The bus reads {_times(run, 'read'):.2f} times the compulsory bytes, as some rows are looked up again."
        ),
        holds=lambda run: abs(_times(run, "read") - 2048 / len(np.unique(_indices(8192, 2048, 1)))) < _NEAR,
    ),
    Case(
        name="scatter",
        title="scatter",
        shape="float32 [512, 256], index int32 and new elements [128, 256], axis 0",
        run=lambda board: mlusim.ops.scatter(
            _floats(512, 256), _indices(512, 128, 256), _floats(128, 256), 0, strategy="slab", device=board
        ),
        about=(
            "Each task owns a region of the output, keeps it in NRAM and scans the updates for those of its region, so "
            "every element of the output is written once."
        ),
        look=lambda run: (
            f"Kernels load {_loaded(run) / run.metrics.compulsory_bytes['read']:.1f} times the compulsory bytes for "
            f"{len(_plan(run).tiles)} regions."
        ),
        holds=lambda run: (
            "Slab" in _split(run) and run.bytes_requested["NRAM2GDRAM"] == run.metrics.compulsory_bytes["write"]
        ),
    ),
    Case(
        name="scatter_nd",
        title="scatter_nd",
        shape="float32 [8192, 256], 2048 of its rows replaced (standard mode)",
        run=lambda board: mlusim.ops.scatter_nd(
            _floats(8192, 256), _indices(8192, 2048, 1), _floats(2048, 256), mode="standard", device=board
        ),
        about=(
            "Rows are written over the copy of x. If a row is updated twice, the last update wins, so each task owns a "
            "region of rows and scans the updates for those of its region."
        ),
        look=lambda run: (
            f"The bus reads {_times(run, 'read'):.2f} times the compulsory bytes and writes {_times(run, 'write'):.2f} "
            f"times; {_plan(run).tasks} tasks on {run.board.cores} cores."
        ),
        holds=lambda run: _times(run, "write") > 1 and "Rows:" in _split(run),
    ),
    Case(
        name="cast",
        title="cast",
        shape="float32 [32, 64, 56, 56] to float16",
        run=lambda board: mlusim.ops.cast(_floats(32, 64, 56, 56), "float16", device=board, strategy="pingpong"),
        about=(
            "Two bytes are read for each byte written. Tiles are double-buffered: in the timeline of one core, the io "
            "lanes are busy while the vector lane converts."
        ),
        look=lambda run: f"{percent(_share(run, 'vector'))} of the time is conversion that no copy hides.",
        holds=lambda run: run.bus_bytes["read"] == 2 * run.bus_bytes["write"] and run.strategy == "pingpong",
    ),
    Case(
        name="bitcast_convert",
        title="bitcast_convert",
        shape="float32 [1024, 256] to int32",
        run=lambda board: mlusim.ops.bitcast_convert(_floats(1024, 256), "int32", device=board),
        about="The output is a view of the input's bytes.",
        look=lambda _: "No launch, no traffic, no time.",
        holds=lambda run: not len(run.log) and not run.time_ps and _plan(run).tier == 0,
    ),
    Case(
        name="tin_shift_forward",
        title="tin_shift, forward",
        shape="a clip of 8 frames, float32 [2, 8, 256, 196], four groups of channels, in batches",
        run=lambda board: mlusim.ops.tin_shift_forward(
            _floats(2, 8, 256, 196), _SHIFTS, device=board, strategy="batched"
        ),
        about=(
            "Rows that are shifted out are not read. Vacated rows are cleared on the core, which is the vector work in "
            "the timeline."
        ),
        look=lambda run: (
            f"The bus reads {percent(_times(run, 'read'))} of the compulsory bytes, and the clearing takes "
            f"{percent(_share(run, 'vector'))} of the time."
        ),
        holds=lambda run: (
            _times(run, "read") < 1 + _NEAR and _times(run, "write") == 1 and run.metrics.pipe_busy_ps["vector"] > 0
        ),
    ),
    Case(
        name="tin_shift_backward",
        title="tin_shift, backward",
        shape="gradients of the same shape, float32 [2, 8, 256, 196], rule adjoint",
        run=lambda board: mlusim.ops.tin_shift_backward(
            _floats(2, 8, 256, 196), _SHIFTS, rule="adjoint", device=board, strategy="batched"
        ),
        about="The gradient shifts in the opposite direction, with the same bus traffic as forward.",
        look=lambda run: f"{group_digits(run.bus_bytes['read'] + run.bus_bytes['write'])} B on the bus.",
        holds=lambda run: run.bus_bytes == CASES[-2].run(run.board.name).bus_bytes,
    ),
)


def _plan(run: Result) -> Plan:
    assert run.plan is not None
    return run.plan


def _split(run: Result) -> str:
    """Return the reason of the plan, without its predictions."""
    words = _plan(run).reason.partition("; predicted")[0]
    return f"{words[:1].upper()}{words[1:]}"


def _loaded(run: Result) -> int:
    return run.bytes_requested["GDRAM2NRAM"]
