"""Sets of any memory: values, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.errors import CopyError, OperandError
from mlusim.host.device import Device
from mlusim.memory.view import View


def test_sets_of_every_memory() -> None:
    device = Device("mlu370-x4")
    flat, rows = device.alloc(96, "int16"), device.upload(np.zeros((4, 8), np.float32), writable=True)

    async def kernel(core: Core, flat: View, rows: View) -> None:
        await core.gdramset(flat, -3)
        await core.gdramset(rows[:, 2:5], 1.5)
        if not core.is_memory_core:
            shared, private = core.sram.alloc(32, "int32", "shared"), core.ldram.alloc(32, "int32")
            tile = core.nram.alloc(32, "int32")
            await core.sramset(shared, 7)
            await core.ldramset(private, 8)
            await core.memcpy(tile, shared)
            assert set((await core.load_array(tile)).tolist()) == {7}
            await core.memcpy(tile, private)
            assert set((await core.load_array(tile)).tolist()) == {8}

    device.launch(kernel, flat, rows, dim=4, kind="UNION1")
    device.synchronize()
    assert device.download(flat).tolist() == [-3] * 96
    expected = np.zeros((4, 8))
    expected[:, 2:5] = 1.5
    assert device.download(rows).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("part", "error", "message"),
    [
        (
            slice(None, None, -1),
            OperandError,
            "gdramset with .*: the elements of a row must be contiguous; call it for each",
        ),
        (slice(2, 2), CopyError, "gdramset of .*: it needs at least one element, in a memory that"),
    ],
)
def test_invalid_sets_are_rejected(run: Any, part: slice, error: Any, message: str) -> None:
    device = Device("mlu370-x4")

    async def kernel(core: Core, x: View) -> None:
        await core.gdramset(x[part], 1)

    with pytest.raises(error, match=rf"^task 0 .*, test_memory_sets\.py:\d+, at .* ns: {message}"):
        run(kernel, device.upload(np.zeros(8, np.float32), writable=True), device=device)
