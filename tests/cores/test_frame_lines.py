"""Numbers of the lines that call an instruction, and the calls of helper functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

import mlusim
from kernel_lines import line_of
from mlusim.cores.core import Core
from mlusim.cores.frame_lines import FrameLines
from mlusim.log import Log
from mlusim.memory.view import View


def test_a_line_has_one_number() -> None:
    log = Log("board")
    lines, numbers = FrameLines(log), []
    for _ in range(2):
        numbers.append(lines.number(inspect.currentframe()))
        numbers.append(lines.number(inspect.currentframe()))
    assert numbers[0] == numbers[2] != numbers[1] == numbers[3]
    file, line, function = log.lines[numbers[1]]
    assert (file, function) == (__file__, "test_a_line_has_one_number")
    assert line == log.lines[numbers[0]][1] + 1


def test_the_calls_of_helper_functions_and_lambdas_are_recorded() -> None:
    def store(core: Core, out: View, tile: View) -> None:
        core.memcpy_async(out, tile)

    async def kernel(core: Core, out: View) -> None:
        tile = core.nram.alloc(8, np.float32)
        stages = [lambda: core.write_zero(tile), lambda: store(core, out, tile)]
        for stage in stages:
            stage()
            await core.sync()
        store(core, out, tile)
        await core.sync()

    log = mlusim.run(kernel, mlusim.Output(8), kind="BLOCK", dim=1).log

    def at(function: Callable[..., Any], text: str) -> tuple[str, int]:
        return __file__, line_of(function, text)

    lambdas = at(kernel, "stages = ")
    assert log.lambdas == {lambdas}
    assert log.calls == {
        lambdas: {at(kernel, " stage()")},
        at(store, "memcpy_async"): {lambdas, at(kernel, "        store(core, out, tile)\n")},
    }
