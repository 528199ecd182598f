"""The sections of a run's page: the HTML of each, and the data of its chart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mlusim.analysis.breakdown import CAUSES
from mlusim.analysis.log_columns import LogColumns
from mlusim.analysis.lower_bound import LOSSES, most_sensitive_to
from mlusim.analysis.page import charts
from mlusim.analysis.page.occupancy import occupancies
from mlusim.analysis.page.parts import esc, legend, table
from mlusim.analysis.page.roofline import roofline
from mlusim.analysis.page.source import source_blocks, source_table
from mlusim.analysis.page.tensors import tensor_row, tensor_traffic
from mlusim.analysis.page.tiles import tile_data, tile_map
from mlusim.analysis.page.timeline import CauseSpans, cause_spans, timeline_data
from mlusim.analysis.style import core_colours
from mlusim.analysis.summary import figures, peaks, split_rows
from mlusim.units import (
    GIGA,
    PS_PER_S,
    PS_PER_US,
    format_ns,
    format_us,
    group_digits,
    percent,
    plural,
    ratio,
    short_bytes,
)

if TYPE_CHECKING:
    from mlusim.results.result import Result
    from mlusim.verifier.report import Report

_SHOWN_BLOCKS = 12


class Sections:
    """The sections, and the data of their charts."""

    def __init__(self, result: Result, records: LogColumns) -> None:
        self.result = result
        self.records = records
        self.figures: dict[str, charts.Figure] = {}
        self.memories: list[charts.Figure] = []
        self.tiles: dict[str, Any] | None = None
        self.timeline: dict[str, Any] | None = None
        self.heads: list[tuple[str, str]] = []
        self.ran = bool(records.time_ps)

    def all(self) -> Iterator[str]:
        """Yield each section as HTML."""
        yield self._section("summary", "Summary", self._summary())
        if self.result.plan is not None:
            yield self._section("plan", "How the work is split", f"<pre>{esc(self.result.plan.explain())}</pre>")
        if self.ran:
            yield self._section("time", "Where the time went", self._time())
            yield self._section("timeline", "Timeline", self._timeline())
        if self.result.plan is not None:
            yield self._section("tiles", "Tile map", self._tile_map())
        if self.ran:
            yield self._section("bandwidth", "DRAM bandwidth", self._bandwidth())
            yield self._section("memory", "On-chip memory", self._memory())
        yield self._section("roofline", "Roofline", self._roofline())
        yield self._section("traffic", "Traffic by tensor", self._traffic())
        if self.result.log.lines:
            yield self._section("source", "Source", self._source())
        yield self._section("verification", "Verification", _verification(self.result.report))

    def _section(self, name: str, head: str, content: str) -> str:
        self.heads.append((name, head))
        top = f'<section id="{name}" aria-labelledby="{name}-head">\n<h2 id="{name}-head">{head}</h2>'
        return f"{top}\n{content}\n</section>"

    def _chart(self, name: str, caption: str, label: str, figure: charts.Figure | None = None) -> str:
        """Return a figure with its caption, and a text alternative for screen readers."""
        height = ""
        if figure is not None:
            self.figures[f"{name}-chart"] = figure
            height = f' style="height:{figure["layout"]["height"]}px"'
        return (
            f"<figure><figcaption>{caption}</figcaption>"
            f'<div class="chart" id="{name}-chart" role="group" aria-label="{esc(label)}"{height}></div></figure>'
        )

    def _summary(self) -> str:
        result = self.result
        metrics, board, bound = result.metrics, result.board, result.lower_bound
        bus = sum(metrics.bus_bytes.values())
        compulsory = sum(metrics.compulsory_bytes.values())
        bound_ratio = ratio(result.time_ps, bound.time_ps)
        of_bound = f"{bound_ratio} the lower bound of" if bound_ratio else "lower bound"
        cores = len({(task.cluster, task.core) for task in result.log.tasks if not task.is_memory_core})
        cards = [
            ("Time", format_us(metrics.time_ps), f"{of_bound} {format_us(bound.time_ps)}"),
            ("io_efficiency", percent(metrics.io_efficiency), metrics.verdict),
            (
                "On the DRAM bus",
                short_bytes(bus),
                f"{ratio(bus, compulsory)} the compulsory {short_bytes(compulsory)}" if compulsory else "",
            ),
            ("Cores with a task", f"{cores} of {board.cores}", f"{board.clusters} clusters"),
        ]
        cards += [(f"Peak {kind.name}", short_bytes(peak), part) for kind, peak, part in peaks(result)]
        boxes = "".join(f"<div><dt>{esc(a)}</dt><dd>{esc(b)}<small>{esc(c)}</small></dd></div>" for a, b, c in cards)
        rows = [*figures(result), *split_rows(result)]
        cells = [(esc(row.label), esc(row.value), esc(row.note)) for row in rows]
        return f'<dl class="cards">{boxes}</dl>\n<p>{self._sentence()}</p>\n{table(("", "", ""), cells, (1,))}'

    def _sentence(self) -> str:
        """Return the time above the lower bound and its largest cause, as a sentence."""
        result = self.result
        if not self.ran:
            return "Nothing was launched: there was nothing to do, so no time passed and no byte moved."
        bound = result.lower_bound
        above_ps = result.time_ps - bound.time_ps
        if not above_ps:
            return "The run takes no longer than its lower bound."
        name = bound.largest_loss
        share = bound.losses_ps[name] / result.board.cores / above_ps
        return (
            f"The run takes {format_us(above_ps)} more than its lower bound; the largest part of that, "
            f"{percent(share)}, is <em>{esc(LOSSES[name])}</em>."
        )

    def _time(self) -> str:
        result = self.result
        metrics, bound, cores = result.metrics, result.lower_bound, result.board.cores
        parameters = most_sensitive_to(result.board, bound, result.metrics)
        uncertain = f" Above it, the estimate is most sensitive to {', '.join(parameters)}." if parameters else ""
        losses_chart = self._chart(
            "losses",
            "The lower bound, and the time above it by cause, per core on average. DRAM losses have "
            f"shades of the colour of bandwidth contention.{esc(uncertain)}",
            f"Lower bound {format_us(bound.time_ps)} of {format_us(result.time_ps)}. {self._spoken_losses()}",
            charts.losses(bound, cores),
        )
        chart = self._chart(
            "cores",
            f"The whole time of each of the {cores} cores by cause. The dotted line is the lower bound.",
            "Time of each core by cause: the same as the table below, core by core.",
            charts.per_core(self.records, metrics, bound),
        )
        rows = [
            (
                f"{esc(CAUSES[name])}",
                f"{total / cores / PS_PER_US:.2f}",
                percent(total / metrics.core_time_ps),
            )
            for name, total in sorted(metrics.where_time_went.items(), key=lambda item: -item[1])
            if total
        ]
        numbers = table(("cause", "us per core on average", "share"), rows, (1, 2))
        return (
            f'<h3>Above the lower bound</h3>{losses_chart}<div class="whole"><h3>Core by core</h3>'
            f"{legend(self._causes())}{chart}</div><details><summary>The same as a table</summary>{numbers}</details>"
        )

    def _causes(self) -> list[str]:
        return [name for name, total in self.result.metrics.where_time_went.items() if total]

    def _spoken_losses(self) -> str:
        bound, cores = self.result.lower_bound, self.result.board.cores
        losses = sorted(bound.losses_ps.items(), key=lambda item: -item[1])
        return "; ".join(f"{LOSSES[name]} {format_us(total // cores)}" for name, total in losses if total)

    def _timeline(self) -> str:
        spans = cause_spans(self.records)
        self.timeline = timeline_data(self.records, spans)
        units = self.timeline["units"]
        # Hidden work has a colour only on its pipe.
        causes = set(spans.cause.tolist())
        options = "".join(f'<option value="{number}">{esc(unit)}</option>' for number, unit in enumerate(units))
        buttons = "".join(
            f'<button type="button" id="zoom-{name}">{text}</button>'
            for name, text in (
                ("in", "Zoom in"),
                ("out", "Zoom out"),
                ("left", "Earlier"),
                ("right", "Later"),
                ("all", "Whole run"),
            )
        )
        chart = self._chart(
            "timeline",
            "Drag to zoom in, double-click for the whole run. Where a column of pixels covers several spans, they are "
            "stacked in proportion to their time." + _merged_note(spans),
            f"{len(units)} cores and memory cores over {format_us(self.records.time_ps)}, coloured by cause.",
        )
        return (
            '<div class="controls"><label>Show <select id="timeline-choice"><option value="all">all cores, where '
            'their time went</option><option value="pipes">all cores with their pipes</option>'
            f"{options}</select></label>"
            f'{buttons}</div><div class="whole">'
            f"{legend([name for index, name in enumerate(CAUSES) if index in causes])}{chart}</div>"
        )

    def _tile_map(self) -> str:
        plan = self.result.plan
        tiles = tile_map(self.records, plan)
        if tiles is None or plan is None:
            return "<p>No tiles: the output has no elements, or is a view of the input.</p>"
        board = self.records.board
        colours = core_colours(board.cores, board.cores_per_cluster)
        self.tiles = {**tile_data(self.records, tiles, plan.output_shape), "colours": colours}
        choices = [("unit", "core, by the plan"), ("iteration", "iteration, by the plan")]
        if tiles.logged_unit is not None:
            choices += [("logged_unit", "core, by the log"), ("logged_write", "write, by the log")]
        options = "".join(f'<option value="{name}">{text}</option>' for name, text in choices)
        caption = (
            f"The output {esc(list(plan.output_shape))}, flattened to rows and columns, in "
            f"{group_digits(len(plan.tiles))} tiles; {esc(tiles.verdict)}. Hover over a tile for its core, "
            "iteration, box and bytes."
        )
        spoken = f"{plural(len(plan.tiles), 'tile')} of {plural(plan.tasks, 'task')}."
        return (
            f'<div class="controls"><label>Colour by <select id="tile-choice">{options}</select></label></div>'
            + self._chart("tile", caption, spoken)
        )

    def _bandwidth(self) -> str:
        metrics = self.result.metrics
        mean = sum(metrics.bus_bytes.values()) / metrics.time_ps * (PS_PER_S / GIGA)
        peak = metrics.peak_bandwidth_bytes_per_s / GIGA
        return self._chart(
            "bandwidth",
            "Bytes on the DRAM bus over time, including the reads of partial writes. The dotted rectangle is the lower "
            "bound: the compulsory bytes at the peak. The log has the total of a copy, not its rate at each moment, so "
            "its bytes are spread evenly over the time in which they move.",
            f"Mean {mean:.1f} GB/s of a peak of {peak:.1f} GB/s.",
            charts.bandwidth(self.records, self.result.lower_bound),
        )

    def _memory(self) -> str:
        memories = occupancies(self.records)
        if not memories:
            return "<p>Nothing was allocated in NRAM, SRAM or WRAM.</p>"
        self.memories = [charts.occupancy(memory, self.records.time_ps) for memory in memories]
        options = "".join(
            f'<option value="{number}">{esc(memory.name)}: peak {group_digits(memory.peak_bytes)} B</option>'
            for number, memory in enumerate(memories)
        )
        decimated = any(memory.peaks_only for memory in memories)
        note = " Only the fullest moment of each 200th of the run is shown." if decimated else ""
        first = memories[0]
        return (
            f'<div class="controls"><label>Memory <select id="memory-choice">{options}</select></label></div>'
            + self._chart(
                "memory",
                f"Allocated bytes of one memory over time, by buffer; the fullest memory of each kind first.{note}",
                f"{first.name}: peak {group_digits(first.peak_bytes)} B; usable {group_digits(first.usable_bytes)} B",
            )
        )

    def _roofline(self) -> str:
        roof = roofline(self.records, self.result.metrics)
        if roof is None:
            return "<p>Nothing to place under a roof: no time passed, or there was nothing to move.</p>"
        spoken = "; ".join(f"{point.name}: {point.y:.4g} {roof.y_label}" for point in roof.points)
        return self._chart("roofline", esc(" ".join(roof.about)), spoken, charts.roofline(roof))

    def _traffic(self) -> str:
        tensors = tensor_traffic(self.records)
        if not tensors:
            return "<p>No tensors in off-chip memory.</p>"
        rows = [tensor_row(tensor) for tensor in tensors]
        heads = ("tensor, bytes", "compulsory", "read", "written", "bus read", "bus write", "bus over compulsory")
        chart = self._chart(
            "traffic",
            "The compulsory bytes are each input once and each output once, of a table only the rows used; ratios are "
            "relative to them. The reads of partial writes count for the tensor written.",
            "The same figures as the table below.",
            charts.traffic(tensors),
        )
        return chart + table(heads, rows, range(1, len(heads)))

    def _source(self) -> str:
        result = self.result
        blocks = source_blocks(self.records, result.lines, result.sources)
        total = max(result.metrics.core_time_ps, 1)
        none = sum(int(line.spent_ps.sum()) for line in result.lines if not line.line)
        longest_ps = max((int(line.figures.spent_ps.sum()) for block in blocks for line in block.lines), default=0) or 1
        tables = "".join(source_table(block, total, longest_ps) for block in blocks[:_SHOWN_BLOCKS])
        note = (
            f"<p>{len(blocks) - _SHOWN_BLOCKS} functions that took less are left out.</p>"
            if blocks[_SHOWN_BLOCKS:]
            else ""
        )
        return (
            "<p>Share of the time of all cores, by the line whose operation took it, with the colours of the causes; "
            f"{percent(none / total)} of the time belongs to no line: launch, issue and idle cores.</p>"
            f"{legend(self._causes())}{tables}{note}"
        )


def _merged_note(spans: CauseSpans) -> str:
    if not spans.merged:
        return f" All {group_digits(len(spans))} spans are shown."
    limit_text = format_us(spans.within_ps) if spans.within_ps >= PS_PER_US else format_ns(spans.within_ps)
    return (
        f" The run has {group_digits(spans.merged)} spans, too many for a page: those shorter than {limit_text} are "
        "summed by lane and cause over intervals of that length, which leaves "
        f"{group_digits(len(spans))}. The sums are exact; the order within an interval is not. trace.json has every "
        "span."
    )


def _verification(report: Report | None) -> str:
    """Return the findings of the verification, and the split proof."""
    if report is None:
        return (
            "<p>This run was not checked. <code>--check</code>, or <code>check=True</code>, proves the split and looks "
            "for races and for bytes that are read before they are written.</p>"
        )
    verdict, *_ = report.text(hints=False).split("\n")
    verdict_class = "good" if report.ok else "bad"
    parts = [f'<p class="{verdict_class}">{esc(verdict)}</p>']
    for finding in report.findings:
        css_class = "finding" if finding.severity == "error" else "hint"
        parts.append(f'<pre class="{css_class}">{esc(finding.text())}</pre>')
    _, _, proof = report.text(hints=False).partition("split proof")
    if proof:
        parts.append(f"<h3>Split proof</h3><pre>{esc('split proof' + proof)}</pre>")
    return "\n".join(parts)
