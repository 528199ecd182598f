"""The state of a device, its tasks and its scopes after an error; errors that a kernel catches."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlusim
from kernel_runs import run_alone
from misbehaving_kernels import helper, zero_division
from mlusim.cores.core import Core
from mlusim.errors import (
    AccessError,
    AwaitError,
    CopyError,
    HangError,
    InputError,
    KernelError,
    LaunchError,
    MlusimError,
    OperationLimitError,
)
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.units import format_ns


def test_a_kernel_cannot_launch() -> None:
    device = Device()

    async def kernel(core: Core) -> None:
        device.launch(kernel, dim=1, kind="BLOCK")

    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(
        LaunchError, match="launch inside a kernel: only the host launches kernels; call the other kernel with"
    ):
        device.synchronize()


def test_a_kernel_that_runs_itself_on_another_device_ends() -> None:
    async def kernel(core: Core) -> None:
        mlusim.run(kernel, dim=1, kind="BLOCK")

    with pytest.raises(LaunchError, match="a run inside a kernel: only the host runs kernels; call the other kernel"):
        mlusim.run(kernel, dim=1, kind="BLOCK")


def test_an_uncaught_error_ends_a_script_with_its_message(tmp_path: Path) -> None:
    script = tmp_path / "divide.py"
    script.write_text(
        "import mlusim.host.device\n"
        "async def divide(core):\n"
        "    return 1 / 0\n"
        "device = mlusim.host.device.Device()\n"
        "device.launch(divide, dim=1, kind='BLOCK')\n"
        "device.synchronize()\n",
        encoding="utf-8",
    )
    environment = os.environ | {"PYTHONPATH": str(Path(mlusim.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "mlusim.errors.KernelError: task 0 (cluster 0, core 0), divide.py:3, at "
        f"{format_ns(Device().board.kernel_start_ps)}: the kernel raised "
        "ZeroDivisionError: division by zero"
    )
    assert "ZeroDivisionError: division by zero" in done.stderr.split("The above exception was the direct cause")[0]


def test_a_device_that_stopped_is_not_used_again() -> None:
    device = Device()
    device.launch(zero_division, dim=1, kind="BLOCK")
    with pytest.raises(KernelError):
        device.synchronize()
    with pytest.raises(InputError, match=r"^this device stopped with an error \(KernelError\): make a new one$"):
        device.synchronize()


def test_tasks_stopped_by_an_error_do_not_hide_it() -> None:
    """Not even if their `finally` still uses the core, or coroutines of theirs are never awaited."""
    ended: list[int] = []

    async def kernel(core: Core) -> None:
        if core.is_memory_core:
            return
        if core.task_id == 3:
            core.scalar(100)
            raise ValueError("the one error")
        tile = core.nram.alloc(64, "int8")
        kept = helper(core)
        try:
            with core.nram.scope():
                await core.memcpy(tile, core.nram.alloc(64, "int8"))
                await core.sync_all()
        finally:
            ended.append(core.task_id)
            core.memcpy_async(tile, tile[::-1])
            await core.sync()
        await kept

    device = Device()
    device.launch(kernel, dim=4, kind="UNION1")
    with pytest.raises(
        KernelError, match=r"^task 3 \(cluster 0, core 3\), .* the kernel raised ValueError: the one error$"
    ):
        device.synchronize()
    assert set(ended) <= {0, 1, 2}


def test_a_kernel_may_catch_simulator_errors() -> None:
    """A refused operation has no effect, and the task continues."""
    device = Device()
    x, out = device.upload(np.arange(8, dtype=np.int8)), device.alloc(8, np.int8)
    caught: list[str] = []

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = core.nram.alloc(8, np.int8)
        for attempt in (
            lambda: core.memcpy(x, tile),
            lambda: core.memcpy(tile, x[:4]),
            lambda: core.memcpy_async(tile, core.ldram.alloc(8, np.int8)),
            lambda: core.fill(x, 0),
            lambda: core.load(tile),
            lambda: core.nram.alloc(10**7, np.int8),
        ):
            try:
                waits = attempt()
                if waits is not None:
                    await waits
            except MlusimError as error:
                caught.append(type(error).__name__)
        await core.memcpy(tile, x)
        await core.memcpy(out, tile)

    device.launch(kernel, x, out, dim=1, kind="BLOCK")
    device.synchronize()
    assert caught == ["AccessError", "CopyError", "CopyError", "OperandError", "OperandError", "AllocationError"]
    assert device.download(out).tolist() == list(range(8))
    assert [device.log.ops[op] for op in device.log.columns()["op"]] == ["memcpy", "memcpy"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (Device.synchronize, "synchronize inside a kernel: it is the host's; within a kernel use the syncs"),
        (Device.close, "close inside a kernel: the host closes a device, after its runs$"),
        (lambda device: device.alloc(1, "int8"), "the host's use of a device inside a kernel: a kernel allocates in"),
    ],
)
def test_a_kernel_does_not_do_what_the_host_does(use: Callable[[Device], Any], message: str) -> None:
    device = Device()

    async def kernel(core: Core) -> None:
        use(device)

    device.launch(kernel, dim=1, kind="BLOCK")
    with pytest.raises(InputError, match=f": {message}"):
        device.synchronize()


def test_interrupts_pass_through() -> None:
    async def kernel(core: Core) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_alone(kernel)


def test_scopes_are_closed_by_an_error(run: Any) -> None:
    async def kernel(core: Core) -> None:
        try:
            with core.nram.scope():
                core.nram.alloc(core.nram.usable_bytes, "int8")
                next(iter(()))
        except StopIteration:
            core.nram.alloc(core.nram.usable_bytes, "int8")

    run(kernel)


def test_nested_helpers(run: Any) -> None:
    device = Device()
    x, out = device.upload(np.arange(64, dtype=np.int32)), device.alloc(64, np.int32)

    async def load(core: Core, tile: View, x: View) -> View:
        async def deeper() -> None:
            await core.memcpy(tile, x)

        await deeper()
        return tile

    async def kernel(core: Core, x: View, out: View) -> None:
        tile = await load(core, core.nram.alloc(64, np.int32), x)
        core.add(tile, tile, await core.load(x[5]))
        await core.sync()
        await core.memcpy(out, tile)

    run(kernel, x, out, device=device)
    np.testing.assert_array_equal(device.download(out), np.arange(64) + 5)
    functions = {device.log.lines[line][2] for line in device.log.columns()["line"]}
    assert functions == {"deeper", "kernel"}


def test_async_generators_inside_a_kernel(run: Any) -> None:
    """A kernel may not be one; it may use one."""
    device = Device()
    x, out = device.upload(np.arange(64, dtype=np.int32).reshape(4, 16)), device.alloc((4, 16), np.int32)

    async def kernel(core: Core, x: View, out: View) -> None:
        async def tiles() -> Any:
            for row in x:
                tile = core.nram.alloc(16, np.int32)
                await core.memcpy(tile, row)
                yield tile

        number = 0
        async for tile in tiles():
            await core.memcpy(out[number], tile)
            number += 1

    run(kernel, x, out, device=device)
    np.testing.assert_array_equal(device.download(out), device.download(x))


def test_kernel_errors_are_mlusim_errors() -> None:
    for error in (AccessError, AwaitError, CopyError, HangError, OperationLimitError):
        assert issubclass(error, KernelError)
    assert issubclass(KernelError, MlusimError)


async def first_of_many(core: Core) -> None:
    await core.sync()
    if core.task_id == 5:
        core.fill(core.nram.alloc(1, "int8")[1:], 0)


def test_the_task_is_named_among_many() -> None:
    device = Device()
    device.launch(first_of_many, dim=(4, 2, 1), kind="UNION1")
    with pytest.raises(KernelError, match=r"^task 5 \(cluster 1, core 1\), "):
        device.synchronize()


def test_warnings_of_the_kernel_itself_pass() -> None:
    """Only Python's warnings about coroutines are replaced."""

    async def kernel(core: Core) -> None:
        warnings.warn("mind the gap", stacklevel=1)

    with pytest.warns(UserWarning, match="mind the gap"):
        run_alone(kernel)


