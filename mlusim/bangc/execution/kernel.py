"""A compiled entry as a kernel of the simulator: `async def kernel(core, *arguments)`."""

from __future__ import annotations

import ctypes
import mmap
import struct
import weakref
from collections.abc import Generator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.bangc.calls.type_codes import POINTER, dtype_of_code, kind_of
from mlusim.bangc.execution import faults
from mlusim.bangc.execution.compiled_task import CompiledTask
from mlusim.bangc.execution.entry_points import EntryPoint, Parameter, signature_of
from mlusim.bangc.execution.fibre_runner import FibreRunner
from mlusim.bangc.execution.gdram_map import GdramMap
from mlusim.bangc.execution.image import NO_RESERVE
from mlusim.bangc.lines import entry_function
from mlusim.bangc.module import Module
from mlusim.cores.core import Kernel
from mlusim.cores.tasks.waiting import SUSPEND
from mlusim.errors import KernelError, MlusimError
from mlusim.memory.view import Pointer, View

if TYPE_CHECKING:
    from mlusim.cores.core import Core
    from mlusim.cores.machine.chip import Chip

_SLOT = 16
_HALF_BYTES = 2
_maps: weakref.WeakKeyDictionary[Chip, tuple[Any, GdramMap]] = weakref.WeakKeyDictionary()


def kernel_of(module: Module, point: EntryPoint) -> Kernel:
    """Return the kernel of an entry."""

    async def task(core: Core, *arguments: Any) -> None:
        of_board = module.for_board(core.issuer.chip.board)
        await run(core, of_board, point if of_board is module else of_board.point(point.name), arguments)

    kernel: Any = entry_function(point.file or str(module.path), point.line, point.name, task)
    kernel.__name__ = kernel.__qualname__ = point.name
    kernel.__module__ = module.path.stem
    kernel.__doc__ = f"{point.name} of {module.path.name}, line {point.line}."
    kernel.__signature__ = signature_of(point)
    kernel.bangc_module = module
    if module.options.compiler.gnu and not module.options.checked:
        kernel.with_checks = partial(_with_checks, module, point.name)
    kernel.file_variables = module.file_variables
    return kernel  # type: ignore[no-any-return]  # Any for its attributes


def _with_checks(module: Module, name: str) -> Kernel:
    """Return the kernel compiled with checks, for `mlusim.host.run.with_checks`."""
    checked = module.for_board(module.board, checked=True)
    return kernel_of(checked, checked.point(name))


async def run(core: Core, module: Module, point: EntryPoint, arguments: tuple[Any, ...]) -> None:
    """Run one task: the C++ runs from one call of the simulator to the next."""
    image = module.image(core)
    gdram = gdram_map(core.issuer.chip)
    # The tasks of a launch have the same arguments.
    launch = core.issuer.task.job.launch.index
    if gdram.packed[0] != launch:
        gdram.packed = launch, pack(point, arguments, gdram)
    blob = gdram.packed[1]
    await execute(core, module, point.name, image, gdram, point.function, point.body, blob)


async def execute(
    core: Core,
    module: Module,
    name: str,
    image: Any,
    gdram: GdramMap,
    function: int,
    body: int,
    blob: bytes,
) -> None:
    """Run a function of an image on its fibre.

    Args:
        core: the task's core.
        module: the compiled file.
        name: the entry, for error messages.
        image: the core's copy of the binary.
        gdram: the tensors of the device.
        function, body: addresses in the binary: of the entry, and of the code that unpacks its arguments and calls it.
        blob: the arguments, as `pack` returns them.
    """
    task = CompiledTask(core, module, image, gdram, name, blob)
    memory = ctypes.create_string_buffer(blob, max(len(blob), _SLOT) + _SLOT)
    start = (ctypes.addressof(memory) + _SLOT - 1) // _SLOT * _SLOT
    ctypes.memmove(start, blob, len(blob))
    image.record.limit_ticks = faults.KERNEL_LIMIT_S
    module.runtime.library.mlusim_start(image.address, image.base + body, image.base + function, start)
    runner = FibreRunner(task, name, partial(meet, core), partial(settle, core))
    with faults.guarded(module.runtime):
        while (waits := runner.advance()) is not None:
            try:
                await waits
            except MlusimError as error:
                runner.failed(error)


class _Meeting:
    """Awaitable that lets simulated time advance to the task's time."""

    def __await__(self) -> Generator[Any, None, None]:
        yield SUSPEND


