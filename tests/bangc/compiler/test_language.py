"""C++ around BANG C's keywords: the rewriter recognises them, in one file and in several."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output, bangc
from mlusim.bangc.host.program import run_program
from mlusim.errors import AccessError, CompileError, InputError, KernelError

KERNELS = Path(__file__).parents[1] / "kernels"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(KERNELS / "language.mlu", sources=[KERNELS / "language_helper.mlu"])


def test_a_program_of_two_files_runs(module: bangc.Module, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_program(module, Device()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["7 8", "1 66 9 0.5 4", "3"]
    assert lines[3:5] == [
        "name<<<dim, type>>>(x); __nram__ float y[3]; __bang_nothing(",
        'name<<<1, 2>>> "__nram__ float z[3]; ',
    ]
    assert lines[5] == f"{float(np.float16(0.1)):g} -2.5"
    assert lines[6] == "cnrtErrorNoMem 1 linked"


def test_an_extern_array_refers_to_its_defining_file(module: bangc.Module) -> None:
    reference = np.arange(4, dtype=np.int32)
    mlusim.verify(module["elsewhere"], Output(4, "int32"), dim=4, kind="BLOCK", reference=reference).check()


def test_overloaded_entries_are_distinguished(module: bangc.Module) -> None:
    assert module.entries == [
        "first::same",
        "scaled",
        "second::same",
        "typed(float *)",
        "typed(int *, int)",
        "filled<...>",
        "pointed",
        "elsewhere",
    ]
    device = Device()
    y = device.alloc(4, "int32")
    device.launch(module["typed(int *, int)"], y, 5, dim=1, kind="BLOCK")
    device.launch(module["second::same"], y, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(y).tolist()[1:3] == [66, 5]
    assert module["first::inner::scaled"].__name__ == "scaled"
    with pytest.raises(InputError, match=r"has no entry 'typed'; .*its entries: .*typed\(float \*\)"):
        module["typed"]


def test_arrays_with_a_memory_space_need_a_size(tmp_path: Path) -> None:
    file = tmp_path / "unsized.mlu"
    file.write_text("extern __mlu_shared__ char shared[];\n__mlu_entry__ void kernel(char *y) { y[0] = shared[0]; }\n")
    with pytest.raises(CompileError, match=r"unsized\.mlu:1: shared has no size: .*since no launch sets one; "):
        bangc.compile(file)
    file.write_text("__mlu_entry__ void kernel(char *y) {\n  __nram__ char tile[];\n  y[0] = sizeof(tile);\n}\n")
    with pytest.raises(CompileError, match=r"unsized\.mlu:2: tile has no size: declare it with one, as tile\[64\]"):
        bangc.compile(file)


@pytest.mark.slow
def test_an_entry_may_have_a_name_of_the_c_library(tmp_path: Path) -> None:
    file = tmp_path / "named.mlu"
    file.write_text("__mlu_entry__ void fdiv(float *y, float by) { if (!__is_mpu()) y[0] = y[0] / by; }\n")
    device = Device()
    y = device.upload(np.array([3], np.float32), writable=True)
    device.launch(bangc.compile(file)["fdiv"], y, 2.0, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(y).tolist() == [1.5]


@pytest.mark.slow
def test_a_launched_entry_may_overload_a_function_of_the_c_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "piped.mlu"
    file.write_text(
        "#include <unistd.h>\n"
        "__mlu_entry__ void pipe(float *y, int n) { if (!__is_mpu()) y[0] = n; }\n"
        "int main() {\n"
        "  float *y, value = 0;\n"
        "  cnrtMalloc((void **)&y, 4);\n"
        "  pipe<<<1, cnrtFuncTypeBlock, nullptr>>>(y, 7);\n"
        "  cnrtSyncDevice();\n"
        "  cnrtMemcpy(&value, y, 4, cnrtMemcpyDevToHost);\n"
        '  printf("%g\\n", value);\n'
        "}\n"
    )
    assert run_program(bangc.compile(file), Device()) == 0
    assert capsys.readouterr().out.splitlines()[0] == "7"


def test_a_call_of_an_undefined_function_is_an_error_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "alone.mlu"
    file.write_text('#include "language.h"\nint main() {\n  printf("%s\\n", helper());\n}\n')
    with pytest.raises(KernelError, match=r"alone\.mlu:3: main called helper\(\), which no file defines"):
        run_program(bangc.compile(file, include=[KERNELS]), Device())


@pytest.mark.parametrize("compiler", ["g++", pytest.param("ziglang", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize(
    ("kernel", "host", "message"),
    [
        ("y[0] = 1", "n > 9", r"alone\.mlu:5: main uses n, which no file defines: define it, without static, or name"),
        ("y[0] = other::table[2]", "0", r"alone\.mlu:4, .*address \w+ is that of other::table, which no file defines"),
    ],
)
def test_the_use_of_an_undefined_variable_is_an_error_at_its_line(
    compiler: str, kernel: str, host: str, message: str, tmp_path: Path
) -> None:
    """Files with undefined variables that nothing uses run."""
    file = tmp_path / "alone.mlu"
    program = (
        "#include <bang.h>\n#include <cnrt.h>\nnamespace other { extern float table[4]; }\n"
        "extern int n; int never() { return n; } __mlu_entry__ void k(float *y) { if (__is_ipu()) KERNEL; }\n"
        "int main() { if (HOST) return 1; float *y; cnrtMalloc((void **)&y, 4); "
        "k<<<1, cnrtFuncTypeBlock, nullptr>>>(y); cnrtSyncDevice(); return 0; }\n"
    )
    file.write_text(program.replace("KERNEL", "y[0] = 1").replace("HOST", "0"))
    assert run_program(bangc.compile(file, compiler=compiler), Device()) == 0
    file.write_text(program.replace("KERNEL", kernel).replace("HOST", host))
    with pytest.raises(AccessError, match=message):
        run_program(bangc.compile(file, compiler=compiler), Device())


@pytest.mark.parametrize("word", ["static __mlu_func__", "__mlu_func__ static inline"])
@pytest.mark.grid(2)
def test_a_specialisation_may_be_static(word: str, tmp_path: Path) -> None:
    file = tmp_path / "special.mlu"
    file.write_text(
        "#include <bang.h>\ntemplate <class T> static __mlu_func__ int f(T x) { return 1; }\n"
        f"template <> {word} int f<float>(float x) {{ return 2; }}\n"
        "__mlu_entry__ void k(int *y) { if (__is_ipu()) y[0] = f(1) + 10 * f(1.0f); }\n"
    )
    assert mlusim.run(bangc.compile(file)["k"], Output(1, "int32"), dim=1, kind="BLOCK").output == [21]


@pytest.mark.parametrize(
    ("word", "use", "defined"),
    [
        ("__mlu_const__", "y[0] = a[2]", ""),
        ("__mlu_device__", "__memcpy(t, a, 256, GDRAM2NRAM)", "static WORD float a[64];"),
        ("__nram__", "y[0] = a[2]", "namespace { WORD float a[64]; }"),
        ("__nram__", "__bang_write_zero(a, 64)", "static WORD float a[64];"),
    ],
)
@pytest.mark.grid(4)
def test_the_use_of_an_array_that_no_file_defines_is_an_error_at_its_line(
    word: str, use: str, defined: str, tmp_path: Path
) -> None:
    file = tmp_path / "extern.mlu"
    program = (
        f"#include <bang.h>\nextern {word} float a[64];\n"
        "__mlu_entry__ void k(float *y) { if (__is_mpu()) return; __nram__ float t[64];\n  y[1] = 1; USE; }\n"
    )
    file.write_text(program.replace("USE", "t[0] = 1"))
    assert mlusim.run(bangc.compile(file)["k"], Output(2), dim=1, kind="BLOCK").output[1] == 1
    file.write_text(program.replace("USE", use))
    # An array of another file that is static, or of a function or a namespace without a name, is none of this one's.
    other = tmp_path / "other.mlu"
    other.write_text(f"#include <bang.h>\n{defined.replace('WORD', word)}\n")
    message = r"extern\.mlu:4, .*it uses a, which no file defines: define it, without static, or name its"
    with pytest.raises(AccessError, match=message):
        mlusim.run(bangc.compile(file, sources=[other])["k"], Output(2), dim=1, kind="BLOCK")
    file.write_text(program.replace("USE", use).replace("\n__mlu_entry__", f" {word} float a[64];\n__mlu_entry__"))
    assert mlusim.run(bangc.compile(file)["k"], Output(2), dim=1, kind="BLOCK").output[1] == 1


@pytest.mark.slow
def test_static_initializers_that_fail_are_an_error_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "initial.mlu"
    file.write_text("struct Bad { Bad() { *(volatile int *)nullptr = 1; } } bad;\nint main() {}\n")
    with pytest.raises(CompileError, match=r"initial\.mlu: static initializers .* end with SIGSEGV"):
        bangc.compile(file)


def test_bounds_may_have_operators_of_two_signs() -> None:
    device = Device()
    x = device.upload(np.ones(64, np.float32), writable=True)
    device.launch(bangc.compile(KERNELS / "bounds.mlu", device)["bounds"], x, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(x).tolist() == [131064, *[2] * 63]


def test_headers_of_the_half_types(tmp_path: Path) -> None:
    file = tmp_path / "halves.mlu"
    file.write_text(
        "#include <bang_fp16.h>\n#include <bang_bf16.h>\n"
        "__mlu_entry__ void halves(const __half *x, __bang_bfloat16 *out) {\n"
        "    out[0] = (__bang_bfloat16)(float)x[0];\n}\n"
    )
    device = Device("mlu590-h8")
    out = device.alloc(1, "bfloat16")
    module = bangc.compile(file, "mlu590-h8")
    device.launch(module["halves"], device.upload(np.array([1.5], np.float16)), out, dim=1, kind="BLOCK")
    device.synchronize()
    assert float(device.download(out)[0]) == 1.5


@pytest.mark.slow
def test_halves_are_printed_by_streams_and_printf(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "printed.mlu"
    file.write_text(
        "#include <bang.h>\n#include <sstream>\n"
        "__mlu_entry__ void k() {\n"
        '  if (taskId == 0 && !__is_mpu()) __bang_printf("%g %g %d\\n", half(0.5), bfloat16_t(1.5f), 2);\n}\n'
        "int main() {\n  std::ostringstream text;\n  text << half(0.25) << ' ' << bfloat16_t(2.5f);\n"
        "  k<<<1, cnrtFuncTypeBlock, nullptr>>>();\n  cnrtSyncDevice();\n"
        '  printf("%s %g\\n", text.str().c_str(), bfloat16_t(3.5f));\n'
        '  char shown[9];\n  snprintf(shown, 9, "%g", half(4.5));\n  fprintf(stdout, "%s %g\\n", shown, half(5.5));\n'
        "  fflush(stdout);\n}\n"
    )
    assert run_program(bangc.compile(file), Device()) == 0
    assert capfd.readouterr().out == "0.5 1.5 2\n0.25 2.5 3.5\n4.5 5.5\n"


def test_what_the_vendors_compiler_accepts_besides_standard_c(tmp_path: Path) -> None:
    """Blanks pasted from a page, names of task variables as members, half literals, a copy of the vendor's cnrt.h."""
    (tmp_path / "cnrt.h").write_text("#ifndef __CNRT_H\n#define __CNRT_H\nenum { cnrtSuccess = 1 };\n#endif\n")
    file = tmp_path / "accepted.mlu"
    file.write_text(
        '#include "cnrt.h"\n#include <bang.h>\n'
        "#define TWICE(x)\u00a0(2 * (x))\n"
        "#if CNRT_MAJOR_VERSION < 5\n#error an old cnrt.h\n#endif\n"
        "#if BANG_VERSION < 200\n#error an old bang.h\n#endif\n"
        "struct Plan { int taskDim; int coreId; };\n"
        "__mlu_func__ int first(int taskId, const Plan &plan) { return taskId + plan.taskDim; }\n"
        "__mlu_entry__ void kernel(float *out) {\n"
        "  Plan plan{1, 2};\n"
        "  int clusterId = 5;\u3000// an ideographic blank\n"
        '  const char *text = "\u00a0";\n'
        "  half h =\u00a01.5h;\n"
        "  __mlvm_sync();\n"
        "  out[taskId] = TWICE(first(taskId, plan)) + clusterId + plan.coreId + (float)h + cnrtSuccess + text[0];\n"
        "}\n",
        encoding="utf-8",
    )
    y = mlusim.run(bangc.compile(file)["kernel"], Output(2), dim=2, kind="BLOCK").output
    assert y.tolist() == [2 * (task + 1) + 5 + 2 + 1.5 + np.int8(-0x3E) for task in range(2)]


