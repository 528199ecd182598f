"""Loops over uninitialised buffers: examining few operations gives the findings of examining all."""

from __future__ import annotations

import numpy as np
import pytest

import mlusim
from mlusim.verifier.uninitialised import flow
from mlusim.verifier.uninitialised.agenda import Agenda
from mlusim.verifier.uninitialised.allocation_flow import AllocationFlow

WIDTH, BUFFERS = 8, 4


def loop(rng):
    """Operations with two buffers, the part of their elements, and the iteration in which they run, or -1 for all."""
    names = ["load", "add", "add", "copy", "fill", "store"]
    return [
        (
            names[rng.integers(len(names))],
            *rng.integers(BUFFERS, size=2),
            slice(*((0, 8), (0, 6), (2, 4), (6, 8))[rng.integers(4)]),
            int(rng.integers(-6, 6)),
        )
        for _ in range(rng.integers(4, 10))
    ]


async def interpret(core, x, out, operations, times):
    buffers = [core.nram.alloc(WIDTH, x.dtype, f"buffer {number}") for number in range(BUFFERS)]
    for turn in range(times):
        for name, one, other, part, when in operations:
            if when >= 0 and when != turn:
                continue
            a, b = buffers[one][part], buffers[other][part]
            match name:
                case "load":
                    await core.memcpy(a, x[turn][part])
                case "add":
                    core.add(a, a, b)
                case "copy":
                    await core.memcpy(a, buffers[(one + 1) % BUFFERS][part])
                case "fill":
                    core.fill(a, 1)
                case _:
                    await core.memcpy(out[core.task_id, one][part], b)
            await core.sync()


def report_of(operations):
    x, out = np.ones((6, WIDTH), np.float32), mlusim.Output((2, BUFFERS, WIDTH), np.float32)
    report = mlusim.verify(interpret, x, out, operations, 6, kind="BLOCK", dim=2, rewrites=True)
    return [finding.to_json() for finding in report.findings]


@pytest.mark.parametrize("seed", range(40))
def test_settled_calls_and_unreachable_buffers_hide_nothing(monkeypatch, seed):
    operations = loop(np.random.default_rng(seed))
    findings = report_of(operations)
    plain = Agenda.examined
    monkeypatch.setattr(Agenda, "examined", lambda agenda, *, settled: plain(agenda, settled=False))
    monkeypatch.setattr(AllocationFlow, "leads_somewhere", lambda flow: np.ones(flow._count, bool))
    monkeypatch.setattr(flow.Flow, "_calls", lambda self, _: np.arange(len(self._log)))
    assert report_of(operations) == findings


@pytest.fixture
def examined(monkeypatch):
    """The records of the operations that the search examines."""
    records = []
    plain = flow.Flow._propagate
    monkeypatch.setattr(flow.Flow, "_propagate", lambda self, record: records.append(record) or plain(self, record))
    return records


def test_a_loop_without_effect_is_examined_once(examined):
    part = slice(0, 6)
    few = report_of([("load", 0, 0, part, -1), ("add", 0, 0, slice(0, 8), -1), ("store", 0, 0, part, -1)])
    assert not [finding for finding in few if finding["kind"] == "uninitialised"]
    # Of 6 iterations: one that marks two elements, and one that changes nothing.
    assert 0 < len(examined) <= 2 * 2 * 3


def test_a_call_after_a_loop_does_not_keep_the_loop_examined(examined):
    part = slice(0, 6)
    report_of([("load", 0, 0, part, 0), ("add", 0, 0, slice(0, 8), -1), ("store", 0, 0, part, 5)])
    # In each of two tasks: the additions of two iterations, and the store.
    assert 0 < len(examined) <= 2 * (2 + 1)


def test_a_settled_buffer_is_examined_again_when_marks_reach_it_from_another():
    whole = slice(0, 8)
    findings = report_of(
        [
            ("load", 0, 0, whole, 0),
            ("load", 1, 1, whole, 0),
            ("add", 0, 2, slice(6, 8), 0),
            ("add", 1, 3, slice(0, 2), 4),
            ("add", 0, 1, slice(0, 6), -1),
            ("store", 0, 0, whole, -1),
        ]
    )
    unwritten = [finding["region"][:13] for finding in findings if finding["kind"] == "uninitialised"]
    assert unwritten == ["buffer 2[6:8]", "buffer 3[0:2]"]


@pytest.mark.parametrize("gathers_first", [True, False])
def test_a_mask_that_is_also_an_operand_without_effect_counts_as_an_address(gathers_first):
    async def kernel(core, x, out):
        tile, unused, offsets, mask = (core.nram.alloc(WIDTH, dtype) for dtype in ("f4", "f4", "i4", "i4"))
        core.fill(offsets, 0)
        core.fill(tile, 1)
        await core.sync()
        for gathers in (gathers_first, not gathers_first):
            if gathers:
                core.gather(unused, x, offsets, mask)
            else:
                core.fusion(unused, tile, tile, mask.view("f4"), "FMA")
            await core.sync()
        await core.memcpy(out, tile)

    x, out = np.ones(WIDTH, np.float32), mlusim.Output((WIDTH,), np.float32)
    report = mlusim.verify(kernel, x, out, device="mlu590-h8", kind="BLOCK", dim=1)
    unwritten = [finding.region for finding in report.findings if finding.kind == "uninitialised"]
    assert unwritten == ["nram buffer 3[0:8], 32 B in NRAM"]
