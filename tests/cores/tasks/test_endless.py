"""Polls of memory that no task writes end early; other polls, and loops over memory, do not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mlusim

LIMIT = 250_000  # operations of a task; polls are refused after 10 000 of the run


def run(kernel, **options):
    x = np.arange(4096, dtype=np.int32)
    flag = mlusim.InOut(np.zeros(2, np.int32))
    return mlusim.run(kernel, x, flag, max_operations=LIMIT, **options)


async def all_poll(core, x, flag):
    while not core.is_memory_core and await core.load(flag[0]) == 0:
        pass


async def one_polls_and_others_wait(core, x, flag):
    if core.task_id == 0 and not core.is_memory_core:
        while await core.load(flag[0]) == 0:
            await core.sync()
    await core.sync_cluster()


async def polls_an_input(core, x, flag):
    if core.task_id == 0 and not core.is_memory_core:
        while await core.load(x[0]) == 0:
            pass


async def polls_its_own_nram(core, x, flag):
    if core.task_id == 0 and not core.is_memory_core:
        held = core.nram.alloc(1, np.int32)
        core.fill(held, 0)
        while await core.load(held[0]) == 0:
            pass


async def only_syncs(core, x, flag):
    while True:
        await core.sync()


async def catches_what_it_gets(core, x, flag):
    while True:
        try:
            await core.load(flag[0])
        except mlusim.MlusimError:
            continue


async def all_poll_by_atomics(core, x, flag):
    if core.is_memory_core:
        return
    old = core.nram.alloc(1, np.int32)
    while True:
        await core.atomic_cas(old, flag[0:1], 1, 2)
        if await core.load(old[0]) == 1:
            return


@pytest.mark.parametrize(
    "kernel",
    [
        all_poll,
        one_polls_and_others_wait,
        polls_an_input,
        polls_its_own_nram,
        only_syncs,
        catches_what_it_gets,
        all_poll_by_atomics,
    ],
)
def test_polling_an_unwritten_location_is_stopped_early(kernel):
    words = (
        r"test_endless\.py:\d+, at .*: the latest 10 000 operations of the run wrote nothing: .* raise max_operations"
    )
    with pytest.raises(mlusim.OperationLimitError, match=words):
        run(kernel, dim=4)


async def a_slow_writer(core, x, flag):
    if core.is_memory_core:
        return
    if core.task_id == 0:
        core.scalar(core.board.clock_hz // 100)  # 10 ms: some 25 000 loads of each of the others
        core.store(flag[0], 1)
    else:
        while await core.load(flag[0]) == 0:
            pass


async def a_walk(core, x, flag):
    if core.is_memory_core or core.task_id:
        return
    found = 0
    for k in range(5 * x.size):
        found += await core.load(x[k % x.size])
    core.store(flag[0], found % 1000)


async def counts_by_atomics(core, x, flag):
    if core.is_memory_core:
        return
    old = core.nram.alloc(1, np.int32)
    while await core.load(flag[0]) < 12_000:
        await core.atomic_add(old, flag[0:1], 1)


async def a_slow_writer_for_atomics(core, x, flag):
    if core.is_memory_core:
        return
    if core.task_id == 0:
        core.scalar(core.board.clock_hz // 500)
        core.store(flag[0], 1)
        return
    old = core.nram.alloc(1, np.int32)
    while True:
        await core.atomic_cas(old, flag[0:1], 1, 2)
        if await core.load(old[0]):
            return


@pytest.mark.parametrize("kernel", [a_slow_writer, a_walk, counts_by_atomics, a_slow_writer_for_atomics])
@pytest.mark.grid(2)
def test_polling_written_locations_and_walking_memory_are_allowed(kernel):
    assert run(kernel, dim=4).output[0] > 0


async def lacks_its_step(core, x, out):
    buffer = core.nram.alloc(64, x.dtype)
    start = core.task_id * 64
    while start < x.size:
        await core.memcpy(buffer, x[start : start + 64])
        await core.memcpy(out[start : start + 64], buffer)


async def goes_over_its_input(core, x, out, step=1):
    buffer = core.nram.alloc(64, x.dtype)
    for _ in range(200):
        for start in range(0, x.size - 64, step):
            await core.memcpy(buffer, x[start : start + 64])
        await core.memcpy(out[:64], buffer)


def test_verify_refuses_a_run_that_does_the_same_again_and_again():
    out = mlusim.Output((256,), np.int32)
    options = {"dim": 4, "kind": "BLOCK", "max_operations": LIMIT}
    (finding, *others) = mlusim.verify(lacks_its_step, np.zeros(256, np.int32), out, **options).findings
    assert finding.kind == "endless"
    assert "the latest 10 000 operations of the run access the same operands again and again" in finding.title
    assert "the loop at test_endless.py:" in finding.remedies[0]
    assert not others
    report = mlusim.verify(
        goes_over_its_input, np.zeros(256, np.int32), out, partial=("out",), **(options | {"dim": 1})
    )
    assert all(finding.kind != "endless" for finding in report.findings)


async def repeats_in_nram(core, x, out, steps):
    """Newton's iteration: the operands are always the same."""
    if core.is_memory_core:
        return
    value = core.nram.alloc(x.shape[1], x.dtype)
    await core.memcpy(value, x[core.task_id])
    for _ in range(steps):
        core.mul(value, value, 0.5)
        core.add(value, value, 1.0)
    await core.memcpy(out[core.task_id], value)


