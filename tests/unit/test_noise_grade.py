"""The noise grade: the smallest difference that a run could have detected, or a plan can expect; instances."""

import csv
import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import cast

import numpy as np
import pytest

from pgdyno.analyse.comparison import LEAST_DELTA, Comparison, Verdict, compare
from pgdyno.analyse.gate import gate
from pgdyno.analyse.intervals import (
    Method,
    instances_interval,
    mean_interval,
    trials_interval,
    unpaired_interval,
    upper_spread,
)
from pgdyno.analyse.noise_floor import noise_floor
from pgdyno.analyse.noise_grade import (
    NoiseGrade,
    expected_grade,
    grade_against_none,
    grade_of_comparison,
    grade_of_repeats,
)
from pgdyno.analyse.pairs import Arms, Metric, within
from pgdyno.audit.finding import Severity
from pgdyno.audit.rules import one_instance
from pgdyno.audit.subject import AuditRun, Subject
from pgdyno.commands.comparison import compare as commands
from pgdyno.commands.plan import check
from pgdyno.commands.support.expected_noise import expected_noise, expected_noise_line
from pgdyno.host import describe_host
from pgdyno.plan import planned_trials
from pgdyno.plan.model import servers_of
from pgdyno.plan.output.plan_output import total
from pgdyno.records import Host, TargetRecord
from pgdyno.records.base import FEWEST_PAIRS
from pgdyno.report.answers.answer import answer_json
from pgdyno.report.answers.noise import noise_grade, noise_line
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.sections.every_point import points_table
from pgdyno.report.sentences import conditions
from pgdyno.store import RunFolder
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.events_sample import sample_events
from tests.unit.plan_sample import load, problems, small_plan
from tests.unit.report_answer_sample import extras_of
from tests.unit.report_sample import SampleRun, add_trial, manifest, sweep
from tests.unit.store_sample import SETTINGS, sample_manifest, sample_record


def test_grades_have_letters_need_repeats_and_pool_the_variance_of_points() -> None:
    for detectable, letter in (
        (0.0, "A"), (0.02, "A"), (0.0201, "B"), (0.05, "B"), (0.1, "C"), (0.2, "D"), (0.21, "E"), (9.0, "E"),
    ):  # fmt: skip
        assert NoiseGrade(detectable, 6, is_compared=True).letter == letter
    assert grade_of_repeats([[1.0], [2.0]]) is None
    assert grade_of_repeats([]) is None
    assert "unknown" in noise_line(noise_grade(digest(sweep(clients=(1, 4), repeats=1)), None))
    calm, wild = [100.0, 101.0, 99.0], [100.0, 110.0, 90.0]
    both = present(grade_of_repeats([calm, wild])).detectable
    assert present(grade_of_repeats([calm])).detectable < both < present(grade_of_repeats([wild])).detectable
    assert present(grade_of_repeats([calm, wild], repeats=12)).detectable < both
    # fewer repeats than a claim needs have the grade of the fewest that can make one
    two = present(grade_of_repeats([[100.0, 101.0], [200.0, 199.0]]))
    assert two.repeats == FEWEST_PAIRS
    assert two == grade_of_repeats([[100.0, 101.0], [200.0, 199.0]], repeats=FEWEST_PAIRS)


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


def run_of(targets: Sequence[str], repeats: int, spread: float, *, instances: bool) -> SampleRun:
    """Returns a run of these targets, of which b is faster, whose trials or instances scatter."""
    run = SampleRun(manifest(targets))
    for repeat in range(1, repeats + 1):
        for name in targets:
            tps = (1060.0 if name == "b" else 1000.0) * (1 + spread * (repeat % 3))
            add_trial(run, name, 4, tps, 900, repeat=repeat, seconds=2)
            if instances:
                run.trials[-1] = run.trials[-1].model_copy(update={"instance": (repeat - 1) % 3 + 1})
    return run


