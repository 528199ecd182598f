"""Programs with main and CNRT, and the commands `mlusim bangc run` and `check`."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import mlusim
from command_line import exit_code
from mlusim import Device, bangc
from mlusim.bangc.calls.host_calls import FUNCTION_TYPES, STATUS
from mlusim.bangc.compiler.headers import INCLUDE
from mlusim.bangc.host.program import run_program
from mlusim.errors import InputError, KernelError, MlusimError
from mlusim.verifier.check import check_log

KERNELS = Path(__file__).parents[1] / "kernels"


def test_numbers_of_statuses_and_function_types_are_those_of_the_header() -> None:
    numbers = dict(re.findall(r"(cnrt\w+) = (\d+),", (INCLUDE / "cnrt.h").read_text()))
    types = {f"cnrtFuncType{kind.capitalize()}": number for number, kind in FUNCTION_TYPES.items()}
    for name, number in (STATUS | types).items():
        assert int(numbers[name]) == number, name


def test_a_program_runs_as_on_a_host_with_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    device = Device()
    assert run_program(bangc.compile(KERNELS / "program.mlu"), device) == 3
    assert capsys.readouterr().out == "0 wrong, took time, 8 clusters\n"
    (launch,) = device.log.launches
    assert (launch.kernel, launch.kind, launch.dim) == ("add", "UNION1", (4, 2, 1))
    device.verify().check()


def test_constructors_of_a_program_may_call_cnrt(capfd: pytest.CaptureFixture[str]) -> None:
    device = Device()
    assert run_program(bangc.compile(KERNELS / "constructors.mlu"), device) == 0
    assert capfd.readouterr().out == "5 5, 10 5\nfreed: 0\n"
    assert [launch.kernel for launch in device.log.launches] == ["fill", "twice"]
    device.verify().check()


def test_an_error_in_a_constructor_is_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wrong.mlu"
    file.write_text(
        "#include <cnrt.h>\nstruct Wrong {\n  Wrong() {\n    cnrtQueueSync((cnrtQueue_t)16);\n  }\n} wrong;\n"
        "int main() {}\n"
    )
    with pytest.raises(InputError, match=r"main, wrong\.mlu:4: queue 0x10: cnrtQueueCreate did not return it"):
        run_program(bangc.compile(file), Device())


def test_program_memory_is_input_or_output_by_its_copies(capfd: pytest.CaptureFixture[str]) -> None:
    device = Device()
    run_program(bangc.compile(KERNELS / "program.mlu"), device)
    assert device.log.roles() == {0: "input", 1: "input", 2: "output"}
    result, report = device.result(), device.verify()
    assert result.metrics.compulsory_bytes == {"read": 80_000, "write": 40_000}
    assert result.io_efficiency == pytest.approx(120_000 / (result.time_ps * 1e-12) / 307.2e9)
    assert [use.text() for use in report.tensors] == [
        "every byte read once",
        "every byte read once",
        "all 40 000 B written exactly once",
    ]
    assert report.balance.mean_bytes == 40_000 / 8


def test_what_a_program_leaves_out_of_an_upload_is_uninitialised(tmp_path: Path) -> None:
    module = bangc.compile(KERNELS / "uploads.mlu")
    for parts in (4, 1):
        device = Device()
        run_program(module, device, (str(parts),))
        device.result().save(tmp_path / "saved")
        for report in (device.verify(), check_log(mlusim.load(tmp_path / "saved").log, device.board)):
            errors = [(finding.kind, finding.region) for finding in report.errors]
            assert errors == [] if parts == 4 else [("uninitialised", "device memory 0[256:1024], 768 B in GDRAM")]


def test_a_program_with_findings_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "racing.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void put(int *y) {\n  if (!__is_mpu()) *y = taskId;\n}\n"
        "int main(int count, char **words) {\n  int *y, x;\n  cnrtMalloc((void **)&y, 4);\n"
        "  put<<<4, cnrtFuncTypeUnion1, nullptr>>>(y);\n  cnrtMemcpy(&x, y, 4, cnrtMemcpyDevToHost);\n"
        "  cnrtFree(y);\n  return count > 1 ? 5 : 0;\n}\n"
    )
    assert [exit_code("bangc", "run", file, *words) for words in ((), ("--check",), ("--check", "--", "x"))] == [
        0,
        1,
        5,
    ]
    text = capfd.readouterr().out
    assert "error: task-race" in text
    assert text.endswith("\nmain returned 5\n")
    assert exit_code("bangc", "run", file, "--check", "-q") == 1
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: task-race: task 0 and task 1 write the same bytes of device memory 0\n")


def test_a_file_without_main_is_not_a_program(basics: bangc.Module) -> None:
    with pytest.raises(InputError, match=r"basics\.mlu has no main: name a kernel with --entry"):
        run_program(basics, Device())


def test_run_writes_the_output_of_an_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.arange(3000, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    arguments = ["--arg", f"x={tmp_path / 'x.npy'}", "--arg", "out=float32:3000", "--arg", "3000", "--dim", "4"]
    status = exit_code(
        "bangc", "run", KERNELS / "basics.mlu", "-e", "copy", *arguments, "--check", "--json", "-o", tmp_path / "y.npy"
    )
    assert status == 0
    found = json.loads(capsys.readouterr().out)
    assert found["operator"] == "copy"
    assert np.array_equal(np.load(tmp_path / "y.npy"), x)
    assert (
        exit_code("bangc", "run", f"{KERNELS / 'basics.mlu'}:copy", *arguments, "--out", tmp_path / "z.npy", "-q") == 0
    )
    assert np.array_equal(np.load(tmp_path / "z.npy"), x)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bangc", "run", "{}:copy", "--entry", "fill"), "basics.mlu:copy and --entry fill are two kernels: name one"),
        (("bangc", "check", "{}:copy"), "all entries of a file are checked: name the file, "),
        (("compile", "{}:copy"), "all kernels of a file are compiled: name the file, "),
    ],
)
def test_a_kernel_in_a_file_is_told_from_a_file(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(*(word.format(KERNELS / "basics.mlu") for word in words)) == 2
    assert message in capsys.readouterr().err


def test_run_of_a_program_returns_its_status(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("bangc", "run", KERNELS / "program.mlu") == 3
    assert "0 wrong" in capfd.readouterr().out


@pytest.mark.slow
def test_a_program_gets_its_arguments_and_links_with_other_files(capfd: pytest.CaptureFixture[str]) -> None:
    assert exit_code("bangc", "run", KERNELS / "host_faults.mlu", "--", "exit") == 5
    assert exit_code("bangc", "run", KERNELS / "language.mlu", "--with", KERNELS / "language_helper.mlu") == 0
    assert "linked" in capfd.readouterr().out
    assert exit_code("bangc", "run", KERNELS / "host_faults.mlu", "--", "null") == 1
    assert "error: main, host_faults.mlu:" in capfd.readouterr().err


def test_run_requires_an_entry_if_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("bangc", "run", KERNELS / "basics.mlu") == 2
    assert "name one of its entries with --entry: copy, fill<...>" in capsys.readouterr().err


def test_a_file_without_an_entry_and_a_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.mlu").touch()
    assert exit_code("bangc", "run", tmp_path / "empty.mlu") == 2
    assert "it has neither a kernel, a function with __mlu_entry__, nor a main" in capsys.readouterr().err
    assert exit_code("bangc", "run", tmp_path) == 2
    assert "is a directory: name a file in it" in capsys.readouterr().err


def test_check_lists_files_entries_and_missing_intrinsics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "good.mlu").write_text("__mlu_entry__ void one(float *x) { __bang_write_zero(x, 4); }\n")
    (tmp_path / "strange.mlu").write_text("__mlu_entry__ void two(float *x) { __bang_frobnicate(x, 4); }\n")
    (tmp_path / "bad.mlu").write_text("__mlu_entry__ void three(float *x) { x = ; }\n")
    assert exit_code("bangc", "check", tmp_path, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["compile"] == 2
    assert found["missing"] == ["__bang_frobnicate"]
    files = {Path(one["file"]).name: one for one in found["files"]}
    assert files["good.mlu"]["known"] == ["__bang_write_zero"]
    assert files["strange.mlu"]["entries"] == ["two"]
    assert "bad.mlu:1:" in files["bad.mlu"]["error"]
    assert re.search("error: expected (primary-)?expression", files["bad.mlu"]["error"])


@pytest.mark.slow
def test_a_program_with_older_runtime_names_runs(capsys: pytest.CaptureFixture[str]) -> None:
    device = Device()
    assert run_program(bangc.compile(KERNELS / "older.mlu"), device) == 0
    assert capsys.readouterr().out == "PASSED\n"
    device.verify().check()


@pytest.mark.parametrize("what", ["array", "buffer", "prepared", "template"])
@pytest.mark.slow
def test_kernels_are_invoked_without_launch_syntax(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    device = Device()
    assert run_program(bangc.compile(KERNELS / "invoked.mlu"), device, (what,)) == 0
    assert capsys.readouterr().out == "PASSED\n"
    assert device.log.launches[0].kernel == ("add<float, 0>" if what == "template" else "scale")
    device.verify().check()


POINTERS = """
#include <bang.h>
namespace own { __mlu_entry__ void one(int *y) { *y += 1; } }
__mlu_entry__ void two(int *y) { *y += 2; }
template <typename T> __mlu_entry__ void three(T *y) { *y += 3; }
static void start(void (*kernel)(int *), int *y) { kernel<<<1, cnrtFuncTypeBlock, nullptr>>>(y); }
int main(int count, char **) {
    int *y, x = 0;
    cnrtMalloc((void **)&y, 4);
    cnrtMemset(y, 0, 4);
    start(own::one, y);
    start(two, y);
    (count > 1 ? own::one : two)<<<1, cnrtFuncTypeBlock, nullptr>>>(y);
    own::one<<<1, cnrtFuncTypeBlock, nullptr>>>(y);
    three<int><<<1, cnrtFuncTypeBlock, nullptr>>>(y);
    cnrtMemcpy(&x, y, 4, cnrtMemcpyDevToHost);
    return x;
}
"""


def test_a_launch_through_a_pointer_has_the_name_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "pointers.mlu").write_text(POINTERS)
    device = Device()
    assert run_program(bangc.compile(tmp_path / "pointers.mlu"), device) == 1 + 2 + 2 + 1 + 3
    assert [launch.kernel for launch in device.log.launches] == ["one", "two", "two", "own::one", "three<int>"]


def test_a_launch_in_a_template_has_the_types_of_the_instance(tmp_path: Path) -> None:
    file = tmp_path / "instances.mlu"
    file.write_text(
        "#include <bang.h>\n"
        "namespace own { template <typename T, int N> __mlu_entry__ void fill(T *y) { y[0] = N; } }\n"
        "template <typename T> void go(T *y) { own::fill<T, 4><<<1, cnrtFuncTypeBlock, nullptr>>>(y); }\n"
        "enum Op { ADD, SUB };\ntemplate <Op op> __mlu_entry__ void apply(float *y) { y[0] = op; }\n"
        "struct { void (*kernel)(float *); } row = {&apply<SUB>};\n"
        "int main() {\n  char *y;\n  cnrtMalloc((void **)&y, 64);\n"
        "  row.kernel<<<1, cnrtFuncTypeBlock, nullptr>>>((float *)y);\n  go((float *)y);\n  go((half *)y);\n"
        "  go((bfloat16_t *)y);\n  go((unsigned char *)y);\n}\n"
    )
    device = Device()
    run_program(bangc.compile(file), device)
    types = ("float", "half", "bfloat16_t", "unsigned char")
    assert [launch.kernel for launch in device.log.launches] == [
        "apply<(Op)1>",
        *(f"own::fill<{name}, 4>" for name in types),
    ]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("short", r"main invokes \w+ with 3 arguments: it takes 4, and each has to be as large as its parameter"),
        ("short array", r"main invokes \w+ with 3 arguments: it takes 4, and each has to be as large"),
        ("stranger", "main invokes a function that is no kernel: pass the address of one"),
    ],
)
def test_a_wrong_invocation_is_an_error_at_its_line(what: str, message: str) -> None:
    with pytest.raises(KernelError, match=rf"main, invoked\.mlu:[4-6]\d: .*{message}"):
        run_program(bangc.compile(KERNELS / "invoked.mlu"), Device(), (what,))


@pytest.mark.slow
def test_an_extern_c_entry_is_callable_from_a_host_file_with_its_own_half(capsys: pytest.CaptureFixture[str]) -> None:
    module = bangc.compile(KERNELS / "linkage.cpp", sources=[KERNELS / "linkage.mlu"])
    assert run_program(module, Device()) == 0
    assert capsys.readouterr().out == "wrong: 0\n"


@pytest.mark.parametrize("board", ["mlu270", "mlu370-x4"])
@pytest.mark.slow
def test_the_host_reshapes_filters(board: str) -> None:
    device = Device(board)
    assert run_program(bangc.compile(KERNELS / "reshaped.mlu", device), device) == 0


# Before its first link the wheel's compiler builds its C++ library, which takes more than a minute.
@pytest.mark.parametrize("compiler", ["g++", pytest.param("ziglang", marks=pytest.mark.slow)], indirect=True)
def test_a_program_has_threads_and_atomics_of_its_own(
    tmp_path: Path, compiler: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "threads.mlu"
    file.write_text(
        "#include <bang.h>\n#include <atomic>\n#include <future>\n"
        "#include <memory>\n#include <thread>\n#include <vector>\n"
        "__mlu_entry__ void spin(float *y) {\n  __nram__ float t[64];\n  if (__is_mpu()) return;\n"
        "  for (int k = 0; k < 500; ++k) t[k % 64] = k;\n  __memcpy(y, t, 256, NRAM2GDRAM);\n}\n"
        "int main() {\n  float *y;\n  cnrtMalloc((void **)&y, 256);\n"
        "  std::atomic<int> rounds{0}, stop{0};\n  auto shared = std::make_shared<int>(5), other = shared;\n"
        "  int plain = 1, expected = 9;\n  __sync_fetch_and_add(&plain, 2);\n  __sync_synchronize();\n"
        "  std::atomic<char> byte{6};\n  byte &= 3;\n  std::atomic<long> word{7};\n"
        "  bool swapped = word.compare_exchange_strong((long &)*new long(7), 8);\n"
        # Beside the kernel it reads and writes memory, and the heap.
        "  std::thread beside([&] {\n    std::vector<double> x(100);\n"
        "    do {\n      std::vector<int> more(++rounds % 50 + 1);\n"
        "      for (auto &one : x) one += more[0] + 1;\n    } while (!stop);\n  });\n"
        "  spin<<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n  cnrtSyncDevice();\n  stop = 1;\n  beside.join();\n"
        '  auto sum = std::async(std::launch::async, [&] { printf("beside\\n"); return plain + byte + int(word); });\n'
        '  printf("%d %ld %d %d\\n", sum.get(), other.use_count(), swapped, rounds > 0);\n}\n'
    )
    assert run_program(bangc.compile(file, compiler=compiler), Device()) == 0
    assert capfd.readouterr().out == "beside\n13 2 1 1\n"


def test_an_assertion_that_fails_in_a_thread_ends_the_program(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "failing.mlu"
    file.write_text(
        "#include <cassert>\n#include <thread>\nint main() {\n  std::thread t([] { assert(1 > 2); });\n  t.join();\n}\n"
    )
    assert exit_code("bangc", "run", file) == 1
    assert capfd.readouterr().err == f"{file}:4: 1 > 2\n"


@pytest.mark.parametrize(
    ("words", "status", "printed"),
    [
        ((), 0, "main registered local 7"),
        (("exit",), 3, "main registered local 7"),
        (("_exit", "at once"), 4, "main"),
    ],
)
@pytest.mark.grid(2)
def test_destructors_and_functions_at_exit_run_after_main(
    compiler: str,
    words: tuple[str, ...],
    status: int,
    printed: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They run once, in the order of C++, and may call CNRT."""
    file = tmp_path / "endings.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n#include <cstdlib>\n"
        "static float *x;\n"
        "struct Outside {\n  ~Outside() {\n    float value;\n"
        "    cnrtMemcpy(&value, x, sizeof(value), cnrtMemcpyDevToHost);\n"
        '    cnrtFree(x);\n    printf(" %g", value);\n  }\n} outside;\n'
        'struct Inside { ~Inside() { printf(" local"); } };\n'
        "__mlu_entry__ void put(float *x) { if (__is_ipu()) *x = 7; }\n"
        "int main(int count, char **) {\n"
        '  static Inside inside;\n  std::atexit([] { printf(" registered"); });\n  printf("main");\n'
        "  cnrtMalloc((void **)&x, sizeof(float));\n  put<<<1, cnrtFuncTypeBlock, nullptr>>>(x);\n"
        "  cnrtSyncDevice();\n  if (count == 2) exit(3);\n  if (count == 3) _exit(4);\n}\n"
    )
    module = bangc.compile(file, compiler=compiler)
    for _ in range(2):
        assert run_program(module, Device(), words) == status
        assert capsys.readouterr().out == printed


