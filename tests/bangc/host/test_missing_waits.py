"""Asynchronous copies of a host program, concurrent with the host, other copies and launches."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc.host.program import Program
from mlusim.verifier.findings import Finding

FILE = Path(__file__).parents[1] / "kernels" / "missing_waits.mlu"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(FILE)


def _findings(module: bangc.Module, what: str) -> list[Finding]:
    device = Device()
    assert Program(module, device, (what,)).run() == 0
    return [finding for finding in device.verify().findings if finding.kind != "unused"]


@pytest.mark.parametrize(
    "what",
    [
        *("sound", "halves", "source is read", "input is replaced in order", "input is copied back"),
        *("queue is destroyed", "queue has a function", "queue is polled", "notifier is polled"),
    ],
)
def test_copies_and_launches_that_do_not_meet_need_no_wait(module: bangc.Module, what: str) -> None:
    assert not _findings(module, what)


@pytest.mark.parametrize(
    ("what", "kind", "user", "earlier"),
    [
        ("other half is read", "unsynced", "main", "cnrtMemcpyAsync"),
        ("source is overwritten", "unsynced", "main", "cnrtMemcpyAsync"),
        ("pinned memory is freed", "unsynced", "cnrtFreeHost", "cnrtMemcpyAsync"),
        ("input is replaced", "unordered", "cnrtMemcpyAsync", "twice"),
        ("input is replaced in a loop", "unordered", "cnrtMemcpyAsync", "twice"),
        ("input is freed", "unsynced", "cnrtFree", "twice"),
        ("heap", "unsynced", "main", "cnrtMemcpyAsync"),
        ("stack", "unsynced", "main", "cnrtMemcpyAsync"),
        ("result of a function", "unsynced", "main", "cnrtMemcpyAsync"),
        ("static", "unsynced", "main", "cnrtMemcpyAsync"),
        ("copied on", "unsynced", "main", "cnrtMemcpyAsync"),
        ("is queried once", "unsynced", "main", "cnrtMemcpyAsync"),
        ("notifier is queried once", "unsynced", "main", "cnrtMemcpyAsync"),
        ("same target", "unsynced", "cnrtMemcpyAsync", "cnrtMemcpyAsync"),
        ("time is measured", "unsynced", "cnrtNotifierDuration", "twice"),
    ],
)
def test_memory_that_a_copy_or_a_launch_may_still_use_is_one_finding(
    module: bangc.Module, what: str, kind: str, user: str, earlier: str
) -> None:
    (hint,) = _findings(module, what)
    assert hint.kind == kind
    assert hint.title.startswith((f"{user} uses memory of {earlier}, ", f"{user} measures {earlier}, "))
    lines = FILE.read_text().splitlines()
    assert lines[hint.to_json()["line"] - 1].endswith(f"// {what}")
