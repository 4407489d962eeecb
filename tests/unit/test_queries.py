"""Plans with `queries`: their files, what they exclude, their figures; the shape of a query plan."""

from pathlib import Path

import pytest

from pgdyno.analyse.comparison import Verdict, compare
from pgdyno.analyse.pairs import Metric, within
from pgdyno.commands.comparison.query import query
from pgdyno.effect import has_plan
from pgdyno.errors import UsageError
from pgdyno.plan import load_plan
from pgdyno.plan.optional_sections import ProbeSpec
from pgdyno.probe.explain import shape_of
from pgdyno.records import QueryRun
from tests.unit.audit_sample import own
from tests.unit.plan_sample import load, problems, small_plan
from tests.unit.test_plan_output import shown


def plan(folder: Path, more: str = "", files: tuple[str, ...] = ("b.sql", "a.sql"), trial: str = "") -> str:
    (folder / "q").mkdir(exist_ok=True)
    for name in files:
        (folder / "q" / name).write_text("SELECT 1")
    text = small_plan(f'queries = ["q/*.sql"]\n{more}', trial=f"repeats = 6\n{trial}")
    return text.replace("[sweep]\nclients = 1\n", "")


def test_files_are_found_by_patterns_in_order_and_trials_have_no_scale_of_another_unit(tmp_path: Path) -> None:
    found = load(tmp_path, plan(tmp_path))
    assert found.workload.query_files == ["q/a.sql", "q/b.sql"]
    assert [point.clients for point in found.points()] == [1]
    options = found.workload.engine_options()
    assert options == ["--workload=queries", "--file=q/a.sql", "--file=q/b.sql", "--transactions=5", "--changed-texts"]
    rows = [line.split() for line in shown(load_plan("tpch")).splitlines()]
    assert ["trial", "target", "clients", "work_mem", "repeat", "length"] in rows
    assert ["2", "pg18", "2", "4MB", "1", "power", "+", "throughput"] in rows


def test_what_queries_exclude_is_named(tmp_path: Path) -> None:
    for more, files, path in (
        ("", (), "workload.queries[0]"),
        ('scripts = ["select-only"]', ("a.sql",), "workload.scripts"),
        ("runs = 1", ("a.sql",), "workload.runs"),
        ('duration = "5s"', ("a.sql",), "trial.duration"),
        ('[sweep]\nprotocol = "prepared"', ("a.sql",), "sweep.protocol"),
        ('cache = "cold"\n[target.far]\nkind = "dsn"\ndsn = "host=db"', ("a.sql",), "workload.cache"),
        ('instructions = true\n[target.far]\nkind = "dsn"\ndsn = "host=db"', ("a.sql",), "workload.instructions"),
    ):
        duration = more.startswith("duration")
        text = plan(tmp_path, "" if duration else more, files, more if duration else "")
        assert path in [problem.path for problem in problems(tmp_path, text)]


def test_the_command_names_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.sql").write_text("SELECT 1")
    (tmp_path / "empty.sql").touch()
    for files, options, named in (
        (["none.sql"], {"version": ["18"]}, "none.sql is not a file"),
        (["select-only"], {"version": ["18"]}, "select-only is not a file"),
        (["q.sql"], {"dsn": ["dbname=app"], "cache": "cold,warm"}, "--cache cold,warm needs"),
        (["q.sql"], {"dsn": ["dbname=app"], "count": True}, "--count needs"),
        (["q.sql"], {"version": ["18"], "pairs": "2"}, "2 pairs are too few"),
        ([], {"version": ["18"]}, "no query"),
        (["q.sql"], {"version": ["18"], "tpch": 1.0}, "--tpch has queries of its own"),
        ([], {"version": ["18"], "tpch": 1.0, "scale": 3}, "--scale cannot be used with --tpch"),
        ([], {"version": ["18"], "tpch": 0.001}, "--tpch: is invalid"),
        (["empty.sql"], {"version": ["18"]}, "FILE: the script .*empty.sql is empty"),
    ):
        with pytest.raises(UsageError, match=named):
            query(files, **options)


