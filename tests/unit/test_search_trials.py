"""Searches of a plan: which trials meet the target, which trial belongs to which search, and the next value."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.analyse.pairs import Metric
from pgdyno.experiment.search.capacity_search import meets
from pgdyno.experiment.search.search_arm import Arm, arms_of
from pgdyno.experiment.search.settings.settings_trials import SettingsSearch
from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.output.plan_output import search_lines
from pgdyno.records import (
    ArchiveBacklog,
    ConnectFigures,
    Latency,
    Outcome,
    Point,
    ReplicaLag,
    ScriptSummary,
    SearchRecord,
    TrialRecord,
)
from tests.present import present
from tests.unit.plan_sample import load, refuse, small_plan
from tests.unit.store_sample import trial_record, trial_summary

SCRIPTS = 'scripts = ["tpcb-like", "select-only@9"]'
PLAN = small_plan(SCRIPTS, "clients = [1, 8]\nscale = [1, 2]", 'duration = "10s"\nrepeats = 2', a="18", b="17")
PLAN += '[search]\nfind = "peak"\n'
CAPACITY = (
    PLAN.replace("repeats = 2", "repeats = 3")
    .replace("clients = [1, 8]", "clients = 4\nrate = [100, 1000]")
    .replace('find = "peak"', 'find = "capacity"\nlatency = "p99 < 10 ms"')
)

ALONE = ('[target.b]\nkind = "embedded"\nversion = "17"\n', "")


def test_a_configuration_that_does_not_serve_its_rate_breaks_a_promise(tmp_path: Path) -> None:
    text = PLAN.replace("clients = [1, 8]\nscale = [1, 2]", "clients = 4\nrate = 100").replace(*ALONE)
    text = text.replace('find = "peak"', 'find = "settings"\nover = { work_mem = "1MB..64MB" }')
    own = SettingsSearch.from_plan(load(tmp_path, text.replace("repeats = 2", "repeats = 6")))
    kept, broken = (own.seen_trial(record(1, "a", own.start, served=served), 1.0) for served in (995, 600))
    assert own.metric is Metric.P99
    assert kept.violation == 0
    assert broken.violation == pytest.approx(0.39)


def latency(p99_ms: float) -> Latency:
    ns = round(p99_ms * 1e6)
    return Latency(mean=1e6, stddev=0, min=1, p50=1, p75=1, p90=1, p95=1, p99=ns, p999=ns * 2, p9999=ns * 3, max=ns * 4)


def record(
    number: int,
    target: str,
    point: Point,
    *,
    tps: float = 100,
    p99_ms: float = 5,
    served: int = 1000,
    unstarted: int = 0,
    outcome: Outcome = Outcome.FINISHED,
    by_script: tuple[float, float] = (8, 2),
) -> TrialRecord:
    scripts = [
        ScriptSummary(id=at, name="<builtin>", weight=1, succeeded=1, failed=0, skipped=0, latency_ns=latency(each))
        for at, each in enumerate(by_script)
    ]
    summary = trial_summary(
        scheduled=1000,
        succeeded=served,
        failed=1000 - served,
        unstarted=unstarted,
        tps=tps,
        latency_ns=latency(p99_ms),
        scripts=scripts,
    )
    told = None if outcome is Outcome.FAILED else summary
    return trial_record(number, target=target, point=point, outcome=outcome, summary=told)


def carry_out(arm: Arm, trial: Callable[[int, Point], TrialRecord]) -> tuple[SearchRecord, list[TrialRecord]]:
    records: list[TrialRecord] = []
    while not isinstance(asked := arm.ask(records), SearchRecord):
        records.append(trial(len(records) + 1, asked))
    return asked, records


def test_each_target_and_scale_has_a_search_of_its_own(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN)
    arms = arms_of(plan)
    assert [(arm.target, arm.lowest.scale, arm.lowest.clients, arm.highest.clients) for arm in arms] == [
        ("a", 1, 1, 8), ("a", 2, 1, 8), ("b", 1, 1, 8), ("b", 2, 1, 8),
    ]  # fmt: skip
    assert planned_trials(plan) == []
    (line,) = search_lines(plan)
    assert line.startswith("searches for the peak of throughput from 1 to 8 clients, 4 searches; 2 trials per step")
    others = [record(1, "a", Point(clients=1, scale=2)), record(2, "b", Point(clients=1, scale=1))]
    assert [arm.has(others[0]) for arm in arms] == [False, True, False, False]
    assert arms[0].ask(others) == Point(clients=1, scale=1)


def test_a_peak_is_recorded_with_what_is_alike(tmp_path: Path) -> None:
    arm = arms_of(load(tmp_path, PLAN))[0]
    tps = {1: 100.0, 2: 190, 3: 250, 4: 300, 5: 330, 6: 329, 7: 320, 8: 250}
    found, records = carry_out(arm, lambda number, at: record(number, "a", at, tps=tps[at.planned_clients]))
    # 1, 2, 4, 8, then between 2 and 4, 4 and 8, 4 and 6
    assert found.point == Point(clients=5, scale=1)
    assert (found.find, found.target, found.trials, found.end) == ("peak", "a", len(records), "fell")
    assert (found.tps, found.knee, found.alike) == (330, 5, (5, 5))
    assert found.words == "peak at 5 clients: 330 ± 0 tps"
    # a resumed run asks again, and gets the same answer
    assert arm.ask(list(reversed(records))) == found


def test_trials_that_meet_a_latency_target() -> None:
    for changes, target, met in (
        ({}, "p99 < 10ms", True),
        ({"p99_ms": 10}, "p99 < 10ms", False),
        ({}, "p99.9 < 10ms", False),
        ({}, "p99.9 < 10.1ms", True),
        ({"served": 991}, "p99 < 10ms", True),
        ({"served": 980}, "p99 < 10ms", False),
        ({"unstarted": 20}, "p99 < 10ms", False),
        ({"outcome": Outcome.FAILED}, "p99 < 10ms", False),
        ({}, {"tpcb-like": "p99 < 9ms", "select-only": "p99 < 3ms"}, True),
        ({}, {"tpcb-like": "p99 < 9ms", "select-only": "p99 < 1ms"}, False),
    ):
        trial = record(1, "a", Point(clients=4, rate=100), **changes)
        assert meets(trial, target, ["tpcb-like", "select-only@9"]) is met


def answer_within_10_ms(number: int, at: Point) -> TrialRecord:
    """A trial of a server that answers within 10 ms up to a rate of 500."""
    return record(number, "a", at, p99_ms=present(at.rate) / 50)


def test_a_capacity_is_an_interval(tmp_path: Path) -> None:
    arm = arms_of(load(tmp_path, CAPACITY))[0]
    asked, _ = carry_out(arm, answer_within_10_ms)
    assert asked.met is not None
    assert asked.met < 500 <= present(asked.missed) <= asked.met * 1.06
    assert asked.point == Point(clients=4, scale=1, rate=asked.met)
    assert asked.words.startswith("capacity at p99 < 10 ms: from ")
    assert present(asked.rate_low) < 500 < present(asked.rate_high)
    assert present(asked.rate_low) < present(asked.rate) < present(asked.rate_high)

    def connecting(number: int, at: Point) -> TrialRecord:
        made = answer_within_10_ms(number, at)
        connect = ConnectFigures(count=9, total=None, socket=None, tls=None, authentication=None, backend_start=None)
        return made.model_copy(update={"summary": present(made.summary).model_copy(update={"connect": connect})})

    # that of a storm is in connections
    asked, _ = carry_out(arm, connecting)
    assert next(iter(asked.messages)).message.parameters["unit_id"] == "unit-connections"
    assert " connections a second (95 % interval)" in asked.words


@pytest.mark.parametrize(
    ("follower", "promise", "words"),
    [
        ("archive = { rate = '5MB' }", "archive keeps up", "limited by the archive"),
        ("replicas = { count = 1 }", "lag < 1s", "limited by a standby: no trial there kept lag < 1 s"),
        ("subscriber = {}", "lag < 1s", "limited by the subscriber: no trial there kept lag < 1 s"),
    ],
)
def test_a_capacity_is_what_standbys_and_the_archive_can_follow(
    tmp_path: Path, follower: str, promise: str, words: str
) -> None:
    text = CAPACITY.replace("[target.a]", f"[target.a]\n{follower}").replace(*ALONE)
    arm = arms_of(load(tmp_path, text.replace("[trial]", f"[trial]\npromise = '{promise}'")))[0]

    def followed(number: int, at: Point) -> TrialRecord:
        rate = present(at.rate)
        backlog = ArchiveBacklog(
            samples=10, segment_bytes=1 << 24, archived=9, failed=0, waiting_last=int(rate / 150), waiting_max=9
        )
        nothing = dict.fromkeys(
            ("bytes_last", "bytes_max", "write_lag_max_s", "flush_lag_max_s", "replay_lag_last_s"), 0
        )
        lag = ReplicaLag.model_validate(
            {"name": "pgdyno_1", "sync_state": "async", "samples": 10, **nothing}
            | {"replay_lag_max_s": rate / 400, "is_logical": "subscriber" in follower}
        )
        return record(number, "a", at).model_copy(update={"archive": backlog, "replication": [lag]})

    asked, _ = carry_out(arm, followed)
    assert 350 < present(asked.met) < 460
    assert words in asked.words


def test_errors_in_searches_are_reported(tmp_path: Path) -> None:
    for text, field, message in (
        (PLAN.replace("repeats = 2", "repeats = 1"), "trial.repeats", "one trial does not show the noise"),
        (PLAN.replace("[1, 8]", "8"), "sweep.clients", "lacks the range of the search"),
        (PLAN + 'latency = "p99 < 1s"\n', "search.latency", 'is valid only with find = "capacity"'),
        (PLAN + "speed = 1\n", "search.speed", "unknown key"),
        (PLAN.replace('"peak"', '"top"'), "search.find", "must be"),
        (PLAN.replace("clients = [1, 8]", "clients = [1, 8]\nrate = 5"), "sweep.rate", "cannot be combined with"),
        (CAPACITY.replace("repeats = 3", "repeats = 2"), "trial.repeats", "is 2: too few trials of a rate"),
        (CAPACITY.replace('latency = "p99 < 10 ms"', ""), "search", "lacks the latency target"),
        (CAPACITY.replace("p99 < 10 ms", "p98 < 10 ms"), "search.latency", "is not a latency target"),
        (CAPACITY.replace("p99 < 10 ms", "p99 < soon"), "search.latency", "is not a duration"),
        (CAPACITY.replace('"p99 < 10 ms"', '{ other = "p99 < 1s" }'), "search.latency.other", "is not a script of"),
        (CAPACITY.replace("[100, 1000]", "100"), "sweep.rate", "lacks the range of the search"),
        (CAPACITY + 'precision = "0%"\n', "search.precision", "is not a valid share"),
    ):
        refuse(tmp_path, text, field, message)


def test_a_capacity_has_three_trials_a_rate_unless_more_are_given(tmp_path: Path) -> None:
    assert load(tmp_path, CAPACITY.replace("repeats = 3\n", "")).trial.repeats == 3
    assert load(tmp_path, CAPACITY.replace("repeats = 3", "repeats = 5")).trial.repeats == 5
    # a run of an earlier version continues as it began
    resolved = load(tmp_path, CAPACITY).as_resolved()
    resolved["trial"]["repeats"] = 1
    assert Plan.from_resolved(resolved).trial.repeats == 1
