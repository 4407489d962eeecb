"""Resume a run: finished trials stay, the others are run in the planned order; and the attempts at a run."""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from pgdyno import __version__
from pgdyno.errors import StoreError
from pgdyno.experiment.captured_load import refuse_captured
from pgdyno.experiment.changes_since_begin import changed_data, changed_since, known_facts
from pgdyno.experiment.rented_servers import Renting
from pgdyno.experiment.resources import open_resources
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.search.cheapest_search import left_to_measure
from pgdyno.experiment.search.search_trials import search_trials, trials_so_far
from pgdyno.experiment.servers import note_rented
from pgdyno.experiment.trials.profiling import arms_to_profile
from pgdyno.experiment.trials.trial_sequence import Finished, TrialSequence
from pgdyno.host import boot_id, describe_host
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan, Plan, PlannedTrial, planned_trials
from pgdyno.plan.trials import trials_in_recorded_order
from pgdyno.plan.workload import script_files
from pgdyno.records import Attempt, Manifest, Outcome, TrialRecord
from pgdyno.report.run_events import Requests
from pgdyno.report.terminal.progress import LiveView
from pgdyno.store import RunFolder, changed_capture, changed_script, read_capture_of
from pgdyno.targets import Use
from pgdyno.units import quantity

KILLED = "was killed"
MACHINE_WENT_DOWN = "went down with the machine"


def new_attempt(pgdrive: str) -> Attempt:
    """Return an attempt that begins now, with version `pgdrive` of the engine."""
    return Attempt(
        started_at=datetime.now(UTC),
        pid=os.getpid(),
        boot=boot_id(),
        host=describe_host(),
        pgdyno=__version__,
        pgdrive=pgdrive,
    )


def attempts_so_far(manifest: Manifest) -> list[Attempt]:
    """Return the attempts of `manifest`; one that was killed gets an end, and an old manifest one attempt."""
    if manifest.host is None:
        raise ValueError("an imported run has no attempts")
    attempts = list(manifest.attempts) or [
        Attempt(
            started_at=manifest.started_at,
            ended_at=manifest.ended_at,
            ended=None if manifest.outcome is None else "came to its end",
            pid=0,
            boot="",
            host=manifest.host,
            pgdyno=manifest.pgdyno,
            pgdrive=manifest.pgdrive or "",
        )
    ]
    for place, each in enumerate(attempts):
        if each.ended is None:
            rebooted = each.boot not in ("", boot_id()) and each.host == describe_host()
            ended = MACHINE_WENT_DOWN if rebooted else KILLED
            attempts[place] = each.model_copy(update={"ended": ended})
    return attempts


def changes(before: Attempt, now: Attempt) -> list[Message]:
    """Return what differs between the trials from `now` on and those before."""
    pairs: list[tuple[Message | str, object, object]] = [
        *((what, getattr(before.host, name), getattr(now.host, name)) for name, what in _HOST.items()),
        *((program, getattr(before, program), getattr(now, program)) for program in ("pgdyno", "pgdrive")),
    ]
    return [
        Message(
            "attempt-differs",
            "{what} is {now} now, and was {was} in earlier trials",
            what=what,
            now=str(new),
            was=str(old),
        )
        for what, old, new in pairs
        if old != new
    ]


_HOST = {
    "cpu_model": Message("cpu-model", "the processor"),
    "cores": Message("cores", "the number of cores"),
    "memory_bytes": Message("memory-bytes", "the memory in bytes"),
    "kernel": Message("kernel", "the kernel"),
    "os": Message("os", "the operating system"),
    "architecture": Message("architecture", "the architecture"),
}


