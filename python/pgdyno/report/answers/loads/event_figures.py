"""Throughput and latency around the events of a run's trials: a table, JSON, and the events in a phrase."""

from __future__ import annotations

from typing import Any

from pgdyno.records import EventRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, gettext_noop, listed

_PARTS = {
    "before": gettext_noop("before"),
    "during": gettext_noop("during"),
    "recovering": gettext_noop("recovering"),
    "after": gettext_noop("after"),
}
MOST_TRIALS = 12
"""Trials in the table; JSON has all."""


def event_table(of: Digest) -> Table | None:
    """Return a row for the seconds before, during and after each event; None without events."""
    trials = _with_events(of)
    rows = [
        (
            str(trial.number),
            of.trial_name(trial),
            _name(trial, each.event),
            gettext(_PARTS[each.part]),
            numbers.between(f"{each.from_s:.0f}", f"{each.to_s:.0f}"),
            numbers.rounded(each.tps),
            numbers.ms(each.p50_ns),
            numbers.ms(each.p99_ns),
            f"{each.failed:,}",
            numbers.rounded(1000 * each.stall_s) + (f" {each.stall_wait}" if each.stall_wait else ""),
            _megabytes(each.wal_bytes),
            _megabytes(each.paging_bytes),
        )
        for trial in trials[:MOST_TRIALS]
        for each in of.event_parts(trial)
    ]
    if not rows:
        return None
    caption = gettext("Around each event; seconds from the start of the trial, its warm-up included, as in timelines")
    if len(trials) > MOST_TRIALS:
        caption = gettext("{title}. The first trials ({count})", title=caption, count=MOST_TRIALS)
    headings = (
        *gettext_each("trial", "series", "event", "part", "seconds"),
        *("tps", "p50, ms", "p99, ms"),
        *gettext_each("errors", "longest stall, ms", "WAL, MB", "paging, MB"),
    )
    return Table(caption, headings, tuple(rows), 4)


def events_json(of: Digest) -> list[dict[str, Any]]:
    """Return the same figures; `docs/reference/analysis.md` describes the keys."""
    return [
        {
            "trial": trial.number,
            "event": each.event.number,
            "do": each.event.do,
            "part": each.part,
            "from_s": each.from_s,
            "to_s": each.to_s,
            "tps": each.tps,
            "p50_ns": each.p50_ns,
            "p99_ns": each.p99_ns,
            "failed": each.failed,
            "stall_s": each.stall_s,
            "stall_wait": each.stall_wait,
            "wal_bytes": each.wal_bytes,
            "paging_bytes": each.paging_bytes,
        }
        for trial in _with_events(of)
        for each in of.event_parts(trial)
    ]


def named_events(of: Digest) -> str:
    """Return `checkpoint at 10 s and kill at 20 s`, on the clock of timelines; empty without events."""
    trial = next(iter(_with_events(of)), None)
    return "" if trial is None else listed([_name(trial, each) for each in trial.events])


def _megabytes(size: float | None) -> str:
    return numbers.NOTHING if size is None else numbers.rounded(size / 1e6)


def _name(trial: TrialRecord, event: EventRecord) -> str:
    return gettext("{event} at {seconds} s", event=event.do, seconds=f"{trial.warmup_s + event.at_s:g}")


def _with_events(of: Digest) -> list[TrialRecord]:
    return [trial for trial in of.run.trials if trial.events and trial.summary is not None]
