"""A faulty program ends with an error at its line, in a separate process; the calling process survives."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc.debug_lines import is_system
from mlusim.bangc.execution import faults
from mlusim.bangc.host.own_process import run_apart
from mlusim.bangc.host.program import Program
from mlusim.errors import AccessError, InputError, KernelError, MlusimError, OperationLimitError
from mlusim.verifier.check import check_log

FILE = Path(__file__).parents[1] / "kernels" / "host_faults.mlu"


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(FILE)


@pytest.fixture(scope="module")
def checked() -> bangc.Module:
    return bangc.compile(FILE.with_name("host_checked.mlu"))


def _line(part: str) -> int:
    return next(number for number, line in enumerate(FILE.read_text().splitlines(), 1) if part in line)


@pytest.mark.grid(8)
@pytest.mark.parametrize(
    ("what", "part", "message"),
    [
        ("null", '"null"', "segmentation fault: main uses address 0x0, a null pointer or near it"),
        ("divide", '"divide"', "division by zero"),
        ("abort", '"abort"', r"main called abort\(\)"),
        ("assert", '"assert"', "assertion failed: zero == 4"),
        ("throw", '"throw"', "main threw an exception that nothing caught: no such tensor"),
        ("recurse", "", "stack overflow: main has a stack of 8 388 608 B"),
        ("smash", "", "main wrote beyond a local array"),
        ("at", "values.at(i)", "main threw an exception that nothing caught: vector"),
        ("heap", "// twice", "main was aborted by the C or C"),
        ("vector", '"vector"', "main was aborted by the C or C"),
        ("device", '"device"', "writes byte 4 of device memory 0 directly: it is on the board"),
        ("beyond", '"beyond"', "cnrtMemcpy of 32 B at byte 0 of device memory 0, which has 16 B: copy less"),
        ("direction", '"direction"', "cnrtMemcpy says DevToHost but copies to device memory from host memory"),
        ("queue", '"queue"', "queue 0x1234: cnrtQueueCreate did not return it"),
        ("copy to null", '"copy to null"', "cnrtMemcpy of 16 B at a null pointer: pass allocated memory, and check"),
        (
            "queue last",
            "HostToDev, queue)",
            r"cnrtMemcpyAsync with the queue 0x\w+ as its direction: the queue is the argu",
        ),
        ("result", '"result"', r"the result would be stored at byte 4 of device memory 0, .* cnrtMalloc\(&pointer"),
        (
            "wild target",
            '"wild target"',
            "cnrtMemcpy uses 16 B at 0x123456789000: the program has no memory there, or may not write it; pass",
        ),
        ("heap target", '"heap target"', "cnrtMemcpy of 16 B at byte 8 of host memory, which has 16 B: copy less, or"),
        ("heap source", '"heap source"', "cnrtMemcpy of 16 B at byte 0 of host memory, which has 12 B: copy less, or"),
        (
            "static target",
            '"static target"',
            "cnrtMemcpy of 16 B at byte 0 of host memory, which has 12 B: copy less, or",
        ),
        (
            "local source",
            '"local source"',
            "cnrtMemcpyAsync of 16 B at byte 0 of host memory, which has 4 B: copy less, or al",
        ),
        (
            "local rows",
            '"local rows"',
            "cnrtMemcpy2D of 4 B at byte 16 of host memory, which has 16 B: copy less, or alloc",
        ),
        ("pinned", '"pinned"', "cnrtMemcpyAsync of 16 B at byte 4 of host memory, which has 16 B: copy less, or"),
        ("behind", '// "behind"', "segmentation fault: main uses address .* not memory of the program's; check the"),
        ("grid", '"grid"', r"nothing: dim\.x = 3 for UNION1"),
        ("thread", '"thread"', "main calls the board's runtime from a thread of its own"),
    ],
)
def test_a_fault_of_a_program_is_an_error_at_its_line(module: bangc.Module, what: str, part: str, message: str) -> None:
    program = Program(module, Device(), (what,))
    where = rf"main, host_faults\.mlu:{_line(part)}: " if part else r"main, host_faults\.mlu:\d+: "
    with pytest.raises(MlusimError, match=where + message):
        run_apart(program, program.run)


def test_an_access_outside_a_local_array_is_found_by_checks(module: bangc.Module) -> None:
    if not module.options.compiler.gnu:
        pytest.skip("only g++ has these checks")
    program = Program(module.for_board(module.board, checked=True), Device(), ("outside",))
    place = rf"main, host_faults\.mlu:{_line('one too many')}: "
    with pytest.raises(AccessError, match=place + "main writes 'float' outside the array or variable: index 4 of"):
        run_apart(program, program.run)


def test_a_signal_outside_the_program_names_its_last_call(
    module: bangc.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As after a write beyond a block of the heap.
    monkeypatch.setattr(Device, "synchronize", lambda _: os.kill(os.getpid(), signal.SIGSEGV))
    program = Program(module, Device(), ("one queue",))
    place = rf"main, host_faults\.mlu:{_line('return cnrtQueueSync(one)') - 1}: "  # the copy before it
    with pytest.raises(KernelError, match=place + "main was ended by SIGSEGV outside its own code: it has overwritten"):
        run_apart(program, program.run)


def test_memory_after_its_free_is_named(module: bangc.Module) -> None:
    program = Program(module, Device(), ("freed",))
    place = rf"task 0 .*, host_faults\.mlu:{_line('__memcpy(tile')}, at .* ns: "
    with pytest.raises(MlusimError, match=place + r"address 0x\w+ is in .*: device memory 0 was there until cnrtFree"):
        run_apart(program, program.run)


def test_a_pointer_to_memory_of_the_host_is_named(module: bangc.Module) -> None:
    program = Program(module, Device(), ("of host",))
    place = rf"task 0 .*, host_faults\.mlu:{_line('__memcpy(tile')}, at .* ns: "
    with pytest.raises(
        MlusimError, match=place + r".*: the launch passed the pointer 0x\w+, .*; pass memory of cnrtMall"
    ):
        run_apart(program, program.run)


def test_accesses_that_nothing_orders_are_an_error_between_queues_else_a_hint(module: bangc.Module) -> None:
    unsynced = {
        "early": (
            "unsynced",
            '"early"',
            r"cnrtMemcpy uses memory of add, launched at host_faults\.mlu:\d+, which nothing has",
        ),
        "wrong queue": ("unsynced", "// any", "cnrtMemcpy uses memory of add, launched at"),
        "unordered": ("unordered", '"unordered"', "cnrtMemcpyAsync uses memory of add, launched at"),
        "never": ("unsynced", '"never"', "nothing waits for cnrtMemcpyAsync, and main ends"),
        "loads": ("unordered", "// loads", "add uses memory of cnrtMemcpyAsync, put into a queue at"),
    }
    for what in (*unsynced, "queue synced", "device synced", "notified", "awaited", "one queue"):
        device = Device()
        assert Program(module, device, (what,)).run() == 0
        hints = [one for one in device.verify().findings if one.kind in ("unsynced", "unordered")]
        if what not in unsynced:
            assert not hints, what
            continue
        kind, part, message = unsynced[what]
        assert [hint.kind for hint in hints] == [kind], what
        assert re.match(message, hints[0].title)
        assert f"main, host_faults.mlu:{_line(part)}: " in hints[0].text()
        assert hints[0].to_json()["line"] == _line(part)


def test_a_program_in_its_own_process_returns_its_status(module: bangc.Module) -> None:
    for what, status in (("exit", 5), ("nothing", 0)):
        program = Program(module, Device(), (what,))
        assert run_apart(program, program.run) == status


def test_an_error_of_a_class_made_for_one_run_keeps_its_public_type(module: bangc.Module) -> None:
    class StalledError(OperationLimitError):
        def __init__(self) -> None:
            super().__init__("no operation issued")

    def work() -> int:
        raise StalledError

    with pytest.raises(OperationLimitError, match=r"^no operation issued$"):
        run_apart(Program(module, Device()), work)


@pytest.mark.slow
def test_a_main_without_end_is_stopped(module: bangc.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "PROGRAM_LIMIT_S", 1)
    program = Program(module, Device(), ("endless",))
    with pytest.raises(MlusimError, match=r"host_faults\.mlu:\d+: main ran 1 s of processor time .*endless loop"):
        run_apart(program, program.run)


def test_memory_that_is_copied_or_freed_again_after_its_free_is_named(tmp_path: Path) -> None:
    file = tmp_path / "freed.mlu"
    file.write_text(
        "#include <cnrt.h>\nint main(int count, char **) {\n"
        "  float *x, host[4];\n"
        "  cnrtMalloc((void **)&x, 16);\n  cnrtFree(x);\n"
        "  if (count > 1) cnrtFree(x);\n"
        "  cnrtMemcpy(host, x, 16, cnrtMemcpyDevToHost);\n}\n"
    )
    module = bangc.compile(file)
    for words, line, call in ((("again",), 6, "cnrtFree"), ((), 7, "cnrtMemcpy")):
        with pytest.raises(InputError, match=rf"freed\.mlu:{line}: {call} of .*: device memory 0 was there until cnrt"):
            Program(module, Device(), words).run()


@pytest.mark.parametrize("compiler", ["g++", pytest.param("ziglang", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("cnrtQueue_t q; k<<<1, cnrtFuncTypeBlock, q>>>(x)", "main, unset.mlu:5: queue 0x.* cnrtQueueCreate did not"),
        (
            "cnrtMemcpy(unset, x, 4, cnrtMemcpyDevToHost)",
            "main, unset.mlu:5: .* 4 B at a pointer that has no value yet",
        ),
        (
            "cnrtMalloc((void **)unset, 4)",
            "main, unset.mlu:5: cnrtMalloc would store its result at a pointer that has no va",
        ),
        ("k<<<1, cnrtFuncTypeBlock>>>(unset)", r"task 0.*, unset\.mlu:2, .* a pointer that has no value yet: set it"),
    ],
)
def test_a_variable_without_a_value_is_an_error_at_its_use(
    compiler: str, call: str, message: str, tmp_path: Path
) -> None:
    """Independent of what the stack holds: it is filled with zeros before."""
    file = tmp_path / "unset.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(float *y) { if (__is_ipu()) y[0] = 1; }\n"
        "__attribute__((noinline)) void clear() { volatile char zeros[4096]; for (auto &zero : zeros) zero = 0; }\n"
        "int main() { float *x; cnrtMalloc((void **)&x, 4); clear(); float *unset;\n"
        f"  {call}; cnrtSyncDevice(); }}\n"
    )
    with pytest.raises(MlusimError, match=message):
        Program(bangc.compile(file, compiler=compiler), Device(), ()).run()


def test_harmless_faults_are_errors_in_process(module: bangc.Module) -> None:
    for what in ("null", "throw", "device"):
        line = _line(f'"{what}"')
        with pytest.raises(MlusimError, match=rf"host_faults\.mlu:{line}: "):
            Program(module, Device(), (what,)).run()


def test_input_errors_keep_their_type(module: bangc.Module) -> None:
    program = Program(module, Device(), ("beyond",))
    with pytest.raises(InputError):
        run_apart(program, program.run)


@pytest.mark.parametrize(
    ("what", "kinds"),
    [
        ("sound", []),
        ("a part is read", []),
        ("copy between", []),
        ("half uploaded", ["uninitialised"]),
        ("not waited for", ["task-race"]),
        ("too few", ["never-written"]),
    ],
)
@pytest.mark.grid(3)
def test_the_checker_knows_what_a_program_uploads_orders_and_copies_back(
    checked: bangc.Module, what: str, kinds: list[str], tmp_path: Path
) -> None:
    device = Device()
    assert Program(checked, device, (what,)).run() == 0
    report = device.verify()
    assert [finding.kind for finding in report.errors] == kinds, report.text()
    if kinds == ["task-race"]:
        first, second = (f"host_checked.mlu:{number}" for number in _launches(checked))
        assert report.errors[0].remedy.startswith(f"put both launches on one queue, those at {first} and {second}\n")
        assert report.errors[0].remedy.endswith("cnrtQueueWaitNotifier\nor wait for the first one: cnrtQueueSync")
    if kinds == ["never-written"]:
        # A launch got the memory.
        assert report.errors[0].remedy.startswith("look for a bound that is too small")
    saved = mlusim.load(device.save(tmp_path / "run.npz"))
    assert [finding.kind for finding in check_log(saved.log, saved.board).errors] == kinds


def test_a_program_that_only_copies_back_what_nothing_wrote_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "back.mlu"
    file.write_text(
        "#include <cnrt.h>\nint main(int count, char **) {\n"
        "  float *x, host[4] = {};\n  cnrtMalloc((void **)&x, 16);\n"
        "  if (count > 1) cnrtMemcpy(x, host, 16, cnrtMemcpyHostToDev);\n"
        "  cnrtMemcpy(host, x, 16, cnrtMemcpyDevToHost);\n}\n"
    )
    module = bangc.compile(file)
    for words, kinds in (((), ["never-written"]), (("uploaded",), [])):
        device = Device()
        assert Program(module, device, words).run() == 0
        assert [finding.kind for finding in device.verify().errors] == kinds


def _launches(checked: bangc.Module) -> list[int]:
    """The lines of a program that launch a kernel."""
    lines = checked.path.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if "<<<" in line and "exchanged" not in line]


def test_an_output_that_a_launch_got_as_its_input_is_named_with_the_launch(checked: bangc.Module) -> None:
    device = Device()
    assert Program(checked, device, ("exchanged",)).run() == 0
    (finding,) = device.verify().errors
    lines = checked.path.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "// exchanged" in text)
    assert finding.kind == "never-written"
    assert finding.remedy.startswith(
        f"swap device memory 0 and device memory 2 in the launch at host_checked.mlu:{line}: "
    )


def test_the_library_of_the_wheels_compiler_is_no_users_code_in_whatever_environment_it_was_built() -> None:
    """The compiler's cache serves all environments, and names files of the one that built it."""
    library = "lib/python3.11/site-packages/ziglang/lib/libcxxabi/src/cxa_handlers.cpp"
    assert is_system(f"/home/someone/another-environment/{library}")
    assert is_system("/usr/include/c++/12/vector")
    assert is_system(f"{sys.prefix}/include/vector")
    assert not is_system("/home/someone/kernels/handlers.cpp")
    assert not is_system("/usr/src/app/kernels/handlers.cpp")
    assert not is_system(f"{sys.prefix}-kernels/handlers.cpp")


