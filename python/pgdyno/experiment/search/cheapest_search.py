"""The search for the cheapest target that keeps a promise: a load at which a latency target is met."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp

from pgdyno.analyse.capacity import SERVED_SHARE
from pgdyno.analyse.intervals import Estimate, mean_interval
from pgdyno.analyse.price import prices_of
from pgdyno.experiment.run_progress import RunProgress
from pgdyno.experiment.search.capacity_search import limited_latencies
from pgdyno.experiment.search.cheapest_order import Verdict, best_price, next_target, open_targets
from pgdyno.experiment.search.search_arm import sentence_of
from pgdyno.experiment.servers import Servers
from pgdyno.messages import Message
from pgdyno.plan import Plan, PlannedTrial
from pgdyno.plan.optional_sections import latency_words
from pgdyno.plan.targets import RentedTarget
from pgdyno.plan.trials import slug_of
from pgdyno.records import KeptMessage, Outcome, Point, SearchRecord, TargetVerdict, TrialRecord
from pgdyno.records.price import PriceList
from pgdyno.records.promise import Promise
from pgdyno.report import numbers
from pgdyno.store import RunFolder


@dataclass(frozen=True, slots=True)
class LimitedLatency:
    """A latency over the trials of a target, with its limit; the interval is that of the mean of logarithms."""

    limited: Promise
    log_ns: Estimate

    @property
    def log_ratio(self) -> Estimate:
        """The logarithm of the latency's ratio to its limit: below 0, the promise is kept."""
        of = self.log_ns
        return Estimate(of.mean - math.log(self.limited.limit), of.half, of.n)


@dataclass(frozen=True, slots=True)
class Measured:
    """What the trials of a target show."""

    verdict: Verdict
    trials: int
    served: Estimate | None = None
    """Shares of the due transactions that succeeded; None if a trial failed."""
    latency: LimitedLatency | None = None
    """The latency that is the closest to its limit, or exceeds it most; None if a trial has none."""
    failure: str = ""

    def deciding_figure(self) -> Message:
        """Return the figure that decides, in words."""
        if self.served is None:
            return Message("target-unmeasured", "a trial failed: {failure}", failure=self.failure)
        if self.latency is None or _decides(self.served, self.latency.log_ratio):
            return Message(
                "target-served",
                "{low} to {high} % of the transactions due succeeded (95 % interval); at least 99 % must",
                low=numbers.round_text(max(100 * self.served.low, 0.0)),
                high=numbers.round_text(min(100 * self.served.high, 100.0)),
            )
        ratio, log_ns = self.latency.log_ratio, self.latency.log_ns
        figures = {
            "figure": self.latency.limited.figure,
            "value": numbers.ms(math.exp(log_ns.mean)),
            "low": numbers.ms(math.exp(log_ns.low)),
            "high": numbers.ms(math.exp(log_ns.high)),
        }
        if ratio.high < 0:
            return Message(
                "target-below-limit",
                "{figure} {value} ms (95 % interval {low} to {high} ms), at least {margin} % below the limit",
                **figures,
                margin=numbers.round_text(-100 * math.expm1(ratio.high), 2),
            )
        if ratio.low > 0:
            return Message(
                "target-above-limit",
                "{figure} {value} ms (95 % interval {low} to {high} ms), at least {margin} % above the limit",
                **figures,
                margin=numbers.round_text(100 * math.expm1(ratio.low), 2),
            )
        return Message(
            "target-at-limit",
            "{figure} {value} ms (95 % interval {low} to {high} ms), which includes the limit",
            **figures,
        )


