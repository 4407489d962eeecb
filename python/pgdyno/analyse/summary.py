"""One figure for every point from all of its trials, its statements, and the warnings that belong to it."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from pgdyno.analyse.histogram import HistogramError, LatencyHistogram, merge
from pgdyno.analyse.intervals import Estimate, trials_interval
from pgdyno.analyse.over_time.timeline import RunSource, trial_timeline
from pgdyno.analyse.series import Series, dependent_parameters, series_in_order
from pgdyno.messages import Message
from pgdyno.records import ErrorCount, Latency, Outcome, Point, Summary, TrialRecord
from pgdyno.records.promise import Promise

# lower case, one clause or two, without the name of the point it belongs to
ONE_TRIAL = Message("one-trial", "only one trial: no interval")
FEW_TRIALS = Message("few-trials", "only two trials: the interval extends 12.7 standard errors to each side")
NO_TRIALS = Message("no-trials", "no trial finished: no figures")
NO_LATENCY = Message("no-latency", "no transaction succeeded in a trial: it has no latency")
HISTOGRAM_MISSING = Message("histogram-missing", "no histogram was recorded: no percentiles")
KNEE_WITHOUT_INTERVALS = Message(
    "knee-without-intervals", "knee not determined: that needs more than one trial per point"
)
KNEE_NOT_DETERMINED = Message(
    "knee-not-determined",
    "knee not determined: trials scatter too much to show which points are within 5 % of the peak",
)
PEAK_AT_EDGE = "peak-at-edge"
"""Id of the warning that the peak was not reached."""


def peak_at_edge(clients: int) -> Message:
    """Warn that the peak is at `clients`, the most that were measured."""
    return Message(
        "peak-at-edge",
        "peak not reached: the highest throughput is at the most clients measured ({clients:,})",
        clients=clients,
    )


def failed_trials(count: int, planned: int) -> Message:
    """Warn that `count` of a point's `planned` trials failed."""
    if planned == 1:
        return Message("failed-trials", "the only trial failed and does not count", count=count, all=planned)
    return Message(
        "failed-trials",
        "{count} of {all} trials failed and does not count",
        "{count} of {all} trials failed and do not count",
        count=count,
        all=planned,
    )


def interrupted_trials(count: int, planned: int) -> Message:
    """Warn that `count` of a point's `planned` trials were interrupted."""
    if planned == 1:
        return Message(
            "interrupted-trials", "the only trial was interrupted and does not count", count=count, all=planned
        )
    return Message(
        "interrupted-trials",
        "{count} of {all} trials was interrupted and does not count",
        "{count} of {all} trials were interrupted and do not count",
        count=count,
        all=planned,
    )


def errors(failed: int, skipped: int, clients_aborted: int, caught: int = 0) -> Message:
    """Warn of failed and skipped transactions, of clients that aborted, and of errors that a script caught."""
    gave_up = "client aborted" if clients_aborted == 1 else "clients aborted"
    parts = ((failed, "failed"), (skipped, "skipped"), (clients_aborted, gave_up), (caught, "caught by the script"))
    return Message(
        "errors",
        "errors: {counts}",
        counts=", ".join(f"{count:,} {word}" for count, word in parts if count),
        failed=failed,
        skipped=skipped,
        clients_aborted=clients_aborted,
        caught=caught,
    )


@dataclass(frozen=True, slots=True)
class Losses:
    """Transactions that failed or were late, errors and retries; sums over finished trials."""

    failed: int | None = 0
    """None if it is unknown, because imported sources did not count them."""
    skipped: int = 0
    clients_aborted: int = 0
    retried: int | None = 0
    """Transactions that were tried more than once; None, like retries, if it is unknown, as of failed ones."""
    retries: int | None = 0
    """Further tries of those."""
    caught: int = 0
    """Errors of the server that a Lua script caught and went on after."""

    @property
    def errors(self) -> int | None:
        """Return failed and skipped transactions, aborted clients, errors that scripts caught; None if uncounted."""
        return sum_of_known([self.failed, self.skipped, self.clients_aborted, self.caught])


def sum_of_known(counts: Sequence[int | None]) -> int | None:
    """Return the sum of the counts that are known; None if one is unknown and the others are 0."""
    known = sum(count or 0 for count in counts)
    return None if None in counts and not known else known


