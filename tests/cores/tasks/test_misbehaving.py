"""Faulty kernels: each is a clear error with the file and line of the kernel, in a script as in a test.

They run here, where warnings are errors, and again as a separate script, where they are not.
"""

from __future__ import annotations

import gc
import inspect
import os
import re
import subprocess
import sys
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import mlusim
from kernel_lines import at
from kernel_runs import run_alone
from misbehaving_kernels import (
    CASES,
    COROUTINES,
    Foreign,
    Stages,
    Steps,
    calls_a_forgetful_helper,
    forgotten_helper,
    forgotten_load,
    helper,
    kept_helper,
    raises_in_numpy,
    zero_division,
)
from misnaming_kernels import MISNAMED
from mlusim.cores.core import Core
from mlusim.errors import (
    AwaitError,
    KernelError,
    MlusimError,
)
from mlusim.host.device import Device


@pytest.mark.parametrize(
    ("kernel", "error", "message"), [*CASES, *MISNAMED], ids=lambda item: getattr(item, "__name__", "")
)
def test_the_error_names_the_line_in_a_test(kernel: Any, error: type[MlusimError], message: str) -> None:
    place = rf"^task 0 \(cluster 0, core 0\), {re.escape(at(kernel, '# named'))}, at [\d .]+ ns: "
    with pytest.raises(error, match=place + message):
        run_alone(kernel)


@pytest.mark.parametrize(("kernel", "name"), COROUTINES, ids=lambda item: getattr(item, "__name__", ""))
def test_a_coroutine_that_is_never_awaited_is_an_error(kernel: Any, name: str) -> None:
    message = f"{at(kernel, '# named')}: `{name}(...)` was never awaited, so it never ran: write `await {name}(...)`"
    with pytest.raises(AwaitError, match=f"^{re.escape(message)}$"):
        run_alone(kernel)


def test_a_forgotten_await_in_a_helper_is_reported_there() -> None:
    with pytest.raises(AwaitError, match=rf"{at(forgotten_helper, '# named')}: `helper\(\.\.\.\)` was never awaited"):
        run_alone(calls_a_forgetful_helper)


def test_a_coroutine_in_a_cycle_of_an_earlier_run_is_no_error_of_the_next() -> None:
    async def helper(core: Core) -> None:
        await core.sync()

    async def kernel(core: Core, *, faulty: bool) -> None:
        if faulty:
            cycle: list[Any] = [helper(core)]
            cycle.append(cycle)
        else:
            gc.collect()

    # A collection between the runs would find the cycle first.
    gc.disable()
    try:
        run_alone(partial(kernel, faulty=True))
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            run_alone(partial(kernel, faulty=False))
    finally:
        gc.enable()


def test_right_and_faulty_kernels_run_in_two_threads() -> None:
    """Threads share no state that could mix up their errors."""

    async def right(core: Core) -> None:
        await helper(core)

    shown = warnings.showwarning

    def outcome(kernel: Any) -> str:
        try:
            run_alone(kernel)
        except AwaitError:
            return "forgetful"
        return "right"

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, [right, kept_helper, forgotten_load] * 8))
    assert outcomes == ["right", "forgetful", "forgetful"] * 8
    assert warnings.showwarning is shown


def test_the_error_names_the_line_in_a_script(tmp_path: Path) -> None:
    """All of them in one script: file, line and message are the same without pytest and with default warnings."""
    source = [
        "import asyncio",
        "import inspect",
        "from contextlib import suppress",
        "import sys",
        "import mlusim.host.device",
        "from mlusim.errors import *",
        "",
    ]
    kernels = [kernel for kernel, *_ in (*CASES, *MISNAMED)] + [kernel for kernel, _ in COROUTINES]
    lines: dict[str, int] = {}
    needed = (Foreign, Steps, Stages, helper)
    pieces = [*((piece, None) for piece in needed), *((kernel, kernel.__name__) for kernel in kernels)]
    for piece, name in pieces:
        text = textwrap.dedent(inspect.getsource(piece)).replace(": Core", "")
        for number, line in enumerate(text.splitlines()):
            if name and line.endswith("# named"):
                lines[name] = len(source) + number + 1
        source += [*text.replace("Any", "object").splitlines(), ""]
    source += [
        f"for kernel in ({', '.join(kernel.__name__ for kernel in kernels)}):",
        "    device = mlusim.host.device.Device(max_operations=1000)",
        "    try:",
        "        device.launch(kernel, dim=1, kind='BLOCK')",
        "        device.synchronize()",
        "    except MlusimError as error:",
        "        print(kernel.__name__, '|', error)",
    ]
    script = tmp_path / "my_kernels.py"
    script.write_text("\n".join(source), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(mlusim.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 0
    said = dict(line.split(" | ", 1) for line in done.stdout.splitlines())
    for kernel, _, message in (*CASES, *MISNAMED):
        place = rf"^task 0 \(cluster 0, core 0\), my_kernels\.py:{lines[kernel.__name__]}, at [\d .]+ ns: "
        assert re.search(place + message, said[kernel.__name__]), said[kernel.__name__]
    for kernel, name in COROUTINES:
        assert said[kernel.__name__].startswith(
            f"my_kernels.py:{lines[kernel.__name__]}: `{name}(...)` was never awaited, so it never ran"
        )


def test_the_original_exception_is_the_cause() -> None:
    with pytest.raises(KernelError) as caught:
        run_alone(zero_division)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.message == "the kernel raised ZeroDivisionError: division by zero"
    assert caught.value.location.startswith("task 0 (cluster 0, core 0), ")
    # The fields are in `args`: SimPy may raise an error again as type(error)(*error.args).
    again = type(caught.value)(*caught.value.args)
    assert str(again) == str(caught.value)


def test_numpys_own_frames_are_not_the_kernels() -> None:
    line = inspect.getsourcelines(raises_in_numpy)[1] + 1
    with pytest.raises(
        KernelError, match=rf", misbehaving_kernels.py:{line}, at .* ns: the kernel raised ValueError: all the inp"
    ):
        run_alone(raises_in_numpy)


def test_the_limit_is_per_task() -> None:
    async def many(core: Core) -> None:
        for _ in range(1000):
            core.scalar(1)

    assert len(run_alone(many).log) == 1000
    device = Device(max_operations=1000)
    device.launch(many, dim=8, kind="BLOCK")
    device.synchronize()
    assert len(device.log) == 8000


def without_lines(kernel: Any) -> Any:
    """Return a kernel whose instructions have no lines, as some have that Python adds or a program generates."""
    code = kernel.__code__
    instructions = len(code.co_code) // 2
    # Entries of up to 8 instructions without a location (CPython, Objects/locations.md).
    table = bytes(0xF8 | (min(instructions - first, 8) - 1) for first in range(0, instructions, 8))
    return FunctionType(code.replace(co_linetable=table), kernel.__globals__, kernel.__name__)


def test_instructions_without_a_line_have_that_of_their_function() -> None:
    async def raises(core: Core) -> None:
        await core.load(core.nram.alloc(1, "int32")[0])
        raise ValueError("its own")

    async def is_endless(core: Core) -> None:
        buffer = core.nram.alloc(32, "float32")
        while True:
            core.fill(buffer, 1)

    for kernel, message in ((raises, "the kernel raised ValueError: its own"), (is_endless, "1 ?000 operations")):
        place = f"^task 0 .*, {Path(__file__).name}:{kernel.__code__.co_firstlineno}, at .*{message}"
        with pytest.raises(KernelError, match=place):
            run_alone(without_lines(kernel))
