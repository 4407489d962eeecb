"""Warnings of the analysis in the language of a report: sentences that another room makes, found again by their form.

What is not among them, and every message of the audit, of servers and of plans, stays as it was said.
"""

from __future__ import annotations

import re
from functools import cache

from pgdyno.report.texts import Language, later, say, speaking

HEARD = (
    later("all points"),
    later("1 client"),
    later("{count} clients"),
    later("one trial only: no interval"),
    later("two trials only: the interval reaches 12.7 standard errors to each side"),
    later("no trial finished: no figures"),
    later("a trial in which no transaction succeeded: it has no latency"),
    later("no histogram was kept: no percentiles"),
    later("the knee is not determined: that needs more than one trial of a point"),
    later("the knee is not determined: trials scatter too much to show which points are within 5 % of the peak"),
    later("peak not reached: the highest throughput is at the most clients measured"),
    later("peak not reached: the highest throughput is at the most clients measured ({clients})"),
    later("peak not reached: the fitted curve never falls"),
    later("in open loop throughput is what the plan asks for"),
    later("{count} numbers of clients, and the law needs {least}"),
    later("{count} of {all} trials failed and count for nothing"),
    later("{count} of {all} trials failed and counts for nothing"),
    later("the only trial failed and counts for nothing"),
    later("fewer than {least} pairs: no claim is made"),
    later("fewer than {least} pairs at {points}: no claim is made"),
    later("fewer than {least} trials a run: no claim is made"),
    later("fewer than {least} trials a run at {points}: no claim is made"),
    later("the two runs were made at different times: what changed on the machine between them is in the difference"),
    later("no peak: trials with the fewest clients failed"),
    later("peak at 1 client: {tps} tps"),
    later("peak at {count} clients: {tps} tps"),
    later("{low} to {high} clients cannot be told from it"),
    later("throughput has not fallen at {count} clients, the most that the plan allows"),
    later("trials with more clients failed"),
    later("capacity at {target}: less than {rate} transactions a second"),
    later("the lowest rate did not meet it"),
    later("capacity at {target}: at least {rate} transactions a second"),
    later("the highest rate met it"),
    later("trials of higher rates disagree"),
    later("capacity at {target}: from {low} to {high} transactions a second"),
)


def heard(message: str) -> str:
    """`message` in the language of now where it is one of `HEARD`, else as it is."""
    if speaking() is Language.ENGLISH:
        return message
    for text, form in _forms():
        found = form.fullmatch(message)
        if found is not None:
            return say(text, **found.groupdict())
    return message


@cache
def _forms() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((text, re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+)", re.escape(text)))) for text in HEARD)


def heard_label(label: str) -> str:
    """A point of a comparison, `prepared, 16 clients`, likewise part by part."""
    return ", ".join(heard(part) for part in label.split(", "))
