"""How far the analysis can be trusted, as tables in Markdown: by simulation, with fixed seeds.

    python -m tests.simulations [RUN...]      # `make simulations`; minutes of one core

The tests assert the same with fewer draws. With run folders, dips are planted in the real seconds of their trials.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pgdyno.analyse.compare import Verdict, compare
from pgdyno.analyse.dips import dips
from pgdyno.analyse.history import change_points
from pgdyno.analyse.interval import paired_interval
from pgdyno.analyse.source import RunSource
from pgdyno.analyse.timeline import trial_timeline
from pgdyno.analyse.usl import UslFit, fit_usl
from pgdyno.store import find_run, load_run
from tests.unit.comparison_sample import Array, arms_of, checkpointed, pair_of_arms
from tests.unit.test_analyse_history import noisy
from tests.unit.test_analyse_usl import curve

PAIRS = (6, 10, 20)
LEAST_S = 45
"""Seconds of a trial that dips of ten are planted in."""
Row = Sequence[object]


def coverage(times: int = 6_000) -> Iterator[Row]:
    """Share of 95 % intervals that hold the true difference, which is 0."""
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
    """What is said of arms that differ by a known effect, with checkpoint-like noise; delta is 1 %."""
    yield ("true effect", "pairs", *(verdict.value for verdict in Verdict))
    for effect in (0.0, 0.01, 0.02, 0.05, 0.1):
        for n in PAIRS:
            random = np.random.default_rng(n)
            told: Counter[Verdict] = Counter()
            for _ in range(times):
                (found,) = compare([arms_of(pair_of_arms(random, n, effect))])
                told[found.points[0].verdict] += 1
            yield (f"{100 * effect:g} %", n, *(percent(told[verdict], times) for verdict in Verdict))


def usl_parameters(times: int = 300) -> Iterator[Row]:
    """Parameters of the scalability law out of curves with 2 % of noise, four repeats a point."""
    yield ("true contention, coherency", "fitted contention (median; middle 90 %)", "fitted coherency", "no fit")
    for sigma, kappa in ((0.02, 5e-4), (0.1, 1e-3), (0.0, 3e-4)):
        fits = [fit_usl(curve(seed, 1_000.0, sigma, kappa), resamples=1) for seed in range(times)]
        good = [each for each in fits if isinstance(each, UslFit)]
        yield (
            f"{sigma:g}, {kappa:g}",
            middle([each.contention.fitted for each in good]),
            middle([each.coherency.fitted for each in good]),
            percent(times - len(good), times),
        )


def steps(times: int = 300) -> Iterator[Row]:
    """Change points of histories whose runs differ by 2 %, with a step in the middle."""
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


def planted_dips(runs: Sequence[RunSource], times: int = 20) -> Iterator[Row]:
    """Dips of known depth, planted in the measured seconds of real trials."""
    yield ("depth", "seconds", "found", "loss as found / as planted (median; middle 90 %)", "others a trial")
    trials = [
        np.array([second.tps for second in trial_timeline(run, trial.number).measured()])
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
    """`94.6 %`."""
    return f"{100 * part / max(whole, 1):.1f} %"


def middle(values: Sequence[float]) -> str:
    """The median, and from where to where the middle 90 % lie."""
    if not values:
        return "-"
    low, median, high = np.percentile(values, (5, 50, 95))
    return f"{median:.3g} ({low:.3g} to {high:.3g})"


def table(rows: Iterator[Row]) -> str:
    """Markdown, the first row as its head."""
    head, *body = list(rows)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def main(runs: Sequence[str]) -> None:
    """Prints every table."""
    for title, rows in (
        ("Intervals", coverage()),
        ("Verdicts", verdicts()),
        ("Scalability law", usl_parameters()),
        ("Change points", steps()),
    ):
        print(f"## {title}\n\n{table(rows)}\n", flush=True)
    if runs:
        read = [load_run(find_run(each, Path("pgdyno-runs"))) for each in runs]
        print(f"## Dips planted in real throughput\n\n{table(planted_dips(read))}")


if __name__ == "__main__":
    main(sys.argv[1:])
