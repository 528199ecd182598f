"""Host programs with one fault: one finding, whose first remedy is for that fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc.host.program import Program
from mlusim.verifier.findings import Finding

FILE = Path(__file__).parents[1] / "kernels" / "one_fault.mlu"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(FILE)


def _findings(module: bangc.Module, what: str, dma: str = "complete") -> list[Finding]:
    device = Device(dma=dma)
    assert Program(module, device, (what,)).run() == 0
    return [finding for finding in device.verify().findings if finding.kind != "unused"]


@pytest.mark.parametrize("dma", ["complete", "late"])
@pytest.mark.parametrize("what", ["steps", "scan", "sum", "copied"])
def test_the_right_programs_have_no_finding(module: bangc.Module, what: str, dma: str) -> None:
    assert not _findings(module, what, dma)


HOST_COPY = "if it is an input, copy it there on the host before the launch: cnrtMemcpy, cnrtMemset"


@pytest.mark.parametrize(
    ("what", "kind", "remedy"),
    [
        ("other memory", "uninitialised", HOST_COPY),
        ("elements", "uninitialised", HOST_COPY),
        ("in place", "task-race", "write device memory 1, which is never written, in place of device memory 0 at "),
        ("one slot", "uninitialised", "correct the part of device memory 2 at {0}, which writes other bytes of it"),
        ("all tasks", "task-race", "let one task alone write them, at {0} and "),
        ("other queue", "task-race", "put both launches on one queue, those at "),
        ("no barrier", "task-race", "`__sync_cluster()` in all cores of the cluster and its memory core, before "),
        ("one part", "task-race", "correct the part of part at {0}: other bytes of it are read, and never written"),
        ("one row", "never-written", "correct the part of device memory 1 at {0}: it writes the same bytes again"),
        ("same slot", "race", "correct the part of given at {0} or "),
    ],
)
def test_one_fault_is_one_finding(module: bangc.Module, what: str, kind: str, remedy: str) -> None:
    (finding,) = _findings(module, what)
    assert finding.kind == kind
    lines = FILE.read_text().splitlines()
    at = next((number for number, line in enumerate(lines, 1) if line.endswith(f"// {what}")), 0)
    assert finding.remedies[0].startswith(remedy.format(f"one_fault.mlu:{at}")), finding.text()
    if what in ("in place", "other queue"):
        assert f"one_fault.mlu:{at}" in finding.remedies[0]
