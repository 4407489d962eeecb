"""The result of a search for settings in words and as a record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pgdyno.analyse.comparison import PointComparison, Verdict
from pgdyno.analyse.pairs import Metric
from pgdyno.experiment.search.search_arm import sentence_of
from pgdyno.experiment.search.settings.stages import Best, Found
from pgdyno.messages import Message
from pgdyno.records import ConfirmedDifference, KeptMessage, Point, SearchRecord, SettingLine
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import low_to_high, percent
from pgdyno.report.run_events import BestSeen

_GOALS = {
    Metric.TPS: Message("goal-tps", "throughput"),
    Metric.P99: Message("goal-p99", "p99 latency"),
    Metric.MEAN: Message("goal-mean", "mean latency"),
}


def listed(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items())


def best_words(best: Best, metric: Metric) -> str:
    """Return a line that shows progress. It is not a result, because the best of many observations looks too good."""
    figure = f"{numbers.rounded(best.figure)} tps" if metric is Metric.TPS else f"{numbers.ms(best.figure)} ms"
    noise = "unknown" if best.noise is None else f"±{100 * best.noise:.1f} % per trial"
    seen = f"{numbers.trials(best.trials)}, noise {noise}"
    return f"best so far, not confirmed: {figure} ({seen}) with {listed(best.settings) or 'the starting configuration'}"


def best_seen(best: Best, metric: Metric) -> BestSeen:
    """Return the same for the live page."""
    unit = "tps" if metric is Metric.TPS else "ms"
    ns = 1.0 if metric is Metric.TPS else 1e6
    start = None if best.start is None else best.start / ns
    return BestSeen(best.figure / ns, start, unit, best.noise, best.trials, best.settings)


def found_messages(found: Found, metric: Metric) -> list[Message]:
    """Return the confirmed difference first, then the settings; never the search's best observation."""
    confirmed = found.confirmed
    if not found.settings or confirmed is None or confirmed.interval is None:
        return _nothing(found, metric)
    removed = len(found.lines) - len(found.settings)
    messages = [
        Message(
            "search-settings",
            "confirmed difference from the starting configuration: {change} {metric}, 95 % interval {interval}, "
            "{pairs} pairs",
            change=percent(confirmed.change),
            metric=_GOALS[metric],
            interval=low_to_high(confirmed.interval),
            pairs=confirmed.pairs,
        ),
        Message("search-settings-kept", "with {settings}", settings=listed(found.settings)),
    ]
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


def _nothing(found: Found, metric: Metric) -> list[Message]:
    confirmed = found.confirmed
    if confirmed is None or confirmed.interval is None:
        return [
            Message("search-settings-none", "same: none of the settings seemed better than the starting configuration")
        ]
    if found.broken:
        return [
            Message(
                "search-settings-broken",
                "no better settings: the best ones broke a promise in {count} trial of the confirmation",
                "no better settings: the best ones broke a promise in {count} trials of the confirmation",
                count=found.broken,
            )
        ]
    said: dict[str, str | Message] = {
        "change": percent(confirmed.change),
        "interval": low_to_high(confirmed.interval),
        "metric": _GOALS[metric],
    }
    if confirmed.verdict is Verdict.SAME:
        return [
            Message(
                "search-settings-same",
                "same: the confirmed difference is {change} {metric}, 95 % interval {interval}",
                **said,
            )
        ]
    return [
        Message(
            "search-settings-undecided",
            "no better settings were shown: the confirmed difference is {change} {metric}, 95 % interval {interval}",
            **said,
        )
    ]


def one_server(*, is_restarted: bool) -> Message:
    """Return where the pairs of a server that pgdyno did not start ran: not on a fresh one."""
    if is_restarted:
        return Message("search-settings-restarted", "the pairs ran on the server that was searched, after a restart")
    return Message("search-settings-not-restarted", "the pairs ran on the server that was searched, without a restart")


def search_record(
    found: Found, metric: Metric, target: str, start: Point, trials: int, messages: Sequence[Message]
) -> SearchRecord:
    """Return the record; its point has the confirmed settings."""
    return SearchRecord(
        find="settings",
        target=target,
        point=start.model_copy(update={"settings": {**start.settings, **found.settings}}),
        trials=trials,
        words=sentence_of(messages),
        messages=[KeptMessage.of(each) for each in messages],
        goal=metric.value,
        settings=dict(found.settings),
        confirmed=_difference(found.confirmed),
        lines=[
            SettingLine(
                name=line.name,
                value=line.value,
                kept=line.name in found.settings,
                without=_difference(line.without),
            )
            for line in found.lines
        ],
        importance=found.importance,
    )


def _difference(of: PointComparison | None) -> ConfirmedDifference | None:
    if of is None or of.interval is None:
        return None
    return ConfirmedDifference(
        verdict=of.verdict.value,
        pairs=of.pairs,
        change=of.change,
        low=math.expm1(of.interval.low),
        high=math.expm1(of.interval.high),
    )
