"""Functions of CNRT and CNDRV that copy and set memory, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlusim import Device, bangc
from mlusim.bangc.host.program import run_program

KERNELS = Path(__file__).parents[1] / "kernels"
PART, PARTS = 256, 20


def _rows(array: np.ndarray[Any, Any], pitch: int, width: int, height: int, start: int = 0) -> np.ndarray[Any, Any]:
    """A view of rows of an array of bytes."""
    return np.lib.stride_tricks.as_strided(array[start:], (height, width), (pitch, 1))


def _volume(array: np.ndarray[Any, Any], pitch: int, rows: int, start: int) -> np.ndarray[Any, Any]:
    """A view of 4 planes of 3 rows of 5 bytes."""
    return np.lib.stride_tricks.as_strided(array[start:], (4, 3, 5), (rows * pitch, pitch, 1))


def _expected() -> np.ndarray[Any, Any]:
    source = (np.arange(PART) * 7 + 3).astype(np.uint8)
    image = np.full((PARTS, PART), 0xEE, np.uint8)
    for number in range(4):
        image[number, : 100 + number] = source[number : 100 + 2 * number]
    for number in range(3):
        image[4 + number, : 50 + number] = image[number, : 50 + number]
    _rows(image[7], 24, 9, 5)[:] = _rows(source, 16, 9, 5)
    _rows(image[8], 10, 10, 6)[:] = _rows(source, 20, 10, 6, start=4)
    _volume(image[9], 12, 4, 4 * 12 + 12 + 2)[:] = _volume(source, 8, 6, 2 * 8 + 3)
    image[10, :60] = 0xA5
    image[11, :61] = 0x5A
    image[12, :60] = np.full(15, 0x01020304, np.uint32).view(np.uint8)
    image[13, :62] = 0x77
    image[14, :64] = np.full(16, 0xA1B2C3D4, np.uint32).view(np.uint8)
    image[15, :81] = np.concatenate([source[5:45], image[3, :41]])
    image[16, :42], image[16, 100:143] = source[6:48], image[3, :43]
    image[17, :44], image[17, 60:105] = image[3, :44], image[3, :45]
    image[18, :46], image[18, 64:111] = 1, 3
    image[18, 48:60] = np.full(3, 2, np.uint32).view(np.uint8)
    image[18, 112:132] = np.full(5, 4, np.uint32).view(np.uint8)
    image[19, :24] = _rows(image[0], 10, 4, 6).reshape(-1)
    _volume(image[19], 12, 4, 4 * 12 + 12 + 2)[:] = _volume(image[1], 8, 6, 2 * 8 + 3)
    image[19, 240:] = np.concatenate([image[3, :8], image[2, :8]])
    return image


def test_every_copy_and_set_moves_its_bytes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    device, file = Device(), tmp_path / "image.bin"
    assert run_program(bangc.compile(KERNELS / "copies.mlu", device), device, (str(file),)) == 0
    np.testing.assert_array_equal(np.fromfile(file, np.uint8).reshape(PARTS, PART), _expected())
    assert capfd.readouterr().out.split() == ["cnrtErrorArgsInvalid"] * 3 + ["cnrtErrorDeviceInvalid"]
    *_, copy, peer = caplog.messages
    assert copy.startswith("[cnrtMemcpy3D] cnrtErrorArgsInvalid, copies.mlu:75: extents, positions and pitches that do")
    assert peer == "[cnrtMemcpyPeer] cnrtErrorDeviceInvalid, copies.mlu:76: device 1: there is one device, 0"
    report = device.verify()
    report.check()
    assert [finding.title for finding in report.hints] == []


@pytest.mark.slow
def test_copies_may_fill_blocks_of_the_heap(compiler: str, tmp_path: Path) -> None:
    """Also blocks that were enlarged, and new ones at the address of a smaller one that was freed."""
    file = tmp_path / "heap.mlu"
    file.write_text(
        "#include <cnrt.h>\n#include <cstdlib>\n#include <string>\n#include <vector>\n"
        "int main() {\n"
        "  char *x;\n  cnrtMalloc((void **)&x, 4096);\n  cnrtMemset(x, 1, 4096);\n  int sum = 0;\n"
        "  for (int n = 1; n <= 4096; n += 63) {\n"
        "    std::vector<char> values(n);\n    char *block = (char *)realloc(malloc(n / 2 + 1), n);\n"
        "    char *array = new char[n];\n    std::string text(n, 'a');\n"
        "    for (char *target : {values.data(), block, array, &text[0]}) {\n"
        "      cnrtMemcpy(target, x, n, cnrtMemcpyDevToHost);\n      sum += target[n - 1];\n    }\n"
        "    free(block);\n    delete[] array;\n  }\n"
        "  return sum;\n}\n"
    )
    assert run_program(bangc.compile(file, compiler=compiler), Device()) == 4 * 66
