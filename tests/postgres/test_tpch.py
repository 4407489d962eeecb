"""A load derived from TPC-H: its tables, its queries and their answers, and its run."""

import csv
import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import duckdb
import pytest

from pgdyno.errors import ExitCode
from pgdyno.plan.kinds import WORKLOAD_KINDS
from pgdyno.probe.query_results import digest_of, read_results
from pgdyno.records import Outcome, TpchFigures
from pgdyno.store import load_run
from pgdyno.targets import Home, Server
from tests.forked import PGDYNO, run_pgdyno
from tests.postgres.runs import Hold, environment, fast_plan, pgdyno, run_plan_text, the_run
from tests.postgres.test_load import Place, place_of
from tests.postgres.test_resume import wait_for_no_engines, whole
from tests.run_program import PGDRIVE, run_program
from tests.waiting import wait_until

ROWS = {
    "region": 5, "nation": 25, "supplier": 100, "customer": 1_500, "part": 2_000, "partsupp": 8_000, "orders": 15_000,
    "lineitem": 60_175,
}  # fmt: skip
"""At scale factor 0.01; lineitem has what dbgen makes."""
ANSWERS = Path(__file__).parent.parent / "golden" / "tpch-answers.json"
"""Number of rows and the first ten of each query's answer, as the specification gives them for scale factor 1."""
PATIENCE_S = 550
NUMERIC = 1700


@pytest.fixture(scope="module")
def loaded(server: Server) -> Iterator[Place]:
    """Scale factor 0.01; the last test changes its rows."""
    with place_of(server, "pgdyno_tpch") as place:
        place.load("--dataset=tpch", "--scale-factor=0.01")
        yield place


@pytest.fixture(scope="module")
def duck(loaded: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        copy_to(connection, loaded, tmp_path_factory.mktemp("tpch") / "rows.csv")
        yield connection


def copy_to(duck: duckdb.DuckDBPyConnection, place: Place, file: Path) -> None:
    """Copies all tables with their types; padding of `char` is no part of a value."""
    columns = """SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
                 WHERE attrelid = '{}'::regclass AND attnum > 0 ORDER BY attnum"""
    with place.connect() as connection:
        for table in ROWS:
            types = place.query(columns.format(table))
            declared = ", ".join(f"{name} {'varchar' if kind.startswith('char') else kind}" for name, kind in types)
            duck.execute(f"CREATE TABLE {table} ({declared})")
            names = ", ".join(f"rtrim({name})" if kind.startswith("character(") else name for name, kind in types)
            query = f"COPY (SELECT {names} FROM {table}) TO STDOUT (FORMAT csv)".encode()
            with connection.cursor().copy(query) as copied, file.open("wb") as rows:
                for data in copied:
                    rows.write(data)
            duck.execute(f"COPY {table} FROM '{file}' (FORMAT csv)")


def known_answers(place: Place, duck: duckdb.DuckDBPyConnection, texts: dict[int, str]) -> dict[str, Any]:
    """Returns what `answers.json` has of each query, from DuckDB's rows, written as COPY writes those of PostgreSQL."""
    found = {}
    for number, text in texts.items():
        with place.connect() as connection:
            columns = connection.execute(f"SELECT * FROM ({text}) AS q LIMIT 0".encode()).description or []
        # char is padded
        widths = [int("0" + re.sub(r"bpchar\((\d+)\)|.*", r"\1", each.type_display)) for each in columns]
        rows = duck.execute(text).fetchall()
        lines = ("\t".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        summed = [at for at, each in enumerate(columns) if each.type_code == NUMERIC]
        found[f"Q{number}"] = digest_of((line.encode() for line in lines), summed, is_ordered="order by" in text)
    return found


def queries(*args: str) -> dict[int, str]:
    printed = run_program([PGDRIVE, *args], check=True).stdout
    found = re.findall(r"^-- Q(\d+)\n(.*?);\n", printed, re.MULTILINE | re.DOTALL)
    return {int(number): text for number, text in found}


def same(one: object, other: object) -> bool:
    """Whether two values are equal: DuckDB divides in binary floating point, and does not pad texts."""
    if isinstance(one, int | float | Decimal) and isinstance(other, int | float | Decimal):
        return math.isclose(float(one), float(other), rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, str) and isinstance(other, str):
        return one.rstrip(" ") == other.rstrip(" ")
    return one == other


def assert_same_rows(number: int, ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]]) -> None:
    assert len(ours) == len(theirs), f"Q{number}"
    for one, other in zip(ours, theirs, strict=True):
        assert len(one) == len(other)
        assert all(map(same, one, other)), f"Q{number}: {one} is not {other}"


