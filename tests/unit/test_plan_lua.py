"""Plans whose transactions a Lua script decides: keys, errors, and the engine's options."""

from pathlib import Path

import pytest

from pgdyno.errors import PlanError
from pgdyno.plan import load_plan, planned_trials
from pgdyno.plan.model import Plan
from pgdyno.run.engine import trial_options
from tests.unit.plan_sample import load, problems, the_problem

HEAD = """\
name = "lua"
[target.pg18]
kind = "embedded"
version = "18"
[sweep]
clients = 2
variables.range_size = [10, 20]
[trial]
duration = "1s"
[workload]
"""


def loaded(folder: Path, workload: str) -> Plan:
    return load(folder, HEAD + workload)


def test_a_workload_has_its_tables_and_its_options(tmp_path: Path) -> None:
    plan = loaded(tmp_path, 'name = "oltp-read-write"\ntables = 4\noptions = { skip_trx = true, point_selects = 3 }\n')
    assert plan.workload.dataset == "sbtest"
    assert plan.workload.engine_options() == [
        "--workload=oltp-read-write",
        "--lua-opt=skip_trx=on",
        "--lua-opt=point_selects=3",
    ]
    second = planned_trials(plan)[1]
    options = trial_options(plan, second.point, 1, tmp_path)
    assert {"--lua-opt=tables=4", "--lua-opt=table_size=10000", "--lua-opt=range_size=20"} <= set(options)
    assert "--report-per-command" in options
    assert not any(option.startswith(("--define", "--protocol")) for option in options)


def test_a_script_needs_no_dataset(tmp_path: Path) -> None:
    plan = loaded(tmp_path, 'lua = "mine.lua"\n')
    assert plan.workload.dataset == "none"
    assert plan.workload.engine_options() == ["--lua=mine.lua"]
    again = Plan.from_resolved(plan.as_resolved())
    assert again.workload == plan.workload


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ('lua = "a.lua"\nname = "oltp-insert"\n', "give one of scripts, lua and name"),
        ('lua = "a.lua"\nscripts = ["select-only"]\n', "give one of scripts, lua and name"),
        ('scripts = ["select-only"]\noptions = { a = 1 }\n', "unknown key"),
        ('lua = "a.lua"\nvariables = { a = 1 }\n', "a Lua script takes options"),
        ('lua = "a.lua"\noptions = { pgsql_host = "a" }\n', "pgsql_host names a server, which [target] does"),
        ('name = "oltp-insert"\noptions = { "pgsql-db" = "a" }\n', "pgsql-db names a server, which [target] does"),
    ],
)
def test_senseless_keys_are_refused(tmp_path: Path, workload: str, message: str) -> None:
    assert any(message in problem.message for problem in problems(tmp_path, HEAD + workload))


def test_the_name_of_a_script_is_no_workload(tmp_path: Path) -> None:
    problem = the_problem(tmp_path, HEAD + 'name = "select-only"\nscale = 3\n')
    assert problem.message == '"select-only" is a script, not a workload'
    assert problem.hint == 'set scripts = ["select-only"] instead'


@pytest.mark.parametrize("points", [False, True])
def test_how_statements_are_sent_is_the_scripts_business(tmp_path: Path, points: bool) -> None:
    for workload in ('lua = "mine.lua"\n', 'name = "oltp-insert"\n'):
        given = 'protocol = "prepared"\n[trial]'
        place = f"[[sweep.points]]\nclients = 4\n{given}" if points else given
        found = problems(tmp_path, (HEAD + workload).replace("[trial]", place))
        message = "a Lua script itself decides how to send its statements"
        problem = next(problem for problem in found if message in problem.message)
        assert problem.path.startswith("sweep.points" if points else "sweep.protocol")
        assert problem.line is not None
        assert "db_ps_mode" in str(problem.hint)


def test_other_plans_say_nothing_of_it(tmp_path: Path) -> None:
    workload = loaded(tmp_path, 'scripts = ["select-only"]\n').as_resolved()["workload"]
    assert not {"lua", "name", "options"} & workload.keys()


def test_a_sweep_does_not_change_the_server(tmp_path: Path) -> None:
    found = problems(tmp_path, HEAD.replace("range_size = [10, 20]", "pgsql_port = [5432, 5433]") + 'lua = "a.lua"\n')
    assert any(problem.message.startswith("pgsql_port names a server") for problem in found)


def test_a_ledger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lua.toml"
    path.write_text(HEAD + 'lua = "a.lua"\n')
    (tmp_path / "a.lua").write_text("function event() end -- :ledger_seq\n")
    with pytest.raises(PlanError) as caught:
        load_plan(path, ["trial.ledger=true"])
    assert [problem.path for problem in caught.value.problems] == ["trial.ledger"]
