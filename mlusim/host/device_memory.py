"""The GDRAM of a device as its host uses it: uploads, allocations, downloads."""

from __future__ import annotations

import math

import numpy as np

from mlusim.arrays import Array
from mlusim.cores.machine.chip import Chip
from mlusim.cores.tasks.launch import Launch
from mlusim.dtypes import dtype_name, dtype_of
from mlusim.errors import NOTED, AllocationError, InputError, MlusimError, shown
from mlusim.host.argument_windows import is_passed
from mlusim.inputs import as_array, as_shape, as_text, check_flags
from mlusim.log import Log
from mlusim.memory.allocation import check_usable
from mlusim.memory.reused import aligned_bytes
from mlusim.memory.view import View

# The state of a device after `Device.close`, in place of the name of an error.
CLOSED = "closed"


class DeviceMemory:
    """The part of `Device` that concerns its GDRAM."""

    def __init__(self, chip: Chip) -> None:
        self.board = chip.board
        self._chip = chip
        # The error that stopped the device; empty while it can run.
        self._broken = ""
        self._running = False
        # The launches that have not run.
        self._queued: list[Launch] = []

    @property
    def chip(self) -> Chip:
        """The simulated chip: clusters, cores, memories, links and clock."""
        return self._chip

    @property
    def data(self) -> bool:
        """Whether memories hold data."""
        return self._chip.data

    @property
    def log(self) -> Log:
        """All records of all launches so far."""
        return self._chip.log

    @property
    def pending(self) -> bool:
        """Whether launches are queued that `synchronize` has yet to run."""
        return bool(self._queued) and not self._broken

    def check_can_run(self) -> None:
        """Raise `InputError` if the device is closed, an error has ended its run, or it is running."""
        self._check_idle(
            InputError(
                "the host's use of a device inside a kernel: a kernel allocates in core.nram, core.sram, core.wram and "
                "core.ldram, and gets tensors as its arguments"
            )
        )
        if self._broken:
            state = "is closed" if self._broken == CLOSED else f"stopped with an error ({self._broken})"
            raise InputError(f"this device {state}: make a new one")

    def _check_idle(self, in_kernel: MlusimError) -> None:
        """Raise for a use of the device while it runs: `in_kernel` in a kernel, `InputError` in another thread."""
        if not self._running:
            return
        if NOTED.get() is None:
            raise InputError("another thread is running this device: give each thread a device of its own")
        raise in_kernel

    def upload(self, array: Array, name: str = "input", *, keep_data: bool = False, writable: bool = False) -> View:
        """Copy an array to GDRAM, as an input that no kernel may write.

        Args:
            array: any NumPy array; a C-contiguous one is used without a copy, so do not modify it meanwhile.
            name: name in messages and reports.
            keep_data: hold its bytes even in a timing-only run, for scalar loads.
            writable: kernels may write it, as the input and output of an in-place kernel; always a copy.

        Raises `AllocationError` if it does not fit, `InputError` for anything but an array, for an element type that
        the board does not support, and for a device that is closed or stopped.
        """
        self.check_can_run()
        check_flags(keep_data=keep_data, writable=writable)
        as_text("name", name)
        array = as_array(name, array)
        dtype = dtype_of(array.dtype, name)
        adopt = None
        # A broadcast array may be far larger than its memory: allocation refuses it.
        if (self._chip.data or keep_data) and array.nbytes <= self.board.gdram_bytes:
            if writable:
                adopt = aligned_bytes(array.nbytes)
                np.copyto(adopt.view(array.dtype).reshape(array.shape), array)
            else:
                adopt = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        allocation = self._chip.allocate(
            self._chip.gdram,
            array.nbytes,
            name,
            dtype=dtype_name(dtype),
            shape=array.shape,
            now=self._chip.environment.now,
            adopt=adopt,
            read_only=not writable,
        )
        if writable:
            self.log.host.writes.add(allocation.identity)
        if keep_data:
            allocation.buffer = adopt
        return _with_array(View.of(allocation, array.shape, dtype))

    def alloc(
        self,
        shape: int | tuple[int, ...],
        dtype: object,
        name: str = "output",
        *,
        workspace: bool = False,
        keep_data: bool = False,
        overwritten: bool = False,
    ) -> View:
        """Allocate GDRAM that kernels may write. Filled with 0xFF bytes, or uninitialised if large.

        Args:
            shape: extents, or a single extent for rank 1.
            dtype: element type.
            name: name in messages and reports.
            workspace: not an output: data that launches leave for later ones, and that may be written partially.
            keep_data: hold bytes even in a timing-only run, for scalar stores and loads.
            overwritten: kernels write every element before anything reads it, so a large tensor may use host memory of
                an earlier result that is no longer referenced. That saves time: fresh memory has to be cleared.

        Raises `AllocationError` if it does not fit, `InputError` for an invalid shape, element type or option, and
        for a device that is closed or stopped.
        """
        self.check_can_run()
        check_flags(workspace=workspace, keep_data=keep_data, overwritten=overwritten)
        as_text("name", name)
        element = dtype_of(dtype, name)
        extents = as_shape(f"{name}: the shape", shape)
        nbytes = math.prod(extents) * element.itemsize
        allocation = self._chip.allocate(
            self._chip.gdram,
            nbytes,
            name,
            dtype=dtype_name(element),
            shape=extents,
            now=self._chip.environment.now,
            workspace=workspace,
            overwritten=overwritten,
        )
        if keep_data and allocation.buffer is None:
            allocation.buffer = np.full(nbytes, 0xFF, np.uint8)
        return _with_array(View.of(allocation, extents, element))

    def free(self, view: View) -> None:
        """Free GDRAM.

        Raises `AllocationError` if it is already free, or belongs to another device; `InputError` while a launch that
        got it is pending.
        """
        self._check_own(view)
        for launch in self._queued if self.pending else ():
            if is_passed(view.allocation.identity, (*launch.arguments, *launch.settings.values()), self.log):
                raise InputError(
                    f"free of {view!r} before {launch.name} has run, which got it: a launch only queues; call "
                    "synchronize() first"
                )
        self._chip.free(view.allocation, self._chip.environment.now)

    def download(self, view: View) -> Array:
        """Return the elements of a GDRAM view, as an array on the simulated bytes: later launches may change it.

        Inputs are returned read-only.

        Raises `AccessError` in a timing-only run, `AllocationError` for freed memory or memory of another device,
        `InputError` while launches are pending, and for anything but a view.
        """
        self._check_own(view)
        check_usable(view.allocation, write=False)
        self._check_ran(f"download of {view!r}")
        array = view.typed().view()
        allocation = view.allocation
        if self.log.launches and view.nbytes == allocation.nbytes and not allocation.read_only:
            # The host reads all of it, also what no launch got.
            self.log.copy_back(allocation.identity, 0, allocation.nbytes)
        if view.allocation.read_only:
            # These may be the bytes of the array that the caller uploaded.
            array.setflags(write=False)
        return array

    def _check_ran(self, action: str) -> None:
        if self.pending:
            name = self._queued[-1].name
            raise InputError(f"{action} before {name} has run: a launch only queues; call synchronize() first")

    def _check_own(self, view: View) -> None:
        if not isinstance(view, View):
            raise InputError(
                f"{shown(view)} is not a tensor of the device: pass what alloc or upload returned, or a part of it"
            )
        if view.allocation.memory is not self._chip.gdram:
            raise AllocationError(f"{view!r} is in {view.allocation.memory.name}, not in the GDRAM of this device")


def _with_array(tensor: View) -> View:
    """Create the array of a tensor in advance: arrays of its slices are then cheap slices of it."""
    if tensor.allocation.buffer is not None:
        tensor.typed()
    return tensor
