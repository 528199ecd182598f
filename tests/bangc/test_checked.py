"""Compiled kernels under the checker: faults are found by kind, and sound kernels have no findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlusim
from mlusim import Device, Output, bangc
from mlusim.errors import AccessError, HangError, KernelError

X = np.random.default_rng(3).integers(1, 50, (16, 64)).astype(np.float32)

FAULTY = {
    "no_sync_before_compute": "race",
    "wrong_sync": "race",
    "stored_before_it_is_computed": "race",
    "overwritten_while_it_is_stored": "race",
    "last_row_dropped": "never-written",
    "every_core_does_all": "task-race",
    "shared_memory_without_a_barrier": "task-race",
    "barrier_that_one_core_leaves_out": "hang",
    "elements_instead_of_bytes": "never-written",
    "sum_of_nothing": "uninitialised",
    "plain_counter": "task-race",
    "scalar_read_of_a_copy_in_flight": "race",
    "overlapping_copy": "copy",
    "sum_of_a_rounded_up_length": "uninitialised",
    "adds_to_nothing": "uninitialised",
    "counts_from_nothing": "uninitialised",
}
SOUND = (
    "blocking",
    "counts_in_bins_that_are_set",
    "ping_pong",
    "through_shared_memory",
    "shared_by_all_cores",
    "scalar_code",
    "moved_within_nram",
    "rounded_up",
    "recurrence",
    "copied_by_the_library",
    "atomics_without_a_test_of_the_core",
)


@pytest.fixture(scope="module")
def module() -> bangc.Module:
    return bangc.compile(Path(__file__).parent / "kernels" / "checked.mlu")


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_kernel_is_found(module: bangc.Module, name: str) -> None:
    report = mlusim.verify(module[name], X, Output.like(X), dim=4)
    found = [finding for finding in report.errors if finding.kind == FAULTY[name]]
    assert found, report.text()
    assert "checked.mlu:" in found[0].text()
    assert "correct the buffer" not in found[0].remedy


def test_a_sync_missing_at_the_end_of_a_loop_is_one_finding(module: bangc.Module) -> None:
    (finding,) = mlusim.verify(module["pipeline_without_its_sync"], X, Output.like(X), dim=4).errors
    assert finding.kind == "race"
    loop = next(number for number, line in enumerate(module.path.read_text().splitlines(), 1) if "// a loop" in line)
    assert finding.remedy.endswith(f"at the end of the loop at checked.mlu:{loop}")


def test_a_copy_that_needs_ascending_order_is_a_hint(module: bangc.Module) -> None:
    report = mlusim.verify(module["shifts_down"], X, Output.like(X), dim=4)
    hints = [finding for finding in report.findings if finding.kind == "overlapping-copy"]
    assert [hint.times for hint in hints] == [1]
    assert "memcpy overlaps itself: it reads bytes of its buffer that it also writes" in hints[0].text()
    assert "checked.mlu:" in hints[0].text()
    assert hints[0] not in report.errors


def test_an_index_beyond_a_table_is_an_error_and_keeps_the_element(module: bangc.Module) -> None:
    mask = np.array([0, -1] + [0] * 62, np.int32)
    indices = np.arange(64, dtype=np.int32) % 2
    given = {"right": indices, "too large": indices.copy(), "no index": indices.copy()}
    given["too large"][7] = 64
    given["no index"][7] = -2
    wanted = {
        "too large": "element 7 of 64 is the index 64, and the table has 64 elements",
        "no index": "element 7 of 64 is the index 4294967294 (0xfffffffe), and the table has 64 elements",
    }
    for name, index in given.items():
        report = mlusim.verify(module["look_up"], index, mask, Output.like(index), 0, dim=1, kind="BLOCK")
        if name == "right":
            assert not report.findings, report.text()
            continue
        assert [finding.kind for finding in report.errors] == ["lookup"]
        assert f"lut: {wanted[name]}" in report.errors[0].title
        assert report.errors[0].sites[0].source == "__bang_lut(index, (unsigned int *)index, table, 64, 64);  // once"
        assert report.outputs["out"].tolist() == [index[k] if k == 7 else mask[index[k]] for k in range(64)]
    # A mask that the table gave is no index of it, and stays: kernels look it up again.
    report = mlusim.verify(module["look_up"], indices, mask, Output.like(mask), 1, dim=1, kind="BLOCK")
    assert [finding.kind for finding in report.findings] == ["lookup-again"]
    assert report.ok
    assert report.outputs["out"].tolist() == mask[indices].tolist()


def test_atomics_that_a_memory_core_cannot_do_are_a_hint(module: bangc.Module) -> None:
    report = mlusim.verify(module["atomics_without_a_test_of_the_core"], X, Output.like(X), dim=4, reference=X + 1)
    assert [finding.kind for finding in report.findings] == ["memory-core"]
    assert "__is_mpu()" in report.findings[0].remedy
    assert "checked.mlu:" in report.findings[0].text()


def test_a_memory_core_passes_a_barrier_of_the_cores(module: bangc.Module) -> None:
    """As kernels of the vendor need; a hint names the line."""
    entry = module["a_barrier_without_a_test_of_the_core"]
    report = mlusim.verify(entry, X, Output.like(X), dim=4, kind="UNION1", reference=X + 1)
    assert report.ok, report.text()
    titles = [finding.title for finding in report.findings if finding.kind == "memory-core"]
    assert titles == ["__sync_all_ipu on a memory core: it is a barrier of the MLU cores, which a memory core passes"]


def test_stores_that_depend_on_memory_that_a_memory_core_lacks_are_a_hint(module: bangc.Module) -> None:
    report = mlusim.verify(
        module["stores_from_nram"], X, Output.like(X), dim=4, kind="UNION1", rewrites=("out",), reference=X + 1
    )
    # No core reads what the kernel stores to SRAM.
    assert {finding.kind for finding in report.findings} == {"memory-core", "unread"}, report.text()
    findings = [finding for finding in report.findings if finding.kind == "memory-core"]
    texts = [finding.text() for finding in findings]
    # By line: two loops, memcpy, memset, the structure, and SRAM.
    assert len(texts) == 6
    assert all("store on a memory core depends on NRAM or WRAM, which it lacks: dropped" in text for text in texts)
    assert all("if (!__is_mpu())" in finding.remedy for finding in findings)


def test_stores_that_depend_on_what_an_instruction_returns_of_such_memory_are_a_hint(module: bangc.Module) -> None:
    report = mlusim.verify(
        module["stores_what_instructions_return"], X, Output.like(X), dim=4, kind="UNION1", reference=X + 1
    )
    assert [finding.kind for finding in report.findings] == ["memory-core"], report.text()
    assert "store on a memory core depends on NRAM or WRAM" in report.findings[0].text()


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_kernel_has_no_errors(module: bangc.Module, name: str) -> None:
    report = mlusim.verify(module[name], X, Output.like(X), dim=4, reference=X + 1)
    assert report.ok, report.text()


def test_remedies_are_in_the_kernel_s_language(module: bangc.Module) -> None:
    remedies = {
        name: "\n".join(finding.remedy for finding in mlusim.verify(module[name], X, Output.like(X), dim=4).errors)
        for name in (
            "no_sync_before_compute",
            "shared_memory_without_a_barrier",
            "sum_of_nothing",
            "halves_that_overlap",
            "stores_without_a_test_of_the_core",
            "stores_before_a_barrier",
        )
    }
    assert "`__sync_io()`" in remedies["no_sync_before_compute"]
    assert "`__sync_cluster()`" in remedies["shared_memory_without_a_barrier"]
    assert "__bang_write_value" in remedies["sum_of_nothing"]
    assert "meant to be two buffers" in remedies["halves_that_overlap"]
    assert "meant to be two buffers" not in remedies["no_sync_before_compute"]
    assert "begin it with `if (__is_mpu()) return;`" in remedies["stores_without_a_test_of_the_core"]
    # Without the memory core, the others would wait at the barrier for ever.
    assert "guard this line by `if (!__is_mpu())`; the memory core" in remedies["stores_before_a_barrier"]
    assert "core." not in "".join(remedies.values())


def test_a_memory_core_running_core_code_is_reported_with_a_remedy(module: bangc.Module) -> None:
    (finding,) = mlusim.verify(module["wild_on_the_memory_core"], X, Output.like(X), -(1 << 28), dim=4).errors
    assert "A memory core runs this too" in finding.text()
    assert "begin with if (__is_mpu()) return;" in finding.text()


def test_an_index_by_the_core_on_a_memory_core_has_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "by_core.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_shared__ float rows[4][64];\n"
        "__mlu_entry__ void k(const float *x) { __memcpy(rows[coreId], x, 256, GDRAM2SRAM); }\n"
    )
    device = Device()
    device.launch(bangc.compile(file)["k"], device.upload(X), dim=4, kind="UNION1")
    with pytest.raises(AccessError, match=r"by_core\.mlu:3, .*its coreId is 128; .* begin with if \(__is_mpu\(\)\)"):
        device.synchronize()


_LEAVES = """
__nram__ float a[64];
__mlu_entry__ void kernel(const float *x, float *y) {{
  __memcpy(a, x, sizeof(a), GDRAM2NRAM);
  if (a[0] <= 0) {leaves};
  {barrier};
  if (taskId == 0) __memcpy(y, a, sizeof(a), NRAM2GDRAM);
}}
"""


def _leaving(folder: Path, leaves: str, barrier: str = "") -> Any:
    file = folder / "leaves.mlu"
    file.write_text(_LEAVES.format(leaves=leaves, barrier=barrier))
    return bangc.compile(file)["kernel"]


def test_an_assertion_of_a_memory_core_that_fails_is_reported_with_a_remedy(tmp_path: Path) -> None:
    entry = _leaving(tmp_path, "assert(false)")
    (finding,) = mlusim.verify(entry, X[0], Output.like(X[0]), dim=4, kind="UNION1").errors
    assert "leaves.mlu:5" in finding.text()
    assert "begin with if (__is_mpu()) return;" in finding.text()
    mlusim.verify(entry, X[0], Output.like(X[0]), dim=4, kind="BLOCK", reference=X[0]).check()


def test_exit_on_a_memory_core_ends_its_task_and_is_a_hint(tmp_path: Path) -> None:
    entry = _leaving(tmp_path, "exit(-1)")
    for _ in range(2):
        report = mlusim.verify(entry, X[0], Output.like(X[0]), dim=4, kind="UNION1", reference=X[0])
        report.check()
        (hint,) = [finding for finding in report.hints if finding.kind == "memory-core"]
        assert "exit(-1) on a memory core: it ends the memory core's task only (ASSUMED)" in hint.text()
        assert "leaves.mlu:5" in hint.text()
    negative = X[0] - 1000
    with pytest.raises(KernelError, match=r"leaves\.mlu:5.*the kernel called exit\(-1\)"):
        mlusim.run(entry, negative, Output.like(negative), dim=4, kind="UNION1")


def test_a_barrier_that_waits_for_a_memory_core_that_has_exited_is_an_error(tmp_path: Path) -> None:
    entry = _leaving(tmp_path, "exit(-1)", "__sync_cluster()")
    with pytest.raises(HangError, match="memory core"):
        mlusim.run(entry, X[0], Output.like(X[0]), dim=4, kind="UNION1")


def test_block_tasks_of_a_cluster_do_not_share_memory(module: bangc.Module) -> None:
    report = mlusim.verify(module["through_shared_memory"], X, Output.like(X), dim=16, kind="BLOCK")
    assert "box in the SRAM of cluster 0" in report.text()
    assert "launch it as UNION1, whose tasks share box" in report.text()


@pytest.mark.parametrize("everything", [0, 1])
def test_elements_beyond_those_that_a_filter_selects_are_not_written(module: bangc.Module, everything: int) -> None:
    row = X[0]
    report = mlusim.verify(module["filtered"], row, Output.like(row), everything, dim=1, kind="BLOCK")
    found = [finding for finding in report.errors if finding.kind == "uninitialised"]
    assert bool(found) == bool(everything)
    selected = row[row > 25]
    assert report.outputs["out"][: selected.size].tolist() == selected.tolist()
    assert all("checked.mlu:" in finding.text() for finding in found)


@pytest.mark.parametrize(("uses", "kind"), [(0, "unselected"), (1, "uninitialised")])
def test_storing_the_rest_of_a_tile_behind_a_filter_is_a_hint_if_the_number_is_stored(
    module: bangc.Module, uses: int, kind: str
) -> None:
    row = X[0]
    outputs = Output.like(row), Output((1,), np.int32)
    report = mlusim.verify(module["filtered_with_count"], row, *outputs, uses, dim=1, kind="BLOCK")
    (finding,) = report.findings
    assert finding.kind == kind
    assert report.ok == (not uses)
    assert report.outputs["count"].tolist() == [np.count_nonzero(row > 25)]
    if not uses:
        assert finding.title == "memcpy stores elements of chosen beyond those that a filter selected"
        assert "store as many elements as the filter returns" in finding.text()


@pytest.mark.parametrize("inverted", [0, 1])
@pytest.mark.parametrize("count", [12, 13])
def test_bits_of_a_mask_behind_the_last_row_of_a_gather_are_padding(count: int, inverted: int) -> None:
    module = bangc.compile(Path(__file__).parent / "kernels" / "checked.mlu", "mlu590-h8")
    row, where = X[0][:16] - 25, np.arange(0, 64, 4, dtype=np.uint32)
    arguments = row, where, Output((16,)), count, inverted
    report = mlusim.verify(module["gathered_by_bits"], *arguments, device="mlu590-h8", dim=1, kind="BLOCK")
    assert [finding.kind for finding in report.errors] == ["uninitialised"] * (count > 12), report.text()
    selected = (row[:12] > 0) != bool(inverted)
    assert report.outputs["out"][:12].tolist() == np.where(selected, row[:12], 0).tolist()


@pytest.mark.parametrize(("use", "kinds"), [("out[0] = t[1] + 1;", []), ("out[0] = 10;  // t", ["unread"])])
def test_a_value_that_the_compiler_keeps_in_a_register_is_not_unread(
    tmp_path: Path, use: str, kinds: list[str]
) -> None:
    file = tmp_path / "kept.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void kept(float *out) {\n"
        f"  __nram__ float t[64];\n  for (int i = 0; i < 2; ++i)\n    t[i] = 9;\n  {use}\n}}\n"
    )
    kernel = bangc.compile(file)["kept"]
    report = mlusim.verify(kernel, Output(1), dim=1, kind="BLOCK", reference=np.array([10], np.float32))
    assert report.ok
    assert [finding.kind for finding in report.findings] == kinds


def test_a_race_with_a_memory_core_that_no_line_tells_from_others_names_it(tmp_path: Path) -> None:
    file = tmp_path / "unmeant.mlu"
    file.write_text(
        "#include <bang.h>\n__mlu_entry__ void k(int *seen) {\n  __nram__ float t[4096];\n"
        "  __bang_write_value(t, 4096, 2.f);\n  __sync_compute();\n"
        "  int before = 1;\n  if (taskId < taskDim - 1)\n    before = seen[0];\n  else\n    seen[0] = (int)t[0];\n"
        "  seen[taskId + 1] = before;\n}\n"
    )
    seen = mlusim.InOut(np.zeros(8, np.int32))
    report = mlusim.verify(bangc.compile(file)["k"], seen, dim=4, kind="UNION1", rewrites=True)
    races = [race for finding in report.errors for race in finding.unfolded if "memory core" in race.title]
    remedy = "begin the kernel with `if (__is_mpu()) return;`: a union launch runs it on the memory cores too"
    assert any(race.remedy.startswith(remedy) for race in races)
