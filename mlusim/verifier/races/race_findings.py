"""The finding on a race: the two operations, the shared bytes, the rule, and the sync that would order them."""

from __future__ import annotations

from dataclasses import dataclass

from mlusim.arrays import Integers
from mlusim.log import MOVE, Log
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.overlaps import shared_bytes
from mlusim.verifier.accesses.table import Accesses
from mlusim.verifier.findings import Finding, Site, between, site_of
from mlusim.verifier.order.happens_before import BY_OFFSETS, Order
from mlusim.verifier.order.lanes import LANES, POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS
from mlusim.verifier.races.conflicts import Space
from mlusim.verifier.races.iterations import is_fresh
from mlusim.verifier.races.lane_syncs import LANE_SYNCS, on_the_vector_pipe
from mlusim.verifier.races.task_remedies import TaskRemedies, any_of

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
class RaceFindings:
    """Makes the finding on a pair of accesses, two rows of the access table, of which the first comes first.

    Attributes:
        log, columns, accesses, space, order: the run.
    """

    log: Log
    columns: dict[str, Integers]
    accesses: Accesses
    space: Space
    order: Order

    def within_task(self, a: int, b: int, times: int) -> Finding:
        """Return the finding on a race within a task; `times`: how often its two source lines race."""
        first, second = self._sites(a, b)
        region, nbytes = self._region(a, b)
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        lane = self._lane(a)
        title = _TITLES[self._writes(a, b)].format(first=first.operation, second=second.operation, name=name)
        if self._writes(a, b) == (True, True):
            title += " in no defined order"
        rule = f"{_LANE_NAMES[first.pipe]} and {_LANE_NAMES[second.pipe]} run in parallel; only a sync orders them"
        if second.operation in BY_OFFSETS and second.pipe == "scalar":
            rule = f"{second.operation} reads its offsets when it is issued; only a sync makes it wait for them"
        moves = next((site for site, row in zip((first, second), (a, b), strict=True) if self._is_move(row)), None)
        moved = moves.location if moves is not None and "vector" in (first.pipe, second.pipe) else ""
        return Finding(
            kind="race",
            title=title,
            region=region,
            nbytes=nbytes,
            sites=(first, second),
            rule=rule,
            remedy=self._remedy(a, b, first, second, moved),
            times=times,
            fields={"sync": LANE_SYNCS[lane][0], "buffer": name}
            | ({"moves": moved} if moved else {})
            | self._reused_by(a, b),
        )

    def _remedy(self, a: int, b: int, first: Site, second: Site, moved: str) -> str:
        """Return the remedies of a race within a task: a sync, a blocking copy, another pipe, or another part.

        `moved`: the line of a Move that may be a copy on the vector pipe instead; empty if there is none.
        """
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        part = f"correct the part of {name} at {first.location} or {second.location}"
        writes = self._writes(a, b)
        if writes == (False, True) and is_fresh(self.log, self.accesses, a):
            # With a sync between them, the first would read bytes that nothing has written.
            return f"{part}: the first of them reads it before anything is written there"
        lane = self._lane(a)
        sync, pipe = LANE_SYNCS[lane]
        choices = [f"{first.call(f'{sync}()')}, which waits for {pipe}, {between(first, second)}"]
        if first.operation == "memcpy" and lane != POSTED:
            choices.append(f"wait for the copy at {first.location}: {first.call('memcpy(...)')}")
        if moved:
            choices.append(on_the_vector_pipe(moved))
        if self._share_an_end(a, b) and writes == (True, True):
            # With a sync, one of them would still replace a part of the other.
            choices.insert(0, f"{part}: only some of their bytes overlap")
        elif self._share_an_end(a, b):
            choices.append("if they are meant to be two buffers, move one of them: only a part of their bytes overlaps")
        return any_of(choices)

    def _lane(self, row: int) -> int:
        return int(self.order.lane[self.order.position[self.accesses.record[row]]])

    def between_tasks(self, a: int, b: int, times: int, remedies: TaskRemedies) -> Finding:
        """Return the finding on a race between two tasks, with a remedy of `remedies`; `times` as in `within_task`."""
        first, second = self._sites(a, b)
        region, nbytes = self._region(a, b)
        name = self.log.allocations[int(self.accesses.alloc[a])].name
        first_name, second_name = self._names(a, b, first, second)
        title = _TITLES[self._writes(a, b)].format(first=first_name, second=second_name, name=name)
        sync, rule, remedy = remedies.of(a, b, first, second)
        return Finding(
            kind="task-race",
            title=title,
            region=region,
            nbytes=nbytes,
            sites=(first, second),
            rule=rule,
            remedy=remedy,
            times=times,
            fields={
                "sync": sync,
                "buffer": name,
                "polled": USE_ATOMICS in remedy,
                "passed": int(self.order.segment[self.order.position[self.accesses.record[b]]]),
            }
            | ({"loop": loop} if (loop := remedies.loop(a, b)) else {}),
        )

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

    def _writes(self, a: int, b: int) -> tuple[bool, bool]:
        return bool(self.accesses.write[a]), bool(self.accesses.write[b])

    def _is_move(self, row: int) -> bool:
        """Return whether an access belongs to a copy within NRAM by the Move pipe, of a kernel in Python."""
        record = self.accesses.record[row]
        within = self.columns["direction"][record] == DIRECTION_CODES[Direction.NRAM2NRAM]
        name = self.log.ops[int(self.columns["op"][record])]
        compiled = site_of(self.log, int(record), "").is_compiled
        return bool(name == "memcpy" and within and self.columns["pipe"][record] == MOVE) and not compiled

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

    def _names(self, a: int, b: int, first: Site, second: Site) -> tuple[str, str]:
        """Name two tasks, with their launches if these differ."""
        tasks = self.order.task_of[self.accesses.record[[a, b]]].tolist()
        launches = [self.log.tasks[task].launch for task in tasks]
        of_launch = [""] * 2
        if launches[0] != launches[1]:
            of_launch = [f" of launch {number} ({self.log.launches[number].kernel})" for number in launches]
        return _name(first) + of_launch[0], _name(second) + of_launch[1]


def _name(site: Site) -> str:
    return f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task
