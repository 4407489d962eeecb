"""The trials of each query, as if it were a load of its own."""

import statistics
from collections.abc import Sequence

from pgdyno.records import Latency, TrialRecord


def by_query(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return a trial for each query file, as if each were the load of a group of clients; trials of other loads as they
    are.

    Its latency is that of all runs but the first in a session.
    """
    names = dict.fromkeys(each.name for trial in trials if trial.summary is not None for each in trial.summary.queries)
    if not names:
        return list(trials)
    return [_of_query(trial, name) for trial in trials for name in names]


def _of_query(trial: TrialRecord, query: str) -> TrialRecord:
    point = trial.point.model_copy(update={"group": query})
    if trial.summary is None:
        return trial.model_copy(update={"point": point})
    runs = trial.summary.queries
    counted = (each for each in runs if each.name == query and (each.is_repeat or each.is_cold))
    times = sorted(round(1e9 * each.seconds) for each in counted)
    latency = None
    if times:
        middle, mean = round(statistics.median(times)), statistics.fmean(times)
        latency = Latency(mean=mean, min=times[0], p50=middle, max=times[-1])
    summary = trial.summary.model_copy(update={"latency_ns": latency})
    return trial.model_copy(update={"point": point, "summary": summary})
