"""What an operation cost: one sentence, its details, and JSON."""

import math
import re
from typing import Any

from pgdyno.analyse.over_time.impact import Change, Impact, impact_of
from pgdyno.records import EventRecord
from pgdyno.report import numbers
from pgdyno.report.report_content import Digest
from pgdyno.report.translation import gettext, ngettext

_KEYWORD = re.compile(
    "ALTER|ANALYZE|CLUSTER|CONCURRENTLY|CREATE|DATABASE|DROP|FREEZE|FULL|INDEX|MATERIALIZED|REFRESH|REINDEX|SYSTEM"
    "|TABLE|TRUNCATE|UNIQUE|VACUUM|VIEW"
)
LONGEST_NAME = 40


def find_impact(of: Digest) -> Impact | None:
    """Return the cost of the run's operation; None if the plan has no control, or no pair finished."""
    if not any(event.is_control for trial in of.run.trials for event in trial.events[:1]):
        return None
    return impact_of(of.run.trials, {trial.number: of.event_parts(trial) for trial in of.run.trials})


def operation_name(event: EventRecord) -> str:
    """Return `CREATE INDEX CONCURRENTLY` for a statement that begins so, else its text or its kind."""
    if event.command is None:
        return {"backup": "pg_basebackup", "vacuum": "VACUUM"}.get(event.do, event.do)
    words = re.sub(r"\(.*?\)", " ", event.command, count=1).split()
    leading = [word.upper().rstrip(";") for word in words]
    known = next((at for at, word in enumerate(leading) if not _KEYWORD.fullmatch(word)), len(leading))
    if event.do == "sql" and known:
        return " ".join(leading[:known])
    text = " ".join(event.command.split())
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def impact_text(found: Impact) -> str:
    """Return `CREATE INDEX takes 41 s under load (33 s without); p99 6 to 19 ms meanwhile; …; n = 5`."""
    takes = gettext(
        "{operation} takes {seconds} under load", operation=operation_name(found.event), seconds=_seconds(found.seconds)
    )
    if found.alone_s is not None:
        takes += gettext(" ({seconds} without)", seconds=_seconds(found.alone_s))
    parts = [takes]
    if found.chief is not None:
        parts.append(_change_text(found.chief))
    if found.failed:
        parts.append(ngettext("{count:,} transaction failed", "{count:,} transactions failed", found.failed))
    if found.stall_is_shown:
        wait = f" ({found.stall_wait})" if found.stall_wait else ""
        parts.append(gettext("longest stall {seconds}", seconds=_seconds(found.stall_s)) + wait)
    else:
        parts.append(gettext("no longer stall than without it"))
    parts += [_recovery_text(found), f"n = {found.pairs}"]
    return gettext("; ").join(parts)


def impact_details(found: Impact) -> list[str]:
    """Return the intervals of the changes, and what the operation wrote."""
    changes = [each for each in (found.chief, *found.others) if each is not None]
    lines = [_interval_text(each) for each in changes if each.interval is not None]
    if found.pairs < 2:
        lines.append(gettext("more than one repeat is needed for an interval"))
    sizes = {"WAL": found.wal_bytes, gettext("paging"): found.paging_bytes}
    told = [f"{name} {numbers.round_text(size / 1e6)} MB" for name, size in sizes.items() if size is not None]
    return lines + ([gettext("while it ran: {sizes}", sizes=gettext(", ").join(told))] if told else [])


def impact_json(of: Digest) -> dict[str, Any] | None:
    """Return the same; `docs/reference/analysis.md` describes the keys."""
    found = find_impact(of)
    if found is None:
        return None
    changes = [each for each in (found.chief, *found.others) if each is not None]
    return {
        "text": impact_text(found),
        "operation": operation_name(found.event),
        "do": found.event.do,
        "command": found.event.command,
        "pairs": found.pairs,
        "seconds": found.seconds,
        "alone_s": found.alone_s,
        "changes": [
            {
                "metric": each.name,
                "before": each.before,
                "during": each.during,
                "ratio": None if each.interval is None else _ratios(each),
            }
            for each in changes
        ],
        "change_shown": found.chief is not None and found.chief.is_shown,
        "stall_s": found.stall_s,
        "stall_wait": found.stall_wait,
        "stall_shown": found.stall_is_shown,
        "as_before_s": found.as_before_s,
        "failed": found.failed,
        "wal_bytes": found.wal_bytes,
        "paging_bytes": found.paging_bytes,
    }


def _ratios(change: Change) -> dict[str, float]:
    assert change.interval is not None
    each = change.interval
    return {"mean": math.exp(each.mean), "low": math.exp(each.low), "high": math.exp(each.high)}


def _change_text(change: Change) -> str:
    unit = "tps" if change.name == "tps" else "ms"
    values = numbers.range_text(_figure(change, change.before), _figure(change, change.during))
    told = {"metric": _metric(change), "values": values, "unit": unit}
    if change.is_shown:
        return gettext("{metric} {values} {unit} meanwhile", **told)
    if change.interval is None:
        return gettext("{metric} {values} {unit} meanwhile, >1 repeats needed", **told)
    return gettext("{metric} not shown to change ({values} {unit})", **told)


def _metric(change: Change) -> str:
    return gettext("throughput") if change.name == "tps" else change.name


def _figure(change: Change, value: float) -> str:
    return numbers.round_text(value) if change.name == "tps" else numbers.ms(value)


def _interval_text(change: Change) -> str:
    ratio = {name: numbers.round_text(value) for name, value in _ratios(change).items()}
    return gettext(
        "{metric} during / before is {mean} times that without the operation (95 % interval {low} to {high})",
        metric=_metric(change),
        **ratio,
    )


def _recovery_text(found: Impact) -> str:
    if found.as_before_s is None:
        return gettext("not as before by the end of the load")
    if found.as_before_s < 1:
        return gettext("as before at once")
    return gettext("as before after {seconds}", seconds=_seconds(found.as_before_s))


def _seconds(seconds: float) -> str:
    return f"{numbers.round_text(seconds, 2)} s"
