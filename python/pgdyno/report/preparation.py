"""The duration of preparing trials, in a line."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.records import TrialRecord
from pgdyno.report import numbers
from pgdyno.report.texts import gettext
from pgdyno.units import format_duration


def preparation_line(trials: Sequence[TrialRecord]) -> str:
    """Return `Preparing 18 trials took 42s (0.1s to 31s each; reset: vacuum)`; empty if no trial has the data."""
    known = [trial.prepare for trial in trials if trial.prepare is not None]
    if not known:
        return ""
    took = [each.seconds for each in known]
    told = {
        "trials": numbers.trials(len(took)),
        "seconds": _short(sum(took)),
        "methods": ", ".join(dict.fromkeys(each.method for each in known)),
    }
    if len(took) > 1:
        each = numbers.between(_short(min(took)), _short(max(took)))
        line = gettext("preparing {trials} took {seconds} ({each} each; reset: {methods})", each=each, **told)
    else:
        line = gettext("preparing {trials} took {seconds} (reset: {methods})", **told)
    checks = [trial.consistency.seconds for trial in trials if trial.consistency is not None]
    if any(checks):
        line += gettext(", checking consistency {seconds}", seconds=_short(sum(checks)))
    return line


def _short(seconds: float) -> str:
    return format_duration(round(seconds, 1))
