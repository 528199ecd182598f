"""Values that tasks pass through Python objects are found; constants, notes and counters are not errors."""

from __future__ import annotations

import itertools
import random
from functools import cached_property, partial
from types import SimpleNamespace

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output
from mlusim.errors import VerificationError
from mlusim.verifier.check_by_default import watched

X = np.arange(256, dtype=np.float32).reshape(4, 64)
OUT = Output.like(X)


def kinds(kernel, *more):
    report = mlusim.verify(kernel, X, OUT, *more, dim=4)
    return [finding.kind for finding in report.errors if finding.kind == "host-data"], report


def channel(put, get):
    """A kernel that hands the row of each task to the next."""

    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        put(core.core_id, await core.load_array(tile))
        await core.sync_all_ipu()
        core.store_array(out[core.core_id], get((core.core_id + 1) % 4))

    return kernel


def test_an_array_of_a_closure_that_passes_values_is_reported():
    held = np.zeros((4, 64), np.float32)

    def put(who, row):
        held[who] = row

    found, report = kinds(channel(put, lambda who: held[who]))
    assert found == ["host-data"]
    assert "tasks pass values through held, a Python ndarray of the host" in report.text()
    assert "load them after a barrier" in report.text()
    # The barrier between them orders nothing on the board, and is not advice to drop.
    assert not [finding for finding in report.findings if finding.kind == "redundant-sync"]
    assert "read at test_host_data.py:" in report.text()


def test_a_list_and_a_namespace():
    rows = [None] * 4
    state = SimpleNamespace(total=0.0)

    def put(who, row):
        rows[who] = row

    def add(_, row):
        state.total += float(row[0])

    assert kinds(channel(put, lambda who: rows[who]))[0]
    assert kinds(channel(add, lambda _: np.full(64, state.total)))[0]


def test_a_dictionary_among_the_arguments():
    async def kernel(core, x, out, rows):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        rows[core.core_id] = await core.load_array(tile)
        await core.sync_all_ipu()
        core.store_array(out[core.core_id], rows[(core.core_id + 1) % 4])

    assert kinds(kernel, {})[0]


async def copy(core, x, out):
    tile = core.nram.alloc(64, x.dtype, "tile")
    await core.memcpy(tile, x[core.core_id])
    await core.memcpy(out[core.core_id], tile)


@pytest.mark.parametrize("what", ["constants", "notes", "counter", "plan"])
def test_objects_that_pass_no_values_are_not_reported(what):
    order = np.array([2, 0, 3, 1])
    seen, calls = [], {"copies": 0}

    async def constants(core, x, out):
        if not core.is_memory_core:
            tile = core.nram.alloc(64, x.dtype, "tile")
            row = int(order[core.core_id])
            await core.memcpy(tile, x[row])
            await core.memcpy(out[row], tile)

    async def notes(core, x, out):
        if not core.is_memory_core:
            seen.append(core.core_id)
            await copy(core, x, out)

    async def counter(core, x, out):
        if not core.is_memory_core:
            calls["copies"] += 1
            await copy(core, x, out)

    async def plan(core, x, out):
        if not core.is_memory_core:
            rows = {core.core_id: 0}
            rows[core.core_id] += len(order)
            await copy(core, x, out)

    report = mlusim.verify(
        {"constants": constants, "notes": notes, "counter": counter, "plan": plan}[what], X, OUT, dim=4
    )
    assert report.ok, report.text()


def test_a_single_task_passes_no_values():
    last = []

    async def kernel(core, x, out):
        last.append(await core.load(x[0, 0]))
        tile = core.nram.alloc((4, 64), x.dtype, "tile")
        core.write_value(tile, last[-1])
        await core.memcpy(out, tile)

    report = mlusim.verify(kernel, X, OUT, dim=1, kind="BLOCK")
    assert report.ok, report.text()


def tickets(take):
    """A kernel whose tasks take the next row from a counter of the host, which `take` advances."""

    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(64, x.dtype, "tile")
        while (row := take()) < 4:
            await core.memcpy(tile, x[row])
            await core.memcpy(out[row], tile)

    return kernel


class Counter:
    """Rows by an attribute: of the class, of an instance, or in a slot."""

    shared = 0

    def __init__(self):
        self.row = 0

    def take(self):
        self.row += 1
        return self.row - 1

    async def kernel(self, core, x, out):
        await tickets(self.take)(core, x, out)


class Slotted:
    __slots__ = ("row",)

    def __init__(self):
        self.row = 0


