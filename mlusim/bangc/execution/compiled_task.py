"""A task of a compiled kernel: its image, and the translation of its pointers.

There is only one copy of memory: arrays with a memory space are allocations of the simulated memories on the same bytes
that the C++ accesses, and GDRAM pointers are addresses of the buffers of the device's tensors.
"""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.bangc.calls.call_record import HEAD, CallSite, file_at, set_result, text_at
from mlusim.bangc.calls.intrinsics import intrinsics
from mlusim.bangc.calls.type_codes import POINTER, dtype_of_code
from mlusim.bangc.execution.faults import in_memory
from mlusim.bangc.execution.file_variables import undefined_text, undefined_variable
from mlusim.bangc.execution.filter_forms import FilterForms
from mlusim.bangc.execution.gdram_map import GdramMap
from mlusim.bangc.execution.image import Image
from mlusim.bangc.execution.placed_arrays import PlacedArrays
from mlusim.bangc.runtime_layout import (
    ARENA_BYTES,
    FILE_WORD,
    LINE_WORD,
    NULL_BYTES,
    OPERATION_WORD,
    UNIT_VARIABLES,
    Range,
)
from mlusim.cores.instructions.wram_layout import rows_view
from mlusim.errors import AccessError, CopyError, KernelError, MlusimError, OperandError
from mlusim.log_tables import Remark
from mlusim.memory.allocation import Allocation
from mlusim.memory.kinds import MemoryKind
from mlusim.memory.layout import contiguous_strides
from mlusim.memory.view import Pointer, View
from mlusim.units import group_digits

if TYPE_CHECKING:
    from mlusim.bangc.module import Module
    from mlusim.cores.copies.byte_copies import ByteForm
    from mlusim.cores.copies.effect import Place
    from mlusim.cores.core import Core

_UINT8 = np.dtype(np.uint8)
# Calls that a memory core drops before it reports them.
_DROPS_AT_ONCE = 8192
# Number of addresses that a task caches.
_PLACES = 1 << 12
# A method of `Core` in a message, which a kernel in BANG C calls by another name.
_METHOD = re.compile(r"`(?:await )?core\.(\w+\()")
_ON_A_MEMORY_CORE = (
    "begin with if (__is_mpu()) return; or, if barriers such as __sync_cluster() follow, which count the memory core, "
    "guard this line with if (!__is_mpu())"
)
_ASTRAY = (
    ". A memory core runs this too, and has no NRAM or WRAM: it reads zeros there (ASSUMED), not what the other cores "
    f"have; {_ON_A_MEMORY_CORE}"
)
# By kind of hint, what is wrong with a function.
_OF_FUNCTIONS = {
    "host-function": "code for the board calls {}, which has no __mlu_func__",
    "no-return": "{} returns a value, and ends here without a return",
    "unset": "{} is used, and was never set",
}
_MEANT_FOR_OTHERS = f". A memory core runs this, and its coreId is 128; if it is not meant to, {_ON_A_MEMORY_CORE}"


