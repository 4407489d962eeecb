"""Runs for tests of audit rules: a sound run of pgdyno's own, an imported one, and functions that add every kind of
flaw.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any

from pgdyno import records
from pgdyno.audit import Finding, audit
from pgdyno.audit.subject import AuditRun
from pgdyno.effect import Effect
from pgdyno.store.probe_tables import Metric, Shares, Stretches
from pgdyno.store.read_runs import KeptPlan
from pgdyno.store.seconds import Seconds
from pgdyno.store.trial_tables import EventRow, IntervalRow, SeriesRow, SettingRow, StatementRow, WaitRow
from tests.unit.store_sample import STARTED, sample_manifest, seconds_of_rows, trial_record, trial_summary

ORIGIN_US = 50_000
"""The start of measuring on the engine's clock, in microseconds."""
SETTINGS = {
    "fsync": "on", "full_page_writes": "on", "synchronous_commit": "on", "autovacuum": "on",
    "checkpoint_timeout": "300",
}  # fmt: skip
LATENCY_MS = {"stddev": 0.1, "p50": 0.4, "p95": 0.6, "p99": 0.8, "max": 9.0}


@dataclass(frozen=True)
class FakeRun:
    """A run in memory."""

    manifest: records.Manifest
    trials: Sequence[records.TrialRecord]
    courses: Mapping[int, Sequence[IntervalRow]] = field(default_factory=dict)
    means_ms: Mapping[int, Sequence[tuple[str, float]]] = field(default_factory=dict)
    server: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    workers: Sequence[float] = ()
    """The fraction of a core that each worker uses in every trial."""
    probe_rows: Sequence[SeriesRow] = ()
    """Samples of a probe during every trial."""
    looks: Sequence[WaitRow] = ()
    looks_of_trials: Mapping[int, Sequence[WaitRow]] = field(default_factory=dict)
    """In place of `looks`."""
    of_trials: Mapping[int, Sequence[SeriesRow]] = field(default_factory=dict)
    """Additional samples of a probe during single trials."""
    plans: Sequence[KeptPlan] = ()
    counts: tuple[int, int] | None = None
    """Executions of a statement in each trial, and the rows that they returned; in place of `means_ms`."""
    end: Mapping[str, object] | None = None
    """Of every trial's load; None: `workers`."""
    kept: Sequence[tuple[str, str, str | None]] = ()
    """Name, setting and unit as pg_settings has them, at every trial."""

    def query_plans(self) -> Sequence[KeptPlan]:
        return self.plans

    def seconds(self, trial: int) -> Seconds:
        return seconds_of_rows(self.courses.get(trial, ()))

    def statements(self) -> Sequence[StatementRow]:
        if self.counts is not None:
            executions, rows = self.counts
            return [
                StatementRow(each.number, 0, at, at + 1, text, executions, 0, 1e6, 1, 1, 1, 1, of_rows)
                for each in self.trials
                for at, (text, of_rows) in enumerate((("BEGIN;", None), ("SELECT 1 FROM t WHERE id = 7;", rows)))
            ]
        return [
            StatementRow(trial, 0, at, at + 1, text, None, None, mean * 1e6, None, None, None, None)
            for trial, means in self.means_ms.items()
            for at, (text, mean) in enumerate(means)
        ]

    def events(self) -> Sequence[EventRow]:
        return [
            EventRow(trial.number, 0, kind, None, None, None, None, None, json.dumps(detail))
            for trial in self.trials
            if trial.imported is None
            for kind, detail in (
                ("connected", {"origin_us": ORIGIN_US + trial.load_begins_us}),
                ("end", self.end or {"workers": [{"cpu_share": each} for each in self.workers]}),
            )
        ]

    def effect_of_script(self, _name: str) -> Effect | None:
        return None

    def amounts_within(
        self, stretches: Stretches, wanted: Sequence[Metric]
    ) -> Mapping[tuple[int, int], Mapping[Metric, float]]:
        found: dict[tuple[int, int], dict[Metric, float]] = {}
        for trial, spans in stretches.items():
            for place, (begin, end) in enumerate(spans):
                rows = [row for row in self._seen(trial) if begin < row.t_us <= end]
                found[trial, place] = {
                    metric: sum(row.value for row in rows if (row.source, row.metric) == metric)
                    for metric in wanted
                    if any(row.source == metric[0] for row in rows)
                }
        return found

    def series_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Sequence[SeriesRow]:
        return [
            replace(row, trial=trial)
            for trial, spans in stretches.items()
            for row in self._seen(trial)
            if (row.source, row.metric) in wanted and any(begin < row.t_us <= end for begin, end in spans)
        ]

    def shares_within(self, stretches: Stretches, wanted: Sequence[Metric]) -> Shares:
        found = {}
        for trial, spans in stretches.items():
            for place, span in enumerate(spans):
                rows = [row for row in self.series_within({trial: [span]}, wanted) if row.span_us]
                length_us = sum({row.t_us: row.span_us or 0 for row in rows}.values())
                if length_us:
                    means = dict.fromkeys(wanted, 0.0)
                    for row in rows:
                        means[row.source, row.metric] += row.value * (row.span_us or 0) / length_us
                    found[trial, place] = (float(length_us), means)
        return found

    def _seen(self, trial: int) -> Sequence[SeriesRow]:
        return [*self.probe_rows, *self.of_trials.get(trial, ())]

    def sessions_within(self, stretches: Stretches) -> Mapping[tuple[int, int], tuple[int, Sequence[WaitRow]]]:
        within = {
            (trial, place): [row for row in self.looks_of_trials.get(trial, self.looks) if begin <= row.t_us < end]
            for trial, spans in stretches.items()
            for place, (begin, end) in enumerate(spans)
        }
        return {at: (len({row.t_us for row in rows}), rows) for at, rows in within.items() if rows}

    def settings(self, *, names: Sequence[str] = ()) -> Sequence[SettingRow]:
        of_server = [(trial, name, value, None) for trial, each in self.server.items() for name, value in each.items()]
        kept = [(trial.number, *setting) for trial in self.trials for setting in self.kept]
        return [SettingRow(*row, None) for row in (*of_server, *kept) if not names or row[1] in names]