def test_every_table_has_its_rows_keys_and_statistics(loaded: Place) -> None:
    for table, rows in ROWS.items():
        assert loaded.query(f"SELECT count(*) FROM {table}") == [(rows,)], table
    found = loaded.query("""
        SELECT c.relname, c.reltuples::bigint, c.relallvisible = c.relpages,
               EXISTS (SELECT FROM pg_constraint WHERE conrelid = c.oid AND contype = 'p')
        FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace""")
    assert sorted(found) == sorted((table, rows, True, True) for table, rows in ROWS.items())


@pytest.mark.parametrize("args", [("--tpch-queries=validation", "--scale-factor=0.01"), ("--tpch-queries=3",)])
def test_other_data_have_the_same_answers(
    loaded: Place, duck: duckdb.DuckDBPyConnection, args: tuple[str, ...]
) -> None:
    texts = queries(*args)
    assert sorted(texts) == list(range(1, 23))
    for number, text in texts.items():
        assert_same_rows(number, loaded.query(text), duck.execute(text).fetchall())


@pytest.mark.long
def test_the_answers_at_scale_1_are_those_of_the_specification(server: Server, tmp_path: Path) -> None:
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
    with place_of(server, "pgdyno_tpch_1") as place:
        process = place.start("--dataset=tpch", "--scale-factor=1", "--load-workers=2")
        said = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == 0, said
        wrong, texts = [], queries("--tpch-queries=validation")
        for number, text in texts.items():
            rows, answer = place.query(text), answers[str(number)]
            shown = [[str(cell).strip() for cell in row] for row in rows[: len(answer["first"])]]
            is_same = len(rows) == answer["rows"] and all(
                all(map(as_printed, ours, theirs)) for ours, theirs in zip(shown, answer["first"], strict=True)
            )
            if not is_same:
                wrong.append((number, len(rows), shown, answer))
        assert not wrong
        with duckdb.connect() as duck:
            copy_to(duck, place, tmp_path / "rows.csv")
            answers = known_answers(place, duck, texts)
        known = WORKLOAD_KINDS["tpch-queries"].model_validate({"queries": "tpch"}).known_results
        for name, answer in answers.items():
            sums = list(map(float, answer.pop("float_sums")))
            assert sums == pytest.approx(list(map(float, known[name].float_sums)), rel=1e-10), name
            assert answer.items() <= known[name].model_dump().items(), name
        place.execute("UPDATE lineitem SET l_quantity = l_quantity + 1 WHERE l_orderkey = 1 AND l_linenumber = 1")
        with place.connect() as connection:
            (found,) = read_results(connection, {"Q1": texts[1]}, known)
        assert found.known is not None
        assert (found.digest, found.rows) == (found.known.digest, found.known.rows)
        sums = list(map(float, found.float_sums))
        assert sums != pytest.approx(list(map(float, found.known.float_sums)), rel=1e-10)


def as_printed(cell: str, answer: str) -> bool:
    """Whether a value is that of the answer, which is rounded; that of Q17 was computed in binary floating point."""
    try:
        return abs(Decimal(cell) - Decimal(answer)) <= Decimal("0.04" if answer == "348406.02" else "0.01")
    except ArithmeticError:
        return cell == answer


def run(place: Place, *args: str) -> tuple[int, dict[str, Any], str]:
    done = run_program([PGDRIVE, "--workload=tpch", "--events=-", *args], env=place.environment)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return done.returncode, lines[-1] if lines else {}, done.stderr