@dataclass(frozen=True, slots=True)
class PointSummary:
    """One point of the sweep on one target, over its finished trials."""

    series: Series
    clients: int | None
    point: Point
    """With every parameter, including those that do not split a series."""
    finished: tuple[int, ...]
    """Numbers of the trials that these figures are from."""
    failed: tuple[int, ...]
    """Numbers of the trials that failed or were interrupted, and do not count."""
    tps: Estimate | None
    """Mean over trials, with its interval; None if no trial finished, or if it ran queries once."""
    tps_by_trial: tuple[float, ...]
    latency: Latency | None
    """Over all transactions: the largest as recorded, percentiles of the merged histogram. None if nothing succeeded.
    """
    histogram: LatencyHistogram | None
    losses: Losses
    scheduled: int | None
    """None if imported sources do not count them."""
    served: float | None
    """Share of the due transactions that succeeded; None if an imported source does not count them."""
    errors: tuple[ErrorCount, ...]
    """By count, most frequent first."""
    seconds: tuple[float, ...]
    """Transactions per second in each second of the measured part: means over the trials."""
    warnings: tuple[Message, ...]


def summarise(run: RunSource) -> list[PointSummary]:
    """Return a summary of every point that has a trial: series in the order of the plan, clients ascending."""
    targets = [target.name for target in run.manifest.targets]
    follow = dependent_parameters(run.manifest.plan, (trial.point for trial in run.trials))
    by_series: dict[Series, list[TrialRecord]] = defaultdict(list)
    for trial in run.trials:
        by_series[Series.from_point(trial.target, trial.point, follow)].append(trial)
    points = []
    for series in series_in_order(targets, run.trials, run.manifest.plan, follow):
        on_series = by_series[series]
        clients = sorted({trial.point.clients for trial in on_series}, key=lambda each: each or 0)
        points += [
            _point(run, series, [trial for trial in on_series if trial.point.clients == each]) for each in clients
        ]
    return points


def _point(run: RunSource, series: Series, trials: Sequence[TrialRecord]) -> PointSummary:
    finished = [
        (trial, trial.summary) for trial in trials if trial.outcome is Outcome.FINISHED and trial.summary is not None
    ]
    numbers = tuple(trial.number for trial, _ in finished)
    summaries = [summary for _, summary in finished]
    # rates and latencies of transactions say nothing of queries that run once
    counted = [summary for summary in summaries if summary.rate_tps is not None]
    rates = tuple(summary.tps for summary in counted)
    histogram, broken = _merge_histograms(run, numbers) if counted else (None, None)
    if histogram is not None:
        latencies = [summary.latency_ns for summary in summaries if summary.latency_ns is not None]
        histogram = histogram.with_bounds(
            _extreme(min, (each.min for each in latencies)), _extreme(max, (each.max for each in latencies))
        )
    printed = any(trial.imported for trial, _ in finished)
    latency = _latency(counted, histogram, printed=printed)
    losses = losses_of(summaries)
    return PointSummary(
        series=series,
        clients=trials[0].point.clients,
        point=trials[0].point,
        finished=numbers,
        failed=tuple(trial.number for trial in trials if trial.number not in numbers),
        tps=trials_interval(rates, [trial.instance for trial, _ in finished]) if rates else None,
        tps_by_trial=tuple(summary.tps for summary in summaries),
        latency=latency,
        histogram=histogram,
        losses=losses,
        scheduled=_scheduled_transactions(summaries),
        served=_served_share(summaries),
        errors=_errors(summaries),
        seconds=_seconds(run, numbers) if counted else (),
        warnings=(
            *_of_trials(trials, finished=len(finished)),
            *_of_figures(counted, histogram, broken, losses, printed=printed),
        ),
    )


def _merge_histograms(run: RunSource, numbers: Sequence[int]) -> tuple[LatencyHistogram | None, str | None]:
    """Merge the latencies of the trials, or return the error: one broken blob must not hide the other figures."""
    try:
        return merge(row.histogram for number in numbers for row in run.histograms(number, totals=True)), None
    except HistogramError as error:
        return None, str(error)


def _latency(summaries: Sequence[Summary], histogram: LatencyHistogram | None, *, printed: bool) -> Latency | None:
    """Return percentiles of the merge; of imported trials without a histogram, those of a single trial. The mean is
    Σ(mean · succeeded) / Σ succeeded, the mean of all transactions.
    """
    measured = [(summary.latency_ns, summary.succeeded) for summary in summaries if summary.latency_ns is not None]
    whole = {"mean": _mean(measured), "max": _extreme(max, (latency.max for latency, _ in measured))}
    if histogram is not None and measured:
        return Latency.model_validate(whole | histogram.named_percentiles_ns())
    if not printed or all(latency == Latency() for latency, _ in measured):
        return None
    only = measured[0][0] if len(measured) == 1 else Latency()
    return only.model_copy(update=whole)


