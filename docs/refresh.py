"""Run every example of README.md and docs/*.md, and write what it prints under it.

    python docs/refresh.py            rewrite the outputs
    python docs/refresh.py --images   also draw the picture of a sweep in docs/images

The tests call `refreshed` and compare: a page whose output is out of date fails. In a page,

    ```python            runs, in one namespace for the page; a ```text block right after it is what it prints
    ```python name.py    is written to that file, for a console block to run; so are ```toml name.toml, ```cpp name.mlu
    ```console           runs its `$` lines in a shell, in one directory for the page; the rest is what they print
    ```sh, ```text       is left alone
    <!-- table: NAME --> to <!-- end of table --> is what `tables.py` makes of the package's own records

Simulated times do not depend on the machine, so all of this is the same everywhere.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_NRAM_SWEEP = (
    *("sweep", "tin_shift", "--shape", "2,8,64,784", "--dtype", "float16", "--nram", "256..64KiB*2"),
    *("--strategy", "documented,shipped,tight,batched,pingpong", "--against", "nram", "--no-db", "--quiet"),
)

_BLOCK = re.compile(r"^```(?P<kind>\w+)(?P<name>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(?<=<!-- table: )(?P<words>[^>]+) -->\n.*?(?=<!-- end of table -->)", re.DOTALL)
_OUTPUT = re.compile(r"\n+```text\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


class Page:
    """One page's examples: their directory, their names, their shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.lines = 0
        commands = folder / ".commands"
        commands.mkdir()
        for name, command in (("python", ""), ("mlusim", " -m mlusim")):
            script = commands / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}"{command} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        # pytest says more where it sees that it runs in CI.
        personal = {name: value for name, value in os.environ.items() if name not in ("CI", "BUILD_NUMBER")}
        self.environment = personal | {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            # A page may change a file within the second in which it ran, and bytecode is told apart by seconds.
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONWARNINGS": "error",
            "NO_COLOR": "1",
        }

    def python(self, code: str) -> str:
        """What a block prints. Its lines count as those of one file, made of the page's blocks."""
        printed = io.StringIO()
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with redirect_stdout(printed):
                exec(compile("\n" * self.lines + code, "example.py", "exec"), self.names)  # noqa: S102 - the purpose
        finally:
            os.chdir(before)
            self.lines += code.count("\n")
        return printed.getvalue()

    def console(self, body: str) -> str:
        """The block with what its commands print now."""
        lines = []
        for command in _commands(body):
            lines.append(f"$ {command}\n")
            ran = subprocess.run(
                ["bash", "-c", command.replace("\\\n", "")],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            lines += [f"{line.rstrip()}\n" for line in ran.stdout.splitlines()]
        return "".join(lines)


def _commands(body: str) -> Iterator[str]:
    lines = iter(body.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += f"\n{next(lines)}"
            yield command


def _table(found: re.Match[str]) -> str:
    spec = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    name, *words = found["words"].split()
    return f"{found['words']} -->\n\n{tables.TABLES[name](*words)}\n"


def refreshed(path: Path, folder: Path) -> str:
    """The page with all outputs made anew, in an empty folder."""
    page = Page(folder)
    text = _TABLE.sub(_table, path.read_text(encoding="utf-8"))
    parts, end = [], 0
    for block in _BLOCK.finditer(text):
        if block.start() < end:
            continue
        kind, name, body = block["kind"], block["name"].strip(), block["body"]
        if name and kind in {"python", "toml", "cpp"}:
            (folder / name).write_text(body, encoding="utf-8")
        elif kind == "python":
            printed = page.python(body)
            output = _OUTPUT.match(text, block.end())
            if output:
                parts += [text[end : output.start("body")], printed]
                end = output.end("body")
            elif printed:
                line = text.count("\n", 0, block.start()) + 1
                raise AssertionError(f"{path.name}:{line}: the block prints, and no ```text block follows: {printed}")
        elif kind == "console":
            parts += [text[end : block.start("body")], page.console(body)]
            end = block.end("body")
    parts.append(text[end:])
    return "".join(parts)


def draw() -> None:
    """Draw the picture of a sweep. docs/images/report.png is a screenshot of the report of `mlusim demo`."""
    from PIL import Image

    lines = ROOT / "docs" / "images" / "explore-nram.png"
    sweep = [sys.executable, "-m", "mlusim", *_NRAM_SWEEP, "--force", "--picture", str(lines)]
    subprocess.run(sweep, check=True, cwd=ROOT)
    with Image.open(lines) as drawn:
        few = drawn.convert("RGB").quantize(64, dither=Image.Dither.NONE)
    few.save(lines, optimize=True)


def main() -> None:
    """Rewrite what is out of date."""
    sys.path.insert(0, str(ROOT))
    for path in PAGES:
        with tempfile.TemporaryDirectory() as folder:
            text = refreshed(path, Path(folder))
        if text != path.read_text(encoding="utf-8"):
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)} has changed\n")
    if "--images" in sys.argv:
        draw()


if __name__ == "__main__":
    main()
