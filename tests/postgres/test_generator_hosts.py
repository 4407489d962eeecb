"""Runs with generators on hosts over SSH, while connections or hosts fail.

The hosts of a driver, a server and generators are network namespaces, each with an sshd.
"""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdyno.audit import audit
from pgdyno.records import Outcome
from pgdyno.store import load_run
from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.postgres.namespaces import LanHost, lan
from tests.postgres.own_servers import OwnServer
from tests.postgres.runs import fast_plan, pgdyno_process, the_run
from tests.present import present
from tests.processes import send_signal
from tests.scratch import scratch_folder
from tests.ssh.sshd import running_sshd
from tests.waiting import wait_until

LEASE_S = 7.0
"""An engine that hears nothing stops after 4 s, and is killed 3 s later: see tests/unit/test_cluster_load.py."""
PROMISED_US = 2_000_000
"""The time from the end of a second until the driver has its figures; later ones are reported."""
# as fast as the machine can, this load would take the time of all other tests
PACED = """\
\\set aid random(1, 100000)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
\\sleep 4 ms
"""
RUN = ("run", "plan.toml", "--no-preflight", "--generators")


@dataclass(frozen=True)
class Hosts:
    folder: Path
    driver: LanHost
    database: LanHost
    loads: list[LanHost]
    server: OwnServer

    def sessions(self, load: LanHost | None = None) -> int:
        where = f"AND client_addr = '{load.address}'" if load else ""
        name = "application_name LIKE 'pgdrive%'"
        return int(self.server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {name} {where}"))

    def transactions(self) -> int:
        """Returns the number of transactions since the last reset of the sessions' database statistics."""
        return int(self.server.value("SELECT sum(xact_commit) FROM pg_stat_database"))


def generators_of(load: LanHost) -> dict[int, str]:
    """Returns the processes that were started on a host for a generator, without its sshd."""
    return {pid: name for pid, name in load.processes().items() if "sshd" not in name}


@pytest.fixture
def hosts(installed: Installation) -> Iterator[Hosts]:
    """A driver, a server and two generators."""
    with ExitStack() as stack:
        hosts = lan(stack, 4)
        if not hosts:
            pytest.skip("network namespaces are root's to make: tests/ssh/test_generators.py has the faults")
        folder = scratch_folder()
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = OwnServer.make(installed, folder / "server")
        server.configure(
            f"listen_addresses = '{hosts[1].address}'\n"
            # sessions of a host that is cut off are not to be counted for long
            "tcp_user_timeout = 2000\ntcp_keepalives_idle = 1\n"
            "tcp_keepalives_interval = 1\ntcp_keepalives_count = 2\n"
        )
        with (server.data / "pg_hba.conf").open("a") as file:
            file.write("host all all 198.51.100.0/24 trust\n")
        server.start(hosts[1].within)
        stack.callback(server.stop, "immediate")
        made = Hosts(folder, hosts[0], hosts[1], hosts[2:], server)
        config = ""
        for number, load in enumerate(made.loads, start=1):
            name = folder / f"load{number}"
            there = running_sshd(name, address=load.address, lines=[f"SetEnv HOME={name}"], within=load.within)
            sshd = stack.enter_context(there)
            config += f"Host load{number}\n  HostName {sshd.address}\n  Port {sshd.port}\n"
            config += f"  UserKnownHostsFile {sshd.known_hosts}\n  IdentityFile {sshd.folder / 'user'}\n"
        (folder / ".ssh").mkdir(exist_ok=True)
        (folder / ".ssh" / "config").write_text(f"{config}Host *\n  IdentitiesOnly yes\n")
        yield made


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

    def __init__(self, hosts: Hosts, folder: Path, run: subprocess.Popen[bytes]) -> None:
        self.hosts, self.folder, self.run = hosts, folder, run

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def wait_for_load(self, clients: int) -> None:
        """Waits until transactions of the trial with so many clients run."""
        wait_until(lambda: self.goes_on() and self.hosts.sessions() == clients)
        before = self.hosts.transactions()
        # those of others who look at this server are few
        wait_until(lambda: self.hosts.transactions() > before + 500)

    def goes_on(self) -> bool:
        """Fails with what the run said if it has ended."""
        assert self.run.poll() is None, self.said()
        return True

    def has_ended(self, trial: int) -> bool:
        return any(self.folder.glob(f"pgdyno-runs/*/trials/{trial:04}-*"))

    def wait_for_no_load(self, *loads: LanHost) -> None:
        wait_until(lambda: not any(self.hosts.sessions(load) for load in loads))

    def wait_until_done_again(self, trial: int) -> None:
        again = f"trial {trial} runs again: generator"
        wait_until(lambda: self.goes_on() and again in self.said())


@pytest.mark.long
def test_pgdyno_detects_each_fault_and_repeats_the_trial(hosts: Hosts, warm_home: Home, tmp_path: Path) -> None:
    (tmp_path / "paced.sql").write_text(PACED)
    target = f'kind = "dsn"\ndsn = "{hosts.server.dsn(host=hosts.database.address)}"'
    length = 'duration = "6s"\n[probe]\nenabled = false'
    plan = fast_plan('scripts = ["paced.sql"]\nscale = 1', "clients = [2, 4, 6, 8]", length, ["db"], target)
    (tmp_path / "plan.toml").write_text(plan)
    one, two = hosts.loads
    args, env = (*RUN, "ssh://load1,load2"), {"HOME": str(hosts.folder)}
    with pgdyno_process(warm_home, tmp_path, *args, env=env, within=hosts.driver.within) as run:
        watch = Watch(hosts, tmp_path, run)
        watch.wait_for_load(2)
        one.cut(hosts.driver)
        watch.wait_for_no_load(one, two)
        # nothing can reach that host: it ends its processes itself, the shell that tells the time after half a minute
        wait_until(lambda: not generators_of(one))
        watch.wait_until_done_again(1)
        one.heal(hosts.driver)

        watch.wait_for_load(4)
        send_signal(signal.SIGKILL, engines_of(two))
        watch.wait_for_no_load(two, one)
        watch.wait_until_done_again(2)

        watch.wait_for_load(4)
        slow_down(two, lambda: watch.has_ended(2))

        watch.wait_for_load(6)
        before, engines = one.processes(), engines_of(one)
        frozen = time.monotonic()
        send_signal(signal.SIGSTOP, before)
        watch.wait_for_no_load(two)
        watch.wait_until_done_again(3)
        # after its lease; otherwise it would continue as if nothing had happened
        wait_until(lambda: time.monotonic() > frozen + LEASE_S + 1)
        send_signal(signal.SIGCONT, before)
        # the trial may be under way again by now, with another engine
        assert engines
        wait_until(lambda: not engines & engines_of(one))

        watch.wait_for_load(6)
        engines = engines_of(two)
        with two.impatient():
            two.cut(hosts.database)
            # all of its clients give up; those of others continue, and no generator is stopped
            wait_until(lambda: not engines & engines_of(two))
        two.heal(hosts.database)

        watch.wait_for_load(8)
        assert watch.goes_on()
        run.kill()
        watch.wait_for_no_load(one, two)
        wait_until(lambda: not generators_of(one) and not generators_of(two))
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