def test_instances_that_differ_are_noise_and_a_comparison_has_its_own_grade() -> None:
    """Another such run would have other instances, however well the trials of each agree."""
    run = run_of(["a"], 6, -0.1, instances=True)
    grade = present(noise_grade(digest(run), None))
    assert (grade.repeats, grade.instances) == (6, 3)
    assert grade.detectable > 0.3
    assert noise_line(grade).endswith("between two such runs, 6 trials on 3 instances per point")
    assert answer_json(digest(run), extras_of(run))["noise"]["instances"] == 3
    single = run_of(["a"], 6, -0.1, instances=False)
    assert present(noise_grade(digest(single), None)).detectable < grade.detectable

    # a comparison has its own grade, and says how many instances
    def compared_of(run: SampleRun) -> Comparison:
        (found,) = compare(within(run, "target", Metric.TPS))
        return found

    several = compared_of(run_of(["a", "b"], 6, 0.01, instances=True))
    assert noise_line(grade_of_comparison(several)).endswith(", 6 pairs on 3 instances")
    run = run_of(["a", "b"], 8, 0.002, instances=False)
    compared = compared_of(run)
    grade = present(grade_of_comparison(compared))
    assert grade == NoiseGrade(present(present(compared.chief).detectable), 8, is_compared=True)
    of = digest(run)
    assert noise_grade(of, compared) == grade
    assert noise_line(grade).startswith(f"Noise grade {grade.letter}: smallest detectable difference ")
    assert noise_line(grade).endswith(", 8 pairs")
    found = answer_json(of, extras_of(run))["noise"]
    assert (found["grade"], found["repeats"], found["compared"]) == (grade.letter, 8, True)


PLAN = small_plan(sweep="clients = 4", trial='duration = "30s"\nrepeats = 10', a="18", b="18")


def store_graded_run(
    parent: Path,
    host: Host | None = None,
    workload: str = "select-only",
    kind: str = "embedded",
    instances: Sequence[float] = (),
    pairs: int = 6,
) -> str:
    """Writes a run of pairs whose throughput varies, also by the factors of `instances`; returns its name."""
    about = sample_manifest(
        host=host or describe_host(),
        workload=workload,
        targets=[TargetRecord(name=name, kind=kind, asked={}) for name in ("a", "b")],
        plan={"name": "two", "trial": {"duration": 10.0}},
    )
    folder = RunFolder.create(parent, about)
    for number in range(1, 2 * pairs + 1):
        repeat = (number + 1) // 2
        at = None if not instances else (repeat - 1) % len(instances)
        factor = 1.0 if at is None else instances[at]
        events = sample_events(4, 2, round(factor * (500 + 10 * (number % 5))), 900, seed=number)
        record = sample_record(number, events, target="ab"[number % 2], repeat=repeat)
        record = record.model_copy(update={"instance": None if at is None else at + 1})
        folder.begin_trial(record.slug).commit(record, events=events, settings=SETTINGS)
    return folder.path.name


def test_noise_of_pairs_gives_the_grade_of_other_numbers_and_of_a_gate() -> None:
    points = [[100.0, 104.0, 98.0, 101.0]]
    pairs = [[(100.0, 101.0), (104.0, 103.0), (98.0, 99.5), (101.0, 100.0)]]
    few, many = (expected_grade(points, pairs, (n, n), compares=True) for n in (6, 40))
    ranged = present(expected_grade(points, pairs, (6, 40), compares=True))
    # more pairs detect smaller differences, and looks widen the interval
    assert present(many).detectable < ranged.detectable < present(few).detectable
    assert (ranged.repeats, ranged.is_compared) == (40, True)
    assert expected_grade([[100.0]], [], (6, 6), compares=True) is None
    single = present(expected_grade(points, [], (6, 6), compares=True))
    assert single.detectable > present(few).detectable
    # that of a gate is of a difference from none
    arms = arms_of(([100, 101, 99, 100, 102, 98], [100, 102, 99, 101, 100, 99]))
    graded = [grade_against_none(gate(arms, limit).comparison) for limit in (0.02, 0.2)]
    assert graded[0] == graded[1]
    assert graded[0] is not None
    assert graded[0].repeats == 6


