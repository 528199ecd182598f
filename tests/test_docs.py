"""Every example in README and docs prints what the page shows; every link has a target."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import mlusim
from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.lower_bound import LOSSES
from mlusim.bangc.compiler import toolchain
from mlusim.errors import InputError

ROOT = Path(__file__).resolve().parent.parent


def _load_refresh():
    spec = importlib.util.spec_from_file_location("docs_refresh", ROOT / "docs" / "refresh.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


refresh = _load_refresh()
PAGES = [pytest.param(path, id=path.name) for path in refresh.PAGES]
# These run sweeps, calibrations or dozens of processes.
LONG = {
    *("accuracy.md", "bangc.md", "command-line.md", "explore.md", "programs.md", "retime.md"),
    *("verify.md", "write-your-own-kernel.md", "write-your-own-planner.md"),
}
RUNS = [
    pytest.param(path, id=path.name, marks=[pytest.mark.slow] if path.name in LONG else []) for path in refresh.PAGES
]


@pytest.mark.parametrize("path", RUNS)
def test_examples_run_and_print_what_the_page_shows(path, tmp_path):
    shown = path.read_text(encoding="utf-8")
    if "```cpp" in shown:
        try:
            toolchain.find_compiler()
        except InputError as error:
            pytest.skip(str(error))
    # Out of date after a change of the model? `python docs/refresh.py`, and read the difference.
    assert refresh.refreshed(path, tmp_path) == shown


def test_relative_links_and_pictures_lead_to_files_and_headings():
    """As GitHub shows a clone: a link counts from the folder of its page, and `#` leads to a heading."""
    pages = [
        path
        for name in ("*.md", "*/*.md", "*/*/*.md")
        for path in ROOT.glob(name)
        if not str(path.relative_to(ROOT)).startswith(".")
    ]
    prose = {
        path.resolve(): re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL) for path in pages
    }
    missing, count = [], 0
    for page, text in prose.items():
        for link in re.finditer(r"""\]\(([^)\s]+)[^)]*\)|(?:src|href)="([^"]+)\"""", text):
            target = link[1] or link[2]
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, heading = target.partition("#")
            leads = (page.parent / path).resolve() if path else page
            if not leads.exists() or (heading and leads in prose and heading not in _headings(prose[leads])):
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert missing == []
    assert count > 100


def _headings(text):
    lines = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.strip().lower()) for line in lines]
    return {re.sub(r"[^\w\- ]", "", line).replace(" ", "-") for line in plain}


@pytest.mark.parametrize("path", PAGES)
def test_fenced_blocks_have_known_kinds(path):
    kinds = re.findall(r"^```(\w*)[^\n]*\n.*?^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert set(kinds) <= {"python", "console", "sh", "text", "toml", "cpp"}


def test_the_glossary_lists_core_device_and_package(tmp_path):
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    have = {}

    async def look(core):
        if not core.is_memory_core:
            have["core"] = set(dir(core))

    device = mlusim.Device("mlu370-x4")
    device.launch(look, dim=4)
    device.synchronize()
    have |= {"device": set(dir(device)), "mlusim": set(dir(mlusim))}
    for owner, names in have.items():
        named = set(re.findall(rf"`(?:await )?(?:\w+ = (?:await )?)?{owner}\.(\w+)", text))
        assert named
        assert named <= names


def test_the_glossary_has_every_instruction_of_a_core():
    text = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("glossary.md", "instructions.md"))
    public = {name for name in dir(mlusim.Core) if not name.startswith("_")}
    assert {name for name in public if f"core.{name}" not in text} == set()


def test_the_glossary_explains_every_cause_of_time():
    text = " ".join((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split())
    causes = text[text.index("## Causes of time") :]
    assert [name for name in CAUSES.values() if f"| {name} |" not in causes] == []
    assert [name for name in LOSSES.values() if f"`{name}`" not in causes] == []


def test_the_machine_page_names_only_parameters_that_boards_have():
    text = (ROOT / "docs" / "machine.md").read_text(encoding="utf-8").partition("## Assumed")[0]
    fields = {field.name for field in dataclasses.fields(mlusim.Board)}
    figures = {"io_efficiency", "compute_efficiency"}
    named = set(re.findall(r"`(\w+_(?:ps|cycles|per_s|per_cycle|efficiency|growth))`", text)) - figures
    assert len(named) > 15
    assert named <= fields


def test_a_wrong_output_on_a_page_is_detected(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(2)\n```\n\n```text\n1\n```\n\n```console\n$ echo three\n```\n")
    (tmp_path / "work").mkdir()
    text = refresh.refreshed(page, tmp_path / "work")
    assert text == "```python\nprint(2)\n```\n\n```text\n2\n```\n\n```console\n$ echo three\nthree\n```\n"


def test_generated_tables_match_the_records(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n\n<!-- table: strategies cast -->\nstale\n<!-- end of table -->\n\nb\n")
    (tmp_path / "work").mkdir()
    text = refresh.refreshed(page, tmp_path / "work")
    assert text.startswith("a\n\n<!-- table: strategies cast -->\n\n| strategy |  |\n| --- | --- |\n| `auto` | ")
    assert text.endswith(" |\n\n<!-- end of table -->\n\nb\n")
    assert "stale" not in text


def test_the_machine_page_has_every_assumption_of_every_board():
    text = (ROOT / "docs" / "machine.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    for board in mlusim.presets():
        for name, source in board.sources.items():
            if source.startswith("ASSUMED"):
                assert any(source.removeprefix("ASSUMED").lstrip(": ") in row[-1] for row in rows), (board.name, name)


def test_every_page_is_on_the_site():
    index = (ROOT / "docs" / "index.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"^   ([\w/-]+)$", index, re.MULTILINE))
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    pages |= {f"api/{path.stem}" for path in (ROOT / "docs" / "api").glob("*.rst")}
    assert named == pages
