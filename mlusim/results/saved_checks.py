"""Validation of saved runs: sizes before anything is allocated, then the type and bounds of every value.

Files are untrusted: they may contain anything, with valid checksums. Runs that pass are internally consistent, so that
figures, pages and retiming need no checks of their own.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from itertools import chain
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import dtype_of
from mlusim.hardware import Board
from mlusim.inputs import MAX_RANK
from mlusim.log import NONE, PIPES, Log
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.planning.plan import Plan
from mlusim.records import COLUMNS, longest_run_ps
from mlusim.verifier.remarks import RULES

# A file that unpacks to more than this, and to more than this multiple of its size, cannot be a saved run.
_MAX_BYTES = 1 << 30
_MAX_RATIO = 300
_LIMIT = 1 << 62
_BEYOND_64_BITS = 1 << 63
_MAX_TASKS = 1 << 24
# Retiming makes all queues up to the last one that has a launch.
_MAX_QUEUES = 1 << 16
# Control characters could move the terminal's cursor or change colours. Newlines and tabs are allowed.
_CONTROLS = dict.fromkeys([*range(9), *range(11, 32), *range(127, 160)], "\ufffd")


def check_sizes(archive: zipfile.ZipFile, file_bytes: int) -> None:
    """Raise `ValueError` for duplicate members, or members that unpack to far more than a run of this size could."""
    names = archive.namelist()
    if len(set(names)) != len(names):
        raise ValueError("two of its members have one name")
    total = sum(member.file_size for member in archive.infolist())
    if total > max(_MAX_BYTES, _MAX_RATIO * file_bytes):
        raise ValueError(f"{file_bytes} B that unpack to {total} B")


def read_array(archive: zipfile.ZipFile, name: str) -> Array:
    """Read an array of integers; its size is checked against that of its member before it is allocated."""
    member = archive.getinfo(f"{name}.npy")
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header: Any = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = read_header[version](stream)
        if dtype.hasobject or dtype.kind not in "biu" or len(shape) > MAX_RANK:
            raise ValueError(f"{name}.npy holds {dtype} of rank {len(shape)}, not integers")
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > member.file_size:
            raise ValueError(f"{name}.npy declares the shape {list(shape)}, and has only {member.file_size} B")
    with archive.open(member) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        # Read past the last byte, so that the checksum is verified.
        if stream.read(1):
            raise ValueError(f"{name}.npy has bytes after its array")
    return array


def clean(value: Any) -> Any:
    """Return a JSON value with printable texts. Raises `ValueError` for numbers that cannot occur in a run."""
    if isinstance(value, str):
        return value.translate(_CONTROLS)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a figure of a run")
    if isinstance(value, int) and abs(value) >= _BEYOND_64_BITS:
        raise ValueError("a number of more than 64 bits")
    return value


def check_fields(*records: Any) -> None:
    """Raise `ValueError` for a field whose type differs from its annotation; all records are of one class."""
    annotations = get_type_hints(type(records[0])) if records else {}
    for record in records:
        for name, annotation in annotations.items():
            value = getattr(record, name)
            if not _has_type(value, annotation):
                raise ValueError(f"{type(record).__name__}.{name} is {value!r:.40}, not {annotation}")


def _has_type(value: Any, annotation: Any) -> bool:
    """Return whether a value, including the items of a tuple, has the annotated type."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return True
    if origin is UnionType:
        return any(_has_type(value, part) for part in parts)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        parts = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return len(value) == len(parts) and all(map(_has_type, value, parts))
    # bool is a subclass of int.
    return type(value) is annotation if annotation in (int, str) else isinstance(value, origin or annotation)


