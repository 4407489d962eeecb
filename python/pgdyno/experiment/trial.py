"""One trial: prepare its server, run the load, check what it left, and store everything."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pgdyno.experiment.earlier_sessions import end_leftovers
from pgdyno.experiment.generators import GeneratorLostError, Generators
from pgdyno.experiment.hooks import Hooks, StageFailedError, clients_environment, injector_for, settle, stage
from pgdyno.experiment.placement import measure_path
from pgdyno.experiment.probing import Probing
from pgdyno.experiment.replicas import with_replicas
from pgdyno.experiment.resources import Resources, scripts_of
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.servers import Servers
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.workload import phases_s
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
from pgdyno.run import HookError, Interval, TrialResult, phases_toml, run_trial
from pgdyno.run.engine import trial_options
from pgdyno.run.process import among
from pgdyno.run.silent_server import Vigil
from pgdyno.store import TrialWriter
from pgdyno.targets import Server
from pgdyno.targets.cluster.subprocesses import signals_deferred
from pgdyno.targets.response_limits import HINT, SilentServerError
from pgdyno.targets.server import LogParts

Setting = tuple[str, str, str | None, str]
"""Name, setting, unit, source."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """The server of a trial, and what is known just before the load."""

    server: Server
    prepared: Preparation
    leftovers: Leftovers | None
    settings: list[Setting]
    path: WayRecord


class TrialRunner:
    """Runs the trials of a run. It keeps nothing from one trial to the next: that is for its collaborators."""

    def __init__(
        self,
        context: RunContext,
        progress: RunProgress,
        servers: Servers,
        generators: Generators,
        hooks: Hooks,
        resources: Resources,
    ) -> None:
        self._context = context
        self._progress = progress
        self._servers = servers
        self._generators = generators
        self._hooks = hooks
        self._guard = resources.guard
        self._rental = resources.rental

    def run(self, trial: PlannedTrial) -> TrialRecord:
        """Prepare and run `trial`, and store it whatever its outcome.

        Raises StopRunError if the run must end, StoreError if the trial cannot be stored. After these and any other
        exception nothing of the trial is left.
        """
        # the first trial of such a target has reported why
        was_unavailable = self._servers.is_unavailable(trial.target)
        record = None
        while record is None:
            writer = self._context.folder.begin_trial(trial.slug)
            try:
                record = self._prepare_and_measure(trial, writer)
            except GeneratorLostError as lost:
                writer.abandon()
                self._servers.forget(trial.target)
                self._progress.note(f"trial {trial.number} is done again: {lost.message}")
            except BaseException:
                writer.abandon()
                raise
        if record.failure is not None and not was_unavailable:
            self._progress.show(_why(record))
        return record

    def _prepare_and_measure(self, trial: PlannedTrial, writer: TrialWriter) -> TrialRecord:
        started = datetime.now(UTC)
        leftovers = None
        try:
            server = stage(Stage.TARGET, lambda: self._servers.obtain(trial.target))
            # before the dataset is restored: a session of an earlier trial may hold locks on it
            leftovers = stage(
                Stage.PREPARE,
                lambda: end_leftovers(self._context.folder.manifest, trial, server, self._progress),
            )
            prepared = stage(Stage.PREPARE, lambda: self._servers.prepare(trial))
            settings = stage(Stage.PREPARE, lambda: _settings(server))
            prepared = stage(Stage.HOOK, lambda: self._run_before_trial(trial, server, writer, prepared))
            path = stage(Stage.PREPARE, lambda: self._measure_path(trial, server))
        except StageFailedError as failed:
            record = self._record(trial, started, TrialResult(Outcome.FAILED, [], None, None, _named(trial, failed)))
            record = record.model_copy(update={"leftovers": leftovers})
            with signals_deferred():
                writer.commit(record, events=[], settings=[])
            return record
        return self._measure(trial, _Ready(server, prepared, leftovers, settings, path), writer)

    def _run_before_trial(
        self, trial: PlannedTrial, server: Server, writer: TrialWriter, prepared: Preparation
    ) -> Preparation:
        """Return `prepared` with the hook's time."""
        began = time.monotonic()
        if not self._hooks.around_trial("before_trial", trial, server, writer.partial):
            return prepared
        step = PrepareStep(name="hook", seconds=round(time.monotonic() - began, 6), detail="before_trial")
        changes = {"steps": [*prepared.steps, step], "seconds": prepared.seconds + step.seconds}
        return prepared.model_copy(update=changes)

    def _measure_path(self, trial: PlannedTrial, server: Server) -> WayRecord:
        return measure_path(trial, server, self._environment(trial, server), self._generators, self._rental)

    def _environment(self, trial: PlannedTrial, server: Server) -> dict[str, str]:
        return clients_environment(self._context.plan, self._context.folder.manifest, trial, server)

    def _measure(self, trial: PlannedTrial, ready: _Ready, writer: TrialWriter) -> TrialRecord:
        context, server = self._context, ready.server
        logs = LogParts.from_now(server)
        started = datetime.now(UTC)
        host = self._servers.probed_host(trial.target)
        with Probing(context.plan, context.engine, server, host, ready.settings, writer) as probe:
            result, standbys = with_replicas(
                context,
                trial,
                server,
                writer,
                lambda stop: self._generators.run(trial, lambda: self._load(trial, server, writer, stop)),
            )
            ended = datetime.now(UTC)
        probed = probe.read(trial, result.events, self._generators.clock_ahead, self._progress)
        logs.save(writer.log)
        result, ledger = self._settle(trial, server, result)
        self._run_after_trial(trial, server, writer, result)
        result, consistency = self._verify(trial, result)
        record = self._record(trial, started, result).model_copy(
            update={
                "ended_at": ended,
                "prepare": ready.prepared,
                "leftovers": ready.leftovers,
                "way": ready.path,
                "consistency": consistency,
                "ledger": ledger,
                "replica_load": standbys.loads,
                "replication": standbys.lags,
                "probe": probed.record if probed else None,
            }
        )
        events = among(result.events, probed.events if probed else [])
        # this takes less than a second, and DuckDB would turn the signal into an error of its own
        with signals_deferred():
            writer.commit(record, events=events, settings=ready.settings, probed=probed.files if probed else ())
        self._generators.learn(record)
        self._progress.trial_ended(record)
        return record

    def _load(
        self, trial: PlannedTrial, server: Server, writer: TrialWriter, must_stop: Callable[[], bool]
    ) -> TrialResult:
        context, plan = self._context, self._context.plan

        def on_interval(interval: Interval) -> None:
            self._progress.interval(interval)
            self._guard.check()

        phases = writer.phases.absolute()
        if plan.phase:
            phases.write_text(phases_toml(plan.phase), encoding="utf-8")
        workers = self._generators.workers_for(trial.point)
        options = trial_options(plan, trial.point, context.seed + trial.number, phases, workers)
        self._progress.trial_started(trial)
        vigil = Vigil(server.quiet)
        running = self._generators.running
        result = run_trial(
            context.engine,
            [*scripts_of(context.loaded), *options],
            self._environment(trial, server),
            context.loaded.folder,
            writer.log / "engine.log",
            on_interval,
            plan.trial.max_errors,
            injector_for(context.loaded, server, writer.log / "events.log"),
            must_stop,
            self._progress.engine_reported,
            # an event of the plan may silence the server
            running if plan.event else vigil.over(running),
        )
        if vigil.reason is not None:
            failure = Failure(stage=Stage.RUN, message=f"target {trial.target}: {vigil.reason}", hint=HINT)
            result = replace(result, outcome=Outcome.FAILED, failure=failure)
        return self._progress.with_marks(result)

    def _settle(
        self, trial: PlannedTrial, server: Server, result: TrialResult
    ) -> tuple[TrialResult, LedgerRecord | None]:
        """Return `result`, failed if the server does not come back, and what became of acknowledged transactions."""
        try:
            return result, settle(self._context.plan, server, result)
        except StageFailedError as failed:
            # of two failures the first is the reason
            return replace(result, outcome=Outcome.FAILED, failure=result.failure or _named(trial, failed)), None

    def _run_after_trial(self, trial: PlannedTrial, server: Server, writer: TrialWriter, result: TrialResult) -> None:
        """Run after_trial; its failure is a note, because the trial's figures were taken before."""
        try:
            self._hooks.around_trial("after_trial", trial, server, writer.partial, result.outcome.value)
        except HookError as error:
            self._progress.note(f"trial {trial.number}: {error.message}")

    def _verify(self, trial: PlannedTrial, result: TrialResult) -> tuple[TrialResult, Consistency | None]:
        """Return `result`, failed if the dataset is inconsistent, and what was checked."""
        if result.outcome is not Outcome.FINISHED:
            self._servers.forget(trial.target)
            return result, None
        try:
            found = stage(Stage.VERIFY, lambda: self._servers.check(trial.target))
        except StageFailedError as failed:
            return replace(result, outcome=Outcome.FAILED, failure=_named(trial, failed)), None
        if found is None or not found.violations:
            return result, found
        failure = _inconsistent(self._context.plan, found)
        return replace(result, outcome=Outcome.FAILED, failure=failure), found

    def _record(self, trial: PlannedTrial, started: datetime, result: TrialResult) -> TrialRecord:
        plan = self._context.plan
        return TrialRecord(
            number=trial.number,
            slug=trial.slug,
            target=trial.target,
            point=trial.point,
            repeat=trial.repeat,
            started_at=started,
            ended_at=datetime.now(UTC),
            warmup_s=plan.trial.warmup,
            duration_s=phases_s(plan) or plan.trial.duration,
            transactions=plan.trial.transactions,
            outcome=result.outcome,
            failure=result.failure,
            generator=result.generator,
            summary=result.summary,
            events=result.plan_events,
            attempt=self._context.attempt,
        )


