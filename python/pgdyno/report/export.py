"""A run for other programs and for mail: JSON, CSV, Markdown."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from rich.cells import cell_len

from pgdyno.analyse.over_time.event_parts import event_parts
from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.summary import PointSummary
from pgdyno.messages import message_json
from pgdyno.records import Latency, ScriptSummary, TrialRecord
from pgdyno.records.rate_unit import rate_unit
from pgdyno.records.secret_values import masked_plan
from pgdyno.report import numbers
from pgdyno.report.answers.answer import answer_json
from pgdyno.report.answers.loads.event_figures import part_json
from pgdyno.report.answers.workload_figures import points_json
from pgdyno.report.report_content import Digest, Extras, notes
from pgdyno.report.report_tables import peak_statements
from pgdyno.report.sections.draft import Draft
from pgdyno.report.sections.section_blocks import Block, Code, Facts, Heading, Items, Paragraph, Reasons, plain
from pgdyno.report.sections.section_list import filled_sections
from pgdyno.report.sentences import conditions
from pgdyno.report.table import UNSEEN, Table, look_of
from pgdyno.report.terminal.text_drawing import cut, set_cell, wrap_text
from pgdyno.report.translation import gettext, sentence
from pgdyno.safe_output import json_text

FORMAT = 1
"""Format of the JSON and the CSV; adding a column at the end does not change the number."""

CSV_HEADER = (
    "target", "workload", "scale", "clients", "workers", "protocol", "repeat", "outcome", "tps",
    "latency_mean_ms", "latency_stddev_ms", "latency_min_ms", "p50_ms", "p75_ms", "p90_ms", "p95_ms", "p99_ms",
    "p999_ms", "p9999_ms", "latency_max_ms", "measured_s", "scheduled", "succeeded", "failed", "skipped",
    "in_flight", "retried", "retries", "clients_aborted", "trial", "started_at", "ended_at", "run", "server_version",
    "failure", "rate", "settings", "variables", "instance", "duet_partner", "duet_tps_ratio",
    "largest_share_difference", "disagreements", "not_started", "late_p99_ms", "power", "throughput", "composite",
    "tps_counts", "scripts", "step", "group", "groups",
    "events", "connect_p50_ms", "connect_p99_ms", "refused", "connect",
)  # fmt: skip
"""A test compares this list with `docs/reference/csv.md`."""

COLUMNS = 80
"""Width for which Markdown is padded; beyond it, cells are not padded."""
NAME = 24
"""Columns of a name that other columns give way to."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_head() -> str:
    """Return the first line of the output of `to_csv`."""
    return ",".join(CSV_HEADER) + "\n"


def to_csv(run: RunSource) -> str:
    """Return a row per trial in order of execution; failed ones have their reason and no figures."""
    out = io.StringIO()
    writer = csv.DictWriter(out, CSV_HEADER, lineterminator="\n")
    writer.writeheader()
    versions = {each.name: each.facts.version for each in run.manifest.targets if each.facts is not None}
    for trial in run.trials:
        row = {**_trial_row(trial), "run": run.manifest.run, "workload": run.manifest.workload}
        row["server_version"] = versions.get(trial.target)
        row["scale"] = run.manifest.scale_of(trial.point)
        if trial.events and trial.summary is not None:
            row["events"] = json.dumps([part_json(each) for each in event_parts(run, trial)])
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def _trial_row(trial: TrialRecord) -> dict[str, Any]:
    point, summary = trial.point, trial.summary
    row: dict[str, Any] = {
        "target": trial.target,
        # 0 is unknown
        "clients": point.clients or None,
        "workers": trial.generator.workers if trial.generator is not None else point.workers,
        "protocol": point.protocol,
        "repeat": trial.repeat,
        "outcome": trial.outcome.value,
        "trial": trial.number,
        "started_at": trial.started_at.isoformat() if trial.started_at is not None else None,
        "ended_at": trial.ended_at.isoformat() if trial.ended_at is not None else None,
        "failure": trial.failure.message if trial.failure is not None else None,
        "rate": point.rate,
        "settings": _assignments(point.settings),
        "variables": _assignments(point.variables),
        "instance": trial.instance,
        "step": point.step,
        "group": point.group,
        "groups": _assignments(point.groups),
        "connect": point.connect,
    }
    if trial.duet is not None:
        row |= {"duet_partner": trial.duet.partner, "duet_tps_ratio": trial.duet.tps_ratio}
    if trial.likeness is not None:
        row["largest_share_difference"] = trial.likeness.largest_difference
    if summary is not None and summary.replay is not None:
        replay = summary.replay
        row |= {"disagreements": replay.disagreed, "not_started": replay.not_started}
        row["late_p99_ms"] = replay.lateness_ns.p99 / 1e6 if replay.lateness_ns and replay.lateness_ns.p99 else None
    if summary is not None and summary.connect is not None:
        total = summary.connect.total or Latency()
        row |= {
            f"connect_{name}_ms": value / 1e6 for name in ("p50", "p99") if (value := getattr(total, name)) is not None
        }
        row["refused"] = summary.refused
    if summary is not None:
        names = ("measured_s", "scheduled", "succeeded", "failed", "skipped", "in_flight", "retried", "retries")
        row |= {name: getattr(summary, name) for name in (*names, "clients_aborted")}
        row["tps"] = summary.rate_tps
        if len(summary.scripts) > 1:
            row["scripts"] = json.dumps([_script(each, summary.measured_s) for each in summary.scripts])
        row["tps_counts"] = rate_unit(trial) if row["tps"] is not None else None
        if summary.tpch is not None:
            row |= {name: getattr(summary.tpch, name) for name in ("power", "throughput", "composite")}
        elif summary.latency_ns is not None:
            row |= _latency_ms(summary.latency_ns)
    return row


