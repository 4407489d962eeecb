"""The stages of a search for settings, without I/O: a generator that yields trials and receives their results.

1. explore: a trial for each proposal, and the starting configuration before every eighth, which shows the noise.
2. race: the best are measured again; the worse half is out after each round, until one is left.
3. confirm: it is compared with the starting configuration, in pairs on fresh servers. Only this difference is reported.
4. reduce: the unimportant lines are put back together, then each other line alone, most important first; lines stay
   only if pairs show that they made a difference. What is left is confirmed again.

With a budget, each stage takes only what leaves room for the confirmations after it.

The same results give the same trials, so a search that was interrupted is repeated from its stored trials.
"""

import math
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import geometric_mean, median
from typing import Protocol

from pgdyno.analyse.comparison import ALL_POINTS, PointComparison, Verdict, compare
from pgdyno.analyse.pairs import Arms, Metric, PointPairs
from pgdyno.records import Point

BATCH = 8
"""Trials of the exploration from one trial of the starting configuration to the next."""
RACERS = 8
"""Configurations that are measured again."""
UNIMPORTANT_SHARE = 0.2
"""The least important lines that together have less than this share of the importance are put back together."""
FEWEST_EXPLORED = 14
"""Trials that explore, with those of the starting configuration, before a budget keeps time to put lines back."""
EXPLORED_SHARE = 0.5
"""Share of a budget for exploring; the rest is for the race, the confirmation and putting lines back."""

Settings = Mapping[str, str]
"""What a configuration changes of the starting configuration; empty for that itself."""


class Stage(StrEnum):
    EXPLORE = "explore"
    RACE = "race"
    CONFIRM = "confirm"
    REDUCE = "reduce"


@dataclass(frozen=True, slots=True)
class Asked:
    stage: Stage
    settings: Settings
    pair: int = 0
    """Number of its pair, from 1; 0 while exploring and racing. Pairs run on fresh servers."""


@dataclass(frozen=True, slots=True)
class Seen:
    figure: float | None
    """The trial's figure for the goal; None if it failed."""
    violation: float
    """By how much a promise was broken: 0.2 for a latency 20 % over its limit."""
    seconds: float
    """What the trial took, with its preparation."""


class Proposer(Protocol):
    """Proposes configurations; `Proposals` does so with Optuna."""

    def ask(self) -> dict[str, str]: ...

    def tell(self, gain: float | None, violation: float) -> None: ...

    def importance(self) -> dict[str, float]: ...


@dataclass(frozen=True, slots=True)
class Rules:
    metric: Metric
    pairs: int
    """Number of pairs in each comparison."""
    trials: int
    """The most proposals."""
    budget_s: float | None = None
    """For all stages; None: no limit."""
    instances: int = 1
    """Fresh servers at which the pairs take turns."""
    seed: int = 0
    """Draws the order within each pair."""