def test_an_array_of_variable_size_is_an_error_with_the_rule(tmp_path: Path, compiler: str) -> None:
    file = tmp_path / "variable.mlu"
    file.write_text(
        "__mlu_entry__ void kernel(float *x, int n) {\n  __nram__ float tile[n * 2];\n  x[0] = tile[0];\n}\n"
    )
    with pytest.raises(CompileError, match=r"variable\.mlu:2:.*must be a constant expression.*largest size") as raised:
        bangc.compile(file, compiler=compiler)
    assert "array_in_memory" not in raised.value.message


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("float tile[64]", "expected"),
        ("float tile[COUNT];", "COUNT"),
        ("half4 tile[64];", "half4"),
    ],
)
def test_a_faulty_declaration_is_an_error_in_the_words_of_the_file(
    declaration: str, message: str, tmp_path: Path, compiler: str
) -> None:
    file = tmp_path / "faulty.mlu"
    file.write_text(f"__mlu_entry__ void kernel(float *x) {{\n  __nram__ {declaration}\n  float y = x[0];\n}}\n")
    with pytest.raises(CompileError, match=rf"faulty\.mlu:2:\d+: error: .*{message}") as raised:
        bangc.compile(file, compiler=compiler)
    assert not re.search(r"mlusim|'array'|\u2018array\u2019", raised.value.message.replace(str(tmp_path), ""))


