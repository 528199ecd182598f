"""The schemas in docs/schemas: what the commands print is as they say, and they refuse what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlusim.cli import main

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schemas"
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
KERNEL = """\
async def move(core, x, out):
    if core.is_memory_core or core.task_id:
        return
    a = core.nram.alloc(x.shape, x.dtype)
    core.memcpy_async(a, x)
    core.add(a, a, a)
    core.memcpy_async(out, a)
"""


def wrong(value, schema, where="$"):
    """What of a value is not as the schema says: the keywords that our schemas use."""
    if "const" in schema and value != schema["const"]:
        return [f"{where} is {value!r}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where} is {value!r}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(isinstance(value, TYPES[kind]) for kind in kinds):
        return [f"{where} is {value!r}"]
    found = [f"{where} has no {name}" for name in schema.get("required", []) if name not in value]
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            found += wrong(value[name], inner, f"{where}.{name}")
    for number, item in enumerate(value if "items" in schema else []):
        found += wrong(item, schema["items"], f"{where}[{number}]")
    return found


def printed(*words, code=0):
    done = CliRunner().invoke(main, [*words, "--json"])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "k.py").write_text(KERNEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words", "code"),
    [
        ("summary", ("run", "k.py", "--shape", "64"), 0),
        ("summary", ("run", "cast", "--shape", "64", "--dtype", "int8"), 0),
        ("diff", ("diff", "k.py --shape 64", "k.py --shape 4096"), 0),
        ("verification", ("verify", "k.py", "--shape", "64"), 1),
        ("explain", ("explain", "k.py --shape 4096"), 0),
        ("compile", ("compile", "k.py"), 0),
        ("compile", ("compile", "gone.mlu"), 1),
    ],
)
def test_what_is_printed_is_as_its_schema_says(home, name, words, code):
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    found = printed(*words, code=code)
    assert wrong(found, schema) == []
    assert str(home) not in json.dumps(found)
    for key in schema["required"]:
        assert wrong({one: value for one, value in found.items() if one != key}, schema) == [f"$ has no {key}"]


def test_every_schema_is_on_the_page():
    page = (SCHEMAS.parent / "programs.md").read_text()
    assert all(f"schemas/{path.name}" in page for path in SCHEMAS.glob("*.json"))
