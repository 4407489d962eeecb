"""What there is of a server that pgdyno started itself on this host: its process and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pgdyno.targets.cluster_copy import ClusterCopy

if TYPE_CHECKING:
    from pgdyno.targets.replicas import ReplicaSet


class ServerControl(Protocol):
    """Who can ask for the process, stop it and start it."""

    def is_alive(self) -> bool:
        """True while the process runs."""

    def restart(self, port: int) -> int:
        """Restarts it; the port that it has then."""

    def stop(self) -> None:
        """Shuts it down; the data directory is then whole by itself."""

    def start(self, port: int) -> int:
        """Starts it after `stop`; the port that it has then."""

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings of the plan that stand in its configuration."""

    def write_settings(self, settings: Mapping[str, str], port: int) -> None:
        """Puts others in their place; they count from the next reload or start."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Files and process of one server. Over the network there is none of it."""

    data_directory: Path
    socket_directory: Path
    log_path: Path
    control: ServerControl = field(repr=False)
    copy: ClusterCopy
    """Where a stopped copy of its data directory lives."""
    replicas: ReplicaSet | None = None
    """Its standbys; None when the plan wants none."""
