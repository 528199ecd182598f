"""Faulty kernels, and the error that each has to raise. A comment marks the line that the error must name."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from mlusim.cores.core import Core
from mlusim.errors import AwaitError, InputError, KernelError, MlusimError, OperandError, OperationLimitError

# Before Python 3.14, and since.
_NOT_AWAITABLE = "object int can't be used in 'await' expression|'int' object can't be awaited"
AWAITABLE = "a kernel awaits only methods of its core that wait (memcpy, load, sync, ...) and its own coroutines"


async def forgotten_memcpy(core: Core) -> None:
    tile, other = core.nram.alloc(64, "int8"), core.nram.alloc(64, "int8")
    core.memcpy(tile, other[::-1])  # named
    core.fill(tile, 1)


async def forgotten_sync(core: Core) -> None:
    core.fill(core.nram.alloc(64, "int8"), 1)
    core.sync()  # named


async def forgotten_barrier(core: Core) -> None:
    core.sync_cluster()  # named
    await core.sync()


async def forgotten_load(core: Core) -> None:
    tile = core.nram.alloc(64, "int8")
    core.load(tile[3])  # named
    await core.sync()


async def forgotten_rows(core: Core) -> None:
    tile = core.nram.alloc((8, 8), "int8")
    core.memcpy_rows(tile[:4], tile[4:])  # named


async def awaits_a_method(core: Core) -> None:
    await core.sync  # named


async def helper(core: Core) -> None:
    await core.sync()


async def zero_division(core: Core) -> None:
    core.scalar(3)
    1 / (core.task_id * 0)  # named


async def forgotten_helper(core: Core) -> None:
    helper(core)  # named
    await core.sync()


async def kept_helper(core: Core) -> None:
    pending = helper(core)
    await core.sync()
    assert pending is not None  # named


async def forgotten_inner(core: Core) -> None:
    async def inner() -> None:
        await core.sync()

    inner()  # named


class Steps:
    @staticmethod
    async def first(core: Core) -> None:
        await core.sync()


async def forgotten_attribute(core: Core) -> None:
    Steps.first(core)  # named


class Stages:
    def __init__(self, core: Core) -> None:
        self.core = core

    async def load(self) -> None:
        await self.core.sync()


async def forgotten_method(core: Core) -> None:
    stages = Stages(core)
    stages.load()  # named
    await core.sync()


async def forgotten_value(core: Core) -> None:
    steps = {"load": helper}
    steps["load"](core)  # named


async def replaced_helper(core: Core) -> None:
    pending = helper(core)
    await core.sync()
    pending = None  # named
    assert pending is None


async def forgotten_before_an_error(core: Core) -> None:
    helper(core)  # named
    raise ValueError("what the helper should have prevented")


async def forgotten_and_caught(core: Core) -> None:
    helper(core)  # named
    with suppress(KernelError):
        core.scalar(1)
    core.scalar(1)


async def calls_a_forgetful_helper(core: Core) -> None:
    await forgotten_helper(core)


async def exits(core: Core) -> None:
    sys.exit(0)  # named


async def caught_and_went_on(core: Core) -> None:
    core.sync()  # named
    with suppress(KernelError):
        core.scalar(1)
    core.scalar(1)


async def caught_and_returned(core: Core) -> None:
    core.sync()  # named
    try:
        core.scalar(1)
    except KernelError:
        return


async def awaited_twice(core: Core) -> None:
    waits = core.sync()
    await waits
    await waits  # named


async def left_wait(core: Core) -> None:
    tile, other = core.nram.alloc(64, "int8"), core.nram.alloc(64, "int8")
    next(iter(core.memcpy(tile, other).__await__()))  # named
    core.fill(tile, 1)


async def left_wait_at_the_end(core: Core) -> None:
    tile, other = core.nram.alloc(64, "int8"), core.nram.alloc(64, "int8")
    next(iter(core.memcpy(tile, other).__await__()))  # named


async def driven_by_asyncio(core: Core) -> None:
    tile, other = core.nram.alloc(64, "int8"), core.nram.alloc(64, "int8")

    async def copies() -> None:
        await core.memcpy(tile, other)  # named

    asyncio.run(copies())


async def asyncio_sleep_0(core: Core) -> None:
    await core.sync()
    await asyncio.sleep(0)  # named


async def asyncio_sleep_1(core: Core) -> None:
    await asyncio.sleep(1)  # named


class Foreign:
    def __await__(self) -> Any:
        yield self

    def __repr__(self) -> str:
        return "<something foreign>"


async def foreign_object(core: Core) -> None:
    await Foreign()  # named


async def foreign_deep_down(core: Core) -> None:
    async def inner() -> None:
        await Foreign()  # named

    await inner()


async def awaits_a_number(core: Core) -> None:
    await 5  # named


async def awaits_what_never_suspends(core: Core) -> None:
    tile = core.nram.alloc(64, "int8")
    await core.fill(tile, 1)  # named


async def raises_deep_down(core: Core) -> None:
    async def deep(depth: int) -> None:
        if not depth:
            raise KeyError("channel")  # named
        await deep(depth - 1)

    await deep(5)


async def raises_in_numpy(core: Core) -> None:
    np.concatenate([np.zeros((2, 2)), np.zeros((3, 3))], axis=0)
    await core.sync()


async def raises_in_a_library(core: Core) -> None:
    inspect.signature(3)  # named


async def stop_iteration(core: Core) -> None:
    next(iter([]))  # named


async def unknown_dtype(core: Core) -> None:
    core.nram.alloc(64, "float17")  # named


async def a_list_for_a_view(core: Core) -> None:
    core.fill([1, 2, 3], 0)  # named


async def forgotten_and_raised(core: Core) -> None:
    kept = helper(core)
    raise ValueError(f"before it was awaited: {kept is None}")  # named


async def forgotten_load_as_an_operand(core: Core) -> None:
    tile = core.nram.alloc(64, "float32")
    core.mul(tile, tile, core.load(tile[0]))  # named


async def forgotten_load_as_an_index(core: Core) -> None:
    tile = core.nram.alloc(64, "int8")
    core.store(tile[core.load(tile[0])], 1)  # named


async def forgotten_load_in_arithmetic(core: Core) -> None:
    tile = core.nram.alloc(64, "int8")
    core.load(tile[0]) + 1  # named


async def forgotten_load_in_a_loop(core: Core) -> None:
    tile = core.nram.alloc(64, "int8")
    for _ in core.load_array(tile):  # named
        pass


async def forgotten_load_with_an_attribute(core: Core) -> None:
    tile = core.nram.alloc(64, "int8")
    core.load_array(tile).sum()  # named


async def raises_without_a_text(core: Core) -> None:
    raise AssertionError  # named


async def changes_the_board(core: Core) -> None:
    core.board.clock_hz = 1  # named


async def stores_a_text(core: Core) -> None:
    core.store(core.nram.alloc(1, "int8"), "1")  # named


async def stores_a_view(core: Core) -> None:
    tile = core.nram.alloc(4, "float32")
    core.store(tile[0], tile)  # named


async def stores_none(core: Core) -> None:
    core.store(core.nram.alloc(1, "float32"), None)  # named


async def stores_a_number_too_large(core: Core) -> None:
    core.store(core.nram.alloc(1, "float32"), 10**400)  # named


async def stores_an_array_of_texts(core: Core) -> None:
    core.store_array(core.nram.alloc(1, "int8"), ["1"])  # named


async def endless_scalar(core: Core) -> None:
    while True:
        core.scalar(1)  # named


async def endless_awaiting(core: Core) -> None:
    while True:
        await core.sync()  # named


async def endless_and_deaf(core: Core) -> None:
    while True:
        with suppress(Exception):
            core.scalar(1)  # named


LIMIT = r"1 000 operations issued without an end: an endless loop\? If the kernel needs more, raise max_operations"
UNAWAITED = r"`core\.{0}\(\.\.\.\)` was not awaited, so the task did not wait for it: write `await core\.{0}\(\.\.\.\)`"
LEFT = (
    r"`await core\.memcpy\(\.\.\.\)` was left before it was over, because only the simulator resumes a kernel: await "
)
CASES: list[tuple[Any, type[MlusimError], str]] = [
    (forgotten_memcpy, AwaitError, UNAWAITED.format("memcpy")),
    (forgotten_sync, AwaitError, UNAWAITED.format("sync")),
    (forgotten_barrier, AwaitError, UNAWAITED.format("sync_cluster")),
    (forgotten_load, AwaitError, UNAWAITED.format("load")),
    (forgotten_rows, AwaitError, UNAWAITED.format("memcpy_rows")),
    (caught_and_went_on, AwaitError, UNAWAITED.format("sync")),
    (caught_and_returned, AwaitError, UNAWAITED.format("sync")),
    (awaited_twice, AwaitError, "awaited twice: await the result of a core method once, where it is called"),
    (left_wait, AwaitError, LEFT),
    (left_wait_at_the_end, AwaitError, LEFT),
    (driven_by_asyncio, AwaitError, LEFT),
    (
        asyncio_sleep_0,
        AwaitError,
        r"`await asyncio\.sleep\(0\)  # named` awaits None, which is not an awaitable of the simulator: ",
    ),
    (asyncio_sleep_1, AwaitError, "no running event loop: " + re.escape(AWAITABLE)),
    (
        foreign_object,
        AwaitError,
        "`await Foreign.*` awaits <something foreign>, which is not an awaitable of the simulator: ",
    ),
    (
        foreign_deep_down,
        AwaitError,
        "`await Foreign.*` awaits <something foreign>, which is not an awaitable of the simulator: ",
    ),
    (awaits_a_number, AwaitError, f"({_NOT_AWAITABLE}): {re.escape(AWAITABLE)}"),
    (awaits_a_method, AwaitError, "(object method|'method' object) can't be .*: write its parentheses, as in `await"),
    (awaits_what_never_suspends, AwaitError, "there is nothing to wait for: the call returned None"),
    (zero_division, KernelError, "the kernel raised ZeroDivisionError: division by zero$"),
    (exits, KernelError, "the kernel raised SystemExit: 0$"),
    (raises_deep_down, KernelError, "the kernel raised KeyError: 'channel'$"),
    (raises_in_a_library, KernelError, "the kernel raised TypeError: 3 is not a callable object$"),
    (stop_iteration, KernelError, "the kernel raised RuntimeError: coroutine raised StopIteration$"),
    (unknown_dtype, InputError, "dtype 'float17' is not an element type"),
    (a_list_for_a_view, OperandError, r"fill\(dst, value\): dst is a view, not \[1, 2, 3\]$"),
    (forgotten_and_raised, KernelError, "the kernel raised ValueError: before it was awaited: False$"),
    (forgotten_load_as_an_operand, AwaitError, UNAWAITED.format("load")),
    (forgotten_load_as_an_index, AwaitError, UNAWAITED.format("load")),
    (forgotten_load_in_arithmetic, AwaitError, UNAWAITED.format("load")),
    (forgotten_load_in_a_loop, AwaitError, UNAWAITED.format("load_array")),
    (forgotten_load_with_an_attribute, AwaitError, UNAWAITED.format("load_array")),
    (raises_without_a_text, KernelError, "the kernel raised AssertionError$"),
    (changes_the_board, KernelError, "the kernel raised FrozenInstanceError: cannot assign to field 'clock_hz'$"),
    (stores_a_text, OperandError, "store with '1': the value must be a number, not str$"),
    (
        stores_a_view,
        OperandError,
        r"store with <view .*>: the value must be a number, not View; core\.memcpy\(dst, src\) copies a view$",
    ),
    (stores_none, OperandError, "store with None: the value must be a number, not NoneType$"),
    (stores_a_number_too_large, OperandError, r"store with 1000+\.\.\.: float32 cannot represent it$"),
    (stores_an_array_of_texts, OperandError, r"store_array of \['1'\] to .*: the elements must be real numbers$"),
    (endless_scalar, OperationLimitError, LIMIT),
    (endless_awaiting, OperationLimitError, LIMIT),
    (endless_and_deaf, OperationLimitError, LIMIT),
]
COROUTINES = [
    (forgotten_helper, "helper"),
    (kept_helper, "helper"),
    (forgotten_inner, "inner"),
    (forgotten_attribute, "first"),
    (forgotten_method, "load"),
    (forgotten_value, "helper"),
    (replaced_helper, "helper"),
    (forgotten_before_an_error, "helper"),
    (forgotten_and_caught, "helper"),
]
