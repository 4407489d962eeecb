"""What a run keeps of its conditions: the preflight, and the fingerprint as it grows."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.doctor import environments, needs_of_plan, preflight
from pgdyno.doctor.gate import judged
from pgdyno.experiment.ground import Ground, scripts_of
from pgdyno.experiment.state import RunState
from pgdyno.fingerprint import Difference, Severity, comparable
from pgdyno.fingerprint.take import take_fingerprint, with_mark, with_server
from pgdyno.plan import LoadedPlan
from pgdyno.prepare import Dataset
from pgdyno.records import Fingerprint, Host, ServerFacts
from pgdyno.report.live import LiveView
from pgdyno.report.run_events import Noted, SetUp
from pgdyno.targets import Server


def look_first(
    loaded: LoadedPlan, ground: Ground, seed: int, view: LiveView, *, check_first: bool
) -> dict[str, object]:
    """Fields of the manifest; with `check_first` the machine is looked at. Raises PreflightError."""
    needs = needs_of_plan(loaded, ground.home, scripts_of(loaded))
    checks = []
    note, set_up = (lambda text: view.event(Noted(text))), (lambda text: view.event(SetUp(text)))
    if ground.engine.through:
        # it would tell of this machine, where nothing of the load runs
        view.event(Noted("the load comes from another host: the checks of this machine are left out"))
    elif check_first:
        checks = preflight(needs, ground.engine, environments(ground.found), note, set_up)
    if ground.cluster is not None and check_first:
        from pgdyno.cluster.look import look

        view.event(SetUp("driving a server that answers at once from every generator"))
        checks += judged(needs, look(ground.cluster, needs, environments(ground.found)), note)
    return {"preflight": checks, "fingerprint": take_fingerprint(loaded, ground.engine, seed, needs)}


SAID_OF_ATTEMPTS = frozenset(["pgdyno", "pgdrive", *(f"host.{name}" for name in Host.model_fields)])
"""Fields of a fingerprint that each attempt keeps by itself."""


def changed_since(state: RunState) -> list[str]:
    """What of machine, storage and workload is another now than when the run began, in words.

    What attempts are told apart by is left out; nothing for a run of an earlier version, without a fingerprint.
    """
    before = state.folder.manifest.fingerprint
    if before is None:
        return []
    needs = needs_of_plan(state.loaded, state.ground.home, scripts_of(state.loaded))
    now = take_fingerprint(state.loaded, state.ground.engine, state.seed, needs)
    # servers come later, each when it has started
    found = comparable(before.model_copy(update={"servers": {}}), now)
    return [_words(each) for each in found if each.field not in SAID_OF_ATTEMPTS]


def keep_server(state: RunState, target: str, server: Server, facts: ServerFacts) -> None:
    """Adds a server that has started, and says how it differs from what it was. Raises TargetError, StoreError."""
    before = state.folder.manifest.fingerprint
    _keep(state, lambda taken: with_server(taken, target, server, facts))
    now = state.folder.manifest.fingerprint
    if before is None or now is None or target not in before.servers:
        return
    only = [each.model_copy(update={"servers": {target: each.servers[target]}}) for each in (before, now)]
    for each in comparable(*only):
        # that has been said with the target's facts
        if not each.field.endswith((".version", ".version_full")):
            state.note(_words(each))


def _words(difference: Difference) -> str:
    now = "absent" if difference.b is None else difference.b
    was = "absent" if difference.a is None else difference.a
    words = f"{difference.field} is {now} now, and was {was} in earlier trials: {difference.why}"
    if difference.severity in (Severity.REFUSED, Severity.CONFOUNDER):
        words += "; these cannot be compared with those from now on"
    return words


def keep_mark(state: RunState, target: str, dataset: Dataset | None) -> None:
    """Adds what the target's server holds now. Raises TargetError, StoreError."""
    _keep(state, lambda taken: with_mark(taken, target, state.servers[target], dataset))


def _keep(state: RunState, change: Callable[[Fingerprint], Fingerprint]) -> None:
    taken = state.folder.manifest.fingerprint
    # a run of an earlier version, that goes on, has none
    if taken is not None and (changed := change(taken)) is not taken:
        state.folder.update_manifest(fingerprint=changed)
