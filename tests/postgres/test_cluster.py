"""Runs with several generators, here and on hosts over SSH: one load, its loss, and what a signal leaves."""

import getpass
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from pgdyno.errors import ExitCode
from pgdyno.records import Outcome
from pgdyno.targets import Home, Server
from tests.forked import PGDYNO, run_pgdyno
from tests.postgres.runs import environment, fast_plan, the_run
from tests.postgres.servers import execute
from tests.postgres.test_generators import sessions, wait_for_no_sessions
from tests.present import present
from tests.processes import find_processes
from tests.signals import send_signal
from tests.ssh.sshd import Sshd, keygen, running_sshd
from tests.waiting import wait_until

RUN = ("run", "plan.toml", "--no-preflight", "--generators")


@dataclass(frozen=True)
class Hosts:
    """Two hosts with the same name: one by IPv4, whose user is named, and one by IPv6."""

    home: Path
    sshds: list[Sshd]

    @property
    def places(self) -> str:
        four, six = self.sshds
        return f"ssh://{getpass.getuser()}@127.0.0.1:{four.port},[::1]:{six.port}"

    def processes(self, program: str = "") -> list[int]:
        """Returns the processes that were started on these hosts, or those of `program`."""
        home = f"HOME={self.home}/".encode()
        return find_processes(
            lambda each: home in (each / "environ").read_bytes() and program in (each / "exe").readlink().name
        )

    def files(self) -> set[str]:
        return {path.name.partition("-")[0] for sshd in self.sshds for path in sshd.folder.glob(".cache/pgdyno/*")}