def _mean(measured: Sequence[tuple[Latency, int | None]]) -> float | None:
    """Return the mean weighted by counts; None if one trial lacks its mean, or one of several its count."""
    if len(measured) == 1:
        return measured[0][0].mean
    parts = [(latency.mean, count) for latency, count in measured if latency.mean is not None and count is not None]
    if len(parts) < len(measured):
        return None
    return math.fsum(mean * count for mean, count in parts) / max(sum(count for _, count in parts), 1)


def _extreme(end: Callable[[list[int]], int], values: Iterable[int | None]) -> int | None:
    """Return the end of `values`; None if one trial lacks it."""
    each = list(values)
    known = [value for value in each if value is not None]
    return end(known) if known and len(known) == len(each) else None


def losses_of(summaries: Sequence[Summary]) -> Losses:
    """Return the sums over trials; failures and retries are unknown if a trial's are and no other has any."""
    return Losses(
        failed=sum_of_known([summary.failed for summary in summaries]),
        skipped=sum(summary.skipped for summary in summaries),
        clients_aborted=sum(summary.clients_aborted for summary in summaries),
        retried=sum_of_known([summary.retried for summary in summaries]),
        retries=sum_of_known([summary.retries for summary in summaries]),
        caught=sum(summary.caught for summary in summaries),
    )


def _scheduled_transactions(summaries: Sequence[Summary]) -> int | None:
    known = [summary.scheduled for summary in summaries if summary.scheduled is not None]
    return None if summaries and not known else sum(known)


def _served_share(summaries: Sequence[Summary]) -> float | None:
    due = sum(summary.due for summary in summaries)
    return sum(summary.succeeded or 0 for summary in summaries) / due if due > 0 else None


def _errors(summaries: Sequence[Summary]) -> tuple[ErrorCount, ...]:
    counts: Counter[tuple[str | None, str]] = Counter()
    for summary in summaries:
        for error in summary.errors:
            counts[error.sqlstate, error.message] += error.count
    return tuple(
        ErrorCount(sqlstate=sqlstate, message=message, count=count)
        for (sqlstate, message), count in counts.most_common()
    )


def _seconds(run: RunSource, numbers: Sequence[int]) -> tuple[float, ...]:
    curves = [trial_timeline(run, number).measured_part.tps.tolist() for number in numbers]
    return tuple(math.fsum(there) / len(there) for there in _by_second(curves))


def _by_second(curves: Sequence[Sequence[float]]) -> Iterator[Sequence[float]]:
    # most trials are equally long; a look at each value for a possible gap would take three times as long
    yield from zip(*curves, strict=False)
    for at in range(min(map(len, curves), default=0), max(map(len, curves), default=0)):
        yield [curve[at] for curve in curves if at < len(curve)]


def _of_trials(trials: Sequence[TrialRecord], *, finished: int) -> Iterator[Message]:
    planned = len(trials)
    interrupted = sum(trial.outcome is Outcome.INTERRUPTED for trial in trials)
    failed = planned - finished - interrupted
    if failed:
        yield failed_trials(failed, planned)
    if interrupted:
        yield interrupted_trials(interrupted, planned)
    if finished == 0:
        yield NO_TRIALS
    elif finished == 1:
        yield ONE_TRIAL
    elif finished == 2:
        yield FEW_TRIALS


def _of_figures(
    summaries: Sequence[Summary],
    histogram: LatencyHistogram | None,
    broken: str | None,
    losses: Losses,
    *,
    printed: bool,
) -> Iterator[Message]:
    if printed:
        # a figure that a document does not print is shown as a dash, and is no error
        pass
    elif any(summary.latency_ns is None for summary in summaries):
        yield NO_LATENCY
    elif broken is not None:
        yield Message("histogram-broken", "{error}: no percentiles", error=broken)
    elif summaries and histogram is None:
        yield HISTOGRAM_MISSING
    if losses.errors:
        yield errors(losses.failed or 0, losses.skipped, losses.clients_aborted, losses.caught)


def promise_figure(promise: Promise, trial: TrialRecord) -> float | None:
    """Return the figure of `trial` in the unit of the promise's limit; None if it has none."""
    if promise.figure == "lag":
        lags = [each.replay_lag_max_s for each in trial.replication]
        return max((1e9 * each for each in lags if each is not None), default=None)
    if promise.figure == "archive":
        backlog = trial.archive
        return None if backlog is None else float(backlog.waiting_last * backlog.segment_bytes)
    of = trial.summary
    if of is None:
        return None
    if promise.field is not None:
        latency: float | None = getattr(of.latency_ns, promise.field, None)
        return latency
    if promise.figure == "tps":
        return of.rate_tps
    if promise.figure == "rate":
        return share(of.succeeded or 0, of.due)
    return share(of.failed or 0, answered_count(of))


def answered_count(of: Summary) -> int:
    return (of.succeeded or 0) + (of.failed or 0)


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
