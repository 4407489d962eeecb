"""The share of each of several generators in the load."""

from __future__ import annotations

from pgdyno.records import GeneratorHost
from pgdyno.report import numbers
from pgdyno.report.digest import Digest
from pgdyno.report.sections.four import median_trial
from pgdyno.report.tables import Table
from pgdyno.report.texts import gettext, gettext_each


def generator_table(of: Digest) -> Table | None:
    """Return the generators of the median trial of the highest peak; None if there was only one."""
    if of.best is None:
        return None
    trial = median_trial(of, of.best.peak.summary)
    hosts = trial.generator.hosts if trial.generator is not None else []
    headings = gettext_each(
        "generator",
        "host",
        "clients",
        "tps",
        "CPU, s",
        "busiest worker, %",
        "ceiling, tps",
        "start delay, ms",
        "clock ahead, ms",
        "report delay, ms",
    )
    caption = gettext(
        "Generators of trial {number}: CPU is the engine's; the ceiling is against a null server; a clock is "
        "accurate to half of the round trip",
        number=trial.number,
    )
    return Table(caption, headings, tuple(_cells(each) for each in hosts), 2) if hosts else None


def _cells(of: GeneratorHost) -> tuple[str, ...]:
    share = None if of.busiest_cpu_share is None else 100 * of.busiest_cpu_share
    return (
        of.name,
        of.host,
        numbers.NOTHING if of.clients is None else f"{of.clients:,}",
        _rounded(of.tps, 3),
        _rounded(None if of.cpu_us is None else sum(of.cpu_us.values()) / 1e6),
        _rounded(share),
        _rounded(of.ceiling_tps, 3),
        _rounded(None if of.start_late_us is None else of.start_late_us / 1e3),
        f"{_rounded(of.clock_ahead_us / 1e3)} ± {_rounded(of.clock_round_trip_us / 2e3)}",
        _rounded(of.heard_late_us / 1e3),
    )


def _rounded(number: float | None, digits: int = 2) -> str:
    return numbers.NOTHING if number is None else numbers.rounded(number, digits)
