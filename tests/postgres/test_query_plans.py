"""Query plans that runs keep: EXPLAIN before every trial, never executed, on servers of several versions."""

import sys
from pathlib import Path

import pytest

from pgdyno.audit.run_rules import audit
from pgdyno.errors import TargetError
from pgdyno.probe.explain import explain, shape_of
from pgdyno.records import Outcome
from pgdyno.report.full_report import changed_plans, whole_report
from pgdyno.store import RunData, load_run
from pgdyno.targets import Home, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.json_schema import validated
from tests.postgres.conftest import FAST
from tests.postgres.runs import pgdyno, the_run

TABLE = """
    CREATE TABLE stock (id int PRIMARY KEY, kind int, amount int);
    INSERT INTO stock SELECT i, i % 100, 0 FROM generate_series(1, 2000) i;
    ANALYZE stock
"""
BY_KIND = "SELECT sum(amount) FROM stock WHERE kind = $1"
UPDATE = "UPDATE stock SET amount = amount + 1 WHERE id = $1"
HEAD = 'name = "planned"\n[target.pg]\nkind = "embedded"\nversion = "18"\nsettings = { fsync = "off" }\n'
PLAN = """\
[hooks]
before_trial = HOOK
[workload]
dataset = "none"
scripts = ["stock.sql"]
[sweep]
clients = [1]
SETTINGS
[trial]
transactions = 20
repeats = 2
[probe]
plans = true
"""
SCRIPT = """\
\\set kind random(1, 100)
BEGIN;
SELECT sum(amount) FROM stock WHERE kind = :kind;
UPDATE stock SET amount = amount + 1 WHERE id = :kind;
END;
"""
TEMPORARY = "CREATE TEMPORARY TABLE IF NOT EXISTS mine (i int);\nSELECT count(*) FROM mine;\n"
HOOK = """\
import os
import psycopg

with psycopg.connect("", autocommit=True) as connection:
    connection.execute("DROP TABLE IF EXISTS stock")
    connection.execute('''SETUP''')
    if CONDITION:
        connection.execute("CREATE INDEX stock_kind ON stock (kind)")
"""


def run_plan(home: Home, folder: Path, text: str) -> RunData:
    (folder / "planned.toml").write_text(HEAD + text)
    done = pgdyno(home, folder, "run", "planned.toml")
    assert done.returncode == 0, done.stderr
    return load_run(the_run(folder))


def run(home: Home, folder: Path, indexed_if: str, settings: str = "", script: str = SCRIPT) -> RunData:
    (folder / "stock.sql").write_text(script)
    (folder / "hook.py").write_text(HOOK.replace("SETUP", TABLE).replace("CONDITION", indexed_if))
    text = PLAN.replace("HOOK", f'["{sys.executable}", "hook.py"]').replace("SETTINGS", settings)
    return run_plan(home, folder, text)


def test_arms_with_other_plans_are_reported_with_what_that_cost(warm_home: Home, tmp_path: Path) -> None:
    # both arms have the index; only the sessions of one may use it
    settings = 'session_settings = { enable_bitmapscan = ["on", "off"] }'
    data = run(warm_home, tmp_path, "True", settings, SCRIPT + TEMPORARY)
    kept = {each.text: each for each in data.query_plans()}
    assert [each for each in data.manifest.notes if "query plan" in each] == [
        'no query plan of SELECT count(*) FROM mine: relation "mine" does not exist'
    ]
    of_one_kind = (each for each in data.query_plans() if each.text == BY_KIND)
    # the order of the arms is drawn, and so is that of their plans
    scan, bitmap = sorted(of_one_kind, key=lambda each: "Bitmap Index Scan on stock_kind" in each.plan)
    assert "Seq Scan on stock" in scan.plan
    assert "Bitmap Index Scan on stock_kind" in bitmap.plan
    assert {place[1:] for each in (bitmap, scan) for place in each.places} == {(0, 2)}
    assert len(kept[UPDATE].places) == len(data.trials) == 4
    assert "Index Scan using stock_pkey" in kept[UPDATE].plan
    assert "cost=" not in "".join(each.plan for each in kept.values())
    assert {trial.outcome for trial in data.trials} == {Outcome.FINISHED}

    report = whole_report([data])
    (change,) = report.draft.extras.plan_changes
    assert (change.text, change.clients) == (BY_KIND, 1)
    assert change.base.name != change.other.name
    assert (change.base.plan, change.other.plan) == (bitmap.plan, scan.plan)
    assert change.base.mean_ms
    assert change.other.mean_ms
    assert "Bitmap Index Scan on stock_kind" in report.html()
    assert "Statements whose query plan" in " ".join(report.markdown().split())
    assert not [each for each in audit(data) if each.rule == "plan-differs"]
    printed = " ".join(pgdyno(warm_home, tmp_path, "compare", str(data.folder.path), "--force").stdout.split())
    assert "Statements whose query plan (EXPLAIN before the trials) differs between two arms: 1." in printed
    assert BY_KIND in printed
    reverse = ["compare", str(data.folder.path), "--force", "--base", "off", "--json"]
    (turned,) = validated("compare", pgdyno(warm_home, tmp_path, *reverse).stdout)["query_plans"]
    assert (turned["base"]["plan"], turned["other"]["plan"]) == (change.other.plan, change.base.plan)


