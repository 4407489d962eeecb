"""How a plan describes the SSH access to a server's host."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdyno.plan.base import Model

CACHE = "~/.cache/pgdyno"


class SshSpec(Model):
    """SSH access to the database's host. OpenSSH's files give the defaults."""

    host: Annotated[str, Field(min_length=1)]
    """A name or an address, or a host of the config file."""
    user: Annotated[str, Field(min_length=1)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    config: str | None = None
    """Config file in place of ~/.ssh/config."""
    known_hosts: str | None = None
    """The only file of host keys; None: those that the config names, or else ~/.ssh/known_hosts and the system's."""
    folder: str = CACHE
    """Folder for the probe on that host."""
    data: str | None = None
    """The server's data directory on that host; None: the one that the server reports, if the role may read it."""
