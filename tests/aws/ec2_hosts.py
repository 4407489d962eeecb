"""A real sshd and a real PostgreSQL for every simulated host, configured by its user data."""

import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.remote.connect import new_key
from pgdyno.targets.cluster.installation import Installation
from tests.aws.ec2 import Machine
from tests.aws.host_interface import Hosts
from tests.postgres.own_servers import copy_cluster
from tests.postgres.tls_server import OWNER, Certificates
from tests.ssh.sshd import start_sshd
from tests.waiting import wait_until

_HERE = count(2)


@dataclass
class RealHost:
    """The processes of one host."""

    folder: Path
    address: str
    sshd: subprocess.Popen[bytes]
    server: subprocess.Popen[bytes] | None = None
    port: int = 0

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(host=str(self.folder), port=self.port, user="postgres", autocommit=True)

    def stop(self) -> None:
        for process in (self.server, self.sshd):
            if process is not None:
                process.send_signal(signal.SIGQUIT if process is self.server else signal.SIGTERM)
                process.wait()


@dataclass
class Ec2Hosts(Hosts):
    """Hosts on loopback addresses of their own, from 127.0.0.2 on."""

    installed: Installation
    folder: Path
    path: str = ""
    """Folders at the start of a session's PATH, which replace programs of the host."""
    of_generators: str = ""
    """Variables in the format of SetEnv for sessions on hosts without a server, such as a different clock."""
    settings: dict[str, str] = field(default_factory=dict)
    """A line of postgresql.conf by instance type."""
    known: dict[str, RealHost] = field(default_factory=dict)

    def booted(self, machine: Machine) -> str:
        data, files = machine.user_data, machine.files
        number = next(_HERE)
        address, folder = f"127.0.{number // 250}.{number % 250 + 2}", self.folder / machine.id
        (folder / "home").mkdir(parents=True)
        folder.chmod(0o755)
        assert data["ssh_genkeytypes"] == ["ed25519"]
        private, public = new_key("host")
        (folder / "host").write_text(private)
        (folder / "host.pub").write_text(public)
        (folder / "host").chmod(0o600)
        (folder / "authorized").write_text("\n".join(data["users"][0]["ssh_authorized_keys"]))
        told = files["/etc/ssh/sshd_config.d/10-pgdyno.conf"].splitlines()
        port = next(int(line.split()[1]) for line in told if line.startswith("Port "))
        # here it is root who gets in
        ours = ("Port ", "PasswordAuth", "KbdInteractive", "PermitRootLogin")
        lines = [line for line in told if not line.startswith(ours)]
        path = f"{self.path}:" if self.path else ""
        serves = "ROLE=server" in files["/etc/pgdyno/host.env"]
        own = "" if serves else f" {self.of_generators}"
        lines += [f"SetEnv HOME={folder / 'home'} PATH={path}/usr/local/bin:/usr/bin:/bin{own}"]
        host = RealHost(folder, address, start_sshd(folder, address, port, lines))
        self.known[machine.id] = host
        if serves:
            self._serve(host, files, self.settings.get(machine.asked["InstanceType"], ""))
        (folder / "home" / "state").write_text("ready\n")
        return address

    def console(self, machine: Machine) -> str:
        return machine.console(" ".join((self.folder / machine.id / "host.pub").read_text().split()[:2]))

    def ended(self, machine: Machine) -> None:
        self.known.pop(machine.id).stop()

    def kept(self, machine: Machine) -> list[Path]:
        """Returns the host's files, which remain after its removal."""
        return sorted((self.folder / machine.id / "home").rglob("*"))

    def stop(self) -> None:
        for each in self.known.values():
            each.stop()
        self.known.clear()

    def _serve(self, host: RealHost, files: dict[str, str], setting: str) -> None:
        """Does what setup.sh does with packages: runs initdb, writes the configuration, and creates the role."""
        told = dict(line.split("=", 1) for line in files["/etc/pgdyno/host.env"].splitlines())
        host.port, data, own = int(told["PORT"]), host.folder / "data", host.folder / "own"
        own.mkdir()
        if told["TLS"] == "yes":
            Certificates(own).issue_itself("server", "pgdyno")
            shutil.copy(own / "server.crt", host.home)
        for name in ("hba.conf", "settings.conf"):
            if f"/etc/pgdyno/{name}" in files:
                text = files[f"/etc/pgdyno/{name}"].replace(f"/etc/postgresql/{told['VERSION']}/main", str(own))
                (own / name).write_text(text)
        for each in own.iterdir():
            each.chmod(0o600)
        if OWNER:
            for path in (host.folder, own, *own.iterdir()):
                shutil.chown(path, OWNER["user"], OWNER["group"])
        copy_cluster(self.installed, data)
        with (data / "postgresql.conf").open("a") as config:
            config.write(f"include = '{own / 'settings.conf'}'\nfsync = off\nport = {host.port}\n")
            config.write(f"listen_addresses = '{host.address}'\nunix_socket_directories = '{host.folder}'\n")
            config.write(f"hba_file = '{own / 'hba.conf'}'\n{setting}\n")
        # who is on the host itself need not be postgres here
        hba = (own / "hba.conf").read_text()
        (own / "hba.conf").write_text(hba.replace("local all all peer", "local all all trust"))
        with (host.folder / "log").open("w") as log:
            host.server = subprocess.Popen(
                [self.installed.program("postgres"), "-D", str(data)],
                **OWNER, env=self.installed.environment(), cwd=host.folder, stderr=log,
            )  # fmt: skip
        wait_until(lambda: self._has_role(host, files["/etc/pgdyno/role.sql"]))

    @staticmethod
    def _has_role(host: RealHost, statements: str) -> bool:
        assert host.server is not None
        assert host.server.poll() is None, (host.folder / "log").read_text()
        with suppress(psycopg.OperationalError), host.connect() as connection:
            connection.execute(statements.encode())
            return True
        return False
