"""Pictures made of rectangles, images and text, written as PNG and SVG.

The pictures of a report need nothing else. matplotlib, which draws those of sweeps and lessons, takes longer to be
imported than these take to be drawn. Equal pictures give equal bytes.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.util import find_spec
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlusim.analysis.style import INK, PAPER
from mlusim.files import utf8

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Boxes = np.ndarray[Any, np.dtype[np.float64]]

WIDTH = 1560
_PX_PER_POINT = 130 / 72
_TITLE_PX, _LINE_PX = 36.0, 28.5
_LEGEND_PX, _SWATCH_PX = 29.0, 32.0
_MARGIN_PX = 16.0
_BRIGHT = 3 * 255 / 2  # the sum of red, green and blue
# A PNG is drawn this many times as wide, and its columns averaged, so that narrow spans are as strong as they are wide.
_FINER = 4
_THIN_PX = 4
_PNG_LEVEL = 3
_NOT_XML = re.compile(r"[\x00-\x08\x0b-\x1f\ufffe\uffff]")
_ABOUT = '<metadata><dc:creator xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>mlusim</dc:title></dc:creator></metadata>'
# Verdana's letters are as wide as those of DejaVu Sans.
_FAMILY = "DejaVu Sans, Verdana, sans-serif"
# Chinese, Japanese and Korean, which DejaVu Sans lacks, and beginnings of the names of fonts that have them.
_EAST_ASIAN = re.compile(
    "[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\U00020000-\U0003ffff]"
)
_EAST_ASIAN_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans", "Noto Sans CJK", "WenQuanYi", "Microsoft YaHei", "SimHei"),
    *("PingFang", "Hiragino Sans GB", "Heiti", "Droid Sans Fallback", "Arial Unicode"),
)


class Rectangles(NamedTuple):
    """Filled rectangles: (n, 4) left, top, right, bottom in pixels, and a colour of each, `#rrggbb`."""

    boxes: Boxes
    colours: Sequence[str]


class Bitmap(NamedTuple):
    """(rows, columns, 3) pixels, stretched to a box in pixels; `smooth`: interpolated, not repeated."""

    pixels: Pixels
    box: tuple[float, float, float, float]
    smooth: bool


class Text(NamedTuple):
    """Words with their middle line at y, and at x their left end (`l`), middle (`m`) or right end (`r`).

    The size is in points; `upward`: turned, to be read from below.
    """

    x: float
    y: float
    string: str
    size: float
    anchor: str
    bold: bool
    colour: str
    upward: bool


class Canvas:
    """A picture of `WIDTH` pixels, 12 in, with a title and lines below it; a notebook shows it.

    `Path("timeline.png").write_bytes(canvas.png())` saves it.

    Attributes:
        title: above all.
        height: in pixels, of what is drawn so far; the next part begins here.
        shapes: rectangles and images, in drawing order.
        texts: above all shapes.
    """

    def __init__(self, title: str = "", *lines: str) -> None:
        self.title = title
        self.shapes: list[Rectangles | Bitmap] = []
        self.texts: list[Text] = []
        self.height = 0.0
        width_px = WIDTH - 2 * _MARGIN_PX
        if title:
            self.text(_MARGIN_PX, _TITLE_PX / 2, shorten(title, width_px, 14, bold=True), 14, "l", bold=True)
            self.height = _TITLE_PX
        for line in filter(None, lines):
            self.text(_MARGIN_PX, self.height + _LINE_PX / 2 + 4, shorten(line, width_px, 10), 10, "l", colour=INK)
            self.height += _LINE_PX
        self.height += _MARGIN_PX

    def rectangles(self, left: Any, top: Any, right: Any, bottom: Any, colours: str | Sequence[str]) -> None:
        """Fill rectangles: numbers or (n,) arrays; one colour, or one each."""
        boxes = np.stack(np.broadcast_arrays(left, top, right, bottom), axis=-1).astype(np.float64).reshape(-1, 4)
        self.shapes.append(Rectangles(boxes, [colours] * len(boxes) if isinstance(colours, str) else colours))

    def image(self, pixels: Pixels, box: tuple[float, float, float, float], *, smooth: bool = False) -> None:
        """Draw (rows, columns, 3) pixels in a box: left, top, right, bottom."""
        self.shapes.append(Bitmap(np.ascontiguousarray(pixels, np.uint8), box, smooth))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 10,
        anchor: str = "m",
        *,
        bold: bool = False,
        colour: str = "#000000",
        upward: bool = False,
    ) -> None:
        """Write words; see `Text`."""
        self.texts.append(Text(x, y, text, size, anchor, bold, colour, upward))

    def message(self, text: str) -> None:
        """Show a message instead of axes."""
        self.text(WIDTH / 2, self.height + 60, text, colour=INK)
        self.height += 130

    def legend(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Add labels with colours below what is drawn: (label, colour, `box`, `line` or `dashes`)."""
        x, y = _MARGIN_PX, self.height + _LEGEND_PX / 2
        for label, colour, swatch in entries:
            end = x + _SWATCH_PX + 12 + width_of(label, 9)
            if end > WIDTH - _MARGIN_PX and x > _MARGIN_PX:
                end += _MARGIN_PX - x
                x, y = _MARGIN_PX, y + _LEGEND_PX
            if swatch == "box":
                self.rectangles(x, y - 5.5, x + _SWATCH_PX, y + 5.5, colour)
            else:
                self.line(x, y, x + _SWATCH_PX, colour, 2.5, dashes=swatch == "dashes")
            self.text(x + _SWATCH_PX + 12, y, label, 9, "l")
            x = end + 32
        self.height = y + _LEGEND_PX / 2 + _MARGIN_PX / 2

    def line(self, left: float, y: float, right: float, colour: str, width: float, *, dashes: bool = False) -> None:
        """Draw a horizontal line."""
        starts = np.arange(left, right, 15.0) if dashes else np.array([left])
        ends = np.minimum(starts + 10.0, right) if dashes else np.array([right])
        self.rectangles(starts, y - width / 2, ends, y + width / 2, colour)

    def png(self) -> bytes:
        """Return the picture as PNG."""
        from PIL import Image, ImageDraw
        from PIL.PngImagePlugin import PngInfo

        finer = _FINER if any(isinstance(shape, Rectangles) for shape in self.shapes) else 1
        picture = Image.new("RGB", (finer * WIDTH, math.ceil(self.height)), PAPER)
        draw = ImageDraw.Draw(picture)
        for shape in self.shapes:
            if isinstance(shape, Rectangles):
                _draw_rectangles(draw, shape, finer)
            else:
                _paste_image(picture, shape, finer)
        if finer > 1:
            picture = picture.reduce((finer, 1))
        for text in self.texts:
            _draw_text(picture, text)
        stream = BytesIO()
        # zlib's default level takes three times as long for files a tenth smaller.
        about = PngInfo()
        about.add_text("Software", "mlusim")
        picture.save(stream, "PNG", compress_level=_PNG_LEVEL, pnginfo=about)
        return stream.getvalue()

    def _repr_png_(self) -> bytes:  # the name that IPython looks for
        return self.png()

    def svg(self) -> bytes:
        """Return the picture as SVG."""
        height = math.ceil(self.height)
        head = (
            '<?xml version="1.0" encoding="utf-8"?>\n<svg xmlns="http://www.w3.org/2000/svg" '
            f'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH / _PX_PER_POINT:g}pt" height="{height / _PX_PER_POINT:g}pt" font-family="{_FAMILY}">'
        )
        parts = [head, _ABOUT, f'<path fill="{PAPER}" d="M0 0h{WIDTH}v{height}h-{WIDTH}z"/>']
        for shape in self.shapes:
            parts += _rectangles_svg(shape) if isinstance(shape, Rectangles) else [_image_svg(shape)]
        parts += map(_text_svg, self.texts)
        return utf8("\n".join([*parts, "</svg>\n"]))


