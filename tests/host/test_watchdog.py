"""The watchdog stops kernels that issue nothing, but not slow ones, nor those that a debugger has stopped."""

from __future__ import annotations

import gc
import inspect
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kernel_runs import run_alone
from mlusim.cores.core import Core
from mlusim.errors import OperationLimitError

FILE = Path(__file__).name


async def endless_pass(core: Core) -> None:
    while True:
        pass  # this very line


async def endless_pass_deaf(core: Core) -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            pass


async def endless_refusals(core: Core) -> None:
    while True:
        try:
            core.nram.alloc(10**9, "float32")
        except BaseException:
            pass


async def endless_refusals_deep_down(core: Core) -> None:
    def inner() -> None:
        while True:
            try:
                core.nram.alloc(10**9, "float32")
            except:
                pass

    while True:
        try:
            inner()
        except:
            pass


async def slow_but_sound(core: Core) -> None:
    for _ in range(5):
        time.sleep(0.2)
        core.scalar(1)


@pytest.mark.parametrize("kernel", [endless_pass, endless_pass_deaf])
@pytest.mark.grid(2)
def test_a_loop_that_issues_nothing(kernel: Any) -> None:
    first = inspect.getsourcelines(kernel)[1]
    with pytest.raises(OperationLimitError) as caught:
        run_alone(kernel, stall_s=0.2)
    place, line = re.match(
        rf"^task 0 \(cluster 0, core 0\), ({re.escape(FILE)}):(\d+), at [\d .]+ ns: ", str(caught.value)
    ).groups()
    assert place == FILE
    assert first < int(line) <= first + 6
    assert caught.value.message == (
        "no operation issued for 0.2 s: a loop that neither issues nor awaits anything? If the kernel's own Python "
        "needs more time, raise stall_s"
    )


# In Python 3.11, an error ends nested loops only where it meets neither handler: after half a minute at worst.
@pytest.mark.parametrize("kernel", [endless_refusals, pytest.param(endless_refusals_deep_down, marks=pytest.mark.slow)])
def test_a_loop_that_catches_everything(kernel: Any) -> None:
    traced = sys.gettrace()
    # The error may arrive in any Python code: in what the garbage collector calls, it would only be a warning.
    gc.collect()
    gc.disable()
    try:
        with pytest.raises(OperationLimitError, match=r"no operation issued for 0\.2 s: a loop"):
            run_alone(kernel, stall_s=0.2)
    finally:
        gc.enable()
    assert sys.gettrace() is traced


@pytest.mark.parametrize("follower", ["sys.setprofile", "sys.settrace"])
@pytest.mark.grid(2)
def test_runs_under_a_profiler_and_under_coverage(follower: str) -> None:
    program = f"import sys, mlusim.ops; {follower}(lambda *_: None); print(mlusim.ops.flip([1, 2], 0).output)"
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert done.stdout == "[2 1]\n"


def test_a_slow_kernel_is_not_endless() -> None:
    assert len(run_alone(slow_but_sound, stall_s=0.75).log) == 5


@pytest.mark.parametrize("debugger", ["pdb", "pydevd", "code", "IPython"])
@pytest.mark.grid(2)
def test_a_kernel_may_be_paused_in_a_debugger_or_at_a_prompt(debugger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The pause is three times the limit, as the watchdog counts time: in its periods.
    monkeypatch.setattr("mlusim.host.watchdog._PERIOD_S", 0.05)
    # A module of that name on the stack is what a debugger looks like from another thread.
    names = {"__name__": debugger, "time": time}
    exec("def wait():\n    time.sleep(0.6)\n", names)

    async def held(core: Core) -> None:
        names["wait"]()
        core.scalar(1)

    assert len(run_alone(held, stall_s=0.2).log) == 1


def test_a_loop_in_a_notebook_is_stopped() -> None:
    # A kernel that is run in a notebook or in `python -m pdb` has their functions below it on the stack.
    names = {"__name__": "IPython", "run": lambda: run_alone(endless_pass, stall_s=0.2)}
    exec("def cell():\n    run()\n", names)
    with pytest.raises(OperationLimitError, match=r"no operation issued for 0\.2 s: a loop"):
        names["cell"]()
