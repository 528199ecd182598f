"""Saved runs: log, board, plan and source of the kernels, in one zip of JSON and .npy members.

`Result.save` and `Device.save` write a file, `mlusim.load` reads it. Files are written atomically, and equal runs give
equal bytes. The file contains no code, and reading it executes nothing. `np.load` can open it too, as its arrays are
.npy members.

  run.json            format, version, operator, board, plan, tables of texts and shapes, source text by file
  log/records.npy     (columns, records) int64: `mlusim.records.COLUMNS`
  log/*.npy           the other tables of the log
  plan/*.npy          the tiles
  output.npy          the bytes of the output, if requested
"""

from __future__ import annotations

import json
import linecache
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, is_dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np

from mlusim.dtypes import dtype_name, dtype_of
from mlusim.errors import BoardError, InputError, MlusimError
from mlusim.files import atomic_write, open_input
from mlusim.hardware import Board
from mlusim.hardware.presets import find_preset
from mlusim.inputs import as_path
from mlusim.log import AllocationRecord, Box, LaunchRecord, Log, LoopRecord, Remark, SkippedRecord, TaskRecord
from mlusim.planning.plan import Plan
from mlusim.planning.request import Request
from mlusim.planning.tiles import Tiles
from mlusim.records import COLUMNS
from mlusim.results.schema import (
    check_fields,
    check_log,
    check_on_board,
    check_plan,
    check_sizes,
    check_tasks,
    clean,
    read_array,
)
from mlusim.version import __version__

FORMAT = "mlusim-run"
NUMBER = 1
# Board parameters that the first version did not have.
_ADDED = frozenset(
    {
        *("cluster_start_ps", "dma_element_ps", "dram_mixing_reach", "dram_share_spread"),
        *(f"vector_{kind}_cycles" for kind in ("divide", "exp", "log", "root", "trig", "activation")),
        *("tensor_efficiency", "tensor_ops_per_cycle_fp32", "tensor_startup_cycles"),
    }
)
_PACKAGE = PurePath(__file__).parents[1]
_STAND_IN = "mlu370-x4"  # for parameters of a user's board that an earlier version did not have

Array = np.ndarray[Any, Any]
Record = TypeVar("Record")

