"""Long logs: the memory of a check is compared with the free memory, and rewritten buffers take linear time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlusim
from mlusim.errors import InputError
from mlusim.verifier import memory_needed
from mlusim.verifier.split import overwrites


def test_a_check_that_does_not_fit_says_so_before_it_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 9000000 kB\nMemAvailable: 4194304 kB\n")
    monkeypatch.setattr(memory_needed, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory_needed, "_GROUP", tmp_path)
    memory_needed.check_memory_needed(7_000_000)
    with pytest.raises(InputError, match=r"about 5\.029 GiB of memory for 20 000 000 operations, and 4 GiB are free"):
        memory_needed.check_memory_needed(20_000_000)
    (tmp_path / "memory.max").write_text("1073741824\n")
    (tmp_path / "memory.current").write_text("536870912\n")
    with pytest.raises(InputError, match="512 MiB are free"):
        memory_needed.check_memory_needed(7_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    memory_needed.check_memory_needed(7_000_000)
    (tmp_path / "meminfo").unlink()
    memory_needed.check_memory_needed(10**9)


async def again(core, out, times):
    """Each row of the output over and over, from buffers of which one is a copied fill."""
    held = core.nram.alloc((2, 64), out.dtype, "held")
    core.fill(held, 0)
    await core.sync()
    for turn in range(times):
        if turn == times - 1:
            core.add(held[0], held[0], held[0])
            await core.sync()
        await core.memcpy(out[core.task_id], held[0])


@pytest.mark.parametrize("look_back", [1, 16])
def test_a_copied_fill_is_found_however_long_ago_its_buffer_was_written(
    monkeypatch: pytest.MonkeyPatch, look_back: int
) -> None:
    monkeypatch.setattr(overwrites, "_FIRST_STEP", look_back)
    out = mlusim.Output((4, 64), np.float32)
    assert mlusim.verify(again, out, 2, device="mlu370-x4", kind="BLOCK", dim=4).ok  # a fill, and what replaces it
    twice = mlusim.verify(again, out, 3, device="mlu370-x4", kind="BLOCK", dim=4)
    assert [finding.kind for finding in twice.errors] == ["written-again"]
