"""Pairs of a sound kernel and the same kernel with one fault, in `pairs/*.txt`.

The kernels are each below a line `### name`, with a function `run` that returns the report. A comment
`#@ fault kind: line ;; fault kind: line` at the end of a line gives the lines that stand there in its place, by fault,
and the kind of the finding. `kind~` says that the fault shows in other lines than its own.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mlusim
from mlusim.verifier.report import Report

FILES = sorted((Path(__file__).parent / "pairs").glob("*.txt"))


class Case(NamedTuple):
    """A kernel with one fault, or without."""

    name: str
    fault: str
    kind: str
    elsewhere: bool
    lines: list[str]
    changed: list[int]


def marked(line: str) -> tuple[str, dict[str, tuple[str, str]]]:
    code, _, marks = line.partition("#@")
    faults = {}
    for mark in filter(None, marks.split(" ;; ")):
        head, _, other = mark.partition(":")
        fault, kind = head.split()
        faults[fault] = kind, other.strip() or "pass"
    return code.rstrip(), faults


def cases() -> Iterator[Case]:
    for file in FILES:
        for part in file.read_text(encoding="utf-8").split("### ")[1:]:
            name, *lines = part.rstrip().split("\n")
            source = [marked(line) for line in lines]
            yield Case(name, "sound", "", False, [code for code, _ in source], [])
            for fault in dict.fromkeys(fault for _, faults in source for fault in faults):
                code, changed, kinds = [], [], set()
                for number, (line, faults) in enumerate(source, 1):
                    if fault in faults:
                        kind, other = faults[fault]
                        kinds.add(kind)
                        changed.append(number)
                        code.append(line[: len(line) - len(line.lstrip())] + other)
                    else:
                        code.append(line)
                (kind,) = kinds
                yield Case(name, fault, kind.removesuffix("~"), kind.endswith("~"), code, changed)


CASES = list(cases())


def numbers(name: str) -> dict[str, Any]:
    """Return what the kernels use: random numbers, always the same, and the names of mlusim."""
    generator = np.random.default_rng(5)
    return {
        "__name__": name,
        "np": np,
        "mlusim": mlusim,
        **{known: getattr(mlusim, known) for known in ("verify", "Output", "InOut", "Device")},
        "rng": generator,
        "f32": lambda *shape: generator.standard_normal(shape).astype(np.float32),
        "f16": lambda *shape: generator.standard_normal(shape).astype(np.float16),
        "i32": lambda *shape, hi=100: generator.integers(0, hi, shape).astype(np.int32),
    }


def report_of(case: Case, folder: Path) -> Report:
    """Return the report of a case, whose kernel is written to a folder."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{case.name}.py"
    path.write_text("\n".join(case.lines) + "\n", encoding="utf-8")
    linecache.checkcache(str(path))
    module = numbers(case.name)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module)
    report: Report = module["run"]()
    return report
