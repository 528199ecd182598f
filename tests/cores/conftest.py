"""A fixture shared by the tests of the cores: a call that runs a kernel and returns its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mlusim.host.device import Device

Run = Callable[..., Device]


@pytest.fixture(scope="session")
def run() -> Run:
    """`run(kernel, *arguments, device=..., dim=1, kind="BLOCK")`: launch it once, wait, and return the device."""

    def run_kernel(
        kernel: Any, *arguments: Any, device: Any = "mlu370-x4", dim: Any = 1, kind: str = "BLOCK", **options: Any
    ) -> Device:
        if not isinstance(device, Device):
            device = Device(device, **options)
        device.launch(kernel, *arguments, dim=dim, kind=kind)
        device.synchronize()
        return device

    return run_kernel
