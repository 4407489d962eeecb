"""`pgdyno query`: single queries in two arms on a real server, their results and plans; query plans that runs keep."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.audit import Finding, Severity, audit
from pgdyno.commands.comparison.ab_answer import measure_and_answer
from pgdyno.commands.support.carry_out import How, Output
from pgdyno.errors import ExitCode, TargetError
from pgdyno.plan.ab_plan import Question
from pgdyno.probe.explain import explain, shape_of
from pgdyno.probe.query_results import read_results
from pgdyno.records import Outcome
from pgdyno.report.full_report import changed_plans, whole_report
from pgdyno.store import RunData, load_run
from pgdyno.targets import Home, Server
from pgdyno.workloads.query_files.figures import query_times
from tests.json_schema import validated
from tests.postgres.relay import CachingProxy
from tests.postgres.runs import pgdyno, run_plan_text, the_run
from tests.postgres.servers import embedded, execute, opened, rows
from tests.present import present

SETUP = """
    CREATE TABLE t AS SELECT g AS id, g % 100 AS k, sqrt(g) AS f, md5(g::text) AS s FROM generate_series(1, 20000) g;
    CREATE INDEX ON t (k);
    ANALYZE t;
"""
QUERIES = {
    "group.sql": "-- sorts, or hashes\nSELECT s, count(*) FROM t GROUP BY s",
    "order.sql": "SELECT k, sum(f) FROM t GROUP BY k ORDER BY k LIMIT 5;",
    "wait.sql": "SELECT pg_sleep(CASE current_setting('enable_hashagg') WHEN 'on' THEN 0.001 ELSE 0.2 END);",
}

HEAD = 'name = "planned"\n[target.pg]\nkind = "embedded"\nversion = "18"\nsettings = { fsync = "off" }\n'
COLD = """\
[workload]
queries = ["*an.sql"]
runs = 2
cache = "cold"
instructions = true
dataset = { name = "t", sql = ["t.sql"] }
[trial]
repeats = 1
"""


@pytest.fixture(scope="module")
def server(home: Home) -> Iterator[Server]:
    settings = {"fsync": "off", "max_parallel_workers_per_gather": "0"}
    with opened(home, embedded(settings=settings, connect="tcp"), "queries") as server:
        execute(server, SETUP)
        yield server


@pytest.fixture
def dsn(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    for name, text in QUERIES.items():
        (tmp_path / name).write_text(text)
    return f"host={server.host} port={server.port} user={server.user} dbname={server.dbname}"


Ask = Callable[..., tuple[ExitCode, Any]]


@pytest.fixture
def ask(dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    def answer(*files: str, **options: object) -> tuple[ExitCode, Any]:
        asked = Question(**{"dsn": [dsn], "scripts": files, "clients": 1, "pairs": "6", "runs": 3, **options})  # type: ignore[arg-type]
        how = How(tmp_path / "runs", Output(html=None, csv=None, quiet=True, json=True), check_first=False)
        code = measure_and_answer(asked, how)
        return code, validated("query", capsys.readouterr().out.splitlines()[-1])

    return answer


def findings(found: Any, rule: str) -> list[Finding]:  # noqa: ANN401 - an answer
    return [each for each in audit(load_run(Path(found["run"]))) if each.rule == rule]


def test_says_which_query_is_slower_and_which_changed_its_plan(ask: Ask) -> None:
    code, found = ask(*QUERIES, settings=["enable_hashagg=on,off", "work_mem=64MB"])
    assert code is ExitCode.OK
    (compared,) = found["comparisons"]
    points = {each["label"].partition(",")[0]: each for each in compared["points"]}
    assert points.keys() == QUERIES.keys()
    assert points["wait.sql"]["verdict"] == "slower"
    assert points["wait.sql"]["change"] > 0.5
    assert found["answer"][0].startswith("off vs on, of 3 queries: ")
    assert "slower (wait.sql " in found["answer"][0]
    assert found["answer"][0].endswith("; another plan: group.sql")
    trials = load_run(Path(found["run"])).trials
    runs = [each for each in trials[0].summary.queries if each.query == "group.sql" and not each.changed]  # type: ignore[union-attr]
    assert [(each.round, each.rows) for each in runs] == [(0, 20_000), (1, 20_000), (2, 20_000)]
    # executed once in each arm
    results = [each for trial in trials for each in trial.query_results]
    assert len(results) == 2 * len(QUERIES)
    (one, other) = (each for each in results if each.query == "order.sql")
    assert (one.rows, one.digest, one.in_order) == (other.rows, other.digest, other.in_order)
    assert one.in_order is not None
    assert one.blocks_hit is not None


def test_a_result_that_differs_between_arms_voids_the_run(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "shown.sql").write_text("SELECT current_setting('work_mem')")
    code, found = ask("shown.sql", settings=["work_mem=4MB,8MB"])
    assert (code, found["comparisons"]) == (ExitCode.INVALID, [])
    (finding,) = findings(found, "results-differ")
    assert finding.parameters["query"] == "shown.sql"


@pytest.mark.long_cases("BEGIN")
@pytest.mark.parametrize(
    ("text", "reason"),
    [("SELECT nothing FROM t", 'column "nothing" does not exist'), ("BEGIN; SELECT 1", "leaves a transaction open")],
)
def test_a_query_that_fails_is_named(text: str, reason: str, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "wrong.sql").write_text(text)
    code, found = ask("order.sql", "wrong.sql", settings=["work_mem=4MB,8MB"])
    assert code is ExitCode.TRIALS_FAILED
    assert reason in found["failures"][0]["message"]
    assert found["failures"][0]["message"].endswith("(wrong.sql)")


def test_one_arm_is_a_table_and_a_cache_is_found(server: Server, dsn: str, ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "sleep.sql").write_text("WITH s AS (SELECT pg_sleep(0.02)) SELECT count(*) FROM s")
    code, found = ask("sleep.sql", "order.sql")
    assert code is ExitCode.OK
    assert found["answer"][0].startswith("1 client: 2 queries in ")
    assert [each["query"] for each in found["queries"][0]["queries"]] == ["order.sql", "sleep.sql"]
    assert findings(found, "results-cached") == []
    with contextlib.closing(CachingProxy(server.port, b"pg_sleep")) as proxy:
        _, found = ask("sleep.sql", "order.sql", dsn=[dsn.replace(f"port={server.port}", f"port={proxy.port}")])
    (finding,) = findings(found, "results-cached")
    assert (finding.severity, finding.parameters["query"]) == (Severity.INVALID, "sleep.sql")


@pytest.mark.long
def test_tpch_queries_run_by_themselves(home: Home, tmp_path: Path) -> None:
    plan = '[workload]\nqueries = "tpch"\nscale_factor = 0.01\nruns = 2\n[trial]\nrepeats = 1\n'
    (trial,) = run_plan(home, tmp_path, plan).trials
    queries = present(trial.summary).queries
    runs = [(each.query, each.round, each.changed) for each in queries]
    names = [f"Q{number}" for number in range(1, 23)]
    assert len(runs) == 3 * len(names)
    assert {each for each in runs if not each[2]} == {(name, at, False) for name in names for at in (0, 1)}
    assert sorted(each.query for each in trial.query_results) == sorted(names)
    assert [*query_times(queries)] == names


def test_cold_runs_find_nothing_in_memory_and_instructions_are_counted(home: Home, tmp_path: Path) -> None:
    (tmp_path / "t.sql").write_text(SETUP)
    (tmp_path / "scan.sql").write_text("SELECT max(s) FROM t")
    data = run_plan(home, tmp_path, COLD)
    (trial,) = data.trials
    (cold,) = (each for each in present(trial.summary).queries if each.is_cold)
    assert present(cold.cached_share) < 0.05
    # the table alone has more than 100 blocks
    assert present(cold.blocks_read) > 100
    assert [each.rule for each in audit(data) if each.rule == "cold-was-warm"] == []
    (counted,) = trial.query_results
    # for each row at least some
    assert 20_000 * 10 < present(counted.instructions) < 20_000 * 10_000


def test_results_of_queries_know_order_floats_and_refusals(server: Server) -> None:
    texts = {
        "some": "SELECT k, f FROM t WHERE k < 3",
        "reversed": "SELECT k, f FROM (SELECT * FROM t ORDER BY id DESC) AS t WHERE k < 3",
        "down": "SELECT k FROM t WHERE id < 9 ORDER BY k DESC",
        "up": "SELECT k FROM t WHERE id < 9 ORDER BY k -- ORDER BY k DESC",
        "writes": "DELETE FROM t RETURNING k",
    }
    found = {each.query: each for each in server.read_as_is(lambda connection: read_results(connection, texts, {}))}
    assert (found["some"].digest, found["some"].rows) == (found["reversed"].digest, 600)
    assert float(found["some"].float_sums[0]) == pytest.approx(float(found["reversed"].float_sums[0]))
    assert (found["some"].in_order, found["reversed"].in_order) == (None, None)
    assert found["down"].digest == found["up"].digest
    assert found["down"].in_order != found["up"].in_order
    assert found["writes"].digest is None
    assert found["writes"].reason


TABLE = """
    CREATE TABLE stock (id int PRIMARY KEY, kind int, amount int);
    INSERT INTO stock SELECT i, i % 100, 0 FROM generate_series(1, 2000) i;
    ANALYZE stock
