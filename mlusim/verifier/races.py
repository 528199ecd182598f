"""Races as findings: the two operations, the shared bytes, and the sync that would order them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.log import SCALAR, Log
from mlusim.verifier.accesses import Accesses
from mlusim.verifier.conflicts import Space, between_tasks, within_tasks
from mlusim.verifier.coordinates import describe
from mlusim.verifier.findings import Finding, Site, site_of
from mlusim.verifier.geometry import Integers, alike
from mlusim.verifier.handshakes import Handshakes
from mlusim.verifier.happens_before import BY_OFFSETS, Order
from mlusim.verifier.lanes import LANES, POSTED
from mlusim.verifier.missing_syncs import Race, Span, fold_between, fold_races, fold_under_barriers
from mlusim.verifier.overlaps import shared_bytes
from mlusim.verifier.remedies import LANE_SYNCS

_LANE_NAMES = {
    "scalar": "the scalar pipe",
    "vector": "the vector pipe",
    "tensor": "the tensor pipe",
    "io": "the IO pipe",
    "move": "the Move pipe",
    "posted store": "a posted store",
    "memory core's io": "the memory core's IO pipe",
}


# By whether the first and the second access write.
_TITLES = {
    (True, False): "{second} reads {name} before {first} is known to have written it",
    (False, True): "{second} writes {name} while {first} may still read it",
    (True, True): "{first} and {second} write the same bytes of {name}",
}


@dataclass(frozen=True, slots=True)
class Races:
    """Finds the races of one log.

    Attributes:
        log, columns, accesses, space, order: the run.
    """

    log: Log
    columns: dict[str, Integers]
    accesses: Accesses
    space: Space
    order: Order

    def find(self) -> list[Finding]:
        """Return all races, one finding per pair of source lines."""
        inside = _collect(within_tasks(self.order, self.accesses, self.space))
        between = self._drop_shared_copies(*_collect(between_tasks(self.order, self.accesses, self.space)))
        between = self._drop_handshakes(*self._drop_locked(*self._drop_atomics(*between)))
        pairs = [(a, b, self._in_task(a, b, times)) for a, b, times in self._by_lines(*inside)]
        races = [Race(self._last_before(a, b, *inside), self._position(b), finding) for a, b, finding in pairs]
        within = fold_races(self.log, self.order, races)
        pairs = [(a, b, self._between(a, b, times)) for a, b, times in self._by_lines(*between)]
        return fold_under_barriers(
            within, fold_between([(self._span_between(a, b), finding) for a, b, finding in pairs])
        )

    def _position(self, row: int) -> int:
        return int(self.order.position[self.accesses.record[row]])

    def _last_before(self, a: int, b: int, one: Integers, other: Integers) -> int:
        """Return the position of the last operation that races with that of `b` from the line of `a`.

        A sync after it is one after all of them.
        """
        record, line = self.accesses.record, self.columns["line"]
        same = (record[other] == record[b]) & (line[record[one]] == line[record[a]])
        return int(self.order.position[record[one[same]]].max())

    def _span_between(self, a: int, b: int) -> Span:
        """Return the source lines between which one barrier would order a pair, and the barriers already passed.

        Between two queues, one wait orders all pairs.
        """
        positions = [self._position(row) for row in (a, b)]
        tasks = [int(self.order.task[position]) for position in positions]
        lines = [self.log.lines[int(self.order.line[position])] for position in positions]
        jobs = {job_of(self.log, task) for task in tasks}
        queues = sorted({self.log.launches[launch].queue for launch, *_ in jobs})
        if len(queues) > 1:
            return Span(("queues", *queues, self._host_waits(min(jobs)[0])), 0, 1)
        segments = sorted(int(self.order.segment[position]) for position in positions)
        if len(jobs) > 1 or lines[0][0] != lines[1][0] or lines[0][1] == lines[1][1]:
            # No barrier can order these, or the location cannot be derived from the log alone.
            return Span(("alone", a, b), 0, 1)
        first, second = sorted(line for _, line, _ in lines)
        return Span((*jobs, *segments, lines[0][0]), first, second)

    def _host_waits(self, launch: int) -> int:
        """Return how often the host has waited before a launch."""
        return bisect_right(self.log.host_waits, launch)

    def _drop_shared_copies(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs of a memory core's copy and an operation that another task's call of that copy orders."""
        if not self.log.joined or not len(a):
            return a, b
        copies = list(set(self.log.joined.values()))
        one, other = self.accesses.record[a], self.accesses.record[b]
        chosen = np.ones(len(a), bool)
        for row in np.flatnonzero(np.isin(one, copies) | np.isin(other, copies)).tolist():
            first, second = int(self.order.position[one[row]]), int(self.order.position[other[row]])
            chosen[row] = not (self.order.before(first, second) or self.order.before(second, first))
        return a[chosen], b[chosen]

    def _drop_atomics(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs of atomics: the hardware orders them."""
        atomic = np.array([name in ATOMIC_NAMES for name in self.log.ops], bool)[self.columns["op"]]
        both = atomic[self.accesses.record[a]] & atomic[self.accesses.record[b]]
        return a[~both], b[~both]

    def _drop_locked(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs protected by a common lock: they exclude each other."""
        if "lock" not in self.log.ops or not len(a):
            return a, b
        locks = self.order.locks_held
        one, other = (locks[self.order.position[self.accesses.record[rows]]] for rows in (a, b))
        both = (one & other) != 0
        return a[~both], b[~both]

    def _drop_handshakes(self, a: Integers, b: Integers) -> tuple[Integers, Integers]:
        """Drop pairs ordered by a handshake through atomics."""
        if not len(a):
            return a, b
        handshakes = Handshakes(self.log, self.columns, self.accesses, self.order)
        if not handshakes:
            return a, b
        one, other = (self.order.position[self.accesses.record[rows]] for rows in (a, b))
        first, kind, _ = alike(one, other)
        pairs = zip(one[first].tolist(), other[first].tolist(), strict=True)
        ordered = np.array([handshakes.orders(x, y) or handshakes.orders(y, x) for x, y in pairs], bool)[kind]
        return a[~ordered], b[~ordered]

    def _by_lines(self, a: Integers, b: Integers) -> list[tuple[int, int, int]]:
        """Return one pair per two source lines and memory, the first in the log, and the number of occurrences."""
        if not len(a):
            return []
        accesses, line = self.accesses, self.columns["line"]
        one, other = accesses.record[a], accesses.record[b]
        memory = self._memory[accesses.alloc[a]]
        # Of the bytes two operations share, report a read after a write first and two writes last.
        priority = 2 * (accesses.write[b] & accesses.write[a]) + (~accesses.write[a])
        order = np.lexsort((priority, other, one))
        # lexsort is stable, so the first of each kind is also the first in this order.
        pairs = order[np.sort(alike(one[order], other[order], memory[order])[0])]
        first, kind, _ = alike(line[one[pairs]], line[other[pairs]], memory[pairs])
        # Count the operations that come too early, not all their conflicts.
        times = np.bincount(kind[alike(kind, one[pairs])[0]])
        chosen = sorted(zip(first.tolist(), times.tolist(), strict=True))
        return [(int(a[pairs[index]]), int(b[pairs[index]]), count) for index, count in chosen]

    @property
    def _memory(self) -> Integers:
        """By allocation, an index for its memory."""
        kinds = sorted({record.memory for record in self.log.allocations})
        return np.array([kinds.index(record.memory) for record in self.log.allocations], np.int64)

    def _writes(self, a: int, b: int) -> tuple[bool, bool]:
        return bool(self.accesses.write[a]), bool(self.accesses.write[b])

    def _sites(self, a: int, b: int) -> tuple[Site, Site]:
        roles = ("writes" if write else "reads" for write in self._writes(a, b))
        records, lanes = self.accesses.record[[a, b]], self.order.lanes_of(self.accesses.where([a, b]))
        first, second = (
            site_of(self.log, int(record), role, LANES[int(lane)])
            for record, lane, role in zip(records, lanes, roles, strict=True)
        )
        return first, second

    def _region(self, a: int, b: int) -> tuple[str, int]:
        """Return the shared bytes in coordinates of each buffer, and their number."""
        one, other = int(self.accesses.alloc[a]), int(self.accesses.alloc[b])
        delta = int(self.space.address[one] - self.space.address[other])
        starts, stops = shared_bytes(self.accesses, a, b, delta)
        records = self.log.allocations
        text = f"{describe(records[one], starts, stops)} in {records[one].memory.upper()}"
        if one != other:
            text += f"; the same bytes are {describe(records[other], starts + delta, stops + delta)}"
        return text, int((stops - starts).sum())

    def _in_task(self, a: int, b: int, times: int) -> Finding:
        first, second = self._sites(a, b)
        region, nbytes = self._region(a, b)
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        lane = int(self.order.lane[self._position(a)])
        title = _TITLES[self._writes(a, b)].format(first=first.operation, second=second.operation, name=name)
        if self._writes(a, b) == (True, True):
            title += " in no defined order"
        sync, pipe = LANE_SYNCS[lane]
        rule = f"{_LANE_NAMES[first.pipe]} and {_LANE_NAMES[second.pipe]} run in parallel; only a sync orders them"
        if second.operation in BY_OFFSETS and second.pipe == "scalar":
            rule = f"{second.operation} reads its offsets when it is issued; only a sync makes it wait for them"
        waits = first.call(f"{sync}()")
        blocking = ""
        if first.operation == "memcpy" and lane != POSTED:
            blocking = f"\nor wait for the copy at {first.location}: {first.call('memcpy(...)')}"
        if self._share_an_end(a, b):
            blocking += (
                "\nor, if they are meant to be two buffers, move one of them: only a part of their bytes overlaps"
            )
        return Finding(
            kind="race",
            title=title,
            region=region,
            nbytes=nbytes,
            sites=(first, second),
            rule=rule,
            remedy=f"{waits}, which waits for {pipe}, between {first.location} and {second.location}{blocking}",
            times=times,
            fields={"sync": sync, "buffer": name} | self._reused_by(a, b),
        )

    def _reused_by(self, a: int, b: int) -> dict[str, str]:
        """Return the name of the allocation that reuses the memory of the first one, as a field of the finding."""
        one, other = (int(self.accesses.alloc[row]) for row in (a, b))
        return {} if one == other else {"reused_by": self.log.allocations[other].name}

    def _share_an_end(self, a: int, b: int) -> bool:
        """Return whether two accesses overlap partially, like halves of a buffer that is too small."""
        address = [int(self.space.address[int(self.accesses.alloc[row])]) for row in (a, b)]
        low = [int(self.accesses.low[row]) + at for row, at in zip((a, b), address, strict=True)]
        high = [int(self.accesses.high[row]) + at for row, at in zip((a, b), address, strict=True)]
        return (low[0] - low[1]) * (high[0] - high[1]) > 0

    def _between(self, a: int, b: int, times: int) -> Finding:
        first, second = self._sites(a, b)
        region, nbytes = self._region(a, b)
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        first_name, second_name = self._names(a, b, first, second)
        title = _TITLES[self._writes(a, b)].format(first=first_name, second=second_name, name=name)
        sync, rule, remedy = self._order_them(a, b, first, second)
        return Finding(
            kind="task-race",
            title=title,
            region=region,
            nbytes=nbytes,
            sites=(first, second),
            rule=rule,
            remedy=remedy,
            times=times,
            fields={"sync": sync, "buffer": name},
        )

    def _names(self, a: int, b: int, first: Site, second: Site) -> tuple[str, str]:
        """Name two tasks, with their launches if these differ."""
        tasks = self.order.task_of[self.accesses.record[[a, b]]].tolist()
        launches = [self.log.tasks[task].launch for task in tasks]
        of_launch = [""] * 2
        if launches[0] != launches[1]:
            of_launch = [f" of launch {number} ({self.log.launches[number].kernel})" for number in launches]
        return _name(first) + of_launch[0], _name(second) + of_launch[1]

    def _order_them(self, a: int, b: int, first: Site, second: Site) -> tuple[str, str, str]:
        """Return the sync that would order two tasks, if any, with rule and remedy."""
        tasks = self.order.task_of[self.accesses.record[[a, b]]].tolist()
        jobs = [job_of(self.log, task) for task in tasks]
        own_bytes = "give each task bytes of its own" + self._other_order(a, b)
        if jobs[0][0] != jobs[1][0]:
            remedy = "put both launches on one queue\nor call device.synchronize() between them"
            if second.is_compiled:
                remedy += (
                    "; in a program, cnrtQueueSync, or let the second queue wait for a notifier that the first one "
                    "places: cnrtQueueWaitNotifier"
                )
            return "synchronize", "launches on different queues are not ordered", remedy
        if jobs[0] != jobs[1]:
            kind = self.log.launches[jobs[0][0]].kind
            remedy = f"{own_bytes}\nor split the kernel into two launches on one queue"
            if kind == "BLOCK":
                return "", "BLOCK tasks are not ordered, not even those that share a core", remedy
            rule = f"the jobs of a {kind} grid are not ordered: no barrier spans two jobs"
            return "", rule, f"{remedy}\nor launch both tasks in one job: a union of more clusters"
        if self.log.tasks[tasks[0]].cluster == self.log.tasks[tasks[1]].cluster:
            sync, all_of = "sync_cluster", "all cores of the cluster and its memory core"
        else:
            sync, all_of = "sync_all", "all cores and memory cores of the union"
        where = f"after {first.location} and before {second.location}"
        if first.location == second.location:
            where = "between the two accesses"
        barrier = f"{first.call(sync + '()')} in {all_of}, {where}"
        remedy = f"{barrier}\nor {own_bytes}"
        if self.accesses.write[a] and self.accesses.write[b]:
            # With a barrier alone, one of the two writes would still be useless.
            remedy = f"{own_bytes}\nor, if both writes are meant, {barrier}"
            if first.location == second.location and "memory core" in (first.task, second.task):
                return (
                    sync,
                    "a union launch runs the kernel on the memory cores too",
                    f"{self._without_memory_cores(compiled=first.is_compiled)}\nor {remedy}",
                )
        return sync, "cores run in parallel; only a barrier orders operations of different cores", remedy

    def _without_memory_cores(self, *, compiled: bool) -> str:
        """Return how to leave out the memory cores, which the barriers of a union or cluster count."""
        if {"sync_cluster", "sync_all"} & set(self.log.ops):
            guard = "if (!__is_mpu())" if compiled else "if not core.is_memory_core:"
            return f"guard this line by `{guard}`; the memory core has to reach the barriers"
        leaves = "if (__is_mpu()) return;" if compiled else "if core.is_memory_core: return"
        return f"begin it with `{leaves}`"

    def _other_order(self, a: int, b: int) -> str:
        """Return further ways to order two tasks: those that the kernel uses elsewhere."""
        ops = set(self.log.ops)
        positions = self.order.position[self.accesses.record[[a, b]]]
        text = ""
        if "lock" in ops:
            text += "\nor hold the same lock during both accesses"
        if ATOMIC_NAMES & ops and int(self.order.lane[positions[0]]) == POSTED:
            text += "\nor, if an atomic follows the store, sync() between them: an atomic does not wait for stores"
        elif set(self.order.lane[positions].tolist()) <= {SCALAR, POSTED}:
            text += "\nor, if one task polls a flag, read and write it with atomics"
        return text


def job_of(log: Log, task: int) -> tuple[int, ...]:
    """Return the scheduling group of a task: its launch, and its union's position in the grid, or itself for BLOCK."""
    record = log.tasks[task]
    launch = log.launches[record.launch]
    if launch.kind == "BLOCK":
        return record.launch, task
    cores = 1 + max(other.core for other in log.tasks if other.launch == record.launch and not other.is_memory_core)
    row, x = divmod(record.task_id, launch.dim[0])
    return record.launch, row, x // (int(launch.kind[5:]) * cores)


def _name(site: Site) -> str:
    return f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task


def _collect(pairs: Iterable[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    batches = list(pairs)
    if not batches:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return np.concatenate([a for a, _ in batches]), np.concatenate([b for _, b in batches])
