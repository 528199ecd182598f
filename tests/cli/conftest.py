"""Fixtures shared by the tests of the command line."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 4, 6, 10), np.float32)
    x[0, 0, 0, :2] = np.array([0x7FA00001, 0x80000000], np.uint32).view(np.float32)  # a signalling NaN, -0.0
    np.save("x.npy", x)
    np.save("shifts.npy", np.array([[1, -2, 4], [0, 3, -1]], np.int32))
    return tmp_path
