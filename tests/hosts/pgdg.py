"""A small signed repository that replaces the PostgreSQL project's, over TLS at the same name.

It has Debian's packages of PostgreSQL 15 with a version that Debian does not have. Images get this repository's key in
the place of the project's, whose private half is not available.
"""

import hashlib
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.hosts.booted import BootedHosts
from tests.hosts.tree import Image

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
    certificate = _certificate(folder / "pgdg.pem")
    hosts.prepare |= {
        "etc/hosts": f"127.0.0.1 localhost host\n{hosts.gateway} {NAME}\n",
        "etc/apt/apt.conf.d/01pgdg": f'Acquire::https::{NAME}::CaInfo "/etc/pgdg.pem";\n',
        "etc/pgdg.pem": certificate,
    }
    if known:
        # dpkg puts the project's next to it
        before = (hosts.image.tree / "var/lib/dpkg/diversions").read_text()
        hosts.prepare |= {KEY: key, "var/lib/dpkg/diversions": f"{before}/{KEY}\n/{KEY}.distrib\n:\n"}
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "pgdg.pem")
    server = ThreadingHTTPServer((hosts.gateway, 443), partial(_Quiet, directory=str(root)))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def _packages(image: Image, root: Path) -> None:
    """Writes Debian's packages with the new version, and their index."""
    pool, suite = root / "pool", root / "dists/bookworm-pgdg"
    pool.mkdir(parents=True)
    listed, architecture = [], ""
    for package in image.packages:
        open_, made = pool / "open", pool / f"{package.name.partition('_')[0]}.deb"
        _do("dpkg-deb", "-R", str(package), str(open_))
        control = open_ / "DEBIAN/control"
        lines = control.read_text().splitlines()
        version = next(line.partition(" ")[2] for line in lines if line.startswith("Version: "))
        control.write_text(control.read_text().replace(version, VERSION))
        _do("dpkg-deb", "-b", "-Znone", str(open_), str(made))
        _do("rm", "-r", str(open_))
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        told = f"Filename: pool/{made.name}\nSize: {made.stat().st_size}\nSHA256: {digest}\n"
        listed.append(_do("dpkg-deb", "-f", str(made)) + told)
        architecture = _do("dpkg-deb", "-f", str(made), "Architecture").strip()
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
    _do(*gpg, "--passphrase", "", "--quick-generate-key", "repository@localhost", "rsa2048", "sign", "never")
    _do(*gpg, "--clearsign", "--output", str(suite / "InRelease"), str(suite / "Release"))
    _do(*gpg, "--output", str(folder / "public"), "--export")
    _do("gpgconf", "--homedir", str(folder), "--kill", "gpg-agent")
    return (folder / "public").read_bytes()


def _certificate(file: Path) -> str:
    """Creates the certificate for the repository's name; its key is in `file`."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, SHA256())
    )
    certificate = made.public_bytes(Encoding.PEM)
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
    return certificate.decode()


def _do(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