def of_a_function():
    def take():
        take.row += 1
        return take.row - 1

    take.row = 0
    return tickets(take)


def of_a_class():
    def take():
        Counter.shared += 1
        return Counter.shared - 1

    Counter.shared = 0
    return tickets(take)


def of_an_instance():
    counter = Counter()
    return tickets(counter.take)


def of_a_slot():
    counter = Slotted()

    def take():
        counter.row += 1
        return counter.row - 1

    return tickets(take)


def of_an_iterator(rows):
    return lambda: tickets(lambda: next(rows))


def of_self():
    return Counter().kernel


def of_a_partial():
    async def kernel(core, x, out, rows):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        await core.memcpy(out[rows.pop()], tile)

    return partial(kernel, rows=[3, 2, 1, 0])


def of_random_numbers():
    rng = random.Random(0)
    order = [0, 1, 2, 3, 9]
    return tickets(lambda: order[4] if rng.random() >= 0 else 0)


@pytest.mark.parametrize(
    "make",
    [
        of_a_function,
        of_a_class,
        of_an_instance,
        of_a_slot,
        of_self,
        of_a_partial,
        of_random_numbers,
        of_an_iterator(itertools.count()),
        of_an_iterator(iter([0, 1, 2, 3, 4, 4, 4, 4])),
        of_an_iterator(row for row in [0, 1, 2, 3, 4, 4, 4, 4]),
        of_an_iterator(map(int, [0, 1, 2, 3, 4, 4, 4, 4])),
    ],
)
def test_a_counter_that_tasks_advance_is_reported(make):
    found, report = kinds(make())
    assert "host-data" in found, report.text()


class Tiling:
    """What kernels use of an object: constants, some computed at first use, and notes."""

    def __init__(self):
        self.rows = 4
        self.notes = []
        self.copies = 0

    @cached_property
    def last(self):
        return self.rows - 1

    def note(self, row):
        self.notes.append(row)


def test_objects_of_constants_and_notes_are_not_reported():
    tiling = Tiling()

    def copied():
        copied.calls += 1

    copied.calls = 0

    async def kernel(core, x, out):
        if core.is_memory_core or core.core_id > tiling.last:
            return
        copied()
        tiling.note(core.core_id)
        tiling.copies += 1
        await copy(core, x, out)

    report = mlusim.verify(kernel, X, OUT, dim=4)
    assert report.ok, report.text()


def closure_of_a_list():
    rows = [None] * 4

    def put(who, row):
        rows[who] = row

    return channel(put, lambda who: rows[who])


def by_run():
    try:
        mlusim.run(closure_of_a_list(), X, OUT, dim=4, check=True)
    except VerificationError as error:
        return error.report
    return None


def by_device():
    device = Device()
    device.watch_host_data()
    device.launch(closure_of_a_list(), device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out"), dim=4)
    device.synchronize()
    return device.verify()


def by_watched_devices():
    with watched() as devices:
        device = Device()
        device.launch(closure_of_a_list(), device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out"), dim=4)
        device.synchronize()
    return devices[0].verify()


@pytest.mark.parametrize("way", [by_run, by_device, by_watched_devices])
def test_every_way_to_verify_finds_values_passed_through_the_host(way):
    report = way()
    assert [finding.kind for finding in report.errors] == ["host-data"]


def test_changes_by_the_host_between_runs_are_not_reported():
    scale = [1.0]

    async def kernel(core, x, out):
        if core.is_memory_core:
            return
        tile = core.nram.alloc(64, x.dtype, "tile")
        await core.memcpy(tile, x[core.core_id])
        core.mul(tile, tile, scale[0])
        await core.memcpy(out[core.core_id], tile)

    device = Device()
    device.watch_host_data()
    x, out = device.upload(X, "x"), device.alloc(X.shape, X.dtype, "out")
    for scale[0] in (2.0, 3.0):
        device.launch(kernel, x, out, dim=4)
        device.synchronize()
    report = device.verify()
    assert report.ok, report.text()


@pytest.mark.parametrize("shared", [True, False])
def test_a_default_that_calls_share_is_reported(shared):
    async def kernel(core, x, out, seen={} if shared else None):
        if core.is_memory_core:
            return
        seen = {} if seen is None else seen
        if "first" not in seen:
            seen["first"] = float(await core.load(x[core.task_id]))
        core.store(out[core.task_id], seen["first"])
        await core.sync()

    report = mlusim.verify(kernel, X[:4, 0].copy(), Output(4), dim=4)
    assert [finding.kind for finding in report.errors] == (["host-data"] if shared else [])
