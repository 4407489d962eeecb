"""What a plan says of the probe beside each trial."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from pgdyno.plan.base import Model

LOCAL_HZ = 10
REMOTE_HZ = 1
MOST_HZ = 100
"""As pgprobe has it."""
STATEMENTS = 20
"""Likewise."""


def _log(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and value.startswith("/")):
        return value
    raise ValueError('write the whole path of the log, such as "/var/log/postgresql/main.log", or true or false')


class ProbeSpec(Model):
    """What is sampled beside every trial, as far as the target allows it."""

    enabled: bool = True
    waits_hz: Annotated[int, Field(ge=0, le=MOST_HZ)] | None = None
    """How often a second sessions are looked at; None: 10 on this machine, 1 over the network. 0: never."""
    host: bool = True
    """The server's host and its processes: this machine, or one over SSH (`target.NAME.ssh`)."""
    server: bool = True
    """The server, over SQL."""
    log: Annotated[bool | str, BeforeValidator(_log)] = True
    """The server's log, on its host: true is where the server says that it writes it, else its path."""
    statements: Annotated[int, Field(ge=0)] = STATEMENTS
    """How many statements of pg_stat_statements are shown every 10 s, where the database has it. 0: none."""
    standbys: bool = True
    """The standbys of a target that pgdyno runs, each over SQL."""

    @model_validator(mode="after")
    def _log_is_on_the_host(self) -> ProbeSpec:
        if isinstance(self.log, str) and not self.host:
            raise ValueError("the log is read on the server's host, and host = false leaves that alone")
        return self

    def hz(self, *, local: bool) -> int:
        """How often sessions are looked at."""
        if self.waits_hz is not None:
            return self.waits_hz
        return LOCAL_HZ if local else REMOTE_HZ

    def log_options(self) -> list[str]:
        """pgprobe's, of the log."""
        if isinstance(self.log, str):
            return [f"--log={self.log}"]
        return [] if self.log else ["--no-log"]
