"""Pairs of a sound kernel and the same kernel with one fault: the fault is one error, and the sound kernel has none."""

from __future__ import annotations

import re

import pytest

from applied_remedies import ways_to_apply
from kernel_pairs import CASES, report_of

# A finding names a line at most this far from the fault, such as those before and after a missing sync.
NEAR = 3


# The barrier is on the line of the access that it should precede.
NO_LINE_OF_ITS_OWN = ("sram_matmul", "late")


def fixes(case, finding, folder):
    """Check that the first remedy fixes the kernel as it is written, unless it asks for thought."""
    for number, lines in enumerate(ways_to_apply(finding, case.lines)):
        report = report_of(case._replace(lines=lines), folder / f"fixed {number}")
        errors = report.errors
        if finding.kind == "uninitialised":
            # The bytes then have a value. Which one is right, a checker cannot know.
            errors = [one for one in errors if one.region == finding.region]
        assert not errors or (case.name, case.fault) == NO_LINE_OF_ITS_OWN, f"{finding.remedy}\n{report.text()}"


@pytest.mark.grid(8)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.name}-{case.fault}" for case in CASES])
def test_a_fault_is_one_error_and_the_sound_kernel_has_none(case, tmp_path):
    report = report_of(case, tmp_path)
    if not case.kind:
        assert report.ok, report.text()
        return
    assert [finding.kind for finding in report.errors] == [case.kind], report.text()
    fixes(case, report.errors[0], tmp_path)
    named = {int(line) for line in re.findall(rf"{case.name}\.py:(\d+)", report.errors[0].text())}
    assert case.elsewhere or min(abs(one - line) for one in named for line in case.changed) <= NEAR, report.text()


def test_there_are_pairs_of_each_kind():
    kinds = {case.kind for case in CASES}
    assert {"race", "task-race", "release", "uninitialised", "hang", "endless", "access", "never-written"} <= kinds
    assert len(CASES) > 300