def text_on(background: Iterable[int]) -> str:
    """Return the colour of text, black or white, on a background of red, green and blue."""
    return "#000000" if sum(background) > _BRIGHT else "#FFFFFF"


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue, 0 to 255, of `#rrggbb`."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Return the width of words in pixels; size in points."""
    return _font_of(text, size, bold=bold).getlength(text)


def shorten(text: str, width_px: float, size: float, *, bold: bool = False) -> str:
    """Return words that fit in `width_px` pixels: where they do not, their middle is left out. Size in points."""
    kept_characters = len(text)
    result = text
    while width_of(result, size, bold=bold) > width_px and kept_characters:
        # Letters are about equally wide, so few steps are needed.
        kept_characters = min(kept_characters - 1, int(kept_characters * width_px / width_of(result, size, bold=bold)))
        result = f"{text[: -(-kept_characters // 2)]}…{text[len(text) - kept_characters // 2 :]}"
    return result


def matplotlib_data() -> Path:
    """Return matplotlib's folder of fonts and samples, without importing it."""
    spec = find_spec("matplotlib")
    return (Path(spec.origin).parent if spec is not None and spec.origin else Path()) / "mpl-data"


def _font_of(text: str, size: float, *, bold: bool) -> FreeTypeFont | ImageFont:
    """Return the font for words; size in points."""
    file = _east_asian_font() if _EAST_ASIAN.search(text) else ""
    return _font(size * _PX_PER_POINT, bold=bold, file=file)


@cache
def _east_asian_font() -> str:
    """Return the file of an installed font with Chinese characters; empty if there is none: boxes stand for them."""
    from matplotlib.font_manager import fontManager

    fonts = sorted((str(font.weight) not in ("400", "normal"), font.name, font.fname) for font in fontManager.ttflist)
    return next((file for begin in _EAST_ASIAN_FONTS for _, name, file in fonts if name.startswith(begin)), "")


