"""The runs that `pgdyno compare` and `pgdyno gate` name: their arms, reasons for refusal, and excluded trials."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pgdyno.analyse.comparison import Comparison, compare
from pgdyno.analyse.noise_floor import NoiseFloor, noise_floor
from pgdyno.analyse.pairs import (
    Arms,
    Metric,
    arm_name,
    between,
    judged_trials,
    usual_metric,
    usual_split,
    value_of,
    within,
)
from pgdyno.analyse.price import PriceComparison, PriceList, compare_prices, prices_of
from pgdyno.analyse.series import Series, varying_parameters
from pgdyno.audit import Finding, Severity, audit
from pgdyno.audit.causes import with_causes
from pgdyno.audit.facts import words_of
from pgdyno.audit.latency_differences import overload_findings
from pgdyno.audit.load_differences import UNIT
from pgdyno.audit.pairing import (
    FACTORS,
    Pairing,
    inequalities,
    left_out,
    of_single_trials,
    pairing_between,
    pairing_of_arms,
    trials_of,
)
from pgdyno.audit.subject import Subject
from pgdyno.commands.support.options import MetricName
from pgdyno.commands.support.report_files import read_prices
from pgdyno.errors import UsageError
from pgdyno.fingerprint.differences import Difference, topic_of
from pgdyno.messages import Message
from pgdyno.records import Outcome, TrialRecord
from pgdyno.records.price import comparable_prices
from pgdyno.records.promise import Promise
from pgdyno.records.rate_unit import NEW_ORDERS, in_one_unit, rate_unit
from pgdyno.report.answers.gate_export import Required
from pgdyno.report.answers.promises import judged_of
from pgdyno.report.answers.refusal import Grounds, Reason
from pgdyno.report.full_report import changed_plans
from pgdyno.report.report_content import PlanChange, digest
from pgdyno.store import RunData, find_run, load_run
from pgdyno.store.find_runs import LATEST


def arm_prices(run: RunData, file: Path | None) -> PriceList | None:
    """Return the prices in the price file, or else those of the run's plan. Raises UsageError."""
    return prices_of(run.manifest) if file is None else read_prices(file)


def only_target(run: RunData) -> str | None:
    """Return the run's only target, or None if the run has several."""
    names = {trial.target for trial in run.trials}
    return names.pop() if len(names) == 1 else None


def total_of(prices: PriceList | None, target: str | None) -> float | None:
    """Return a target's price over the period, or None without a price."""
    if prices is None or target is None or target not in prices.target:
        return None
    return prices.target[target].total(prices.years)


@dataclass(frozen=True, slots=True)
class Compared:
    first: str
    second: str | None
    runs: Path
    metric: MetricName | None
    """None selects the default metric of the first run."""
    by: str | None
    base: str | None
    floor_from: str | None
    force: bool = False
    """Compare despite reasons for refusal."""
    price: Path | None = None
    """A price file; None takes the prices from the plans."""


