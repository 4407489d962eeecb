"""EC2 and Systems Manager of the simulated account: instances, types, images and volumes."""

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from tests.aws.clock import Clock
from tests.aws.shapes import RefusedError

ROOT = "/dev/xvda"
IMAGES = {
    f"/aws/service/debian/release/{release}/latest/{name}": (f"ami-{release}{architecture[:3]}", architecture)
    for release in (12, 13)
    for name, architecture in (("arm64", "arm64"), ("amd64", "x86_64"))
} | {
    f"/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-{each}": (f"ami-al2023{each[:3]}", each)
    for each in ("arm64", "x86_64")
}
"""Image and architecture, by public parameter."""
CONSOLE_LATE_S = 90.0
"""Seconds of the simulator's clock after the launch in which Amazon shows nothing of the console, where it is read as
it is, which is the time of a boot until cloud-init's last stage.
"""
CONSOLE_POSTED_S = 240.0
"""The same for instances that are not on the Nitro system, whose console is "posted shortly after an instance
transition state", which takes some minutes: GetConsoleOutput in the API reference of EC2, and "Instance console output"
in its user guide.
"""
POLLS = 1
"""The number of requests for an instance's description during which a state lasts."""
LARGEST = 16_384
Answer = dict[str, Any]


@dataclass
class Machine:
    """A simulated instance."""

    number: int
    asked: Answer
    """The parameters of RunInstances."""
    zone: str
    tags: dict[str, str]
    state: str = "pending"
    began_s: float = 0.0
    """The simulator's time of its launch."""
    left: int = POLLS
    """How many more descriptions its state lasts."""
    address: str = ""
    reason: str = ""

    @property
    def id(self) -> str:
        return f"i-{self.number:017x}"

    @property
    def user_data(self) -> Answer:
        head, _, body = base64.b64decode(self.asked["UserData"]).decode().partition("\n")
        assert head == "#cloud-config"
        read: Answer = json.loads(body)
        return read

    @property
    def files(self) -> dict[str, str]:
        return {each["path"]: each["content"] for each in self.user_data["write_files"]}

    def console(self, public: str) -> str:
        """Returns what a host with that public key prints on its console."""
        told = dict(line.split("=", 1) for line in self.files["/etc/pgdyno/host.env"].splitlines())
        return f"[    0.000000] Linux version 6.1\r\n\r\npgdyno host key {told['NONCE']} {public}\r\n"

    @property
    def groups(self) -> list[str]:
        groups: list[str] = self.asked["NetworkInterfaces"][0]["Groups"]
        return groups

    @property
    def volumes(self) -> dict[str, Answer]:
        asked = self.asked["BlockDeviceMappings"]
        return {f"vol-{self.id[3:]}{number}": each["Ebs"] for number, each in enumerate(asked)}


