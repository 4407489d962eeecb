"""The noise grade: the smallest difference that a run could have detected."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from pgdyno.analyse.comparison import LEAST_DELTA, compare
from pgdyno.analyse.intervals import unpaired_interval, upper_spread
from pgdyno.analyse.noise_grade import NoiseGrade, grade_of_comparison, grade_of_repeats
from pgdyno.analyse.pairs import Metric, within
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.report.answers.answer import answer_json
from pgdyno.report.answers.noise import noise_grade, noise_line
from pgdyno.report.report_content import digest
from tests.present import present
from tests.unit.report_answer_sample import extras_of
from tests.unit.report_sample import SampleRun, add_trial, manifest, sweep


@pytest.mark.parametrize(
    ("detectable", "letter"),
    [(0.0, "A"), (0.02, "A"), (0.0201, "B"), (0.05, "B"), (0.1, "C"), (0.2, "D"), (0.21, "E"), (9.0, "E")],
)
def test_letters(detectable: float, letter: str) -> None:
    assert NoiseGrade(detectable, 6, is_compared=True).letter == letter


def test_without_repeats_there_is_no_grade() -> None:
    assert grade_of_repeats([[1.0], [2.0]]) is None
    assert grade_of_repeats([]) is None
    assert "unknown" in noise_line(noise_grade(digest(sweep(clients=(1, 4), repeats=1)), None))


def test_the_difference_is_found_by_chance_of_80_percent() -> None:
    """Two runs of the upper end of the spread that differ by the detectable difference clear 1 % in 80 of 100 cases."""
    spread, n = 0.03, 6
    quantiles = [NormalDist().inv_cdf((at + 0.5) / n) for at in range(n)]
    scale = spread / float(np.std(quantiles, ddof=1))
    grade = present(grade_of_repeats([[1000 * math.exp(scale * each) for each in quantiles]]))
    random = np.random.default_rng(1)
    spread = upper_spread(spread, n - 1)
    found = 0
    for _ in range(2_000):
        base = random.normal(0, spread, n)
        other = random.normal(math.log1p(grade.detectable), spread, n)
        interval = present(unpaired_interval(base.tolist(), other.tolist(), 0.95, resamples=0))
        found += interval.low > math.log1p(LEAST_DELTA)
    assert 0.76 <= found / 2_000 <= 0.84


def test_points_pool_their_variance_and_more_repeats_show_less() -> None:
    calm, wild = [100.0, 101.0, 99.0], [100.0, 110.0, 90.0]
    both = present(grade_of_repeats([calm, wild])).detectable
    assert present(grade_of_repeats([calm])).detectable < both < present(grade_of_repeats([wild])).detectable
    assert present(grade_of_repeats([calm, wild], repeats=12)).detectable < both


def test_fewer_repeats_than_a_claim_needs_have_the_grade_of_the_fewest_that_can_make_one() -> None:
    two = present(grade_of_repeats([[100.0, 101.0], [200.0, 199.0]]))
    assert two.repeats == FEWEST_PAIRS
    assert two == grade_of_repeats([[100.0, 101.0], [200.0, 199.0]], repeats=FEWEST_PAIRS)


def test_instances_that_differ_are_the_noise_of_a_run_that_has_several() -> None:
    """Another such run would have other instances, however well the trials of each agree."""
    run = SampleRun(manifest(("a",)))
    for repeat in range(1, 7):
        add_trial(run, "a", 4, 1000.0 - 100 * (repeat % 3), 900, repeat=repeat, seconds=2)
        run.trials[-1] = run.trials[-1].model_copy(update={"instance": repeat % 3 + 1})
    grade = present(noise_grade(digest(run), None))
    assert (grade.repeats, grade.instances) == (6, 3)
    assert grade.detectable > 0.3
    assert noise_line(grade).endswith("between two such runs, 6 trials on 3 instances per point")
    assert answer_json(digest(run), extras_of(run))["noise"]["instances"] == 3
    for trial in range(6):
        run.trials[trial] = run.trials[trial].model_copy(update={"instance": None})
    assert present(noise_grade(digest(run), None)).detectable < grade.detectable


def test_a_comparison_of_instances_says_how_many() -> None:
    run = SampleRun(manifest(("a", "b")))
    for repeat in range(1, 7):
        for name, tps in (("a", 1000.0), ("b", 1060.0)):
            add_trial(run, name, 4, tps * (1 + 0.01 * (repeat % 3)), 900, repeat=repeat, seconds=2)
            run.trials[-1] = run.trials[-1].model_copy(update={"instance": repeat % 3 + 1})
    (compared,) = compare(within(run, "target", Metric.TPS))
    assert noise_line(grade_of_comparison(compared)).endswith(", 6 pairs on 3 instances")


def test_a_comparison_has_its_own_grade() -> None:
    run = SampleRun(manifest(("a", "b")))
    for repeat in range(1, 9):
        for name, tps in (("a", 1000.0), ("b", 1060.0)):
            add_trial(run, name, 4, tps * (1 + 0.002 * (repeat % 3)), 900, repeat=repeat, seconds=2)
    (compared,) = compare(within(run, "target", Metric.TPS))
    grade = present(grade_of_comparison(compared))
    assert grade == NoiseGrade(present(present(compared.chief).detectable), 8, is_compared=True)
    of = digest(run)
    assert noise_grade(of, compared) == grade
    assert noise_line(grade).startswith(f"Noise grade {grade.letter}: smallest detectable difference ")
    assert noise_line(grade).endswith(", 8 pairs")
    found = answer_json(of, extras_of(run))["noise"]
    assert (found["grade"], found["repeats"], found["compared"]) == (grade.letter, 8, True)
