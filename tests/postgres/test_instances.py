"""Targets of several instances with real servers: clusters of pgdyno's own, and servers that are there already."""

import json
import sys
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.targets import Home
from tests.postgres.runs import pgdyno, the_run
from tests.postgres.servers import embedded, opened, value

PLAN = """\
name = "instances"
[target.own]
kind = "embedded"
version = "18"
instances = 2
settings = { fsync = "off", shared_buffers = "16MB" }
[target.theirs]
kind = "dsn"
dsn = "FIRST"
other_dsns = ["SECOND"]
database = "measured"
[workload]
scripts = ["one.sql"]
dataset = "none"
[sweep]
clients = 1
rate = 50
[trial]
duration = "500ms"
repeats = 6
[hooks]
before_trial = ["PYTHON", "server.py"]
[probe]
enabled = false
"""
SERVER = """\
import os
import psycopg
with psycopg.connect() as connection, open("servers", "a") as file:
    (directory,) = connection.execute("SELECT current_setting('data_directory')").fetchone()
    print(os.environ["PGDYNO_TARGET"], directory, file=file)
"""


@pytest.mark.long
def test_repeats_take_turns_at_separate_servers(warm_home: Home, tmp_path: Path) -> None:
    spec = embedded()
    with opened(warm_home, spec, "first") as first, opened(warm_home, spec, "second") as second:
        text = PLAN.replace("PYTHON", sys.executable)
        for name, server in (("FIRST", first), ("SECOND", second)):
            text = text.replace(name, f"host={server.host} port={server.port} user={server.user}")
        (tmp_path / "plan.toml").write_text(text)
        (tmp_path / "one.sql").write_text("SELECT 1;\n")
        (tmp_path / "server.py").write_text(SERVER)
        done = pgdyno(warm_home, tmp_path, "run", "plan.toml")
        directories = [
            value(server, "SELECT current_setting('data_directory')", "postgres") for server in (first, second)
        ]
    assert done.returncode == ExitCode.OK, done.stderr
    trials = the_run(tmp_path).trials()
    served = [line.split() for line in (tmp_path / "servers").read_text().splitlines()]
    assert [target for target, _ in served] == [trial.target for trial in trials]
    by_turn = {(trial.target, trial.instance, server) for trial, (_, server) in zip(trials, served, strict=True)}
    assert len(by_turn) == 4
    assert {server for target, _, server in by_turn if target == "theirs"} == set(directories)
    assert len({server for _, _, server in by_turn}) == 4
    assert {(trial.repeat, trial.instance) for trial in trials} == {(n, 2 - n % 2) for n in range(1, 7)}
    shown = json.loads(pgdyno(warm_home, tmp_path, "show", "latest", "--json").stdout)
    assert shown["answer"]["noise"]["instances"] == 2
    assert "one-instance" not in pgdyno(warm_home, tmp_path, "audit", "latest").stdout
