"""A server from packages on a host that is rented or borrowed: its settings, and what a plan cannot set."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping

from pgdyno.errors import Problem
from pgdyno.plan.known_settings import SETTING_NAME
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PlanPath

USER = "pgdyno"
"""The superuser of new servers; a restored server has the user of its origin."""
_OURS = "pgdyno decides where the cluster is and how clients reach it"
RESERVED = {
    "config_file": _OURS,
    "data_directory": _OURS,
    "external_pid_file": _OURS,
    "hba_file": _OURS,
    "ident_file": _OURS,
    "listen_addresses": _OURS,
    "port": "use the target's key port",
    "ssl": "use the target's key tls",
    "ssl_cert_file": _OURS,
    "ssl_key_file": _OURS,
    "unix_socket_directories": _OURS,
}
"""Settings that a plan cannot set, with the reason."""


def check_major(where: PlanPath, version: str, document: Document) -> Iterator[Problem]:
    """Yield the problem of a version that is not a major one."""
    if not version.isdigit():
        message = f"{version} cannot be chosen: packages come in their newest minor version"
        yield document.problem((*where, "version"), message, f'write version = "{version.partition(".")[0]}"')


def check_settings(
    where: PlanPath, settings: Mapping[str, str], reserved: Mapping[str, str], document: Document
) -> Iterator[Problem]:
    """Yield the settings that cannot be lines of postgresql.conf."""
    for name, value in settings.items():
        at = (*where, "parameters", name)
        if SETTING_NAME.fullmatch(name) is None or name.lower().startswith("include"):
            yield document.problem(at, "is not the name of a setting", "remove it")
        elif (reason := reserved.get(name.lower())) is not None:
            yield document.problem(at, f"cannot be set: {reason}", "remove it")
        elif "\n" in value or "\0" in value:
            yield document.problem(at, "must be a single line")


def settings_text(settings: Mapping[str, str]) -> str:
    """Return the lines of postgresql.conf."""
    quoted = ((name, value.replace("\\", "\\\\").replace("'", "''")) for name, value in settings.items())
    return "".join(f"{name} = '{value}'\n" for name, value in quoted)


ITERATIONS = 4096
"""The default of PostgreSQL's scram_iterations."""
_SALT = 16


def verifier(password: str, salt: bytes | None = None) -> str:
    """Return `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey` for CREATE ROLE … PASSWORD: the host never learns the
    password itself, which must be ASCII.
    """
    salt = secrets.token_bytes(_SALT) if salt is None else salt
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("ascii"), salt, ITERATIONS)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    parts = [base64.b64encode(each).decode() for each in (salt, stored, hmac.digest(salted, b"Server Key", "sha256"))]
    return f"SCRAM-SHA-256${ITERATIONS}:{parts[0]}${parts[1]}:{parts[2]}"
