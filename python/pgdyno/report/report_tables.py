"""The tables of points and parameters, as text: the same cells on page, terminal and Markdown."""

from collections.abc import Sequence

from pgdyno.analyse.series import heading, text
from pgdyno.analyse.summary import PointSummary, losses_of
from pgdyno.records import TrialRecord
from pgdyno.report import numbers
from pgdyno.report.answers.workload_figures import figures_of
from pgdyno.report.report_content import Digest, median_trial
from pgdyno.report.table import Table
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
            values = [*point.histogram.percentiles_ns(percentiles), point.latency.max]
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
            numbers.round_or_dash(each_rows),
        )
        name = scripts.get(each.script, str(each.script))
        line = str(each.line) if each.line else ""
        rows.append((name, line, each.text, *counts, *(numbers.ms(latency) for latency in latencies)))
    headings = gettext_each("script", "line", "statement", "executions", "failures", "rows each", "mean, ms")
    caption = gettext(
        "Statements of trial {number}: {point}, the median trial of the peak", number=number, point=of.point_name(point)
    )
    ranks = (3, 3, 0, 1, 2, 0, 1, *(4,) * (len(PERCENTILES) + 1))
    return Table(caption, (*headings, *PERCENTILES, gettext("max, ms")), tuple(rows), 3, ranks)


def script_table(of: Digest) -> Table | None:
    """Return figures by script in the median trial of each point; None if no point has several scripts."""
    rows = []
    for point in of.points:
        summary = median_trial(of, point).summary if point.finished else None
        if summary is None or len(summary.scripts) < 2 or summary.tpch is not None:
            continue
        for each in summary.scripts:
            latency = each.latency_ns
            figures = (latency.mean, latency.p50, latency.p95, latency.p99) if latency is not None else (None,) * 4
            tps = numbers.round_text(each.succeeded / summary.measured_s) if summary.measured_s else numbers.NOTHING
            errors = numbers.format_count(each.failed)
            rows.append((of.point_name(point), each.name, tps, *map(numbers.ms, figures), errors))
    headings = (*gettext_each("point", "script"), "tps", gettext("mean, ms"), *PERCENTILES, gettext("errors"))
    caption = gettext("By script, in the median trial of each point")
    if not rows:
        return None
    table = Table(caption, headings, tuple(rows), 2, (0, 0, 0, 3, 1, 2, 0, 1))
    return table.without({0}) if len({point for point, *_ in rows}) == 1 else table


def trial_table(of: Digest) -> Table:
    """Return every trial in order of execution; with its instance and its partner where trials have one."""
    several = any(trial.instance is not None for trial in of.run.trials)
    paired = any(trial.duet is not None for trial in of.run.trials)
    own = figures_of(of.manifest.workload_kind)
    rows = []
    for trial in of.run.trials:
        summary = trial.summary
        rows.append(
            (
                str(trial.number),
                of.trial_name(trial),
                numbers.format_count(trial.point.clients or None),
                gettext("{repeat} (control)", repeat=trial.repeat) if trial.control else str(trial.repeat),
                *([str(trial.instance or 1)] if several else []),
                *([str(trial.duet.partner) if trial.duet is not None else numbers.NOTHING] if paired else []),
                gettext(trial.outcome.value),
                *own.trial_cells(summary),
                numbers.format_count(losses_of([summary]).errors if summary is not None else None),
                numbers.format_count(summary.retries if summary is not None else None),
            )
        )
    names = [*([gettext("instance")] if several else []), *([gettext("duet with")] if paired else [])]
    headings = (*gettext_each("trial", "series", "clients", "repeat"), *names, gettext("outcome"))
    headings = (*headings, *own.trial_columns(), *gettext_each("errors", "retries"))
    return Table(gettext("Trials in their order"), headings, tuple(rows), 2)


def trials_in_order(of: Digest, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    places = {name: at for at, name in enumerate(dict.fromkeys(of.trial_name(trial) for trial in of.run.trials))}
    return sorted(trials, key=lambda trial: (places[of.trial_name(trial)], trial.point.clients or 0, trial.repeat))


def name_headings(of: Digest) -> tuple[str, ...]:
    several = len({of.trial_name(trial) for trial in of.run.trials}) > 1
    return (gettext("series"),) if several else ()


def trial_names(of: Digest, trial: TrialRecord) -> tuple[str, ...]:
    return (of.trial_name(trial),) if name_headings(of) else ()
