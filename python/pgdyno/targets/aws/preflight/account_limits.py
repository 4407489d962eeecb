"""What Amazon offers and the account's quotas allow, compared with what the plan rents and what already exists."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pgdyno.errors import TargetError
from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, DeniedError
from pgdyno.targets.aws.databases.aurora import STORAGE as AURORA_STORAGE
from pgdyno.targets.aws.databases.aurora import Aurora
from pgdyno.targets.aws.databases.rds import Rds, gibibytes
from pgdyno.targets.aws.databases.schema import AuroraTarget, RdsTarget
from pgdyno.targets.aws.databases.service import Release
from pgdyno.targets.aws.volumes import Volume
from pgdyno.targets.rented.rental import is_generator

ABORT = {"NoCredentials", "NoRegion", "Configuration", "Unreachable", "NoBoto3"}
"""Codes of errors that every further request would have as well."""


def in_words(name: str) -> str:
    """Return the name of a target or generator in a message."""
    return "the generator" if is_generator(name) else f"target {name}"


@dataclass(slots=True)
class Findings:
    """All results of the checks of one rental."""

    problems: list[TargetError] = field(default_factory=list)
    notes: list[Message] = field(default_factory=list)

    def problem(self, message: str, hint: str) -> None:
        self.problems.append(AwsError(message, code="Preflight", hint=hint))

    @contextmanager
    def problems_of(self, name: str) -> Iterator[None]:
        """Make an error in the block a problem of the target or generator `name`."""
        try:
            yield
        except TargetError as error:
            if isinstance(error, AwsError) and error.code in ABORT:
                raise
            error.message = f"{in_words(name)}: {error.message}"
            self.problems.append(error)

    @contextmanager
    def optional(self, what: Message) -> Iterator[None]:
        """Make a missing permission in the block a note that `what` was not checked."""
        try:
            yield
        except DeniedError as error:
            self.notes.append(
                Message(
                    "not-checked-before-renting",
                    "not checked before renting: {what}: {error}",
                    what=what,
                    error=error.message,
                )
            )

    def report(self) -> None:
        """Raise the problem, or one AwsError for all problems."""
        if len(self.problems) == 1:
            raise self.problems[0]
        if self.problems:
            lines = ["\n    ".join(filter(None, (f"  {each.message}", each.hint))) for each in self.problems]
            head = f"Amazon would refuse this plan, {len(lines)} problems; nothing was created"
            raise AwsError("\n".join([head, *lines]), code="Preflight")


Option = Mapping[str, Any]


def zones_of_database(cloud: Cloud, spec: RdsTarget | AuroraTarget, release: Release) -> set[str]:
    """Return the zones that offer all classes of `spec` with its storage. Raises AwsError if one has none, or if the
    storage is outside of the service's limits.
    """
    engine = Aurora.engine if isinstance(spec, AuroraTarget) else Rds.engine
    kind = AURORA_STORAGE.get(spec.storage_type, spec.storage_type)
    found: list[set[str]] = []
    for instance in (spec.instance, *spec.instead):
        asked = {"Engine": engine, "EngineVersion": release.version, "DBInstanceClass": instance, "Vpc": True}
        listed = cloud.list_elements(
            "rds", "describe_orderable_db_instance_options", "OrderableDBInstanceOptions", **asked
        )
        options = [each for each in listed if each.get("StorageType") == kind]
        if not options:
            message = f"Amazon does not offer {instance} for {engine} {release.version} with {kind} in {cloud.region}"
            listing = f"aws rds describe-orderable-db-instance-options --engine {engine}"
            raise AwsError(
                message, code="Offer", hint=f"{listing} --engine-version {release.version} lists what it offers"
            )
        wrong = list(_list_exceeded(spec, options[0])) if isinstance(spec, RdsTarget) else []
        if spec.insights and not options[0].get("SupportsPerformanceInsights", True):
            wrong.append(f"{instance} has no Performance Insights: set insights = false")
        if wrong:
            raise AwsError("; ".join(wrong), code="Offer", hint="change the target's keys; nothing was created")
        found.append({zone["Name"] for each in options for zone in each.get("AvailabilityZones", ())})
    return set.intersection(*found)


def _list_exceeded(spec: RdsTarget, option: Option) -> Iterator[str]:
    size, kind = gibibytes(spec.storage), spec.storage_type
    figures = (
        ("storage", size, "StorageSize", "GB", 1.0),
        ("iops", spec.iops, "IopsPerDbInstance", "IOPS", 1.0),
        ("iops", spec.iops, "IopsPerGib", "IOPS a GB", float(size)),
        ("throughput", spec.throughput, "StorageThroughputPerDbInstance", "MB/s", 1.0),
    )
    for key, value, name, unit, per in figures:
        if value is None:
            continue
        least, most = option.get(f"Min{name}"), option.get(f"Max{name}")
        if least is not None and value < least * per:
            yield f"{key} = {value:,} is too little: {spec.instance} with {kind} has at least {least:,g} {unit}"
        if most is not None and value > most * per:
            yield f"{key} = {value:,} is too much: {spec.instance} with {kind} has at most {most:,g} {unit}"


def zones_of_host(cloud: Cloud, instances: Sequence[str]) -> set[str]:
    """Return the zones that offer all types. Raises AwsError."""
    filters = [{"Name": "instance-type", "Values": list(instances)}]
    listed = cloud.list_elements(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=filters,
    )
    by_type: dict[str, set[str]] = {each: set() for each in instances}
    for each in listed:
        by_type[each["InstanceType"]].add(each["Location"])
    return set.intersection(*by_type.values())


VCPU: Mapping[str, str] = {
    "g": "L-DB2E81BA",
    "vt": "L-DB2E81BA",
    "p": "L-417A185B",
    "x": "L-7295265B",
    "f": "L-74FC7D96",
    "inf": "L-1945791B",
    "trn": "L-2C3B7624",
    "hpc": "L-F7808C92",
    "u": "L-43DA4232",
}
"""Quotas of vCPU of running On-Demand instances, by the letters of the family; all others have `STANDARD`."""
STANDARD = "L-1216C47A"
SPOT: Mapping[str, str] = {
    "g": "L-3819A6DF",
    "vt": "L-3819A6DF",
    "p": "L-7212CCBC",
    "x": "L-E3A00192",
    "f": "L-88CF9481",
    "inf": "L-B5D1601B",
    "trn": "L-6B0D517C",
}
"""Likewise of Spot instances, which count towards no quota of On-Demand instances."""
STANDARD_SPOT = "L-34B43A08"
IOPS: Mapping[str, str] = {"io1": "L-B3A130E6", "io2": "L-8D977E7E"}
TEBIBYTES: Mapping[str, str] = {"gp3": "L-7A658B76", "io1": "L-FD252861", "io2": "L-09BD8365"}
"""Quotas of EBS by volume type."""
_GIB = 1024


@dataclass(slots=True)
class Amounts:
    """vCPU, IOPS and storage by the code of their quota."""

    vcpu: Counter[str] = field(default_factory=Counter)
    spot_vcpu: Counter[str] = field(default_factory=Counter)
    iops: Counter[str] = field(default_factory=Counter)
    gib: Counter[str] = field(default_factory=Counter)
    databases: int = 0
    database_gib: int = 0
    database_snapshots: int = 0
    cluster_snapshots: int = 0

    def host(self, instance: str, vcpus: int, volumes: Iterable[Volume], count: int = 1, *, spot: bool = False) -> None:
        """Add `count` hosts with their volumes."""
        self.processors(instance, vcpus * count, spot=spot)
        for each in volumes:
            self.volume(each.type, each.iops or 0, gibibytes(each.size), count)

    def processors(self, instance: str, vcpus: int, *, spot: bool) -> None:
        """Add `vcpus` of instances of one type."""
        (self.spot_vcpu if spot else self.vcpu)[vcpu_quota(instance, spot=spot)] += vcpus

    def volume(self, kind: str, iops: int, gib: int, count: int = 1) -> None:
        if kind in IOPS:
            self.iops[IOPS[kind]] += iops * count
        if kind in TEBIBYTES:
            self.gib[TEBIBYTES[kind]] += gib * count


def vcpu_quota(instance: str, *, spot: bool) -> str:
    """Return the code of the quota of an instance type, On-Demand or as a Spot instance."""
    letters = re.match(r"[a-z]+", instance)
    family = letters[0] if letters else ""
    return SPOT.get(family, STANDARD_SPOT) if spot else VCPU.get(family, STANDARD)


def check_quotas(cloud: Cloud, needed: Amounts, findings: Findings) -> None:
    """Add a problem for each quota that does not suffice. Raises AwsError."""
    used = _amounts_in_use(cloud, needed)
    for what, service, wanted, there, unit in (
        ("vCPU of On-Demand instances", "ec2", needed.vcpu, used.vcpu, 1),
        ("vCPU of Spot instances", "ec2", needed.spot_vcpu, used.spot_vcpu, 1),
        ("IOPS of EBS volumes", "ebs", needed.iops, used.iops, 1),
        ("TiB of EBS volumes", "ebs", needed.gib, used.gib, _GIB),
    ):
        for code, count in wanted.items():
            with findings.optional(Message("quota", "the quota of {quota}", quota=what)):
                most = _quota(cloud, service, code)
                if most is not None and there[code] + count > most * unit:
                    free = max(0.0, most - there[code] / unit)
                    said = f"the plan needs {count / unit:,.4g} {what}, and {free:,.4g} of the quota {code} are free"
                    findings.problem(
                        f"{said} ({most:,.4g} in {cloud.region})", _quota_hint(service, code, cloud.region)
                    )
    if needed.databases:
        with findings.optional(Message("rds-quotas", "the quotas of RDS")):
            _check_databases(cloud, needed, findings)


def _quota_hint(service: str, code: str, region: str) -> str:
    asked = f"aws service-quotas request-service-quota-increase --service-code {service} --quota-code {code}"
    return f"remove what you do not need, or request a higher quota: {asked} --region {region} --desired-value …"


def _quota(cloud: Cloud, service: str, code: str) -> float | None:
    """Return the value of a quota; None if the account has no such quota."""
    try:
        found = cloud.call("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
    except AwsError as error:
        if error.code == "NoSuchResourceException":
            return None
        raise
    return float(found["Quota"]["Value"])


def _amounts_in_use(cloud: Cloud, needed: Amounts) -> Amounts:
    found = Amounts()
    if needed.vcpu or needed.spot_vcpu:
        running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        for each in cloud.list_elements("ec2", "describe_instances", "Reservations[].Instances[]", Filters=running):
            cpu = each.get("CpuOptions", {})
            vcpus = cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 1)
            found.processors(each["InstanceType"], vcpus, spot=each.get("InstanceLifecycle") == "spot")
        for each in cloud.list_elements("ec2", "describe_volumes", "Volumes"):
            found.volume(each.get("VolumeType", ""), each.get("Iops", 0), each["Size"])
    return found


def _check_databases(cloud: Cloud, needed: Amounts, findings: Findings) -> None:
    quotas = {
        each["AccountQuotaName"]: each for each in cloud.call("rds", "describe_account_attributes")["AccountQuotas"]
    }
    for name, count, what, code in (
        ("DBInstances", needed.databases, "database instances", "L-7B6409FD"),
        ("AllocatedStorage", needed.database_gib, "GB of storage of RDS", "L-7ADDB58A"),
        ("ManualSnapshots", needed.database_snapshots, "manual snapshots of RDS", "L-272F1212"),
        ("ManualClusterSnapshots", needed.cluster_snapshots, "manual snapshots of Aurora", "L-9B510759"),
    ):
        quota = quotas.get(name)
        if count and quota is not None and quota["Used"] + count > quota["Max"]:
            said = (
                f"the plan needs {count:,} {what}, and {quota['Used']:,} of {quota['Max']:,} are used in {cloud.region}"
            )
            findings.problem(said, _quota_hint("rds", code, cloud.region))