def summarise_trials(
    trials: Sequence[TrialRecord], latency: str | Mapping[str, str], scripts: Sequence[str], repeats: int
) -> Measured | None:
    """Return what the `trials` of a target show after all `repeats`; None if it needs more of them.

    The target keeps the promise if 95 % intervals show that the share of served transactions and each latency do: that
    of the share is Student's, that of a latency Student's of its logarithm. It fails if one of them shows that. A trial
    that failed says nothing about the server's speed.
    """
    broken = next((each for each in trials if each.outcome is not Outcome.FINISHED or each.summary is None), None)
    if broken is not None:
        failure = broken.failure.message if broken.failure is not None else broken.outcome.value
        return Measured(Verdict.UNMEASURED, len(trials), failure=failure)
    if len(trials) < repeats:
        return None
    summaries = [each.summary for each in trials if each.summary is not None]
    served = mean_interval([(each.succeeded or 0) / each.due if each.due else 1.0 for each in summaries])
    by_limit = zip(*(limited_latencies(each, latency, scripts) for each in summaries), strict=True)
    found = [LimitedLatency(each[0][0], _log_mean([ns for _, ns in each])) for each in by_limit]
    if served.high < SERVED_SHARE or any(each.log_ratio.low > 0 for each in found):
        verdict = Verdict.FAILED
    elif served.low >= SERVED_SHARE and all(each.log_ratio.high < 0 for each in found):
        verdict = Verdict.KEPT
    else:
        verdict = Verdict.UNDECIDED
    has_all = all(math.isfinite(each.log_ns.mean) for each in found)
    fails = verdict is Verdict.FAILED
    worst = max(found, key=lambda each: each.log_ratio.low if fails else each.log_ratio.high) if has_all else None
    return Measured(verdict, len(trials), served, worst)


def _decides(served: Estimate, log_ratio: Estimate) -> bool:
    """Return whether the share of served transactions decides, and not the latency's `log_ratio` to its limit."""
    return served.high < SERVED_SHARE or (served.low < SERVED_SHARE and log_ratio.high < 0)


def _log_mean(latencies_ns: Sequence[float]) -> Estimate:
    # without a succeeded transaction there is no latency, and nothing is known about the mean
    if math.inf in latencies_ns:
        return Estimate(math.inf, math.inf, len(latencies_ns))
    return mean_interval([math.log(max(each, 1.0)) for each in latencies_ns])


def families_of(plan: Plan) -> list[list[str]]:
    """Return the targets by family, each from the smallest server to the largest.

    Families of the plan come first. Rented targets that differ only in the size of their type are a family, too. Every
    other target is alone: nothing is known about it from another one.
    """
    assert plan.search is not None
    found = [list(family) for family in plan.search.families]
    named = {name for family in found for name in family}
    by_type: dict[str, list[tuple[float, str]]] = {}
    for name, spec in plan.target.items():
        if name in named:
            continue
        known = spec.family_and_size() if isinstance(spec, RentedTarget) else None
        family, size = (f"{known[0]} {spec.model_dump_json(exclude={'instance'})}", known[1]) if known else (name, 0.0)
        by_type.setdefault(family, []).append((size, name))
    return found + [[name for _, name in sorted(members)] for members in by_type.values()]


