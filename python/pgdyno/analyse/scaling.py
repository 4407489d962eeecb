"""Throughput by clients or another parameter: peak and knee without a model, and the Universal Scalability Law.

X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)): lambda is the throughput of one client, sigma the share that
waits for others (contention), kappa the cost of mutual synchronisation (coherency). Gunther 2007, "Guerrilla Capacity
Planning".
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pgdyno.analyse import summary as warning
from pgdyno.analyse.intervals import CONFIDENCE, Array, Estimate, t_quantile, two_sided_quantile
from pgdyno.analyse.series import Series
from pgdyno.analyse.summary import PointSummary
from pgdyno.messages import Message

NEAR_PEAK = 0.95
"""Least share of the peak's throughput at the knee."""


def knee(samples: Sequence[Sequence[float]]) -> int | None:
    """Return the index of the first of `samples` whose mean is shown to be at least 95 % of every other's; None if none
    is.

    `samples` are throughputs by trial, one list for each number of clients, fewest first. Non-inferiority by multiple
    comparisons with the best (Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with
    the best"): a point's log ratio to each other one has a lower 95 % bound, Student's t with the variance pooled over
    all points. As each point is compared with all others, and the bounds hold simultaneously (Bonferroni), choosing the
    peak as the highest of several means causes no bias.
    """
    logs = [[math.log(each) for each in sample] if min(sample, default=0) > 0 else [] for sample in samples]
    known = [at for at, sample in enumerate(logs) if sample]
    if len(known) == 1:
        return known[0]
    freedom = sum(len(logs[at]) - 1 for at in known)
    if not known or freedom < 1:
        return None
    means = {at: math.fsum(logs[at]) / len(logs[at]) for at in known}
    variance = math.fsum((each - means[at]) ** 2 for at in known for each in logs[at]) / freedom
    t = two_sided_quantile(1 - 2 * (1 - CONFIDENCE) / (len(known) - 1), freedom)

    def is_shown(at: int, other: int) -> bool:
        error = math.sqrt(variance * (1 / len(logs[at]) + 1 / len(logs[other])))
        return means[at] - means[other] - t * error >= math.log(NEAR_PEAK)

    return next((at for at in known if all(is_shown(at, other) for other in known if other != at)), None)


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """A point with a known throughput, `summary.tps`."""

    summary: PointSummary
    tps: Estimate

    @property
    def clients(self) -> int:
        return self.summary.clients or 0


@dataclass(frozen=True, slots=True)
class ScalingCurve:
    series: Series
    points: tuple[ScalingPoint, ...]
    """Clients ascending, without points that have no finished trial."""
    peak: ScalingPoint
    """Highest mean throughput; of two equal ones, the one with fewer clients."""
    knee: ScalingPoint | None
    """Fewest clients whose throughput is shown to be at least 95 % of the peak's; None: not determined."""
    warnings: tuple[Message, ...]


def scaling(points: Sequence[PointSummary]) -> list[ScalingCurve]:
    """Return a curve for each series that has a finished trial, in the order of `points`."""
    curves = []
    for series in dict.fromkeys(point.series for point in points):
        # an imported point without a number of clients has no position on a curve
        there = [
            ScalingPoint(point, point.tps)
            for point in points
            if point.series == series and point.tps is not None and point.clients
        ]
        if there:
            curves.append(_curve(series, sorted(there, key=lambda point: point.clients)))
    return curves


def _curve(series: Series, points: Sequence[ScalingPoint]) -> ScalingCurve:
    peak = max(points, key=lambda point: point.tps.mean)
    place = knee([point.summary.tps_by_trial for point in points])
    warnings = []
    # in an open loop, the plan sets the throughput, whatever the clients
    is_open = any(point.summary.point.rate is not None for point in points)
    if len(points) > 1 and peak is points[-1] and not is_open:
        warnings.append(warning.peak_at_edge(peak.clients))
    if place is None and all(point.tps.half is None for point in points):
        warnings.append(warning.KNEE_WITHOUT_INTERVALS)
    elif place is None:
        warnings.append(warning.KNEE_NOT_DETERMINED)
    return ScalingCurve(series, tuple(points), peak, None if place is None else points[place], tuple(warnings))


FEWEST_COUNTS = 6


@dataclass(frozen=True, slots=True)
class Range:
    """A parameter with its 95 % interval."""

    fitted: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class UslFit:
    """A fitted curve and its parameters, with their intervals."""

    rate: Range
    """lambda: transactions per second of one client."""
    contention: Range
    """sigma."""
    coherency: Range
    """kappa."""
    peak_clients: Range
    """sqrt((1 - sigma) / kappa)."""
    peak_tps: Range
    """X at `peak_clients`."""
    largest_error: float
    """Largest relative deviation of a point's mean from the curve: 0.1 means that the law does not describe it."""

    def rate_at(self, clients: float) -> float:
        return float(usl(np.asarray([clients]), self.rate.fitted, self.contention.fitted, self.coherency.fitted)[0])


