"""A run that was begun before: what is whole stays, the rest is made, in the planned order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from pgdyno.errors import StoreError
from pgdyno.experiment.attempts import attempts_so_far, changes, new_attempt
from pgdyno.experiment.conditions import changed_since
from pgdyno.experiment.course import Finished, carry_out
from pgdyno.experiment.ground import prepared_ground
from pgdyno.experiment.renting import Renting
from pgdyno.experiment.search.course import search_trials, trials_so_far
from pgdyno.experiment.servers import known_facts, note_rented
from pgdyno.experiment.state import RunState
from pgdyno.plan import LoadedPlan, Plan, PlannedTrial, planned_trials
from pgdyno.plan.scripts import script_files
from pgdyno.records import Manifest, Outcome, TrialRecord
from pgdyno.report.live import LiveView
from pgdyno.report.run_events import NoRequests, Noted, Requests
from pgdyno.store import RunFolder, changed_script
from pgdyno.targets import Use


def resume_experiment(
    path: Path,
    view: LiveView,
    *,
    redo_failed: bool,
    use: Use | None = None,
    renting: Renting | None = None,
    requests: Requests | None = None,
) -> Finished:
    """Goes on with the run folder `path`; see `carry_out`. With `redo_failed`, failed trials are made anew, too.

    The plan is the manifest's. Raises PgdynoError when there is nothing to do, or the run cannot go on.
    """
    folder = RunFolder.open(path)
    with folder.locked():
        # what it says may have changed until it was ours
        folder = RunFolder.open(path)
        loaded = loaded_of(folder)
        searches = loaded.plan.search is not None
        trials = trials_so_far(folder.trials()) if searches else planned_trials(loaded.plan)
        todo, failed = _left(folder, trials, redo_failed=redo_failed, searches=searches)
        _refuse_changed_scripts(folder, loaded)
        with prepared_ground(loaded, view, use, renting) as ground:
            ground.guard.watch("the run's folder", folder.path)
            seed = loaded.plan.trial.seed
            assert seed is not None
            state = RunState(loaded, ground, folder, view, requests or NoRequests(), seed, trials)
            _begin_attempt(state, failed)
            note_rented(state)
            if searches:
                state.trials = [trial for trial in trials if trial not in todo]
                view.event(Noted(f"the search goes on behind {len(state.trials)} trials, into {folder.path}"))
                return carry_out(state, search_trials(state))
            view.event(Noted(f"{len(todo)} of {len(trials)} trials are to be done, into {folder.path}"))
            return carry_out(state, todo)


def loaded_of(folder: RunFolder) -> LoadedPlan:
    """The plan of a run, with the very versions that it has had. Raises StoreError."""
    manifest = folder.manifest
    try:
        plan = Plan.from_resolved(manifest.plan)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"cannot resume {folder.name}: this pgdyno does not understand its plan: {at}: {first['msg'].lower()}",
            hint=f"use pgdyno {manifest.pgdyno}, which began it",
        ) from error
    if plan.trial.seed is None:
        raise StoreError(f"cannot resume {folder.name}: its manifest has no seed", hint="begin a new run")
    if manifest.scripts is None and script_files(plan):
        raise StoreError(
            f"cannot resume {folder.name}: pgdyno {manifest.pgdyno} kept no copies of its scripts, "
            "so nobody knows whether they are the same",
            hint="begin a new run",
        )
    return LoadedPlan(_pinned(plan, manifest), manifest.plan_source, "", Path(manifest.plan_folder or folder.path))


def _pinned(plan: Plan, manifest: Manifest) -> Plan:
    """`plan` with the very versions that the run has had: what "18" means today may be a later one."""
    known = known_facts(manifest.targets)
    targets = {name: spec.pinned(known[name].version) if name in known else spec for name, spec in plan.target.items()}
    return plan.model_copy(update={"target": targets})


def _left(
    folder: RunFolder, trials: Sequence[PlannedTrial], *, redo_failed: bool, searches: bool
) -> tuple[list[PlannedTrial], list[TrialRecord]]:
    """Trials that are to be done, in their order; and those of them that were done before and failed."""
    done = {record.number: record for record in folder.trials()}
    planned = [trial.slug for trial in trials]
    # earlier versions did not note the order, but numbers are in the slugs
    strangers = [record.slug for record in done.values() if record.slug not in planned]
    if strangers or (folder.manifest.order not in ([], planned) and not searches):
        raise StoreError(
            f"cannot resume {folder.name}: this pgdyno makes other trials of its plan, or in another order",
            hint=f"use pgdyno {folder.manifest.pgdyno}, which began it",
        )
    failed = [record for record in done.values() if record.outcome is not Outcome.FINISHED]
    again = {record.number for record in failed} if redo_failed else set()
    todo = [trial for trial in trials if trial.number not in done or trial.number in again]
    # one that was killed or interrupted after its last trial, while its servers stopped, is still to be closed
    closed = folder.manifest.ended_at is not None and folder.manifest.outcome is not Outcome.INTERRUPTED
    ended = bool(folder.manifest.search) if searches else closed
    if not todo and ended:
        raise StoreError(_nothing_left(folder.name, len(trials), len(failed)), hint=_how_to_redo(failed))
    return todo, failed if redo_failed else []


def _nothing_left(name: str, trials: int, failed: int) -> str:
    whole = f"all {trials} trials are there" if trials > 1 else "its trial is there"
    return f"cannot resume {name}: it is closed, {whole}{f', {failed} of them failed' if failed else ''}"


def _how_to_redo(failed: Sequence[TrialRecord]) -> str:
    return "--redo-failed makes those that failed anew" if failed else "begin a new run"


def _refuse_changed_scripts(folder: RunFolder, loaded: LoadedPlan) -> None:
    changed = changed_script(folder.path, loaded.folder, folder.manifest.scripts or [])
    if changed is not None:
        hint = f"the copy in {folder.path} is what it was: put that back, or begin a new run"
        raise StoreError(f"cannot resume {folder.name}: {changed}", hint=hint)


def _begin_attempt(state: RunState, failed: Sequence[TrialRecord]) -> None:
    """Notes the attempt in the manifest, and cleans up behind the last one."""
    folder = state.folder
    manifest: Manifest = folder.manifest
    before = attempts_so_far(manifest)
    now = new_attempt(state.ground.engine.version)
    folder.update_manifest(ended_at=None, outcome=None, attempts=[*before, now])
    number = len(before) + 1
    state.note(f"attempt {number} began at {now.started_at:%Y-%m-%d %H:%M:%S} UTC; the last one {before[-1].ended}")
    for change in [*changes(before[-1], now), *changed_since(state)]:
        state.note(change)
    removed = folder.remove_partials()
    if removed:
        state.note(f"removed what was left of {_counted(removed)}")
    for record in failed:
        folder.set_aside(record.slug)
    if failed:
        state.note(f"made anew, for they had failed: {_counted([record.slug for record in failed])}")


def _counted(slugs: Sequence[str]) -> str:
    return f"{len(slugs)} trial{'s' if len(slugs) != 1 else ''} ({', '.join(slugs)})"
