"""The plan's hooks: when they run, and what they are told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pgdyno.experiment.state import RunState
from pgdyno.plan import PlannedTrial
from pgdyno.report.run_events import SetUp
from pgdyno.run import Hook, run_hook
from pgdyno.store.storing import storing
from pgdyno.targets import Server


def run_level_hook(state: RunState, name: str, outcome: str | None = None) -> None:
    """Runs before_run or after_run, if the plan has it. Raises HookError, StoreError."""
    hook = _hook(state, name)
    if hook is None:
        return
    folder = state.folder.path / "log"
    with storing("make the folder", folder):
        folder.mkdir(exist_ok=True)
    attempt = len(state.folder.manifest.attempts)
    state.view.event(SetUp(f"running the hook {name}"))
    _run(hook, _of_run(state) | _outcome(outcome), folder / f"{name}-{attempt}.log")


def trial_hook(
    state: RunState, name: str, trial: PlannedTrial, server: Server, partial: Path, outcome: str | None = None
) -> bool:
    """Runs before_trial or after_trial, if the plan has it; True when it has.

    `partial` is the folder in which the trial is gathered: what a hook puts there is stored with it. Raises
    HookError, StoreError.
    """
    hook = _hook(state, name)
    if hook is None:
        return False
    state.view.event(SetUp(f"running the hook {name}"))
    environment = _of_run(state) | _of_trial(trial, partial) | _of_server(server) | _outcome(outcome)
    _run(hook, environment, partial / "log" / f"{name}.log")
    return True


def _run(hook: Hook, environment: Mapping[str, str], log: Path) -> None:
    with storing("write", log):
        run_hook(hook, environment, log)


def _hook(state: RunState, name: str) -> Hook | None:
    hooks = state.plan.hooks
    command = getattr(hooks, name)
    return None if command is None else Hook(name, command, state.loaded.folder, hooks.timeout)


def _of_run(state: RunState) -> dict[str, str]:
    return {
        "PGDYNO_RUN": str(state.folder.path.absolute()),
        "PGDYNO_PLAN": state.plan.name,
        "PGDYNO_ATTEMPT": str(len(state.folder.manifest.attempts)),
    }


def _outcome(outcome: str | None) -> dict[str, str]:
    return {} if outcome is None else {"PGDYNO_OUTCOME": outcome}


def _of_trial(trial: PlannedTrial, partial: Path) -> dict[str, str]:
    """Parameters of the trial that are set, each by its name in capitals."""
    said: dict[str, object] = {
        "TRIAL": trial.number,
        "TRIAL_NAME": trial.slug,
        "TRIAL_DIR": partial.absolute(),
        "TARGET": trial.target,
        "REPEAT": trial.repeat,
    }
    for name, value in trial.point:
        if isinstance(value, dict):
            said |= {f"{name}_{key.replace('.', '_')}".upper(): each for key, each in value.items()}
        elif value is not None:
            said[name.upper()] = value
    return {f"PGDYNO_{name}": str(value) for name, value in said.items()}


def _of_server(server: Server) -> dict[str, str]:
    said = {} if server.machine is None else {"PGDYNO_DATA_DIRECTORY": str(server.machine.data_directory)}
    if server.has_replicas:
        said["PGDYNO_REPLICA_PORTS"] = " ".join(each["PGPORT"] for each in server.replica_environments())
        said["PGDYNO_REPLICA_DIRECTORIES"] = ":".join(map(str, server.replica_directories()))
    return {**server.environment(), **said}
