"""sysbench's sweep: a row is a trial, because percentiles of several are not averaged."""

from pgdyno.records import StatementCounts, Summary, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.answers.workload_figures import WorkloadFigures
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import name_headings, trial_names, trials_in_order
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext

SWEEP_HEADINGS = ("thc", "elaptime", "reads", "writes", "others", "tps", "qps", "errs", "min", "avg", "max", "p95")
"""As in published sweeps of sysbench: threads, seconds, counts, rates, milliseconds."""


def sweep_table(of: Digest) -> Table | None:
    """Return trials of sysbench's scripts and workloads, by series and clients; None if there are none."""
    counted = [trial for trial in of.run.trials if trial.summary is not None and trial.summary.statements is not None]
    rows = []
    for trial in trials_in_order(of, counted):
        if trial.summary is not None and trial.summary.statements is not None:
            cells = _sweep_cells(trial, trial.summary, trial.summary.statements)
            rows.append((*trial_names(of, trial), *cells))
    headings = (*name_headings(of), *SWEEP_HEADINGS)
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


FIGURES = WorkloadFigures(sweep_table, lambda: gettext("sysbench's figures"), layout="sysbench")