def _script(of: ScriptSummary, measured_s: float | None) -> dict[str, Any]:
    latency = {} if of.latency_ns is None else _latency_ms(of.latency_ns)
    figures = {name: round(value, 6) for name, value in latency.items() if name in ("p50_ms", "p99_ms")}
    tps = round(of.succeeded / measured_s, 6) if measured_s else None
    return {"script": of.name, "tps": tps, **figures, "failed": of.failed}


def _assignments(values: Mapping[str, str]) -> str:
    """Return `work_mem=4MB; jit=off`, in one cell."""
    return "; ".join(f"{name}={value}" for name, value in values.items())


def _latency_ms(latency: Latency) -> dict[str, float]:
    columns = {f"latency_{name}_ms": getattr(latency, name) for name in ("mean", "stddev", "min", "max")}
    columns |= {f"{name}_ms": getattr(latency, name) for name in ("p50", "p75", "p90", "p95", "p99", "p999", "p9999")}
    return {column: value / 1e6 for column, value in columns.items() if value is not None}


def _cell(value: object) -> object:
    """Return floats with at most six decimals; text that a spreadsheet would read as a formula gets an apostrophe."""
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def to_json(of: Digest, extras: Extras) -> str:
    """Return the analysed run: answer, manifest, curves, points and trials; latencies in nanoseconds."""
    document = {
        "format": FORMAT,
        "answer": answer_json(of, extras),
        "manifest": masked_plan(of.manifest.model_dump(mode="json")),
        "notes": [
            {**({} if note.value is None else message_json(note.value)), "message": note.message, "points": note.points}
            for note in notes(of)
        ],
        "curves": [_curve(curve) for curve in of.curves],
        "points": [_point(point) for point in of.points],
        "queries": points_json(of),
        "statements": [asdict(each) for each in peak_statements(of)],
        "trials": [trial.model_dump(mode="json") for trial in of.run.trials],
    }
    return json_text(document, indent=2) + "\n"


def _curve(curve: ScalingCurve) -> dict[str, Any]:
    return {
        "target": curve.series.target,
        **curve.series.parameters(),
        "peak_clients": curve.peak.clients,
        "knee_clients": curve.knee.clients if curve.knee is not None else None,
        "warnings": [{"code": each.id, **message_json(each)} for each in curve.warnings],
    }


