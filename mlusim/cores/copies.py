"""Copies: `__memcpy` and `__memcpy_async`, by views or in the documented byte form."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.cores.endless import check_end
from mlusim.cores.pipe import Transfer
from mlusim.cores.scalar import check_view
from mlusim.cores.shared_copy import SharedCopy
from mlusim.errors import CopyError
from mlusim.log import ASYNCHRONOUS, BLOCKING, IO, MOVE, NONE, VECTOR
from mlusim.memory.allocation import check_usable
from mlusim.memory.copy import CopyShape, check_apart, check_inside, pointer_copy_shape, view_copy_shape
from mlusim.memory.deferred import LEAST_BYTES, LEAST_SEGMENT_BYTES, DeferredLoad, DeferredStore
from mlusim.memory.kinds import DIRECTION_CODES, Direction, MemoryKind, direction_of
from mlusim.memory.timing import copy_cost
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.cores.chip import Chip
    from mlusim.cores.issuer import Issuer
    from mlusim.cores.unit import Unit
    from mlusim.cores.waiting import Waiting
    from mlusim.memory.bus import Loops

Array = np.ndarray[Any, Any]
_UINT8 = np.dtype(np.uint8)
# Bytes of the widest unsigned integer.
_WIDEST = 8


def copy_and_wait(
    issuer: Issuer,
    line: int,
    dst: View | Pointer,
    src: View | Pointer,
    size: int = 0,
    direction: Direction | str | None = None,
    strides: tuple[int, ...] = (),
) -> Waiting:
    """A blocking copy: `__memcpy`.

    Args:
        issuer: of the task that copies.
        line: source line in the log.
        dst, src: views of equal shape and element size; or, with `size` and `direction`, pointers.
        size: bytes of a segment, in the byte form.
        direction: the `mluMemcpyDirection_t`, or its name, in the byte form.
        strides: in the byte form (dst_stride, src_stride, segnum), or the eight numbers of a 3-D copy; see
            `mlusim.memory.copy.pointer_copy_shape`.

    Raises `CopyError`, `AccessError`, `AllocationError` as the hardware forbids. Not modelled: an SRAM2SRAM copy loads
    the SRAM of the cluster it comes from only, and one from DRAM to DRAM the read port of its cluster only.
    """
    _copy(issuer, line, dst, src, size, direction, strides, BLOCKING)
    return issuer.blocked


def copy_async(
    issuer: Issuer,
    line: int,
    dst: View | Pointer,
    src: View | Pointer,
    size: int = 0,
    direction: Direction | str | None = None,
    strides: tuple[int, ...] = (),
) -> None:
    """An asynchronous copy: `__memcpy_async`. Arguments and errors as `copy_and_wait`.

    Not from LDRAM and not between SRAMs (B).
    """
    _copy(issuer, line, dst, src, size, direction, strides, ASYNCHRONOUS)


def move(issuer: Issuer, line: int, dst: View, src: View) -> None:
    """An asynchronous move within NRAM, on the Move pipe. Raises `CopyError` for other memories."""
    for view in (dst, src):
        check_view("move", view)
    if dst.memory is not MemoryKind.NRAM or src.memory is not MemoryKind.NRAM:
        raise CopyError(f"move from {src!r} to {dst!r}: it stays in NRAM; use memcpy or memcpy_async")
    _copy(issuer, line, dst, src, 0, None, (), ASYNCHRONOUS, by_move_pipe=True)


def _copy(  # noqa: PLR0913
    issuer: Issuer,
    line: int,
    dst: View | Pointer,
    src: View | Pointer,
    size: int,
    direction: Direction | str | None,
    strides: tuple[int, ...],
    blocking: int,
    *,
    by_move_pipe: bool = False,
) -> None:
    # The hottest function of the simulator: geometry is worked out once per shape, look-ups are few.
    task = issuer.task
    task.operations += 1
    if task.operations > issuer.next_look or task.unawaited >= 0:
        check_end(issuer)
    sized = size.__class__ is not int or size
    if direction is not None or sized or dst.__class__ is not View or src.__class__ is not View:
        dst, src, effect, geometry = _byte_form(issuer, dst, src, size, direction, strides)
        dst_allocation, src_allocation = dst.allocation, src.allocation
    else:
        dst_allocation, src_allocation = dst.allocation, src.allocation
        key = (
            dst_allocation.memory,
            src_allocation.memory,
            dst.layout,
            src.layout,
            (dst_allocation.address + dst.offset) % issuer.dram_unit_bytes,
            (src_allocation.address + src.offset) % issuer.dram_unit_bytes,
        )
        known = issuer.copy_geometries.get(key)
        if known is not None:
            geometry = known
        else:
            shape = view_copy_shape(dst, src, issuer.board.arch, issuer.dram_unit_bytes)
            geometry = issuer.copy_geometries[key] = _geometry(
                issuer,
                dst,
                src,
                shape,
                issuer.log.box(dst.shape, dst.strides, dst.itemsize),
                issuer.log.box(src.shape, src.strides, src.itemsize),
                as_typed=dst.dtype == src.dtype and dst.dtype.isbuiltin == 1,
            )
        effect = None
        if issuer.has_data and not (dst_allocation.freed or src_allocation.freed):
            effect = (dst.typed(), src.typed()) if geometry.as_typed else (dst.raw(), src.raw())
            if geometry.is_large:
                effect = _large(issuer, dst, src, *effect)
    if dst_allocation.freed or src_allocation.freed or dst_allocation.read_only:
        check_usable(src_allocation, write=False)
        check_usable(dst_allocation, write=True)
    if dst_allocation is src_allocation and dst.__class__ is View and src.__class__ is View:
        check_apart(dst, src)
    if not (blocking or geometry.asynchronous):
        raise CopyError(f"memcpy_async has no {geometry.direction.name}: use `await core.memcpy(...)`")
    unit = issuer.unit
    if geometry.stream_instruction >= 0 and not (blocking or by_move_pipe):
        _copy_in_stream(issuer, line, dst, src, geometry, effect)
        return
    engine = unit.cluster.memory_core if geometry.by_memory_core else unit
    pipe = engine.move if geometry.pipe == MOVE else engine.io
    issue_ps = task.now_ps = task.now_ps + issuer.issue_ps
    # A pipe that has nothing to do starts at once; `pipe.start` does the rest for the others.
    waits = blocking and not task.is_idle()
    starts = pipe.current is None and geometry.has_work and not (waits or geometry.by_memory_core)
    record = issuer.log.records.add(
        geometry.instructions[blocking],
        task.index,
        line,
        issue_ps,
        issue_ps,
        NONE,
        geometry.cost.latency_ps if starts else 0,
        NONE,
        dst_allocation.identity,
        dst.offset,
        src_allocation.identity,
        src.offset,
    )
    if blocking:
        task.unawaited = record
    if issuer.dry:
        return
    if geometry.by_memory_core:
        operands = (dst_allocation.identity, dst.offset, geometry.dst_box, src_allocation.identity, src.offset)
        call = (*operands, geometry.src_box, blocking)
        shared = SharedCopy(pipe, task, record, issue_ps, geometry.cost, effect, blocking, call)
        if waits:
            task.when_idle(shared.begin)
        else:
            shared.begin()
        return
    transfer = Transfer(pipe, task, record, issue_ps, geometry.cost, effect, blocking)
    if starts:
        task.pending_io += pipe is not unit.move
        task.pending_move += pipe is unit.move
        pipe.current = transfer
        if pipe.twin is not None:
            pipe.twin.current = transfer
        pipe.link.join(transfer, issue_ps + transfer.latency_ps, issuer.chip.environment.now)
    elif waits:
        task.when_idle(partial(pipe.submit_after_wait, transfer))
    else:
        pipe.submit(transfer)


def _copy_in_stream(
    issuer: Issuer, line: int, dst: View | Pointer, src: View | Pointer, geometry: CopyGeometry, effect: Any
) -> None:
    """An asynchronous NRAM2NRAM copy: an instruction of the compute stream, in order with vector instructions (B).

    `sync_compute` waits for it. ASSUMED: `sync_move` does too; kernels of the vendor use either.
    """
    task, unit = issuer.task, issuer.unit
    task.now_ps += issuer.issue_ps
    start_ps, waited_for = task.now_ps, NONE
    if unit.vector_free_ps > start_ps:
        start_ps, waited_for = unit.vector_free_ps, unit.vector_record
    end_ps = start_ps + geometry.cost.alone_ps
    unit.vector_record = unit.stream_copy_record = issuer.log.records.add(
        geometry.stream_instruction,
        task.index,
        line,
        task.now_ps,
        start_ps,
        end_ps,
        0,
        waited_for,
        dst.allocation.identity,
        dst.offset,
        src.allocation.identity,
        src.offset,
    )
    unit.vector_free_ps = unit.stream_copied_ps = end_ps
    if effect is not None:
        unit.later(end_ps, partial(np.copyto, *effect) if effect.__class__ is tuple else effect)


def _geometry(
    issuer: Issuer,
    dst: View | Pointer,
    src: View | Pointer,
    shape: CopyShape,
    dst_box: int,
    src_box: int,
    *,
    as_typed: bool = False,
) -> CopyGeometry:
    """Everything about a copy that its geometry decides."""
    issuer.check_reach(src.allocation.memory)
    to = dst.allocation.memory
    # Between SRAMs the target is any cluster of the union.
    if shape.direction is not Direction.SRAM2SRAM or all(to is not c.sram for c in issuer.task.job.clusters):
        issuer.check_reach(to)
    key = (shape, dst_box, src_box, issuer.unit.is_memory_core, as_typed)
    geometry: CopyGeometry | None = issuer.chip.copy_geometries.get(key)
    if geometry is None:
        geometry = CopyGeometry(issuer.chip, issuer.unit, shape, dst_box, src_box, as_typed=as_typed)
        issuer.chip.copy_geometries[key] = geometry
    return geometry


def _byte_form(
    issuer: Issuer,
    dst: View | Pointer,
    src: View | Pointer,
    size: int,
    direction: Direction | str | None,
    strides: tuple[int, ...],
) -> tuple[Pointer, Pointer, Any, CopyGeometry]:
    """The documented byte form: pointers, sizes and strides in bytes."""
    if dst.__class__ is not Pointer or src.__class__ is not Pointer:
        dst = dst.pointer if isinstance(dst, View) else dst
        src = src.pointer if isinstance(src, View) else src
        if not isinstance(dst, Pointer) or not isinstance(src, Pointer):
            raise CopyError(f"memcpy copies between views or pointers of the device, not {dst!r} and {src!r}")
    if direction is None:
        raise CopyError(
            "memcpy between pointers, or of a size, needs its direction: "
            "memcpy(dst, src, size, Direction.GDRAM2NRAM); between views their shape says the size"
        )
    if direction.__class__ is not Direction:
        direction = direction_of(direction)
    if size.__class__ is not int or strides:
        for number in (size, *strides):
            if number.__class__ is not int and not isinstance(number, int | np.integer):
                raise CopyError(f"memcpy with {number!r:.60}: sizes and strides are integers, in bytes")
    # What follows from sizes, memories and phases alone is worked out once; bounds are checked each time.
    to, origin = dst.allocation, src.allocation
    key = (
        direction,
        size,
        strides,
        to.memory,
        origin.memory,
        (to.address + dst.offset) % issuer.dram_unit_bytes,
        (origin.address + src.offset) % issuer.dram_unit_bytes,
    )
    known = None if direction is Direction.SRAM2SRAM else issuer.copy_geometries.get(key)
    if known is None:
        shape = pointer_copy_shape(dst, src, size, direction, strides, issuer.board.arch, issuer.dram_unit_bytes)
        # Elements that are as wide as phases and strides allow; the board copies bytes.
        unit = math.gcd(_WIDEST, size, *strides, to.address + dst.offset, origin.address + src.offset)
        sides = [_Side(size, unit, loops) for loops in (shape.dst_loops, shape.src_loops)]
        boxes = (issuer.log.box(side.extents, side.steps, 1) for side in sides)
        known = issuer.copy_geometries[key] = (_geometry(issuer, dst, src, shape, *boxes), *sides)
    geometry, written, read = known
    if not 0 <= dst.offset + written.low <= dst.offset + written.high <= to.nbytes:
        check_inside(dst, size, written.loops, "writes")
    if not 0 <= src.offset + read.low <= src.offset + read.high <= origin.nbytes:
        check_inside(src, size, read.loops, "reads")
    if to is origin:
        check_apart(
            View(to, dst.offset, written.extents, written.steps, _UINT8),
            View(origin, src.offset, read.extents, read.steps, _UINT8),
        )
    issuer.log.byte_copies.append(issuer.log.count)
    effect: Any = None
    if issuer.has_data:
        held, source = written.array(dst), read.array(src)
        if geometry.is_large:
            effect = _large(issuer, dst, src, held, source)
        elif written.shape == read.shape:
            effect = held, source
        else:
            effect = partial(_copy_reshaped, held, source)
    return dst, src, effect, geometry


class _Side:
    """One side of a copy in the byte form.

    Attributes:
        loops: of segments, from the outermost.
        extents, steps: a view of its bytes.
        shape: of an array of wider elements.
        low, high: bytes before and behind the pointer that it reaches.
    """

    __slots__ = ("_dtype", "_last", "_strides", "extents", "high", "loops", "low", "shape", "steps")

    def __init__(self, size: int, unit: int, loops: Loops) -> None:
        self.loops = loops
        self.extents = (*(count for count, _ in loops), size)
        self.steps = (*(stride for _, stride in loops), 1)
        self._dtype = np.dtype(f"u{unit}")
        self.shape = (*self.extents[:-1], size // unit)
        self._strides = (*self.steps[:-1], unit)
        self._last: tuple[Any, int, Any] = None, 0, None
        self.low = sum(min((count - 1) * stride, 0) for count, stride in loops)
        self.high = size + sum(max((count - 1) * stride, 0) for count, stride in loops)

    def array(self, pointer: Pointer) -> Array:
        """Its bytes from a pointer on."""
        if 0 in self.shape:
            return np.empty(self.shape, self._dtype)
        allocation, offset = pointer.allocation, pointer.offset
        if allocation.buffer is None:
            allocation.bytes()
        # Most copies of a kernel have one side in common.
        if allocation is not self._last[0] or offset != self._last[1]:
            buffer: Any = allocation.buffer
            self._last = allocation, offset, np.ndarray(self.shape, self._dtype, buffer, offset, self._strides)
        found: Array = self._last[2]
        return found


def _large(issuer: Issuer, dst: View | Pointer, src: View | Pointer, to: Array, origin: Array) -> Any:
    """The effect of a large copy: one that need not pass through the NRAM, where that is possible."""
    unit = issuer.unit
    deferred = unit.deferred
    from_nram = src.allocation.memory is unit.nram
    near, pointer = (origin, src) if from_nram else (to, dst)
    if deferred is not None and near.flags.c_contiguous:
        first = pointer.allocation.address + pointer.offset
        if from_nram:
            return DeferredStore(deferred, first, first + near.nbytes, to, origin.reshape(to.shape))
        if src.allocation.read_only and first not in deferred.looked_at:
            return DeferredLoad(deferred, first, first + near.nbytes, origin)
    return (to, origin) if to.shape == origin.shape else partial(_copy_reshaped, to, origin)


class CopyGeometry:
    """A copy's geometry as the pipes and the log need it.

    `as_typed`: both sides have one element type of NumPy's own, which copies bit by bit; else they move as unsigned
    integers of its width. `is_large`: its bytes may take a shorter way (`mlusim.memory.deferred`).
    """

    __slots__ = (
        "as_typed",
        "asynchronous",
        "by_memory_core",
        "cost",
        "direction",
        "dst_box",
        "has_work",
        "instructions",
        "is_large",
        "pipe",
        "src_box",
        "stream_instruction",
    )

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
            and shape.nbytes >= LEAST_BYTES
            and shape.segment_bytes >= LEAST_SEGMENT_BYTES
        )

        def instruction(pipe: int, detail: int) -> int:
            return chip.log.records.instruction(
                chip.log.op("memcpy"),
                pipe,
                DIRECTION_CODES[direction],
                1,
                shape.nbytes,
                shape.bus_read_bytes,
                shape.bus_write_bytes,
                self.cost.alone_ps,
                detail,
                dst_box,
                src_box,
                NONE,
            )

        self.instructions = (instruction(self.pipe, ASYNCHRONOUS), instruction(self.pipe, BLOCKING))
        # As an instruction of the compute stream.
        within = direction is Direction.NRAM2NRAM
        self.stream_instruction = instruction(VECTOR, ASYNCHRONOUS) if within else NONE
        self.dst_box = dst_box
        self.src_box = src_box


def _copy_reshaped(to: np.ndarray[Any, Any], origin: np.ndarray[Any, Any]) -> None:
    to[...] = origin.reshape(to.shape)
