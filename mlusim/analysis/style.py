"""The colours of pictures and report pages, and reproducible pictures: equal figures give equal bytes.

The colours are those of Okabe and Ito, which are distinguishable for colour-blind readers. matplotlib is imported
inside functions only, and pyplot never, so no global state changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from colorsys import hls_to_rgb
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mlusim.files import atomic_write, writing
from mlusim.units import PS_PER_NS, PS_PER_US

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, BLACK = "#E69F00", "#56B4E9", "#F0E442", "#000000"
GREY, PALE = "#8C8C8C", "#D9D9D9"
PAPER, INK = "#FFFFFF", "#404040"

# Causes of `breakdown`, and losses of `lower_bound` in the colours of the causes that they stem from; the same
# on every page.
CAUSE_COLOURS: dict[str, str] = {
    "transfer": BLUE,
    "bandwidth_wait": VERMILION,
    "on_chip_copy": GREEN,
    "vector": PURPLE,
    "scalar": ORANGE,
    "dma_latency": YELLOW,
    "sync": SKY,
    "issue": BLACK,
    "launch": GREY,
    "idle": PALE,
}
LOSS_COLOURS: dict[str, str] = {
    "launch": GREY,
    "latency": YELLOW,
    "extra_bytes": "#7A3500",
    "contiguous": "#A34700",
    "strided": "#E58B4A",
    "mixed": "#F2BC94",
    "shared_bandwidth": VERMILION,
    "port": BLUE,
    "compute": PURPLE,
    "sync": SKY,
    "idle": PALE,
}

# Series other than causes use different colours on a page with causes: Paul Tol's muted scheme.
MUTED = ("#332288", "#88CCEE", "#44AA99", "#DDCC77", "#CC6677", "#117733", "#AA4499", "#BBBBBB")
READ, REQUESTED, BUS, WRITE, BOUND, ROOF = MUTED[0], MUTED[1], MUTED[2], MUTED[4], MUTED[5], MUTED[6]
ROOFS_TOGETHER = "#999933"
# Lines of boards, strategies and settings, in sweeps and lessons: Paul Tol's bright scheme, and brown.
SERIES_COLOURS = ("#4477AA", "#EE6677", "#228833", "#AA3377", "#CCBB44", "#66CCEE", "#885533")
# Buffers are plain categories: Paul Tol's light scheme, used by no other series.
BUFFER_COLOURS = ("#77AADD", "#EEDD88", "#44BB99", "#FFAABB", "#AAAA00", "#99DDFF", "#EE8866", "#DDDDDD")


def core_colours(cores: int, per_cluster: int) -> list[str]:
    """Return a colour per core: a hue per cluster, and a shade of it per core."""
    clusters = max(-(-cores // max(per_cluster, 1)), 1)
    colours = []
    for core in range(cores):
        cluster, core_in_cluster = divmod(core, per_cluster)
        # Successive clusters are far apart on the colour wheel.
        hue = (cluster * 0.381966 + 0.58) % 1 if clusters > 1 else 0.58
        light = 0.36 + 0.4 * core_in_cluster / max(per_cluster - 1, 1)
        red, green, blue = hls_to_rgb(hue, light, 0.62)
        colours.append(f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}")
    return colours


WIDTH_IN = 12.0
_DPI = 130
_PNG_LEVEL = 3
_LINE_IN = 0.22
_RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": False,
    "grid.color": "#E5E5E5",
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "savefig.dpi": _DPI,
    "figure.dpi": _DPI,
    "image.interpolation": "nearest",
    # Names of boards, kernels and tensors are literal text: a dollar sign starts no formula.
    "text.parse_math": False,
    # SVG ids are hashes of this salt and the content; without it they are random.
    "svg.hashsalt": "mlusim",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Apply mlusim's style, isolated from the caller's settings, while a figure is made and saved."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_figure(height_in: float, title: str, *lines: str) -> Figure:
    """Create a figure of the common width, with a title and lines below it; the layout keeps axes clear of them."""
    from matplotlib.figure import Figure

    from mlusim.analysis.canvas import shorten

    width_px = 0.98 * WIDTH_IN * _DPI
    title = shorten(title, width_px, 14, bold=True)
    lines = tuple(shorten(line, width_px, 10) for line in lines if line)
    height_in += _LINE_IN * len(lines)
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    # The layout reserves room for the title with empty lines; the text lines are placed there.
    figure.suptitle(title + "\n" * len(lines), x=0.01, ha="left", fontsize=14, fontweight="bold", linespacing=1.25)
    for number, line in enumerate(lines):
        top = 1 - (0.36 + number * _LINE_IN) / height_in
        figure.text(0.01, top, line, ha="left", va="top", fontsize=10, color=INK, in_layout=False)
    return figure


def legend_below(figure: Figure, handles: list[Any], columns: int = 8) -> None:
    """Add a legend below the axes, where it covers nothing."""
    figure.legend(handles=handles, loc="outside lower left", ncols=min(columns, len(handles)), fontsize=9)


def save(figure: Figure, path: Path, file_name: str = "") -> None:
    """Write a figure as PNG or SVG, by the path's suffix, atomically and reproducibly.

    Raises `InputError` if that fails; `file_name` names the file there, by default its path.
    """
    with writing(file_name or path), atomic_write(path) as stream:
        save_to(figure, stream, path.suffix.lower())


def save_to(figure: Figure, stream: BinaryIO, suffix: str) -> None:
    """Write a figure to a stream, as `.png` or `.svg`."""
    # Print with the canvas, which draws once; `Figure.savefig` draws twice.
    if suffix == ".svg":
        from matplotlib.backends.backend_svg import FigureCanvasSVG

        svg: Any = FigureCanvasSVG(figure)  # matplotlib has no types for its methods
        svg.print_svg(stream, metadata={"Date": None, "Creator": "mlusim"})
    else:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        png: Any = FigureCanvasAgg(figure)
        # zlib's default level takes three times as long for files a tenth smaller.
        png.print_png(stream, metadata={"Software": "mlusim"}, pil_kwargs={"compress_level": _PNG_LEVEL})
    # The layout takes much of the drawing time, and is the same for every format.
    figure.set_layout_engine("none")


def time_unit(span_ps: int) -> tuple[str, int]:
    """Return the unit for a time axis of that length, and its picoseconds."""
    if span_ps >= 10_000 * PS_PER_US:
        return "ms", 1000 * PS_PER_US
    return ("us", PS_PER_US) if span_ps >= PS_PER_US else ("ns", PS_PER_NS)