def resume_experiment(
    path: Path,
    view: LiveView,
    *,
    redo_failed: bool,
    use: Use | None = None,
    renting: Renting | None = None,
    requests: Requests | None = None,
) -> Finished:
    """Resume the run in the folder `path`, whose manifest has the plan; see `TrialSequence.follow`.

    With `redo_failed`, failed trials are repeated. Raises PgdynoError if there is nothing to do, or the run cannot be
    resumed.
    """
    folder = RunFolder.open(path)
    with folder.hold_lock():
        # another process may have written it before this one got the lock
        folder = RunFolder.open(path)
        loaded = loaded_of(folder)
        searches = loaded.plan.search is not None
        trials = trials_so_far(folder.trials()) if searches else _planned_trials(loaded.plan, folder)
        todo, made_anew = _remaining_trials(folder, loaded.plan, trials, redo_failed=redo_failed)
        refuse_changed_scripts(folder, loaded)
        if searches:
            trials = [trial for trial in trials if trial not in todo]
        needed = replace(loaded, plan=left_to_measure(loaded.plan, folder, redo_failed=redo_failed))
        with open_resources(needed, view, use, renting) as resources:
            refuse_captured(loaded.plan, read_capture_of(folder.path), resources)
            resources.guard.watch("the run's folder", folder.path)
            seed = loaded.plan.trial.seed
            assert seed is not None
            context = RunContext(loaded, folder, resources.engine, resources.home, seed)
            progress = RunProgress(loaded.plan, folder, view, trials, requests)
            sequence = TrialSequence(context, resources, progress)
            _begin_attempt(context, progress, made_anew)
            if resources.rental is not None:
                note_rented(resources.rental, progress)
            if searches:
                progress.show(f"the search continues after {quantity(len(trials), 'trial')}, into {folder.path}")
                return sequence.follow(search_trials(loaded.plan, folder, progress, sequence.servers))
            at_most = "at most " if loaded.plan.trial.stops_when_decided else ""
            progress.show(f"{at_most}{len(todo)} of {len(trials)} trials left to run, into {folder.path}")
            return sequence.follow(todo)


def loaded_of(folder: RunFolder) -> LoadedPlan:
    """Return the plan of a run with the exact server versions that it has used. Raises StoreError."""
    manifest = folder.manifest
    try:
        plan = Plan.from_resolved(manifest.plan)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise StoreError(
            f"cannot resume {folder.name}: this version of pgdyno does not understand its plan: {at}: "
            f"{first['msg'].lower()}",
            hint=f"use pgdyno {manifest.pgdyno}, which began it",
        ) from error
    if plan.trial.seed is None:
        raise StoreError(f"cannot resume {folder.name}: its manifest has no seed", hint="begin a new run")
    if manifest.scripts is None and script_files(plan):
        raise StoreError(
            f"cannot resume {folder.name}: pgdyno {manifest.pgdyno} kept no copies of its scripts, "
            "so pgdyno cannot check that they are the same",
            hint="begin a new run",
        )
    # "18" may mean a later version today
    known = known_facts(manifest.targets)
    targets = {
        name: spec.with_version(known[name].version) if name in known else spec for name, spec in plan.target.items()
    }
    plan = plan.model_copy(update={"target": targets})
    return LoadedPlan(plan, manifest.plan_source, "", Path(manifest.plan_folder or folder.path))


def _planned_trials(plan: Plan, folder: RunFolder) -> list[PlannedTrial]:
    trials, recorded = planned_trials(plan), folder.manifest.order
    try:
        if recorded and recorded != [trial.slug for trial in trials]:
            trials = trials_in_recorded_order(trials, recorded)
        planned = {trial.slug for trial in trials}
        strangers = [record.slug for record in folder.trials() if record.slug not in planned]
        if strangers:
            raise ValueError(f"{strangers[0]} is no trial of the plan")
    except ValueError as error:
        raise StoreError(
            f"cannot resume {folder.name}: this version of pgdyno derives other trials from its plan: {error}",
            hint=f"use pgdyno {folder.manifest.pgdyno}, which began it",
        ) from error
    return trials


