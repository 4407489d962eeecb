"""`pgdyno query`: single queries in two arms on a real server, their results and plans."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pgdyno.audit import Finding, Severity, audit
from pgdyno.commands.comparison.ab_answer import measure_and_answer
from pgdyno.commands.support.carry_out import How, Output
from pgdyno.errors import ExitCode
from pgdyno.plan.ab_plan import Question
from pgdyno.probe.query_results import read_results
from pgdyno.store import load_run
from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.workloads.query_files.figures import query_times
from tests.json_schema import validated
from tests.postgres.relay import CachingProxy
from tests.postgres.runs import pgdyno, the_run

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

TPCH = """
name = "tpch"
[target.pg18]
kind = "embedded"
version = "18"
[workload]
queries = "tpch"
scale_factor = 0.01
runs = 2
[trial]
repeats = 1
"""
COLD = """
name = "cold"
[target.pg18]
kind = "embedded"
version = "18"
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
    spec = EmbeddedTarget(kind="embedded", version="18", settings=settings, connect="tcp")
    with open_target("queries", spec, home=home, progress=SilentProgress()) as opened:
        with opened.connect() as connection:
            connection.execute(SETUP)
        yield opened


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


def test_tpch_queries_run_by_themselves(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(TPCH)
    done = pgdyno(home, tmp_path, "run", "plan.toml")
    assert done.returncode == ExitCode.OK, done.stderr
    (trial,) = the_run(tmp_path).trials()
    assert trial.summary is not None
    runs = [(each.query, each.round, each.changed) for each in trial.summary.queries]
    names = [f"Q{number}" for number in range(1, 23)]
    assert len(runs) == 3 * len(names)
    assert {each for each in runs if not each[2]} == {(name, at, False) for name in names for at in (0, 1)}
    assert sorted(each.query for each in trial.query_results) == sorted(names)
    assert [*query_times(trial.summary.queries)] == names


def test_cold_runs_find_nothing_in_memory_and_instructions_are_counted(home: Home, tmp_path: Path) -> None:
    (tmp_path / "t.sql").write_text(SETUP)
    (tmp_path / "scan.sql").write_text("SELECT max(s) FROM t")
    (tmp_path / "plan.toml").write_text(COLD)
    done = pgdyno(home, tmp_path, "run", "plan.toml")
    assert done.returncode == ExitCode.OK, done.stderr
    run = the_run(tmp_path)
    (trial,) = run.trials()
    assert trial.summary is not None
    (cold,) = (each for each in trial.summary.queries if each.is_cold)
    assert cold.cached_share is not None
    assert cold.cached_share < 0.05
    assert cold.blocks_read is not None
    # the table alone has more than 100 blocks
    assert cold.blocks_read > 100
    assert [each.rule for each in audit(load_run(run.path)) if each.rule == "cold-was-warm"] == []
    (counted,) = trial.query_results
    # for each row at least some
    assert counted.instructions is not None
    assert 20_000 * 10 < counted.instructions < 20_000 * 10_000


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
