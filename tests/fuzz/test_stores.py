"""Files of sweep points with flipped, removed and added bytes: the same figures, or an error that names the file."""

from __future__ import annotations

import os
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlusim

EXAMPLES = int(os.environ.get("MLUSIM_FUZZ", "20"))
SWEEP = {"shape": [(8, 8), (16, 8)], "axis": [0, 1], "workers": 0}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    found = mlusim.sweep("reverse", db=folder / "whole.sqlite", **SWEEP)
    return folder, (folder / "whole.sqlite").read_bytes(), found.rows


@settings(max_examples=EXAMPLES)
@given(
    flips=st.lists(st.tuples(st.integers(0, 2**31), st.integers(1, 255)), min_size=1, max_size=6),
    cut=st.integers(0, 3),
)
@pytest.mark.slow
def test_a_damaged_file_of_points_gives_the_same_figures_or_is_refused(whole, flips, cut):
    folder, content, expected = whole
    damaged = bytearray(content)
    for place, change in flips:
        damaged[place % len(damaged)] ^= change
    if cut == 0:
        del damaged[flips[0][0] % len(damaged) :]
    for one in folder.glob("damaged*"):
        one.unlink()
    path = folder / "damaged.sqlite"
    path.write_bytes(damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was wrong with the file
        try:
            found = mlusim.sweep("reverse", db=path, **SWEEP)
        except mlusim.InputError as error:
            assert "damaged.sqlite" in str(error)
            return
    assert found.rows == expected
