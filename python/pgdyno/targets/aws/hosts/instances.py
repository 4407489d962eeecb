"""Creates EC2 instances: image, network, volumes and keys, the request, and the wait for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pgdyno.plan.hosts import SshSpec
from pgdyno.targets.aws.boto3_clients import AwsError, CapacityError, Cloud, NotThereError, retry_until_settled
from pgdyno.targets.aws.databases.rds import gibibytes
from pgdyno.targets.aws.databases.service import wait_for, with_choices, without_none
from pgdyno.targets.aws.hosts.schema import Architecture, Host, System
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.maker import Maker
from pgdyno.targets.aws.network import vpc_of
from pgdyno.targets.aws.volumes import Volume
from pgdyno.targets.home import target_errors
from pgdyno.targets.rented.rental_journal import Journal, Place

IMAGES: Mapping[System, str] = {
    "debian-12": "/aws/service/debian/release/12/latest/{}",
    "debian-13": "/aws/service/debian/release/13/latest/{}",
    "ubuntu-24.04": "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id",
    "amazon-linux-2023": "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{}",
}
"""Public parameters of Amazon's Systems Manager; the placeholder is the distribution's name of the architecture."""
_DEBIAN: Mapping[Architecture, str] = {"arm64": "arm64", "x86_64": "amd64"}
_ENDED = ("shutting-down", "terminated", "stopping", "stopped")


@dataclass(frozen=True, slots=True)
class Image:
    """An image (AMI) of a system."""

    id: str
    root: str


@dataclass(frozen=True, slots=True)
class Network:
    """The VPC and the subnets in which a host can be."""

    vpc: str
    subnets: Mapping[str, str]
    """Subnet ids by zone, in the order in which pgdyno tries them."""


def check_placement(cloud: Cloud, types: Sequence[str]) -> None:
    """Raise AwsError if one of `types` cannot be in a cluster placement group."""
    for each in cloud.list_elements("ec2", "describe_instance_types", "InstanceTypes", InstanceTypes=list(types)):
        if "cluster" not in each.get("PlacementGroupInfo", {}).get("SupportedStrategies", []):
            message = f"{each['InstanceType']} cannot be in a cluster placement group"
            hint = 'choose another type (burstable ones cannot), or leave out placement = "cluster"'
            raise AwsError(message, code="Placement", hint=hint)


def architecture_of(cloud: Cloud, spec: Host, types: Sequence[str]) -> Architecture:
    """Return the architecture of all `types`. Raises AwsError if they differ, or differ from the plan's."""
    found = cloud.list_elements("ec2", "describe_instance_types", "InstanceTypes", InstanceTypes=list(types))
    by_type = {each["InstanceType"]: _architecture(each) for each in found}
    for each in types:
        if each not in by_type:
            raise AwsError(f"there is no instance type {each} in {cloud.region}", code="InvalidInstanceType")
        if by_type[each] != (spec.architecture or by_type[types[0]]):
            said = "the plan says" if spec.architecture else f"{types[0]} is"
            message = f"{each} is {by_type[each]}, and {said} {spec.architecture or by_type[types[0]]}"
            hint = "choose types of one architecture: results from the other are not comparable"
            raise AwsError(message, code="Architecture", hint=hint)
    return by_type[types[0]]


def _architecture(described: dict[str, Any]) -> Architecture:
    supported = described["ProcessorInfo"]["SupportedArchitectures"]
    return "arm64" if "arm64" in supported else "x86_64"


def image_of(cloud: Cloud, system: System, architecture: Architecture) -> Image:
    """Return the newest image of `system`. Raises AwsError."""
    name = IMAGES[system].format(architecture if system == "amazon-linux-2023" else _DEBIAN[architecture])
    try:
        found = cloud.call("ssm", "get_parameter", Name=name)["Parameter"]["Value"]
    except NotThereError as error:
        raise AwsError(f"Amazon has no image of {system} for {architecture} in {cloud.region} ({name})") from error
    for each in cloud.call("ec2", "describe_images", ImageIds=[found])["Images"]:
        if each["Architecture"] != architecture:
            raise AwsError(f"the image {found} of {system} is for {each['Architecture']}, not for {architecture}")
        return Image(found, each["RootDeviceName"])
    raise NotThereError(f"image {found}, which {name} names, does not exist")


