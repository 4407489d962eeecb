"""What a run keeps of its conditions: the preflight, and the fingerprint as it grows."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.doctor import environments, needs_of_plan, preflight
from pgdyno.experiment.ground import Ground, scripts_of
from pgdyno.experiment.state import RunState
from pgdyno.fingerprint import take_fingerprint, with_mark, with_server
from pgdyno.plan import LoadedPlan
from pgdyno.prepare import Dataset
from pgdyno.records import Fingerprint, ServerFacts
from pgdyno.report.live import LiveView
from pgdyno.target import Server


def look_first(
    loaded: LoadedPlan, ground: Ground, seed: int, view: LiveView, *, check_first: bool
) -> dict[str, object]:
    """Fields of the manifest; with `check_first` the machine is looked at. Raises PreflightError."""
    needs = needs_of_plan(loaded, ground.home, scripts_of(loaded))
    checks = []
    if check_first:
        checks = preflight(needs, ground.engine, environments(ground.found), view.note, view.set_up)
    return {"preflight": checks, "fingerprint": take_fingerprint(loaded, ground.engine, seed, needs)}


def keep_server(state: RunState, target: str, server: Server, facts: ServerFacts) -> None:
    """Adds a server that has started. Raises TargetError, StoreError."""
    _keep(state, lambda taken: with_server(taken, target, server, facts))


def keep_mark(state: RunState, target: str, dataset: Dataset | None) -> None:
    """Adds what the target's server holds now. Raises TargetError, StoreError."""
    _keep(state, lambda taken: with_mark(taken, target, state.servers[target], dataset))


def _keep(state: RunState, change: Callable[[Fingerprint], Fingerprint]) -> None:
    taken = state.folder.manifest.fingerprint
    # a run of an earlier version, that goes on, has none
    if taken is not None and (changed := change(taken)) is not taken:
        state.folder.update_manifest(fingerprint=changed)
