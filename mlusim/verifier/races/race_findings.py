"""The finding on a race: the two operations, the shared bytes, the rule, and the sync that would order them."""

from __future__ import annotations

from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.log import MOVE
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.verifier.findings import Finding, Remedy, Site, Way, place_between, wrong_part
from mlusim.verifier.order.happens_before import BY_OFFSETS
from mlusim.verifier.order.lanes import POSTED
from mlusim.verifier.races.atomic_remedies import USE_ATOMICS
from mlusim.verifier.races.barrier_places import barrier_of_cores
from mlusim.verifier.races.iterations import is_fresh
from mlusim.verifier.races.lane_syncs import LANE_SYNCS, blocking_copy, on_the_vector_pipe, sync_after
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.races.task_remedies import TaskRemedies
from mlusim.verifier.races.updates import is_split_twice

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


def within_task(pair: Pair, times: int) -> Finding:
    """Return the finding on a race within a task; `times`: how often its two source lines race."""
    first, second = pair.sites
    title = _TITLES[pair.writes].format(first=first.operation, second=second.operation, name=pair.buffer)
    if pair.writes == (True, True):
        title += " in no defined order"
    rule = f"{_LANE_NAMES[first.pipe]} and {_LANE_NAMES[second.pipe]} run in parallel; only a sync orders them"
    if second.operation in BY_OFFSETS and second.pipe == "scalar":
        rule = f"{second.operation} reads its offsets when it is issued; only a sync makes it wait for them"
    moves = next((site for site, row in zip(pair.sites, pair.rows, strict=True) if _is_move(pair, site, row)), None)
    move_location = moves.location if moves is not None and "vector" in (first.pipe, second.pipe) else ""
    lane = int(pair.run.order.lane[pair.positions[0]])
    fields = {"sync": LANE_SYNCS[lane][0], "buffer": pair.buffer}
    if move_location:
        fields["moves"] = move_location
    one, other = pair.allocations
    if one != other:
        fields["reused_by"] = pair.run.log.allocations[other].name
    region, nbytes = pair.region()
    return Finding(
        kind="race",
        title=title,
        region=region,
        nbytes=nbytes,
        sites=pair.sites,
        rule=rule,
        remedies=tuple(_remedies(pair, lane, move_location)),
        times=times,
        fields=fields,
        clues={"overlaps": pair.shares_an_end()},
    )


def _remedies(pair: Pair, lane: int, move_location: str) -> list[str]:
    """Return the remedies of a race within a task: a sync, a blocking copy, another pipe, or another part.

    Args:
        pair: the two accesses.
        lane: that of the first one.
        move_location: the line of a Move that may be a copy on the vector pipe instead; empty if there is none.
    """
    first, second = pair.sites
    if pair.writes == (False, True) and is_fresh(pair.run, pair.rows[0]):
        # With a sync between them, the first would read bytes that nothing has written.
        return [wrong_part(pair.buffer, pair.sites, "the first of them reads it before anything is written there")]
    place_text, at = place_between(first, second)
    choices = [f"{sync_after(first, lane, at)}, {place_text}"]
    if first.operation == "memcpy" and lane != POSTED:
        choices.append(blocking_copy(first))
    if move_location:
        choices.append(on_the_vector_pipe(move_location))
    if pair.shares_an_end() and pair.writes == (True, True):
        # With a sync, one of them would still replace a part of the other.
        choices.insert(0, wrong_part(pair.buffer, pair.sites, "only some of their bytes overlap"))
    elif pair.shares_an_end():
        two = "if they are meant to be two buffers, move one of them: only a part of their bytes overlaps"
        choices.append(Remedy(two, Way.ACCESS))
    return choices


def between_tasks(remedies: TaskRemedies, pair: Pair, times: int) -> Finding:
    """Return the finding on a race between two tasks, with a remedy of `remedies`; else as `within_task`."""
    first, second = _names(pair)
    sync, rule, choices = remedies.of(pair)
    region, nbytes = pair.region()
    fields = {"sync": sync, "buffer": pair.buffer, "polled": USE_ATOMICS in choices, "passed": pair.segments[1]}
    if loop := remedies.loop(pair):
        fields["loop"] = loop
    return Finding(
        kind="task-race",
        title=_TITLES[pair.writes].format(first=first, second=second, name=pair.buffer),
        region=region,
        nbytes=nbytes,
        sites=pair.sites,
        rule=rule,
        remedies=tuple(choices),
        times=times,
        fields=fields,
        clues={
            "of_bytes": pair.run.log.allocations[pair.allocations[0]].nbytes,
            "launched_at": pair.run.log.launches[pair.run.log.tasks[pair.tasks[1]].launch].launched_at,
            "splits_twice": is_split_twice(pair),
            "barrier_of_cores": barrier_of_cores(pair),
            "place": remedies.where(pair) if sync in BARRIERS else None,
        },
    )


def _is_move(pair: Pair, site: Site, row: int) -> bool:
    """Return whether an access belongs to a copy within NRAM by the Move pipe, of a kernel in Python."""
    columns, record = pair.run.columns, pair.run.accesses.record[row]
    is_within_nram = columns["direction"][record] == DIRECTION_CODES[Direction.NRAM2NRAM]
    return (
        bool(site.operation == "memcpy" and is_within_nram and columns["pipe"][record] == MOVE) and not site.is_compiled
    )


def _names(pair: Pair) -> list[str]:
    """Name two tasks, with their launches if these differ."""
    log = pair.run.log
    names = [
        f"the memory core of cluster {site.cluster}" if site.task == "memory core" else site.task for site in pair.sites
    ]
    launches = [log.tasks[task].launch for task in pair.tasks]
    if launches[0] == launches[1]:
        return names
    return [
        f"{name} of launch {launch} ({log.launches[launch].kernel})"
        for name, launch in zip(names, launches, strict=True)
    ]
