"""Images: copies of a compiled kernel, one per core, and their fibres.

Every core has a separately loaded copy of the shared object, and so its own file-scope variables; arrays with a memory
space lie in the unit's own address ranges, those of `__mlu_shared__` in the cluster's.
"""

from __future__ import annotations

import _ctypes
import ctypes
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.bangc.execution.file_variables import file_variables
from mlusim.bangc.runtime_layout import (
    ARENA_BYTES,
    ARRAYS,
    FIBRE_WORDS,
    GAP_BYTES,
    KINDS,
    RUN,
    UNIT_VARIABLES,
    VARIABLES,
    WORD,
    Arena,
    EntryRecord,
    Fault,
    Fibre,
    PlacedArray,
)
from mlusim.errors import AllocationError, CompileError
from mlusim.files import scratch_folder
from mlusim.units import group_digits

# Flag of `mmap`: pages take no memory before they are written.
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_STACK_BYTES = 1 << 20
_HOST_STACK_BYTES = 1 << 23
_RUNS = 1 << 12
# Offsets of the program headers in a 64-bit ELF file, their size and number; two types of segments, and a flag.
_PROGRAM_HEADERS = (("<Q", 32), ("<H", 54), ("<H", 56))
_LOADED, _DYNAMIC = 1, 2
_WRITTEN = 2
# Tags of the dynamic segment: the address of the static initializers, and their size in bytes.
_INITIALIZERS, _INITIALIZERS_SIZE = 25, 27


class Runtime:
    """The fibre library. Loaded once per process, with global symbols: images call into it."""

    def __init__(self, path: Path) -> None:
        self.library: Any = ctypes.PyDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        self.library.mlusim_fibre.restype = ctypes.POINTER(Fibre)
        self.library.mlusim_fibre.argtypes = (WORD, WORD)
        self.library.mlusim_resume.restype = ctypes.c_int64
        self.library.mlusim_resume.argtypes = (ctypes.c_void_p,)
        self.library.mlusim_start.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self.library.mlusim_state.restype = WORD
        self.library.mlusim_state.argtypes = (ctypes.c_void_p,)
        self.library.mlusim_know.argtypes = (ctypes.c_void_p, WORD)
        self.library.mlusim_forget.argtypes = (ctypes.c_void_p,)
        self.library.mlusim_operations.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
        self.library.mlusim_free.argtypes = (ctypes.c_void_p,)
        self.library.mlusim_loading.argtypes = (ctypes.c_void_p, ctypes.c_int)
        self.library.mlusim_guard.argtypes = (ctypes.c_int,)
        self.library.mlusim_block.restype = WORD
        self.library.mlusim_block.argtypes = (WORD, ctypes.c_void_p)
        self.library.mlusim_move.restype = WORD
        self.library.mlusim_move.argtypes = (WORD, WORD, WORD)
        self.library.mlusim_fault.restype = ctypes.POINTER(Fault)
        self.library.mlusim_fault.argtypes = (ctypes.c_int,)
        self.resume: Any = self.library.mlusim_resume
        self.fault: Any = self.library.mlusim_fault(0).contents
        self._base = _base(self.library._handle)  # noqa: SLF001 - ctypes has no other way to a library's address
        self._size = _extent(path)

    def set_operations(self, varying: bytes, droppable: bytes) -> None:
        """Set what the runtime knows of intrinsics, by number.

        Args:
            varying: how many of the first values of a known call may differ.
            droppable: whether a call has no effect on a memory core if it uses a memory that the core lacks.
        """
        self._operations = varying, droppable
        self.library.mlusim_operations(varying, droppable)

    def block(self, address: int) -> tuple[int, int] | None:
        """Return address and size of the block on the heap of the host that contains an address; None for none."""
        base = WORD()
        size = int(self.library.mlusim_block(address, ctypes.byref(base)))
        return (int(base.value), size) if size else None

    def has(self, address: int) -> bool:
        """Return whether an address is within the library's own code."""
        return 0 <= address - self._base < self._size


@lru_cache(maxsize=1)
def _loaded() -> list[Runtime]:
    return []


def load_runtime(path: Path) -> Runtime:
    """Return the runtime of this process: that of the first compiler. Images of all compilers call into it."""
    runtimes = _loaded()
    if not runtimes:
        runtimes.append(Runtime(path))
    return runtimes[0]