class CompiledTask:
    """One task of a compiled kernel: returns views and pointers for its addresses, and processes its calls."""

    def __init__(
        self, core: Core, module: Module, image: Image, gdram: GdramMap, function: str, arguments: bytes
    ) -> None:
        self.module = module
        self.image = image
        self.gdram = gdram
        # The arguments of the launch, as the entry reads them.
        self.arguments = arguments
        self.issuer = core.issuer
        self._task = core.issuer.task
        self.is_memory_core = core.is_memory_core
        # Whether a memory core has executed code that uses a memory it lacks.
        self.is_astray = False
        # Whether the kernel has read the time.
        self.clock_read = False
        # Number of calls for random numbers.
        self.random_calls = 0
        # Changes the values of calls, given the task and the line, for the checker; None: as they are.
        self.change: Any = getattr(core, "change", None)
        self.arrays = PlacedArrays(core, module, image)
        self._lines: dict[tuple[int, int], int] = {}
        self._pcs: dict[int, int] = {}
        self._literals: dict[int, str] = {}
        self._views: dict[tuple[int, int, Any], View] = {}
        self._places: dict[int, Place] = {}
        # Forms of copies, by the arguments of `__memcpy` after its pointers.
        self.byte_forms: dict[tuple[Any, ...], ByteForm] = {}
        self.filter_forms = FilterForms(core.board)
        # Cached shapes of loops of plain accesses, by instruction.
        self.access_patterns: dict[Any, Any] = {}
        # From when on the accesses that are being recorded were made, in turn; -1: a single run.
        self.accessed_since_ps = -1
        # Calls by the head of their record; and those that the runtime knows, with their lines.
        self.sites = image.sites_of(core.issuer.log, function)
        self.known: list[tuple[Callable[[], Awaitable[None] | None], int]] = []
        record = image.record
        record.ranges = ctypes.cast(gdram.ranges, ctypes.POINTER(Range))
        record.range_count = len(gdram.bases)
        for index, name in enumerate(UNIT_VARIABLES):
            image.unit[index] = int(getattr(core, name))
        self.arrays.place_new()

    # -- addresses -----------------------------------------------------------------------------------------------------

    def locate(self, address: int) -> tuple[Allocation, int]:
        """Return the allocation that contains an address, and the byte in it. Raises `AccessError` if there is none."""
        bases = self.gdram.bases
        number = bisect_right(bases, address) - 1
        if number >= 0:
            allocation = self.gdram.allocations[number]
            offset = address - bases[number]
            if offset < allocation.nbytes:
                return allocation, offset
        place = self.arrays.at(address)
        if place is not None:
            return place
        if number >= 0 and address == bases[number] + self.gdram.allocations[number].nbytes:
            return self.gdram.allocations[number], address - bases[number]
        raise AccessError(self.wild_text(address))

    def in_absent_memory(self, address: int) -> bool:
        """Return whether an address lies in an array of a memory that the memory core lacks."""
        is_absent = self.arrays.in_absent_memory(address)
        self.is_astray |= is_absent
        return is_absent

    def is_dropped(self, site: CallSite, values: tuple[Any, ...]) -> bool:
        """Return whether a call has no effect on the memory core, because it uses NRAM or WRAM.

        A union launch also runs the kernel on the memory cores, and many kernels omit the test of `__is_mpu()`:
        instructions on memories that the memory core lacks are not meant for it. ASSUMED: they are dropped at no cost,
        and so is a later atomic, whose operand or address would depend on them. Plain C++ that reads such a memory, or
        gets a value from a dropped call, has a value that depends on it: from then on, its stores to GDRAM and SRAM
        are dropped, too (`mlusim.bangc.execution.accesses`). The checker reports such atomics and stores.
        """
        if site.name == "__mlusim_memory":
            return False
        pairs = zip(site.codes, values, strict=True)
        dropped = any(code >= POINTER and self.in_absent_memory(value) for code, value in pairs)
        is_atomic = site.name.startswith("__bang_atomic_")
        # One that reads NRAM itself is an instruction like any other there.
        if is_atomic and self.is_astray and not (dropped and "_reduce_" in site.name):
            self.note_dropped(site.name, site.line)
        dropped |= is_atomic and self.is_astray
        if dropped and (site.returns or self.on_stack(values[0])):
            self.image.record.astray = 1
        if dropped:
            # Of the next calls, those that need no answer return at once. They count as operations.
            operations_left = self.issuer.chip.max_operations - self._task.operations
            self.image.record.drops = max(1, min(operations_left, _DROPS_AT_ONCE))
        return dropped

    def note_dropped(self, name: str, line: int) -> None:
        """Add a hint: an operation of a memory core is dropped, because it depends on memory that the core lacks."""
        self._hint(name, f"{name} on a memory core depends on NRAM or WRAM, which it lacks: dropped", line)

    def note_passed(self, name: str, line: int) -> None:
        """Add a hint: a memory core passes a barrier of the MLU cores."""
        self._hint(name, f"{name} on a memory core: it is a barrier of the MLU cores, which a memory core passes", line)

    def note_exit(self, status: str, line: int) -> None:
        """Add a hint: a memory core calls `exit`."""
        title = f"exit({status}) on a memory core: it ends the memory core's task only (ASSUMED)"
        self._hint("exit", title, line)

    def note_unset(self, name: str, line: int) -> None:
        """Add an error: a call takes the value of a float variable that has none, as g++ marks it."""
        if ("unset", line) not in self.issuer.log.remarks:
            self._hint(name, f"{name} takes a float that has no value: a local variable was never set", line, "unset")

    def note_function(self, kind: str, name: str, line: int) -> None:
        """Add a hint of a kind of `_OF_FUNCTIONS`, once a run, about a function or variable at the line."""
        title = _OF_FUNCTIONS[kind].format(name)
        if all(remark.title != title for remark in self.issuer.log.remarks.values()):
            self._hint(name, title, line, kind)

    def _hint(self, name: str, title: str, line: int, kind: str = "memory-core") -> None:
        task = self._task
        self.issuer.log.remark(Remark(kind, title, name, task.index, line, task.now_ps))

    def explained(self, error: MlusimError, *, faults: bool = False) -> MlusimError:
        """Return the error in words of BANG C, with an explanation if a memory core ran code not meant for it."""
        kinds = (AccessError, OperandError, CopyError, *((KernelError,) if faults else ()))
        message = _METHOD.sub(r"`__\1", error.message)
        if self.is_astray and type(error) in kinds:
            message += _ASTRAY
        elif self.is_memory_core and type(error) is AccessError:
            message += _MEANT_FOR_OTHERS
        return error if message == error.message else type(error)(message)

    def wild_text(self, address: int) -> str:
        """Describe an address outside all memories."""
        if address < NULL_BYTES:
            return f"address {address:#x} is a null pointer or near it: no tensor was passed for this argument"
        if undefined := undefined_text(self.image.binary, address):
            return f"address {address:#x} is that of {undefined}"
        if name := self.module.variables.undefined_at(address):
            return f"it uses {undefined_variable(name)}"
        for (first, end), name in self.gdram.freed.items():
            if first <= address < end:
                return (
                    f"address {address:#x} is in no memory of this core: {name} was there until cnrtFree; free it "
                    "after the launch"
                )
        is_of_file = 0 <= address - self.image.base < self.image.size
        if is_of_file or self.on_stack(address):
            variable = "a variable of the file without a memory space" if is_of_file else "a local variable of the task"
            return (
                f"address {address:#x} is that of {variable}: instructions take arrays with a memory space; "
                f"declare it with __nram__, or another one{', and without constexpr' if is_of_file else ''}"
            )
        if host_pointer := self.gdram.passed_from_host(address, self.arguments):
            return (
                f"address {address:#x} is in no memory of this core: the launch passed the pointer {host_pointer:#x}, "
                "which is not to memory of the device; pass memory of cnrtMalloc, and copy to it with cnrtMemcpy"
            )
        for kind, base in enumerate(self.arrays.bases):
            if 0 <= address - base < ARENA_BYTES:
                return f"address {address:#x}{in_memory(self.image, kind, address - base)}; check the index"
        nearest = self.gdram.nearest(address)
        return f"address {address:#x} is in no memory of this core: " + (
            f"{nearest}, if it is not an address of the host; check the index, and the arguments of the launch"
            if nearest
            else "it is neither a tensor of the device nor an array with a memory space (__nram__, __wram__, "
            "__mlu_shared__, __ldram__); instructions take no memory of the host: copy to an array first, and pass "
            "tensors or memory of cnrtMalloc"
        )

    def locate_cached(self, address: int) -> Place:
        """Return the allocation that contains an address, and the byte in it; as `locate`, which it caches."""
        cached = self._places.get(address)
        if cached is None:
            # Inlined for performance: the first part of `locate`.
            gdram = self.gdram
            number = bisect_right(gdram.bases, address) - 1
            if number >= 0:
                allocation, offset = gdram.allocations[number], address - gdram.bases[number]
                if offset < allocation.nbytes:
                    return allocation, offset
            cached = self.locate(address)
            if len(self._places) < _PLACES and cached[0].memory.kind is not MemoryKind.GDRAM:
                # Kernels use the same arrays of their core repeatedly.
                self._places[address] = cached
        return cached

    def pointer(self, address: int) -> Pointer:
        """Return an address as a pointer to bytes."""
        return Pointer(*self.locate_cached(address), _UINT8)

    def remote(self, address: int, cluster: int) -> Place:
        """Return the same array in another cluster of the union: the target of SRAM2SRAM."""
        allocation, offset = self.locate(address)
        job = self._task.job
        if not 0 <= cluster < len(job.clusters):
            raise AccessError(f"memcpy to cluster {cluster}: the union has {len(job.clusters)} of them")
        if allocation.memory.kind is not MemoryKind.SRAM:
            return allocation, offset  # the copy is refused for its direction
        return self.arrays.in_cluster(allocation, job.clusters[cluster]), offset

    def view(self, code: int, address: int, shape: tuple[int, ...]) -> View:
        """Return a contiguous view of elements at an address. Raises `AccessError` if it leaves its array."""
        key = (address, code, shape)
        cached = self._views.get(key)
        if cached is not None:
            return cached
        dtype = dtype_of_code(code)
        allocation, offset = self.locate(address)
        nbytes = dtype.itemsize
        for extent in shape:
            nbytes *= extent
        if min(shape, default=1) < 0:
            raise OperandError(
                f"{list(shape)} elements of {dtype.name} at byte {group_digits(offset)} of {allocation.name}: a number "
                "of elements cannot be negative; check how the count is computed"
            )
        if offset + nbytes > allocation.nbytes:
            raise AccessError(
                f"{list(shape)} elements of {dtype.name} at byte {group_digits(offset)} of {allocation.name}, which "
                f"has {group_digits(allocation.nbytes)} B: they end at byte {group_digits(offset + nbytes)}; "
                "check the number of elements and the address"
            )
        view = View.strided(allocation, offset, shape, contiguous_strides(shape, dtype.itemsize), dtype)
        self._views[key] = view
        return view

    def filters(self, code: int, address: int, shape: tuple[int, ...]) -> View:
        """Return a view of filters (n, ...) in WRAM, in the form in which they were copied there."""
        allocation, offset = self.locate(address)
        if not self.filter_forms.in_rows(allocation, offset):
            contiguous = self.view(code, address, shape)
            stored_at = self.filter_forms.place(allocation, offset, contiguous.nbytes)
            if stored_at == offset:
                return contiguous
            return View.strided(allocation, stored_at, shape, contiguous.strides, contiguous.dtype)
        view = rows_view(self.issuer.board, allocation, offset, shape, dtype_of_code(code))
        last = offset + sum((extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True))
        if last >= allocation.nbytes:
            raise AccessError(
                f"filters {list(shape)} in 64 lanes of WRAM from byte {group_digits(offset)} of {allocation.name}, "
                f"which has {group_digits(allocation.nbytes)} B: they end at byte {group_digits(last + view.itemsize)}"
            )
        return view

    def filter_place(self, address: int, nbytes: int) -> Place:
        """As `locate_cached`, of what is copied to or from WRAM."""
        allocation, offset = self.locate_cached(address)
        if allocation.memory.kind is not MemoryKind.WRAM:
            return allocation, offset
        return allocation, self.filter_forms.place(allocation, offset, nbytes)

    # -- values --------------------------------------------------------------------------------------------------------

    def site(self, function: str) -> CallSite:
        """Return the call that the fibre waits for, without its values."""
        head = self.image.call_bytes[HEAD].tobytes()
        call_site = self.sites.get(head)
        if call_site is None:
            words = self.image.words
            line = self.line(words[FILE_WORD], words[LINE_WORD], function)
            call_site = self.sites[head] = CallSite(words, intrinsics()[words[OPERATION_WORD]], line)
        return call_site

    def know(self, execute: Callable[[], Awaitable[None] | None], line: int) -> None:
        """Cache the current call in the runtime: later, `execute` executes it without decoding its values."""
        if self.change is None and self.module.runtime.library.mlusim_know(self.image.address, len(self.known)):
            self.known.append((execute, line))

    def forget(self) -> None:
        """Undo `know` for all calls."""
        self.module.runtime.library.mlusim_forget(self.image.address)
        self.known.clear()

    def set_result(self, value: Any) -> None:
        """Set the return value of the call, a float or an integer."""
        set_result(self.image.words, value)

    def line_at(self, pc: int, function: str) -> int:
        """Return the line number in the log of a plain access, by the address of its instruction."""
        line = self._pcs.get(pc)
        if line is None:
            location = self.module.line_of(pc - self.image.base) or (str(self.module.path), 1, "")
            line = self._pcs[pc] = self.issuer.log.source_line(location[0], location[1], function)
        return line

    def on_stack(self, address: int) -> bool:
        """Return whether an address is that of a local variable of the task."""
        return self.image.stack <= address < self.image.stack + self.image.stack_size

    def literal(self, address: int) -> str:
        """Return an assembly statement with single blanks and a final semicolon."""
        statement = self._literals.get(address)
        if statement is None:
            statement = self._literals[address] = f"{' '.join(text_at(address).split()).rstrip('; ')};"
        return statement

    def line(self, file: int, line: int, function: str) -> int:
        """Return the number of a C++ line in the log, given the address of the file name."""
        number = self._lines.get((file, line))
        if number is None:
            name = file_at(file) if file else str(self.module.path)
            number = self._lines[file, line] = self.issuer.log.source_line(name, line, function)
        return number

    async def set_result_later(self, waiting: Any) -> None:
        """Wait, and pass the result to the fibre."""
        self.set_result(await waiting)
