"""Random programs of a cluster: the races found, compared with a graph of events and sets of bytes.

The oracle knows nothing of positions, lanes or clocks: it has the events of each operation (issued, begun, complete)
and their order, and searches for a path. Uninitialised bytes are looked up one by one.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.cores.synchronisation.ordering import BLOCKING_COPY
from mlusim.log import IO, MOVE, SCALAR, VECTOR
from mlusim.records import COLUMNS
from mlusim.verifier.races.conflicts import between_tasks, within_tasks
from mlusim.verifier.run import Run
from mlusim.verifier.uninitialised.read_findings import find_uninitialised

CORES = 2
CLUSTER = 5
WIDTH = 12
BARRIER = ("barrier",)

boxes = st.tuples(st.integers(0, 5), st.integers(1, 3), st.integers(1, 3)).map(
    lambda box: slice(box[0], min(box[0] + box[1] * box[2], WIDTH - (WIDTH - box[0]) % box[2]), box[2])
)
thirds = st.sampled_from([slice(0, 4), slice(4, 8)])
core_operations = st.one_of(
    st.tuples(st.sampled_from(["load", "load_async", "store_async"]), boxes),
    st.tuples(st.sampled_from(["from_sram", "to_sram", "to_sram_async", "gdram_to_sram_async"]), boxes),
    # Few places, so that cores often execute the same copy, which is one.
    st.tuples(
        st.sampled_from(["gdram_to_sram", "gdram_to_sram_async", "sram_to_gdram", "sram_to_gdram_async"]), thirds
    ),
    st.tuples(st.just("atomic"), thirds),
    # Operands that overlap in part are refused.
    st.tuples(st.sampled_from(["vector", "move"]), *[st.integers(0, 2).map(lambda third: 3 * third)] * 2),
    st.tuples(st.just("vector"), st.integers(0, 5)).map(lambda one: (*one, one[1])),
    st.tuples(st.sampled_from(["scalar_load", "post", "scalar_store"]), st.integers(0, WIDTH - 1)),
    st.tuples(st.just("post_array"), boxes),
    st.tuples(st.sampled_from(["sync", "sync_io", "sync_move", "sync_compute"])),
)
memory_core_operations = st.one_of(
    st.tuples(st.sampled_from(["gdram_to_sram_async", "sram_to_gdram_async"]), boxes),
    st.tuples(st.sampled_from(["sync", "sync_io"])),
)


@st.composite
def programs(draw: st.DrawFn) -> list[list[Any]]:
    """A list of operations for each of two cores and the memory core, in as many parts as there are barriers."""
    parts = draw(st.integers(1, 3))
    result: list[list[Any]] = [[] for _ in range(CORES + 1)]
    for part in range(parts):
        for who in range(CORES + 1):
            kinds = core_operations if who < CORES else memory_core_operations
            result[who] += draw(st.lists(kinds, max_size=6)) + ([BARRIER] if part < parts - 1 else [])
    return result


async def interpret(core, x, out, programs, apart):
    parts = sum(operation == BARRIER for operation in programs[0])
    if core.core_id in range(CORES, CLUSTER - 1):
        for _ in range(parts):
            await core.sync_cluster()
        return
    who = CORES if core.is_memory_core else core.core_id
    program = programs[who]
    x = x[who if apart else 0]
    shared = core.sram.alloc(WIDTH, x.dtype, "shared")
    held = None if core.is_memory_core else core.nram.alloc(WIDTH, x.dtype, "held")
    for operation, *places in program:
        where = places[0] if places else None
        match operation:
            case "barrier":
                await core.sync_cluster()
            case "load":
                await core.memcpy(held[where], x[where])
            case "load_async":
                core.memcpy_async(held[where], x[where])
            case "store_async":
                core.memcpy_async(out[where], held[where])
            case "from_sram":
                await core.memcpy(held[where], shared[where])
            case "to_sram":
                await core.memcpy(shared[where], held[where])
            case "to_sram_async":
                core.memcpy_async(shared[where], held[where])
            case "gdram_to_sram":
                await core.memcpy(shared[where], x[where])
            case "sram_to_gdram":
                await core.memcpy(out[where], shared[where])
            case "atomic":
                await core.atomic_reduce_add(out[where], held[where])
            case "gdram_to_sram_async":
                core.memcpy_async(shared[where], x[where])
            case "sram_to_gdram_async":
                core.memcpy_async(out[where], shared[where])
            case "vector":
                core.add(held[where : where + 3], held[places[1] : places[1] + 3], 1.0)
            case "move":
                core.move(held[where : where + 3], held[places[1] : places[1] + 3])
            case "scalar_load":
                await core.load(held[where])
            case "scalar_store":
                core.store(held[where], 1.0)
            case "post_array":
                core.store_array(out[where], np.ones(out[where].shape))
            case "post":
                core.store(out[where], 1.0)
            case _:
                await getattr(core, operation)()


class Graph:
    """Events and what follows what."""

    def __init__(self, log: Any) -> None:
        self.after: dict[Any, set[Any]] = defaultdict(set)
        self.records = [dict(zip(COLUMNS, row, strict=True)) for row in log.table().tolist()]
        names = log.ops
        running: dict[int, list[int]] = defaultdict(list)
        last_issued: dict[int, Any] = {}
        last_on: dict[tuple[int, Any], int] = {}
        for number, record in enumerate(self.records):
            task, name, pipe = record["task"], names[record["op"]], record["pipe"]
            issued, begun, complete = ("issued", number), ("begun", number), ("complete", number)
            if task in last_issued:
                self.after[last_issued[task]].add(issued)
            last_issued[task] = issued
            self.after[issued].add(begun)
            self.after[begun].add(complete)
            if name.startswith("sync"):
                barrier = name == "sync_cluster"
                for earlier in running[task]:
                    if barrier or self.waits(log, number, earlier):
                        self.after["complete", earlier].add(complete)
                if barrier:
                    self.after[complete].add(("met", record["detail"]))
                    complete = ("met", record["detail"])
                last_issued[task] = ("passed", number)
                self.after[complete].add(("passed", number))
                continue
            engine = self.engine(log, number)
            if (task, engine) in last_on:
                self.after["complete", last_on[task, engine]].add(begun)
            last_on[task, engine] = number
            if number in log.joined:
                # The bytes are there for all who execute the copy. What its first caller did before is no matter of
                # theirs: on another day another core is first.
                self.after["moved", log.joined[number]].add(complete)
            posted = self.posted(log, number)
            blocking = record["detail"] == 1 and pipe in (IO, MOVE)
            if blocking and BLOCKING_COPY.waits_for:
                for earlier in running[task]:
                    if not self.posted(log, earlier):
                        self.after["complete", earlier].add(begun)
            if pipe == SCALAR and self.on_nram(log, number):
                # A scalar access of NRAM is in order with the vector instructions before it.
                for earlier in running[task]:
                    if self.records[earlier]["pipe"] == VECTOR:
                        self.after["complete", earlier].add(begun)
            running[task].append(number)
            if blocking or (pipe not in (VECTOR, IO, MOVE) and not posted):
                last_issued[task] = ("passed", number)
                self.after[complete].add(("passed", number))

    def engine(self, log: Any, number: int) -> Any:
        """What runs it, one after the other for one task."""
        record = self.records[log.joined.get(number, number)]
        if record["dst_alloc"] >= 0 and record["a_alloc"] >= 0:
            ends = tuple(log.allocations[record[side]].memory for side in ("a_alloc", "dst_alloc"))
            if ends in {("gdram", "sram"), ("sram", "gdram")} and not log.tasks[self.task(number)].is_memory_core:
                return "memory core"
        return "posted" if self.posted(log, number) else record["pipe"]

    def task(self, number: int) -> int:
        return self.records[number]["task"]

    def scalar(self, log: Any, number: int) -> bool:
        return self.records[number]["pipe"] == SCALAR and not log.ops[self.records[number]["op"]].startswith("sync")

    def posted(self, log: Any, number: int) -> bool:
        record = self.records[number]
        return (
            log.ops[record["op"]] in ("store", "store_array") and log.allocations[record["dst_alloc"]].memory == "gdram"
        )

    def on_nram(self, log: Any, number: int) -> bool:
        record = self.records[number]
        sides = [record[side] for side in ("dst_alloc", "a_alloc") if record[side] >= 0]
        return any(log.allocations[alloc].memory == "nram" for alloc in sides)

    def waits(self, log: Any, sync: int, earlier: int) -> bool:
        """Whether a sync of pipes waits for an operation."""
        name = log.ops[self.records[sync]["op"]]
        engine = self.engine(log, earlier)
        if name == "sync":
            return True
        return engine in {"sync_io": (IO, "memory core"), "sync_move": (MOVE,), "sync_compute": (VECTOR,)}[name]

    def reach(self, number: int) -> set[Any]:
        """All events that come after an operation."""
        found, todo = set(), [("complete", number), ("moved", number)]
        while todo:
            for following in self.after[todo.pop()] - found:
                found.add(following)
                todo.append(following)
        return found


def bytes_of(log: Any, record: dict[str, int]) -> list[tuple[bool, set[Any]]]:
    """(writes, bytes) of each operand; bytes of NRAM are the core's own."""
    result = []
    for side in ("dst", "a", "b"):
        alloc = record[f"{side}_alloc"]
        if alloc < 0:
            continue
        box = log.boxes[record[f"{side}_box"]]
        found = set()
        for index in itertools.product(*map(range, box.shape)):
            first = record[f"{side}_offset"] + sum(i * stride for i, stride in zip(index, box.strides, strict=True))
            found |= {(alloc, byte) for byte in range(first, first + box.itemsize)}
        result.append((side == "dst", found))
    return result


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), st.booleans())
def test_races_and_unwritten_bytes_match_the_oracle(programs, apart):
    """`apart`: each has a source of its own, so that no call takes part in the copy of another core."""
    device = mlusim.Device()
    x = device.upload(np.arange((CORES + 1) * WIDTH, dtype=np.float32).reshape(-1, WIDTH), "x")
    out = device.alloc(WIDTH, np.float32, "out")
    device.launch(interpret, x, out, programs, apart, dim=4)
    device.synchronize()
    log = device.log
    run = Run(log)
    order, accesses = run.order, run.accesses
    found = set()
    for join in (within_tasks, between_tasks):
        for a, b in join(run):
            found |= {
                tuple(sorted(pair))
                for pair in zip(accesses.record[a].tolist(), accesses.record[b].tolist(), strict=True)
            }

    # Pairs that a shared copy orders are left out after the search (`ordered_otherwise`).
    position = order.position
    found = {
        (a, b)
        for a, b in found
        if not (order.before(position[a], position[b]) or order.before(position[b], position[a]))
    }
    graph = Graph(log)
    operands = [bytes_of(log, record) for record in graph.records]
    reach = [graph.reach(number) for number in range(len(log))]
    racing, touched = set(), defaultdict(set)
    for one, other in itertools.combinations(range(len(log)), 2):
        common = any(
            (writes or also) and some & more for writes, some in operands[one] for also, more in operands[other]
        )
        touched[common].add((one, other))
        # A posted store is seen by what the scalar pipe does after it, without being complete.
        seen = graph.scalar(log, one) and graph.scalar(log, other) and graph.task(one) == graph.task(other)
        ordered = seen or ("begun", other) in reach[one]
        assert order.before(int(order.position[one]), int(order.position[other])) == ordered
        if common and not ordered and ("begun", one) not in reach[other]:
            racing.add((one, other))
    # Of equal accesses of a task between two barriers, pairs with other tasks name one: every race has its like.
    assert found <= racing
    inside = {pair for pair in racing if graph.task(pair[0]) == graph.task(pair[1])}
    assert {like(log, pair) for pair in found - inside} == {like(log, pair) for pair in racing - inside}
    # Within a task each operation is told with the first of equal ones that it meets: a sync before that fixes all.
    first = {one: min(other for also, other in found & inside if also == one) for one, _ in found & inside}
    assert all(first[one] <= other for one, other in inside)
    assert first.keys() == {one for one, _ in inside}

    # Where a write races with the read, it is luck whether the bytes are there: the race is what is told.
    if not racing:
        assert bool(find_uninitialised(run)[0]) == unwritten_bytes_matter(log, graph.records)


