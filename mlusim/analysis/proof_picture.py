"""The split proof as a picture: outputs coloured by the task that wrote; red: never written, black: more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.style import BLACK, new_figure, nothing_ran

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mlusim.verifier.proof_map import ProofMap

_NEVER = "#FF0000"


def draw_proof(maps: Sequence[ProofMap], title: str, about: str = "") -> Figure:
    """Draw a panel per output."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    if not maps:
        figure = new_figure(2.2, title, about)
        nothing_ran(figure.subplots(), "no output: nothing to prove")
        return figure
    figure = new_figure(0.8 + 3.2 * len(maps), title, about)
    for axes, one in zip(figure.subplots(len(maps), 1, squeeze=False)[:, 0], maps, strict=True):
        never, again = float((one.writer == -1).mean()), float((one.writer < -1).mean())
        tasks = np.unique(one.writer[one.writer >= 0])
        colours = colormaps["viridis"].with_extremes(under=_NEVER, bad=BLACK)
        image = axes.imshow(
            np.ma.masked_where(one.writer < -1, one.writer),
            cmap=colours,
            vmin=0,
            vmax=max(int(one.writer.max()), 1),
            aspect="auto",
            extent=(0, one.extents[1], one.extents[0], 0),
        )
        faults = [
            f"{100 * share:.1f} % {what}" for share, what in ((never, "never (red)"), (again, "twice (black)")) if share
        ]
        verdict = " and ".join(faults) or "every element once"
        axes.set_title(f"{one.name}: written by {len(tasks)} tasks; {verdict}", fontsize=10)
        axes.set_ylabel(_label(one, 0, one.split))
        axes.set_xlabel(_label(one, one.split, len(one.shape)))
        bar: Any = figure.colorbar(image, ax=axes, pad=0.015, fraction=0.05, label="task")
        bar.ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(8, integer=True))
    return figure


def _label(one: ProofMap, first: int, last: int) -> str:
    extents = " x ".join(str(extent) for extent in one.shape[first:last])
    axes = ", ".join(str(axis) for axis in range(first, last))
    return f"axes {axes} ({extents})" if extents else ""
