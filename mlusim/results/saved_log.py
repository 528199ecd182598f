"""The log in the file of a saved run: tables of numbers as arrays, texts and shapes as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mlusim.arrays import Array
from mlusim.log import Log
from mlusim.log_tables import (
    AllocationRecord,
    Box,
    LaunchRecord,
    LoopRecord,
    Remark,
    SkippedRecord,
    TaskRecord,
)
from mlusim.records import COLUMNS
from mlusim.results.saved_checks import check_saved_log, tuples

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")

_RECORDS = {"tasks": TaskRecord, "launches": LaunchRecord, "allocations": AllocationRecord, "boxes": Box}
_TABLES = _RECORDS | {"loops": LoopRecord}
# Sets of numbers, and of parts by number, by their names in the file; those of an earlier version lack some.
_SETS: dict[str, Callable[[Log], set[int]]] = {
    "host_writes": lambda log: log.host.writes,
    "host_reads": lambda log: log.host.reads,
    "of_file": lambda log: log.of_file,
    "seen": lambda log: log.seen,
}
_PARTS: dict[str, Callable[[Log], dict[int, set[tuple[int, int]]]]] = {
    "host_parts": lambda log: log.host.written_parts,
    "host_read_parts": lambda log: log.host.read_parts,
    "windows": lambda log: log.windows,
}
# Columns with another name in files of an earlier version.
_FORMER_NAMES = {"method": "how"}


def files_of(log: Log) -> set[str]:
    """Return the source files that a log refers to; "" is one that is unknown."""
    calls = {file for helper, callers in log.calls.items() for file, _ in (helper, *callers)}
    return calls | {file for file, _, _ in log.lines} | {file for _, _, file, _ in log.swallowed}


def log_values(log: Log, names: Mapping[str, str], arrays: dict[str, Array]) -> dict[str, Any]:
    """Return a log as JSON values; its numbers are added to `arrays`, by member name.

    `names`: by source file, its name in the values.
    """
    arrays["log/records"] = np.ascontiguousarray(log.table().T)
    tables = {name: _table_values(name, getattr(log, name), arrays) for name in _RECORDS}
    _add_addresses(log, arrays)
    _add_selected(log, arrays)
    attributes = _add_attributes(log, arrays)
    arrays["log/loop_records"] = np.array(list(log.loops), np.int64)
    tables["loops"] = _table_values("loops", list(log.loops.values()), arrays)
    arrays["log/byte_copies"] = np.array(log.byte_copies, np.int64)
    arrays["log/joined"] = np.array(sorted(log.joined.items()), np.int64).reshape(-1, 2)
    extra = [(record, *operand) for record, operands in sorted(log.more_operands.items()) for operand in operands]
    arrays["log/more_operands"] = np.array(extra, np.int64).reshape(-1, 4)
    return {
        "board": log.board,
        "columns": list(COLUMNS),
        "selects": bool(log.selected),
        "attributes": attributes,
        "records": len(log),
        "ops": log.ops,
        "lines": [(names[file], line, function) for file, line, function in log.lines],
        "calls": sorted(
            (names[file], line, names[caller], call)
            for (file, line), callers in log.calls.items()
            for caller, call in callers
        ),
        "lambdas": sorted((names[file], line) for file, line in log.lambdas),
        "tables": tables,
        "host_waits": log.host.waits,
        "unordered": sorted(log.host.unordered),
        **{name: sorted(attribute(log)) for name, attribute in _SETS.items()},
        **{
            name: [(number, *part) for number, parts in sorted(attribute(log).items()) for part in sorted(parts)]
            for name, attribute in _PARTS.items()
        },
        "copied_back": log.host.copied_back,
        "released": sorted(log.released.items()),
        "swallowed": [(message, place, names[file], line) for message, place, file, line in log.swallowed],
        "remarks": [astuple(remark) for remark in log.remarks.values()],
        "skipped": [astuple(skip) for skip in log.skipped],
        "unsteady": log.unsteady,
    }


def _add_addresses(log: Log, arrays: dict[str, Array]) -> None:
    """Add the addresses of loops: for each kind, the number of rows by record, and the rows of all records."""
    for key in _address_keys(log):
        entries = [(record, sides[key]) for record, sides in sorted(log.addresses.items()) if key in sides]
        counts = [(record, len(rows)) for record, rows in entries]
        arrays[f"log/addresses_{key}"] = np.array(counts, np.int64).reshape(-1, 2)
        arrays[f"log/rows_{key}"] = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in entries)])


def _add_selected(log: Log, arrays: dict[str, Array]) -> None:
    """Add the masks of selected elements, each distinct one once, and the number of that of each record."""
    if not log.selected:
        return
    masks = {mask: number for number, mask in enumerate(dict.fromkeys(log.selected.values()))}
    numbers = [(record, masks[mask]) for record, mask in sorted(log.selected.items())]
    arrays["log/selected"] = np.array(numbers, np.int64)
    arrays["log/mask_bytes"] = np.array([len(mask) for mask in masks], np.int64)
    arrays["log/masks"] = np.frombuffer(b"".join(masks), np.uint8)


def _add_attributes(log: Log, arrays: dict[str, Array]) -> list[str]:
    """Add the number of the attributes of each record; return the distinct attributes by number, as JSON."""
    numbers: dict[str, int] = {}
    by_record = [
        (record, numbers.setdefault(json.dumps(dict(attributes)), len(numbers)))
        for record, attributes in sorted(log.attributes.items())
    ]
    if by_record:
        arrays["log/attributes"] = np.array(by_record, np.int64)
    return list(numbers)


def _address_keys(log: Log) -> tuple[str, ...]:
    """Return the kinds of addresses in a file: `lengths` only if there are loops over runs of rows."""
    runs = any(loop.method == "runs" for loop in log.loops.values())
    return ("dst", "src", "unknown", *(["lengths"] if runs else []))


def log_of(values: dict[str, Any], array: Callable[[str], Array]) -> Log:
    """Return the log that `log_values` has converted; `array` reads a member. Raises `ValueError` for a damaged one."""
    log = Log(values["board"])
    if tuple(values["columns"]) != COLUMNS:
        raise ValueError("its log has different columns")
    table = np.ascontiguousarray(array("log/records").T, np.int64)
    if len(table) != values.get("records", len(table)):
        raise ValueError(f"its log has {len(table)} of {values['records']} records")
    log.records.put_table(table)
    log.ops = [str(name) for name in values["ops"]]
    log.lines = [(str(file), int(line), str(function)) for file, line, function in values["lines"]]
    for name, record in _RECORDS.items():
        setattr(log, name, _table_of(name, record, values["tables"][name], array))
    loops = _table_of("loops", LoopRecord, values["tables"]["loops"], array)
    log.loops = dict(zip(array("log/loop_records").tolist(), loops, strict=True))
    log.byte_copies = array("log/byte_copies").tolist()
    log.joined = dict(array("log/joined").tolist())
    _read_addresses(log, array)
    if values.get("selects", False):
        _read_selected(log, array)
    # Runs saved by earlier versions lack these.
    if values.get("attributes"):
        kinds = [json.loads(text) for text in values["attributes"]]
        log.attributes = {record: kinds[number] for record, number in array("log/attributes").tolist()}
    for number, *operand in array("log/more_operands").tolist():
        log.more_operands.setdefault(number, []).append((operand[0], operand[1], operand[2]))
    _read_values(log, values)
    check_saved_log(log)
    return log


def _read_values(log: Log, values: Mapping[str, Any]) -> None:
    """Read what is not in arrays. Runs saved by earlier versions lack some of it."""
    log.host.waits = [int(count) for count in values["host_waits"]]
    log.host.unordered = {(int(first), int(second)) for first, second in values.get("unordered", ())}
    log.host.copied_back = [
        (int(launches), int(number), int(first), int(end))
        for launches, number, first, end in values.get("copied_back", ())
    ]
    for name, numbers_of in _SETS.items():
        numbers_of(log).update(int(number) for number in values.get(name, ()))
    for name, parts_of in _PARTS.items():
        for number, first, second in values.get(name, ()):
            parts_of(log).setdefault(int(number), set()).add((int(first), int(second)))
    for file, line, caller, call in values.get("calls", ()):
        log.calls.setdefault((str(file), int(line)), set()).add((str(caller), int(call)))
    log.lambdas = {(str(file), int(line)) for file, line in values.get("lambdas", ())}
    log.released = {int(number): int(count) for number, count in values.get("released", ())}
    for message, place, *source in values.get("swallowed", ()):
        file, line = source or ("", 0)
        log.swallowed.append((str(message), str(place), str(file), int(line)))
    for kind, title, operation, *numbers in values.get("remarks", ()):
        remark = Remark(str(kind), str(title), str(operation), *map(int, numbers))
        log.remarks[remark.kind, remark.line] = remark
    log.skipped = [SkippedRecord(*map(int, skip)) for skip in values.get("skipped", ())]
    log.unsteady = str(values.get("unsteady", ""))


def _read_addresses(log: Log, array: Callable[[str], Array]) -> None:
    for key in _address_keys(log):
        rows, first = array(f"log/rows_{key}"), 0
        for number, count in array(f"log/addresses_{key}").tolist():
            log.addresses.setdefault(number, {})[key] = rows[first : first + count]
            first += count
        if first != len(rows):
            raise ValueError("addresses of its log are missing")


def _read_selected(log: Log, array: Callable[[str], Array]) -> None:
    ends = np.cumsum(array("log/mask_bytes")).tolist()
    all_bytes = array("log/masks").astype(np.uint8).tobytes()
    if ends[-1] != len(all_bytes):
        raise ValueError("masks of its log are missing")
    masks = [all_bytes[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    for record, number in array("log/selected").tolist():
        log.select(record, masks[number])


def _table_values(table: str, records: Sequence[Any], arrays: dict[str, Array]) -> dict[str, Any]:
    """Return records as columns: integers in an array, other values as indices into lists of distinct values."""
    columns, texts = [], {}
    for item in fields(_TABLES[table]):
        values = [getattr(record, item.name) for record in records]
        if item.type not in ("int", "bool"):
            numbers: dict[Any, int] = {}
            values = [numbers.setdefault(value, len(numbers)) for value in values]
            texts[item.name] = list(numbers)
        columns.append(values)
    arrays[f"log/{table}"] = np.array(columns, np.int64).reshape(len(columns), len(records))
    return texts


def _table_of(
    table: str, record: type[Record], texts: dict[str, list[Any]], array: Callable[[str], Array]
) -> list[Record]:
    columns: list[list[Any]] = []
    rows = array(f"log/{table}").tolist()
    # Files of earlier versions lack the last fields, which have defaults.
    for item, numbers in zip(fields(record)[: len(rows)], rows, strict=True):
        if item.type == "bool":
            columns.append([bool(number) for number in numbers])
        elif item.type == "int":
            columns.append(numbers)
        else:
            values = tuples(texts[item.name if item.name in texts else _FORMER_NAMES.get(item.name, item.name)])
            if not all(0 <= number < len(values) for number in numbers):
                raise ValueError(f"its {table} refer to a value of {item.name} that does not exist")
            columns.append([values[number] for number in numbers])
    return [record(*row) for row in zip(*columns, strict=True)]
