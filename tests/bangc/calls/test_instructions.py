"""Atomics, sets, gathers, counts and statements of assembly in compiled kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.bangc import Module
from mlusim.errors import AccessError, CompileError, OperandError

KERNELS = Path(__file__).parents[1] / "kernels"


@pytest.fixture(scope="module")
def memory() -> Module:
    return bangc.compile(KERNELS / "memory.mlu")


@pytest.mark.slow
def test_negative_strides_lead_backwards_within_the_array(memory: Module) -> None:
    x = np.arange(16, dtype=np.float32)
    result = mlusim.run(memory["backwards"], x, mlusim.Output(16), 3, dim=1, kind="BLOCK")
    assert np.array_equal(result.output, x.reshape(4, 4)[::-1].ravel())
    with pytest.raises(AccessError, match=r"4 rows of 16 B, -16 B apart, from byte 32 of \w+ on begin 16 B before it"):
        mlusim.run(memory["backwards"], x, mlusim.Output(16), 2, dim=1, kind="BLOCK")
    result = mlusim.run(memory["filled_backwards"], mlusim.Output(16), 3, dim=1, kind="BLOCK")
    assert (result.output == 2.5).all()
    with pytest.raises(AccessError, match=r"strides \[-16, 4\] from byte 0 of \w+ on begin 48 B before it"):
        mlusim.run(memory["filled_backwards"], mlusim.Output(16), 0, dim=1, kind="BLOCK")


def test_atomics_accumulate_and_return_old_values(memory: Module) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (8, 96)).astype(np.float32)
    x[np.arange(8), rng.integers(0, 96, 8)] = 9
    device = Device()
    total = device.upload(np.zeros(96, np.float32), writable=True)
    counts = device.alloc(16, "int32")
    device.launch(memory["totals"], device.upload(x), total, counts, 96, dim=8, kind="BLOCK")
    device.synchronize()
    assert device.download(total).tolist() == x.sum(axis=0).tolist()
    expected = np.stack([(x != 0).sum(axis=1), x.argmax(axis=1)], axis=1)
    assert device.download(counts).reshape(8, 2).tolist() == expected.tolist()


def test_an_atomic_over_overlapping_rows_adds_them_all(memory: Module) -> None:
    x = np.arange(64, dtype=np.float32)
    device = Device()
    out = device.upload(np.zeros(20, np.float32), writable=True)
    device.launch(memory["overlapping"], device.upload(x), out, dim=1, kind="BLOCK")
    device.synchronize()
    expected = np.zeros(20)
    for outer in range(2):
        for inner in range(3):
            expected[8 * outer + 2 * inner :][:4] += x[1 + 20 * outer + 5 * inner :][:4]
    assert device.download(out).tolist() == expected.tolist()


def test_a_set_has_the_type_of_its_value(memory: Module) -> None:
    out = mlusim.run(memory["clear"], mlusim.Output(300), 300, dim=4, kind="BLOCK").output
    assert set(out.tolist()) == {2.5}


def test_a_fused_statement_of_assembly(memory: Module) -> None:
    x = np.arange(256, dtype=np.float32)
    reference = x[:128] * 3 - x[128:]
    mlusim.verify(memory["statements"], x, mlusim.Output(128), 128, dim=1, kind="BLOCK", reference=reference).check()


def test_gather_accepts_byte_offsets_from_arch_592(memory: Module) -> None:
    x = np.arange(20 * 8, dtype=np.float32).reshape(20, 8)
    where = np.array([3, 0, 19, 3, 7], np.uint32)
    device = Device("mlu590-h8")
    out = device.alloc((5, 8), "float32")
    module = bangc.compile(KERNELS / "memory.mlu", "mlu590-h8")
    device.launch(module["rows"], device.upload(x), device.upload(where), out, 5, 8, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(out).tolist() == (x[where] + 1).tolist()
    device.verify().check()
    older = Device("mlu370-x4")
    out = older.alloc((5, 8), "float32")
    older.launch(memory["rows"], older.upload(x), older.upload(where), out, 5, 8, dim=1, kind="BLOCK")
    with pytest.raises(
        OperandError, match=r"memory\.mlu:\d+.*__gather exists from arch 592 on; this board is arch 372"
    ):
        older.synchronize()


@pytest.mark.parametrize(("counts", "width"), [([2, 0, 3, 1], 1), ([1, 1], 5), ([0, 7], 4)])
def test_extension_repeats_segments_from_arch_592(memory: Module, counts: list[int], width: int) -> None:
    x = np.arange(len(counts) * width, dtype=np.float32).reshape(-1, width)
    expected = (np.repeat(x, counts, axis=0) + 1) * 2
    module = bangc.compile(KERNELS / "memory.mlu", "mlu590-h8")
    device = Device("mlu590-h8")
    out = device.alloc(expected.shape, "float32")
    arguments = (device.upload(np.array(counts, np.uint8)), out, len(counts), width, expected.size)
    device.launch(module["extended"], device.upload(x), *arguments, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(out).tolist() == expected.tolist()
    device.verify().check()
    older = Device("mlu370-x4")
    arguments = (older.upload(np.array(counts, np.uint8)), older.alloc(expected.size, "float32"))
    older.launch(memory["extended"], older.upload(x), *arguments, len(counts), width, 0, dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match=r"__extension exists from arch 592 on; this board is arch 372"):
        older.synchronize()


@pytest.mark.parametrize("first", range(0, 64, 7))
def test_tensors_begin_at_aligned_addresses(memory: Module, first: int) -> None:
    """Whatever the address of the user's array is: kernels round addresses down."""
    x = np.arange(1000, dtype=np.int8)[first:]
    device = Device()
    views = device.upload(x), device.upload(x, writable=True), device.alloc(5, "int8"), device.alloc(4, "int32")
    device.launch(memory["phases"], *views, dim=1, kind="BLOCK")
    device.synchronize()
    assert device.download(views[-1]).tolist() == [0, 0, 0, 0]
    assert device.download(views[0]).tolist() == device.download(views[1]).tolist() == x.tolist()


