"""Workloads in plans (Lua, sbtest, TPC-C): their keys, mistakes with their lines, and the engine's options."""

from pathlib import Path

import pytest

from pgdyno.plan import Plan, planned_trials
from pgdyno.plan.output.plan_output import before_each_trial
from pgdyno.plan.time_budget.time_and_disk import dataset_bytes
from pgdyno.run.engine import trial_options
from tests.unit.plan_sample import load, problems, refuse, small_plan, the_problem

# ---- Lua ----

LUA = small_plan("", "clients = 2\nvariables.range_size = [10, 20]").replace("[workload]\n", "") + "[workload]\n"


def test_a_lua_workload_has_its_tables_and_its_options(tmp_path: Path) -> None:
    given = 'name = "oltp-read-write"\ntables = 4\noptions = { skip_trx = true, point_selects = 3 }\n'
    plan = load(tmp_path, LUA + given)
    assert plan.workload.dataset == "sbtest"
    assert plan.workload.engine_options() == [
        "--workload=oltp-read-write", "--lua-opt=skip_trx=on", "--lua-opt=point_selects=3",
    ]  # fmt: skip
    second = planned_trials(plan)[1]
    options = trial_options(plan, second.point, 1, tmp_path)
    assert {"--lua-opt=tables=4", "--lua-opt=table_size=10000", "--lua-opt=range_size=20"} <= set(options)
    assert "--report-per-command" in options
    assert not any(option.startswith(("--define", "--protocol")) for option in options)
    script = load(tmp_path, LUA + 'lua = "mine.lua"\n').workload
    assert (script.dataset, script.engine_options()) == ("none", ["--lua=mine.lua"])


def test_keys_that_do_not_fit_lua_are_refused(tmp_path: Path) -> None:
    for workload, message in (
        ('lua = "a.lua"\nname = "oltp-insert"\n', "give one of scripts, lua and name"),
        ('lua = "a.lua"\nscripts = ["select-only"]\n', "give one of scripts, lua and name"),
        ('scripts = ["select-only"]\noptions = { a = 1 }\n', "unknown key"),
        ('lua = "a.lua"\nvariables = { a = 1 }\n', "a Lua script takes options"),
        ('lua = "a.lua"\noptions = { pgsql_host = "a" }\n', "pgsql_host names a server, which [target] does"),
        ('name = "oltp-insert"\noptions = { "pgsql-db" = "a" }\n', "pgsql-db names a server, which [target] does"),
        ('lua = "a.lua"\n[[sweep.points]]\nclients = 2\nvariables.pgsql_port = 1\n', "pgsql_port names a server"),
        ('name = "select-only"\nscale = 3\n', '"select-only" is a script, not a workload'),
        ('lua = "a.lua"\n[[sweep.points]]\nclients = 4\nprotocol = "simple"\n', "a Lua script itself decides how to"),
    ):
        assert any(message in problem.message for problem in problems(tmp_path, LUA + workload))


def test_a_lua_script_decides_how_statements_are_sent_and_has_no_ledger(tmp_path: Path) -> None:
    for workload in ('lua = "mine.lua"\n', 'name = "oltp-insert"\n'):
        text = (LUA + workload).replace("[trial]", 'protocol = "prepared"\n[trial]')
        refuse(tmp_path, text, "sweep.protocol", "a Lua script itself decides how to send", "db_ps_mode", line=9)
    hint = the_problem(tmp_path, LUA + 'name = "select-only"\nscale = 3\n').hint
    assert hint == 'set scripts = ["select-only"] instead'
    (tmp_path / "a.lua").write_text("function event() end -- :ledger_seq\n")
    assert the_problem(tmp_path, LUA + 'lua = "a.lua"\n', "trial.ledger=true").path == "trial.ledger"


# ---- sbtest ----

SBTEST = small_plan('scripts = ["point.sql"]\ndataset = "sbtest"\ntables = 10\ntable_size = 100000', "clients = 2")


@pytest.fixture(autouse=True)
def script(tmp_path: Path) -> None:
    (tmp_path / "point.sql").write_text("\\set id random(1, :table_size)\nSELECT c FROM sbtest1 WHERE id = :id;\n")


def test_the_size_of_sbtest_is_tables_and_rows_in_each(tmp_path: Path) -> None:
    plan = load(tmp_path, SBTEST)
    resolved = plan.as_resolved()["workload"]
    assert (resolved["tables"], resolved["table_size"]) == (10, 100_000)
    assert "scale" not in resolved
    (trial,) = planned_trials(plan)
    assert trial.point.scale == 100_000
    assert before_each_trial(plan) == "before each trial: vacuum every table; checkpoint"
    options = trial_options(plan, trial.point, 1, tmp_path)
    assert {"--define=tables=10", "--define=table_size=100000"} <= set(options)
    assert not any(option.startswith("--scale") for option in options)
    # sysbench's 10 tables of 100,000 rows took 254,795,776 bytes when they were loaded
    assert dataset_bytes(plan, 100_000) == pytest.approx(254_795_776, rel=0.05)
    swept = load(tmp_path, SBTEST, "sweep.scale=[500, 5000]")
    assert [trial.point.scale for trial in planned_trials(swept)] == [500, 5000]
    assert "--define=table_size=5000" in trial_options(swept, planned_trials(swept)[1].point, 1, tmp_path)


