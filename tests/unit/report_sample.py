"""Runs in memory for tests of analysis and report, without store and server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from pgdyno.analyse.over_time.timeline import RunSource
from pgdyno.records import (
    ErrorCount,
    Failure,
    Generator,
    Host,
    Manifest,
    Outcome,
    Point,
    ServerFacts,
    Stage,
    TargetRecord,
    TrialRecord,
)
from pgdyno.report.export import markdown_of
from pgdyno.report.html import render_page
from pgdyno.report.report_content import NO_EXTRAS, Extras, digest
from pgdyno.report.sections.draft import Draft
from pgdyno.report.terminal.run_report import all_lines
from pgdyno.report.terminal.summary_file import Layout
from pgdyno.store.seconds import MEASURE, WARM_UP, Seconds
from pgdyno.store.trial_tables import TOTAL, HistogramRow, IntervalRow, StatementRow
from tests.unit.events_sample import blob_of, latencies_of, latency_of
from tests.unit.store_sample import seconds_of_rows, trial_record, trial_summary

STARTED = datetime(2026, 11, 20, 10, 15, tzinfo=UTC)


@dataclass
class SampleRun:
    """A RunSource of given tables."""

    manifest: Manifest
    trials: list[TrialRecord] = field(default_factory=list)
    rows: dict[int, list[IntervalRow]] = field(default_factory=dict)
    blobs: dict[int, list[HistogramRow]] = field(default_factory=dict)
    of_statements: dict[int, list[StatementRow]] = field(default_factory=dict)
    timelines: dict[tuple[int, bool], Any] = field(default_factory=dict)

    def seconds(self, trial: int) -> Seconds:
        return seconds_of_rows(self.rows.get(trial, []))

    def intervals(self, trial: int) -> Sequence[IntervalRow]:
        return self.rows.get(trial, [])

    def histograms(self, trial: int, *, totals: bool) -> Sequence[HistogramRow]:
        return [row for row in self.blobs.get(trial, []) if (row.second == TOTAL) == totals]

    def statements(self, trial: int) -> Sequence[StatementRow]:
        return self.of_statements.get(trial, [])


def interval_row(
    trial: int, second: int, phase: str, succeeded: int, *, p99_ns: int | None = None, warmup_s: int = 0, **more: object
) -> IntervalRow:
    """Returns one second of a trial; `more` replaces its fields."""
    from_us = (second - warmup_s) * 1_000_000
    counts = dict.fromkeys(("script", "failed", "skipped", "retried", "retries", "worker_cpu_us"), 0)
    unknown = dict.fromkeys(
        ("latency_sum_ns", "latency_min_ns", "p50_ns", "p95_ns", "p99_ns", "p999_ns", "latency_max_ns")
    )
    fields: dict[str, Any] = {
        **counts, **unknown, "trial": trial, "second": second, "from_us": from_us, "to_us": from_us + 1_000_000,
        "phase": phase, "succeeded": succeeded, "in_flight": 1, "clients": 1, "p99_ns": p99_ns, **more,
    }  # fmt: skip
    return IntervalRow(**fields)


def manifest(
    targets: Sequence[str] = ("pg18",), settings: Sequence[dict[str, str]] | None = None, **changes: object
) -> Manifest:
    """Returns a manifest of embedded servers; `changes` replace its fields."""
    each = settings or [{"shared_buffers": "32768", "max_wal_size": "4096", "jit": "off"}] * len(targets)
    records = [
        TargetRecord(
            name=name,
            kind="embedded",
            asked={"kind": "embedded", "version": f"{18 - at}"},
            facts=ServerFacts(
                version=f"{18 - at}.{6 - at}",
                version_full=f"PostgreSQL {18 - at}.{6 - at} on x86_64-pc-linux-gnu, compiled by gcc 12.2.0, 64-bit",
                settings_changed=each[at],
                data_checksums=at == 0,
                cluster_bytes=198_000_000,
            ),
        )
        for at, name in enumerate(targets)
    ]
    target = {"kind": "embedded", "settings": {"shared_buffers": "256MB"}, "initdb": []}
    plan = {
        "format": 1, "name": "quick", "description": "Select-only on a fresh PostgreSQL 18",
        "target": {name: target | {"version": f"{18 - at}"} for at, name in enumerate(targets)},
        "workload": {"scripts": ["select-only"], "dataset": "pgbench", "scale": 10, "variables": {}},
        "sweep": {"clients": [1, 2, 4, 8, 16, 32, 64], "workers": None, "protocol": ["prepared"], "scale": None},
        "trial": {
            "warmup": 2.0, "duration": 10.0, "transactions": None, "repeats": 3,
            "order": "as-listed", "on_failure": "continue", "seed": 5234,
        },
    }  # fmt: skip
    host = Host(
        cpu_model="AMD EPYC 7763 64-Core Processor", cores=16, memory_bytes=68_719_476_736, kernel="6.1.0-28-amd64",
        os="Debian GNU/Linux 12 (bookworm)", architecture="x86_64",
    )  # fmt: skip
    fields: dict[str, Any] = {
        "run": "20261120T101500Z-quick-3f9a", "pgdyno": "0.1.0", "pgdrive": "0.1.0", "started_at": STARTED,
        "ended_at": STARTED + timedelta(minutes=9), "plan_source": "plans/quick.toml", "plan": plan,
        "workload": "select-only", "host": host, "targets": records, "trials_planned": 0, "outcome": Outcome.FINISHED,
    }  # fmt: skip
    return Manifest(**{**fields, **changes})


def _record(run: SampleRun, target: str, clients: int, seconds: int, **fields: object) -> TrialRecord:
    """Adds a trial that begins 13 s after the one before it."""
    number = len(run.trials) + 1
    began = STARTED + timedelta(seconds=13 * number)
    said = {"slug": f"{target}-c{clients}", "point": Point(clients=clients, protocol="prepared"), **fields}
    ended = began + timedelta(seconds=seconds)
    run.trials.append(trial_record(number, target=target, started_at=began, ended_at=ended, **said))
    return run.trials[-1]


def add_trial(
    run: SampleRun,
    target: str,
    clients: int,
    tps: float,
    p50_us: float = 900,
    *,
    repeat: int = 1,
    seconds: int = 10,
    warmup_s: int = 2,
    failed: int = 0,
    skipped: int = 0,
    retries: int = 0,
    errors: Sequence[ErrorCount] = (),
    noise: float = 0.01,
    dips: Sequence[int] = (),
    tail: float = 3.0,
    point: Point | None = None,
    with_latency: bool = True,
) -> TrialRecord:
    """Adds a finished trial with a mean of exactly `tps`; throughput halves in the seconds of `dips`."""
    number = len(run.trials) + 1
    random = np.random.default_rng(number)
    rows = []
    rates = tps * random.normal(1.0, noise, seconds + warmup_s)
    rates[:warmup_s] *= np.linspace(0.45, 0.9, warmup_s)
    for dip in dips:
        rates[warmup_s + dip] *= 0.5
    succeeded = round(tps * seconds) if with_latency else 0
    total = latencies_of(p50_us, max(succeeded, 1), tail)
    for at, rate in enumerate(rates):
        p99 = round(1000 * p50_us * 2.6 * random.normal(1.0, 0.06) * (2.5 if at - warmup_s in dips else 1))
        phase = WARM_UP if at < warmup_s else MEASURE
        count = max(round(float(rate)), 0) if with_latency else 0
        rows.append(interval_row(number, at, phase, count, p99_ns=p99 if with_latency else None, warmup_s=warmup_s))
    run.rows[number] = rows
    run.blobs[number] = [HistogramRow(number, TOTAL, MEASURE, 0, blob_of(total))] if with_latency else []
    summary = trial_summary(
        measured_s=seconds, scheduled=succeeded + failed + skipped, succeeded=succeeded, failed=failed, skipped=skipped,
        retried=retries, retries=retries, tps=tps if with_latency else 0.0,
        latency_ns=latency_of(total) if with_latency else None, connect_us=3000, errors=list(errors),
    )  # fmt: skip
    generator = Generator(version="0.1.0", workers=2, io="epoll", seed=1, exit_code=0)
    fields = {"warmup_s": warmup_s, "duration_s": seconds, "generator": generator, "summary": summary}
    fields |= {} if point is None else {"point": point}
    return _record(run, target, clients, seconds + warmup_s, repeat=repeat, **fields)


def add_repeats(
    run: SampleRun, clients: int, rates: Sequence[float], *, target: str = "pg18", point: Point | None = None
) -> None:
    """Adds a trial of two seconds for each of `rates`."""
    for repeat, tps in enumerate(rates, start=1):
        add_trial(run, target, clients, tps, repeat=repeat, seconds=2, point=point)


def add_failure(
    run: SampleRun,
    target: str,
    clients: int,
    *,
    repeat: int = 1,
    message: str = "connecting 64 clients to pg18: too many clients already",
    outcome: Outcome = Outcome.FAILED,
    hint: str | None = "raise max_connections",
) -> TrialRecord:
    failure = Failure(stage=Stage.RUN, message=message, hint=hint, sqlstate="53300")
    return _record(run, target, clients, 1, repeat=repeat, warmup_s=2, outcome=outcome, failure=failure)


def with_knee() -> SampleRun:
    """Returns three repeats of 1, 2 and 4 clients; the peak is at 4, and 2 clients are shown to reach 95 % of it."""
    run = SampleRun(manifest(trials_planned=9))
    for repeat, share in ((1, 0.995), (2, 1.0), (3, 1.005)):
        for clients, tps in ((1, 100.0), (2, 990.0), (4, 1000.0)):
            add_trial(run, "pg18", clients, tps * share, repeat=repeat, seconds=2)
    return run


def saturating(clients: int, peak: float = 71_300, knee: float = 12, retrograde: float = 0.0012) -> float:
    """Returns throughput that rises up to about `knee` clients, and then falls a little."""
    return float(peak * 1.32 * clients / (clients + knee * 0.55) / (1 + retrograde * clients**1.25))


def sweep(
    targets: Sequence[str] = ("pg18",),
    clients: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    repeats: int = 3,
    seconds: int = 10,
    tps: Callable[[str, int], float] | None = None,
) -> SampleRun:
    """Returns a finished run with `repeats` of each of `clients` on each of `targets`, always with the same figures."""
    run = SampleRun(manifest(targets, trials_planned=len(targets) * len(clients) * repeats))
    random = np.random.default_rng(7)
    for repeat in range(1, repeats + 1):
        for at, target in enumerate(targets):
            for each in clients:
                mean = tps(target, each) if tps is not None else saturating(each, 71_300 * (1 - 0.09 * at))
                rate = mean * float(random.normal(1.0, 0.008))
                dips = [6] if each >= 16 and repeat == 2 and seconds > 6 else []
                p50 = 1e6 * each / mean * 0.9
                add_trial(run, target, each, rate, p50, repeat=repeat, seconds=seconds, dips=dips, tail=3 + each / 8)
    return run


def swept(points: Sequence[Point], sweep_of_plan: Mapping[str, object] | None = None) -> SampleRun:
    """Returns two repeats of each of `points`, with more throughput at more clients; `sweep_of_plan` is the manifest's
    sweep.
    """
    run = SampleRun(manifest(trials_planned=2 * len(points)))
    run.manifest.plan["sweep"] = sweep_of_plan or {}
    for repeat in (1, 2):
        for at, point in enumerate(points):
            clients = point.planned_clients
            add_trial(run, "pg18", clients, 100.0 * clients + at, repeat=repeat, seconds=2, point=point)
    return run


def to_markdown(run: RunSource) -> str:
    return markdown_of(digest(run), NO_EXTRAS)


def plain_lines(run: RunSource, width: int | None = 80, extras: Extras = NO_EXTRAS) -> list[str]:
    return [line.plain for line in all_lines(digest(run), Layout(width), extras)]


def render_html(run: RunSource, location: str, extras: Extras | None = None) -> str:
    """Returns the HTML report of `run`; `location` is the path that it prints for the run folder."""
    return render_page(Draft(digest(run), extras or Extras(), location))