@pytest.mark.slow
def test_a_program_that_ends_in_an_error_is_checked_for_its_cause(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The index comes from a copy in flight."""
    file = tmp_path / "early.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(const int *x, float *y) {\n  __nram__ int at[64];\n"
        "  __nram__ float t[64];\n  if (__is_mpu()) return;\n  __memcpy_async(at, x, 256, GDRAM2NRAM);\n"
        "  for (int i = 0; i < 64; ++i) t[at[i]] = i;\n  __memcpy(y, t, 256, NRAM2GDRAM);\n}\n"
        "int main() {\n  int *x, h[64];\n  float *y;\n  for (int i = 0; i < 64; ++i) h[i] = 63 - i;\n"
        "  cnrtMalloc((void **)&x, 256);\n  cnrtMalloc((void **)&y, 256);\n"
        "  cnrtMemcpy(x, h, 256, cnrtMemcpyHostToDev);\n  k<<<1, cnrtFuncTypeBlock, nullptr>>>(x, y);\n"
        "  cnrtSyncDevice();\n}\n"
    )
    assert exit_code("bangc", "run", file) == 1
    assert "early.mlu:7, at" in capsys.readouterr().err
    assert exit_code("bangc", "run", file, "--check") == 1
    assert "remedy `__sync_io()`, which waits for the IO pipe, between early.mlu:6 and" in capsys.readouterr().err


def test_an_error_while_a_launch_is_queued_is_told_with_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "queued.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(int *x) { if (!__is_mpu()) *x = 1; }\n"
        "int main() {\n  int *x, y;\n  cnrtQueue_t q;\n  cnrtQueueCreate(&q), cnrtMalloc((void **)&x, 4);\n"
        "  k<<<1, cnrtFuncTypeBlock, q>>>(x);\n  cnrtMemcpyAsync(&y, x, 4, cnrtMemcpyDevToHost, q);\n}\n"
    )
    assert exit_code("bangc", "run", file, "--check") == 2
    assert "queued.mlu:8: cnrtMemcpyAsync with the queue" in capsys.readouterr().err


VALUES = """#include <cnrt.h>
#include <bang.h>
#include <functional>
#include <memory>
using Memory = std::unique_ptr<void, decltype(&cnrtFree)>;
using Queue = std::unique_ptr<std::remove_pointer_t<cnrtQueue_t>, decltype(&cnrtQueueDestroy)>;
__mlu_entry__ void one(float *p) { if (!__is_mpu()) *p = 1; }
static std::function<cnrtRet_t(void *)> last = cnrtFreeHost;
template <cnrtRet_t (*F)(void *)> struct Deleter { void operator()(void *p) const { F(p); } };
template <cnrtRet_t (*make)(void **, size_t), cnrtRet_t (*free)(void *)> struct Block {
  void *p;
  Block() { make(&p, 4); }
  ~Block() { free(p); }
};
Memory memory() { void *p; cnrtMalloc(&p, 64); return Memory(p, &cnrtFree); }
Queue queue() { cnrtQueue_t q; cnrtQueueCreate(&q); return {q, cnrtQueueDestroy}; }
int main(int argc, char **) {
  Memory kept = memory();
  Queue q = queue();
  void *h, *p, *r;
  cnrtHostMalloc(&h, 64), cnrtMalloc(&p, 64), cnrtMalloc(&r, 64);
  std::unique_ptr<void, cnrtRet_t (*)(void *)> by_pointer(p, cnrtFree);
  std::shared_ptr<float> shared((float *)r, cnrtFree);
  cnrtDim3_t dim = {1, 1, 1};
  one<<<dim, cnrtFuncTypeBlock, q.get()>>>((float *)kept.get());
  cnrtQueueSync(q.get());
  float value;
  cnrtMemcpy(&value, kept.get(), 4, cnrtMemcpyDevToHost);
  Block<cnrtMalloc, ::cnrtFree> device;
  Block<cnrtHostMalloc, cnrtFreeHost> host;
  void *m = nullptr;
  cnrtRet_t (*make)(void **, size_t) = cnrtMalloc;
  make(&m, 4);
  std::unique_ptr<void, Deleter<cnrtFree>> by_class(m);
  cnrtRet_t (*again)(void *) = argc > 1 ? cnrtFree : nullptr;
  if (argc > 1) again(p);
  again = cnrtFreeHost;
  return last(h) == cnrtSuccess && value == 1 ? 0 : 1;
}
"""


@pytest.mark.parametrize("arguments", [(), ("twice",)])
@pytest.mark.grid(2)
def test_functions_of_cnrt_are_values(arguments: tuple[str, ...], compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "values.mlu"
    file.write_text(VALUES)
    module = bangc.compile(file, compiler=compiler)
    line = VALUES[: VALUES.index("by_pointer")].count("\n") + 1
    with (
        nullcontext()
        if not arguments
        else pytest.raises(MlusimError, match=rf"values\.mlu:{line}: cnrtFree .*only once")
    ):
        assert run_program(module, Device("mlu370-x4"), arguments) == 0
