"""Targets and generators that pgdyno rents from a cloud provider for a run."""

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
    """A server that a provider creates for the run and removes after it."""

    provider: ClassVar[str]
    """Its name in `pgdyno.registry.PROVIDERS`."""

    if TYPE_CHECKING:
        instance: str


class RentedHosts(Model):
    """Hosts of a provider that generate the load: the table `generator`."""

    provider: ClassVar[str]

    if TYPE_CHECKING:
        kind: str
        count: int
        instance: str

    def check(self, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yields conflicts with `targets` and settings that the provider would refuse."""
        raise NotImplementedError


def rented_targets(plan: Plan) -> dict[str, RentedTarget]:
    """Returns the plan's rented targets by name."""
    return {name: spec for name, spec in plan.target.items() if isinstance(spec, RentedTarget)}
