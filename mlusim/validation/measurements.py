"""The measurements: kernel, board, launch, time and source of each.

`measured.csv` contains the published facts. This file adds the use of each row, with the reason.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeVar

from mlusim.hardware.host_launch import host_launch_us

T = TypeVar("T")

FIT = "fit"
READ_OFF = "read off"
BOUND = "bound"

# Host time included in a measurement, in microseconds, by prefix of the row's name.
_OVERHEAD_US = {
    "hardsigmoid": 590.0,
    # One launch between two notifiers.
    "matmul-1core-370x8": host_launch_us("mlu370-x8"),
    "matmul-1core-370x4": host_launch_us("mlu370-x4"),
}

# Rows that determine a parameter directly: they agree by construction, so they do not validate the model.
_READ_OFF = {
    "scalar-gdram-270": "scalar_gdram_latency_ps of MLU270 is this row",
    "scalar-nram-270": "scalar_nram_cycles of MLU270 is this row",
    "matmul-scalar-gdram-370x8": "scalar_gdram_latency_ps of mlu370-x8 is this row",
    "matmul-scalar-gdram-370x4": "scalar_gdram_latency_ps of mlu370-x4 is this row",
    "matmul-scalar-nram-370x8": "scalar_nram_cycles of MLU370 is this row and the next",
    "matmul-scalar-nram-370x4": "scalar_nram_cycles of MLU370 is this row and the one before",
    "matmul-1core-370x8": "most of it is the host's time between two notifiers, which is read off this row",
    "matmul-1core-370x4": "most of it is the host's time between two notifiers, which is read off this row",
}
_BOUNDS = {
    "vadd-1core-590": (
        "one cold launch, at a rate per core below what multi-core loops on the family need: the kernel takes at most "
        "this long"
    )
}

# Kinds of kernels, by prefix of the row's name; the longest matching prefix counts.
_KINDS = {
    "copy": "copy",
    "expand": "fill",
    "fill": "launch",
    "add": "arithmetic",
    "concat": "copy",
    "transpose": "transpose",
    "stream-copy": "copy",
    "stream-add": "arithmetic",
    "vadd": "arithmetic",
    "hardsigmoid": "arithmetic",
    "scalar": "scalar loop",
    "matmul-scalar": "scalar loop",
    "matmul": "matmul",
    "rows": "row loads",
    "log1p": "function",
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of `measured.csv`.

    Attributes:
        kind: kind of kernel, as used to group error bands.
        name, board, kernel, dtype, shape, launch, grade, source: as published.
        bytes_read, bytes_written: useful bytes; 0 if the source does not state them.
        time_us: as published, including `overhead_us`.
        overhead_us: host time in it.
        use: "fit", "read off" (determines a parameter directly, never left out) or "bound".
        why: the reason for a use other than "fit".
    """

    name: str
    kind: str
    board: str
    kernel: str
    dtype: str
    shape: str
    launch: str
    bytes_read: int
    bytes_written: int
    time_us: float
    grade: str
    source: str
    overhead_us: float
    use: str
    why: str


@cache
def measurements() -> tuple[Measurement, ...]:
    """Return all rows, in the order of the file."""
    text = resources.files("mlusim.validation").joinpath("measured.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> Measurement:
    name = row["id"]
    use, why = FIT, ""
    if name in _READ_OFF:
        use, why = READ_OFF, _READ_OFF[name]
    elif name in _BOUNDS:
        use, why = BOUND, _BOUNDS[name]
    return Measurement(
        name=name,
        kind=_longest(_KINDS, name, ""),
        board=row["board"],
        kernel=row["kernel"],
        dtype=row["dtype"],
        shape=row["shape"],
        launch=row["launch"],
        bytes_read=int(row["bytes_read"] or 0),
        bytes_written=int(row["bytes_written"] or 0),
        time_us=float(row["time_us"]),
        grade=row["grade"],
        source=row["source"],
        overhead_us=_longest(_OVERHEAD_US, name, 0.0),
        use=use,
        why=why,
    )


def _longest(table: Mapping[str, T], name: str, default: T) -> T:
    """Return the entry whose key is the longest prefix of a name."""
    fits = [key for key in table if name.startswith(key)]
    return table[max(fits, key=len)] if fits else default
