"""The log as a pandas table, with names instead of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlusim.cores.core import Core
from mlusim.errors import InputError
from mlusim.host.device import Device
from mlusim.memory.view import View
from mlusim.own_files import is_ours


@pytest.fixture(scope="module")
def pandas():
    """Imported when a test runs: that takes a second, in every process that collects tests."""
    return pytest.importorskip("pandas")


@pytest.mark.usefixtures("pandas")
def test_a_row_for_each_record_with_names() -> None:
    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(x.shape, x.dtype, "tile")
        await core.memcpy(tile, x)
        await core.sync()

    device = Device()
    device.launch(kernel, device.upload(np.zeros(16, np.float32), "x"), dim=1, kind="BLOCK")
    device.synchronize()
    table = device.log.to_pandas()
    assert table["op"].tolist() == ["memcpy", "sync"]
    assert table["pipe"].tolist() == ["io", "sync"]
    assert (table["dst"][0], table["dst_memory"][0], table["a"][0], table["a_memory"][0]) == (
        "tile",
        "nram",
        "x",
        "gdram",
    )
    assert (table["dst"][1], table["a_memory"][1]) == ("", "")
    assert table["line"][0].startswith(f"{Path(__file__).name}:")
    assert table["bytes_requested"].tolist() == [64, 0]


def test_csv_has_the_same_columns_and_values_in_pieces(
    pandas: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kernel(core: Core, x: View) -> None:
        tile = core.nram.alloc(x.shape, x.dtype, 'a "tile", of 16')
        for _ in range(5):
            await core.memcpy(tile, x)
        core.add(tile, tile, tile)
        await core.sync()

    device = Device()
    device.launch(kernel, device.upload(np.zeros(32, np.float32), "x"), dim=1, kind="BLOCK")
    device.synchronize()
    monkeypatch.setattr("mlusim.log._PIECE", 3)  # 7 records
    path = device.log.to_csv(tmp_path / "operations.csv")
    expected = device.log.to_pandas()
    found = pandas.read_csv(path, keep_default_na=False)
    assert list(found.columns) == list(expected.columns)
    assert found.astype(str).equals(expected.astype(str))
    assert is_ours(path)


def test_csv_of_an_empty_log_has_a_header(tmp_path: Path) -> None:
    log = Device().log
    assert log.to_csv(tmp_path / "none.csv").read_text().count("\n") == 1
    with pytest.raises(InputError, match=r"missing.x\.csv: cannot be written: No such file"):
        log.to_csv(tmp_path / "missing" / "x.csv")