def test_a_file_that_breaks_off_is_an_error_at_its_end(tmp_path: Path) -> None:
    file = tmp_path / "broken.mlu"
    file.write_text("__mlu_entry__ void kernel(float *x) {\n  x[0] = 1;\n")
    with pytest.raises(CompileError, match=r"broken\.mlu: at the end of the file: error: expected"):
        bangc.compile(file)


@pytest.mark.slow
def test_headers_of_libraries_that_are_not_simulated(tmp_path: Path) -> None:
    file = tmp_path / "library.mlu"
    file.write_text(
        "#include <cndev.h>\n#include <cncl.h>\n"
        "int ask() { cndevRet_t result = cndevInit(0); cnclComm_t comm; return result != CNDEV_SUCCESS; }\n"
        "__mlu_entry__ void kernel(float *x) { x[0] = 1; }\n"
    )
    x = mlusim.run(bangc.compile(file)["kernel"], Output(1), dim=1, kind="BLOCK").output
    assert x.tolist() == [1]


def test_an_array_declared_before_its_definition_has_its_size(tmp_path: Path) -> None:
    file = tmp_path / "declared.mlu"
    file.write_text(
        "extern __nram__ char pool[];\n"
        "enum { ROWS = 4 };\n"
        "__mlu_func__ float *row(int k) { return (float *)pool + k * 32; }\n"
        "__nram__ float other[32], more[2];\n"
        "__nram__ char pool[4 * 32 * sizeof(float)];\n"
        "__mlu_entry__ void kernel(float *out) {\n"
        "  __bang_write_value(other, 32, 1.0f);\n"
        "  for (int k = 0; k < ROWS; ++k) __bang_write_value(row(k), 32, (float)k);\n"
        "  __memcpy(out, pool, sizeof(pool), NRAM2GDRAM);\n"
        "}\n"
    )
    out = mlusim.run(bangc.compile(file)["kernel"], Output((4, 32)), dim=1, kind="BLOCK").output
    assert out[:, 0].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.grid(2)