@pytest.mark.long
def test_two_runs_with_other_plans_are_compared(warm_home: Home, tmp_path: Path) -> None:
    runs = []
    for name, indexed in (("with", "True"), ("without", "False")):
        (tmp_path / name).mkdir()
        runs.append(run(warm_home, tmp_path / name, indexed))
    (change,) = changed_plans(runs)
    assert change.text == BY_KIND
    assert "stock_kind" in change.base.plan
    assert "Seq Scan on stock" in change.other.plan
    paths = [str(each.folder.path) for each in runs]
    assert BY_KIND in " ".join(pgdyno(warm_home, tmp_path, "compare", *paths, "--force").stdout.split())
    found = validated("compare", pgdyno(warm_home, tmp_path, "compare", *paths, "--force", "--json").stdout)
    (listed,) = found["query_plans"]
    assert (listed["text"], listed["base"]["plan"]) == (BY_KIND, change.base.plan)


@pytest.mark.long
def test_a_plan_that_flips_between_repeats_is_a_finding(warm_home: Home, tmp_path: Path) -> None:
    data = run(warm_home, tmp_path, 'int(os.environ["PGDYNO_REPEAT"]) == 2')
    (finding,) = [each for each in audit(data) if each.rule == "plan-differs"]
    assert finding.trials == [1, 2]
    assert BY_KIND in finding.message
    assert whole_report([data]).draft.extras.plan_changes == []


def test_a_run_of_a_lua_script_has_a_note_in_place_of_plans(warm_home: Home, tmp_path: Path) -> None:
    workload = '[workload]\nname = "oltp-point-select"\ntable_size = 100\n[sweep]\nclients = [1]\n'
    data = run_plan(warm_home, tmp_path, workload + "[trial]\ntransactions = 5\n[probe]\nplans = true\n")
    (note,) = [note for note in data.manifest.notes if "query plans" in note]
    assert note.startswith("no query plans of pg: pgdyno explains statements of SQL scripts")
    assert note.endswith("the statements of oltp-point-select are not in one")
    assert data.query_plans() == []


ON_STOCK = {"Relation Name": "stock"}
SCAN = {
    "Node Type": "Aggregate",
    "Strategy": "Plain",
    "Partial Mode": "Simple",
    "Plans": [{"Node Type": "Seq Scan", "Parent Relationship": "Outer", **ON_STOCK}],
}
LOOK_UP = {"Node Type": "Index Scan", "Index Name": "stock_pkey", "Scan Direction": "Forward", **ON_STOCK}
CHANGE = {"Node Type": "ModifyTable", "Operation": "Update", "Plans": [LOOK_UP], **ON_STOCK}


@pytest.mark.long
def test_the_queries_of_tpch_are_always_explained(warm_home: Home, tmp_path: Path) -> None:
    workload = '[workload]\nname = "tpch"\nscale_factor = 0.01\n[sweep]\nclients = [1]\n'
    arms = 'session_settings = { enable_hashjoin = ["on", "off"] }\n[trial]\nrepeats = 1\n'
    data = run_plan(warm_home, tmp_path, workload + arms)
    places = {place for each in data.query_plans() for place in each.places}
    assert places == {(trial, 0, query) for trial in (1, 2) for query in range(22)}
    changes = changed_plans([data])
    texts = {each.text.partition("\n")[0] for each in changes}
    # joins of two tables, of which the first arm hashes one
    assert {"-- Q12", "-- Q14"} <= texts
    assert "-- Q1" not in texts
    assert all(each.text.startswith(f"-- {each.name}\n") for each in changes)
    assert "Query plans of Q14" in whole_report([data]).html()
    assert all(each.base.mean_ms and each.other.mean_ms for each in changes)
    assert all("Hash Join" not in each.other.plan for each in changes if each.text.startswith("-- Q14"))


@pytest.mark.long
@pytest.mark.parametrize("major", ["12", "15", "16"])
def test_every_version_explains_without_executing(home: Home, major: str) -> None:
    spec = EmbeddedTarget(kind="embedded", version=major, settings=FAST)
    with open_target("explained", spec, home=home, progress=SilentProgress()) as server:
        with server.connect() as connection:
            connection.execute(TABLE)
        delete = "WITH gone AS (DELETE FROM stock WHERE id < $1 RETURNING id) SELECT count(*) FROM gone"
        texts = [BY_KIND, UPDATE, delete, "SELECT 1; DELETE FROM stock", "SELECT '100 %' FROM $1", "BEGIN"]
        found = server.read_as_is(lambda connection: explain(connection, texts))
        assert found[BY_KIND].plan == "Aggregate\n  ->  Seq Scan on stock\n        Filter: (kind = $1)"
        assert "Index Cond: (id = $1)" in (found[UPDATE].plan or "")
        assert "Delete on stock" in (found[delete].plan or "")
        assert [found[text].reason for text in texts[3:]] == [
            "cannot insert multiple commands into a prepared statement",
            'syntax error at or near "$1"',
            'syntax error at or near "BEGIN"',
        ]
        # the same shapes in all versions
        assert found[BY_KIND].shape == shape_of([{"Plan": SCAN}])
        assert found[UPDATE].shape == shape_of([{"Plan": CHANGE}])
        with server.connect() as connection:
            assert connection.execute("SELECT count(*), sum(amount) FROM stock").fetchone() == (2000, 0)


def test_a_version_without_generic_plans_says_so(home: Home) -> None:
    spec = EmbeddedTarget(kind="embedded", version="10", settings=FAST)
    with (
        open_target("unexplained", spec, home=home, progress=SilentProgress()) as server,
        server.connect() as connection,
        pytest.raises(TargetError, match="PostgreSQL 10 cannot plan a statement without its values"),
    ):
        explain(connection, [BY_KIND])
