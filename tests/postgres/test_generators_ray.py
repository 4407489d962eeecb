"""A run on an existing Ray cluster: `--generators ray://…`."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pgdyno.generators.ray_node import GO, descendants
from pgdyno.generators.ray_start import Node, free_port, local_command, order
from pgdyno.records import Outcome
from pgdyno.targets import Home, Server
from tests.forked import PGDYNO
from tests.postgres.runs import environment, the_run
from tests.postgres.test_generators import sessions
from tests.present import present
from tests.signals import send_signal

pytestmark = pytest.mark.long

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
clients = {clients}
[trial]
{length}
"""
RUN = ("run", "plan.toml", "--no-preflight", "--generators")


@dataclass
class Theirs:
    """A cluster of Ray as its owner would start it: a head with its server for clients, and nodes."""

    folder: Path
    address: str
    """The address of the head."""
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def generators(self) -> list[str]:
        """Agents and engines on all nodes that were not killed."""
        alive = [name for name in self.nodes if self.nodes[name].poll() is None]
        return [
            each
            for name in alive
            for each in self.processes(name).values()
            if each.startswith("ray::Agent") or "pgdrive" in each
        ]

    @contextmanager
    def node(self, name: str, *options: str, is_head: bool = False, makes_load: bool = True) -> Iterator[None]:
        """A node that has started."""
        told = json.loads(order(Node(name, self.address, HERE, is_head, makes_load), TOKEN))
        told["command"] += options
        file = self.folder / f"{name}.log"
        with file.open("wb") as log:
            process = subprocess.Popen(local_command(), stdin=subprocess.PIPE, stdout=log, stderr=log)
        assert process.stdin is not None
        with process, process.stdin:
            process.stdin.write(json.dumps(told | {"lease_s": LEASE_S}).encode() + b"\n" + GO)
            process.stdin.flush()
            self.nodes[name] = process
            wait_until(lambda: b"Ray runtime started" in file.read_bytes() or process.poll() is not None)
            assert process.poll() is None, file.read_text()
            yield

    def processes(self, name: str) -> dict[int, str]:
        found = {}
        for pid in descendants(self.nodes[name].pid):
            with suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        return found

    def kill(self, name: str) -> None:
        """Kills all of Ray's processes on a node; the process that started them then ends."""
        send_signal(signal.SIGKILL, self.processes(name))
        self.nodes[name].wait()


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@contextmanager
def cluster(folder: Path, *, makes_load: bool) -> Iterator[tuple[Theirs, str]]:
    port = free_port(HERE)
    theirs = Theirs(folder, f"{HERE}:{free_port(HERE)}")
    with theirs.node("theirs", f"--ray-client-server-port={port}", is_head=True, makes_load=makes_load):
        wait_until(lambda: is_up(port))
        yield theirs, f"ray://{HERE}:{port}"


def is_up(port: int) -> bool:
    """Tells whether the server for clients runs; a node does not wait for it."""
    try:
        socket.create_connection((HERE, port)).close()
    except OSError:
        return False
    return True


def secrets(server: Server, token: str) -> dict[str, str]:
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token, "THEIR_PASSWORD": server.environment()["PGPASSWORD"]}


def run(home: Home, folder: Path, server: Server, place: str, token: str) -> tuple[int, str]:
    """Returns exit code and output of a run on the cluster."""
    done = subprocess.run(
        [PGDYNO, *RUN, place],
        cwd=folder,
        env=environment(home) | secrets(server, token),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


@contextmanager
def driving(home: Home, folder: Path, server: Server, place: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a run on the cluster, whose output goes to `folder`/said."""
    with (folder / "said").open("wb") as said:
        command = [str(PGDYNO), *RUN, place]
        process = subprocess.Popen(
            command, cwd=folder, env=environment(home) | secrets(server, TOKEN), stdout=said, stderr=said
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write_plan(folder: Path, server: Server, clients: object, length: str) -> None:
    address = server.environment()
    dsn = " ".join(
        f"{name}={address[f'PG{variable}']}"
        for name, variable in (("host", "HOST"), ("port", "PORT"), ("user", "USER"), ("dbname", "DATABASE"))
    )
    (folder / "plan.toml").write_text(PLAN.format(dsn=dsn, clients=clients, length=length))
    (folder / "one.sql").write_text("SELECT :client_id;\n")


def drop(server: Server) -> None:
    with server.connect() as connection:
        connection.execute("DROP DATABASE theirs WITH (FORCE)")


def test_a_cluster_that_is_there_makes_the_load(server: Server, warm_home: Home, tmp_path: Path) -> None:
    write_plan(tmp_path, server, 3, "transactions = 20")
    with cluster(tmp_path, makes_load=True) as (_, place):
        code, said = run(warm_home, tmp_path, server, place, "0" * 64)
        assert code == 7, said
        assert "it refuses access: " in said
        assert "RAY_AUTH_TOKEN" in said
        # nothing is begun that cannot be gone on with
        assert not list(tmp_path.glob("pgdyno-runs/*"))
        code, said = run(warm_home, tmp_path, server, place, TOKEN)
        assert code == 0, said
    drop(server)
    (trial,) = the_run(tmp_path).trials()
    assert trial.outcome is Outcome.FINISHED
    (host,) = present(trial.generator).hosts
    assert (host.name, host.host, host.clients) == ("theirs", os.uname().nodename, 3)
    assert (host.succeeded, host.clients_aborted) == (60, 0)
    assert host.clock_ahead_after_us is not None
    assert host.ray_cpu_us is not None


def test_faults_of_a_cluster_that_is_not_ours(server: Server, warm_home: Home, tmp_path: Path) -> None:
    # long enough for the slowest machine: both trials are interrupted
    write_plan(tmp_path, server, 2, 'duration = "120s"')
    with cluster(tmp_path, makes_load=False) as (theirs, place), ExitStack() as stack:
        for name in ("load1", "load2"):
            stack.enter_context(theirs.node(name))
        with driving(warm_home, tmp_path, server, place) as run:
            wait_for_load(server)
            theirs.kill("load1")
            wait_until(lambda: AGAIN in said(tmp_path))
            # pgdyno stopped the other one
            wait_until(lambda: sessions(server) == 0)
            # it is not ours to start, and is waited for
            stack.enter_context(theirs.node("load1"))
            wait_for_load(server)
            assert run.poll() is None, said(tmp_path)
            run.kill()
            # by its lease, without an order
            wait_until(lambda: sessions(server) == 0)
            # Ray's client server would leave the agents for half a minute
            wait_until(lambda: not theirs.generators())
    assert any(note.startswith(AGAIN) for note in the_run(tmp_path).manifest.notes)
    drop(server)


AGAIN = "trial 1 runs again: generator 1 of 2 (load1) was lost: "


def wait_for_load(server: Server) -> None:
    wait_until(lambda: sessions(server) == 2)
    before = transactions(server)
    wait_until(lambda: transactions(server) > before + 500)


def transactions(server: Server) -> int:
    with server.connect() as connection:
        row = connection.execute("SELECT sum(xact_commit) FROM pg_stat_database").fetchone()
    return int(present(row)[0])


def said(folder: Path) -> str:
    return (folder / "said").read_text()
