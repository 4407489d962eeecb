"""Every command that a guide shows as `$ …` in a console block runs, in the order of the page, on real servers.

The blocks of a page with a title are its files. Trials are one second long, a server of this host replaces those on
other hosts, and installers and containers are not called: `make dist-check` and `make image-check` test these commands.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.cluster.installation import Installation
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.forked import PGDYNO
from tests.postgres.conftest import FAST
from tests.postgres.own_servers import LOGS_STATEMENTS, OwnServer, running_server
from tests.postgres.runs import environment

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
PAGES = (
    "install",
    "tutorial",
    "compare-settings",
    "own-sql",
    "aurora",
    "latency",
    "github-actions",
    "moving",
    "sysbench",
)
OWN_LOAD_PAGES = ("own-load", "own-load-replay", "own-load-model")
"""They capture what an application does meanwhile."""
ELSEWHERE = "db.example.net"
NOT_CALLED = {"make", "pipx", "docker", "tar", "pgdrive-*/pgdrive"}
"""They install something, or need a daemon or a release."""
QUICK = ("--no-preflight", "--set", "trial.repeats=1")
SHORT = (*QUICK, "--set", "trial.warmup=0s", "--set", "trial.duration=1s", "--set", "sweep.clients=2")
RECORDED = "3s"
REPLAYS = {"app-load/plan.toml", "django.toml"}
"""Plans that take their clients and the length of a trial from a capture."""
PASSWORD = "of the docs"
TABLES = """\
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id int NOT NULL, total numeric NOT NULL);
INSERT INTO orders (customer_id, total) SELECT i % 1000 + 1, i % 100 FROM generate_series(1, 5000) AS i;
CREATE INDEX ON orders (customer_id, id);
ALTER TABLE orders OWNER TO bench;
"""
EXPECTED_CODES = {"gate": {11}}
"""One pair decides nothing."""


@pytest.fixture(scope="module")
def theirs(home: Home) -> Iterator[Server]:
    """The server of the reader: a database `app` with orders, and a role `bench`."""
    spec = EmbeddedTarget(kind="embedded", version="18", settings=FAST, connect="tcp")
    with open_target("theirs", spec, home=home, progress=SilentProgress()) as server:
        with server.connect() as connection:
            connection.execute(f"CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'")
            connection.execute("CREATE DATABASE app OWNER bench")
        with server.connect("app") as connection:
            connection.execute(TABLES)
        yield server


def blocks(page: str) -> list[tuple[str, str, str]]:
    """Language, title and text of each fenced block."""
    text = (GUIDES / f"{page}.md").read_text()
    return re.findall(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[str]:
    text = "".join(text for language, _, text in blocks(page) if language == "console")
    return [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]


def here(text: str, host: str, port: int) -> str:
    """Returns `text` with this host's server instead of a remote one, and with little data."""
    text = text.replace("scale = 10 ", "scale = 1 ").replace("scale = 10\n", "scale = 1\n")
    text = text.replace("table_size = 100000", "table_size = 1000")
    text = text.replace("copy.example.net", ELSEWHERE).replace("host=127.0.0.1 port=55415", f"host={ELSEWHERE}")
    return text.replace(f"-h {ELSEWHERE}", f"-h {host} -p {port}").replace(
        f"host={ELSEWHERE}", f"host={host} port={port}"
    )


def shortened(command: str) -> str:
    """`command` with a second of load; a replay is as long as what was recorded."""
    command = re.sub(r"-T \d+", "-T 1", re.sub(r"--for \S+", f"--for {RECORDED}", command))
    words = shlex.split(command, comments=True)
    if words[0] != "pgdyno":
        return command
    if words[1] == "run":
        words += QUICK if words[2] in REPLAYS else SHORT
    if words[1] == "ab":
        words += ("--no-preflight", "--warmup", "0s", "--duration", "500ms", "--pairs", "6")
        words += () if "--dsn" in words else ("--scale", "1")
    return shlex.join(words)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, theirs: Server, home: Home, tmp_path: Path) -> None:
    variables = {"PGPASSWORD": PASSWORD, "BENCH_PASSWORD": PASSWORD}
    run_page(page, tmp_path, theirs.host, theirs.port, environment(home) | variables)


def run_page(page: str, folder: Path, host: str, port: int, variables: Mapping[str, str]) -> None:
    """Writes the files of a page, and runs its commands."""
    for _, title, text in blocks(page):
        if title:
            (folder / title).write_text(here(text, host, port))
    path = f"{PGDYNO.parent}:{variables['PATH']}"
    listed = commands(page)
    assert listed
    for command in listed:
        name, *rest = shlex.split(command, comments=True)
        if name in NOT_CALLED:
            continue
        typed = shortened(here(command, host, port))
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=folder, env={**variables, "PATH": path, "COLUMNS": "120"},
            capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        expected = EXPECTED_CODES.get(rest[0], {0}) if name == "pgdyno" else {0}
        assert done.returncode in expected, f"$ {typed}\n{done.stdout}\n{done.stderr}"


# ---- captures ----


@pytest.fixture(scope="module")
def captured_server() -> Iterator[OwnServer]:
    """The server of an application, with its database twice; the version has pg_dump, which embedded builds lack."""
    (*_, program) = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_dump"))
    major = program.parents[1].name
    installation = Installation(program.parent, major, int(major), "Debian")
    configuration = f"{LOGS_STATEMENTS}shared_preload_libraries = 'pg_stat_statements'\n"
    with running_server(installation, configuration, "app", "shop") as server:
        with server.connect() as connection:
            connection.execute("CREATE ROLE bench LOGIN CREATEDB SUPERUSER")
        for database in ("app", "shop"):
            with psycopg.connect(application_dsn(server, database), autocommit=True) as connection:
                connection.execute(f"CREATE EXTENSION pg_stat_statements; {TABLES}".encode())
        yield server


def application_dsn(server: OwnServer, database: str) -> str:
    return f"host=127.0.0.1 port={server.port} user=postgres dbname={database}"


@contextmanager
def application(server: OwnServer) -> Iterator[None]:
    """Runs transactions in both databases for the time of the block."""
    done = threading.Event()

    def work(database: str) -> None:
        with psycopg.connect(application_dsn(server, database)) as connection:
            number = 0
            while not done.wait(0.02):
                number += 1
                with connection.transaction():
                    connection.execute("SELECT total FROM orders WHERE id = %s", [number % 5000 + 1])
                    insert = "INSERT INTO orders (customer_id, total) VALUES (%s, %s)"
                    connection.execute(insert, [number % 1000 + 1, number % 100])

    threads = [threading.Thread(target=work, args=[database]) for database in ("app", "shop")]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("page", OWN_LOAD_PAGES)
def test_the_commands_of_a_page_on_captures_run(
    page: str, captured_server: OwnServer, home: Home, tmp_path: Path
) -> None:
    variables = environment(home) | {"PGHOST": "127.0.0.1", "PGPORT": str(captured_server.port), "PGUSER": "postgres"}
    with application(captured_server):
        run_page(page, tmp_path, "127.0.0.1", captured_server.port, variables)