@contextmanager
def two_hosts(home: Path, *lines: str) -> Iterator[Hosts]:
    with ExitStack() as stack:
        sshds = []
        for name, address in (("four", "127.0.0.1"), ("six", "::1")):
            there = running_sshd(home / name, address=address, lines=[f"SetEnv HOME={home / name}", *lines])
            sshds.append(stack.enter_context(there))
        (home / ".ssh").mkdir()
        keys = [f"Host {each.address}\n  IdentityFile {each.folder / 'user'}\n" for each in sshds]
        keys.append(f"  UserKnownHostsFile {sshds[1].known_hosts}\nHost *\n  IdentitiesOnly yes\n")
        (home / ".ssh" / "config").write_text("".join(keys))
        (home / ".ssh" / "known_hosts").write_text(sshds[0].known_hosts.read_text())
        yield Hosts(home, sshds)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with two_hosts(tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.fixture
def tcp_server(server: Server) -> Iterator[Server]:
    yield server
    execute(server, "DROP DATABASE IF EXISTS wide WITH (FORCE)")


def write_plan(folder: Path, server: Server, length: str) -> None:
    dsn = f"host={server.host} port={server.port} user={server.user} dbname={server.dbname}"
    target = f'kind = "dsn"\ndsn = "{dsn}"\npassword_env = "THEIR_PASSWORD"\ndatabase = "wide"'
    workload = 'scripts = ["one.sql"]\ndataset = "none"'
    plan = fast_plan(workload, "clients = 5", f"{length}\n[probe]\nenabled = false", ["db"], target)
    (folder / "plan.toml").write_text(plan)
    (folder / "one.sql").write_text("SELECT :client_id;\n\\sleep 1 ms\n")


def variables(home: Home, server: Server, hosts: Hosts) -> dict[str, str]:
    return environment(home) | {"HOME": str(hosts.home), "THEIR_PASSWORD": server.environment()["PGPASSWORD"]}


def run(home: Home, folder: Path, server: Server, hosts: Hosts, *places: str) -> tuple[int, str]:
    done = run_pgdyno([*RUN, *places], cwd=folder, env=variables(home, server, hosts))
    return done.returncode, done.stdout + done.stderr


def test_engines_here_and_on_hosts_are_one(tcp_server: Server, hosts: Hosts, warm_home: Home, tmp_path: Path) -> None:
    write_plan(tmp_path, tcp_server, "transactions = 20")
    # the password comes from ~/.pgpass, which the hosts do not have
    plan = tmp_path / "plan.toml"
    plan.write_text(plan.read_text().replace('password_env = "THEIR_PASSWORD"', ""))
    (hosts.home / ".pgpass").write_text(f"*:*:*:*:{tcp_server.environment()['PGPASSWORD']}\n")
    (hosts.home / ".pgpass").chmod(0o600)
    code, said = run(warm_home, tmp_path, tcp_server, hosts, "local:1", "--generators", hosts.places)
    (hosts.home / ".pgpass").unlink()
    assert code == 0, said
    (trial,) = the_run(tmp_path).trials()
    assert trial.outcome is Outcome.FINISHED
    found = present(trial.generator).hosts
    assert [(each.name, each.host, each.clients, each.succeeded) for each in found] == [
        (f"generator-{number}", os.uname().nodename, clients, 20 * clients)
        for number, clients in ((1, 2), (2, 2), (3, 1))
    ]
    # between the runs, only the copied engine remains
    wait_until(lambda: not hosts.processes())
    wait_until(lambda: hosts.files() == {"pgdrive"})


@pytest.mark.long_cases("15-", "2-")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_lost_engine_costs_a_repeat_and_a_signal_leaves_nothing(
    tcp_server: Server, hosts: Hosts, warm_home: Home, tmp_path: Path, number: int, code: int
) -> None:
    write_plan(tmp_path, tcp_server, 'duration = "600s"')
    command = [str(PGDYNO), *RUN, hosts.places, "--generators", "local:1"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            command, cwd=tmp_path, env=variables(warm_home, tcp_server, hosts), stdout=said, stderr=said
        )
    try:
        wait_for_load(process, tcp_server, tmp_path)
        lost = hosts.processes("pgdrive")
        assert len(lost) == 2
        send_signal(signal.SIGKILL, lost[:1])
        again = re.compile(r"trial 1 runs again: generator [23] of 3 .* was lost: its engine ended with exit code 137")
        wait_until(lambda: again.search((tmp_path / "said").read_text()) is not None)
        wait_until(lambda: not set(lost) & set(hosts.processes("pgdrive")))
        wait_for_load(process, tcp_server, tmp_path)
        process.send_signal(number)
        assert process.wait() == code
    finally:
        process.kill()
        process.wait()
    wait_for_no_sessions(tcp_server)
    wait_until(lambda: not hosts.processes())
    wait_until(lambda: hosts.files() == {"pgdrive"})


def wait_for_load(process: subprocess.Popen[bytes], server: Server, folder: Path) -> None:
    def is_there() -> bool:
        assert process.poll() is None, (folder / "said").read_text()
        return sessions(server) == 5

    wait_until(is_there)


def test_unfit_hosts_say_why(tcp_server: Server, warm_home: Home, tmp_path: Path) -> None:
    write_plan(tmp_path, tcp_server, "transactions = 20")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nproc").write_text("#!/bin/sh\nprintf '\\033]0;owned\\007'\n")
    (tmp_path / "bin" / "nproc").chmod(0o755)
    known = tmp_path / ".ssh" / "known_hosts"

    def message(hosts: Hosts, code: ExitCode = ExitCode.ENGINE, place: str = "") -> str:
        returned, said = run(warm_home, tmp_path, tcp_server, hosts, place or hosts.places)
        assert returned == code, said
        assert "\033" not in said
        # nothing is begun that cannot be gone on with
        assert not list(tmp_path.glob("pgdyno-runs/*"))
        return " ".join(said.split())

    with two_hosts(tmp_path, f"SetEnv PATH={tmp_path / 'bin'}:{os.environ['PATH']}") as hosts:
        said = message(hosts, ExitCode.USAGE, "ray://head:10001")
        assert "no longer generates load on a Ray cluster" in said
        said = message(hosts)
        assert "generator-1: 127.0.0.1 does not tell its name and its processors: it prints " in said
        (tmp_path / "bin" / "nproc").unlink()
        keys = known.read_text()
        known.write_text("")
        assert "generator-1: unknown host key of " in message(hosts)
        known.write_text(keys)
        (tmp_path / "four" / "user").unlink()
        keygen(tmp_path / "four" / "user")
        assert "generator-1: 127.0.0.1 rejects the keys of " in message(hosts)
        hosts.sshds[0].process.terminate()
        hosts.sshds[0].process.wait()
        assert "generator-1 does not start: cannot reach 127.0.0.1 over SSH: " in message(hosts)
        wait_until(lambda: not hosts.processes())
