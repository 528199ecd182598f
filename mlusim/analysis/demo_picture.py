"""The picture of the demo: frames of a clip before and after tin_shift, and the photograph they are cut from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlusim.analysis.canvas import Canvas, matplotlib_data
from mlusim.analysis.style import INK
from mlusim.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

Frames = np.ndarray[Any, np.dtype[np.float32]]

_PHOTOGRAPH = "grace_hopper.jpg"
_FRAMES_LEFT, _FRAMES_RIGHT, _ROW_GAP_PX = 34, 1552, 10
# Space between two frames, of their width.
_GAP = 0.08


def photograph() -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the photograph that ships with matplotlib, (height, width, 3): Grace Hopper, public domain (US Navy).

    Raises `InputError` if this installation of matplotlib does not include it.
    """
    from PIL import Image  # matplotlib reads pictures with it

    try:
        with Image.open(matplotlib_data() / "sample_data" / _PHOTOGRAPH) as picture:
            pixels: np.ndarray[Any, np.dtype[np.uint8]] = np.asarray(picture)
    except OSError as error:
        raise InputError(
            f"the demo's photograph {_PHOTOGRAPH} is not in this installation of matplotlib ({error.strerror}); "
            "run an operator on arrays of your own: mlusim run --help"
        ) from None
    return pixels


def draw_film(rows: Sequence[tuple[str, Frames]], title: str, about: str) -> Canvas:
    """Draw a film strip.

    Args:
        rows: for each row of the strip a label and its frames, (time, height, width, 3) from 0 to 1; equal lengths.
        title, about: the heading and the line below it.
    """
    canvas = Canvas(title, about)
    count, height, width, _ = rows[0][1].shape
    gap = round(width * _GAP)
    scale = (_FRAMES_RIGHT - _FRAMES_LEFT) / (count * (width + gap) - gap)
    for time in range(count):
        canvas.text(_FRAMES_LEFT + (time * (width + gap) + width / 2) * scale, canvas.height, f"t = {time}", 9)
    canvas.height += 14
    for label, frames in rows:
        framed = np.pad(frames, ((0, 0), (0, 0), (0, gap), (0, 0)), constant_values=1)
        strip = (255 * np.clip(np.concatenate(framed, axis=1)[:, :-gap], 0, 1)).round().astype(np.uint8)
        bottom = canvas.height + height * scale
        canvas.image(strip, (_FRAMES_LEFT, canvas.height, _FRAMES_RIGHT, bottom), smooth=True)
        canvas.text(_FRAMES_LEFT / 2, (canvas.height + bottom) / 2, label, colour=INK, upward=True)
        canvas.height = bottom + _ROW_GAP_PX
    return canvas
