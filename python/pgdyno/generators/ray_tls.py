"""Encryption between the hosts of a Ray cluster that pgdyno starts.

Each run has a certificate authority of its own. The nodes receive it on standard input over SSH, as they receive Ray's
token, and sign themselves a certificate for their own addresses. Ray then accepts only nodes of this authority.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.x509 import CertificateBuilder

VALID = timedelta(days=90)
"""Longer than any run; the key is forgotten with it."""
_EARLIER = timedelta(days=1)
"""How far in the past the validity begins, because clocks of hosts differ."""
_OUTSIDE = "192.0.2.1"
"""An unassigned address (RFC 5737): the interface to it is the one that Ray chooses without other information."""


@dataclass(frozen=True, slots=True)
class Authority:
    certificate: str
    key: str

    @classmethod
    def new(cls) -> Authority:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder("pgdyno", key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(*_pem(made, key, key))

    def as_order(self) -> dict[str, str]:
        """Return it as an order contains it."""
        return asdict(self)

    def environment(self, folder: Path, head: str) -> dict[str, str]:
        """Write this host's certificate into `folder`, which only its owner can read; return Ray's variables.

        `head` is the address of the cluster's head.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        signer = serialization.load_pem_private_key(self.key.encode(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName("localhost")]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses(head)]
        made = _builder("node", key.public_key()).add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate, private = _pem(made, key, signer)
        folder.mkdir(mode=0o700, exist_ok=True)
        contents = {"ca.crt": self.certificate, "node.crt": certificate, "node.key": private}
        for name, text in contents.items():
            handle = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "w") as file:
                file.write(text)
        return {
            "RAY_USE_TLS": "1",
            "RAY_TLS_CA_CERT": str(folder / "ca.crt"),
            "RAY_TLS_SERVER_CERT": str(folder / "node.crt"),
            "RAY_TLS_SERVER_KEY": str(folder / "node.key"),
        }


def _builder(name: str, public: EllipticCurvePublicKey) -> CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    subject, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, "pgdyno"))
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(by).public_key(public)
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(now - _EARLIER).not_valid_after(now + VALID)


def _pem(made: CertificateBuilder, key: EllipticCurvePrivateKey, signer: EllipticCurvePrivateKey) -> tuple[str, str]:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.sign(signer, SHA256()).public_bytes(Encoding.PEM).decode(), private.decode()


def is_in_the_clear(address: str, environ: Mapping[str, str]) -> bool:
    """Return whether what goes to the existing cluster at `address` crosses a network unencrypted."""
    if environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return False
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def addresses(head: str) -> list[str]:
    """Return the addresses under which this host may be known to the others: that towards the head, and all others."""
    found = ["127.0.0.1", "::1"]
    for each in (head, _OUTSIDE):
        with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            # connecting a UDP socket sends nothing
            sock.connect((each, 9))
            found.append(sock.getsockname()[0])
    with suppress(OSError):
        found += [str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)]
    return [each for each in dict.fromkeys(found) if "%" not in each]
