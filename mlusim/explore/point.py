"""One point of a sweep: its settings, its key, and its execution in any process.

Only plain values are sent to other processes, so that any machine with the same mlusim can run the point.
"""

from __future__ import annotations

import hashlib
import json
import time
from bdb import BdbQuit
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any

from mlusim.dtypes import Dtype, dtype_name, dtype_of
from mlusim.errors import (
    AllocationError,
    BoardError,
    InputError,
    LaunchError,
    MlusimError,
    PlanError,
    for_caller,
    shown,
)
from mlusim.explore.kernel_call import KernelCall, absolute, contents
from mlusim.explore.model_hash import model_hash
from mlusim.explore.point_figures import figures_of
from mlusim.explore.python_files import importable_from, where_in
from mlusim.explore.store import DIED, DONE, FAILED, IMPOSSIBLE, Outcome
from mlusim.explore.user_kernels import restored
from mlusim.hardware import Board
from mlusim.host.random_tensors import RandomTensors
from mlusim.inputs import as_plain
from mlusim.ops.commands import command_of
from mlusim.planning.split import MORE_NRAM

if TYPE_CHECKING:
    from mlusim.explore.axes import Axes
    from mlusim.ops.call import Call

# The column of the NRAM that a kernel may use.
USABLE_NRAM = "nram_usable_bytes"

# The status returned by a process with another version of mlusim.
STALE = "stale"
_TUPLES = (list, tuple)
# Errors that mean that a point is impossible; any other error is a failure of the kernel.
_REFUSALS = (PlanError, AllocationError, BoardError, InputError, LaunchError)


@dataclass(frozen=True, kw_only=True)
class Point:
    """The settings of one run: a value of each axis.

    Attributes:
        axes: the sweep, with what all of its points have in common.
        board: the board, with changes applied.
        columns: the request as columns of the table.
        shape, dtype, strategy, nram_limit_bytes, options, launch: a value of each of these axes.
    """

    axes: Axes
    shape: tuple[int, ...] | None
    dtype: Dtype
    board: Board
    strategy: str | None
    nram_limit_bytes: int | None
    options: Mapping[str, Any]
    launch: Mapping[str, Any]
    columns: Mapping[str, Any]

    def payload(self) -> dict[str, Any]:
        """Return the point as plain values for `run_point` in this process."""
        axes = self.axes
        return {
            "model": model_hash(),
            "operator": axes.operator,
            "kernel": None if axes.kernel is None else axes.kernel.payload(),
            "arguments": absolute(axes.arguments),
            "shape": self.shape,
            "dtype": dtype_name(self.dtype),
            "board": self.board.parameters(),
            "strategy": self.strategy,
            "nram_limit_bytes": self.nram_limit_bytes,
            "options": {name: option_json(value) for name, value in self.options.items()},
            "launch": dict(self.launch),
            "data": axes.data,
            "seed": axes.seed,
            "steady": axes.steady,
        }

    def sendable(self) -> dict[str, Any]:
        """Return the point as plain values for `run_point` in another process. Raises `InputError`."""
        kernel = self.axes.kernel
        return self.payload() | ({} if kernel is None else {"kernel": kernel.sendable})

    def key(self) -> str:
        """Return the sha256 of everything that determines the outcome, including kernel, board and model."""
        value = self.payload()
        if self.axes.kernel is not None:
            value["kernel"] = self.axes.kernel.sha256
            value["arguments"] = contents(self.axes.arguments)
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)
        return hashlib.sha256(text.encode()).hexdigest()

    def outcome(self, status: str, message: str, figures: Mapping[str, Any]) -> Outcome:
        """Return the outcome as a row for the file."""
        return Outcome(status, message, {**self.columns, **figures})

    def as_requested(self, stored: Outcome) -> Outcome:
        """Return an outcome of the file as a row of this sweep, which may have other columns than that which ran it."""
        status, message, row = stored
        if any(self.axes.board_changes[USABLE_NRAM]):
            message = message.replace(MORE_NRAM, f"raise {for_caller('--nram', 'nram_bytes')}")
        return self.outcome(status, message, {name: row[name] for name in self.axes.figures() if name in row})


