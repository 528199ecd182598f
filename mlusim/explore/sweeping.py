"""`mlusim.sweep`: an operator or a user's kernel over all combinations of shapes, boards and settings."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlusim.errors import InputError
from mlusim.explore.axes import axes_of
from mlusim.explore.grid import Axes
from mlusim.explore.point import Point
from mlusim.explore.runner import Runner
from mlusim.explore.sources import check_not_loading
from mlusim.explore.store import DIED, DONE, FAILED, IMPOSSIBLE, Outcome, Store
from mlusim.explore.table import data_frame, write_table
from mlusim.inputs import as_count, as_file, as_path, as_paths, as_tuple, shown
from mlusim.progress import Bar

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


_KEY_DIGITS = 8  # of a key, in hexadecimal: enough to share points out evenly


class SweepInterrupt(KeyboardInterrupt):
    """Ctrl-C in a sweep; its text says how many points are done and how to go on."""


class Sweep:
    """The result of a sweep: a row for each point, in the order of its axes.

    Attributes:
        rows: what was requested, `status`, `message`, and the figures of the points that are done.
        axes: columns of the axes that have several values.
        found: how many points were finished before, in the file.
        damaged: what was wrong with the file, in lines.
        host_s: seconds of host time that the points took, all processes together.
    """

    def __init__(
        self, outcomes: Iterable[Outcome], axes: Sequence[str] = (), *, found: int = 0, damaged: Sequence[str] = ()
    ) -> None:
        outcomes = list(outcomes)
        # Nothing of this machine: the same points give the same table anywhere.
        self.rows: list[dict[str, Any]] = [
            {**each.row, "status": each.status, "message": each.message} for each in outcomes
        ]
        self.axes = list(axes)
        self.found = found
        self.damaged = list(damaged)
        self.host_s = sum(each.host_s for each in outcomes)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """Points by what came of them: done, impossible, failed, died."""
        counted = Counter(row["status"] for row in self.rows)
        return {status: counted[status] for status in (DONE, IMPOSSIBLE, FAILED, DIED)}

    @property
    def done(self) -> list[dict[str, Any]]:
        """The rows of the points that are done."""
        return [row for row in self.rows if row["status"] == DONE]

    def table(self) -> DataFrame:
        """A pandas DataFrame, a column for each parameter and figure, its unit in its name.

        Raises `InputError` where pandas is not installed.
        """
        return data_frame(self.rows)

    def save(self, path: str | Path) -> Path:
        """Write the table: `.parquet`, `.csv` or `.json`, by the path's suffix.

        Raises `InputError` for another suffix, where pyarrow is missing for Parquet, and where it cannot be written.
        """
        return write_table(self.rows, as_path(path))

    def plot(
        self,
        path: str | Path | None = None,
        *,
        metrics: Sequence[str] = ("time", "efficiency", "traffic"),
        against: str | None = None,
        title: str = "",
    ) -> Figure:
        """Draw figures against an axis, a line for each combination of the other axes, tier boundaries marked.

        Args:
            path: where to write it, as `.png` or `.svg`; None: nowhere.
            metrics: `time`, `efficiency`, `traffic`, or columns of the table; a panel for each.
            against: the axis, by its column or a short name (`nram`, `cores`, `bandwidth`, `shape`); None: the one with
                the most values.
            title: by default made of what was swept.

        Raises `InputError` for an axis that was not swept, for more lines than can be told apart, and where no point
        is done.
        """
        from mlusim.analysis.sweep_plot import plot_sweep

        return plot_sweep(self.rows, self.axes, metrics, against, None if path is None else as_path(path), title)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.counts.items() if count)
        return f"<sweep of {len(self)} points: {counts or 'none'}>"


def sweep(  # noqa: PLR0913 - what can be swept
    operation: str | Callable[..., Any],
    *,
    shape: Any = None,
    arguments: Sequence[str] = (),
    dtype: Any = None,
    device: Any = "mlu370-x4",
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
    """Simulate every combination of the values given: a list is an axis, a tuple or anything else one value.

    Args:
        operation: an operator's name, as in `mlusim run NAME`; a kernel, `async def kernel(core, x, ..., out)`, whose
            tensors all have the shape and element type that are swept, the last one being the output, and whose
            parameters with a default are settings; a plain function `launch(device, shape, dtype, **settings)` that
            uploads, allocates and launches on the `Device` it is given; or `"file.py:function"`.
        shape: of the inputs: (2, 8, 256, 196), a list of such, or a text: "2,8,256,49..784*2".
        arguments: of a kernel, as `mlusim run FILE.py:kernel --arg` has them: "x=x.npy", "out=float32:2,8", "8". The
            shape is that of the tensors that none of them is for, and may be left out where there are none.
        dtype: element type; where the operator itself takes a dtype (cast, bitcast_convert), that one, and the inputs'
            is `input_dtype`. By default float32.
        device: presets' names, TOML files, boards.
        strategy: names, or "all"; by default the operator's own default. Of a kernel with a parameter of that name it
            is the setting.
        nram_bytes: NRAM of a core that a kernel may use, in place of the board's: another board, smaller or larger.
        nram_limit_bytes: the most NRAM that a plan may use, on the board as it is; None in a list: no limit.
        cores: MLU cores, whole clusters or part of one: as if the others idled; the DRAM stays the whole board's.
        vary: other parameters of the board by name, such as `dram_bandwidth_bytes_per_s`.
        data: run on real bytes. By default timing only, which gives the same figures; values that a kernel looks at,
            such as shifts and indices, are there.
        seed: of the random inputs.
        steady: extrapolate the time of launches that repeat themselves, as `RunOptions` has it; columns say which
            part of it, and by how much it may be off.
        db: an SQLite file for finished points. What is there is not simulated again: a sweep that was stopped or
            killed goes on where it was. None: nowhere.
        workers: processes on this machine; 0: in this process; by default one for each core.
        client: a `dask.distributed.Client`, whose cluster runs the points instead.
        retry: simulate points of the file again that failed.
        progress: show a bar on a terminal.
        kernel_version: of a kernel or function, for what the key of its points cannot hold, such as a file that it
            reads; points of a file are used again only for the same version. `db` needs one where the kernel uses such.
        shard: (i, n): only the i-th of n parts of the points, 1 to n, by their keys; for a batch cluster.
        merge: files of points, such as those of all shards, whose points are used too, and copied into `db`.
        options: attributes of the operator and of its random inputs, as `mlusim run NAME --help` has them
            (`axis=[0, 1]`, `groups=4`, `index_shape=(64, 64)`); settings of a kernel or function; `dim` and `kind`
            of a kernel's launch, and `theory_ops`, the operations that its purpose needs, for compute_efficiency.
        settings: settings of a kernel, also those called as a parameter of `sweep`; such a column is `set_NAME`.

    Returns one row for each combination. Points that a board or a rule refuses are rows too, `impossible`, with the
    reason, and so are `failed` ones, where the kernel ran into an error, and `died`, where their process did.

    Raises `InputError` for what is not an axis, a value, an operator or a file of a sweep; `BoardError` for an unknown
    board; `MlusimError` where no process can be started. Ctrl-C raises `KeyboardInterrupt`, what is done being kept.
    """
    check_not_loading()
    axes = axes_of(
        operation,
        shape=shape,
        dtype=dtype,
        device=device,
        strategy=strategy,
        nram_bytes=nram_bytes,
        nram_limit_bytes=nram_limit_bytes,
        cores=cores,
        vary=vary or {},
        data=data,
        seed=seed,
        steady=steady,
        options=options,
        settings=settings,
        kernel_version=kernel_version,
        arguments=arguments,
    )
    with Runner(workers, client) as runner, Store(db) as store:
        merge_files(store, merge)
        found = run_axes(axes, store, runner, retry=retry, progress=progress, shard=shard)
    _warn(found)
    return found


def merge_files(store: Store, files: Iterable[str | Path]) -> None:
    """Add the points of other files to a store's. Raises `InputError` for one that is missing, or no sweep's."""
    for file in map(as_file, as_paths(files)):
        with Store(file) as other:
            store.merge(other)
            store.damaged += other.damaged


def run_axes(
    axes: Axes,
    store: Store,
    runner: Runner,
    *,
    retry: bool = False,
    progress: bool = False,
    shard: tuple[int, int] | None = None,
) -> Sweep:
    """Run the points of a grid, or of one part of it, that the file does not have."""
    axes.count()
    part, parts = _checked_shard(shard)
    if axes.kernel is not None and store.path is not None:
        axes.kernel.check_reusable(store.path)
    grid: list[tuple[str, Outcome | None]] = []
    wanted: dict[str, Point] = {}
    for point in axes.points():
        if isinstance(point, Outcome):
            if part == 0:
                grid.append(("", point))
        else:
            key = point.key()
            if int(key[:_KEY_DIGITS], 16) % parts != part:
                continue
            wanted[key] = point
            grid.append((key, None))
    known = store.known(wanted, retry=retry)
    left = {key: point for key, point in wanted.items() if key not in known}
    fresh = list(left)
    finished = 0
    counts: Counter[str] = Counter()

    def payloads() -> Iterable[tuple[str, dict[str, Any]]]:
        for key in fresh:
            # Another sweep on this file may have been here meanwhile.
            if store.path is None or key not in store.known([key], retry=retry):
                yield key, left[key].payload(here=runner.local)
            else:
                bar.step(_state(counts))

    with Bar("sweeping", len(fresh), shown=progress) as bar:
        try:
            for key, (status, message, figures, host_s) in runner.run(payloads()):
                store.add(key, left[key].outcome(status, message, figures, host_s))
                counts[status] += 1
                finished += 1
                bar.step(_state(counts))
        except KeyboardInterrupt as stop:
            raise SweepInterrupt(_interrupted(len(known) + finished, len(wanted), store)) from stop
    outcomes = store.read(wanted)
    rows = [outcomes[key] if refused is None else refused for key, refused in grid]
    return Sweep(rows, axes.columns(), found=len(known), damaged=store.damaged)


def read_sweep(db: str | Path) -> Sweep:
    """All points of a file, of whatever sweeps. Raises `InputError` for a file that is missing, or none of a sweep."""
    with Store(as_file(db)) as store:
        found = Sweep(store.all(), damaged=store.damaged)
    _warn(found)
    return found


def _warn(found: Sweep) -> None:
    for line in found.damaged:
        warnings.warn(line, stacklevel=3)


def _checked_shard(shard: tuple[int, int] | None) -> tuple[int, int]:
    """Number of the part from 0, and how many there are."""
    if shard is None:
        return 0, 1
    numbers = as_tuple(shard)
    if not isinstance(numbers, tuple) or len(numbers) != len(("part", "parts")):
        raise InputError(f"shard={shown(shard)}: give (part, parts), such as (1, 4)")
    part, parts = (as_count("shard", one) for one in numbers)
    if not 1 <= part <= parts:
        raise InputError(f"shard {part}/{parts}: parts are numbered from 1 to {parts}")
    return part - 1, parts


def _state(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {status}" for status, count in counts.items() if status != DONE)


def _interrupted(done: int, total: int, store: Store) -> str:
    if store.path is None:
        return f"interrupted: {done} of {total} points were done; with a file for them (--db) they would be kept"
    return f"interrupted: {done} of {total} points are done, in {store.path}; the same command goes on"
