"""A small signed repository that replaces the PostgreSQL project's, over TLS at the same name.

It has Debian's packages of PostgreSQL 15 with a version that Debian does not have. Images get this repository's key in
the place of the project's, whose private half is not available.
"""

import hashlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.hosts.booted import BootedHosts, execute
from tests.listening import serving
from tests.postgres.tls_server import Certificates

NAME = "apt.postgresql.org"
VERSION = "15.99-1.pgdg120+1"
KEY = "usr/share/postgresql-common/pgdg/apt.postgresql.org.gpg"
_SUITE = "pub/repos/apt/dists/bookworm-pgdg"


@contextmanager
def pgdg(hosts: BootedHosts, folder: Path, *, known: bool = True) -> Iterator[None]:
    """Serves the repository until the block ends; with `known`, hosts have its key instead of the project's."""
    root = folder / "pgdg"
    _packages(hosts.image, root / "pub/repos/apt")
    key = _signed(root / _SUITE, folder / "gpg")
    own = ("-days", "1", "-nodes", "-newkey", "rsa:2048", "-keyout", "pgdg.key", "-out", "pgdg.crt")
    named = ("-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}")
    Certificates(folder).openssl("req", "-new", "-x509", *own, *named)
    hosts.prepare |= {
        "etc/hosts": f"127.0.0.1 localhost host\n{hosts.gateway} {NAME}\n",
        "etc/apt/apt.conf.d/01pgdg": f'Acquire::https::{NAME}::CaInfo "/etc/pgdg.pem";\n',
        "etc/pgdg.pem": (folder / "pgdg.crt").read_bytes(),
    }
    if known:
        # dpkg puts the project's next to it
        before = (hosts.image / "tree/var/lib/dpkg/diversions").read_text()
        hosts.prepare |= {KEY: key, "var/lib/dpkg/diversions": f"{before}/{KEY}\n/{KEY}.distrib\n:\n"}
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "pgdg.crt", folder / "pgdg.key")
    server = ThreadingHTTPServer((hosts.gateway, 443), partial(_Quiet, directory=str(root)))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    with serving(server):
        yield


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def _packages(image: Path, root: Path) -> None:
    """Writes Debian's packages with the new version, and their index."""
    pool, suite = root / "pool", root / "dists/bookworm-pgdg"
    pool.mkdir(parents=True)
    listed, architecture = [], ""
    for package in sorted(image.glob("*.deb")):
        open_, made = pool / "open", pool / f"{package.name.partition('_')[0]}.deb"
        execute("dpkg-deb", "-R", str(package), str(open_))
        control = open_ / "DEBIAN/control"
        lines = control.read_text().splitlines()
        version = next(line.partition(" ")[2] for line in lines if line.startswith("Version: "))
        control.write_text(control.read_text().replace(version, VERSION))
        execute("dpkg-deb", "-b", "-Znone", str(open_), str(made))
        execute("rm", "-r", str(open_))
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        told = f"Filename: pool/{made.name}\nSize: {made.stat().st_size}\nSHA256: {digest}\n"
        listed.append(f"{execute('dpkg-deb', '-f', str(made))}\n{told}")
        architecture = execute("dpkg-deb", "-f", str(made), "Architecture")
    index = suite / f"main/binary-{architecture}/Packages"
    index.parent.mkdir(parents=True)
    index.write_text("\n".join(listed))
    text = index.read_bytes()
    (suite / "Release").write_text(
        f"Origin: {NAME}\nSuite: bookworm-pgdg\nCodename: bookworm-pgdg\nComponents: main\n"
        f"Architectures: {architecture}\nDate: {datetime.now(UTC):%a, %d %b %Y %H:%M:%S} UTC\n"
        f"SHA256:\n {hashlib.sha256(text).hexdigest()} {len(text)} {index.relative_to(suite)}\n"
    )


def _signed(suite: Path, folder: Path) -> bytes:
    folder.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(folder), "--batch", "--quiet"]
    execute(*gpg, "--passphrase", "", "--quick-generate-key", "repository@localhost", "rsa2048", "sign", "never")
    execute(*gpg, "--clearsign", "--output", str(suite / "InRelease"), str(suite / "Release"))
    execute(*gpg, "--output", str(folder / "public"), "--export")
    execute("gpgconf", "--homedir", str(folder), "--kill", "gpg-agent")
    return (folder / "public").read_bytes()
