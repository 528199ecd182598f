"""Retiming of a run on another board, or with other parameters, from its log alone.

  mlusim.retime("run.zip", "mlu590-h8")
  mlusim.retime(result, dram_bandwidth_bytes_per_s=614_400_000_000)

The result equals the time of a fresh run there, provided that the kernels would issue the same operations. `retime`
refuses runs for which they would not: buffers that do not fit, launches that the board cannot run, instructions and
copies that it does not have and, for the operators of `mlusim.ops`, a different plan. Kernels without a plan cannot be
compared: their decisions based on the board's record, or on loaded data, stay as recorded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.dtypes import dtype_of
from mlusim.errors import InputError, KernelError, LaunchError, PlanError, SimulatedTimeError, for_caller
from mlusim.hardware import Board
from mlusim.hardware import board as board_of
from mlusim.inputs import check_flags
from mlusim.log import NONE, VECTOR, Log
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.sizes import OWNERS, memory_sizes
from mlusim.ops.operator import Operator
from mlusim.ops.registry import OPERATORS
from mlusim.ops.schema import Tensor
from mlusim.planning.plan import Plan
from mlusim.planning.request import Request
from mlusim.results.result import Result
from mlusim.results.saved import as_result, parameter_json
from mlusim.retiming.replay import replay
from mlusim.units import format_bytes, group_digits

# Board properties that kernels use besides their plan: a description, and whether it matters to a log.
_FEATURES: dict[str, tuple[str, Callable[[Log], bool]]] = {
    "needs_aligned_vectors": (
        "vector operands are rounded out to 128 B",
        lambda log: bool((log.columns()["pipe"] == VECTOR).any()),
    ),
    "has_3d_memcpy": ("copies have three dimensions", lambda log: len(log) > 0),
    "has_gather": ("there are __gather and __scatter", lambda log: bool(log.loops)),
}


def retime(
    run: Result | str | os.PathLike[str],
    device: str | Path | Board | None = None,
    *,
    keep_split: bool = False,
    barriers: bool = True,
    progress: bool = False,
    **parameters: Any,
) -> Result:
    """Time a run again from its log.

    Args:
        run: a result, or the file that `Result.save` wrote.
        device: a preset's name, a TOML file, or a board; by default the board of the run.
        keep_split: time the recorded split even if the operator would be split differently on that board.
        barriers: False: no task waits for others at barriers, which shows the total time lost there.
        progress: show a progress bar if it takes longer than a second or two.
        parameters: fields of `Board` to change: `dram_bandwidth_bytes_per_s=614_400_000_000`.

    Returns a result without output, with the log of the new run. Its plan is the one for that board or, with
    `keep_split`, the recorded one.

    Raises `InputError` if the run cannot be timed there, with the value, the rule and the remedy; `BoardError` for a
    board or a parameter that does not exist or breaks a rule.
    """
    check_flags(keep_split=keep_split, barriers=barriers, progress=progress)
    result = as_result(run)
    target = result.board if device is None else board_of(device)
    if parameters:
        target = target.replace(**parameters)
    log = result.log
    _check_ended(result)
    _check_launches(log, result.board, target)
    _check_buffers(log, result.board, target)
    _check_instructions(log, target)
    plan, difference = plan_on(result, target)
    if difference and not keep_split:
        raise InputError(
            f"{result.operator} would be split differently on {target.name}: {difference}. Run it there, or time the "
            f"recorded split with {for_caller('--keep-split', 'keep_split=True')}"
        )
    retimed = Result(
        operator=result.operator,
        output=None,
        board=target,
        plan=plan,
        log=_replay(log, result.board, target, barriers=barriers, progress=progress),
        theory_ops=result.theory_ops,
        request=result.request,
        sources=result.sources,
    )
    if "seed" in result.made_by:  # its tensors are those of the recorded run
        retimed.made_by["seed"] = result.made_by["seed"]
    return retimed


def _replay(log: Log, old: Board, board: Board, *, barriers: bool, progress: bool) -> Log:
    try:
        return replay(log, old, board, barriers=barriers, progress=progress)
    except LaunchError as error:
        raise InputError(f"{board.name} cannot launch what the run did: {error.message}") from None
    except SimulatedTimeError as error:
        raise InputError(f"the run cannot be timed on {board.name}: {error.message}") from None
    except KernelError as error:
        raise InputError(
            f"{board.name} cannot do what the run did at {error.location}: {error.message}; it needs another kernel"
        ) from None


def plan_on(result: Result, board: Board) -> tuple[Plan | None, str]:
    """Return the plan of a result for another board, and how the split would differ there, as text.

    The text is empty if the split is the same, or unknown as for a user's kernel. If it differs, the plan is the
    recorded one.
    """
    plan, request = result.plan, result.request
    if plan is None:
        return None, ""
    same_plan = replace(plan, board=board)
    operator = None if request is None else OPERATORS.get(request.operator)
    if request is None or operator is None:
        return same_plan, ""
    for name, (feature, matters) in _FEATURES.items():
        if getattr(result.board, name) != getattr(board, name) and matters(result.log):
            board_with, board_without = (result.board, board) if getattr(result.board, name) else (board, result.board)
            return same_plan, f"{feature} on arch {board_with.arch}, but not on arch {board_without.arch}"
    try:
        new_plan = _replan(operator, request, board)
    except (InputError, PlanError) as error:
        return same_plan, f"no split fits there: {error.message}"
    difference = _difference(plan, new_plan)
    return (same_plan, difference) if difference else (new_plan, "")


def _replan(operator: Operator, request: Request, board: Board) -> Plan:
    tensors = [Tensor(name, shape, dtype_of(dtype)) for name, shape, dtype in request.tensors]
    limit = request.nram_limit_bytes
    attributes = operator.complete(request.attributes)
    return operator.make_plan(board, request.strategy, *tensors, nram_limit_bytes=limit, **attributes)


def _difference(recorded: Plan, replanned: Plan) -> str:
    """Describe the first difference between two plans that affects the kernel; empty if there is none."""
    for name, label in (("strategy", "strategy"), ("kind", "task type"), ("dim", "grid"), ("nram_bytes", "NRAM")):
        old_value, new_value = getattr(recorded, name), getattr(replanned, name)
        if old_value != new_value:
            return f"{label} {new_value} instead of {old_value}"
    if len(recorded.tiles) != len(replanned.tiles):
        return f"{group_digits(len(replanned.tiles))} tiles instead of {group_digits(len(recorded.tiles))}"
    for name in ("task", "start", "stop", "nram_bytes"):
        if not np.array_equal(getattr(recorded.tiles, name), getattr(replanned.tiles, name)):
            return "different tiles"
    old_value, new_value = parameter_json(recorded.named_parameters), parameter_json(replanned.named_parameters)
    for name in {**old_value, **new_value}:
        if _values(old_value.get(name)) != _values(new_value.get(name)):
            return f"{name} = {new_value.get(name)} instead of {old_value.get(name)}"
    return ""


def _values(parameter: Any) -> Any:
    """Return a parameter without the names of its fields, which may be others in the version that saved the run."""
    if isinstance(parameter, Mapping):
        return tuple(map(_values, parameter.values()))
    return tuple(map(_values, parameter)) if isinstance(parameter, tuple) else parameter


def _check_ended(result: Result) -> None:
    log = result.log
    if result.stopped:
        raise InputError(f"the run stopped with an error ({result.stopped}): only a complete run can be retimed")
    unended_kernels = [launch.kernel for launch in log.launches if launch.end_ps == NONE]
    if unended_kernels or any(task.end_ps == NONE for task in log.tasks):
        raise InputError(
            f"kernel {', '.join(unended_kernels) or 'of the run'} has not ended: only a complete run can be retimed; "
            "synchronize the device first"
        )


def _check_launches(log: Log, old: Board, board: Board) -> None:
    unions = [launch for launch in log.launches if launch.kind.startswith("UNION")]
    if unions and board.cores_per_cluster != old.cores_per_cluster:
        raise InputError(
            f"{unions[0].kernel} ran as {unions[0].kind} on clusters of {old.cores_per_cluster} cores, and "
            f"{board.name} has clusters of {board.cores_per_cluster}: tasks would have other positions in their "
            "cluster; run it there"
        )


def _check_buffers(log: Log, old: Board, board: Board) -> None:
    old_sizes, sizes = memory_sizes(old), memory_sizes(board)
    reach: dict[MemoryKind, tuple[int, str]] = {}
    for record in log.allocations:
        kind = MemoryKind(record.memory)
        end = record.address + old_sizes[kind].allocated_bytes(record.nbytes)
        if end > reach.get(kind, (0, ""))[0]:
            reach[kind] = (end, record.name)
    for kind, (end, name) in reach.items():
        # A BANG C file that used the part reserved for the compiler may use that of the other board, too.
        in_reserved = end > old_sizes[kind].usable_bytes
        usable = sizes[kind].total_bytes if in_reserved else sizes[kind].usable_bytes
        if end > usable:
            raise InputError(
                f"the run has buffers in {format_bytes(end)} of the {kind.name} of {OWNERS[kind]} (up to {name!r}), "
                f"and {board.name} has {format_bytes(usable)} to use, so it would be split differently there; run it "
                "on that board"
            )
        old_alignment, new_alignment = old_sizes[kind].alignment_bytes, sizes[kind].alignment_bytes
        if old_alignment != new_alignment:
            raise InputError(
                f"buffers in {kind.name} are rounded up to {new_alignment} B on {board.name} and to {old_alignment} B "
                "in the run, so their addresses would differ; run it on that board"
            )


def _check_instructions(log: Log, board: Board) -> None:
    by_engine = [record for record, loop in log.loops.items() if loop.method == "instruction"]
    if by_engine and not board.has_gather:
        name = log.ops[log.records.values(by_engine[0])["op"]]
        raise InputError(
            f"the run uses __{name}, which exists from arch 592 on, and {board.name} is arch {board.arch}: there, a "
            "kernel would load the offsets and loop; run it on that board"
        )
