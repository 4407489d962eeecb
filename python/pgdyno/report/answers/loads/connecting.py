"""Connections of loads that connect for each transaction: how long the parts took, and what was refused."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from pgdyno.records import ConnectFigures, Latency, Summary, TrialRecord
from pgdyno.records.measured import MOST_CHARACTERS
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.report_tables import trials_in_order
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, gettext_each

MOST_LINES = 4
"""Points whose connections an answer describes."""


def connect_lines(of: Digest) -> Iterator[str]:
    """Yield for each point its time to connect, each figure the mean of the trials there, and what they refused."""
    for point in of.points[:MOST_LINES]:
        trials = [trial for trial in _connecting_trials(of) if trial.number in point.finished]
        if not trials:
            continue
        name = f"{of.point_name(point)}: " if len(of.points) > 1 else ""
        summaries = [trial.summary for trial in trials if trial.summary is not None]
        connects = [each.connect for each in summaries if each.connect is not None]
        totals = [each.total for each in connects if each.total is not None]
        if totals:
            means = {
                part: _mean([dict(_parts(each))[part] for each in connects], "mean") for part, _ in _parts(connects[0])
            }
            yield name + gettext(
                "time to connect: p50 {p50} ms, p99 {p99} ms; on average {parts} ms",
                p50=numbers.ms(_mean(totals, "p50")),
                p99=numbers.ms(_mean(totals, "p99")),
                parts=enumeration([f"{part} {numbers.ms(mean)}" for part, mean in means.items() if mean is not None]),
            )
        refused = sum(each.refused for each in summaries)
        if refused:
            yield name + gettext(
                "refused: {refused} of {due} ({reason}); latencies are those of the others",
                refused=f"{refused:,}",
                due=f"{sum(each.due for each in summaries):,}",
                reason=_chief_reason(summaries),
            )


def connect_table(of: Digest) -> Table | None:
    """Return a row per trial with its connections; None if no load connects for each transaction."""
    rows = []
    for trial in _connecting_trials(of):
        summary = trial.summary
        assert summary is not None
        assert summary.connect is not None
        figures, total = summary.connect, summary.connect.total
        ends = (total.p50, total.p99, total.max) if total is not None else (None,) * 3
        means = [None if part is None else part.mean for _, part in _parts(figures)]
        times = map(numbers.ms, (*ends, *means))
        rows.append((of.trial_name(trial), str(trial.number), f"{figures.count:,}", f"{summary.refused:,}", *times))
    headings = (*gettext_each("series", "trial", "connections", "refusals"), "p50", "p99", gettext("max"))
    names = [name for name, _ in _parts(ConnectFigures.model_construct())]
    caption = gettext("Time to connect, and means of its parts, ms")
    return Table(caption, (*headings, *names), tuple(rows)) if rows else None


def _connecting_trials(of: Digest) -> list[TrialRecord]:
    trials = trials_in_order(of, of.run.trials)
    return [trial for trial in trials if trial.summary is not None and trial.summary.connect is not None]


def _parts(figures: ConnectFigures) -> list[tuple[str, Latency | None]]:
    names = {
        "socket": "socket",
        "tls": "TLS",
        **dict(zip(("authentication", "backend_start"), _long_names(), strict=True)),
    }
    return [(name, getattr(figures, field, None)) for field, name in names.items()]


def _mean(of: Sequence[Latency | None], field: str) -> float | None:
    known = [getattr(each, field) for each in of if each is not None and getattr(each, field) is not None]
    return fmean(known) if known else None


def _long_names() -> tuple[str, ...]:
    return gettext_each("authentication", "backend start")


def _chief_reason(summaries: list[Summary]) -> str:
    reasons: Counter[str] = Counter()
    for summary in summaries:
        for error in summary.errors:
            if error.refused:
                reasons[error.message[:MOST_CHARACTERS]] += error.count
    return enumeration([reason for reason, _ in reasons.most_common(2)])