@dataclass(frozen=True, slots=True)
class CheapestSearch:
    """The state of the search after some trials."""

    plan: Plan
    prices: PriceList
    shown: Mapping[str, Measured]
    """By target, those whose trials are complete."""

    @classmethod
    def from_records(cls, plan: Plan, prices: PriceList, records: Sequence[TrialRecord]) -> CheapestSearch:
        search, shown = plan.search, {}
        assert search is not None
        assert search.latency is not None
        for target in plan.target:
            own = [record for record in records if record.target == target]
            found = summarise_trials(own, search.latency, plan.workload.scripts, plan.trial.most_repeats)
            if found is not None:
                shown[target] = found
        return cls(plan, prices, shown)

    @property
    def point(self) -> Point:
        return self.plan.points()[0]

    @property
    def hourly(self) -> dict[str, float]:
        """The price of each target per hour."""
        return {name: self.prices.hourly_of(name) for name in self.plan.target}

    @property
    def verdicts(self) -> dict[str, Verdict]:
        return {name: each.verdict for name, each in self.shown.items()}

    def next(self) -> str | None:
        """Return the target to measure next; None once the answer is known."""
        return next_target(families_of(self.plan), self.hourly, self.verdicts)

    def open(self) -> set[str]:
        """Return the targets that may still be measured."""
        return open_targets(families_of(self.plan), self.hourly, self.verdicts)

    def record(self) -> SearchRecord:
        """Return the result, once there is no next target."""
        hourly, verdicts = self.hourly, self.verdicts
        best = best_price(hourly, verdicts)
        ordered = sorted(self.plan.target, key=lambda name: hourly[name])
        kept = [name for name in ordered if verdicts.get(name) is Verdict.KEPT and hourly[name] == best]
        answer = kept[0] if kept else self._nearest_target(ordered)
        whys = {name: self._verdict_reason(name, kept) for name in ordered}
        found = self._answer(answer, ordered, whys) if kept else self._no_answer(answer, ordered, whys)
        assert self.plan.search is not None
        return SearchRecord(
            find=self.plan.search.find,
            target=answer,
            point=self.point,
            trials=sum(each.trials for each in self.shown.values()),
            words=sentence_of(found),
            messages=[KeptMessage.from_message(each) for each in found],
            latency=self.plan.search.latency,
            currency=self.prices.currency,
            kept=bool(kept),
            targets=[self._target(name, whys[name]) for name in ordered],
        )

    def _nearest_target(self, ordered: Sequence[str]) -> str:
        ratios = {
            name: each.latency.log_ratio.mean
            for name, each in self.shown.items()
            if each.latency is not None and each.verdict is not Verdict.UNMEASURED
        }
        return min(ratios, key=lambda name: ratios[name]) if ratios else ordered[-1]

    def _verdict_reason(self, name: str, kept: Sequence[str]) -> Message:
        if name in self.shown:
            return self.shown[name].deciding_figure()
        family = next(each for each in families_of(self.plan) if name in each)
        larger = family[family.index(name) + 1 :]
        failed = [each for each in larger if each in self.shown and self.shown[each].verdict is Verdict.FAILED]
        if failed:
            return Message("target-smaller", "not measured: it is smaller than {larger}, which fails", larger=failed[0])
        # every other target is measured unless it costs too much
        if self.hourly[name] == self.hourly[kept[0]]:
            return Message("target-as-cheap", "not measured: it costs as much as {kept}", kept=kept[0])
        return Message("target-dearer", "not measured: it costs more than {kept}", kept=kept[0])

    def _answer(self, answer: str, ordered: Sequence[str], whys: Mapping[str, Message]) -> list[Message]:
        found = Message(
            "cheapest-found",
            "the cheapest target that keeps {rate} transactions a second at {latency} is {target}, at {price} "
            "{currency} an hour: {why}",
            why=whys[answer],
            **self._promise(),
            **self._price_parameters(answer),
        )
        parts = [found]
        price = self.hourly[answer]
        cheaper = [name for name in ordered if self.hourly[name] < price]
        missed = [name for name in cheaper if not self._is_open(name)]
        if missed:
            # prices are in order
            name = missed[-1]
            parts.append(
                Message(
                    "cheapest-missed",
                    "{target}, the next cheaper at {price} {currency}, does not keep the promise: {why}",
                    why=whys[name],
                    **self._price_parameters(name),
                )
            )
        if undecided := ", ".join(filter(self._is_open, cheaper)):
            parts.append(Message("cheapest-undecided", "cheaper, but not decided: {targets}", targets=undecided))
        alike = [name for name in ordered if self.hourly[name] == price]
        if ties := ", ".join(name for name in alike if whys[name].id == "target-as-cheap" or self._is_open(name)):
            parts.append(Message("cheapest-ties", "as cheap, but not decided: {targets}", targets=ties))
        return parts

    def _no_answer(self, nearest: str, ordered: Sequence[str], whys: Mapping[str, Message]) -> list[Message]:
        undecided = ", ".join(filter(self._is_open, ordered))
        promise = self._promise()
        parts = [
            Message(
                "cheapest-none-shown", "no target is shown to keep {rate} transactions a second at {latency}", **promise
            )
            if undecided
            else Message("cheapest-none", "no target keeps {rate} transactions a second at {latency}", **promise)
        ]
        if nearest in self.shown:
            parts.append(
                Message(
                    "cheapest-nearest",
                    "the nearest is {target}, at {price} {currency} an hour: {why}",
                    why=whys[nearest],
                    **self._price_parameters(nearest),
                )
            )
        if undecided:
            parts.append(Message("targets-undecided", "not decided: {targets}", targets=undecided))
        return parts

    def _promise(self) -> dict[str, str]:
        assert self.plan.search is not None
        assert self.plan.search.latency is not None
        return {"rate": f"{self.point.rate or 0.0:,.10g}", "latency": latency_words(self.plan.search.latency)}

    def _price_parameters(self, name: str) -> dict[str, str]:
        return {"target": name, "price": numbers.round_text(self.hourly[name]), "currency": self.prices.currency}

    def _is_open(self, name: str) -> bool:
        return self.verdicts.get(name) in (Verdict.UNDECIDED, Verdict.UNMEASURED)

    def _target(self, name: str, why: Message) -> TargetVerdict:
        found = self.shown.get(name)
        latency = found.latency if found is not None else None
        served = found.served if found is not None else None
        log_ns = latency.log_ns if latency is not None else None
        return TargetVerdict(
            target=name,
            price=self.hourly[name],
            verdict=found.verdict.value if found is not None else "untried",
            trials=found.trials if found is not None else 0,
            why=KeptMessage.from_message(why),
            limit_ns=latency.limited.limit if latency is not None else None,
            latency_ns=exp(log_ns.mean) if log_ns is not None else None,
            latency_low_ns=exp(log_ns.low) if log_ns is not None else None,
            latency_high_ns=exp(log_ns.high) if log_ns is not None else None,
            served=served.mean if served is not None else None,
            served_low=served.low if served is not None else None,
            served_high=served.high if served is not None else None,
        )


