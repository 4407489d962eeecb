"""The tables of points, parameters and workloads, as text: the same cells on page, terminal and Markdown.

Tables of workloads that count more than transactions: sysbench's sweep, TPC-C's orders per minute.

A row is a trial: percentiles of several are not averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgdyno.analyse.series import heading, text
from pgdyno.analyse.summary import PointSummary, losses_of
from pgdyno.records import StatementCounts, Summary, TpccFigures, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Cell, Table
from pgdyno.report.translation import gettext, gettext_each
from pgdyno.store.trial_tables import StatementRow

PERCENTILES = ("p50, ms", "p95, ms", "p99, ms")


def parameter_heading(name: str) -> str:
    """Return the heading of a parameter; names of the plan are the same in every language."""
    return gettext("target") if name == "target" else heading(name)


def parameter_cells(point: PointSummary, parameters: Sequence[str]) -> tuple[str, ...]:
    """Return the values of `parameters` for `point`. One that the point does not set is `default`; a setting is
    `unchanged`, because the target may have set it; no rate is a closed loop.
    """

    def left_open(name: str) -> str:
        if name == "rate":
            return gettext("closed loop")
        return gettext("unchanged") if name.startswith("settings.") else gettext("default")

    values = [(name, point.series.target if name == "target" else point.point.parameter(name)) for name in parameters]
    return tuple(left_open(name) if value is None else text(value) for name, value in values)


def mark(of: Digest, point: PointSummary) -> str:
    """Return the place of `point` on its curve."""
    curve = next((curve for curve in of.curves if curve.series == point.series), None)
    # in an open loop, the plan sets the throughput
    if curve is None or len(curve.points) < 2 or point.point.rate is not None:
        return ""
    marked = ((gettext("peak"), curve.peak), (gettext("knee"), curve.knee))
    return gettext(", ").join(name for name, at in marked if at is not None and at.summary is point)


def spectrum_table(of: Digest) -> Table:
    """Return latency by percentile for every point, in milliseconds."""
    percentiles = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)
    rows = []
    for point in of.points:
        if point.histogram is not None and point.latency is not None:
            values = [*point.histogram.percentiles_ns(percentiles), point.latency.max_ns]
            rows.append((of.point_name(point), f"{point.histogram.count:,}", *(numbers.ms(value) for value in values)))
    names = tuple(f"{numbers.percentile_name(each)}, ms" for each in percentiles)
    headings = (*gettext_each("point", "transactions"), *names, gettext("max, ms"))
    return Table(gettext("Latency by percentile"), headings, tuple(rows))


def peak_statements(of: Digest) -> list[StatementRow]:
    """Return the statements of the median trial of the highest peak, because percentiles are not averaged."""
    if of.best is None:
        return []
    point = of.best.peak.summary
    by_tps = sorted(zip(point.tps_by_trial, point.finished, strict=True))
    return list(of.run.statements(by_tps[(len(by_tps) - 1) // 2][1]))


def statement_table(of: Digest) -> Table | None:
    """Return `peak_statements` in a table."""
    found = peak_statements(of)
    if of.best is None or not found:
        return None
    point, number = of.best.peak.summary, found[0].trial
    trial = next(trial for trial in of.run.trials if trial.number == number)
    scripts = {each.id: each.name for each in trial.summary.scripts} if trial.summary is not None else {}
    rows = []
    for each in found:
        latencies = (each.latency_mean_ns, each.p50_ns, each.p95_ns, each.p99_ns, each.latency_max_ns)
        each_rows = each.rows / each.executions if each.rows is not None and each.executions else None
        counts = (
            numbers.format_count(each.executions),
            numbers.format_count(each.failures),
            numbers.NOTHING if each_rows is None else numbers.rounded(each_rows),
        )
        name = scripts.get(each.script, str(each.script))
        line = str(each.line) if each.line else ""
        rows.append((name, line, each.text, *counts, *(numbers.ms(latency) for latency in latencies)))
    headings = gettext_each("script", "line", "statement", "executions", "failures", "rows each", "mean, ms")
    caption = gettext(
        "Statements of trial {number}: {point}, the median trial of the peak", number=number, point=of.point_name(point)
    )
    return Table(caption, (*headings, *PERCENTILES, gettext("max, ms")), tuple(rows), 3)


def trial_table(of: Digest) -> Table:
    """Return every trial in order of execution; with its instance and its partner where trials have one."""
    several = any(trial.instance is not None for trial in of.run.trials)
    paired = any(trial.duet is not None for trial in of.run.trials)
    rows = []
    for trial in of.run.trials:
        summary = trial.summary
        rows.append(
            (
                str(trial.number),
                of.trial_name(trial),
                numbers.format_count(trial.point.clients or None),
                str(trial.repeat),
                *([str(trial.instance or 1)] if several else []),
                *([str(trial.duet.partner) if trial.duet is not None else numbers.NOTHING] if paired else []),
                gettext(trial.outcome.value),
                *(_query_figures(summary) if of.manifest.scale_factor is not None else _figures(summary)),
                numbers.format_count(losses_of([summary]).errors if summary is not None else None),
                numbers.format_count(summary.retries if summary is not None else None),
            )
        )
    names = [*([gettext("instance")] if several else []), *([gettext("duet with")] if paired else [])]
    headings = (*gettext_each("trial", "series", "clients", "repeat"), *names, gettext("outcome"))
    figures: tuple[str, ...] = ("tps", "p50, ms", "p99, ms", gettext("max, ms"))
    if of.manifest.scale_factor is not None:
        figures = gettext_each("power", "throughput", "composite", "measured, s")
    headings = (*headings, *figures, *gettext_each("errors", "retries"))
    return Table(gettext("Trials in their order"), headings, tuple(rows), 2)


def _figures(summary: Summary | None) -> Iterable[str]:
    yield numbers.rounded(summary.tps) if summary is not None else numbers.NOTHING
    latency = summary.latency_ns if summary is not None else None
    for figure in (latency.p50, latency.p99, latency.max) if latency is not None else (None,) * 3:
        yield numbers.ms(figure)


def _query_figures(summary: Summary | None) -> Iterable[str]:
    tpch = summary.tpch if summary is not None else None
    figures = (tpch.power, tpch.throughput, tpch.composite) if tpch is not None else (None,) * 3
    for figure in (*figures, summary.measured_s if summary is not None else None):
        yield numbers.rounded(figure) if figure is not None else numbers.NOTHING


SWEEP_HEADINGS = ("thc", "elaptime", "reads", "writes", "others", "tps", "qps", "errs", "min", "avg", "max", "p95")
"""As in published sweeps of sysbench: threads, seconds, counts, rates, milliseconds."""


def sweep_table(of: Digest) -> Table | None:
    """Return trials of sysbench's scripts and workloads, by series and clients; None if there are none."""
    counted = [trial for trial in of.run.trials if trial.summary is not None and trial.summary.statements is not None]
    rows = []
    for trial in _in_order(of, counted):
        if trial.summary is not None and trial.summary.statements is not None:
            cells = _sweep_cells(trial, trial.summary, trial.summary.statements)
            rows.append((*_names(of, trial), *cells))
    headings = (*_name_headings(of), *SWEEP_HEADINGS)
    caption = gettext("sysbench's figures by trial; latencies in milliseconds")
    return Table(caption, headings, tuple(rows), len(headings) - len(SWEEP_HEADINGS)) if rows else None