@pytest.mark.grid(8)
@pytest.mark.parametrize(
    ("kernel", "call", "message"),
    [
        (
            "__mlu_entry__ void k(float *x) { }",
            "k(x)",
            r"main calls k, which is a kernel: launch it with k<<<dim, type, q",
        ),
        (
            "template <class T> __mlu_entry__ void k(T *x) { x[0] = taskDim; }",
            "k<float>(x)",
            "main calls k, which is a k",
        ),
        (
            "void k(float *x) { }",
            "k<<<1, cnrtFuncTypeBlock>>>(x)",
            r"k<<<...>>>: k is not a kernel of these files: define it with __mlu_en",
        ),
        (
            "",
            "void (*kernel)(float *) = nullptr; kernel<<<1, cnrtFuncTypeBlock>>>(x)",
            r"kernel<<<...>>> launches a null pointer: set it to a kernel first",
        ),
        (
            "__nram__ float tile[64];",
            "tile[1] = 1",
            r"writes memory of a core at byte 4 of tile \(NRAM\), which has 256 B: only kernels can; pass the",
        ),
        (
            "",
            "int n; cnrtMalloc(&n, 4)",
            "cnrtMalloc stores a result of 8 B at its 1st argument, which points to a number of 4 B",
        ),
        (
            "",
            "cnrtMemGetInfo((size_t *)x, 3)",
            "the 2nd argument of cnrtMemGetInfo is 3, a number: pass an address, such as",
        ),
        (
            "",
            "cnrtNotifierDuration(a, a, 0.0f)",
            "the 3rd argument of cnrtNotifierDuration is 0, a number: pass an addr",
        ),
        (
            "",
            "float us; cnrtNotifierElapsedTime(a, a, &us)",
            "cnrtNotifierElapsedTime between two notifiers: the first was never placed; call cnrtPlaceNotifier",
        ),
        (
            "cnrtMemcpy3dParam_t p;",
            "p.srcPtr = {4, x, 4, 4}, p.dstPtr = {4, x + 45, 4, 4}, p.extent = {5, 4, 4}, cnrtMemcpy3D(&p)",
            "cnrtMemcpy3D of 80 B at byte 180 of device memory 0, which has 256 B: copy less, or allocate more",
        ),
        (
            "float us;",
            (
                "cnrtNotifier_t b; cnrtNotifierCreate(&b); cnrtPlaceNotifier(b, 0); cnrtPlaceNotifier(a, 0); "
                "cnrtNotifierDuration(a, b, &us)"
            ),
            "cnrtNotifierDuration between two notifiers: the second was placed before the first; call cnrtPlaceN",
        ),
    ],
)
def test_what_the_host_cannot_do_is_an_error_at_its_line(tmp_path: Path, kernel: str, call: str, message: str) -> None:
    file = tmp_path / "called.mlu"
    file.write_text(
        f"#include <bang.h>\n{kernel}\nint main() {{\n  float *x; cnrtNotifier_t a; cnrtNotifierCreate(&a);\n"
        f"  cnrtMalloc((void **)&x, 256);\n  {call};\n}}\n"
    )
    with pytest.raises(MlusimError, match=rf"main, called\.mlu:6: {message}"):
        Program(bangc.compile(file), Device()).run()


