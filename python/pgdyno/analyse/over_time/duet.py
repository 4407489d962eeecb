"""Two trials that ran at the same time, compared second by second.

What disturbs the machine in a second slows both trials, so their ratio in that second varies much less than the
throughput of either (Bulej et al., Duet Benchmarking, ICPE 2020).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pgdyno.store.seconds import MEASURE


@dataclass(frozen=True, slots=True)
class DuetRatio:
    """The throughput of one trial over that of the other."""

    log: float
    """Mean of the logarithms, weighted by length."""
    seconds: float
    """The length of what both measured."""


def duet_ratio(base: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]]) -> DuetRatio | None:
    """Return the ratio of `other` to `base`, the events of two engines that started at the same instant.

    A second without transactions of one of them counts together with the next one, because its ratio has no logarithm;
    at the end, with the one before. None if one of them had no transaction at all in what both measured.
    """
    counts = [{event["from_us"]: (event["to_us"], _successes(event)) for event in each if _is_measured(event)}
              for each in (base, other)]  # fmt: skip
    parts: list[tuple[float, int, int]] = []
    open_s, open_base, open_other = 0.0, 0, 0
    for from_us in sorted(counts[0].keys() & counts[1].keys()):
        (to_us, of_base), (other_to_us, of_other) = counts[0][from_us], counts[1][from_us]
        if to_us != other_to_us:
            # the last, shortened second of a trial whose end was delayed
            continue
        open_s, open_base, open_other = open_s + (to_us - from_us) / 1e6, open_base + of_base, open_other + of_other
        if open_base and open_other:
            parts.append((open_s, open_base, open_other))
            open_s, open_base, open_other = 0.0, 0, 0
    if not parts:
        return None
    seconds, last_base, last_other = parts[-1]
    parts[-1] = (seconds + open_s, last_base + open_base, last_other + open_other)
    total_s = math.fsum(seconds for seconds, _, _ in parts)
    logs = math.fsum(seconds * math.log(of_other / of_base) for seconds, of_base, of_other in parts)
    return DuetRatio(logs / total_s, total_s)


def _is_measured(event: Mapping[str, Any]) -> bool:
    return bool(event["event"] == "interval" and event["phase"] == MEASURE)


def _successes(event: Mapping[str, Any]) -> int:
    return sum(script["succeeded"] for script in event["scripts"])
