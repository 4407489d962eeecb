"""A load is logged by a real server, captured from its log, and replayed through a plan: it is the same load again.

The replay is logged, too, and captured again: both captures must say the same. A shop that is captured
through the proxy, and replayed on a copy whose sequences are elsewhere, is the same shop.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from pgdyno.capture.folder import readme
from pgdyno.capture.server.server_session import foreign_keys, reach_server, sequence_positions
from pgdyno.errors import ExitCode
from pgdyno.records import Outcome, ReplayFigures, TrialRecord
from pgdyno.records.capture import LeftOut
from pgdyno.store import RunFolder, read_capture_of
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer, running_server
from tests.postgres.runs import fast_plan, pgdyno, the_run
from tests.postgres.shop_application import CONTENT, ELSEWHERE, SCHEMA, Shop
from tests.postgres.test_capture_proxy import ended, proxied
from tests.present import present
from tests.unit.capture_sample import capture as capture_of
from tests.unit.capture_sample import write_capture

PREFIX = "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:"
LOGGED = f"""\
name = "logged"
[target.pg18]
kind = "embedded"
version = "18"
[target.pg18.settings]
log_min_duration_statement = 0
log_connections = "on"
log_disconnections = "on"
log_line_prefix = "{PREFIX}"
fsync = "off"
[workload]
dataset = "pgbench"
"""
LOAD = """\
scripts = ["mix.sql"]
[sweep]
clients = 3
protocol = "PROTOCOL"
[trial]
transactions = 20
[probe]
enabled = false
"""
MIX = """\
\\set aid random(1, 100000 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
END;
SELECT count(*) FROM pgbench_tellers WHERE tbalance > :delta;
INSERT INTO pgbench_history (tid, bid, aid, delta, filler) VALUES (:client_id, 1, :aid, :delta, 'it''s {"é"}');
"""

TABLES = """\
import pathlib, sys, psycopg
with psycopg.connect("") as connection:
    hashes = [
        connection.execute(f"SELECT count(*), sum(hashtext(t::text)::numeric) FROM ({query}) AS t").fetchone()
        for query in (
            "SELECT aid, bid, abalance FROM pgbench_accounts",
            "SELECT bid, bbalance FROM pgbench_branches",
            "SELECT tid, bid, aid, delta, filler FROM pgbench_history",
        )
    ]
pathlib.Path(sys.argv[1]).write_text(repr(hashes))
"""
"""Hashes of the tables: the load only adds to balances, and so commutes."""


def write_plan(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "tables.py").write_text(TABLES)
    hook = json.dumps([sys.executable, str(tmp_path / "tables.py"), str(tmp_path / f"{name}.hashes")])
    (tmp_path / f"{name}.toml").write_text(f"{LOGGED}{text}[hooks]\nafter_trial = {hook}\n")


def sessions_of(folder: Path) -> dict[int, list[tuple[Any, ...]]]:
    """Return the statements of each session in their order, with their values, but without times and numbers."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT session, kind, sql, parameters, transaction IS NOT NULL, sqlstate, rows "
            f"FROM '{folder / 'capture.parquet'}' WHERE sql IS NOT NULL ORDER BY session, seq"
        ).fetchall()
    found: dict[int, list[tuple[Any, ...]]] = {}
    for session, kind, sql, parameters, *rest in rows:
        found.setdefault(session, []).append((kind, sql, tuple(parameters or ()), *rest))
    return found


def capture_load(home: Home, tmp_path: Path, run: RunFolder, into: str) -> list[list[tuple[Any, ...]]]:
    """Return the sessions of the load's clients, by their content."""
    (log,) = run.path.glob("trials/*/log/server.log")
    # others prepare and check the dataset
    (name,) = set(re.findall(r":(pgdrive [0-9a-f]{8}/1):", log.read_text()))
    options = ("--prefix", PREFIX, "--application", name, "--values", "kept")
    pgdyno(home, tmp_path, "capture", "--log", str(log), "--into", into, *options, code=ExitCode.OK)
    return sorted(sessions_of(tmp_path / into).values(), key=repr)


