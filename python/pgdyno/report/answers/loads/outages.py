"""Outages of repeated trials: how long clients were not served, what was lost, and reads that went back in time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pgdyno.records import EventRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, ngettext

FEWEST = 2
"""Trials whose outages are a distribution."""


@dataclass(frozen=True, slots=True)
class Outages:
    """Those after one event of the plan, in the trials of one arm."""

    arm: str
    event: str
    trials: Sequence[TrialRecord]
    seconds: Sequence[float]
    """Longest time without a successful transaction, by trial, in ascending order; infinite if none succeeded again."""

    def percentile(self, share: float) -> float:
        """Return the nearest-rank percentile, in seconds."""
        return self.seconds[max(0, math.ceil(share * len(self.seconds)) - 1)]


def outages_of(of: Digest) -> list[Outages]:
    """Return the outages of each arm with several trials."""
    found: dict[tuple[str, int, str], list[tuple[TrialRecord, float]]] = {}
    for trial in of.run.trials:
        for event in trial.events if trial.summary is not None else ():
            if event.effect is not None and event.effect.connections_lost:
                found.setdefault((of.trial_name(trial), event.number, event.do), []).append((trial, _seconds(event)))
    return [
        Outages(arm, do, [trial for trial, _ in each], sorted(seconds for _, seconds in each))
        for (arm, _, do), each in found.items()
        if len(each) >= FEWEST
    ]


def _seconds(event: EventRecord) -> float:
    effect = event.effect
    assert effect is not None
    is_open = effect.nobody_served_s > 0 and effect.first_success_s is None
    return math.inf if is_open else effect.nobody_served_s


def outage_lines(outages: Sequence[Outages]) -> Iterator[str]:
    """Return a sentence for each arm and event."""
    arms = {each.arm for each in outages}
    for each in outages:
        parts = [
            gettext(
                "{event}: no client was served for {p50} (median of {count} trials), {p99} (p99), {longest} at most",
                event=f"{each.event}, {each.arm}" if len(arms) > 1 else each.event,
                p50=_words(each.percentile(0.5)),
                p99=_words(each.percentile(0.99)),
                longest=_words(each.seconds[-1]),
                count=len(each.seconds),
            ),
            *_ledger_words(each.trials),
            *_reads_words(each.trials),
        ]
        yield gettext("; ").join(parts)


def _words(seconds: float) -> str:
    return f"{numbers.round_text(seconds)} s" if math.isfinite(seconds) else gettext("the rest of the trial")


def _ledger_words(trials: Sequence[TrialRecord]) -> Iterator[str]:
    ledgers = [trial.ledger for trial in trials if trial.ledger is not None]
    if not ledgers:
        return
    missing, acknowledged = sum(each.missing for each in ledgers), sum(each.acknowledged for each in ledgers)
    if missing:
        yield ngettext(
            "{missing} of {acknowledged} acknowledged commits are missing, in {count} trial",
            "{missing} of {acknowledged} acknowledged commits are missing, in {count} trials",
            sum(each.missing > 0 for each in ledgers),
            missing=f"{missing:,}",
            acknowledged=f"{acknowledged:,}",
        )
    else:
        yield gettext("none of {acknowledged} acknowledged commits is missing", acknowledged=f"{acknowledged:,}")


def _reads_words(trials: Sequence[TrialRecord]) -> Iterator[str]:
    orders = [trial.read_order for trial in trials if trial.read_order is not None]
    reads, back = sum(each.reads for each in orders), sum(each.went_back for each in orders)
    if back:
        yield gettext(
            "{back} of {reads} reads of all servers in turn went back in time, by {seconds} at most",
            back=f"{back:,}",
            reads=f"{reads:,}",
            seconds=_words(max(each.furthest_s for each in orders)),
        )
    elif reads:
        yield gettext("none of {reads} reads of all servers in turn went back in time", reads=f"{reads:,}")


def outage_table(outages: Sequence[Outages]) -> Table | None:
    """Return a row for each arm and event; None without repeated outages."""
    rows = [
        (
            each.arm,
            each.event,
            str(len(each.seconds)),
            *(_figure(each.percentile(share)) for share in (0.5, 0.99, 1.0)),
            *_counts(each.trials),
        )
        for each in outages
    ]
    if not rows:
        return None
    headings = (
        *gettext_each("series", "event", "trials"),
        "p50, s",
        "p99, s",
        *gettext_each("longest, s", "missing commits", "unknown commits", "reads that went back"),
    )
    return Table(gettext("Outages: how long no client was served"), headings, tuple(rows), 2)


def _figure(seconds: float) -> str:
    return numbers.round_text(seconds) if math.isfinite(seconds) else gettext("not back")


def _counts(trials: Sequence[TrialRecord]) -> list[str]:
    ledgers = [trial.ledger for trial in trials if trial.ledger is not None]
    orders = [trial.read_order for trial in trials if trial.read_order is not None]
    return [
        f"{sum(each.missing for each in ledgers):,}" if ledgers else numbers.NOTHING,
        f"{sum(each.unknown for each in ledgers):,}" if ledgers else numbers.NOTHING,
        f"{sum(each.went_back for each in orders):,}" if orders else numbers.NOTHING,
    ]


def outages_json(outages: Sequence[Outages]) -> list[dict[str, Any]]:
    """Return the same figures; `docs/reference/analysis.md` describes the keys."""
    return [
        {
            "arm": each.arm,
            "do": each.event,
            "trials": [trial.number for trial in each.trials],
            "seconds": [seconds if math.isfinite(seconds) else None for seconds in each.seconds],
            "missing": sum(trial.ledger.missing for trial in each.trials if trial.ledger is not None),
            "reads": sum(trial.read_order.reads for trial in each.trials if trial.read_order is not None),
            "went_back": sum(trial.read_order.went_back for trial in each.trials if trial.read_order is not None),
        }
        for each in outages
    ]