# ---- trials of our own ----

NONE: Mapping[str, Any] = {}


def own(
    *,
    workload: str = "select-only",
    summary: Mapping[str, Any] = NONE,
    latency: Mapping[str, float] = NONE,
    point: Mapping[str, Any] = NONE,
    repeats: int = 6,
    orders: str = "abba",
    settings: Mapping[str, str] = NONE,
    only_b: Mapping[str, str] = NONE,
    versions: tuple[str, str] = ("18.6", "18.6"),
    changed_b: Mapping[str, str] = NONE,
    floor_b_ms: float = 0.1,
    seconds: Sequence[float] = (),
    gap_s: float = 0.0,
    dataset_bytes: int = 100 << 30,
    length_s: float = 60.0,
    probe: Mapping[str, Any] = NONE,
    probe_rows: Sequence[SeriesRow] = (),
    looks: Sequence[WaitRow] = (),
    workers: Sequence[float] = (0.3, 0.3),
    cached: tuple[float, float] = (1.0, 1.0),
    asked_b: Mapping[str, Any] = NONE,
    kind_b: str = "embedded",
    ways: Callable[[int, str], records.NetworkPathRecord] | None = None,
    **manifest: object,
) -> FakeRun:
    """Returns a run of two equal targets with `repeats` trials each; everything but the arguments is sound."""
    trials, courses, server = [], {}, {}
    succeeded = int(10_000 * length_s)
    for number, name in enumerate("ab" * repeats if orders == "abba" else "a" * repeats + "b" * repeats, start=1):
        # no two trials are equal to the nanosecond
        mean = latency.get("mean", 0.4) + 1e-6 * number
        floor_ms = floor_b_ms if name == "b" else 0.1
        latency_ms = {**LATENCY_MS, "min": floor_ms, **latency, "mean": mean}
        figures: dict[str, Any] = {
            "measured_s": length_s, "scheduled": succeeded, "succeeded": succeeded, "tps": 10_000.0, "connect_us": 100,
            "latency_ns": records.Latency(**{at: round(each * 1e6) for at, each in latency_ms.items()}),
        }  # fmt: skip
        begin = STARTED + timedelta(seconds=number * length_s)
        prepared = {"shared_buffers_share": cached[name == "b"], "page_cache_share": 0.5}
        record = trial_record(
            number,
            slug=f"{number:04d}-{name}",
            target=name,
            point=records.Point(**{"clients": 4, "scale": 10, **point}),
            repeat=(number + 1) // 2,
            started_at=begin,
            ended_at=begin + timedelta(seconds=length_s),
            warmup_s=1,
            duration_s=length_s,
            generator=records.Generator(version="0.1.0", workers=2, io="epoll", seed=1, exit_code=0),
            summary=trial_summary(**{**figures, **summary}),
            prepare=records.Preparation(method="vacuum", seconds=1, steps=[], dataset_bytes=dataset_bytes, **prepared),
            probe=records.ProbeRecord(
                **{"version": "0.1.0", "waits_hz": 10, "host": True, "server": True, "late": 0, **probe}
            ),
            network_path=ways(number, name) if ways is not None else None,
        )
        trials.append(record)
        courses[number] = _course(number, tuple(seconds) or (10_000.0,) * int(length_s), gap_s)
        server[number] = {**SETTINGS, **settings, **(only_b if name == "b" else {})}
    targets = [
        records.TargetRecord(name=name, kind=kind, asked=dict(asked), facts=_facts(version, changed))
        for name, kind, asked, version, changed in (
            ("a", "embedded", {}, versions[0], {}),
            ("b", kind_b, asked_b, versions[1], changed_b),
        )
    ]
    described = sample_manifest(**{"targets": targets, "workload": workload, **manifest})
    return FakeRun(
        described, trials, courses, {}, server, workers, probe_rows or _calm(length_s), looks or _quiet(length_s)
    )


