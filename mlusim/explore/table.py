"""Rows as a table: Parquet, CSV, JSON, or a DataFrame; with a description of the table, such as its provenance."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mlusim.errors import InputError
from mlusim.files import atomic_write, provenance_path, writing
from mlusim.inputs import as_path
from mlusim.version import __version__

if TYPE_CHECKING:
    from pandas import DataFrame

Rows = Sequence[dict[str, Any]]

SUFFIXES = (".parquet", ".csv", ".json")
_LAST = ("status", "message")
_ATTRS = "PANDAS_ATTRS"  # key of a Parquet file's metadata that `pandas.read_parquet` returns as `attrs`


def columns_of(rows: Rows, figures: Iterable[str]) -> list[str]:
    """Return every column of any row, and `figures`: the request, the figures, the outcome."""
    longest: dict[str, Any] = max(rows, key=len, default={})
    names = dict.fromkeys(longest)
    for row in rows:
        names |= dict.fromkeys(row)
    names |= dict.fromkeys(figures)  # which no row has if no point is possible
    return [*(name for name in names if name not in _LAST), *(name for name in _LAST if name in names)]


def data_frame(rows: Rows, figures: Iterable[str], about: Mapping[str, Any]) -> DataFrame:
    """Return a pandas DataFrame with at least the columns `figures`, and `about` as its `attrs`.

    Raises `InputError` if pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise InputError("a table needs pandas: pip install pandas; `rows` has the same as dicts") from None
    frame = pd.DataFrame(list(rows), columns=columns_of(rows, figures))
    # Otherwise, gaps would turn columns of integers into floats.
    frame = frame.convert_dtypes()
    frame.attrs.update(about)
    return frame


def check_table(text: str | Path) -> Path:
    """Return the path of a table, validated before anything runs. Raises `InputError`."""
    path = as_path(text)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            f"{path}: a table is a {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]} file: use one of these suffixes"
        )
    if path.suffix.lower() == ".parquet":
        try:
            import pyarrow.parquet  # noqa: F401 - only whether it is there
        except ImportError:
            raise InputError(f"{path}: Parquet needs pyarrow: pip install pyarrow, or name a .csv") from None
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise InputError(f"{path}: name a file in an existing directory")
    return path


def write_table(rows: Rows, figures: Iterable[str], path: Path, about: Mapping[str, Any]) -> Path:
    """Write the rows in the format of the path's suffix, atomically; `about` goes into the file, or beside a CSV.

    A CSV or Parquet table has at least the columns `figures`.

    Raises `InputError`.
    """
    check_table(path)
    with writing(path):
        with atomic_write(path) as stream:
            _WRITERS[path.suffix.lower()](rows, columns_of(rows, figures), stream, about)
        if path.suffix.lower() == ".csv":
            with atomic_write(provenance_path(path)) as stream:
                stream.write(_json(about))
    return path


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


def _write_parquet(rows: Rows, names: list[str], stream: BinaryIO, about: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A column that mixes integers and floats becomes one of floats.
    columns = {name: [row.get(name) for row in rows] for name in names}
    for name, values in columns.items():
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1:
            is_numeric = kinds <= {int, float}
            columns[name] = [None if value is None else float(value) if is_numeric else str(value) for value in values]
    metadata = {_ATTRS: json.dumps(about), "mlusim": __version__}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), stream)


def _write_csv(rows: Rows, names: list[str], stream: BinaryIO, about: Mapping[str, Any]) -> None:
    import io

    del about  # beside the table
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    text.flush()
    text.detach()


def _write_json(rows: Rows, names: list[str], stream: BinaryIO, about: Mapping[str, Any]) -> None:
    del names  # of a row without figures, JSON has none
    stream.write(_json({**about, "rows": list(rows)}))


_WRITERS = {".parquet": _write_parquet, ".csv": _write_csv, ".json": _write_json}
