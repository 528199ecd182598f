"""Damaged files, other formats and other files: errors that name the problem; old files can be read."""

from __future__ import annotations

import io
import json
import re
import zipfile

import numpy as np
import pytest

import mlusim
from mlusim import ops
from mlusim.analysis.summary import to_json
from mlusim.records import longest_run_ps
from saved_runs import rewritten, same_log


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    x = np.arange(2 * 4 * 8 * 50, dtype=np.float32).reshape(2, 4, 8, 50)
    index = np.arange(2 * 3 * 8 * 50).reshape(2, 3, 8, 50) % 8 - 4
    return ops.gather(x, index, 1, device="mlu590-h8").save(tmp_path_factory.mktemp("saved") / "run.zip")


def refused(path) -> str:
    with pytest.raises(mlusim.InputError) as caught:
        mlusim.load(path)
    assert str(path) in caught.value.message
    return caught.value.message


def test_a_file_that_is_not_a_saved_run_is_an_error(tmp_path, saved):
    assert "no such file" in refused(tmp_path / "missing.zip")
    assert "Is a directory" in refused(tmp_path)
    for content in (b"", b"PK", b"hello, this is not a zip file at all" * 9):
        (tmp_path / "other").write_bytes(content)
        assert "is not a saved run: Result.save(path)" in refused(tmp_path / "other")
    np.savez(tmp_path / "arrays.npz", a=np.ones(3))
    assert "not a saved run: it has no run.json" in refused(tmp_path / "arrays.npz")
    for head in ([], {}, {"format": "other"}, None, 3):
        with zipfile.ZipFile(tmp_path / "head.zip", "w") as archive:
            archive.writestr("run.json", json.dumps(head))
        assert "does not say `format: mlusim-run`" in refused(tmp_path / "head.zip")


def test_a_file_of_a_newer_or_impossible_format(tmp_path, saved):
    newer = rewritten(saved, lambda head: head.update(number=2, mlusim="9.1", log="of tomorrow"), tmp_path / "newer")
    version = re.escape(mlusim.__version__)
    assert re.search(f"format 2, written by mlusim 9.1; this mlusim {version} reads formats up to 1", refused(newer))
    for number in (0, -1, "1", None, True, 1.0):
        wrong = rewritten(saved, lambda head, number=number: head.update(number=number), tmp_path / "wrong")
        assert f"format {number!r}: formats are numbered from 1" in refused(wrong)