def test_a_run_has_a_power_run_streams_and_refresh_functions(loaded: Place) -> None:
    place = loaded
    before = place.query("SELECT count(*), sum(o_totalprice), max(o_orderkey) FROM orders")
    exit_code, end, said = run(place, "-c2", "--random-seed=7")
    assert exit_code == 0, said
    figures = end["tpch"]
    assert (figures["scale_factor"], figures["streams"]) == (0.01, 2)
    names = [f"Q{number}" for number in range(1, 23)] + ["RF1", "RF2"]
    by_stream: dict[int, list[str]] = {}
    for timing in figures["timings"]:
        by_stream.setdefault(timing["stream"], []).append(timing["query"])
    assert {stream: sorted(run) for stream, run in by_stream.items()} == {stream: sorted(names) for stream in range(3)}
    # the order of appendix A, and RF1 before and RF2 after the queries of the power run
    assert by_stream[0] == ["RF1", *(f"Q{number}" for number in queries("--tpch-queries=0")), "RF2"]
    assert by_stream[1][:-2] == [f"Q{number}" for number in queries("--tpch-queries=1")]
    assert math.isclose(figures["composite"] ** 2, figures["power"] * figures["throughput"])
    mean_s = math.prod(timing["seconds"] for timing in figures["timings"] if timing["stream"] == 0) ** (1 / 24)
    # short steps count as a thousandth of the longest, so the mean of the bare times is not longer
    assert figures["power"] <= 3600 / mean_s * 0.01 * 1.000001
    assert figures["throughput"] == pytest.approx(2 * 22 * 3600 / figures["throughput_s"] * 0.01)
    assert "not comparable with published TPC-H results" in said
    # each pair removed as many orders as it added, of the same prices
    after = place.query("SELECT count(*), sum(o_totalprice), max(o_orderkey) FROM orders")
    assert after == before
    assert place.query("SELECT count(*) FROM orders WHERE o_orderkey & 24 = 8") == [(3 * 15,)]
    assert place.query("SELECT count(*) FROM lineitem") == [(ROWS["lineitem"],)]
    exit_code, end, said = run(place, "-c2")
    assert exit_code == 2
    assert "a run has refreshed this database before" in said
    assert end["tpch"]["composite"] is None
    # a table that was created again is another one
    place.execute("DROP TABLE region CASCADE; CREATE TABLE region ()")
    exit_code, _end, said = run(place, "-c2")
    assert exit_code == 1
    assert "no usable dataset stamp of tpch: region is not the table that was loaded" in said
    # other tests leave stamps in the server's own database
    exit_code, _end, said = run(Place(place.environment | {"PGDATABASE": "postgres"}), "-c1")
    assert exit_code == 1
    assert "the database has no dataset stamp of tpch" in said
    assert "pgdrive -i --dataset=tpch" in said


PLAN = fast_plan(
    'name = "tpch"\nscale_factor = 0.01',
    'clients = 2\nsession_settings = { enable_hashjoin = ["on", "off"] }',
    "repeats = 2",
)
QUERIES = [*(f"Q{number}" for number in range(1, 23)), "RF1", "RF2"]


def figures(folder: Path) -> list[TpchFigures]:
    run = load_run(the_run(folder))
    found = [trial.summary.tpch for trial in run.trials if trial.summary is not None]
    return [each for each in found if each is not None]


@pytest.mark.long
def test_a_plan_runs_it_and_its_report_compares_the_composite(warm_home: Home, tmp_path: Path) -> None:
    done = run_plan_text(warm_home, tmp_path, PLAN, code=0)
    found = figures(tmp_path)
    assert len(found) == 4
    for each in found:
        check_times(each)
    answer = json.loads(pgdyno(warm_home, tmp_path, "show", "latest", "--json").stdout)["answer"]
    assert answer["kind"] == "comparison"
    assert "composite" in answer["text"]
    shown = pgdyno(warm_home, tmp_path, "show", "latest").stdout
    assert "derived from TPC-H, not comparable with published TPC-H results" in shown
    assert " tps" not in done.stdout + shown
    assert all(f"\n{query} " in shown for query in QUERIES)
    compared = pgdyno(warm_home, tmp_path, "compare", "latest", "--by", "settings.enable_hashjoin")
    assert "composite" in compared.stdout, compared.stderr
    # a query is not a transaction of a long stream of them
    findings = json.loads(pgdyno(warm_home, tmp_path, "audit", "latest", "--json").stdout)
    unjudged = {finding["rule"] for finding in findings if finding["id"].endswith("-not-checked")}
    assert {
        "too-short", "percentile-of-few", "unsteady", "dips-unexplained", "declines", "checkpoint-cycle", "littles-law",
        "network-floor",
    } <= unjudged  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(pgdyno(warm_home, tmp_path, "show", "latest", "--csv").stdout)))
    assert [float(row["composite"]) for row in rows] == pytest.approx([each.composite for each in found], rel=1e-5)
    assert all(row[name] == "" for row in rows for name in ("tps", "latency_mean_ms", "p99_ms", "latency_max_ms"))
    analysed = pgdyno(warm_home, tmp_path, "analyse", "latest").stdout
    assert all(f"{query} " in analysed for query in QUERIES)
    assert not [word for word in ("steady", "dips", "endurance", "tps") if word in analysed]
    points = json.loads(pgdyno(warm_home, tmp_path, "analyse", "latest", "--json").stdout)["queries"]
    assert [[time["query"] for time in point["times"]] for point in points] == [QUERIES, QUERIES]


