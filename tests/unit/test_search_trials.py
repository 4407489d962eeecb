"""Searches in a plan: what it may say, which trials belong to a search and meet its target, and the next value."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pgdyno.analyse.pairs import Metric
from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.commands.tune import search_overrides, usual_space
from pgdyno.errors import UsageError
from pgdyno.experiment.search.capacity_search import meets
from pgdyno.experiment.search.search_arm import Arm, arms_of
from pgdyno.experiment.search.settings.settings_trials import SettingsSearch
from pgdyno.plan import Plan, load_plan, planned_trials
from pgdyno.plan.output.executed_code import list_executed_code
from pgdyno.plan.output.plan_output import search_lines
from pgdyno.plan.sweeps.settings_space import read_choice
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
from tests.unit.plan_sample import load, loaded, problems, refuse, small_plan, the_problem
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
    counts = {"scheduled": 1000, "succeeded": served, "failed": 1000 - served, "unstarted": unstarted}
    summary = trial_summary(**counts, tps=tps, latency_ns=latency(p99_ms), scripts=scripts)
    told = None if outcome is Outcome.FAILED else summary
    return trial_record(number, target=target, point=point, outcome=outcome, summary=told)


def carry_out(arm: Arm, trial: Callable[[int, Point], TrialRecord]) -> tuple[SearchRecord, list[TrialRecord]]:
    records: list[TrialRecord] = []
    while not isinstance(asked := arm.ask(records), SearchRecord):
        records.append(trial(len(records) + 1, asked))
    return asked, records


def test_each_target_and_scale_has_a_search_of_its_own_and_a_peak_what_is_alike(tmp_path: Path) -> None:
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
    # a peak is recorded with what is alike
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


def test_errors_in_searches_are_reported_and_a_capacity_has_three_trials_a_rate(tmp_path: Path) -> None:
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
    # a capacity has three trials a rate unless more are given
    assert load(tmp_path, CAPACITY.replace("repeats = 3\n", "")).trial.repeats == 3
    assert load(tmp_path, CAPACITY.replace("repeats = 3", "repeats = 5")).trial.repeats == 5
    # a run of an earlier version continues as it began
    resolved = load(tmp_path, CAPACITY).as_resolved()
    resolved["trial"]["repeats"] = 1
    assert Plan.from_resolved(resolved).trial.repeats == 1


ONE = small_plan(sweep="clients = 4", trial='duration = "1s"')
SEARCH = '[search]\nfind = "settings"\nover.random_page_cost = "1..4"\n'
JIT = 'over.jit = ["off", "on"]\n'
PEAK = ONE.replace("clients = 4", "clients = [1, 4]").replace('"1s"', '"1s"\nrepeats = 2')
DSN = ('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db"')
OVER = 'over.random_page_cost = "1..4"'
STAGING = ('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db"\nrestart = "systemctl restart pg"')


def written(folder: Path, text: str) -> str:
    (folder / "tuned.toml").write_text(text)
    return str(folder / "tuned.toml")


def search_plan(over: str) -> str:
    """Returns a plan that searches settings of a server that a command restarts."""
    return ONE.replace(*STAGING) + SEARCH.replace(OVER, over)


def test_pairs_and_a_fresh_instance_are_the_default_and_the_price_may_be_the_goal(tmp_path: Path) -> None:
    plan = load(tmp_path, ONE + SEARCH)
    assert (plan.trial.repeats, plan.target["pg18"].instance_count) == (8, 2)
    assert Plan.from_resolved(plan.as_resolved()).trial.repeats == 8
    kept = load(tmp_path, (ONE + SEARCH).replace('"18"', '"18"\nkeep_data = true'))
    assert kept.target["pg18"].instance_count == 1
    assert search_lines(plan) == [
        "searches for better settings: random_page_cost 1..4; 8 pairs per comparison that confirms them"
    ]
    # a condition is part of the plan
    over = JIT + 'over.auto_explain.log_min_duration = "1..9"\nwhen.auto_explain.log_min_duration = \'jit == "on"\'\n'
    plan = load(tmp_path, ONE + SEARCH + over)
    assert present(plan.search).when == {"auto_explain.log_min_duration": 'jit == "on"'}
    assert 'auto_explain.log_min_duration 1..9 when jit == "on"; 8 pairs' in search_lines(plan)[0]
    # the price of a million is a goal without a rate
    text = ONE + SEARCH + 'goal = "price"\n' + PRICE
    assert load(tmp_path, text).price is not None
    problem = the_problem(tmp_path, text.replace("clients = 4", "clients = 4\nrate = 10"))
    assert problem.message == "is decided by the rate, which settings do not change"


PRICE = '[price]\ncurrency = "EUR"\ndate = 2026-11-01\nyears = 3\n[price.target.pg18]\nhourly = [{ amount = 0.5 }]\n'


def test_a_plan_that_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    for text, words in (
        (ONE + '[search]\nfind = "settings"\n', "lacks the settings"),
        (ONE + SEARCH.replace("1..4", "4..1"), "ends before it begins"),
        (ONE + SEARCH.replace("random_page_cost", "data_directory"), "cannot be searched: pgdyno creates the cluster"),
        (ONE.replace("clients = 4", "clients = [4, 8]") + SEARCH, "has 2 points"),
        (ONE.replace('"1s"', '"1s"\nrepeats = 5') + SEARCH, "at least 6 pairs"),
        (ONE.replace('"1s"', '"1s"\nrepeats = "6..9"') + SEARCH, "a search has no range of repeats"),
        (ONE + SEARCH + 'budget = "soon"\n', "is not a duration"),
        (ONE + SEARCH + 'goal = "fast"\n', '"tps", "p99", "mean" or "price"'),
        (ONE + SEARCH + 'goal = "price"\n', 'has no price, and goal = "price" needs it'),
        (ONE + SEARCH + 'when.jit = "random_page_cost > 2"\n', "jit is not in search.over"),
        (ONE + SEARCH + 'when.random_page_cost = "jit > 2"\n', "jit is not in search.over"),
        (ONE + SEARCH + 'when.random_page_cost = "random_page_cost > 2"\n', "which has a condition itself"),
        (ONE + SEARCH + JIT + 'when.jit = "random_page_cost"\n', "is not a condition"),
        (ONE + SEARCH + JIT + 'when.random_page_cost = "jit > 2"\n', 'jit is "off", not a number'),
        (ONE + SEARCH + JIT + 'when.random_page_cost = "jit = 2"\n', '"jit = 2" is not a condition'),
        (PEAK + '[search]\nfind = "peak"\nwhen.jit = "clients > 2"\n', 'is valid only with find = "settings"'),
        (PEAK + SEARCH.replace("settings", "peak"), 'is valid only with find = "settings"'),
        (ONE.replace("[workload]", '[target.b]\nkind = "embedded"\nversion = "17"\n[workload]') + SEARCH, "2 targets"),
        (ONE.replace(*DSN) + SEARCH.replace("random_page_cost", "shared_buffers"), "only over the network"),
        (ONE.replace(*DSN) + SEARCH.replace("random_page_cost", "max_wal_size"), "only over the network"),
    ):
        problem = the_problem(tmp_path, text)
        assert words in problem.message
    twice = problems(tmp_path, ONE + SEARCH + 'over.RANDOM_page_cost = "1..2"\n')
    assert "search.over.RANDOM_page_cost" in [each.path for each in twice]


def test_servers_of_others_get_settings_of_sessions_and_of_the_system_if_they_restart(tmp_path: Path) -> None:
    point = Point(clients=4, settings={"random_page_cost": "1.1"})
    theirs = load(tmp_path, ONE.replace(*DSN) + SEARCH)
    assert theirs.server_settings("pg18", point) == {}
    assert theirs.session_settings("pg18", point) == {"random_page_cost": "1.1"}
    ours = load(tmp_path, ONE + SEARCH)
    assert ours.server_settings("pg18", point) == {"random_page_cost": "1.1"}
    assert ours.session_settings("pg18", point) == {}
    # only what no session can set changes a server that restarts
    mixed = f'{OVER}\nover.Shared_Buffers = "16MB..64MB"\nover.max_wal_size = "1GB..4GB"'
    plan = load(tmp_path, search_plan(mixed))
    point = Point(clients=4, settings={"random_page_cost": "2", "Shared_Buffers": "32MB", "max_wal_size": "2GB"})
    assert plan.system_names == {"Shared_Buffers", "max_wal_size"}
    assert plan.system_settings(point) == {"Shared_Buffers": "32MB", "max_wal_size": "2GB"}
    assert plan.session_settings("pg18", point) == {"random_page_cost": "2"}
    assert plan.server_settings("pg18", point) == {}
    assert Plan.from_resolved(plan.as_resolved()).system_names == plan.system_names
    assert load(tmp_path, search_plan(OVER)).system_names == frozenset()
    assert load(tmp_path, ONE + SEARCH.replace("random_page_cost", "cpu_tuple_cost")).system_names == frozenset()
    assert [(each.field, each.what) for each in list_executed_code(loaded(tmp_path, search_plan(OVER)))] == [
        ("target.pg18.restart", "/bin/sh -c 'systemctl restart pg'")
    ]


def test_a_restart_needs_its_command_and_a_budget_shortens_no_trial(tmp_path: Path) -> None:
    text = search_plan('over.shared_buffers = "16MB..64MB"')
    for old, new, words in (
        ("systemctl restart pg", "", "it takes effect when the server starts, and restart is empty"),
        ("restart =", 'other_dsns = ["host=db2"]\nrestart =', "cannot be combined with other_dsns"),
    ):
        assert words in the_problem(tmp_path, text.replace(old, new)).message
    reloads = search_plan('over.max_wal_size = "1GB..4GB"').replace("systemctl restart pg", "")
    assert load(tmp_path, reloads).system_names == {"max_wal_size"}
    of = loaded(tmp_path, ONE + SEARCH)
    found = within_budget(of, "2h")
    assert found.budget is None
    assert (present(found.plan.search).budget, found.plan.trial.duration) == ("2h", 1.0)
    for budget in ("soon", "0s"):
        with pytest.raises(UsageError, match="--budget"):
            within_budget(of, budget)


def test_tune_adds_a_search_to_a_plan_or_keeps_its_own(tmp_path: Path) -> None:
    for dsn in (False, True):
        path = written(tmp_path, ONE.replace(*DSN) if dsn else ONE)
        given = search_overrides(path, ["sweep.clients=2"], None)
        plan = load_plan(path, given).plan
        assert ("shared_buffers" in present(plan.search).over) is not dsn
        assert plan.points()[0].clients == 2
    assert search_overrides(written(tmp_path, ONE + SEARCH), [], None) == []
    with pytest.raises(UsageError, match="searches for the peak"):
        search_overrides(written(tmp_path, f'{PEAK}[search]\nfind = "peak"\n'), [], None)
    # the usual space fits into the memory
    for memory_mb in (512, 4096, 1 << 20):
        for value in usual_space(memory_mb << 20, by_session=False).values():
            read_choice(value)