def way(
    trip_us: float, load: str | None = None, server: str | None = None, cpu: str | None = None
) -> records.NetworkPathRecord:
    """Returns the network path to a server with a round trip of `trip_us`; with zones, the server was rented."""
    return records.NetworkPathRecord(
        round_trips=50, least_us=trip_us, median_us=1.2 * trip_us, clock_ahead_us=0,
        clock_uncertainty_us=round(trip_us / 2), generator_zone=load, server_zone=server,
        instance="db.m7g.large" if server else None, cpu_model=cpu,
    )  # fmt: skip


def steady_probe(length_s: float, pages: Callable[[float], float] = lambda _: 0.0) -> list[SeriesRow]:
    """Returns counters by second: at second `at`, a transaction misses `pages(at)` pages, which are read from a
    device.
    """
    return [
        sample(second, source, metric, size * 10_000 * pages(second))
        for second in range(1, int(length_s) + 1)
        for source, metric, size in (("database", "blocks_read", 1), ("paging", "read", 8192))
    ]


_calm = cache(steady_probe)


def sample(second: int, source: str, metric: str, value: float) -> SeriesRow:
    return SeriesRow(1, ORIGIN_US + second * 1_000_000, 0, 1_000_000, source, metric, "{}", value)


def each_second(length_s: float, source: str, **values: float) -> list[SeriesRow]:
    return [sample(at, source, *each) for at in range(1, int(length_s) + 1) for each in values.items()]


def quiet_looks(length_s: float, locked: Sequence[int] = ()) -> list[WaitRow]:
    """Returns one session sample per second: two clients compute, and in the seconds of `locked` three more wait for a
    lock.
    """
    rows = []
    for second in range(int(length_s)):
        t_us = ORIGIN_US + second * 1_000_000 + 500_000
        rows.append(WaitRow(1, t_us, 0, "client backend", "CPU", None, None, 2))
        if second in locked:
            rows.append(WaitRow(1, t_us, 0, "client backend", "Lock", "tuple", None, 3))
    return rows


