"""Equivalent access tables for counting: concatenated, condensed, or with one access per repetition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.log import NONE
from mlusim.verifier.accesses.geometry import Geometries, Geometry, distinct
from mlusim.verifier.accesses.overlaps import disjoint
from mlusim.verifier.accesses.row_geometry import runs_geometry
from mlusim.verifier.accesses.table import Accesses


def join(one: Accesses, other: Accesses) -> Accesses:
    """Concatenate two tables."""

    def both(name: str) -> Any:
        return np.concatenate([getattr(one, name), getattr(other, name)])

    return Accesses(
        both("record"),
        both("alloc"),
        both("offset"),
        np.concatenate([one.geometry, other.geometry + len(one.geometries)]),
        both("low"),
        both("high"),
        both("write"),
        Geometries([*one.geometries, *other.geometries]),
    )


def condense(run: Accesses, nbytes: int) -> Accesses:
    """Condense accesses that partition a tensor into one access of all of it; the counts stay the same."""
    writes, reads = np.flatnonzero(run.write), np.flatnonzero(~run.write)
    parts = []
    for rows in (writes, reads):
        if len(rows) > 1 and _partition(run.where(rows), nbytes):
            whole_tensor = accesses_from(int(run.alloc[0]), np.zeros(1, np.int64), [Geometry(0, nbytes, ())])
            parts.append(replace(whole_tensor, record=run.record[rows[:1]], write=run.write[rows[:1]]))
        elif len(rows) and rows is writes:
            # The order of reads and writes matters.
            return run
        else:
            parts.append(run.where(rows))
    return join(parts[0], parts[1])


def _partition(accesses: Accesses, nbytes: int) -> bool:
    """Return whether accesses cover every byte of a tensor exactly once."""
    sizes = np.zeros(len(accesses.geometries), np.int64)
    for number in distinct(accesses.geometry).tolist():
        geometry = accesses.geometries[number]
        if not geometry.strided or geometry.touched_bytes > geometry.run * geometry.count:
            return False
        sizes[number] = geometry.run * geometry.count
    return int(sizes[accesses.geometry].sum()) == nbytes and disjoint(accesses)


def repeats_of(run: Accesses) -> tuple[Accesses, Integers]:
    """Return accesses of operations that write bytes repeatedly, and the number of writes beyond the first."""
    geometries, offsets, extra = [], [], []
    written_geometries = distinct(run.geometry[run.write]).tolist()
    several = [
        number for number in written_geometries if run.geometries[number].touched_bytes > run.geometries[number].nbytes
    ]
    if several:
        for row in np.flatnonzero(run.write & np.isin(run.geometry, several)).tolist():
            starts, stops, times = run.geometries[int(run.geometry[row])].repeats()
            for count in np.unique(times).tolist():
                selected = times == count
                first, length = starts[selected], (stops - starts)[selected]
                geometries.append(runs_geometry(first, length))
                offsets.append(int(run.offset[row]))
                extra.append(count)
    alloc = int(run.alloc[0]) if len(run) else NONE
    return accesses_from(alloc, np.array(offsets, np.int64), geometries), np.array(extra, np.int64)


def accesses_from(alloc: int, offset: Integers, geometries: list[Geometry]) -> Accesses:
    """Return one access per geometry, without an operation."""
    count, shapes = len(geometries), Geometries(geometries)
    no_index, (starts, stops) = np.full(count, NONE, np.int64), shapes.edges
    return Accesses(
        no_index,
        np.full(count, alloc),
        offset,
        np.arange(count),
        offset + starts,
        offset + stops,
        np.ones(count, bool),
        shapes,
    )