@pytest.mark.slow
def test_the_last_such_run_on_this_machine_counts(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN)
    assert expected_noise(plan, tmp_path / "none") is None
    here = describe_host()
    store_graded_run(tmp_path, host=here.model_copy(update={"cpu_model": "another"}), pairs=2)
    store_graded_run(tmp_path, workload="tpcb-like", pairs=2)
    store_graded_run(tmp_path, kind="dsn", pairs=2)
    assert expected_noise(plan, tmp_path) is None
    assert "has no run of select-only on this machine with repeats yet" in expected_noise_line(plan, tmp_path, None)
    name = store_graded_run(tmp_path)
    found = present(expected_noise(plan, tmp_path))
    assert (found.run, found.trial_s, found.grade.repeats, found.grade.is_compared) == (name, 10.0, 10, True)
    line = expected_noise_line(plan, tmp_path, found)
    assert line.startswith(f"expected noise grade {found.grade.letter}: smallest detectable difference ")
    assert line.endswith(f"with 10 pairs, as noisy as run {name}, whose trials took 10 s instead of 30 s")


@pytest.mark.slow
def test_several_instances_are_as_noisy_as_the_instances_of_an_earlier_run(tmp_path: Path) -> None:
    one = load(tmp_path, PLAN)
    three = load(tmp_path, PLAN.replace('version = "18"', 'version = "18"\ninstances = 3'))
    store_graded_run(tmp_path)
    assert expected_noise(three, tmp_path) is None
    assert "on this machine with several instances yet" in expected_noise_line(three, tmp_path, None)
    calm = present(expected_noise(one, tmp_path))
    later = tmp_path / "later"
    name = store_graded_run(later, instances=(1.0, 0.8, 0.6))
    of_three, of_one = expected_noise(three, later), expected_noise(one, later)
    assert of_three is not None
    assert of_one is not None
    assert (of_three.run, of_three.grade.instances, of_three.grade.repeats) == (name, 3, 10)
    # two draws of three such servers each: t of 4 degrees of freedom, times 0.26 of scatter, times the root of 2 / 3
    # and 1.6 for the upper end of that scatter
    assert 1.3 < of_three.grade.detectable < 2.7
    # one server of each target does not meet the others
    assert (of_one.run, of_one.grade.instances) == (name, 1)
    assert of_one.grade.detectable < 2 * calm.grade.detectable
    line = expected_noise_line(three, later, of_three)
    assert "with 10 pairs on 3 instances, as noisy as run " in line
    single = load(tmp_path, PLAN[: PLAN.index("[target.b]")] + PLAN[PLAN.index("[workload]") :])
    target = single.target["a"].model_copy(update={"instances": 3})
    alone = present(expected_noise(single.model_copy(update={"target": {"a": target}}), later))
    assert (alone.grade.is_compared, alone.grade.instances) == (False, 3)
    assert alone.grade.detectable == pytest.approx(of_three.grade.detectable)


@pytest.mark.slow
def test_plan_check_and_gate_print_the_grade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = store_graded_run(tmp_path)
    (tmp_path / "two.toml").write_text(PLAN)
    check(str(tmp_path / "two.toml"), noise=True, runs=tmp_path)
    assert "expected noise grade " in capsys.readouterr().out
    check(str(tmp_path / "two.toml"), noise=True, runs=tmp_path, json=True)
    assert json.loads(capsys.readouterr().out)["expected_noise"]["run"] == name
    commands.gate(name, junit=tmp_path / "gate.xml", md=tmp_path / "gate.md", force=True, runs=tmp_path)
    assert "Noise grade " in capsys.readouterr().out
    assert "Noise grade " in (tmp_path / "gate.xml").read_text()
    assert "Noise grade " in (tmp_path / "gate.md").read_text()
    commands.gate(name, force=True, runs=tmp_path, json=True)
    assert json.loads(capsys.readouterr().out)["noise"]["compared"] is True
    # few pairs have no grade
    name = store_graded_run(tmp_path, pairs=3)
    commands.gate(name, junit=tmp_path / "gate.xml", md=tmp_path / "gate.md", force=True, runs=tmp_path)
    printed = [capsys.readouterr().out, (tmp_path / "gate.xml").read_text(), (tmp_path / "gate.md").read_text()]
    for text in printed:
        assert "too few for a claim" in text
        assert "one trial per point" not in text


