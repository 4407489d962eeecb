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
from pgdyno.targets.cluster.processes import ProcessId, descendants, identify, servers_in
from tests.postgres.servers import embedded, opened, value
from tests.present import present
from tests.processes import command_line
from tests.waiting import wait_until

HOLDER = """
import json, signal, sys, time
from pathlib import Path
from psycopg.conninfo import make_conninfo
from pgdyno.targets.embedded.schema import EmbeddedTarget
from pgdyno.targets import Home, SilentProgress, open_target

def terminate(number, frame):
    raise SystemExit(128 + number)

signal.signal(signal.SIGTERM, terminate)

class Shown(SilentProgress):
    def step(self, text):
        print(text, flush=True)

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
    process: subprocess.Popen[str]

    def wait_for(self, beginning: str) -> str:
        for line in present(self.process.stdout):
            if line.startswith(beginning):
                return line.removeprefix(beginning)
        raise AssertionError(f"the holder ended before it said {beginning!r}")

    def wait_ready(self) -> tuple[dict[str, Any], list[ProcessId]]:
        """Returns facts about its server, and the processes of that."""
        facts = json.loads(self.wait_for("ready "))
        pid = int((Path(facts["data"]) / "postmaster.pid").read_text().splitlines()[0])
        postmaster = present(identify(pid))
        return facts, [postmaster, *descendants(postmaster)]

    def end(self, number: signal.Signals = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.process.wait()


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


def alive(family: list[ProcessId]) -> list[ProcessId]:
    return [process for process in family if process.is_alive()]


def nothing_left(home: Home, temporary: Path) -> bool:
    return not list(home.instances.glob("*")) and not list(temporary.iterdir())


def hold_again(home: Home) -> str:
    with opened(home, embedded(keep_data=True), "again") as server:
        assert value(server, "SELECT n FROM loaded") == 42
        return str(server.data_directory)


# ---- asked to end ----


@pytest.mark.long_cases("[15")
@pytest.mark.parametrize(
    ("number", "step"),
    [
        (signal.SIGTERM, "looking up PostgreSQL"),
        (signal.SIGTERM, "creating a cluster"),
        (signal.SIGINT, "creating a cluster"),
        (signal.SIGINT, "starting PostgreSQL"),
        (signal.SIGTERM, "ready "),
        (signal.SIGINT, "ready "),
    ],
)
def test_a_signal_ends_all(hold: Hold, warm_home: Home, temporary: Path, number: signal.Signals, step: str) -> None:
    if step == "creating a cluster":
        # initdb, not a copy of what it made for another
        warm_home.templates.unlink()
    holder = hold()
    family: list[ProcessId] = []
    if step == "ready ":
        _, family = holder.wait_ready()
        assert len(family) > 3
    else:
        holder.wait_for(step)
    assert holder.end(number) == (143 if number is signal.SIGTERM else -number)
    assert not alive(family)
    assert nothing_left(warm_home, temporary)


def test_a_second_signal_does_not_stop_the_clean_up(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holder = hold()
    facts, family = holder.wait_ready()
    # a server that a stopped child keeps from ending: time enough for the second signal
    checkpointer = next(process for process in family if b"checkpointer" in command_line(process.pid))
    checkpointer.send(signal.SIGSTOP)
    holder.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "received fast shutdown request" in Path(facts["log"]).read_text())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        holder.process.send_signal(number)
    checkpointer.send(signal.SIGCONT)
    assert holder.process.wait() != 0
    assert not alive(family)
    assert nothing_left(warm_home, temporary)


# ---- killed ----


def change_record(home: Home, **fields: object) -> None:
    (path,) = home.instances.glob(f"*/{RECORD}")
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_server_ends_with_its_pgdyno(hold: Hold, warm_home: Home, scratch: Path) -> None:
    holder = hold()
    facts, family = holder.wait_ready()
    holder.end()
    wait_until(lambda: not alive(family))
    assert "received fast shutdown request" in Path(facts["log"]).read_text()
    # a folder of others is not removed
    precious = scratch / "precious"
    precious.mkdir()
    change_record(warm_home, socket_directory=str(precious))
    assert len(sweep_leftovers(warm_home)) == 1
    assert precious.is_dir()


SWEPT = "(stopped the server|found the folder of a server)"
"""The second where it has ended by itself by then."""


def test_remains_of_a_killed_run_are_removed(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holder = hold()
    facts, family = holder.wait_ready()
    # while it lives, nothing of it is touched
    assert sweep_leftovers(warm_home) == []
    assert family[0].is_alive()
    # its server would end with it
    family[0].halt()
    holder.end()
    assert family[0].is_alive()
    family[0].send(signal.SIGCONT)
    # as if the numbers of owner and server were others' by now
    innocent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    change_record(warm_home, owner_pid=os.getpid(), postmaster_pid=innocent.pid)
    (said,) = sweep_leftovers(warm_home)
    assert re.match(rf"{SWEPT} of target held, left by process {os.getpid()}; removed ", str(said))
    assert innocent.poll() is None
    innocent.communicate(b"\n")
    assert not alive(family)
    assert servers_in(Path(facts["data"])) == []
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(facts["conninfo"])
    assert nothing_left(warm_home, temporary)
    assert sweep_leftovers(warm_home) == []
    # a damaged record
    folder = warm_home.instances / "half-made"
    folder.mkdir(parents=True)
    (folder / RECORD).write_text("{")
    assert list(map(str, sweep_leftovers(warm_home))) == [f"found the folder of a server; removed {folder}"]
    assert not folder.exists()


def test_a_run_killed_in_initdb_is_swept(hold: Hold, warm_home: Home, temporary: Path) -> None:
    warm_home.templates.unlink()
    holder = hold()
    holder.wait_for("creating a cluster")
    instances = warm_home.instances
    wait_until(lambda: any(servers_in(data) for data in instances.glob("*/data")))
    (data,) = instances.glob("*/data")
    holder.end()
    assert len(sweep_leftovers(warm_home)) == 1
    assert servers_in(data) == []
    assert nothing_left(warm_home, temporary)


def test_kept_data_outlives_a_killed_run(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holder = hold("keep")
    facts, family = holder.wait_ready()
    file = Path(facts["data"]) / "postmaster.pid"
    lock = file.read_text().splitlines()
    holder.end()
    assert str(sweep_leftovers(warm_home)[0]).endswith(f"; its cluster {facts['data']} is kept")
    assert not alive(family)
    assert nothing_left(warm_home, temporary)
    # a zombie with the recorded process number is not a server: a container's first process may reap no child
    zombie = subprocess.Popen(["true"], **warm_home.account.popen_user())
    wait_until(lambda: identify(zombie.pid) is None)
    file.write_text("\n".join([str(zombie.pid), *lock[1:], ""]))
    warm_home.account.take(file)
    assert hold_again(warm_home) == facts["data"]
    zombie.wait()


@pytest.mark.long
def test_kept_data_of_a_killed_run_can_be_used_without_a_sweep(hold: Hold, warm_home: Home) -> None:
    holder = hold("keep")
    facts, _ = holder.wait_ready()
    holder.end()
    assert hold_again(warm_home) == facts["data"]


@pytest.mark.long
def test_two_may_sweep_at_once(hold: Hold, warm_home: Home, temporary: Path) -> None:
    holders = [hold() for _ in range(2)]
    for holder in holders:
        holder.wait_ready()
    for holder in holders:
        holder.end()
    said: list[Message] = []
    sweepers = [threading.Thread(target=lambda: said.extend(sweep_leftovers(warm_home))) for _ in range(3)]
    for sweeper in sweepers:
        sweeper.start()
    for sweeper in sweepers:
        sweeper.join()
    assert len(said) == 2
    assert all(re.match(f"{SWEPT} of target held", str(note)) for note in said)
    assert nothing_left(warm_home, temporary)