@pytest.mark.long_cases("simple")
@pytest.mark.parametrize("protocol", ["simple", "prepared"])
def test_a_captured_load_is_the_same_load_again(warm_home: Home, tmp_path: Path, protocol: str) -> None:
    (tmp_path / "mix.sql").write_text(MIX)
    write_plan(tmp_path, "original", LOAD.replace("PROTOCOL", protocol))
    pgdyno(warm_home, tmp_path, "run", "original.toml", code=ExitCode.OK)
    load = capture_load(warm_home, tmp_path, the_run(tmp_path), "shop")
    assert len(load) == 3

    write_plan(tmp_path, "again", 'replay = "shop"\n')
    pgdyno(warm_home, tmp_path, "run", "again.toml", "--runs", "replays", code=ExitCode.OK)
    folder = RunFolder.open(next((tmp_path / "replays").iterdir()))
    (trial,) = folder.trials()
    assert trial.outcome is Outcome.FINISHED, trial.failure
    agrees(trial, statements=sum(map(len, load)))
    assert (tmp_path / "again.hashes").read_text() == (tmp_path / "original.hashes").read_text()

    assert capture_load(warm_home, tmp_path, folder, "replayed") == load
    assert not list(folder.path.glob(".replay*"))
    kept = present(read_capture_of(folder.path))
    assert kept.calls == sum(map(len, load))
    if protocol == "simple":
        agrees_with_its_model(warm_home, tmp_path)


def agrees_with_its_model(home: Home, tmp_path: Path) -> None:
    pgdyno(home, tmp_path, "synthesise", "shop", "--into", "model", code=ExitCode.OK)
    changes = ("workload.dataset=pgbench", "trial.warmup=0s", "trial.duration=2s", "probe.enabled=false")
    options = ("--on", "embedded", "--runs", "models", *(word for each in changes for word in ("--set", each)))
    pgdyno(home, tmp_path, "run", "model/plan.toml", *options, code=ExitCode.OK)
    (folder,) = (tmp_path / "models").iterdir()
    (trial,) = RunFolder.open(folder).trials()
    found = present(trial.likeness)
    # each command of the scripts is in its class
    assert (found.outside, found.not_modelled) == (0, 0)
    assert [each for each in found.classes if not each.calls] == []
    # also where several scripts have the same statement
    assert all(each.p50_us and each.p99_us for each in found.classes if each.calls > each.errors)
    assert present(trial.summary).replay is None


def agrees(trial: TrialRecord, statements: int) -> None:
    replay = present(present(trial.summary).replay)
    assert replay.disagreed == 0, replay
    assert (replay.statements, replay.done, replay.not_started, replay.sessions_lost) == (statements, statements, 0, 0)
    assert present(trial.likeness).calls == statements
    assert present(trial.likeness).largest_difference == 0


@pytest.mark.long
def test_a_run_is_resumed_and_compared_with_the_same_capture_only(warm_home: Home, tmp_path: Path) -> None:
    left = [LeftOut(reason="copy-data", count=3)]
    shop = write_capture(tmp_path / "shop", span_us=5000, transactions=2, left_out=left)
    (tmp_path / "plan.toml").write_text(fast_plan('replay = "shop"', "", "repeats = 2\n[probe]\nenabled = false"))
    pgdyno(warm_home, tmp_path, "run", "plan.toml", code=ExitCode.INVALID)
    run = the_run(tmp_path)
    (first, second) = run.trials()
    # there is no table t: errors are disagreements, and no failures of the trial
    assert first.outcome is Outcome.FINISHED
    assert present(present(first.summary).replay).disagreements["new_errors"] > 0
    assert first.duration_s == 0.005
    assert present(run.manifest.capture).name == "shop"
    assert run.manifest.notes.count("capture: COPY from the client: a log does not have its rows (3)") == 1

    shown = pgdyno(warm_home, tmp_path, "show", run.path.name)
    assert "Disagreements with the capture: " in shown.stdout
    audited = pgdyno(warm_home, tmp_path, "audit", run.path.name)
    assert "unlike-capture" in audited.stdout
    pgdyno(warm_home, tmp_path, "report", run.path.name, code=ExitCode.OK)
    assert 'id="load"' in (run.path / "report.html").read_text()

    shutil.rmtree(run.path / "trials" / second.slug)
    content = (shop / "capture.parquet").read_bytes()
    (shop / "capture.parquet").write_bytes(content[:4] + b"?" + content[5:])
    done = pgdyno(warm_home, tmp_path, "run", "--resume", str(run.path), code=ExitCode.STORE)
    assert f"{shop / 'capture.parquet'} has changed since the run began" in done.stderr
    (shop / "capture.parquet").write_bytes(content)
    pgdyno(warm_home, tmp_path, "run", "--resume", str(run.path), code=ExitCode.INVALID)
    assert len(the_run(tmp_path).trials()) == 2

    pgdyno(
        warm_home, tmp_path, "run", "plan.toml", "--runs", "faster", "--set", "workload.pace=2", code=ExitCode.INVALID
    )
    (faster,) = (tmp_path / "faster").iterdir()
    done = pgdyno(warm_home, tmp_path, "compare", str(run.path), str(faster))
    assert "replays at different paces" in done.stdout + done.stderr
    assert done.returncode != ExitCode.OK


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, "", "shop") as server:
        yield server


