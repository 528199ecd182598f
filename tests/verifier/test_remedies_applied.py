"""What fixes a kernel is its first remedy, also where it asks for thought; `test_pairs` applies the others."""

from __future__ import annotations

import pytest

from kernel_pairs import CASES, report_of

BY_NAME = {f"{case.name}-{case.fault}": case for case in CASES}


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("upsample-k", r"correct the part of t at {0}:10 or {0}:13: the first of them replaces what was written there"),
        (
            "upsample-col",
            "correct the part of u at {0}:14: it replaces what was written there before anything reads it",
        ),
        ("short_pingpong-read", "correct the index of given at {0}:12 or {0}:14: only 15 of 79 executions"),
        ("short_pingpong-store", "correct the index of made at {0}:10 or {0}:14: only 15 of 79 executions"),
        ("upsample-same", "correct the part of out at {0}:16 or {0}:17: other bytes of it are never written"),
        ("adam-three", "correct the part of b at {0}:11: it replaces what was written there before anything reads it"),
        ("dequant-other", "correct the part of f at {0}:16 or {0}:20: the first of them replaces what was written"),
        ("byte_form-seg2", "correct the part of t at {0}:8, which writes other bytes of it"),
        ("avgpool_rows-short", "correct the part of band at {0}:16, which writes other bytes of it"),
        ("outer_product_sram-asy", "wait for the copy at {0}:14: `await core.memcpy(...)`"),
        ("softmax_two_clusters-ws0", "correct the part of ws at {0}:15: other bytes of it are never written"),
        ("halo_of_a_tile-noz", "write these bytes before {0}:10 "),
        ("loads_in_turn-c", "correct the part of b at {0}:12 or {0}:9, which writes these bytes only later"),
        ("csr_spmm-async", "wait for the copy at {0}:20: `await core.memcpy(...)`"),
        (
            "overlapping_slots-noN",
            "correct the parts of ring at {0}:9, {0}:11 and {0}:13: only some of their bytes overlap",
        ),
        (
            "memory_core_two_slots-ipu",
            "`await core.sync_cluster()` in all cores of the cluster and its memory core, at the",
        ),
        (
            "ring_declared-two",
            "correct the part of a at {0}:10 or {0}:17: the first of them replaces what sub wrote at {0}:14 before",
        ),
        ("ring_declared-odd", "`await core.sync()`, which waits for all pipes, at the end of the loop at {0}:7"),
        (
            "blocks_ahead-none",
            "`await core.sync_cluster()` in all cores of the cluster and its memory core, at the beginning of the loop",
        ),
        (
            "cores_first-none",
            "`await core.sync_cluster()` in all cores of the cluster and its memory core, at the beginning of the loop",
        ),
        (
            "stages_of_three-aab",
            "correct the part of a at {0}:9 or {0}:12: the first of them replaces what was written",
        ),
        (
            "stages_of_three-two",
            "correct the buffer at {0}:9: it fills the others that {0}:12 reads in turn, and not c",
        ),
        ("segment_sums-row", "store acc in place of row at {0}:13: nothing reads what add writes to acc at {0}:12"),
        ("butterflies-a", "store b in place of a at {0}:27: nothing reads what add writes to b at {0}:24"),
        ("haar-buf", "store a in place of b at {0}:19: nothing reads what mul writes to a at {0}:17"),
        ("group_norm-step", "give each task bytes of its own: see the bounds of the loop at {0}:12"),
        ("rotary-half", "correct the part of res at {0}:23: it replaces what was written there before anything reads"),
        (
            "linear_rnn-slot",
            "correct the part of given at {0}:17 or {0}:20: the first of them replaces what was written there before",
        ),
        ("linear_rnn-mslot", "correct the part of made at {0}:23 or {0}:21, which writes these bytes only later"),
        ("kmeans-zero", "write these bytes before {0}:22 "),
        (
            "kmeans-s",
            "correct the operands at {0}:25: it replaces what add wrote to acc at {0}:25 before anything reads",
        ),
        ("gemv_split_k-ipu", "`await core.sync_cluster()` in place of `await core.sync_all_ipu_within_cluster()` at"),
        (
            "gemv_split_k-dup",
            "correct the operands at {0}:27: it replaces what add wrote to total at {0}:27 before anything reads it",
        ),
        ("batch_norm-slot", "correct the part of stats at {0}:16 or {0}:17: other bytes of it are never written"),
        ("batch_norm-nobar", "`await core.sync_all()` in the cores, once before the loop at {0}:21"),
        (
            "batch_norm-acc",
            "correct the operands at {0}:15: it replaces what add wrote to acc2 at {0}:15 before anything reads it",
        ),
        ("life-same", "write work, which is never written, in place of out at {0}:24"),
        ("life-nobar", "`await core.sync_all()` in the cores, at the end of the loop at {0}:11"),
        (
            "best_paths-none",
            "`await core.sync_cluster()` in all cores of the cluster and its memory core, at the end of",
        ),
        ("decayed_sums-noz", "write these bytes before {0}:6 "),
        ("decayed_sums-size", "look for a size that is too small at {0}:13: a gap follows what it writes"),
        (
            "best_paths-first",
            "`await core.sync_cluster()` in all cores of the cluster and its memory core, before {0}:11",
        ),
        ("best_paths-plane", "correct the part of plane at {0}:13 or {0}:20: with each operation done before the next"),
        ("parts_of_a_product-store", "store t to out: nothing reads what add writes there at {0}:10"),
        ("edges_of_blocks-low", "compute this element at {0}:11 too: its neighbours are computed there, and are right"),
        ("even_odd_sort-all", "give each task bytes of its own"),
        (
            "even_odd_sort-none",
            "`await core.sync_all_ipu()` in all cores of the union, at the end of the loop at {0}:7",
        ),
        ("checksum_lock-none", "hold the same lock in every task from {0}:16 to {0}:18: `await core.lock(0)`"),
    ],
)
@pytest.mark.grid(6)
def test_what_fixes_comes_first(name, remedy, tmp_path):
    case = BY_NAME[name]
    (finding,) = report_of(case, tmp_path).errors
    assert finding.remedy.startswith(remedy.format(f"{case.name}.py"))
