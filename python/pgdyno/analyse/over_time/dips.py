"""Dips: periods well below the throughput around them, what they cost, and what coincides with them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from pgdyno.analyse.intervals import Array
from pgdyno.analyse.over_time.probe_series import CHECKPOINTER, Probed, Span, by_type, join_spans
from pgdyno.analyse.over_time.timeline import RunSource, Timeline, trial_timeline
from pgdyno.records import EventRecord
from pgdyno.store.seconds import Seconds
from pgdyno.store.trial_tables import WaitRow

WINDOW = 61
"""Seconds of the rolling median: a dip of up to half of it leaves the median unchanged."""
LEAST_DEPTH = 0.05
LEAST_MADS = 3.0
SHORTEST_S = 2.0
INTERRUPTION_S = 1.0
"""Seconds that do not count, between two that do, from which on they separate parts of a trial."""


@dataclass(frozen=True, slots=True)
class Dip:
    from_s: float
    """Seconds from the start of measuring; for a bare series, from the first value."""
    to_s: float
    depth: float
    """Depth of its deepest second, as a share of the median there: 1 if nothing succeeded."""
    loss: float
    """Transactions that were lost compared with the median."""


def dips(
    series: Sequence[float] | Array, seconds: Sequence[float] | Array | None = None, first_s: float = 0.0
) -> list[Dip]:
    """Return the dips of `series`, in transactions per second; `seconds` is the duration of each value, one if absent.

    A value counts as low if it is under median - max(5 % of the median, 3 x 1.4826 MAD): the median over 61 seconds
    around it, and the median absolute deviation of all values from theirs. A dip is a run of low values of at least 2
    s, with the neighbours that are as low, up to half of the 61 seconds.
    """
    values = np.asarray(series, dtype=np.float64)
    if not len(values):
        return []
    lengths = np.ones(len(values)) if seconds is None else np.asarray(seconds, dtype=np.float64)
    median, edges = _median_and_low_spans(values)
    reached = first_s + np.concatenate([[0.0], np.cumsum(lengths)])
    found = []
    for first, end in edges:
        if reached[end] - reached[first] < SHORTEST_S - 1e-6:
            continue
        missing = median[first:end] - values[first:end]
        found.append(
            Dip(
                float(reached[first]),
                float(reached[end]),
                float(np.max(missing / median[first:end])),
                float(missing @ lengths[first:end]),
            )
        )
    return found


def without_dips(values: Array) -> Array:
    """Return `values` with dips replaced by the rolling median, except at either end, where they are levels."""
    median, edges = _median_and_low_spans(values)
    filled = values.copy()
    for first, end in edges:
        if first > 0 and end < len(values) and end - first <= WINDOW // 2:
            filled[first:end] = median[first:end]
    return filled


def _median_and_low_spans(values: Array) -> tuple[Array, list[tuple[int, int]]]:
    """Return the rolling median, and the runs of values well below it, as half-open ranges."""
    median = rolling_median(values)
    spread = 1.4826 * float(np.median(np.abs(values - median)))
    least = median - np.maximum(LEAST_DEPTH * median, LEAST_MADS * spread)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (values < least).astype(np.int8), [0]])))
    found: list[tuple[int, int]] = []
    for first, end in list(pairwise(edges.tolist()))[::2]:
        begin, stop = first, end
        # near an end of the series, the median may follow a long dip: its seconds are as low as those next to them
        earliest = max(found[-1][1] if found else 0, end - WINDOW)
        while begin > earliest and values[begin - 1] < least[first]:
            begin -= 1
        while stop < min(len(values), first + WINDOW) and values[stop] < least[end - 1]:
            stop += 1
        is_longer = (begin, stop) != (first, end) and stop - begin <= WINDOW // 2
        if is_longer:
            median[begin:stop] = median[first:end].max()
        # the one before may have been extended over this one
        if not found or first >= found[-1][1]:
            found.append((begin, stop) if is_longer else (first, end))
    return median, found


def trial_dips(run: RunSource, trial: int) -> list[Dip]:
    """Return the dips in the measured part of trial number `trial`."""
    return dips_of(trial_timeline(run, trial))


def dips_of(timeline: Timeline) -> list[Dip]:
    measured = timeline.measured_part
    # a phase without a result interrupts the measured part: what follows it has other times and another level
    ends = np.flatnonzero(measured.from_s[1:] - measured.to_s[:-1] >= INTERRUPTION_S) + 1
    columns = (np.split(each, ends) for each in (measured.tps, measured.from_s, measured.to_s))
    return [
        dip
        for tps, from_s, to_s in zip(*columns, strict=True)
        if len(tps)
        for dip in dips(tps, to_s - from_s, float(from_s[0]))
    ]


def rolling_median(values: Array, window: int = WINDOW) -> Array:
    """Return the median of `window` values around each value; at the ends, of those that exist."""
    half = window // 2
    if len(values) <= window:
        padded = np.concatenate([np.full(half, np.nan), values, np.full(half, np.nan)])
        # missing values (infinity) sort after all others; nanmedian takes twenty times as long
        ordered = np.sort(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1), axis=1)
        rows, there = np.arange(len(values)), np.sum(~np.isnan(ordered), axis=1)
        return np.asarray((ordered[rows, (there - 1) // 2] + ordered[rows, there // 2]) / 2)
    # inside, no window lacks a value, which allows a much faster function; np.median takes twice as long
    windows = np.lib.stride_tricks.sliding_window_view(values, 2 * half + 1)
    within = np.partition(windows, half, axis=1)[:, half]
    begin = rolling_median(values[: 2 * half], window)[:half]
    end = rolling_median(values[-2 * half :], window)[-half:]
    return np.concatenate([begin, within, end])


NEAR_S = 60.0
"""Quiet seconds within this distance are preferred."""
MARGIN_S = 2.0
"""Seconds this near to a dip are not quiet."""
LEAST_SESSIONS = 0.25
LEAST_SHARE = 0.1
"""Excess sessions count from the larger of the two: a quarter of a session, a tenth of the active ones."""
LATE_S = 3.0
"""Counters are reported with up to this delay (docs/design/method.md, Sampling)."""


class Cause(StrEnum):
    """Activity that may coincide with a dip."""

    PLANNED = "an event of the plan"
    CHECKPOINT = "a checkpoint's sync"
    FULL_PAGES = "full-page images"
    COMMIT = "writing and syncing WAL"
    LOCKS = "locks"
    LIGHT_LOCKS = "lightweight locks"
    STORAGE = "reading and writing data"
    VACUUM = "vacuum"
    STEAL = "steal"
    GENERATOR = "the generator"


@dataclass(frozen=True, slots=True)
class Coincidence:
    """Activity that exceeds that of quiet seconds during a dip."""

    cause: Cause
    during: float
    """The value in the dip; see `unit`."""
    quiet: float
    unit: str
    """One of sessions, share, images a second, ms, or number."""


@dataclass(frozen=True, slots=True)
class ExplainedDip:
    """A dip with all that coincides with it, the strongest first; possibly nothing."""

    dip: Dip
    coincidences: tuple[Coincidence, ...]


def explained(
    timeline: Timeline,
    probe: Probed,
    events: Sequence[EventRecord] = (),
    worker_shares: Sequence[tuple[float, float, float]] = (),
    dips: Sequence[Dip] | None = None,
) -> list[ExplainedDip]:
    """Return the dips of `timeline`, each with what exceeds the quiet seconds within a minute of it (else all of them).

    Waits are means of active sessions; an excess counts from max(0.25, a tenth of those active in quiet seconds).
    `worker_shares` are the generator's: from, to, CPU time of a worker as a share of a core; `dips` are those of
    `timeline` if they are known already.
    """
    found = dips_of(timeline) if dips is None else dips
    return [
        ExplainedDip(dip, _coincidences(dip, _quiet_spans(timeline, found, dip), probe, events, worker_shares))
        for dip in found
    ]


def spans_needed(timeline: Timeline, found: Sequence[Dip]) -> list[Span]:
    """Return the stretches of a trial whose session samples `explained` needs: its dips and their quiet seconds."""
    spans = {span for dip in found for span in ((dip.from_s, dip.to_s), *_quiet_spans(timeline, found, dip))}
    return sorted(spans)


def counter_spans(spans: Sequence[Span]) -> list[Span]:
    """Return the stretches of a trial whose counters `explained` needs, with those that are reported late."""
    return join_spans((begin, end + LATE_S) for begin, end in spans)


METRICS = (("checkpoints", "sync_time"), ("wal", "full_page_images"), ("vacuum", "blocks"), ("cpu", "steal"))
"""Source and metric of all series that `explained` uses."""


def worker_shares(seconds: Seconds, workers: int) -> list[tuple[float, float, float]]:
    """Return from, to, and CPU time of a worker of the generator as a share of a core, by second."""
    columns = (seconds.from_us, seconds.to_us, seconds.worker_cpu_us)
    return [
        (from_us / 1e6, to_us / 1e6, cpu_us / (to_us - from_us) / max(workers, 1))
        for from_us, to_us, cpu_us in zip(*(each.tolist() for each in columns), strict=True)
        if cpu_us == cpu_us and to_us > from_us
    ]


def _quiet_spans(timeline: Timeline, found: Sequence[Dip], dip: Dip) -> list[Span]:
    """Return measured seconds away from every dip: those near this one, or all."""
    # as arrays: a large sweep has hundreds of dips, and a trial hundreds of seconds
    part = timeline.measured_part
    quiet = np.ones(len(part), dtype=bool)
    for each in found:
        quiet &= (part.to_s <= each.from_s - MARGIN_S) | (part.from_s >= each.to_s + MARGIN_S)
    near = quiet & (part.to_s > dip.from_s - NEAR_S) & (part.from_s < dip.to_s + NEAR_S)
    chosen = near if near.any() else quiet
    return join_spans(zip(part.from_s[chosen].tolist(), part.to_s[chosen].tolist(), strict=True), gap=0.01)


def _coincidences(
    dip: Dip,
    quiet: Sequence[Span],
    probe: Probed,
    events: Sequence[EventRecord],
    worker_shares: Sequence[tuple[float, float, float]],
) -> tuple[Coincidence, ...]:
    span = (dip.from_s, dip.to_s)
    return (
        *_planned_coincidences(span, events),
        *_waits(span, quiet, probe),
        *_checkpoint(span, quiet, probe),
        *_full_pages(span, quiet, probe),
        *_vacuum(span, quiet, probe),
        *_steal(span, quiet, probe),
        *_generator(span, worker_shares),
    )


def _planned_coincidences(span: Span, events: Sequence[EventRecord]) -> Iterator[Coincidence]:
    for event in events:
        began = event.began_s
        if began is not None and began < span[1] and began + (event.seconds or 0.0) > span[0] - MARGIN_S:
            yield Coincidence(Cause.PLANNED, event.number, 0, "number")


def _of_clients(row: WaitRow) -> bool:
    return by_type(row) is not None


def _of_commit(row: WaitRow) -> bool:
    return _of_clients(row) and ((row.wait or "").upper().startswith("WAL") or row.wait == "SyncRep")


def _of_kinds(*kinds: str) -> Callable[[WaitRow], bool]:
    return lambda row: row.wait_type in kinds and _of_clients(row) and not _of_commit(row)


_OF_WAITS: Sequence[tuple[Cause, Callable[[WaitRow], bool]]] = (
    (Cause.COMMIT, _of_commit),
    (Cause.LOCKS, _of_kinds("Lock")),
    (Cause.LIGHT_LOCKS, _of_kinds("LWLock", "BufferPin", "Buffer")),
    (Cause.STORAGE, _of_kinds("IO")),
)


def _waits(span: Span, quiet: Sequence[Span], probe: Probed) -> Iterator[Coincidence]:
    if not probe.looks(span):
        return
    least = max(LEAST_SESSIONS, LEAST_SHARE * _sessions(probe, quiet, _of_clients))
    found = []
    for cause, belongs in _OF_WAITS:
        during, before = (_sessions(probe, spans, belongs) for spans in ((span,), quiet))
        if during - before >= least:
            found.append(Coincidence(cause, during, before, "sessions"))
    yield from sorted(found, key=lambda each: each.quiet - each.during)


def _sessions(probe: Probed, spans: Sequence[Span], belongs: Callable[[WaitRow], bool]) -> float:
    """Return the mean active sessions of the selected rows, over the samples in all `spans`; 0 without a sample."""
    looks = [probe.looks(span) for span in spans]
    means = [probe.sessions(span, lambda row: "" if belongs(row) else None).get("", 0.0) for span in spans]
    return sum(mean * count for mean, count in zip(means, looks, strict=True)) / max(sum(looks), 1)


_OF_A_CHECKPOINT = frozenset(["DATAFILESYNC", "DATAFILEFLUSH", "SLRUSYNC"])
"""The names differ between versions."""


def _checkpoint(span: Span, quiet: Sequence[Span], probe: Probed) -> Iterator[Coincidence]:
    """Detect the sync of a checkpoint: the checkpointer waits in DataFileSync, or flushes to the device."""

    def syncs(row: WaitRow) -> bool:
        return row.backend_type == CHECKPOINTER and (row.wait or "").upper() in _OF_A_CHECKPOINT

    during, before = (_sessions(probe, spans, syncs) for spans in ((span,), quiet))
    if during >= LEAST_SESSIONS and during - before >= LEAST_SESSIONS:
        yield Coincidence(Cause.CHECKPOINT, during, before, "sessions")
        return
    # samples are rare over a network: the counter shows that a checkpoint with a sync ended then
    synced = probe.amount("checkpoints", "sync_time", (span[0], span[1] + LATE_S))
    if synced is not None and synced >= 100 * (span[1] - span[0]):
        yield Coincidence(Cause.CHECKPOINT, synced, 0, "ms")


def _full_pages(span: Span, quiet: Sequence[Span], probe: Probed) -> Iterator[Coincidence]:
    during, before = (_rate(probe, "wal", "full_page_images", spans) for spans in ((span,), quiet))
    if during is not None and before is not None and during >= max(2 * before, 100):
        yield Coincidence(Cause.FULL_PAGES, during, before, "images a second")


def _rate(probe: Probed, source: str, metric: str, spans: Sequence[Span]) -> float | None:
    amounts = [(probe.amount(source, metric, span), span[1] - span[0]) for span in spans]
    known = [(amount, length) for amount, length in amounts if amount is not None]
    length = sum(each for _, each in known)
    return sum(amount for amount, _ in known) / length if length else None


def _vacuum(span: Span, quiet: Sequence[Span], probe: Probed) -> Iterator[Coincidence]:
    """Detect a vacuum that ran in most of the dip, and in less than half of the quiet seconds."""
    during, before = (
        sum(len({row.t_us for row in probe.samples("vacuum", "blocks", each)}) for each in spans)
        / max(sum(each[1] - each[0] for each in spans), 1.0)
        for spans in ((span,), quiet)
    )
    if during >= 0.5 and before < 0.5:
        yield Coincidence(Cause.VACUUM, min(during, 1.0), before, "share")


def _steal(span: Span, quiet: Sequence[Span], probe: Probed) -> Iterator[Coincidence]:
    during = probe.mean("cpu", "steal", span)
    known = [mean for each in quiet if (mean := probe.mean("cpu", "steal", each)) is not None]
    before = sum(known) / len(known) if known else 0.0
    if during is not None and during - before >= 0.05:
        yield Coincidence(Cause.STEAL, during, before, "share")


def _generator(span: Span, shares: Sequence[tuple[float, float, float]]) -> Iterator[Coincidence]:
    inside = [share for begin, end, share in shares if begin < span[1] and end > span[0]]
    outside = [share for begin, end, share in shares if begin >= span[1] or end <= span[0]]
    if inside and max(inside) > 0.9:
        yield Coincidence(Cause.GENERATOR, max(inside), max(outside, default=0.0), "share")