def test_a_launch_of_an_address_without_code_is_an_error_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "wild.mlu"
    file.write_text(
        "#include <bang.h>\nint main() {\n  auto wild = (void (*)(float *))8;\n"
        "  wild<<<1, cnrtFuncTypeBlock>>>(nullptr);\n  cnrtSyncDevice();\n}\n"
    )
    with pytest.raises(MlusimError, match=r"wild\.mlu:4, at .*: the kernel jumped to address 0x"):
        Program(bangc.compile(file), Device()).run()


def test_an_instance_of_a_template_may_be_launched_by_its_address(tmp_path: Path) -> None:
    file = tmp_path / "address.mlu"
    file.write_text(
        "#include <bang.h>\nnamespace {\n"
        "template <class T> __mlu_global__ void first(T *x) { if (!__is_mpu()) *x = 1; }\n}\n"
        "int main() {\n  float *x, y;\n  cnrtMalloc((void **)&x, 4);\n  void (*kernel)(float *) = first<float>;\n"
        "  kernel<<<1, cnrtFuncTypeBlock>>>(x);\n  cnrtMemcpy(&y, x, 4, cnrtMemcpyDevToHost);\n  return int(y);\n}\n"
    )
    assert Program(bangc.compile(file), Device()).run() == 1


def test_errors_of_the_checker_are_shown_if_main_fails_because_of_them(tmp_path: Path) -> None:
    file = tmp_path / "asserts.mlu"
    file.write_text(
        "#include <bang.h>\n#include <cnrt.h>\n#include <cassert>\n__nram__ float tile[4];\n"
        "__mlu_entry__ void k(float *y) { __memcpy(y, tile, 16, NRAM2GDRAM); }\n"
        "int main() {\n  float *y, host[4] = {};\n  cnrtMalloc((void **)&y, 16);\n"
        "  k<<<1, cnrtFuncTypeBlock, nullptr>>>(y);\n  cnrtMemcpy(host, y, 16, cnrtMemcpyDevToHost);\n"
        "  assert(host[0] == 1);\n}\n"
    )
    command = [sys.executable, "-m", "mlusim", "bangc", "run", str(file), "--check"]
    result = subprocess.run(command, capture_output=True, check=False, text=True)
    assert result.returncode == 1
    errors = (
        r"(?s)error: uninitialised: memcpy reads tile.*error: main, asserts\.mlu:11: assertion failed: host\[0\] == 1"
    )
    assert re.match(errors, result.stderr)
