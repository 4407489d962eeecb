"""Comparisons: intervals, verdicts, Holm over points, and their mirror images."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.analyse.comparison import PointComparison, Verdict, compare, new_run_pairs, verdict_of
from pgdyno.analyse.gate import GateVerdict, gate
from pgdyno.analyse.intervals import Interval, Method, paired_interval, t_quantile, unpaired_interval, upper_spread
from pgdyno.analyse.noise_floor import noise_floor, pairs_for
from pgdyno.analyse.noise_grade import grade_of_comparison
from pgdyno.analyse.pairs import Arms, Metric, between, usual_metric, usual_split, within
from pgdyno.errors import UsageError
from pgdyno.records import Outcome, Point
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.report.answers.gate_export import gate_junit, gate_markdown
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.report_sample import SampleRun, add_trial, manifest

MIRROR = {Verdict.FASTER: Verdict.SLOWER, Verdict.SLOWER: Verdict.FASTER}
FIGURES = st.floats(min_value=1.0, max_value=1e6)


def test_intervals_are_those_of_scipy_by_a_method_for_the_number_of_pairs() -> None:
    from scipy import stats

    # nine of the ten differences of Student's sleep data (1908): ten would be bootstrapped
    differences = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6]
    found = present(paired_interval(differences, 0.95))
    assert found.method is Method.T
    expected = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    # the data as two samples of nine
    a = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0]
    b = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6]
    found = present(unpaired_interval(a, b, 0.95))
    assert found.method is Method.WELCH
    expected = stats.ttest_ind(b, a, equal_var=False)
    assert found.freedom == pytest.approx(expected.df)
    ends = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    values = list(np.random.default_rng(1).normal(0.02, 0.01, 10))
    # resamples cannot resolve a strict level
    usual, strict, nine = (paired_interval(values[:n], level) for n, level in ((10, 0.95), (10, 0.9999), (9, 0.95)))
    assert [present(each).method for each in (usual, strict, nine)] == [Method.BCA, Method.T, Method.T]
    assert paired_interval([0.1], 0.95) is None
    assert unpaired_interval([0.1, 0.2], [0.3], 0.95) is None


@pytest.mark.parametrize("other", [8.855551, 8.437759])
def test_figures_that_are_all_alike_have_a_finite_interval(other: float) -> None:
    base, others = [math.log(8.437759)] * 12, [math.log(other)] * 12
    for found in (unpaired_interval(base, others, 0.95), paired_interval([others[0] - base[0]] * 12, 0.95)):
        assert present(found).low == pytest.approx(present(found).high) == pytest.approx(math.log(other / 8.437759))
    # one arm that is always the same, and figures that differ by rounding
    mixed = unpaired_interval(base, [each + at / 100 for at, each in enumerate(others)], 0.95)
    rounded = present(unpaired_interval([1.0] * 11 + [1.0 + 2e-16], [2.0] * 12, 0.95))
    assert all(math.isfinite(end) for each in (present(mixed), rounded) for end in (each.low, each.high))


def only(arms: Arms) -> PointComparison:
    (point,) = compare([arms])[0].points
    return point


BASE = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0]
CALM = [1000.0, 1001.0, 999.0, 1000.0, 1002.0, 998.0]


def test_a_verdict_needs_six_pairs_and_an_interval_beyond_the_limit() -> None:
    noises = (1e-3, -1e-3, 2e-3, -2e-3, 0, 0)
    for effect, word in ((0.05, "faster"), (-0.05, "slower"), (0.0, "same"), (0.01, "inconclusive")):
        verdict = Verdict(word)
        other = [value * (1 + effect + noise) for value, noise in zip(BASE, noises, strict=True)]
        assert only(arms_of((BASE, other))).verdict is verdict
        # more latency is slower
        assert only(arms_of((BASE, other), metric=Metric.P99)).verdict is MIRROR.get(verdict, verdict)
    # not one that touches it
    found = present(paired_interval([0.0, 0.0, 0.0], 0.95))
    assert verdict_of(replace(found, low=math.log1p(0.01), high=0.5), 6, 0.01, 1) is Verdict.INCONCLUSIVE
    assert verdict_of(replace(found, low=-1, high=math.log1p(0.01)), 6, 0.01, 1) is Verdict.INCONCLUSIVE
    (five,) = compare([arms_of(([100, 101, 99, 100, 100], [200, 202, 198, 200, 201]))])
    assert five.points[0].verdict is Verdict.INCONCLUSIVE
    assert five.points[0].detectable is None
    assert grade_of_comparison(five) is None
    assert five.points[0].new_run_pairs == FEWEST_PAIRS
    assert any("too few for a claim" in str(warning) for warning in five.warnings)
    equal = only(arms_of(([100.0] * 12, [101.5] * 12)))
    assert equal.verdict is Verdict.FASTER
    assert equal.detectable == pytest.approx(0.01)
    arms = arms_of((BASE, [value * 1.03 for value in BASE]))
    assert compare([arms])[0].points[0].verdict is Verdict.FASTER
    assert compare([arms], floor=0.04)[0].points[0].verdict is Verdict.SAME


def test_holm_is_stricter_the_more_points_there_are() -> None:
    """One clear point among many unclear ones is judged at 1 - 5 % / m; those left, at 1 - 5 % / (m - 1)."""
    random = np.random.default_rng(5)
    unclear = [(list(random.normal(1000, 60, 8)), list(random.normal(1005, 60, 8))) for _ in range(9)]
    clear = (list(random.normal(1000, 5, 8)), list(random.normal(1200, 5, 8)))
    (found,) = compare([arms_of(*unclear, clear)])
    levels = [point.interval.level for point in found.points if point.interval is not None]
    assert levels[-1] == pytest.approx(1 - 0.05 / 10)
    assert set(levels[:-1]) == {1 - 0.05 / 9}
    assert found.points[-1].verdict is Verdict.FASTER


def test_a_new_run_of_as_many_pairs_as_said_settles_it_four_times_in_five() -> None:
    """The new run is judged alone. With just enough pairs for the expected result, half of all runs would miss it."""
    random = np.random.default_rng(11)
    noise = random.normal(0, 0.03, 8)
    noise -= noise.mean()
    point = only(arms_of(([1000.0] * 8, [1000 * math.exp(0.025 + each) for each in noise])))
    assert point.verdict is Verdict.INCONCLUSIVE
    # of runs whose spread is at most the upper end
    n, spread = point.new_run_pairs, upper_spread(present(point.interval).error * math.sqrt(8), 7)
    assert n is not None
    runs = random.normal(0.025, spread, (20_000, n))
    lows = runs.mean(axis=1) - t_quantile(0.95, n - 1) * runs.std(axis=1, ddof=1) / math.sqrt(n)
    assert float((lows > math.log(1.01)).mean()) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("mean", "spread", "delta"), [(0.0, 0.02, 0.01), (0.0, 0.02, 0.03), (0.02, 0.06, 0.03)])
def test_equal_arms_are_called_so_by_a_run_of_as_many_pairs_as_said(mean: float, spread: float, delta: float) -> None:
    """Both ends of the interval must be within the limits, which takes more pairs than one end does."""
    interval = Interval(mean, -1.0, 1.0, spread, 5, 0.95, Method.T)
    n = present(new_run_pairs(interval, spread, delta, paired=True))
    random = np.random.default_rng(3)
    runs = random.normal(mean, upper_spread(spread, 5), (20_000, n))
    half = t_quantile(0.95, n - 1) * runs.std(axis=1, ddof=1) / math.sqrt(n)
    settled = np.abs(runs.mean(axis=1)) + half < math.log1p(delta)
    # with few pairs, whole numbers of them leave a step
    assert 0.78 <= float(settled.mean()) <= 0.86
    # the spread of two arms that are not paired has twice the degrees of freedom
    clear = replace(interval, mean=0.05)
    assert [new_run_pairs(clear, 0.01, 0.01, paired=each, fewest=2) for each in (True, False)] == [4, 3]


def test_a_new_run_has_as_many_trials_of_the_noisy_arm_as_of_the_calm_one() -> None:
    random = np.random.default_rng(4)
    calm = [1000 * math.exp(each) for each in random.normal(0, 0.001, 6)]
    wild = [1000 * math.exp(each) for each in random.normal(0.019, 0.03, 40)]
    point = only(arms_of((calm, wild), paired=False))
    assert point.verdict is Verdict.INCONCLUSIVE
    alike = [1000 * math.exp(each) for each in random.normal(0, 0.001, 40)]
    assert point.new_run_pairs == pytest.approx(only(arms_of((alike, wild), paired=False)).new_run_pairs, rel=0.1)


@settings(max_examples=60, deadline=None)
@given(
    figures=st.lists(st.tuples(FIGURES, FIGURES), min_size=2, max_size=12),
    paired=st.booleans(),
    metric=st.sampled_from(Metric),
)
def test_b_vs_a_is_the_inverse_of_a_vs_b(figures: list[tuple[float, float]], paired: bool, metric: Metric) -> None:
    a, b = (list(values) for values in zip(*figures, strict=True))
    first, second = (only(arms_of(each, metric=metric, paired=paired)) for each in ((a, b), (b, a)))
    # log(b) - log(a) and log(a) - log(b) are exact negatives, and so is all that follows
    assert present(second.interval) == present(first.interval).inverse()
    assert second.verdict is MIRROR.get(first.verdict, first.verdict)
    assert (second.detectable, second.new_run_pairs) == (first.detectable, first.new_run_pairs)


@settings(max_examples=30, deadline=None)
@given(figures=st.lists(st.tuples(FIGURES, FIGURES), min_size=2, max_size=12), seed=st.integers(0, 99))
def test_the_order_of_pairs_does_not_matter(figures: list[tuple[float, float]], seed: int) -> None:
    shuffled = [figures[at] for at in np.random.default_rng(seed).permutation(len(figures))]
    first, second = (
        present(only(arms_of(([a for a, _ in each], [b for _, b in each]))).interval) for each in (figures, shuffled)
    )
    assert (second.low, second.high) == pytest.approx((first.low, first.high), rel=1e-9, abs=1e-12)


def a_run(targets: tuple[str, ...] = ("pg17", "pg18"), repeats: int = 6, name: str = "run") -> SampleRun:
    run = SampleRun(manifest(targets, trials_planned=len(targets) * repeats * 2, run=name))
    for repeat in range(1, repeats + 1):
        for clients in (1, 8):
            for at, target in enumerate(targets):
                drift = 1 + 0.05 * repeat
                add_trial(run, target, clients, 1000 * clients * drift * (1 + 0.04 * at), 900, repeat=repeat)
    return run


def test_targets_of_a_run_are_paired_by_repeat_so_that_drift_cancels() -> None:
    (arms,) = within(a_run(), "target", Metric.TPS)
    (found,) = compare([arms])
    assert (found.base, found.other, found.paired) == ("pg17", "pg18", True)
    assert [str(point.label) for point in found.points] == ["1 client", "8 clients"]
    for point in (*found.points, found.overall):
        assert present(point).change == pytest.approx(0.04)
        assert present(point).verdict is Verdict.FASTER
    # a trial that failed takes its pair with it
    run = a_run(repeats=7)
    at = next(at for at, trial in enumerate(run.trials) if (trial.target, trial.repeat) == ("pg17", 3))
    run.trials[at] = run.trials[at].model_copy(update={"outcome": Outcome.FAILED})
    (arms,) = within(run, "target", Metric.TPS)
    assert [len(point.repeats) for point in arms.points] == [6, 7]


def names(run: SampleRun, by: str = "target", base: str | None = None) -> list[tuple[str, str]]:
    return [(arms.base, arms.other) for arms in within(run, by, Metric.TPS, base)]


def test_the_baseline_is_the_plan_s_first_arm_whichever_ran_first_unless_it_is_named() -> None:
    run = a_run(("pg16", "pg17", "pg18"))
    assert names(run, base="pg18") == [("pg18", "pg16"), ("pg18", "pg17")]
    assert {other for _, other in names(run, "version")} == {"17.5", "16.4"}
    run = SampleRun(manifest(("pg16", "pg17", "pg18")))
    for repeat, name in product((1, 2), ("pg18", "pg16", "pg17")):
        add_trial(run, name, 4, 1000.0 + repeat, 900, repeat=repeat, seconds=2)
    assert names(run) == [("pg16", "pg17"), ("pg16", "pg18")]
    for group in ("settings", "session_settings"):
        swept = SampleRun(manifest(plan={"sweep": {group: {"work_mem": ["4MB", "64MB"]}}}))
        for value in ("64MB", "4MB"):
            add_trial(swept, "pg18", 4, 1000.0, 900, seconds=2, point=Point(clients=4, settings={"work_mem": value}))
        assert names(swept, "settings.work_mem") == [("4MB", "64MB")]


def test_by_default_arms_are_compared_and_in_open_loop_their_latency() -> None:
    def run_of(*points: Point, **plan: object) -> SampleRun:
        run = SampleRun(manifest().model_copy(update={"plan": {**manifest().plan, **plan}}))
        for point in points:
            add_trial(run, "pg18", 4, 1000.0, 900, seconds=2, point=point)
        return run

    scales = [Point(clients=4, scale=scale) for scale in (10, 100)]
    assert (usual_split(run_of(*scales)), usual_metric(run_of(*scales))) == (None, Metric.TPS)
    memories = [Point(clients=4, scale=10, settings={"work_mem": value}) for value in ("4MB", "64MB")]
    assert usual_split(run_of(*scales, *memories)) == "settings.work_mem"
    assert usual_metric(run_of(Point(clients=4, rate=1000))) is Metric.P99
    phase = {"name": "rise", "rate": {"from": 1, "to": 9}}
    assert usual_metric(run_of(Point(clients=4), phase=[phase])) is Metric.P99


def test_settings_are_compared_at_the_same_point() -> None:
    run = SampleRun(manifest(trials_planned=24))
    for repeat, clients, (at, memory) in product(range(1, 7), (1, 4), enumerate(("4MB", "1GB"))):
        point = Point(clients=clients, settings={"work_mem": memory, "jit": "off"})
        add_trial(run, "pg18", clients, 100.0 * clients + at, 900, repeat=repeat, point=point)
    (arms,) = within(run, "settings.work_mem", Metric.TPS)
    assert (arms.base, arms.other) == ("4MB", "1GB")
    assert [len(point.repeats) for point in arms.points] == [6, 6]


def test_two_runs_are_not_paired_and_match_their_only_targets() -> None:
    before, after = a_run(("pg17",), name="before"), a_run(("pg18",), name="after")
    arms = between(before, after, Metric.P99)
    (found,) = compare([arms])
    assert (found.base, found.other, found.paired) == ("before", "after", False)
    assert any("different times" in str(warning) for warning in found.warnings)


def before_and_after(repeats: int = 6) -> tuple[SampleRun, SampleRun]:
    return a_run(("pg18",), name="before"), a_run(("pg18",), repeats=repeats, name="after")


def without_work(run: SampleRun, clients: int, repeats: range) -> None:
    """Makes the trials of these repeats complete no transaction, and of each second one of them fail."""
    for at, trial in enumerate(run.trials):
        if trial.point.clients == clients and trial.repeat in repeats:
            idle = present(trial.summary).model_copy(update={"tps": 0.0, "latency_ns": None})
            outcome = Outcome.FAILED if trial.repeat % 2 else trial.outcome
            run.trials[at] = trial.model_copy(update={"summary": idle, "outcome": outcome})


def test_points_and_trials_that_did_no_work_have_no_verdict_and_pass_no_gate() -> None:
    before, after = before_and_after()
    without_work(after, 8, range(1, 7))
    arms = between(before, after, Metric.TPS)
    assert (arms.unmatched, [point.dead for point in arms.points]) == ((), [(0, 0), (0, 6)])
    found = gate(arms, 0.5)
    assert [point.verdict for point in found.points] == [GateVerdict.OK, GateVerdict.INCONCLUSIVE]
    assert found.verdict is GateVerdict.INCONCLUSIVE
    reason = found.points[1].compared.reason
    assert str(reason) == "each trial of after failed or completed no transaction"
    # runs of which no trial did any work have their points in common
    without_work(after, 1, range(1, 7))
    assert gate(between(before, after, Metric.TPS), 0.5).verdict is GateVerdict.INCONCLUSIVE
    # some trials of a point
    before, after = before_and_after(9)
    without_work(after, 8, range(7, 10))
    found = gate(between(before, after, Metric.TPS), 0.5)
    assert [point.verdict for point in found.points] == [GateVerdict.OK, GateVerdict.INCONCLUSIVE]
    sentence = "8 clients: 3 trials failed or completed no transaction, and are not compared"
    assert sentence in map(str, found.comparison.warnings)
    # of a baseline, they are no reason against the candidate
    assert gate(between(after, before, Metric.TPS), 0.5).verdict is GateVerdict.OK


def test_a_candidate_that_lacks_points_or_trials_passes_no_gate() -> None:
    before, after = before_and_after()
    for repeat in range(1, 7):
        add_trial(before, "pg18", 64, 9000, 900, repeat=repeat)
    found = gate(between(before, after, Metric.TPS), 0.5)
    assert [(str(point.compared.label), point.verdict) for point in found.points] == [
        ("1 client", GateVerdict.OK),
        ("8 clients", GateVerdict.OK),
        ("64 clients", GateVerdict.INCONCLUSIVE),
    ]
    assert found.verdict is GateVerdict.INCONCLUSIVE
    assert str(found.points[2].compared.reason) == "after has no finished trial there"
    assert 'tests="3" failures="0" errors="1"' in gate_junit(found)
    assert "64 clients" in gate_markdown(found)
    # a new point is nothing that got worse
    swapped = between(after, before, Metric.TPS)
    assert gate(swapped, 0.5).verdict is GateVerdict.OK
    assert [str(label) for label in swapped.unmatched] == ["64 clients"]
    for outcome, failed in ((Outcome.INTERRUPTED, 0), (Outcome.FINISHED, 5000)):
        before, after = before_and_after(9)
        for at, trial in enumerate(after.trials):
            if trial.point.clients == 8 and trial.repeat > 6:
                summary = present(trial.summary).model_copy(update={"failed": failed})
                after.trials[at] = trial.model_copy(update={"outcome": outcome, "summary": summary})
        # the audit leaves out those with errors
        wrong = {trial.number for trial in after.trials if present(trial.summary).failed}
        found = gate(between(before, after, Metric.TPS, ((), wrong)), 0.5)
        assert [point.verdict for point in found.points] == [GateVerdict.OK, GateVerdict.INCONCLUSIVE]
        assert str(found.points[1].reason) == "3 trials of after failed, were interrupted or had errors"
        assert gate(between(after, before, Metric.TPS, (wrong, ())), 0.5).verdict is GateVerdict.OK


def test_impossible_comparisons_are_usage_errors() -> None:
    for run, by, base, why in (
        (a_run(("pg18",)), "target", None, "nothing to compare by target"),
        (a_run(), "settings.work_mem", None, "no such parameter"),
        (a_run(), "target", "pg9", "is not in run"),
    ):
        with pytest.raises(UsageError, match=why):
            within(run, by, Metric.TPS, base)
        with pytest.raises(UsageError, match="no point in common"):
            between(a_run(("a", "b")), a_run(("c", "d")), Metric.TPS)
    # each repeat of an arm has one figure
    run = a_run(("pg17", "tuned", "pg18"))
    targets = [
        target.model_copy(update={"facts": target.facts.model_copy(update={"version": version})})
        for target, version in zip(run.manifest.targets, ("17.5", "18.6", "18.6"), strict=True)
        if target.facts is not None
    ]
    run.manifest = run.manifest.model_copy(update={"targets": targets})
    with pytest.raises(UsageError, match=r"several targets have 18\.6 \(tuned, pg18\)") as caught:
        within(run, "version", Metric.TPS)
    assert caught.value.hint == "compare by target"
    assert len(within(run, "target", Metric.TPS)) == 2


def test_one_regression_beyond_the_limit_fails_the_gate() -> None:
    for change, verdict in (
        (-0.06, GateVerdict.REGRESSION), (-0.01, GateVerdict.OK), (0.2, GateVerdict.OK),
        (-0.03, GateVerdict.INCONCLUSIVE),
    ):  # fmt: skip
        noise = (0.002, -0.002, 0.001, -0.001, 0.0, 0.003, -0.003, 0.0)
        base = [1000.0] * len(noise)
        assert gate(arms_of((base, [1000 * (1 + change) * (1 + each) for each in noise])), 0.03).verdict is verdict
    # a limit below 1 % is the margin
    base = [*CALM, 1000.0, 1001.0]
    found = gate(arms_of((base, [0.993 * each for each in base])), 0.005)
    assert found.verdict is GateVerdict.REGRESSION
    assert (found.comparison.delta, found.points[0].compared.verdict) == (0.005, Verdict.SLOWER)
    # one regression among good points fails the gate
    worse = [value * each for value, each in zip(CALM, (0.9, 0.901, 0.899, 0.9, 0.902, 0.898), strict=True)]
    found = gate(arms_of((CALM, CALM), (CALM, worse)), 0.03)
    assert [point.verdict for point in found.points] == [GateVerdict.OK, GateVerdict.REGRESSION]
    assert found.verdict is GateVerdict.REGRESSION


def test_a_noise_floor_is_the_far_end_of_the_interval_of_equal_arms() -> None:
    base = [1000.0] * 8
    other = [1000 * math.exp(each) for each in (0.02, -0.01, 0.015, -0.02, 0.01, 0.0, -0.01, 0.012)]
    found = noise_floor(arms_of((base, other)))
    (point,) = found.points
    assert point.floor == pytest.approx(math.expm1(max(abs(point.interval.low), abs(point.interval.high))))
    assert found.delta == max(0.01, point.floor)
    assert point.spread_low < point.spread < point.spread_high
    # qchisq(c(.975, .025), 7) = 16.01276, 1.689869
    assert point.spread_low / point.spread == pytest.approx(math.sqrt(7 / 16.01276), rel=1e-6)
    assert point.spread_high / point.spread == pytest.approx(math.sqrt(7 / 1.689869), rel=1e-6)
    assert not found.warnings
    # arms that differ are warned of, and refused beyond delta
    words = "although they should be equal"
    close = noise_floor(arms_of((CALM, [value * 1.005 for value in CALM])))
    assert close.refusal is None
    assert any(words in str(warning) for warning in close.warnings)
    apart = noise_floor(arms_of((CALM, [value * 1.05 for value in CALM])))
    assert words in str(present(apart.refusal).why)
    assert not any(words in str(warning) for warning in apart.warnings)
    assert pairs_for(0.02, 0.03) > present(pairs_for(0.05, 0.03))  # type: ignore[operator]
    assert pairs_for(0.01, 0.03) is None
