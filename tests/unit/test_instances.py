"""Targets of several instances: the plan, the order of trials, the intervals, the audit."""

import csv
import dataclasses
import json
import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.intervals import Method, instances_interval, mean_interval, trials_interval
from pgdyno.analyse.noise_floor import noise_floor
from pgdyno.analyse.pairs import Arms, Metric, within
from pgdyno.audit.finding import Severity
from pgdyno.audit.rules import one_instance
from pgdyno.audit.subject import AuditRun, Subject
from pgdyno.plan import planned_trials
from pgdyno.plan.model import servers_of
from pgdyno.plan.output.plan_output import total
from pgdyno.report.export import to_csv, to_json
from pgdyno.report.report_content import Extras, digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.sections.every_point import points_table
from pgdyno.report.sentences import conditions
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.plan_sample import load, problems, small_plan
from tests.unit.report_sample import SampleRun, add_trial, manifest

PLAN = small_plan(sweep="clients = [1]", trial='duration = "1s"\nrepeats = 6', a="18", b="17").replace(
    "[target.b]", "instances = 3\n[target.b]"
)


def test_repeats_take_turns_at_instances_and_impossible_ones_are_refused(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN)
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
        found = problems(tmp_path, PLAN.replace(old, new))
        assert any(each.path == at and message in each.message for each in found), found


def instanced(base: list[float], other: list[float], count: int, *, same_servers: bool = False) -> Arms:
    """Returns arms whose repeats take turns at `count` instances."""
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
        for name, of in (("instances", instanced(arms[0], arms[1], 3)), ("trials", arms_of((arms[0], arms[1])))):
            (found,) = compare([of])
            claims[name] += found.points[0].verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert claims["instances"] <= 10
    assert claims["trials"] > 40


def test_two_settings_are_compared_on_each_instance() -> None:
    slow_first = [900.0, 1_000.0, 1_100.0] * 2
    (found,) = compare([instanced(slow_first, [each * 1.05 for each in slow_first], 3, same_servers=True)])
    point = found.points[0]
    assert (point.verdict, point.instances, point.pairs) == (Verdict.FASTER, 3, 6)
    (found,) = compare([instanced(slow_first, [each * 1.05 for each in slow_first], 3)])
    interval = present(found.points[0].interval)
    assert (found.points[0].verdict, interval.method) == (Verdict.INCONCLUSIVE, Method.INSTANCES)
    assert (found.points[0].new_run_pairs, (found.points[0].new_run_instances or 0) > 3) == (None, True)


def test_a_noise_floor_takes_an_instance_for_one_value_as_comparisons_do() -> None:
    """Both arms drew one fast and two slower instances: nothing says that the next ones would be as alike."""
    figures = [1_000.0, 970.0, 940.0] * 4
    others = [each * (1 + 0.001 * (-1) ** at) for at, each in enumerate(figures)]
    arms = instanced(figures, others, 3)
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


def run_of(instances: int) -> SampleRun:
    run = SampleRun(manifest(trials_planned=12))
    for repeat in range(6):
        for target in ("a", "b"):
            add_trial(run, target, 4, 1_000.0 + repeat, 900, seconds=2, repeat=repeat + 1)
            if instances > 1:
                run.trials[-1] = run.trials[-1].model_copy(update={"instance": repeat % instances + 1})
    return run


def test_reports_show_the_instances_and_one_server_of_each_target_is_a_note() -> None:
    (arms,) = within(run_of(3), "target", Metric.TPS)
    assert dict(arms.points[0].instances[1]) == {1: 1, 2: 2, 3: 3, 4: 1, 5: 2, 6: 3}
    assert not arms.same_servers
    of = digest(run_of(3))
    assert "3 instances of a target" in conditions(of)
    table = points_table(of)
    assert {row[table.headings.index("trials")] for row in table.rows} == {"6 on 3 instances"}
    table = trial_table(of)
    at = table.headings.index("instance")
    assert [row[at] for row in table.rows[:6]] == ["1", "1", "2", "2", "3", "3"]
    exported = json.loads(to_json(of, Extras()))
    assert {point["tps"]["instances"] for point in exported["points"]} == {3}
    assert exported["trials"][2]["instance"] == 2
    rows = list(csv.DictReader(to_csv(run_of(3)).splitlines()))
    assert [row["instance"] for row in rows[:6]] == ["1", "1", "2", "2", "3", "3"]
    single = digest(run_of(1))
    assert "instance" not in conditions(single)
    assert "instance" not in trial_table(single).headings
    (found,) = one_instance.RULE.findings(Subject(cast("AuditRun", run_of(1))))
    assert (found.severity, found.parameters["targets"]) == (Severity.NOTE, "a, b")
    assert one_instance.RULE.findings(Subject(cast("AuditRun", run_of(3)))) == []
