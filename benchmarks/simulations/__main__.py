"""Measures the error rates of the analysis by simulation with fixed seeds, as tables in Markdown.

    make simulations RUNS="..."      # takes minutes on one core

The tests assert the same with fewer draws. With run folders, the program plants dips in the real seconds of their
trials.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from tests.unit.comparison_sample import Array, arms_of, checkpointed, pair_of_arms
from tests.unit.test_analyse_history import noisy
from tests.unit.test_analyse_scaling import law
from tests.unit.test_analyse_steady import noise

from pgdyno.analyse.capacity import capacity_interval
from pgdyno.analyse.comparison import LEAST_DELTA, Verdict, compare
from pgdyno.analyse.history import change_points
from pgdyno.analyse.intervals import instances_interval, paired_interval, t_quantile
from pgdyno.analyse.over_time.dips import dips
from pgdyno.analyse.over_time.steady_state import VISIBLE_DRIFTS, SteadyClass, spread_around_line, steady_state
from pgdyno.analyse.over_time.timeline import RunSource, trial_timeline
from pgdyno.analyse.scaling import UslFit, fit_usl, knee, usl
from pgdyno.experiment.search.capacity_search import Capacity, RateSpan, next_rate
from pgdyno.store import find_run, load_run
from simulations.bisection import bisections
from simulations.cheapest import at_limit, searches
from simulations.confirmation import confirmations
from simulations.endurance import endurance
from simulations.order import looks_with_memory, orders
from simulations.power import planned_power
from simulations.settings import false_wins, regret
from simulations.stopping import as_run, same_claims, trials_saved, wrong_claims

PAIRS = (6, 10, 20)
LEAST_S = 45
"""The shortest trial, in seconds, in which dips of ten seconds are planted."""
Row = Sequence[object]


def coverage(times: int = 6_000) -> Iterator[Row]:
    """Yields the share of 95 % intervals that contain the true difference, which is 0."""
    yield ("noise", *(f"n = {n}" for n in PAIRS))
    mean = float(checkpointed(np.random.default_rng(0), (1_000_000,)).mean())
    for name in ("normal", "checkpoint-like", "checkpoint-like in one arm"):
        cells = []
        for n in PAIRS:
            random = np.random.default_rng(n)
            held = 0
            for _ in range(times):
                if name == "normal":
                    drawn = random.normal(0.0, 0.02, n)
                else:
                    other = mean if name.endswith("one arm") else checkpointed(random, (n,))
                    drawn = checkpointed(random, (n,)) - other
                found = paired_interval(list(drawn), 0.95, 1_999)
                held += found is not None and found.low <= 0 <= found.high
            cells.append(percent(held, times))
        yield (name, *cells)


def verdicts(times: int = 1_000) -> Iterator[Row]:
    """Yields the verdicts on arms with a known difference and checkpoint-like noise; delta is 1 %."""
    yield ("true effect", "pairs", *(verdict.value for verdict in Verdict))
    for effect in (0.0, 0.01, 0.02, 0.05, 0.1):
        for n in PAIRS:
            random = np.random.default_rng(n)
            told: Counter[Verdict] = Counter()
            for _ in range(times):
                (found,) = compare([arms_of(pair_of_arms(random, n, effect))])
                told[found.points[0].verdict] += 1
            yield (f"{100 * effect:g} %", n, *(percent(told[verdict], times) for verdict in Verdict))


def added_pairs(times: int = 5_000) -> Iterator[Row]:
    """Yields the share of verdicts "faster" if the difference is delta: with one test at 6 pairs, and with up to ten
    tests.

    Before each further test, as many pairs are added as would suffice with the same mean and spread; noise is normal.
    """
    yield ("spread of a pair", "one look", "up to ten looks")
    edge = math.log1p(LEAST_DELTA)
    for spread in (0.01, 0.02, 0.05):
        random = np.random.default_rng(1)
        first = last = 0
        for _ in range(times):
            drawn = random.normal(edge, spread, 6)
            for look in range(10):
                n, mean, deviation = len(drawn), float(drawn.mean()), float(drawn.std(ddof=1))
                half = t_quantile(0.95, n - 1) * deviation / math.sqrt(n)
                faster, same = mean - half > edge, max(half - mean, half + mean) < edge
                first += faster and look == 0
                last += faster
                if faster or same or mean + half < -edge:
                    break
                wanted = math.ceil((1.96 * deviation / abs(abs(mean) - edge)) ** 2)
                if wanted > 400:
                    break
                drawn = np.append(drawn, random.normal(edge, spread, max(wanted - n, 1)))
        yield (f"{100 * spread:g} %", percent(first, times), percent(last, times))


def capacities(times: int = 2_000) -> Iterator[Row]:
    """Yields the share of pgdyno's own searches whose 95 % interval contains the planted capacity, by the noise of
    trials and by the correlation of each trial's noise with that of the trial before.
    """
    yield ("noise", "correlation", "repeats", "held the capacity", "width (median)", "trials (mean)")
    for spread, correlation, repeats in product((0.02, 0.05, 0.1), (0.0, 0.5, 0.8), (3, 5)):
        random = np.random.default_rng(repeats)
        span = RateSpan(100, 20_000, repeats, 0.05)
        held, widths, trials = 0, [], 0
        for _ in range(times):
            true = math.exp(random.uniform(math.log(200), math.log(10_000)))
            verdicts = _search(span, true, spread, correlation, random)
            found = capacity_interval(verdicts, span.lowest, span.highest)
            low, high = found.low or 0, found.high or math.inf
            held += low <= true <= high
            widths.append((high - low) / true)
            trials += sum(map(len, verdicts.values()))
        sizes = (f"{100 * spread:g} %", f"{correlation:g}", repeats)
        yield (*sizes, percent(held, times), f"{100 * np.median(widths):.0f} %", f"{trials / times:.0f}")


def _search(
    span: RateSpan, true: float, spread: float, correlation: float, random: np.random.Generator
) -> dict[float, list[bool]]:
    deviation = random.normal()
    verdicts: dict[float, list[bool]] = {}
    while not isinstance(rate := next_rate(span, verdicts), Capacity):
        verdicts.setdefault(rate, []).append(rate <= true * math.exp(spread * deviation))
        deviation = correlation * deviation + math.sqrt(1 - correlation**2) * random.normal()
    return verdicts


def knees(times: int = 2_000) -> Iterator[Row]:
    """Yields the knees found in a curve whose true knee is at 16 clients: 8 have 93 % of the peak, 16 have 98 %."""
    yield ("noise", "repeats", "16 clients or more", "fewer: wrong", "not determined")
    shares = (0.2, 0.4, 0.7, 0.93, 0.98, 1.0, 0.99, 0.9)
    for noise_of_trials in (0.005, 0.01, 0.02, 0.05):
        for repeats in (3, 5, 10):
            random = np.random.default_rng(repeats)
            told: Counter[str] = Counter()
            for _ in range(times):
                place = knee([list(share * np.exp(random.normal(0, noise_of_trials, repeats))) for share in shares])
                told["none" if place is None else "right" if place >= 4 else "wrong"] += 1
            cells = (percent(told[each], times) for each in ("right", "wrong", "none"))
            yield (f"{100 * noise_of_trials:g} %", repeats, *cells)


def usl_intervals(times: int = 1_000) -> Iterator[Row]:
    """Yields the share of the scalability law's 95 % intervals that contain the true value, for curves of 8 client
    counts; `misfit` is how far a client count deviates from the law.
    """
    names = ("lambda", "sigma", "kappa", "peak's clients", "peak's tps")
    yield ("contention, coherency", "noise", "misfit", "repeats", *names, "no fit")
    for sigma, kappa in ((0.02, 5e-4), (0.1, 1e-3), (0.0, 3e-4)):
        peak = np.sqrt((1 - sigma) / kappa)
        truth = (1_000.0, sigma, kappa, peak, usl(np.array([peak]), 1_000.0, sigma, kappa)[0])
        for spread, misfit in ((0.02, 0.0), (0.1, 0.0), (0.02, 0.01), (0.02, 0.02), (0.02, 0.05)):
            for repeats in (1, 3, 5):
                held, fits = np.zeros(5), 0
                for seed in range(times):
                    found = fit_usl(law(seed, 1_000.0, sigma, kappa, spread, repeats, misfit))
                    if isinstance(found, UslFit):
                        every = (found.rate, found.contention, found.coherency, found.peak_clients, found.peak_tps)
                        held += [each.low <= value <= each.high for each, value in zip(every, truth, strict=True)]
                        fits += 1
                shares = (percent(int(each), fits) for each in held)
                truly, sizes = f"{sigma:g}, {kappa:g}", (f"{100 * each:g} %" for each in (spread, misfit))
                yield (truly, *sizes, repeats, *shares, percent(times - fits, times))


def steadiness(times: int = 300) -> Iterator[Row]:
    """Yields the share of trials that are not classified as flat, with 2 % of noise alone and with an added effect."""
    shapes: dict[str, Callable[[int], Array]] = {
        "noise alone": lambda n: np.full(n, 0.0),
        "a third 5 % lower": lambda n: np.where(np.arange(n) < n / 3, -50.0, 0.0),
        "a third 10 % lower": lambda n: np.where(np.arange(n) < n / 3, -100.0, 0.0),
        "drift of 10 %": lambda n: np.linspace(-50, 50, n),
        "drift of 20 %": lambda n: np.linspace(-100, 100, n),
        "slow start, 40 %, a quarter": lambda n: np.minimum(-400 + 1_600 * np.arange(n) / n, 0),
    }
    yield ("correlation", "seconds", *shapes)
    for correlation, seconds in product((0.0, 0.5, 0.8), (30, 60, 120, 300)):
        found = (_classes(shape, seconds, correlation, times) for shape in shapes.values())
        cells = (percent(times - of[SteadyClass.FLAT] - of[None], times) for of in found)
        yield (correlation, seconds, *cells)


def drifts(times: int = 200) -> Iterator[Row]:
    """Yields the drift that 80 % of trials show, in standard deviations of a second around the line of a trial."""
    correlations = (0.0, 0.5, 0.8)
    yield ("seconds", *(f"correlation {each:g}" for each in correlations))
    for seconds, _ in VISIBLE_DRIFTS:
        yield (seconds, *(f"{_visible_drift(seconds, each, times):.1f}" for each in correlations))


def _visible_drift(seconds: int, correlation: float, times: int) -> float:
    noises = [noise(seed, seconds, correlation) for seed in range(times)]
    spread = float(np.median([spread_around_line(each) for each in noises]))
    low, high = 0.0, 1_000.0
    while high - low > 0.02 * high:
        drift = (low + high) / 2
        found = [steady_state(list(1_000 + each + np.linspace(-drift / 2, drift / 2, seconds))) for each in noises]
        seen = sum(each is not None and each.kind is not SteadyClass.FLAT for each in found)
        low, high = (low, drift) if seen >= 0.8 * times else (drift, high)
    return high / spread


def cycles(times: int = 50) -> Iterator[Row]:
    """Yields the share of trials that are called periodic: saw-teeth of four cycles, and shapes without a cycle."""
    shapes: dict[str, Callable[[int], Array]] = {
        "saw-tooth of 10 %": lambda n: 100 * (np.arange(n) * 4 / n % 1),
        "saw-tooth of 30 %": lambda n: 300 * (np.arange(n) * 4 / n % 1),
        "noise alone": lambda n: np.full(n, 0.0),
        "a third 10 % lower": lambda n: np.where(np.arange(n) < n / 3, -100.0, 0.0),
        "drift of 20 %": lambda n: np.linspace(-100, 100, n),
    }
    yield ("correlation", "seconds", *shapes)
    for correlation, seconds in product((0.0, 0.5, 0.8), (30, 120, 300)):
        found = (_classes(shape, seconds, correlation, times) for shape in shapes.values())
        yield (correlation, seconds, *(percent(of[SteadyClass.PERIODIC], times) for of in found))


def _classes(
    shape: Callable[[int], Array], seconds: int, correlation: float, times: int
) -> Counter[SteadyClass | None]:
    series = (1_000 + shape(seconds) + noise(seed, seconds, correlation) for seed in range(times))
    found = (steady_state(list(each)) for each in series)
    return Counter(None if each is None else each.kind for each in found)


def steps(times: int = 300) -> Iterator[Row]:
    """Yields the change points found in histories whose runs differ by 2 %, with a step in the middle."""
    yield ("runs", "step", "found there, ±1 run, and nothing else", "found anything")
    for runs in (12, 20, 40):
        for step in (0.0, 0.02, 0.04, 0.08):
            right = some = 0
            for seed in range(times):
                figures = np.array(noisy(seed, runs))
                figures[runs // 2 :] *= 1 + step
                found = change_points(list(figures)) or ()
                right += len(found) == 1 and abs(found[0].at - runs // 2) <= 1
                some += bool(found)
            yield (runs, f"{100 * step:g} %", percent(right, times) if step else "", percent(some, times))


def instances(times: int = 4_000, trials: int = 4) -> Iterator[Row]:
    """Yields how often 95 % intervals of two equal targets contain the true difference, 0.

    An instance has `trials` trials; `share` is the part of a trial's variance that its instance causes. In the last
    column the instances of one target scatter three times as much.
    """
    shares = (0.0, 0.25, 0.5, 0.9)
    yield ("instances", "unit", *(f"share {100 * share:g} %" for share in shares), "unequal scatter")
    for count in (2, 3, 5, 8):
        held: dict[str, list[str]] = {"trial": [], "instance": []}
        for share, factor in (*((share, 1.0) for share in shares), (0.5, 3.0)):
            random = np.random.default_rng(count)
            inside = Counter[str]()
            for _ in range(times):
                base, other = (
                    random.normal(0, math.sqrt(share), (count, 1))
                    + random.normal(0, math.sqrt(1 - share), (count, trials))
                    for _ in range(2)
                )
                other *= factor
                for unit, found in (
                    ("trial", paired_interval(list((other - base).T.ravel()), 0.95, 0)),
                    ("instance", instances_interval(list(base.mean(axis=1)), list(other.mean(axis=1)), 0.95)),
                ):
                    inside[unit] += found is not None and found.low <= 0 <= found.high
            for unit, cells in held.items():
                cells.append(percent(inside[unit], times))
        for unit, cells in held.items():
            yield (count, unit, *cells)


def planted_dips(runs: Sequence[RunSource], times: int = 20) -> Iterator[Row]:
    """Yields the dips found after dips of known depth were planted in the measured seconds of real trials."""
    yield ("depth", "seconds", "found", "loss as found / as planted (median; middle 90 %)", "others a trial")
    trials = [
        np.array([second.tps for second in trial_timeline(run, trial.number).measured_seconds()])
        for run in runs
        for trial in run.trials
    ]
    trials = [seconds for seconds in trials if len(seconds) >= LEAST_S]
    untouched = sum(len(dips(list(seconds))) for seconds in trials)
    yield ("none", "", "", "", f"{untouched / max(len(trials), 1):.2f}")
    for depth in (0.1, 0.2, 0.5, 1.0):
        for length in (2, 5, 10):
            yield _planted(trials, depth, length, times)


def _planted(trials: Sequence[Array], depth: float, length: int, times: int) -> Row:
    random = np.random.default_rng(1)
    ratios, others, total = [], 0, 0
    for seconds in trials:
        for _ in range(times):
            at = int(random.integers(length, len(seconds) - 2 * length))
            values = seconds.copy()
            lost = float(depth * values[at : at + length].sum())
            values[at : at + length] *= 1 - depth
            found = dips(list(values))
            here = [dip for dip in found if dip.from_s < at + length and dip.to_s > at]
            total += 1
            others += len(found) - len(here)
            if here:
                ratios.append(sum(dip.loss for dip in here) / lost)
    return (f"{100 * depth:g} %", length, percent(len(ratios), total), middle(ratios), f"{others / max(total, 1):.2f}")


def percent(part: int, whole: int) -> str:
    """Returns a percentage such as `94.6 %`."""
    return f"{100 * part / max(whole, 1):.1f} %"


def middle(values: Sequence[float]) -> str:
    """Returns the median and the range of the middle 90 %."""
    if not values:
        return "-"
    low, median, high = np.percentile(values, (5, 50, 95))
    return f"{median:.3g} ({low:.3g} to {high:.3g})"


def table(rows: Iterator[Row]) -> str:
    """Returns a Markdown table whose first row is the header."""
    head, *body = list(rows)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def main(runs: Sequence[str]) -> None:
    for title, rows in (
        ("Intervals", coverage()),
        ("Verdicts", verdicts()),
        ("Orders of the arms", orders()),
        ("All looks, with noise that has a memory", looks_with_memory()),
        ("Power of a new run", planned_power()),
        ("Pairs that are added", added_pairs()),
        ("Wrong claims of runs that stop when decided", wrong_claims()),
        ("Trials saved by stopping when decided", trials_saved()),
        ("The same, when stopping", same_claims()),
        ("Runs that stop when decided, as pgdyno compares", as_run()),
        ("Instances", instances()),
        ("Capacities", capacities()),
        ("Knees", knees()),
        ("Scalability law", usl_intervals()),
        ("Steadiness", steadiness()),
        ("Drifts", drifts()),
        ("Cycles", cycles()),
        ("Change points", steps()),
        ("Endurance", endurance()),
        ("Confirmation", confirmations()),
        ("The cheapest target", searches()),
        ("A target at the limit of its promise", at_limit()),
        ("Bisections", bisections()),
        ("Searches for settings: false wins", false_wins()),
        ("Searches for settings: regret", regret()),
    ):
        print(f"## {title}\n\n{table(rows)}\n", flush=True)
    if runs:
        read = [load_run(find_run(each, Path("pgdyno-runs"))) for each in runs]
        print(f"## Dips planted in real throughput\n\n{table(planted_dips(read))}")


if __name__ == "__main__":
    main(sys.argv[1:])
