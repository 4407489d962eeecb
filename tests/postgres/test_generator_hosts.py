"""Runs with generators on hosts over SSH, while connections or hosts fail."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.records import Outcome
from pgdyno.store import load_run
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.generator_hosts import Hosts, generator_hosts, generators_of, seconds_until, with_ssh
from tests.postgres.namespaces import LanHost
from tests.postgres.runs import the_run
from tests.present import present
from tests.signals import send_signal
from tests.ssh.sshd import keygen, running_sshd
from tests.unit.archive_sample import run_of

LEASE_S = 7.0
"""An engine that hears nothing stops after 4 s, and is killed 3 s later: see tests/unit/test_cluster_load.py."""
PROMISED_US = 2_000_000
"""The time from the end of a second until the driver has its figures; later ones are reported."""
PLAN = """\
name = "wide"
[target.db]
kind = "dsn"
dsn = "host={address} port={port} user=postgres dbname=postgres"
[probe]
enabled = false
[workload]
scripts = ["paced.sql"]
scale = 1
[sweep]
clients = [2, 4, 6, 8]
[trial]
duration = "6s"
"""
# as fast as the machine can, this load would take the time of all other tests
PACED = """\
\\set aid random(1, 100000)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
\\sleep 4 ms
"""
RUN = ("run", "plan.toml", "--no-preflight", "--generators")


@pytest.fixture(scope="module")
def hosts(installed: Installation) -> Iterator[Hosts]:
    with generator_hosts(installed, 2) as hosts:
        if hosts is None:
            pytest.skip("network namespaces are root's to make: tests/postgres/test_cluster.py has the faults")
        yield hosts


def is_clean(load: LanHost) -> bool:
    return not generators_of(load)


def engines_of(load: LanHost) -> set[int]:
    return {pid for pid, name in generators_of(load).items() if "pgdrive" in name}


def slow_down(load: LanHost, is_over: Callable[[], bool]) -> None:
    """Gives its engines a tenth of the time, in slices far below their lease, until `is_over`."""
    slow: set[int] = set()
    while not is_over():
        for number, length_s in ((signal.SIGSTOP, 0.2), (signal.SIGCONT, 0.02)):
            send_signal(number, slow)
            if number is signal.SIGSTOP:
                found = engines_of(load)
            time.sleep(length_s)
        slow = found


class Watch:
    """A run as the server and the hosts see it."""

    def __init__(self, hosts: Hosts, folder: Path, run: subprocess.Popen[str]) -> None:
        self.hosts, self.folder, self.run = hosts, folder, run

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def wait_for_load(self, clients: int) -> None:
        """Waits until transactions of the trial with so many clients run."""
        began = time.monotonic()
        seconds_until(lambda: self.goes_on() and self.hosts.sessions() == clients, began)
        before = self.hosts.transactions()
        # those of others who look at this server are few
        seconds_until(lambda: self.hosts.transactions() > before + 500, began)

    def goes_on(self) -> bool:
        """Fails with what the run said if it has ended: Ray ends a driver that loses its head."""
        assert self.run.poll() is None, self.said()
        return True

    def has_ended(self, trial: int) -> bool:
        return any(self.folder.glob(f"pgdyno-runs/*/trials/{trial:04}-*"))

    def has_none(self, load: LanHost) -> bool:
        return self.hosts.sessions(load) == 0

    def load_stops(self, since: float, *loads: LanHost) -> None:
        for load in loads:
            seconds_until(partial(self.has_none, load), since)

    def wait_until_done_again(self, trial: int, since: float) -> None:
        again = f"trial {trial} runs again: generator"
        seconds_until(lambda: self.goes_on() and again in self.said(), since)


@pytest.mark.long
def test_pgdyno_detects_each_fault_and_repeats_the_trial(hosts: Hosts, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "paced.sql").write_text(PACED)
    (tmp_path / "plan.toml").write_text(PLAN.format(address=hosts.database.address, port=hosts.server.port))
    one, two = hosts.loads
    with hosts.driving(warm_home, tmp_path, *RUN, "ssh://load1,load2") as run:
        watch = Watch(hosts, tmp_path, run)
        watch.wait_for_load(2)
        cut = time.monotonic()
        one.cut(hosts.driver)
        watch.load_stops(cut, one, two)
        # nothing can reach that host: it ends its processes itself
        seconds_until(partial(is_clean, one), cut)
        watch.wait_until_done_again(1, cut)
        one.heal(hosts.driver)

        watch.wait_for_load(4)
        before = generators_of(two)
        raylet = next(pid for pid, name in before.items() if "raylet/raylet " in name)
        # what Ray sends between hosts is encrypted, passwords of servers among it
        assert b"RAY_USE_TLS=1" in Path(f"/proc/{raylet}/environ").read_bytes().split(b"\0")
        killed = time.monotonic()
        os.kill(raylet, signal.SIGKILL)
        watch.load_stops(killed, two, one)
        seconds_until(lambda: not before.keys() & generators_of(two).keys(), killed)
        watch.wait_until_done_again(2, killed)

        watch.wait_for_load(4)
        slow_down(two, lambda: watch.has_ended(2))

        watch.wait_for_load(6)
        before = generators_of(one)
        frozen = time.monotonic()
        send_signal(signal.SIGSTOP, before)
        watch.load_stops(frozen, two)
        watch.wait_until_done_again(3, frozen)
        # after its lease; otherwise it would continue as if nothing had happened
        seconds_until(lambda: time.monotonic() > frozen + LEASE_S + 1, frozen)
        thawed = time.monotonic()
        send_signal(signal.SIGCONT, before)
        # the node may go on, as Ray still knows it; its engine must not: the trial may be under way again by now
        engines = {pid for pid, name in before.items() if "pgdrive" in name}
        assert engines
        seconds_until(lambda: not engines & engines_of(one), thawed)

        watch.wait_for_load(6)
        engines = engines_of(two)
        with two.impatient():
            two.cut(hosts.database)
            # all of its clients give up; those of others continue, and no generator is stopped
            seconds_until(lambda: not engines & engines_of(two), time.monotonic())
        two.heal(hosts.database)

        watch.wait_for_load(8)
        assert watch.goes_on()
        killed = time.monotonic()
        run.kill()
        watch.load_stops(killed, one, two)
        for load in (one, two):
            seconds_until(partial(is_clean, load), killed)
    folder = the_run(tmp_path)
    notes = [note for note in folder.manifest.notes if "runs again: generator" in note]
    # a busy machine may lose another one, which is no fault of ours
    assert {note.split(" runs again")[0] for note in notes} == {"trial 1", "trial 2", "trial 3"}
    for who in ("generator 1 of 2 (generator-1) was lost: ", "generator 2 of 2 (generator-2) was lost: "):
        assert any(who in note for note in notes)
    *whole, cut_off = folder.trials()
    assert [(trial.number, trial.outcome) for trial in whole] == [(1, Outcome.FINISHED), (2, Outcome.FINISHED)]
    for trial in (*whole, cut_off):
        assert [host.clients for host in present(trial.generator).hosts] == [trial.number, trial.number]
        assert all(host.heard_late_us > 0 for host in present(trial.generator).hosts)
    late = [
        trial.number
        for trial in whole
        if trial.generator and any(host.heard_late_us > PROMISED_US for host in trial.generator.hosts)
    ]
    found = audit(load_run(folder))
    assert [finding.trials for finding in found if "s late in" in finding.message] == ([late] if late else [])
    # the one that was slow is named
    (unequal,) = (finding for finding in found if "serve their clients unequally" in finding.message)
    assert unequal.rule == "load-imbalance"
    assert 2 in unequal.trials
    assert "a client of generator-2 (" in unequal.message
    # and so is the one whose clients had no way to the server
    assert (cut_off.number, cut_off.outcome) == (3, Outcome.FAILED)
    assert ": 3 of 3 clients of generator-2 (" in present(cut_off.failure).message
    assert "of generator-1" not in present(cut_off.failure).message
    # messages of Ray's daemons about each other are not shown
    assert "raylet" not in watch.said().lower()


BARE = 'mount -t tmpfs none {bin} && exec "$@"'
RAYLESS = 'for each in {site}/ray {site}/ray-*.dist-info; do mount -t tmpfs none $each || exit; done; exec "$@"'


@pytest.mark.long_cases("that", "there", "true")
@pytest.mark.parametrize(
    ("what", "message", "hint"),
    [
        ("bare", "load1 cannot be a generator: pgdyno is not in the folder", "pip install --user"),
        ("rayless", "load1 cannot be a generator: Ray is not installed there", "pip install"),
        ("unknown", "cannot reach load1 over SSH: Host key verification failed", "compare its host key"),
        ("keyless", "cannot reach load1 over SSH: ", "give ssh a key or an agent that load1 accepts"),
        ("closed", "Connection refused", "try: ssh load1 true"),
    ],
)
def test_unfit_hosts_say_why(hosts: Hosts, warm_home: Home, tmp_path: Path, what: str, message: str, hint: str) -> None:
    (tmp_path / "paced.sql").write_text(PACED)
    (tmp_path / "plan.toml").write_text(PLAN.format(address=hosts.database.address, port=hosts.server.port))
    load = hosts.loads[0]
    within = load.within
    if what in ("bare", "rayless"):
        # found, and not imported: a process keeps the way to its first cluster, and others of these tests have theirs
        ray = present(importlib.util.find_spec("ray"))
        script = (BARE if what == "bare" else RAYLESS).format(
            bin=Path(sys.executable).parent, site=Path(present(ray.origin)).parent.parent
        )
        within = (*within, "unshare", "-m", "sh", "-c", script, "sh")
    with ExitStack() as stack:
        # whoever runs the tests may have installed a pgdyno
        lines = [f"SetEnv PATH=/usr/bin:/bin HOME={tmp_path}"] if what == "bare" else []
        there = stack.enter_context(running_sshd(tmp_path / "sshd", address=load.address, lines=lines, within=within))
        if what == "unknown":
            there.known_hosts.write_text("")
        if what == "keyless":
            (there.folder / "user").unlink()
            keygen(there.folder / "user")
        if what == "closed":
            there.process.terminate()
            there.process.wait()
        stack.callback(with_ssh, hosts.folder, hosts.sshds)
        with_ssh(hosts.folder, [there])
        with hosts.driving(warm_home, tmp_path, *RUN, "ssh://load1") as run:
            assert run.wait(120) == 7
        left = [name for name in load.processes().values() if "ray" in name or "generator-node" in name]
        assert not left
    said = (tmp_path / "said").read_text()
    assert "error: " in said
    assert message in said
    assert hint in said
    # nothing is begun that cannot be gone on with
    assert not list(tmp_path.glob("pgdyno-runs/*"))


@pytest.mark.long
def test_runs_are_analysed_on_hosts(hosts: Hosts, warm_home: Home, tmp_path: Path) -> None:
    for at in range(3):
        run_of(tmp_path / "runs", hours=at, tps=400 + 50 * at)
    said, worked = [], set()
    for where in ((), ("--cluster", "ssh://load1,load2")):
        with hosts.driving(warm_home, tmp_path, "analyse", str(tmp_path / "runs"), *where) as command:
            deadline = time.monotonic() + 180
            while command.poll() is None:
                assert time.monotonic() < deadline
                # a process of Ray's is there before the first task, and stays for the next
                worked |= {load.address for load in hosts.loads if any("ray::" in name for name in names(load))}
        said.append((tmp_path / "said").read_text())
        assert command.returncode == 0, said
    here, there = said
    assert here in there
    assert worked
    for load in hosts.loads:
        seconds_until(partial(is_clean, load), time.monotonic())


def names(load: LanHost) -> list[str]:
    return list(generators_of(load).values())
