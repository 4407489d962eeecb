"""A load from a capture is refused where it was captured, and runs on copies, however these are reached."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgdyno.errors import ExitCode
from pgdyno.records.capture import Capture
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO
from tests.postgres.own_servers import LOGS_STATEMENTS, OwnServer, running_server
from tests.postgres.runs import environment, pgdyno, the_run
from tests.waiting import PATIENCE_S, wait_until

ROWS = 20


@pytest.fixture(scope="module")
def server(installed: Installation) -> Iterator[OwnServer]:
    with running_server(installed, LOGS_STATEMENTS, "shop") as server:
        yield server


def by_socket(server: OwnServer) -> str:
    return f"host={server.folder} port={server.port} user=postgres dbname=shop"


def by_address(server: OwnServer) -> str:
    return f"host=127.0.0.1 port={server.port} user=postgres dbname=shop"


def carts(server: OwnServer) -> int:
    with psycopg.connect(by_socket(server)) as connection:
        return len(connection.execute("SELECT FROM cart").fetchall())


def captured(server: OwnServer, home: Home, folder: Path) -> None:
    """Captures statements that add rows, into the folder `load`; the table is empty before."""
    with psycopg.connect(by_socket(server), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS cart (id int)")
        connection.execute("TRUNCATE cart")
        with (folder / "stderr").open("w+") as words:
            command = [str(PGDYNO), "capture", by_socket(server), "--for", "3s", "--into", "load", "--values", "kept"]
            process = subprocess.Popen(command, cwd=folder, env=environment(home), stdout=words, stderr=words)
            wait_until(lambda: "recording" in (folder / "stderr").read_text() or process.poll() is not None)
            for number in range(ROWS):
                connection.execute(f"INSERT INTO cart VALUES ({number})".encode())
            assert process.wait(PATIENCE_S) == ExitCode.OK, (folder / "stderr").read_text()


def run(home: Home, folder: Path, plan: str, dsn: str, *more: str) -> subprocess.CompletedProcess[str]:
    settings = (f"target.copy.dsn={dsn}", "probe.enabled=false", *more)
    options = [word for each in settings for word in ("--set", each)]
    return pgdyno(home, folder, "run", plan, "--quiet", *options)


def test_a_load_is_refused_on_its_server_and_runs_on_a_copy(server: OwnServer, warm_home: Home, tmp_path: Path) -> None:
    captured(server, warm_home, tmp_path)
    assert carts(server) == ROWS
    pgdyno(warm_home, tmp_path, "synthesise", "load", "--into", "model", code=ExitCode.OK)
    # a restart changes all that a server says of itself, but for its system identifier and its place
    for dsn in (by_socket(server), by_address(server).replace("127.0.0.1", "localhost")):
        for plan in ("load/plan.toml", "model/plan.toml"):
            done = run(warm_home, tmp_path, plan, dsn)
            assert done.returncode == ExitCode.TARGET, done.stdout + done.stderr
            assert "target copy: the database shop of this server was captured" in done.stderr
            assert "--set workload.allow_captured=true" in done.stderr
            assert not (tmp_path / "pgdyno-runs").exists()
        server.restart()
    assert carts(server) == ROWS

    server.stop()
    copy = server.copy(server.folder.with_name("copy"))
    server.start()
    copy.start()
    try:
        done = run(warm_home, tmp_path, "load/plan.toml", by_socket(copy))
        assert done.returncode == ExitCode.OK, done.stdout + done.stderr
        assert (carts(copy), carts(server)) == (2 * ROWS, ROWS)
    finally:
        copy.stop()


def test_a_plan_may_allow_its_load_where_it_was_captured(server: OwnServer, warm_home: Home, tmp_path: Path) -> None:
    captured(server, warm_home, tmp_path)
    # log files do not name their server
    log = ("--log", f"{server.data}/log/*.csv", "--database", "shop")
    done = pgdyno(warm_home, tmp_path, "capture", *log, "--into", "l", code=ExitCode.OK)
    assert "note: log files do not name their server" in done.stdout
    assert Capture.model_validate_json((tmp_path / "l" / "capture.json").read_text()).server is None
    done = run(warm_home, tmp_path, "load/plan.toml", by_socket(server), "workload.allow_captured=true")
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert carts(server) == 2 * ROWS
    # a run is resumed with what its plan allowed, and not without
    run_folder = the_run(tmp_path)
    manifest = json.loads((run_folder.path / "manifest.json").read_text())
    assert manifest["plan"]["workload"].pop("allow_captured") is True
    manifest["ended_at"] = manifest["outcome"] = None
    (run_folder.path / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(next((run_folder.path / "trials").iterdir()))
    done = pgdyno(warm_home, tmp_path, "run", "--resume", run_folder.path.name, code=ExitCode.TARGET)
    assert "this server was captured" in done.stderr
