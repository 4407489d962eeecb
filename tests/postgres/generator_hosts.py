"""Hosts for a driver, a server and generators with an sshd each: network namespaces, whose connections can be cut."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.targets import Home
from pgdyno.targets.cluster.installation import Installation
from tests.forked import PGDYNO
from tests.postgres.namespaces import LanHost, lan
from tests.postgres.own_servers import OwnServer
from tests.postgres.runs import environment
from tests.scratch import scratch_folder
from tests.ssh.sshd import Sshd, running_sshd
from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Hosts:
    """The hosts of one test."""

    folder: Path
    driver: LanHost
    database: LanHost
    loads: list[LanHost]
    server: OwnServer
    sshds: list[Sshd] = field(default_factory=list)

    def sessions(self, load: LanHost | None = None) -> int:
        where = f"AND client_addr = '{load.address}'" if load else ""
        name = "application_name LIKE 'pgdrive%'"
        return int(self.server.value(f"SELECT count(*) FROM pg_stat_activity WHERE {name} {where}"))

    def transactions(self) -> int:
        """Returns the number of transactions since the last reset of the sessions' database statistics."""
        return int(self.server.value("SELECT sum(xact_commit) FROM pg_stat_database"))

    @contextmanager
    def driving(self, home: Home, folder: Path, *args: str) -> Iterator[subprocess.Popen[str]]:
        """Starts a command of pgdyno on the driver; its output is in `folder`/said."""
        with (
            (folder / "said").open("w") as said,
            subprocess.Popen(
                [*self.driver.within, str(PGDYNO), *args],
                cwd=folder,
                env=environment(home) | {"HOME": str(self.folder)},
                stdout=said,
                stderr=subprocess.STDOUT,
                text=True,
            ) as process,
        ):
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()


def generators_of(load: LanHost) -> dict[int, str]:
    """Returns the processes that were started on a host for a generator, without its sshd."""
    return {pid: name for pid, name in load.processes().items() if "sshd" not in name}


def seconds_until(what: Callable[[], bool], since: float, patience_s: float = PATIENCE_S) -> float:
    """Waits until `what` is true; returns the seconds since `since`, a time of the monotonic clock."""
    while not what():
        assert time.monotonic() - since < patience_s
        time.sleep(0.05)
    return time.monotonic() - since


@contextmanager
def generator_hosts(installed: Installation, loads: int) -> Iterator[Hosts | None]:
    """Yields the hosts; None if namespaces are not permitted."""
    with ExitStack() as stack:
        hosts = lan(stack, 2 + loads)
        if not hosts:
            yield None
            return
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
        for number, load in enumerate(made.loads, start=1):
            name = folder / f"load{number}"
            lines = [f"SetEnv HOME={name}"]
            there = running_sshd(name, address=load.address, lines=lines, within=load.within)
            made.sshds.append(stack.enter_context(there))
        write_ssh_config(folder, made.sshds)
        yield made


def write_ssh_config(home: Path, sshds: list[Sshd]) -> None:
    """Writes OpenSSH's files of a user with this `home` for load1, load2…"""
    config = ""
    for number, sshd in enumerate(sshds, start=1):
        config += f"Host load{number}\n  HostName {sshd.address}\n  Port {sshd.port}\n"
        config += f"  UserKnownHostsFile {sshd.known_hosts}\n  IdentityFile {sshd.folder / 'user'}\n"
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh" / "config").write_text(f"{config}Host *\n  IdentitiesOnly yes\n")
