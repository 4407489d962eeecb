"""The report: one HTML file that asks no other for anything.

Every name and message on it came from outside (a plan, a server) and is escaped; the policy in its
head allows its own style and script by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from pgdyno.analyse.scaling import ScalingCurve
from pgdyno.analyse.series import heading
from pgdyno.analyse.source import RunSource
from pgdyno.records import TargetRecord, TrialRecord
from pgdyno.report import figures, numbers, palette, tables, words
from pgdyno.report.charts.cell import bar, sparkline
from pgdyno.report.digest import Digest, digest, notes
from pgdyno.report.disturbances import disturbance_lines
from pgdyno.report.palette import Theme
from pgdyno.report.plan_toml import plan_toml
from pgdyno.report.preparation import preparation_line
from pgdyno.report.replicas import replica_table
from pgdyno.report.searches import search_lines
from pgdyno.report.tables import Table
from pgdyno.report.workload_tables import sweep_table, tpcc_table
from pgdyno.units import format_bytes

POINTS_NAMED = 6
"""Points that a note names; of more it says how many."""
_KEPT_TOGETHER = re.compile(
    r"(?<=\d) (?=%|(?:clients?|ms|tps|cores?|trials?|workers?)\b)|(?<=\bn) (?==)|(?<=\bn =) (?=\d)"
)
"""Spaces of a heading at which a line must not end: between a figure and its unit."""


@dataclass(frozen=True, slots=True)
class BigNumber:
    """One of the four figures under the headline."""

    name: str
    figure: str
    unit: str
    about: str
    verdict: str = ""
    """CSS class of an amber or red figure."""


def render_html(run: RunSource, location: str) -> str:
    """The page of `run`; `location` is what it calls the run folder."""
    of = digest(run)
    style, script = _style(), _page_file("script.js")
    strips = figures.timeline_figures(of)
    context = {
        "policy": policy(style, script),
        "style": Markup(style),  # noqa: S704 - our own file
        "script": Markup(script),  # noqa: S704 - our own file
        "manifest": of.manifest,
        "name": of.manifest.plan.get("name") or of.manifest.workload,
        "started": of.manifest.started_at.strftime("%Y-%m-%d %H:%M UTC"),
        "headline": words.headline(of),
        "conditions": words.conditions(of),
        "numbers": four_numbers(of, of.curves[0]) if len(of.curves) == 1 else [],
        "peaks": _peaks(of) if len(of.curves) > 1 else None,
        "notes": notes(of),
        "trials": run.trials,
        "unfinished": of.unfinished,
        "failed_table": failed_table(of),
        "orders": tpcc_table(of),
        "sweep": sweep_table(of),
        "parameters": [heading(name) for name in of.parameters],
        "rows": _rows(of),
        "errors": error_table(of),
        "curves": figures.curves_figure(of),
        "latency": figures.latency_figure(of),
        "legend": [(name, figures.swatch(look)) for name, look in figures.legend(of)],
        "spectrum": figures.spectrum_figure(of),
        "spectrum_table": tables.spectrum_table(of),
        "strips": strips,
        "trial_table": tables.trial_table(of),
        "replica_table": replica_table(run.trials),
        "statements": tables.statement_table(of),
        "description": of.manifest.plan.get("description"),
        "prepared": preparation_line(run.trials),
        "disturbances": [*search_lines(of.manifest), *disturbance_lines(run.trials)],
        "plan": plan_toml(of.manifest.plan),
        "again": "pgdyno plan check plan.toml\npgdyno run plan.toml",
        "host": _host(of),
        "servers": server_table(of.manifest.targets),
        "settings": settings_table(of.manifest.targets),
        "location": location,
        "query": _query(location),
    }
    context["sections"] = _sections(context, strips)
    return _environment().from_string(_page_file("report.html.j2")).render(context)


def policy(style: str, script: str) -> str:
    """Content-Security-Policy of a page with exactly this style and this script."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _page_file(name: str) -> str:
    return files("pgdyno.report").joinpath("page", name).read_text(encoding="utf-8")


