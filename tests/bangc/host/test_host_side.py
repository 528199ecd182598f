"""Programs whose code differs for the host, where `__BANG_ARCH__` is not defined."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc.host.program import run_program
from mlusim.bangc.survey import survey
from mlusim.errors import CompileError, InputError

FILE = Path(__file__).parents[1] / "kernels" / "host_side.mlu"


@pytest.mark.slow
def test_what_only_the_host_compiles_runs(capsys: pytest.CaptureFixture[str]) -> None:
    module, device = bangc.compile(FILE), Device()
    assert module.has_main
    assert run_program(module, device) == 0
    # The third launch of `count`, scaled by 6.
    assert capsys.readouterr().out == f"host: {' '.join(str(6 * value) for value in (3, 1, 2, 3, 4))}\n"
    both = ["count", "scale<int>", "scale"]
    assert [launch.kernel for launch in device.log.launches] == [*both, "count", *both]
    device.verify().check()


@pytest.mark.slow
def test_a_template_that_only_the_host_instantiates_has_no_code_on_the_board() -> None:
    module = bangc.compile(FILE, define=["ONLY_HERE"])
    rule = r"main, host_side\.mlu:60: scale<float><<<\.\.\.>>>: only host code instantiates or defines it, .* move the "
    with pytest.raises(InputError, match=rule + r"launch, or the kernel, out of `#ifndef __BANG_ARCH__`"):
        run_program(module, Device())


@pytest.mark.slow
def test_an_error_of_the_host_side_says_so() -> None:
    module = bangc.compile(FILE, define=["WRONG"])
    with pytest.raises(
        CompileError, match=r"(?s)in host code, where __BANG_ARCH__ is not defined, host_side\.mlu does.*#ifdef __BANG"
    ):
        run_program(module, Device())


def test_a_file_without_such_code_is_compiled_once() -> None:
    module = bangc.compile(FILE.with_name("program.mlu"))
    assert module.host is module


def test_check_knows_a_main_of_the_host_side() -> None:
    (file,) = survey([FILE], "mlu370-x4")
    assert file.compiles
    assert file.has_main
