"""What a server and its standbys write into their logs from now on, to be kept with a trial."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pgdyno.targets.log import log_size
from pgdyno.targets.server import Server

PRIMARY = "server.log"


@dataclass(frozen=True, slots=True)
class LogParts:
    """Each log, with the byte from which on it is wanted."""

    parts: tuple[tuple[str, Path, int], ...]
    """Its name among what is kept, where it is written, its size so far."""

    @classmethod
    def from_now(cls, server: Server) -> LogParts:
        """Of the server and its standbys; of none that is only reached over the network."""
        if server.machine is None:
            return cls(())
        logs = {PRIMARY: server.machine.log_path}
        if server.machine.replicas is not None:
            for place, path in enumerate(server.machine.replicas.log_paths, start=1):
                logs[f"replica-{place}.log"] = path
        return cls(tuple((name, path, log_size(path)) for name, path in logs.items()))

    def save(self, folder: Path) -> None:
        """Copies what has come since into `folder`. Raises OSError."""
        for name, path, start in self.parts:
            with path.open("rb") as log, (folder / name).open("wb") as copy:
                log.seek(start)
                shutil.copyfileobj(log, copy)