def option_json(value: Any) -> Any:
    """Return an option's value for JSON, with element types by name."""
    if isinstance(value, _TUPLES):
        return tuple(option_json(item) for item in value)
    plain_value = as_plain(value)
    if plain_value is None or isinstance(plain_value, bool | int | float | str):
        return plain_value
    try:
        return dtype_name(dtype_of(plain_value))
    except InputError:
        raise InputError(
            f"{shown(value)} cannot be swept: a value is a number, boolean, text, element type or a tuple of these"
        ) from None


def prepare_point(point: Point) -> Call:
    """Create the inputs and plan the split, without running anything. Raises as the operator does."""
    return _prepare(point.payload(), point.board)


def run_point(payload: dict[str, Any]) -> tuple[str, str, dict[str, Any], float]:
    """Simulate one point in any process; return status, message, figures, seconds of host time. Raises nothing."""
    begin = time.perf_counter()
    status, figures = DONE, dict[str, Any]()
    message = ""
    try:
        if payload["model"] != model_hash():
            return STALE, "", {}, 0.0
        values = payload["board"]
        board = Board(**values, sources=dict.fromkeys((name for name in values if name != "name"), "a sweep"))
        if payload["kernel"]:
            with importable_from(payload["kernel"]["file"] if payload["kernel"]["text"] else ""):
                figures = _run_kernel(payload, board)
        else:
            figures = _run_operator(payload, board)
    except _REFUSALS as error:
        status, message = IMPOSSIBLE, str(error)
    except MlusimError as error:
        status, message = FAILED, str(error)
    except MemoryError:
        status, message = DIED, "not enough memory on this machine: use fewer workers, or run without data"
    except KeyboardInterrupt:
        raise
    except BdbQuit:  # also the end of input, which a worker does not have
        if current_process().name == "MainProcess":
            raise
        status, message = FAILED, "a debugger has no terminal in a worker process: use `mlusim run`, or workers=0"
    except BaseException as error:  # noqa: BLE001 - whatever a user's function raises, sys.exit too, came of the point
        location = where_in(error, payload["kernel"]["file"]) if payload["kernel"] else ""
        status, message = FAILED, f"{location}{type(error).__name__}: {error}"
    return status, " ".join(message.split()), figures, time.perf_counter() - begin


def _prepare(payload: dict[str, Any], board: Board) -> Call:
    command = command_of(payload["operator"])
    options = {name: _as_hashable(value) for name, value in payload["options"].items()}
    draw = RandomTensors(payload["seed"], data=payload["data"], boards=[board])
    arrays = command.example(draw, tuple(payload["shape"]), dtype_of(payload["dtype"]), options)
    return command.prepare(options, arrays, board, payload["strategy"], payload["nram_limit_bytes"])


def _as_hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, _TUPLES) else value


def _run_operator(payload: dict[str, Any], board: Board) -> dict[str, Any]:
    from mlusim.ops.call import run

    call = _prepare(payload, board)
    result = run(call, data=payload["data"], check=False, steady=payload["steady"])
    return figures_of(result, call.plan, steady=payload["steady"])


def _run_kernel(payload: dict[str, Any], board: Board) -> dict[str, Any]:
    result = kernel_call(payload).run_timed(board, data=payload["data"], steady=payload["steady"])
    return figures_of(result, None, steady=payload["steady"])


def kernel_call(payload: Mapping[str, Any]) -> KernelCall:
    """Return a user's function with its arguments from a `Point.payload`."""
    shape = payload["shape"]
    launch = {name: _as_hashable(value) for name, value in payload["launch"].items()}
    return KernelCall(
        kernel=restored(payload["kernel"]),
        arguments=tuple(payload["arguments"]),
        shape=None if shape is None else tuple(shape),
        dtype=dtype_of(payload["dtype"]),
        settings={name: _as_hashable(value) for name, value in payload["options"].items()},
        theory_ops=launch.pop("theory_ops", None),
        launch=launch,
        seed=payload["seed"],
    )
