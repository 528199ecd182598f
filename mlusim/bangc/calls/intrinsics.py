"""Every BANG C intrinsic that compiled kernels may call, and the corresponding operation of the core.

Vector and tensor instructions come from the core's own table with their argument lists; this module adds the rest:
copies, fills of other memories, syncs, scalar loads, output. `declarations` generates C++ declarations of those that a
file uses.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim import dtypes
from mlusim.bangc.calls import copy_calls
from mlusim.bangc.calls.argument_rules import argument_rules
from mlusim.bangc.calls.assembly import run_statement
from mlusim.bangc.calls.call_record import file_at, text_at
from mlusim.bangc.calls.device_calls import device_calls
from mlusim.bangc.calls.host_calls import ADDRESSES, HOST_CALLS, PARAMETERS, parameters_and_body
from mlusim.bangc.calls.instruction_calls import SignatureCalls, result_types, vector_intrinsics
from mlusim.bangc.lines import raise_at
from mlusim.bangc.runtime_layout import KINDS
from mlusim.cores.instructions import c_signatures
from mlusim.cores.instructions.c_signatures import CSignature
from mlusim.cores.scalar import access
from mlusim.cores.synchronisation import locks, syncs
from mlusim.cores.synchronisation.barrier import BARRIERS
from mlusim.cores.synchronisation.ordering import ALL_PIPES, COMPUTE_PIPES, IO_PIPE, MOVE_PIPE
from mlusim.errors import AccessError, KernelError, OperandError
from mlusim.memory.kinds import MemoryKind
from mlusim.units import PS_PER_US

if TYPE_CHECKING:
    from mlusim.bangc.execution.compiled_task import CompiledTask

Handler = Callable[["CompiledTask", int, list[int], tuple[Any, ...]], "Awaitable[None] | None"]
# Returns a function that repeats the call with these values, or None if it cannot be repeated.
Prepare = Callable[["CompiledTask", int, list[int], tuple[Any, ...]], "Callable[[], Awaitable[None] | None] | None"]


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One intrinsic: possible numbers of arguments, return type, and handlers for single and repeated calls."""

    name: str
    arities: tuple[int, ...]
    handler: Handler
    returns: str | Mapping[int, str] = "void"
    prepare: Prepare | None = None
    signatures: tuple[CSignature, ...] = ()

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


_OWN["__memcpy"] = Intrinsic("__memcpy", (4, 5, 7, 8, 12, 13), copy_calls.memcpy)
_OWN["__memcpy_async"] = Intrinsic("__memcpy_async", (4, 5, 7, 8, 12, 13), copy_calls.memcpy_async)
_OWN["__memcpy_nram_to_nram"] = Intrinsic("__memcpy_nram_to_nram", (3, 6), copy_calls.memcpy_nram)
_NUMBERS = {kind: number for number, kind in enumerate((*KINDS, MemoryKind.GDRAM))}


def _sync_of(name: str, pipes: int) -> Intrinsic:
    def prepare(
        task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]
    ) -> Callable[[], Awaitable[None] | None]:
        del codes, values
        return syncs.prepare_sync(task.issuer, line, name, pipes)

    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None] | None:
        return prepare(task, line, codes, values)()

    return Intrinsic(f"__{name}", (0,), handler, prepare=prepare)


_OF_THE_CORES = "sync_all_ipu"


def _barrier_of(name: str) -> Handler:
    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None]:
        del codes, values
        if name == _OF_THE_CORES and task.issuer.unit.is_memory_core:
            # ASSUMED: kernels of the vendor call it without a test of the core, so a memory core passes.
            task.note_passed(f"__{name}", line)
            return syncs.sync(task.issuer, line)
        return syncs.barrier(task.issuer, line, name)

    return handler


for _name, _pipes in (
    ("sync", ALL_PIPES),
    ("sync_io", IO_PIPE),
    ("sync_move", MOVE_PIPE),
    ("sync_compute", COMPUTE_PIPES),
):
    _OWN[f"__{_name}"] = _sync_of(_name, _pipes)
# The compiler's own name of `__sync`.
_OWN["__mlvm_sync"] = replace(_OWN["__sync"], name="__mlvm_sync")
for _name in BARRIERS:
    _OWN[f"__{_name}"] = Intrinsic(f"__{_name}", (0,), _barrier_of(_name))


def _lock_of(name: str) -> Handler:
    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None]:
        """An MLU core passes its lock's number twice; a memory core names two locks (B) and acquires both, in order."""
        del codes
        first, second = (int(value) for value in values)
        equal = first == second
        if equal == task.issuer.unit.is_memory_core:
            unit, rule = ("a memory core", "different") if equal else ("an MLU core", "equal")
            raise OperandError(f"__bang_{name}({first}, {second}) on {unit}: its two numbers are {rule}")
        return _change_locks(task, line, name, (first,) if equal else tuple(sorted((first, second))))

    return handler


