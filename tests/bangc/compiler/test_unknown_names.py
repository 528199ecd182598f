"""Names of BANG C that are not simulated: each error gives the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc.calls import intrinsics
from mlusim.bangc.compiler.undeclared_names import is_of_library
from mlusim.bangc.compiler.unknown_names import is_unknown, not_simulated, why_missing
from mlusim.cli.command_line import program
from mlusim.errors import KernelError

KERNEL = """
__mlu_entry__ void kernel(int *out) {
    __nram__ int x[64];
    __bang_write_value(x, 64, 1);
    __bang_tiling_2d_b8(x, x, 64);
    __memcpy(out, x, sizeof(x), NRAM2GDRAM);
}
"""


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("__trc_add", "tensor descriptors"),
        ("cnnlCreate", "CNNL"),
        ("__mlvm_memset_nram_f16", "the intrinsic that stands for it"),
        ("__bang_tiling_2d_b8", "what it computes"),
        ("__bang_perf_cache_miss", "performance counter"),
        ("__memcpy_nram_to_remote", "another chip"),
        ("__bang_float2half_sr", "how the board rounds"),
    ],
)
def test_a_missing_intrinsic_has_its_reason(name: str, part: str) -> None:
    assert is_unknown(name) or is_of_library(name)
    assert part in why_missing(name)


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("cnrtNotifierWait", "cnrtWaitNotifier"),
        ("cnrtDeviceSync", "cnrtSyncDevice"),
        ("cnrtMallocHosts", "cnrtMallocHost"),
    ],
)
def test_a_function_of_the_host_with_its_words_reordered_or_misspelt(slip: str, meant: str) -> None:
    assert not_simulated(slip) == f"{slip} is not simulated: did you mean {meant}?"


def test_known_intrinsics_have_no_reason() -> None:
    assert not [name for name in intrinsics.names() if why_missing(name)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("__bang_tiling_2d_b8(x, x, 64)", "__bang_tiling_2d_b8 is not simulated: no public document defines"),
        (
            "__bang_srl_scalar(x, x, 2, 64)",
            "__bang_srl_scalar is not simulated: __bang_srl takes two vectors: fill one",
        ),
    ],
)
@pytest.mark.grid(4)
def test_the_error_gives_the_reason_at_the_call(tmp_path: Path, call: str, message: str) -> None:
    file = tmp_path / "kernel.mlu"
    file.write_text(KERNEL.replace("__bang_tiling_2d_b8(x, x, 64)", call))
    with pytest.raises(KernelError, match=rf"kernel\.mlu:5, .*{message}"):
        mlusim.run(bangc.compile(file)["kernel"], mlusim.Output(64, "int32"))


FILE = """
__mlu_entry__ void kernel(float *out, half *narrow) {
    __nram__ float x[64];
    __bang_addd(x, x, x, 64);
    __bang_srl_scalar(x, x, 2, 64);
    __bang_tiling_2d_b8(x, x, 64);
    __bang_quux(x, 64);
    narrow[0] = __float2half_rnd(x[0]);
}
"""


@pytest.mark.parametrize("command", [("compile",), ("bangc", "check")])
@pytest.mark.grid(2)
def test_missing_intrinsics_are_told_with_line_and_remedy(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernel.mlu").write_text(FILE)
    with pytest.raises(SystemExit, match="1"):
        program.main([*command, str(tmp_path / "kernel.mlu")])
    shown = capsys.readouterr().out
    assert "kernel.mlu: compiles\n  kernel(float *out, half *narrow)\n  missing " in shown
    for line, text in (
        (4, "__bang_addd is not simulated: did you mean __bang_add?"),
        (5, "__bang_srl_scalar is not simulated: __bang_srl takes two vectors: fill one"),
        (6, "__bang_tiling_2d_b8 is not simulated: no public document defines what it computes"),
        (7, "__bang_quux is not simulated: no public header declares it"),
        (8, "__float2half_rnd is not simulated: did you mean __float2half_rn?"),
    ):
        assert f"kernel.mlu:{line}: {text}" in " ".join(shown.split())


IN_A_TEMPLATE = """
template <typename T> __mlu_func__ void widen(T *x, int n) { __extend(x, x, n); }
__mlu_entry__ void kernel(float *out, int n) {
    __nram__ float x[64];
    out[0] = n;
    if (n > 3) widen(x, n);
    if (n > 5) __frobnicate(x, 64);
}
"""


def test_a_message_names_only_some_of_many_unknown_functions(tmp_path: Path) -> None:
    calls = "\n".join(f"    __bang_frobnicate_{letter}(x, 64);" for letter in "abcdefghi")
    (tmp_path / "kernel.mlu").write_text(f"__mlu_entry__ void kernel() {{\n    __nram__ int x[64];\n{calls}\n}}\n")
    rule = r"the unknown (__bang_frobnicate_[b-f](, )?){5} and 3 more, which `mlusim bangc check` lists$"
    with pytest.raises(KernelError, match=rule):
        mlusim.run(bangc.compile(tmp_path / "kernel.mlu")["kernel"], dim=1, kind="BLOCK")


@pytest.mark.slow
def test_an_intrinsic_of_any_name_is_an_error_only_where_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "kernel.mlu").write_text(IN_A_TEMPLATE)
    module = bangc.compile(tmp_path / "kernel.mlu")
    for n, line in ((3, None), (4, 2)):
        device = Device()
        device.launch(module["kernel"], device.alloc(1, "float32"), n, dim=1, kind="BLOCK")
        if line is None:
            device.synchronize()
        else:
            message = (
                rf"kernel\.mlu:{line}, .*__extend is not simulated: .* the file also calls the unknown __frobnicate"
            )
            with pytest.raises(KernelError, match=message):
                device.synchronize()
