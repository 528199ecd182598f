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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from mlusim.arrays import Array
from mlusim.dtypes import dtype_name, dtype_of
from mlusim.errors import BoardError, InputError, MlusimError
from mlusim.files import atomic_write, cannot_read, open_input
from mlusim.hardware import Board
from mlusim.hardware.presets import find_preset
from mlusim.inputs import as_path
from mlusim.log import Log
from mlusim.planning.plan import Plan
from mlusim.planning.request import Request
from mlusim.planning.tiles import Tiles
from mlusim.results.result import Result
from mlusim.results.saved_checks import (
    check_fields,
    check_on_board,
    check_plan,
    check_sizes,
    clean,
    read_array,
    tuples,
)
from mlusim.results.saved_log import files_of, log_of, log_values
from mlusim.version import __version__

FORMAT = "mlusim-run"
NUMBER = 1
# Board parameters that the first version did not have.
_ADDED = frozenset(
    {
        *("cluster_start_ps", "dma_element_ps", "dram_mixing_reach", "dram_share_spread"),
        *(f"vector_{kind}_cycles" for kind in ("divide", "exp", "log", "root", "trig", "activation")),
        *(f"tensor_ops_per_cycle_{dtype}" for dtype in ("int8", "int16", "fp32")),
        *("tensor_efficiency", "tensor_startup_cycles"),
    }
)
# Those that it had, and that no longer exist.
_REMOVED = frozenset({"dram_latency_growth"})
_PACKAGE = PurePath(__file__).parents[1]
_STAND_IN = "mlu370-x4"  # for parameters of a user's board that an earlier version did not have

_HEAD = "run.json"
# Records are mostly small, ascending numbers: the fastest level compresses to a tenth, higher ones gain little.
_LEVEL = 1
_TILES = ("task", "start", "stop", "nram_bytes")


def write(run: Result, path: str | os.PathLike[str], *, output: bool) -> Path:
    """Write a run to a file, with its output if `output`; return the path. Raises `InputError` if that fails."""
    path = as_path(path)
    arrays: dict[str, Array] = {}
    sources = run.sources
    names = short_names({*sources, *files_of(run.log)})
    log = log_values(run.log, names, arrays)
    head = {
        "format": FORMAT,
        "number": NUMBER,
        "mlusim": __version__,
        "operator": run.operator,
        "theory_ops": None if run.theory_ops is None else int(run.theory_ops),
        "stopped": run.stopped,
        "board": run.board.parameters() | {"sources": dict(run.board.sources)},
        "plan": None if run.plan is None else _plan_values(run.plan, run.board, arrays),
        "request": None if run.request is None else parameter_json(run.request)["fields"],
        "log": log,
        "sources": {names[file]: text for file, text in sources.items()},
        "output": None,
        "made_by": dict(run.made_by),
    }
    if output and run.output is not None:
        head["output"] = {"dtype": dtype_name(run.output.dtype), "shape": list(run.output.shape)}
        arrays["output"] = np.ascontiguousarray(run.output).reshape(-1).view(np.uint8)
    try:
        with atomic_write(path) as stream:
            _write_zip(stream, head, arrays)
    except OSError as error:
        raise InputError(f"{path}: the run cannot be saved there: {error.strerror or error}") from error
    return path


def load(path: str | os.PathLike[str]) -> Result:
    """Load a run from a file written by `Result.save` or `Device.save`, with everything computed from its log.

    Raises `InputError` for a file that is missing, is not a saved run, is damaged, or has a newer format.
    """
    file = as_path(path)
    try:
        with open_input(file) as stream:
            return _read_zip(file, stream)
    except OSError as error:
        raise InputError(cannot_read(file, error)) from None


def as_result(run: Any) -> Result:
    """Return a result, that of a whole net, or the run in a file. Raises as `load`."""
    if isinstance(run, Result):
        return run
    # The package of nets is above this one.
    result: Result = run.as_result() if hasattr(run, "as_result") else load(run)
    return result


def short_names(files: Iterable[str]) -> dict[str, str]:
    """Shorten file names: the package's own to `mlusim/...`, others to the shortest tail that is unique."""
    name_of: dict[str, str] = {}
    for file in sorted({*files}):
        path = PurePath(file)
        if not path.is_absolute():
            name_of[file] = file
        elif path.is_relative_to(_PACKAGE):
            name_of[file] = path.relative_to(_PACKAGE.parent).as_posix()
        else:
            tails = (PurePath(*path.parts[-count:]).as_posix() for count in range(1, len(path.parts)))
            name_of[file] = next((tail for tail in tails if tail not in name_of.values()), file)
    return name_of


