"""A new run: its folder, its manifest, and all its trials."""

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pgdyno import __version__
from pgdyno.experiment.captured_load import refuse_captured
from pgdyno.experiment.preflight_and_fingerprint import check_conditions
from pgdyno.experiment.rented_servers import Renting
from pgdyno.experiment.resources import Resources, open_resources
from pgdyno.experiment.resume import new_attempt
from pgdyno.experiment.run_context import RunContext
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.search.search_trials import search_trials
from pgdyno.experiment.servers import note_rented
from pgdyno.experiment.stopping import stopping_rule
from pgdyno.experiment.trials.trial_sequence import Finished, TrialSequence
from pgdyno.messages import Message
from pgdyno.plan import LoadedPlan, Plan, PlannedTrial, planned_trials, time_needed_s
from pgdyno.plan.workload import script_files
from pgdyno.programs import Engine
from pgdyno.records import BudgetRecord, Manifest, TargetRecord
from pgdyno.records.price import PriceList
from pgdyno.records.secret_values import masked_plan
from pgdyno.report.run_events import Requests
from pgdyno.report.terminal.progress import LiveView
from pgdyno.store import RunFolder, read_capture_in
from pgdyno.targets import Use
from pgdyno.units import duration_words, quantity


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
    """Run every trial of the plan in a new folder under `parent`; see `TrialSequence.follow`.

    Raises PgdynoError if the run cannot begin, and with `check_first` also if a check of the preflight stops it.
    """
    with open_resources(loaded, view, use, renting) as resources:
        loaded = _fitted_again(loaded, resources)
        plan, workload = loaded.plan, loaded.plan.workload
        if workload.capture is not None:
            captured = read_capture_in(loaded.folder, workload.capture, is_replayed=workload.replays)
            refuse_captured(plan, captured, resources)
        seed = plan.trial.seed if plan.trial.seed is not None else secrets.randbelow(2**31)
        trials = planned_trials(plan, seed)
        conditions = check_conditions(loaded, resources, seed, check_first=check_first)
        price = renting.price if renting is not None else None
        manifest = _manifest(loaded, resources.engine, trials, seed, price).model_copy(update=conditions)
        manifest = manifest.model_copy(update={"stopping": stopping_rule(plan, manifest, trials)})
        folder = RunFolder.create(parent, manifest, script_files(plan), workload.capture, is_replayed=workload.replays)
        with folder.hold_lock():
            resources.guard.watch("the run's folder", folder.path)
            context = RunContext(loaded, folder, resources.engine, resources.home, seed)
            progress = RunProgress(plan, folder, view, trials, requests)
            sequence = TrialSequence(context, resources, progress)
            progress.show(_begins(plan, folder, len(trials)))
            for change in loaded.gave_up:
                progress.note(Message("budget-reduction", "for the budget: {change}", change=change))
            if resources.rental is not None:
                note_rented(resources.rental, progress)
            return sequence.follow(
                trials if plan.search is None else search_trials(plan, folder, progress, sequence.servers)
            )


MOST_UNPLANNED_S = 2.0
"""The time for finding servers that are there; longer, and downloads or rentals have used a part of the budget."""


def _fitted_again(loaded: LoadedPlan, resources: Resources) -> LoadedPlan:
    """Return the plan, reduced again if obtaining its servers took longer than planned. Raises UsageError."""
    budget, left = loaded.budget, resources.left
    if budget is None or left is None or left.used_s <= MOST_UNPLANNED_S:
        return loaded
    fitted = budget.fit(left.used_s)
    left.plans(fitted.plan)
    return replace(loaded, plan=fitted.plan, gave_up=tuple(fitted.gave_up))


def _begins(plan: Plan, folder: RunFolder, trials: int) -> str:
    if plan.search is not None:
        return f"searching for {plan.search.kind.goal}, into {folder.path}"
    at_most = "at most " if plan.trial.stops_when_decided else ""
    needed_s = time_needed_s(plan)
    measuring = "" if needed_s is None else f", {duration_words(needed_s)} of measurement"
    return f"{at_most}{quantity(trials, 'trial')}{measuring}, into {folder.path}"


def _manifest(
    loaded: LoadedPlan, engine: Engine, trials: list[PlannedTrial], seed: int, price: PriceList | None
) -> Manifest:
    plan = loaded.plan
    resolved = plan.as_resolved()
    if price is not None:
        # a price in the plan takes precedence
        resolved.setdefault("price", price.model_dump(mode="json"))
    resolved["trial"]["seed"] = seed
    attempt = new_attempt(engine.version)
    return Manifest(
        run="",
        pgdyno=__version__,
        pgdrive=engine.version,
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
        budget=BudgetRecord(seconds=loaded.budget.seconds) if loaded.budget is not None else None,
    )
