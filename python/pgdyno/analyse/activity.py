"""Active sessions by wait, together with throughput, second by second."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.analyse.probed import Key, Probed, ProbedSource, by_class, trial_probed
from pgdyno.analyse.timeline import Timeline, trial_timeline


@dataclass(frozen=True, slots=True)
class ActiveSecond:
    """One second of a trial with its active sessions."""

    from_s: float
    to_s: float
    phase: str
    tps: float
    sessions: Mapping[str, float]
    """Mean active sessions by class of wait (CPU: they used the CPU, or were ready to); empty without a sample."""


def active_seconds(timeline: Timeline, probe: Probed, key: Key = by_class) -> list[ActiveSecond]:
    """Return every second of `timeline` with its active sessions by `key`.

    The mean over samples, sum of sessions / samples, estimates the average active sessions of the second.
    """
    return [
        ActiveSecond(each.from_s, each.to_s, each.phase, each.tps, probe.sessions((each.from_s, each.to_s), key))
        for each in timeline.seconds
    ]


def trial_activity(run: ProbedSource, trial: int, key: Key = by_class) -> list[ActiveSecond] | None:
    """Return `active_seconds` of trial number `trial`; None without a probe."""
    probe = trial_probed(run, trial)
    return None if probe is None else active_seconds(trial_timeline(run, trial), probe, key)
