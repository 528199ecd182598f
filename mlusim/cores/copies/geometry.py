"""Properties of a copy that depend only on its geometry: direction, pipe, cost and log record. Computed once each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NONE, VECTOR
from mlusim.memory.copy_cost import copy_cost
from mlusim.memory.copy_shape import CopyShape
from mlusim.memory.deferred import MIN_BYTES, MIN_SEGMENT_BYTES
from mlusim.memory.kinds import DIRECTION_CODES, Direction
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.machine.chip import Chip
    from mlusim.cores.machine.unit import Unit


class CopyGeometry:
    """Properties of a copy for pipes and log.

    Attributes:
        direction: the `mluMemcpyDirection_t`.
        pipe: IO or MOVE.
        by_memory_core: whether the engine of the cluster's memory core performs the copy.
        asynchronous: whether `__memcpy_async` supports this direction.
        cost: start-up, work and rate.
        has_work: whether the copy joins a link; a move inside a core takes only its latency.
        as_typed: whether both sides have the same native NumPy type, which copies bit by bit; otherwise bytes are
            copied as unsigned integers of the element's width.
        is_large: whether its bytes may be deferred (`mlusim.memory.deferred`).
        instructions: numbers of its log instruction, asynchronous and blocking.
        compute_instruction: number of the same instruction in the compute pipe, or NONE.
        dst_box, src_box: the boxes of both sides in the log.
    """

    def __init__(self, chip: Chip, unit: Unit, shape: CopyShape, dst_box: int, src_box: int, *, as_typed: bool) -> None:
        direction = shape.direction
        self.as_typed = as_typed
        self.direction = direction
        self.cost = copy_cost(chip.board, shape, memory_core=unit.is_memory_core)
        self.has_work = self.cost.work > 0
        self.by_memory_core = direction.by_memory_core
        self.pipe = IO if direction.source.off_chip or direction.destination.off_chip else MOVE
        self.asynchronous = direction.asynchronous
        self.is_large = (
            direction in (Direction.GDRAM2NRAM, Direction.NRAM2GDRAM)
            and shape.nbytes >= MIN_BYTES
            and shape.segment_bytes >= MIN_SEGMENT_BYTES
        )

        def instruction(pipe: int, blocking: int) -> int:
            return chip.log.instruction(
                "memcpy",
                pipe,
                direction=DIRECTION_CODES[direction],
                nbytes=shape.nbytes,
                bus_read=shape.bus_read_bytes,
                bus_write=shape.bus_write_bytes,
                alone_ps=self.cost.alone_ps,
                detail=blocking,
                dst_box=dst_box,
                a_box=src_box,
            )

        self.instructions = (instruction(self.pipe, ASYNCHRONOUS), instruction(self.pipe, BLOCKING))
        in_nram = direction is Direction.NRAM2NRAM
        self.compute_instruction = instruction(VECTOR, ASYNCHRONOUS) if in_nram else NONE
        self.dst_box = dst_box
        self.src_box = src_box


def copy_geometry(
    issuer: Issuer,
    dst: View | Pointer,
    src: View | Pointer,
    shape: CopyShape,
    dst_box: int,
    src_box: int,
    *,
    as_typed: bool = False,
) -> CopyGeometry:
    """Return the geometry of a copy, shared by all copies of a chip with the same geometry.

    Raises `CopyError` for a memory that the core cannot reach.
    """
    issuer.check_reach(src.allocation.memory)
    to = dst.allocation.memory
    # Between SRAMs the target may be in any cluster of the union.
    if shape.direction is not Direction.SRAM2SRAM or all(to is not c.sram for c in issuer.task.job.clusters):
        issuer.check_reach(to)
    key = (shape, dst_box, src_box, issuer.unit.is_memory_core, as_typed)
    geometry: CopyGeometry | None = issuer.chip.copy_geometries.get(key)
    if geometry is None:
        geometry = CopyGeometry(issuer.chip, issuer.unit, shape, dst_box, src_box, as_typed=as_typed)
        issuer.chip.copy_geometries[key] = geometry
    return geometry
