"""`[replica_load]`, by which earlier plans load standbys: it is read as a group in the background."""

from pathlib import Path

import pytest

from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.output.plan_output import in_each_trial
from pgdyno.plan.scenario.loads import background_groups
from pgdyno.plan.workload import script_files
from pgdyno.records import Point
from pgdyno.report.plan_toml import plan_toml
from pgdyno.run.engine import background_options
from tests.unit.plan_sample import load, the_problem

PLAN = """\
name = "mine"
[target.a]
kind = "embedded"
version = "18"
[target.a.replicas]
count = 2
[workload]
scripts = ["tpcb-like"]
variables = { range = 5 }
[sweep]
clients = 1
variables.range = [7]
[trial]
duration = "10s"
[replica_load]
"""
LOAD = 'scripts = ["select-only@2", "read.sql"]\nclients = 5\nrate = 100\nprotocol = "prepared"\n'


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;\n")


def test_a_load_is_read_shown_and_resolved(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN + LOAD)
    (group,) = plan.group
    assert (group.name, group.on, group.background, group.has_trial) == ("standbys", "standby", True, False)
    assert script_files(plan) == ["read.sql"]
    said = "select-only@2, read.sql; 5 clients; 100 transactions a second; on the standby; in the background"
    assert in_each_trial(plan) == [f"group standbys: {said}"]
    assert [(each.point.group, each.point.clients) for each in planned_trials(plan)] == [(None, 1)]
    assert plan.workload.scripts == ["tpcb-like"]
    resolved = plan.as_resolved()
    assert Plan.from_resolved(resolved).as_resolved() == resolved
    # a run folder of an earlier version
    before = {"scripts": group.scripts, "clients": 5, "protocol": "prepared", "rate": 100.0}
    older = {key: value for key, value in resolved.items() if key != "group"} | {"replica_load": before}
    assert Plan.from_resolved(older).as_resolved() == resolved
    assert load(tmp_path, plan_toml(resolved)).as_resolved() == resolved
    assert load(tmp_path, plan_toml(older)).as_resolved() == resolved
    assert "group" not in load(tmp_path, PLAN.replace("[replica_load]\n", "")).as_resolved()
    assert load(tmp_path, PLAN + LOAD.replace('protocol = "prepared"\n', "")).group[0].protocol == "simple"


def test_the_engine_gets_its_options_and_the_variables(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN + LOAD)
    at = Point(clients=1, workers=1, rate=7.0, variables={"range": "7"})
    (group,) = background_groups(plan, at)
    options = background_options(plan, group, at, 3, tmp_path)
    assert {"--client=5", "--rate=100.0", "--protocol=prepared", "--random-seed=3", "--define=range=7"} <= set(options)
    assert options[:4] == ["-b", "select-only@2", "-f", "read.sql"]
    assert not any(each.startswith(("--jobs", "--warmup=1")) for each in options)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (("[target.a.replicas]\ncount = 2\n", ""), "replica_load.on", "target a has no standby of its own"),
        (("select-only@2", "simple-update"), "replica_load.scripts[0]", "writes, and a standby is read-only"),
        (("select-only@2", "select-olny"), "replica_load.scripts[0]", "neither a built-in script nor a file"),
        (("select-only@2", "select-only@x"), "replica_load.scripts[0]", "must be a whole number"),
        (("rate = 100", "rate = 0"), "replica_load.rate", "must be"),
        (("clients = 5\n", "clients = -5\n"), "replica_load.clients", "must be"),
        (("clients = 5\n", "client = 5\nclients = 5\n"), "replica_load.client", "unknown key"),
    ],
)
def test_errors_are_reported_with_their_line(tmp_path: Path, change: tuple[str, str], field: str, message: str) -> None:
    problem = the_problem(tmp_path, (PLAN + LOAD).replace(*change))
    assert problem.path == field
    assert message in problem.message
    assert problem.line is not None


def test_a_server_over_the_network_has_none(tmp_path: Path) -> None:
    text = PLAN.replace("[target.a.replicas]\ncount = 2\n", "").replace(
        'kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db.example.net"'
    )
    problem = the_problem(tmp_path, text + LOAD)
    assert (problem.path, problem.line) == ("replica_load.on", text.count("\n"))
    assert "target a has no standby of its own" in problem.message