def test_a_file_cut_off_anywhere(tmp_path, saved):
    whole = saved.read_bytes()
    for length in range(4, len(whole), len(whole) // 40):
        (tmp_path / "cut").write_bytes(whole[:length])
        assert "damaged or cut off" in refused(tmp_path / "cut")


def test_a_file_with_a_byte_changed_anywhere_is_an_input_error_or_the_same_run(tmp_path, saved):
    whole = saved.read_bytes()
    expected = to_json(mlusim.load(saved))
    for place in range(0, len(whole), max(len(whole) // 150, 1)):
        changed = bytearray(whole)
        changed[place] ^= 0x41
        (tmp_path / "changed").write_bytes(changed)
        try:
            read = mlusim.load(tmp_path / "changed")
        except mlusim.InputError:
            continue
        # A byte that zip does not look at, such as a time.
        assert to_json(read) == expected


def test_a_run_saved_by_an_earlier_version_can_be_loaded(tmp_path, saved):
    def with_its_parameters(head):
        board = head["board"]
        del board["cluster_start_ps"], board["sources"]["cluster_start_ps"]
        board["dram_latency_growth"], board["sources"]["dram_latency_growth"] = 0.0, "ASSUMED: none"

    board, again = (
        mlusim.load(file).board for file in (saved, rewritten(saved, with_its_parameters, tmp_path / "old"))
    )
    assert board.differing(again) == []
    assert again.sources["cluster_start_ps"] == "ASSUMED: not in the saved run, which an earlier version wrote"


def test_a_file_with_wrong_content_is_damaged(tmp_path, saved):
    def without(key):
        return lambda head: head.pop(key)

    changes = [without(key) for key in ("board", "log", "plan", "sources", "operator", "request", "output")]
    changes += [
        lambda head: head["board"].update(clusters=-1),
        lambda head: head["board"].update(extra=1),
        lambda head: head["board"].pop("name"),
        lambda head: head["log"].update(columns=["op"]),
        lambda head: head["log"].update(lines=[]),
        lambda head: head["log"].update(ops=head["log"]["ops"][:-1]),
        lambda head: head["log"].update(remarks=[["race", "of no remark", "add", 0, 0, 0, 1]]),
        lambda head: head["log"]["tables"].update(tasks={}, launches={}),
        lambda head: head["plan"].pop("kind"),
        lambda head: head.update(output={"dtype": "float32", "shape": [4]}),
        lambda head: head.update(board=None),
        lambda head: head.update(theory_ops="many"),
        lambda head: head.update(theory_ops=-1),
    ]
    for change in changes:
        message = refused(rewritten(saved, change, tmp_path / "wrong"))
        assert "a saved run that is damaged" in message
        assert message.endswith("save the run again")


def test_a_file_that_unpacks_to_more_than_a_run_is_damaged(saved, monkeypatch):
    monkeypatch.setattr("mlusim.results.saved_checks._MAX_BYTES", 1000)
    assert mlusim.load(saved).time_ps > 0
    monkeypatch.setattr("mlusim.results.saved_checks._MAX_RATIO", 1)
    assert re.search(r"\d+ B that unpack to \d+ B", refused(saved))


def test_a_time_that_no_run_can_reach_is_damaged(tmp_path, saved):
    run = mlusim.load(saved)
    board = run.board
    run.log.launches[0].end_ps = longest_run_ps(board.cores + board.clusters)
    assert mlusim.load(run.save(tmp_path / "latest")).time_ps == run.log.launches[0].end_ps
    run.log.launches[0].end_ps += 1
    assert "ps in its log, which has room for" in refused(run.save(tmp_path / "later"))


def test_loading_never_unpickles_objects(tmp_path, saved):
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(tmp_path / "evil", "w") as new:
        for name in old.namelist():
            if name == "log/records.npy":
                with new.open(name, "w") as stream:
                    np.save(stream, np.array([print], object), allow_pickle=True)
            else:
                new.writestr(name, old.read(name))
    assert "damaged" in refused(tmp_path / "evil")


def test_columns_with_former_names_are_read(tmp_path):
    run = mlusim.ops.gather(np.arange(40.0), np.arange(8), strategy="rows")
    assert run.log.loops
    run.save(tmp_path / "run.zip")

    def renamed(head):
        loops = head["log"]["tables"]["loops"]
        loops["how"] = loops.pop("method")

    rewritten(tmp_path / "run.zip", renamed, tmp_path / "former.zip")
    same_log(mlusim.load(tmp_path / "former.zip").log, run.log)


def test_a_launch_on_a_queue_of_a_damaged_number(tmp_path, saved):
    def on_queue(number):
        path = tmp_path / f"queue{number}.zip"
        with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                content = old.read(name)
                if name == "log/launches.npy":
                    table = np.load(io.BytesIO(content))
                    table[3] = number
                    buffer = io.BytesIO()
                    np.save(buffer, table)
                    content = buffer.getvalue()
                new.writestr(name, content)
        return path

    times = {mlusim.retime(mlusim.load(on_queue(number)), device="mlu590-h8").time_ps for number in (0, 9)}
    assert len(times) == 1
    for number in (-1, 2**40):
        assert "a launch of its log is on no queue" in refused(on_queue(number))


def test_an_operand_larger_than_any_memory_is_damaged(tmp_path, saved):
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "run.json":
                head = json.loads(content)
                head["log"]["tables"]["boxes"]["shape"][0][0] = 2**61
                content = json.dumps(head).encode()
            new.writestr(name, content)
    assert "an operand of its log has no geometry" in refused(path)
