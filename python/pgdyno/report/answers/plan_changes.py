"""Statements whose query plans differ between two arms, and what they took in each."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.analyse.pairs import arm_name, by_arm, key_without, split_of
from pgdyno.audit.arms import arms_of, point_of
from pgdyno.audit.pairing import sides_of
from pgdyno.audit.subject import AuditRun
from pgdyno.records import Outcome, TrialRecord
from pgdyno.report.report_content import Digest, PlanChange, PlanOfArm
from pgdyno.store.read_runs import KeptPlan


@dataclass(slots=True)
class _Statement:
    plans: list[KeptPlan] = field(default_factory=list)
    """One for each of its places: the most frequent shape counts."""
    places: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def plan(self) -> KeptPlan:
        ((most, _),) = Counter(each.shape for each in self.plans).most_common(1)
        return next(each for each in self.plans if each.shape == most)


Arm = tuple[int, str]
"""An arm by the index of its run; arms of several runs that are compared have the same text."""


@dataclass(frozen=True, slots=True)
class ComparedArms:
    """The arms of a comparison, and how their trials are matched."""

    arms: Mapping[int, Arm]
    """The arm of each trial, by its number in the report."""
    base_of: Callable[[Arm], Arm]
    """Returns the baseline of an arm."""
    point_of: Callable[[TrialRecord], Hashable]
    """Returns what the trials of an arm and of its baseline have in common."""


def arms_of_run(run: AuditRun, by: str | None = None, base: str | None = None) -> ComparedArms | None:
    """Return the arms of one run as `analyse.pairs.within` compares them; None if it has only one."""
    by = by or split_of(run.manifest, run.trials)
    if by is None:
        return None
    name_of = arm_name(run.manifest, run.trials, by)
    first = (0, base or next(iter(by_arm(run.manifest, run.trials, by)), ""))
    return ComparedArms({trial.number: (0, name_of(trial)) for trial in run.trials}, lambda _: first, key_without(by))


def arms_of_runs(runs: Sequence[AuditRun], numbers: Sequence[Mapping[int, int]]) -> ComparedArms:
    """Return the arms of several runs, each with that of the first run as its baseline; `numbers` has the report's
    numbers of the trials of each run by their own.
    """
    arms: dict[int, Arm] = {}
    for at, run in enumerate(runs):
        in_first = {other.target: base.target for base, other in sides_of(runs[0], run)}
        # a target without a match in the first run is compared with none
        trials = [
            trial.model_copy(update={"target": in_first.get(trial.target, f"{trial.target} of {at}")})
            for trial in run.trials
        ]
        arms |= {numbers[at][own]: (at, name) for own, name in arms_of(trials).items()}
    return ComparedArms(arms, lambda arm: (0, arm[1]), point_of)


def plan_changes(of: Digest, kept: Sequence[KeptPlan], compared: ComparedArms) -> list[PlanChange]:
    """Compare plans of arms with their baseline's; return a change per statement and arm, where it costs most."""
    trials = {trial.number: trial for trial in of.run.trials if trial.outcome is Outcome.FINISHED}
    # parameters of queries that run once differ between runs, but the queries have numbers or files
    names = (of.manifest.plan.get("workload") or {}).get("queries")
    files = names if isinstance(names, list) else None
    # by point and statement
    found: dict[tuple[Hashable, str], dict[Arm, _Statement]] = defaultdict(dict)
    for each in kept:
        for place in each.places:
            trial = trials.get(place[0])
            if trial is not None:
                key = files[place[2]] if files else f"Q{place[2] + 1}" if of.manifest.runs_once else each.text
                arms = found[compared.point_of(trial), key]
                statement = arms.setdefault(compared.arms[trial.number], _Statement())
                statement.plans.append(each)
                statement.places.append(place)
    means = _means(of, (place for arms in found.values() for each in arms.values() for place in each.places))

    def plan_of(statement: _Statement) -> PlanOfArm:
        name = of.trial_name(trials[statement.places[0][0]])
        done = [means[place] for place in statement.places if place in means]
        calls = sum(count for count, _ in done)
        mean_ms = sum(count * mean for count, mean in done) / calls / 1e6 if calls else None
        return PlanOfArm(name, statement.plan.plan, mean_ms)

    changes: dict[tuple[str, Arm], PlanChange] = {}
    for (_, key), arms in found.items():
        for arm, other in arms.items():
            base = arms.get(compared.base_of(arm))
            if base is not None and base.plan.shape != other.plan.shape:
                clients = trials[base.places[0][0]].point.clients or 0
                change = PlanChange(key, base.plan.text, clients, plan_of(base), plan_of(other))
                changes[key, arm] = max(changes.get((key, arm), change), change, key=_cost)
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
