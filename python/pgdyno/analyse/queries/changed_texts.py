"""How much longer a query takes when its text has another constant, which no cache of results knows."""

import math
from collections import defaultdict
from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

from pgdyno.analyse.intervals import Interval, paired_interval
from pgdyno.records import TrialRecord

LEVEL = 0.95
"""Of all intervals together (Bonferroni)."""


class ChangeEffect(NamedTuple):
    query: str
    trials: tuple[int, ...]
    """Numbers of the arm's trials."""
    interval: Interval
    """Of the logarithm of the time with another constant, divided by the median of repeated texts in its trial."""
    longer_s: float
    """Median of the difference of these times."""


def change_effects(trials: Iterable[TrialRecord]) -> list[ChangeEffect]:
    """Return the effect on each query in each arm that has two trials or more with such runs."""
    times: dict[tuple[str, str, str], dict[int, tuple[float, float]]] = defaultdict(dict)
    for trial in trials:
        runs = trial.summary.queries if trial.summary is not None else []
        for query in dict.fromkeys(each.query for each in runs):
            own = [each for each in runs if each.query == query]
            changed = [each.seconds for each in own if each.changed]
            repeated = [each.seconds for each in own if each.is_repeat]
            if changed and repeated:
                arm = (query, trial.target, trial.point.model_dump_json())
                times[arm][trial.number] = median(changed), median(repeated)
    level = 1 - (1 - LEVEL) / max(1, len(times))
    found = []
    for (query, *_), pairs in times.items():
        interval = paired_interval([math.log(one / other) for one, other in pairs.values()], level)
        if interval is not None:
            found.append(ChangeEffect(query, tuple(pairs), interval, median(a - b for a, b in pairs.values())))
    return found
