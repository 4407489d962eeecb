"""A server with TLS, and valid and invalid certificates for it, which openssl creates."""

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pgdyno.targets.cluster.installation import Installation
from tests.postgres.own_servers import OwnServer
from tests.scratch import scratch_folder
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
        self.openssl(
            *("req", "-new", "-x509", "-days", "30", "-nodes", "-newkey", "rsa:2048"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={subject}"),
        )

    def issue(self, name: str, subject: str, issuer: str, extensions: str = "", days: int = 30) -> None:
        """Creates one that an authority signs; without extensions, older versions of openssl create version 1."""
        self.openssl(
            *("req", "-new", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
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
    shutil.copy(folder / "by_cert.key", folder / "open.key")
    (folder / "open.key").chmod(0o644)
    return folder


class TlsServer(OwnServer):
    """A server whose certificate can be replaced while it runs."""

    certificate = ""

    @property
    def certificates(self) -> Certificates:
        return Certificates(self.folder / "certificates")

    def use(self, name: str) -> None:
        if name == self.certificate:
            return
        file = f"{self.folder}/own/{name}"
        lines = f"ssl_cert_file = '{file}.crt'\nssl_key_file = '{file}.key'\n"
        (self.data / "certificate.conf").write_text(lines)
        # the server's user reads it, whatever the umask is
        (self.data / "certificate.conf").chmod(0o644)
        self.certificate = name
        if self.is_running():
            self.value("SELECT pg_reload_conf()")
            # a session that sees the new name was forked by a postmaster that has loaded the file
            wait_until(lambda: self.value("SHOW ssl_cert_file") == f"{file}.crt")


@contextmanager
def running_tls_server(installed: Installation) -> Iterator[TlsServer]:
    folder = scratch_folder()
    server = TlsServer.make(installed, folder / "tls")
    own = server.folder / "own"
    shutil.copytree(make_certificates(server.folder / "certificates").folder, own)
    # the server's user must own its keys, and the clients' keys belong to their user
    for path in (own, *own.iterdir()):
        path.chmod(0o700 if path == own else 0o600)
        if OWNER:
            shutil.chown(path, OWNER["user"], OWNER["group"])
    (server.data / "pg_hba.conf").write_text(HBA)
    server.configure(f"ssl = on\nssl_ca_file = '{own}/root.crt'\ninclude = 'certificate.conf'\n")
    server.use("server")
    server.start()
    try:
        with server.connect() as connection:
            for method, roles in [
                ("scram-sha-256", ("by_cert", "only_tls", "only_plain", "by_scram", "by_password")),
                ("md5", ("by_md5",)),
            ]:
                connection.execute(f"SET password_encryption = '{method}'".encode())
                for role in roles:
                    connection.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD '{PASSWORD}'".encode())
        yield server
    finally:
        server.stop("immediate")
        shutil.rmtree(folder)
