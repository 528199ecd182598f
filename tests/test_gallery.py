"""The gallery in reports/: reproducible, up to date with its runs, and its runs with the model."""

import importlib.util
import re
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "reports"
REBUILD = "out of date: python reports/build.py --rerun, and read the difference"


def _load():
    spec = importlib.util.spec_from_file_location("gallery_build", REPORTS / "build.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


gallery = _load()
FEW = [case for case in gallery.CASES if case.name in ("reverse", "bitcast_convert")]


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_building_twice_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        gallery.build(tmp_path / name, pages=True, cases=FEW)
    first, second = files(tmp_path / "a"), files(tmp_path / "b")
    assert list(first) == list(second)
    assert [name for name in first if first[name] != second[name]] == []
    assert len([name for name in first if name.startswith("runs/")]) == 6
    page = first["pages/reverse-mlu370-x4.html"].decode()
    assert 'data-src="plotly.min.js"></script>' in page
    assert 'href="index.html"' in page
    # Every link and picture of both indices leads to a file that was built.
    for name in ("index.html", "pages/index.html"):
        targets = re.findall(r'(?:href|src)="(?!data:)([^"#]+)"', first[name].decode())
        assert len(targets) == {"index.html": 7, "pages/index.html": 13}[name]
        assert [target for target in targets if not (tmp_path / "a" / name).parent.joinpath(target).exists()] == []
    assert "Split proof" in page
    assert len(page) < 600_000


@pytest.mark.slow
def test_the_stored_gallery_matches_its_runs(tmp_path):
    (tmp_path / "runs").symlink_to(REPORTS / "runs")
    for path in gallery.build(tmp_path):
        kept = REPORTS / path.relative_to(tmp_path)
        assert kept.read_bytes() == path.read_bytes(), f"{kept.name} is {REBUILD}"


@pytest.mark.parametrize("case", gallery.CASES, ids=lambda case: case.name)
def test_the_stored_runs_match_the_current_model(case):
    board = gallery.BOARDS[0]
    kept = gallery.mlusim.load(REPORTS / "runs" / f"{gallery.name_of(case, board)}.zip")
    run = case.run(board)
    assert (kept.time_ps, kept.bus_bytes, len(kept.log)) == (run.time_ps, run.bus_bytes, len(run.log)), REBUILD


def test_every_operator_is_there_on_three_boards():
    assert {case.name for case in gallery.CASES} >= {
        *("flip", "reverse", "reverse_sequence", "gather", "gather_nd", "scatter", "scatter_nd", "cast"),
        *("bitcast_convert", "tin_shift_forward", "tin_shift_backward"),
    }
    assert len(gallery.BOARDS) == 3
    assert len(list((REPORTS / "runs").iterdir())) == 3 * len(gallery.CASES)
    assert sum(path.stat().st_size for path in (REPORTS / "runs").iterdir()) < 5_000_000


def test_saved_runs_contain_no_local_paths():
    for path in (REPORTS / "runs").iterdir():
        with zipfile.ZipFile(path) as archive:
            head = archive.read("run.json").decode()
        assert str(ROOT) not in head
        assert not re.search(r'"/[^"]*\.py"', head)


def test_links_and_pictures_of_the_readme_are_there():
    text = (REPORTS / "README.md").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) == 3 * len(gallery.CASES) + 1
    assert [target for target in targets if not (REPORTS / target).exists()] == []


def test_a_picture_has_axes_with_units(tmp_path):
    gallery.build(tmp_path, cases=FEW)
    for path in (tmp_path / "pictures").glob("*-*.svg"):
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text())
        if texts == ["nothing ran: no byte moved"]:
            continue
        assert texts[0].endswith(" GB/s")
        assert texts[1:3] == ["0", "0 us"]
        ticks = [float(text) for text in texts[3:]]
        assert ticks == sorted(ticks)
        assert len(ticks) <= 7
    legend = (tmp_path / "pictures" / "legend.svg").read_text()
    assert all(f">{name}</text>" in legend for name in ("read", "write", "peak of the board", "launch overhead"))


def test_a_false_statement_about_a_run_stops_the_build(tmp_path):
    from dataclasses import replace

    wrong = replace(FEW[0], holds=lambda _: False)
    with pytest.raises(SystemExit, match=r"reverse-mlu370-x4\.zip: what cases\.py says of it does not hold"):
        gallery.build(tmp_path, cases=[wrong])
