"""A run repeats bit for bit: on a new device, in another process, timing only, and later on one device."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import mlusim
from mlusim.cores.core import Core
from mlusim.host.device import Device
from mlusim.memory.view import View


async def busy(core: Core, x: View, out: View) -> None:
    """A bit of everything: copies, arithmetic, scalar accesses, rows, barriers, scopes."""
    shared = core.sram.alloc((4, 16), np.float32, "shared")
    if not core.is_memory_core:
        with core.nram.scope():
            tile = core.nram.alloc((16, 16), np.float32, "tile")
            core.memcpy_async(tile, x[core.task_id % x.shape[0], ::-1])
            await core.sync_io()
            core.mul(tile, tile, 2.0)
            core.store(tile[0, 0], await core.load(x[0, 0, 0]))
            await core.sync()
            await core.memcpy_rows(tile[:4], tile[4:], None, np.array([3, 1, 1, 0]))
            await core.memcpy(shared[core.core_id], tile[0])
    await core.sync_all()
    if core.is_memory_core:
        await core.memcpy(out[core.task_id_y], shared)


def run_busy(device: Device) -> Device:
    x = np.random.default_rng(0).standard_normal((5, 16, 16)).astype(np.float32)
    device.launch(busy, device.upload(x, "x", keep_data=True), device.alloc((12, 4, 16), np.float32), dim=(4, 12, 1))
    device.synchronize()
    return device


def digest(device: Device) -> str:
    """Everything that the log says."""
    log = device.log
    seen = hashlib.sha256(log.table().tobytes())
    lines = [(line, function) for _, line, function in log.lines]
    for part in (
        log.ops,
        lines,
        log.boxes,
        log.tasks,
        log.launches,
        log.allocations,
        sorted(log.more_operands.items()),
    ):
        seen.update(repr(part).encode())
    for record, addresses in sorted(log.addresses.items()):
        seen.update(repr((record, {key: rows.tolist() for key, rows in addresses.items()})).encode())
    return seen.hexdigest()


def test_two_runs_have_the_same_log() -> None:
    first, again = run_busy(Device()), run_busy(Device())
    assert len(first.log) > 400
    assert first.log.table().tobytes() == again.log.table().tobytes()
    assert digest(first) == digest(again)


def test_timing_only_has_the_same_log() -> None:
    assert digest(run_busy(Device(data=False))) == digest(run_busy(Device()))


def test_another_process_gives_the_same_log() -> None:
    """For any seed of Python's hashes."""
    program = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('test_repeatability', {__file__!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.digest(module.run_busy(module.Device())))\n"
    )
    digests = set()
    for seed in ("0", "12345"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(mlusim.__file__).parent.parent)}
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, timeout=60
        )
        digests.add(done.stdout.strip())
    assert digests == {digest(run_busy(Device()))}


def test_a_later_run_on_one_device_takes_the_same_time() -> None:
    device = Device()
    x = np.random.default_rng(0).standard_normal((5, 16, 16)).astype(np.float32)
    views = device.upload(x, "x"), device.alloc((12, 4, 16), np.float32)
    spans = []
    for _ in range(3):
        device.launch(busy, *views, dim=(4, 12, 1))
        device.synchronize()
        spans.append(device.log.launches[-1].end_ps - device.log.launches[-1].start_ps)
    assert len(set(spans)) == 1
