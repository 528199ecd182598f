"""C calls of copies: `__memcpy`, `__memcpy_async`, `__memcpy_nram_to_nram`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlusim.bangc.execution.runtime_layout import VALUES_WORD
from mlusim.cores.copies.byte_copies import ByteForm, byte_form
from mlusim.cores.copies.memcpy import copy_bytes
from mlusim.errors import CopyError
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.execution.bridge import Bridge
    from mlusim.cores.copies.effect import Place
    from mlusim.cores.tasks.waiting import Waiting

# In the order of `mluMemcpyDirection_t`.
_DIRECTIONS = (
    "GDRAM2NRAM",
    "NRAM2GDRAM",
    "LDRAM2NRAM",
    "NRAM2LDRAM",
    "GDRAM2WRAM",
    "WRAM2GDRAM",
    "LDRAM2WRAM",
    "WRAM2LDRAM",
    "NRAM2NRAM",
    "NRAM2WRAM",
    "WRAM2NRAM",
    "GDRAM2SRAM",
    "SRAM2GDRAM",
    "LDRAM2SRAM",
    "SRAM2LDRAM",
    "SRAM2NRAM",
    "NRAM2SRAM",
    "SRAM2WRAM",
    "WRAM2SRAM",
    "GDRAM2GDRAM",
    "GDRAM2LDRAM",
    "LDRAM2GDRAM",
    "LDRAM2LDRAM",
    "SRAM2SRAM",
)
_COPIES = {number: Direction[name] for number, name in enumerate(_DIRECTIONS) if name in Direction.__members__}
# Numbers of strides and segments of copies with one and two loops.
_STRIDED, _TWICE_STRIDED = 3, 8
_WITH_CLUSTER = (5, 8, 13)
_SIGN = 1 << 63


def memcpy(bridge: Bridge, line: int, _codes: list[int], values: tuple[Any, ...]) -> Waiting:
    """dst, src, bytes, direction; strides and numbers of segments minus one; the cluster of an SRAM2SRAM copy."""
    return _issue(bridge, line, values, blocking=True)


def memcpy_async(bridge: Bridge, line: int, _codes: list[int], values: tuple[Any, ...]) -> None:
    """Arguments as those of `memcpy`."""
    _issue(bridge, line, values, blocking=False)


def memcpy_nram(bridge: Bridge, line: int, _codes: list[int], values: tuple[Any, ...]) -> Waiting:
    """Arguments as those of `memcpy`, without a direction."""
    number = _DIRECTIONS.index("NRAM2NRAM")
    return _issue(bridge, line, (*values[:3], number, *values[3:]), blocking=True)


def _issue(bridge: Bridge, line: int, values: tuple[Any, ...], *, blocking: bool) -> Waiting:
    how = values[2:]
    form = bridge.byte_forms.get(how)
    if form is None:
        dst, src, form = _new_form(bridge, values, how)
    else:
        dst, src = bridge.place(values[0]), bridge.place(values[1])
        # On a memory core, each copy is checked for memories that the core lacks.
        if not bridge.arrays.lacks_memory:
            bridge.know(_prepared(bridge, line, form, blocking=blocking), line)
    return copy_bytes(bridge.issuer, line, form, dst, src, blocking=blocking)


def _prepared(bridge: Bridge, line: int, form: ByteForm, *, blocking: bool) -> Callable[[], Waiting | None]:
    """Return a function that repeats a copy with the addresses that the record has then."""
    words, issuer = bridge.image.words, bridge.issuer

    def issue() -> Waiting | None:
        dst, src = bridge.place(words[VALUES_WORD]), bridge.place(words[VALUES_WORD + 1])
        waits = copy_bytes(issuer, line, form, dst, src, blocking=blocking)
        return waits if blocking else None

    return issue


def _new_form(bridge: Bridge, values: tuple[Any, ...], how: tuple[Any, ...]) -> tuple[Place, Place, ByteForm]:
    """Return places and form of a copy; caches the form unless it depends on more than `how`."""
    # Floats become integers, as in C.
    numbers = [int(value) for value in values]
    dst, src, size, number = numbers[:4]
    strides = numbers[4:]
    direction = _COPIES.get(number)
    if direction is None:
        named = _DIRECTIONS[number] if 0 <= number < len(_DIRECTIONS) else str(number)
        raise CopyError(f"memcpy in direction {named}: there is no such copy")
    if size >= _SIGN:
        raise CopyError(
            f"memcpy of {size - 2 * _SIGN} B: a size is not negative (unsigned, this is {group_digits(size)}); "
            "look at what it is computed from"
        )
    if MemoryKind.WRAM in (direction.source, direction.destination) and len(values) not in _WITH_CLUSTER:
        if direction.destination is MemoryKind.WRAM:
            _note_filters(bridge, dst, size, strides)
        form = byte_form(bridge.issuer, size, direction, tuple(strides))
        return bridge.filter_place(dst, size), bridge.filter_place(src, size), form
    if len(values) in _WITH_CLUSTER:
        if direction is not Direction.SRAM2SRAM:
            raise CopyError(f"memcpy in direction {direction.name} with a cluster: only SRAM2SRAM takes one; omit it")
        target = bridge.remote(dst, strides.pop())
        return target, bridge.place(src), byte_form(bridge.issuer, size, direction, tuple(strides))
    form = bridge.byte_forms[how] = byte_form(bridge.issuer, size, direction, tuple(strides))
    return bridge.place(dst), bridge.place(src), form


def _note_filters(bridge: Bridge, dst: int, size: int, strides: list[int]) -> None:
    """Note whether a copy to WRAM writes filters in rows from lane to lane."""
    if bridge.in_absent_memory(dst):
        return
    loops = [(strides[2] + 1, strides[0])] if len(strides) == _STRIDED else []
    if len(strides) == _TWICE_STRIDED:
        loops = [(strides[1] + 1, strides[0]), (strides[3] + 1, strides[2])]
    if bridge.filter_forms.copied(*bridge.locate(dst), size, loops):
        bridge.forget()
