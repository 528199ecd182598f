"""What the tests of misbehaving kernels share."""

from __future__ import annotations

from typing import Any

from mlusim.host.device import Device


def run_alone(kernel: Any, *arguments: Any, **options: Any) -> Device:
    device = Device(max_operations=1000, **options)
    device.launch(kernel, *arguments, dim=1, kind="BLOCK")
    device.synchronize()
    return device