async def settle(core: Core) -> None:
    """Before plain C++ accesses device memory, apply issued vector instructions and synchronise the times."""
    task, unit = core.issuer.task, core.issuer.unit
    if unit.effects:
        last = unit.effects[-1][0]
        if last > task.now_ps:
            task.now_ps = last
    await meet(core)
    unit.update_memory(task.now_ps)


async def meet(core: Core) -> None:
    """Let the board's time reach the task's."""
    task = core.issuer.task
    if task.until(task.now_ps):
        await _Meeting()


def gdram_map(chip: Chip) -> GdramMap:
    """Return the device's tensors by host address; cached until they change."""
    live = chip.gdram.live
    key = tuple(allocation.identity for allocation in live)
    cached = _maps.get(chip)
    if cached is None or cached[0] != key:
        reserve = _reserve(chip.board.gdram_bytes) if any(allocation.buffer is None for allocation in live) else 0
        if cached is None:
            chip.at_close.append(partial(_maps.pop, chip, None))
        cached = (key, GdramMap(live, reserve))
        _maps[chip] = cached
    return cached[1]


@lru_cache(maxsize=4)
def _reserve(nbytes: int) -> int:
    """Reserve addresses for tensors without bytes; accessing them is a fault."""
    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    return int(libc.mmap(None, nbytes, 0, flags, -1, 0))


def pack(point: EntryPoint, arguments: tuple[Any, ...], gdram: GdramMap) -> bytes:
    """Return the arguments in the layout that the entry's body reads: each at a multiple of 16 bytes."""
    if len(arguments) != len(point.parameters):
        raise KernelError(f"{point.name} takes {len(point.parameters)} arguments, not {len(arguments)}")
    parts = []
    for parameter, argument in zip(point.parameters, arguments, strict=True):
        word = _packed(point, parameter, argument, gdram)
        parts.append(word.ljust((len(word) + _SLOT - 1) // _SLOT * _SLOT, b"\0"))
    return b"".join(parts)


def _packed(point: EntryPoint, parameter: Parameter, argument: Any, gdram: GdramMap) -> bytes:
    if parameter.code & POINTER:
        return struct.pack("<Q", _address(point, parameter, argument, gdram))
    if isinstance(argument, bytes | bytearray | np.void | ctypes.Structure):
        content = argument.tobytes() if isinstance(argument, np.void) else bytes(argument)
        if len(content) != parameter.size:
            raise KernelError(f"{point.name}: {parameter.name} has {parameter.size} B, not {len(content)}")
        return content
    if not kind_of(parameter.code):
        raise KernelError(
            f"{point.name}: {parameter.name} is a record of {parameter.size} B: pass it as bytes, "
            "an element of a structured array, or a ctypes.Structure"
        )
    dtype = dtype_of_code(parameter.code)
    if isinstance(argument, View | Pointer):
        raise KernelError(f"{point.name}: {parameter.name} is a number, {dtype.name}, and not {argument!r}")
    try:
        with np.errstate(all="ignore"):
            value = np.asarray(argument)
            element = value.astype(dtype)
    except (TypeError, ValueError) as error:
        raise KernelError(f"{point.name}: {parameter.name} is {dtype.name}, not {argument!r}") from error
    if element.ndim or (dtype.kind in "iu" and value.dtype.kind in "iufb" and element.item() != value.item()):
        raise KernelError(f"{point.name}: {parameter.name} is {dtype.name}, which does not hold {argument!r}")
    return element.tobytes()


def _may_point_to(declared: np.dtype[Any], passed: np.dtype[Any]) -> bool:
    """Return whether a pointer accepts a tensor: signs may differ, and 2-byte integers may be bits of 16-bit floats."""
    integers = declared.kind in "iub" and passed.kind in "iub"
    return declared == passed or (
        declared.itemsize == passed.itemsize and (integers or declared.itemsize == _HALF_BYTES)
    )


def _address(point: EntryPoint, parameter: Parameter, argument: Any, gdram: GdramMap) -> int:
    if argument is None or (isinstance(argument, int) and argument == 0):
        return 0
    if not isinstance(argument, View | Pointer):
        raise KernelError(f"{point.name}: {parameter.name} is a pointer: pass a tensor of the device, not {argument!r}")
    dtype = dtype_of_code(parameter.code)
    is_untyped = dtype.itemsize == 1 or not kind_of(parameter.code)
    if not is_untyped and not _may_point_to(dtype, argument.dtype):
        raise KernelError(
            f"{point.name}: {parameter.name} points to {dtype.name} and the tensor has {argument.dtype.name}; "
            f"convert it on the host, or pass its bytes as {dtype.name}: array.view('{dtype.name}')"
        )
    return gdram.address.get(argument.allocation.identity, 0) + argument.offset
