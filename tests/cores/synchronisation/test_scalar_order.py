"""Scalar accesses of NRAM follow earlier vector instructions; those of GDRAM do not wait for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlusim.cores.core import Core
from mlusim.host.device import Device
from mlusim.memory.view import View


def test_a_load_sees_the_result_of_the_previous_instruction(run: Any) -> None:
    found: list[Any] = []
    device = Device("mlu370-x4")
    x = device.upload(np.array([3, 9, 4, 9] * 4096, np.float32))

    async def kernel(core: Core, x: View) -> None:
        tile, best = core.nram.alloc(16384, "float32"), core.nram.alloc(3, "float32")
        await core.memcpy(tile, x)
        core.argmax(best, tile)
        found.append((await core.load(best[0]), await core.load(best[1:2].view("uint32")[0])))
        core.store(tile[5], 11)
        core.argmax(best, tile)
        found.append((await core.load(best[0]), await core.load(best[1:2].view("uint32")[0])))

    log = run(kernel, x, device=device).log
    assert found == [(9, 1), (11, 5)]
    columns = log.columns()
    first_load = [log.ops[op] for op in columns["op"]].index("load")
    before = columns["waited_for"][first_load]
    assert log.ops[columns["op"][before]] == "argmax"
    assert columns["start_ps"][first_load] == columns["end_ps"][before]
    device.verify().check()


def test_a_load_of_gdram_does_not_wait(run: Any) -> None:
    device = Device("mlu370-x4")
    x = device.upload(np.zeros(4, np.float32))

    async def kernel(core: Core, x: View) -> None:
        core.fill(core.nram.alloc(65536, "float32"), 1)
        await core.load(x[0])

    columns = run(kernel, x, device=device).log.columns()
    assert columns["start_ps"][1] < columns["end_ps"][0]