def test_a_kernel_uses_only_its_own_core() -> None:
    cores: list[Core] = []

    async def kernel(core: Core) -> None:
        if core.is_memory_core:
            return
        cores.append(core)
        await core.sync_all_ipu()
        await cores[0].sync()

    device = Device("mlu370-x4")
    device.launch(kernel, dim=4)
    message = r"^task 1 .*: this awaits an operation of task 0 \(cluster 0, core 0\): a kernel uses only its own core$"
    with pytest.raises(AwaitError, match=message):
        device.synchronize()


def test_a_kernel_copies_with_its_own_core() -> None:
    cores: list[Core] = []

    async def kernel(core: Core, x: View) -> None:
        if core.is_memory_core:
            return
        cores.append(core)
        await core.sync_all_ipu()
        cores[0].memcpy_async(core.nram.alloc(4, x.dtype), x)

    message = (
        r"^task 1 .*: this is the core of task 0 \(cluster 0, core 0\): a kernel uses only its own core, while it runs$"
    )
    with pytest.raises(KernelError, match=message):
        mlusim.run(kernel, np.zeros(4, np.float32), dim=4)


@pytest.mark.parametrize(
    "use",
    [
        lambda core: core.nram.alloc(4, np.float32),
        lambda core: core.scalar(1),
        lambda core: core.sync(),
        lambda core: core.sync_all(),
    ],
)
def test_a_core_is_of_no_use_after_its_task(use: Callable[[Core], object]) -> None:
    cores: list[Core] = []

    async def kernel(core: Core) -> None:
        cores.append(core)

    mlusim.run(kernel, kind="BLOCK", dim=1)
    message = r"this is the core of task 0 \(cluster 0, core 0\), which has ended: a kernel uses only its own core"
    with pytest.raises(KernelError, match=message):
        use(cores[0])


