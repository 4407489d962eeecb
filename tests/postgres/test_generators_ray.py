"""A run on a cluster of Ray that is there already: `--generators ray://…`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgdyno.cluster.local_nodes import free_port
from pgdyno.cluster.node_script import Node, order, started_here
from pgdyno.cluster.requirements import GO
from pgdyno.records import Outcome
from pgdyno.target import Home, Server
from tests.postgres.runs import PGDYNO, environment, the_run

HERE = "127.0.0.1"
TOKEN = "5" * 64
LEASE_S = 600
PLAN = """\
name = "theirs"
[target.db]
kind = "dsn"
dsn = "{dsn}"
password_env = "THEIR_PASSWORD"
database = "theirs"
[probe]
enabled = false
[workload]
scripts = ["one.sql"]
[sweep]
clients = 3
[trial]
transactions = 20
"""


@contextmanager
def head(folder: Path) -> Iterator[str]:
    """Ray's head with its server for clients, as its owner would start it; it makes load itself."""
    port = free_port(HERE)
    told = json.loads(order(Node("theirs", f"{HERE}:{free_port(HERE)}", HERE, is_head=True, makes_load=True), TOKEN))
    told["command"].append(f"--ray-client-server-port={port}")
    with (folder / "head.log").open("wb") as log:
        process = subprocess.Popen(started_here(), stdin=subprocess.PIPE, stdout=log, stderr=log)
    assert process.stdin is not None
    with process, process.stdin:
        process.stdin.write(json.dumps(told | {"lease_s": LEASE_S}).encode() + b"\n" + GO)
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not is_up(folder / "head.log", port):
            assert process.poll() is None, (folder / "head.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield f"ray://{HERE}:{port}"


def is_up(log: Path, port: int) -> bool:
    """The node by what Ray says, and the server for clients, which it does not wait for."""
    if b"Ray runtime started" not in log.read_bytes():
        return False
    try:
        socket.create_connection((HERE, port)).close()
    except OSError:
        return False
    return True


def run(home: Home, folder: Path, server: Server, place: str, token: str) -> tuple[int, str]:
    """Exit code and words of a run there."""
    secrets = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "THEIR_PASSWORD": server.environment()["PGPASSWORD"]}
    done = subprocess.run(
        [PGDYNO, "run", "plan.toml", "--no-preflight", "--generators", place],
        cwd=folder,
        env=environment(home) | secrets,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def test_a_cluster_that_is_there_makes_the_load(server: Server, warm_home: Home, tmp_path: Path) -> None:
    address = server.environment()
    dsn = " ".join(
        f"{name}={address[f'PG{variable}']}"
        for name, variable in (("host", "HOST"), ("port", "PORT"), ("user", "USER"), ("dbname", "DATABASE"))
    )
    (tmp_path / "plan.toml").write_text(PLAN.format(dsn=dsn))
    (tmp_path / "one.sql").write_text("SELECT :client_id;\n")
    with head(tmp_path) as place:
        code, said = run(warm_home, tmp_path, server, place, "0" * 64)
        assert code == 7, said
        assert "it does not let us in: " in said
        assert "RAY_AUTH_TOKEN" in said
        # nothing is begun that cannot be gone on with
        assert not list(tmp_path.glob("pgdyno-runs/*"))
        code, said = run(warm_home, tmp_path, server, place, TOKEN)
        assert code == 0, said
    with server.connect() as connection:
        connection.execute("DROP DATABASE theirs")
    (trial,) = the_run(tmp_path).trials()
    assert trial.outcome is Outcome.FINISHED
    assert trial.generator is not None
    (host,) = trial.generator.hosts
    assert (host.name, host.host, host.clients) == ("theirs", os.uname().nodename, 3)
    assert (host.succeeded, host.clients_aborted) == (60, 0)
    assert host.clock_ahead_after_us is not None
    assert host.ray_cpu_us is not None
