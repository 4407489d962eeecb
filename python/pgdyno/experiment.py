"""One execution of a plan: the only place that knows all the steps."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import psycopg

from pgdyno import __version__
from pgdyno.analyse.series import Series, following, label, varying
from pgdyno.errors import PgdynoError, TargetError
from pgdyno.host import describe_host
from pgdyno.plan import BUILTIN_SCRIPTS, LoadedPlan, Plan, PlannedTrial, planned_trials, time_needed_s
from pgdyno.plan.phases import phases_s, trial_s
from pgdyno.plan.reset_checks import check_found_versions
from pgdyno.plan.scripts import scripts_that_run
from pgdyno.prepare import Dataset, Preparer, check_extension
from pgdyno.records import (
    Consistency,
    Failure,
    Manifest,
    Outcome,
    Preparation,
    ServerFacts,
    Stage,
    TargetRecord,
    TrialRecord,
)
from pgdyno.report.live import LiveView
from pgdyno.run import (
    Engine,
    Interval,
    TrialResult,
    check_scripts,
    find_engine,
    phases_toml,
    run_trial,
    script_options,
)
from pgdyno.run.engine import trial_options
from pgdyno.store import RunFolder, TrialWriter
from pgdyno.target import Home, Installation, Progress, Server, fetch_target, open_target, sweep_leftovers
from pgdyno.units import format_duration

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run came to."""

    folder: RunFolder
    records: list[TrialRecord]

    @property
    def failed(self) -> list[TrialRecord]:
        """Trials that are no results."""
        return [record for record in self.records if record.outcome is not Outcome.FINISHED]


class _Preparing:
    """What targets and datasets say while they are made ready, for the live view."""

    def __init__(self, view: LiveView) -> None:
        self._view = view

    def step(self, text: str) -> None:
        self._view.set_up(text)

    def bytes(self, done: int, total: int | None) -> None:
        self._view.bytes(done, total)

    def rows(self, done: int, total: int, per_s: float, left_s: float) -> None:
        self._view.rows(done, total, per_s, left_s)


def _labels(plan: Plan, trials: list[PlannedTrial]) -> dict[int, str]:
    workload = ", ".join(plan.workload.scripts)
    follow = following(plan.as_resolved(), (trial.point for trial in trials))
    series = {trial.number: Series.of(trial.target, trial.point, follow) for trial in trials}
    names = varying(list(series.values()))
    labels = {}
    for trial in trials:
        parts = [label(series[trial.number], names)] if names else []
        clients = trial.point.clients
        labels[trial.number] = " ".join([*parts, workload, f"{clients} client{'s' if clients != 1 else ''}"])
    return labels


@dataclass(slots=True)
class _State:
    """What the trials of a run share."""

    loaded: LoadedPlan
    engine: Engine
    home: Home
    installations: dict[str, Installation]
    """Programs of each target, by its name."""
    folder: RunFolder
    view: LiveView
    progress: Progress
    seed: int
    labels: dict[int, str]
    """What each trial is called while it runs, by number."""
    servers: dict[str, Server] = field(default_factory=dict)
    """Targets that are up. They stay up to the end: an idle server costs next to nothing, a load does."""
    preparers: dict[str, Preparer] = field(default_factory=dict)
    """What brings each of them back to the state in which a trial starts."""
    unavailable: dict[str, PgdynoError] = field(default_factory=dict)
    """Targets that could not be started, and are not tried again."""
    contexts: ExitStack = field(default_factory=ExitStack)
    facts: dict[str, ServerFacts] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """For the manifest."""

    def note(self, text: str) -> None:
        """Says something now, and keeps it with the run."""
        self.view.note(text)
        self.notes.append(text)