ON_INSTANCES = small_plan(sweep="clients = [1]", trial='duration = "1s"\nrepeats = 6', a="18", b="17").replace(
    "[target.b]", "instances = 3\n[target.b]"
)


def test_repeats_take_turns_at_instances_and_impossible_ones_are_refused(tmp_path: Path) -> None:
    plan = load(tmp_path, ON_INSTANCES)
    assert list(servers_of(plan)) == ["a.1", "a.2", "a.3", "b"]
    assert {spec.instance_count for spec in servers_of(plan).values()} == {1}
    trials = planned_trials(plan)
    of_a = sorted((trial.repeat, trial.server) for trial in trials if trial.target == "a")
    assert of_a == [(1, "a.1"), (2, "a.2"), (3, "a.3"), (4, "a.1"), (5, "a.2"), (6, "a.3")]
    assert {trial.server for trial in trials if trial.target == "b"} == {"b"}
    assert servers_of(plan.from_resolved(plan.as_resolved())) == servers_of(plan)
    assert "instances" not in plan.as_resolved()["target"]["b"]
    # the dataset is loaded into each instance
    assert total(plan).splitlines()[0].endswith("loading (4 datasets)")
    for old, new, at, message in (
        ("repeats = 6", "repeats = 2", "trial.repeats", "2 are fewer than the 3 instances of target a"),
        ("instances = 3", "instances = 3\nkeep_data = true", "target.a.instances", "cannot be combined with keep_data"),
        ("[sweep]", '[search]\nfind = "peak"\n[sweep]', "search", "a search measures one server"),
        (
            'kind = "embedded"\nversion = "17"',
            'kind = "dsn"\ndsn = "host=db1"\nother_dsns = ["host=db2", "host=db2"]',
            "target.b.other_dsns",
            "name the same server twice",
        ),
    ):
        found = problems(tmp_path, ON_INSTANCES.replace(old, new))
        assert any(each.path == at and message in each.message for each in found), found


def arms_on_instances(base: list[float], other: list[float], count: int, *, same_servers: bool = False) -> Arms:
    arms = arms_of((base, other))
    turns = {repeat: (repeat - 1) % count + 1 for repeat in range(1, len(base) + 1)}
    points = tuple(dataclasses.replace(point, instances=(turns, turns)) for point in arms.points)
    return dataclasses.replace(arms, points=points, same_servers=same_servers)


@pytest.mark.long
def test_two_draws_of_one_pool_are_no_difference() -> None:
    """Repeats of an instance agree to 0.1 %, instances differ by percents: only the latter decides."""
    random = np.random.default_rng(1)
    pool = np.array([1.0, 0.97, 0.94])
    claims = dict.fromkeys(["instances", "trials"], 0)
    for _ in range(200):
        arms = [
            [1_000 * float(factor) * math.exp(float(random.normal(0, 0.001))) for factor in np.tile(drawn, 4)]
            for drawn in (random.choice(pool, 3), random.choice(pool, 3))
        ]
        for name, of in (
            ("instances", arms_on_instances(arms[0], arms[1], 3)),
            ("trials", arms_of((arms[0], arms[1]))),
        ):
            (found,) = compare([of])
            claims[name] += found.points[0].verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert claims["instances"] <= 10
    assert claims["trials"] > 40


def test_two_settings_are_compared_on_each_instance() -> None:
    slow_first = [900.0, 1_000.0, 1_100.0] * 2
    (found,) = compare([arms_on_instances(slow_first, [each * 1.05 for each in slow_first], 3, same_servers=True)])
    point = found.points[0]
    assert (point.verdict, point.instances, point.pairs) == (Verdict.FASTER, 3, 6)
    (found,) = compare([arms_on_instances(slow_first, [each * 1.05 for each in slow_first], 3)])
    interval = present(found.points[0].interval)
    assert (found.points[0].verdict, interval.method) == (Verdict.INCONCLUSIVE, Method.INSTANCES)
    assert (found.points[0].new_run_pairs, (found.points[0].new_run_instances or 0) > 3) == (None, True)


