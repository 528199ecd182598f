"""Lost writes of random kernels, compared with a walk through their operations byte by byte."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import mlusim
from mlusim.verifier.accesses import overlaps
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.table import FILLS
from mlusim.verifier.run import Run
from mlusim.verifier.split import overwrites
from mlusim.verifier.split.overwrites import Overwrites

ROWS, WIDTH = 2, 8
BOXES = [(slice(a, b), slice(*columns)) for a, b in ((0, 1), (1, 2), (0, 2)) for columns in ((0, 8), (0, 4), (0, 8, 2))]
OPERATIONS = ["load", "store", "store", "store", "fill", "fill", "add", "atomic", "zero"]


async def interpret(core, out, program):
    held = core.nram.alloc((ROWS, WIDTH), np.float32, "held")
    core.fill(held, 1)
    for name, box in program:
        await core.sync()
        match name:
            case "load":
                await core.memcpy(held[box], out[box])
            case "store":
                await core.memcpy(out[box], held[box])
            case "fill":
                core.fill(held[box[0]], 2)
            case "add":
                core.add(held[box[0]], held[box[0]], held[box[0]])
            case "atomic":
                await core.atomic_reduce_add(out[box[0]], held[box[0]])
            case _:
                await core.gdramset(out, 0)


def lost_writes(log, accesses, out):
    """By byte of the output, the writes whose earlier write in the same launch nobody has read: the plain version."""
    fills, buffers, pending, lost = {}, {}, {}, Counter()
    launch = NotImplemented
    for record in range(len(log)):
        values = log.records.values(record)
        if launch != log.tasks[values["task"]].launch:
            launch, pending = log.tasks[values["task"]].launch, {}
        rows = np.flatnonzero(accesses.record == record)
        touched = {write: [] for write in (False, True)}
        for row in rows.tolist():
            geometry, offset = accesses.of(row)
            starts, stops = geometry.segments()
            touched[bool(accesses.write[row])] += [
                (int(accesses.alloc[row]), byte + offset)
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
                for byte in range(start, stop)
            ]
        is_fill = log.ops[values["op"]] in FILLS
        reads = [row for row in rows.tolist() if not accesses.write[row]]
        if not is_fill and len(reads) == 1:
            # The last write in the range that the operand spans, if it covers all of it.
            span = int(accesses.alloc[reads[0]]), int(accesses.low[reads[0]]), int(accesses.high[reads[0]])
            earlier = [other for other in buffers.get(span[0], []) if other[1] < span[2] and other[2] > span[1]]
            is_fill = bool(earlier) and earlier[-1][0] and earlier[-1][1] <= span[1] and earlier[-1][2] >= span[2]
        fills[record] = is_fill
        for byte in touched[False]:
            pending.pop(byte, None)
        for byte in touched[True]:
            before = pending.get(byte)
            if before is not None and byte[0] == out:
                replaces = log.ops[log.records.values(before)["op"]] in FILLS or (fills[before] and not is_fill)
                lost[byte[1]] += not replaces
            pending[byte] = record
        for row in rows[accesses.write[rows]].tolist():
            end = int(accesses.low[row]), int(accesses.high[row])
            buffers.setdefault(int(accesses.alloc[row]), []).append((log.ops[values["op"]] in FILLS, *end))
    return lost


@pytest.mark.parametrize("on_a_grid", [False, True])
@pytest.mark.parametrize("batch", [1, 1 << 18])
@pytest.mark.parametrize("seed", range(15))
def test_lost_writes_are_counted_byte_by_byte(monkeypatch, seed, batch, on_a_grid):
    monkeypatch.setattr(overlaps, "_BATCH_PAIRS", batch)
    monkeypatch.setattr(overwrites, "_MAX_CELLS", batch)
    rng = np.random.default_rng(seed)
    programs = [
        [(OPERATIONS[rng.integers(len(OPERATIONS))], BOXES[rng.integers(len(BOXES))]) for _ in range(10)]
        for _ in range(rng.integers(1, 3))
    ]
    device = mlusim.Device("mlu370-x4")
    out = device.alloc((ROWS, WIDTH), np.float32, "out")
    for program in programs:
        device.launch(interpret, out, program, kind="BLOCK", dim=1)
    device.synchronize()
    log = device.log
    accesses = Run(log).accesses
    rows = np.flatnonzero(accesses.alloc == out.allocation.identity)
    run = accesses.where(rows)
    cells = Cells(run, out.nbytes)
    if not on_a_grid:
        cells._step = 0
        cells._size = len(cells.cuts) - 1
    counts = Overwrites(Run(log)).count(cells, run, np.arange(len(rows)), cells.count(run.write) > 1)
    by_byte = np.repeat(counts, np.diff(cells.cuts))
    expected = lost_writes(log, accesses, out.allocation.identity)
    assert by_byte.tolist() == [expected[byte] for byte in range(out.nbytes)]


@pytest.mark.parametrize("decides", [True, False])
def test_a_row_that_is_replaced_for_one_of_its_elements_is_an_update(decides):
    async def largest(core, x, best):
        if core.is_memory_core:
            return
        row = core.nram.alloc(64, x.dtype, "row")
        for number in range(core.task_id, len(X), core.task_dim):
            await core.memcpy(row, x[number])
            await core.lock(0)
            if not decides or await core.load(best[0]) < await core.load(row[0]):
                await core.memcpy(best, row)
            await core.unlock(0)

    X = np.random.default_rng(0).random((16, 64), np.float32)  # noqa: N806 - an array, as in other tests
    report = mlusim.verify(largest, X, mlusim.InOut(np.zeros(64, np.float32)), dim=4)
    assert [finding.kind for finding in report.errors] == [] if decides else ["written-again"]
