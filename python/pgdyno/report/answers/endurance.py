"""Endurance of long trials in words and as JSON: whether throughput and latency hold, with growth of tables."""

import math
from dataclasses import asdict
from typing import Any

from pgdyno.analyse.over_time.endurance import Endurance, EnduranceVerdict, Trend
from pgdyno.report import numbers
from pgdyno.report.answers.comparison import percent
from pgdyno.report.report_content import Digest, Extras, LongTrial
from pgdyno.report.translation import gettext, gettext_noop

_WORDS = {
    # throughput, latency
    EnduranceVerdict.HOLDS: (gettext_noop("throughput holds"), gettext_noop("latency holds")),
    EnduranceVerdict.CANNOT_TELL: (
        gettext_noop("cannot tell whether throughput holds"),
        gettext_noop("cannot tell whether latency holds"),
    ),
}


def endurance_lines(of: Digest, extras: Extras) -> list[str]:
    """Return a line for each trial of an hour or more."""
    trials = {trial.number: trial for trial in of.run.trials}
    lines = []
    for each in extras.long_trials:
        trial = trials[each.number]
        name = f"{of.trial_name(trial)}, {numbers.clients(trial.point.clients)}"
        if len(of.run.trials) > 1:
            name = gettext("trial {number}, {point}", number=each.number, point=name)
        hours = f"{each.endurance.hours:.1f}"
        text = gettext(
            "Endurance, {point}, {hours} h: {trends}", point=name, hours=hours, trends=trends(each.endurance)
        )
        grown = growth(each)
        lines.append(f"{text}; {grown}" if grown else text)
    return lines


def trends(of: Endurance) -> str:
    """Return the verdicts on throughput and latency with their figures, in the current language."""
    said = [_trend(of.tps, _WORDS.get(of.tps.verdict), gettext_noop("throughput declines by {change} an hour"), 0)]
    if of.latency is not None:
        text = gettext_noop("latency rises by {change} an hour")
        said.append(_trend(of.latency, _WORDS.get(of.latency.verdict), text, 1))
    return "; ".join(said)


def _trend(of: Trend, words: tuple[str, str] | None, declines: str, at: int) -> str:
    low, high = percent(of.low), percent(of.high)
    if words is None:
        change = percent(abs(of.per_hour), plus=False)
        return gettext(declines, change=change) + " " + gettext("(95 %: {low} to {high})", low=low, high=high)
    between = gettext("({change} an hour, 95 %: {low} to {high})", change=percent(of.per_hour), low=low, high=high)
    return f"{gettext(words[at])} {between}"


def growth(of: LongTrial) -> str:
    """Return how tables grew and their dead rows at the end; empty without the probe's samples."""
    if not of.tables or all(each.grown_bytes is None for each in of.tables):
        return ""
    grown = math.fsum(each.grown_bytes or 0.0 for each in of.tables)
    size = math.fsum(each.bytes for each in of.tables)
    dead = math.fsum(each.dead_rows for each in of.tables)
    text = gettext(
        "tables and indexes grew by {grown} MB to {size} MB, {dead} dead rows at the end",
        grown=numbers.round_text(grown / 1e6),
        size=numbers.round_text(size / 1e6),
        dead=f"{dead:,.0f}",
    )
    worst = max(of.tables, key=lambda each: (each.dead_rows, -each.live_rows))
    if not worst.dead_rows:
        return text
    most = gettext("most in {table}: {dead} for {live} live", table=worst.name, dead=f"{worst.dead_rows:,.0f}",
                   live=f"{worst.live_rows:,.0f}")  # fmt: skip
    return f"{text} ({most})"


def endurance_json(extras: Extras) -> list[dict[str, Any]]:
    """Return the trials of an hour or more; changes are relative, per hour."""
    return [
        {
            "trial": each.number,
            **trends_json(each.endurance),
            "tables": [
                {
                    "table": table.name,
                    "bytes": table.bytes,
                    "grown_bytes": table.grown_bytes,
                    "dead_rows": table.dead_rows,
                    "live_rows": table.live_rows,
                }
                for table in each.tables
            ],
        }
        for each in extras.long_trials
    ]


def trends_json(of: Endurance) -> dict[str, Any]:
    """Return the verdict, and the trends of throughput and latency."""
    latency = None if of.latency is None else asdict(of.latency)
    return {"verdict": of.verdict, "hours": of.hours, "tps": asdict(of.tps), "latency": latency}
