"""Compares rules for repeated looks by simulation with fixed seeds; `make simulations` prints the tables.

The differences of pairs are normal, as in the theory of all three ways, or those of arms with checkpoint-like noise.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special
from tests.unit.comparison_sample import arms_of, pair_of_arms

from pgdyno.analyse.alpha_spending import look_levels, pocock
from pgdyno.analyse.comparison import LEAST_DELTA, Verdict, compare
from pgdyno.records import StoppingRule
from pgdyno.records.base import FEWEST_PAIRS

Array = NDArray[np.float64]
Row = Sequence[object]
ALPHA = 0.05
EDGE = math.log1p(LEAST_DELTA)
"""The largest difference that counts as none, where a wrong claim is most likely."""


def obrien_fleming(alpha: float, share: float) -> float:
    """Returns Lan and DeMets' spending function like O'Brien and Fleming's boundaries."""
    return 2 * float(special.ndtr(special.ndtri(alpha / 2) / math.sqrt(share)))


def mixture_quantile(pairs: int, prior: float = 1.0) -> float:
    """Returns the t beyond which a mixture t-test rejects at any time (Wang and Ramdas 2023, Lai 1976).

    The effect size has a normal prior of variance 1 / `prior`.
    """
    shrunk = prior / (pairs + prior)
    bound = (math.sqrt(1 / shrunk) / ALPHA) ** (2 / pairs)
    return math.inf if bound * shrunk >= 1 else math.sqrt((pairs - 1) * (bound - 1) / (1 - bound * shrunk))


def by_spending(spending: Callable[[float, float], float]) -> Callable[[int, int], Array]:
    """Returns the quantile of t at each look."""

    def quantiles(fewest: int, most: int) -> Array:
        levels = np.array(look_levels(ALPHA, fewest, most, spending))
        return np.asarray(special.stdtrit(np.arange(fewest, most + 1) - 1, (1 + levels) / 2))

    return quantiles


RULES: dict[str, Callable[[int, int], Array]] = {
    "Pocock's spending": by_spending(pocock),
    "O'Brien and Fleming's": by_spending(obrien_fleming),
    "confidence sequence": lambda fewest, most: np.array([mixture_quantile(n) for n in range(fewest, most + 1)]),
    "5 % at every look": lambda fewest, most: np.asarray(
        special.stdtrit(np.arange(fewest, most + 1) - 1, 1 - ALPHA / 2)
    ),
}


@dataclass(frozen=True, slots=True)
class Stopped:
    """Shares of simulated runs."""

    faster: float
    slower: float
    same: float
    pairs: float
    """The mean number of pairs at the end."""
    held: float
    """Runs whose interval contained the true difference at every look."""

    def wrong(self, effect: float) -> float:
        """Returns the share of claims that are wrong for a true log ratio `effect` of zero or more."""
        return self.slower + (self.same if effect >= EDGE else 0.0) + (self.faster if effect <= EDGE else 0.0)


def stopped(rule: str, effect: float, spread: float, most: int, times: int, edge: float = EDGE) -> Stopped:
    """Simulates runs with a true log ratio of `effect`; one pair's has a standard deviation of `spread`."""
    fewest = FEWEST_PAIRS
    low, high = looks(rule, np.random.default_rng(most).normal(effect, spread, (times, most)), fewest)
    claims = np.stack([low > edge, high < -edge, (low > -edge) & (high < edge)])
    decided = np.logical_or.reduce(claims)
    at = np.where(np.any(decided, axis=1), np.argmax(decided, axis=1), most - fewest)
    faster, slower, same = (float(np.mean(each[np.arange(times), at])) for each in claims)
    held = float(np.mean(np.all((low <= effect) & (effect <= high), axis=1)))
    return Stopped(faster, slower, same, float(at.mean()) + fewest, held)


def looks(rule: str, drawn: Array, fewest: int) -> tuple[Array, Array]:
    """Returns the ends of the intervals at each look from `fewest` pairs on; a row of `drawn` is a run."""
    most = drawn.shape[1]
    n = np.arange(1, most + 1)
    sums, squares = np.cumsum(drawn, axis=1), np.cumsum(drawn**2, axis=1)
    mean = (sums / n)[:, fewest - 1 :]
    variance = ((squares - sums**2 / n) / np.maximum(n - 1, 1) / n)[:, fewest - 1 :]
    half = RULES[rule](fewest, most) * np.sqrt(np.maximum(variance, 0))
    return mean - half, mean + half


