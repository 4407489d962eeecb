"""Two trials at the same time: halves of the processors, order, refusals, ratios, and permitted comparisons."""

import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.history import histories
from pgdyno.analyse.noise_floor import noise_floor
from pgdyno.analyse.over_time.duet import duet_ratio
from pgdyno.analyse.pairs import Arms, Metric, between, within
from pgdyno.audit.finding import Severity
from pgdyno.audit.rules import duet as duet_rule
from pgdyno.audit.rules import repeats_spread
from pgdyno.audit.subject import AuditRun, Subject
from pgdyno.errors import UsageError
from pgdyno.experiment.trials.at_once import do_at_once, judged_together
from pgdyno.plan import planned_trials, time_needed_s
from pgdyno.plan.sweeps.order import in_order
from pgdyno.processors import halves, pin, running_on
from pgdyno.records import DuetRecord, Failure, FailureId, Outcome, Point, Stage
from pgdyno.report.export import to_csv
from pgdyno.report.report_content import digest
from pgdyno.report.report_tables import trial_table
from pgdyno.report.sentences import conditions
from pgdyno.report.several_runs import unite_runs
from pgdyno.run.run_trial import TrialResult
from tests.present import present
from tests.unit.comparison_sample import arms_of
from tests.unit.plan_sample import load, problems, small_plan, the_problem
from tests.unit.report_sample import SampleRun, add_trial, manifest

PLAN = small_plan(trial='order = "duet"\nduration = "10s"\nrepeats = 6', sweep="clients = [1, 2]", a="18", b="17")
EVEN = pytest.mark.skipif(len(os.sched_getaffinity(0)) % 2 == 1, reason="an odd number of processors is refused")


def test_halves_are_whole_cores_where_that_is_possible_and_every_other_repeat_swaps_them() -> None:
    assert halves([0, 1], lambda number: (0, number)) == ((0,), (1,))
    # two threads a core, numbered as on most machines
    assert halves(range(8), lambda number: (0, number % 4)) == ((0, 1, 4, 5), (2, 3, 6, 7))
    # two packages: a half of the machine each
    assert halves(range(4), lambda number: (number % 2, number // 2)) == ((0, 2), (1, 3))
    # the two threads of the only core
    assert halves([0, 1], lambda _: (0, 0)) == ((0,), (1,))
    with pytest.raises(ValueError, match="3 processors cannot be split into two equal halves"):
        halves([0, 1, 2], lambda number: (0, number))
    with pytest.raises(ValueError, match="1 processor cannot"):
        halves([5], lambda number: (0, number))
    points = [Point(clients=1, scale=1), Point(clients=2, scale=1)]
    places = in_order("duet", ["a", "b"], points, 3, 1)
    assert "".join(at.target for at in places) == "abab" + "baba" + "abab"
    assert [at.block for at in places] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    assert all(first.point == second.point for first, second in zip(places[::2], places[1::2], strict=True))


def test_processes_and_what_they_start_stay_on_their_processors() -> None:
    every = os.sched_getaffinity(0)
    first = {min(every)}
    say = "import os; print(os.sched_getaffinity(0))"
    with running_on(first):
        said = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True).stdout
        with subprocess.Popen(["sleep", "60"]) as sleeper:
            pin([sleeper.pid], every)
            assert os.sched_getaffinity(sleeper.pid) == every
            sleeper.kill()
    assert said.strip() == str(first)
    assert os.sched_getaffinity(0) == every
    pin([sleeper.pid], first)


@EVEN
def test_a_plan_of_pairs_takes_half_of_the_time(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN)
    assert (len(planned_trials(plan)), time_needed_s(plan)) == (24, 120)
    assert planned_trials(plan.from_resolved(plan.as_resolved())) == planned_trials(plan)


def test_impossible_duets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for old, new, at, message in (
        ("[workload]", '[target.c]\nkind = "embedded"\nversion = "16"\n[workload]', "trial.order", "the plan has 3"),
        ('[target.b]\nkind = "embedded"\nversion = "17"\n', "", "trial.order", "the plan has 1"),
        ("[sweep]", '[sweep]\nsettings.work_mem = ["4MB", "8MB"]', "trial.order", "make more arms"),
        ('kind = "embedded"\nversion = "17"', 'kind = "dsn"\ndsn = "host=db"', "trial.order", "that of target b"),
        (
            'name = "mine"',
            'name = "mine"\ngenerators = ["ssh://x"]',
            "generators",
            "each half of this host's processors",
        ),
        ("[sweep]", '[search]\nfind = "peak"\n[sweep]', "search", "depends on the other target"),
        ('duration = "10s"', "transactions = 10", "trial.transactions", "finish first"),
        ("[sweep]", '[reset]\ndrop_cache = "machine"\n[sweep]', "reset.drop_cache", "cache of the other target"),
    ):
        found = problems(tmp_path, PLAN.replace(old, new, 1))
        assert any(each.path == at and message in each.message for each in found), found
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1, 2})
    problem = the_problem(tmp_path, PLAN)
    assert problem.path == "trial.order"
    assert "3 processors cannot be split" in problem.message


