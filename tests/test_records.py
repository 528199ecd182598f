"""Records are returned by name as they were added, whatever was added between them."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlusim.errors import KernelError
from mlusim.records import COLUMNS, INSTRUCTION, NONE, RECORD_BYTES, Records

SMALL = {"task", "line", "waited_for", "dst_alloc", "a_alloc", "b_alloc"}
ROWS = st.lists(
    st.tuples(*(st.integers(-1, 2**31 - 1) if name in SMALL else st.integers(-(2**63), 2**63 - 1) for name in COLUMNS)),
    max_size=20,
)


@given(ROWS)
def test_records_round_trip(rows: list[tuple[int, ...]]) -> None:
    records = Records()
    for row in rows:
        records.append(*row)
    table = np.array(rows, np.int64).reshape(-1, len(COLUMNS))
    np.testing.assert_array_equal(records.table(), table)
    assert list(records.columns()) == list(COLUMNS)
    for number, row in enumerate(rows):
        assert tuple(records.values(number).values()) == row
    again = Records()
    again.put_table(table)
    np.testing.assert_array_equal(again.table(), table)


def test_records_without_room_are_an_error_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def filled(folder: Path | None, count: int) -> Records:
        records = Records(folder)
        request.addfinalizer(records.close)
        code = records.instruction(*range(len(INSTRUCTION)))
        for number in range(count):
            records.add(code, 0, 0, number, number, number)
        return records

    empty = np.empty
    limit = 40_000

    def small(shape: Any, *more: Any) -> Any:
        if isinstance(shape, int) and shape > limit:
            raise MemoryError
        return empty(shape, *more)

    monkeypatch.setattr(np, "empty", small)
    # 8 times the room is refused, twice the room is not.
    assert len(filled(None, 32_768)) == 32_768
    with pytest.raises(KernelError, match=r"^the records of 32 768 operations take .*2\.75 MiB.*Device\(log_folder="):
        filled(None, 32_769)

    def full(file: int, start: int, length: int) -> None:
        if length > 1000 * RECORD_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("mlusim.records._FILE_ROOM", 1000)
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(
        KernelError, match=r"^the records of 1 000 operations .* cannot grow: No space left on device; "
    ):
        filled(tmp_path, 1001)


def test_records_can_be_completed_later() -> None:
    records = Records()
    code = records.instruction(*range(len(INSTRUCTION)))
    for number in range(40_000):
        assert records.add(code, 3, 4, number, number, NONE) == number
    records.set_start(39_999, 50, 7, 11)
    records.set_end(39_999, 60)
    records.set_wait(39_999, 12)
    values = records.values(39_999)
    assert (values["start_ps"], values["latency_ps"], values["end_ps"], values["waited_for"]) == (50, 7, 60, 12)
    assert (values["task"], values["line"], values["dst_alloc"], values["b_offset"]) == (3, 4, NONE, NONE)
    assert len(records) == records.count == 40_000
    assert records.columns(39_998)["end_ps"].tolist() == [NONE, 60]


def test_a_record_takes_88_bytes() -> None:
    assert RECORD_BYTES == 88


def test_a_table_is_a_copy() -> None:
    records = Records()
    records.append(*range(len(COLUMNS)))
    records.table()[:] = -7
    records.columns()["op"][:] = -7
    assert records.table().tolist() == [list(range(len(COLUMNS)))]


def test_a_joined_record_moves_no_bytes() -> None:
    records = Records()
    for _ in range(2):
        records.append(*range(1, len(COLUMNS) + 1))
    records.join(1, 0, 99)
    values = records.values(1)
    assert (values["bytes_requested"], values["count"], values["dst_alloc"], values["a_offset"]) == (0, 0, NONE, NONE)
    assert (values["waited_for"], values["start_ps"], values["op"]) == (0, 99, 1)
    assert records.values(0)["bytes_requested"] == 11


@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_number_out_of_range_is_refused(name: str) -> None:
    table = np.zeros((2, len(COLUMNS)), np.int64)
    table[1, COLUMNS.index(name)] = 1 << 31
    with pytest.raises(ValueError, match=f"{name} of a record is out of range"):
        Records().put_table(table)


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a log of shape \[2, 3\]"):
        Records().put_table(np.zeros((2, 3), np.int64))
