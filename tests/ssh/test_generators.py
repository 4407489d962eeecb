"""Generators over SSH: one load from several, and its end when one of them is lost."""

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgdyno.doctor.generator import null_server
from pgdyno.errors import EngineError
from pgdyno.generators.generator_lifecycle import Cluster, open_cluster
from pgdyno.generators.merge_events import Event
from pgdyno.generators.ssh_hosts import SshGenerator
from pgdyno.programs import find_engine
from pgdyno.remote.remote_host import RemoteHost
from pgdyno.targets.cluster.processes import descendants, identify
from tests.present import present
from tests.processes import command_line, find_processes, send_signal
from tests.ssh.sshd import Sshd, running_sshd
from tests.waiting import wait_until

OPTIONS = ["--events=-", "--parent-lease", "--no-vacuum", "--random-seed=7", "-f", "own.sql"]
TCP = {"PGHOST": "db.example"}


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with running_sshd(tmp_path_factory.mktemp("other")) as running:
        yield running


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    with null_server(find_engine(), 1, tcp=True) as environment:
        # as the driver knows it: there the name is another
        yield {**environment, **TCP}


@pytest.fixture(scope="module")
def cluster(sshd: Sshd, other: Sshd) -> Iterator[Cluster]:
    hosts = {"db.example": "127.0.0.1"}
    there = [RemoteHost(each.spec(), hosts) for each in (sshd, other)]
    with open_cluster(find_engine(), 0, there, print) as cluster:
        yield cluster


def load(
    cluster: Cluster,
    environment: dict[str, str],
    folder: Path,
    *options: str,
    meanwhile: Callable[[], None] | None = None,
) -> list[Event]:
    """`meanwhile` is called after the first second."""
    (folder / "own.sql").write_text("SELECT 1;\n")
    events: list[Event] = []
    with (
        (folder / "engine.log").open("w+b") as errors,
        cluster.run_engine(find_engine(), [*OPTIONS, *options], environment, errors, folder) as (process, stream),
    ):
        for event in stream:
            events.append(event)
            if event["event"] == "interval" and meanwhile is not None:
                meanwhile()
                meanwhile = None
        process.wait()
    return events


def engines(folder: Path) -> list[int]:
    """Returns the engines that were copied below `folder` and run."""
    return find_processes(lambda each: str((each / "exe").readlink()).startswith(f"{folder}/pgdrive-"))


def wait_for_no_engines(*folders: Path) -> None:
    wait_until(lambda: not any(engines(folder) for folder in folders))


def test_hosts_are_one(cluster: Cluster, environment: dict[str, str], tmp_path: Path, sshd: Sshd, other: Sshd) -> None:
    events = load(cluster, environment, tmp_path, "--client=5", "--transactions=300")
    end = events[-1]
    assert end["outcome"] == "finished", (tmp_path / "engine.log").read_text()
    assert (events[0]["clients"], events[0]["generators"], end["succeeded"]) == (5, 2, 1500)
    assert [script["name"] for script in events[0]["scripts"]] == ["own.sql"]
    one, two = end["generators"]
    assert ([one["name"], two["name"]], [one["clients"], two["clients"]]) == (["generator-1", "generator-2"], [3, 2])
    for host in (one, two):
        assert host["host"] == os.uname().nodename
        assert host["cores"] == len(os.sched_getaffinity(0))
        assert host["pgdrive"] == find_engine().version
        # one machine, one clock
        assert abs(host["clock_ahead_us"]) <= host["clock_round_trip_us"]
        assert host["clock_ahead_after_us"] is not None
        assert host["start_late_us"] is not None
        assert host["cpu_us"] is not None
    assert end["start_late_us"] == max(one["start_late_us"], two["start_late_us"])
    wait_for_no_engines(sshd.cache, other.cache)


def sessions(sshd: Sshd) -> list[int]:
    below = descendants(present(identify(sshd.process.pid)))
    return [each.pid for each in below if b"sshd" in command_line(each.pid)]


def test_a_host_that_does_not_answer_loses_its_lease_and_comes_back(
    cluster: Cluster, environment: dict[str, str], tmp_path: Path, sshd: Sshd, other: Sshd
) -> None:
    frozen: list[int] = []

    def freeze() -> None:
        frozen.extend(sessions(other))
        send_signal(signal.SIGSTOP, frozen)

    try:
        end = load(cluster, environment, tmp_path, "--client=2", "--time=120", "--rate=20", meanwhile=freeze)[-1]
        assert end["message"] == "generator 2 of 2 (generator-2) was lost: it did not answer within 3 s"
        # no order to stop can reach it, and nothing renews its lease
        wait_for_no_engines(sshd.cache, other.cache)
    finally:
        send_signal(signal.SIGCONT, frozen)
    assert load(cluster, environment, tmp_path, "--client=2", "-t3")[-1]["succeeded"] == 6


def test_a_generator_s_host_is_checked(cluster: Cluster, environment: dict[str, str]) -> None:
    generator = cluster.generators[0]
    assert generator.ceiling("simple", 1, 0.2) > 0
    trips = generator.trips(environment, "simple")
    assert (trips.count > 0, 0 < trips.least_us <= trips.median_us) == (True, True)


NEEDED = "bash cat chmod cut date env grep mkdir mv nproc rm sha256sum sh uname"
OLD_BASH = '#!/bin/bash\nexec /bin/bash -c "unset EPOCHREALTIME; $2"\n'
"""Before version 5, bash has no EPOCHREALTIME: RHEL 8 has 4.4."""
ODD_DATE = "#!/bin/sh\necho 1.%6N\n"


@pytest.mark.parametrize(
    ("missing", "replaced", "has_time"),
    [
        ("bash", {}, True),
        ("nproc", {}, True),
        ("", {"bash": OLD_BASH}, True),
        ("", {"bash": OLD_BASH, "date": ODD_DATE}, False),
    ],
    ids=("no bash", "no nproc", "old bash", "old bash and an odd date"),
)
def test_a_host_with_other_programs(tmp_path: Path, missing: str, replaced: dict[str, str], has_time: bool) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in {*NEEDED.split()} - {missing}:
        if name in replaced:
            (programs / name).write_text(replaced[name])
            (programs / name).chmod(0o755)
        else:
            (programs / name).symlink_to(shutil.which(name) or name)
    with running_sshd(tmp_path / "odd", lines=[f"SetEnv PATH={programs}"]) as sshd:
        generator = SshGenerator("generator-1", RemoteHost(sshd.spec()), find_engine())
        try:
            assert generator.facts["cores"] >= 1
            if has_time:
                assert abs(generator.clock_us() / 1e6 - time.time()) < 60
            else:
                with pytest.raises(EngineError, match=r"127.0.0.1 does not report its time in microseconds"):
                    generator.clock_us()
        finally:
            generator.end()
