"""Every method of `Core` with arguments of wrong types: always an error of mlusim, never one of Python."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import mlusim
from mlusim.cores.core import Core
from mlusim.cores.instructions.table import INSTRUCTIONS

METHODS = sorted(name for name in dir(Core) if not name.startswith("_") and inspect.isfunction(getattr(Core, name)))
X = np.ones((8, 64), np.float32)
DRAWS = 5


def wrong(core, x, tile):
    return [
        *(None, -1, 1.5, "x", [1, 2], (0,), np.arange(3), {}, True, 2**70, float("nan"), 1j),
        *(core, x, x.pointer, tile, tile[0:0]),
    ]


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", METHODS)
def test_operands_of_the_wrong_type_are_refused_by_name(name):
    draw = np.random.default_rng([ord(letter) for letter in name])
    of_python = []
    for _ in range(DRAWS):
        places = draw.integers(17, size=draw.integers(7)).tolist()

        async def kernel(core, x, places=places):
            tile = core.nram.alloc((4, 4, 64), x.dtype)
            core.write_zero(tile)
            values = wrong(core, x, tile)
            found = getattr(core, name)(*(values[place] for place in places))
            if hasattr(found, "__await__"):
                await found

        try:
            mlusim.run(kernel, X, device="mlu590-h8", dim=1, kind="BLOCK", stall_s=5)
        except mlusim.MlusimError as error:
            if type(error) is mlusim.KernelError:
                of_python.append((places, str(error)))
    assert not of_python


@pytest.mark.parametrize("name", sorted(name for name, instruction in INSTRUCTIONS.items() if instruction.attributes))
@pytest.mark.parametrize("value", [{}, [1], (0,), 1j, "x", None])
def test_attributes_of_the_wrong_type_are_refused_by_name(name, value):
    async def kernel(core, x):
        instruction = INSTRUCTIONS[name]
        tiles = [core.nram.alloc((4, 4, 64), x.dtype) for _ in instruction.operands]
        for tile in tiles:
            core.write_zero(tile)
        getattr(core, name)(*tiles, *[value for _ in instruction.attributes])

    with pytest.raises(mlusim.MlusimError) as caught:
        mlusim.run(kernel, X, device="mlu590-h8", dim=1, kind="BLOCK")
    assert caught.value.__cause__ is None, caught.value


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda core, x, tile: core.collect(tile, tile, None), "collect of None: it takes a view of memory"),
        (lambda core, x, tile: core.atomic_reduce_add(3, 1), "atomic_reduce_add of 3: it takes a view of memory"),
        (lambda core, x, tile: core.sramset(tile, "a"), "sramset with 'a': the value must be a number, not str"),
        (lambda core, x, tile: core.lock(1.5), "lock 1.5: the number of a lock must be an integer, 0 or more"),
        (lambda core, x, tile: core.memcpy(tile, x, np.arange(2), "GDRAM2NRAM"), "sizes and strides are integers"),
        (
            lambda core, x, tile: core.memcpy(tile, x, True, "GDRAM2NRAM"),
            "memcpy with True: sizes and strides are integers",
        ),
        (lambda core, x, tile: core.fill(tile, "a"), "value is a real number, not 'a'"),
        (lambda core, x, tile: core.sumpool(tile, tile, 1.5, 2), "kernel_height is an integer, not 1.5"),
        (lambda core, x, tile: core.nram.alloc(64), "alloc(shape, dtype, name='', *, cluster=None): missing 'dtype'"),
        (lambda core, x, tile: core.nram.alloc(), "cluster=None): missing 'shape' and 'dtype'"),
        (lambda core, x, tile: core.nram.alloc(64, type=1), "got an unexpected keyword argument 'type'"),
        (
            lambda core, x, tile: core.atomic_add(x, 1),
            "; atomic_reduce_add(target, operand) does not return the old value",
        ),
        (lambda core, x, tile: core.atomic_cas(x, 1), "atomic_cas(old, target, compare, operand): missing "),
        (lambda core, x, tile: core.load(x, 3, 4), "load(source) got 3 positional arguments: call it as shown"),
        (
            lambda core, x, tile: core.max(tile, tile, axis=1),
            "max(dst, src) has no argument 'axis': it computes on all elements: loop over the rows, or ",
        ),
        (
            lambda core, x, tile: core.add(tile, tile, 1, mask=tile),
            "has no argument 'mask': there is no mask: slice the ",
        ),
        (lambda core, x, tile: core.load(x, mask=True), "unexpected keyword argument 'mask': there is no mask: slice "),
        (lambda core, x, tile: core.add(tile, tile, 1, colour=2), "has no argument 'colour': call it as shown"),
        (
            lambda core, x, tile: core.matmul(tile, tile, tile, accumulate=True),
            "has no argument 'accumulate': the product replaces dst: write it to another buffer, then core.add(",
        ),
        (lambda core, x, tile: core.sync_io(tile), "sync_io() got 1 positional argument: call it as shown"),
        (lambda core, x, tile: core.gdram.alloc(64, x.dtype), "tensors in GDRAM are arguments of the kernel"),
    ],
)
def test_messages(call, words):
    async def kernel(core, x):
        await call(core, x, core.nram.alloc(64, x.dtype))

    with pytest.raises(mlusim.MlusimError) as caught:
        mlusim.run(kernel, X, dim=1, kind="BLOCK")
    assert words in caught.value.message


@pytest.mark.parametrize("name", ["task_id", "task_dim_y", "is_memory_core", "board", "nram", "sram"])
def test_a_core_refuses_assignment_to_its_attributes(name):
    async def kernel(core):
        setattr(core, name, 3)

    message = rf"core\.{name} = 3: a kernel only reads core\.{name}; assign to a variable of its own"
    with pytest.raises(mlusim.KernelError, match=message):
        mlusim.run(kernel, dim=1, kind="BLOCK")


def test_a_kernel_may_keep_values_of_its_own_on_a_core():
    kept = []

    async def kernel(core):
        core.passes = core.task_id
        core.passes += 1
        kept.append(core.passes)

    mlusim.run(kernel, dim=1, kind="BLOCK")
    assert kept == [1]