def network_of(cloud: Cloud, subnet: str | None, zones: Sequence[str]) -> Network:
    """Return the plan's subnet, or the subnets of the default VPC in `zones`. Raises AwsError."""
    if subnet is not None:
        for each in cloud.list_elements("ec2", "describe_subnets", "Subnets", SubnetIds=[subnet]):
            return Network(each["VpcId"], {each["AvailabilityZone"]: subnet})
        raise NotThereError(f"there is no subnet {subnet}")
    vpc = vpc_of(cloud, None)
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "default-for-az", "Values": ["true"]}]
    found = cloud.list_elements("ec2", "describe_subnets", "Subnets", Filters=filters)
    by_zone = {each["AvailabilityZone"]: str(each["SubnetId"]) for each in found}
    for zone in zones:
        if zone not in by_zone:
            message = f"the default network has no subnet in {zone}"
            raise AwsError(message, code="NoSubnet", hint="name one: subnet = …, or another zone")
    if not by_zone:
        raise AwsError(f"the default network in {cloud.region} has no subnets", hint="name one: subnet = …")
    return Network(vpc, {zone: by_zone[zone] for zone in (zones or sorted(by_zone))})


@dataclass(frozen=True, slots=True)
class Order:
    """The parts of a request for an instance that do not depend on its type and zone."""

    image: Image
    network: Network
    group: str
    volumes: Mapping[str, Volume]
    """Volumes by device, without the root volume."""
    root: Volume
    user_data: str
    by_minute: bool = False
    """Whether CloudWatch gets the metrics every minute (detailed monitoring) instead of every five minutes."""
    spot: bool = False
    """Whether Amazon may take the instance back, for a lower price."""


def launch(maker: Maker, spec: Host, order: Order) -> dict[str, Any]:
    """Return EC2's description of a running instance, where and of the type that has capacity. Raises AwsError."""
    attempts = 0

    def create_in(instance: str, zone: str | None) -> dict[str, Any]:
        nonlocal attempts
        attempts += 1
        # EC2 accepts a client token for one set of parameters only, so that each choice needs another.
        token = f"{maker.name}-{attempts}"
        maker.note(Kind.INSTANCE, token)
        subnet = order.network.subnets[str(zone)]
        made = retry_until_settled(maker.stop.check, lambda: _request(maker, spec, order, instance, subnet, token))
        return _wait(maker, spec, made)

    return with_choices(maker, spec, create_in, list(order.network.subnets))


def dry_run(maker: Maker, spec: Host, order: Order, instance: str, subnet: str) -> None:
    """Request an instance without creating it. Raises AwsError if EC2 would refuse the request."""
    try:
        _request(maker, spec, order, instance, subnet, f"{maker.name}-0", dry=True)
    except AwsError as error:
        if error.code != "DryRunOperation":
            raise


def _request(
    maker: Maker, spec: Host, order: Order, instance: str, subnet: str, token: str, *, dry: bool = False
) -> str:
    tagged = ("instance", "volume", "network-interface")
    volumes = {order.image.root: order.root, **order.volumes}
    interface = {
        "DeviceIndex": 0,
        "SubnetId": subnet,
        # A dry run comes before the group; EC2 then takes the VPC's default group.
        **({"Groups": [order.group]} if order.group else {}),
        "AssociatePublicIpAddress": spec.public,
        "DeleteOnTermination": True,
    }
    # A one-time request ends with its instance, so that nothing else is to be removed. Without a maximum, the price is
    # at most the one on demand.
    one_time = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    group = None if maker.placement_group is None else {"GroupName": maker.placement_group}
    market = {"MarketType": "spot", "SpotOptions": one_time} if order.spot else None
    answer = maker.cloud.call(
        "ec2",
        "run_instances",
        **without_none(InstanceMarketOptions=market, Placement=None if dry else group),
        ImageId=order.image.id,
        InstanceType=instance,
        MinCount=1,
        MaxCount=1,
        ClientToken=token,
        DryRun=dry,
        UserData=order.user_data,
        Monitoring={"Enabled": order.by_minute},
        # A host that shuts itself down at its expiry must be removed with its volumes, not stopped.
        InstanceInitiatedShutdownBehavior="terminate",
        BlockDeviceMappings=[_mapping(device, volume, spec) for device, volume in volumes.items()],
        NetworkInterfaces=[interface],
        MetadataOptions={"HttpTokens": "required", "HttpEndpoint": "enabled", "InstanceMetadataTags": "enabled"},
        TagSpecifications=[{"ResourceType": each, "Tags": maker.tags} for each in tagged],
    )
    return str(answer["Instances"][0]["InstanceId"])


