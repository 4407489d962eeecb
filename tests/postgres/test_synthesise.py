"""Models of captured loads on real servers: the values that pgdrive draws, and loads that are captured and modelled."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from pgdyno.analyse.likeness import likeness, modelled_statements
from pgdyno.programs import find_engine
from pgdyno.records.capture import CAPTURE_FILE, Capture, Source, StatementClass, Values
from pgdyno.store import RunFolder, list_runs
from pgdyno.synthesise.distributions import Distribution, Histogram, ScatteredZipf, Uniform, Weighted, Zipf
from pgdyno.synthesise.fit_values import fit, frequency_distance, tolerance, value_distance
from pgdyno.synthesise.modelled_load import model_log
from pgdyno.targets import Home, Server
from tests.captured_load import CapturedLoad
from tests.conninfo import conninfo
from tests.postgres.conftest import FAST
from tests.postgres.runs import pgdyno
from tests.postgres.servers import embedded, execute, opened
from tests.present import present
from tests.run_program import run_program
from tests.unit.capture_sample import capture as capture_of

DRAWN = 3_000
DISTRIBUTIONS: dict[str, Distribution] = {
    "uniform": Uniform(-5_000, 5_000),
    "zipf": Zipf(1, 100_000, 1.3),
    "flat": Zipf(11, 50_000, 0.7),
    "rising": Zipf(1, 1_000, 0.95, falling=False),
    "scattered": ScatteredZipf(1, 100_000, 100_000, 1.1),
    "listed": Weighted((3, 5, 8), (6, 3, 1)),
    "histogram": Histogram(((1, 10), (11, 500), (9_000, 9_100))),
}
SHARE = 0.01
SEED = "--random-seed=4711"


def drive(server: Server, *options: str, folder: Path | None = None) -> None:
    run_program([find_engine().path, "-n", *options], cwd=folder, env={**os.environ, **server.environment()}, code=0)


def test_pgdrive_draws_what_a_model_says(server: Server, tmp_path: Path) -> None:
    script = tmp_path / "draw.sql"
    lines = [line for name, each in DISTRIBUTIONS.items() for line in each.lines(name)]
    script.write_text("\n".join([*lines, f"INSERT INTO drawn VALUES ({', '.join(map(':{}'.format, DISTRIBUTIONS))});"]))
    columns = ", ".join(f"{name} bigint" for name in DISTRIBUTIONS)
    with server.connect() as connection:
        connection.execute(f"CREATE TABLE drawn ({columns})".encode())
        drive(server, SEED, f"--file={script}", f"--transactions={DRAWN}")
        rows = np.array(connection.execute("SELECT * FROM drawn").fetchall(), dtype=np.int64)
        connection.execute("DROP TABLE drawn")
    rng = np.random.default_rng(1)
    for (name, each), values in zip(DISTRIBUTIONS.items(), rows.T, strict=True):
        expected = each.draw(rng, DRAWN)
        assert frequency_distance(values, expected) < tolerance(DRAWN), name
        if isinstance(each, ScatteredZipf):
            assert (values.min() >= 1, values.max() <= 100_000) == (True, True)
            found = fit(values).distribution
            assert isinstance(found, ScatteredZipf)
            assert abs(found.exponent - each.exponent) < 0.05
        else:
            assert value_distance(values, expected) < tolerance(DRAWN), name


def test_a_model_of_saved_rows_breaks_no_unique_column(server: Server, tmp_path: Path) -> None:
    rng, load, script = np.random.default_rng(1), CapturedLoad(), tmp_path / "save.sql"
    for number in range(300):
        row = rng.integers(1, 51)
        update = f"UPDATE saved SET code = '{row:032x}'::uuid, n = {number} WHERE id = {row}"
        load.add(0, number * 100_000, update)
    (modelled,) = model_log(load.write(tmp_path / "load"), load.capture(), 0.001).scripts
    script.write_text(modelled.text)
    with server.connect() as connection:
        connection.execute(
            "CREATE TABLE saved AS SELECT id, lpad(to_hex(id), 32, '0')::uuid AS code, -1 AS n"
            " FROM generate_series(1, 50) AS id"
        )
        connection.execute("ALTER TABLE saved ADD UNIQUE (code)")
        drive(server, SEED, f"--file={script}", "--transactions=200")
        assert present(connection.execute("SELECT count(*) FROM saved WHERE n >= 0").fetchone())[0] > 40
        connection.execute("DROP TABLE saved")


@pytest.fixture(scope="module")
def logging(home: Home) -> Iterator[Server]:
    with opened(home, embedded(settings={**FAST, "log_min_duration_statement": "0"}), "logging") as server:
        drive(server, "-i", "-q", "-s", "1")
        yield server


def end_log(server: Server) -> None:
    """Writes entries that are not of a load: the last entry of a log may be cut, and no capture has it."""
    with server.connect():
        pass


def captured(server: Server, home: Home, tmp_path: Path, *options: str) -> Path:
    before = server.log_size()
    drive(server, SEED, *options)
    end_log(server)
    with server.log_path.open("rb") as log:
        log.seek(before)
        (tmp_path / "server.log").write_bytes(log.read())
    pgdyno(home, tmp_path, "capture", "--log", "server.log", "--values", "kept", "--into", "shop", code=0)
    return tmp_path / "shop"


def test_a_known_mix_is_captured_modelled_and_run(logging: Server, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "look.sql").write_text(
        "\\set aid random_zipfian(1, 100000, 1.3)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
    )
    (tmp_path / "range.sql").write_text(
        "\\set first random(1, 99900)\n\\set last :first + 99\n"
        "SELECT sum(abalance) FROM pgbench_accounts WHERE aid BETWEEN :first AND :last;\n"
    )
    mix = ["--builtin=tpcb-like@2", f"--file={tmp_path / 'look.sql'}@5", f"--file={tmp_path / 'range.sql'}@3"]
    captured(logging, warm_home, tmp_path, *mix, "--client=4", "--transactions=500", "--protocol=prepared")
    done = pgdyno(warm_home, tmp_path, "synthesise", "shop", "--min-share", "1", "--json", code=0)
    made = json.loads(done.stdout)
    # on a busy machine, the query by which pgdrive finds the scale takes more than 1 % of the time
    scripts = [script for script in made["scripts"] if "pg_inherits" not in script["name"]]
    assert sum(script["weight"] for script in scripts) == 2_000
    assert len(scripts) == 3
    assert (made["modelled"] > 0.95, made["protocol"]) == (True, "prepared")
    texts = {path.name: path.read_text() for path in (tmp_path / "shop-model").glob("*.sql")}
    (tpcb,) = [text for text in texts.values() if "pgbench_history" in text]
    assert "\\set abalance random(-5000, 5000)\n" in tpcb
    assert "\\set aid random(1, 100000)\n" in tpcb
    assert "\\set tid random(1, 10)\n" in tpcb
    (look,) = [text for text in texts.values() if "Zipf" in text]
    (exponent,) = re.findall(r"random_zipfian\(1, \d+, ([\d.]+)\)", look)
    assert abs(float(exponent) - 1.3) < 0.05
    (ranged,) = [text for text in texts.values() if "BETWEEN" in text]
    assert "\\set aid_to :aid + 99\n" in ranged
    dsn = f"host={logging.host} port={logging.port} user={logging.user} dbname=postgres"
    plan = "shop-model/plan.toml"
    pgdyno(
        *(warm_home, tmp_path, "run", plan, "--set", f"target.copy.dsn={dsn}"),
        *("--set", f"target.copy.database={logging.environment()['PGDATABASE']}", "--set", "trial.warmup=0s"),
        *("--set", "trial.duration=3s", "--set", "trial.seed=1", "--quiet"),
        code=0,
    )
    (entry,) = list_runs(tmp_path / "pgdyno-runs")
    (trial,) = RunFolder.open(entry.path).trials()
    likeness = present(trial.likeness)
    assert likeness.outside == 0
    assert all(each.calls for each in likeness.classes if each.captured_share > SHARE)
    # as many transactions as a slow machine makes in 3 s decide by chance: five standard deviations of a share
    chance = 5 * (0.25 / max(1, likeness.calls / 4)) ** 0.5
    assert present(likeness.largest_difference) < SHARE + chance


@pytest.mark.long
def test_a_model_of_tpcc_sends_what_tpcc_sent(logging: Server, warm_home: Home, tmp_path: Path) -> None:
    execute(logging, "CREATE DATABASE tpcc")
    load = ["--dbname=tpcc", "--client=4", "--transactions=500"]
    drive(logging, "-i", "-q", "--dataset=tpcc", "--warehouses=1", load[0])
    captured(logging, warm_home, tmp_path, "--workload=tpcc", "--tpcc-variant=sql", *load)
    done = pgdyno(warm_home, tmp_path, "synthesise", "shop", "--json", code=0)
    model = tmp_path / "shop-model"
    scripts = [f"--file={each['name']}@{each['weight']}" for each in json.loads(done.stdout)["scripts"]]
    # one that fails is no other load: without the keys of new rows, no order would be complete
    drive(logging, SEED, *scripts, *load, "--protocol=prepared", "--events=events", folder=model)
    start, *_, end = map(json.loads, (model / "events").read_text().splitlines())
    capture = Capture.model_validate_json((model / CAPTURE_FILE).read_text())
    found = likeness(capture, modelled_statements(start, end, capture.commands))
    assert (found.outside, sum(each.errors for each in found.classes)) == (0, 0)
    assert len([each for each in found.classes if each.calls]) > 20
    assert present(found.largest_difference) < SHARE
    execute(logging, "DROP DATABASE tpcc")


def test_statistics_give_the_values_of_pg_stat_statements(logging: Server, warm_home: Home, tmp_path: Path) -> None:
    texts = [
        "SELECT abalance FROM pgbench_accounts WHERE aid = $1",
        "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2",
        "SELECT n FROM kinds WHERE kind = $1 AND tags && $2 AND price > $3 AND day = $4 LIMIT $5",
        "INSERT INTO kinds (id, kind, price) VALUES ($1, $2, $3)",
        "BEGIN",
        "SELECT * FROM gone WHERE a = $1",
    ]
    execute(
        logging,
        """
            CREATE TABLE kinds AS SELECT id, CASE WHEN id % 10 < 7 THEN 'open' ELSE 'closed' END AS kind, 1 AS n,
                   ARRAY[id % 3] AS tags, (id % 900 + 100) / 100.0 AS price, date '2025-01-01' + id % 300 AS day
            FROM generate_series(1, 5000) AS id
            """,
        "ANALYZE",
    )
    classes = [StatementClass(text=text, calls=100, total_us=1e6) for text in texts]
    capture = capture_of(source=Source.STATEMENTS, values=Values.UNKNOWN, calls=600, statements=classes)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / CAPTURE_FILE).write_text(capture.model_dump_json())
    dsn = f"host={logging.host} port={logging.port} user={logging.user} dbname={logging.environment()['PGDATABASE']}"
    done = pgdyno(warm_home, tmp_path, "synthesise", "shop", "--dsn", dsn, code=0)
    assert 'relation "gone" does not exist' in done.stdout
    made = {path.name: path.read_text() for path in sorted((tmp_path / "shop-model").glob("*.sql"))}
    assert list(made) == [
        "01-select-pgbench_accounts.sql",
        "02-update-pgbench_tellers.sql",
        "03-select-kinds.sql",
        "04-insert-kinds.sql",
    ]
    assert "\\set aid random(1, 100000)\n" in made["01-select-pgbench_accounts.sql"]
    assert "\\set tid random(1, 10)\n" in made["02-update-pgbench_tellers.sql"]
    assert "kind = 'open'" in made["03-select-kinds.sql"]
    assert "\\set id random(5001, 2147483647)\n" in made["04-insert-kinds.sql"]
    files = [f"--file={tmp_path / 'shop-model' / name}" for name in made]
    drive(logging, *files, "--transactions=200", "--protocol=extended")
    execute(logging, "DROP TABLE kinds")


def test_new_keys_are_those_that_the_server_gives_out(logging: Server, warm_home: Home, tmp_path: Path) -> None:
    with logging.connect() as connection:
        connection.execute("CREATE TABLE orders (id serial PRIMARY KEY, customer int NOT NULL)")
        connection.execute("CREATE TABLE lines (of int REFERENCES orders, product int)")
        before = logging.log_size()
        # a session that pgdyno opens is its own, and no capture has it
        with psycopg.connect(conninfo(logging), autocommit=True) as application:
            for number in range(120):
                with application.transaction():
                    insert = f"INSERT INTO orders (customer) VALUES ({number % 50}) RETURNING id"
                    (key,) = application.execute(insert.encode()).fetchone() or (0,)
                    for product in range(1 + number % 3):
                        application.execute(
                            f"INSERT INTO lines (of, product) VALUES ({key}, {product + number})".encode()
                        )
        end_log(logging)
        (tmp_path / "server.log").write_bytes(logging.log_path.read_bytes()[before:])
        for words in (
            ["capture", "--log", "server.log", "--values", "kept", "--into", "shop"],
            ["synthesise", "shop", "--least", "5"],
        ):
            pgdyno(warm_home, tmp_path, *words, code=0)
        # what connections ask the server for first may be scripts, too
        (script,) = (each for each in (tmp_path / "shop-model").glob("*.sql") if "INTO lines" in each.read_text())
        assert "RETURNING id \\gset new1_\n" in script.read_text()
        drive(logging, f"--file={script}", "--transactions=100")
        assert connection.execute("SELECT count(*) FROM orders").fetchone() == (220,)
        connection.execute("DROP TABLE lines, orders")
