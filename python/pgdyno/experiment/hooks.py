"""The plan's hooks: when they run, and which variables they get."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pgdyno.experiment.context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.plan import PlannedTrial
from pgdyno.run import Hook, run_hook
from pgdyno.store.storing import storing
from pgdyno.targets import Server


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
        with storing("make the folder", folder):
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
        with storing("write", log):
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
    """Return the parameters of the trial that are set, each by its name in capitals."""
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
    if server.has_replicas:
        values["PGDYNO_REPLICA_PORTS"] = " ".join(each["PGPORT"] for each in server.replica_environments())
        values["PGDYNO_REPLICA_DIRECTORIES"] = ":".join(map(str, server.replica_directories()))
    return {**server.environment(), **values}