@dataclass
class Machines:
    """All instances, and the operations on them."""

    boot: Callable[[Machine], str]
    """Starts the real host of an instance, and returns its address."""
    ended: Callable[[Machine], None]
    zone_of: Callable[[str], str]
    """Returns the zone of a subnet."""
    console: Callable[[Machine], str]
    """Returns what an instance has printed on its console."""
    clock: Clock
    console_late_s: float = CONSOLE_LATE_S
    all: dict[str, Machine] = field(default_factory=dict)
    placements: dict[str, Answer] = field(default_factory=dict)
    """Descriptions of placement groups, by name."""
    _tokens: dict[str, str] = field(default_factory=dict)

    def shut_down(self, machine: Machine) -> None:
        """Does what EC2 does when a host shuts itself down."""
        behaviour = machine.asked["InstanceInitiatedShutdownBehavior"]
        machine.state = "terminated" if behaviour == "terminate" else "stopped"
        machine.reason = "Client.InstanceInitiatedShutdown"
        self.ended(machine)

    def there(self) -> list[Machine]:
        return [each for each in self.all.values() if each.state != "terminated"]

    def with_volume(self, volume: str) -> Machine | None:
        return next((each for each in self.all.values() if volume in each.volumes), None)

    def watched(self) -> Iterator[str]:
        for each in self.there():
            if each.asked["Monitoring"]["Enabled"]:
                yield each.id
            yield from each.volumes

    # ---- what is asked ----

    def RunInstances(self, asked: Answer) -> Answer:  # noqa: N802 - Amazon's names, here and below
        token = asked.get("ClientToken", "")
        if token in self._tokens:
            return {"Instances": [self._described(self.all[self._tokens[token]])]}
        architecture = next((each for id_, each in IMAGES.values() if id_ == asked["ImageId"]), None)
        if architecture is None:
            raise RefusedError("InvalidAMIID.NotFound", f"The image id '[{asked['ImageId']}]' does not exist")
        if architecture not in INSTANCE_TYPES[asked["InstanceType"]]["ProcessorInfo"]["SupportedArchitectures"]:
            raise RefusedError("InvalidParameterValue", f"the architecture {architecture} of the image does not match")
        if len(base64.b64decode(asked.get("UserData", ""))) > LARGEST:
            raise RefusedError("InvalidParameterValue", "User data is limited to 16384 bytes")
        for each in asked["BlockDeviceMappings"]:
            if each["Ebs"]["VolumeType"] in ("io1", "io2") and "Iops" not in each["Ebs"]:
                raise RefusedError("MissingParameter", "The parameter iops must be specified")
        zone = self.zone_of(asked["NetworkInterfaces"][0]["SubnetId"])
        self._check_placement(asked, zone)
        if asked.get("DryRun"):
            # EC2 judges the permissions and the request, not the quotas.
            raise RefusedError("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
        tags = {
            each["Key"]: each["Value"]
            for spec in asked["TagSpecifications"]
            if spec["ResourceType"] == "instance"
            for each in spec["Tags"]
        }
        machine = Machine(len(self.all) + 1, asked, zone, tags, began_s=self.clock.now_s)
        self.all[machine.id] = machine
        self._tokens[token] = machine.id
        machine.address = self.boot(machine)
        return {"Instances": [self._described(machine)]}

    def _check_placement(self, asked: Answer, zone: str) -> None:
        """Refuses what a cluster placement group cannot have: "Placement strategies" in the EC2 user guide."""
        name = asked.get("Placement", {}).get("GroupName")
        if name is None:
            return
        if name not in self.placements:
            raise RefusedError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        if "cluster" not in INSTANCE_TYPES[asked["InstanceType"]]["PlacementGroupInfo"]["SupportedStrategies"]:
            said = f"Cluster placement groups are not supported by the '{asked['InstanceType']}' instance type."
            raise RefusedError("InvalidParameterCombination", said)
        if {each.zone for each in self._placed(name)} - {zone}:
            said = "A cluster placement group can't span multiple Availability Zones."
            raise RefusedError("InvalidParameterValue", said)

    def _placed(self, group: str) -> list[Machine]:
        return [each for each in self.there() if each.asked.get("Placement", {}).get("GroupName") == group]

    def CreatePlacementGroup(self, asked: Answer) -> Answer:  # noqa: N802
        name = asked["GroupName"]
        if name in self.placements:
            raise RefusedError("InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists.")
        (tagged,) = asked["TagSpecifications"]
        assert tagged["ResourceType"] == "placement-group"
        self.placements[name] = {
            "GroupName": name, "GroupId": f"pg-{len(self.placements):017x}", "State": "available",
            "Strategy": asked["Strategy"], "Tags": tagged["Tags"],
        }  # fmt: skip
        return {"PlacementGroup": self.placements[name]}

    def DescribePlacementGroups(self, asked: Answer) -> Answer:  # noqa: N802
        names = [name for each in asked["Filters"] if each["Name"] == "group-name" for name in each["Values"]]
        found = [each for name, each in self.placements.items() if not names or name in names]
        return {"PlacementGroups": found}

    def DeletePlacementGroup(self, asked: Answer) -> Answer:  # noqa: N802
        name = asked["GroupName"]
        if name not in self.placements:
            raise RefusedError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        if self._placed(name):
            raise RefusedError("InvalidPlacementGroup.InUse", f"The placement group {name} is in use")
        del self.placements[name]
        return {}

    def DescribeInstances(self, asked: Answer) -> Answer:  # noqa: N802
        self._step()
        ids = asked.get("InstanceIds")
        for each in ids or ():
            if each not in self.all:
                raise RefusedError("InvalidInstanceID.NotFound", f"The instance ID '{each}' does not exist")
        found = [each for each in self.all.values() if (ids is None or each.id in ids) and _passes(each, asked)]
        return {"Reservations": [{"Instances": [self._described(each)]} for each in found]}

    def TerminateInstances(self, asked: Answer) -> Answer:  # noqa: N802
        for each in asked["InstanceIds"]:
            machine = self.all[each]
            if machine.state != "terminated":
                machine.state, machine.left = "shutting-down", POLLS
        return {}

    def DescribeVolumes(self, asked: Answer) -> Answer:  # noqa: N802
        volumes = [
            {
                "VolumeId": id_,
                "Size": volume["VolumeSize"],
                "VolumeType": volume["VolumeType"],
                "Iops": volume.get("Iops", 0),
                **({"Throughput": volume["Throughput"]} if "Throughput" in volume else {}),
                "State": "in-use",
                "Tags": [{"Key": key, "Value": value} for key, value in machine.tags.items()],
            }
            for machine in self.there()
            if _passes(machine, asked)
            for id_, volume in machine.volumes.items()
        ]
        return {"Volumes": volumes}

    def DescribeImages(self, asked: Answer) -> Answer:  # noqa: N802
        return {
            "Images": [
                {"ImageId": id_, "Architecture": architecture, "RootDeviceName": ROOT}
                for id_, architecture in IMAGES.values()
                if id_ in asked["ImageIds"]
            ]
        }

    def GetConsoleOutput(self, asked: Answer) -> Answer:  # noqa: N802
        machine = self.all[asked["InstanceId"]]
        nitro = INSTANCE_TYPES[machine.asked["InstanceType"]].get("Hypervisor") == "nitro"
        if asked.get("Latest") and not nitro:
            said = "This instance type does not support retrieving the latest console logs."
            raise RefusedError("UnsupportedOperation", said)
        late_s = self.console_late_s if asked.get("Latest") else max(self.console_late_s, CONSOLE_POSTED_S)
        described: Answer = {"InstanceId": machine.id, "Timestamp": datetime.now(UTC)}
        if self.clock.now_s - machine.began_s >= late_s:
            # EC2 keeps the most recent 64 KB.
            text = self.console(machine)[-65_536:]
            described["Output"] = base64.b64encode(text.encode()).decode()
        return described

    def GetParameter(self, asked: Answer) -> Answer:  # noqa: N802
        if asked["Name"] not in IMAGES:
            raise RefusedError("ParameterNotFound", asked["Name"])
        return {"Parameter": {"Name": asked["Name"], "Type": "String", "Value": IMAGES[asked["Name"]][0]}}

    def CreateTags(self, asked: Answer) -> Answer | None:  # noqa: N802
        """Returns None if the resources are not instances, so that moto answers."""
        changed = {each["Key"]: each["Value"] for each in asked["Tags"]}
        for id_ in asked["Resources"]:
            if id_.startswith("vol-"):
                continue
            if id_.startswith("pg-"):
                (group,) = (each for each in self.placements.values() if each["GroupId"] == id_)
                tags = {each["Key"]: each["Value"] for each in group["Tags"]} | changed
                group["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
                continue
            if id_ not in self.all:
                return None
            self.all[id_].tags |= changed
        return {}

    def _step(self) -> None:
        for each in self.all.values():
            if each.state not in ("pending", "shutting-down"):
                continue
            each.left -= 1
            if each.left >= 0:
                continue
            if each.state == "pending":
                each.state = "running"
            else:
                each.state = "terminated"
                self.ended(each)

    def _described(self, machine: Machine) -> Answer:
        described: Answer = {
            "InstanceId": machine.id,
            "InstanceType": machine.asked["InstanceType"],
            "CpuOptions": {"CoreCount": vcpus(machine.asked["InstanceType"]), "ThreadsPerCore": 1},
            "State": {"Code": 16, "Name": machine.state},
            "Placement": {"AvailabilityZone": machine.zone},
            "LaunchTime": datetime.now(UTC),
            "ClientToken": machine.asked["ClientToken"],
            "RootDeviceName": ROOT,
            "BlockDeviceMappings": [
                {"DeviceName": each["DeviceName"], "Ebs": {"VolumeId": id_, "Status": "attached"}}
                for id_, each in zip(machine.volumes, machine.asked["BlockDeviceMappings"], strict=True)
            ],
            "Tags": [{"Key": key, "Value": value} for key, value in machine.tags.items()],
            # absent for an On-Demand instance
            **({"InstanceLifecycle": "spot"} if "InstanceMarketOptions" in machine.asked else {}),
        }
        if machine.reason:
            described["StateReason"] = {"Code": machine.reason, "Message": machine.reason}
        if machine.state in ("running", "shutting-down"):
            described["PrivateIpAddress"] = machine.address
            if machine.asked["NetworkInterfaces"][0]["AssociatePublicIpAddress"]:
                described["PublicIpAddress"] = machine.address
        return described


def vcpus(name: str) -> int:
    """Returns the number of vCPU of a type, each of which counts as a core here."""
    return int(INSTANCE_TYPES[name]["VCpuInfo"]["DefaultVCpus"])


def _passes(machine: Machine, asked: Answer) -> bool:
    return all(_has(machine, each["Name"], each["Values"]) for each in asked.get("Filters", ()))


def _has(machine: Machine, name: str, values: list[str]) -> bool:
    if name == "tag-key":
        return any(each in machine.tags for each in values)
    if name == "instance-state-name":
        return machine.state in values
    if name == "client-token":
        return machine.asked["ClientToken"] in values
    raise AssertionError(f"the simulator knows no filter {name}")


def references(groups: dict[str, Any], group: str) -> Iterator[str]:
    """Returns other security groups that let members of `group` in."""
    for each in groups.values():
        if each.id != group and any(group == rule.source_group.get("GroupId") for rule in each.ingress_rules):
            yield each.id