class Room:
    """An arena with its address range, as bytes.

    Attributes:
        at_file_scope: number of arrays that exist from the start; the others belong to functions that ran.
    """

    def __init__(self, alignment: int) -> None:
        self._map = mmap.mmap(-1, ARENA_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
        self.bytes = np.frombuffer(self._map, np.uint8)
        self.base = int(self.bytes.ctypes.data)
        self.arena = Arena(self.base, 0, alignment, 0)
        self.at_file_scope: int | None = None

    def declare(self, array: PlacedArray) -> int:
        """Add an array of a function before a core runs the function, as `mlusim_place` does; returns its number."""
        arena = self.arena
        number, alignment = int(arena.count), int(arena.alignment)
        if number == ARRAYS:
            raise AllocationError(too_many_arrays(array.name.decode()))
        offset = -(-(int(arena.used) + GAP_BYTES) // alignment) * alignment
        arena.arrays[number] = array
        arena.arrays[number].offset = offset
        arena.used, arena.count = offset + int(array.size), number + 1
        return number


def too_many_arrays(name: str) -> str:
    """Return the text of the error for an array that an arena has no place for."""
    return (
        f"the file has more than {group_digits(ARRAYS)} arrays in one memory, and {name} is one more: compile its "
        "kernels in several modules"
    )


class Image:
    """One copy of a compiled kernel, with its rooms and a fibre to run on.

    Args:
        runtime: the fibre library.
        binary: the shared object.
        rooms: by number of `KINDS`; None if the unit has no such memory.
        variables: the room of the variables in GDRAM, which all images share.
        host: it runs `main` instead of a kernel. Its static initializers do not run until `initializers` are called:
            constructors of a program may call CNRT.

    Attributes:
        binary: the shared object.
        initializers: address and number of the static initializers that have not run.
    """

    def __init__(
        self, runtime: Runtime, binary: Path, rooms: list[Room | None], variables: Room, *, host: bool = False
    ) -> None:
        self.runtime = runtime
        self.binary = binary
        self.rooms = rooms
        arenas = (ctypes.POINTER(Arena) * len(KINDS))()
        loading = (ctypes.POINTER(Arena) * (VARIABLES + 1))()
        for number, room in enumerate([*rooms, variables]):
            if room is not None:
                loading[number] = ctypes.pointer(room.arena)
        for number in range(VARIABLES):
            arenas[number] = loading[number]
        self._loading, self._is_host = loading, host
        self.library, first, nbytes = self._load()
        for room in rooms:
            if room is not None and room.at_file_scope is None:
                room.at_file_scope = int(room.arena.count)
        self.base, self.size = _base(self.library._handle), _extent(binary)  # noqa: SLF001 - ctypes has no other way
        self.initializers = self.base + first, nbytes // 8
        self._written = [(address, size) for address, size, written in _segments(binary) if written]
        self._own = () if host else file_variables(binary)
        self._fresh = self._values()
        self.library.mlusim_entries.restype = ctypes.POINTER(EntryRecord)
        self.unit = (ctypes.c_int32 * len(UNIT_VARIABLES)).in_dll(self.library, "mlusim_unit")
        ctypes.c_int.in_dll(self.library, "mlusim_in_kernel").value = int(not host)
        self.fibre: Any = runtime.library.mlusim_fibre(_HOST_STACK_BYTES if host else _STACK_BYTES, _RUNS)
        self.address = ctypes.addressof(self.fibre.contents)
        self.record = self.fibre.contents
        self.record.arenas = arenas
        self.record.image, self.record.image_size = self.base, self.size
        self.record.device = 0 if host else 1
        self.stack, self.stack_size = int(self.record.stack), int(self.record.stack_size)
        words = ctypes.cast(self.address, ctypes.POINTER(ctypes.c_uint64 * FIBRE_WORDS)).contents
        # The shared part of the fibre, the call record first: as bytes and as words.
        self.call_bytes = memoryview(words).cast("B")
        self.words = self.call_bytes.cast("Q")
        runs = ctypes.cast(int(self.record.runs), ctypes.POINTER(ctypes.c_uint8 * (_RUNS * RUN.itemsize))).contents
        self.run_bytes = memoryview(runs)
        self.runs: Array = np.ctypeslib.as_array(runs).view(RUN)
        self._arenas = arenas
        self._sites: tuple[Any, str, dict[bytes, Any]] = None, "", {}

    def _load(self) -> tuple[Any, int, int]:
        """Load a copy of the binary; returns it, and offset and bytes of the initializers that have not run."""
        with scratch_folder() as folder:
            copy = folder / f"{self.binary.stem}.so"
            content, first, nbytes = self.binary.read_bytes(), 0, 0
            if self._is_host:
                content, first, nbytes = _without_initializers(content)
            copy.write_bytes(content)
            with nullcontext() if self._is_host else self.loading():
                return _open(copy), first, nbytes

    @contextmanager
    def loading(self) -> Iterator[None]:
        """While static initializers run, place the arrays that they declare in the image's rooms."""
        library = self.runtime.library
        library.mlusim_loading(ctypes.cast(self._loading, ctypes.c_void_p), int(not self._is_host))
        try:
            yield
        finally:
            library.mlusim_loading(None, 0)

    def sites_of(self, log: Any, function: str) -> dict[bytes, Any]:
        """Return the calls in its code by tasks of one function, for one log, whose line numbers they contain."""
        if self._sites[0] is not log or self._sites[1] != function:
            self._sites = log, function, {}
        return self._sites[2]

    def entries(self) -> list[Any]:
        """Return the registered entries."""
        entries = []
        record = self.library.mlusim_entries()
        while record:
            entries.append(record.contents)
            record = record.contents.next
        return entries[::-1]

    def state(self) -> int:
        """Return a digest of the registers and the stack of its fibre."""
        return int(self.runtime.library.mlusim_state(self.address))

    def variables(self) -> Iterator[bytes]:
        """Yield the contents of the variables of the file, and of the arrays with a memory space."""
        for address, size in self._written:
            yield ctypes.string_at(self.base + address, size)
        for room in filter(None, self.rooms):
            for array in room.arena.arrays[: room.arena.count]:
                yield room.bytes[int(array.offset) : int(array.offset) + int(array.size)].tobytes()

    def _values(self) -> list[bytes]:
        return [ctypes.string_at(self.base + variable.address, variable.nbytes) for variable in self._own]

    def file_variables(self) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield the variables of the file without a memory space: name, initial value, and current value."""
        for variable, fresh, content in zip(self._own, self._fresh, self._values(), strict=True):
            yield variable.name, fresh, content

    def reset(self) -> None:
        """Reset these variables to their initial values, and forget the calls of the last log."""
        self._sites = None, "", {}
        for variable, fresh in zip(self._own, self._fresh, strict=True):
            ctypes.memmove(self.base + variable.address, fresh, variable.nbytes)

    def close(self) -> None:
        """Free the copy and its stack."""
        self.words.release()
        self.call_bytes.release()
        self.run_bytes.release()
        del self.runs, self.record, self.unit
        self.runtime.library.mlusim_free(self.address)
        handle = self.library._handle  # noqa: SLF001 - ctypes has no other way to close a library
        del self.library
        _ctypes.dlclose(handle)


def _open(path: Path) -> Any:
    """Load a copy. Undefined functions are resolved when called: they belong to host code in other files."""
    libc: Any = ctypes.CDLL(None)
    libc.dlopen.restype = ctypes.c_void_p
    libc.dlopen.argtypes = (ctypes.c_char_p, ctypes.c_int)
    libc.dlerror.restype = ctypes.c_char_p
    handle = libc.dlopen(os.fsencode(path), os.RTLD_LAZY | os.RTLD_LOCAL)
    if not handle:
        raise CompileError(f"the compiled file does not load: {(libc.dlerror() or b'').decode(errors='replace')}")
    return ctypes.PyDLL(str(path), handle=handle)


def _base(handle: int) -> int:
    """Return the load address of a library: the first word of the loader's record of it."""
    return int(WORD.from_address(handle).value)


@lru_cache(maxsize=32)
def _extent(binary: Path) -> int:
    """Return the size of a library's address range: up to the end of its last segment."""
    end = max(address + size for address, size, _ in _segments(binary))
    page = mmap.PAGESIZE
    return -(-end // page) * page


@lru_cache(maxsize=32)
def _segments(binary: Path) -> list[tuple[int, int, bool]]:
    """Return address, size and whether it is writable, for each loaded segment of a library."""
    headers = _headers(binary.read_bytes())
    return [(header[3], header[6], bool(header[1] & _WRITTEN)) for header in headers if header[0] == _LOADED]


def _headers(content: bytes) -> list[tuple[int, ...]]:
    """Return the program headers of a library: type, flags, offset, two addresses, two sizes, alignment."""
    offset, size, count = (struct.unpack_from(layout, content, at)[0] for layout, at in _PROGRAM_HEADERS)
    return [struct.unpack_from("<IIQQQQQQ", content, offset + number * size) for number in range(count)]


def _without_initializers(content: bytes) -> tuple[bytes, int, int]:
    """Return a library that runs no static initializers on loading, and their address and size in bytes."""
    changed, values = bytearray(content), {_INITIALIZERS: 0, _INITIALIZERS_SIZE: 0}
    for header in _headers(content):
        for at in range(header[2], header[2] + header[5], 16) if header[0] == _DYNAMIC else ():
            tag, value = struct.unpack_from("<QQ", content, at)
            if tag in values:
                values[tag] = value
            if tag == _INITIALIZERS_SIZE:
                struct.pack_into("<Q", changed, at + 8, 0)
    return bytes(changed), values[_INITIALIZERS], values[_INITIALIZERS_SIZE]
