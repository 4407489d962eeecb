"""TPC-C's orders per minute and response times: a row is a trial."""

from collections.abc import Iterable

from pgdyno.records import TpccFigures
from pgdyno.report import numbers
from pgdyno.report.answers.workload_figures import WorkloadFigures
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import trials_in_order
from pgdyno.report.table import Cell, Table
from pgdyno.report.translation import gettext, gettext_each


def tpcc_table(of: Digest) -> Table | None:
    """Return orders and transactions per minute, 90th percentiles with the standard's limits; None without TPC-C."""
    rows: list[tuple[str, ...]] = []
    headings: tuple[str, ...] = ()
    for trial in trials_in_order(of, of.run.trials):
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


FIGURES = WorkloadFigures(tpcc_table, lambda: "TPC-C")
