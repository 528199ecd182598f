"""The matrix of seeded bugs: each single bug in a kernel is found, and the sound kernel has no findings."""

from __future__ import annotations

import pytest

import mlusim
import sound_kernels
from mutants import mutants

CASES = sound_kernels.cases()

ONE_PIPE = "loads and stores share the core's IO pipe, which is in order"
NO_TURN = "the bound moves within the last stride: the loop makes the same turns"
BARRIER = "the barrier that follows waits for all pipes of the core"
OTHER_BOARD = "this path is for boards with aligned vector operands, and is not taken here"
AGAIN = "the first turn only loads, and loads the same bytes to the same place once more"

# What does not change what the kernel does, by case and mutant, and why.
EQUIVALENT: dict[tuple[str, str], str] = {
    ("copy", "no sync_io"): ONE_PIPE,
    ("copy", "no sync_io (2)"): ONE_PIPE,
    ("copy", "range(core.task_id * 4, x.shape[0], core.task_dim * 4) argument 1 +1"): NO_TURN,
    ("copy", "range(core.task_id * 4, x.shape[0], core.task_dim * 4) argument 1 -1"): NO_TURN,
    ("add", "loop over range(len(tiles) + 2) does its first turn twice"): AGAIN,
    ("gather", "not waited for: core.memcpy(out[first:first + count], rows[0:count])"): ONE_PIPE,
    ("gather", "range(core.task_id * 4, index.shape[0], core.task_dim * 4) argument 1 +1"): NO_TURN,
    ("gather", "range(core.task_id * 4, index.shape[0], core.task_dim * 4) argument 1 -1"): NO_TURN,
    ("sum", "not waited for: core.memcpy(partial[core.core_id], total)"): BARRIER,
    ("staged add", "loop over range(x.shape[0] + 2) does its first turn twice"): AGAIN,
    ("staged add", "not waited for: core.memcpy(left, held[slot, begin:begin + part])"): (
        "the blocking copy that follows is on the same Move pipe, which is in order"
    ),
    ("tin_shift tight", "no sync_compute"): OTHER_BOARD,
    ("tin_shift pingpong", "no sync_compute"): OTHER_BOARD,
}

MUTANTS = [(name, mutant, make) for name, case in CASES.items() for mutant, make in mutants(case.kernel)]
ORDER_KINDS = {"race", "task-race"}


def verify(name, kernel):
    case = CASES[name]
    return mlusim.verify(kernel, *case.arguments, reference=case.reference, max_operations=20_000, **case.options)


@pytest.mark.parametrize("name", CASES)
def test_the_sound_kernel_has_no_errors(name):
    report = verify(name, CASES[name].kernel)
    assert report.ok, report.text()


@pytest.mark.grid(8)
@pytest.mark.parametrize(("name", "mutant", "make"), MUTANTS, ids=[f"{one}: {other}" for one, other, _ in MUTANTS])
def test_a_seeded_bug_is_found(name, mutant, make):
    report = verify(name, make())
    if (name, mutant) in EQUIVALENT:
        assert report.ok, f"listed as equivalent ({EQUIVALENT[name, mutant]}), but:\n{report.text()}"
        return
    assert not report.ok
    if mutant.startswith(("no sync", "not waited for")):
        # A missing sync is found as one, whether or not the values came out right.
        assert ORDER_KINDS & {finding.kind for finding in report.errors}, report.text()


def test_every_mutant_listed_as_equivalent_exists():
    assert set(EQUIVALENT) <= {(name, mutant) for name, mutant, _ in MUTANTS}


def test_there_are_many_mutants():
    kinds = ("no sync", "not waited for", "twice", "skips", "extent", "upper", "lower", "argument")
    assert len(MUTANTS) - len(EQUIVALENT) > 200
    assert all(any(kind in mutant for _, mutant, _ in MUTANTS) for kind in kinds)