def unwritten_bytes_matter(log: Any, records: list[dict[str, int]]) -> bool:
    """Byte by byte in the order of the log: whether one that nobody wrote ends in `out`, or in a register."""
    unknown = [[not record.read_only] * record.nbytes for record in log.allocations]
    filled: set[tuple[int, int]] = set()
    out = next(number for number, record in enumerate(log.allocations) if record.name == "out")
    for record in records:
        elements = {side: elements_of(log, record, side) for side in ("dst", "a")}
        values = [[unknown[record["a_alloc"]][byte] for byte in element] for element in elements["a"]]
        name = log.ops[record["op"]]
        if name == "load" and any(map(any, values)):
            return True
        if not elements["dst"]:
            continue
        if name == "add":
            values = [[any(value)] * len(value) for value in values]
        elif name == "atomic_reduce_add":
            held = [[unknown[record["dst_alloc"]][byte] for byte in element] for element in elements["dst"]]
            values = [[any(one) or any(other)] * len(one) for one, other in zip(values, held, strict=True)]
        elif not elements["a"]:
            values = [[False] * len(element) for element in elements["dst"]]
        for element, value in zip(elements["dst"], values, strict=True):
            for byte, bad in zip(element, value, strict=True):
                unknown[record["dst_alloc"]][byte] = bad
                filled.add((record["dst_alloc"], byte))
    return any(bad and (out, byte) in filled for byte, bad in enumerate(unknown[out]))


def elements_of(log: Any, record: dict[str, int], side: str) -> list[list[int]]:
    """The bytes of each element of an operand, in order."""
    if record[f"{side}_alloc"] < 0:
        return []
    box = log.boxes[record[f"{side}_box"]]
    found = []
    for index in itertools.product(*map(range, box.shape)):
        first = record[f"{side}_offset"] + sum(i * stride for i, stride in zip(index, box.strides, strict=True))
        found.append(list(range(first, first + box.itemsize)))
    return found


def like(log: Any, pair: tuple[int, int]) -> Any:
    """What two operations are, whichever of a task's equal ones."""
    result = []
    for number in pair:
        record = dict(zip(COLUMNS, log.table()[number].tolist(), strict=True))
        sides = [record[f"{side}_{part}"] for side in ("dst", "a") for part in ("alloc", "offset", "box")]
        result.append((record["task"], record["op"], *sides))
    return tuple(sorted(result))
