"""`[replica_load]`: a load on the standbys during each trial on the primary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from pgdyno.plan.base import HIGHEST_RATE, Model, Positive, Protocol


class ReplicaLoad(Model):
    """The load on the standbys of every target during a trial on its primary."""

    scripts: list[str] = Field(min_length=1)
    """Read-only scripts, which use the dataset and variables of the workload."""
    clients: Positive
    """Clients of all standbys together, distributed evenly."""
    protocol: Protocol = "simple"
    rate: Annotated[float, Field(gt=0, lt=HIGHEST_RATE)] | None = None
    """Transactions per second of all clients together, in open loop; None: closed loop."""


def shares(clients: int, standbys: int) -> Sequence[int]:
    """Distributes `clients` over `standbys`; the shares differ by at most one."""
    each, more = divmod(clients, standbys)
    return [each + (place < more) for place in range(standbys)]
