"""The probe's settings in a plan."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from pgdyno.plan.base import Model

LOCAL_HZ = 10
REMOTE_HZ = 1
MOST_HZ = 100
"""pgprobe's limit."""
STATEMENTS = 20
"""pgprobe's default."""


def _log(value: object) -> object:
    if isinstance(value, bool) or (isinstance(value, str) and value.startswith("/")):
        return value
    raise ValueError('write the whole path of the log, such as "/var/log/postgresql/main.log", or true or false')


class ProbeSpec(Model):
    """What the probe samples during every trial, as far as the target allows it."""

    enabled: bool = True
    waits_hz: Annotated[int, Field(ge=0, le=MOST_HZ)] | None = None
    """Session samples per second; None: 10 on this machine, 1 over the network. 0: none."""
    host: bool = True
    """Sample the server's host and its processes: this machine, or one over SSH (`target.NAME.ssh`)."""
    server: bool = True
    """Sample the server over SQL."""
    log: Annotated[bool | str, BeforeValidator(_log)] = True
    """Read the server's log on its host: true for the path that the server reports, or a path."""
    statements: Annotated[int, Field(ge=0)] = STATEMENTS
    """Number of statements of pg_stat_statements to record every 10 s, if the database has it. 0: none."""
    standbys: bool = True
    """Sample the standbys of a target that pgdyno runs, each over SQL."""

    @model_validator(mode="after")
    def _log_is_on_the_host(self) -> ProbeSpec:
        if isinstance(self.log, str) and not self.host:
            raise ValueError("the log is on the server's host, which host = false excludes")
        return self

    def hz(self, *, local: bool) -> int:
        """The sampling frequency of sessions."""
        if self.waits_hz is not None:
            return self.waits_hz
        return LOCAL_HZ if local else REMOTE_HZ

    def log_options(self) -> list[str]:
        """Returns pgprobe's options for the log."""
        if isinstance(self.log, str):
            return [f"--log={self.log}"]
        return [] if self.log else ["--no-log"]
