"""Tables of workloads that count more than transactions: sysbench's sweep, TPC-C's orders per minute.

A row is a trial: percentiles of several are not averaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from pgdyno.records import StatementCounts, Summary, TpccFigures, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.digest import Digest
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext, gettext_each
from pgdyno.report.wrapping import set_cell, wrapped

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
        str(trial.point.clients),
        f"{seconds:.0f}" if seconds is not None else numbers.NOTHING,
        *(str(count) for count in (counts.reads, counts.writes, counts.others)),
        f"{summary.tps:.2f}",
        f"{counts.queries / seconds:.2f}" if seconds else numbers.NOTHING,
        str(counts.ignored_errors + summary.failed),
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
            rows.append((name, f"{trial.point.clients:,}", str(trial.number), *_tpcc_cells(figures)))
    caption = gettext(
        "TPC-C: new orders and transactions a minute, and the 90th percentile of each type, in ms, with its limit"
    )
    return Table(caption, headings, tuple(rows)) if rows else None


def _tpcc_cells(figures: TpccFigures) -> Iterable[str]:
    for rate in (figures.server_nopm, figures.nopm, figures.server_tpm, figures.tpm):
        yield numbers.NOTHING if rate is None else f"{rate:,.0f}"
    for one in figures.types:
        yield numbers.ms(one.p90_ns) + (gettext(" ABOVE") if one.is_within is False else "")


def _in_order(of: Digest, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Sort by series in order of occurrence, then by clients."""
    places = {name: at for at, name in enumerate(dict.fromkeys(of.trial_name(trial) for trial in of.run.trials))}
    return sorted(trials, key=lambda trial: (places[of.trial_name(trial)], trial.point.clients, trial.repeat))


def _name_headings(of: Digest) -> tuple[str, ...]:
    several = len({of.trial_name(trial) for trial in of.run.trials}) > 1
    return (gettext("series"),) if several else ()


def _names(of: Digest, trial: TrialRecord) -> tuple[str, ...]:
    return (of.trial_name(trial),) if _name_headings(of) else ()


def text_lines(table: Table) -> list[str]:
    """Return the table as text: names to the left, figures to the right, in columns as wide as they need."""
    rows = (table.headings, *table.rows)
    widths = [max(cell_len(row[at]) for row in rows) for at in range(len(table.headings))]
    return ["  ".join(_padded(row, widths, table.text_columns)).rstrip() for row in rows]


def _padded(row: Sequence[str], widths: Sequence[int], text_columns: int) -> Iterable[str]:
    for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield set_cell(cell, width, right=at >= text_columns)


def sentences(table: Table) -> list[str]:
    """Return a line per row, with the headings in it, for a table that is too wide."""
    pairs = [zip(table.headings, row, strict=True) for row in table.rows]
    return [", ".join(f"{heading} {cell}" for heading, cell in row) for row in pairs]


def table_lines(table: Table, width: int) -> list[str]:
    """Return the table as text of at most `width` columns: its rows, or sentences if these are too wide."""
    rows = text_lines(table)
    if max(cell_len(row) for row in rows) <= width:
        return rows
    return [line for each in sentences(table) for line in wrapped(each, width, "  ")]
