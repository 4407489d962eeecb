"""Generators on Ray: three nodes on this machine, and the end of a load when one of them is lost.

test_generators.py tests the engines and the merging without Ray, whose nodes take seconds to start.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.generators.generator_lifecycle import Cluster, open_cluster
from pgdyno.generators.merge_events import Event
from pgdyno.plan.hosts import generators
from pgdyno.programs import find_engine
from pgdyno.targets import Server
from tests.postgres.generator_agents import generators_here, run_load
from tests.postgres.test_generators import sessions, wait_for_no_sessions
from tests.present import present
from tests.run_program import run_program
from tests.signals import send_signal
from tests.waiting import wait_until

pytestmark = pytest.mark.long

NODES = 3
OPTIONS = ["--events=-", "--parent-lease", "--no-vacuum", "--random-seed=7", "--protocol=prepared"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with open_cluster(generators([f"local:{NODES}"]), lambda _text: None) as cluster:
        yield cluster


def load(
    cluster: Cluster, server: Server, folder: Path, options: list[str], meanwhile: Callable[[Event], None] | None = None
) -> list[Event]:
    events: list[Event] = []
    with (
        (folder / "engine.log").open("w+b") as errors,
        cluster.running(find_engine(), [*OPTIONS, *options], server.environment(), errors, folder) as (process, stream),
    ):
        for event in stream:
            events.append(event)
            if meanwhile is not None:
                meanwhile(event)
        process.wait()
    return events


def figures(events: list[Event], server: Server) -> object:
    """The results of a load of tpcb-like and select-only, and the rows that it left."""
    with server.connect() as connection:
        left = connection.execute(
            "SELECT count(*), sum(delta), sum(hashtext(concat_ws('/', tid, bid, aid, delta))::bigint)"
            " FROM pgbench_history"
        ).fetchone()
        connection.execute("TRUNCATE pgbench_history")
    return {script["script"]: script["succeeded"] for script in events[-1]["scripts"]}, left


@pytest.fixture(scope="module")
def tables(server: Server) -> Iterator[Server]:
    done = subprocess.run(
        [find_engine().path, "-i", "-q"], env=os.environ | server.environment(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    yield server
    with server.connect() as connection:
        connection.execute("DROP TABLE pgbench_accounts, pgbench_branches, pgbench_tellers, pgbench_history")


def test_three_nodes_are_one_engine(cluster: Cluster, tables: Server, tmp_path: Path) -> None:
    options = ["-b", "tpcb-like@2", "-b", "select-only", "--client=5", "--transactions=60"]
    events = load(cluster, tables, tmp_path, options)
    end = events[-1]
    assert end["outcome"] == "finished", (tmp_path / "engine.log").read_text()
    assert [host["name"] for host in end["generators"]] == [f"generator-{number}" for number in (1, 2, 3)]
    assert [host["clients"] for host in end["generators"]] == [2, 2, 1]
    assert end["succeeded"] == 300
    many = figures(events, tables)
    with generators_here(1) as here:
        one = figures(run_load(here, [*OPTIONS, *options], tables.environment(), tmp_path), tables)
    assert many == one


def test_a_point_of_few_clients_uses_few_nodes(cluster: Cluster, tables: Server, tmp_path: Path) -> None:
    events = load(cluster, tables, tmp_path, ["-b", "select-only", "--client=2", "--transactions=5"])
    assert len(events[-1]["generators"]) == 2
    assert events[-1]["succeeded"] == 10


def agent_pid(cluster: Cluster, number: int) -> int:
    return int(cluster.generators[number].facts["pid"])


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def after_first_second(act: Callable[[], None]) -> Callable[[Event], None]:
    did = threading.Event()

    def meanwhile(event: Event) -> None:
        if event["event"] == "interval" and not did.is_set():
            did.set()
            act()

    return meanwhile


LONG = ["-b", "select-only", "--client=6", "--rate=300", "--time=120"]


def test_a_stopped_load_says_what_it_measured(cluster: Cluster, tables: Server, tmp_path: Path) -> None:
    events: list[Event] = []
    with (
        (tmp_path / "engine.log").open("w+b") as errors,
        cluster.running(find_engine(), [*OPTIONS, *LONG], tables.environment(), errors, tmp_path) as (process, stream),
    ):
        # while it is listened to: engines whose lease is renewed stop for nothing else
        tell = after_first_second(lambda: process.send_signal(signal.SIGINT))
        for event in stream:
            events.append(event)
            tell(event)
    end = events[-1]
    assert end["outcome"] == "interrupted", end.get("message")
    assert all(host["succeeded"] > 0 for host in end["generators"])


def test_a_frozen_node_fails_the_load_and_comes_back(cluster: Cluster, tables: Server, tmp_path: Path) -> None:
    pid = agent_pid(cluster, 1)
    try:
        end = load(cluster, tables, tmp_path, LONG, after_first_second(lambda: os.kill(pid, signal.SIGSTOP)))[-1]
        assert end["message"] == "generator 2 of 3 (generator-2) was lost: it did not answer within 3 s"
        # its engine still runs: no order to stop can reach it, and nothing renews its lease
        wait_for_no_sessions(tables)
    finally:
        send_signal(signal.SIGCONT, [pid])
    assert load(cluster, tables, tmp_path, ["-b", "select-only", "--client=3", "-t3"])[-1]["succeeded"] == 9


def test_a_killed_node_fails_the_load_and_is_started_anew(cluster: Cluster, tables: Server, tmp_path: Path) -> None:
    node = parent(agent_pid(cluster, 2))

    def kill() -> None:
        os.kill(node, signal.SIGKILL)

    end = load(cluster, tables, tmp_path, LONG, after_first_second(kill))[-1]
    assert end["message"].startswith("generator 3 of 3 (generator-3) was lost: ")
    assert end["lost_generator"] == 3
    wait_for_no_sessions(tables)
    assert load(cluster, tables, tmp_path, ["-b", "select-only", "--client=3", "-t3"])[-1]["succeeded"] == 9
    assert len(cluster.generators) == NODES


HEADLESS = """
import os, signal, sys, json
from pathlib import Path
from pgdyno.errors import EngineError
from pgdyno.generators.generator_lifecycle import opened
from pgdyno.plan.hosts import Places
from pgdyno.programs import find_engine
options, environment = json.loads(sys.argv[1]), json.loads(sys.argv[2])
with opened(Places(local=1), lambda text: None) as cluster, open("log", "w+b") as errors:
    for _ in range(2):
        try:
            with cluster.running(find_engine(), options, environment, errors, Path(".")) as (_, events):
                for event in events:
                    print(event["event"], event.get("message", ""), flush=True)
        except EngineError as error:
            print(error.message, error.hint, sep="; ", flush=True)