def _sweep_cells(trial: TrialRecord, summary: Summary, counts: StatementCounts) -> tuple[str, ...]:
    seconds, latency = summary.measured_s, summary.latency_ns
    figures = (latency.min, latency.mean, latency.max, latency.p95) if latency is not None else (None,) * 4
    return (
        str(trial.point.clients or numbers.NOTHING),
        f"{seconds:.0f}" if seconds is not None else numbers.NOTHING,
        *(str(count) for count in (counts.reads, counts.writes, counts.others)),
        f"{summary.tps:.2f}",
        f"{counts.queries / seconds:.2f}" if seconds else numbers.NOTHING,
        str(counts.ignored_errors + (summary.failed or 0)),
        *(f"{figure / 1e6:.2f}" if figure is not None else numbers.NOTHING for figure in figures),
    )


def tpcc_table(of: Digest) -> Table | None:
    """Return orders and transactions per minute, and 90th percentiles with the standard's limits; None without
    TPC-C.
    """
    rows: list[tuple[str, ...]] = []
    headings: tuple[str, ...] = ()
    for trial in _in_order(of, of.run.trials):
        figures = trial.summary.tpcc if trial.summary is not None else None
        if figures is not None:
            names = gettext_each("series", "clients", "trial")
            rates = gettext_each("NOPM, server", "NOPM, driver", "TPM, server", "TPM, driver")
            limits = tuple(f"{one.name} (≤ {one.limit_s:g} s)" for one in figures.types)
            headings = (*names, *rates, *limits)
            name = of.trial_name(trial)
            clients = numbers.format_count(trial.point.clients or None)
            rows.append((name, clients, str(trial.number), *_tpcc_cells(figures)))
    caption = gettext(
        "Derived from TPC-C: new orders and transactions a minute; 90th percentile of each type, in ms, with its limit"
    )
    return Table(caption, headings, tuple(rows)) if rows else None


def _tpcc_cells(figures: TpccFigures) -> Iterable[str]:
    for rate in (figures.server_nopm, figures.nopm, figures.server_tpm, figures.tpm):
        yield numbers.NOTHING if rate is None else f"{rate:,.0f}"
    for one in figures.types:
        is_above = one.is_within is False
        yield Cell(numbers.ms(one.p90_ns) + (gettext(" ABOVE") if is_above else ""), "amber" if is_above else "")


def _in_order(of: Digest, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    places = {name: at for at, name in enumerate(dict.fromkeys(of.trial_name(trial) for trial in of.run.trials))}
    return sorted(trials, key=lambda trial: (places[of.trial_name(trial)], trial.point.clients, trial.repeat))


def _name_headings(of: Digest) -> tuple[str, ...]:
    several = len({of.trial_name(trial) for trial in of.run.trials}) > 1
    return (gettext("series"),) if several else ()


def _names(of: Digest, trial: TrialRecord) -> tuple[str, ...]:
    return (of.trial_name(trial),) if _name_headings(of) else ()