def _point(point: PointSummary) -> dict[str, Any]:
    series, latency, losses = point.series, point.latency, point.losses
    return {
        "target": series.target,
        "clients": point.clients,
        **point.point.model_dump(mode="json", exclude={"clients"}),
        "finished_trials": point.finished,
        "failed_trials": point.failed,
        "tps": numbers.estimate_json(point.tps),
        "latency_ns": None
        if latency is None
        else {name: getattr(latency, name) for name in ("mean", "p50", "p90", "p95", "p99", "p999", "max")},
        "scheduled": point.scheduled,
        "failed": losses.failed,
        "skipped": losses.skipped,
        "clients_aborted": losses.clients_aborted,
        "caught": losses.caught,
        "retried": losses.retried,
        "retries": losses.retries,
        "errors": [error.model_dump(mode="json") for error in point.errors],
        "warnings": [{"code": each.id, **message_json(each)} for each in point.warnings],
    }


def markdown_of(of: Digest, extras: Extras) -> str:
    """Return the report as Markdown, the answer first."""
    draft = Draft.short(of, extras)
    said = draft.said
    text = escape_markdown(said.text)
    claim = f"**{gettext('NOT VALID:')}** ~~{text}~~" if said.invalid else f"**{text}**"
    head: list[Block] = [*map(sentence, said.details), *([said.table] if said.table is not None else [])]
    head += [conditions(of), Items(draft.key_lines())]
    parts = [wrap_text(claim, COLUMNS), *map(_markdown, chain(head, *filled_sections(draft).values()))]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _markdown(block: Block) -> list[str]:
    """Return a block as Markdown; nothing of a chart, or of what a page unfolds on request."""
    match block:
        case Table():
            return [
                *([*wrap_text(escape_markdown(block.caption), COLUMNS), ""] if block.caption else []),
                *_table(block),
            ]
        case Paragraph(text) | (str() as text):
            return wrap_text(escape_markdown(text), COLUMNS)
        case Heading(text):
            return [f"### {escape_markdown(text)}"]
        case Items(lines):
            return _list(lines)
        case Reasons(rows):
            return _list(f"{row.word}: {row.name}: {row.message}" for row in rows)
        case Facts(facts):
            return _list(f"{name}: {value}" for name, value in facts)
        case Code(text):
            return [f"    {line}" for line in text.splitlines()]
    return []


def _list(lines: Iterable[str]) -> list[str]:
    return [line for each in lines for line in wrap_text(f"- {escape_markdown(each)}", COLUMNS, "  ")]


def _table(of: Table) -> list[str]:
    """Return the table in columns, of which it may leave out some; as a list of sentences if it is too wide."""
    shown = of.visible_columns(pictures=False).fit_columns(lambda each: _total(_widths(each, NAME)) <= COLUMNS)
    widths = _widths(shown)
    for at in range(shown.text_columns if of.ranks else 0):
        widths[at] = max(widths[at] - max(_total(widths) - COLUMNS, 0), min(widths[at], NAME))
    if _total(widths) > COLUMNS:
        return _list(of.sentences())
    is_right = [at >= shown.text_columns and "words" not in look_of(each) for at, each in enumerate(shown.headings)]
    pad = " " if _total(widths) + 2 * len(widths) <= COLUMNS else ""
    heading, *rows = _rows(shown)
    rules = ["-" * (width - 1) + (":" if right else "-") for width, right in zip(widths, is_right, strict=True)]
    lines = []
    for row in (heading, rules, *rows):
        padded = zip(row, widths, is_right, strict=True)
        cells = (set_cell(cut(cell, width), width, right=right) for cell, width, right in padded)
        lines.append(f"|{pad}{f'{pad}|{pad}'.join(cells)}{pad}|")
    return lines


def _rows(table: Table) -> list[list[str]]:
    headings = ["" if look_of(each) == UNSEEN else escape_markdown(each) for each in table.headings]
    return [headings, *([escape_markdown(cell) for cell in row] for row in table.rows)]


def _widths(table: Table, most: int = sys.maxsize) -> list[int]:
    widths = [max(map(cell_len, column)) for column in zip(*_rows(table), strict=True)]
    # the rule of a column of figures is a dash and a colon
    return [min(width, most) if at < table.text_columns else max(width, 2) for at, width in enumerate(widths)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(widths) + 1


def escape_markdown(text: str) -> str:
    """Escape a text so that it can break neither the table nor the page."""
    text = plain(text)
    for character in "\\|<>`*_[]":
        text = text.replace(character, "\\" + character)
    return " ".join(text.split())
