"""Runs with disturbed trials or arms: the probe's samples, and the effect on throughput."""

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from pgdyno.records import InstructionCounts, ProbeRecord, QueryResult, QueryRun, ReplicaLag, TrialRecord
from pgdyno.records.probe import PoolerRecord
from pgdyno.store.read_runs import KeptPlan
from pgdyno.store.trial_tables import SeriesRow
from tests.unit.audit_sample import FakeRun, add_samples, each_second, in_b, own, revise_trials

NOISE = (1.0, 1.012, 0.991, 1.004, 0.987)
"""Relative throughput of trials that differ by chance and do not drift."""


def on_host(others: float = 0.0, steal: float = 0.0) -> list[SeriesRow]:
    """Returns one minute of a host with 4 cores: server 40 %, two workers with 30 % of a core each, the probe 0.1 %."""
    busy = 0.4 + 2 * 0.3 / 4 + 0.001 + others
    return [
        *each_second(60, "cpu", user=0.6 * busy, system=0.4 * busy, irq=0.0, steal=steal),
        *each_second(60, "processes", cpu=0.4 * 4e6),
        *each_second(60, "probe", cpu=0.001 * 4e6),
    ]


def pooled(others: float = 0.0, **fields: float) -> FakeRun:
    """Returns a run behind a pooler on a host with `others`, whose 5 sessions are all in use."""
    told = {"name": "PgBouncer", "pool": 5, "samples": 60, "clients_waiting": 40, "servers_active": 5, **fields}
    record = ProbeRecord(pooler=PoolerRecord.model_validate(told))
    return add_samples(revise_trials(own(), lambda _: {"probe": record}), lambda _: on_host(others))


def planned(shapes: Mapping[int, str]) -> FakeRun:
    """Returns a run of two targets, with the shapes of one statement's query plan by trial; odd trials are of `a`."""
    plans = [KeptPlan("SELECT 1", shape, "Result", [(trial, 0, 0)]) for trial, shape in shapes.items()]
    return replace(own(), plans=plans)


def returning(a: str, b: str, known: str | None = None) -> FakeRun:
    """Returns a run of two targets, with the hash of the rows that a query returned in each, and that of known rows."""
    must = QueryResult(query="q.sql", rows=1, digest=known) if known else None
    first = {
        number: {"query_results": [QueryResult(query="q.sql", rows=1, digest=digest, known=must)]}
        for number, digest in ((1, a), (2, b))
    }
    return revise_trials(own(), lambda trial: first.get(trial.number, {"query_results": []}))


def rerun(slower: float) -> FakeRun:
    """Returns a run with a query that takes `slower` times as long with another constant, in target b."""

    def runs(trial: TrialRecord) -> dict[str, object]:
        usual = 0.1 + 0.001 * (trial.number % 3)
        seconds = (9.0, usual, usual * (slower if trial.target == "b" else 1.0))
        queries = [
            QueryRun(query="q.sql", client=0, round=at, seconds=each, rows=1, changed=at == 2)
            for at, each in enumerate(seconds)
        ]
        return {"summary": {"queries": queries}}

    return revise_trials(own(), runs)


def cold(share: float) -> FakeRun:
    run = QueryRun(query="q.sql", client=0, round=0, seconds=1.0, rows=1, cached_share=share, blocks_read=100)
    return revise_trials(own(), lambda _: {"summary": {"queries": [run]}})


def hits(share: float) -> list[SeriesRow]:
    return each_second(60, "database", blocks_hit=1_000.0 * share, blocks_read=1_000.0 * (1 - share))


def sized(times: float) -> FakeRun:
    return in_b(own(dataset_bytes=10**9), prepare={"dataset_bytes": round(1e9 * times)})


def ran(
    source: str = "checkpoints", metric: str = "timed", where: str = "", trials: Container[int] = range(99)
) -> Callable[[TrialRecord], list[SeriesRow]]:
    """Returns one checkpoint, vacuum or analyze in each of `trials` whose target is in `where`."""

    quiet = [*each_second(60, "checkpoints", timed=0.0), *each_second(60, "tables", autovacuums=0.0)]
    once = each_second(1, source, **{metric: 1.0})
    return lambda trial: quiet + (once if trial.target in where and trial.number in trials else [])


def rated(times: Callable[[TrialRecord], float], *, there_and_back: bool = False) -> FakeRun:
    """Returns trials with 10,000 tps multiplied by `times`, in the order a b a b, or a b b a with `there_and_back`."""

    def of(trial: TrialRecord) -> dict[str, object]:
        target = "abba"[(trial.number - 1) % 4] if there_and_back else trial.target
        return {"summary": {"tps": 10_000.0 * times(trial)}, "target": target}

    return revise_trials(own(), of)


def counted(spread: float) -> FakeRun:
    """Returns a run that counts instructions, whose last trial has that share more than the others."""

    def of(trial: TrialRecord) -> dict[str, object]:
        each = 100_000.0 * (1 + spread * (trial.number == len(run.trials)))
        counts = InstructionCounts(
            counter="valgrind", transactions=40, instructions=each, scripts=[], functions={}, jit=False
        )
        return {"summary": {"instructions": counts}}

    run = own()
    plan = run.manifest.plan | {"trial": {**run.manifest.plan["trial"], "measure": "instructions"}}
    return replace(revise_trials(run, of), manifest=run.manifest.model_copy(update={"plan": plan}))


def failing(what: str = "failed", a: int = 0, b: int = 0) -> FakeRun:
    """Returns a run in which so many of 600,000 transactions fail in each trial of the targets a and b."""
    return revise_trials(own(), lambda trial: {"summary": {what: b if trial.target == "b" else a}})


def lagging(**fields: float | None) -> FakeRun:
    told = {"samples": 60, "bytes_last": 1 << 20, "bytes_max": 2 << 20, "write_lag_max_s": 0.1, "flush_lag_max_s": 0.1,
            "replay_lag_max_s": 0.2, "replay_lag_last_s": 0.1, **fields}  # fmt: skip
    lag = ReplicaLag.model_validate({"name": "pgdyno_1", "sync_state": "async", **told})
    return revise_trials(own(), lambda _: {"replication": [lag]})
