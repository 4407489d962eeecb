"""The packages that extend pgdyno: one line per kind of target, cloud provider and object storage client.

No other module outside of a package names it. Packages are imported when they are first needed; pgdyno works without a
missing one.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal, NamedTuple


class Kind(NamedTuple):
    """A kind of target."""

    schema: str
    """Module and class of its section of a plan (`pgdyno.plan.targets.TargetSpec`)."""
    where: Literal["here", "elsewhere", "rented"]
    """Where its servers run: on this machine, on a host that pgdyno does not know, or at a cloud provider."""


KINDS = {
    "embedded": Kind("pgdyno.targets.embedded.schema:EmbeddedTarget", "here"),
    "local": Kind("pgdyno.targets.local.schema:LocalTarget", "here"),
    "build": Kind("pgdyno.targets.build.schema:BuildTarget", "here"),
    "dsn": Kind("pgdyno.targets.dsn.schema:DsnTarget", "elsewhere"),
    "ec2": Kind("pgdyno.targets.aws.schema:Ec2Target", "rented"),
    "rds": Kind("pgdyno.targets.aws.schema:RdsTarget", "rented"),
    "aurora": Kind("pgdyno.targets.aws.schema:AuroraTarget", "rented"),
}
"""By the name in plans, in the order in which errors list them."""
GENERATORS = {"ec2": "pgdyno.targets.aws.schema:Ec2Generator"}
"""Module and class of rented generators (`pgdyno.plan.targets.RentedHosts`), by kind."""
PROVIDERS = {"aws": "pgdyno.targets.aws.provider"}
"""Modules with an object `PROVIDER` (`pgdyno.targets.provider.Provider`)."""
OBJECT_STORAGE = {"s3": "pgdyno.targets.aws.s3"}
"""Modules with a client for addresses of each scheme (`pgdyno.store.object_storage.address.Service`)."""


def kinds_that_are(where: str) -> tuple[str, ...]:
    """Returns the names of the kinds whose servers run there."""
    return tuple(name for name, kind in KINDS.items() if kind.where == where)


def loaded(module: str) -> ModuleType | None:
    """Imports `module`; returns None if its package is missing."""
    package = module.rpartition(".")[0]
    return import_module(module) if find_spec(package) is not None else None