def _remaining_trials(
    folder: RunFolder, plan: Plan, trials: Sequence[PlannedTrial], *, redo_failed: bool
) -> tuple[list[PlannedTrial], list[TrialRecord]]:
    searches = plan.search is not None
    done = {record.number: record for record in folder.trials()}
    failed = [record for record in done.values() if record.outcome is not Outcome.FINISHED]
    again = {record.number for record in failed} if redo_failed else set()
    todo = [trial for trial in trials if trial.number not in done or trial.number in again]
    rule = folder.manifest.stopping
    if rule is not None and rule.ended is not None and not _is_cut_short(folder.manifest):
        # the trials that it left out decide nothing
        todo = [trial for trial in todo if trial.number in again]
    if not searches:
        # a trial of a pair means nothing without the other one, nor a step without those before it
        places = {trial.place for trial in todo}
        todo = [trial for trial in trials if trial.place in places]
    # a run that was killed or interrupted after its last trial, while its servers stopped, must still be closed
    closed = folder.manifest.ended_at is not None and folder.manifest.outcome is not Outcome.INTERRUPTED
    ended = bool(folder.manifest.search) if searches else closed
    if not todo and ended and not arms_to_profile(plan, folder):
        whole = f"all {len(done):,} trials are stored" if len(done) > 1 else "its trial is stored"
        whole += f", {len(failed)} of them failed" if failed else ""
        hint = "--redo-failed runs the failed ones again" if failed else "begin a new run"
        raise StoreError(f"cannot resume {folder.name}: it is closed, {whole}", hint=hint)
    return todo, [done[trial.number] for trial in todo if trial.number in done]


def _is_cut_short(manifest: Manifest) -> bool:
    return manifest.budget is not None and bool(manifest.budget.dropped)


def refuse_changed_scripts(folder: RunFolder, loaded: LoadedPlan, what: str = "resume") -> None:
    """Raise StoreError if a script file or a replayed capture is no longer what the run used; `what` says what cannot
    be done then.
    """
    kept = folder.manifest.capture
    for changed, remedy in (
        (
            changed_script(folder.path, loaded.folder, folder.manifest.scripts or []),
            f"{folder.path} has a copy of the original: restore it",
        ),
        (changed_data(folder, loaded), "restore the file"),
        (None if kept is None else changed_capture(loaded.folder, kept), "restore the original capture"),
    ):
        if changed is not None:
            raise StoreError(f"cannot {what} {folder.name}: {changed}", hint=f"{remedy}, or begin a new run")


def _begin_attempt(context: RunContext, progress: RunProgress, made_anew: Sequence[TrialRecord]) -> None:
    folder = context.folder
    before = attempts_so_far(folder.manifest)
    now = new_attempt(context.engine.version)
    rule = folder.manifest.stopping
    if rule is not None and _is_cut_short(folder.manifest):
        folder.update_manifest(stopping=rule.model_copy(update={"ended": None}))
    folder.update_manifest(ended_at=None, outcome=None, budget=None, attempts=[*before, now])
    number = len(before) + 1
    progress.note(
        Message(
            "attempt",
            "attempt {attempt} began at {began} UTC; the last one {ended}",
            attempt=number,
            began=f"{now.started_at:%Y-%m-%d %H:%M:%S}",
            ended=before[-1].ended or "did not end",
        )
    )
    for change in [*changes(before[-1], now), *changed_since(context)]:
        progress.note(change)
    kept, removed = folder.clear_partials()
    if kept:
        progress.note(
            Message(
                "partial-trials-kept",
                "kept the seconds that {count} trial had measured when it was cut off, in set-aside ({slugs})",
                "kept the seconds that {count} trials had measured when they were cut off, in set-aside ({slugs})",
                count=len(kept),
                slugs=", ".join(kept),
            )
        )
    if removed:
        progress.note(
            Message(
                "partial-trials-removed",
                "removed the incomplete files of {count} trial ({slugs})",
                "removed the incomplete files of {count} trials ({slugs})",
                count=len(removed),
                slugs=", ".join(removed),
            )
        )
    for record in made_anew:
        folder.set_aside(record.slug)
    failed = [record.slug for record in made_anew if record.outcome is not Outcome.FINISHED]
    partners = [record.slug for record in made_anew if record.outcome is Outcome.FINISHED]
    if failed:
        progress.note(
            Message(
                "failed-trials-again",
                "re-running {count} failed trial ({slugs})",
                "re-running {count} failed trials ({slugs})",
                count=len(failed),
                slugs=", ".join(failed),
            )
        )
    if partners:
        progress.note(
            Message(
                "partner-trials-again",
                "re-running {count} trial ({slugs}), whose partner is missing or failed",
                "re-running {count} trials ({slugs}), whose partner is missing or failed",
                count=len(partners),
                slugs=", ".join(partners),
            )
        )
