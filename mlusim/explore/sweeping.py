"""`mlusim.sweep`: an operator or a user's kernel over all combinations of shapes, boards and settings."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.errors import InputError, for_caller, shown
from mlusim.explore.axes import Axes
from mlusim.explore.axis_arguments import axes_of
from mlusim.explore.point import Point
from mlusim.explore.python_files import check_not_loading
from mlusim.explore.runner import Runner
from mlusim.explore.store import DIED, DONE, FAILED, IMPOSSIBLE, Outcome, Store
from mlusim.explore.table import data_frame, write_table
from mlusim.explore.table_cells import MOST_ROWS, sweep_cells
from mlusim.hardware import DEFAULT_BOARD
from mlusim.inputs import as_count, as_file, as_path, as_paths, as_text, as_texts, check_flags
from mlusim.progress import Bar
from mlusim.units import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


FORMAT = "mlusim-sweep/1"
_KEY_DIGITS = 8  # of a key, in hexadecimal: enough to share points out evenly


class SweepInterrupt(KeyboardInterrupt):
    """Ctrl-C in a sweep; its text states how many points are done and how to continue."""


class Sweep:
    """The result of a sweep: one row per point, in the order of its axes.

    Attributes:
        rows: the request, `status`, `message`, and the figures of finished points.
        axes: columns of the axes with several values.
        operator: the operator or kernel; empty for the points of a file.
        boards: the boards as named, before `nram_bytes`, `cores` and `vary`, whose values are columns; none for the
            points of a file.
        made_by: command, date and seed, as in `Result.made_by`.
        found: number of points that were finished before, in the file.
        damaged: descriptions of damage to the file, as lines of text.
        host_s: seconds of host time of the points that ran, summed over processes.
    """

    def __init__(
        self,
        outcomes: Iterable[Outcome],
        axes: Axes | None = None,
        *,
        found: int = 0,
        host_s: float = 0.0,
        damaged: Sequence[str] = (),
    ) -> None:
        outcomes = list(outcomes)
        # Nothing specific to this machine: equal points give equal tables anywhere.
        self.rows: list[dict[str, Any]] = [
            {**outcome.row, "status": outcome.status, "message": outcome.message} for outcome in outcomes
        ]
        self.axes = [] if axes is None else axes.columns()
        self._figures = [] if axes is None else axes.figures()
        self.operator = "" if axes is None else axes.operator
        self.boards = () if axes is None else tuple(axes.boards)
        self.made_by: dict[str, Any] = {} if axes is None else {"seed": axes.seed}
        self.found = found
        self.damaged = list(damaged)
        self.host_s = host_s

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """Number of points by status: done, impossible, failed, died."""
        by_status = Counter(row["status"] for row in self.rows)
        return {status: by_status[status] for status in (DONE, IMPOSSIBLE, FAILED, DIED)}

    @property
    def done(self) -> list[dict[str, Any]]:
        """The rows of finished points."""
        return [row for row in self.rows if row["status"] == DONE]

    def table(self) -> DataFrame:
        """Return a pandas DataFrame with a column per parameter and figure; names end with the unit.

        Its `attrs` have the provenance.

        Raises `InputError` if pandas is not installed.
        """
        return data_frame(self.rows, self._figures, self._about())

    def to_json(self) -> dict[str, Any]:
        """Return the sweep as JSON types: what was swept, the number of points by status, provenance, and the rows."""
        return {**self._about(), "rows": self.rows}

    def _about(self) -> dict[str, Any]:
        """Return everything but the rows."""
        from mlusim.analysis.provenance import MODEL, provenance_of_runs

        return {
            "format": FORMAT,
            "model": MODEL,
            "operator": self.operator,
            "axes": self.axes,
            "counts": self.counts,
            "provenance": provenance_of_runs(self.boards, self.made_by),
        }

    def save(self, path: str | Path) -> Path:
        """Write the table as `.parquet`, `.csv` or `.json`, by the path's suffix, with its provenance.

        The provenance is in the JSON, in the metadata of the Parquet file (pandas: `read_parquet(path).attrs`), and
        for a CSV file in `NAME.csv.json`.

        Raises `InputError` for another suffix, if pyarrow is missing for Parquet, and if the file cannot be written.
        """
        return write_table(self.rows, self._figures, as_path(path), self._about())

    def plot(
        self,
        path: str | Path | None = None,
        *,
        metrics: Sequence[str] = ("time", "efficiency", "traffic"),
        against: str | None = None,
        title: str = "",
    ) -> Figure:
        """Draw figures against an axis, with a line per combination of the other axes, and tier boundaries.

        Args:
            path: the `.png` or `.svg` file to write; None: none.
            metrics: `time`, `bandwidth` (compulsory bytes over time), `efficiency` (of the board's peak bandwidth),
                `traffic`, or columns of the table; a panel for each.
            against: the axis, by its column or a short name (`nram`, `cores`, `bandwidth`, `shape`); None: the one with
                the most values.
            title: by default derived from the axes.

        Raises `InputError` for an axis that was not swept, for more lines than can be distinguished, and if no point is
        finished.
        """
        from mlusim.analysis.sweep_plot import plot_sweep

        path = None if path is None else as_path(path)
        against = None if against is None else as_text("against", against)
        return plot_sweep(self.rows, self.axes, as_texts("metrics", metrics), against, path, as_text("title", title))

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.counts.items() if count)
        return f"<sweep of {plural(len(self), 'point')}: {counts or 'none'}>"

    def _repr_html_(self) -> str:
        from mlusim.analysis.notebook import table_html

        table = sweep_cells(self.rows[:MOST_ROWS], self.axes, full=False)
        lines_left = len(self) - len(table.lines)
        note = f"... and {plural(lines_left, 'more point')}; rows and table() have all" if lines_left else ""
        return table_html(repr(self).strip("<>"), table.heads, table.lines, note)


def sweep(
    operation: str | Callable[..., Any],
    *,
    shape: Any = None,
    arguments: Sequence[str] = (),
    dtype: Any = None,
    device: Any = DEFAULT_BOARD,
    strategy: Any = None,
    nram_bytes: Any = None,
    nram_limit_bytes: Any = None,
    cores: Any = None,
    vary: Mapping[str, Any] | None = None,
    data: bool = False,
    seed: int = 0,
    steady: bool = False,
    db: str | Path | None = None,
    workers: int | None = None,
    client: Any = None,
    retry: bool = False,
    progress: bool = False,
    kernel_version: str = "",
    shard: tuple[int, int] | None = None,
    merge: Iterable[str | Path] = (),
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> Sweep:
    """Simulate every combination of the given values: a list is an axis, a tuple or anything else a single value.

    Args:
        operation: an operator's name, as in `mlusim run NAME`; a function; or `"file.py:function"`. A function is a
            kernel, `async def kernel(core, x, ..., out)`, or `launch(device, shape, dtype, **settings)`, which uploads,
            allocates and launches on the given `Device`. The tensors of a kernel have the swept shape and element
            type; those that it only stores to are outputs, or else the last one. Those with a default are settings.
        shape: the shape of the inputs: (2, 8, 256, 196), a list of shapes, or a string: "2,8,256,49..784*2".
        arguments: the arguments of a kernel, as in `mlusim run FILE.py:kernel --arg`: "x=x.npy", "out=float32:2,8",
            "8". The shape is that of the tensors without an argument, and may be omitted if there are none.
        dtype: element type; for operators with a dtype attribute (cast, bitcast_convert), that attribute, with
            `input_dtype` for the inputs. By default float32.
        device: names of presets, TOML files, boards.
        strategy: names, or "all"; by default the operator's default. For a kernel with a parameter of that name, the
            setting.
        nram_bytes: usable NRAM per core, instead of the board's: simulates another board, smaller or larger.
        nram_limit_bytes: NRAM per core that a plan may use, on the unchanged board; None in a list: no limit.
        cores: number of MLU cores in use: whole clusters, or part of one. They share the whole board's DRAM.
        vary: other parameters of the board by name, such as `dram_bandwidth_bytes_per_s`.
        data: run with data. By default timing only, which gives the same figures; values read by a kernel, such as
            shifts and indices, are always available.
        seed: seed of the random inputs.
        steady: extrapolate the time of launches with a steady state, as in `RunOptions`; columns contain the
            extrapolated part and the error bound.
        db: an SQLite file for finished points, which are not simulated again: a sweep that was stopped or killed can be
            resumed. None: no file.
        workers: processes on this machine; 0: this process; by default one per core.
        client: a `dask.distributed.Client` whose cluster runs the points instead.
        retry: simulate failed points of the file again.
        progress: show a progress bar on a terminal.
        kernel_version: version of what the hash of a function does not cover, such as a file that it reads. Stored
            points are reused only for the same version. Required with `db` if there are such dependencies.
        shard: (i, n): run only the i-th of n shards of the points, counted from 1; for a batch cluster.
        merge: files of points, such as those of all shards, to reuse and copy into `db`.
        options: attributes of the operator and of its random inputs, as in `mlusim run NAME --help` (`axis=[0, 1]`,
            `groups=4`, `index_shape=(64, 64)`); settings of a kernel or function; `dim` and `kind` of a kernel's
            launch, and `theory_ops`, the operations that its purpose requires, for compute_efficiency.
        settings: settings of a kernel, even with the name of a parameter of `sweep`; their columns are `set_NAME`.

    Returns one row per combination, including points rejected by a board or a rule (`impossible`, with the reason),
    points whose kernel raised an error (`failed`), and points whose process died (`died`).

    Raises `InputError` for an invalid axis, value, operator or sweep file; `BoardError` for an unknown board;
    `MlusimError` if no process can be started. Ctrl-C raises `KeyboardInterrupt`; finished points are kept.
    """
    check_not_loading()
    check_flags(retry=retry, progress=progress)
    axes = axes_of(
        operation,
        shape=shape,
        dtype=dtype,
        device=device,
        strategy=strategy,
        nram_bytes=nram_bytes,
        nram_limit_bytes=nram_limit_bytes,
        cores=cores,
        vary=vary,
        data=data,
        seed=seed,
        steady=steady,
        options=options,
        settings=settings,
        kernel_version=kernel_version,
        arguments=arguments,
    )
    sweep = run_axes(
        axes, db=db, workers=workers, client=client, retry=retry, progress=progress, shard=shard, merge=merge
    )
    _warn(sweep)
    return sweep


def run_axes(
    axes: Axes,
    *,
    db: str | Path | None = None,
    workers: int | None = None,
    client: Any = None,
    retry: bool = False,
    progress: bool = False,
    shard: tuple[int, int] | None = None,
    merge: Iterable[str | Path] = (),
) -> Sweep:
    """Run the points of a sweep that are not in its file; the arguments are those of `sweep`."""
    axes.count()
    part, parts = _checked_shard(shard)
    with Runner(workers, client) as runner, Store(db) as store:
        for file in map(as_file, as_paths(merge)):
            with Store(file) as other:
                store.merge(other)
                store.damaged += other.damaged
        if axes.kernel is not None and store.path is not None:
            axes.kernel.check_reusable(store.path)
        points = _points_by_key(axes, part, parts)
        by_key = {key: point for key, point in points if isinstance(point, Point)}
        known_keys = store.known(by_key, retry=retry)
        host_s = _run_missing(by_key, known_keys, store, runner, retry=retry, progress=progress)
        outcomes = store.read(by_key)
        rows = [point.as_requested(outcomes[key]) if isinstance(point, Point) else point for key, point in points]
        return Sweep(rows, axes, found=len(known_keys), host_s=host_s, damaged=store.damaged)


def _run_missing(
    by_key: Mapping[str, Point],
    known_keys: Collection[str],
    store: Store,
    runner: Runner,
    *,
    retry: bool,
    progress: bool,
) -> float:
    """Run the points that are not known, and store them; return the seconds of host time that they took."""
    fresh = {key: point for key, point in by_key.items() if key not in known_keys}
    host_s = 0.0
    counts: Counter[str] = Counter()

    def unfinished() -> Iterable[tuple[str, Point]]:
        for key, point in fresh.items():
            # Another sweep on this file may have finished the point meanwhile.
            if store.path is None or key not in store.known([key], retry=retry):
                yield key, point
            else:
                bar.step(_state(counts))

    with Bar("sweeping", len(fresh), shown=progress) as bar:
        try:
            for key, (status, message, figures, seconds) in runner.run(unfinished()):
                store.add(key, fresh[key].outcome(status, message, figures))
                counts[status] += 1
                host_s += seconds
                bar.step(_state(counts))
        except KeyboardInterrupt as stop:
            raise SweepInterrupt(_interrupt_message(len(known_keys) + counts.total(), len(by_key), store)) from stop
    return host_s


def _points_by_key(axes: Axes, part: int, parts: int) -> list[tuple[str, Point | Outcome]]:
    """Return the points of one of several parts, by key, with the outcomes of invalid boards, which the first has."""
    keyed: list[tuple[str, Point | Outcome]] = []
    for point in axes.points():
        key = point.key() if isinstance(point, Point) else ""
        if int(key[:_KEY_DIGITS] or "0", 16) % parts == part:
            keyed.append((key, point))
    return keyed


def read_sweep(db: str | Path) -> Sweep:
    """Read all points of a file, in the order of their keys. Raises `InputError` for a missing or another file.

    A file of points has no boards beyond their names, no seed and no command; to write a table with its provenance,
    repeat the sweep on the file, which simulates nothing.
    """
    with Store(as_file(db)) as store:
        merged = Sweep(store.all(), damaged=store.damaged)
    _warn(merged)
    return merged


def _warn(swept: Sweep) -> None:
    for line in swept.damaged:
        warnings.warn(line, stacklevel=3)


def _checked_shard(shard: tuple[int, int] | None) -> tuple[int, int]:
    """Return the shard's index, from 0, and the number of shards."""
    if shard is None:
        return 0, 1
    if not isinstance(shard, tuple | list) or len(shard) != 2:
        raise InputError(f"shard={shown(shard)}: give (part, number of parts), such as (1, 4)")
    part, parts = (as_count("shard", number) for number in shard)
    if not 1 <= part <= parts:
        raise InputError(f"shard {part}/{parts}: parts are numbered from 1 to {parts}")
    return part - 1, parts


def _state(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if status != DONE)


def _interrupt_message(done_points: int, total: int, store: Store) -> str:
    if store.path is None:
        text = f"interrupted: {done_points} of {total} points were done, and are lost"
        return f"{text}; with {for_caller('--db', 'db=')}, they would be in a file"
    return f"interrupted: {done_points} of {total} points are done, in {store.path}; the same command continues"
