"""One trial: its server brought up and prepared, the load, the checks behind it, all of it stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pgdyno.experiment.events import clients_environment, injector_for, settle
from pgdyno.experiment.generators import way_to_run
from pgdyno.experiment.ground import scripts_of
from pgdyno.experiment.hooks import trial_hook
from pgdyno.experiment.leftovers import end_leftovers
from pgdyno.experiment.placement import way_of
from pgdyno.experiment.probing import Probing
from pgdyno.experiment.redo import GeneratorLostError, with_generators
from pgdyno.experiment.replicas import with_replicas
from pgdyno.experiment.servers import prepare, server_for
from pgdyno.experiment.stage import StageFailedError, stage
from pgdyno.experiment.state import RunState
from pgdyno.experiment.watched import with_marks
from pgdyno.plan import PlannedTrial
from pgdyno.plan.phases import phases_s, trial_s
from pgdyno.records import (
    Consistency,
    Failure,
    LedgerRecord,
    Leftovers,
    Outcome,
    Preparation,
    PrepareStep,
    Stage,
    TrialRecord,
    WayRecord,
)
from pgdyno.report.run_events import EngineReported, IntervalEnded, Noted, TrialEnded, TrialStarted
from pgdyno.run import HookError, Interval, TrialResult, phases_toml, run_trial
from pgdyno.run.engine import trial_options
from pgdyno.run.stream import among
from pgdyno.store import TrialWriter
from pgdyno.targets import Server
from pgdyno.targets.log_parts import LogParts
from pgdyno.targets.signals import signals_deferred

SHORTEST_SHOWN_S = 0.5
Setting = tuple[str, str, str | None, str]
"""Name, setting, unit, source."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """What is known just before the load."""

    prepared: Preparation
    leftovers: Leftovers | None
    settings: list[Setting]
    way: WayRecord


def one_trial(state: RunState, trial: PlannedTrial) -> TrialRecord:
    """Prepares and runs `trial`, and stores it whatever became of it.

    Raises StopRunError when the run must end, StoreError when the trial cannot be stored; then, as with
    whatever else ends it, nothing of it is left.
    """
    # what is the matter with such a target has been said
    was_unavailable = trial.target in state.unavailable
    record = None
    while record is None:
        writer = state.folder.begin_trial(trial.slug)
        try:
            record = _stored(state, trial, writer)
        except GeneratorLostError as lost:
            writer.abandon()
            state.note(f"trial {trial.number} is done again: {lost.message}")
        except BaseException:
            writer.abandon()
            raise
    if record.failure is not None and not was_unavailable:
        state.view.event(Noted(_why(record)))
    return record


def _stored(state: RunState, trial: PlannedTrial, writer: TrialWriter) -> TrialRecord:
    started = datetime.now(UTC)
    leftovers = None
    try:
        server = stage(Stage.TARGET, lambda: server_for(state, trial.target))
        # before the dataset is brought back: a session of an earlier trial may hold locks on it
        leftovers = stage(Stage.PREPARE, lambda: end_leftovers(state, trial, server))
        prepared = stage(Stage.PREPARE, lambda: prepare(state, trial, server))
        settings = stage(Stage.PREPARE, lambda: _settings(server))
        prepared = stage(Stage.HOOK, lambda: _before(state, trial, server, writer, prepared))
        ready = _Ready(prepared, leftovers, settings, stage(Stage.PREPARE, lambda: way_of(state, trial, server)))
    except StageFailedError as failed:
        record = _record(state, trial, started, TrialResult(Outcome.FAILED, [], None, None, failed.failure))
        record = record.model_copy(update={"leftovers": leftovers})
        with signals_deferred():
            writer.commit(record, events=[], settings=[])
        return record
    return _measured(state, server, trial, ready, writer)


def _before(
    state: RunState, trial: PlannedTrial, server: Server, writer: TrialWriter, prepared: Preparation
) -> Preparation:
    """Runs before_trial; `prepared` with its time."""
    began = time.monotonic()
    if not trial_hook(state, "before_trial", trial, server, writer.partial):
        return prepared
    step = PrepareStep(name="hook", seconds=round(time.monotonic() - began, 6), detail="before_trial")
    changes = {"steps": [*prepared.steps, step], "seconds": prepared.seconds + step.seconds}
    return prepared.model_copy(update=changes)


def _why(record: TrialRecord) -> str:
    assert record.failure is not None
    hint = f" ({record.failure.hint})" if record.failure.hint else ""
    return f"trial {record.number} is no result: {record.failure.message}{hint}"


def _verified(state: RunState, trial: PlannedTrial, result: TrialResult) -> tuple[TrialResult, Consistency | None]:
    """`result`, failed if the dataset does not hold together behind the trial, and what was looked at."""
    preparer = state.preparers[trial.target]
    if result.outcome is not Outcome.FINISHED:
        preparer.forget()
        return result, None
    try:
        found = stage(Stage.VERIFY, preparer.check)
    except StageFailedError as failed:
        return replace(result, outcome=Outcome.FAILED, failure=failed.failure), None
    if found is None or not found.violations:
        return result, found
    message = f"the dataset is not consistent behind the trial: {'; '.join(found.violations)}"
    hint = "the scripts or something else changed what must stay, or the server lost or doubled writes"
    if state.plan.workload.dataset == "sbtest":
        hint += '; for scripts that add or remove rows set reset.consistency to "none"'
    failure = Failure(stage=Stage.VERIFY, message=message, hint=hint)
    return replace(result, outcome=Outcome.FAILED, failure=failure), found


def _settled(state: RunState, server: Server, result: TrialResult) -> tuple[TrialResult, LedgerRecord | None]:
    """`result`, failed if the server is not to be had behind the trial, and what became of acknowledged work."""
    try:
        return result, settle(state, server, result)
    except StageFailedError as failed:
        # of two failures the first is the reason
        return replace(result, outcome=Outcome.FAILED, failure=result.failure or failed.failure), None


def _measured(
    state: RunState,
    server: Server,
    trial: PlannedTrial,
    ready: _Ready,
    writer: TrialWriter,
) -> TrialRecord:
    logs = LogParts.from_now(server)
    started = datetime.now(UTC)
    with Probing(state, trial, server, ready.settings, writer) as probe:
        result, beside = with_replicas(
            state,
            trial,
            server,
            writer,
            lambda stop: with_generators(state, trial, lambda: _load(state, server, trial, writer, stop)),
        )
        ended = datetime.now(UTC)
    said = probe.said(result.events)
    logs.save(writer.log)
    result, ledger = _settled(state, server, result)
    _behind(state, trial, server, writer, result)
    result, consistency = _verified(state, trial, result)
    record = _record(state, trial, started, result).model_copy(
        update={
            "ended_at": ended,
            "prepare": ready.prepared,
            "leftovers": ready.leftovers,
            "way": ready.way,
            "consistency": consistency,
            "ledger": ledger,
            "replica_load": beside.loads,
            "replication": beside.lags,
            "probe": said.record if said else None,
        }
    )
    events = among(result.events, said.events if said else [])
    # it takes no second, and DuckDB would make an error of its own of the signal
    with signals_deferred():
        writer.commit(record, events=events, settings=ready.settings, probed=said.files if said else ())
    state.workers.learn(record)
    latency = record.summary.latency_ns if record.summary else None
    p99_ms = latency.p99 / 1e6 if latency and latency.p99 is not None else None
    state.view.event(TrialEnded(record.outcome, record.summary.tps if record.summary else None, p99_ms))
    return record


def _load(
    state: RunState, server: Server, trial: PlannedTrial, writer: TrialWriter, must_stop: Callable[[], bool]
) -> TrialResult:
    plan = state.plan

    def on_interval(interval: Interval) -> None:
        # the cut one at the end is no throughput to look at
        if interval.seconds >= SHORTEST_SHOWN_S:
            state.view.event(IntervalEnded(interval.tps, interval.p99_ms, interval.phase))
        state.ground.guard.check()

    phases = writer.phases.absolute()
    if plan.phase:
        phases.write_text(phases_toml(plan.phase), encoding="utf-8")
    workers = state.workers.of(trial.point)
    options = trial_options(plan, trial.point, state.seed + trial.number, phases, workers)
    label = state.labels[trial.number]
    state.view.event(TrialStarted(trial.number, len(state.trials), label, trial_s(plan), state.later))
    result = run_trial(
        state.ground.engine,
        [*scripts_of(state.loaded), *options],
        clients_environment(state, trial, server),
        state.loaded.folder,
        writer.log / "engine.log",
        on_interval,
        plan.trial.max_errors,
        injector_for(state, server, writer.log / "events.log"),
        must_stop,
        lambda event: state.view.event(EngineReported(event)),
        way_to_run(state.ground.cluster),
    )
    return with_marks(state, result)


def _behind(state: RunState, trial: PlannedTrial, server: Server, writer: TrialWriter, result: TrialResult) -> None:
    """Runs after_trial. That it fails is noted: the trial's figures were taken before."""
    try:
        trial_hook(state, "after_trial", trial, server, writer.partial, result.outcome.value)
    except HookError as error:
        state.note(f"trial {trial.number}: {error.message}")


def _settings(server: Server) -> list[Setting]:
    query = "SELECT name, setting, unit, source FROM pg_catalog.pg_settings"
    # sorted here, not by an operator of whatever schema comes first
    rows = server.read_as_is(lambda connection: connection.execute(query).fetchall())
    return sorted(rows, key=lambda row: row[0])


def _record(state: RunState, trial: PlannedTrial, started: datetime, result: TrialResult) -> TrialRecord:
    spec = state.plan.trial
    return TrialRecord(
        number=trial.number,
        slug=trial.slug,
        target=trial.target,
        point=trial.point,
        repeat=trial.repeat,
        started_at=started,
        ended_at=datetime.now(UTC),
        warmup_s=spec.warmup,
        duration_s=phases_s(state.plan) or spec.duration,
        transactions=spec.transactions,
        outcome=result.outcome,
        failure=result.failure,
        generator=result.generator,
        summary=result.summary,
        events=result.plan_events,
        attempt=len(state.folder.manifest.attempts),
    )
