"""`name<<<...>>>` in all its forms, and the errors for launches and entries that do not fit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlusim import Device, bangc
from mlusim.bangc.compiler.rewriting import rewrite
from mlusim.bangc.host.program import run_program
from mlusim.errors import CompileError

UNFIT = "error: the arguments of the launch do not fit the entry"


@pytest.mark.parametrize(
    ("callee", "name"),
    [
        ("k<int, 1 < 2>", "k<int, 1 < 2>"),
        ("k<int, n < 4>", "k<int, n < 4>"),
        ("k<int, n <= 2>", "k<int, n <= 2>"),
        ("k<int, n >= 2>", "k<int, n >= 2>"),
        ("k<int, 1 << 3>", "k<int, 1 << 3>"),
        ("k<int, sizeof(int) < 4>", "k<int, sizeof(int) < 4>"),
        ("k<T<int, 7>::v, A<B<int>>>", "k<T<int, 7>::v, A<B<int>>>"),
        ("a < b; k<int>", "k<int>"),
        ("n++, k<int>", "k<int>"),
        ("if (a < b) k<int>", "k<int>"),
        ("space::k<int, (1 > 0)>", "space::k<int, (1 > 0)>"),
        ("if (a) (k)", "(k)"),
        ("if constexpr (a) (k<int>)", "(k<int>)"),
        ("for (int i = 0; i < 2; ++i) (i ? k : l)", "(i ? k : l)"),
        ("while (--a) (*k)", "(*k)"),
    ],
)
def test_the_name_of_a_launch_may_have_comparisons(callee: str, name: str) -> None:
    text = rewrite(f'# 1 "file.mlu"\nvoid f() {{ {callee}<<<dim, type, queue>>>(p); }}\n').text
    found = re.search(r'::mlusim::launcher\("(.*?)", (.*), dim, type, queue\)\(p\)', text)
    assert found is not None
    assert found.groups() == (name, name)


@pytest.mark.parametrize(
    "launches",
    [
        "count<<<1, block, 0>>>(y); select<<<1, block, 0>>>(y, 5);",
        "LAUNCH(count, y); LAUNCH(select, y, 5);",
        "count\n<<<1, block, 0>>>(y); select\n<<<1, block, 0>>>(y, 5);",
    ],
    ids=["of one line", "of a macro", "over two lines"],
)
@pytest.mark.grid(4)
def test_an_entry_may_have_the_name_of_a_function_of_the_c_library(launches: str, tmp_path: Path) -> None:
    file = tmp_path / "names.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n#include <sys/select.h>\n#include <algorithm>\n"
        "#define LAUNCH(entry, ...) entry<<<1, block, 0>>>(__VA_ARGS__)\n"
        "__mlu_entry__ void count(int *y) { if (taskId == 0 && !__is_mpu()) y[0] = 7; }\n"
        "__mlu_entry__ void select(int *y, int n) { if (taskId == 0 && !__is_mpu()) y[1] = n; }\n"
        "int main() {\n"
        "  int *y, got[2];\n  const cnrtFunctionType_t block = cnrtFuncTypeBlock;\n  cnrtMalloc((void **)&y, 8);\n"
        f"  {launches}\n"
        "  cnrtSyncDevice();\n  cnrtMemcpy(got, y, 8, cnrtMemcpyDevToHost);\n"
        "  return 10 * got[0] + got[1] + 100 * std::count(got, got + 2, 7);\n}\n"
    )
    assert run_program(bangc.compile(file), Device()) == 75 + 100


@pytest.mark.slow
def test_entries_with_names_of_the_c_library_may_have_overloads_and_default_values(tmp_path: Path) -> None:
    file = tmp_path / "kinds.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n#include <cmath>\n#include <cstdio>\n#include <unistd.h>\n"
        "#define ONE taskId == 0 && !__is_mpu()\n"
        "__mlu_entry__ void write(int *y, int n) { if (ONE) y[0] = n; }\n"
        "__mlu_entry__ void write(int *y, float x) { if (ONE) y[1] = int(2 * x); }\n"
        "__mlu_entry__ void log1p(int *y, int n) { if (ONE) y[2] = n; }\n"
        'extern "C" __mlu_entry__ void rename(int *y, int n = 8) { if (ONE) y[3] = n; }\n'
        "int main() {\n"
        "  int *y, got[4];\n  const cnrtFunctionType_t block = cnrtFuncTypeBlock;\n  cnrtMalloc((void **)&y, 16);\n"
        "  write<<<1, block, 0>>>(y, 1); write<<<1, block, 0>>>(y, 1.5f); log1p<<<1, block, 0>>>(y, 4);\n"
        "  rename<<<1, block, 0>>>(y);\n"
        "  cnrtSyncDevice();\n  cnrtMemcpy(got, y, 16, cnrtMemcpyDevToHost);\n"
        "  const double more = std::log1p(0.0) - std::hermite(2, 0.0);\n"
        "  return got[0] + 2 * got[1] + 4 * got[2] + 8 * got[3] + int(126.5 + more);\n}\n"
    )
    assert run_program(bangc.compile(file), Device()) == 1 + 6 + 16 + 64 + 128


@pytest.mark.slow
def test_a_launch_may_leave_out_parameters_with_default_values(tmp_path: Path) -> None:
    file = tmp_path / "optional.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n"
        "__mlu_entry__ void add(int *y, int a, float b = 20.5f, int c = sizeof(int));\n"
        "template <class T> __mlu_entry__ void put(T *y, T value = 7) {\n"
        "  if (taskId == 0 && !__is_mpu()) y[1] = value;\n}\n"
        "int main() {\n"
        "  int *y, sums[2];\n  cnrtMalloc((void **)&y, 8);\n  cnrtMemset(y, 0, 8);\n"
        "  add<<<1, cnrtFuncTypeBlock, nullptr>>>(y, 1);\n"
        "  add<<<1, cnrtFuncTypeBlock, nullptr>>>(y, 2.75, 30, 0);\n"
        "  put<<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n"
        "  cnrtSyncDevice();\n  cnrtMemcpy(sums, y, 8, cnrtMemcpyDevToHost);\n"
        "  return sums[0] + 100 * (sums[1] == 7);\n}\n"
        "__mlu_entry__ void add(int *y, int a, float b, int c) {\n"
        "  if (taskId == 0 && !__is_mpu()) *y += a + int(b) + c;\n}\n"
    )
    assert run_program(bangc.compile(file), Device()) == 1 + 20 + 4 + 2 + 30 + 100


def test_an_entry_may_be_defined_outside_of_its_namespace_or_as_specialisations_alone(tmp_path: Path) -> None:
    file = tmp_path / "spaces.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n"
        "namespace a { namespace b { enum class Sign { Plus, Minus };\n"
        "__mlu_entry__ void put(int *y, Sign sign); } __mlu_entry__ void twice(int *y); }\n"
        "__mlu_entry__ void a::b::put(int *y, Sign sign) { if (__is_ipu()) *y = sign == Sign::Minus ? -7 : 7; }\n"
        "__mlu_entry__ void ::a::twice(int *y) { if (__is_ipu()) *y *= 2; }\n"
        "template <class T> __mlu_entry__ void add(int *y, T x);\n"
        "template <> __mlu_entry__ void add<int>(int *y, int x) { if (__is_ipu()) *y += x; }\n"
        "template <> __mlu_entry__ void add<float>(int *y, float x) { if (__is_ipu()) *y += int(2 * x); }\n"
        "int main() {\n  int *y, got;\n  cnrtMalloc((void **)&y, 4);\n"
        "  a::b::put<<<1, cnrtFuncTypeBlock, nullptr>>>(y, a::b::Sign::Minus);\n"
        "  a::twice<<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n"
        "  add<float><<<1, cnrtFuncTypeBlock, nullptr>>>(y, 1.5f);\n  add<<<1, cnrtFuncTypeBlock, nullptr>>>(y, 10);\n"
        "  cnrtSyncDevice();\n  cnrtMemcpy(&got, y, 4, cnrtMemcpyDevToHost);\n  return -got;\n}\n"
    )
    module = bangc.compile(file)
    assert module.entries == ["put", "twice", "add<...>"]
    assert run_program(module, Device()) == 14 - 3 - 10


def test_launches_with_comparisons_and_packs_run(tmp_path: Path) -> None:
    file = tmp_path / "compared.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n"
        "template <class T, bool less> __mlu_entry__ void k(T *y) {\n"
        "  if (taskId == 0 && !__is_mpu()) *y += less ? 1 : 2;\n}\n"
        "template <class... A> __mlu_entry__ void add(int *y, A... a) {\n"
        "  if (taskId == 0 && !__is_mpu()) *y += int((a + ...));\n}\n"
        "constexpr int n = 3;\n"
        "int main() {\n"
        "  int *y, sum;\n  cnrtMalloc((void **)&y, 4);\n  cnrtMemset(y, 0, 4);\n"
        "  k<int, n < 4><<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n"
        "  k<int, n >= 4><<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n"
        "  add<<<1, cnrtFuncTypeBlock, nullptr>>>(y, 10, 20.5f);\n"
        "  add<int, int><<<1, cnrtFuncTypeBlock, nullptr>>>(y, 40, 50);\n"
        "  cnrtSyncDevice();\n  cnrtMemcpy(&sum, y, 4, cnrtMemcpyDevToHost);\n  return sum;\n}\n"
    )
    assert run_program(bangc.compile(file), Device()) == 3 + 30 + 90


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "__mlu_entry__ int k(float *y) { return 1; }\n",
            r"wrong\.mlu:2:.*: error: an entry returns void, and this one int; store",
        ),
        (
            "__mlu_entry__ void k(float *y, int) {}\nint main() {\n  k<<<1, cnrtFuncTypeBlock, 0>>>((int *)0, 1);\n}\n",
            rf"wrong\.mlu:4:\d+: {UNFIT}: it takes \(float ?\*, int\).*note: no known conversion",
        ),
        (
            "__mlu_entry__ void k(int n) {}\nint main() {\n  k<<<1, cnrtFuncTypeBlock, 0>>>();\n}\n",
            rf"wrong\.mlu:4:\d+: {UNFIT}: it takes \(int\).*note: .* (?:1|single) argument",
        ),
        (
            "__mlu_entry__ void k(int n) {}\nint main() {\n  cnrtDim3_t d;\n  k<<<cnrtFuncTypeBlock, d, 0>>>(1);\n}\n",
            r"wrong\.mlu:5:\d+: error: a launch is name<<<dim, type, queue>>>: cnrtDim3_t, cnrtFunctionType_t",
        ),
        (
            "__mlu_entry__ void k(int n) {}\nint main() {\n  k<<<16, 4>>>(1);\n}\n",
            r"wrong\.mlu:4:\d+: error: a launch is name<<<dim, type, queue>>>: cnrtDim3_t, cnrtFunctionType_t",
        ),
        (
            "__mlu_func__ float f(int n);\nstatic __mlu_func__ float f(int n) { return n; }\n",
            r"wrong\.mlu:3:\d+: error: .*static",
        ),
        (
            "template <class T> struct P { T n; };\ntemplate <class T> __mlu_entry__ void k(\n  const P<T> &p) {}\n",
            r"wrong\.mlu:4: const P<T> &p of k: the host would pass the address of its own object, .* pass it by value",
        ),
        (
            "__mlu_entry__ void k(float *y) {\n  __nram__ float a[64];\n  __bang_add(a, a, a, 64, 0);\n}\n",
            r"wrong\.mlu:4:\d+: error: no matching function .*__bang_add.*note: __bang_add takes 4 arguments",
        ),
        (
            "__mlu_entry__ void k(int n) {\n  if (n) {\n}\n",
            r"wrong\.mlu: at the end of the file: .*error: expected .*note: to match this",
        ),
    ],
)
def test_errors_of_entries_and_launches_are_in_the_users_words(
    tmp_path: Path, text: str, message: str, compiler: str
) -> None:
    file = tmp_path / "wrong.mlu"
    file.write_text("#include <cnrt.h>\n" + text)
    with pytest.raises(CompileError, match=f"(?s){message}") as raised:
        bangc.compile(file, compiler=compiler)
    shown = str(raised.value).replace(str(tmp_path), "")
    assert "mlusim" not in shown
    assert "std::decay" not in shown
    assert "-fpermissive" not in shown


@pytest.mark.slow  # before its first link the wheel's compiler builds its C++ library, which takes more than a minute
def test_files_of_two_compilers_run_in_one_process(tmp_path: Path, both_compilers: tuple[str, str]) -> None:
    for number, compiler in enumerate([*both_compilers, both_compilers[0]]):
        file = tmp_path / f"two{number}.mlu"
        file.write_text(
            "#include <bang.h>\n__mlu_entry__ void k(float *y) {\n  __nram__ float t[64];\n"
            f"  __bang_write_value(t, 64, {number}.5f);\n  t[0] += 1;\n  __memcpy(y, t, 256, NRAM2GDRAM);\n}}\n"
        )
        device = Device()
        out = device.alloc(64, "float32")
        device.launch(bangc.compile(file, compiler=compiler)["k"], out, dim=1, kind="BLOCK")
        device.synchronize()
        assert device.download(out).tolist() == [number + 1.5] + [number + 0.5] * 63
