"""The picture of the demo: frames of a clip before and after tin_shift, and the photograph they are cut from."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.style import INK, new_figure
from mlusim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

Frames = np.ndarray[Any, np.dtype[np.float32]]

_PHOTOGRAPH = "grace_hopper.jpg"
_ROW_IN = 1.55
# Space between two frames, of their width.
_GAP = 0.08


def photograph() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the photograph that ships with matplotlib, (height, width, 3): Grace Hopper, public domain (US Navy).

    Raises `InputError` if this installation of matplotlib does not include it.
    """
    from PIL import Image  # matplotlib reads pictures with it

    # Only the folder is needed: importing matplotlib takes longer than the run.
    found = find_spec("matplotlib")
    folder = Path(found.origin).parent if found is not None and found.origin else Path()
    try:
        with Image.open(folder / "mpl-data" / "sample_data" / _PHOTOGRAPH) as picture:
            pixels: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(picture)
    except OSError as error:
        raise InputError(
            f"the demo's photograph {_PHOTOGRAPH} is not in this installation of matplotlib ({error.strerror}); "
            "run an operator on arrays of your own: mlusim run --help"
        ) from None
    return pixels


def draw_film(rows: Sequence[tuple[str, Frames]], title: str, about: str) -> Figure:
    """Draw a film strip.

    Args:
        rows: for each row of the strip a label and its frames, (time, height, width, 3) from 0 to 1; equal lengths.
        title, about: the heading and the line below it.
    """
    figure = new_figure(_ROW_IN * len(rows) + 0.3, title, about)
    strips = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    for axes, (label, frames) in zip(strips, rows, strict=True):
        # A strip is one image: axes for each frame take most of the drawing time.
        count, _, width, _ = frames.shape
        gap = round(width * _GAP)
        padded = np.pad(np.clip(frames, 0, 1), ((0, 0), (0, 0), (0, gap), (0, 0)), constant_values=1)
        axes.imshow(np.concatenate(padded, axis=1)[:, :-gap], interpolation="antialiased")
        axes.set_ylabel(label, fontsize=10, color=INK)
        axes.set_yticks([])
        axes.set_xticks([])
        axes.spines[:].set_visible(False)
        if axes is strips[0]:
            middles = np.arange(count) * (width + gap) + width / 2
            axes.set_xticks(middles, [f"t = {time}" for time in range(count)], fontsize=9)
            axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    return figure
