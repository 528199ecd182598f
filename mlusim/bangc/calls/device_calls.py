"""C calls of instructions on memory other than copies: atomics, sets, gathers and scatters by byte offsets."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.arrays import Array, Integers
from mlusim.bangc.calls.type_codes import POINTER, on_board
from mlusim.cores.atomics import ATOMICS, COMPARE_AND_SWAP, atomic
from mlusim.cores.compute import uncached_vector, vector
from mlusim.cores.counted.row_copies import copy_loop
from mlusim.cores.counted.row_loop import RowLoop
from mlusim.cores.instructions.table import INSTRUCTIONS
from mlusim.cores.memory_sets import set_memory
from mlusim.cores.synchronisation import syncs
from mlusim.cores.synchronisation.ordering import COMPUTE_PIPES
from mlusim.errors import AccessError, OperandError
from mlusim.memory.loop_costs import NO_ADDRESS
from mlusim.memory.view import View
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask

Handler = Callable[["CompiledTask", int, list[int], tuple[Any, ...]], "Awaitable[Any] | None"]

_UINT8 = np.dtype(np.uint8)
# dst, src, count, two loop counts minus one, and their strides in bytes on both sides.
_STRIDED_ATOMIC = 9
# From here on a number is shown by its bits too.
_LARGE = 1 << 31


def _strided(task: CompiledTask, code: int, address: int, count: int, loops: tuple[tuple[int, int], ...]) -> View:
    """Return `count` elements over loops of (repetitions minus one, stride in bytes), innermost last."""
    first = task.view(code, address, (count,))
    shape = (*(count_minus_1 + 1 for count_minus_1, _ in loops), count)
    strides = (*(stride for _, stride in loops), first.itemsize)
    _check_reach(first, shape, strides, f"{list(shape)} elements with strides {list(strides)}")
    return View.strided(first.allocation, first.offset, shape, strides, first.dtype)


def _check_reach(first: View, shape: tuple[int, ...], strides: tuple[int, ...], role: str) -> None:
    """Raise `AccessError` if elements with these strides in bytes, from that of a view on, leave its array."""
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    name, size = first.allocation.name, first.allocation.nbytes
    role += f" from byte {group_digits(first.offset)} of {name} on"
    lowest = first.offset + sum(min(step, 0) for step in steps)
    if lowest < 0:
        raise AccessError(f"{role} begin {group_digits(-lowest)} B before it: check the address and the strides")
    end = first.offset + sum(max(step, 0) for step in steps) + first.itemsize
    if end > size:
        raise AccessError(
            f"{role} end at byte {group_digits(end)}, and it has {group_digits(size)} B: check the address, the "
            "strides, and the number of segments, of which the call takes one less"
        )


def _operand(task: CompiledTask, code: int, value: Any, shape: tuple[int, ...]) -> Any:
    return task.view(code, value, shape) if code >= POINTER else value


def _fetching(operation: str) -> Handler:
    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[Any] | None:
        swaps = operation == COMPARE_AND_SWAP
        size = int(values[4 if swaps else 3]) if len(values) > (4 if swaps else 3) else 1
        target = task.view(codes[1], values[1], (size,))
        operands = [_operand(task, codes[at], values[at], (size,)) for at in range(2, 4 if swaps else 3)]
        compare = operands.pop(0) if swaps else None
        if task.on_stack(values[0]):
            register = np.zeros(size, target.dtype)
            waits = atomic(task.issuer, line, operation, target, operands[0], register=register, compare=compare)
            return _to_stack(values[0], register, waits)
        old = task.view(codes[0], values[0], (size,))
        return atomic(task.issuer, line, operation, target, operands[0], old=old, compare=compare)

    return handler


async def _to_stack(address: int, register: Array, waits: Awaitable[Any] | None) -> None:
    """Wait, and write the result to a local variable."""
    if waits is not None:
        await waits
    ctypes.memmove(address, register.tobytes(), register.nbytes)


def _reducing(operation: str) -> Handler:
    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[Any] | None:
        swaps = operation == COMPARE_AND_SWAP
        if len(values) == _STRIDED_ATOMIC:
            count, inner, outer = (int(value) for value in values[2:5])
            to_inner, to_outer, from_inner, from_outer = (int(value) for value in values[5:])
            target = _strided(task, codes[0], values[0], count, ((outer, to_outer), (inner, to_inner)))
            source = _strided(task, codes[1], values[1], count, ((outer, from_outer), (inner, from_inner)))
            return atomic(task.issuer, line, operation, target, source)
        size = int(values[2]) if len(values) == 3 and not swaps else 1
        target = task.view(codes[0], values[0], (size,))
        operands = [_operand(task, codes[at], values[at], (size,)) for at in range(1, 3 if swaps else 2)]
        compare = operands.pop(0) if swaps else None
        return atomic(task.issuer, line, operation, target, operands[0], compare=compare)

    return handler


def _setting(name: str, *, blocking: bool) -> Handler:
    """The value's C type is the element type; strides are in bytes, counts are repetitions minus one."""

    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[Any] | None:
        address, count, value, *loops = values
        code = POINTER | on_board(codes[2])
        if len(loops) == 4:
            dst = _strided(task, code, address, count, ((loops[3], loops[2]), (loops[1], loops[0])))
        elif loops:
            dst = _strided(task, code, address, count, ((loops[1], loops[0]),))
        else:
            dst = task.view(code, address, (count,))
        return set_memory(task.issuer, line, name, dst, value, blocking=blocking)

    return handler


