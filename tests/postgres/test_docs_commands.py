"""Every command that a guide shows as `$ …` in a console block runs, in the order of the page, on real servers.

The blocks of a page with a title are its files. Trials are one second long, a server of this host replaces those on
other hosts, and installers and containers are not called: `make dist-check` and `make image-check` test these commands.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgdyno.targets import Home, Server, SilentProgress, open_target
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.forked import PGDYNO
from tests.postgres.conftest import FAST
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
ELSEWHERE = "db.example.net"
NOT_CALLED = {"make", "pipx", "docker", "tar", "pgdrive-*/pgdrive"}
"""They install something, or need a daemon or a release."""
SHORT = (
    *("--no-preflight", "--set", "trial.warmup=0s", "--set", "trial.duration=1s", "--set", "trial.repeats=1"),
    *("--set", "sweep.clients=2"),
)
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


def here(text: str, server: Server) -> str:
    """Returns `text` with this host's server instead of a remote one, and with little data."""
    host, port = server.host, server.port
    text = text.replace("scale = 10 ", "scale = 1 ").replace("scale = 10\n", "scale = 1\n")
    text = text.replace("table_size = 100000", "table_size = 1000")
    return text.replace(f"-h {ELSEWHERE}", f"-h {host} -p {port}").replace(
        f"host={ELSEWHERE}", f"host={host} port={port}"
    )


def shortened(command: str) -> str:
    """`command` with a second of load."""
    words = shlex.split(command, comments=True)
    if words[:2] == ["pgdyno", "run"]:
        words += SHORT
    if words[:2] == ["pgdyno", "ab"]:
        words += ("--no-preflight", "--warmup", "0s", "--duration", "500ms", "--pairs", "6")
        words += () if "--dsn" in words else ("--scale", "1")
    return re.sub(r"-T \d+", "-T 1", shlex.join(words))


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run(page: str, theirs: Server, home: Home, tmp_path: Path) -> None:
    for _, title, text in blocks(page):
        if title:
            (tmp_path / title).write_text(here(text, theirs))
    variables = {"PGPASSWORD": PASSWORD, "BENCH_PASSWORD": PASSWORD, "COLUMNS": "120"}
    variables["PATH"] = f"{PGDYNO.parent}:{os.environ['PATH']}"
    listed = commands(page)
    assert listed
    for command in listed:
        name, *rest = shlex.split(command, comments=True)
        if name in NOT_CALLED:
            continue
        typed = shortened(here(command, theirs))
        done = subprocess.run(
            ["bash", "-c", typed],
            cwd=tmp_path, env=environment(home) | variables, capture_output=True, text=True, check=False, timeout=240,
        )  # fmt: skip
        expected = EXPECTED_CODES.get(rest[0], {0}) if name == "pgdyno" else {0}
        assert done.returncode in expected, f"$ {typed}\n{done.stdout}\n{done.stderr}"