def runs(slower: float) -> list[QueryRun]:
    """Of one query that is slower by a factor, and one that is not; the first runs and a cold one are far slower."""
    found = []
    for name, seconds in (("a.sql", 0.01 * slower), ("b.sql", 0.02)):
        warm = [QueryRun(query=name, client=0, round=at, seconds=seconds, rows=1) for at in (1, 2, 3)]
        first = QueryRun(query=name, client=0, round=0, seconds=9.0, rows=1)
        found += [first, *warm, first.model_copy(update={"cached_share": 0.0, "blocks_read": 9})]
        found.append(first.model_copy(update={"round": 2, "changed": True}))
    return found


def test_each_query_is_compared_by_itself_without_first_runs() -> None:
    run = own()
    for trial in run.trials:
        assert trial.summary is not None
        trial.summary.queries.extend(runs(2.0 if trial.target == "b" else 1.0))
    (compared,) = compare(within(run, "target", Metric.P50))  # type: ignore[arg-type]
    verdicts = {point.group: (point.verdict, round(point.change, 6)) for point in compared.points}
    assert verdicts == {
        "a.sql": (Verdict.SLOWER, 1.0),
        "b.sql": (Verdict.SAME, 0.0),
        "a.sql (cold)": (Verdict.SAME, 0.0),
        "b.sql (cold)": (Verdict.SAME, 0.0),
    }


SEQUENTIAL = {"Node Type": "Seq Scan", "Relation Name": "t", "Parent Relationship": "Outer"}
BY_INDEX = {"Node Type": "Index Scan", "Relation Name": "t", "Index Name": "t_pkey", "Scan Direction": "Forward"}
JOIN = {"Node Type": "Hash Join", "Join Type": "Inner", "Plans": [SEQUENTIAL, BY_INDEX]}


def test_a_shape_is_nodes_relations_indexes_joins_and_their_order() -> None:
    """Costs, and names that differ between versions, are not part of it."""
    for plan, same in (
        (JOIN | {"Total Cost": 8.5, "Plan Rows": 1, "Plan Width": 4, "Hash Cond": "(a.id = b.id)"}, True),
        # of a later version: a key that others lack, other numbers of aliases
        (JOIN | {"Async Capable": False, "Disabled": False, "Alias": "t_1"}, True),
        (JOIN | {"Plans": [SEQUENTIAL | {"Parent Relationship": "Member"}, BY_INDEX]}, True),
        # a hash index before version 16
        (JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Scan Direction": "NoMovement"}]}, True),
        (JOIN | {"Node Type": "Nested Loop"}, False),
        (JOIN | {"Join Type": "Left"}, False),
        (JOIN | {"Plans": [BY_INDEX, SEQUENTIAL]}, False),
        (JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Index Name": "t_kind"}]}, False),
        (JOIN | {"Plans": [SEQUENTIAL, BY_INDEX | {"Scan Direction": "Backward"}]}, False),
        (JOIN | {"Plans": [SEQUENTIAL | {"Relation Name": "u"}, BY_INDEX]}, False),
        (JOIN | {"Plans": [SEQUENTIAL | {"Parent Relationship": "SubPlan"}, BY_INDEX]}, False),
        (JOIN | {"Plans": [SEQUENTIAL | {"Parallel Aware": True}, BY_INDEX]}, False),
    ):
        assert (shape_of([{"Plan": plan}]) == shape_of([{"Plan": JOIN}])) is same
    # a statement that is rewritten to nothing
    assert shape_of([]) == shape_of(["Query rewrites to nothing"]) != shape_of([{"Plan": SEQUENTIAL}])


def test_only_statements_that_the_planner_plans_are_explained_with_a_probe() -> None:
    for text in (
        "SELECT 1",
        "  -- first\n/* then */ (select 1)",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "insert INTO t VALUES ($1)",
        "MERGE INTO t USING u ON true WHEN MATCHED THEN DELETE",
    ):
        assert has_plan(text), text
    for text in (
        "BEGIN",
        "SELECTED",
        "-- SELECT\nCOMMIT",
        "COPY t FROM STDIN",
        "CREATE TABLE t AS SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM t",
    ):
        assert not has_plan(text), text
    for key in ("plans", "profile"):
        with pytest.raises(ValueError, match=f"{key} = true needs the probe"):
            ProbeSpec.model_validate({"enabled": False, key: True})