def seconds(*counts: int, phase: str = "measure", first: int = 0, length_us: int = 1_000_000) -> list[dict[str, Any]]:
    return [
        {
            "event": "interval",
            "from_us": at * 1_000_000,
            "to_us": at * 1_000_000 + length_us,
            "phase": phase,
            "scripts": [{"succeeded": count}],
        }
        for at, count in enumerate(counts, start=first)
    ]


def ratio(base: list[dict[str, Any]], other: list[dict[str, Any]]) -> tuple[float, float]:
    """Returns the ratio of two trials, and of how many seconds."""
    found = present(duet_ratio(base, other))
    return math.exp(found.log), found.seconds


def test_the_ratio_is_that_of_the_seconds_which_both_measured() -> None:
    base = [{"event": "start"}, *seconds(7, phase="warm-up"), *seconds(100, 50, 200, first=1)]
    other = [*seconds(9, phase="warm-up"), *seconds(110, 55, 220, 5, first=1)]
    assert ratio(base, other) == pytest.approx((1.1, 3))
    assert ratio(other, base) == pytest.approx((1 / 1.1, 3))
    # two of four seconds, and both stalls: 100/100, then 100/200 over two seconds with the last stall
    stalled = ratio(seconds(100, 100, 100, 100), seconds(100, 0, 100, 0))
    assert stalled == pytest.approx(((1.0 * (100 / 300) ** 3) ** 0.25, 4))
    assert duet_ratio(seconds(100, 100), seconds(0, 0)) is None
    assert duet_ratio([], seconds(1)) is None
    # an interval of another length is left out
    base = [*seconds(100), *seconds(10, first=1, length_us=100_000)]
    assert ratio(base, [*seconds(200), *seconds(1, first=1, length_us=10_000)]) == pytest.approx((2.0, 1))


def result(outcome: Outcome, message: str = "") -> TrialResult:
    failure = Failure(stage=Stage.RUN, message=message) if message else None
    return TrialResult(outcome, [], None, None, failure)


@EVEN
def test_a_trial_whose_partner_failed_has_failed(tmp_path: Path) -> None:
    trials = planned_trials(load(tmp_path, PLAN))[:2]
    failed, stopped = result(Outcome.FAILED, "the server is gone"), result(Outcome.INTERRUPTED, "stopped")
    first, second = judged_together(trials, [failed, stopped])
    assert first is failed
    assert second.outcome is Outcome.FAILED
    assert present(second.failure).id == FailureId.PARTNER_FAILED
    assert present(second.failure).message == "trial 1 of the same pair failed: the server is gone"
    finished = [result(Outcome.FINISHED)] * 2
    assert judged_together(trials, finished) == finished


def test_an_error_of_one_side_stops_the_other() -> None:
    stopped: list[str] = []

    def broken() -> int:
        raise ValueError("broken")

    for first, second in ((broken, lambda: 1), (lambda: 1, broken)):
        with pytest.raises(ValueError, match="broken"):
            do_at_once([first, second], lambda: stopped.append("stopped"))
    assert stopped == ["stopped", "stopped"]
    assert do_at_once([lambda: 1, lambda: 2, lambda: 3], lambda: None) == [1, 2, 3]


def disturbed(ratios: Sequence[float], instances: int = 1) -> Arms:
    """Returns arms whose throughput a neighbour scatters, and whose ratios it does not."""
    random = np.random.default_rng(3)
    base = [1_000 * float(random.uniform(0.5, 1)) for _ in ratios]
    other = [1_000 * float(random.uniform(0.5, 1)) for _ in ratios]
    arms = arms_of((base, other))
    turns = {repeat: (repeat - 1) % instances + 1 for repeat in range(1, len(ratios) + 1)} if instances > 1 else {}
    duets = {repeat: math.log(ratio) for repeat, ratio in enumerate(ratios, start=1)}
    point = dataclasses.replace(arms.points[0], duets=duets, instances=(turns, turns))
    return dataclasses.replace(arms, points=(point,))


