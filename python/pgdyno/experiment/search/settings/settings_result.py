"""The result of a search for settings: in words, as a record, and as a configuration file with reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.analyse.comparison import PointComparison, Verdict
from pgdyno.analyse.intervals import Interval
from pgdyno.analyse.pairs import Metric
from pgdyno.experiment.search.search_arm import sentence_of
from pgdyno.experiment.search.settings.stages import Best, Found, Line, Untested
from pgdyno.messages import Message
from pgdyno.records import ConfirmedDifference, KeptMessage, Point, SearchRecord, SettingLine
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.report.run_events import BestSeen
from pgdyno.safe_output import visible
from pgdyno.targets.cluster.settings import quote

FILE = "postgresql.conf"
"""Name of the file in the run folder."""


def configuration(found: Found, goal: Goal, run: str, words: str) -> str:
    """Return the lines that differ from the starting configuration, with comments; `words` is the result."""
    lines = [f"# pgdyno, run {run}", f"# {visible(words)}"]
    if not found.settings:
        return "\n".join([*lines, "# no line: nothing was shown to be better than the starting configuration"]) + "\n"
    tested = {line.name: line for line in found.lines}
    is_any_needed = any(line.is_kept and line.without is not None for line in found.lines)
    for name, value in found.settings.items():
        line = tested.get(name)
        why = _line_reason(line, goal)
        if len(found.settings) == 1 and found.confirmed is not None:
            why = f"with this line: {_change(found.confirmed, goal)}"
        # without any line that was confirmed alone, only all of them together are confirmed
        is_tested = line is not None and (line.without is not None or line.is_broken)
        is_unknown = not is_tested and (line is None or line.untested is not Untested.LAST)
        comment = "# " if is_any_needed and is_unknown else ""
        lines += ["", f"# {why}", f"{comment}{name} = {quote(value)}"]
    return "\n".join(lines) + "\n"


def _line_reason(line: Line | None, goal: Goal) -> str:
    without = line.without if line is not None else None
    if line is not None and line.is_broken:
        return "without this line, a trial failed or broke a promise"
    if line is None or line.untested is Untested.BUDGET:
        return "not tested alone: the budget was used up"
    if line.untested is Untested.LAST:
        return "not tested alone: the file with this line alone was not confirmed"
    if without is None or without.interval is None:
        return "not tested alone: too few of its trials finished"
    change = _change(without, goal)
    if without.verdict is Verdict.SLOWER:
        return f"without this line: {change}"
    if without.verdict is Verdict.FASTER:
        return f"without this line: {change}, but the file without such lines was not confirmed"
    return f"no difference shown alone ({change}), but the file without such lines was not confirmed"


def _change(of: PointComparison, goal: Goal) -> str:
    changed = goal.change(of)
    assert changed is not None
    return f"{percent(changed[0])} {goal.words}, 95 % interval {low_to_high(changed[1])}"


_GOALS = {
    "tps": Message("goal-tps", "throughput"),
    "p99": Message("goal-p99", "p99 latency"),
    "mean": Message("goal-mean", "mean latency"),
    "price": Message("goal-price", "price of a million transactions"),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """What a search improves, and how its figures are shown.

    Settings do not change what a server costs. So for the price of a million transactions, trials are compared by
    throughput, and only what is shown is a price.
    """

    metric: Metric
    hourly: float | None = None
    """The price of the target per hour, if the goal is the price of a million transactions."""
    currency: str = ""

    @property
    def name(self) -> str:
        return self.metric.value if self.hourly is None else "price"

    @property
    def words(self) -> Message:
        return _GOALS[self.name]

    @property
    def unit(self) -> str:
        return self.metric.unit if self.hourly is None else f"{self.currency} a million"

    def figure(self, figure: float) -> float:
        """Return a figure of `metric` in `unit`."""
        if self.hourly is not None:
            return self.hourly / 3_600 / figure * 1e6
        return figure / 1e6 if self.metric.is_latency else figure

    def change(self, of: PointComparison) -> tuple[float, Interval] | None:
        """Return the relative change, and the interval of its logarithm; None without an interval."""
        if of.interval is None:
            return None
        if self.hourly is None:
            return of.change, of.interval
        return of.base / of.other - 1, replace(of.interval, low=-of.interval.high, high=-of.interval.low)


def settings_text(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def best_words(best: Best, goal: Goal) -> str:
    """Return a line that shows progress. It is not a result, because the best of many observations looks too good."""
    figure = numbers.ms(best.figure) if goal.metric.is_latency else numbers.round_text(goal.figure(best.figure))
    noise = "unknown" if best.noise is None else f"±{100 * best.noise:.1f} % per trial"
    seen = f"{numbers.trials(best.trials)}, noise {noise}"
    settings = settings_text(best.settings) or "the starting configuration"
    return f"best so far, not confirmed: {figure} {goal.unit} ({seen}) with {settings}"


def best_seen(best: Best, goal: Goal) -> BestSeen:
    start = None if best.start is None else goal.figure(best.start)
    return BestSeen(goal.figure(best.figure), start, goal.unit, best.noise, best.trials, best.settings)


def found_messages(found: Found, goal: Goal) -> list[Message]:
    """Return the confirmed difference first, then the settings; never the search's best observation."""
    confirmed = found.confirmed
    changed = goal.change(confirmed) if confirmed is not None else None
    if not found.settings or confirmed is None or changed is None:
        return _no_improvement(found, goal)
    removed = len(found.lines) - len(found.settings)
    messages = [
        Message(
            "search-settings",
            "confirmed difference from the starting configuration: {change} {metric}, 95 % interval {interval}, "
            "{pairs} pairs",
            **_change_parameters(changed, goal),
            pairs=confirmed.pairs,
        ),
        Message("search-settings-kept", "with {settings}", settings=settings_text(found.settings)),
    ]
    if goal.hourly is not None:
        messages.append(
            Message(
                "search-settings-price",
                "a million transactions cost {price} {currency} instead of {start}",
                price=numbers.round_text(goal.figure(confirmed.other)),
                start=numbers.round_text(goal.figure(confirmed.base)),
                currency=goal.currency,
            )
        )
    if removed:
        messages.append(
            Message(
                "search-settings-removed",
                "{count} line made no detectable difference and is back at its starting value",
                "{count} lines made no detectable difference and are back at their starting values",
                count=removed,
            )
        )
    return messages


