"""Pictures of rectangles, images and text: PNG and SVG agree, and the numbers of axes are those of matplotlib."""

from io import BytesIO
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib import colormaps, font_manager
from matplotlib.ticker import MaxNLocator
from PIL import Image, ImageFont

import mlusim
from mlusim.analysis import canvas as canvas_module
from mlusim.analysis.canvas import WIDTH, Canvas, Text, width_of
from mlusim.analysis.plot import Plot, left_of, ticks
from mlusim.analysis.report_files import draw
from mlusim.analysis.tile_map import cividis

SVG = "{http://www.w3.org/2000/svg}"


def pixels(canvas):
    with Image.open(BytesIO(canvas.png())) as picture:
        return np.asarray(picture).astype(int)


def elements(canvas, name):
    return ET.fromstring(canvas.svg()).iter(SVG + name)


def test_rectangles_cover_their_part_of_a_pixel_in_both_formats():
    canvas = Canvas()
    canvas.rectangles([10.25, 20.0], 5, [12.0, 20.5], 9, ["#000000", "#ff0000"])
    canvas.rectangles([50, 60], 5, [50, 70], [9, 5], "#00ff00")
    canvas.height = 20
    picture = pixels(canvas)
    assert picture.shape == (20, WIDTH, 3)
    assert picture[6, 9:13, 0].tolist() == [255, 64, 0, 255]
    assert picture[6, 20].tolist() == [255, 128, 128]
    assert (picture[[4, 9], 10:21] == 255).all()
    # Empty rectangles are not drawn.
    assert (picture[:, 40:] == 255).all()
    paths = {path.get("fill"): path.get("d") for path in elements(canvas, "path")}
    assert paths["#000000"] == "M10.25 5h1.75v4h-1.75z"
    assert paths["#ff0000"] == "M20 5h0.5v4h-0.5z"


def test_a_notebook_shows_a_picture():
    formatters = pytest.importorskip("IPython.core.formatters")

    canvas = Canvas("title")
    assert formatters.PNGFormatter()(canvas) == canvas.png()


def test_horizontal_lines_are_equally_thick_wherever_they_are():
    canvas = Canvas()
    for number in range(10):
        canvas.line(0, 10 + 10.1 * number, 100, "#000000", 1.5)
    canvas.height = 120
    column = pixels(canvas)[:, 50, 0]
    assert (column < 255).sum() == 20


def test_images_are_stretched_without_mixing_their_pixels():
    canvas = Canvas()
    canvas.image(np.array([[[255, 0, 0], [0, 0, 255]]], np.uint8), (10, 10, 30, 20))
    canvas.height = 30
    picture = pixels(canvas)
    assert (picture[10:20, 10:20] == [255, 0, 0]).all()
    assert (picture[10:20, 20:30] == [0, 0, 255]).all()
    (image,) = elements(canvas, "image")
    assert [image.get(name) for name in ("x", "y", "width", "height")] == ["10", "10", "20", "10"]


def test_words_are_text_whatever_they_contain():
    canvas = Canvas("a < b & \x07c")
    assert [text.text for text in elements(canvas, "text")] == ["a < b & �c"]
    assert (pixels(canvas) < 128).any()


def test_the_file_of_a_font_is_text_as_pillow_10_needs(monkeypatch):
    files = []

    def truetype(file, *arguments, **options):
        files.append(file)
        return load(file, *arguments, **options)

    load = ImageFont.truetype
    monkeypatch.setattr(ImageFont, "truetype", truetype)
    canvas_module._font.cache_clear()
    width_of("text", 12)
    assert [type(file) for file in files] == [str]


def test_without_the_fonts_of_matplotlib_pillows_own_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(canvas_module, "matplotlib_data", lambda: tmp_path)
    canvas_module._font.cache_clear()
    try:
        assert (pixels(Canvas("a title")) < 128).any()
    finally:
        canvas_module._font.cache_clear()