def left_to_measure(plan: Plan, folder: RunFolder, *, redo_failed: bool) -> Plan:
    """Return the plan with the targets that a resumed search for the cheapest may still measure: no other is rented.

    Any other plan stays as it is, as does one that has no target left. With `redo_failed`, failed trials do not count.
    Raises StoreError.
    """
    prices = prices_of(folder.manifest)
    if plan.search is None or plan.search.find != "cheapest" or prices is None:
        return plan
    records = [each for each in folder.trials() if each.outcome is Outcome.FINISHED or not redo_failed]
    open_ = CheapestSearch.from_records(plan, prices, records).open()
    targets = {name: spec for name, spec in plan.target.items() if name in open_}
    return plan.model_copy(update={"target": targets or plan.target})


def cheapest_trials(plan: Plan, folder: RunFolder, progress: RunProgress, servers: Servers) -> Iterator[PlannedTrial]:
    """Yield the trials that the search still needs; after the last one, write the result into the manifest.

    The trials of a target follow each other, because a rented server is removed once it is decided. Raises StoreError.
    """
    prices = prices_of(folder.manifest)
    assert prices is not None
    told = set(CheapestSearch.from_records(plan, prices, folder.trials()).shown)
    while True:
        records = folder.trials()
        search = CheapestSearch.from_records(plan, prices, records)
        for name in search.shown.keys() - told:
            progress.show(f"target {name}: {search.shown[name].verdict}: {search.shown[name].deciding_figure()}")
            told.add(name)
        target = search.next()
        if target is None:
            break
        for name in plan.target.keys() - search.open():
            servers.release(name)
        taken = {record.number for record in records}
        number = next(each for each in range(1, len(taken) + 2) if each not in taken)
        repeat = 1 + sum(record.target == target for record in records)
        trial = PlannedTrial(number, slug_of(number, target, search.point, []), target, search.point, repeat)
        progress.add(trial)
        yield trial
    found = search.record()
    folder.update_manifest(search=[found])
    progress.show(found.words)