def _style() -> str:
    """Colours for both grounds, the charts' rules, then the page's own."""
    light, dark = palette.variables(Theme.LIGHT), palette.variables(Theme.DARK)
    themes = (
        f":root{{{light}color-scheme:light}}\n"
        "@media (prefers-color-scheme:dark) and (not print)"
        f"{{:root:not([data-theme=light]){{{dark}color-scheme:dark}}}}\n"
        f"@media not print{{:root[data-theme=dark]{{{dark}color-scheme:dark}}}}\n"
    )
    return themes + palette.chart_css() + "\n" + _page_file("style.css")


def _environment() -> Environment:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["capfirst"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["where"] = _where
    environment.filters["joined"] = lambda text: _KEPT_TOGETHER.sub("\u00a0", text)
    return environment


def _where(points: Sequence[str]) -> str:
    """Some names, or how many there are."""
    if len(points) <= POINTS_NAMED:
        return "; ".join(points)
    return f"{'; '.join(points[: POINTS_NAMED - 1])} and {len(points) - POINTS_NAMED + 1} more points"


def four_numbers(of: Digest, curve: ScalingCurve) -> list[BigNumber]:
    """What the reader came for: peak, p99 at it, knee, errors."""
    peak, latency = curve.peak, curve.peak.summary.latency
    at = f"at {numbers.count(peak.clients, 'client')}"
    interval = f", ± {numbers.half(peak.tps)}" if peak.tps.half is not None else ", one trial"
    errors = sum(point.losses.errors for point in of.points)
    scheduled = sum(point.scheduled for point in of.points)
    p50 = f", p50 {numbers.ms(latency.p50_ns)}" if latency is not None else ""
    fewest = (
        "peak and knee are one point" if curve.knee is curve.peak else f"{numbers.estimate(curve.knee.tps)} tps there"
    )
    third = BigNumber("knee", f"{curve.knee.clients:,}", "client" if curve.knee.clients == 1 else "clients", fewest)
    if len(curve.points) == 1:
        # one point has no knee: the far end of its latency says more
        p999 = numbers.ms(latency.p999_ns if latency is not None else None)
        largest = f"largest {numbers.ms(latency.max_ns)}" if latency is not None else "nothing succeeded"
        third = BigNumber("p99.9", p999, "ms", largest)
    whose = "peak throughput" if len(curve.points) > 1 else "throughput"
    return [
        BigNumber(whose, numbers.estimate(peak.tps), "tps", at + interval),
        BigNumber(
            "p99 at the peak" if len(curve.points) > 1 else "p99",
            numbers.ms(latency.p99_ns if latency is not None else None),
            "ms",
            at + p50,
        ),
        third,
        BigNumber(
            "errors",
            f"{errors:,}",
            "",
            f"of {numbers.count(scheduled, 'transaction')}",
            "amber" if errors else "",
        ),
    ]


def _peaks(of: Digest) -> Table:
    """The four numbers, a row a series."""
    rows = []
    for curve in of.curves:
        peak, latency = curve.peak, curve.peak.summary.latency
        errors = sum(point.summary.losses.errors for point in curve.points)
        rows.append(
            (
                of.named[curve.series].name,
                of.server_name(curve.series),
                numbers.estimate(peak.tps),
                numbers.half(peak.tps),
                f"{peak.clients:,}",
                numbers.ms(latency.p50_ns if latency is not None else None),
                numbers.ms(latency.p99_ns if latency is not None else None),
                f"{curve.knee.clients:,}",
                f"{errors:,}",
            )
        )
    headings = ("series", "server", "peak, tps", "±", "clients at it", "p50 at it, ms", "p99 at it, ms")
    caption = (
        "Peak and knee of each; ± is half of the 95 % interval. A difference between peaks is no paired comparison"
    )
    return Table(caption, (*headings, "knee, clients", "errors"), tuple(rows), 2)


def _rows(of: Digest) -> list[tuple[tables.PointRow, Markup, Markup]]:
    """Cells of each point, its bar and its sparkline."""
    highest = max((point.tps.high for point in of.points if point.tps is not None), default=0.0)
    rows = []
    for row in tables.point_rows(of):
        look, tps = of.named[row.point.series].look, row.point.tps
        rows.append(
            (row, bar(tps, highest, look) if tps is not None else Markup(""), sparkline(row.point.seconds, look))
        )
    return rows


def failed_table(of: Digest) -> Table:
    """Trials that are no result, and why."""
    rows = []
    for trial in of.unfinished:
        failure = trial.failure
        rows.append(
            (
                str(trial.number),
                of.trial_name(trial),
                _point(trial),
                trial.outcome.value,
                failure.stage.value if failure is not None else numbers.NOTHING,
                (failure.sqlstate if failure is not None else None) or numbers.NOTHING,
                failure.message if failure is not None else "no reason was recorded",
                (failure.hint if failure is not None else None) or "",
            )
        )
    headings = ("trial", "series", "point", "outcome", "stage", "SQLSTATE", "why", "hint")
    return Table("They count for nothing in the figures above", headings, tuple(rows), 8)


def _point(trial: TrialRecord) -> str:
    return f"{numbers.count(trial.point.clients, 'client')}, repeat {trial.repeat}"


def error_table(of: Digest) -> Table | None:
    """Errors that servers sent, by point; None without any."""
    rows = tuple(
        (of.point_name(point), error.sqlstate or numbers.NOTHING, error.message, f"{error.count:,}")
        for point in of.points
        for error in point.errors
    )
    return Table("Errors of finished trials", ("point", "SQLSTATE", "message", "count"), rows, 3) if rows else None


def _host(of: Digest) -> list[tuple[str, str]]:
    host = of.manifest.host
    if host is None:
        return [("Machine", "not known: the run was imported"), ("Tools", f"pgdyno {of.manifest.pgdyno}")]
    return [
        ("Processor", host.cpu_model),
        ("Cores", str(host.cores)),
        ("Memory", format_bytes(host.memory_bytes)),
        ("System", f"{host.os}, {host.architecture}"),
        ("Kernel", host.kernel),
        ("Tools", f"pgdyno {of.manifest.pgdyno}, pgdrive {of.manifest.pgdrive}"),
    ]


def server_table(targets: Sequence[TargetRecord]) -> Table:
    """What each target turned out to be."""
    rows = []
    for target in targets:
        facts = target.facts
        if facts is None:
            rows.append((target.name, target.kind, "never started", *[numbers.NOTHING] * 3))
            continue
        size = numbers.NOTHING if facts.cluster_bytes is None else format_bytes(facts.cluster_bytes)
        checksums = "on" if facts.data_checksums else "off"
        rows.append((target.name, target.kind, facts.version, checksums, size, facts.version_full))
    headings = ("target", "kind", "version", "checksums", "cluster", "as the server says")
    return Table("Servers", headings, tuple(rows), 6)


def settings_table(targets: Sequence[TargetRecord]) -> Table | None:
    """Settings that are not the server's default, a column a target; those that differ between targets first."""
    started = [(target.name, target.facts.settings_changed) for target in targets if target.facts is not None]
    names = sorted({name for _, settings in started for name in settings})
    if not names:
        return None
    values = {name: [settings.get(name, "default") for _, settings in started] for name in names}
    several = len(started) > 1
    differing = {name for name in names if len(set(values[name])) > 1}
    rows = [
        (name, *values[name], *(["differs" if name in differing else ""] if several else []))
        for name in sorted(names, key=lambda name: (name not in differing, name))
    ]
    headings = ("setting", *(name for name, _ in started), *(["between targets"] if several else []))
    return Table("Settings that are not the default", headings, tuple(rows), len(headings))


def _query(location: str) -> str:
    quoted = location.replace("'", "''")
    return (
        "SELECT trial, second, sum(succeeded) AS succeeded\n"
        f"FROM '{quoted}/trials/*/intervals.parquet'\n"
        "GROUP BY ALL ORDER BY ALL;"
    )


def _sections(context: dict[str, object], strips: figures.Strips) -> list[tuple[str, str]]:
    """Links to what this page has."""
    sections = [
        ("points", "Points", bool(context["rows"])),
        ("scaling-h", "Scaling" if context["latency"] else "Throughput", bool(context["curves"] or context["latency"])),
        ("spectrum-h", "Latency by percentile", bool(context["spectrum"])),
        ("time-h", "Second by second", bool(strips.shown or strips.folded)),
        ("statements", "Statements", bool(context["statements"])),
        ("failed", "Failed trials", bool(context["unfinished"])),
        ("plan", "Plan", True),
        ("environment", "Environment", True),
        ("raw", "Raw data", True),
    ]
    return [(at, name) for at, name, there in sections if there]