@dataclass(frozen=True)
class ComparedRuns:
    what: Compared
    first: RunData
    second: RunData | None
    floor: RunData | None
    is_by_new_orders: bool = False
    """Throughput is new orders, although some of the runs' reports show transactions."""

    @classmethod
    def read(cls, what: Compared) -> ComparedRuns:
        """Read the runs' records. Raises StoreError and UsageError."""
        if what.by == Metric.INSTRUCTIONS:
            what = replace(what, by=None, metric="instructions")
        if what.second is not None and what.base is not None:
            raise UsageError("--base applies to one run", hint="remove it, or name one run")
        first = load_run(find_run(what.first, what.runs))
        second, floor = (
            None if each is None else load_run(find_run(each, what.runs)) for each in (what.second, what.floor_from)
        )
        if second is not None and _place(second) == _place(first):
            raise UsageError(
                f"{what.first} and {what.second} are the same run: {first.folder.path}",
                hint="name two runs; one run is compared by what its trials differ in",
            )
        if what.metric is not None:
            _check_metric(Metric(what.metric), [first] if second is None else [first, second])
        one_unit = _in_one_unit(first, second)
        units = [
            {rate_unit(trial) for run in runs if run is not None for trial in run.trials}
            for runs in ((first, second), one_unit)
        ]
        return cls(what, *one_unit, floor, is_by_new_orders=units[0] != units[1] == {NEW_ORDERS})

    @classmethod
    def with_trials(cls, what: Compared) -> ComparedRuns:
        """Read the runs' records. Raises StoreError, UsageError also if one of them has no finished trial."""
        runs = cls.read(what)
        for run in (runs.first, runs.second):
            if run is not None and not any(trial.outcome is Outcome.FINISHED for trial in run.trials):
                name, planned = run.manifest.run, run.manifest.trials_planned
                raise UsageError(
                    f"run {name} has no finished trials to compare ({len(run.trials)} of {planned} ran)",
                    hint=f"to see why: pgdyno show {name}",
                )
        return runs

    def arms(self) -> list[Arms]:
        """Arms to compare, with what confounds them; trials that are invalid are left out, unless forced."""
        left = self._removed_trials(self.first)
        removed = [] if self.what.force else self._invalid_trials
        notes = tuple(left_out(run, findings) for run, findings in removed)
        metric = self.metric()
        if self.second is None:
            found = within(self.first, self._dimension, metric, self.what.base, left)
            return [replace(self._pairing_of(arms).with_confounders(arms), notes=notes) for arms in found]
        arms = between(self.first, self.second, metric, (left, self._removed_trials(self.second)))
        return [replace(self._pairing.with_confounders(arms), notes=notes)]

    def judged_promises(self, arms: Arms, promises: Sequence[Promise]) -> Required:
        """Return each of `promises` at each point of the other arm, over the trials that are not left out."""
        run = self.second or self.first
        removed = self._removed_trials(run)
        is_other = (lambda _: True) if self.second is not None else self._is_other(arms)
        of = digest(run)
        trials = {trial.number: trial.number not in removed for trial in run.trials if is_other(trial)}
        return Required(of, judged_of(of, promises, trials))

    def _is_other(self, arms: Arms) -> Callable[[TrialRecord], bool]:
        judged = judged_trials(self.first.manifest, self.first.trials)
        name_of, numbers = arm_name(self.first.manifest, judged, self._dimension), {each.number for each in judged}
        return lambda trial: trial.number in numbers and name_of(trial) == arms.other

    def comparisons(self) -> list[Comparison]:
        """Return the comparisons, each with what may explain its difference. Raises StoreError."""
        base, other = (Subject(run) for run in (self.first, self.second or self.first))
        return [with_causes(each, base, other) for each in compare(self.arms(), floor=self.floor_ratio())]

    def metric(self) -> Metric:
        return usual_metric(self.first) if self.what.metric is None else Metric(self.what.metric)

    def reasons(self) -> list[Reason]:
        """Return the reasons against the comparison; with `--force`, they are printed with the result."""
        found = [
            *(Reason(run.manifest.run, each) for run in self._taking_part for each in self._findings(run)[0]),
            *self._refused_pair(),
            *self._floor_reasons(),
        ]
        invalid = [Reason(run.manifest.run, each) for run, findings in self._invalid_trials for each in findings]
        if invalid and (self.what.force or (not found and any(arms.is_empty for arms in self.arms()))):
            found += invalid
        return found

    def notes(self) -> list[Message]:
        found = list(self._pairing.cautions) if self.second is not None else []
        if LATEST in (self.what.first, self.what.second):
            run = self.first if self.what.first == LATEST else self.second
            assert run is not None
            began = f"{run.manifest.started_at:%Y-%m-%d %H:%M:%S} UTC"
            found.append(
                Message("latest-run", "the latest run is {run}, begun {time}", run=run.manifest.run, time=began)
            )
        if self.is_by_new_orders:
            found.append(
                Message(
                    "compared-by-new-orders",
                    "throughput here is new orders (NOPM divided by 60), because not all trials have transactions",
                )
            )
        if self.floor is not None:
            other = pairing_between(self.first, self.floor, metric=self.metric())
            # targets of other names are not compared
            differences = [words_of(each) for each in other.refused if each.field != "servers"]
            differences += [each.message for each in other.confounders]
            found += [
                Message(
                    "other-floor",
                    "the noise floor was measured under other conditions than the comparison: {difference}",
                    difference=each,
                )
                for each in differences
            ]
            found += [
                Message("floor-warning", "noise floor: {warning}", warning=warning)
                for each in self._floors
                for warning in each.warnings
            ]
        return found

    def removed_json(self) -> list[dict[str, object]]:
        """Return the findings that exclude trials, each with its run."""
        if self.what.force:
            return []
        return [
            {"run": run.manifest.run, **each.model_dump(mode="json")}
            for run, findings in self._invalid_trials
            for each in findings
        ]

    def prices(self, of: Comparison) -> list[PriceComparison]:
        """Return the price of throughput under both arms; empty if an arm has no price, or they do not compare."""
        lists = self.price_lists(of)
        if lists is None or not comparable_prices(*lists):
            return []
        totals = [total_of(prices, name) for prices, name in zip(lists, self._priced_targets(of), strict=True)]
        return [] if totals[0] is None or totals[1] is None else compare_prices(of, totals[0], totals[1])

    def price_lists(self, of: Comparison) -> tuple[PriceList, PriceList] | None:
        """Return the price lists of both arms; None if an arm has no price, or `of` compares no throughput."""
        lists = [arm_prices(run, self.what.price) for run in (self.first, self.second or self.first)]
        priced = [
            prices
            for prices, name in zip(lists, self._priced_targets(of), strict=True)
            if prices is not None and total_of(prices, name)
        ]
        return (priced[0], priced[1]) if of.metric is Metric.TPS and len(priced) == 2 else None

    def _priced_targets(self, of: Comparison) -> tuple[str | None, str | None]:
        return (of.base, of.other) if self.second is None else (only_target(self.first), only_target(self.second))

    def changed_plans(self) -> list[PlanChange]:
        """Return the statements whose query plans differ between the arms. Raises StoreError."""
        if self.second is None:
            return changed_plans([self.first], self._dimension, self.what.base)
        return changed_plans([self.first, self.second])

    def noise_floors(self) -> list[NoiseFloor]:
        """Return the noise floor of each arm of the first run compared with the baseline."""
        return _floors_of(self.first, self.arms())

    def floor_ratio(self) -> float:
        """Return the noise floor of the A/A run; 0 without one, and where `--force` overrides a refusal."""
        return max((each.floor for each in self._floors if each.refusal is None), default=0.0)

    @property
    def _dimension(self) -> str:
        return self.what.by or _first_difference(self.first)

    @property
    def _taking_part(self) -> list[RunData]:
        """By where they were found: their names are what their manifests say, and may be alike."""
        runs = {_place(run): run for run in (self.first, self.second, self.floor) if run is not None}
        return list(runs.values())

    @cached_property
    def _findings_by_run(self) -> dict[Path, tuple[list[Finding], list[Finding]]]:
        prices = None if self.what.price is None else read_prices(self.what.price)
        found = {}
        for run in self._taking_part:
            whole, single = of_single_trials(audit(run, prices=prices))
            found[_place(run)] = whole, [*single, *overload_findings(run, self.metric())]
        return found

    def _findings(self, run: RunData) -> tuple[list[Finding], list[Finding]]:
        return self._findings_by_run[_place(run)]

    @cached_property
    def _invalid_trials(self) -> list[tuple[RunData, list[Finding]]]:
        return [(run, of) for run in self._taking_part if (of := self._findings(run)[1])]

    def _invalid(self, run: RunData) -> set[int]:
        return trials_of(self._findings(run)[1])

    def _removed_trials(self, run: RunData) -> set[int]:
        return set() if self.what.force else self._invalid(run)

    @cached_property
    def _pairing(self) -> Pairing:
        if self.second is None:
            return Pairing()
        return pairing_between(self.first, self.second, self.what.by, self.metric())

    def _pairing_of(self, arms: Arms) -> Pairing:
        return pairing_of_arms(self.first, self._dimension, arms.base, arms.other, arms.metric)

    def _refused_pair(self) -> list[Reason]:
        if self.second is None:
            of_arms = [each for arms in self.arms() for each in self._pairing_of(arms).refused if each.field == UNIT]
            refused = [_finding("pair", _difference(each), _remedy(each.field)) for each in of_arms[:1]]
            return [Reason(self.first.manifest.run, each, Grounds.PAIR) for each in refused]
        names = f"{self.first.manifest.run} and {self.second.manifest.run}"
        differences = [_finding("pair", _difference(each), _remedy(each.field)) for each in self._pairing.refused]
        return [Reason(names, each, Grounds.PAIR) for each in [*differences, *self._pairing.invalid]]

    def _floor_reasons(self) -> list[Reason]:
        if self.floor is None:
            return []
        name = self.floor.manifest.run
        refusals = dict.fromkeys(each.refusal for each in self._floors if each.refusal is not None)
        whys = [(Message("noise-floor", "{why}", why=each.why), str(each.remedy)) for each in refusals]
        return [Reason(name, _finding("noise-floor", why, remedy), Grounds.FLOOR) for why, remedy in whys]

    @cached_property
    def _floors(self) -> list[NoiseFloor]:
        if self.floor is None:
            return []
        removed = self._invalid(self.floor)
        arms = within(self.floor, _first_difference(self.floor), self.metric(), removed=removed)
        return _floors_of(self.floor, arms)


