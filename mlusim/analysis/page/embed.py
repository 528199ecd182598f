"""Data and scripts inside a page: packed columns, safe JSON, plotly's own bundle."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import Any

import numpy as np

from mlusim.errors import InputError

_WIDTHS = ("u1", "u2", "u4")


def pack(values: Any) -> dict[str, str]:
    """Integers of -1 and more as a column for `unpack` in page.js, each one larger by 1: the narrowest that fits."""
    column = np.asarray(values, np.int64) + 1
    most = int(column.max(initial=0))
    # Above 32 bits JavaScript has floats, exact up to 2**53.
    kind = next((kind for kind in _WIDTHS if most <= np.iinfo(kind).max), "f8")
    return {"kind": kind, "data": base64.b64encode(column.astype(f"<{kind}").tobytes()).decode()}


def script_json(value: Any) -> str:
    """JSON to stand in a script element: no text in it ends the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """A file of this room: page.css, page.js."""
    return files("mlusim.analysis.page").joinpath(name).read_text(encoding="utf-8")


def plotly_bundle() -> str:
    """plotly.js, as plotly's Python package ships it. Raises `InputError` where that is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("the HTML report needs plotly: pip install plotly") from None
    return str(get_plotlyjs())
