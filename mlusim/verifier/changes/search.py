"""The changes of one line of a kernel that are worth trying, and those of them that fix it.

A kernel whose outputs are wrong is run again, each time with another expression in its source, or, in compiled code,
with other arguments of the calls of a line. A change with which every output is right is a remedy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from mlusim.arrays import Integers
from mlusim.cores.core import Core, Kernel
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.dtypes import dtype_of
from mlusim.log import NONE, Log
from mlusim.log_tables import AllocationRecord, Box
from mlusim.memory.layout import contiguous_strides
from mlusim.verifier.call_sites import calls_around
from mlusim.verifier.changes.operand_changes import Argument, Axis, Change, Move, swap
from mlusim.verifier.changes.source_changes import EVERY_OUTPUT, SourceChange, barrier_changes_of, source_changes_of
from mlusim.verifier.columns import Columns
from mlusim.verifier.findings import wrong_part
from mlusim.verifier.source_file import SourceLine

# Limits on the runs with a change: their number, and their cost in operations, of which one takes about 20 us.
_MOST_RUNS = 600
MOST_COST = 120_000
_BYTES_OF_AN_OPERATION = 1 << 15
_MOST_REMEDIES = 3
# The search ends with as many changes that fix the kernel, or this many runs after the first of them.
_ENOUGH_FIXES = 6
_MOST_MORE_RUNS = 60
_SIDES = ("dst", "a", "b")
# Other numbers in a call of compiled code.
_OTHER_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "with 1 more": lambda number: number + 1,
    "with 1 less": lambda number: number - 1,
    "with twice the number": lambda number: 2 * number,
    "with half the number": lambda number: type(number)(number / 2),
    "with the opposite sign": lambda number: -number,
}
_COPIES = ("memcpy", "memcpy_async", "move")
_SOURCES = {0: "result", 1: "first source", 2: "second source"}


def fixing_remedies(
    kernel: Kernel,
    log: Log,
    records: Sequence[int],
    lines: Collection[SourceLine],
    fixes: Callable[[Change | SourceChange], bool],
) -> list[str]:
    """Return the remedies of the changes that fix a kernel, the likeliest first; of a line, what to write there.

    Args:
        kernel: the kernel.
        log: its log.
        records: what made a wrong element, the nearest first.
        lines: where the errors are.
        fixes: whether a change fixes it.
    """
    fixing: list[Change] = []
    kinds, runs = _changes_of_operands(log, records, lines), iter(range(_MOST_RUNS))
    while not fixing and (changes := next(kinds, None)) is not None:
        fixing = [change for change, _ in zip(changes, runs, strict=False) if fixes(change)]
    remedies = [change.remedy for change in sorted(fixing, key=lambda change: change.rank)]
    source_changes = islice(source_changes_of(kernel, lines, [*_made_at(log, records)]), _MOST_RUNS)
    fixing_sources = [*islice((change for change in source_changes if fixes(change)), 1)]
    others = islice(source_changes, _MOST_MORE_RUNS if fixing_sources else 0)
    fixing_sources += islice((change for change in others if fixes(change)), _ENOUGH_FIXES - 1)
    by_line = {change.at: change for change in sorted(fixing_sources, key=lambda change: -len(change.new))}
    remedies += [change.remedy for change in sorted(by_line.values(), key=lambda change: len(change.new))]
    return list(dict.fromkeys(remedies))[:_MOST_REMEDIES]


def fixing_barriers(kernel: Kernel, log: Log, fixes: Callable[[SourceChange], bool], *, is_hang: bool) -> list[str]:
    """Return the remedies of the barriers that fix a kernel in place of others, those of a cluster first.

    If it hangs, one that is moved out of an `if`, and one more, may fix it, too.
    """
    waited_for = [name for name in log.ops if name in BARRIERS] if is_hang else ()
    changes = islice(barrier_changes_of(kernel, waited_for), _MOST_RUNS)
    return list(islice((change.remedy for change in changes if fixes(change)), _MOST_REMEDIES))


def _made_at(log: Log, records: Sequence[int]) -> Iterator[SourceLine]:
    """Yield the lines of records, and of the calls of their functions."""
    for line in dict.fromkeys(SourceLine(*log.lines[log.records.values(record)["line"]][:2]) for record in records):
        yield line
        yield from calls_around(log, line)


def cost(log: Log, operations: int) -> int:
    """Return what the first operations of a run cost, in operations: their number, and what they and the host copy."""
    sizes = np.array([box.itemsize * int(np.prod(box.shape, dtype=np.int64)) for box in log.boxes] or [0])
    boxes = Columns(log.records)["dst_box"][:operations]
    copied = int(sizes[boxes[boxes != NONE]].sum())
    tensors = sum(allocation.nbytes for allocation in log.allocations if allocation.memory == "gdram")
    return 1 + operations + (copied + tensors) // _BYTES_OF_AN_OPERATION


def _changes_of_operands(log: Log, records: Sequence[int], near: Collection[SourceLine]) -> Iterator[Iterator[Change]]:
    """Yield the changes of each kind in compiled code: of some lines, of what made a wrong element, and of others."""
    columns = Columns(log.records)
    _, firsts = np.unique(np.stack([columns["line"], columns["op"]]), axis=1, return_index=True)
    lines: dict[tuple[int, int], int] = {}
    for record in (*records, *sorted(firsts.tolist(), reverse=True)):
        lines.setdefault((int(columns["line"][record]), int(columns["op"][record])), record)
    calls = [_Call(log, columns, record) for record in lines.values()]
    calls = sorted((call for call in calls if call.operands), key=lambda call: call.at not in near)
    shared = Counter(indices for call in calls for indices in call.indices())
    yield (change for call in calls for change in call.moves(shared))
    yield (change for call in calls for change in call.arguments())


class _Call:
    """The calls of compiled code on a line, and how they may be changed; without operands if they cannot."""

    def __init__(self, log: Log, columns: Columns, record: int) -> None:
        values = log.records.values(record)
        self.name, self.at = log.ops[values["op"]], SourceLine(*log.lines[values["line"]][:2])
        self.operands: list[_Operand] = []
        is_instruction = self.name in INSTRUCTIONS and hasattr(Core, self.name)
        if self.at.is_compiled and (self.name in _COPIES or self.name == "load" or is_instruction):
            own = np.flatnonzero((columns["line"] == values["line"]) & (columns["op"] == values["op"]))
            sides = [side for side in _SIDES if values[f"{side}_alloc"] != NONE]
            self.operands = [_Operand(log, columns, own, record, side) for side in sides]

    def indices(self) -> Iterator[bytes]:
        """Yield what the tasks access along each axis of each operand."""
        return (operand.indices(axis) for operand in self.operands for axis in operand.axes)

    def moves(self, shared: Counter[bytes]) -> Iterator[Change]:
        """Yield another index of one operand.

        Likelier is one that no other line has, and one that others have after the change; of those, one that is read.
        """
        for position, operand in enumerate(self.operands):
            twice = [other.name for other in self.operands].count(operand.name) > 1
            for axis in operand.axes:
                for step in operand.steps(axis):
                    how = operand.moved(axis, step, f" of the {_SOURCES.get(position, '')}" if twice else "")
                    before, after = shared[operand.indices(axis)] - 1, shared[operand.indices(axis, step)]
                    what, rank = wrong_part(operand.name, (self.at,), f"{how}, {EVERY_OUTPUT}"), before - after
                    yield Change(self.at, Move(position, axis, step), what, (rank, position == 0))

    def arguments(self) -> Iterator[Change]:
        """Yield another operand in place of one, the sources swapped, and other numbers."""
        at, names = self.at.location, [operand.name for operand in self.operands]
        for position, name in enumerate(names[1:], 1):
            for place, other in enumerate(names):
                if other != name:
                    what = f"read {other} in place of {name} at {at}: then {EVERY_OUTPUT}"
                    yield Change(self.at, Argument(position, place), what)
        if len(set(names[1:])) > 1:
            what = f"swap the operands of {self.name} at {at}: then {EVERY_OUTPUT}"
            yield Change(self.at, swap, what)
        for position in range(len(names), len(names) + 2):
            for how, number in _OTHER_NUMBERS.items():
                what = f"correct argument {position + 1} of the call at {at}: {how}, {EVERY_OUTPUT}"
                yield Change(self.at, Argument(position, number=number), what)


class _Operand:
    """An operand of the calls of a line, and the axes of its allocation."""

    def __init__(self, log: Log, columns: Columns, own: Integers, record: int, side: str) -> None:
        allocation = log.allocations[int(columns[f"{side}_alloc"][record])]
        self.name = allocation.name
        self.tasks, self.offsets = columns["task"][own], columns[f"{side}_offset"][own].astype(np.int64)
        self.axes = list(_axes_of(allocation, log.boxes[int(columns[f"{side}_box"][record])]))

    def steps(self, axis: Axis) -> Iterable[int]:
        """Return what may be added to an index: of those that are equal modulo the extent, one that does not wrap."""
        if axis.count > 1:
            steps = (-1, 1, -2, 2, -axis.count, axis.count)
            return dict.fromkeys(step for step in steps if abs(step) < axis.extent)
        by_rest: dict[int, int] = {}
        for step in (-1, 1, -2, 2):
            equal = (step, step % axis.extent, step % axis.extent - axis.extent)
            inside = (other for other in equal if not self._wraps(axis, other))
            by_rest.setdefault(step % axis.extent, next(inside, step))
        return [step for rest, step in by_rest.items() if rest]

    def _wraps(self, axis: Axis, step: int) -> bool:
        there = self.offsets // axis.stride % axis.extent + step
        return bool((there < 0).any() or (there + axis.count > axis.extent).any())

    def indices(self, axis: Axis, step: int = 0) -> bytes:
        """Return the tasks and their indices along an axis, as a key."""
        there = (self.offsets // axis.stride + step) % axis.extent
        return self.tasks.tobytes() + there.tobytes()

    def moved(self, axis: Axis, step: int, which: str) -> str:
        """Return how an index is changed."""
        how = f"with the address{which} {abs(step) * axis.stride} B {'lower' if step < 0 else 'higher'}"
        return how + (f", modulo {axis.extent * axis.stride} B" if self._wraps(axis, step) else "")


def _axes_of(allocation: AllocationRecord, box: Box) -> Iterator[Axis]:
    """Yield the axes of an allocation along which an operand has an index; of plain bytes, that of parts like it."""
    shape, itemsize = allocation.shape, dtype_of(allocation.dtype).itemsize
    part = box.itemsize * int(np.prod(box.shape, dtype=np.int64))
    if len(shape) == itemsize == 1 < box.itemsize:
        shape, itemsize = (allocation.nbytes // part, part // box.itemsize), box.itemsize
    strides = contiguous_strides(shape, itemsize)
    if allocation.nbytes != itemsize * int(np.prod(shape, dtype=np.int64)):
        return
    counts = dict(zip(reversed(box.strides), reversed(box.shape), strict=True))
    for stride, extent in zip(strides, shape, strict=True):
        if (count := counts.get(stride, 1)) < extent:
            yield Axis(stride, extent, count)
