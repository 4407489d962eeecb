"""Clusters that stay in the home for the next run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from pgdyno.errors import TargetError
from pgdyno.targets.claim import read_record
from pgdyno.targets.home import Home
from pgdyno.targets.installation import Installation
from pgdyno.targets.storage import ensure_folder, storing


def cluster_key(installation: Installation, initdb: Sequence[str]) -> str:
    """What a cluster is known by: its programs and how it was made. Settings don't count, each start writes them."""
    facts = json.dumps([installation.origin, list(initdb)])
    return f"{installation.version}-{hashlib.sha256(facts.encode()).hexdigest()[:12]}"


class KeptCluster:
    """The place of one kept cluster, held against others."""

    def __init__(self, home: Home, key: str) -> None:
        """Takes nothing yet; see `acquire`."""
        self.folder = home.clusters / key
        self._home = home
        self._lock: FileLock = home.lock(f"cluster-{key}")

    @property
    def data_directory(self) -> Path:
        """The cluster; absent before the first run has made it."""
        return self.folder / "data"

    def acquire(self) -> None:
        """Holds it until `release`. Raises TargetError when another run has it."""
        with storing(self.folder, "cannot lock"):
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                raise TargetError(
                    f"cannot use the kept cluster {self.folder}: {self._user()} uses it",
                    hint="wait until that run ends, or set keep_data = false",
                ) from None
        ensure_folder(self.folder)

    def release(self) -> None:
        """Lets go of it; nothing when it is not held."""
        self._lock.release()

    def adopt(self, data_directory: Path) -> None:
        """Moves a new cluster here. Raises TargetError."""
        with storing(self.data_directory, "cannot move a cluster to"):
            data_directory.rename(self.data_directory)

    def _user(self) -> str:
        for folder in self._home.instances.glob("*"):
            record = read_record(folder)
            if record is not None and record.data_directory == str(self.data_directory):
                return f"target {record.target} of process {record.owner_pid}"
        return "another run"
