"""The account's quotas, compared with what the plan rents and with what already exists."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pgdyno.messages import Message
from pgdyno.targets.aws.boto3_clients import AwsError, Cloud
from pgdyno.targets.aws.databases.rds import gibibytes
from pgdyno.targets.aws.preflight.findings import Findings
from pgdyno.targets.aws.schema import Volume

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
IOPS: Mapping[str, str] = {"io1": "L-B3A130E6", "io2": "L-8D977E7E"}
TEBIBYTES: Mapping[str, str] = {"gp3": "L-7A658B76", "io1": "L-FD252861", "io2": "L-09BD8365"}
"""Quotas of EBS by volume type."""
_GIB = 1024


@dataclass(slots=True)
class Amounts:
    """vCPU, IOPS and storage by the code of their quota."""

    vcpu: Counter[str] = field(default_factory=Counter)
    iops: Counter[str] = field(default_factory=Counter)
    gib: Counter[str] = field(default_factory=Counter)
    databases: int = 0
    database_gib: int = 0
    database_snapshots: int = 0
    cluster_snapshots: int = 0

    def host(self, instance: str, vcpus: int, volumes: Iterable[Volume], count: int = 1) -> None:
        """Adds `count` hosts with their volumes."""
        self.vcpu[vcpu_quota(instance)] += vcpus * count
        for each in volumes:
            self.volume(each.type, each.iops or 0, gibibytes(each.size), count)

    def volume(self, kind: str, iops: int, gib: int, count: int = 1) -> None:
        if kind in IOPS:
            self.iops[IOPS[kind]] += iops * count
        if kind in TEBIBYTES:
            self.gib[TEBIBYTES[kind]] += gib * count


def vcpu_quota(instance: str) -> str:
    """Returns the code of the quota of an instance type."""
    letters = re.match(r"[a-z]+", instance)
    return VCPU.get(letters[0] if letters else "", STANDARD)


def check_quotas(cloud: Cloud, needed: Amounts, findings: Findings) -> None:
    """Adds a problem for each quota that does not suffice. Raises AwsError."""
    used = _used(cloud, needed)
    for what, service, wanted, there, unit in (
        ("vCPU of On-Demand instances", "ec2", needed.vcpu, used.vcpu, 1),
        ("IOPS of EBS volumes", "ebs", needed.iops, used.iops, 1),
        ("TiB of EBS volumes", "ebs", needed.gib, used.gib, _GIB),
    ):
        for code, count in wanted.items():
            with findings.optional(Message("quota", "the quota of {quota}", quota=what)):
                most = _quota(cloud, service, code)
                if most is not None and there[code] + count > most * unit:
                    free = max(0.0, most - there[code] / unit)
                    said = f"the plan needs {count / unit:,.4g} {what}, and {free:,.4g} of the quota {code} are free"
                    findings.problem(f"{said} ({most:,.4g} in {cloud.region})", _more(service, code, cloud.region))
    if needed.databases:
        with findings.optional(Message("rds-quotas", "the quotas of RDS")):
            _check_databases(cloud, needed, findings)


def _more(service: str, code: str, region: str) -> str:
    asked = f"aws service-quotas request-service-quota-increase --service-code {service} --quota-code {code}"
    return f"remove what you do not need, or request a higher quota: {asked} --region {region} --desired-value …"


def _quota(cloud: Cloud, service: str, code: str) -> float | None:
    """Returns the value of a quota; None if the account has no such quota."""
    try:
        found = cloud.call("service-quotas", "get_service_quota", ServiceCode=service, QuotaCode=code)
    except AwsError as error:
        if error.code == "NoSuchResourceException":
            return None
        raise
    return float(found["Quota"]["Value"])


def _used(cloud: Cloud, needed: Amounts) -> Amounts:
    """Returns what exists in the region, of what `needed` has."""
    found = Amounts()
    if needed.vcpu:
        running = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
        for reservation in cloud.each("ec2", "describe_instances", "Reservations", Filters=running):
            for each in reservation["Instances"]:
                if each.get("InstanceLifecycle") == "spot":
                    continue
                cpu = each.get("CpuOptions", {})
                vcpus = cpu.get("CoreCount", 0) * cpu.get("ThreadsPerCore", 1)
                found.vcpu[vcpu_quota(each["InstanceType"])] += vcpus
        for each in cloud.each("ec2", "describe_volumes", "Volumes"):
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
            findings.problem(said, _more("rds", code, cloud.region))
