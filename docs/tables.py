"""Tables of the pages, generated from the package's records: `<!-- table: NAME -->` to `<!-- end of table -->`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)


def assumed() -> str:
    """Return every assumed parameter of every board, with value and reason; boards with equal values share a row."""
    from mlusim import presets
    from mlusim.hardware.describe import assumed_fields, field_meanings, value_text

    boards = presets()
    everyone = [board.name for board in boards]
    rows = []
    for name, meaning in field_meanings().items():
        found: dict[str, dict[str, list[str]]] = {}
        for board in boards:
            if name in assumed_fields(board):
                reason = board.sources[name].removeprefix("ASSUMED").lstrip(": ")
                values = found.setdefault(reason, {})
                values.setdefault(value_text(name, getattr(board, name)), []).append(board.name)
        about = f"`{name}`: {meaning.rstrip('.')}"
        for reason, values in found.items():
            why = reason
            for value, names in values.items():
                rows.append((about, value, _boards(names, everyone), why))
                about = why = ""
    return table(("parameter", "value", "boards", "reason"), rows)


def _boards(names: Sequence[str], everyone: Sequence[str]) -> str:
    others = [name for name in everyone if name not in names]
    if not others:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(names) // 2 else ", ".join(names)


def known() -> str:
    """Return the parameters that have a public source on every board."""
    from mlusim import presets
    from mlusim.hardware.describe import assumed_fields, field_meanings

    guessed = {name for board in presets() for name in assumed_fields(board)}
    rows = [
        (f"`{name}`", meaning.rstrip("."))
        for name, meaning in field_meanings().items()
        if name not in {*guessed, "name"}
    ]
    return table(("parameter", "meaning"), rows)


def strategies(operator: str) -> str:
    """Return the strategies of an operator, the default first."""
    from mlusim.ops.commands import COMMANDS

    return table(
        ("strategy", ""), [(f"`{name}`", about) for name, about in COMMANDS[operator].operator.strategies.items()]
    )


def instructions() -> str:
    """Return every vector and tensor instruction by group: method, BANG C's names, result, element types."""
    from mlusim.cores.atomics import ATOMICS, COMPARE_AND_SWAP
    from mlusim.cores.instructions.record import SERIES_2XX
    from mlusim.cores.instructions.table import INSTRUCTIONS

    groups: dict[str, list[tuple[str, ...]]] = {}
    for entry in INSTRUCTIONS.values():
        about = entry.summary + ("" if entry.exact else " (in IEEE arithmetic; the board approximates)")
        about += "; awaited without dst, returns the number" if entry.to_register else ""
        about += "; awaited, returns the count" if entry.counts else ""
        about += f"; from arch {entry.since} on" if entry.since > SERIES_2XX else ""
        spellings = ", ".join(f"`{name}`" for name in entry.intrinsics)
        groups.setdefault(entry.group, []).append((f"`core.{entry.signature}`", spellings, about))
    for operation in (*ATOMICS, COMPARE_AND_SWAP):
        more = "compare, operand" if operation == COMPARE_AND_SWAP else "operand"
        row = (f"`await core.atomic_{operation}(old, target, {more})`", f"`__bang_atomic_{operation}`")
        groups.setdefault("Atomics on GDRAM", []).append((*row, "old, in NRAM, receives the previous value of target"))
        row = (f"`await core.atomic_reduce_{operation}(target, {more})`", f"`__bang_atomic_reduce_{operation}`")
        groups["Atomics on GDRAM"].append((*row, "without the old value"))
    heads = ("mlusim", "BANG C", "description")
    return "\n".join(f"### {group}\n\n{table(heads, rows)}" for group, rows in groups.items())


TABLES: dict[str, Callable[..., str]] = {
    "assumed": assumed,
    "known": known,
    "strategies": strategies,
    "instructions": instructions,
}
