"""A kernel that multiplies by a factor, 2 by default, and one that triples, with an input and a launch for them."""

from __future__ import annotations

import numpy as np

X = np.arange(64, dtype=np.float32).reshape(8, 8)
ONE = {"kind": "BLOCK", "dim": 1}


async def double(core, x, out, factor=2.0):
    held = core.nram.alloc(x.shape, x.dtype, "held")
    await core.memcpy(held, x)
    core.mul(held, held, factor)
    await core.memcpy(out, held)


async def triple(core, x, out):
    held, twice = (core.nram.alloc(x.shape, x.dtype, name) for name in ("held", "twice"))
    await core.memcpy(held, x)
    core.mul(twice, held, 2.0)
    core.add(twice, twice, held)
    await core.memcpy(out, twice)
