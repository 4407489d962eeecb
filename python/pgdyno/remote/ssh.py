"""What other rooms use of the SSH library (asyncssh), which this room alone imports."""

from __future__ import annotations

from asyncssh import DEVNULL, generate_private_key
from asyncssh import Error as SshError
from asyncssh import SSHClientConnection as Connection
from asyncssh import SSHReader as Reader
from asyncssh.process import SSHClientProcess as Process

__all__ = ["DEVNULL", "Connection", "Process", "Reader", "SshError", "new_key"]


def new_key(comment: str) -> tuple[str, str]:
    """A new ed25519 key, the private and the public half as OpenSSH's files have them."""
    key = generate_private_key("ssh-ed25519", comment=comment)
    return key.export_private_key().decode(), key.export_public_key().decode().strip()
