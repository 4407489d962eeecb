"""A plan with `find = "settings"`: what it may say, and what pgdyno tune adds to a plan without a search."""

from pathlib import Path

import pytest

from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.commands.tune import search_overrides, usual_space
from pgdyno.errors import UsageError
from pgdyno.plan import Plan, load_plan
from pgdyno.plan.output.executed_code import list_executed_code
from pgdyno.plan.output.plan_output import search_lines
from pgdyno.plan.sweeps.settings_space import read_choice
from pgdyno.records import Point
from tests.present import present
from tests.unit.plan_sample import load, loaded, problems, small_plan, the_problem

PLAN = small_plan(sweep="clients = 4", trial='duration = "1s"')
SEARCH = """\
[search]
find = "settings"
over.random_page_cost = "1..4"
"""
JIT = 'over.jit = ["off", "on"]\n'
PEAK = PLAN.replace("clients = 4", "clients = [1, 4]").replace('"1s"', '"1s"\nrepeats = 2')
DSN = ('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db"')
OVER = 'over.random_page_cost = "1..4"'
STAGING = ('kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db"\nrestart = "systemctl restart pg"')


def written(folder: Path, text: str) -> str:
    (folder / "tuned.toml").write_text(text)
    return str(folder / "tuned.toml")


def search_plan(over: str) -> str:
    """Returns a plan that searches settings of a server that a command restarts."""
    return PLAN.replace(*STAGING) + SEARCH.replace(OVER, over)


def test_pairs_and_a_fresh_instance_are_the_default(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN + SEARCH)
    assert (plan.trial.repeats, plan.target["pg18"].instance_count) == (8, 2)
    assert Plan.from_resolved(plan.as_resolved()).trial.repeats == 8
    kept = load(tmp_path, (PLAN + SEARCH).replace('"18"', '"18"\nkeep_data = true'))
    assert kept.target["pg18"].instance_count == 1
    assert search_lines(plan) == [
        "searches for better settings: random_page_cost 1..4; 8 pairs per comparison that confirms them"
    ]
    # a condition is part of the plan
    over = JIT + 'over.auto_explain.log_min_duration = "1..9"\nwhen.auto_explain.log_min_duration = \'jit == "on"\'\n'
    plan = load(tmp_path, PLAN + SEARCH + over)
    assert present(plan.search).when == {"auto_explain.log_min_duration": 'jit == "on"'}
    assert 'auto_explain.log_min_duration 1..9 when jit == "on"; 8 pairs' in search_lines(plan)[0]


PRICE = '[price]\ncurrency = "EUR"\ndate = 2026-11-01\nyears = 3\n[price.target.pg18]\nhourly = [{ amount = 0.5 }]\n'


def test_the_price_of_a_million_is_a_goal_without_a_rate(tmp_path: Path) -> None:
    text = PLAN + SEARCH + 'goal = "price"\n' + PRICE
    assert load(tmp_path, text).price is not None
    problem = the_problem(tmp_path, text.replace("clients = 4", "clients = 4\nrate = 10"))
    assert problem.message == "is decided by the rate, which settings do not change"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PLAN + '[search]\nfind = "settings"\n', "lacks the settings"),
        (PLAN + SEARCH.replace("1..4", "4..1"), "ends before it begins"),
        (PLAN + SEARCH.replace("random_page_cost", "data_directory"), "cannot be searched: pgdyno creates the cluster"),
        (PLAN.replace("clients = 4", "clients = [4, 8]") + SEARCH, "has 2 points"),
        (PLAN.replace('"1s"', '"1s"\nrepeats = 5') + SEARCH, "at least 6 pairs"),
        (PLAN.replace('"1s"', '"1s"\nrepeats = "6..9"') + SEARCH, "a search has no range of repeats"),
        (PLAN + SEARCH + 'budget = "soon"\n', "is not a duration"),
        (PLAN + SEARCH + 'goal = "fast"\n', '"tps", "p99", "mean" or "price"'),
        (PLAN + SEARCH + 'goal = "price"\n', 'has no price, and goal = "price" needs it'),
        (PLAN + SEARCH + 'when.jit = "random_page_cost > 2"\n', "jit is not in search.over"),
        (PLAN + SEARCH + 'when.random_page_cost = "jit > 2"\n', "jit is not in search.over"),
        (PLAN + SEARCH + 'when.random_page_cost = "random_page_cost > 2"\n', "which has a condition itself"),
        (PLAN + SEARCH + JIT + 'when.jit = "random_page_cost"\n', "is not a condition"),
        (PLAN + SEARCH + JIT + 'when.random_page_cost = "jit > 2"\n', 'jit is "off", not a number'),
        (PLAN + SEARCH + JIT + 'when.random_page_cost = "jit = 2"\n', '"jit = 2" is not a condition'),
        (PEAK + '[search]\nfind = "peak"\nwhen.jit = "clients > 2"\n', 'is valid only with find = "settings"'),
        (PEAK + SEARCH.replace("settings", "peak"), 'is valid only with find = "settings"'),
        (PLAN.replace("[workload]", '[target.b]\nkind = "embedded"\nversion = "17"\n[workload]') + SEARCH, "2 targets"),
        (PLAN.replace(*DSN) + SEARCH.replace("random_page_cost", "shared_buffers"), "only over the network"),
        (PLAN.replace(*DSN) + SEARCH.replace("random_page_cost", "max_wal_size"), "only over the network"),
    ],
)
def test_a_plan_that_cannot_be_searched_is_refused(tmp_path: Path, text: str, words: str) -> None:
    problem = the_problem(tmp_path, text)
    assert words in problem.message

    twice = problems(tmp_path, PLAN + SEARCH + 'over.RANDOM_page_cost = "1..2"\n')
    assert "search.over.RANDOM_page_cost" in [each.path for each in twice]


