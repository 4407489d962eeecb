"""Throughput and latency around the events of a run's trials: a table, JSON, and the events in a phrase."""

import statistics
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pgdyno.analyse.over_time.event_parts import EventPart
from pgdyno.analyse.over_time.impact import median_of_known
from pgdyno.records import EventRecord, TrialRecord
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.table import Table
from pgdyno.report.translation import enumeration, gettext, gettext_each, gettext_noop

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
            _name(each.event),
            gettext(_PARTS[each.part]),
            numbers.range_text(f"{each.from_s:.0f}", f"{each.to_s:.0f}"),
            *_cells([each]),
        )
        for trial in trials[:MOST_TRIALS]
        for each in of.event_parts(trial)
    ]
    if not rows:
        return None
    caption = gettext("Around each event; seconds from the start of measuring")
    if len(trials) > MOST_TRIALS:
        caption = gettext("{title}. The first trials ({count})", title=caption, count=MOST_TRIALS)
    return Table(caption, (*gettext_each("trial", "series", "event", "part", "seconds"), *_headings()), tuple(rows), 4)


def median_table(of: Digest) -> Table:
    """Return a row for each part of the first event of each series: medians over its trials."""
    parts: dict[tuple[str, str], list[EventPart]] = {}
    for trial in _with_events(of):
        for each in of.event_parts(trial):
            if each.event.number == 1:
                parts.setdefault((of.trial_name(trial), each.part), []).append(each)
    order = {name: at for at, name in enumerate(_PARTS)}
    rows = [
        (name, gettext(_PARTS[part]), f"{len(each):,}", *_cells(each))
        for (name, part), each in sorted(parts.items(), key=lambda pair: (pair[0][0], order[pair[0][1]]))
    ]
    caption = gettext("Around the operation: medians over trials, and the wait of the longest stall")
    return Table(caption, (*gettext_each("series", "part", "trials"), *_headings()), tuple(rows), 2)


def _headings() -> tuple[str, ...]:
    of_part = gettext_each("errors", "longest stall, ms", "WAL, MB", "paging, MB")
    return ("tps", "p50, ms", "p99, ms", *of_part)


def _cells(parts: Sequence[EventPart]) -> tuple[str, ...]:
    p50_ns, p99_ns = (
        median_of_known(each) for each in zip(*((part.p50_ns, part.p99_ns) for part in parts), strict=True)
    )
    stall_s = statistics.median(part.stall_s for part in parts)
    wait = max(parts, key=lambda part: part.stall_s).stall_wait if stall_s else None
    return (
        numbers.round_text(statistics.median(part.tps for part in parts)),
        numbers.ms(p50_ns),
        numbers.ms(p99_ns),
        f"{statistics.median(part.failed for part in parts):,.10g}",
        numbers.round_text(1000 * stall_s) + (f" {wait}" if wait else ""),
        numbers.round_or_dash(median_of_known([part.wal_bytes for part in parts]), 1e6),
        numbers.round_or_dash(median_of_known([part.paging_bytes for part in parts]), 1e6),
    )


def events_json(of: Digest) -> list[dict[str, Any]]:
    """Return the same figures; `docs/reference/analysis.md` describes the keys."""
    trials = _with_events(of)
    return [{"trial": trial.number, **part_json(each)} for trial in trials for each in of.event_parts(trial)]


def part_json(of: EventPart) -> dict[str, Any]:
    """Return one part of an event."""
    figures = {each.name: getattr(of, each.name) for each in fields(of) if each.name != "event"}
    return {"event": of.event.number, "do": of.event.do, **figures}


def named_events(of: Digest) -> str:
    """Return `checkpoint at 10 s and kill at 20 s`; empty without events."""
    trial = next(iter(_with_events(of)), None)
    return "" if trial is None else enumeration([_name(each) for each in trial.events])


def _name(event: EventRecord) -> str:
    return gettext("{event} at {seconds} s", event=event.do, seconds=f"{event.at_s:g}")


def _with_events(of: Digest) -> list[TrialRecord]:
    return [trial for trial in of.run.trials if trial.events and trial.summary is not None]
