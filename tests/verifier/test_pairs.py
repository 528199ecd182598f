"""Pairs of a sound kernel and the same kernel with one fault: the fault is one error, and the sound kernel has none."""

from __future__ import annotations

import re

import pytest

from kernel_pairs import CASES, report_of

# A finding names a line at most this far from the fault, such as those before and after a missing sync.
NEAR = 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.name}-{case.fault}" for case in CASES])
def test_a_fault_is_one_error_and_the_sound_kernel_has_none(case, tmp_path):
    report = report_of(case, tmp_path)
    if not case.kind:
        assert report.ok, report.text()
        return
    assert [finding.kind for finding in report.errors] == [case.kind], report.text()
    named = {int(line) for line in re.findall(rf"{case.name}\.py:(\d+)", report.errors[0].text())}
    assert case.elsewhere or min(abs(one - line) for one in named for line in case.changed) <= NEAR, report.text()


def test_there_are_pairs_of_each_kind():
    kinds = {case.kind for case in CASES}
    assert {"race", "task-race", "release", "uninitialised", "hang", "endless", "access", "never-written"} <= kinds
    assert len(CASES) > 300