def _change_parameters(changed: tuple[float, Interval], goal: Goal) -> dict[str, str | Message]:
    return {"change": percent(changed[0]), "interval": low_to_high(changed[1]), "metric": goal.words}


def _no_improvement(found: Found, goal: Goal) -> list[Message]:
    confirmed = found.confirmed
    changed = goal.change(confirmed) if confirmed is not None else None
    if found.is_unknown:
        return [
            Message(
                "search-settings-unknown",
                "no answer: too few trials finished to compare settings with the starting configuration",
            )
        ]
    if confirmed is None or changed is None:
        return [Message("search-settings-none", "same: no proposed configuration was better than the starting one")]
    if found.broken:
        return [
            Message(
                "search-settings-broken",
                "no better settings: the best ones broke a promise in {count} trial of the confirmation",
                "no better settings: the best ones broke a promise in {count} trials of the confirmation",
                count=found.broken,
            )
        ]
    change = _change_parameters(changed, goal)
    if confirmed.verdict is Verdict.SAME:
        return [
            Message(
                "search-settings-same",
                "same: the confirmed difference is {change} {metric}, 95 % interval {interval}",
                **change,
            )
        ]
    return [
        Message(
            "search-settings-undecided",
            "no better settings were shown: the confirmed difference is {change} {metric}, 95 % interval {interval}",
            **change,
        )
    ]


def one_server(*, is_restarted: bool) -> Message:
    """Return where the pairs of a server that pgdyno did not start ran: not on a fresh one."""
    if is_restarted:
        return Message("search-settings-restarted", "the pairs ran on the server that was searched, after a restart")
    return Message("search-settings-not-restarted", "the pairs ran on the server that was searched, without a restart")


def search_record(
    found: Found, goal: Goal, target: str, start: Point, trials: int, messages: Sequence[Message]
) -> SearchRecord:
    """Return the record; its point has the confirmed settings."""
    return SearchRecord(
        find="settings",
        target=target,
        point=start.model_copy(update={"settings": {**start.settings, **found.settings}}),
        trials=trials,
        words=sentence_of(messages),
        messages=[KeptMessage.from_message(each) for each in messages],
        goal=goal.name,
        currency=goal.currency or None,
        settings=dict(found.settings),
        confirmed=_difference(found.confirmed, goal),
        lines=[
            SettingLine(
                name=line.name,
                value=line.value,
                kept=line.name in found.settings,
                without=_difference(line.without, goal),
                together=line.is_one_of_several,
            )
            for line in found.lines
        ],
        importance=found.importance,
    )


def _difference(of: PointComparison | None, goal: Goal) -> ConfirmedDifference | None:
    changed = goal.change(of) if of is not None else None
    if of is None or changed is None:
        return None
    return ConfirmedDifference(
        verdict=of.verdict.value,
        pairs=of.pairs,
        change=changed[0],
        low=math.expm1(changed[1].low),
        high=math.expm1(changed[1].high),
    )