def check_times(found: TpchFigures) -> None:
    """Asserts that each query was timed in each stream, and that the figures follow from the times."""
    for stream in range(3):
        assert sorted(timing.query for timing in found.timings if timing.stream == stream) == sorted(QUERIES)
    power = [timing.seconds for timing in found.timings if timing.stream == 0]
    least = max(power) / 1000
    assert found.power == pytest.approx(36 / geometric_mean(max(each, least) for each in power), rel=1e-3)
    assert found.throughput_s is not None
    assert found.throughput == pytest.approx(2 * 22 * 36 / found.throughput_s, rel=1e-3)
    assert found.composite == pytest.approx(math.sqrt((found.power or 0) * (found.throughput or 0)), rel=1e-6)


DATABASE = "killed_tpch"
KILLED_PLAN = fast_plan(
    'name = "tpch"\nscale_factor = 0.01',
    "clients = 2",
    f'repeats = 3\n[hooks]\nbefore_trial = ["{sys.executable}", "hook.py"]',
    ["server"],
    f'kind = "dsn"\ndsn = "dbname=postgres"\ndatabase = "{DATABASE}"',
)
# the first RF1 is that of the power run, the second that of a stream of the throughput run, and does not end
HOOK = """\
import os
import psycopg

if (os.environ["PGDYNO_ATTEMPT"], os.environ["PGDYNO_REPEAT"]) == ("1", "2"):
    with psycopg.connect("", autocommit=True) as connection:
        connection.execute("CREATE SEQUENCE refreshed")
        connection.execute('''
            CREATE FUNCTION held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF nextval('refreshed') = 2 THEN WHILE HOLD LOOP PERFORM pg_sleep(0.02); END LOOP; END IF;
                RETURN NULL;
            END $$
        ''')
        connection.execute("CREATE TRIGGER held BEFORE INSERT ON orders EXECUTE FUNCTION held()")
"""


@pytest.mark.long
def test_a_trial_that_was_killed_between_refresh_functions_is_measured_again_on_the_rows_of_the_load(
    server: Server, warm_home: Home, tmp_path: Path, scratch: Path
) -> None:
    hold = Hold(scratch)
    (tmp_path / "killed.toml").write_text(KILLED_PLAN)
    (tmp_path / "hook.py").write_text(HOOK.replace("HOLD", hold.condition))
    env = environment(warm_home) | server.environment()
    held = f"SELECT FROM pg_stat_activity WHERE datname = '{DATABASE}' AND wait_event = 'PgSleep'"
    with server.connect(server.maintenance) as connection:
        process = subprocess.Popen(
            [PGDYNO, "run", "killed.toml", "--no-preflight", "--alongside", "--quiet"], cwd=tmp_path, env=env
        )
        try:

            def is_held() -> bool:
                assert process.poll() is None
                return bool(connection.execute(held).fetchall())

            wait_until(is_held)
        finally:
            process.kill()
            process.wait()
        wait_for_no_engines(warm_home)
        before = whole(the_run(tmp_path))
        done = run_pgdyno(["run", "--resume", "latest", "--no-preflight", "--alongside"], cwd=tmp_path, env=env)
        assert done.returncode == ExitCode.OK, done.stdout + done.stderr
        assert not connection.execute(held).fetchall()
        for name in (DATABASE, f"{DATABASE}_template"):
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    folder = the_run(tmp_path)
    trials = folder.trials()
    assert len(before) == 1
    assert before.items() <= whole(folder).items()
    assert [trial.slug for trial in trials] == folder.manifest.order
    assert [(trial.outcome, trial.attempt) for trial in trials] == [
        (Outcome.FINISHED, 1),
        (Outcome.FINISHED, 2),
        (Outcome.FINISHED, 2),
    ]
    assert len({trial.generator.seed for trial in trials if trial.generator is not None}) == 1
    assert [trial.consistency.violations for trial in trials if trial.consistency is not None] == [[], [], []]
    assert [attempt.ended for attempt in folder.manifest.attempts] == ["was killed", "came to its end"]
    assert folder.partials() == []
