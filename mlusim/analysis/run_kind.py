"""The kind of kernel of a run, from its log. Measurements are grouped by kind, to state the known error of a run."""

from __future__ import annotations

import numpy as np

from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.log_parts import parts_of
from mlusim.analysis.metrics import Metrics
from mlusim.cores.atomics import ATOMIC_NAMES
from mlusim.cores.instructions.tensor import TENSOR_OPERATIONS
from mlusim.log import TENSOR, VECTOR
from mlusim.memory.kinds import DIRECTION_CODES, Direction, MemoryKind
from mlusim.units import KIB, MIB

# Functions by the beginnings of their names. Only logarithms were measured.
_LOGARITHM = "log"
_OTHER_FUNCTIONS = (
    "exp",
    "sqrt",
    "recip",
    "sin",
    "cos",
    "tanh",
    "active",
    "div",
    "pow2",
    "gelu",
    "sigmoid",
    "softplus",
)
_MOVES = frozenset({"fill", "write_zero", "write_value", "transpose", "mirror", "rotate90", "rotate180", "rotate270"})
_BY_INDEX = frozenset({"gather", "scatter", "memcpy_rows", "scalar_copy", "collect"})
# Fractions at which a cause or a kind of traffic decides the kind.
_MOST, _SOME, _LITTLE, _ALMOST_ALL = 0.5, 0.2, 0.1, 0.98
_SMALL_RUN_BYTES, _SMALL_COPY_BYTES = MIB, 16 * KIB
_FLOAT_BYTES = 4
# The kinds whose names are not self-explanatory.
_MEANINGS = {"row loads": f"arithmetic on copies of less than {_SMALL_COPY_BYTES // KIB} KiB"}


def _route(direction: Direction) -> str:
    """Return the route of a copy, as the kind of a run that mostly copies that way; "" between GDRAM and a core."""
    sides = {direction.source, direction.destination}
    if not direction.off_chip:
        return "copy on chip"
    if direction.source.off_chip and direction.destination.off_chip:
        return "copy within DRAM"
    if MemoryKind.LDRAM in sides:
        return "copy of LDRAM"
    return "copy through SRAM" if MemoryKind.SRAM in sides else ""


_ROUTES = {code: _route(direction) for direction, code in DIRECTION_CODES.items()}


def described(kind: str) -> str:
    """Return a kind for a message, in quotes, with its meaning if its name does not tell it."""
    return f"{kind!r} ({_MEANINGS[kind]})" if kind in _MEANINGS else repr(kind)


def kind_of(records: LogColumns, metrics: Metrics) -> str:
    """Return the kind of kernel of a run, as used to group measurements; "" if nothing ran."""
    total = metrics.core_time_ps - metrics.where_time_went["idle"]
    if not total or not metrics.operations:
        return ""
    share = {name: spent / total for name, spent in metrics.where_time_went.items()}
    codes: set[int] = set()
    copies = 0
    for part in parts_of(records):
        codes.update(np.unique(part.op[(part.pipe == VECTOR) | (part.pipe == TENSOR)]).tolist())
        copies += int(part.is_copy.sum())
    vector = {records.log.ops[code] for code in codes} - _MOVES
    others = [records.log.ops.index(name) for name in vector if name.startswith(_OTHER_FUNCTIONS)]
    bus_bytes = max(sum(metrics.bus_bytes.values()), 1)
    atomics = sum(count for name, count in metrics.operations.items() if name in ATOMIC_NAMES)
    route = _main_route(records)
    # The first kind that applies counts.
    kinds = {
        _tensor_kind(records, TENSOR_OPERATIONS & vector): bool(TENSOR_OPERATIONS & vector),
        "access by index": bool(_BY_INDEX.intersection(metrics.operations)),
        "atomics": atomics > _LITTLE * copies,
        "scalar loop": share["scalar"] > _MOST,
        "launch": share["launch"] > _MOST and bus_bytes < _SMALL_RUN_BYTES,
        route: bool(route) and not (vector and route == "copy on chip"),
        "row loads": bool(vector) and bus_bytes < _SMALL_COPY_BYTES * copies and share["dma_latency"] > _LITTLE,
        "function other than a logarithm": bool(others) and _time_of(records, others) > _LITTLE * total,
        "function": any(name.startswith(_LOGARITHM) for name in vector),
        "transpose": _strided_part(records) > _SOME,
        "reduction": bool(vector) and metrics.bus_bytes["read"] > _ALMOST_ALL * bus_bytes,
        "arithmetic": bool(vector),
        "fill": metrics.bus_bytes["write"] > _ALMOST_ALL * bus_bytes,
        "reading": metrics.bus_bytes["read"] > _ALMOST_ALL * bus_bytes,
    }
    return next((kind for kind, is_kind in kinds.items() if is_kind), "copy")


def _tensor_kind(records: LogColumns, operations: frozenset[str]) -> str:
    """Return the kind of a run with tensor instructions: only products of floats were measured."""
    if "matmul" not in operations or len(operations) > 1:
        return "convolution" if any(name.startswith("conv") for name in operations) else "tensor instructions"
    code = records.log.ops.index("matmul")
    boxes = {number for part in parts_of(records) for number in np.unique(part.a_box[part.op == code]).tolist()}
    floats = all(records.log.boxes[number].itemsize == _FLOAT_BYTES for number in boxes)
    return "matmul" if floats else "matmul of halves or integers"


def _time_of(records: LogColumns, operations: list[int]) -> int:
    """Return the time of all cores in some operations."""
    selected = ((part, np.isin(part.op, operations)) for part in parts_of(records))
    return sum(int((part.end_ps - part.start_ps)[rows].sum()) for part, rows in selected)


def _main_route(records: LogColumns) -> str:
    """Return the route of most copied bytes, if it is not that between GDRAM and a core; "" if it is.

    Copies on chip accompany others, so they count only if there are hardly any others.
    """
    bytes_by_route: dict[str, int] = {}
    for part in parts_of(records):
        for code in np.unique(part.direction[part.is_copy]).tolist():
            selected = part.is_copy & (part.direction == code)
            route = _ROUTES.get(code, "")
            bytes_by_route[route] = bytes_by_route.get(route, 0) + int(part.bytes_requested[selected].sum())
    on_chip = bytes_by_route.pop("copy on chip", 0)
    off_chip = sum(bytes_by_route.values())
    if off_chip <= _LITTLE * on_chip:
        return "copy on chip" if on_chip else ""
    return next((route for route, nbytes in bytes_by_route.items() if route and nbytes > _SOME * off_chip), "")


def _strided_part(records: LogColumns) -> float:
    """Return the fraction of bus bytes moved by strided copies."""
    total = strided = 0
    for part in parts_of(records):
        bus_bytes = part.bus_read_bytes + part.bus_write_bytes
        total += int(bus_bytes.sum())
        strided += int(bus_bytes[part.strided].sum())
    return strided / total if total else 0.0
