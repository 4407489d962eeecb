"""What is known before and after the load of a trial, and its record."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.trials.hooks_and_events import StageFailedError
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.scenario.loads import begin_s, plan_of_load
from pgdyno.plan.workload import phases_s
from pgdyno.probe import ProbeOutput
from pgdyno.records import (
    ArchiveBacklog,
    BackgroundFigures,
    Consistency,
    DuetRecord,
    Failure,
    FailureId,
    Leftovers,
    NetworkPathRecord,
    Preparation,
    ReadOrder,
    ReplicaLag,
    Stage,
    StepRecord,
    TrialRecord,
)
from pgdyno.records.secret_values import kept_value
from pgdyno.run.run_trial import TrialResult
from pgdyno.signals_and_exit import signals_deferred
from pgdyno.store import TrialWriter
from pgdyno.store.trial_tables import QueryPlanRow
from pgdyno.targets import Server
from pgdyno.targets.response_limits import SilentServerError

Setting = tuple[str, str, str | None, str]
"""Name, setting, unit, source."""


@dataclass(frozen=True, slots=True)
class PreparedTrial:
    """The server of a trial, and what is known just before the load."""

    server: Server
    prepared: Preparation
    leftovers: Leftovers | None
    settings: list[Setting]
    query_plans: list[QueryPlanRow]
    path: NetworkPathRecord


@dataclass(frozen=True, slots=True)
class LoadOutput:
    """What the load of a trial left, before it is checked and stored."""

    started: datetime
    ended: datetime
    result: TrialResult
    probed: ProbeOutput | None = None
    archive: ArchiveBacklog | None = None
    read_order: ReadOrder | None = None
    lags: list[ReplicaLag] = field(default_factory=list)
    background: list[BackgroundFigures] = field(default_factory=list)
    duet: DuetRecord | None = None
    beside: tuple[int, ...] = ()
    """Numbers of the trials of other groups at the same time."""
    steps: tuple[StepRecord, ...] = ()
    """What was done between the load before and this one."""


def record_of_trial(context: RunContext, trial: PlannedTrial, started: datetime, result: TrialResult) -> TrialRecord:
    """Return the record of a trial of the run, without what its server and its probe add."""
    plan = plan_of_load(context.plan, trial.point)
    return TrialRecord(
        number=trial.number,
        slug=trial.slug,
        target=trial.target,
        instance=trial.instance,
        point=trial.point,
        session_settings=plan.session_settings(trial.target, trial.point),
        repeat=trial.repeat,
        control=trial.control,
        started_at=started,
        ended_at=datetime.now(UTC),
        warmup_s=plan.trial.warmup,
        begin_s=begin_s(context.plan, trial.point),
        duration_s=phases_s(plan) or plan.trial.duration,
        transactions=plan.trial.transactions,
        outcome=result.outcome,
        failure=result.failure,
        generator=result.generator,
        summary=result.summary,
        events=result.plan_events,
        attempt=context.attempt,
    )


def store_record(record: TrialRecord, writer: TrialWriter) -> TrialRecord:
    """Store a trial that failed before its load."""
    with signals_deferred():
        writer.commit(record, events=[], settings=[])
    return record


def name_failure(trial: PlannedTrial, failed: StageFailedError) -> Failure:
    """Return the failure of a stage; that of a silent server names the target."""
    failure = failed.failure
    if not isinstance(failed.__cause__, SilentServerError):
        return failure
    message = f"target {trial.server}: {failure.message}"
    return failure.model_copy(update={"id": FailureId.SILENT, "message": message})


def failure_reason(record: TrialRecord) -> str:
    """Return why a failed trial failed, for the terminal."""
    assert record.failure is not None
    hint = f" ({record.failure.hint})" if record.failure.hint else ""
    return f"trial {record.number} failed: {record.failure.message}{hint}"


def inconsistency(plan: Plan, found: Consistency) -> Failure:
    """Return the failure of a trial that left the dataset with violations."""
    message = f"the dataset is not consistent after the trial: {'; '.join(found.violations)}"
    hint = "the scripts or another program changed rows that must not change, or the server lost or repeated writes"
    if plan.workload.dataset == "sbtest":
        hint += '; for scripts that add or remove rows set reset.consistency to "none"'
    return Failure(stage=Stage.VERIFY, id=FailureId.INCONSISTENT, message=message, hint=hint)


def read_settings(server: Server) -> list[Setting]:
    """Return the settings of `server`, sorted, without secrets. Raises PgdynoError."""
    query = "SELECT name, setting, unit, source FROM pg_catalog.pg_settings"
    # sorted here: the search path may contain operators of other schemas
    rows = server.read_as_is(lambda connection: connection.execute(query).fetchall())
    return sorted((name, kept_value(name, value), unit, source) for name, value, unit, source in rows)
