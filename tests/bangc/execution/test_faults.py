"""Faults of a compiled kernel are errors at their C++ line, and the interpreter survives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc.compiler.compiler_messages import compiler_text
from mlusim.bangc.execution import faults
from mlusim.errors import (
    AccessError,
    AllocationError,
    CompileError,
    InputError,
    KernelError,
    LaunchError,
    OperationLimitError,
)

FILE = Path(__file__).parents[1] / "kernels" / "faults.mlu"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(FILE)


@pytest.mark.parametrize(
    ("name", "arguments", "error", "message"),
    [
        (
            "wild",
            (),
            AccessError,
            r"faults\.mlu:9, .*plain C\+\+ writes 4 B: address 0x.*after the end of out \(256 B",
        ),
        (
            "before",
            (),
            AccessError,
            r"faults\.mlu:\d+, .*address 0x.*: 64 B before the start of out \(256 B\), if it is not an address",
        ),
        ("null", (None,), AccessError, r"faults\.mlu:14, .*reads 4 B: address 0xc is a null pointer"),
        ("beyond", (), AccessError, r"faults\.mlu:19, .*\[65\] elements of float32 at byte 0 of tile, which has 256 B"),
        ("local", (), AccessError, r"faults\.mlu:25, .*of a local variable .*: instructions take arrays with"),
        (
            "constant",
            (),
            AccessError,
            r"faults\.mlu:149, .*without a memory space: instructions take arrays .*, and without constexpr$",
        ),
        ("overflow", (), AccessError, r"faults\.mlu:3\d, .*stack overflow: the kernel has a stack of 1 048 576 B"),
        ("large", (7,), AccessError, r"faults\.mlu:\d+, .*stack overflow: the kernel has a stack of 1 048 576 B"),
        ("divide", (0,), KernelError, r"faults\.mlu:46, .*division by zero"),
        (
            "other_memory",
            (),
            KernelError,
            r"faults\.mlu:156, .*calls __load_nram with an address in GDRAM: pass one in NRAM",
        ),
        ("stops", (), KernelError, r"faults\.mlu:58, .*the kernel called abort\(\)"),
        ("asserts", (2,), KernelError, r"faults\.mlu:63, .*assertion failed: n > 3"),
        (
            "strange",
            (),
            KernelError,
            r"faults\.mlu:69, .*__bang_write_valeu is not simulated: did you mean __bang_write_value\?",
        ),
        (
            "neighbour",
            (32,),
            AccessError,
            r"faults\.mlu:94, .*writes 4 B at byte 128 of first \(NRAM\), which has 128 B; check",
        ),
        ("neighbour", (-1,), AccessError, r"faults\.mlu:94, .*writes 4 B, 4 B before first \(NRAM\)"),
        ("staging", (64,), AccessError, r"faults\.mlu:97, .*writes 4 B at byte 256 of staged \(SRAM\)"),
        ("grows", (8,), KernelError, r"faults\.mlu:108, .*calls operator new: a kernel has no heap"),
        ("least", (None,), AccessError, r"faults\.mlu:116, .*plain C\+\+ reads 4 B at byte 256 of out"),
        ("library", (33,), AccessError, r"faults\.mlu:122, .*writes 4 B at byte 128 of first \(NRAM\)"),
        ("calls_null", (1,), AccessError, r"faults\.mlu:128, .*jumped to address 0x0"),
        ("throws", (1,), KernelError, r"faults\.mlu:131, .*throws an exception: kernels have none"),
        ("heap", (), KernelError, r"faults\.mlu:80, .*calls operator new\[\]: a kernel has no heap"),
    ],
)
def test_a_fault_is_an_error_at_its_line(
    module: bangc.Module, name: str, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    device = Device()
    dtype = "int32" if name in ("overflow", "divide", "stops", "asserts") else "float32"
    device.launch(module[name], device.alloc(64, dtype, "out"), *arguments, dim=4)
    with pytest.raises(error, match=message):
        device.synchronize()


def test_an_input_is_not_written(module: bangc.Module) -> None:
    device, x = Device(), np.zeros(4, np.float32)
    device.launch(module["input"], device.upload(x, "x"), dim=4)
    with pytest.raises(AccessError, match=r"faults\.mlu:30, .*plain C\+\+ writes x, which is an input"):
        device.synchronize()
    assert not x.any()


def test_an_access_outside_a_local_array_is_found_by_checks(module: bangc.Module) -> None:
    if not module.options.compiler.gnu:
        pytest.skip("only g++ has these checks")
    wrong = module["outside"], mlusim.Output(1), 4
    message = r"(reads|writes) 'float' outside the array or variable: index 4 of 'float \[4\]'"
    with pytest.raises(AccessError, match=r"faults\.mlu:\d+, .*" + message):
        mlusim.run(*wrong, dim=1, kind="BLOCK", check=True)
    (finding,) = mlusim.verify(*wrong, dim=1, kind="BLOCK").errors
    assert re.search(message, finding.title)
    # An index beyond a row that lies in the next one is no error. The checks take no simulated time.
    right = module["outside"], mlusim.Output(1), 3
    results = [
        mlusim.run(*right, dim=1, kind="BLOCK"),
        mlusim.run(*right, dim=1, kind="BLOCK", check=True),
        mlusim.verify(*right, dim=1, kind="BLOCK").result,
    ]
    assert len({result.time_ps for result in results}) == 1


def test_a_loop_without_end_is_stopped(module: bangc.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "KERNEL_LIMIT_S", 1)
    with pytest.raises(OperationLimitError, match=r"faults\.mlu:5[12], .*an endless loop\?"):
        mlusim.run(module["endless"], mlusim.Output(4, "int32"), dim=4)


def test_a_kernel_prints_to_the_terminal(module: bangc.Module, capsys: pytest.CaptureFixture[str]) -> None:
    device = Device()
    device.launch(module["says"], 5, dim=4)
    device.synchronize()
    assert capsys.readouterr().out == "task 2 says 5\nand more\n"


def test_compile_errors_are_shown_at_the_users_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.mlu"
    file.write_text(
        "#include <bang.h>\n\n__mlu_entry__ void kernel(float *x) {\n    __nram__ float t[64];\n"
        "    __bang_add(t, t, t);\n    x[0] = nothing;\n}\n"
    )
    with pytest.raises(CompileError, match=r"(?s)wrong\.mlu does not compile.*wrong\.mlu:6:.*nothing") as raised:
        bangc.compile(file)
    assert re.search(r"wrong\.mlu:5:.*\n(.*\n)?note: __bang_add takes 4 arguments", str(raised.value))
    assert "mlusim_" not in str(raised.value)


def test_an_argument_of_the_wrong_kind_is_named(module: bangc.Module) -> None:
    wrong = {
        r"divide: by is int32, which does not hold 1\.5": ("int32", 1.5),
        r"divide: out points to int32 and the tensor has float32; convert it on the host": ("float32", 1),
        r"divide: by is a number, int32, and not <view": ("int32", None),
    }
    for message, (dtype, by) in wrong.items():
        device = Device()
        given = device.alloc(4, "int32") if by is None else by
        device.launch(module["divide"], device.alloc(4, dtype), given, dim=4)
        with pytest.raises(KernelError, match=message):
            device.synchronize()
    device = Device()
    device.launch(module["divide"], device.alloc(4, "uint32"), 1, dim=4)
    device.synchronize()
    with pytest.raises(LaunchError, match=r"divide\(core, /, out: int32 \*, by: int32\) was launched with 3 arguments"):
        device.launch(module["divide"], device.alloc(4, "int32"), 1, 2, dim=4)


def test_a_missing_file_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"nowhere\.mlu: no such file"):
        bangc.compile("nowhere.mlu")


def test_the_c_library_s_copies_are_scalar_accesses(module: bangc.Module) -> None:
    device = Device()
    out = device.alloc(32, "float32", "out")
    device.launch(module["library"], out, 32, dim=1, kind="BLOCK")
    device.synchronize()
    assert not device.download(out).any()
    written = [finding for finding in device.verify().errors if finding.kind == "never-written"]
    assert not written
    assert "store_array" in device.verify().text()


def test_a_pointer_in_the_place_of_a_number_is_an_error_with_the_order_of_arguments(tmp_path: Path) -> None:
    file = tmp_path / "swapped.mlu"
    file.write_text(
        "__mlu_entry__ void kernel(float *out) {\n"
        "  __nram__ float a[64], b[64];\n"
        "  __bang_write_value(b, 64, 1.0f);\n"
        "  __bang_add(64, a, b, b);\n"
        "  __memcpy(out, a, sizeof(a), NRAM2GDRAM);\n"
        "}\n"
    )
    message = r"swapped\.mlu:4: error: .*argument 4, n, is a number, .* \(dst, src0, src1, n\)"
    with pytest.raises(CompileError, match=message):
        bangc.compile(file)


def test_a_missing_semicolon_after_an_array_is_one_error_in_the_users_words(tmp_path: Path) -> None:
    source = tmp_path / "wrong.mlu"
    source.write_text(
        "__mlu_entry__ void kernel(float *out) {\n  __nram__ float a[64]\n  a[0] = 1;\n  out[0] = a[0];\n}\n"
    )
    with pytest.raises(CompileError, match=r"(?s)wrong\.mlu does not compile.*wrong\.mlu:[23]:\d+: error: ") as raised:
        bangc.compile(source)
    assert "mlusim_" not in str(raised.value)


def test_lines_of_the_rewritten_text_are_quoted_as_the_user_wrote_them(tmp_path: Path) -> None:
    source = tmp_path / "wrong.mlu"
    source.write_text("__nram__ float a[N];\n\twrong = 1;\n")
    quoted = (
        f"{source}:1:9: error: expected ';'\n"
        "    1 |   static float mlusim_i1 [64]; typedef decltype(mlusim_i1) mlusim_t1;\n"
        "      |         ^\n"
        f"{source}:2:3: error: use of undeclared identifier 'wrong'\n"
        "    2 |  wrong = 1;\n"
        "      |  ^~~~~\n"
    )
    assert compiler_text(quoted, source) == (
        "wrong.mlu does not compile:\n"
        f"{source}:1:9: error: expected ';'\n"
        "    1 | __nram__ float a[N];\n"
        f"{source}:2:3: error: use of undeclared identifier 'wrong'\n"
        "    2 |  wrong = 1;\n"
        "      |  ^~~~~"
    )


@pytest.mark.parametrize("line", ["float *y = __nram__;", "__nram__ float;", "__nram__ float, a[4];", "__nram__ = 3;"])
@pytest.mark.grid(2)
def test_a_memory_without_a_variable_is_the_compilers_error(tmp_path: Path, line: str) -> None:
    source = tmp_path / "nameless.mlu"
    source.write_text(f"__mlu_entry__ void kernel(float *x) {{\n  {line}\n  x[0] = y;\n}}\n")
    with pytest.raises(CompileError, match=r"nameless\.mlu:[23]:\d+: error: "):
        bangc.compile(source)


@pytest.mark.parametrize("name", ["pass", "lambda", "in", "None"])
@pytest.mark.grid(2)
def test_names_may_be_keywords_of_python(name: str, tmp_path: Path) -> None:
    """Of an entry, and of an array that does not fit."""
    file = tmp_path / "keyword.mlu"
    file.write_text(
        f"#include <bang.h>\n__mlu_entry__ void {name}(float *y, int n) {{\n  if (n) {{ y[0] = n; return; }}\n"
        f"  __nram__ float lambda[500000];\n  __bang_write_zero(lambda, 64);\n}}\n"
    )
    kernel = bangc.compile(file)[name]
    assert mlusim.run(kernel, mlusim.Output(1), 3, dim=1, kind="BLOCK").output.tolist() == [3]
    with pytest.raises(AllocationError, match=r"keyword\.mlu:4, at .*lambda .*takes 2 000 000 B.*make it smaller"):
        mlusim.run(kernel, mlusim.Output(1), 0, dim=1, kind="BLOCK")


def test_an_operand_before_an_array_is_located_by_the_array(tmp_path: Path) -> None:
    file = tmp_path / "before.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(float *y) {\n  __nram__ float a[64];\n"
        "  __bang_add(a, a - 4, a, 32);\n}\n"
    )
    with pytest.raises(
        AccessError, match=r"before\.mlu:4, at .*: address 0x\w+, 16 B before a \(NRAM\); check the ind"
    ):
        mlusim.run(bangc.compile(file)["k"], mlusim.Output(1), dim=1, kind="BLOCK")


def test_a_wild_index_that_nothing_wrote_is_told_by_its_cause(tmp_path: Path) -> None:
    """The kernel has not caught the error of the access, although it waits for its stores before it ends."""
    file = tmp_path / "wild.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(const int *x, const int *at, int *y) {\n"
        "  if (__is_mpu()) return;\n  int v = at[1];\n  y[0] = x[v];\n}\n"
    )
    device = Device()
    at = device.alloc(16, "int32", workspace=True)
    device.launch(bangc.compile(file)["k"], device.upload(np.ones(4, "int32")), at, device.alloc(1, "int32"))
    with pytest.raises(AccessError, match=r"wild\.mlu:5, .*plain C\+\+ reads 4 B"):
        device.synchronize()
    (error,) = device.verify().errors
    assert error.title.startswith("load reads ")
    assert error.kind == "uninitialised"
