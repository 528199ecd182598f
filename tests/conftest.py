"""Every operator that a test runs is verified: races, bytes read unwritten, the split. A test may say `check=False`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mlusim.verifier import checked


@pytest.fixture(autouse=True)
def verify_operators() -> Iterator[None]:
    with checked():
        yield
