"""A server with TLS, and valid and invalid certificates for it, which openssl creates."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import psycopg

from pgdyno.targets.cluster.installation import Installation
from tests.ports import reserve_port
from tests.postgres.own_servers import copy_cluster
from tests.waiting import wait_until

PASSWORD = "secret"
HBA = """\
local all all trust
hostssl all by_cert all cert
hostssl all only_tls all trust
hostssl all pgdyno all scram-sha-256
hostnossl all only_plain all trust
host all by_scram all scram-sha-256
host all by_md5 all md5
host all by_password all password
host all postgres,nobody_at_all all trust
"""
# who a run of the server and its files belong to: PostgreSQL refuses root
OWNER: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


class Certificates:
    """A folder of certificates, each as `name.crt` with `name.key`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    def openssl(self, *args: str) -> None:
        done = subprocess.run(["openssl", *args], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def issue_itself(self, name: str, subject: str) -> None:
        """Creates a self-signed certificate as PostgreSQL's manual describes for a simple server."""
        self.openssl(
            *("req", "-new", "-x509", "-days", "30", "-nodes", "-newkey", "rsa:2048"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={subject}"),
        )

    def issue(self, name: str, subject: str, issuer: str, extensions: str = "", days: int = 30) -> None:
        """Creates a certificate that an authority signs, as PostgreSQL's manual describes.

        Without extensions, older versions of openssl create version 1.
        """
        self.openssl(
            *("req", "-new", "-nodes", "-newkey", "rsa:2048"),
            *("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={subject}"),
        )
        file = self.folder / f"{name}.ext"
        file.write_text(extensions)
        with_extensions = ["-extfile", file.name] if extensions else []
        self.openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", "-days", str(days)),
            *("-CA", f"{issuer}.crt", "-CAkey", f"{issuer}.key", "-CAcreateserial", *with_extensions),
        )


def make_certificates(folder: Path) -> Certificates:
    """Puts all certificates that the tests use into `folder`; a process creates them once, which takes seconds."""
    shutil.copytree(_certificates(), folder)
    return Certificates(folder)


@cache
def _certificates() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pgdyno-certificates-"))
    atexit.register(shutil.rmtree, folder)
    made = Certificates(folder)
    made.issue_itself("root", "test root")
    made.issue_itself("other", "other root")
    made.issue_itself("alone", "localhost")
    made.issue("server", "ignored", "root", "subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    made.issue("simple", "localhost", "root")
    made.issue("elsewhere", "ignored", "root", "subjectAltName=DNS:db.example,DNS:*.example\n")
    made.issue("expired", "localhost", "root", "subjectAltName=DNS:localhost,IP:127.0.0.1\n", days=-1)
    made.issue("by_cert", "by_cert", "root")
    made.issue("stranger", "by_cert", "other")
    made.openssl("pkey", "-in", "by_cert.key", "-aes256", "-passout", "pass:x", "-out", "locked.key")
    open_to_all = folder / "open.key"
    open_to_all.write_bytes((folder / "by_cert.key").read_bytes())
    open_to_all.chmod(0o644)
    return folder


class TlsServer:
    """A server of the test's own in `folder`, whose certificate can be replaced while it runs."""

    def __init__(self, installed: Installation, folder: Path) -> None:
        self.installed = installed
        self.folder = folder
        self.certificates = make_certificates(folder / "certificates")
        self.data = folder / "data"
        self.port = reserve_port(self)
        self._keys_for_the_server()
        self._start()
        with self.connect() as connection:
            connection.execute("SET password_encryption = 'scram-sha-256'")
            for role in ("by_cert", "only_tls", "only_plain", "by_scram", "by_password"):
                statement = f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{PASSWORD}'"
                connection.execute(statement.encode())
            connection.execute("SET password_encryption = 'md5'")
            connection.execute(f"CREATE ROLE by_md5 LOGIN SUPERUSER PASSWORD '{PASSWORD}'".encode())

    def _keys_for_the_server(self) -> None:
        """Copies the keys, because the server's user must own its keys, and the clients' keys belong to their user."""
        own = self.folder / "own"
        own.mkdir()
        for file in self.certificates.folder.iterdir():
            copy = own / file.name
            copy.write_bytes(file.read_bytes())
            copy.chmod(0o600)
        if OWNER:
            for path in (self.folder, own, *own.iterdir()):
                self._give_away(path)

    @staticmethod
    def _give_away(path: Path) -> None:
        shutil.chown(path, OWNER["user"], OWNER["group"])

    def _start(self) -> None:
        copy_cluster(self.installed, self.data)
        (self.data / "pg_hba.conf").write_text(HBA)
        with (self.data / "postgresql.conf").open("a") as config:
            config.write(f"fsync = off\nssl = on\nport = {self.port}\nlisten_addresses = '127.0.0.1'\n")
            config.write(f"unix_socket_directories = '{self.folder}'\nssl_ca_file = '{self.folder}/own/root.crt'\n")
            config.write("include = 'certificate.conf'\n")
        self._name_certificate("server")
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [self.installed.program("postgres"), "-D", str(self.data)],
                **OWNER,
                env=self.installed.environment(),
                cwd=self.folder,
                stderr=log,
            )
        self._wait(lambda: True)

    def _name_certificate(self, name: str) -> None:
        own = self.folder / "own" / name
        named = self.data / "certificate.conf"
        named.write_text(f"ssl_cert_file = '{own}.crt'\nssl_key_file = '{own}.key'\n")
        if OWNER:
            self._give_away(named)
        self.certificate = name

    def use(self, name: str) -> None:
        if name == self.certificate:
            return
        self._name_certificate(name)
        self.process.send_signal(signal.SIGHUP)
        # a session that sees the new name was forked by a postmaster that has loaded the file
        self._wait(lambda: self.value("SHOW ssl_cert_file") == f"{self.folder}/own/{name}.crt")

    def _wait(self, is_so: Callable[[], object]) -> None:
        def is_there() -> bool:
            assert self.process.poll() is None, (self.folder / "log").read_text()
            with suppress(psycopg.OperationalError):
                self.connect().close()
                return bool(is_so())
            return False

        wait_until(is_there)

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname="postgres", autocommit=True
        )

    def value(self, query: str) -> Any:  # noqa: ANN401 - a column of any type
        with self.connect() as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def wait_for(self, query: str) -> None:
        self._wait(lambda: self.value(query))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()


@contextmanager
def running_tls_server(installed: Installation, folder: Path) -> Iterator[TlsServer]:
    """Runs a server in `folder` until the block ends."""
    # every user must be able to come here, and a socket's path is short
    short = Path("/tmp") / f"pgdyno-tls-{os.getpid()}"
    shutil.rmtree(short, ignore_errors=True)
    folder.rename(short)
    short.chmod(0o755)
    server = TlsServer(installed, short)
    yield server
    server.stop()
    shutil.rmtree(short, ignore_errors=True)
