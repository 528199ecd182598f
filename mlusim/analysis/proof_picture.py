"""The split proof as a picture: outputs coloured by the task that wrote; red: never written, black: more than once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.style import BLACK, INK, new_figure
from mlusim.units import percent, plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mlusim.verifier.split.proof_map import ProofMap

_TITLE = "Split proof"
_NEVER = "#FF0000"


def draw_proof(maps: Sequence[ProofMap], about: str) -> Figure:
    """Draw a panel per output; `about`: the line below the title."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    if not maps:
        figure = new_figure(2.2, _TITLE, about)
        figure.text(0.5, 0.5, "no output: nothing to prove", ha="center", va="center", color=INK)
        return figure
    figure = new_figure(0.8 + 3.2 * len(maps), _TITLE, about)
    for axes, proof_map in zip(figure.subplots(len(maps), 1, squeeze=False)[:, 0], maps, strict=True):
        unwritten_share, rewritten_share = float((proof_map.writer == -1).mean()), float((proof_map.writer < -1).mean())
        tasks = np.unique(proof_map.writer[proof_map.writer >= 0])
        colours = colormaps["viridis"].with_extremes(under=_NEVER, bad=BLACK)
        image = axes.imshow(
            np.ma.masked_where(proof_map.writer < -1, proof_map.writer),
            cmap=colours,
            vmin=0,
            vmax=max(int(proof_map.writer.max()), 1),
            aspect="auto",
            extent=(0, proof_map.extents[1], proof_map.extents[0], 0),
        )
        faults = [
            f"{percent(share)} {description}"
            for share, description in ((unwritten_share, "never (red)"), (rewritten_share, "twice (black)"))
            if share
        ]
        verdict = " and ".join(faults) or "every element once"
        axes.set_title(
            f"{proof_map.name}: written by {plural(len(tasks), 'task')}; {verdict}",
            fontsize=10,
        )
        axes.set_ylabel(_label(proof_map, 0, proof_map.split))
        axes.set_xlabel(_label(proof_map, proof_map.split, len(proof_map.shape)))
        bar: Any = figure.colorbar(image, ax=axes, pad=0.015, fraction=0.05, label="task")
        bar.ax.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(8, integer=True))
    return figure


def _label(proof_map: ProofMap, first: int, last: int) -> str:
    extents = " x ".join(str(extent) for extent in proof_map.shape[first:last])
    axes = ", ".join(str(axis) for axis in range(first, last))
    return f"{'axis' if last - first == 1 else 'axes'} {axes} ({extents})" if extents else ""