def test_a_server_that_pgdyno_did_not_start_gets_settings_of_sessions_only(tmp_path: Path) -> None:
    point = Point(clients=4, settings={"random_page_cost": "1.1"})
    theirs = load(tmp_path, PLAN.replace(*DSN) + SEARCH)
    assert theirs.server_settings("pg18", point) == {}
    assert theirs.session_settings("pg18", point) == {"random_page_cost": "1.1"}
    ours = load(tmp_path, PLAN + SEARCH)
    assert ours.server_settings("pg18", point) == {"random_page_cost": "1.1"}
    assert ours.session_settings("pg18", point) == {}


def test_only_what_no_session_can_set_changes_a_server_that_restarts(tmp_path: Path) -> None:
    mixed = f'{OVER}\nover.Shared_Buffers = "16MB..64MB"\nover.max_wal_size = "1GB..4GB"'
    plan = load(tmp_path, search_plan(mixed))
    point = Point(clients=4, settings={"random_page_cost": "2", "Shared_Buffers": "32MB", "max_wal_size": "2GB"})
    assert plan.system_names == {"Shared_Buffers", "max_wal_size"}
    assert plan.system_settings(point) == {"Shared_Buffers": "32MB", "max_wal_size": "2GB"}
    assert plan.session_settings("pg18", point) == {"random_page_cost": "2"}
    assert plan.server_settings("pg18", point) == {}
    assert Plan.from_resolved(plan.as_resolved()).system_names == plan.system_names
    assert load(tmp_path, search_plan(OVER)).system_names == frozenset()
    assert load(tmp_path, PLAN + SEARCH.replace("random_page_cost", "cpu_tuple_cost")).system_names == frozenset()
    assert [(each.field, each.what) for each in list_executed_code(loaded(tmp_path, search_plan(OVER)))] == [
        ("target.pg18.restart", "/bin/sh -c 'systemctl restart pg'")
    ]


def test_a_restart_needs_its_command_and_one_server_and_a_reload_does_not(tmp_path: Path) -> None:
    text = search_plan('over.shared_buffers = "16MB..64MB"')
    for old, new, words in (
        ("systemctl restart pg", "", "it takes effect when the server starts, and restart is empty"),
        ("restart =", 'other_dsns = ["host=db2"]\nrestart =', "cannot be combined with other_dsns"),
    ):
        assert words in the_problem(tmp_path, text.replace(old, new)).message
    reloads = search_plan('over.max_wal_size = "1GB..4GB"').replace("systemctl restart pg", "")
    assert load(tmp_path, reloads).system_names == {"max_wal_size"}


def test_a_budget_shortens_no_trial_of_the_search(tmp_path: Path) -> None:
    of = loaded(tmp_path, PLAN + SEARCH)
    found = within_budget(of, "2h")
    assert found.budget is None
    assert (present(found.plan.search).budget, found.plan.trial.duration) == ("2h", 1.0)
    for budget in ("soon", "0s"):
        with pytest.raises(UsageError, match="--budget"):
            within_budget(of, budget)


def test_tune_adds_a_search_to_a_plan_without_one(tmp_path: Path) -> None:
    for dsn in (False, True):
        path = written(tmp_path, PLAN.replace(*DSN) if dsn else PLAN)
        given = search_overrides(path, ["sweep.clients=2"], None)
        plan = load_plan(path, given).plan
        assert ("shared_buffers" in present(plan.search).over) is not dsn
        assert plan.points()[0].clients == 2


def test_tune_keeps_a_search_and_refuses_another(tmp_path: Path) -> None:
    assert search_overrides(written(tmp_path, PLAN + SEARCH), [], None) == []
    with pytest.raises(UsageError, match="searches for the peak"):
        search_overrides(written(tmp_path, f'{PEAK}[search]\nfind = "peak"\n'), [], None)
    # the usual space fits into the memory
    for memory_mb in (512, 4096, 1 << 20):
        for value in usual_space(memory_mb << 20, by_session=False).values():
            read_choice(value)
