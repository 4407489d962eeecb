"""Converts the engine's events of one trial to rows of its tables; docs/reference/events.md describes the events."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import StoreError
from pgdyno.store.tables import TOTAL, EventRow, HistogramRow, IntervalRow, StatementRow

Event = dict[str, Any]

_OF_EVENT = frozenset({"event", "t_us", "client", "script", "command", "sqlstate", "message"})
"""Fields with columns of their own."""
_ELSEWHERE = {"start": frozenset({"scripts"}), "end": frozenset({"scripts", "histogram", "phases", "ledger"})}
"""Fields that the other tables contain."""


@dataclass(slots=True)
class TrialTables:
    """Rows of one trial."""

    intervals: list[IntervalRow] = field(default_factory=list)
    histograms: list[HistogramRow] = field(default_factory=list)
    statements: list[StatementRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)


def ingest(trial: int, events: Iterable[Event]) -> TrialTables:
    """Return the rows of trial number `trial`; a truncated stream yields what it contains.

    Every script has a row in every second, even if none of its transactions ended: a stall is zeros, not a gap. Raises
    StoreError for an event that lacks a required field.
    """
    tables = TrialTables()
    scripts: list[Event] = []
    for event in events:
        kind = event.get("event")
        try:
            if kind == "interval":
                _interval(tables, trial, event, [script["id"] for script in scripts])
                continue
            if kind == "start":
                scripts = event["scripts"]
            elif kind == "end":
                _end(tables, trial, event, scripts)
            tables.events.append(_event(trial, event))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StoreError(
                f"the engine's {kind} event at {event.get('t_us')} us cannot be stored: {error!r}"
            ) from error
    return tables


def _interval(tables: TrialTables, trial: int, event: Event, known: Sequence[int]) -> None:
    by_script: dict[int, Event] = {script: {} for script in known}
    by_script |= {script["script"]: script for script in event["scripts"]}
    cpu_us = sum(worker["cpu_us"] for worker in event["workers"])
    for number, script in by_script.items():
        latency = script.get("latency_ns") or {}
        tables.intervals.append(
            IntervalRow(
                trial=trial,
                second=event["seq"],
                from_us=event["from_us"],
                to_us=event["to_us"],
                phase=event["phase"],
                script=number,
                succeeded=script.get("succeeded", 0),
                failed=script.get("failed", 0),
                skipped=script.get("skipped", 0),
                retried=script.get("retried", 0),
                retries=script.get("retries", 0),
                in_flight=event["in_flight"],
                clients=event["clients"],
                latency_sum_ns=latency.get("sum"),
                latency_min_ns=latency.get("min"),
                p50_ns=latency.get("p50"),
                p95_ns=latency.get("p95"),
                p99_ns=latency.get("p99"),
                p999_ns=latency.get("p999"),
                latency_max_ns=latency.get("max"),
                worker_cpu_us=cpu_us,
                phase_name=_text(event.get("phase_name")),
            )
        )
        _histogram(tables, trial, event["seq"], event["phase"], number, script.get("histogram"))


def _histogram(tables: TrialTables, trial: int, second: int, phase: str, script: int, text: str | None) -> None:
    if text is None:
        return
    try:
        blob = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        # keep it as received: it does not invalidate the trial, and decoding it reports the error
        blob = text.encode()
    tables.histograms.append(HistogramRow(trial, second, phase, script, blob))


def _end(tables: TrialTables, trial: int, event: Event, scripts: Sequence[Event]) -> None:
    told = {script["id"]: {each["id"]: each for each in script["statements"]} for script in scripts}
    # an engine that never started to measure has no scripts here
    for script in event.get("scripts") or ():
        number = script["script"]
        _histogram(tables, trial, TOTAL, "measure", number, script.get("histogram"))
        done = {each["id"]: each for each in script.get("statements") or ()}
        # the statements of a Lua script are known only after they were sent
        named = {id_: each for id_, each in done.items() if "text" in each}
        for id_, statement in (told.get(number, {}) | named).items():
            tables.statements.append(_statement(trial, number, statement, done.get(id_, {})))


def _statement(trial: int, script: int, statement: Event, done: Event) -> StatementRow:
    latency = done.get("latency_ns") or {}
    return StatementRow(
        trial=trial,
        script=script,
        statement=statement["id"],
        line=statement.get("line", 0),
        text=_text(statement["text"]) or "",
        executions=done.get("executions", 0),
        failures=done.get("failures", 0),
        latency_mean_ns=latency.get("mean"),
        p50_ns=latency.get("p50"),
        p95_ns=latency.get("p95"),
        p99_ns=latency.get("p99"),
        latency_max_ns=latency.get("max"),
    )


def _event(trial: int, event: Event) -> EventRow:
    left_out = _OF_EVENT | _ELSEWHERE.get(event["event"], frozenset())
    rest = {name: value for name, value in event.items() if name not in left_out}
    for name in ("client", "script", "command"):
        # an unknown kind of event may use these names for something else
        if name in event and not isinstance(event[name], (int, type(None))):
            rest[name] = event[name]
    return EventRow(
        trial=trial,
        t_us=event["t_us"],
        kind=str(event["event"]),
        client=_number(event.get("client")),
        script=_number(event.get("script")),
        command=_number(event.get("command")),
        sqlstate=_text(event.get("sqlstate")),
        message=_text(event.get("message")),
        detail=json.dumps(rest, separators=(",", ":")),
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: object) -> str | None:
    """Return `value` as storable text: JSON may contain unpaired surrogates, UTF-8 may not."""
    return None if value is None else str(value).encode("utf-8", "replace").decode("utf-8")