_quiet = cache(quiet_looks)


@cache
def _course(trial: int, rates: tuple[float, ...], gap_s: float) -> Sequence[IntervalRow]:
    rows = []
    for second, rate in enumerate(rates):
        begin = second * 1_000_000 + (round(gap_s * 1e6) if second >= len(rates) / 2 else 0)
        rows.append(
            IntervalRow(
                trial, second, begin, begin + 1_000_000, "measure", 0, round(rate), 0, 0, 0, 0, 0, 4,
                None, None, None, None, None, None, None, 600_000,
            )
        )  # fmt: skip
    return tuple(rows)


def _facts(version: str, changed: Mapping[str, str]) -> records.ServerFacts:
    settings = {"shared_buffers": "1GB", **changed}
    return records.ServerFacts(version=version, version_full=version, settings_changed=settings, data_checksums=True)


def revise_trials(run: FakeRun, change: Callable[[records.TrialRecord], Mapping[str, Any]]) -> FakeRun:
    """Returns `run` with fields that `change` returns for each trial; a dictionary has single fields of a record."""
    trials = []
    for trial in run.trials:
        update = dict(change(trial))
        for name in update.keys() & {"summary", "prepare", "generator", "point", "probe"}:
            part = getattr(trial, name)
            if part is not None and isinstance(update[name], dict):
                update[name] = part.model_copy(update=update[name])
        trials.append(trial.model_copy(update=update))
    return replace(run, trials=trials)


def in_b(run: FakeRun, **fields: object) -> FakeRun:
    return revise_trials(run, lambda trial: fields if trial.target == "b" else {})


def add_samples(run: FakeRun, rows: Callable[[records.TrialRecord], Sequence[SeriesRow]]) -> FakeRun:
    """Returns `run` with additional samples of the probe in each trial."""
    return replace(run, of_trials={trial.number: rows(trial) for trial in run.trials})


# ---- printed trials ----


