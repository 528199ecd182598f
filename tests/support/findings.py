"""Helpers shared by the tests of findings."""

from __future__ import annotations

import re

import numpy as np

from mlusim import verify

X = np.arange(64, dtype=np.float32).reshape(8, 8)
ONE = {"kind": "BLOCK", "dim": 1}


def only(report, kind):
    found = [finding for finding in report.findings if finding.kind == kind]
    assert len(found) == 1, report.text()
    return found[0]


def assert_text(finding, pattern):
    """The whole text, line by line; `HERE` stands for a line of a test file."""
    pattern = re.escape(" ".join(pattern.split("\n"))).replace("HERE", r"test_\w+\.py:\d+").replace("TIME", r"[\d .]+")
    assert re.fullmatch(pattern.replace(r"\ ", r"\s+"), finding.text()), finding.text()


def the_only_error(kernel, *arguments, **options):
    report = verify(kernel, *arguments, **options)
    assert len(report.errors) == 1, report.text()
    return report.errors[0]


def kinds_of(finding):
    return [part.kind for part in finding.folded]


def uninitialised(report):
    return [finding for finding in report.findings if finding.kind == "uninitialised"]
