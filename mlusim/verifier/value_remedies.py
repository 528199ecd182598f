"""The remedies of a wrong value: of the operations that made it, those to check first."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from mlusim.log import NONE, VECTOR
from mlusim.verifier.accesses.table import FILLS
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import PRIVATE, Remedy, Site, Way, wrong_part
from mlusim.verifier.producer import Lineage
from mlusim.verifier.replaced import replaced_by
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, locations_of


def remedies_of(
    run: Run, sites: tuple[Site, ...], wrong: Sequence[Lineage], neighbours: Sequence[Lineage]
) -> list[str]:
    """Return the remedies for a wrong element, the likeliest first.

    Args:
        run: the run.
        sites: its last writer, and what made the bytes that this one stored.
        wrong: what made some wrong elements, this one first.
        neighbours: what made the right elements beside it.
    """
    lacks = wrong[0].lacks(neighbours)
    lacking = f"compute this element at {locations_of(lacks)} too: its neighbours are computed there, and are right"
    records = list(dict.fromkeys(record for lineage in wrong for record in lineage.records))
    lines = set().union(*(lineage.made_at for lineage in wrong))
    return [
        *([lacking] if lacks else []),
        *_in_place_of_result(run, records[0]),
        *_replacing(run, sites, records),
        _check_lines(lines),
    ]


def _in_place_of_result(run: Run, store: int) -> list[str]:
    """Return the remedy for a store of a buffer, if the last result before it is in another one and is never read."""
    columns, log, accesses = run.columns, run.log, run.accesses
    task_records = np.flatnonzero(columns["task"][:store] == columns["task"][store])
    is_result = (columns["pipe"][task_records] == VECTOR) & ~ops_among(log, FILLS)[columns["op"][task_records]]
    last_result = task_records[is_result & (columns["dst_alloc"][task_records] != NONE)][-1:].tolist()
    stored_alloc = int(columns["a_alloc"][store])
    if not last_result or stored_alloc == NONE or log.allocations[stored_alloc].memory not in PRIVATE:
        return []
    result_alloc = int(columns["dst_alloc"][last_result[0]])
    result_row = int(np.argmax((accesses.record == last_result[0]) & (accesses.alloc == result_alloc) & accesses.write))
    later = accesses.meeting(result_row) & (accesses.record > last_result[0])
    target = log.allocations[int(columns["dst_alloc"][store])]
    is_same_type = log.allocations[result_alloc].dtype == target.dtype or run.site(store, "").is_compiled
    if result_alloc == stored_alloc or not is_same_type or (later.any() and not accesses.write[np.argmax(later)]):
        return []
    site, at, name = run.site(last_result[0], ""), run.site(store, "").location, log.allocations[result_alloc].name
    why = f"nothing reads what {site.operation} writes to {name} at {site.location}"
    return [Remedy(f"store {name} in place of {log.allocations[stored_alloc].name} at {at}: {why}", Way.IN_PLACE)]


def _replacing(run: Run, sites: tuple[Site, ...], records: Sequence[int]) -> list[str]:
    """Return the remedy for the nearest operation that replaces a result of a core's own which nothing had read.

    `records`: those that made the element, the store first. What was stored may be a wrong part of its buffer.
    """
    log, lines = run.log, run.columns["line"]
    for record in records[1:]:
        alloc = int(run.columns["dst_alloc"][record])
        private = alloc != NONE and log.allocations[alloc].memory in PRIVATE
        if not private or (replaced := replaced_by(run, record, alloc)) < 0:
            continue
        replacing_site, replaced_site, buffer = (
            run.site(record, ""),
            run.site(replaced, ""),
            log.allocations[alloc].name,
        )
        if record == sites[-1].record and lines[replaced] != lines[record]:
            replaced_text = f"what {replaced_site.operation} wrote at {replaced_site.location}"
            why = f"the first of them replaces {replaced_text} before anything reads it"
            return [wrong_part(buffer, (replacing_site, sites[0]), why)]
        replaced_text = f"what {replaced_site.operation} wrote to {buffer} at {replaced_site.location}"
        text = (
            f"correct the operands at {replacing_site.location}: it replaces {replaced_text} before anything reads it"
        )
        return [Remedy(text, Way.OPERANDS, replacing_site.location)]
    return []


def _check_lines(lines: Collection[SourceLine]) -> str:
    """Return what to check: the lines that made the bytes, if they are known."""
    if len(lines) > 1:
        return f"check the operations that made these bytes, at {locations_of(lines)}"
    return "check the operation that made these bytes" if lines else "check where this store reads them"