@pytest.mark.parametrize("dma", ["complete", "late"])
def test_plain_cpp_sees_large_tiles_that_were_left_in_the_input(memory: Module, dma: str) -> None:
    x = np.arange(1, 24577, dtype=np.int32)
    device = Device(dma=dma)
    out = device.alloc(4 * 8192, "int32")
    device.launch(memory["looks"], device.upload(x), out, dim=1, kind="BLOCK")
    device.synchronize()
    tiles = np.full(3 * 8192, 7, np.int32)
    tiles[8192:16384] = x[:8192]
    first = tiles[8191] + tiles[8192]
    tiles[:8192] = x[8192:].reshape(8, 2048)[:, :1024].reshape(-1)
    tiles[5] = first
    again = np.ones(8192, np.int32)
    again[1:2049] = x[1:2049]
    assert device.download(out).tolist() == [*tiles.tolist(), *again.tolist()]


@pytest.mark.grid(2)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "__bang_add(a, a, 1.0f, 64)",
            "__bang_add: argument 3, src1, is a vector, and a number was passed; call __bang_add_sc",
        ),
        (
            "__bang_add_scalar(a, 1.0f, a, 64)",
            r"__bang_add_scalar: argument 2, src0, is a pointer, and a number was passed; .* \(dst, src0, src1, n\)",
        ),
        (
            "__bang_minimum(a, b, 1.0f, 64)",
            "__bang_minimum: argument 3, src1, is a vector, and a number was passed; fill an arr",
        ),
        (
            "__bang_mul_scalar(a, a, b, 64)",
            "__bang_mul_scalar: argument 3, src1, is a number, and a vector was passed; call __bang_mul",
        ),
        (
            "__bang_half2float(b, a, 64)",
            r"__bang_half2float: src must point to float16; cast .*; the call passes \(float\*, float\*, int\)",
        ),
        (
            "__bang_float2int(h, a, 64, 0)",
            r"__bang_float2int: dst must .* \(half\*, float\*, int, int\)",
        ),
        (
            "__bang_float2half((void *)h, a, 64)",
            r"__bang_float2half: dst must .* \(void\*, float\*, int\)",
        ),
        (
            "__bang_add(a, b, h, 64)",
            r"__bang_add: dst, src0 and src1 must point to one element type; .* \(float\*, float\*, half\*, int\)",
        ),
        (
            "__bang_maskmove(a, b, h, 64)",
            "__bang_maskmove: src and mask must point to elements of the same width; ",
        ),
        (
            "__memcpy(a, b, a, NRAM2NRAM)",
            r"__memcpy: argument 3, size, is a number, and a pointer was .* \(dst, src, size, dir\)",
        ),
        ("__memcpy_async(a, 1.0f, 4, NRAM2NRAM)", "__memcpy_async: argument 2, src, is a pointer, and a number was pa"),
        ("__bang_move(a, 1.0f, 64)", r"__bang_move: argument 2, src, is a pointer, .* \(dst, src, size\)"),
        (
            "__bang_atomic_add(a, h, 1)",
            r"__bang_atomic_add: its pointers must have one element type; cast .* passes \(float\*, half\*, int\)",
        ),
        ("__bang_atomic_cas(a, b, h, 1)", "__bang_atomic_cas: its pointers must have one element type; "),
        ("__bang_atomic_reduce_add(a, h, 4)", "__bang_atomic_reduce_add: its pointers must have one element type; "),
        (
            "__bang_atomic_max(a, b, 1, a)",
            "__bang_atomic_max: argument 4, size, is a number, and a pointer was passed; ",
        ),
        ("__gather(a, b, 1.0f, 64, NRAM2NRAM, 64, 4)", "__gather: argument 3, offsets, is a pointer, and a number "),
        ("__gdramset(a, b, 0)", "__gdramset: argument 2, elem_count, is a number, and a pointer was passed; "),
        (
            "__bang_add((const float *)a, a, b, 64)",
            r"__bang_add: argument 1, dst, is written, and a pointer to const was passed; .* \(const float\*, float\*",
        ),
        ("__memcpy((const char *)a, b, 4, NRAM2NRAM)", "__memcpy: argument 1, dst, is written, and a pointer to const"),
        ("ADDED(a, h)", "__bang_add: dst, src0 and src1 must point to one element type"),
    ],
)
@pytest.mark.parametrize("syntax_only", [False, True])
@pytest.mark.parametrize("compiler", ["g++", pytest.param("ziglang", marks=pytest.mark.slow)], indirect=True)
def test_arguments_of_another_kind_or_type_are_errors_in_code_that_never_runs(
    call: str, message: str, compiler: str, syntax_only: bool, tmp_path: Path
) -> None:
    file = tmp_path / "typed.mlu"
    file.write_text(
        "#include <bang.h>\n#define ADDED(x, y) __bang_add(x, x, y, 64)\n__mlu_entry__ void k(int n) {\n"
        f"  __nram__ float a[64], b[64];\n  __nram__ half h[64];\n  if (n < 0) {call};\n}}\n"
    )
    with pytest.raises(CompileError, match=rf"typed\.mlu:6: error: {message}") as raised:
        bangc.compile(file, compiler=compiler, syntax_only=syntax_only)
    # One error, and the line of the file.
    assert len(str(raised.value).splitlines()) == 3
    assert str(raised.value).endswith(f"    6 |   if (n < 0) {call};")