def test_a_noise_floor_takes_an_instance_for_one_value_as_comparisons_do() -> None:
    """Both arms drew one fast and two slower instances: nothing says that the next ones would be as alike."""
    figures = [1_000.0, 970.0, 940.0] * 4
    others = [each * (1 + 0.001 * (-1) ** at) for at, each in enumerate(figures)]
    arms = arms_on_instances(figures, others, 3)
    found = noise_floor(arms)
    (compared,) = compare([arms])
    (noise,) = found.points
    assert noise.interval == compared.points[0].interval
    assert noise.interval.method is Method.INSTANCES
    assert found.floor > 0.05
    assert noise.spread < 0.002


def test_the_interval_of_instances_needs_two_of_each() -> None:
    assert instances_interval([0.0], [0.1, 0.2], 0.95) is None
    found = present(instances_interval([0.0, 0.02], [0.1, 0.12], 0.95))
    assert (round(found.mean, 9), found.freedom) == (0.1, 2.0)
    mirrored = present(instances_interval([0.1, 0.12], [0.0, 0.02], 0.95))
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))
    # the mean of an arm has the interval of its instances
    values = [100.0, 110.0, 120.0] * 4
    mean = trials_interval(values, [1, 2, 3] * 4)
    assert (mean.mean, mean.n, mean.instances) == (110.0, 12, 3)
    assert mean.half == mean_interval([100.0, 110.0, 120.0]).half
    assert trials_interval(values, [None] * 12) == mean_interval(values)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_95_of_100_intervals_of_instances_hold_the_truth(count: int, share: float) -> None:
    """`make simulations` has the table; `share` is the part of a trial's variance that its instance causes."""
    times, trials = 2_000, 4
    random = np.random.default_rng(count)
    means = random.normal(0, math.sqrt(share + (1 - share) / trials), (times, 2, count))
    found = [instances_interval(list(base), list(other), 0.95) for base, other in means]
    held = sum(each is not None and each.low <= 0 <= each.high for each in found)
    assert held / times == pytest.approx(0.95, abs=0.015 + 2 * math.sqrt(0.95 * 0.05 / times))


def test_reports_show_the_instances_and_one_server_of_each_target_is_a_note() -> None:
    (arms,) = within(run_of(["a", "b"], 6, 0.001, instances=True), "target", Metric.TPS)
    assert dict(arms.points[0].instances[1]) == {1: 1, 2: 2, 3: 3, 4: 1, 5: 2, 6: 3}
    assert not arms.same_servers
    of = digest(run_of(["a", "b"], 6, 0.001, instances=True))
    assert "3 instances of a target" in conditions(of)
    table = points_table(of)
    assert {row[table.headings.index("trials")] for row in table.rows} == {"6 on 3 instances"}
    table = trial_table(of)
    at = table.headings.index("instance")
    assert [row[at] for row in table.rows[:6]] == ["1", "1", "2", "2", "3", "3"]
    exported = json.loads(to_json(of, Extras()))
    assert {point["tps"]["instances"] for point in exported["points"]} == {3}
    assert exported["trials"][2]["instance"] == 2
    rows = list(csv.DictReader(to_csv(run_of(["a", "b"], 6, 0.001, instances=True)).splitlines()))
    assert [row["instance"] for row in rows[:6]] == ["1", "1", "2", "2", "3", "3"]
    single = digest(run_of(["a", "b"], 6, 0.001, instances=False))
    assert "instance" not in conditions(single)
    assert "instance" not in trial_table(single).headings
    (found,) = one_instance.RULE.findings(Subject(cast("AuditRun", run_of(["a", "b"], 6, 0.001, instances=False))))
    assert (found.severity, found.parameters["targets"]) == (Severity.NOTE, "a, b")
    assert one_instance.RULE.findings(Subject(cast("AuditRun", run_of(["a", "b"], 6, 0.001, instances=True)))) == []