@dataclass(frozen=True, slots=True)
class NotFitted:
    reason: Message


def usl(clients: Array, rate: float, contention: float, coherency: float) -> Array:
    """Return X(N) of the law."""
    return rate * clients / (1 + contention * (clients - 1) + coherency * clients * (clients - 1))


def fit_usl(points: Sequence[tuple[int, Sequence[float]]]) -> UslFit | NotFitted:
    """Fit the law to throughputs by repeat of each number of clients.

    Non-linear least squares on the logarithm of every trial's throughput, because noise grows with throughput;
    contention and coherency are not negative. Intervals are by linear approximation at the solution and Student's t,
    with the residual variance over all trials (Bates and Watts 1988, chapter 2), or over the numbers of clients where
    the repeats show that the law does not fit: of lambda, kappa and the peak on their logarithms, of sigma cut at 0.
    Check `largest_error`, too. There is no fit for fewer than 6 numbers of clients, and none if the highest throughput
    is at the most clients, or the fit has no peak: it would be an extrapolation.
    """
    ordered = sorted((clients, [each for each in tps if each > 0]) for clients, tps in points)
    ordered = [(clients, tps) for clients, tps in ordered if tps]
    if len(ordered) < FEWEST_COUNTS:
        return NotFitted(
            Message(
                "usl-few-clients",
                "{count} number of clients, but the law needs {least}",
                "{count} numbers of clients, but the law needs {least}",
                count=len(ordered),
                least=FEWEST_COUNTS,
            )
        )
    means = np.array([np.mean(tps) for _, tps in ordered])
    if int(np.argmax(means)) == len(means) - 1:
        return NotFitted(
            Message("usl-peak-not-reached", "peak not reached: the highest throughput is at the most clients measured")
        )
    solution = _solve([(clients, each) for clients, tps in ordered for each in tps])
    if solution is None:
        return NotFitted(Message("usl-never-falls", "peak not reached: the fitted curve never falls"))
    rate, contention, coherency, peak, top = (solution.interval(at) for at in range(5))
    clients = np.array([each for each, _ in ordered], dtype=np.float64)
    errors = np.abs(usl(clients, rate.fitted, contention.fitted, coherency.fitted) / means - 1)
    return UslFit(rate, contention, coherency, peak, top, float(errors.max()))


def fit_curve(curve: ScalingCurve) -> UslFit | NotFitted:
    if any(point.summary.point.rate is not None for point in curve.points):
        return NotFitted(Message("usl-open-loop", "in an open loop, the plan sets the throughput"))
    return fit_usl([(point.clients, point.summary.tps_by_trial) for point in curve.points])


def fitted_line(curve: ScalingCurve, fit: UslFit | NotFitted) -> Sequence[tuple[float, float]]:
    """Return (clients, throughput) of the fitted law from a curve's fewest clients to its most; empty without a fit."""
    if isinstance(fit, NotFitted):
        return ()
    at = np.geomspace(curve.points[0].clients, curve.points[-1].clients, 48)
    return [(float(each), float(fit.rate_at(each))) for each in at]


@dataclass(frozen=True, slots=True)
class _Solution:
    """N / X = b · (1, N - 1, N (N - 1)), b = (1, sigma, kappa) / lambda: with an unbounded and a bounded sigma."""

    free: Array
    bounded: Array
    covariance: Array
    t: float

    def interval(self, at: int) -> Range:
        """Return the interval of lambda, sigma, kappa, the peak's clients and the peak's throughput, by index."""

        def value(b: Array) -> float:
            return _parameters(b)[at]

        fitted, middle, half = value(self.bounded), value(self.free), self.t * self._error(value)
        # all but sigma are logarithms; if sigma was bounded, the fitted value moves within its interval
        low, high = min(middle - half, fitted), max(middle + half, fitted)
        if at == _SIGMA:
            return Range(fitted, max(low, 0.0), max(high, 0.0))
        return Range(math.exp(fitted), math.exp(low), _exp(high))

    def _error(self, value: Callable[[Array], float]) -> float:
        """Return the standard error of a function of b, by its gradient (the delta method)."""
        steps = np.diag(np.abs(self.free) * 1e-5 + 1e-12)
        slopes = np.array([(value(self.free + step) - value(self.free - step)) / (2 * step.sum()) for step in steps])
        return math.sqrt(max(float(slopes @ self.covariance @ slopes), 0.0))


_SIGMA = 1
_PARAMETERS = 3
MOST_STEPS, LEAST_STEP = 200, 1e-12
LEAST_TIME = 1e-3
"""Least response time at the peak, as a part of that of one client."""


