"""The trials of a search for settings on a run's servers, and its result in the manifest and the run folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from pgdyno.analyse.capacity import SERVED_SHARE
from pgdyno.analyse.pairs import Metric, value_of
from pgdyno.analyse.price import PriceList, prices_of
from pgdyno.doctor.memory import usable_bytes
from pgdyno.errors import PgdynoError, StopRunError, StoreError
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.search.capacity_search import limited_latencies
from pgdyno.experiment.search.search_arm import sentence_of
from pgdyno.experiment.search.settings.proposals import Proposals
from pgdyno.experiment.search.settings.server_space import (
    Searched,
    SpaceProblem,
    attached_problems,
    read_settings,
    searched_settings,
)
from pgdyno.experiment.search.settings.settings_result import (
    FILE,
    Goal,
    best_seen,
    best_words,
    configuration,
    found_messages,
    one_server,
    search_record,
)
from pgdyno.experiment.search.settings.stages import Asked, Best, Found, Rules, Seen, Settings, Stage, search
from pgdyno.experiment.servers import Servers
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.targets import NetworkTarget
from pgdyno.plan.trials import slug_of
from pgdyno.records import Point, TrialRecord
from pgdyno.registry import KINDS
from pgdyno.store import RunFolder
from pgdyno.store.safe_files import replace_durably
from pgdyno.units import parse_duration_s

MOST_VIOLATION = 100.0
"""Optuna needs a finite number for a latency that no transaction has."""
DEFAULT_TRIALS = 40
"""Proposals of a search without a budget."""
UNLIMITED = 100_000
"""Proposals of a search that only its budget ends."""


@dataclass(frozen=True, slots=True)
class SettingsSearch:
    """The only search of a plan: one target at one point."""

    plan: Plan
    target: str
    start: Point
    """The starting configuration: what the plan sets, and the server's defaults."""

    @classmethod
    def from_plan(cls, plan: Plan) -> SettingsSearch:
        return cls(plan, next(iter(plan.target)), plan.points()[0])

    @property
    def metric(self) -> Metric:
        """The figure by which trials are compared; the price falls as throughput rises."""
        search = self.plan.search
        assert search is not None
        if search.goal == "price":
            return Metric.TPS
        if search.goal is not None:
            return Metric(search.goal)
        return Metric.TPS if self.start.rate is None else Metric.P99

    def goal(self, prices: PriceList | None) -> Goal:
        search = self.plan.search
        assert search is not None
        if search.goal != "price":
            return Goal(self.metric)
        # checked with the plan; a run on rented servers has a price list
        assert prices is not None
        return Goal(self.metric, prices.hourly_of(self.target), prices.currency)

    def rules(self, seed: int) -> Rules:
        search, trial = self.plan.search, self.plan.trial
        assert search is not None
        budget_s = None if search.budget is None else parse_duration_s(search.budget)
        trials = search.trials if search.trials is not None else DEFAULT_TRIALS if budget_s is None else UNLIMITED
        fresh = max(1, self.plan.target[self.target].instance_count - 1)
        return Rules(self.metric, trial.most_repeats, trials, budget_s, fresh, seed)

    def plan_trial(self, number: int, asked: Asked, repeat: int) -> PlannedTrial:
        """Return the trial `asked`; explored on the first instance, confirmed on the others."""
        point = self.start.model_copy(update={"settings": {**self.start.settings, **asked.settings}})
        count = self.plan.target[self.target].instance_count
        instance = None if count == 1 else 2 + (asked.pair - 1) % (count - 1) if asked.pair else 1
        slug = slug_of(number, self.target, point, [point])
        return PlannedTrial(number, f"{slug}-{asked.stage}", self.target, point, repeat, number, instance)

    def seen_trial(self, record: TrialRecord, took_s: float) -> Seen:
        search = self.plan.search
        assert search is not None
        figure = value_of(record, self.metric)
        violation = 1.0 if figure is None else 0.0
        if figure is not None and search.latency is not None and record.summary is not None:
            limited = limited_latencies(record.summary, search.latency, self.plan.workload.scripts)
            # a limit that is met exactly is broken, as in a search for a capacity
            violation = max((ns / target.limit - 1 or 1e-9 for target, ns in limited), default=0.0)
            violation = min(max(violation, 0.0), MOST_VIOLATION)
        if self.start.rate is not None and record.summary is not None and record.summary.due:
            # a transaction that fails or is skipped has no latency, which must not make the others look better
            violation = max(violation, SERVED_SHARE - (record.summary.succeeded or 0) / record.summary.due)
        return Seen(figure, violation, took_s)