def tuples(value: Any) -> Any:
    """Convert JSON lists to tuples, recursively."""
    if isinstance(value, list):
        return tuple(tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return value


def check_saved_log(log: Log) -> None:
    """Raise `ValueError` if a log has dangling references, or values that cannot occur in a run."""
    _check_columns(log)
    for records in (log.tasks, log.launches, log.allocations, log.boxes, log.loops.values()):
        check_fields(*records)
    _check_references(log)
    _check_sizes(log)
    for allocation in log.allocations:
        dtype_of(allocation.dtype)
        MemoryKind(allocation.memory)


def _check_columns(log: Log) -> None:
    """Raise `ValueError` for a number in a record that is not an index into the table that it refers to."""
    columns = log.columns()
    tables: dict[str, Sequence[Any]] = {
        "op": log.ops,
        "task": log.tasks,
        "line": log.lines,
        "pipe": PIPES,
        "direction": tuple(Direction),
    }
    for side in ("dst", "a", "b"):
        tables |= {f"{side}_box": log.boxes, f"{side}_alloc": log.allocations}
    for name in COLUMNS:
        numbers = columns[name]
        low = NONE if name not in ("op", "task", "line", "pipe") else 0
        high = len(tables[name]) if name in tables else _LIMIT
        if len(numbers) and name != "detail" and not low <= numbers.min() <= numbers.max() < high:
            raise ValueError(f"column {name} of its log refers to an entry that does not exist")


def _check_references(log: Log) -> None:
    """Raise `ValueError` for references between the tables of a log that lead nowhere."""
    host, operands = log.host, [operand for parts in log.more_operands.values() for operand in parts]
    of_records = (log.addresses, log.selected, log.attributes, log.more_operands, log.loops, log.byte_copies, log.seen)
    of_allocations = (
        log.released,
        log.windows,
        host.writes,
        host.written_parts,
        host.reads,
        host.read_parts,
        log.of_file,
    )
    copied_back = [allocation for _, allocation, _, _ in host.copied_back]
    remarks, windows = log.remarks.values(), chain(*log.windows.values())
    records, allocations, boxes = len(log), len(log.allocations), len(log.boxes)
    missing_operand = "its log refers to an operand that does not exist"
    unplaced_remark = "a remark of its log has no line or task"
    for problem, numbers, min_number, count in (
        ("a task of its log is of no launch", (task.launch for task in log.tasks), 0, len(log.launches)),
        ("a launch of its log is on no queue", (launch.queue for launch in log.launches), 0, _MAX_QUEUES),
        ("an allocation of its log is of no task", (record.task for record in log.allocations), NONE, len(log.tasks)),
        ("its log refers to a record that does not exist", chain(*of_records), 0, records),
        (missing_operand, (allocation for allocation, _, _ in operands), NONE, allocations),
        (missing_operand, (box for _, _, box in operands), NONE, boxes),
        ("its log refers to an allocation that does not exist", chain(*of_allocations, copied_back), 0, allocations),
        (unplaced_remark, (remark.line for remark in remarks), 0, len(log.lines)),
        (unplaced_remark, (remark.task for remark in remarks), NONE, len(log.tasks)),
        ("a window of its log has no geometry", (box for _, box in windows), 0, boxes),
        ("the host waits for launches that its log does not have", host.waits, 0, len(log.launches) + 1),
    ):
        if not all(min_number <= number < count for number in numbers):
            raise ValueError(problem)
    if not all(remark.kind in RULES for remark in remarks):
        raise ValueError("a remark of its log is of no kind")


def _check_sizes(log: Log) -> None:
    """Raise `ValueError` for grids, operands and allocations of a log that cannot exist."""
    if not all(len(launch.dim) == 3 and min(launch.dim) > 0 for launch in log.launches):
        raise ValueError("a launch of its log has no grid")
    for box in log.boxes:
        is_valid = (
            len(box.shape) == len(box.strides) <= MAX_RANK and box.itemsize > 0 and min(box.shape, default=0) >= 0
        )
        if not is_valid or math.prod(box.shape) * box.itemsize >= _LIMIT:
            raise ValueError("an operand of its log has no geometry")
    for record in log.allocations:
        if len(record.shape) > MAX_RANK or min(record.nbytes, record.address, *record.shape) < 0:
            raise ValueError("an allocation of its log has no size")


def check_on_board(log: Log, board: Board) -> None:
    """Raise `ValueError` for cores that the board does not have, and for times that no run on it can reach.

    Figures are sums over all units, in 64 bits.
    """
    for task in log.tasks:
        of_board = task.is_memory_core or 0 <= task.core < board.cores_per_cluster
        if not (0 <= task.cluster < board.clusters and of_board):
            raise ValueError(f"a task of its log ran on core {task.core} of cluster {task.cluster}")
    most_ps = longest_run_ps(board.cores + board.clusters)
    columns = log.columns()
    time_columns = [columns[name] for name in ("issue_ps", "start_ps", "end_ps", "latency_ps", "alone_ps")]
    latest = max([int(column.max()) for column in time_columns if len(column)], default=0)
    spans = [(task.start_ps, task.end_ps) for task in log.tasks]
    spans += [(launch.start_ps, launch.end_ps) for launch in log.launches]
    latest = max(latest, *(time for span in spans for time in span), 0)
    if latest > most_ps:
        raise ValueError(f"a time of {latest} ps in its log, which has room for {most_ps} ps")


def check_plan(plan: Plan) -> None:
    """Raise `ValueError` for a field of the wrong type, or tiles outside the output or the grid."""
    check_fields(plan)
    tiles, shape = plan.tiles, plan.output_shape
    if min(*plan.dim, plan.itemsize) <= 0:
        raise ValueError(f"a plan with the grid {plan.dim!r:.60}")
    if plan.tasks > _MAX_TASKS:
        raise ValueError(f"a plan of {plan.tasks} tasks, which is more than any grid has ({_MAX_TASKS})")
    if min(shape, default=0) < 0:
        raise ValueError(f"a plan of the output shape {shape!r:.60}")
    if not len(tiles):
        return
    if not 0 <= tiles.task.min() <= tiles.task.max() < max(plan.tasks, 1):
        raise ValueError("a tile of a task that its plan does not have")
    if tiles.start.shape != tiles.stop.shape or tiles.start.shape[1] != len(shape):
        raise ValueError("tiles of another rank than the output")
    if (tiles.start < 0).any() or (tiles.stop > np.array(shape)).any() or (tiles.stop < tiles.start).any():
        raise ValueError("a tile outside the output")
