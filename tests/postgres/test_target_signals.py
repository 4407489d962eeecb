"""Runs ended by signals, from SIGINT to SIGKILL."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgdyno.messages import Message
from pgdyno.targets import Home, sweep_leftovers
from pgdyno.targets.cluster.instance_record import RECORD
from pgdyno.targets.cluster.processes import PROC, ProcessId, descendants, identify, servers_in
from pgdyno.targets.embedded.schema import EmbeddedTarget
from tests.postgres.servers import opened, value
from tests.present import present
from tests.waiting import wait_until

HOLDER = """
import json, signal, sys, time
from pathlib import Path
from psycopg.conninfo import make_conninfo
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets import Home, open_target

def terminate(number, frame):
    raise SystemExit(128 + number)

signal.signal(signal.SIGTERM, terminate)

class Shown:
    def step(self, text):
        print(text, flush=True)

    def bytes(self, done, total):
        pass

    def rows(self, done, total, per_s, left_s):
        pass

spec = EmbeddedTarget(
    kind="embedded", version="18", keep_data=sys.argv[2] == "keep", settings={"shared_buffers": "16MB"}
)
with open_target("held", spec, home=Home.locate(Path(sys.argv[1])), progress=Shown()) as server:
    with server.connect() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS loaded AS SELECT 42 AS n")
    address = make_conninfo(**{**server.address.parameters, "dbname": server.dbname})
    facts = {"data": str(server.data_directory), "log": str(server.log_path), "conninfo": address}
    print("ready " + json.dumps(facts), flush=True)
    while True:
        time.sleep(0.05)
