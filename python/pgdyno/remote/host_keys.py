"""Checks host keys: accepts only known ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import asyncssh

from pgdyno.plan.ssh_words import SshSpec
from pgdyno.remote.problem import RemoteError

DEFAULT_FILES = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
"""The defaults of ssh(1)."""
SSH_PORT = 22


class KnownHosts:
    """Host keys from known_hosts files."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Reads `files`; missing ones are empty. Raises RemoteError for an invalid one."""
        self.files = files
        self.keys = asyncssh.import_known_hosts("")
        for file in files:
            try:
                self.keys.load(file.read_text(errors="replace"))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                raise RemoteError(f"cannot read the host keys in {file}: {error}") from error

    @classmethod
    def of(cls, spec: SshSpec, configured: Sequence[str] | None) -> KnownHosts:
        """Returns the keys that apply to `spec`; `configured` is the config file's list, None disables all."""
        if spec.known_hosts is not None:
            names: Sequence[str] = [spec.known_hosts]
        elif configured is None:
            names = []
        else:
            names = configured or DEFAULT_FILES
        return cls([Path(name).expanduser() for name in names])


class Watchful(asyncssh.SSHClient):
    """Rejects unknown host keys and remembers the rejected one."""

    def __init__(self, known: KnownHosts) -> None:
        self._known = known
        self.refused: RemoteError | None = None
        """The message after a key was rejected."""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for a key that no file has for this host."""
        self.refused = self._refusal(host, addr, port, key)
        return False

    def validate_host_ca_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Called for a key that signed the host's certificate."""
        self.refused = self._refusal(host, addr, port, key)
        return False

    def _refusal(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> RemoteError:
        others = self._known.keys.match(host, addr, port if port != SSH_PORT else None)[0]
        kind, fingerprint = key.get_algorithm(), key.get_fingerprint()
        name = host if port == SSH_PORT else f"[{host}]:{port}"
        files = " or ".join(map(str, self._known.files)) or "no file"
        add_to = self._known.files[0] if self._known.files else Path(DEFAULT_FILES[0])
        add = f"ssh-keyscan -p {port} {host} >> {add_to}"
        compare = (
            "compare it with the host's own key (on the host: ssh-keygen -lf "
            f"/etc/ssh/ssh_host_{_file_of(kind)}_key.pub)"
        )
        if others:
            message = f"the host key of {name} is {kind} {fingerprint}, which is not the one in {files}"
            changed = "this may be an attack, or the host was reinstalled"
            return RemoteError(message, hint=f"{changed}; {compare}; then: ssh-keygen -f {add_to} -R '{name}'; {add}")
        message = f"unknown host key of {name}: {kind} {fingerprint} is not in {files}"
        return RemoteError(message, hint=f"{compare}; then: {add}")


def _file_of(kind: str) -> str:
    """Returns `ed25519` for `ssh-ed25519`, `ecdsa` for `ecdsa-sha2-nistp256`."""
    return "ecdsa" if kind.startswith("ecdsa") else kind.removeprefix("ssh-")
