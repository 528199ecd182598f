"""out = a @ b, correct but slow: let the load, the matmul and the store of three blocks share a step.

`weights` has the columns of b, laid out for WRAM.
"""

ROWS = 128


async def kernel(core, a, weights, out):
    if core.is_memory_core:
        return
    left = core.nram.alloc((ROWS, a.shape[1]), a.dtype)
    right = core.wram.alloc(weights.shape, weights.dtype)
    result = core.nram.alloc((ROWS, out.shape[1]), out.dtype)
    await core.memcpy(right, weights)
    for start in range(core.task_id * ROWS, a.shape[0], core.task_dim * ROWS):
        await core.memcpy(left, a[start : start + ROWS])
        core.matmul(result, left, right)
        await core.memcpy(out[start : start + ROWS], result)