"""


@dataclass
class Holder:
    """A child process that holds a server."""

    process: subprocess.Popen[str]

    def wait_for(self, beginning: str) -> str:
        for line in present(self.process.stdout):
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        raise AssertionError(f"the holder ended before it said {beginning!r}")

    def wait_ready(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self.wait_for("ready "))
        return facts

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Hold = Callable[..., Holder]


@pytest.fixture
def temporary(scratch: Path) -> Path:
    folder = scratch / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def hold(warm_home: Home, temporary: Path, child_environment: dict[str, str]) -> Iterator[Hold]:
    """Starts holders; none is left."""
    started: list[Holder] = []

    def start(keep: str = "no") -> Holder:
        argv = [sys.executable, "-c", HOLDER, str(warm_home.path), keep]
        environment = {**child_environment, "TMPDIR": str(temporary)}
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        started.append(Holder(process))
        return started[-1]

    yield start
    for holder in started:
        holder.process.kill()
        holder.process.communicate()
    sweep_leftovers(warm_home)


def family_of(data: str) -> list[ProcessId]:
    """All processes of the server in `data`."""
    postmaster = present(identify(int((Path(data) / "postmaster.pid").read_text().splitlines()[0])))
    return [postmaster, *descendants(postmaster)]


def command_line(process: ProcessId) -> bytes:
    try:
        return (PROC / str(process.pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def nothing_left(home: Home, temporary: Path) -> bool:
    return not list(home.instances.glob("*")) and not list(temporary.iterdir())


# ---- asked to end ----


@pytest.mark.long_cases("[15")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_ends_all(hold: Hold, warm_home: Home, temporary: Path, number: signal.Signals, status: int) -> None:
    holder = hold()
    family = family_of(holder.wait_ready()["data"])
    assert len(family) > 3
    holder.process.send_signal(number)
    assert holder.process.wait() == status
    assert not [process for process in family if process.is_alive()]
    assert nothing_left(warm_home, temporary)


@pytest.mark.long_cases("[15")
@pytest.mark.parametrize(
    ("number", "step"),
    [
        (signal.SIGTERM, "looking up PostgreSQL"),
        (signal.SIGTERM, "creating a cluster"),
        (signal.SIGINT, "creating a cluster"),
        (signal.SIGINT, "starting PostgreSQL"),
    ],
)
def test_signals_in_all_steps(hold: Hold, warm_home: Home, temporary: Path, number: signal.Signals, step: str) -> None:
    # initdb, not a copy of what it made for another
    warm_home.templates.unlink()
    holder = hold()
    holder.wait_for(step)
    holder.process.send_signal(number)
    assert holder.process.wait() in (143, -signal.SIGINT)
    assert nothing_left(warm_home, temporary)


def test_a_second_signal_does_not_stop_the_clean_up(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holder = hold()
    facts = holder.wait_ready()
    family = family_of(facts["data"])
    # a server that a stopped child keeps from ending: time enough for the second signal
    checkpointer = next(process for process in family if b"checkpointer" in command_line(process))
    checkpointer.send(signal.SIGSTOP)
    holder.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "received fast shutdown request" in Path(facts["log"]).read_text())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        holder.process.send_signal(number)
    checkpointer.send(signal.SIGCONT)
    assert holder.process.wait() != 0
    assert not [process for process in family if process.is_alive()]
    assert nothing_left(warm_home, temporary)


# ---- killed ----

SWEPT = "(stopped the server|found the folder of a server)"
"""The second where it has ended by itself by then."""


def test_a_server_ends_with_its_pgdyno(hold: Hold, warm_home: Home) -> None:
    holder = hold()
    facts = holder.wait_ready()
    family = family_of(facts["data"])
    holder.kill()
    wait_until(lambda: not [process for process in family if process.is_alive()])
    assert "received fast shutdown request" in Path(facts["log"]).read_text()
    assert len(sweep_leftovers(warm_home)) == 1


def test_a_server_outlives_the_thread_that_started_it(warm_home: Home) -> None:
    spec = EmbeddedTarget(kind="embedded", version="18", settings={"shared_buffers": "16MB"})
    with opened(warm_home, spec) as server:
        thread = threading.Thread(target=server.restart)
        thread.start()
        thread.join()
        with server.connect() as connection, pytest.raises(psycopg.errors.QueryCanceled):
            # had the kernel sent its signal at the end of the thread, the session would be gone
            connection.execute("SET statement_timeout = 500; SELECT pg_sleep(60)")
        assert "received fast shutdown request" not in server.log_path.read_text().rpartition("ready to accept")[2]


def test_a_zombie_does_not_keep_a_kept_cluster(hold: Hold, warm_home: Home) -> None:
    holder = hold("keep")
    data = Path(holder.wait_ready()["data"])
    lock = (data / "postmaster.pid").read_text().splitlines()
    holder.process.send_signal(signal.SIGTERM)
    holder.process.wait()
    # as in a container whose first process waits for no child
    user = warm_home.account.popen_user()
    zombie = subprocess.Popen(["true"], **user)
    wait_until(lambda: identify(zombie.pid) is None)
    (data / "postmaster.pid").write_text("\n".join([str(zombie.pid), *lock[1:], ""]))
    warm_home.account.take(data / "postmaster.pid")
    assert hold_again(warm_home) == str(data)
    zombie.wait()


def test_remains_of_a_killed_run_are_removed(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holder = hold()
    facts = holder.wait_ready()
    family = family_of(facts["data"])
    # while it lives, nothing of it is touched
    assert sweep_leftovers(warm_home) == []
    assert family[0].is_alive()
    # its server would end with it
    family[0].halt()
    holder.kill()
    assert family[0].is_alive()
    family[0].send(signal.SIGCONT)
    said = sweep_leftovers(warm_home)
    assert len(said) == 1
    assert re.match(rf"{SWEPT} of target held, left by process {holder.process.pid}; removed ", str(said[0]))
    assert not [process for process in family if process.is_alive()]
    assert nothing_left(warm_home, temporary)
    assert sweep_leftovers(warm_home) == []


def test_a_run_killed_in_initdb_is_swept(hold: Hold, warm_home: Home, temporary: Path) -> None:
    warm_home.templates.unlink()
    holder = hold()
    holder.wait_for("creating a cluster")
    instances = warm_home.instances
    wait_until(lambda: any(servers_in(data) for data in instances.glob("*/data")))
    (data,) = instances.glob("*/data")
    holder.kill()
    assert len(sweep_leftovers(warm_home)) == 1
    assert servers_in(data) == []
    assert nothing_left(warm_home, temporary)


def test_kept_data_outlives_a_killed_run(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holder = hold("keep")
    data = holder.wait_ready()["data"]
    family = family_of(data)
    holder.kill()
    assert str(sweep_leftovers(warm_home)[0]).endswith(f"; its cluster {data} is kept")
    assert not [process for process in family if process.is_alive()]
    assert nothing_left(warm_home, temporary)
    assert hold_again(warm_home) == data


@pytest.mark.long
def test_kept_data_of_a_killed_run_can_be_used_without_a_sweep(hold: Hold, warm_home: Home) -> None:
    holder = hold("keep")
    data = holder.wait_ready()["data"]
    holder.kill()
    assert hold_again(warm_home) == data


def hold_again(home: Home) -> str:
    """Opens the kept cluster of a holder; its folder."""
    spec = EmbeddedTarget(kind="embedded", version="18", keep_data=True)
    with opened(home, spec, "again") as server:
        assert value(server, "SELECT n FROM loaded") == 42
        return str(server.data_directory)


@pytest.mark.long
def test_two_may_sweep_at_once(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holders = [hold() for _ in range(2)]
    for holder in holders:
        holder.wait_ready()
    for holder in holders:
        holder.kill()
    said: list[Message] = []
    sweepers = [threading.Thread(target=lambda: said.extend(sweep_leftovers(warm_home))) for _ in range(3)]
    for sweeper in sweepers:
        sweeper.start()
    for sweeper in sweepers:
        sweeper.join()
    assert len(said) == 2
    assert all(re.match(f"{SWEPT} of target held", str(note)) for note in said)
    assert nothing_left(warm_home, temporary)


def test_a_process_that_got_the_number_later_is_left_alone(hold: Hold, warm_home: Home) -> None:
    holder = hold()
    facts = holder.wait_ready()
    holder.kill()
    # as if the numbers of owner and server were others' by now
    [path] = warm_home.instances.glob(f"*/{RECORD}")
    innocent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    record = json.loads(path.read_text())
    record |= {"owner_pid": os.getpid(), "postmaster_pid": innocent.pid}
    path.write_text(json.dumps(record))
    assert len(sweep_leftovers(warm_home)) == 1
    assert innocent.poll() is None
    innocent.communicate(b"\n")
    assert servers_in(Path(facts["data"])) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(facts["conninfo"])


def test_a_folder_of_others_is_not_removed(hold: Hold, warm_home: Home, scratch: Path) -> None:
    holder = hold()
    holder.wait_ready()
    holder.kill()
    precious = scratch / "precious"
    precious.mkdir()
    [path] = warm_home.instances.glob(f"*/{RECORD}")
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"socket_directory": str(precious)}))
    assert len(sweep_leftovers(warm_home)) == 1
    assert precious.is_dir()


def test_a_damaged_record_is_swept(warm_home: Home) -> None:
    folder = warm_home.instances / "half-made"
    folder.mkdir(parents=True)
    (folder / RECORD).write_text("{")
    assert list(map(str, sweep_leftovers(warm_home))) == [f"found the folder of a server; removed {folder}"]
    assert not folder.exists()
