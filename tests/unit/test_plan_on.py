"""`--on NAME`: other targets instead of the plan's."""

from pathlib import Path

import pytest

from pgdyno.commands.support.plan_budget import within_budget
from pgdyno.errors import PlanError, UsageError
from pgdyno.plan import load_plan
from pgdyno.targets.dsn.schema import DsnTarget
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets.pool.schema import PoolTarget

PLAN = """\
name = "two"
[target.rds]
kind = "rds"
version = "17"
instance = "db.m7g.large"
[on.small.mine]
kind = "embedded"
version = "17"
settings = { work_mem = "8MB" }
[on.wrong.mine]
kind = "embedded"
vershun = "17"
[workload]
scripts = ["select-only"]
[sweep]
clients = 1
[trial]
duration = "5s"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "two.toml"
    file.write_text(PLAN)
    return file


def test_without_the_option_the_plan_s_targets_are_used(plan: Path) -> None:
    loaded = load_plan(plan).plan
    assert list(loaded.target) == ["rds"]
    # the others are no part of what runs
    assert "on" not in loaded.as_resolved()


def test_others_of_the_plan_with_overrides_of_their_own(plan: Path) -> None:
    chosen = load_plan(plan, ["target.mine.version=16"], "small").plan
    (target,) = chosen.target.values()
    assert isinstance(target, EmbeddedTarget)
    assert (list(chosen.target), target.version, target.settings) == (["mine"], "16", {"work_mem": "8MB"})


def test_every_plan_has_a_server_of_this_machine_and_one_that_libpq_finds(plan: Path) -> None:
    (here,) = load_plan(plan, on="embedded").plan.target.values()
    assert isinstance(here, EmbeddedTarget)
    (there,) = load_plan(plan, on="dsn").plan.target.values()
    assert isinstance(there, DsnTarget)
    assert there.dsn == ""
    hosts = """target.host.hosts=[{host="db1"}]"""
    (borrowed,) = load_plan(plan, [hosts], "pool").plan.target.values()
    assert isinstance(borrowed, PoolTarget)
    assert [each.host for each in borrowed.hosts] == ["db1"]


def test_a_pool_needs_the_names_of_its_hosts(plan: Path) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(plan, on="pool")
    assert [(each.path, each.hint) for each in caught.value.problems] == [
        ("target.host.hosts", 'such as hosts = [{ host = "db1.example.net", user = "root" }]')
    ]


def test_a_mistake_in_them_is_told_with_its_line(plan: Path) -> None:
    with pytest.raises(PlanError) as caught:
        load_plan(plan, on="wrong")
    assert [(each.path, each.line) for each in caught.value.problems if "vershun" in each.path] == [
        ("target.mine.vershun", 12)
    ]
    with pytest.raises(UsageError) as usage:
        load_plan(plan, on="nowhere")
    assert usage.value.hint is not None
    assert "available: dsn, embedded, pool, small, wrong" in usage.value.hint


@pytest.mark.parametrize("name", ["aurora-sysbench", "graviton-pgbench", "pgecons-queries", "pgecons-tprocc"])
def test_a_plan_of_the_catalogue_that_rents_can_be_small(name: str) -> None:
    small = within_budget(load_plan(name, on="embedded"), "5m").plan
    assert all(isinstance(each, EmbeddedTarget) for each in small.target.values())
    assert load_plan(name, on="dsn").plan.points()
    (host,) = load_plan(name, ['target.host.hosts=[{host="db1"}]'], "pool").plan.target.values()
    assert isinstance(host, PoolTarget)
    assert host.version == "17"