def _floors_of(run: RunData, arms: Sequence[Arms]) -> list[NoiseFloor]:
    return [noise_floor(each, inequalities(run, each.base, each.other) if each.by == "target" else ()) for each in arms]


def _check_metric(metric: Metric, runs: Sequence[RunData]) -> None:
    """Raise UsageError if no finished trial has `metric`: only those of tpch have a composite, and no other."""
    finished = [trial for run in runs for trial in run.trials if trial.outcome is Outcome.FINISHED]
    if finished and all(value_of(trial, metric) is None for trial in finished):
        raise UsageError(f"the trials have no {metric.words}", hint=f"use --metric {usual_metric(runs[0])}")


def _place(run: RunData) -> Path:
    return run.folder.path.resolve()


def _in_one_unit(first: RunData, second: RunData | None) -> tuple[RunData, RunData | None]:
    """Return the runs with new orders as throughput if only these are known for all trials."""
    runs = [run for run in (first, second) if run is not None]
    trials = in_one_unit([run.trials for run in runs])
    found = [run if of == list(run.trials) else replace(run, trials=of) for run, of in zip(runs, trials, strict=True)]
    return found[0], found[1] if second is not None else None


def _remedy(field: str) -> str:
    if field == UNIT:
        return "import figures of one unit; HammerDB prints new orders (NOPM) and transactions (TPM)"
    if field in ("workload.profile", "unused_item"):
        return (
            "repeat one of the runs with the profile of the other; docs/guides/tpcc.md lists those that do the "
            "same work"
        )
    topic = topic_of(field)
    named = [f"--by {topic}"] if topic in FACTORS or topic.startswith("variables.") else []
    return ", or, to compare exactly this, pass ".join(["compare runs of the same plan", *named])


def _difference(of: Difference) -> Message:
    return Message("pair", "{what}", what=words_of(of), field=of.field)


def _finding(rule: str, message: Message, remedy: str) -> Finding:
    return Finding(
        rule=rule,
        id=message.id,
        severity=Severity.INVALID,
        trials=[],
        message=str(message),
        parameters=message.parameters,
        text=message,
        evidence=[],
        advice=remedy,
        source="docs/design/method.md, Verdict",
    )


def _first_difference(run: RunData) -> str:
    usual = usual_split(run)
    if usual is not None:
        return usual
    names = varying_parameters(
        list(dict.fromkeys(Series.from_point(trial.target, trial.point) for trial in run.trials))
    )
    if not names:
        raise UsageError(f"run {run.manifest.run} has only one arm", hint="name a second run to compare it with")
    return names[0]