"""


def test_a_killed_head_ends_the_load(tables: Server, tmp_path: Path, child_environment: dict[str, str]) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", HEADLESS, json.dumps([*OPTIONS, *LONG]), json.dumps(tables.environment())],
        cwd=tmp_path,
        env=child_environment | {"PGDYNO_TEST_MARK": tmp_path.name},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert any(line.startswith("interval") for line in present(driver.stdout))
    send_signal(signal.SIGKILL, [pid for pid, command in marked(tmp_path.name).items() if "/gcs_server " in command])
    rest, _ = driver.communicate()
    assert driver.returncode == 0
    assert "end generator 1 of 1 (generator-1) was lost: " in rest
    assert "the head of the generators' cluster has ended; continue with new generators: pgdyno run --resume" in rest
    wait_for_no_sessions(tables)


def test_a_cluster_wants_its_token(cluster: Cluster) -> None:
    del cluster
    import ray

    address = ray.get_runtime_context().gcs_address
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    program = f"import ray; ray.init(address={address!r}, logging_level='ERROR')"
    done = run_program(
        [sys.executable, "-c", program], env=environment | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    )
    assert done.returncode != 0
    assert "InvalidAuthToken" in done.stderr


DRIVER = """
import sys, json
from pathlib import Path
from pgdyno.generators.generator_lifecycle import opened
from pgdyno.plan.hosts import Places
from pgdyno.programs import find_engine
options, environment = json.loads(sys.argv[1]), json.loads(sys.argv[2])
with opened(Places(local=1), lambda text: None) as cluster, open("log", "w+b") as errors:
    with cluster.running(find_engine(), options, environment, errors, Path(".")) as (_, events):
        for event in events:
            print(event["event"], flush=True)
"""


def test_a_killed_driver_leaves_nothing(tables: Server, tmp_path: Path, child_environment: dict[str, str]) -> None:
    arguments = [json.dumps([*OPTIONS, *LONG]), json.dumps(tables.environment())]
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *arguments],
        cwd=tmp_path,
        env=child_environment | {"PGDYNO_TEST_MARK": tmp_path.name},
        stdout=subprocess.PIPE,
        text=True,
    )
    for line in present(driver.stdout):
        if line.strip() == "interval":
            break
    assert sessions(tables) > 0
    driver.kill()
    driver.wait()
    present(driver.stdout).close()
    wait_for_no_sessions(tables)
    wait_until(lambda: not marked(tmp_path.name))


def marked(mark: str) -> dict[int, str]:
    """Returns the processes that have the text in their environment: PIDs and command lines."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
    return found
