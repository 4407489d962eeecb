"""What a plan says of the probe beside each trial."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgdyno.plan.base import Model

LOCAL_HZ = 10
REMOTE_HZ = 1
MOST_HZ = 100
"""As pgprobe has it."""


class ProbeSpec(Model):
    """What is sampled beside every trial, as far as the target allows it."""

    enabled: bool = True
    waits_hz: Annotated[int, Field(ge=0, le=MOST_HZ)] | None = None
    """How often a second sessions are looked at; None: 10 on this machine, 1 over the network. 0: never."""
    host: bool = True
    """The server's host and its processes: this machine, or one over SSH (`target.NAME.ssh`)."""
    server: bool = True
    """The server, over SQL."""

    def hz(self, *, local: bool) -> int:
        """How often sessions are looked at."""
        if self.waits_hz is not None:
            return self.waits_hz
        return LOCAL_HZ if local else REMOTE_HZ
