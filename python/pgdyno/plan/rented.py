"""Targets and generators that are rented from a cloud provider for a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

from pgdyno.errors import Problem
from pgdyno.plan.base import Model
from pgdyno.plan.document import Document
from pgdyno.plan.network_target import NetworkTarget
from pgdyno.plan.targets import TargetSpec

if TYPE_CHECKING:
    from pgdyno.plan.model import Plan


class RentedTarget(NetworkTarget):
    """A server that a provider makes for the run and removes after it."""

    provider: ClassVar[str]
    """Its name in `pgdyno.registry.PROVIDERS`."""

    if TYPE_CHECKING:
        instance: str


class RentedHosts(Model):
    """Hosts of a provider that the load comes from: the table `generator`."""

    provider: ClassVar[str]

    if TYPE_CHECKING:
        kind: str
        count: int
        instance: str

    def check(self, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Everything of them that does not go with `targets`, or that the provider would refuse."""
        raise NotImplementedError


def rented_targets(plan: Plan) -> dict[str, RentedTarget]:
    """The plan's targets that are rented for it, by name."""
    return {name: spec for name, spec in plan.target.items() if isinstance(spec, RentedTarget)}