"""
BY_KIND = "SELECT sum(amount) FROM stock WHERE kind = $1"
UPDATE = "UPDATE stock SET amount = amount + 1 WHERE id = $1"
EXPLAINED = """\
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
repeats = REPEATS
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
    run_plan_text(home, folder, HEAD + text, code=0)
    return load_run(the_run(folder))


def run(
    home: Home, folder: Path, indexed_if: str, settings: str = "", script: str = SCRIPT, repeats: str = "2"
) -> RunData:
    (folder / "stock.sql").write_text(script)
    (folder / "hook.py").write_text(HOOK.replace("SETUP", TABLE).replace("CONDITION", indexed_if))
    text = EXPLAINED.replace("HOOK", f'["{sys.executable}", "hook.py"]').replace("SETTINGS", settings)
    text = text.replace("REPEATS", repeats)
    return run_plan(home, folder, text)


def test_arms_with_other_plans_are_reported_with_what_that_cost(warm_home: Home, tmp_path: Path) -> None:
    # both arms have the index; only the sessions of one may use it
    settings = 'session_settings = { enable_bitmapscan = ["on", "off"] }'
    data = run(warm_home, tmp_path, "True", settings, SCRIPT + TEMPORARY, repeats="1")
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
    assert len(kept[UPDATE].places) == len(data.trials) == 2
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
    with opened(home, embedded(major)) as server:
        execute(server, TABLE)
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
        assert rows(server, "SELECT count(*), sum(amount) FROM stock") == [(2000, 0)]


def test_a_version_without_generic_plans_says_so(home: Home) -> None:
    with (
        opened(home, embedded("10")) as server,
        server.connect() as connection,
        pytest.raises(TargetError, match="PostgreSQL 10 cannot plan a statement without its values"),
    ):
        explain(connection, [BY_KIND])
