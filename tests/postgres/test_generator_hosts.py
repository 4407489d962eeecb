"""Runs with generators on hosts over SSH, and what becomes of them when something breaks between or on the hosts."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.records import Outcome
from pgdyno.store import load_run
from pgdyno.target import Home
from pgdyno.target.installation import Installation
from tests.postgres.generator_hosts import Hosts, generator_hosts, generators_of, seconds_until, with_ssh
from tests.postgres.namespaces import LanHost
from tests.postgres.runs import the_run
from tests.ssh.sshd import keygen, running_sshd

LEASE_S = 7.0
"""An engine that hears nothing stops after 4 s, and is killed 3 s later."""
ORPHANS_S = 10.0
"""What the guide promises: no process of a generator outlives its driver, or the way to it, for longer."""
PROMISED_US = 2_000_000
"""From the end of a second until its figures are with the driver; what is later is told."""
SCHEDULING_S = 15.0
"""Upon both, for a machine with ten things to do."""
PLAN = """\
name = "wide"
[target.db]
kind = "dsn"
dsn = "host={address} port={port} user=postgres dbname=postgres"
[probe]
enabled = false
[workload]
scripts = ["select-only"]
scale = 1
[sweep]
clients = [2, 4, 6]
[trial]
duration = "6s"
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


class Watch:
    """What is seen of a run from outside, by the server and the hosts themselves."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts, self.folder = hosts, folder

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def wait_for_load(self, clients: int) -> None:
        """Until transactions of the trial with so many clients are under way."""
        began = time.monotonic()
        seconds_until(lambda: self.hosts.sessions() == clients, began)
        before = self.hosts.transactions()
        # those of others who look at this server are few
        seconds_until(lambda: self.hosts.transactions() > before + 500, began)

    def has_none(self, load: LanHost) -> bool:
        return self.hosts.sessions(load) == 0

    def load_stops(self, since: float, within_s: float, *loads: LanHost) -> None:
        for load in loads:
            assert seconds_until(partial(self.has_none, load), since) < within_s + SCHEDULING_S

    def wait_until_done_again(self, trial: int, since: float) -> None:
        seconds_until(lambda: f"trial {trial} is done again: generator" in self.said(), since)


def test_each_fault_is_seen_and_its_trial_done_again(hosts: Hosts, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.format(address=hosts.database.address, port=hosts.server.port))
    one, two = hosts.loads
    watch = Watch(hosts, tmp_path)
    with hosts.driving(warm_home, tmp_path, *RUN, "ssh://load1,load2") as run:
        watch.wait_for_load(2)
        cut = time.monotonic()
        one.cut(hosts.driver)
        watch.load_stops(cut, LEASE_S, one, two)
        # nobody can tell that host anything: what ends is its own doing
        assert seconds_until(partial(is_clean, one), cut) < ORPHANS_S + SCHEDULING_S
        watch.wait_until_done_again(1, cut)
        one.heal(hosts.driver)

        watch.wait_for_load(4)
        before = generators_of(two)
        raylet = next(pid for pid, name in before.items() if "raylet/raylet " in name)
        killed = time.monotonic()
        os.kill(raylet, signal.SIGKILL)
        watch.load_stops(killed, LEASE_S, two, one)
        gone = seconds_until(lambda: not before.keys() & generators_of(two).keys(), killed)
        assert gone < ORPHANS_S + SCHEDULING_S
        watch.wait_until_done_again(2, killed)

        watch.wait_for_load(6)
        before = generators_of(one)
        frozen = time.monotonic()
        for pid in before:
            os.kill(pid, signal.SIGSTOP)
        watch.load_stops(frozen, LEASE_S, two)
        watch.wait_until_done_again(3, frozen)
        # until its lease is over, or it would go on as if nothing had been
        seconds_until(lambda: time.monotonic() > frozen + LEASE_S + 1, frozen)
        thawed = time.monotonic()
        for pid in before:
            os.kill(pid, signal.SIGCONT)
        # the node may go on, as Ray still knows it; its engine must not: the trial may be under way again by now
        engines = {pid for pid, name in before.items() if "pgdrive" in name}
        assert engines
        assert seconds_until(lambda: not engines & generators_of(one).keys(), thawed) < ORPHANS_S + SCHEDULING_S

        watch.wait_for_load(6)
        assert run.poll() is None, watch.said()
        killed = time.monotonic()
        run.kill()
        watch.load_stops(killed, LEASE_S, one, two)
        for load in (one, two):
            assert seconds_until(partial(is_clean, load), killed) < ORPHANS_S + SCHEDULING_S
    folder = the_run(tmp_path)
    notes = [note for note in folder.manifest.notes if "is done again: generator" in note]
    # a busy machine may lose another one, which is no fault of ours
    assert {note.split(" is done")[0] for note in notes} == {"trial 1", "trial 2", "trial 3"}
    for who in ("generator 1 of 2 (generator-1) was lost: ", "generator 2 of 2 (generator-2) was lost: "):
        assert any(who in note for note in notes)
    trials = folder.trials()
    assert [(trial.number, trial.outcome) for trial in trials] == [(1, Outcome.FINISHED), (2, Outcome.FINISHED)]
    for trial in trials:
        assert trial.generator is not None
        assert [host.clients for host in trial.generator.hosts] == [trial.number, trial.number]
        assert all(host.heard_late_us > 0 for host in trial.generator.hosts)
    late = [
        trial.number
        for trial in trials
        if trial.generator and any(host.heard_late_us > PROMISED_US for host in trial.generator.hosts)
    ]
    said = [found.trials for found in audit(load_run(folder)) if "s late in" in found.message]
    assert said == ([late] if late else [])
    # what Ray's daemons say of each other is nobody's business
    assert "raylet" not in watch.said().lower()


BARE = 'mount -t tmpfs none {bin} && exec "$@"'
RAYLESS = 'for each in {site}/ray {site}/ray-*.dist-info; do mount -t tmpfs none $each || exit; done; exec "$@"'


@pytest.mark.parametrize(
    ("what", "message", "hint"),
    [
        ("bare", "load1 cannot be a generator: there is no pgdyno in the folder", "pip install --user"),
        ("rayless", "load1 cannot be a generator: Ray is not installed there", "pip install"),
        ("unknown", "cannot reach load1 over SSH: Host key verification failed", "compare its host key"),
        ("keyless", "cannot reach load1 over SSH: ", "give ssh a key or an agent that load1 knows"),
        ("closed", "Connection refused", "try: ssh load1 true"),
    ],
)
def test_a_host_that_cannot_be_one_says_why(
    hosts: Hosts, warm_home: Home, tmp_path: Path, what: str, message: str, hint: str
) -> None:
    (tmp_path / "plan.toml").write_text(PLAN.format(address=hosts.database.address, port=hosts.server.port))
    load = hosts.loads[0]
    within = load.within
    if what in ("bare", "rayless"):
        # found, and not imported: a process keeps the way to its first cluster, and others of these tests have theirs
        ray = importlib.util.find_spec("ray")
        assert ray is not None
        assert ray.origin is not None
        script = (BARE if what == "bare" else RAYLESS).format(
            bin=Path(sys.executable).parent, site=Path(ray.origin).parent.parent
        )
        within = (*within, "unshare", "-m", "sh", "-c", script, "sh")
    with ExitStack() as stack:
        there = stack.enter_context(running_sshd(tmp_path / "sshd", address=load.address, within=within))
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
