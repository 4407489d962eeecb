"""The plan's hooks and events around and during a trial, and stages of a trial that may fail."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg

from pgdyno.errors import PgdynoError, StopRunError, StoreError
from pgdyno.experiment.earlier_sessions import sessions_name
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.records import EventOutcome, Failure, FailureId, LedgerRecord, Manifest, Stage, TrialRecord
from pgdyno.run.commit_ledger import check_ledger, pages
from pgdyno.run.event_injection import Injector, Operations
from pgdyno.run.hook_command import Hook, run_hook
from pgdyno.run.run_trial import TrialResult
from pgdyno.store import TrialWriter
from pgdyno.store.safe_files import store_errors
from pgdyno.targets import Acts, Server, wait_accepting

UNKNOWN_S = 5.0
"""How long a control waits if no trial before it executed its event."""


class Hooks:
    """Runs the plan's hooks. Methods raise HookError and StoreError."""

    def __init__(self, context: RunContext, progress: RunProgress) -> None:
        self._context = context
        self._progress = progress

    def around_run(self, name: str, outcome: str | None = None) -> None:
        """Run before_run or after_run, if the plan has it."""
        hook = self._hook(name)
        if hook is None:
            return
        folder = self._context.folder.path / "log"
        with store_errors("make the folder", folder):
            folder.mkdir(exist_ok=True)
        self._run(hook, _of_outcome(outcome), folder / f"{name}-{self._context.attempt}.log")

    def around_trial(
        self, name: str, trial: PlannedTrial, server: Server, partial: Path, outcome: str | None = None
    ) -> bool:
        """Run before_trial or after_trial; return whether the plan has it.

        `partial` is the folder in which the trial is gathered: what a hook writes there is stored with the trial.
        """
        hook = self._hook(name)
        if hook is None:
            return False
        environment = _of_trial(trial, partial) | _of_server(server) | _of_outcome(outcome)
        self._run(hook, environment, partial / "log" / f"{name}.log")
        return True

    def _hook(self, name: str) -> Hook | None:
        hooks = self._context.plan.hooks
        command = getattr(hooks, name)
        return None if command is None else Hook(name, command, self._context.loaded.folder, hooks.timeout)

    def _run(self, hook: Hook, environment: Mapping[str, str], log: Path) -> None:
        self._progress.set_up(f"running the hook {hook.name}")
        with store_errors("write", log):
            run_hook(hook, {**self._of_run(), **environment}, log)

    def _of_run(self) -> dict[str, str]:
        return {
            "PGDYNO_RUN": str(self._context.folder.path.absolute()),
            "PGDYNO_PLAN": self._context.plan.name,
            "PGDYNO_ATTEMPT": str(self._context.attempt),
        }


def _of_outcome(outcome: str | None) -> dict[str, str]:
    return {} if outcome is None else {"PGDYNO_OUTCOME": outcome}


def _of_trial(trial: PlannedTrial, partial: Path) -> dict[str, str]:
    values: dict[str, object] = {
        "TRIAL": trial.number,
        "TRIAL_NAME": trial.slug,
        "TRIAL_DIR": partial.absolute(),
        "TARGET": trial.target,
        "REPEAT": trial.repeat,
    }
    for name, value in trial.point:
        if isinstance(value, dict):
            values |= {f"{name}_{key.replace('.', '_')}".upper(): each for key, each in value.items()}
        elif value is not None:
            values[name.upper()] = value
    return {f"PGDYNO_{name}": str(value) for name, value in values.items()}


def _of_server(server: Server) -> dict[str, str]:
    values = {} if server.machine is None else {"PGDYNO_DATA_DIRECTORY": str(server.machine.data_directory)}
    if server.replicas is not None:
        values["PGDYNO_REPLICA_PORTS"] = " ".join(each["PGPORT"] for each in server.replica_environments())
        values["PGDYNO_REPLICA_DIRECTORIES"] = ":".join(map(str, server.replica_directories()))
    return {**server.commands_environment(), **values}


T = TypeVar("T")


class StageFailedError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def stage(name: Stage, work: Callable[[], T]) -> T:
    """Return what `work` returns. Raises StageFailedError for its errors, but StopRunError and StoreError unchanged."""
    try:
        return work()
    except (StopRunError, StoreError):
        # they concern the whole run
        raise
    except PgdynoError as error:
        failure = Failure(stage=name, id=FailureId.STEP, message=error.message, hint=error.hint)
        raise StageFailedError(failure) from error
    except psycopg.Error as error:
        failure = Failure(stage=name, id=FailureId.STATEMENT, message=str(error).strip(), sqlstate=error.sqlstate)
        raise StageFailedError(failure) from error


@contextmanager
def injector_for(
    context: RunContext,
    progress: RunProgress,
    server: Server,
    trial: PlannedTrial,
    writer: TrialWriter,
    *,
    events: bool = True,
) -> Iterator[Injector | None]:
    """Yield what makes the plan's events happen to `server`; the output of their commands goes to the trial's logs.

    Without `events`, there is nothing to yield. What they left on the server is noted after the block.
    """
    if not events:
        yield None
        return
    plan, log = context.plan, writer.log / "events.log"
    acts = Acts(server, context.loaded.folder, log, f"{writer.final}/log/{log.name}")
    controls = {place: event for place, event in enumerate(plan.event) if event.is_control(trial.point)}
    earlier = context.folder.trials() if controls else []
    waits_s = {place: _usual_length_s(place, earlier) for place in controls}
    operations = Operations(acts.undo, acts.invalid_indexes, waits_s, plan.trial.until == "recovered")
    injector = Injector(plan.event, acts, operations)
    try:
        yield injector
    finally:
        for each in injector.left:
            progress.note(Message("left-on-server", "trial {trial} left {what}", trial=trial.number, what=each))


def _usual_length_s(place: int, trials: Sequence[TrialRecord]) -> float:
    known = [each.events[place] for each in trials if len(each.events) > place]
    lengths = [each.seconds for each in known if each.outcome is EventOutcome.DONE and each.seconds is not None]
    return statistics.median(lengths) if lengths else UNKNOWN_S


def clients_environment(plan: Plan, manifest: Manifest, trial: PlannedTrial, server: Server) -> dict[str, str]:
    """Return the variables with which the load of `trial` finds `server`, and a replica that takes over from it."""
    promotes = any(event.name == "promote" for event in plan.event)
    if server.path is not None and not server.path.is_own:
        # the name would stay in the sessions of other clients
        return server.clients_environment()
    return {**server.clients_environment(follows_primary=promotes), "PGAPPNAME": sessions_name(manifest, trial)}


def settle(plan: Plan, server: Server, result: TrialResult) -> LedgerRecord | None:
    """Wait for a server that went down in the trial, and compare the clients' ledger with its rows.

    Raises StageFailedError.
    """
    ledger = pages(result.events)
    if plan.reconnect() != "off":
        stage(Stage.VERIFY, lambda: wait_accepting(server))
    if ledger is None:
        return None
    with stage(Stage.VERIFY, server.connect) as connection:
        return stage(Stage.VERIFY, lambda: check_ledger(ledger, connection))