@pytest.mark.parametrize("value", [5, np.zeros(99), "x"])
def test_a_kernel_returns_nothing(value):
    async def kernel(core: Core) -> Any:
        core.scalar(1)
        return value

    rule = r"a kernel returns nothing; it writes results to an output, such as Output\(shape, dtype\)$"
    place = r"^task 0 \(cluster 0, core 0\), test_after_an_error\.py:\d+, at .* ns: "
    with pytest.raises(KernelError, match=place + "the kernel returned .*: " + rule):
        mlusim.run(kernel, kind="BLOCK", dim=1)


@pytest.mark.parametrize("kernel", ["x[70]", "core.add(x, x)", "1 / 0", "await core.barrier_that_is_none()"])
@pytest.mark.grid(2)
def test_tracebacks_end_in_the_kernel_unless_python_is_in_its_development_mode(kernel: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import mlusim, numpy as np\n"
        f"async def kernel(core, x):\n    {kernel}\n"
        "mlusim.run(kernel, np.zeros(64, np.float32), dim=1, kind='BLOCK')\n"
    )
    shown = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False).stderr
    frames = [line.split('"')[1] for line in shown.splitlines() if line.startswith("  File ")]
    # Of the call, the host's frames; of the kernel, its own. A cause comes first.
    assert frames[-1] == str(program)
    assert not [file for file in frames if "simpy" in file or "cores" in file or "memory" in file]
    everything = subprocess.run([sys.executable, "-X", "dev", program], capture_output=True, text=True, check=False)
    assert "simpy" in everything.stderr
    assert everything.stderr.splitlines()[-1] == shown.splitlines()[-1]


def test_an_error_that_is_its_own_cause_ends_the_run() -> None:
    async def kernel(core: Core) -> None:
        error = ValueError("mine")
        raise error from error

    with pytest.raises(KernelError, match=r"the kernel raised ValueError: mine$"):
        run_alone(kernel)