@cache
def _font(size_px: float, *, bold: bool, file: str) -> FreeTypeFont | ImageFont:
    """Return a font; without a file, DejaVu Sans, which ships with matplotlib; where it was removed, Pillow's own."""
    from PIL import ImageFont

    try:
        name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
        # The basic layout is that of every installation; others depend on further libraries.
        path = file or str(matplotlib_data() / "fonts" / "ttf" / name)  # Pillow 10 takes no Path
        return ImageFont.truetype(path, size_px, layout_engine=ImageFont.Layout.BASIC)
    except OSError:
        return ImageFont.load_default(size_px)


def _corners(boxes: Boxes, finer: int) -> list[list[int]]:
    """(n, 4) the first and the last column and row of each box; the last is before the first where there is none."""
    corners = np.rint(boxes * (finer, 1, finer, 1)).astype(np.int64)
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    # Narrow boxes are not lost, and lines are equally thick everywhere.
    corners[:, 2] = np.maximum(corners[:, 2], corners[:, 0] + (widths > 0))
    corners[:, 3] = np.where(heights < _THIN_PX, corners[:, 1] + np.rint(heights).astype(np.int64), corners[:, 3])
    corners[:, 2:] -= 1
    listed: list[list[int]] = corners.tolist()
    return listed


def _draw_rectangles(draw: ImageDraw, shape: Rectangles, finer: int) -> None:
    for corner, colour in zip(_corners(shape.boxes, finer), shape.colours, strict=True):
        if corner[2] >= corner[0] and corner[3] >= corner[1]:
            draw.rectangle(corner, fill=rgb(colour))


def _paste_image(picture: Image, shape: Bitmap, finer: int) -> None:
    from PIL import Image

    left, top, right, bottom = np.rint(np.multiply(shape.box, (finer, 1, finer, 1))).astype(int).tolist()
    method = Image.Resampling.HAMMING if shape.smooth else Image.Resampling.NEAREST
    size = max(right - left, 1), max(bottom - top, 1)
    picture.paste(Image.fromarray(shape.pixels).resize(size, method), (left, top))


def _draw_text(picture: Image, text: Text) -> None:
    from PIL import Image, ImageDraw

    font = _font_of(text.string, text.size, bold=text.bold)
    if not text.upward:
        ImageDraw.Draw(picture).text((text.x, text.y), text.string, rgb(text.colour), font, f"{text.anchor}m")
        return
    box = round(width_of(text.string, text.size, bold=text.bold)) + 4, round(3 * text.size)
    mask = Image.new("L", box)
    ImageDraw.Draw(mask).text((box[0] / 2, box[1] / 2), text.string, 255, font, "mm")
    mask = mask.transpose(Image.Transpose.ROTATE_90)
    picture.paste(rgb(text.colour), (round(text.x - box[1] / 2), round(text.y - box[0] / 2)), mask)


def _rectangles_svg(shape: Rectangles) -> list[str]:
    """Return a path for each colour."""
    left, top, right, bottom = shape.boxes.T
    boxes = np.stack([left, top, right - left, bottom - top], axis=1).round(2).tolist()
    order = sorted(range(len(boxes)), key=lambda index: shape.colours[index])
    return [
        f'<path fill="{colour}" d="'
        + "".join(f"M{x:g} {y:g}h{w:g}v{h:g}h-{w:g}z" for x, y, w, h in (boxes[index] for index in indices))
        + '"/>'
        for colour, indices in groupby(order, key=lambda index: shape.colours[index])
    ]


def _image_svg(shape: Bitmap) -> str:
    from PIL import Image

    stream = BytesIO()
    Image.fromarray(shape.pixels).save(stream, "PNG")
    left, top, right, bottom = shape.box
    style = "" if shape.smooth else ' style="image-rendering: pixelated"'
    return (
        f'<image x="{left:g}" y="{top:g}" width="{right - left:g}" height="{bottom - top:g}" preserveAspectRatio="none"'
        f'{style} xlink:href="data:image/png;base64,{base64.b64encode(stream.getvalue()).decode()}"/>'
    )


def _text_svg(text: Text) -> str:
    size = text.size * _PX_PER_POINT
    anchor = {"l": "start", "m": "middle", "r": "end"}[text.anchor]
    rotation = f' transform="rotate(-90 {text.x:g} {text.y:g})"' if text.upward else ""
    weight = ' font-weight="bold"' if text.bold else ""
    # The middle line of capitals is 0.36 of the size above the base line.
    return (
        f'<text x="{text.x:g}" y="{text.y + 0.36 * size:g}" font-size="{size:.4g}" text-anchor="{anchor}"{weight}'
        f' fill="{text.colour}"{rotation} xml:space="preserve">{escape(_NOT_XML.sub("�", text.string))}</text>'
    )