def _named(trial: PlannedTrial, failed: StageFailedError) -> Failure:
    """Return why it failed, with the target's name if its server fell silent: the message does not contain it."""
    name = f"target {trial.target}: "
    failure = failed.failure
    if isinstance(failed.__cause__, SilentServerError) and not failure.message.startswith(name):
        return failure.model_copy(update={"message": name + failure.message})
    return failure


def _why(record: TrialRecord) -> str:
    assert record.failure is not None
    hint = f" ({record.failure.hint})" if record.failure.hint else ""
    return f"trial {record.number} is no result: {record.failure.message}{hint}"


def _inconsistent(plan: Plan, found: Consistency) -> Failure:
    message = f"the dataset is not consistent behind the trial: {'; '.join(found.violations)}"
    hint = "the scripts or something else changed what must stay, or the server lost or doubled writes"
    if plan.workload.dataset == "sbtest":
        hint += '; for scripts that add or remove rows set reset.consistency to "none"'
    return Failure(stage=Stage.VERIFY, message=message, hint=hint)


def _settings(server: Server) -> list[Setting]:
    query = "SELECT name, setting, unit, source FROM pg_catalog.pg_settings"
    # sorted here: the search path may contain operators of other schemas
    rows = server.read_as_is(lambda connection: connection.execute(query).fetchall())
    return sorted(rows, key=lambda row: row[0])
