"""`[replica_load]` in a plan: permitted values, and the resulting loads."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan import Plan, load_plan
from pgdyno.plan.optional_sections import shares
from pgdyno.plan.output.plan_output import in_each_trial
from pgdyno.plan.workload import script_files
from pgdyno.records import Point
from pgdyno.report.plan_toml import plan_toml
from pgdyno.run.engine import replica_options

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


def load(folder: Path, text: str) -> Plan:
    (folder / "read.sql").write_text("SELECT 1;\n")
    path = folder / "mine.toml"
    path.write_text(text)
    return load_plan(path).plan


def test_a_load_is_read_shown_and_resolved(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN + LOAD)
    assert plan.replica_load is not None
    assert script_files(plan) == ["read.sql"]
    load_words = "select-only@2, read.sql, 5 clients at 100 transactions per second, prepared protocol"
    said = f"on the replicas at the same time: {load_words}"
    assert in_each_trial(plan) == [said]
    resolved = plan.as_resolved()
    assert Plan.from_resolved(resolved).as_resolved() == resolved
    assert load(tmp_path, plan_toml(resolved)).as_resolved() == resolved
    assert "replica_load" not in load(tmp_path, PLAN.replace("[replica_load]\n", "")).as_resolved()


def test_the_engine_gets_its_share_and_the_variables(tmp_path: Path) -> None:
    plan = load(tmp_path, PLAN + LOAD)
    options = replica_options(plan, Point(clients=1, variables={"range": "7"}), 3, 2, 40.0)
    assert {"--client=2", "--rate=40.0", "--protocol=prepared", "--random-seed=3", "--define=range=7"} <= set(options)


@pytest.mark.parametrize(
    ("clients", "standbys", "each"), [(5, 2, [3, 2]), (4, 2, [2, 2]), (3, 3, [1, 1, 1]), (7, 3, [3, 2, 2])]
)
def test_clients_are_shared_out_evenly(clients: int, standbys: int, each: list[int]) -> None:
    assert shares(clients, standbys) == each


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ((LOAD, LOAD.replace("5", "1")), "replica_load.clients", "fewer than the 2 replicas of target a"),
        (("[target.a.replicas]\ncount = 2\n", ""), "replica_load", "is not possible at target a: it has no replica"),
        (("select-only@2", "select-olny"), "replica_load.scripts[0]", "neither a built-in script nor a file"),
        (("select-only@2", "select-only@x"), "replica_load.scripts[0]", "must be a whole number"),
        (("rate = 100", "rate = 0"), "replica_load.rate", "must be"),
        (("clients = 5\n", ""), "replica_load.clients", "is missing"),
        (("clients = 5\n", "client = 5\nclients = 5\n"), "replica_load.client", "unknown key"),
    ],
)
def test_errors_are_reported_with_their_line(tmp_path: Path, change: tuple[str, str], field: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        load(tmp_path, (PLAN + LOAD).replace(*change))
    (problem,) = caught.value.problems
    assert problem.path == field
    assert message in problem.message
    assert problem.line is not None


def test_a_server_over_the_network_has_none(tmp_path: Path) -> None:
    text = PLAN.replace("[target.a.replicas]\ncount = 2\n", "").replace(
        'kind = "embedded"\nversion = "18"', 'kind = "dsn"\ndsn = "host=db.example.net"'
    )
    with pytest.raises(PlanError) as caught:
        load(tmp_path, text + LOAD)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("replica_load", text.count("\n"))
    assert "pgdyno does not know its standbys" in problem.message