class Untested(StrEnum):
    """Why a line was not put back."""

    BUDGET = "budget"
    """The budget was used up."""
    LAST = "last"
    """No other line was left: the confirmation of the file with it alone is its test."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    value: str
    without: PointComparison | None = None
    """The configuration without this line vs with it; None if it was not tested, or too few trials finished."""
    is_kept: bool = True
    is_broken: bool = False
    """Whether a trial without it failed or broke a promise."""
    is_one_of_several: bool = False
    """Whether `without` is the configuration without several lines."""
    untested: Untested | None = None


@dataclass(slots=True)
class Found:
    explored: int = 0
    settings: Settings = field(default_factory=dict)
    """The confirmed configuration; empty if nothing was shown to be better than the starting configuration."""
    confirmed: PointComparison | None = None
    """The confirmed configuration compared with the starting configuration; of several confirmations, the one of
    `settings`. Without `settings`, the confirmation that showed nothing, or None if nothing seemed to be better.
    """
    broken: int = 0
    """Trials of that confirmation in which `settings` broke a promise."""
    is_unknown: bool = False
    """Whether too few trials finished for a comparison with the starting configuration."""
    lines: list[Line] = field(default_factory=list)
    """All lines that were put back once, in this order."""
    importance: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Best:
    """The best configuration so far, for those who watch."""

    settings: Settings
    figure: float
    trials: int
    noise: float | None
    """Standard deviation of one trial relative to its figure, from repeated configurations; None if none is."""
    start: float | None = None
    """The figure of the starting configuration; None if none of its trials has one."""


Steps = Generator[Asked, Seen, Found]


def search(rules: Rules, proposer: Proposer, show: Callable[[Best], object]) -> Steps:
    """Yield the trials of all stages; return the result. `show` gets the best so far whenever it changes."""
    return _Search(rules, proposer, show).steps()


class _Search:
    def __init__(self, rules: Rules, proposer: Proposer, show: Callable[[Best], object]) -> None:
        self._rules = rules
        self._proposer = proposer
        self._show = show
        self._took_s: list[float] = []
        self._has_fresh_servers = False
        self._confirmations = 0
        """For which a budget keeps time, once known: the winner's alone (1), or also the test of its lines and what is
        left of them (3).
        """
        self._order = random.Random(rules.seed)  # noqa: S311 - an order is no secret
        self._figures: dict[tuple[tuple[str, str], ...], list[Seen]] = {}
        """By configuration, while exploring and racing."""

    def steps(self) -> Steps:
        found = Found()
        winner, explored = dict[str, str](), -1
        while not winner and found.explored > explored:
            explored = found.explored
            yield from self._explore(found)
            winner = yield from self._race()
            self._confirmations = 1
        found.importance = self._proposer.importance()
        if not winner:
            found.is_unknown = not self._known_figures({})
            return found
        found.confirmed, found.broken = yield from self._confirm(winner)
        if not self._is_better(found):
            found.is_unknown = found.confirmed is None or found.confirmed.interval is None
            return found
        found.settings = winner
        yield from self._reduce(found)
        kept = {line.name: line.value for line in found.lines if line.is_kept}
        if kept and kept != winner:
            smaller = Found(settings=kept)
            smaller.confirmed, smaller.broken = yield from self._confirm(kept)
            if self._is_better(smaller):
                found.settings, found.confirmed, found.broken = kept, smaller.confirmed, smaller.broken
        return found

    def _measure(self, asked: Asked) -> Generator[Asked, Seen, Seen]:
        seen = yield asked
        self._took_s.append(seen.seconds)
        if asked.pair == 0:
            self._figures.setdefault(tuple(sorted(asked.settings.items())), []).append(seen)
        return seen

    # ---- explore and race ----

    def _explore(self, found: Found) -> Generator[Asked, Seen, None]:
        rules, best = self._rules, None
        while found.explored < rules.trials and (not self._took_s or self._explores_further()):
            if found.explored % (BATCH - 1) == 0:
                yield from self._measure(Asked(Stage.EXPLORE, {}))
            proposed = self._proposer.ask()
            seen = yield from self._measure(Asked(Stage.EXPLORE, proposed))
            self._proposer.tell(self._gain(seen), seen.violation)
            found.explored += 1
            best = self._show_better(best)

    def _race(self) -> Generator[Asked, Seen, dict[str, str]]:
        """Return the best of the configurations that were measured; empty for the starting configuration."""
        racers = RACERS
        while racers > 2 and not self._has_room(_race_trials(racers), self._confirmations or 1):
            racers //= 2
        racing = self._rank_configurations()[:racers]
        # the starting configuration wins if nothing is better
        racing = [*racing[: racers - 1], {}] if {} not in racing else racing
        best, times = None, 1
        while len(racing) > 1:
            for _ in range(times):
                # configurations that differ in few settings follow each other, which saves restarts
                for settings in sorted(racing, key=lambda each: sorted(each.items())):
                    yield from self._measure(Asked(Stage.RACE, settings))
            left = [each for each in self._rank_configurations() if each in racing]
            racing, times = left[: max(1, len(racing) // 2)], 2 if len(racing) <= 4 else 1
            best = self._show_better(best)
        return dict(racing[0]) if racing else {}

    def _rank_configurations(self) -> list[dict[str, str]]:
        """Return the configurations that kept every promise, the best first."""
        gains = {
            key: _mean([gain for seen in each if (gain := self._gain(seen)) is not None])
            for key, each in self._figures.items()
            if all(seen.violation == 0 for seen in each)
        }
        known = {key: gain for key, gain in gains.items() if gain is not None}
        return [dict(key) for key in sorted(known, key=lambda key: (-known[key], key))]

    def _gain(self, seen: Seen) -> float | None:
        return None if seen.figure is None else self._rules.metric.sign * math.log(seen.figure)

    def _explores_further(self) -> bool:
        budget_s = self._rules.budget_s
        if budget_s is None:
            return True
        if len(self._took_s) <= FEWEST_EXPLORED:
            return self._has_room(2 + _race_trials(2), confirmations=1)
        if not self._confirmations:
            self._confirmations = 3 if self._has_room(2 + _race_trials(2), confirmations=3) else 1
        is_early = self._confirmations == 1 or math.fsum(self._took_s) < EXPLORED_SHARE * budget_s
        return is_early and self._has_room(2 + _race_trials(RACERS), self._confirmations)

    def _has_room(self, trials: int, confirmations: int) -> bool:
        """Return whether the budget has room for `trials` and pairs; the first comparison starts fresh servers."""
        budget_s, took_s = self._rules.budget_s, self._took_s
        if budget_s is None:
            return True
        # the first trial starts and fills a server
        usual_s = median(took_s[1:] or took_s)
        start_s = 0.0 if self._has_fresh_servers else self._rules.instances * max(0.0, took_s[0] - usual_s)
        needed_s = usual_s * (trials + 2 * self._rules.pairs * confirmations) + start_s
        return math.fsum(took_s) + needed_s <= budget_s

    def _show_better(self, before: Best | None) -> Best | None:
        ranked = self._rank_configurations()
        if not ranked:
            return before
        figures, start = self._known_figures(ranked[0]), self._known_figures({})
        best = Best(
            ranked[0], geometric_mean(figures), len(figures), self._noise(), geometric_mean(start) if start else None
        )
        if best != before:
            self._show(best)
        return best

    def _known_figures(self, settings: Settings) -> list[float]:
        seen = self._figures.get(tuple(sorted(settings.items())), [])
        return [each.figure for each in seen if each.figure is not None]

    def _noise(self) -> float | None:
        squares, freedom = 0.0, 0
        for each in self._figures.values():
            logs = [math.log(seen.figure) for seen in each if seen.figure is not None]
            if len(logs) > 1:
                mean = math.fsum(logs) / len(logs)
                squares += math.fsum((one - mean) ** 2 for one in logs)
                freedom += len(logs) - 1
        return math.sqrt(squares / freedom) if freedom else None

    # ---- confirm and reduce ----

    def _confirm(self, settings: Settings) -> Generator[Asked, Seen, tuple[PointComparison | None, int]]:
        """Return `settings` compared with the starting configuration, and in how many trials they broke a promise."""
        base, other = yield from self._pairs(Stage.CONFIRM, {}, settings)
        return self._compare_measurements(base, other), sum(each.violation > 0 for each in other)

    @staticmethod
    def _is_better(found: Found) -> bool:
        return found.confirmed is not None and found.confirmed.verdict is Verdict.FASTER and found.broken == 0

    def _reduce(self, found: Found) -> Generator[Asked, Seen, None]:
        now = dict(found.settings)
        by_importance = sorted(now, key=lambda name: (-found.importance.get(name, 0.0), name))
        unimportant = _unimportant(by_importance, found.importance)
        if len(unimportant) > 1 and self._has_room(0, confirmations=2):
            tested = yield from self._measure_without(now, unimportant)
            if not tested[0].is_kept:
                found.lines += tested
                now = {name: value for name, value in now.items() if name not in unimportant}
        for name in [each for each in by_importance if each in now]:
            if len(now) == 1:
                found.lines.append(Line(name, now[name], untested=Untested.LAST))
            elif not self._has_room(0, confirmations=2):
                found.lines.append(Line(name, now[name], untested=Untested.BUDGET))
            else:
                (line,) = yield from self._measure_without(now, [name])
                found.lines.append(line)
                if not line.is_kept:
                    del now[name]

    def _measure_without(self, now: Settings, names: Sequence[str]) -> Generator[Asked, Seen, list[Line]]:
        """Compare `now` with what it is without the lines `names`."""
        without = {name: value for name, value in now.items() if name not in names}
        base, other = yield from self._pairs(Stage.REDUCE, now, without)
        compared = self._compare_measurements(base, other)
        is_broken = any(each.violation > 0 for each in other)
        is_needed = is_broken or (compared is not None and compared.verdict is Verdict.SLOWER)
        return [Line(name, now[name], compared, is_needed, is_broken, len(names) > 1) for name in names]

    def _pairs(
        self, stage: Stage, base: Settings, other: Settings
    ) -> Generator[Asked, Seen, tuple[list[Seen], list[Seen]]]:
        """Measure both in pairs, in an order drawn for each, so that no disturbance favours one of them."""
        seen: tuple[list[Seen], list[Seen]] = ([], [])
        for pair in range(1, self._rules.pairs + 1):
            for at in self._order.sample((0, 1), 2):
                seen[at].append((yield from self._measure(Asked(stage, (base, other)[at], pair))))
        self._has_fresh_servers = True
        return seen

    def _compare_measurements(self, base: Sequence[Seen], other: Sequence[Seen]) -> PointComparison | None:
        figures = [
            {pair: seen.figure for pair, seen in enumerate(arm, start=1) if seen.figure is not None}
            for arm in (base, other)
        ]
        if not figures[0].keys() & figures[1].keys():
            return None
        instances = {pair: (pair - 1) % self._rules.instances + 1 for pair in range(1, len(base) + 1)}
        point = PointPairs(ALL_POINTS, Point(clients=0), figures[0], figures[1], instances=(instances, instances))
        (comparison,) = compare([Arms("", "", self._rules.metric, True, (point,), same_servers=True)])
        return comparison.points[0]


def _race_trials(racers: int) -> int:
    halves = [racers // 2, racers // 4]
    return racers + sum(half * (2 if half <= 2 else 1) for half in halves if half > 1)


def _unimportant(by_importance: Sequence[str], importance: Mapping[str, float]) -> list[str]:
    found, share = list[str](), 0.0
    for name in reversed(by_importance):
        share += importance.get(name, 0.0)
        if share >= UNIMPORTANT_SHARE or not importance:
            break
        found.append(name)
    return found


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