def equal_design(power: float, effect: float, spread: float, edge: float = EDGE) -> int:
    """Returns the fixed number of pairs that shows `effect` with a chance of `power` in one look."""
    for n in range(FEWEST_PAIRS, 10_000):
        quantile = special.stdtrit(n - 1, 1 - ALPHA / 2)
        if 1 - special.nctdtr(n - 1, (effect - edge) / spread * math.sqrt(n), quantile) >= power:
            return n
    raise ValueError("no number of pairs")


def wrong_claims(times: int = 40_000) -> Iterator[Row]:
    """Yields wrong claims in percent of runs of 6 to 40 pairs, over all looks."""
    yield ("rule", "true difference", *(f"spread {100 * spread:g} %" for spread in SPREADS), "held at every look")
    for rule in RULES:
        for effect in (0.0, EDGE):
            found = [stopped(rule, effect, spread, 40, times) for spread in SPREADS]
            held = min(each.held for each in found)
            shares = (f"{100 * each.wrong(effect):.1f}" for each in found)
            yield (rule, f"{100 * math.expm1(effect):.0f} %", *shares, f"{100 * held:.1f} %")


SPREADS = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08)


def trials_saved(times: int = 40_000, most: int = 40) -> Iterator[Row]:
    """Yields what a run of 6 to `most` pairs needs for a true difference of 5 %, vs a fixed design of equal power."""
    yield ("rule", "spread", "decided", "pairs (mean)", "fixed design of equal power", "share of its trials")
    effect = math.log1p(0.05)
    for rule in list(RULES)[:3]:
        for spread in SPREADS:
            found = stopped(rule, effect, spread, most, times)
            # of so many runs, a share of 100 % shows no more than this
            design = equal_design(min(found.faster, 1 - 1 / times), effect, spread)
            share = f"{100 * found.pairs / design:.0f} %"
            yield (rule, f"{100 * spread:g} %", f"{100 * found.faster:.2f} %", f"{found.pairs:.1f}", design, share)


def as_run(times: int = 200, most: int = 40) -> Iterator[Row]:
    """Yields what pgdyno's own comparison decides: t and BCa intervals, checkpoint-like noise, four points, Holm."""
    yield ("true difference", "points", *(verdict.value for verdict in Verdict), "any wrong claim", "pairs (mean)")
    for effect, points in ((0.05, 1), (0.05, 4), (LEAST_DELTA, 1)):
        random = np.random.default_rng(points)
        told: Counter[Verdict] = Counter()
        wrong, pairs = 0, 0
        for _ in range(times):
            verdicts, counts = _one_run(random, effect, points, most)
            told.update(verdicts)
            wrong += any(_is_wrong(verdict, effect) for verdict in verdicts)
            pairs += sum(counts)
        shares = (f"{100 * told[verdict] / times / points:.1f} %" for verdict in Verdict)
        wrongly, mean = f"{100 * wrong / times:.1f} %", f"{pairs / times / points:.1f}"
        yield (f"{100 * effect:g} %", points, *shares, wrongly, mean)


def _one_run(random: np.random.Generator, effect: float, points: int, most: int) -> tuple[list[Verdict], list[int]]:
    """Returns the verdict and the pairs of each point; a decided point gets no more pairs."""
    drawn = [pair_of_arms(random, most, effect) for _ in range(points)]
    rule = StoppingRule(
        fewest=FEWEST_PAIRS, most=most, by="target", metric="tps", comparisons=points, margin=LEAST_DELTA
    )
    counts = [FEWEST_PAIRS] * points
    while True:
        arms = arms_of(*((base[:n], other[:n]) for (base, other), n in zip(drawn, counts, strict=True)), stopping=rule)
        (found,) = compare([arms])
        verdicts = [point.verdict for point in found.points]
        left = [at for at, verdict in enumerate(verdicts) if verdict is Verdict.INCONCLUSIVE and counts[at] < most]
        if not left:
            return verdicts, counts
        for at in left:
            counts[at] += 1


def _is_wrong(verdict: Verdict, effect: float) -> bool:
    if verdict is Verdict.FASTER:
        return effect <= LEAST_DELTA
    return verdict is Verdict.SLOWER or (verdict is Verdict.SAME and effect >= LEAST_DELTA)


def same_claims(times: int = 40_000) -> Iterator[Row]:
    """Yields how often two equal arms are shown to be the same within a margin, in 6 to 40 pairs."""
    yield ("margin", *(f"spread {100 * spread:g} %" for spread in SPREADS))
    for margin in (0.01, 0.02, 0.03, 0.05):
        cells = []
        for spread in SPREADS:
            found = stopped("Pocock's spending", 0.0, spread, 40, times, math.log1p(margin))
            cells.append(f"{100 * found.same:.0f} %, {found.pairs:.0f} pairs")
        yield (f"{100 * margin:g} %", *cells)
