"""The keys of one run's hosts, beside its journal: they go with it."""

from __future__ import annotations

import os
from pathlib import Path

from pgdyno.plan.ssh_words import SshSpec
from pgdyno.targets.aws.journal import Journal
from pgdyno.targets.aws.place import Place
from pgdyno.targets.storage import ensure_folder, storing

SSH_PORT = 22


class KeyRing:
    """The folder with the keys of one run, beside its journal; closed to others."""

    def __init__(self, journal: Journal) -> None:
        """Of the run of `journal`; nothing is written yet."""
        self.folder = journal.keys
        self.config = self.folder / "config"
        """A config file for ssh(1): the key of `own`."""
        self.known_hosts = self.folder / "known_hosts"
        """The keys of the run's hosts, and of no others."""

    def certificate(self, target: str) -> Path:
        """What the server of `target` is known by."""
        return self.folder / f"{target}.crt"

    def own(self) -> str:
        """The public half of our own key; made when it is first asked for. Raises TargetError."""
        with storing(self.folder, "cannot write"):
            if not (self.folder / "key.pub").exists():
                ensure_folder(self.folder)
                self.folder.chmod(0o700)
                from pgdyno.targets.aws.keys import new_pair

                pair = new_pair("pgdyno")
                _write(self.folder / "key", pair.private)
                _write(self.config, f'Host *\n  IdentityFile "{self.folder / "key"}"\n  IdentitiesOnly yes\n')
                # last: it says that all is there
                _write(self.folder / "key.pub", pair.public)
            return (self.folder / "key.pub").read_text(encoding="utf-8")

    def ssh(self, place: Place) -> SshSpec | None:
        """How to log in to the host of `place`; None where there is none."""
        if not place.login:
            return None
        return SshSpec(
            host=place.host,
            user=place.login,
            port=place.ssh_port,
            config=str(self.config),
            known_hosts=str(self.known_hosts),
        )

    def trust(self, target: str, certificate: str) -> None:
        """Keeps what the server of `target` is known by. Raises TargetError."""
        with storing(self.folder, "cannot write"):
            _write(self.certificate(target), certificate)

    def know(self, address: str, port: int, public: str) -> None:
        """Keeps the host key of `address`. Raises TargetError."""
        algorithm, key = public.split()[:2]
        with storing(self.folder, "cannot write"), self.known_hosts.open("a", encoding="utf-8") as file:
            file.write(
                f"[{address}]:{port} {algorithm} {key}\n" if port != SSH_PORT else f"{address} {algorithm} {key}\n"
            )


def _write(file: Path, text: str) -> None:
    handle = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
