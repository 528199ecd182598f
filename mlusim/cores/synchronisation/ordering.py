"""The order of a core's instructions: what each waits for, and when its effect is visible.

The simulator and the checker use the same table. Sources: the guide's pages on the pipes and on `sync` (G 3.3), and
the public header (B) for scalar stores, which are posted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mlusim.log import IO, MOVE, SCALAR, TENSOR, VECTOR
from mlusim.memory.kinds import MemoryKind

# Pipes as bits of a mask, as in the arguments of a sync.
VECTOR_PIPE: Final = 1 << VECTOR
TENSOR_PIPE: Final = 1 << TENSOR
IO_PIPE: Final = 1 << IO
MOVE_PIPE: Final = 1 << MOVE
COMPUTE_PIPES: Final = VECTOR_PIPE
ALL_PIPES: Final = VECTOR_PIPE | IO_PIPE | MOVE_PIPE


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """The ordering class of an instruction.

    An instruction that neither blocks nor is posted is in order on its pipe, and complete at the next sync of that
    pipe.

    Attributes:
        waits_for: pipes of its own core, as bits, that must be idle before it begins.
        blocks: the task issues nothing more until it is complete.
        posted: it takes effect later, outside the pipes: only the full `sync` waits for it.
    """

    waits_for: int = 0
    blocks: bool = False
    posted: bool = False


# Vector instructions, asynchronous copies, gathers and scatters by one instruction.
PIPELINED = Ordering()
# `__memcpy`, and loops of it: in order with all earlier instructions of their core (G 3.3.5.1). Whether they also wait
# for instructions on other buffers is not stated; ASSUMED that they do, on every pipe.
BLOCKING_COPY = Ordering(waits_for=ALL_PIPES, blocks=True)
# A loop of `__memcpy_async` that waits only for the last copy.
QUEUED_LOOP = Ordering(blocks=True)
# Scalar loads and arithmetic, and scalar stores to memories on chip.
SCALAR_CODE = Ordering(blocks=True)
# Scalar loads and stores of NRAM: in order with earlier vector and tensor instructions. ASSUMED: the vendor's kernels
# read the result of an instruction, such as a maximum and its index, without a sync.
NRAM_SCALAR_CODE = Ordering(waits_for=COMPUTE_PIPES, blocks=True)
# A scalar store to GDRAM or LDRAM.
POSTED_STORE = Ordering(posted=True)


def store_ordering(memory: MemoryKind) -> Ordering:
    """Return the ordering class of `store` and `store_array` to a memory."""
    return POSTED_STORE if memory.off_chip else SCALAR_CODE


def recorded_ordering(pipe: int, *, blocking: bool, writes_off_chip: bool, on_nram: bool, queued: bool) -> Ordering:
    """Return the ordering class of an instruction in the log.

    Args:
        pipe: its pipe.
        blocking: whether it is a copy that its task waits for.
        writes_off_chip: whether its destination is in GDRAM or LDRAM.
        on_nram: whether an operand is in NRAM.
        queued: whether it is a loop of asynchronous copies (`LoopRecord.method`).
    """
    if blocking:
        return QUEUED_LOOP if queued else BLOCKING_COPY
    if pipe == SCALAR:
        if on_nram:
            return NRAM_SCALAR_CODE
        return POSTED_STORE if writes_off_chip else SCALAR_CODE
    return PIPELINED
