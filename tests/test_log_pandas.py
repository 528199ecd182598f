"""The log as a table of pandas: names instead of numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.host.device import Device
from mlusim.memory.view import View

pytest.importorskip("pandas")


def test_a_row_for_each_record_with_names() -> None:
    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.sync()

    device = Device()
    device.launch(kernel, device.upload(np.zeros(16, np.float32), "x"), dim=1, kind="BLOCK")
    device.synchronize()
    table = device.log.to_pandas()
    assert table["op"].tolist() == ["memcpy", "sync"]
    assert table["pipe"].tolist() == ["io", "sync"]
    assert (table["dst"][0], table["dst_memory"][0], table["a"][0], table["a_memory"][0]) == (
        "tile",
        "nram",
        "x",
        "gdram",
    )
    assert (table["dst"][1], table["a_memory"][1]) == ("", "")
    assert table["line"][0].startswith(f"{Path(__file__).name}:")
    assert table["bytes_requested"].tolist() == [64, 0]