def test_a_duet_is_judged_by_the_ratios_of_its_records() -> None:
    (found,) = compare([disturbed([1.05, 1.051, 1.049, 1.05, 1.052, 1.048])])
    point = found.points[0]
    assert (point.verdict, point.pairs, point.duet) == (Verdict.FASTER, 6, True)
    assert point.change == pytest.approx(0.05, abs=1e-3)
    assert noise_floor(disturbed([1.001, 0.999] * 3)).floor < 0.01
    (plain,) = compare([arms_of(([1.0] * 6, [1.1] * 6))])
    assert not plain.points[0].duet
    # three pairs of servers, of which one is 6 % slower: six pairs of trials are three values
    (found,) = compare([disturbed([1.0, 1.0, 0.94] * 2, instances=3)])
    point = found.points[0]
    assert (point.instances, point.pairs, present(point.interval).freedom) == (3, 6, 2)
    (arms,) = within(duet_run(), "target", Metric.TPS)
    assert list(arms.points[0].duets.values()) == pytest.approx([math.log(1.1)] * 6)
    assert compare([arms])[0].points[0].change == pytest.approx(0.1)
    # latencies have no ratio by second
    (latency,) = within(duet_run(), "target", Metric.P99)
    assert latency.points[0].duets == {}


def duet_run(name: str = "run", ratio: float = 1.1) -> SampleRun:
    run = SampleRun(manifest(("a", "b"), trials_planned=12).model_copy(update={"run": name}))
    for repeat in range(1, 7):
        for target in ("a", "b"):
            add_trial(run, target, 4, 1_000.0 * (2 if repeat % 2 else 1), 900, seconds=2, repeat=repeat)
            at = len(run.trials) - 1
            own, partner = (1 / ratio, at + 2) if target == "a" else (ratio, at)
            duet = DuetRecord(partner=partner, processors=[at % 2], tps_ratio=own, seconds=2)
            run.trials[-1] = run.trials[-1].model_copy(update={"duet": duet})
    return run


def test_of_two_runs_partners_have_their_numbers_there_and_lengths_are_named() -> None:
    both = unite_runs([duet_run("x"), duet_run("y")])
    partners = [present(trial.duet).partner for trial in both.trials]
    assert partners == [number + 1 if number % 2 else number - 1 for number in range(1, 25)]
    runs = [SampleRun(manifest(run=name)) for name in ("x", "y")]
    for run, seconds in zip(runs, (10, 30), strict=True):
        add_trial(run, "pg18", 4, 1_000, 900, seconds=seconds)
    said = conditions(digest(unite_runs(runs)))
    assert "trials of 10 s after 2 s of warm-up, trials of 30 s after 2 s of warm-up" in said


def plain_run(*targets: str) -> SampleRun:
    run = SampleRun(manifest(targets))
    for target in targets:
        add_trial(run, target, 4, 1_000.0, 900)
    return run


def test_its_figures_are_compared_with_nothing_else() -> None:
    plain = plain_run("a", "b")
    for pair in ((duet_run(), plain), (plain, duet_run()), (duet_run("x"), duet_run("y"))):
        with pytest.raises(UsageError, match="is a duet"):
            between(*pair, Metric.TPS)
    with pytest.raises(UsageError, match="cannot be compared by protocol"):
        within(duet_run(), "protocol", Metric.TPS)
    assert histories({"x": duet_run("x"), "y": duet_run("y")}, Metric.TPS) == []


def test_reports_and_the_audit_mark_its_figures() -> None:
    run = duet_run()
    (found,) = duet_rule.RULE.findings(Subject(cast("AuditRun", run)))
    assert (found.severity, found.trials) == (Severity.NOTE, list(range(1, 13)))
    assert repeats_spread.RULE.findings(Subject(cast("AuditRun", run))) == []
    assert "two targets at the same time (duet): only their ratio is valid" in conditions(digest(run))
    table = trial_table(digest(run))
    assert table.rows[0][table.headings.index("duet with")] == "2"
    assert to_csv(run).splitlines()[1].endswith(",,2,0.909091,,,,,,,,transactions,,,,,,,,,")
    plain = plain_run("pg18")
    assert duet_rule.RULE.findings(Subject(cast("AuditRun", plain))) == []
    assert "duet with" not in trial_table(digest(plain)).headings