def run_experiment(loaded: LoadedPlan, parent: Path, view: LiveView) -> Finished:
    """Runs every trial of the plan and stores each as it ends, in a new folder under `parent`.

    A trial that fails is stored as failed; the run goes on or ends as the plan says. Ctrl-C and
    SIGTERM (as KeyboardInterrupt and SystemExit) store nothing of the trial in flight, close the
    manifest and go on to the caller. Raises PgdynoError when the run cannot begin.
    """
    engine = find_engine()
    check_scripts(engine, scripts_of(loaded), loaded.source, loaded.folder)
    home = Home.locate()
    for left in sweep_leftovers(home):
        view.note(left)
    progress = _Preparing(view)
    installations = {
        name: fetch_target(name, spec, home=home, progress=progress) for name, spec in loaded.plan.target.items()
    }
    majors = {name: each.major for name, each in installations.items()}
    check_found_versions(loaded.plan, majors, loaded.source, loaded.document)
    seed = loaded.plan.trial.seed if loaded.plan.trial.seed is not None else secrets.randbelow(2**31)
    trials = planned_trials(loaded.plan, seed)
    folder = RunFolder.create(parent, _manifest(loaded, engine, trials, seed))
    state = _State(loaded, engine, home, installations, folder, view, progress, seed, _labels(loaded.plan, trials))
    view.note(_begins(folder, len(trials), time_needed_s(loaded.plan)))
    done: list[TrialRecord] = []
    outcome = Outcome.INTERRUPTED
    try:
        for trial in trials:
            record = _one_trial(state, trial)
            done.append(record)
            if len(state.unavailable) == len(loaded.plan.target):
                state.note("stopped: no target can be started")
                break
            if record.outcome is not Outcome.FINISHED and loaded.plan.trial.on_failure == "stop":
                state.note('stopped: the plan says on_failure = "stop"')
                break
        outcome = _outcome(done)
    finally:
        state.contexts.close()
        folder.update_manifest(ended_at=datetime.now(UTC), outcome=outcome, targets=_targets(state), notes=state.notes)
    return Finished(folder, done)


def scripts_of(loaded: LoadedPlan) -> list[str]:
    """The engine's options for the plan's scripts."""
    return script_options(loaded.plan.workload.scripts, BUILTIN_SCRIPTS)


def _begins(folder: RunFolder, trials: int, needed_s: float | None) -> str:
    measuring = "" if needed_s is None else f", {format_duration(needed_s)} of measuring"
    return f"{trials} trial{'s' if trials != 1 else ''}{measuring}, into {folder.path}"


def _outcome(done: list[TrialRecord]) -> Outcome:
    well = all(record.outcome is Outcome.FINISHED for record in done)
    return Outcome.FINISHED if well else Outcome.FAILED


def _manifest(loaded: LoadedPlan, engine: Engine, trials: list[PlannedTrial], seed: int) -> Manifest:
    plan = loaded.plan
    resolved = plan.as_resolved()
    resolved["trial"]["seed"] = seed
    return Manifest(
        run="",
        pgdyno=__version__,
        pgdrive=engine.version,
        started_at=datetime.now(UTC),
        plan_source=loaded.source,
        plan=resolved,
        workload=", ".join(plan.workload.scripts),
        host=describe_host(),
        targets=[
            TargetRecord(name=name, kind=spec.kind, asked=spec.model_dump(mode="json"))
            for name, spec in plan.target.items()
        ],
        trials_planned=len(trials),
        order=[trial.slug for trial in trials],
    )


def _targets(state: _State) -> list[TargetRecord]:
    return [
        TargetRecord(name=name, kind=spec.kind, asked=spec.model_dump(mode="json"), facts=state.facts.get(name))
        for name, spec in state.loaded.plan.target.items()
    ]


def _one_trial(state: _State, trial: PlannedTrial) -> TrialRecord:
    """Prepares and runs one trial, and stores it whatever became of it."""
    writer = state.folder.begin_trial(trial.slug)
    started = datetime.now(UTC)
    # what is the matter with such a target has been said
    was_unavailable = trial.target in state.unavailable
    try:
        try:
            server = _stage(Stage.TARGET, lambda: _server_for(state, trial.target))
            prepared = _stage(Stage.PREPARE, lambda: _prepare(state, trial))
        except _StageFailedError as failed:
            record = _record(state, trial, started, TrialResult(Outcome.FAILED, [], None, None, failed.failure))
            writer.commit(record, events=[], settings=[])
        else:
            record = _measure(state, server, trial, prepared, writer)
    except BaseException:
        writer.abandon()
        raise
    if record.failure is not None and not was_unavailable:
        state.view.note(_why(record))
    return record


def _why(record: TrialRecord) -> str:
    assert record.failure is not None
    hint = f" ({record.failure.hint})" if record.failure.hint else ""
    return f"trial {record.number} is no result: {record.failure.message}{hint}"


class _StageFailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def _stage(stage: Stage, work: Callable[[], T]) -> T:
    try:
        return work()
    except PgdynoError as error:
        raise _StageFailedError(Failure(stage=stage, message=error.message, hint=error.hint)) from error
    except psycopg.Error as error:
        failure = Failure(stage=stage, message=str(error).strip(), sqlstate=error.sqlstate)
        raise _StageFailedError(failure) from error


def _server_for(state: _State, target: str) -> Server:
    """The trial's server, up: as it is, restarted after a crash, or started now."""
    if target in state.unavailable:
        raise state.unavailable[target]
    server = state.servers.get(target)
    if server is None:
        try:
            server = _start(state, target)
        except TargetError as error:
            state.unavailable[target] = error
            raise
    elif not server.alive():
        state.note(f"target {target} went down; it is started again")
        server.restart()
    return server


