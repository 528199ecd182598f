"""The JSON of every command conforms to the schemas in docs/schemas, in any folder."""

from __future__ import annotations

import json
from pathlib import Path

import click
import jsonschema
import pytest

from command_line import call
from mlusim.cli import main
from mlusim.cli.bangc import bangc

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
KERNEL = """\
async def move(core, x, out, more=1):
    if core.is_memory_core or core.task_id:
        return
    a = core.nram.alloc(x.shape, x.dtype)
    core.memcpy_async(a, x)
    core.add(a, a, a)
    core.memcpy_async(out, a)
"""
ENTRY = """\
#include <bang.h>
__mlu_entry__ void twice(const float *x, float *out) {
  if (taskId) return;
  __nram__ float tile[64];
  __memcpy(tile, x, 256, GDRAM2NRAM);
  __bang_add(tile, tile, tile, 64);
  __memcpy(out, tile, 256, NRAM2GDRAM);
}
"""
FLIP = ("flip", "--shape", "8,8", "--axis", "0")
# Schema, words, exit code; {} is the folder.
CASES = [
    ("summary", ("run", "{}/k.py", "--shape", "64", "--save-run", "{}/new.zip", "--csv", "{}/new.csv"), 0),
    ("summary", ("run", *FLIP, "--check", "--explain", "--out", "{}/flip.npy", "--report", "{}/page"), 0),
    ("summary", ("demo", "--save", "{}/clips"), 0),
    ("summary", ("retime", "{}/a.zip", "--device", "{}/mine.toml"), 0),
    ("summary", ("verify", *FLIP), 0),
    ("plan", ("run", *FLIP, "--dry-run", "--device", "{}/mine.toml"), 0),
    ("verification", ("verify", "{}/k.py", "--shape", "64"), 1),
    ("compare", ("compare", *FLIP, "--device", "mlu270,mlu370-x4"), 0),
    ("compare", ("compare", "{}/k.py", "--shape", "64", "--set", "more=1,2", "--no-data"), 0),
    ("tune", ("tune", *FLIP, "--workers", "0"), 0),
    ("tune", ("tune", "{}/k.py", "--shape", "64", "--set", "more=1,2", "--workers", "0", "--db", "{}/tune.sqlite"), 0),
    (
        "sweep",
        (
            "sweep",
            *FLIP,
            "--cores",
            "4,6",
            "--plot",
            "time",
            "--db",
            "{}/new.sqlite",
            "--workers",
            "0",
            "-o",
            "{}/new.parquet",
        ),
        0,
    ),
    (
        "sweep",
        ("sweep", "{}/k.py", "--shape", "64", "--set", "more=1,2", "--no-db", "--workers", "0", "-o", "{}/x.csv"),
        0,
    ),
    ("devices", ("devices",), 0),
    ("devices", ("devices", "{}/mine.toml"), 0),
    ("report", ("report", "{}/a.zip", "-o", "{}/one"), 0),
    ("report", ("report", "{}/a.zip", "{}/b.zip", "-o", "{}/two"), 0),
    ("inspect", ("inspect", "{}/a.zip", "--at", "1us"), 0),
    ("diff", ("diff", "{}/a.zip", "{}/k.py --shape 4096", "--report", "{}/both"), 0),
    ("explain", ("explain", "{}/a.zip"), 0),
    ("explain", ("explain", "{}/k.py --shape 4096"), 0),
    ("validation", ("validate", "copy-8.4MB", "--plot", "{}/errors.svg"), 0),
    ("compile", ("compile", "{}/k.py"), 0),
    ("compile", ("compile", "{}/k.py", "{}/bad.py"), 1),
    ("compile", ("compile", "{}/twice.mlu", "{}/bad.mlu"), 1),
    ("bangc-check", ("bangc", "check", "{}/twice.mlu", "{}/bad.mlu"), 1),
    ("summary", ("bangc", "run", "{}/twice.mlu", "--shape", "64", "--check"), 0),
]


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(KERNEL)
    (tmp_path / "twice.mlu").write_text(ENTRY)
    (tmp_path / "bad.py").write_text("async def half(")
    (tmp_path / "bad.mlu").write_text(ENTRY.replace("tile[64]", "tile[64"))
    (tmp_path / "mine.toml").write_text('base = "mlu370-x4"\nclock_hz = 900_000_000\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    return tmp_path


def printed(home, words, code):
    done = call(*(word.replace("{}", str(home)) for word in words), "--json")
    assert done.exit_code == code, done.output
    return done.stdout


def schema_of(name):
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text()))


@pytest.mark.parametrize(("name", "words", "code"), CASES)
@pytest.mark.grid(6)
def test_printed_json_matches_its_schema(home, monkeypatch, name, words, code):
    if any(word.endswith(".parquet") for word in words):
        pytest.importorskip("pyarrow")
    texts = []
    for folder in ("here", "elsewhere/with/a/long/name"):
        where = home / folder
        where.mkdir(parents=True)
        for file in home.glob("*.*"):
            (where / file.name).write_bytes(file.read_bytes())
        monkeypatch.chdir(where)
        for run, shape in (("a", "64"), ("b", "4096")):
            if f"{run}.zip" in " ".join(words):
                printed(where, ("run", "k.py", "--shape", shape, "--seed", "5", "--save-run", f"{run}.zip"), 0)
        texts.append(printed(where, words, code))
    assert texts[0] == texts[1], "the same run gives the same bytes in every folder"
    assert str(home) not in texts[0]
    found, schema = json.loads(texts[0]), schema_of(name)
    schema.validate(found)
    assert json.dumps(found["provenance"]).count("1970-01-02"), "the date is that of SOURCE_DATE_EPOCH"
    for key in schema.schema["required"]:
        errors = [one.message for one in schema.iter_errors({one: found[one] for one in found if one != key})]
        assert errors == [f"{key!r} is a required property"]


def leaves(group, before=()):
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        inner = command is bangc
        yield from leaves(command, (*before, name)) if inner else [((*before, name), command)]


def test_every_command_that_prints_json_has_a_case():
    for words, command in leaves(main):
        made = command.get_command(click.Context(command), "flip") if isinstance(command, click.Group) else command
        if any("--json" in option.opts for option in made.params):
            assert any(case[: len(words)] == words for _, case, _ in CASES), words


def test_every_schema_is_valid_documented_and_has_the_same_provenance():
    page = (SCHEMAS.parent / "programs.md").read_text()
    shared = {}
    for path in SCHEMAS.glob("*.json"):
        schema = json.loads(path.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        assert f"schemas/{path.name}" in page
        assert any(path.stem == name for name, _, _ in CASES)
        for name in ("board", "tensor"):
            assert shared.setdefault(name, schema["$defs"].get(name)) in (None, schema["$defs"].get(name, shared[name]))


def test_a_wrong_date_is_refused(home, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    done = call("devices", "--json")
    assert done.exit_code == 2
    assert "SOURCE_DATE_EPOCH=today: it must be seconds since 1970" in done.output
