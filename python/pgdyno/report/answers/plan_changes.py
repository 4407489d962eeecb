"""Statements whose query plans differ between two arms, and what they took in each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.audit.arms import arms_of, point_of
from pgdyno.audit.pairing import sides_of
from pgdyno.audit.subject import AuditRun
from pgdyno.records import Outcome
from pgdyno.report.digest import Digest, PlanChange, PlanOfArm
from pgdyno.store.read_runs import KeptPlan


@dataclass(slots=True)
class _Statement:
    """A statement in one arm at one point."""

    plans: list[KeptPlan] = field(default_factory=list)
    """One for each of its places: the most frequent shape counts."""
    places: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def plan(self) -> KeptPlan:
        ((most, _),) = Counter(each.shape for each in self.plans).most_common(1)
        return next(each for each in self.plans if each.shape == most)


Arm = tuple[int, str]
"""An arm by the index of its run; arms of several runs that are compared have the same text."""


def arms_of_runs(runs: Sequence[AuditRun], numbers: Sequence[Mapping[int, int]]) -> dict[int, Arm]:
    """Return the arm of each trial by its number in the report; `numbers` has those of each run by its own."""
    arms: dict[int, Arm] = {}
    for at, run in enumerate(runs):
        in_first = {other.target: base.target for base, other in sides_of(runs[0], run)}
        # a target without a match in the first run is compared with none
        trials = [
            trial.model_copy(update={"target": in_first.get(trial.target, f"{trial.target} of {at}")})
            for trial in run.trials
        ]
        arms |= {numbers[at][own]: (at, name) for own, name in arms_of(trials).items()}
    return arms


def plan_changes(of: Digest, kept: Sequence[KeptPlan], arms: Mapping[int, Arm]) -> list[PlanChange]:
    """Compare the first arm of each point with the others there, of several runs each arm with that of the first run.

    Returns a change per statement and pair of arms, at the point where it costs most.
    """
    trials = {trial.number: trial for trial in of.run.trials if trial.outcome is Outcome.FINISHED}
    is_one_run = len({at for at, _ in arms.values()}) == 1
    # parameters of tpch differ between runs, but its queries have numbers
    is_tpch = of.manifest.scale_factor is not None
    # by point and statement
    found: dict[tuple[str, str], dict[Arm, _Statement]] = defaultdict(dict)
    for each in kept:
        for place in each.places:
            trial = trials.get(place[0])
            if trial is not None:
                key = f"Q{place[2] + 1}" if is_tpch else each.text
                statement = found[point_of(trial), key].setdefault(arms[trial.number], _Statement())
                statement.plans.append(each)
                statement.places.append(place)
    means = _means(of, (place for by_arm in found.values() for each in by_arm.values() for place in each.places))

    def shown(statement: _Statement) -> PlanOfArm:
        name = of.trial_name(trials[statement.places[0][0]])
        done = [means[place] for place in statement.places if place in means]
        calls = sum(count for count, _ in done)
        mean_ms = sum(count * mean for count, mean in done) / calls / 1e6 if calls else None
        return PlanOfArm(name, statement.plan.plan, mean_ms)

    changes: dict[tuple[str, Arm, Arm], PlanChange] = {}
    for (_, key), by_arm in found.items():
        first = min(by_arm, key=lambda arm: min(by_arm[arm].places))
        for arm, other in by_arm.items():
            base_arm = first if is_one_run else (0, arm[1])
            base = by_arm.get(base_arm)
            if base is not None and base.plan.shape != other.plan.shape:
                clients = trials[base.places[0][0]].point.clients
                change = PlanChange(base.plan.text, clients, shown(base), shown(other))
                changes[key, base_arm, arm] = max(changes.get((key, base_arm, arm), change), change, key=_cost)
    return sorted(changes.values(), key=_cost, reverse=True)


def _cost(change: PlanChange) -> float:
    """Return by how much the mean times differ, as a factor of at least 1; 0 if unknown."""
    means = sorted((change.base.mean_ms or 0.0, change.other.mean_ms or 0.0))
    return means[1] / means[0] if means[0] > 0 else 0.0


def _means(of: Digest, places: Iterable[tuple[int, int, int]]) -> Mapping[tuple[int, int, int], tuple[int, float]]:
    """Return executions and mean latency in ns of the statements at `places`."""
    wanted = set(places)
    return {
        (row.trial, row.script, row.statement): (row.executions, row.latency_mean_ns)
        for trial in sorted({trial for trial, *_ in wanted})
        for row in of.run.statements(trial)
        if (row.trial, row.script, row.statement) in wanted
        and row.executions is not None
        and row.latency_mean_ns is not None
    }
