"""Boards of random values, as records and TOML: an error that names the rule, or exact results on that board."""

from __future__ import annotations

import os
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mlusim
from mlusim.hardware.toml_board import board_from_toml, to_toml

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
NAMES = [item.name for item in fields(mlusim.Board) if item.name != "sources"]
NUMBERS = (0, 1, 2, 3, 64, 100, 4096, 10**6, 10**9, 2**31, 2**63, 2**70, -1, 0.5, 1.0, 1e-9, 1e300)
WRONG = (float("nan"), float("inf"), True, "", "x", "a$b", "\x1b[31m", [1], None)
VALUES = st.sampled_from((*NUMBERS, *WRONG))
X = np.arange(4096, dtype=np.int32).reshape(64, 64)
INDEX = np.arange(64, dtype=np.int64)[:, None] * np.ones((1, 64), np.int64) % 7


def use(board):
    """Runs on it are exact, or refused with a reason."""
    calls = (
        (X[::-1], lambda: mlusim.ops.reverse(X, 0, device=board)),
        (np.take_along_axis(X, INDEX, 0), lambda: mlusim.ops.gather(X, INDEX, 0, device=board)),
    )
    for expected, call in calls:
        try:
            result = call()
        except mlusim.MlusimError as error:
            assert len(str(error)) > 10
            continue
        assert result.time_ps > 0
        assert np.array_equal(result.output, expected)
        spent = result.metrics.where_time_went
        assert sum(spent.values()) == result.time_ps * board.cores
        assert min(spent.values()) >= 0
        assert result.lower_bound.time_ps >= 0


@settings(max_examples=EXAMPLES)
@given(
    base=st.sampled_from(["mlu270-s4", "mlu370-x4", "mlu590-h8"]),
    changes=st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1, max_size=3),
)
@example(base="mlu270-s4", changes={"dram_mixing_ps": 2**63})
@example(base="mlu270-s4", changes={"dram_mixed_efficiency": 1e-300})
@example(base="mlu270-s4", changes={"arch": 1, "clusters": 1, "vector_bytes_per_cycle": 2**63})
def test_a_changed_board_is_refused_or_works(base, changes):
    try:
        board = mlusim.board(base).replace(**changes)
    except mlusim.BoardError as error:
        assert any(name in str(error) for name in changes) or "must be less than" in str(error)
        return
    use(board)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("boards") / "mine.toml"


@settings(max_examples=EXAMPLES)
@given(
    cuts=st.lists(st.tuples(st.integers(0, 9000), st.integers(0, 40), st.binary(max_size=12)), min_size=1, max_size=3)
)
@example(cuts=[(0, 9000, b"base = 3")])
@example(cuts=[(0, 9000, b"\xff\xfe")])
def test_a_damaged_file_is_refused_or_a_board(file, cuts):
    content = to_toml(mlusim.board("mlu370-x4")).encode()
    for start, length, text in cuts:
        content = content[:start] + text + content[start + length :]
    file.write_bytes(content)
    try:
        board = board_from_toml(file)
    except mlusim.BoardError as error:
        assert "mine.toml" in str(error)
        return
    use(board)
