"""Buffers released while a transfer uses them are findings, and no hint removes the sync before a release."""

from __future__ import annotations

import linecache
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlusim import Output, verify

X = np.arange(64, dtype=np.float32).reshape(8, 8)
ONE = {"kind": "BLOCK", "dim": 1}


def kinds(report):
    return [finding.kind for finding in report.findings]


async def rows_in_scopes(core, x, out, sync):
    for row in range(8):
        with core.nram.scope():
            held = core.nram.alloc(8, x.dtype, "held")
            core.memcpy_async(held, x[row])
            core.memcpy_async(out[row], held)
            if sync:
                await core.sync_io()


def test_a_release_while_a_store_reads_the_buffer_is_a_finding():
    report = verify(rows_in_scopes, X, Output.like(X), False, **ONE)
    (finding,) = [one for one in report.errors if one.kind == "release" and "read" in one.title]
    assert finding.title == "held is released while memcpy may still read it"
    assert finding.times == 7
    assert finding.region == "held[0:8], 32 B in NRAM"
    assert finding.remedy == "`await core.sync_io()`, which waits for the IO pipe, before the scope of held ends"


def test_a_sync_that_protects_a_release_is_not_redundant():
    report = verify(rows_in_scopes, X, Output.like(X), True, reference=X, **ONE)
    assert report.findings == (), report.text()


@pytest.mark.parametrize("dma", ["complete", "late"])
def test_bytes_in_flight_are_not_poisoned(dma):
    """The board has no poison: what a forgotten sync shows is the value of another time, never a made-up one."""

    async def kernel(core, x, out):
        with core.nram.scope():
            first = core.nram.alloc(x.shape, x.dtype, "first")
            await core.memcpy(first, x)
            core.memcpy_async(out, first)
        core.nram.alloc(x.shape, x.dtype, "second")
        core.scalar()

    report = verify(kernel, X, Output.like(X), reference=X, dma=dma, **ONE)
    assert "wrong-value" not in kinds(report)
    assert "release" in kinds(report)


def test_fresh_buffers_are_poisoned_again_once_all_transfers_are_done():
    async def kernel(core, x, out):
        with core.nram.scope():
            first = core.nram.alloc(x.shape, x.dtype, "first")
            core.memcpy_async(first, x)
        await core.sync()
        second = core.nram.alloc(x.shape, x.dtype, "second")
        await core.memcpy(out, second)

    report = verify(kernel, X, Output.like(X), **ONE)
    assert np.isnan(report.outputs["out"]).all()


def test_vector_instructions_may_outlive_a_scope():
    """The vector pipe is in order with what it does next to the same bytes."""

    async def kernel(core, x, out):
        held = core.nram.alloc(x.shape, x.dtype, "held")
        await core.memcpy(held, x)
        for row in range(8):
            with core.nram.scope():
                twice = core.nram.alloc(8, x.dtype, "twice")
                core.add(twice, held[row], held[row])
                core.add(held[row], twice, 1.0)
        await core.memcpy(out, held)

    assert verify(kernel, X, Output.like(X), reference=2 * X + 1, **ONE).findings == ()


def test_a_scope_that_ends_with_the_task_needs_no_sync():
    async def kernel(core, x, out):
        with core.nram.scope():
            held = core.nram.alloc(x.shape, x.dtype, "held")
            await core.memcpy(held, x)
            core.memcpy_async(out, held)

    assert verify(kernel, X, Output.like(X), reference=X, **ONE).ok


lines = st.sampled_from(
    [
        "core.memcpy_async(a, x[{0}])",
        "core.memcpy_async(out[{0}], a)",
        "core.memcpy_async(out[{0}], b)",
        "await core.memcpy(b, x[{0}])",
        "core.add(a, a, 1.0)",
        "core.add(b, a, 2.0)",
        "core.move(b, a)",
        "core.store(out[{0}, 0], 1.0)",
        "await core.load(a[{0}])",
        "await core.sync()",
        "await core.sync_io()",
        "await core.sync_move()",
        "await core.sync_compute()",
        "END",
    ]
)
programs = st.lists(st.tuples(lines, st.integers(0, 7)), min_size=3, max_size=25)


def compiled(body: list[str], name: str):
    """A kernel from its lines, each of which the log can tell from the others."""
    text = "\n".join(["async def kernel(core, x, out):", *body]) + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, object] = {}
    exec(compile(text, name, "exec"), names)
    return names["kernel"]


def source(program) -> list[str]:
    """`END` closes the scope and opens the next one."""
    opened = ["    with core.nram.scope():"] + [
        f"        {name} = core.nram.alloc(8, x.dtype, {name!r})\n        core.write_zero({name})" for name in "ab"
    ]
    body = list(opened)
    for line, row in program:
        body += opened if line == "END" else [f"        {line.format(row)}"]
    return body


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs)
@pytest.mark.slow
def test_removing_a_redundant_sync_is_safe(program):
    body = source(program)
    report = verify(compiled(body, "whole.py"), X, Output.like(X), rewrites=True, **ONE)
    harms = {"race", "release", "uninitialised"}
    dropped = [finding for finding in report.findings if finding.kind == "redundant-sync"]
    assert not (dropped and harms & set(kinds(report)))
    text = "\n".join(body).split("\n")
    for finding in dropped:
        for site in finding.sites:
            # Line 1 is the head of the kernel.
            assert "core.sync" in text[site.line - 2]
            text[site.line - 2] = re.sub(r"await core.sync.*", "pass", text[site.line - 2])
    again = verify(compiled(text, "without.py"), X, Output.like(X), rewrites=True, **ONE)
    if not harms & set(kinds(report)):
        assert not harms & set(kinds(again)), again.text()
        assert "redundant-sync" not in kinds(again), again.text()