async def counts(core, x, out, steps):
    if core.is_memory_core:
        return
    value = core.nram.alloc(x.shape[1], x.dtype)
    await core.memcpy(value, x[core.task_id])
    step = 0
    while step < steps:
        core.mul(value, value, 0.5)
        step += 1
    await core.memcpy(out[core.task_id], value)


async def leaves_when_it_is_small(core, x, out, steps):
    """By a `break`, with a list of what is left."""
    if core.is_memory_core:
        return
    value, left = core.nram.alloc(x.shape[1], x.dtype), list(range(steps))
    await core.memcpy(value, x[core.task_id])
    while True:
        core.mul(value, value, 0.5)
        left.pop()
        if not left:
            break
    await core.memcpy(out[core.task_id], value)


async def counts_and_never_reads_it(core, x, out, steps):
    if core.is_memory_core:
        return
    value, step = core.nram.alloc(x.shape[1], x.dtype), 0
    await core.memcpy(value, x[core.task_id])
    while x.shape[0] < steps:
        core.mul(value, value, 0.5)
        step += 1


async def zips_without_end(core, x, out, steps):
    if core.is_memory_core:
        return
    value = core.nram.alloc(x.shape[1], x.dtype)
    await core.memcpy(value, x[core.task_id])
    for _ in zip(itertools.count(), enumerate(itertools.cycle(range(steps))), strict=False):
        core.mul(value, value, 0.5)


async def zips_with_a_range(core, x, out, steps):
    if core.is_memory_core:
        return
    value = core.nram.alloc(x.shape[1], x.dtype)
    await core.memcpy(value, x[core.task_id])
    for _ in zip(itertools.count(), range(steps), strict=False):
        core.mul(value, value, 0.5)
    await core.memcpy(out[core.task_id], value)


async def repeats_without_end(core, x, out, steps):
    if core.is_memory_core:
        return
    value = core.nram.alloc(x.shape[1], x.dtype)
    await core.memcpy(value, x[core.task_id])
    for _ in itertools.count():
        core.mul(value, value, 0.5)
        core.add(value, value, 1.0)


@pytest.mark.parametrize(
    "kernel",
    [repeats_in_nram, counts, leaves_when_it_is_small, zips_with_a_range],
)
@pytest.mark.grid(2)
def test_verify_allows_a_loop_that_makes_progress_to_repeat_itself(kernel):
    x = np.zeros((4, 64), np.float32)
    # Of four tasks, four times the repetitions after which a loop without progress is refused.
    report = mlusim.verify(kernel, x, mlusim.Output.like(x), 10_000, dim=4, max_operations=LIMIT)
    assert report.ok, report.text()


@pytest.mark.parametrize("kernel", [repeats_without_end, counts_and_never_reads_it, zips_without_end])
def test_verify_refuses_a_loop_that_makes_no_progress(kernel):
    x = np.zeros((4, 64), np.float32)
    report = mlusim.verify(kernel, x, mlusim.Output.like(x), LIMIT // 4, dim=4, max_operations=LIMIT)
    assert [finding.kind for finding in report.errors] == ["endless"]
    assert "the same operands again and again" in report.errors[0].title