def source_texts(log: Log) -> dict[str, str]:
    """Return the current text of every file named in a log; omits files that cannot be read."""
    texts = {}
    for file in sorted(files_of(log)):
        linecache.checkcache(file)
        text = "".join(linecache.getlines(file))
        if text:
            texts[file] = text
    return texts


def parameter_json(value: Any) -> Any:
    """Convert a plan parameter for JSON: records become {"class": ..., "fields": {...}}, lists become tuples.

    Plain values are unchanged, so that plans can be compared even if one comes from a file.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): parameter_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(parameter_json(item) for item in value)
    names: Iterable[str] = ()
    if isinstance(value, Tiles):
        names = _TILES
    elif is_dataclass(value):
        names = (item.name for item in fields(value))
    return {"class": type(value).__name__, "fields": {name: parameter_json(getattr(value, name)) for name in names}}


def _write_zip(stream: Any, head: dict[str, Any], arrays: Mapping[str, Array]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:

        def member(name: str, fill: Callable[[Any], None]) -> None:
            info = zipfile.ZipInfo(name)  # has a constant time, so that equal runs give equal bytes
            info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as opened:
                fill(opened)

        text = json.dumps(head, ensure_ascii=False, separators=(",", ":"))
        member(_HEAD, lambda opened: opened.write(text.encode("utf-8", "surrogatepass")))
        for name, array in arrays.items():
            member(f"{name}.npy", partial(np.save, arr=array, allow_pickle=False))


def _read_zip(file: Path, stream: Any) -> Result:
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
    except (MemoryError, OSError, InputError):
        raise
    except Exception as error:  # noqa: BLE001 - a damaged file raises whatever its parser stumbles on
        cause = error.message if isinstance(error, MlusimError) else f"{type(error).__name__}: {error}"
        raise InputError(f"{file}: a saved run that is damaged ({' '.join(cause.split())}); {remedy}") from None


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


def _run_of(head: dict[str, Any], array: Callable[[str], Array]) -> Result:
    values = dict(head["board"])
    board = _board_of(values)
    output = None
    if head["output"] is not None:
        output = array("output").view(dtype_of(head["output"]["dtype"])).reshape(head["output"]["shape"])
    request = head["request"]
    if request is not None:
        request = Request(**tuples(request))
        check_fields(request)
    log = log_of(head["log"], array)
    check_on_board(log, board)
    log.sources = sources = {str(file): str(text) for file, text in head["sources"].items()}
    theory_ops = None if head["theory_ops"] is None else int(head["theory_ops"])
    if theory_ops is not None and theory_ops < 0:
        raise ValueError(f"{theory_ops} operations")
    result = Result(
        operator=str(head["operator"]),
        board=board,
        plan=None if head["plan"] is None else _plan_of(head["plan"], board, array),
        request=request,
        log=log,
        theory_ops=theory_ops,
        stopped=str(head["stopped"]),
        sources=sources,
        output=output,
    )
    other_version = {} if head["mlusim"] == __version__ else {"mlusim": str(head["mlusim"])}
    result.made_by = {**head.get("made_by", {}), **other_version}
    return result


def _board_of(values: dict[str, Any]) -> Board:
    """Return a board from its values. Fields missing in earlier versions are filled from the preset."""
    try:
        base = find_preset(values["name"])
    except BoardError:
        base = find_preset(_STAND_IN)
    missing_fields = _ADDED - set(values)
    sources = dict.fromkeys(missing_fields, "ASSUMED: not in the saved run, which an earlier version wrote")
    fields = {name: value for name, value in values.items() if name not in {"sources", *_REMOVED}}
    sources |= {name: source for name, source in values["sources"].items() if name not in _REMOVED}
    return Board(sources=sources, **{name: getattr(base, name) for name in missing_fields}, **fields)


def _plan_values(plan: Plan, board: Board, arrays: dict[str, Array]) -> dict[str, Any]:
    for name in _TILES:
        arrays[f"plan/{name}"] = np.ascontiguousarray(getattr(plan.tiles, name))
    names = [item.name for item in fields(plan) if item.name not in ("board", "tiles")]
    values = {name: getattr(plan, name) for name in names} | {"parameters": plan.named_parameters}
    values = {name: parameter_json(value) for name, value in values.items()}
    if plan.board != board:
        values["board"] = plan.board.parameters() | {"sources": dict(plan.board.sources)}
    return values


def _plan_of(values: dict[str, Any], board: Board, array: Callable[[str], Array]) -> Plan:
    values = {name: tuples(value) for name, value in values.items() if name != "board"} | {
        "board": _board_of(dict(values["board"])) if "board" in values else board
    }
    plan = Plan(tiles=Tiles(*(array(f"plan/{name}") for name in _TILES)), **values)
    check_plan(plan)
    return plan