def _start(state: _State, target: str) -> Server:
    spec = state.loaded.plan.target[target]
    context = open_target(
        target, spec, home=state.home, progress=state.progress, installation=state.installations[target]
    )
    server = state.contexts.enter_context(context)
    plan = state.loaded.plan
    check_extension(target, server, plan.reset)
    state.servers[target] = server
    state.preparers[target] = Preparer(server, state.engine, state.progress, plan.reset, scripts_that_run(plan))
    for note in server.notes:
        state.note(f"target {target}: {note}")
    state.facts[target] = server.facts()
    return server


def _prepare(state: _State, trial: PlannedTrial) -> Preparation:
    assert trial.point.scale is not None
    dataset = Dataset.of(state.loaded.plan.workload, trial.point.scale)
    return state.preparers[trial.target].prepare(dataset)


def _verified(state: _State, trial: PlannedTrial, result: TrialResult) -> tuple[TrialResult, Consistency | None]:
    """`result`, failed if the dataset does not hold together behind the trial, and what was looked at."""
    preparer = state.preparers[trial.target]
    if result.outcome is not Outcome.FINISHED:
        preparer.forget()
        return result, None
    try:
        found = _stage(Stage.VERIFY, preparer.check)
    except _StageFailedError as failed:
        return replace(result, outcome=Outcome.FAILED, failure=failed.failure), None
    if found is None or not found.violations:
        return result, found
    message = f"the dataset is not consistent behind the trial: {'; '.join(found.violations)}"
    hint = "the scripts or something else changed what must stay, or the server lost or doubled writes"
    if state.loaded.plan.workload.dataset == "sbtest":
        hint += '; for scripts that add or remove rows set reset.consistency to "none"'
    failure = Failure(stage=Stage.VERIFY, message=message, hint=hint)
    return replace(result, outcome=Outcome.FAILED, failure=failure), found


def _measure(
    state: _State, server: Server, trial: PlannedTrial, prepared: Preparation, writer: TrialWriter
) -> TrialRecord:
    plan = state.loaded.plan
    seed = state.seed + trial.number
    settings = _settings(server)
    log_from = server.log_size()
    started = datetime.now(UTC)
    total = state.folder.manifest.trials_planned
    state.view.trial_started(trial.number, total, state.labels[trial.number], trial_s(plan))

    def on_interval(interval: Interval) -> None:
        state.view.interval(interval.tps, interval.p99_ms)

    phases = writer.phases.absolute()
    if plan.phase:
        phases.write_text(phases_toml(plan.phase), encoding="utf-8")
    result = run_trial(
        state.engine,
        [*trial_options(plan, trial.point, seed, phases), *scripts_of(state.loaded)],
        server.environment(),
        state.loaded.folder,
        writer.log / "engine.log",
        on_interval,
    )
    _copy_log(server, log_from, writer.log / "server.log")
    ended = datetime.now(UTC)
    result, consistency = _verified(state, trial, result)
    record = _record(state, trial, started, result).model_copy(
        update={"ended_at": ended, "prepare": prepared, "consistency": consistency}
    )
    writer.commit(record, events=result.events, settings=settings)
    latency = record.summary.latency_ns if record.summary else None
    p99_ms = latency.p99 / 1e6 if latency else None
    state.view.trial_ended(record.outcome, record.summary.tps if record.summary else None, p99_ms)
    return record


def _settings(server: Server) -> list[tuple[str, str, str | None, str]]:
    with server.connect() as connection:
        return connection.execute("SELECT name, setting, unit, source FROM pg_settings ORDER BY name").fetchall()


def _copy_log(server: Server, start: int, to: Path) -> None:
    with server.log_path.open("rb") as log, to.open("wb") as copy:
        log.seek(start)
        shutil.copyfileobj(log, copy)


def _record(state: _State, trial: PlannedTrial, started: datetime, result: TrialResult) -> TrialRecord:
    spec = state.loaded.plan.trial
    return TrialRecord(
        number=trial.number,
        slug=trial.slug,
        target=trial.target,
        point=trial.point,
        repeat=trial.repeat,
        started_at=started,
        ended_at=datetime.now(UTC),
        warmup_s=spec.warmup,
        duration_s=phases_s(state.loaded.plan) or spec.duration,
        transactions=spec.transactions,
        outcome=result.outcome,
        failure=result.failure,
        generator=result.generator,
        summary=result.summary,
    )
