"""Every BANG C intrinsic that compiled kernels may call, and the corresponding operation of the core.

Vector and tensor instructions come from the core's own table with their argument lists; this module adds the rest:
copies, fills of other memories, syncs, scalar loads, output. `declarations` generates C++ declarations of those that a
file uses.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.bangc.assembly import run_statement
from mlusim.bangc.device_calls import device_calls
from mlusim.bangc.host_calls import HOST_CALLS
from mlusim.bangc.image import KINDS
from mlusim.bangc.instruction_calls import result_types, signature_handlers, vector_intrinsics
from mlusim.bangc.lines import raise_at
from mlusim.cores import copies, locks, syncs
from mlusim.cores.byte_copies import ByteForm, byte_form
from mlusim.cores.ordering import ALL_PIPES, COMPUTE_PIPES, IO_PIPE, MOVE_PIPE
from mlusim.cores.scalar import access
from mlusim.errors import AccessError, CopyError, KernelError, OperandError
from mlusim.memory.kinds import Direction, MemoryKind
from mlusim.units import PS_PER_US, group_digits

if TYPE_CHECKING:
    from mlusim.bangc.bridge import Bridge
    from mlusim.memory.view import Pointer

Handler = Callable[["Bridge", int, list[int], list[Any]], "Awaitable[None] | None"]
# Returns a function that repeats the call with these values, or None if it cannot be repeated.
Prepare = Callable[["Bridge", int, list[int], list[Any]], "Callable[[], Awaitable[None] | None] | None"]


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One intrinsic: possible numbers of arguments, return type, and handlers for single and repeated calls."""

    name: str
    arities: tuple[int, ...]
    handler: Handler
    returns: str | Mapping[int, str] = "void"
    prepare: Prepare | None = None

    def result(self, arity: int) -> str:
        """Return the C++ return type with that many arguments."""
        return self.returns if isinstance(self.returns, str) else self.returns[arity]


_OWN: dict[str, Intrinsic] = {}


def _intrinsic(
    names: str, *arities: int, returns: str = "void", prepare: Prepare | None = None
) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names.split():
            _OWN[name] = Intrinsic(name, arities, handler, returns, prepare)
        return handler

    return register


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
_NUMBERS = {kind: number for number, kind in enumerate((*KINDS, MemoryKind.GDRAM))}
# Numbers of strides and segments of copies with one and two loops.
_STRIDED, _TWICE_STRIDED = 3, 8
_WITH_CLUSTER = (5, 8, 13)
_SIGN = 1 << 63


def _copy(bridge: Bridge, values: list[Any]) -> tuple[Pointer, Pointer, ByteForm]:
    """Return pointers and form of a copy."""
    key = tuple(values[2:])
    form = bridge.byte_forms.get(key)
    if form is not None:
        return bridge.pointer(values[0]), bridge.pointer(values[1]), form
    # Floats become integers, as in C.
    dst, src, size, number, *strides = map(int, values)
    direction = _COPIES.get(number)
    if direction is None:
        named = _DIRECTIONS[number] if 0 <= number < len(_DIRECTIONS) else str(number)
        raise CopyError(f"memcpy in direction {named}: there is no such copy")
    if size >= _SIGN:
        raise CopyError(
            f"memcpy of {size - 2 * _SIGN} B: a size is not negative (unsigned, this is {group_digits(size)}); "
            "look at what it is computed from"
        )
    if direction.destination is MemoryKind.WRAM and len(values) not in _WITH_CLUSTER:
        _note_filters(bridge, dst, size, strides)
        return bridge.pointer(dst), bridge.pointer(src), byte_form(bridge.issuer, size, direction, tuple(strides))
    if len(values) in _WITH_CLUSTER:
        if direction is not Direction.SRAM2SRAM:
            raise CopyError(
                f"memcpy in direction {direction.name} with a cluster: only SRAM2SRAM takes one; leave it out"
            )
        target = bridge.remote(dst, strides.pop())
        return target, bridge.pointer(src), byte_form(bridge.issuer, size, direction, tuple(strides))
    form = bridge.byte_forms[key] = byte_form(bridge.issuer, size, direction, tuple(strides))
    return bridge.pointer(dst), bridge.pointer(src), form


def _note_filters(bridge: Bridge, dst: int, size: int, strides: list[int]) -> None:
    """Note whether a copy to WRAM writes filters in rows from lane to lane."""
    if bridge.in_absent_memory(dst):
        return
    loops = [(strides[2] + 1, strides[0])] if len(strides) == _STRIDED else []
    if len(strides) == _TWICE_STRIDED:
        loops = [(strides[1] + 1, strides[0]), (strides[3] + 1, strides[2])]
    if bridge.filter_forms.copied(*bridge.locate(dst), size, loops):
        bridge.repeated.clear()


@_intrinsic("__memcpy", 4, 5, 7, 8, 12, 13)
def _memcpy(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None]:
    del codes
    return copies.copy_bytes(bridge.issuer, line, *_copy(bridge, values), blocking=True)


