"""A new run: its folder, its manifest, all of its trials."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from pathlib import Path

from pgdyno import __version__
from pgdyno.experiment.attempts import new_attempt
from pgdyno.experiment.conditions import look_first
from pgdyno.experiment.course import Finished, carry_out
from pgdyno.experiment.ground import Ground, prepared_ground
from pgdyno.experiment.renting import Renting
from pgdyno.experiment.search.course import search_trials
from pgdyno.experiment.servers import note_rented
from pgdyno.experiment.state import RunState
from pgdyno.plan import LoadedPlan, PlannedTrial, planned_trials, time_needed_s
from pgdyno.plan.scripts import script_files
from pgdyno.records import Manifest, TargetRecord
from pgdyno.records.masking import masked_plan
from pgdyno.records.price import PriceList
from pgdyno.report.live import LiveView
from pgdyno.report.run_events import NoRequests, Noted, Requests
from pgdyno.store import RunFolder
from pgdyno.targets import Use
from pgdyno.units import format_duration


def run_experiment(
    loaded: LoadedPlan,
    parent: Path,
    view: LiveView,
    use: Use | None = None,
    *,
    check_first: bool = True,
    renting: Renting | None = None,
    requests: Requests | None = None,
) -> Finished:
    """Runs every trial of the plan, in a new folder under `parent`; see `carry_out`.

    Raises PgdynoError when the run cannot begin; with `check_first` also when the machine cannot carry the plan.
    """
    with prepared_ground(loaded, view, use, renting) as ground:
        seed = loaded.plan.trial.seed if loaded.plan.trial.seed is not None else secrets.randbelow(2**31)
        trials = planned_trials(loaded.plan, seed)
        conditions = look_first(loaded, ground, seed, view, check_first=check_first)
        price = renting.price if renting is not None else None
        manifest = _manifest(loaded, ground, trials, seed, price).model_copy(update=conditions)
        folder = RunFolder.create(parent, manifest, script_files(loaded.plan))
        with folder.locked():
            ground.guard.watch("the run's folder", folder.path)
            state = RunState(loaded, ground, folder, view, requests or NoRequests(), seed, trials)
            if loaded.plan.search is not None:
                view.event(Noted(f"searching for the {loaded.plan.search.find}, into {folder.path}"))
            else:
                view.event(Noted(_begins(folder, len(trials), time_needed_s(loaded.plan))))
            for less in loaded.gave_up:
                state.note(f"for the budget: {less}")
            note_rented(state)
            return carry_out(state, trials if loaded.plan.search is None else search_trials(state))


def _begins(folder: RunFolder, trials: int, needed_s: float | None) -> str:
    measuring = "" if needed_s is None else f", {format_duration(needed_s)} of measuring"
    return f"{trials} trial{'s' if trials != 1 else ''}{measuring}, into {folder.path}"


def _manifest(
    loaded: LoadedPlan, ground: Ground, trials: list[PlannedTrial], seed: int, price: PriceList | None
) -> Manifest:
    plan = loaded.plan
    resolved = plan.as_resolved()
    if price is not None:
        # what the plan itself says comes first
        resolved.setdefault("price", price.model_dump(mode="json"))
    resolved["trial"]["seed"] = seed
    attempt = new_attempt(ground.engine.version)
    return Manifest(
        run="",
        pgdyno=__version__,
        pgdrive=ground.engine.version,
        started_at=datetime.now(UTC),
        plan_source=loaded.source,
        plan_folder=str(loaded.folder),
        plan=resolved,
        workload=", ".join(plan.workload.scripts),
        host=attempt.host,
        targets=[
            TargetRecord(name=name, kind=spec.kind, asked=masked_plan(spec.model_dump(mode="json")))
            for name, spec in plan.target.items()
        ],
        trials_planned=len(trials),
        order=[trial.slug for trial in trials],
        attempts=[attempt],
    )
