"""The record of borrowed hosts: which host pgdyno asks for a run, noted on disk before it asks.

A journal is the folder `pool/RUN` in pgdyno's home. It exists until all hosts of the run are given back.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pgdyno.plan.hosts import SshSpec
from pgdyno.targets import rental
from pgdyno.targets.home import ensure_folder, storing, write_whole

FOLDER = "pool"


@dataclass(frozen=True, slots=True)
class Asked:
    """A host that pgdyno borrowed, or was about to borrow."""

    target: str
    ssh: SshSpec


@dataclass(slots=True)
class Journal(rental.Journal):
    """The hosts of one run."""

    asked: list[Asked] = field(default_factory=list)
    released: set[str] = field(default_factory=set)
    """Targets of this process whose hosts are given back already."""

    @classmethod
    def begin(cls, root: Path, plan: str, digest: str, expires: datetime) -> Journal:
        """Create a journal below pgdyno's home `root`. Raises TargetError."""
        journal = cls(root / FOLDER / rental.new_run(), plan, digest, expires)
        ensure_folder(journal.path, 0o700)
        journal.hold()
        journal._write()
        return journal

    @property
    def passwords(self) -> Path:
        """The password file (libpq's format) of the run's servers, which only its owner can read."""
        return self.path / "passwords"

    def asking(self, target: str, ssh: SshSpec) -> None:
        """Note a host before it is asked. Raises TargetError."""
        self.asked.append(Asked(target, ssh))
        self._write()

    def refused(self) -> None:
        """Forgets the last host, which another run has. Raises TargetError."""
        self.asked.pop()
        self._write()

    def is_ready(self, target: str, place: dict[str, Any]) -> None:
        """Note how to reach the server of `target`. Raises TargetError."""
        self.ready[target] = place
        self._write()

    def is_released(self, target: str) -> None:
        """Note that the host of `target` is given back: another run must not use it. Raises TargetError."""
        self.asked = [each for each in self.asked if each.target != target]
        self.released.add(target)
        self._write()

    def prolong(self, expires: datetime) -> None:
        """Note another expiry. Raises TargetError."""
        self.expires = expires
        self._write()

    def close(self) -> None:
        """Remove the journal, once all hosts are given back. Raises TargetError."""
        with storing(self.path, "cannot remove"):
            shutil.rmtree(self.path, ignore_errors=False)
        self.release()

    def _write(self) -> None:
        content = {
            "plan": self.plan,
            "digest": self.digest,
            "expires": rental.stamp(self.expires),
            "asked": [{"target": each.target, "ssh": each.ssh.model_dump(mode="json")} for each in self.asked],
            "ready": {target: place for target, place in self.ready.items() if target not in self.released},
        }
        file = self.path / "journal.json"
        write_whole(file, json.dumps(content).encode())
        with storing(file, "cannot write"):
            for path in (file, self.path):
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)


def journals(root: Path) -> Iterator[Journal]:
    """Yield all journals of the home `root`, the newest first. Raises TargetError."""
    for file in sorted((root / FOLDER).glob("*/journal.json"), reverse=True):
        with storing(file, "cannot read"):
            try:
                content = json.loads(file.read_bytes())
            except FileNotFoundError:
                # another process has just given the hosts back
                continue
        expires = datetime.strptime(content["expires"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        asked = [Asked(each["target"], SshSpec.model_validate(each["ssh"])) for each in content["asked"]]
        yield Journal(file.parent, content["plan"], content["digest"], expires, ready=content["ready"], asked=asked)
