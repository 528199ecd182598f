"""The remedies of a wrong value: of the operations that made it, those to check first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.sets_and_atomics import ATOMIC_NAMES
from mlusim.dtypes import dtype_of
from mlusim.log import NONE, VECTOR
from mlusim.verifier.accesses.cells import Cells
from mlusim.verifier.accesses.coordinates import describe
from mlusim.verifier.accesses.table import BY_ROWS, FILLS
from mlusim.verifier.columns import ops_among
from mlusim.verifier.findings import PRIVATE, Remedy, Site, Way, wrong_part
from mlusim.verifier.producer import Lineage, loaded_before
from mlusim.verifier.replaced import replaced_by
from mlusim.verifier.run import Run
from mlusim.verifier.source_file import SourceLine, either_of, locations_of, source_file

# Operations that may write more than is read: fills, and those with a second result, such as the index of the largest.
_WRITE_MORE = FILLS | {name for name, record in INSTRUCTIONS.items() if record.writes is not None}
# Instructions whose result with twice the same operand needs none: 0, 1 or the operand.
_OF_TWO = frozenset(
    f"{cycle}{name}"
    for name in "sub div maxequal minequal maximum minimum and_ or_ xor band bor bxor".split()  # noqa: SIM905 - shorter
    for cycle in ("", "cycle_")
)


def remedies_of(
    run: Run,
    sites: tuple[Site, ...],
    wrongly: Sequence[Lineage],
    beside: Sequence[Lineage],
    relation: tuple[str, str],
) -> list[str]:
    """Return the remedies for a wrong element, the likeliest first.

    Args:
        run: the run.
        sites: its last writer, and what made the bytes that this one stored.
        wrongly: what made some wrong elements, this one first.
        beside: what made the right elements beside it.
        relation: the instruction that makes all wrong elements in one way from right ones, and in which way; or ""s.
    """
    only, lacks = wrongly[0].unlike(beside)
    lacking = f"let {locations_of(lacks)} make this element, too: those beside it were made there, and are right"
    records = list(dict.fromkeys(record for lineage in wrongly for record in lineage.records))
    through = set().union(*(lineage.made_at for lineage in wrongly))
    return [
        *([lacking] if lacks else []),
        *_with_itself(run, records),
        *_related(run, [record for record in records if not only or run.lines_at([record]) <= only], *relation),
        *_in_place_of_result(run, records[0]),
        *_replacing(run, sites, records),
        _check(through, _unlike(only) or _begin(run, records), sites[0]),
    ]


def _with_itself(run: Run, records: Sequence[int]) -> list[str]:
    """Return the remedy for the nearest instruction that needs two operands and reads one twice, such as `x - x`."""
    columns, log = run.columns, run.log
    for record in records[1:]:
        a, b = ([int(columns[f"{side}_{part}"][record]) for part in ("alloc", "offset", "box")] for side in "ab")
        if a == b and log.ops[int(columns["op"][record])] in _OF_TWO:
            site = run.site(record, "")
            text = f"correct the operands at {site.location}: both are the same bytes of {log.allocations[a[0]].name}"
            return [Remedy(text, Way.SAME_OPERANDS)]
    return []


def _related(run: Run, records: Sequence[int], name: str, how: str) -> list[str]:
    """Return the remedy for the instructions of a name, if any, that make all wrong elements from right ones.

    A `sub` has its operands swapped, the others have a wrong number.
    """
    of_name = ops_among(run.log, (name, f"cycle_{name}"))[run.columns["op"]]
    some = [record for record in records if of_name[record]]
    if name != "sub":
        some = [record for record in some if run.columns["b_alloc"][record] == NONE]
    at = either_of(SourceLine(*run.log.lines[int(run.columns["line"][record])][:2]) for record in some)
    what = f"swap the operands of {name}" if name == "sub" else "correct the number"
    return [f"{what} at {at}: every wrong element {how}"] if at else []


def _in_place_of_result(run: Run, store: int) -> list[str]:
    """Return the remedy for a store of a buffer, if the last result before it is in another one and is never read."""
    columns, log, accesses = run.columns, run.log, run.accesses
    own = np.flatnonzero(columns["task"][:store] == columns["task"][store])
    results = (columns["pipe"][own] == VECTOR) & ~ops_among(log, FILLS)[columns["op"][own]]
    made = own[results & (columns["dst_alloc"][own] != NONE)][-1:].tolist()
    stored = int(columns["a_alloc"][store])
    if not made or stored == NONE or log.allocations[stored].memory not in PRIVATE:
        return []
    alloc = int(columns["dst_alloc"][made[0]])
    written = int(np.argmax((accesses.record == made[0]) & (accesses.alloc == alloc) & accesses.write))
    later = accesses.meeting(written) & (accesses.record > made[0])
    target = log.allocations[int(columns["dst_alloc"][store])]
    is_alike = log.allocations[alloc].dtype == target.dtype or run.site(store, "").is_compiled
    if alloc == stored or not is_alike or (later.any() and not accesses.write[np.argmax(later)]):
        return []
    site, at, name = run.site(made[0], ""), run.site(store, "").location, log.allocations[alloc].name
    why = f"nothing reads what {site.operation} writes to {name} at {site.location}"
    return [Remedy(f"store {name} in place of {log.allocations[stored].name} at {at}: {why}", Way.IN_PLACE)]


def _replacing(run: Run, sites: tuple[Site, ...], records: Sequence[int]) -> list[str]:
    """Return the remedy for the nearest operation that replaces a result of a core's own which nothing had read.

    `records`: those that made the element, the store first. What was stored may be a wrong part of its buffer.
    """
    log, lines = run.log, run.columns["line"]
    for record in records[1:]:
        alloc = int(run.columns["dst_alloc"][record])
        if (
            alloc == NONE
            or log.allocations[alloc].memory not in PRIVATE
            or (lost := replaced_by(run, record, alloc)) < 0
        ):
            continue
        makes, other, buffer = run.site(record, ""), run.site(lost, ""), log.allocations[alloc].name
        if record == sites[-1].record and lines[lost] != lines[record]:
            why = (
                f"the first of them replaces what {other.operation} wrote at {other.location} before anything reads it"
            )
            return [wrong_part(buffer, (makes, sites[0]), why)]
        what = f"what {other.operation} wrote to {buffer} at {other.location}"
        text = f"correct the operands at {makes.location}: it replaces {what} before anything reads it"
        return [Remedy(text, Way.OPERANDS, makes.location)]
    return []


def _check(through: Collection[SourceLine], first: str, store: Site) -> str:
    """Return what to check: the lines that made the bytes; `first`: those among them to begin with, if any."""
    if first:
        return f"check {first}" + (f"; these bytes were made at {locations_of(through)}" if len(through) > 1 else "")
    if not through:
        return f"check where this store reads them{_turns(store)}"
    if len(through) == 1:
        return f"check the operation that made these bytes{_turns(store)}"
    return f"check the operations that made these bytes, at {locations_of(through)}{_turns(store)}"


def _unlike(only: Collection[SourceLine]) -> str:
    return f"{locations_of(only)} first: those beside it, which are right, were not made there" if only else ""


def _begin(run: Run, records: Sequence[int]) -> str:
    """Return which of some records to begin with: those that read another tensor or buffer, and nothing the rest of it.

    `records`: the first one stores the element.
    """
    accesses, buffers = run.accesses, [(part.memory, part.name, part.nbytes) for part in run.log.allocations]
    output = int(run.columns["dst_alloc"][records[0]])
    reads = np.flatnonzero(np.isin(accesses.record, records) & ~accesses.write & (accesses.alloc != output))
    found: list[tuple[bool, str, Integers]] = []
    for alloc in np.unique(accesses.alloc[reads]).tolist():
        own = reads[accesses.alloc[reads] == alloc]
        alike = [at for at, buffer in enumerate(buffers) if buffer == buffers[alloc]]
        if alloc in accesses.unknown or _at_loaded_address(run, int(own[-1])):
            continue
        if rest := _rest(run, alloc, alike):
            found.append((buffers[alloc][0] == "gdram", rest, own))
    # A tensor is there to be read, while parts of a buffer may be for others.
    found = [one for one in found if one[0]] or found
    if not found:
        return ""
    lines = run.lines_of(np.concatenate([own for *_, own in found]))
    rests = dict.fromkeys(rest for _, rest, _ in found)
    return f"{locations_of(lines)}{_loops(lines)} first: nothing reads {' and '.join(rests)}"


def _rest(run: Run, alloc: int, alike: Sequence[int]) -> str:
    """Return the part of a tensor or buffer that is filled and never read; "" if there is none.

    A smaller part of a buffer on chip than what is read may be padding, unless a copy fills it.

    `alike`: the allocations that count, such as those of this name in all tasks.
    """
    log, allocation = run.log, run.log.allocations[alloc]
    own = run.accesses.where(np.flatnonzero(np.isin(run.accesses.alloc, alike)))
    cells = Cells(own, allocation.nbytes)
    filled = cells.count(own.write & ~ops_among(log, _WRITE_MORE)[run.columns["op"][own.record]]) > 0
    filled |= allocation.read_only or alloc in log.host.writes
    read = cells.count(~own.write) > 0
    unread = filled & ~read
    if allocation.memory != "gdram" and cells.total(unread) < cells.total(read):
        unread &= cells.count(own.write & ops_among(log, ("memcpy",))[run.columns["op"][own.record]]) > 0
    return describe(allocation, *cells.runs(unread)).rpartition(", ")[0] if unread.any() else ""


def _at_loaded_address(run: Run, row: int) -> bool:
    """Return whether a read may be at an address that was loaded: the rest of its tensor may be meant for others.

    It is by rows, or its task has loaded integers. Those of a compiled kernel may be of any type, so there, evenly
    spaced addresses of its line are none.
    """
    allocations, alloc, record = run.log.allocations, int(run.accesses.alloc[row]), int(run.accesses.record[row])
    by_rows = run.log.ops[int(run.columns["op"][record])] in BY_ROWS
    if by_rows or allocations[alloc].memory != "gdram":
        return by_rows
    if run.site(record, "").is_compiled and _is_evenly_spaced(run, row):
        return False
    sources = {int(run.columns["a_alloc"][load]) for load in loaded_before(run, record)} - {alloc}
    return any(dtype_of(allocations[source].dtype).kind in "iu" for source in sources)


def _is_evenly_spaced(run: Run, row: int) -> bool:
    """Return whether the line of a read reads its tensor at evenly spaced addresses, in its task."""
    columns, accesses = run.columns, run.accesses
    alike = (accesses.alloc == accesses.alloc[row]) & ~accesses.write
    for name in ("line", "task"):
        alike &= columns[name][accesses.record] == columns[name][accesses.record[row]]
    steps = np.diff(accesses.low[alike].astype(np.int64))
    return len(steps) > 1 and len(np.unique(steps)) == 1


def _loops(lines: Iterable[SourceLine]) -> str:
    """Return the innermost loops around lines, as `, in the loop at kernel.py:5`; empty if there are none."""
    around = ((line.file, source_file(line.file).loops_around(line.line)) for line in lines)
    begins = {SourceLine(file, max(loops)[0]) for file, loops in around if loops}
    return f", in the loop at {locations_of(begins)}" if begins else ""


def _turns(store: Site) -> str:
    """Return, for a store that adds to what is there, the loop that repeats it: one of its turns may be missing."""
    loop = _loops((store,)) if store.operation in ATOMIC_NAMES else ""
    return f", and how often{loop.removeprefix(', in')} adds to them" if loop else ""
