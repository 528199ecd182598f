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
        count = len(rows[0][1])
        figure = new_figure(_ROW_IN * len(rows) + 0.3, title, about)
        for row, (label, frames) in enumerate(rows):
            for time, frame in enumerate(frames):
                axes = figure.add_subplot(len(rows), count, row * count + time + 1)
                axes.imshow(np.clip(frame, 0, 1), interpolation="antialiased")
                axes.set_xticks([])
                axes.set_yticks([])
                if row == 0:
                    axes.set_title(f"t = {time}", fontsize=9, fontweight="normal", loc="center")
                if time == 0:
                    axes.set_ylabel(label, fontsize=10, color=INK)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save(figure, path)
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from error
