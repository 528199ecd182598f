"""Races between tasks that no barrier would fix: one of them accesses a wrong part of the buffer."""

from __future__ import annotations

import numpy as np

from mlusim.verifier.findings import wrong_part
from mlusim.verifier.races.iterations import barrier_in, is_fresh, is_later
from mlusim.verifier.races.pair import Pair
from mlusim.verifier.races.updates import times_stored
from mlusim.verifier.replaced import leaves_part_unread
from mlusim.verifier.source_file import source_file


def accesses_other_part(pair: Pair) -> list[str]:
    """Return the remedy for an access to a wrong part, if the run shows that it is one."""
    return _read_too_early(pair) or _unread_write(pair) or _row_of_another_task(pair)


def _read_too_early(pair: Pair) -> list[str]:
    """Return the remedy for a read of bytes that only a later iteration of a loop around both writes."""
    (file, first, _), (other_file, second, _) = pair.sources
    loop = source_file(file).loop_around(first, second)
    if file != other_file or not loop[0] or pair.writes != (True, False) or not is_fresh(pair.run, pair.rows[1]):
        return []
    if not is_later(pair.swapped, loop):
        return []
    return [wrong_part(pair.buffer, pair.sites, "it is read before the iteration that writes it")]


def _unread_write(pair: Pair) -> list[str]:
    """Return the remedy for a write to SRAM by a line that also writes parts of the buffer which nothing reads."""
    if pair.run.log.allocations[pair.allocations[0]].memory != "sram":
        return []
    if not leaves_part_unread(pair.run, pair.rows[pair.writes.index(True)]):
        return []
    return [wrong_part(pair.buffer, pair.sites, "nothing reads the other parts that are written")]


def _row_of_another_task(pair: Pair) -> list[str]:
    """Return the remedy for a loop over rows in place, without a barrier, that accesses the row of another task.

    Each byte is stored once, so no task needs what another has made, and a barrier would give wrong values. A task
    that also loads the bytes that it stores needs those around them.
    """
    (file, first, _), (other_file, second, _) = pair.sources
    loop, alloc = source_file(file).loop_around(first, second), pair.allocations[0]
    if file != other_file or not loop[0] or alloc not in pair.run.log.host.writes or any(pair.segments):
        return []
    if barrier_in(pair, loop) or times_stored(pair.run, alloc).max() > 1 or _stores_within(pair):
        return []
    return [wrong_part(pair.buffer, pair.sites, "it is that of another task")]


def _stores_within(pair: Pair) -> bool:
    """Return whether the next store of the task that loads, in the same tensor, is within what it loads."""
    accesses, row = pair.run.accesses, pair.rows[pair.writes.index(False)]
    later = (accesses.alloc == accesses.alloc[row]) & accesses.write & (accesses.record > accesses.record[row])
    next_store = np.flatnonzero(later & (pair.run.order.task_of[accesses.record] == pair.run.task(row)))[:1]
    is_inside = (accesses.low[next_store] >= accesses.low[row]) & (accesses.high[next_store] <= accesses.high[row])
    return bool(is_inside.any())
