"""Comparison of the logs of saved runs, and changes of their headers."""

from __future__ import annotations

import json
import zipfile

import numpy as np

from mlusim.log import Log
from mlusim.results.saved import short_names


def portable(lines: list[tuple[str, int, str]]) -> list[tuple[str, int, str]]:
    """Lines with their files as a saved run names them."""
    names = short_names(file for file, _, _ in lines)
    return [(names[file], line, function) for file, line, function in lines]


def portable_calls(log: Log) -> set[tuple[str, int, str, int]]:
    """The calls of helper functions, with their files as `portable` names them, and the lines of lambdas."""
    calls = {(*called, *caller) for called, callers in log.calls.items() for caller in callers}
    calls |= {(*at, *at) for at in log.lambdas}
    names = short_names(
        {file for one, _, other, _ in calls for file in (one, other)} | {file for file, *_ in log.lines}
    )
    return {(names[one], line, names[other], call) for one, line, other, call in calls}


def same_log(one: Log, other: Log) -> None:
    np.testing.assert_array_equal(one.table(), other.table())
    assert portable(one.lines) == portable(other.lines)
    assert portable_calls(one) == portable_calls(other)
    for name in (
        *("board", "ops", "tasks", "launches", "allocations", "boxes", "host", "more_operands", "loops", "byte_copies"),
        *("released", "windows", "swallowed", "joined", "skipped", "unsteady", "remarks", "of_file", "seen"),
        *("selected", "attributes"),
    ):
        assert getattr(one, name) == getattr(other, name), name
    assert one.addresses.keys() == other.addresses.keys()
    for record, sides in one.addresses.items():
        assert list(sides) == list(other.addresses[record])
        for key, rows in sides.items():
            np.testing.assert_array_equal(rows, other.addresses[record][key])
            assert {rows.dtype.kind, other.addresses[record][key].dtype.kind} <= {"i", "u"}


def rewritten(path, change, target):
    """The saved run with a changed header, and the rest unchanged."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "run.json":
                head = json.loads(data)
                change(head)
                data = json.dumps(head).encode()
            new.writestr(name, data)
    return target
