"""One trial over time, for a terminal."""

from __future__ import annotations

from typing import Any

from pgdyno.analyse.dips import trial_dips
from pgdyno.errors import UsageError
from pgdyno.report.digest import digest
from pgdyno.report.gathered import Gathered
from pgdyno.report.sections.four import median_trial
from pgdyno.report.sections.times import Steps, trial_data
from pgdyno.report.whole import besides_of
from pgdyno.store import RunData


def one_trial(run: RunData, number: int | None, most: int) -> tuple[dict[str, Any], int | None]:
    """Return trial `number`, by default the median one of the highest peak, in at most `most` steps; and the host's
    processors.

    Raises UsageError if there is no such trial, StoreError.
    """
    gathered = Gathered(run)
    of = digest(gathered)
    if number is None and of.best is None:
        raise UsageError(f"run {run.manifest.run} has no trial that finished", hint="name one with --trial NUMBER")
    if number is None and of.best is not None:
        number = median_trial(of, of.best.peak.summary).number
    trial = next((each for each in run.trials if each.number == number), None)
    if trial is None:
        last = max((each.number for each in run.trials), default=0)
        raise UsageError(f"run {run.manifest.run} has no trial {number}", hint=f"its trials are 1 to {last}")
    steps = Steps(most)
    beside = besides_of([gathered], steps, {trial.number}).get(trial.number)
    made = trial_data(of, trial, beside, trial_dips(of.run, trial.number), steps, percentiles=True)
    if made is None:
        raise UsageError(f"trial {trial.number} of run {run.manifest.run} has no seconds: it was over before the first")
    host = run.manifest.host
    return made, host.cores if host is not None else None