def dsn(server: OwnServer, database: str) -> str:
    return f"host=127.0.0.1 port={server.port} user=postgres dbname={database}"


def make(server: OwnServer, database: str, more: str) -> None:
    with psycopg.connect(dsn(server, "postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)".encode())
        connection.execute(f"CREATE DATABASE {database}".encode())
    with psycopg.connect(dsn(server, database), autocommit=True) as connection:
        connection.execute(f"{SCHEMA};{more}".encode())


def content(server: OwnServer, database: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(dsn(server, database)) as connection:
        return {
            name: sorted(connection.execute(query.encode()).fetchall(), key=repr) for name, query in CONTENT.items()
        }


def replay_figures(home: Home, folder: Path, server: OwnServer) -> ReplayFigures:
    """Replay the capture `shop` on the database `copy`, whose sequences are elsewhere."""
    make(server, "copy", ELSEWHERE)
    changes = (f"target.copy.dsn={dsn(server, 'copy')}", "target.copy.database=copy", "probe.enabled=false")
    words = ("--no-preflight", "--alongside", *(word for each in changes for word in ("--set", each)))
    done = pgdyno(home, folder, "run", "shop/plan.toml", *words)
    assert done.returncode in {ExitCode.OK, ExitCode.INVALID}, done.stdout + done.stderr
    (trial,) = the_run(folder).trials()
    return present(present(trial.summary).replay)


def test_a_capture_keeps_foreign_keys_and_says_how_to_move_sequences(server: OwnServer) -> None:
    make(server, "shop", ELSEWHERE)
    keys = foreign_keys(reach_server(dsn(server, "shop"), None))
    assert (keys["order_lines.order_id"], keys["orders.cart_id"]) == ("orders.id", "carts.id")
    positions = sequence_positions(reach_server(dsn(server, "shop"), None))
    assert positions == {"public.carts_id_seq": 1000, "public.payment_numbers": 77}
    text = readme(capture_of(sequences=positions))
    assert "SELECT setval('public.carts_id_seq', 1000);\nSELECT setval('public.payment_numbers', 77);" in text


@pytest.mark.long_cases("anonymised")
@pytest.mark.parametrize("values", ["kept", "anonymised"])
def test_the_copy_says_what_the_shop_says(server: OwnServer, home: Home, tmp_path: Path, values: str) -> None:
    make(server, "shop", "")
    with proxied(home, tmp_path, dsn(server, "shop"), "--values", values) as (capture, proxy):
        Shop(proxy).run(sessions=6, transactions=60)
        ended(capture)
    figures = replay_figures(home, tmp_path, server)
    shop, copy = content(server, "shop"), content(server, "copy")
    assert all(shop.values())
    if values == "anonymised":
        # the rows of COPY are no part of such a capture, and nothing else is missing
        assert figures.disagreements.pop("different_rows") == figures.copies_without_data > 0
        assert not (shop.pop("audit") and copy.pop("audit"))
    assert present(figures.agreement) >= 0.999 or values == "anonymised"
    assert (figures.disagreed, figures.worst if values == "kept" else []) == (0, [])
    ids = present(figures.ids)
    assert (ids.mapped > 1000, ids.not_mapped, ids.ambiguous) == (True, 0, 0)
    assert copy == shop
