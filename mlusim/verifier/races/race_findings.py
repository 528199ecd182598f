"""The finding on a race: the two operations, the shared bytes, the rule, and the sync that would order them."""

from __future__ import annotations

from mlusim.log import MOVE
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.overlaps import shared_bytes
from mlusim.verifier.findings import Finding, Site, between, site_of
from mlusim.verifier.order.happens_before import BY_OFFSETS
from mlusim.verifier.order.lanes import LANES, POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS
from mlusim.verifier.races.iterations import is_fresh
from mlusim.verifier.races.lane_syncs import LANE_SYNCS, blocking_copy, on_the_vector_pipe, sync_after
from mlusim.verifier.races.task_remedies import TaskRemedies
from mlusim.verifier.run import Run

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


def within_task(run: Run, a: int, b: int, times: int) -> Finding:
    """Return the finding on a race within a task: two rows of which the first comes first.

    `times`: how often their two source lines race.
    """
    first, second = _sites(run, a, b)
    region, nbytes = _region(run, a, b)
    name = run.buffer(a)
    lane = _lane(run, a)
    title = _TITLES[_writes(run, a, b)].format(first=first.operation, second=second.operation, name=name)
    if _writes(run, a, b) == (True, True):
        title += " in no defined order"
    rule = f"{_LANE_NAMES[first.pipe]} and {_LANE_NAMES[second.pipe]} run in parallel; only a sync orders them"
    if second.operation in BY_OFFSETS and second.pipe == "scalar":
        rule = f"{second.operation} reads its offsets when it is issued; only a sync makes it wait for them"
    moves = next((site for site, row in zip((first, second), (a, b), strict=True) if _is_move(run, row)), None)
    moved = moves.location if moves is not None and "vector" in (first.pipe, second.pipe) else ""
    return Finding(
        kind="race",
        title=title,
        region=region,
        nbytes=nbytes,
        sites=(first, second),
        rule=rule,
        remedies=_remedies(run, a, b, first, second, moved),
        times=times,
        fields={"sync": LANE_SYNCS[lane][0], "buffer": name}
        | ({"moves": moved} if moved else {})
        | _reused_by(run, a, b),
    )


def _remedies(run: Run, a: int, b: int, first: Site, second: Site, moved: str) -> tuple[str, ...]:
    """Return the remedies of a race within a task: a sync, a blocking copy, another pipe, or another part.

    `moved`: the line of a Move that may be a copy on the vector pipe instead; empty if there is none.
    """
    name = run.buffer(a)
    part = f"correct the part of {name} at {first.location} or {second.location}"
    writes = _writes(run, a, b)
    if writes == (False, True) and is_fresh(run, a):
        # With a sync between them, the first would read bytes that nothing has written.
        return (f"{part}: the first of them reads it before anything is written there",)
    lane = _lane(run, a)
    choices = [f"{sync_after(first, lane)}, {between(first, second)}"]
    if first.operation == "memcpy" and lane != POSTED:
        choices.append(blocking_copy(first))
    if moved:
        choices.append(on_the_vector_pipe(moved))
    if _share_an_end(run, a, b) and writes == (True, True):
        # With a sync, one of them would still replace a part of the other.
        choices.insert(0, f"{part}: only some of their bytes overlap")
    elif _share_an_end(run, a, b):
        choices.append("if they are meant to be two buffers, move one of them: only a part of their bytes overlaps")
    return tuple(choices)


def _lane(run: Run, row: int) -> int:
    return int(run.order.lane[run.position(row)])


def between_tasks(remedies: TaskRemedies, a: int, b: int, times: int) -> Finding:
    """Return the finding on a race between two tasks, with a remedy of `remedies`; else as `within_task`."""
    run = remedies.run
    first, second = _sites(run, a, b)
    region, nbytes = _region(run, a, b)
    name = run.buffer(a)
    first_name, second_name = _names(run, a, b, first, second)
    title = _TITLES[_writes(run, a, b)].format(first=first_name, second=second_name, name=name)
    sync, rule, choices = remedies.of(a, b, first, second)
    return Finding(
        kind="task-race",
        title=title,
        region=region,
        nbytes=nbytes,
        sites=(first, second),
        rule=rule,
        remedies=tuple(choices),
        times=times,
        fields={
            "sync": sync,
            "buffer": name,
            "polled": USE_ATOMICS in choices,
            "passed": int(run.order.segment[run.position(b)]),
        }
        | ({"loop": loop} if (loop := remedies.loop(a, b)) else {}),
    )


def _sites(run: Run, a: int, b: int) -> tuple[Site, Site]:
    roles = ("writes" if write else "reads" for write in _writes(run, a, b))
    records, lanes = run.accesses.record[[a, b]], run.order.lanes_of(run.accesses.where([a, b]))
    first, second = (
        site_of(run.log, int(record), role, LANES[int(lane)])
        for record, lane, role in zip(records, lanes, roles, strict=True)
    )
    return first, second


def _region(run: Run, a: int, b: int) -> tuple[str, int]:
    """Return the shared bytes in coordinates of each buffer, and their number."""
    one, other = int(run.accesses.alloc[a]), int(run.accesses.alloc[b])
    delta = int(run.space.address[one] - run.space.address[other])
    starts, stops = shared_bytes(run.accesses, a, b, delta)
    records = run.log.allocations
    text = f"{describe(records[one], starts, stops)} in {records[one].memory.upper()}"
    if one != other:
        text += f"; the same bytes are {describe(records[other], starts + delta, stops + delta)}"
    return text, int((stops - starts).sum())


def _writes(run: Run, a: int, b: int) -> tuple[bool, bool]:
    return bool(run.accesses.write[a]), bool(run.accesses.write[b])


def _is_move(run: Run, row: int) -> bool:
    """Return whether an access belongs to a copy within NRAM by the Move pipe, of a kernel in Python."""
    record = run.accesses.record[row]
    within = run.columns["direction"][record] == DIRECTION_CODES[Direction.NRAM2NRAM]
    name = run.log.ops[int(run.columns["op"][record])]
    compiled = site_of(run.log, int(record), "").is_compiled
    return bool(name == "memcpy" and within and run.columns["pipe"][record] == MOVE) and not compiled


def _reused_by(run: Run, a: int, b: int) -> dict[str, str]:
    """Return the name of the allocation that reuses the memory of the first one, as a field of the finding."""
    one, other = (int(run.accesses.alloc[row]) for row in (a, b))
    return {} if one == other else {"reused_by": run.log.allocations[other].name}


def _share_an_end(run: Run, a: int, b: int) -> bool:
    """Return whether two accesses overlap partially, like halves of a buffer that is too small."""
    address = [int(run.space.address[int(run.accesses.alloc[row])]) for row in (a, b)]
    low = [int(run.accesses.low[row]) + at for row, at in zip((a, b), address, strict=True)]
    high = [int(run.accesses.high[row]) + at for row, at in zip((a, b), address, strict=True)]
    return (low[0] - low[1]) * (high[0] - high[1]) > 0


def _names(run: Run, a: int, b: int, first: Site, second: Site) -> tuple[str, str]:
    """Name two tasks, with their launches if these differ."""
    launches = [run.log.tasks[run.task(row)].launch for row in (a, b)]
    of_launch = [""] * 2
    if launches[0] != launches[1]:
        of_launch = [f" of launch {number} ({run.log.launches[number].kernel})" for number in launches]
    return _name(first) + of_launch[0], _name(second) + of_launch[1]


def _name(site: Site) -> str:
    return f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task
