"""The JSON of commands with several points has its provenance; tables of sweeps contain every reason."""

from __future__ import annotations

import json

import pytest

import mlusim
from mlusim.cli import main

WORDS = {
    "compare": ("compare", "flip", "--shape", "8,8", "--axis", "0", "--device", "mlu270,mlu370-x4", "--seed", "3"),
    "tune": ("tune", "flip", "--shape", "8,8", "--axis", "0", "--seed", "3", "--device", "mlu270"),
    "sweep": ("sweep", "flip", "--shape", "8,8", "--axis", "0", "--no-db", "--seed", "3", "--device", "mine.toml"),
}


@pytest.mark.parametrize("command", WORDS)
def test_json_has_version_command_seed_and_every_board(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('base = "mlu370-x4"\nclock_hz = 900_000_000\n')
    words = [*WORDS[command], "--json"]
    if command != "compare":
        words += ["--workers", "0"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 0
    first = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(words)
    assert capsys.readouterr().out == first, "the same run gives the same bytes"
    found = json.loads(first)["provenance"]
    assert found["mlusim"] == mlusim.__version__
    assert found["command"] == " ".join(["mlusim", *words])
    assert found["seed"] == 3
    names = {"compare": ["mlu270-s4", "mlu370-x4"], "tune": ["mlu270-s4"], "sweep": ["mine"]}
    assert list(found["boards"]) == names[command]
    record = next(iter(found["boards"].values()))
    assert record["clock_hz"] == (900_000_000 if command == "sweep" else 1_000_000_000)
    assert "clock_hz" in record["edited"] if command == "sweep" else record["edited"] == []


def test_a_sweep_prints_each_reason_once_and_in_full(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(
            [
                "sweep",
                "flip",
                "--shape",
                "8,8",
                "--axis",
                "0",
                "--axis",
                "5",
                "--cores",
                "4,8",
                "--no-db",
                "--workers",
                "0",
            ]
        )
    out = capsys.readouterr().out
    reason = "flip: axis=5 of a tensor of rank 2: an axis must be in [-2, 2); the last one is 1 or -1"
    assert " ".join(out.split()).count(reason) == 1