def test_an_array_without_a_size_refers_to_the_file_that_defines_it(order: int, tmp_path: Path) -> None:
    (tmp_path / "tiles.h").write_text(
        "#include <bang.h>\n"
        "extern __nram__ float tile[];\n"
        "extern __nram__ float rows[][64];\n"
        "extern __mlu_shared__ float common[];\n"
        "__mlu_func__ void fill(float value);\n"
    )
    user, definer = tmp_path / "user.mlu", tmp_path / "definer.mlu"
    user.write_text(
        '#include "tiles.h"\n'
        "__nram__ float own[64];\n"
        "__mlu_entry__ void kernel(float *out) {\n"
        "  extern __nram__ float last[32];\n"
        "  fill(coreId + 1.0f);\n"
        "  __bang_add(own, tile, rows[1], 64);\n"
        "  __sync_cluster();\n"
        "  if (__is_mpu()) return;\n"
        "  own[0] += common[63] + last[31];\n"
        "  __memcpy(out + taskId * 64, own, sizeof(own), NRAM2GDRAM);\n"
        "}\n"
        "__mlu_entry__ void beyond(float *out) { out[0] = tile[64]; }\n"
    )
    definer.write_text(
        '#include "tiles.h"\n'
        "__nram__ float tile[64], rows[2][64], last[32];\n"
        "__mlu_shared__ float common[64];\n"
        "__mlu_func__ void fill(float value) {\n"
        "  __bang_write_value(tile, 64, value);\n"
        "  __bang_write_value(rows[1], 64, 10.0f);\n"
        "  __bang_write_value(last, 32, 0.5f);\n"
        "  if (taskId == 0 && !__is_mpu()) __memcpy(common, rows[1], sizeof(common), NRAM2SRAM);\n"
        "}\n"
    )
    first, second = (user, definer)[::order]
    module = bangc.compile(first, sources=[second])
    expected = np.repeat(np.arange(11, 15, dtype=np.float32)[:, None], 64, axis=1)
    expected[:, 0] += 10.5
    report = mlusim.verify(module["kernel"], Output((4, 64)), dim=4, kind="UNION1", reference=expected)
    assert report.ok, report.text()
    with pytest.raises(AccessError, match=r"user\.mlu:12, .* at byte 256 of tile \(NRAM\), which has 256 B"):
        mlusim.run(module["beyond"], Output(64), dim=1, kind="BLOCK")