@_intrinsic("__memcpy_async", 4, 5, 7, 8, 12, 13)
def _memcpy_async(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
    del codes
    copies.copy_bytes(bridge.issuer, line, *_copy(bridge, values), blocking=False)


@_intrinsic("__memcpy_nram_to_nram", 3, 6)
def _memcpy_nram(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None]:
    number = _DIRECTIONS.index("NRAM2NRAM")
    return _memcpy(bridge, line, codes, [*values[:3], number, *values[3:]])  # type: ignore[return-value]


@_intrinsic("__bang_move", 3, 6)
def _move(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
    number = _DIRECTIONS.index("NRAM2NRAM")
    _memcpy_async(bridge, line, codes, [*values[:3], number, *values[3:]])


def _sync_of(name: str, pipes: int) -> Intrinsic:
    def prepare(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Callable[[], Awaitable[None] | None]:
        del codes, values
        return syncs.prepared(bridge.issuer, line, name, pipes)

    def handler(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None] | None:
        return prepare(bridge, line, codes, values)()

    return Intrinsic(f"__{name}", (0,), handler, prepare=prepare)


def _barrier_of(name: str) -> Handler:
    def handler(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None]:
        del codes, values
        return syncs.barrier(bridge.issuer, line, name)

    return handler


for _name, _pipes in (
    ("sync", ALL_PIPES),
    ("sync_io", IO_PIPE),
    ("sync_move", MOVE_PIPE),
    ("sync_compute", COMPUTE_PIPES),
):
    _OWN[f"__{_name}"] = _sync_of(_name, _pipes)
for _name in syncs.BARRIERS:
    _OWN[f"__{_name}"] = Intrinsic(f"__{_name}", (0,), _barrier_of(_name))


def _lock_of(name: str) -> Handler:
    def handler(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None]:
        """An MLU core passes its lock's number twice; a memory core names two locks (B) and acquires both, in order."""
        del codes
        first, second = (int(value) for value in values)
        alike = first == second
        if alike == bridge.issuer.unit.is_memory_core:
            whose, rule = ("a memory core", "different") if alike else ("an MLU core", "equal")
            raise OperandError(f"__bang_{name}({first}, {second}) on {whose}: its two numbers are {rule}")
        return _change_both(bridge, line, name, (first,) if alike else tuple(sorted((first, second))))

    return handler


async def _change_both(bridge: Bridge, line: int, name: str, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        await locks.change(bridge.issuer, line, name, number)


for _name in locks.LOCK_NAMES:
    _OWN[f"__bang_{_name}"] = Intrinsic(f"__bang_{_name}", (2,), _lock_of(_name))


@_intrinsic("__sync_io_move_compute", 0, 3, 6)
def _sync_pipes(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None]:
    """Six arguments name the waiting pipes and the awaited ones; here the task itself waits for all of them."""
    del codes
    flags = [bool(value) for value in values] or [True] * 3
    if len(flags) == 6:
        flags = [any(pair) for pair in zip(flags[:3], flags[3:], strict=True)]
    pipes = IO_PIPE * flags[0] | MOVE_PIPE * flags[1] | COMPUTE_PIPES * flags[2]
    return syncs.sync(bridge.issuer, line, "sync_io_move_compute", pipes)


_SYNCED_COPIES = (
    "nram_to_nram",
    "nram_to_dram",
    "dram_to_nram",
    "wram_to_dram",
    "dram_to_wram",
    "sram_to_dram",
    "dram_to_sram",
    "nram_to_sram",
    "sram_to_nram",
    "wram_to_sram",
    "sram_to_wram",
    "sram_to_sram",
)


@_intrinsic(" ".join(f"__sync_copy_{pair}" for pair in _SYNCED_COPIES), 0)
def _sync_copies(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None]:
    del codes, values
    return syncs.sync(bridge.issuer, line, "sync_io_move_compute", IO_PIPE | MOVE_PIPE)


_SYNCS = ("sync;", "barrier.sync.local;")


def _prepare_assembly(
    bridge: Bridge, line: int, codes: list[int], values: list[Any]
) -> Callable[[], Awaitable[None] | None] | None:
    del codes
    return syncs.prepared(bridge.issuer, line) if bridge.literal(values[0]).startswith(_SYNCS) else None


@_intrinsic("__mlusim_assembly", *range(1, 9), returns="unsigned", prepare=_prepare_assembly)
def _assembly(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None] | None:
    del codes
    text = bridge.literal(values[0])
    if run_statement(bridge, line, text, values[1:]):
        return None
    raise KernelError(f"__asm__ {text!r} is not simulated; use the intrinsic that the statement stands for")


@_intrinsic("__mlusim_unknown", 3, returns="::mlusim::Anything")
def _unknown(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
    del codes, line
    name, file, number = values
    error = KernelError(bridge.module.unknown_text(bridge.text(name)))
    raise_at(bridge.text(file), number, "kernel", error)


@_intrinsic("__mlusim_vv_store", 3)
def _vector_store(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> Awaitable[None] | None:
    """Store a vector register to NRAM: charged as one scalar store."""
    view = bridge.view(codes[0], values[0], (values[2],))
    bridge.issuer.unit.apply_until(bridge.issuer.unit.vector_free_ps)
    view.raw()[:] = np.frombuffer(ctypes.string_at(values[1], view.nbytes), view.raw().dtype)
    return access(bridge.issuer, line, "vv_store", view, 1, write=True)


@_intrinsic("__mlusim_memory", 1, returns="int")
def _memory(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
    """Return the memory of an address: the numbers are those of `KINDS`, 4 for GDRAM, -1 for none."""
    del codes, line
    try:
        kind = bridge.locate(values[0])[0].memory.kind
    except AccessError:
        bridge.give(-1)
    else:
        bridge.give(_NUMBERS[kind])


@_intrinsic("__mlusim_now", 0, returns="uint64_t")
def _now(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
    """Return the simulated time of the task in microseconds."""
    del codes, line, values
    bridge.clock_read = True
    bridge.give(bridge.issuer.task.now_ps // PS_PER_US)


def _host_only(name: str) -> Handler:
    def handler(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
        del bridge, line, codes, values
        raise KernelError(f"{name} inside a kernel: it is a function of the host's runtime")

    return handler


@_intrinsic("__mlusim_launch", 12)
def _launch(bridge: Bridge, line: int, codes: list[int], values: list[Any]) -> None:
    del codes, line
    raise KernelError(f"{bridge.text(values[0])}<<<...>>> inside a kernel: launches are the host's")


@lru_cache(maxsize=1)
def intrinsics() -> tuple[Intrinsic, ...]:
    """Return all intrinsics; the position is the number that compiled code uses."""
    known = dict(_OWN)
    for name, (arity, returns) in HOST_CALLS.items():
        known[name] = Intrinsic(name, (arity,), _host_only(name), returns)
    for name, (counts, handler) in device_calls().items():
        known[name] = Intrinsic(name, counts, handler)
    for name, signatures in vector_intrinsics().items():
        if name not in known:
            results = result_types(signatures)
            handler, prepare = signature_handlers(name, signatures)
            known[name] = Intrinsic(name, tuple(sorted(results)), handler, results, prepare)
    return tuple(known[name] for name in sorted(known))


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Return the names that a kernel may call."""
    return frozenset(intrinsic.name for intrinsic in intrinsics())


@lru_cache(maxsize=1)
def table_digest() -> str:
    """Return a digest of the names, their numbers, arguments and return types, on which compiled code depends."""
    words = [
        f"{intrinsic.name} {intrinsic.arities} {[intrinsic.result(arity) for arity in intrinsic.arities]}"
        for intrinsic in intrinsics()
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


# The call itself must not be recorded as an access.
_PLAIN = '__attribute__((no_sanitize("thread"), noinline, unused))'


def declarations(wanted: Iterable[str]) -> str:
    """Return C++ declarations of those intrinsics among the names: one template per number of arguments."""
    place = "const char *mlusim_f = __builtin_FILE(), int mlusim_l = __builtin_LINE()"
    lines = []

    def declare(template: str, given: str, name: str, parameters: str, body: str) -> None:
        lines.append(f"{template}{_PLAIN} inline {given} {name}({parameters}{place}) {{ {body} }}\n")

    for name in sorted(names().intersection(wanted)):
        number = _numbers()[name]
        one = intrinsics()[number]
        for arity in one.arities:
            types = ", ".join(f"class A{k}" for k in range(arity))
            parameters = "".join(f"A{k} a{k}, " for k in range(arity))
            arguments = "".join(f", a{k}" for k in range(arity))
            template = f"template <{types}> " if arity else ""
            given = one.result(arity)
            if given == "element":
                given = "typename ::mlusim::Element<A0>::type"
            takes_handles = name in HOST_CALLS and arity
            handles = " || ".join(f"::mlusim::is_handle<A{k}>()" for k in range(arity))
            if takes_handles:
                template = f"template <{types}, typename ::std::enable_if<!({handles}), int>::type = 0> "
            call = f"::mlusim::issue({number}, mlusim_f, mlusim_l{arguments})"
            body = f"{call};" if given == "void" else f"return ::mlusim::result<{given}>({call});"
            declare(template, given, name, parameters, body)
            if takes_handles:
                # Objects that convert to a queue or a pointer are not copied: they may own it.
                template = f"template <{types}, typename ::std::enable_if<({handles}), int>::type = 0> "
                references = "".join(f"A{k} &&a{k}, " for k in range(arity))
                values = "".join(f"::mlusim::handle(a{k}), " for k in range(arity))
                declare(template, given, name, references, f"return {name}({values}mlusim_f, mlusim_l);")
    return "".join(lines)


@lru_cache(maxsize=1)
def _numbers() -> dict[str, int]:
    return {intrinsic.name: number for number, intrinsic in enumerate(intrinsics())}