_HEAD = "run.json"
# Records are mostly small, ascending numbers: the fastest level compresses to a tenth, higher ones gain little.
_LEVEL = 1
# Zip members have timestamps; a constant one makes equal runs give equal bytes.
_TIME = (1980, 1, 1, 0, 0, 0)
_TILES = ("task", "start", "stop", "nram_bytes")
_RECORDS = {"tasks": TaskRecord, "launches": LaunchRecord, "allocations": AllocationRecord, "boxes": Box}
_TABLES = _RECORDS | {"loops": LoopRecord}
# Columns with another name in files of an earlier version.
_FORMER_NAMES = {"method": "how"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Saved:
    """The parts of a saved run; see `mlusim.results.result.Result`."""

    operator: str
    board: Board
    plan: Plan | None
    request: Request | None
    log: Log
    theory_ops: int | None = None
    stopped: str = ""
    sources: Mapping[str, str]
    output: Array | None = None
    made_by: Mapping[str, Any] = field(default_factory=dict)


def write(run: Saved, path: str | os.PathLike[str]) -> Path:
    """Write a run to a file; return its path. Raises `InputError` if it cannot be written."""
    path = as_path(path)
    arrays: dict[str, Array] = {}
    names = short_names({*run.sources, *(file for file, _, _ in run.log.lines)})
    log = _log_values(run.log, arrays)
    head = {
        "format": FORMAT,
        "number": NUMBER,
        "mlusim": __version__,
        "operator": run.operator,
        "theory_ops": None if run.theory_ops is None else int(run.theory_ops),
        "stopped": run.stopped,
        "board": board_values(run.board) | {"sources": dict(run.board.sources)},
        "plan": None if run.plan is None else _plan_values(run.plan, run.board, arrays),
        "request": None if run.request is None else plain(run.request)["fields"],
        "log": log | {"lines": [(names[file], line, function) for file, line, function in run.log.lines]},
        "sources": {names[file]: text for file, text in run.sources.items()},
        "output": None,
        "made_by": dict(run.made_by),
    }
    if run.output is not None:
        head["output"] = {"dtype": dtype_name(run.output.dtype), "shape": list(run.output.shape)}
        arrays["output"] = np.ascontiguousarray(run.output).reshape(-1).view(np.uint8)
    try:
        with atomic_write(path) as stream:
            _write_zip(stream, head, arrays)
    except OSError as error:
        raise InputError(f"{path}: the run cannot be saved there: {error.strerror or error}") from error
    return path


def read(path: str | os.PathLike[str]) -> Saved:
    """Read a run from a file.

    Raises `InputError` for a file that is missing, was not written by `write`, is damaged, or has a newer format.
    """
    file = as_path(path)
    try:
        with open_input(file) as stream:
            return _read_zip(file, stream)
    except OSError as error:
        raise InputError(f"{file}: the saved run cannot be read: {error.strerror or error}") from None


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Shorten file names: the package's own to `mlusim/...`, others to the shortest tail that is unique."""
    short: dict[str, str] = {}
    for file in sorted({*files}):
        path = PurePath(file)
        if not path.is_absolute():
            short[file] = file
        elif path.is_relative_to(_PACKAGE):
            short[file] = path.relative_to(_PACKAGE.parent).as_posix()
        else:
            tails = (PurePath(*path.parts[-count:]).as_posix() for count in range(1, len(path.parts)))
            short[file] = next((tail for tail in tails if tail not in short.values()), file)
    return short


def source_texts(log: Log) -> dict[str, str]:
    """Return the current text of every file named in a log; omits files that cannot be read."""
    texts = {}
    for file in sorted({file for file, _, _ in log.lines}):
        linecache.checkcache(file)
        text = "".join(linecache.getlines(file))
        if text:
            texts[file] = text
    return texts


def board_values(board: Board) -> dict[str, Any]:
    """Return the parameters of a board by name, without sources."""
    return {item.name: getattr(board, item.name) for item in fields(board) if item.name != "sources"}


def plain(value: Any) -> Any:
    """Convert a plan parameter for JSON: records become {"class": ..., "fields": {...}}, lists become tuples.

    Plain values are unchanged, so that plans can be compared even if one comes from a file.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    names: Iterable[str] = ()
    if isinstance(value, Tiles):
        names = _TILES
    elif is_dataclass(value):
        names = (item.name for item in fields(value))
    return {"class": type(value).__name__, "fields": {name: plain(getattr(value, name)) for name in names}}


def _write_zip(stream: Any, head: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:

        def member(name: str, fill: Callable[[Any], None]) -> None:
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as opened:
                fill(opened)

        text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
        member(_HEAD, lambda opened: opened.write(text.encode("utf-8", "surrogatepass")))
        for name, array in arrays.items():
            member(f"{name}.npy", partial(_write_array, array))


def _write_array(array: Array, stream: Any) -> None:
    np.save(stream, array, allow_pickle=False)


def _read_zip(file: Path, stream: Any) -> Saved:
    remedy = "save the run again"
    try:
        archive = zipfile.ZipFile(stream)
        names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        stream.seek(0)
        if stream.read(4) == b"PK\x03\x04":
            raise InputError(f"{file}: a saved run that is damaged or cut off ({error}); {remedy}") from None
        raise InputError(
            f"{file} is not a saved run: Result.save(path), or `mlusim run ... --save-run FILE`, writes one"
        ) from None
    if _HEAD not in names:
        raise InputError(f"{file} is a zip file, but not a saved run: it has no {_HEAD}")
    try:
        check_sizes(archive, stream.seek(0, os.SEEK_END))
        head = json.loads(archive.read(_HEAD).decode("utf-8", "surrogatepass"))
        check_format(file, head)
        sources = head["sources"]
        head = clean({name: value for name, value in head.items() if name != "sources"})
        return _run_of(head | {"sources": sources}, partial(read_array, archive))
    except (MemoryError, OSError):
        raise
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file raises whatever its parser stumbles on
        why = error.message if isinstance(error, MlusimError) else f"{type(error).__name__}: {error}"
        raise InputError(f"{file}: a saved run that is damaged ({' '.join(why.split())}); {remedy}") from None


def check_format(file: Path, head: Any) -> None:
    """Raise `InputError` for a header of another format, or of a newer version of this one."""
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise InputError(f"{file} is not a saved run: its {_HEAD} does not say `format: {FORMAT}`")
    number = head.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise InputError(f"{file}: a saved run of format {number!r}: formats are numbered from 1; save the run again")
    if number > NUMBER:
        raise InputError(
            f"{file}: a saved run of format {number}, written by mlusim {head.get('mlusim')}; this mlusim "
            f"{__version__} reads formats up to {NUMBER}: update it"
        )


def _run_of(head: dict[str, Any], array: Callable[[str], Array]) -> Saved:
    values = dict(head["board"])
    board = _board_of(values)
    output = None
    if head["output"] is not None:
        output = array("output").view(dtype_of(head["output"]["dtype"])).reshape(head["output"]["shape"])
    request = head["request"]
    if request is not None:
        request = Request(**_tuples(request))
        check_fields(request)
    log = _log_of(head["log"], array)
    check_on_board(log, board)
    sources = {str(file): str(text) for file, text in head["sources"].items()}
    return Saved(
        operator=str(head["operator"]),
        board=board,
        plan=None if head["plan"] is None else _plan_of(head["plan"], board, array),
        request=request,
        log=log,
        theory_ops=None if head["theory_ops"] is None else int(head["theory_ops"]),
        stopped=str(head["stopped"]),
        made_by=_made_by(head),
        sources=sources,
        output=output,
    )


def _made_by(head: dict[str, Any]) -> dict[str, Any]:
    """Return the origin of a run; of another version's, that version too."""
    other = {} if head["mlusim"] == __version__ else {"mlusim": str(head["mlusim"])}
    return {**head.get("made_by", {}), **other}


def _board_of(values: dict[str, Any]) -> Board:
    """Return a board from its values. Fields missing in earlier versions are filled from the preset."""
    try:
        base = find_preset(values["name"])
    except BoardError:
        base = find_preset(_STAND_IN)
    missing = _ADDED - set(values)
    sources = dict.fromkeys(missing, "ASSUMED: not in the saved run, which an earlier version wrote")
    fields = {name: value for name, value in values.items() if name != "sources"}
    return Board(sources={**values["sources"], **sources}, **{name: getattr(base, name) for name in missing}, **fields)


def _plan_values(plan: Plan, board: Board, arrays: dict[str, Array]) -> dict[str, Any]:
    for name in _TILES:
        arrays[f"plan/{name}"] = np.ascontiguousarray(getattr(plan.tiles, name))
    names = [item.name for item in fields(plan) if item.name not in ("board", "tiles")]
    values = {name: plain(plan.named_parameters if name == "parameters" else getattr(plan, name)) for name in names}
    if plan.board != board:
        values["board"] = board_values(plan.board) | {"sources": dict(plan.board.sources)}
    return values


def _plan_of(values: dict[str, Any], board: Board, array: Callable[[str], Array]) -> Plan:
    values = {name: _tuples(value) for name, value in values.items() if name != "board"} | {
        "board": _board_of(dict(values["board"])) if "board" in values else board
    }
    columns = [array(f"plan/{name}") for name in _TILES]
    check_tasks(columns[0])
    tiles = Tiles(*columns)
    plan = Plan(tiles=tiles, **values)
    check_plan(plan)
    return plan


def _tuples(value: Any) -> Any:
    """Convert JSON lists to tuples, recursively."""
    if isinstance(value, list):
        return tuple(_tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return value


def _log_values(log: Log, arrays: dict[str, Array]) -> dict[str, Any]:
    arrays["log/records"] = np.ascontiguousarray(log.table().T)
    tables = {}
    for name in _RECORDS:
        tables[name] = _table_values(name, getattr(log, name), arrays)
    for key in _address_keys(log):
        entries = [(record, sides[key]) for record, sides in sorted(log.addresses.items()) if key in sides]
        counts = [(record, len(rows)) for record, rows in entries]
        arrays[f"log/addresses_{key}"] = np.array(counts, np.int64).reshape(-1, 2)
        arrays[f"log/rows_{key}"] = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in entries)])
    if log.selected:
        masks = {bits: number for number, bits in enumerate(dict.fromkeys(log.selected.values()))}
        numbers = [(record, masks[bits]) for record, bits in sorted(log.selected.items())]
        arrays["log/selected"] = np.array(numbers, np.int64)
        arrays["log/mask_bytes"] = np.array([len(bits) for bits in masks], np.int64)
        arrays["log/masks"] = np.frombuffer(b"".join(masks), np.uint8)
    distinct: dict[str, int] = {}
    numbers = [
        (record, distinct.setdefault(json.dumps(dict(attributes)), len(distinct)))
        for record, attributes in sorted(log.attributes.items())
    ]
    if numbers:
        arrays["log/attributes"] = np.array(numbers, np.int64)
    arrays["log/loop_records"] = np.array(list(log.loops), np.int64)
    tables["loops"] = _table_values("loops", list(log.loops.values()), arrays)
    arrays["log/byte_copies"] = np.array(log.byte_copies, np.int64)
    arrays["log/joined"] = np.array(sorted(log.joined.items()), np.int64).reshape(-1, 2)
    further = [(record, *operand) for record, operands in sorted(log.more_operands.items()) for operand in operands]
    arrays["log/more_operands"] = np.array(further, np.int64).reshape(-1, 4)
    return {
        "board": log.board,
        "columns": list(COLUMNS),
        "selects": bool(log.selected),
        "attributes": list(distinct),
        "records": len(log),
        "ops": log.ops,
        "lines": log.lines,
        "tables": tables,
        "host_waits": log.host_waits,
        "host_writes": sorted(log.host_writes),
        "host_parts": [(number, *part) for number, parts in sorted(log.host_parts.items()) for part in sorted(parts)],
        "host_reads": sorted(log.host_reads),
        "released": sorted(log.released.items()),
        "windows": [(number, *part) for number, parts in sorted(log.windows.items()) for part in sorted(parts)],
        "swallowed": log.swallowed,
        "remarks": [astuple(remark) for remark in log.remarks.values()],
        "of_file": sorted(log.of_file),
        "seen": sorted(log.seen),
        "skipped": [astuple(skip) for skip in log.skipped],
        "unsteady": log.unsteady,
    }


