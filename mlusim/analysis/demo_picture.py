"""The picture of the demo: frames of a clip before and after tin_shift, and the photograph they are cut from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.style import INK, drawing, new_figure, save
from mlusim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Frames = np.ndarray[Any, np.dtype[np.float32]]

_PHOTOGRAPH = "grace_hopper.jpg"
_ROW_IN = 1.55
# Space between two frames, of their width.
_GAP = 0.08


def photograph() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the photograph that ships with matplotlib, (height, width, 3): Grace Hopper, public domain (US Navy).

    Raises `InputError` if this installation of matplotlib does not include it.
    """
    from matplotlib import cbook
    from matplotlib.image import imread

    try:
        path = cbook.get_sample_data(_PHOTOGRAPH, asfileobj=False)
        pixels: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(imread(path))
    except OSError as error:
        raise InputError(
            f"the demo's photograph {_PHOTOGRAPH} is not in this installation of matplotlib ({error.strerror}); "
            "run an operator on arrays of your own: mlusim run --help"
        ) from None
    return pixels


def draw_film(path: Path, rows: Sequence[tuple[str, Frames]], title: str, about: str) -> None:
    """Write a film strip as PNG.

    Args:
        path: the file to write.
        rows: for each row of the strip a label and its frames, (time, height, width, 3) from 0 to 1; equal lengths.
        title, about: the heading and the line below it.

    Raises `InputError` if the file cannot be written.
    """
    with drawing():
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
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(figure, path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from error