def _mapping(device: str, volume: Volume, spec: Host) -> dict[str, Any]:
    figures = without_none(Iops=volume.iops, Throughput=volume.throughput)
    size = {
        "VolumeSize": gibibytes(volume.size),
        "VolumeType": volume.type,
        **figures,
        **without_none(KmsKeyId=spec.kms_key),
    }
    return {"DeviceName": device, "Ebs": {**size, "Encrypted": spec.encrypted, "DeleteOnTermination": True}}


def _wait(maker: Maker, spec: Host, instance: str) -> dict[str, Any]:
    def look() -> tuple[str, dict[str, Any]]:
        found = instance_of(maker.cloud, instance)
        state = found["State"]["Name"]
        if state in _ENDED:
            raise _end_error(instance, found)
        return "available" if state == "running" else state, found

    return wait_for(maker, spec, look, f"the instance {instance}")


def _end_error(instance: str, found: dict[str, Any]) -> AwsError:
    reason = found.get("StateReason", {})
    code, said = str(reason.get("Code", "")).rpartition(".")[2], reason.get("Message", "no reason is given")
    kind = CapacityError if "Capacity" in code else AwsError
    return kind(f"the instance {instance} is {found['State']['Name']}: {said}", code=code)


def instance_of(cloud: Cloud, instance: str) -> dict[str, Any]:
    """Return EC2's description of the instance. Raises NotThereError, AwsError."""
    for each in cloud.list_elements("ec2", "describe_instances", "Reservations[].Instances[]", InstanceIds=[instance]):
        return each
    raise NotThereError(f"there is no instance {instance}")


SSH_PORT = 22


class KeyRing:
    """The folder with the keys of one run, next to its journal, which only its owner can read."""

    def __init__(self, journal: Journal) -> None:
        """Names the folder of the journal's run; nothing is written yet."""
        self._journal = journal
        self.folder = journal.keys
        self.config = self.folder / "config"
        """A config file for ssh(1) that names the key of `own`."""
        self.known_hosts = self.folder / "known_hosts"
        """The host keys of this run's hosts only."""

    def certificate(self, target: str) -> Path:
        """Return the path of the certificate by which clients recognize the server of `target`."""
        return self.folder / f"{target}.crt"

    def public_key(self) -> str:
        """Return the public half of the run's own key, which the first call generates. Raises TargetError."""
        if not (self.folder / "key.pub").exists():
            # asyncssh takes long to import.
            from pgdyno.remote.connect import new_key

            private, public = new_key("pgdyno")
            self._journal.keep_key("key", private)
            config = f'Host *\n  IdentityFile "{self.folder / "key"}"\n  IdentitiesOnly yes\n'
            self._journal.keep_key("config", config)
            # This file must be the last: its existence says that the others are complete.
            self._journal.keep_key("key.pub", public)
        with target_errors(self.folder, "cannot read"):
            return (self.folder / "key.pub").read_text(encoding="utf-8")

    def ssh(self, place: Place) -> SshSpec | None:
        """Return how to log in to the host of `place`; None if there is no such host."""
        if not place.login:
            return None
        return SshSpec(
            host=place.host,
            user=place.login,
            port=place.ssh_port,
            config=str(self.config),
            known_hosts=str(self.known_hosts),
        )

    def trust(self, target: str, certificate: str) -> None:
        """Write the certificate by which clients recognize the server of `target`. Raises TargetError."""
        self._journal.keep_key(self.certificate(target).name, certificate)

    def know(self, address: str, port: int, public: str) -> None:
        """Add the host key of `address` to the known hosts. Raises TargetError."""
        algorithm, key = public.split()[:2]
        with target_errors(self.folder, "cannot write"), self.known_hosts.open("a", encoding="utf-8") as file:
            file.write(
                f"[{address}]:{port} {algorithm} {key}\n" if port != SSH_PORT else f"{address} {algorithm} {key}\n"
            )