def _solve(trials: Sequence[tuple[int, float]]) -> _Solution | None:
    """Return the fit to clients and throughput of each trial; None for a curve without a peak."""
    clients, tps = (np.array(each, dtype=np.float64) for each in zip(*trials, strict=True))
    over = clients / tps
    rows = np.array([_row(each) for each in clients])
    free, slopes, squares = _least_squares(rows, over)
    bounded = free
    if free[1] < 0:
        rate, coherency = _least_squares(rows[:, [0, 2]], over)[0]
        bounded = np.array([rate, 0.0, coherency])
    if not (_has_peak(free) and _has_peak(bounded)):
        return None
    variance, freedom = _variance(clients, np.log(rows @ free / over), squares)
    try:
        covariance: Array = np.asarray(np.linalg.inv(slopes.T @ slopes) * variance)
    except np.linalg.LinAlgError:
        # trials of a point that differ by powers of ten determine nothing
        return None
    return _Solution(free, bounded, covariance, t_quantile(CONFIDENCE, freedom))


MISFIT = 0.5
"""Level of the test for lack of fit. A misfit that noise may explain is no misfit, at the price of narrow intervals."""


def _variance(clients: Array, residuals: Array, squares: float) -> tuple[float, float]:
    """Return the variance of a residual and its degrees of freedom.

    Over all trials, unless the repeats show a lack of fit (F test of the mean square of lack of fit to that of pure
    error: Draper and Smith 1998, section 2.1): then the number of clients is the unit, because all its repeats deviate
    alike.
    """
    # importing scipy is slow
    from scipy import special

    freedom = len(residuals) - _PARAMETERS
    groups = [residuals[clients == each] for each in np.unique(clients)]
    pure = sum(float(((each - each.mean()) ** 2).sum()) for each in groups)
    of_points, of_repeats = len(groups) - _PARAMETERS, len(residuals) - len(groups)
    if of_repeats == 0 or pure == 0:
        return squares / freedom, freedom
    lack = (squares - pure) / of_points
    if special.fdtrc(of_points, of_repeats, max(lack, 0.0) / (pure / of_repeats)) > MISFIT:
        return squares / freedom, freedom
    return lack, of_points


def _least_squares(columns: Array, over: Array) -> tuple[Array, Array, float]:
    """Return the coefficients of `columns` for the logarithm of `over`, the gradient there, and the sum of squares.

    Gauss and Newton's method with halved steps: each step solves the linearised problem (Bates and Watts 1988, section
    2.2). scipy's solver takes longer to import than the whole fit takes.
    """

    def residuals(b: Array) -> Array:
        # a step may lead to a point where the law has no throughput
        return np.log(np.maximum(columns @ b, 1e-9 * over) / over)

    def slopes(b: Array) -> Array:
        return columns / np.maximum(columns @ b, 1e-9 * over)[:, None]

    b: Array = np.asarray(np.linalg.lstsq(columns / over[:, None], np.ones_like(over))[0], dtype=np.float64)
    squares = float(np.sum(residuals(b) ** 2))
    for _ in range(MOST_STEPS):
        gradient = slopes(b)
        # columns of similar length, because those of few and of many clients differ by powers of ten
        scale = np.linalg.norm(gradient, axis=0)
        step: Array = np.asarray(np.linalg.lstsq(gradient / scale, -residuals(b))[0] / scale, dtype=np.float64)
        share = 1.0
        while share > LEAST_STEP and float(np.sum(residuals(b + share * step) ** 2)) > squares:
            share /= 2
        if share <= LEAST_STEP:
            break
        b = b + share * step
        before, squares = squares, float(np.sum(residuals(b) ** 2))
        if before - squares <= 1e-14 * before and np.all(np.abs(share * step) <= 1e-9 * np.abs(b)):
            break
    return b, slopes(b), squares


def _row(clients: float) -> Array:
    return np.array([1.0, clients - 1, clients * (clients - 1)])


def _has_peak(b: Array) -> bool:
    """Return whether the law has a peak, with a throughput: far from all points, a negative sigma may leave none."""
    return bool(b[0] > 0 and b[2] > 0 and b[1] < b[0] and _row(_peak(b)) @ b > LEAST_TIME * b[0])


def _parameters(b: Array) -> tuple[float, float, float, float, float]:
    """Return log lambda, sigma, log kappa, and the logarithms of the peak's clients and throughput."""
    contention, coherency = _sigma_kappa(b)
    peak = _peak(b)
    top = peak / float(_row(peak) @ b)
    return -math.log(b[0]), float(contention), math.log(coherency), math.log(peak), math.log(top)


def _peak(b: Array) -> float:
    """Return the number of clients with the highest throughput, at least 1."""
    contention, coherency = _sigma_kappa(b)
    return max(math.sqrt(max(1 - contention, 0.0) / coherency), 1.0)


def _sigma_kappa(b: Array) -> tuple[float, float]:
    return b[1] / b[0], max(b[2] / b[0], 1e-300)


def _exp(value: float) -> float:
    """Return infinity instead of an overflow, which occurs if hardly anything is known."""
    return math.exp(value) if value < 700 else math.inf
