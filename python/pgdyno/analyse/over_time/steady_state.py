"""Whether and where the throughput of a trial becomes steady."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pgdyno.analyse.intervals import Array, statistical_inefficiency
from pgdyno.analyse.over_time.dips import without_dips
from pgdyno.analyse.over_time.periodicity import least_squares
from pgdyno.analyse.over_time.timeline import RunSource, trial_timeline

SHORTEST = 20
"""Seconds; fewer allow no conclusion."""
CANDIDATES = 200
"""Largest number of starts that are tried."""
PENALTY = 15.0
"""Penalty of a change point, times log n: Barrett et al. 2017, for series whose values depend on each other."""
LARGEST_MEMORY = 0.99
"""Correlation of neighbouring seconds; at 1 the series would have no level."""
BOUNDARY_PENALTY = 3.0
"""Penalty of a boundary between two levels, times log n: the modified BIC of Zhang and Siegmund 2007."""
SHORTEST_SEGMENT = 3
LEAST_DIFFERENCE = 0.01
"""Levels nearer than this are one."""
TAIL = 0.25
"""Share of the series at its end that must be one level."""
FEWEST_CYCLES = 3
SHORTEST_CYCLE = 6
"""In values of the series."""
WAVE_PENALTY = 6.0
"""Penalty of a wave, times log n: a frequency, a slope and two harmonics."""
MOST_VALUES = 1_000
"""Longer series are averaged before a wave is fitted."""
VISIBLE_DRIFTS = ((20, 11.0), (30, 11.5), (60, 9.5), (120, 8.5), (300, 5.0))
"""By the length of a trial: the drift from its start to its end, in standard deviations of a second around the line,
that 80 % of simulated trials show, at the worst of the correlations 0, 0.5 and 0.8 (`make simulations`, Drifts). A
memory estimated from so short a trial would be too small, so none is.
"""


class SteadyClass(StrEnum):
    """Classes of steady state (Barrett et al. 2017), and cycles such as those of checkpoints."""

    FLAT = "flat"
    WARM_UP = "warm-up"
    SLOWDOWN = "slowdown"
    PERIODIC = "periodic"
    NONE = "no steady state"


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one level: seconds `first` to before `end`, from the start of the series."""

    first: int
    end: int
    level: float
    """Mean, in transactions per second."""


@dataclass(frozen=True, slots=True)
class SteadyState:
    """The class of a trial, and its segments."""

    kind: SteadyClass
    start: int
    """The second after which the rest contains most independent values: Chodera's end of the warm-up."""
    effective: float
    """Independent values from there on."""
    segments: tuple[Segment, ...]
    period_s: float | None = None
    """Length of a cycle; None unless periodic."""
    visible_drift: float = 0.0
    """The smallest drift that 80 % of trials of this length and noise would show, relative to the mean."""


def steady_state(series: Sequence[float]) -> SteadyState | None:
    """Return class, start and segments of `series`, one value per second; None if it is shorter than 20."""
    values = np.asarray(series, dtype=np.float64)
    if len(values) < SHORTEST:
        return None
    start, effective = steady_start(values)
    # dips are reported separately; as a level, a dip would turn everything before it into a warm-up
    filled = without_dips(values)
    segments = without_memory(filled, segments_of(filled))
    period = cycle_of(filled, segments)
    kind = _kind(values, segments) if period is None else SteadyClass.PERIODIC
    return SteadyState(kind, start, effective, segments, period, visible_drift(filled))


def trial_steady_state(run: RunSource, trial: int) -> SteadyState | None:
    """Return `steady_state` of the measured part of trial number `trial`."""
    return steady_state(trial_timeline(run, trial).measured_part.tps.tolist())


def steady_start(values: Array) -> tuple[int, float]:
    """Return the start, in the first half, that leaves the most effective values, (n - start) / g, and how many.

    Chodera 2016, "A Simple Method for Automated Equilibration Detection". For long series, 200 starts are tried.
    """
    half = len(values) // 2
    step = max(1, math.ceil((half + 1) / CANDIDATES))
    found = [(len(values[at:]) / statistical_inefficiency(values[at:]), -at) for at in range(0, half + 1, step)]
    effective, start = max(found)
    return -start, effective


def visible_drift(values: Array) -> float:
    """Return the smallest drift that 80 % of trials with the length and noise of `values` would show, relative to their
    mean; a longer trial shows smaller ones than the longest of `VISIBLE_DRIFTS`.
    """
    times = next(times for seconds, times in reversed(VISIBLE_DRIFTS) if len(values) >= seconds)
    mean = float(values.mean())
    return max(times * spread_around_line(values) / mean, LEAST_DIFFERENCE) if mean > 0 else math.inf


def spread_around_line(values: Array) -> float:
    """Return the standard deviation of `values` around their least-squares line."""
    seconds = np.arange(len(values), dtype=np.float64)
    rest = values - np.polynomial.Polynomial.fit(seconds, values, 1)(seconds)
    return math.sqrt(float(rest @ rest) / (len(values) - 2))


