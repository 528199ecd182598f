"""The measurements: what ran on a real board, how, how long it took, and who says so.

`measured.csv` holds the facts as they were published. What this file adds is how each is used, with the reason.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

FIT = "fit"
SINGLE = "single source"
BOUND = "bound"

# Host time that a measurement contains and no kernel can explain.
_OVERHEAD_US = {"hardsigmoid": 590.0}

# Rows on which some parameter rests alone: they agree by construction, so they say nothing about the model.
_SINGLE = {
    "scalar-gdram-270": "scalar_gdram_latency_ps of MLU270 is this row",
    "scalar-nram-270": "scalar_nram_cycles is this row",
    "expand-538MB": "dram_write_efficiency of MLU590 is this row",
    "fill-one": "kernel_start_ps and kernel_end_ps are this row",
}
_BOUNDS = {
    "vadd-1core-590": (
        "one cold launch, at a rate per core below what multi-core loops on the family need: the kernel takes at most "
        "this long"
    )
}


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row of `measured.csv`.

    Attributes:
        name, board, kernel, dtype, shape, launch, grade, how, source: as published.
        bytes_read, bytes_written: useful bytes; 0 where the source has none.
        time_us: as published, `overhead_us` included.
        overhead_us: part of it that is the host's.
        use: "fit", "single source" (fitted, and left out of the figures that judge the model) or "bound".
        why: the reason for a use other than "fit".
    """

    name: str
    board: str
    kernel: str
    dtype: str
    shape: str
    launch: str
    bytes_read: int
    bytes_written: int
    time_us: float
    grade: str
    how: str
    source: str
    overhead_us: float
    use: str
    why: str


@cache
def measurements() -> tuple[Measurement, ...]:
    """All rows, in the file's order."""
    text = resources.files("mlusim.validation").joinpath("measured.csv").read_text(encoding="utf-8")
    return tuple(_row(row) for row in csv.DictReader(text.splitlines()))


def _row(row: dict[str, str]) -> Measurement:
    name = row["id"]
    use, why = FIT, ""
    if name in _SINGLE:
        use, why = SINGLE, _SINGLE[name]
    elif name in _BOUNDS:
        use, why = BOUND, _BOUNDS[name]
    return Measurement(
        name=name,
        board=row["board"],
        kernel=row["kernel"],
        dtype=row["dtype"],
        shape=row["shape"],
        launch=row["launch"],
        bytes_read=int(row["bytes_read"] or 0),
        bytes_written=int(row["bytes_written"] or 0),
        time_us=float(row["time_us"]),
        grade=row["grade"],
        how=row["how_it_was_run"],
        source=row["source"],
        overhead_us=_OVERHEAD_US.get(name.partition("-")[0], 0.0),
        use=use,
        why=why,
    )
