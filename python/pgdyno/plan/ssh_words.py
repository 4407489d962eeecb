"""What a plan says of a server's host, where it can be reached over SSH."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdyno.plan.base import Model

CACHE = "~/.cache/pgdyno"


class SshSpec(Model):
    """How to get to the database's host. What is not said here is as OpenSSH's files have it."""

    host: Annotated[str, Field(min_length=1)]
    """A name or an address; also one of the config file's."""
    user: Annotated[str, Field(min_length=1)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    config: str | None = None
    """A config file in place of ~/.ssh/config."""
    known_hosts: str | None = None
    """The only file of host keys; None: those that the config names, else ~/.ssh/known_hosts and the system's."""
    folder: str = CACHE
    """Where the probe is kept on that host."""
    data: str | None = None
    """The server's data directory there; None: what the server says, if the role may ask."""
