"""Memory spaces of compiled kernels are the simulated memories: shared, poisoned, limited and checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim import Device, bangc
from mlusim.analysis.summary import split_rows
from mlusim.errors import AllocationError, KernelError, MissingDataError

KERNELS = Path(__file__).parents[1] / "kernels"
X = np.arange(512, dtype=np.float32)


@pytest.fixture(scope="module")
def shared() -> bangc.Module:
    return bangc.compile(KERNELS / "shared.mlu")


@pytest.mark.parametrize("dma", ["complete", "late"])
def test_a_shared_array_is_one_for_the_cores_of_a_cluster(shared: bangc.Module, dma: str) -> None:
    report = mlusim.verify(
        shared["stage"], X, mlusim.Output((512,)), reference=lambda x: x + 1, dim=8, kind="UNION2", dma=dma
    )
    report.check()


def test_a_missing_barrier_is_reported_at_the_source_lines(shared: bangc.Module) -> None:
    report = mlusim.verify(shared["race"], X, mlusim.Output((512,)), dim=8, kind="UNION2")
    assert not report.ok
    assert "shared.mlu:22" in report.text()


def test_a_block_launch_with_more_tasks_than_clusters_may_leave_a_shared_array_unused(shared: bangc.Module) -> None:
    x = np.arange(64, dtype=np.float32)
    report = mlusim.verify(
        shared["mixed"], x, mlusim.Output((64,)), dim=64, kind="BLOCK", reference=np.full(64, 4033, np.float32)
    )
    report.check()


def test_vector_instructions_and_plain_cpp_see_each_others_results(shared: bangc.Module) -> None:
    x = np.arange(64, dtype=np.float32)
    report = mlusim.verify(shared["mixed"], x, mlusim.Output((4,)), dim=4, reference=np.full(4, 4033, np.float32))
    report.check()


def test_arrays_that_do_not_fit_are_an_error_with_the_arithmetic(tmp_path: Path) -> None:
    file = tmp_path / "large.mlu"
    file.write_text(
        "__nram__ char first[512 * 1024];\n__nram__ char second[300 * 1024], third[64];\n"
        "__mlu_entry__ void kernel(char *out) { __memcpy(out, first, 8, NRAM2GDRAM); }\n"
    )
    device = Device("mlu370-x4")
    device.launch(bangc.compile(file)["kernel"], device.alloc(8, "int8"), dim=4)
    expected = (
        r"large\.mlu:2, .*NRAM arrays of large\.mlu take 831 552 B "
        r"\(first 524 288 \+ second 307 200 \+ third 64, .*has 786 432 B: make .*share one$"
    )
    with pytest.raises(AllocationError, match=expected):
        device.synchronize()


@pytest.mark.parametrize("sources", [(), ("other.mlu",)])
@pytest.mark.slow
def test_arrays_larger_than_any_memory_are_an_error_of_a_core_that_has_one(
    tmp_path: Path, sources: tuple[str, ...]
) -> None:
    file, other = tmp_path / "huge.mlu", tmp_path / "other.mlu"
    file.write_text(
        "__nram__ char first[1 << 29], second[64];\n"
        "__mlu_entry__ void kernel(char *out) { __memcpy(second, out, 8, GDRAM2NRAM); first[5] = 1; }\n"
    )
    other.write_text("int unused;\n")
    device = Device("mlu370-x4")
    module = bangc.compile(file, sources=[tmp_path / name for name in sources])
    device.launch(module["kernel"], device.upload(np.zeros(8, np.int8)), dim=4, kind="UNION1")
    expected = r"task 0 .*huge\.mlu:1, .*NRAM arrays of huge\.mlu take 536 87\d \d\d\d B .*first 536 870 912.*786 432 B"
    with pytest.raises(AllocationError, match=expected):
        device.synchronize()


@pytest.mark.slow
def test_arrays_in_the_part_reserved_for_the_compiler_are_a_part_of_the_whole_memory(tmp_path: Path) -> None:
    file = tmp_path / "whole.mlu"
    file.write_text(
        "__nram__ char tile[768 * 1024];\n"
        "__mlu_entry__ void kernel(char *out) { __bang_write_zero(tile, 128); __memcpy(out, tile, 128, NRAM2GDRAM); }\n"
    )
    result = mlusim.run(bangc.compile(file)["kernel"], mlusim.Output((128,), "int8"), dim=1, kind="BLOCK")
    expected = "100.0 % of the 786 432 B (768 KiB) of a core, of which the compiler reserves 131 072 B (128 KiB)"
    assert expected in [row.note for row in split_rows(result)]
    # The other board has as much.
    assert mlusim.retime(result, "mlu370-x8").metrics.peak_nram_bytes == 768 * 1024
    with pytest.raises(mlusim.InputError, match=r"buffers in 786 432 B .* has 524 288 B \(512 KiB\) to use"):
        mlusim.retime(result, "mlu590-h8")


def test_fresh_arrays_are_not_zero_and_reading_them_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "fresh.mlu"
    file.write_text(
        "__nram__ int tile[32];\n"
        "__mlu_entry__ void kernel(int *out) {\n"
        "  if (!__is_mpu() && taskId == 0) __memcpy(out, tile, sizeof(tile), NRAM2GDRAM);\n}\n"
    )
    device = Device()
    out = device.alloc(32, "int32")
    device.launch(bangc.compile(file)["kernel"], out, dim=4)
    device.synchronize()
    assert (device.download(out) == -1).all()
    assert "fresh.mlu:3" in device.verify().text()


def test_a_timing_only_run_takes_the_same_time(shared: bangc.Module, basics: bangc.Module) -> None:
    times = []
    for data in (True, False):
        device = Device(data=data)
        device.launch(shared["stage"], device.upload(X), device.alloc(512, "float32"), dim=8, kind="UNION2")
        device.synchronize()
        times.append(device.log.launches[0].end_ps)
    assert times[0] == times[1]
    device = Device(data=False)
    device.launch(basics["scalar"], device.upload(X), device.alloc(4, "float32"), 100, dim=4)
    with pytest.raises(MissingDataError, match=r"basics\.mlu:40.* input at byte 0, which has a size but no bytes"):
        device.synchronize()


@pytest.mark.grid(4)
@pytest.mark.parametrize("entries", [("halves", "floats"), ("floats", "halves"), ("either", "halves")])
def test_arrays_of_functions_count_in_the_launches_that_use_them(tmp_path: Path, entries: tuple[str, str]) -> None:
    """Each function fills NRAM and SRAM nearly alone; a launch of one does not need the other's."""
    file = tmp_path / "large.mlu"
    file.write_text(
        "template <typename T> __mlu_func__ void twice(T *x, int n, T two) {\n"
        "  __nram__ T tile[600 * 1024 / sizeof(T)];\n"
        "  __mlu_shared__ T shared[3000 * 1024 / sizeof(T)];\n"
        "  if (taskId) return;\n"
        "  __memcpy(shared, x, n * sizeof(T), GDRAM2SRAM);\n"
        "  __memcpy(tile, shared, n * sizeof(T), SRAM2NRAM);\n"
        "  __bang_mul_scalar(tile, tile, two, n);\n"
        "  __memcpy(x, tile, n * sizeof(T), NRAM2GDRAM);\n"
        "}\n"
        "__mlu_entry__ void floats(void *x, int n) { if (__is_ipu()) twice((float *)x, n / 2, 2.0f); }\n"
        "__mlu_entry__ void halves(void *x, int n) { if (__is_ipu()) twice((half *)x, n, (half)2); }\n"
        "__mlu_entry__ void either(void *x, int n) { n < 0 ? halves(x, -n) : floats(x, n); }\n"
    )
    device = Device()
    module = bangc.compile(file, device)
    first, second = (device.upload(np.arange(128, dtype=np.float16), writable=True) for _ in range(2))
    for name in entries:
        for tensor in (first, second):
            device.launch(module[name], tensor, 128, dim=(4, 1, 1), kind="UNION1")
    device.synchronize()
    expected = np.arange(128, dtype=np.float16)
    for name in entries:
        expected = expected * np.float16(2) if name == "halves" else (expected.view(np.float32) * 2).view(np.float16)
    for tensor in (first, second):
        assert device.download(tensor).tobytes() == expected.tobytes()
    device.verify().check()