@pytest.mark.parametrize("seed", range(5))
def test_numbers_on_axes_are_those_of_matplotlib(seed):
    random = np.random.default_rng(seed)
    for _ in range(40):
        low = float(random.choice([0, random.uniform(0, 1000)]))
        high = low + float(10 ** random.uniform(-2, 5))
        numbers, names = ticks(low, high, 9)
        every = MaxNLocator(9, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        expected = [number for number in every if low - 1e-9 <= number <= high + 1e-9]
        assert numbers == pytest.approx(expected, abs=1e-9 * high)
        # The text is the number, and no two are alike.
        assert [float(name) for name in names] == pytest.approx(numbers, abs=1e-9 * high)


def test_whole_numbers_are_counted_in_whole_steps():
    assert ticks(0, 3, 8, integers=True) == ([0, 1, 2, 3], ["0", "1", "2", "3"])
    assert ticks(0, 31, 8, integers=True)[1] == ["0", "4", "8", "12", "16", "20", "24", "28"]
    assert ticks(0, 0, 8, integers=True) == ([0], ["0"])


def test_values_beyond_a_plot_are_drawn_at_its_border():
    plot = Plot(Canvas(), 100, 50, x=(0, 10), y=(0, 1), right=200)
    assert plot.at_x([-5, 0, 5, 20]).tolist() == [100, 100, 150, 200]
    assert plot.at_y([0, 0.5, 2]).tolist() == [plot.top, plot.top + 25, plot.bottom]
    assert left_of(["core 10"], 8) > width_of("core 10", 8)


def test_cividis_is_matplotlibs():
    expected = 255 * colormaps["cividis"](np.linspace(0, 1, 256))[:, :3]
    assert np.abs(cividis(256) - expected).max() < 12
    assert np.abs(cividis(256) - expected).mean() < 1


def ends(text: Text):
    wide = width_of(text.string, text.size, bold=text.bold)
    if text.upward:
        return text.x - text.size, text.x + text.size, text.y - wide / 2, text.y + wide / 2
    left = text.x - {"l": 0, "m": wide / 2, "r": wide}[text.anchor]
    return left, left + wide, text.y - text.size * 0.65, text.y + text.size * 0.65


@pytest.mark.parametrize("board", ["mlu270-s4", "mlu370-x4", "mlu590-h8"])
@pytest.mark.parametrize("shape", [(3,), (20, 100), (700, 300), (3, 5, 4000)])
def test_no_words_leave_the_picture_or_cover_each_other(board, shape):
    result = mlusim.ops.flip(np.ones(shape, np.float32), axis=0, device=board)
    for name, canvas in draw(result).items():
        boxes = [(ends(text), text.string) for text in canvas.texts]
        for (left, right, top, bottom), words in boxes:
            assert left >= 0, (name, words)
            assert right <= WIDTH, (name, words)
            assert top >= 0, (name, words)
            assert bottom <= canvas.height, (name, words)
        for index, (one, words) in enumerate(boxes):
            for other, more in boxes[index + 1 :]:
                apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
                assert apart, (name, words, more)


def test_chinese_names_are_in_a_font_that_has_them(tmp_path, monkeypatch):
    """Without such a font, both letters are the same box; the font made here has a bar and a square."""
    # A dependency of matplotlib.
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    font = FontBuilder(1000, isTTF=True)
    glyphs = {}
    for name, width in ((".notdef", 0), ("jia", 100), ("fa", 800)):
        drawn = TTGlyphPen(None)
        if width:
            drawn.moveTo((0, 0))
            for corner in ((0, 800), (width, 800), (width, 0)):
                drawn.lineTo(corner)
            drawn.closePath()
        glyphs[name] = drawn.glyph()
    font.setupGlyphOrder([*glyphs])
    font.setupCharacterMap({ord("加"): "jia", ord("法"): "fa"})
    font.setupGlyf(glyphs)
    font.setupHorizontalMetrics(dict.fromkeys(glyphs, (1000, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": "WenQuanYi Test", "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(tmp_path / "chinese.ttf")

    def ink(letter):
        canvas = Canvas()
        canvas.text(100, 20, letter, 20)
        canvas.height = 60
        return int((pixels(canvas) < 128).sum())

    try:
        monkeypatch.setattr(font_manager.fontManager, "ttflist", [])
        canvas_module._east_asian_font.cache_clear()
        latin = ink("a")
        assert ink("加") == ink("法") > 0
        font_manager.fontManager.addfont(tmp_path / "chinese.ttf")
        canvas_module._east_asian_font.cache_clear()
        assert ink("法") > 6 * ink("加") > 0
        assert ink("a") == latin
        assert width_of("加法", 20) == pytest.approx(2 * 20 * 130 / 72, abs=1)
    finally:
        canvas_module._east_asian_font.cache_clear()
