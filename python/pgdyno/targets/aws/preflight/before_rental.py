"""All checks of a rental, and the zones in which its servers are created."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import ROLE_HINT, AwsError, Cloud, DeniedError, NotThereError
from pgdyno.targets.aws.databases.aurora import Aurora
from pgdyno.targets.aws.databases.parameters import values_for
from pgdyno.targets.aws.databases.rds import Rds, gibibytes
from pgdyno.targets.aws.databases.schema import RdsTarget
from pgdyno.targets.aws.hosts.ec2 import Ec2
from pgdyno.targets.aws.hosts.generator_hosts import RentedGenerator
from pgdyno.targets.aws.hosts.instances import (
    Network,
    Order,
    architecture_of,
    check_placement,
    dry_run,
    image_of,
    network_of,
)
from pgdyno.targets.aws.hosts.schema import Ec2Generator, Ec2Target
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.network import vpc_of
from pgdyno.targets.aws.preflight.account_limits import (
    Amounts,
    Findings,
    check_quotas,
    in_words,
    zones_of_database,
    zones_of_host,
)
from pgdyno.targets.aws.preflight.storage_limits import Limit, attached_limit, instance_limit, volume_limit
from pgdyno.targets.aws.volumes import Volume
from pgdyno.targets.rented.rental import GENERATOR, Note
from pgdyno.units import duration_words

Server = Rds | Aurora | Ec2
AFTER_S = 3600.0
"""How much longer, in seconds, credentials must last than the run is planned to: removal needs them, too."""
_ZONES = "name others: zones = [...]; or other instances"


@dataclass(frozen=True, slots=True)
class Site:
    """Where a server or generator can be."""

    vpc: str
    zones: Sequence[str]
    """In the order in which pgdyno tries them."""


@dataclass(slots=True)
class Checks:
    """The checks of one region, with what they have found."""

    cloud: Cloud
    findings: Findings
    needed: Amounts
    sites: dict[str, Site]
    together: bool = False
    """Whether all hosts must be in one cluster placement group."""

    def server(self, name: str, server: Server) -> None:
        if isinstance(server, Ec2):
            with self.findings.problems_of(name):
                spec = server.spec
                volumes = [each for each in (spec.root, spec.data, spec.wal) if each is not None]
                self._host(name, server.maker, spec, volumes, spec.zones)
        else:
            self._database(name, server)

    def generators(self, generators: Sequence[RentedGenerator]) -> None:
        """Check the generators, which are alike."""
        with self.findings.problems_of(GENERATOR):
            first = generators[0]
            self._host(GENERATOR, first.maker, first.spec, [first.spec.root], [], len(generators))

    def _database(self, name: str, server: Rds | Aurora) -> None:
        spec = server.spec
        self.needed.databases += 1
        if isinstance(spec, RdsTarget):
            self.needed.database_gib += gibibytes(spec.storage)
            self.needed.database_snapshots += spec.takes_snapshot
        else:
            self.needed.cluster_snapshots += spec.takes_snapshot
        release = None
        with self.findings.problems_of(name):
            release = server.release()
        if release is None:
            return
        for level, asked in server.parameters:
            with self.findings.problems_of(name):
                values_for(self.cloud, level, release.family, asked)
        with self.findings.problems_of(name):
            vpc, there = _network_of_database(self.cloud, spec.subnet_group)
            with self.findings.optional(Message("offered-classes", "which classes Amazon offers")):
                there &= zones_of_database(self.cloud, spec, release)
            self._site(name, vpc, there, spec.zones)
        if isinstance(spec, RdsTarget) and name in self.sites:
            # A class may have no EC2 type of its name, whose limits would be known.
            with suppress(AwsError):
                self._compare(name, spec.instance, [(spec.storage_type, volume_limit(spec))])

    def _host(
        self,
        name: str,
        maker: Maker,
        spec: Ec2Target | Ec2Generator,
        volumes: Sequence[Volume],
        zones: Sequence[str],
        count: int = 1,
    ) -> None:
        types = [spec.instance, *spec.instead]
        architecture = architecture_of(self.cloud, spec, types)
        if self.together:
            check_placement(self.cloud, types)
        image = image_of(self.cloud, spec.system, architecture)
        network = network_of(self.cloud, spec.subnet, zones)
        there = set(network.subnets)
        with self.findings.optional(Message("offered-types", "which types Amazon offers")):
            there &= zones_of_host(self.cloud, types)
        spot = isinstance(spec, Ec2Generator) and spec.spot
        self.needed.host(spec.instance, _vcpus(self.cloud, spec.instance), volumes, count, spot=spot)
        self._compare(name, spec.instance, [(each.type, attached_limit(each)) for each in volumes[1:]])
        site = self._site(name, network.vpc, there, zones)
        if site is not None:
            named = {f"/dev/sd{'fg'[at]}": each for at, each in enumerate(volumes[1:])}
            order = Order(image, network, "", named, spec.root, "", spot=spot)
            dry_run(maker, spec, order, spec.instance, network.subnets[site.zones[0]])

    def _site(self, name: str, vpc: str, there: Iterable[str], wanted: Sequence[str]) -> Site | None:
        offered = set(there)
        missing = [each for each in wanted if each not in offered]
        if missing or not offered:
            listed = ", ".join(sorted(offered)) or "no zone"
            asked = f", and not {', '.join(missing)}" if missing else ""
            self.findings.problem(f"{in_words(name)}: Amazon offers it in {listed} of its network{asked}", _ZONES)
            return None
        self.sites[name] = Site(vpc, [*wanted] or sorted(offered))
        return self.sites[name]

    def _compare(self, name: str, instance: str, volumes: Sequence[tuple[str, Limit]]) -> None:
        if not volumes:
            return
        most = instance_limit(self.cloud, instance)
        if most is None:
            return
        iops, mb_s = sum(each.iops for _, each in volumes), sum(each.mb_s or 0 for _, each in volumes)
        for got, can, unit in (
            (iops, most.burst_iops or most.iops, "IOPS"),
            (mb_s, most.burst_mb_s or most.mb_s, "MB/s"),
        ):
            if can is not None and got > can:
                self.findings.notes.append(
                    Message(
                        "storage-exceeds-instance",
                        "the {type} volume of {target} provides {provided:,.0f} {unit}, but {instance} uses at most "
                        "{most:,.0f}: you pay for the rest and never use it; choose a larger instance, or provision "
                        "less"
                        if len(volumes) == 1
                        else "the volumes of {target} together provide {provided:,.0f} {unit}, but {instance} uses "
                        "at most {most:,.0f}: you pay for the rest and never use it; choose a larger instance, "
                        "or provision less",
                        type=volumes[0][0],
                        target=name,
                        provided=got,
                        unit=unit,
                        instance=instance,
                        most=can,
                    )
                )

    def common_zone(self) -> list[str]:
        """Return the zones in which all servers and the generator can be, in the order of the first server.

        Adds a problem if there are none, or if they are in different networks.
        """
        networks = {name: site.vpc for name, site in self.sites.items()}
        if len(set(networks.values())) > 1:
            listed = ", ".join(f"{in_words(name)} in {vpc}" for name, vpc in sorted(networks.items()))
            hint = "name a subnet of the servers' network: subnet = … of [generator], or subnet_group = … of the target"
            self.findings.problem(f"the servers and the generator are in different networks: {listed}", hint)
        shared = set.intersection(*(set(each.zones) for each in self.sites.values()))
        if not shared:
            listed = "; ".join(
                f"{in_words(name)}: {', '.join(site.zones)}" for name, site in sorted(self.sites.items())
            )
            self.findings.problem(f"no zone offers all servers and the generator ({listed})", _ZONES)
        return [each for each in next(iter(self.sites.values())).zones if each in shared]


def check_before_rental(
    servers: Mapping[str, Server],
    generators: Sequence[RentedGenerator],
    note: Note,
    lasts_s: float,
    *,
    together: bool = False,
) -> dict[str, list[str]]:
    """Return the zones to try for each target, none if Amazon may choose. Creates nothing that costs money.

    `note` receives what does not prevent the rental. `lasts_s` is how long the run is planned to take; with `together`,
    all hosts are to be in one cluster placement group. Raises one TargetError with all problems.
    """
    findings = Findings()
    by_region: dict[str, Checks] = {}
    for name, server in servers.items():
        cloud = server.maker.cloud
        checks = by_region.setdefault(cloud.region, Checks(cloud, findings, Amounts(), {}, together))
        checks.server(name, server)
    first = next(iter(by_region.values()))
    _check_credentials(first.cloud, lasts_s, findings)
    if generators:
        first.generators(generators)
    if together and sum(isinstance(each, Ec2) for each in servers.values()) + len(generators) < 2:
        message = 'placement = "cluster" places EC2 hosts close together, but the plan has fewer than two'
        findings.problem(message, "leave it out: Amazon decides where databases are")
    for checks in by_region.values():
        if checks.needed.databases:
            _check_role(checks.cloud, findings)
        check_quotas(checks.cloud, checks.needed, findings)
    zones = {name: list(server.spec.zones) for name, server in servers.items()}
    if generators and first.sites.keys() >= {*servers, GENERATOR}:
        shared = first.common_zone()
        # Servers that were to try several zones each could come up in different ones.
        zones = dict.fromkeys(servers, shared if len(servers) == 1 else shared[:1])
    elif together and len(servers) > 1 and first.sites.keys() >= {*servers}:
        # A cluster placement group is in one zone.
        zones = dict.fromkeys(servers, first.common_zone()[:1])
    for each in findings.notes:
        note(each)
    findings.report()
    return zones


def _check_credentials(cloud: Cloud, lasts_s: float, findings: Findings) -> None:
    needed = duration_words(lasts_s + AFTER_S)
    if cloud.expires_within(lasts_s + AFTER_S):
        hint = "log in again for a longer session, use a profile that boto3 renews (a role, SSO), or shorten the plan"
        findings.problem(f"the credentials expire within {needed}, which the run and its removal may need", hint)
    elif cloud.ends_unknown():
        findings.notes.append(
            Message(
                "credentials-temporary",
                "the credentials are temporary and must last for {duration}; their expiry is unknown",
                duration=needed,
            )
        )


def _check_role(cloud: Cloud, findings: Findings) -> None:
    """Create the service-linked role of RDS if the account has none yet: a fresh account's first server needs it."""
    try:
        cloud.call("iam", "get_role", RoleName="AWSServiceRoleForRDS")
    except DeniedError:
        # RDS creates the role itself with the first server, if this identity may.
        return
    except NotThereError:
        try:
            cloud.call("iam", "create_service_linked_role", AWSServiceName="rds.amazonaws.com")
        except DeniedError as error:
            findings.problem(f"the account has no role for RDS yet: {error.message}", ROLE_HINT)


def _network_of_database(cloud: Cloud, subnet_group: str | None) -> tuple[str, set[str]]:
    """Return the VPC of a new database server, and the zones of its subnets. Raises AwsError."""
    if subnet_group is None:
        network: Network = network_of(cloud, None, [])
        return network.vpc, set(network.subnets)
    zones = set()
    asked = {"DBSubnetGroupName": subnet_group}
    for each in cloud.list_elements("rds", "describe_db_subnet_groups", "DBSubnetGroups", **asked):
        zones |= {subnet["SubnetAvailabilityZone"]["Name"] for subnet in each["Subnets"]}
    return vpc_of(cloud, subnet_group), zones


def _vcpus(cloud: Cloud, instance: str) -> int:
    found = cloud.call("ec2", "describe_instance_types", InstanceTypes=[instance])["InstanceTypes"]
    return int(found[0]["VCpuInfo"]["DefaultVCpus"])