def settings_trials(plan: Plan, folder: RunFolder, progress: RunProgress, servers: Servers) -> Iterator[PlannedTrial]:
    """Yield the trials that the search still needs; then store its result and `postgresql.conf`.

    Raises StoreError, and StopRunError before the first trial if the server cannot have a setting of the space.
    """
    own = SettingsSearch.from_plan(plan)
    space = _space(own, servers)
    seed, goal = folder.manifest.plan["trial"]["seed"], own.goal(prices_of(folder.manifest))
    assert plan.search is not None

    printed: Settings | None = None

    def show(best: Best) -> None:
        nonlocal printed
        progress.best(best_seen(best, goal))
        if best.settings != printed:
            printed = best.settings
            progress.show(best_words(best, goal))

    steps = search(own.rules(seed), Proposals(space, seed, plan.search.when), show)
    stored = {record.number: record for record in folder.trials()}
    number, repeats, is_fresh = 0, dict[str, int](), False
    try:
        asked = next(steps)
        while True:
            number += 1
            point = str(sorted(asked.settings.items()))
            repeats[point] = repeats.get(point, 0) + 1
            trial = own.plan_trial(number, asked, repeats[point])
            if number not in stored:
                if asked.stage is Stage.CONFIRM and not is_fresh:
                    _restart(own, servers, progress)
                    is_fresh = True
                progress.add(trial)
                yield trial
                stored = {record.number: record for record in folder.trials()}
            _check_same(folder, trial, stored[number])
            took_s = _took_s(folder, stored[number], stored.get(number - 1))
            asked = steps.send(own.seen_trial(stored[number], took_s))
    except StopIteration as end:
        found: Found = end.value
    messages = found_messages(found, goal)
    if plan.system_names and found.confirmed is not None:
        messages.append(one_server(is_restarted=bool(plan.target[own.target].restart_command)))
    text = configuration(found, goal, folder.name, sentence_of(messages))
    replace_durably(folder.path / FILE, text.encode())
    folder.update_manifest(search=[search_record(found, goal, own.target, own.start, number, messages)])
    progress.show(sentence_of(messages))


def _took_s(folder: RunFolder, record: TrialRecord, before: TrialRecord | None) -> float:
    """Return the seconds since the trial before, or since the attempt that measured this one began."""
    if record.started_at is None or record.ended_at is None:
        return 0.0
    starts = [each.started_at for each in folder.manifest.attempts if each.started_at <= record.started_at]
    ends = [before.ended_at] if before is not None and before.ended_at is not None else []
    return (record.ended_at - max([*starts, *ends], default=record.started_at)).total_seconds()


def _check_same(folder: RunFolder, trial: PlannedTrial, record: TrialRecord) -> None:
    if (record.point, record.instance) != (trial.point, trial.instance):
        raise StoreError(
            f"cannot resume {folder.name}: this version of pgdyno proposes other settings for trial {trial.number}",
            hint=f"use pgdyno {folder.manifest.pgdyno}, which began it, with the same version of Optuna",
        )


def _restart(own: SettingsSearch, servers: Servers, progress: RunProgress) -> None:
    """Restart a server that pgdyno did not start, in place of the fresh one to confirm on. Raises PgdynoError."""
    theirs = servers.attached_server(own.target) if own.plan.system_names else None
    if theirs is not None and theirs.spec.restart_command:
        progress.set_up("restarting the server before the pairs")
        theirs.restart()


def _space(own: SettingsSearch, servers: Servers) -> list[Searched]:
    """Start the server, and return the space on it. Raises StopRunError."""
    spec, plan_search = own.plan.target[own.target], own.plan.search
    assert plan_search is not None
    is_here = KINDS[spec.kind].where == "here"
    try:
        server = servers.obtain(own.plan_trial(1, Asked(Stage.EXPLORE, {}), 1))
        known = server.read_as_is(lambda connection: read_settings(connection, list(plan_search.over)))
        theirs = servers.attached_server(own.target) if own.plan.system_names else None
        memory_bytes = usable_bytes() if is_here else None
        if theirs is not None:
            memory_bytes = theirs.memory_bytes()
    except (PgdynoError, psycopg.Error) as error:
        raise StopRunError(
            Message("search-no-server", "cannot read the server's settings: {error}", error=str(error).strip())
        ) from error
    found: list[Searched | SpaceProblem] = []
    for name, value in plan_search.over.items():
        by_session = isinstance(spec, NetworkTarget) and name not in own.plan.system_names
        found += searched_settings({name: value}, known, memory_bytes, by_session=by_session)
    problems = [each for each in found if isinstance(each, SpaceProblem)]
    if theirs is not None:
        names = {name: known[name.lower()] for name in own.plan.system_names if name.lower() in known}
        problems += attached_problems(names, restarts=bool(spec.restart_command))
    if problems:
        said = "; ".join(f"{each.field}: {each.message} ({each.hint})" for each in problems)
        raise StopRunError(
            Message("search-refused-space", "the server does not accept these settings: {problems}", problems=said),
            hint="correct them in the plan, and begin a new run",
        )
    return [each for each in found if isinstance(each, Searched)]