@pytest.mark.parametrize("order", ["k % 3", "k / 8 % 3", "k * k % 3"])
@pytest.mark.grid(4)
def test_one_instruction_may_access_several_arrays(order: str, tmp_path: Path) -> None:
    """The arrays are equally far apart, so that accesses of one element of each are at equal steps."""
    file = tmp_path / "several.mlu"
    file.write_text(
        "#define N 64\n__nram__ float a[N], b[N], c[N];\n"
        "__attribute__((noinline)) __mlu_func__ float at(const float *p, int i) { return p[i]; }\n"
        "__attribute__((noinline)) __mlu_func__ void put(float *p, int i, float v) { p[i] = v; }\n"
        "__mlu_entry__ void kernel(float *out) {\n"
        "  if (__is_mpu()) return;\n"
        "  float *all[3] = {a, b, c};\n"
        "  for (int k = 0; k < 3 * N; ++k) put(all[k % 3], k / 3, k);\n"
        f"  for (int k = 0; k < N; ++k) out[k] = at(all[{order}], k);\n"
        "}\n"
    )
    k = np.arange(64)
    which = {"k % 3": k % 3, "k / 8 % 3": k // 8 % 3, "k * k % 3": k * k % 3}[order]
    entry = bangc.compile(file)["kernel"]
    mlusim.verify(entry, mlusim.Output((64,)), dim=1, kind="BLOCK", reference=np.float32(3 * k + which)).check()


def test_a_shared_array_of_a_function_is_known_to_every_core_that_reaches_it(tmp_path: Path) -> None:
    """One core provides the array; the others have no array of their own in the function."""
    file = tmp_path / "reached.mlu"
    file.write_text(
        "__mlu_shared__ char scratch[1024];\n"
        "__mlu_func__ float total(float own) {\n"
        "  __mlu_shared__ float parts[4];\n"
        "  if (!__is_mpu()) parts[coreId] = own;\n"
        "  __sync_cluster();\n"
        "  return parts[0] + parts[1] + parts[2] + parts[3];\n}\n"
        "__mlu_entry__ void kernel(float *out) {\n"
        "  __sync_cluster();\n"
        "  float sum = total(taskId + 1);\n"
        "  if (!__is_mpu()) out[taskId] = sum + sizeof(scratch);\n}\n"
    )
    entry = bangc.compile(file)["kernel"]
    sums = np.repeat(np.float32([10, 26]), 4) + 1024
    mlusim.verify(entry, mlusim.Output((8,)), dim=8, kind="UNION2", reference=sums).check()


def test_each_instance_of_a_template_has_shared_arrays_of_its_own(compiler: str, tmp_path: Path) -> None:
    file = tmp_path / "instances.mlu"
    file.write_text(
        "template <typename T, int K> __mlu_func__ T *slots() { __mlu_shared__ T part[4]; return part; }\n"
        "__mlu_entry__ void kernel(float *out) {\n"
        "  float *f = slots<float, 1>(), *g = slots<float, 2>();\n"
        "  int *i = slots<int, 1>();\n"
        "  if (__is_mpu()) return;\n"
        "  f[coreId] = 0.5f; g[coreId] = 100; i[coreId] = taskId;\n"
        "  out[taskId] = f[coreId] + g[coreId] + i[coreId] + (slots<int, 1>() == i);\n}\n"
    )
    entry = bangc.compile(file, compiler=compiler)["kernel"]
    reference = np.arange(8, dtype=np.float32) + 101.5
    mlusim.verify(entry, mlusim.Output((8,)), dim=8, kind="UNION2", reference=reference).check()


BROADCAST = """#include <bang.h>
#define N 512
__mlu_entry__ void other(float *x) {
  __mlu_shared__ float apart[64];
  if (__is_ipu()) apart[coreId] = x[coreId];
}
__mlu_entry__ void broadcast(const float *w, const float *x, float *y, int rows) {
  __mlu_shared__ float s[N];
  __nram__ float a[N], b[N];
  if (__is_mpu()) {
    if (clusterId == 0) __memcpy(s, w, N * sizeof(float), GDRAM2SRAM);
    __sync_all_mpu();
    if (clusterId == 0)
      for (int c = 1; c < clusterDim; c++) __memcpy(s, s, N * sizeof(float), SRAM2SRAM, c);
  }
  __sync_all();
  if (__is_mpu()) return;
  __memcpy(a, s, N * sizeof(float), SRAM2NRAM);
  for (int r = taskId; r < rows; r += taskDim) {
    __memcpy(b, x + r * N, N * sizeof(float), GDRAM2NRAM);
    __bang_mul(b, a, b, N);
    __memcpy(y + r * N, b, N * sizeof(float), NRAM2GDRAM);
  }
}
__mlu_entry__ void astray(const float *w) {
  __nram__ float a[N];
  if (__is_ipu()) __memcpy(a, a, N * sizeof(float), SRAM2SRAM, 1);
}
__mlu_entry__ void unwritten(float *y) {
  __mlu_shared__ float s[8];
  if (__is_ipu()) y[taskId] = s[coreId];
}
"""


@pytest.mark.slow
def test_a_memory_core_copies_a_shared_array_of_a_function_to_other_clusters(tmp_path: Path) -> None:
    """The other clusters have not used their array before, in the first launch and in later ones."""
    file = tmp_path / "broadcast.mlu"
    file.write_text(BROADCAST)
    module = bangc.compile(file)
    w, x = np.arange(512, dtype=np.float32), np.ones((19, 512), np.float32)
    for clusters in (2, 4):
        # Now one cluster has an array that the others do not have.
        mlusim.verify(module["other"], np.ones(64, np.float32), dim=4, kind="UNION1")
        for _ in range(2):
            report = mlusim.verify(
                module["broadcast"],
                w,
                x,
                mlusim.Output.like(x),
                19,
                dim=4 * clusters,
                kind=f"UNION{clusters}",
                reference=x * w,
            )
            report.check()


EARLY = """#include <bang.h>
#define N 512
__mlu_entry__ void early(const float *w, float *y, int waits) {
  __nram__ float a[N];
  if (clusterId > 0) {
    // Cores of the other clusters reach the array late.
    __mlu_shared__ float own[64];
    for (int k = 0; k < 20; k++) __memcpy(own + 8 * (coreId % 8), w, 32, GDRAM2SRAM);
  }
  __mlu_shared__ float s[N];
  if (clusterId == 0 && __is_mpu()) {
    __memcpy(s, w, N * sizeof(float), GDRAM2SRAM);
    for (int c = 1; c < clusterDim; c++) __memcpy(s, s, N * sizeof(float), SRAM2SRAM, c);
  }
  if (waits) __sync_all();
  if (__is_mpu()) return;
  __memcpy(a, s, N * sizeof(float), SRAM2NRAM);
  __memcpy(y + taskId * N, a, N * sizeof(float), NRAM2GDRAM);
}
"""


def test_a_shared_array_has_an_address_before_its_cluster_reaches_it(tmp_path: Path) -> None:
    """As on a board: the copy needs no barrier before it, and its readers need one after it."""
    file = tmp_path / "early.mlu"
    file.write_text(EARLY)
    entry = bangc.compile(file)["early"]
    w = np.arange(512, dtype=np.float32)
    reference = np.tile(w, 8).reshape(8, 512)
    for _ in range(2):
        mlusim.verify(entry, w, mlusim.Output((8, 512)), 1, dim=8, kind="UNION2", reference=reference).check()
    report = mlusim.verify(entry, w, mlusim.Output((8, 512)), 0, dim=8, kind="UNION2")
    # Cores of both clusters read what no barrier orders after the copies.
    assert {finding.kind for finding in report.errors} >= {"task-race"}
    assert "SRAM2SRAM" in report.text()


def test_a_copy_to_another_cluster_takes_arrays_in_sram(tmp_path: Path) -> None:
    file = tmp_path / "broadcast.mlu"
    file.write_text(BROADCAST)
    report = mlusim.verify(bangc.compile(file)["astray"], X, dim=8, kind="UNION2")
    assert "SRAM2SRAM" in report.text()
    assert "nram" in report.text()


def test_a_shared_array_of_a_function_is_uninitialised_at_first(tmp_path: Path) -> None:
    file = tmp_path / "broadcast.mlu"
    file.write_text(BROADCAST)
    report = mlusim.verify(bangc.compile(file)["unwritten"], mlusim.Output((8,)), dim=8, kind="UNION2")
    assert "uninitialised" in report.text()
    assert np.isnan(report.outputs["y"]).all()


def test_operands_of_assembly_may_be_in_another_order_than_their_names(tmp_path):
    file = tmp_path / "order.mlu"
    file.write_text(
        """#include <bang.h>

__mlu_entry__ void order(const int *x, int *out, int n) {
  __nram__ int from[64];
  __nram__ int to[64];
  __memcpy(from, x, n * sizeof(int), GDRAM2NRAM);
  __asm__ volatile(
      "fuse.nram.u32 [%[to]], %[count], [%[from]], .add(%[by]);" ::[to] "r"(to),
      [from] "r"(from), [by] "r"(7), [count] "r"(n));
  __sync();
  __memcpy(out, to, n * sizeof(int), NRAM2GDRAM);
}
"""
    )
    x = np.arange(64, dtype=np.int32)
    report = mlusim.verify(
        mlusim.bangc.compile(file)["order"], x, mlusim.Output.like(x), 64, kind="BLOCK", dim=1, reference=x + 7
    )
    assert report.ok, report.text()


def test_assembly_gathers_words_and_finds_the_highest_bit(tmp_path):
    file = tmp_path / "gather.mlu"
    file.write_text(
        """#include <bang.h>

__mlu_entry__ void pick(const int *x, int *out, int *bits, int n, unsigned word) {
  __nram__ int from[64];
  __nram__ int offsets[64];
  __nram__ int to[64];
  __memcpy(from, x, n * sizeof(int), GDRAM2NRAM);
  for (int i = 0; i < n; ++i) offsets[i] = (n - 1 - i) * sizeof(int);
  __asm__ volatile(
      "gather.vector.nram.nram.nram.u32 "
      "[%[dst]], [%[src]], [%[offset]], %[size], %[num], %[stride];\\n\\t"
      ::[dst] "r"(to), [src] "r"(from), [offset] "r"(offsets), [size] "i"(4), [num] "r"(n), [stride] "i"(4));
  __bang_add_scalar(to, to, 1, n);
  __memcpy(out, to, n * sizeof(int), NRAM2GDRAM);
  unsigned high = 0;
  asm volatile("findlast1.gpr.b32 %[dst], %[src];" : [dst] "+&r"(high) : [src] "r"(word));
  bits[0] = high;
}
"""
    )
    kernel = mlusim.bangc.compile(file)["pick"]
    x = np.arange(60, dtype=np.int32) ** 2
    outputs = [mlusim.Output.like(x), mlusim.Output((1,), "int32")]
    report = mlusim.verify(kernel, x, *outputs, 60, 0x60, kind="BLOCK", dim=1, reference=[x[::-1] + 1, np.int32([6])])
    assert report.ok, report.text()
    with pytest.raises(KernelError, match=r"findlast1\.gpr\.b32 of 0.*test for 0 before it"):
        mlusim.run(kernel, x, *outputs, 60, 0, kind="BLOCK", dim=1)
