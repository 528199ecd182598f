"""The first remedy of a fault, applied to the source as it says, mends the kernel."""

from __future__ import annotations

import re

import pytest

from kernel_pairs import CASES, report_of

BY_NAME = {f"{case.name}-{case.fault}": case for case in CASES}
LINE = r"\w+\.py:(\d+)"
CALL = r"`(await core\.\w+\(\d*\))`"


def indented(lines: list[str], number: int, text: str, deeper: str = "") -> str:
    line = lines[number - 1]
    return line[: len(line) - len(line.lstrip())] + deeper + text


def applied(remedy: str, buffer: str, lines: list[str]) -> list[str]:
    """Return the source lines after the change that a remedy asks for."""
    lines = list(lines)
    if found := re.match(rf"{CALL} in place of {CALL} at {LINE}$", remedy):
        lines[int(found[3]) - 1] = lines[int(found[3]) - 1].replace(found[2], found[1])
    elif found := re.match(rf"{CALL} in .*, before {LINE} in the (?:memory )?cores, before {LINE} in the", remedy):
        for number in sorted((int(found[2]), int(found[3])), reverse=True):
            lines.insert(number - 1, indented(lines, number, found[1]))
    elif found := re.match(rf"{CALL}, .*, at the beginning of the loop at {LINE}$", remedy):
        lines.insert(int(found[2]), indented(lines, int(found[2]), found[1], "    "))
    elif found := re.match(rf"write these bytes before {LINE} ", remedy):
        lines.insert(int(found[1]) - 1, indented(lines, int(found[1]), f"core.write_zero({buffer})"))
    elif found := re.match(rf"hold the same lock in every task from {LINE} to {LINE}: {CALL}, {CALL}$", remedy):
        lines.insert(int(found[2]), indented(lines, int(found[2]), found[4]))
        lines.insert(int(found[1]) - 1, indented(lines, int(found[1]), found[3]))
    elif found := re.match(rf"let all cores reach the barrier at {LINE} before {LINE}$", remedy):
        lines[int(found[1]) - 1] = re.sub(r"if [^:]*: ", "", lines[int(found[1]) - 1])
    else:
        pytest.fail(f"no rule for this remedy: {remedy}")
    return lines


@pytest.mark.parametrize(
    "name",
    [
        "embedding_bag-nosync",
        "embedding_bag-noacc",
        "smooth_iter-cl",
        "all_gather_u2-first",
        "cluster_histogram-early",
        "sram_to_sram-mpu",
        "union_mpu_broadcast-none",
        "sram_matmul-acc0",
        "even_odd_sort-all",
        "phases-even",
        "weights_once-zero",
    ],
)
def test_the_first_remedy_mends(name, tmp_path):
    case = BY_NAME[name]
    (finding,) = report_of(case, tmp_path / "faulty").errors
    remedy = finding.remedy.partition("\n")[0]
    mended = case._replace(lines=applied(remedy, finding.fields.get("buffer", ""), case.lines))
    report = report_of(mended, tmp_path / "mended")
    assert report.ok, f"{remedy}\n{report.text()}"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("upsample-k", r"correct the part of t at {0}:10 or {0}:13: the first of them replaces what was written there"),
        (
            "upsample-col",
            "correct the part of u at {0}:14: it replaces what was written there before anything reads it",
        ),
        ("upsample-same", "correct the part of out at {0}:16 or {0}:17: other bytes of it are never written"),
        ("adam-three", "correct the part of b at {0}:11: it replaces what was written there before anything reads it"),
        ("dequant-other", "correct the part of f at {0}:16 or {0}:20: the first of them replaces what was written"),
        ("byte_form-seg2", "correct the part of t at {0}:8, which writes other bytes of it"),
        ("avgpool_rows-short", "correct the part of band at {0}:16, which writes other bytes of it"),
        ("outer_product_sram-asy", "wait for the copy at {0}:14: `await core.memcpy(...)`"),
        ("softmax_two_clusters-ws0", "correct the part of ws at {0}:15: other bytes of it are never written"),
        ("checksum_lock-none", "hold the same lock in every task from {0}:16 to {0}:18: `await core.lock(0)`"),
    ],
)
def test_what_mends_comes_first(name, remedy, tmp_path):
    case = BY_NAME[name]
    (finding,) = report_of(case, tmp_path).errors
    assert finding.remedy.startswith(remedy.format(f"{case.name}.py"))
