"""Results that an instruction writes in part: the other bytes of its destination keep their values.

Some parts follow from shapes (a sum writes one element), others from data (a move by a mask writes the selected
elements) or from arguments that are not in the log. The latter are in `Log.selected`; a timing-only run lacks them,
and these results count as written entirely.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from mlusim.cores.instructions.record import Extent
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.log_tables import Box

# Instructions whose part follows from shapes, and from data; and those that write everything, of two sources by data.
BY_SHAPE = frozenset(name for name, instruction in INSTRUCTIONS.items() if instruction.writes is not None)
BY_DATA = frozenset(name for name, instruction in INSTRUCTIONS.items() if instruction.writes_some)
BY_CHOICE = frozenset(name for name, instruction in INSTRUCTIONS.items() if instruction.selects) - BY_DATA
# Instructions that read some elements of their last source, by data.
LOOKUPS = frozenset(name for name, instruction in INSTRUCTIONS.items() if instruction.looks_up)
# Instructions whose operands after the first source are scratch, which is undefined afterwards.
WITH_SCRATCH = frozenset(
    name
    for name, instruction in INSTRUCTIONS.items()
    if len(instruction.operands) > 2 and all(operand.scratch for operand in instruction.operands[2:])
)


@lru_cache(maxsize=1 << 10)
def written_box(name: str, result: Box, source: Box) -> Box:
    """Return the box of the bytes that an instruction of `BY_SHAPE` writes; its elements are runs of bytes.

    Args:
        name: the instruction.
        result, source: boxes of its result and of its first source.
    """
    writes = INSTRUCTIONS[name].writes
    assert writes is not None
    written_runs = writes(*(Extent(box.shape, box.itemsize) for box in (result, source)))
    return Box((written_runs.times,), (written_runs.stride,), written_runs.nbytes)


def by_element(box: Box) -> Box:
    """Return a contiguous box with one axis."""
    return Box((prod(box.shape),), (box.itemsize,), box.itemsize)
