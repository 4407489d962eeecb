"""The parts of the SSH library (asyncssh) that other packages use; only this package imports it."""

from __future__ import annotations

from asyncssh import DEVNULL, generate_private_key
from asyncssh import Error as SshError
from asyncssh import SSHClientConnection as Connection
from asyncssh import SSHReader as Reader
from asyncssh.process import SSHClientProcess as Process

__all__ = ["DEVNULL", "Connection", "Process", "Reader", "SshError", "new_key"]


def new_key(comment: str) -> tuple[str, str]:
    """Creates an ed25519 key; returns the private and the public half in OpenSSH's format."""
    key = generate_private_key("ssh-ed25519", comment=comment)
    return key.export_private_key().decode(), key.export_public_key().decode().strip()
