"""What preparing trials took, in a line."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.records import TrialRecord
from pgdyno.report import numbers
from pgdyno.units import format_duration


def preparation_line(trials: Sequence[TrialRecord]) -> str:
    """`Preparing 18 trials took 42s (0.1s to 31s each; reset: vacuum)`; empty when no trial says."""
    known = [trial.prepare for trial in trials if trial.prepare is not None]
    if not known:
        return ""
    took = [each.seconds for each in known]
    methods = ", ".join(dict.fromkeys(each.method for each in known))
    each = f"{_short(min(took))} to {_short(max(took))} each; " if len(took) > 1 else ""
    line = f"preparing {numbers.count(len(took), 'trial')} took {_short(sum(took))} ({each}reset: {methods})"
    checks = [trial.consistency.seconds for trial in trials if trial.consistency is not None]
    if any(checks):
        line += f", checking consistency {_short(sum(checks))}"
    return line


def _short(seconds: float) -> str:
    return format_duration(round(seconds, 1))
