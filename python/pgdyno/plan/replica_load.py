"""`[replica_load]`: a load on the standbys, beside each trial's own on the primary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pgdyno.plan.base import HIGHEST_RATE, Model, Positive, Protocol


class ReplicaLoad(Model):
    """What runs on the standbys of every target while a trial runs on its primary."""

    scripts: list[str] = Field(min_length=1)
    """As those of the workload, whose dataset and variables they have; they must not write."""
    clients: Positive
    """Of all standbys together, shared out evenly."""
    protocol: Protocol = "simple"
    rate: Annotated[float, Field(gt=0, lt=HIGHEST_RATE)] | None = None
    """Transactions a second of all clients together, in open loop; None in a closed loop."""


def shares(clients: int, standbys: int) -> Sequence[int]:
    """How many of `clients` each of `standbys` gets: as many as any other, or one more."""
    each, more = divmod(clients, standbys)
    return [each + (place < more) for place in range(standbys)]
