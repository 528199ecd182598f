"""A kernel under the tools of Python's developers: debuggers, threads, and processes that were forked."""

from __future__ import annotations

import bdb
import os
import threading
import traceback
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim.errors import KernelError


def test_quitting_the_debugger_in_a_kernel_ends_the_program_as_it_does_elsewhere() -> None:
    async def kernel(core: Any, out: Any) -> None:
        raise bdb.BdbQuit  # what pdb's `quit` raises in the line where it stopped

    with pytest.raises(bdb.BdbQuit):
        mlusim.run(kernel, mlusim.Output((1,), np.int32))


def test_a_debugger_started_after_an_error_stops_in_the_kernel() -> None:
    async def kernel(core: Any, out: Any) -> None:
        divisor = core.task_id * 0
        divisor = 1 // divisor

    with pytest.raises(KernelError, match="the kernel raised ZeroDivisionError") as caught:
        mlusim.run(kernel, mlusim.Output((1,), np.int32))
    *_, (frame, _) = traceback.walk_tb(caught.value.__traceback__)
    assert frame.f_code.co_name == "kernel"
    assert frame.f_locals["divisor"] == 0
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("use", ["launch", "synchronize", "alloc", "close"])
def test_a_device_that_runs_in_another_thread_says_so(use: str) -> None:
    errors = []

    def other_thread() -> None:
        try:
            getattr(device, use)(*{"launch": (kernel,), "alloc": (1, "int8")}.get(use, ()))
        except mlusim.MlusimError as error:
            errors.append(str(error))

    async def kernel(core: Any) -> None:
        if core.task_id == 0 and not core.is_memory_core:
            thread = threading.Thread(target=other_thread)
            thread.start()
            thread.join()

    device = mlusim.Device()
    device.launch(kernel)
    device.synchronize()
    assert errors == ["another thread is running this device: give each thread a device of its own"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_a_forked_process_has_on_chip_memory_of_its_own() -> None:
    async def kernel(core: Any, ones: Any, twos: Any, out: Any) -> None:
        if core.task_id or core.is_memory_core:
            return
        buffer = core.nram.alloc(out.shape, out.dtype)
        await core.memcpy(buffer, ones)
        core.peek(buffer)  # the copy is written by now
        child = os.fork()
        if not child:
            try:
                await core.memcpy(buffer, twos)
                os._exit(int(core.peek(buffer)[0]))
            finally:
                os._exit(9)
        _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - the other process has to be done before the next line
        assert os.waitstatus_to_exitcode(status) == 2
        await core.memcpy(out, buffer)

    ones = np.ones(4096, np.int32)
    result = mlusim.run(kernel, ones, 2 * ones, mlusim.Output.like(ones))
    np.testing.assert_array_equal(result.output, ones)