def _moving(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """dst, src, bytes; or with strides on both sides and the number of segments minus one."""
    del codes
    dst, src, size, *strides = values
    to_stride, from_stride, segments = strides or (size, size, 0)
    sides = [
        _rows(task, address, stride, size, segments + 1) for address, stride in ((dst, to_stride), (src, from_stride))
    ]
    uncached_vector.bang_move(task.issuer, line, *sides)


def _rows(task: CompiledTask, address: int, stride: int, size: int, count: int) -> View:
    """Return `count` rows of `size` bytes, `stride` bytes apart."""
    first = task.view(POINTER | 1, address, (size,))
    _check_reach(first, (count, size), (stride, 1), f"{count} rows of {size} B, {stride} B apart,")
    return View.strided(first.allocation, first.offset, (count, size), (stride, 1), _UINT8)


def _by_offsets(name: str, *, blocking: bool) -> Handler:
    """gather: dst rows in order, src rows at byte offsets; scatter the reverse. A null mask means no mask."""

    async def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
        _check_arch(task, name)
        await _by_computed_offsets(task, line, name, codes, values)
        if blocking:
            await syncs.sync(task.issuer, line)

    return handler


async def gather(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """Gather by byte offsets, and wait for it; on boards of any arch."""
    await _by_computed_offsets(task, line, "gather", codes, values)
    await syncs.sync(task.issuer, line)


async def _by_computed_offsets(
    task: CompiledTask, line: int, name: str, codes: list[int], values: tuple[Any, ...]
) -> None:
    # The offsets are read when the instruction begins, so wait for the instructions that compute them.
    await syncs.sync(task.issuer, line, "sync_compute", COMPUTE_PIPES)
    _issue_by_offsets(task, line, name, codes, values)


def _check_arch(task: CompiledTask, name: str) -> None:
    """Raise `OperandError` if the board is too old for an instruction."""
    board = task.issuer.board
    if not board.has_gather:
        raise OperandError(f"__{name} exists from arch 592 on; this board is arch {board.arch}: loop over __memcpy")


def _issue_by_offsets(task: CompiledTask, line: int, name: str, codes: list[int], values: tuple[Any, ...]) -> None:
    dst_address, src_address, offset_address, *options = values
    mask_address = options.pop(0) if codes[3] >= POINTER else 0
    size = int(options[0])
    # The direction follows from the memories of the addresses; the async builtin has no direction argument.
    stride, count = int(options[-2]), int(options[-1])
    offsets_view = task.view(codes[2], offset_address, (count,))
    task.issuer.unit.update_memory(task.issuer.task.now_ps)
    offsets = offsets_view.typed().astype(np.int64)
    selected: Integers = np.arange(count)
    indices: tuple[View, ...] = (offsets_view,)
    if mask_address:
        bits = task.view(POINTER | 1, mask_address, (-(-count // 8),))
        selected = np.flatnonzero(np.unpackbits(bits.typed().view(np.uint8), count=count, bitorder="little"))
        indices = (offsets_view, bits)
    selected_offsets = offsets[selected]
    far_address, near_address = (dst_address, src_address) if name == "scatter" else (src_address, dst_address)
    _check_offsets(task, name, selected_offsets, selected, far_address, size)
    step = math.gcd(*selected_offsets.tolist(), size) if len(selected_offsets) else size
    reach = int(selected_offsets.max()) // step + 1 if len(selected_offsets) else 1
    scattered_rows = _rows(task, far_address, step, size, reach)
    row_views = _rows(task, near_address, stride, size, count)
    rows = selected_offsets // step
    dst, src = (scattered_rows, row_views) if name == "scatter" else (row_views, scattered_rows)
    dst_rows, src_rows = (rows, selected) if name == "scatter" else (selected, rows)
    loop = RowLoop(count, len(selected), dst_rows, src_rows, NO_ADDRESS, indices, unread=True)
    copy_loop(task.issuer, line, name, dst, src, loop, method="instruction")


async def _extension(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """dst, src, counts, bytes, direction, number of segments: segment i of src, counts[i] times, one after another.

    ASSUMED: no public header declares it. A document of mlu-ops says that each position is extended to a number of
    times, and its kernel uses dst without a sync. The time is that of a gather within NRAM.
    """
    _check_arch(task, "extension")
    await syncs.sync(task.issuer, line, "sync_compute", COMPUTE_PIPES)
    dst, src, counts_address = values[:3]
    size, number = int(values[3]), int(values[5])
    extents = task.view(codes[2], counts_address, (number,))
    task.issuer.unit.update_memory(task.issuer.task.now_ps)
    rows = np.repeat(np.arange(number), extents.typed().astype(np.int64))
    if len(rows):
        sides = _rows(task, dst, size, size, len(rows)), _rows(task, src, size, size, number)
        loop = RowLoop(len(rows), len(rows), None, rows, NO_ADDRESS, (extents,))
        copy_loop(task.issuer, line, "extension", *sides, loop, method="instruction")
    await syncs.sync(task.issuer, line)


def _check_offsets(
    task: CompiledTask, name: str, offsets: Integers, selected: Integers, address: int, size: int
) -> None:
    """Raise `AccessError` for the first byte offset whose segment leaves its array or tensor."""
    pointer = task.pointer(address)
    room = pointer.allocation.nbytes - pointer.offset
    outside = np.flatnonzero((offsets < 0) | (offsets + size > room))
    if len(outside):
        offset = int(offsets[outside[0]])
        word = f"{group_digits(offset)} ({offset:#x})" if offset >= _LARGE else group_digits(offset)
        raise AccessError(
            f"{name}: element {int(selected[outside[0]])} of the offsets is {word}, and {group_digits(size)} B "
            f"from there on extend beyond {pointer.allocation.name}, which has {group_digits(room)} B from that "
            "address on; offsets count bytes"
        )


def _rand(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """Random numbers that differ by task and by call, and are reproducible."""
    task.random_calls += 1
    seed = task.issuer.task.index << 32 | task.random_calls
    view = task.view(codes[0], values[0], (int(values[1]),))
    vector.call(task.issuer, line, INSTRUCTIONS["rand"], (view, seed), {})


def device_calls() -> dict[str, tuple[tuple[int, ...], Handler]]:
    """Return intrinsics by name: possible numbers of arguments, and handler."""
    calls: dict[str, tuple[tuple[int, ...], Handler]] = {}
    for operation in (*ATOMICS, COMPARE_AND_SWAP):
        swaps = operation == COMPARE_AND_SWAP
        calls[f"__bang_atomic_{operation}"] = ((4, 5) if swaps else (3, 4), _fetching(operation))
        calls[f"__bang_atomic_reduce_{operation}"] = ((3,) if swaps else (2, 3, _STRIDED_ATOMIC), _reducing(operation))
    for memory in ("gdram", "sram", "ldram"):
        calls[f"__{memory}set"] = ((3, 5, 7), _setting(f"{memory}set", blocking=True))
    calls["__nramset_async"] = ((3, 5, 7), _setting("nramset_async", blocking=False))
    calls["__bang_rand"] = ((2,), _rand)
    calls["__extension"] = ((6,), _extension)
    calls["__bang_move"] = ((3, 6), _moving)
    for name in ("gather", "scatter"):
        for prefix in ("__", "__bang_"):
            calls[f"{prefix}{name}"] = ((7, 8), _by_offsets(name, blocking=True))
            calls[f"{prefix}{name}_async"] = ((7, 8), _by_offsets(name, blocking=False))
    return calls
