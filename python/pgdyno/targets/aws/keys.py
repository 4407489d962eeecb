"""Keys of hosts at Amazon: who they are, and who may log in there. All are made here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from pgdyno.remote.ssh import new_key

VALID = timedelta(days=365)
"""Of a server's certificate; hosts do not live so long."""
_EARLIER = timedelta(days=1)
"""Clocks differ."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A key in two halves, as files of OpenSSH or PEM have them."""

    private: str
    public: str


def new_pair(comment: str) -> Pair:
    """Of SSH, ed25519."""
    return Pair(*new_key(comment))


def new_certificate(name: str) -> Pair:
    """A server's key and the certificate that it signed itself: who has that file trusts this server alone."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + VALID)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Pair(private.decode(), made.public_bytes(Encoding.PEM).decode())