def test_keys_that_do_not_fit_sbtest_are_refused(tmp_path: Path) -> None:
    for old, new, said in (
        ("tables = 10", "tables = 10\nscale = 3", "workload.scale: does not apply to sbtest"),
        ('"sbtest"', '"pgbench"', "workload.tables: is valid only with dataset"),
        ('"sbtest"', '"none"', "workload.table_size: is valid only with dataset"),
        ("point.sql", "tpcb-like", "needs pgbench's tables, but dataset is sbtest"),
        ("tables = 10", "tables = 0", "workload.tables: "),
        ("100000", "2147483648", "workload.table_size: "),
        ("clients = 2", "clients = 2\nscale = 2147483648", "sweep.scale: scale sets the rows of each sbtest table, at"),
    ):
        found = [f"{each.path}: {each.message}" for each in problems(tmp_path, SBTEST.replace(old, new))]
        assert any(said in each for each in found), found


# ---- TPC-C ----


def tpcc(workload: str = "") -> str:
    return small_plan(f'name = "tpcc"\nwarehouses = 3\n{workload}', "clients = 4")


def test_tpcc_says_scripts_dataset_and_how_data_is_brought_back(tmp_path: Path) -> None:
    read = load(tmp_path, tpcc('variant = "sql"'))
    workload = read.workload
    assert (workload.scripts, workload.dataset, workload.scale) == (["tpcc"], "tpcc", 3)
    assert read.reset.method == "template"
    assert read.points()[0].scale == 3
    assert workload.engine_options() == ["--workload=tpcc", "--tpcc-profile=hammerdb-6.1.1", "--tpcc-variant=sql"]
    options = trial_options(read, read.points()[0], seed=1, phases=tmp_path)
    assert not any(option.startswith("--protocol") for option in options)
    assert read.as_resolved()["workload"]["name"] == "tpcc"


def test_hammerdb_is_the_newest_release_and_of_an_earlier_run_the_one_that_rolled_back(tmp_path: Path) -> None:
    for profile in ("", 'profile = "hammerdb"', 'profile = "hammerdb-6.1.1"'):
        resolved = load(tmp_path, tpcc(profile)).as_resolved()
        assert resolved["workload"]["profile"] == "hammerdb-6.1.1"
    resolved["workload"]["profile"] = "hammerdb"
    assert Plan.from_resolved(resolved).workload.dataset_options["profile"] == "hammerdb-6.1"
    assert load(tmp_path, tpcc('profile = "spec"')).workload.dataset_options["profile"] == "spec"


def test_keys_that_do_not_fit_tpcc_are_refused(tmp_path: Path) -> None:
    for place, keys, where, said, hint in (
        ("[sweep]", 'scripts = ["tpcb-like"]\n[sweep]', "workload.scripts", "defines scripts and dataset itself", ""),
        ("[sweep]", 'profile = "tpc"\n[sweep]', "workload.profile", "hammerdb", ""),
        ("[sweep]", "variables = { x = 1 }\n[sweep]", "workload.variables", "has no scripts", ""),
        ("[sweep]", "scale = 4\n[sweep]", "workload.scale", "", "remove one"),
        ("[sweep]", '[sweep]\nprotocol = ["simple", "prepared"]', "sweep.protocol", "", "workload.variant"),
        ("[sweep]", "[sweep]\nvariables.x = [1, 2]", "sweep.variables", "", ""),
        ("[trial]", '[[sweep.points]]\nprotocol = "prepared"\n[trial]', "sweep.points[0].protocol", "variant", ""),
        ("[trial]", '[reset]\nmethod = "vacuum"\n[trial]', "reset.method", "as the previous trial left them", ""),
        ("[trial]", "[trial]\nledger = true", "trial.ledger", "", "tpcb-like"),
    ):
        refuse(tmp_path, tpcc().replace(place, keys), where, said, hint)


def test_phases_of_tpcc_name_its_transactions(tmp_path: Path) -> None:
    phase = '[[phase]]\nname = "a"\nduration = "5s"\nmix = { "New-Order" = 1, "Payment" = 1 }'
    read = load(tmp_path, tpcc().replace('duration = "10s"', "repeats = 1") + phase)
    assert read.phase[0].mix == {"New-Order": 1, "Payment": 1}