def segments_of(values: Array, penalty: float = PENALTY) -> tuple[Segment, ...]:
    """Return the levels between change points: PELT (Killick et al. 2012) with squared error and a `penalty` of 15 s²
    log n.

    s is the spread from second to second, 1.4826 MAD of the differences / sqrt(2), so that steps do not count in it; at
    least 0.1 % of the median, for series that hardly vary.
    """
    import ruptures

    differences = np.diff(values)
    spread = 1.4826 * float(np.median(np.abs(differences - np.median(differences)))) / math.sqrt(2)
    spread = max(spread, 0.001 * abs(float(np.median(values))), 1e-9)
    scaled = ((values - values.mean()) / spread).reshape(-1, 1)
    # the kernel of inner products is the squared error; this implementation is in C
    search = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST_SEGMENT).fit(scaled)
    ends = [int(end) for end in search.predict(pen=penalty * math.log(len(values)))]
    return _segments(values, ends)


def without_memory(values: Array, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return `segments` without boundaries that noise explains and whose sides resemble each other.

    Autocorrelated noise drifts, which looks like levels. As in Beaulieu and Killick 2018 ("Distinguishing Trends and
    Shifts from Memory in Climate Data"), the candidates are models with first-order autoregressive noise, compared by a
    penalised likelihood: levels with one boundary less each, and a line. The least significant boundary is removed
    first, as long as that costs less than 3 log n; a series that a line describes better than one level keeps all of
    them.
    """
    penalty = BOUNDARY_PENALTY * math.log(len(values))
    seconds = np.arange(len(values), dtype=np.float64)
    line = np.polynomial.Polynomial.fit(seconds, values, 1)(seconds)
    one_level = np.full(len(values), values.mean())
    if _misfit(values, one_level) - _misfit(values, line) >= penalty:
        return tuple(segments)
    ends = [segment.end for segment in segments]
    misfit = _misfit(values, _levels(values, ends))
    while len(ends) > 1:
        fewer = [ends[:at] + ends[at + 1 :] for at in range(len(ends) - 1)]
        least, best = min((_misfit(values, _levels(values, each)), each) for each in fewer)
        if least - misfit >= penalty:
            break
        ends, misfit = best, least
    return _segments(values, ends)


def cycle_of(values: Array, segments: Sequence[Segment]) -> float | None:
    """Return the length of the cycle, in values, that explains `values` better than `segments` and than a line.

    A line with a wave and its second harmonic is one more model of `without_memory`, at 6 log n. At least three cycles
    must fit into the series. Two boundaries per cycle and more are no rival: they are the staircase of its slopes.
    """
    step = math.ceil(len(values) / MOST_VALUES)
    n = len(values) // step
    series, levels = (
        each[: n * step].reshape(n, step).mean(axis=1)
        for each in (values, _levels(values, [segment.end for segment in segments]))
    )
    places = np.arange(n, dtype=np.float64)
    line = [np.ones(n), places / n]
    waves = []
    for frequency in np.arange(FEWEST_CYCLES / n, 1 / SHORTEST_CYCLE, 1 / (4 * n)):
        angle = 2 * math.pi * frequency * places
        wave = [shape(times * angle) for times in (1, 2) for shape in (np.cos, np.sin)]
        waves.append((_misfit(series, least_squares(series, np.stack([*line, *wave], axis=1))), float(frequency)))
    if not waves:
        return None
    misfit, best = min(waves)
    boundaries = len(segments) - 1
    rival = _misfit(series, least_squares(series, np.stack(line, axis=1)))
    if boundaries < 2 * n * best:
        rival = min(rival, _misfit(series, levels) + BOUNDARY_PENALTY * boundaries * math.log(n))
    return step / best if misfit + WAVE_PENALTY * math.log(n) < rival else None


def _levels(values: Array, ends: Sequence[int]) -> Array:
    segments = _segments(values, ends)
    return np.repeat([each.level for each in segments], [each.end - each.first for each in segments])


def _segments(values: Array, ends: Sequence[int]) -> tuple[Segment, ...]:
    firsts = [0, *ends[:-1]]
    return tuple(Segment(first, end, float(values[first:end].mean())) for first, end in zip(firsts, ends, strict=True))


def _misfit(values: Array, fitted: Array) -> float:
    """Return -2 log likelihood of `fitted` with autoregressive noise but for a constant (conditional least squares)."""
    rest = values - fitted
    before, after = rest[:-1], rest[1:]
    power = float(before @ before)
    memory = min(max(float(before @ after) / power, 0.0), LARGEST_MEMORY) if power > 0 else 0.0
    fresh = after - memory * before
    # the same floor as that of the spread in `segments_of`, for series that hardly vary
    least = max((0.001 * float(np.median(values))) ** 2, 1e-18)
    return len(fresh) * math.log(max(float(fresh @ fresh) / len(fresh), least))


def _kind(values: Array, segments: Sequence[Segment]) -> SteadyClass:
    """Return the class by the last level: the others equal it, or some are lower or higher; or the last level is too
    short.

    Two levels are alike within max(1 %, the standard deviation of the last).
    """
    last = segments[-1]
    near = max(LEAST_DIFFERENCE * abs(last.level), float(values[last.first :].std()))
    other = [segment for segment in segments if abs(segment.level - last.level) > near]
    if not other:
        return SteadyClass.FLAT
    if max(segment.end for segment in other) > (1 - TAIL) * len(values):
        return SteadyClass.NONE
    return SteadyClass.SLOWDOWN if any(segment.level > last.level for segment in other) else SteadyClass.WARM_UP
