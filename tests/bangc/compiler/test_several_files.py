"""Programs of several files: each has its own functions and arrays of the board."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc import debug_lines
from mlusim.bangc.compiler import toolchain
from mlusim.bangc.compiler.linking import link_text
from mlusim.bangc.host.program import run_program
from mlusim.errors import CompileError

# Prints what two files have made of 64 numbers 0.
MAIN = """
#include <bang.h>
void run_a(cnrtQueue_t, float *);
void run_b(cnrtQueue_t, float *);
int main() {
  float numbers[64] = {}, *on_board;
  cnrtQueue_t queue;
  CNRT_CHECK(cnrtQueueCreate(&queue));
  CNRT_CHECK(cnrtMalloc((void **)&on_board, sizeof numbers));
  CNRT_CHECK(cnrtMemcpy(on_board, numbers, sizeof numbers, cnrtMemcpyHostToDev));
  run_a(queue, on_board);
  run_b(queue, on_board);
  CNRT_CHECK(cnrtQueueSync(queue));
  CNRT_CHECK(cnrtMemcpy(numbers, on_board, sizeof numbers, cnrtMemcpyDevToHost));
  CNRT_CHECK(cnrtFree(on_board));
  CNRT_CHECK(cnrtQueueDestroy(queue));
  printf("%g %g\\n", numbers[0], numbers[63]);
}
"""
KERNEL = """
__mlu_entry__ void kernel_LETTER(float *x) {
  if (__is_mpu()) return;
  DECLARED
  float *tile = (float *)buffer;
  __memcpy(tile, x, 64 * sizeof(float), GDRAM2NRAM);
  CALLED
  __memcpy(x, tile, 64 * sizeof(float), NRAM2GDRAM);
}
void run_LETTER(cnrtQueue_t queue, float *x) { kernel_LETTER<<<dim3(1), cnrtFuncTypeBlock, queue>>>(x); }
"""


def _file(folder: Path, letter: str, before: str, *, declared: str = "__nram__ float buffer[64];", called: str) -> Path:
    path = folder / f"{letter}.mlu"
    kernel = KERNEL.replace("LETTER", letter).replace("DECLARED", declared).replace("CALLED", called)
    path.write_text(f"#include <bang.h>\n{before}{kernel}")
    return path


def _run(folder: Path, *files: Path, compiler: str | None = None) -> Device:
    main = folder / "main.cpp"
    main.write_text(MAIN)
    device = Device()
    assert run_program(bangc.compile(main, device, sources=files, compiler=compiler), device) == 0
    device.verify().check()
    return device


@pytest.mark.parametrize("word", ["", "static "])
@pytest.mark.grid(4)
def test_each_file_may_fill_the_nram_with_an_array_of_one_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], word: str
) -> None:
    array = f"{word}__nram__ char buffer[__MLU_NRAM_SIZE__ * 1024 - 4096];\n"
    called = "__bang_add_scalar(tile, tile, {}, 64);"
    files = [_file(tmp_path, x, array, declared="", called=called.format(n)) for x, n in (("a", 1), ("b", 10))]
    _run(tmp_path, *files)
    assert capfd.readouterr().out == "11 11\n"


@pytest.mark.slow
def test_functions_of_one_name_are_those_of_their_files(
    tmp_path: Path, compiler: str, capfd: pytest.CaptureFixture[str]
) -> None:
    functions = """
template <typename T> __mlu_func__ void add(T *tile, T more);
template <typename T> __mlu_func__ __attribute__((noinline)) void add(T *tile, T more) {
  for (T n = 0; n < T(FACTOR); n += T(1)) __bang_add_scalar(tile, tile, more, 64);
}
template <> __mlu_func__ __attribute__((noinline)) void add<half>(half *tile, half) {
  __bang_add_scalar((float *)tile, (float *)tile, 10 * FACTOR, 64);
}
namespace inner {
__mlu_func__ inline __attribute__((noinline)) void hundreds(float *tile) {
  for (int n = 0; n < FACTOR; ++n) __bang_add_scalar(tile, tile, 100, 64);
}
__mlu_vector__ __mlu_func__ void thousands(float *tile) { __bang_add_scalar(tile, tile, 1000 * FACTOR, 64); }
}
"""
    called = "add(tile, 1.0f); add((half *)tile, half(0)); inner::hundreds(tile); inner::thousands(tile);"
    files = [
        _file(tmp_path, letter, functions.replace("FACTOR", factor), called=called)
        for letter, factor in (("a", "1"), ("b", "2"))
    ]
    _run(tmp_path, *files, compiler=compiler)
    assert capfd.readouterr().out == "3333 3333\n"


@pytest.mark.parametrize("name", ["add", "__mluop_add"])
@pytest.mark.grid(4)
def test_a_function_that_one_file_only_declares_is_that_of_the_other(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "common.h").write_text(f"__mlu_func__ void {name}(float *tile, float more);\n")
    shared = '#include "common.h"\n'
    body = f"__mlu_func__ void {name}(float *tile, float more) {{ __bang_add_scalar(tile, tile, more, 64); }}\n"
    files = [
        _file(tmp_path, "a", shared, called=f"{name}(tile, 1);"),
        _file(tmp_path, "b", shared + body, called=f"{name}(tile, 10);"),
    ]
    _run(tmp_path, *files)
    assert capfd.readouterr().out == "11 11\n"


def test_a_function_of_the_host_that_two_files_define_is_named_with_both_lines(tmp_path: Path, compiler: str) -> None:
    twice = "int rows() { return 1; }\n"
    files = [_file(tmp_path, letter, twice, called="") for letter in "ab"]
    where = r", at \S*a\.mlu:2 and at \S*b\.mlu:2"
    rule = re.escape(": make it static or inline, or define it in one file and declare it in the other")
    with pytest.raises(CompileError, match=rf"^rows\(\) is defined in two files{where}{rule}$"):
        _run(tmp_path, *files, compiler=compiler)


def test_a_change_of_one_file_compiles_only_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    run = toolchain.run

    def counted(command: list[str], text: str | None = None) -> object:
        if "-c" in command and any("kernel" in word for word in command):
            compiled.append(command[-1])
        return run(command, text)

    monkeypatch.setattr(toolchain, "run", counted)
    files = [_file(tmp_path, letter, "", called="__bang_relu(tile, tile, 64);") for letter in "ab"]
    _run(tmp_path, *files)
    assert len(compiled) == 3
    _file(tmp_path, "b", "", called="__bang_abs(tile, tile, 64);")
    _run(tmp_path, *files)
    assert len(compiled) == 4


def test_only_the_lines_of_files_that_are_asked_for_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    rows = debug_lines._rows

    def counted(program: object, names: dict[int, str]) -> list[tuple[int, str, int]]:
        read.append(program)
        return rows(program, names)

    monkeypatch.setattr(debug_lines, "_rows", counted)
    a, b = (_file(tmp_path, letter, "", called="__bang_relu(tile, tile, 64);") for letter in "ab")
    module = bangc.compile(a, sources=[b])
    place = module.line_of(module.point("kernel_b").function)
    assert place is not None
    assert place[:2] == (str(b), 3)
    assert len(read) == 1


def test_a_linker_without_wrap_is_named_with_the_remedy():
    text = link_text("error: unsupported linker arg: --wrap\n")
    assert re.fullmatch(r"the files do not link; .* \(pip install 'ziglang>=0\.17'\):\nerror: unsupp.*--wrap", text)
