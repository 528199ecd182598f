"""The methods for large logs and tensors give the findings of those for small ones."""

from __future__ import annotations

import numpy as np
import pytest

import faulty_kernels
import mlusim
import vendor_idioms
from mlusim.verifier import columns
from mlusim.verifier.accesses import cells, overlaps, table
from mlusim.verifier.check import check_log
from mlusim.verifier.races import conflicts, race_search
from mlusim.verifier.split import overwrites
from mlusim.verifier.uninitialised import reads
from mlusim.verifier.uninitialised.agenda import Agenda
from mlusim.verifier.uninitialised.allocation_flow import AllocationFlow


def all_allocations(flow, *_):
    return np.ones(flow._count, bool)


def examined(agenda, *, settled, plain=Agenda.examined):
    plain(agenda, settled=False)


# Limits up to which the checker compares all pairs, batches and grids at once.
LIMITS = {
    "pairs by kind": [(conflicts, "_MAX_PAIRS_PER_ACCESS", 0), (conflicts, "FEW_PAIRS", -1)],
    "a task at a time": [
        (conflicts, "_BATCH_ROWS", 1),
        (reads, "_BATCH_ROWS", 1),
        (reads, "_FEW_CELLS", -1),
        (table, "_PART", 3),
    ],
    "few pairs at a time": [(overlaps, "_BATCH_PAIRS", 1), (overlaps, "_BATCH", 1), (overlaps, "FEW_PAIRS", -1)],
    "cells of unequal size": [(cells, "_SMALL_GRID", 0), (cells, "_MAX_CELLS_PER_RUN", 0)],
    "every operation that may move marks": [
        (AllocationFlow, "leads_somewhere", all_allocations),
        (AllocationFlow, "reached_from", all_allocations),
        (Agenda, "examined", examined),
    ],
    "few races at a time": [(race_search, "_MOST_PAIRS", 0), (overlaps, "_BATCH_PAIRS", 1)],
    # Products that are not made in 64 bits overflow.
    "the narrowest columns": [(columns, "_TYPES", ((np.dtype(np.int8), 63), *columns._TYPES))],
    "few runs at a time": [
        (cells, "_BATCH_RUNS", 1),
        (cells, "_MAX_BATCHED_SEGMENTS", 0),
        (overwrites, "_MAX_CELLS", 1),
    ],
}
# Kernels that change objects of the host behave differently when they run again, and their faults are not in the log.
CASES = {f"fault {name}": case for name, case in faulty_kernels.FAULTS.items() if "host-data" not in case.kinds}
CASES |= {f"idiom {name}": case for name, case in vendor_idioms.IDIOMS.items()}


@pytest.fixture(scope="module")
def runs():
    """The log of each case and its findings without limits, made when they are first needed."""
    made = {}

    def run(name):
        if name not in made:
            case = CASES[name]
            verified = mlusim.verify(case.kernel, *case.arguments, **case.options)
            made[name] = verified, findings(verified, case.options.get("rewrites", ()))
        return made[name]

    return run


def findings(run, rewrites):
    report = check_log(run.log, run.result.board, rewrites=rewrites, stopped=None if not run.stopped else ValueError())
    return [finding.to_json() for finding in report.findings], report.tensors


@pytest.mark.grid(8)
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", CASES)
def test_limits_of_the_checker_do_not_change_its_findings(runs, monkeypatch, name, limits):
    run, expected = runs(name)
    for module, limit, value in LIMITS[limits]:
        monkeypatch.setattr(module, limit, value)
    assert findings(run, CASES[name].options.get("rewrites", ())) == expected
