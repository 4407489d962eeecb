"""Manifests and trial records for tests of the store and of its readers."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from pgdyno.records import (
    ErrorCount,
    Generator,
    Host,
    Latency,
    Manifest,
    Outcome,
    Point,
    ScriptSummary,
    Summary,
    TargetRecord,
    TrialRecord,
)
from pgdyno.records.during_trial import CloudRecord
from pgdyno.store import RunData, RunFolder
from pgdyno.store.cloud_metrics import stored_cloud
from pgdyno.store.seconds import NO_SECONDS, PHASES, Seconds
from pgdyno.store.trial_tables import IntervalRow
from pgdyno.store.trial_writer import TrialTables, ingest
from tests.unit.events_sample import Event, sample_events

STARTED = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)
SETTINGS = [("fsync", "on", None, "default"), ("shared_buffers", "32768", "8kB", "configuration file")]


def sample_manifest(**changes: object) -> Manifest:
    """Returns the manifest of a running run; its `run` is empty."""
    host = Host(
        cpu_model="Fast CPU", cores=4, memory_bytes=8 << 30, kernel="6.1", os="Debian 12", architecture="x86_64"
    )
    fields: dict[str, Any] = {
        "run": "", "pgdyno": "0.1.0", "pgdrive": "0.1.0", "started_at": STARTED, "plan_source": "quick",
        "plan": {"name": "quick", "trial": {"seed": 1}}, "workload": "select-only", "host": host,
        "targets": [TargetRecord(name="pg18", kind="embedded", asked={"version": "18"})], "trials_planned": 2,
    }  # fmt: skip
    return Manifest(**{**fields, **changes})


def trial_record(number: int, **fields: object) -> TrialRecord:
    said: dict[str, Any] = {
        "number": number, "slug": f"{number:04d}", "target": "a", "point": Point(clients=8), "repeat": 1,
        "started_at": STARTED, "ended_at": STARTED, "warmup_s": 0, "duration_s": 10, "transactions": None,
        "outcome": Outcome.FINISHED, **fields,
    }  # fmt: skip
    return TrialRecord(**said)


def trial_summary(**fields: object) -> Summary:
    """Returns the summary of a trial in which nothing happened but `fields`."""
    nothing = dict.fromkeys(
        ("failed", "skipped", "in_flight", "retried", "retries", "clients_aborted", "succeeded", "scheduled"), 0
    )
    said: dict[str, Any] = {
        **nothing, "measured_s": 10, "tps": 0, "latency_ns": None, "connect_us": None, "scripts": [], "errors": [],
        **fields,
    }  # fmt: skip
    return Summary(**said)


def sample_record(number: int, events: list[Event], *, target: str = "pg18", repeat: int = 1) -> TrialRecord:
    start, end = events[0], events[-1]
    return trial_record(
        number,
        slug=f"{number:04d}-{target}-c{start['clients']}",
        target=target,
        point=Point(clients=start["clients"], protocol=start["protocol"], scale=start["scale"]),
        repeat=repeat,
        ended_at=STARTED + timedelta(microseconds=end["t_us"]),
        warmup_s=start["warmup_s"],
        duration_s=start["duration_s"],
        generator=Generator(version="0.1.0", workers=1, io="epoll", seed=start["seed"], exit_code=0),
        summary=_summary(start, end),
    )


def add_trial(
    folder: RunFolder, number: int, events: list[Event] | None = None, target: str = "pg18", point: Point | None = None
) -> Path:
    events = sample_events(4, 2, 500, 900, seed=number) if events is None else events
    record = sample_record(number, events, target=target)
    if point is not None:
        record = record.model_copy(update={"point": point})
    return folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)


def ingested(number: int, events: list[Event]) -> TrialTables:
    batches = list(ingest(number, events))
    return TrialTables(
        [row for each in batches for row in each.intervals],
        [row for each in batches for row in each.histograms],
        [row for each in batches for row in each.statements],
        [row for each in batches for row in each.events],
    )


def _summary(start: Event, end: Event) -> Summary:
    counts = ("measured_s", "scheduled", "succeeded", "failed", "skipped", "in_flight", "retried", "retries")
    scripts = [
        ScriptSummary(
            id=each["script"], name=start["scripts"][each["script"]]["name"], weight=1, succeeded=each["succeeded"],
            failed=each["failed"], skipped=each["skipped"], latency_ns=_latency(each["latency_ns"]),
        )
        for each in end["scripts"]
    ]  # fmt: skip
    return Summary(
        **{name: end[name] for name in (*counts, "clients_aborted", "tps")}, latency_ns=_latency(end["latency_ns"]),
        connect_us=3600, scripts=scripts, errors=[ErrorCount(**error) for error in end["errors"]],
    )  # fmt: skip


def _latency(value: Event | None) -> Latency | None:
    return None if value is None else Latency(**value)


def read_cloud(run: RunData, trial: int) -> CloudRecord | None:
    """Returns what a provider reported on the trial `trial`; None if there was no request."""
    slug = next(record.slug for record in run.trials if record.number == trial)
    return stored_cloud(run.folder.trials_path / slug)


def seconds_of_rows(rows: Iterable[IntervalRow]) -> Seconds:
    by_second: dict[int, list[IntervalRow]] = {}
    for row in rows:
        by_second.setdefault(row.second, []).append(row)
    if not by_second:
        return NO_SECONDS
    values = [_second(by_second[second]) for second in sorted(by_second)]
    return Seconds(*(np.asarray(column, dtype=np.float64) for column in zip(*values, strict=True)))


def _second(rows: list[IntervalRow]) -> tuple[float, ...]:
    first = rows[0]
    cpu_us = [row.worker_cpu_us for row in rows if row.worker_cpu_us is not None]
    p99_ns = first.p99_ns if len(rows) == 1 else None
    return (
        first.second,
        first.from_us,
        first.to_us,
        PHASES.index(first.phase) if first.phase in PHASES else len(PHASES),
        sum(row.succeeded for row in rows),
        sum(row.failed for row in rows),
        sum(row.latency_sum_ns or 0.0 for row in rows),
        np.nan if p99_ns is None else p99_ns,
        max(cpu_us) if cpu_us else np.nan,
        len(rows),
    )
