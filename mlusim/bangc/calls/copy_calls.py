"""C calls of copies: `__memcpy`, `__memcpy_async`, `__memcpy_nram_to_nram`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlusim.bangc.runtime_layout import VALUES_WORD
from mlusim.cores.copies.byte_copies import ByteForm, byte_form
from mlusim.cores.copies.memcpy import copy_bytes
from mlusim.errors import CopyError
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask
    from mlusim.cores.copies.effect import Place
    from mlusim.cores.tasks.waiting import Waiting

# In the order of `mluMemcpyDirection_t`, where SRAM2SRAM comes last.
_COPIES = sorted(Direction, key=lambda direction: direction is Direction.SRAM2SRAM)
# Numbers of strides and segments of copies with one and two loops.
_STRIDED, _TWICE_STRIDED = 3, 8
_WITH_CLUSTER = (5, 8, 13)
_SIGN = 1 << 63


def memcpy(task: CompiledTask, line: int, _codes: list[int], values: tuple[Any, ...]) -> Waiting:
    """dst, src, bytes, direction; strides and numbers of segments minus one; the cluster of an SRAM2SRAM copy."""
    return _issue(task, line, values, blocking=True)


def memcpy_async(task: CompiledTask, line: int, _codes: list[int], values: tuple[Any, ...]) -> None:
    """Arguments as those of `memcpy`."""
    _issue(task, line, values, blocking=False)


def memcpy_nram(task: CompiledTask, line: int, _codes: list[int], values: tuple[Any, ...]) -> Waiting:
    """Arguments as those of `memcpy`, without a direction."""
    return _issue(task, line, (*values[:3], _COPIES.index(Direction.NRAM2NRAM), *values[3:]), blocking=True)


def _issue(task: CompiledTask, line: int, values: tuple[Any, ...], *, blocking: bool) -> Waiting:
    form_arguments = values[2:]
    form = task.byte_forms.get(form_arguments)
    if form is None:
        dst, src, form = _new_form(task, values, form_arguments)
    else:
        dst, src = task.locate_cached(values[0]), task.locate_cached(values[1])
        # On a memory core, each copy is checked for memories that the core lacks.
        if not task.arrays.lacks_memory:
            task.know(_prepared(task, line, form, blocking=blocking), line)
    return copy_bytes(task.issuer, line, form, dst, src, blocking=blocking)


def _prepared(task: CompiledTask, line: int, form: ByteForm, *, blocking: bool) -> Callable[[], Waiting | None]:
    """Return a function that repeats a copy with the addresses that the record has then."""
    words, issuer = task.image.words, task.issuer

    def issue() -> Waiting | None:
        dst, src = task.locate_cached(words[VALUES_WORD]), task.locate_cached(words[VALUES_WORD + 1])
        waits = copy_bytes(issuer, line, form, dst, src, blocking=blocking)
        return waits if blocking else None

    return issue


def _new_form(
    task: CompiledTask, values: tuple[Any, ...], form_arguments: tuple[Any, ...]
) -> tuple[Place, Place, ByteForm]:
    """Return places and form of a copy; caches the form unless it depends on more than `form_arguments`."""
    # Floats become integers, as in C.
    numbers = [int(value) for value in values]
    dst, src, size, number = numbers[:4]
    strides = numbers[4:]
    if not 0 <= number < len(_COPIES):
        raise CopyError(f"memcpy in direction {number}: there is no such copy; write a name, such as GDRAM2NRAM")
    direction = _COPIES[number]
    if size >= _SIGN:
        raise CopyError(
            f"memcpy of {size - 2 * _SIGN} B: a size cannot be negative (unsigned, this is {group_digits(size)}); "
            "check how it is computed"
        )
    if MemoryKind.WRAM in (direction.source, direction.destination) and len(values) not in _WITH_CLUSTER:
        if direction.destination is MemoryKind.WRAM:
            _note_filters(task, dst, size, strides)
        form = byte_form(task.issuer, size, direction, tuple(strides))
        return task.filter_place(dst, size), task.filter_place(src, size), form
    if len(values) in _WITH_CLUSTER:
        if direction is not Direction.SRAM2SRAM:
            raise CopyError(f"memcpy in direction {direction.name} with a cluster: only SRAM2SRAM takes one; omit it")
        target = task.remote(dst, strides.pop())
        return target, task.locate_cached(src), byte_form(task.issuer, size, direction, tuple(strides))
    form = task.byte_forms[form_arguments] = byte_form(task.issuer, size, direction, tuple(strides))
    return task.locate_cached(dst), task.locate_cached(src), form


def _note_filters(task: CompiledTask, dst: int, size: int, strides: list[int]) -> None:
    """Note whether a copy to WRAM writes filters in rows from lane to lane."""
    if task.in_absent_memory(dst):
        return
    loops = [(strides[2] + 1, strides[0])] if len(strides) == _STRIDED else []
    if len(strides) == _TWICE_STRIDED:
        loops = [(strides[1] + 1, strides[0]), (strides[3] + 1, strides[2])]
    if task.filter_forms.copied(*task.locate(dst), size, loops):
        task.forget()