async def _change_locks(task: CompiledTask, line: int, name: str, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        await locks.change(task.issuer, line, name, number)


for _name in locks.LOCK_NAMES:
    _OWN[f"__bang_{_name}"] = Intrinsic(f"__bang_{_name}", (2,), _lock_of(_name))


@_intrinsic("__sync_io_move_compute", 0, 3, 6)
def _sync_pipes(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None]:
    """Six arguments name the waiting pipes and the awaited ones; here the task itself waits for all of them."""
    del codes
    flags = [bool(value) for value in values] or [True] * 3
    if len(flags) == 6:
        flags = [any(pair) for pair in zip(flags[:3], flags[3:], strict=True)]
    pipes = IO_PIPE * flags[0] | MOVE_PIPE * flags[1] | COMPUTE_PIPES * flags[2]
    return syncs.sync(task.issuer, line, "sync_io_move_compute", pipes)


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
def _sync_copies(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None]:
    del codes, values
    return syncs.sync(task.issuer, line, "sync_io_move_compute", IO_PIPE | MOVE_PIPE)


_SYNCS = ("sync;", "barrier.sync.local;")


def _prepare_assembly(
    task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]
) -> Callable[[], Awaitable[None] | None] | None:
    del codes
    return syncs.prepare_sync(task.issuer, line) if task.literal(values[0]).startswith(_SYNCS) else None


@_intrinsic("__mlusim_assembly", *range(1, 9), returns="unsigned", prepare=_prepare_assembly)
def _assembly(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None] | None:
    del codes
    return run_statement(task, line, task.literal(values[0]), values[1:])