def _address_keys(log: Log) -> tuple[str, ...]:
    """Return the kinds of addresses in a file: `lengths` only if there are loops over runs of rows."""
    runs = any(loop.method == "runs" for loop in log.loops.values())
    return ("dst", "src", "unknown", *(["lengths"] if runs else []))


def _log_of(values: dict[str, Any], array: Callable[[str], Array]) -> Log:
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
    for key in _address_keys(log):
        rows, first = array(f"log/rows_{key}"), 0
        for number, count in array(f"log/addresses_{key}").tolist():
            log.addresses.setdefault(number, {})[key] = rows[first : first + count]
            first += count
        if first != len(rows):
            raise ValueError("addresses of its log are missing")
    if values.get("selects", False):
        _read_selected(log, array)
    # Runs saved by earlier versions lack these.
    if values.get("attributes"):
        kinds = [json.loads(text) for text in values["attributes"]]
        log.attributes = {record: kinds[number] for record, number in array("log/attributes").tolist()}
    for number, *operand in array("log/more_operands").tolist():
        log.more_operands.setdefault(number, []).append((operand[0], operand[1], operand[2]))
    log.host_waits = [int(count) for count in values["host_waits"]]
    log.host_writes = {int(number) for number in values["host_writes"]}
    # Runs saved by earlier versions lack these.
    for number, first, end in values.get("host_parts", ()):
        log.host_parts.setdefault(int(number), set()).add((int(first), int(end)))
    log.host_reads = {int(number) for number in values.get("host_reads", ())}
    log.released = {int(number): int(count) for number, count in values.get("released", ())}
    for number, offset, box in values.get("windows", ()):
        log.windows.setdefault(int(number), set()).add((int(offset), int(box)))
    log.swallowed = [(str(message), str(where)) for message, where in values.get("swallowed", ())]
    for kind, title, operation, *numbers in values.get("remarks", ()):
        remark = Remark(str(kind), str(title), str(operation), *map(int, numbers))
        log.remarks[remark.kind, remark.line] = remark
    log.of_file = set(map(int, values.get("of_file", ())))
    log.seen = set(map(int, values.get("seen", ())))
    log.skipped = [SkippedRecord(*map(int, skip)) for skip in values.get("skipped", ())]
    log.unsteady = str(values.get("unsteady", ""))
    check_log(log)
    return log


def _read_selected(log: Log, array: Callable[[str], Array]) -> None:
    ends = np.cumsum(array("log/mask_bytes")).tolist()
    whole = array("log/masks").astype(np.uint8).tobytes()
    if ends[-1] != len(whole):
        raise ValueError("masks of its log are missing")
    masks = [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
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
    for item, numbers in zip(fields(record)[: len(rows)], rows, strict=True):  # type: ignore[arg-type]
        if item.type == "bool":
            columns.append([bool(number) for number in numbers])
        elif item.type == "int":
            columns.append(numbers)
        else:
            values = _tuples(texts[item.name if item.name in texts else _FORMER_NAMES.get(item.name, item.name)])
            if not all(0 <= number < len(values) for number in numbers):
                raise ValueError(f"{item.name} of its {table} is not there")
            columns.append([values[number] for number in numbers])
    return [record(*row) for row in zip(*columns, strict=True)]
