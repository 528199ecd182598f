"""The footer of a page: the origin of its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlusim.analysis.page.parts import esc, table
from mlusim.analysis.provenance import provenance
from mlusim.hardware import Board
from mlusim.hardware.describe import assumed_fields, board_rows

if TYPE_CHECKING:
    from mlusim.results.result import Result

_UNKNOWN = "not recorded: the run was made from Python"


def footer(result: Result, loads: str) -> str:
    """Return version, command, date, seed and tensors of a run, and the complete record of its board.

    Args:
        result: the run.
        loads: a sentence about the resources that the page loads.

    A run from Python has no command, date and seed, so that its page never changes.
    """
    name = esc(result.board.name)
    return f"""<footer>
<p>Simulated by mlusim; times are the model's. Parameters of {name} without a public source:
{len(assumed_fields(result.board))}, listed by <code>mlusim devices {name}</code>. {loads}</p>
{origin(result)}
{_board(result.board)}
</footer>
"""


def origin(result: Result) -> str:
    """Return the origin of a run's figures as a list of terms."""
    record = provenance(result)
    terms = {
        "mlusim": esc(record["mlusim"]),
        "command": f"<code>{esc(record['command'])}</code>" if record["command"] else _UNKNOWN,
        "date": esc(record["date"] or _UNKNOWN),
        "seed": esc(_UNKNOWN if record["seed"] is None else record["seed"]),
        "inputs": _tensors(record, "input"),
        "outputs": _tensors(record, "output"),
        "board": _edits(record["board"]),
    }
    rows = "".join(f"<dt>{term}</dt><dd>{text}</dd>" for term, text in terms.items())
    return f'<dl class="origin" aria-label="Where the figures come from">{rows}</dl>'


def _tensors(record: dict[str, Any], role: str) -> str:
    facts = [
        f"{esc(tensor['name'])}: {esc(tensor['dtype'])} {esc(list(tensor['shape']))}"
        for tensor in record["tensors"]
        if tensor["role"] == role
    ]
    return "; ".join(facts) or "none"


def _edits(board: dict[str, Any]) -> str:
    edited = ", ".join(f"<code>{esc(name)}</code>" for name in board["edited"])
    base = f" from {esc(board['edited_from'])}" if board["edited_from"] else ""
    return f"{esc(board['name'])}, edited{base}: {edited}" if edited else f"{esc(board['name'])}, as it is shipped"


def _board(board: Board) -> str:
    rows = [(f"<code>{esc(name)}</code>", esc(value), esc(source)) for _, name, value, source in board_rows(board)]
    listed = table(("parameter", "value", "source"), rows, (1,))
    return f"<details><summary>Every parameter of {esc(board.name)}</summary>{listed}</details>"