@_intrinsic("__mlusim_unknown", 3, returns="::mlusim::Anything")
def _unknown_intrinsic(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    del codes, line
    name, file, number = values
    error = KernelError(task.module.unknown_text(text_at(name)))
    raise_at(file_at(file), number, "kernel", error)


@_intrinsic("__mlusim_vv_store", 3)
def _vector_store(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> Awaitable[None] | None:
    """Store a vector register to NRAM: charged as one scalar store."""
    view = task.view(codes[0], values[0], (values[2],))
    task.issuer.unit.update_memory(task.issuer.unit.vector_free_ps)
    view.raw()[:] = np.frombuffer(ctypes.string_at(values[1], view.nbytes), view.raw().dtype)
    return access(task.issuer, line, "vv_store", view, 1, write=True)


@_intrinsic("__mlusim_memory", 1, returns="int")
def _memory(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """Return the memory of an address: the numbers are those of `KINDS`, 4 for GDRAM, -1 for none."""
    del codes, line
    try:
        kind = task.locate(values[0])[0].memory.kind
    except AccessError:
        task.set_result(-1)
    else:
        task.set_result(_NUMBERS[kind])


@_intrinsic("__mlusim_hint", 2)
def _hint(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """Note something about the function that contains the line."""
    del codes
    task.note_function(text_at(values[0]), text_at(values[1]), line)


@_intrinsic("__mlusim_now", 0, returns="uint64_t")
def _current_time_us(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    """Return the simulated time of the task in microseconds."""
    del codes, line, values
    task.clock_read = True
    task.set_result(task.issuer.task.now_ps // PS_PER_US)


def _host_only_handler(name: str) -> Handler:
    def handler(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
        del task, line, codes, values
        raise KernelError(f"{name} inside a kernel: it is a function of the host's runtime")

    return handler


@_intrinsic("__mlusim_launch", 12)
def _launch(task: CompiledTask, line: int, codes: list[int], values: tuple[Any, ...]) -> None:
    del task, codes, line
    raise KernelError(f"{text_at(values[0])}<<<...>>> inside a kernel: launches are the host's")


@lru_cache(maxsize=1)
def intrinsics() -> tuple[Intrinsic, ...]:
    """Return all intrinsics; the position is the number that compiled code uses."""
    by_name = dict(_OWN)
    for name, (arity, returns) in HOST_CALLS.items():
        by_name[name] = Intrinsic(name, (arity,), _host_only_handler(name), returns)
    for name, (arities, handler) in device_calls().items():
        by_name[name] = Intrinsic(name, arities, handler)
    for name, signatures in vector_intrinsics().items():
        if name not in by_name:
            results = result_types(signatures)
            calls = SignatureCalls(name, signatures)
            by_name[name] = Intrinsic(
                name, tuple(sorted(results)), calls.issue, results, calls.prepare, tuple(signatures)
            )
    return tuple(by_name[name] for name in sorted(by_name))


@lru_cache(maxsize=1)
def varying() -> bytes:
    """Return how many of the first values of a known call may differ, by number: the two addresses of a copy."""
    return bytes(2 * intrinsic.name.startswith("__memcpy") for intrinsic in intrinsics())


@lru_cache(maxsize=1)
def droppable() -> bytes:
    """Return, by number, whether calls that use memory which a memory core lacks return there at once."""
    return bytes(
        not intrinsic.name.startswith("__bang_atomic_")
        and intrinsic.name != "__mlusim_memory"
        and all(intrinsic.result(arity) == "void" for arity in intrinsic.arities)
        for intrinsic in intrinsics()
    )


@lru_cache(maxsize=1)
def names() -> frozenset[str]:
    """Return the names that a kernel may call."""
    return frozenset(intrinsic.name for intrinsic in intrinsics())


# The call itself must not be recorded as an access.
_PLAIN = '__attribute__((no_sanitize("thread"), noinline, unused))'
# Only where it is inlined does the compiler know the object of an address.
_INLINED = '__attribute__((no_sanitize("thread"), always_inline, unused))'


def declarations(called: Iterable[str]) -> str:
    """Return C++ declarations of those intrinsics among the names: one template per number of arguments."""
    called_intrinsics = [intrinsics()[_numbers()[name]] for name in sorted(names().intersection(called))]
    return "".join(_declaration(intrinsic, arity) for intrinsic in called_intrinsics for arity in intrinsic.arities)


def _declaration(intrinsic: Intrinsic, arity: int) -> str:
    """Return the template of an intrinsic with a number of arguments; of a host call, also that for handles."""
    name, returned = intrinsic.name, intrinsic.result(arity)
    types = ", ".join(f"class A{k}" for k in range(arity))
    parameters = "".join(f"A{k} a{k}, " for k in range(arity))
    arguments = "".join(f", a{k}" for k in range(arity))
    template = f"template <{types}> " if arity else ""
    if returned == "element":
        returned = "typename ::mlusim::Element<A0>::type"
    takes_handles = name in HOST_CALLS and arity
    handles = " || ".join(f"::mlusim::is_handle<A{k}>()" for k in range(arity))
    if takes_handles:
        template = f"template <{types}, typename ::std::enable_if<!({handles}), int>::type = 0> "
    # All ones if the compiler does not know.
    rooms = (f", uint64_t(__builtin_object_size(::mlusim::pointer(a{k}), 0))" for k in ADDRESSES.get(name, ()))
    arguments += "".join(rooms)
    call = f"::mlusim::issue({_numbers()[name]}, mlusim_f, mlusim_l{arguments})"
    rules = argument_rules(name, intrinsic.signatures, arity)
    checks = "".join(f'static_assert({condition}, "{rule}"); ' for condition, rule in rules)
    body = f"{call};" if returned == "void" else f"return ::mlusim::result<{returned}>({call});"
    text = _function(template, returned, name, parameters, checks + body)
    if takes_handles:
        # Objects that convert to a queue or a pointer are not copied: they may own it.
        template = f"template <{types}, typename ::std::enable_if<({handles}), int>::type = 0> "
        references = "".join(f"A{k} &&a{k}, " for k in range(arity))
        values = "".join(f"::mlusim::handle(a{k}), " for k in range(arity))
        text += _function(template, returned, name, references, f"return {name}({values}mlusim_f, mlusim_l);")
    if name in PARAMETERS:
        text += f"inline cnrtRet_t mlusim_of_{name}{parameters_and_body(name, '(const char *)0', '0')}\n"
    return text


def _function(template: str, returned: str, name: str, parameters: str, body: str) -> str:
    location = "::mlusim::File mlusim_f = __builtin_FILE(), int mlusim_l = __builtin_LINE()"
    form = _INLINED if name in ADDRESSES else _PLAIN
    return f"{template}{form} inline {returned} {name}({parameters}{location}) {{ {body} }}\n"


@lru_cache(maxsize=1)
def table_digest() -> str:
    """Return a digest of the intrinsics with their numbers, and of the sources of their declarations.

    Compiled code depends on the declarations. Writing all 13,000 of them takes longer than to compile a short file.
    """
    digest = hashlib.sha256(repr([(entry.name, entry.arities, entry.returns) for entry in intrinsics()]).encode())
    for path in sources_of_declarations():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sources_of_declarations() -> list[Path]:
    """Return the modules that determine the declarations."""
    folders = Path(__file__).parent, Path(c_signatures.__file__).parent
    return [Path(dtypes.__file__), *(path for folder in folders for path in sorted(folder.glob("*.py")))]


@lru_cache(maxsize=1)
def _numbers() -> dict[str, int]:
    return {intrinsic.name: number for number, intrinsic in enumerate(intrinsics())}