def test_words_of_cuda_are_explained(tmp_path: Path) -> None:
    file = tmp_path / "cuda.mlu"
    file.write_text("#include <bang.h>\n__global__ void kernel(float *x) { x[threadIdx.x] = 1; }\n")
    with pytest.raises(CompileError, match=r"cuda\.mlu:2:(?s:.)*note: __global__ is a name of CUDA; .* __mlu_entry__"):
        bangc.compile(file)


def test_an_array_may_be_of_a_record_that_its_declaration_defines(tmp_path: Path) -> None:
    file = tmp_path / "records.mlu"
    file.write_text(
        "struct Pair { float x, y; };\n"
        "__nram__ struct { float a[32]; int b; } anon;\n"
        "__nram__ union Word {\n"
        "  float f[32];\n"
        "  unsigned u[32];\n"
        "} word, words[2];\n"
        "__nram__ struct Pair pair{1.5f, 2.5f};\n"
        "__mlu_entry__ void k(float *out) {\n"
        "  __nram__ struct { float v[4]; struct { int n; } inner; } local = {{1, 2, 3, 4}, {5}};\n"
        "  __nram__ float rows[2][4], (*row)[4] = rows, *cell = rows[1]; row[1][3] = 0; cell[0] = 0;\n  anon.b = 3;\n"
        "  anon.a[31] = 4;\n"
        "  word.u[0] = 0x3f800000u;\n"
        "  Word copy = words[1] = word;\n"
        "  out[0] = anon.b + anon.a[31];\n"
        "  out[1] = copy.f[0];\n"
        "  out[2] = pair.x + pair.y + local.v[3] + local.inner.n;\n"
        "  out[3] = sizeof(anon) + sizeof(words);\n"
        "}\n"
    )
    device = Device()
    out = device.alloc(4, "float32")
    device.launch(bangc.compile(file)["k"], out, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(out).tolist() == [7, 1, 13, 132 + 256]
    assert {line for name, line, _ in device.log.lines if name.endswith("records.mlu")} >= {15, 16, 17, 18}


def test_decltype_of_an_array_is_its_type(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "types.mlu"
    file.write_text(
        "#include <bang.h>\n#include <type_traits>\n"
        "__nram__ float tile[4][16];\n__nram__ int one;\n"
        "__mlu_entry__ void types(int *out) {\n"
        "  __nram__ float row[32];\n  __nram__ decltype(tile) other;\n  decltype(row) *pointer = &row;\n"
        "  decltype(one) plain = 3;\n  (*pointer)[5] = 7;\n  other[3][15] = 9;\n"
        "  out[0] = std::extent<decltype(row)>::value + std::rank<decltype(tile)>::value;\n"
        "  out[1] = row[5] + other[3][15] + ++plain;\n"
        "  out[2] = std::is_same<std::remove_all_extents_t<decltype(tile)>, float>::value;\n"
        "  out[3] = sizeof(decltype(tile)) + std::is_same<decltype((one)), int &>::value;\n}\n"
    )
    kernel = bangc.compile(file, compiler=compiler)["types"]
    out = mlusim.run(kernel, Output(4, "int32"), dim=1, kind="BLOCK").output
    assert out.tolist() == [32 + 2, 7 + 9 + 4, 1, 4 * 16 * 4 + 1]
