"""A run for other programs and for mail: JSON, CSV, Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len

from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.summary import PointSummary
from pgdyno.audit import Severity
from pgdyno.messages import message_json
from pgdyno.records import Latency, TrialRecord
from pgdyno.records.rate_unit import rate_unit
from pgdyno.records.secret_values import masked_plan
from pgdyno.report import numbers
from pgdyno.report.answers.answer import answer, answer_json, shows_peak
from pgdyno.report.answers.comparison import comparison_sentence, comparison_table
from pgdyno.report.answers.noise import noise_grade
from pgdyno.report.answers.tpch_figures import queries_json, query_tables
from pgdyno.report.report_content import Digest, Extras, notes
from pgdyno.report.report_tables import PointRow, Table, parameter_heading, peak_statements, point_rows, table_lines
from pgdyno.report.sections.comparison import settling
from pgdyno.report.sections.function_shares import function_tables, profile_lines
from pgdyno.report.sections.key_figures import noise_number, peak_numbers
from pgdyno.report.sections.likeness import MOST_COMPARED, load_lines, own_loads, short_table, waits_table
from pgdyno.report.sections.statement_tables import plan_tables
from pgdyno.report.sections.validity import rule_name
from pgdyno.report.sentences import conditions
from pgdyno.report.terminal.text_drawing import set_cell, wrapped
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, translated
from pgdyno.report.translation import sentence as sentence_of
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
    "tps_counts",
)  # fmt: skip
"""A test compares this list with `docs/reference/csv.md`."""

CLASSES = 10
"""Classes of statements of a load from a capture."""
COLUMNS = 80
"""Width for which Markdown is padded; beyond it, cells are not padded."""
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
    }
    if trial.duet is not None:
        row |= {"duet_partner": trial.duet.partner, "duet_tps_ratio": trial.duet.tps_ratio}
    if trial.likeness is not None:
        row["largest_share_difference"] = trial.likeness.largest_difference
    if summary is not None and summary.replay is not None:
        replay = summary.replay
        row |= {"disagreements": replay.disagreed, "not_started": replay.not_started}
        row["late_p99_ms"] = replay.lateness_ns.p99 / 1e6 if replay.lateness_ns and replay.lateness_ns.p99 else None
    if summary is not None:
        names = ("measured_s", "scheduled", "succeeded", "failed", "skipped", "in_flight", "retried", "retries")
        row |= {name: getattr(summary, name) for name in (*names, "clients_aborted")}
        row["tps"] = summary.rate_tps
        row["tps_counts"] = rate_unit(trial) if row["tps"] is not None else None
        if summary.tpch is not None:
            row |= {name: getattr(summary.tpch, name) for name in ("power", "throughput", "composite")}
        elif summary.latency_ns is not None:
            row |= _latency_ms(summary.latency_ns)
    return row


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
            {
                **({} if note.value is None else message_json(note.value)),
                "message": note.message,
                "points": note.points,
            }
            for note in notes(of)
        ],
        "curves": [_curve(curve) for curve in of.curves],
        "points": [_point(point) for point in of.points],
        "queries": queries_json(of),
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
        else {
            "mean": latency.mean_ns,
            "p50": latency.p50_ns,
            "p90": latency.p90_ns,
            "p95": latency.p95_ns,
            "p99": latency.p99_ns,
            "p999": latency.p999_ns,
            "max": latency.max_ns,
        },
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


def points_markdown(of: Digest) -> str:
    """Return the same for an analysed run."""
    headings = [*map(parameter_heading, of.parameters), *gettext_each(*_FIGURES)]
    table = [headings, *([escaped(cell) for cell in _cells(row)] for row in point_rows(of))]
    named = len(of.parameters)
    for name in _DISPENSABLE:
        if _width(table, 1) <= COLUMNS:
            break
        at = table[0].index(gettext(name), named)
        table = [[*line[:at], *line[at + 1 :]] for line in table]
    pad = " " if _width(table, 3) <= COLUMNS else ""
    # the rule of a column of figures is a dash and a colon
    widths = [max(width, 2) if at >= named else width for at, width in enumerate(_widths(table))]
    lines = [_markdown_row(table[0], widths, named, pad)]
    rules = ["-" * width if at < named else "-" * (width - 1) + ":" for at, width in enumerate(widths)]
    lines += ["|" + "|".join(f"{pad}{rule}{pad}" for rule in rules) + "|"]
    lines += [_markdown_row(line, widths, named, pad) for line in table[1:]]
    return "\n".join(lines) + "\n" + _footnotes(of)


_FIGURES = (
    gettext_noop("clients"),
    "tps",
    "±",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    gettext_noop("max ms"),
    gettext_noop("errors"),
)
_DISPENSABLE = ("max ms", "p50 ms", "p95 ms", "errors")
"""Columns to drop, in this order, if names are long."""


def _widths(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(cell_len(line[at]) for line in table) for at in range(len(table[0]))]


def _width(table: Sequence[Sequence[str]], between: int) -> int:
    widths = _widths(table)
    return sum(widths) + between * len(widths) + 1


def _cells(row: PointRow) -> list[str]:
    return [*row.names, row.clients, row.tps, row.half, row.p50, row.p95, row.p99, row.max, row.errors]


def _markdown_row(cells: Sequence[str], widths: Sequence[int], named: int, pad: str) -> str:
    padded = [
        pad + set_cell(cell, width, right=at >= named) + pad
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "|" + "|".join(padded) + "|"


def escaped(cell: str) -> str:
    """Escape a name so that it can break neither the table nor the page."""
    for character in "\\|<>`*_[]":
        cell = cell.replace(character, "\\" + character)
    return " ".join(cell.split())


def _footnotes(of: Digest) -> str:
    lines = []
    for note in notes(of):
        where = f" ({escaped('; '.join(note.points))})" if note.points else ""
        lines += wrapped(f"- {escaped(note.message)}{where}", COLUMNS, "  ")
    return "\n" + "\n".join(lines) + "\n" if lines else ""


def markdown_of(of: Digest, extras: Extras) -> str:
    """Return verdict, numbers, findings, comparisons, the table of points and its notes."""
    blocks: list[Sequence[str]] = []
    said = answer(of, extras)
    text = escaped(said.text)
    blocks.append(_paragraph(f"**{gettext('NOT VALID:')}** ~~{text}~~" if said.invalid else f"**{text}**"))
    blocks += [_paragraph(sentence_of(escaped(each))) for each in said.details]
    if said.table is not None:
        blocks.append([f"    {line}" for line in table_lines(said.table, COLUMNS - 4)])
    blocks.append(_paragraph(escaped(conditions(of))))
    blocks += _own_load(of, extras)
    told = peak_numbers(of, of.best, extras) if of.best is not None and shows_peak(of, said) else []
    told += [noise_number(noise_grade(of, said.chief))] if of.points else []
    blocks.append([line for each in told for line in _number(each.name, each.figure, each.unit, each.about)])
    blocks.append(list(_findings(extras)))
    for each in extras.comparisons:
        blocks.append(_paragraph(escaped(comparison_sentence(each))))
        if settling(each):
            blocks.append(_paragraph(sentence_of(escaped(settling(each)))))
        table = comparison_table(each, COLUMNS - 4, unicode=True) if each.points else []
        blocks.append([f"    {line}".rstrip() for line in table])
    blocks += _tables(plan_tables(extras.plan_changes))
    blocks += _profiles(extras)
    blocks += _tables(query_tables(of))
    if of.manifest.scale_factor is None:
        blocks.append(points_markdown(of).rstrip("\n").split("\n"))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _own_load(of: Digest, extras: Extras) -> Iterator[Sequence[str]]:
    loads = own_loads(of)
    if loads:
        yield [line for each in load_lines(of) for line in wrapped(f"- {escaped(each)}", COLUMNS, "  ")]
        tables = short_table(loads, COLUMNS - 4, CLASSES), waits_table(loads[:MOST_COMPARED], extras.limits)
        for table in filter(None, tables):
            yield [escaped(table.caption), "", *(f"    {line}" for line in table_lines(table, COLUMNS - 4))]


def _profiles(extras: Extras) -> Iterator[Sequence[str]]:
    yield [line for each in profile_lines(extras.profiles) for line in wrapped(f"- {escaped(each)}", COLUMNS, "  ")]
    yield from _tables(function_tables(extras.profiles))


def _tables(tables: Iterable[Table]) -> Iterator[Sequence[str]]:
    for table in tables:
        yield [*_paragraph(escaped(table.caption)), "", *(f"    {line}" for line in table_lines(table, COLUMNS - 4))]


def _number(name: str, figure: str, unit: str, about: str) -> list[str]:
    text = f"- {name}: {escaped(figure)}{' ' if unit else ''}{unit} ({escaped(about)})"
    return wrapped(text, COLUMNS, "  ")


def _findings(extras: Extras) -> Iterator[str]:
    for each in extras.findings or ():
        if each.checked and each.severity is not Severity.NOTE:
            words = escaped(translated(each.translatable_message))
            text = f"- {gettext(each.severity.value)}: {escaped(rule_name(each.rule))}: {words}"
            yield from wrapped(text, COLUMNS, "  ")


def _paragraph(text: str) -> list[str]:
    return wrapped(text, COLUMNS)
