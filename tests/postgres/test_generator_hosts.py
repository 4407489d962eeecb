"""Runs with generators on hosts over SSH, while connections or hosts fail."""

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.records import Outcome
from pgdyno.store import load_run
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.generator_hosts import Hosts, generator_hosts, generators_of, seconds_until
from tests.postgres.namespaces import LanHost
from tests.postgres.runs import the_run
from tests.present import present
from tests.signals import send_signal

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
            pytest.skip("network namespaces are root's to make: tests/ssh/test_generators.py has the faults")
        yield hosts


def is_clean(load: LanHost) -> bool:
    return not generators_of(load)


def engines_of(load: LanHost) -> set[int]:
    return {pid for pid, name in generators_of(load).items() if "pgdrive-" in name.partition(" ")[0]}


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
        """Fails with what the run said if it has ended."""
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
        # nothing can reach that host: it ends its processes itself, the shell that tells the time after half a minute
        seconds_until(partial(is_clean, one), cut)
        watch.wait_until_done_again(1, cut)
        one.heal(hosts.driver)

        watch.wait_for_load(4)
        killed = time.monotonic()
        send_signal(signal.SIGKILL, engines_of(two))
        watch.load_stops(killed, two, one)
        watch.wait_until_done_again(2, killed)

        watch.wait_for_load(4)
        slow_down(two, lambda: watch.has_ended(2))

        watch.wait_for_load(6)
        before, engines = one.processes(), engines_of(one)
        frozen = time.monotonic()
        send_signal(signal.SIGSTOP, before)
        watch.load_stops(frozen, two)
        watch.wait_until_done_again(3, frozen)
        # after its lease; otherwise it would continue as if nothing had happened
        seconds_until(lambda: time.monotonic() > frozen + LEASE_S + 1, frozen)
        thawed = time.monotonic()
        send_signal(signal.SIGCONT, before)
        # the trial may be under way again by now, with another engine
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
        assert all(host.report_delay_us > 0 for host in present(trial.generator).hosts)
    late = [
        trial.number
        for trial in whole
        if trial.generator and any(host.report_delay_us > PROMISED_US for host in trial.generator.hosts)
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