@dataclass(frozen=True)
class Row:
    """A trial of an imported document."""

    target: str = "a"
    clients: int = 8
    figures: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    load: Mapping[str, str] = field(default_factory=dict)
    scale: int | None = 100
    statements: Sequence[tuple[str, float]] = ()
    tool: str = "table"
    command: str | None = None
    line: int | None = None
    """Its line in the document; None: the trial's number."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """Printed lines by figure, for figures whose digits matter."""

    def but(self, **figures: float) -> Row:
        return replace(self, figures={**self.figures, **figures})


ROW = Row(
    figures={
        "tps": 800.0, "latency_mean_ms": 10.0, "latency_min_ms": 4.0, "latency_p95_ms": 15.0, "latency_max_ms": 90.0,
        "duration_s": 60.0, "transactions": 48_000,
    }
)  # fmt: skip


def rows_run(
    *rows: Row,
    claims: Sequence[tuple[float, float]] = (),
    claimed: str = "€ …",
    facts: Mapping[str, Sequence[str]] | None = None,
    workload: str = "tpcb-like",
) -> FakeRun:
    """Returns a document with `rows`. Equations are (printed, computed) pairs; lines about settings are by name."""
    trials = [_printed_trial(number, row, workload) for number, row in enumerate(rows, start=1)]
    told = records.ImportRecord(
        files=[records.ImportedFile(path="/x/report.txt", sha256="", trials=len(rows))],
        claims=[
            records.ImportedClaim(file="report.txt", line=90, text=claimed, printed=each, decimals=2, computed=computed)
            for each, computed in claims
        ],
        facts={
            name: [records.ImportedLine(file="report.txt", line=80, text=text) for text in texts]
            for name, texts in (facts or {}).items()
        },
    )
    names = dict.fromkeys(row.target for row in rows)
    targets = [records.TargetRecord(name=name, kind="imported", asked={}) for name in names]
    manifest = sample_manifest(host=None, pgdrive=None, targets=targets, workload=workload, imported=told, plan={})
    return FakeRun(manifest, trials, {}, {number: row.statements for number, row in enumerate(rows, start=1)})


def _printed_trial(number: int, row: Row, workload: str) -> records.TrialRecord:
    figures = {"clients": float(row.clients), **row.figures}
    line = row.line or number
    lines = {
        name: records.Printed(line=line, text=row.texts.get(name, f"{name} {value}")) for name, value in figures.items()
    }
    count = figures.get("transactions")
    return trial_record(
        number,
        target=row.target,
        point=records.Point(clients=row.clients, scale=row.scale, protocol=""),
        started_at=None,
        ended_at=None,
        duration_s=figures.get("duration_s"),
        summary=trial_summary(
            measured_s=figures.get("duration_s"), scheduled=None, succeeded=None if count is None else int(count),
            in_flight=None, tps=figures.get("tps", 1.0),
        ),
        imported=records.Imported(
            file="report.txt", line=line, last_line=line, tool=row.tool, command=row.command, figures=figures,
            printed=lines, words={"workload": workload, **row.words}, load=dict(row.load),
        ),
    )  # fmt: skip


def by_hosts(run: FakeRun, *hosts: tuple[int, float, float], late_us: int = 2000, **each: Sequence[object]) -> FakeRun:
    """Returns `run` with a load of several generators: clients, throughput and the busiest worker's fraction of a core.

    Their intervals arrive up to `late_us` late. `each` has additional fields, with one value for each generator.
    """
    same = {
        "cores": 4, "cpu_model": "any", "pgdyno": "0.1.0", "pgdrive": "0.1.0", "clients_aborted": 0,
        "clock_ahead_us": 0, "clock_round_trip_us": 200, "clock_ahead_after_us": 0, "report_delay_us": late_us,
        # of a run folder of pgdyno 0.2
        "ray_cpu_us": {"user": 1, "system": 2},
    }  # fmt: skip
    generators = []
    for number, (clients, tps, share) in enumerate(hosts, start=1):
        figures = {"clients": clients, "tps": tps, "busiest_cpu_share": share}
        names = {"name": f"generator-{number}", "host": f"load{number}"}
        more = {name: of[number - 1] for name, of in each.items()}
        generators.append(records.GeneratorHost.model_validate({**same, **names, **figures, **more}))
    return revise_trials(run, lambda _: {"generator": {"hosts": generators}})


OTHER = replace(ROW, target="b").but(tps=801.0, latency_mean_ms=9.99, transactions=48_060)
"""A row of another target, with almost the same figures."""


def of(rule: str, run: AuditRun) -> list[Finding]:
    return [finding for finding in audit(run) if finding.rule == rule]


def on_disks(a: str, b: str | None) -> records.Fingerprint:
    disks = {"data and WAL of a": a} | ({"data and WAL of b": b} if b is not None else {})
    host = records.HostPrint(
        cpu_model="x", cores=4, memory_bytes=1 << 34, architecture="x", kernel="x", os="x", disks=disks
    )
    return records.Fingerprint(host=host, pgdyno="0", pgdrive="0", generator="the same machine", seed=1)


def counting(rows: int, executions: int = 1_000) -> FakeRun:
    return replace(own(), counts=(executions, rows))


def print_of_b(**fields: object) -> records.Fingerprint:
    """A fingerprint of targets a and b, of which b has other `fields`."""
    server = records.ServerPrint(
        version="18.6", version_full="PostgreSQL 18.6", configure="--with-icu", collation="C",
        dataset_marks=["pgbench scale 10"], indexes={"public.t": "btree (a)"},
    )  # fmt: skip
    servers = {"a": server, "b": server.model_copy(update=fields)}
    return on_disks("ext4", "ext4").model_copy(update={"servers": servers})


def threaded(b: int) -> FakeRun:
    return in_b(own(), generator={"workers": b})


def dipping(seconds: int, rate: float = 3_000.0) -> list[float]:
    return [10_000.0] * 30 + [rate] * seconds + [10_000.0] * (30 - seconds)
