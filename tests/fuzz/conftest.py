"""Marks every test of this folder; helpers shared by random tests."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Parts of paths take longer to compare, for 15,000 tests.
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.fuzz)
