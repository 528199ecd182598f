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
    """Pack integers of -1 or more, each increased by 1, in the narrowest type, for `unpack` in page.js."""
    column = np.asarray(values, np.int64) + 1
    maximum = int(column.max(initial=0))
    # Above 32 bits JavaScript has floats, exact up to 2**53.
    kind = next((kind for kind in _WIDTHS if maximum <= np.iinfo(kind).max), "f8")
    return {"kind": kind, "data": base64.b64encode(column.astype(f"<{kind}").tobytes()).decode()}


def script_json(value: Any) -> str:
    """Return JSON for a script element, escaped so that no text ends the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def asset(name: str) -> str:
    """Return a file of this package: page.css, page.js."""
    return files("mlusim.analysis.page").joinpath(name).read_text(encoding="utf-8")


def plotly_bundle() -> str:
    """Return plotly.js from plotly's Python package. Raises `InputError` if it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("the HTML report needs plotly: pip install plotly") from None
    return str(get_plotlyjs())
