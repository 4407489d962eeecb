"""The keys of a plan that all servers at Amazon have, which pgdyno rents for a run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from pgdyno.errors import Problem
from pgdyno.plan.plan_document import Document
from pgdyno.plan.targets import PlanPath, RentedTarget, TargetSpec, Version
from pgdyno.plan.values import Lasting, Model, Setting

PROVIDER = "aws"
KmsKey = Annotated[str, Field(pattern=r"^[\w:/-]+$")]
_SMALL_SIZES = {"nano": 1 / 64, "micro": 1 / 32, "small": 1 / 16, "medium": 1 / 4, "large": 1 / 2}
"""Below xlarge, by rank; processors and memory grow with it, though not everywhere by these factors."""


class AwsMachine(Model):
    """The keys of everything that is rented: servers of all kinds, and hosts that generate the load."""

    instance: str
    """The type or class, such as `m8g.2xlarge` and `db.m7g.large`."""
    instead: list[str] = []
    """Types to try, in this order, if Amazon has no capacity for `instance`."""
    allow: list[str] = []
    """Networks (CIDR) that may connect to it; none: only the address of this machine."""
    allow_wide: bool = False
    """Accept networks in `allow` that are wider than /16 (IPv6: /32)."""
    public: bool = True
    """Whether it has a public address; false if this machine is in the same network."""
    encrypted: bool = True
    """Encrypt storage with `kms_key`, or with the account's default key of the service."""
    kms_key: KmsKey | None = None
    """A key of the account's own (its ARN or alias)."""
    ready_within: Lasting = "90m"
    """How long the service may take to create, restore or remove it."""


class AwsTarget(AwsMachine, RentedTarget):
    """What all kinds have in common. pgdyno creates a server for the run, and removes it after the run."""

    provider: ClassVar[str] = PROVIDER
    summary: ClassVar[str] = "rented from Amazon"
    setting_remedy: ClassVar[str] = "put it under parameters"

    version: Version
    """A major or exact version of PostgreSQL that the service has; with a snapshot, the snapshot's."""
    region: str | None = None
    """None: the region of boto3's configuration."""
    zones: list[str] = []
    """Availability zones, tried in this order; none: Amazon chooses."""
    parameters: dict[str, Setting] = {}
    """The server's settings, in the instance's parameter group, or in postgresql.conf on a host."""

    def check(self, name: str, targets: Mapping[str, TargetSpec], document: Document) -> Iterator[Problem]:
        """Yield each problem that would make its service refuse the target."""
        del targets
        where = ("target", name)
        yield from check_networks(where, self.allow, document, forced=self.allow_wide)
        if self.kms_key is not None and not self.encrypted:
            yield document.problem((*where, "kms_key"), "is valid only with encrypted storage", "remove it")
        for place, zone in enumerate(self.zones):
            if self.region is not None and not zone.startswith(self.region):
                yield document.problem((*where, "zones", place), f"{zone} is not in {self.region}")

    def family_and_size(self) -> tuple[str, float] | None:
        """Return `db.m7g` and 2 for `db.m7g.2xlarge`, by Amazon's names of sizes; None for another name."""
        family, _, size = self.instance.rpartition(".")
        large = re.fullmatch(r"(\d*)xlarge", size)
        if large is not None:
            return family, float(large[1] or 1)
        return (family, _SMALL_SIZES[size]) if size in _SMALL_SIZES else None

    def rented_in_words(self) -> str:
        """Return the type and the place, such as `db.m7g.large in eu-central-1`."""
        return f"{self.instance} in {', '.join(self.zones) or self.region or 'the configured region'}{self.times()}"


WIDE = {4: 16, 6: 32}
"""The shortest prefix of a network that a plan may let in, by IP version, unless it says `allow_wide`."""
WIDEST = {4: 8, 6: 20}
"""The shortest prefix of a network that a plan may ever let in."""


def check_networks(where: PlanPath, allow: Sequence[str], document: Document, *, forced: bool) -> Iterator[Problem]:
    """Yield the networks of `allow` that are invalid, or too wide to open a server to."""
    # imported here: few plans name networks
    import ipaddress

    for place, text in enumerate(allow):
        path = (*where, "allow", place)
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            yield document.problem(path, f"is not a network: {error}", 'such as "203.0.113.7/32"')
            continue
        if network.prefixlen < WIDEST[network.version]:
            message = f"{text} would open the server to the internet, which pgdyno never does"
            yield document.problem(path, message, "name the generator's address alone, or leave it out")
        elif network.prefixlen < WIDE[network.version] and not forced:
            message = f"{text} lets in {network.num_addresses:,} addresses"
            hint = f"name a network of /{WIDE[network.version]} or smaller, or accept this one: allow_wide = true"
            yield document.problem(path, message, hint)