def test_an_object_in_the_place_of_an_address_of_cnrt_is_an_error_at_its_line(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "object.mlu"
    file.write_text(
        "#include <cnrt.h>\n#include <vector>\nint main() {\n  std::vector<float> v(4);\n  float *d = nullptr;\n"
        "  cnrtMemcpy(d, v, 16, cnrtMemcpyHostToDev);\n}\n"
    )
    message = (
        r"object\.mlu:6: error: cnrtMemcpy: argument 2 is an address, and an object was passed; pass its data\(\) or "
        r"its address; the call passes \(float\*, std::vector<float>, int, cnrtMemTransDir_t\)"
    )
    with pytest.raises(CompileError, match=message) as raised:
        bangc.compile(file, compiler=compiler)
    assert len(str(raised.value).splitlines()) == 3


def test_the_forms_of_atomics_in_the_header_compile(tmp_path: Path) -> None:
    file = tmp_path / "atomics.mlu"
    values = ("v", "v, 4", "x, 4")
    calls = [f"__bang_atomic_{name}(x, g, {value})" for name in ("add", "max", "exch", "inc") for value in values]
    calls += [f"__bang_atomic_reduce_{name}(g, {value})" for name in ("add", "min", "dec") for value in values]
    calls += ["__bang_atomic_cas(x, g, v, v)", "__bang_atomic_reduce_cas(g, v, v)"]
    calls += ["__bang_atomic_reduce_add(g, x, 4, 1, 0, 16, 16, 16, 16)", "__bang_atomic_add(&v, g, 1)"]
    body = "".join(f"  {call};\n" for call in calls)
    file.write_text(f"#include <bang.h>\n__mlu_entry__ void k(int *g, int v) {{\n  __nram__ int x[64];\n{body}}}\n")
    bangc.compile(file, syntax_only=True)


def test_a_rule_of_arguments_is_stated_at_the_line_of_a_template(tmp_path: Path) -> None:
    file = tmp_path / "typed.mlu"
    file.write_text(
        "#include <bang.h>\ntemplate <typename T> __mlu_func__ void to(T *a, half *h) {\n"
        "  __bang_sub(a, a, h, 64);\n}\n__mlu_entry__ void k() {\n  __nram__ half h[64];\n  __nram__ short s[64];\n"
        "  to(h, h);\n  to(s, h);\n}\n"
    )
    passed = r"\(short( int)?\*, short( int)?\*, half\*, int\)"
    with pytest.raises(CompileError, match=rf"typed\.mlu:3: error: __bang_sub: .* the call passes {passed}"):
        bangc.compile(file)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("__bang_floor(a, a, 64)", "floor"),
        ("__bang_maxpool(a, a, 64, 1, 4, 1, 4)", "maxpool"),
        ("__bang_avgpool(a, a, 64, 1, 4, 1, 4)", "avgpool"),
        ("__bang_minpool_index((unsigned *)a, a, 64, 1, 4, 1, 4, 1, 1)", "minpool_index"),
    ],
)
@pytest.mark.grid(2)
def test_a_result_in_place_that_the_header_forbids_is_an_error(call: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "typed.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(float *x) {\n  __nram__ float a[256];\n  if (__is_mpu()) return;\n"
        f"  {call};\n}}\n"
    )
    device = Device()
    device.launch(bangc.compile(file)["k"], device.alloc(64, "float32"), dim=1, kind="BLOCK")
    with pytest.raises(OperandError, match=rf"typed\.mlu:5, at .*: {name} of .*: they overlap"):
        device.synchronize()


def test_the_name_of_a_conversion_states_its_types(tmp_path: Path) -> None:
    file = tmp_path / "named.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(const int *x, float *y, const int8_t *z, half *w) {\n"
        "  __nram__ float a[64];\n  __nram__ uint8_t c[64];\n  __nram__ half h[64];\n  if (__is_mpu()) return;\n"
        "  __memcpy(a, x, 256, GDRAM2NRAM);\n  __bang_int2float(a, a, 64, 0);\n  __memcpy(y, a, 256, NRAM2GDRAM);\n"
        "  __memcpy(c, z, 64, GDRAM2NRAM);\n  __bang_int82half(h, c, 64, 0);\n  __memcpy(w, h, 128, NRAM2GDRAM);\n}\n"
    )
    x, z = np.arange(-32, 32, dtype=np.int32), np.arange(-64, 0, dtype=np.int8)
    outputs = mlusim.Output(64), mlusim.Output(64, "float16")
    result = mlusim.run(bangc.compile(file)["k"], x, outputs[0], z, outputs[1], dim=1, kind="BLOCK")
    assert result.outputs["y"].tolist() == x.tolist()
    assert result.outputs["w"].tolist() == z.tolist()
