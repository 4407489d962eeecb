"""EC2 and Systems Manager of the simulated account: instances, types, images and volumes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

TYPES = {"m7g.large": "arm64", "m8g.large": "arm64", "t4g.micro": "arm64", "c7i.large": "x86_64"}
"""Some of EC2's types, with their architecture."""
ROOT = "/dev/xvda"
IMAGES = {
    f"/aws/service/debian/release/{release}/latest/{name}": (f"ami-{release}{architecture[:3]}", architecture)
    for release in (12, 13)
    for name, architecture in (("arm64", "arm64"), ("amd64", "x86_64"))
}
"""Image and architecture, by public parameter."""
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
    left: int = POLLS
    """How many more descriptions its state lasts."""
    address: str = ""
    reason: str = ""

    @property
    def id(self) -> str:
        return f"i-{self.number:017x}"

    @property
    def user_data(self) -> Answer:
        """Returns the user data as cloud-init parses them."""
        head, _, body = base64.b64decode(self.asked["UserData"]).decode().partition("\n")
        assert head == "#cloud-config"
        read: Answer = json.loads(body)
        return read

    @property
    def files(self) -> dict[str, str]:
        """Returns the contents of the files in the user data, by path."""
        return {each["path"]: each["content"] for each in self.user_data["write_files"]}

    @property
    def groups(self) -> list[str]:
        """Returns the ids of its security groups."""
        groups: list[str] = self.asked["NetworkInterfaces"][0]["Groups"]
        return groups

    @property
    def volumes(self) -> dict[str, Answer]:
        """Returns the requested volumes, by id."""
        asked = self.asked["BlockDeviceMappings"]
        return {f"vol-{self.id[2:-1]}{number}": each["Ebs"] for number, each in enumerate(asked)}


@dataclass
class Machines:
    """All instances, and the operations on them."""

    refuse: Callable[[str, str], Exception]
    boot: Callable[[Machine], str]
    """Starts the real host of an instance, and returns its address."""
    ended: Callable[[Machine], None]
    zone_of: Callable[[str], str]
    """Returns the zone of a subnet."""
    all: dict[str, Machine] = field(default_factory=dict)
    _tokens: dict[str, str] = field(default_factory=dict)

    def shut_down(self, machine: Machine) -> None:
        """Does what EC2 does when a host shuts itself down."""
        behaviour = machine.asked["InstanceInitiatedShutdownBehavior"]
        machine.state = "terminated" if behaviour == "terminate" else "stopped"
        machine.reason = "Client.InstanceInitiatedShutdown"
        self.ended(machine)

    def there(self) -> list[Machine]:
        """Returns the instances that cost money."""
        return [each for each in self.all.values() if each.state != "terminated"]

    def watched(self) -> Iterator[str]:
        """Yields the ids of instances and volumes with metrics by the minute."""
        for each in self.there():
            if each.asked["Monitoring"]["Enabled"]:
                yield each.id
            yield from each.volumes

    # ---- what is asked ----

    def RunInstances(self, asked: Answer) -> Answer:  # noqa: N802 - Amazon's names, here and below
        token = asked["ClientToken"]
        if token in self._tokens:
            return {"Instances": [self._described(self.all[self._tokens[token]])]}
        architecture = next((each for id_, each in IMAGES.values() if id_ == asked["ImageId"]), None)
        if architecture is None:
            raise self.refuse("InvalidAMIID.NotFound", f"The image id '[{asked['ImageId']}]' does not exist")
        if TYPES[asked["InstanceType"]] != architecture:
            raise self.refuse("InvalidParameterValue", f"the architecture {architecture} of the image does not match")
        if len(base64.b64decode(asked["UserData"])) > LARGEST:
            raise self.refuse("InvalidParameterValue", "User data is limited to 16384 bytes")
        for each in asked["BlockDeviceMappings"]:
            if each["Ebs"]["VolumeType"] in ("io1", "io2") and "Iops" not in each["Ebs"]:
                raise self.refuse("MissingParameter", "The parameter iops must be specified")
        tags = {
            each["Key"]: each["Value"]
            for spec in asked["TagSpecifications"]
            if spec["ResourceType"] == "instance"
            for each in spec["Tags"]
        }
        zone = self.zone_of(asked["NetworkInterfaces"][0]["SubnetId"])
        machine = Machine(len(self.all) + 1, asked, zone, tags)
        self.all[machine.id] = machine
        self._tokens[token] = machine.id
        machine.address = self.boot(machine)
        return {"Instances": [self._described(machine)]}

    def DescribeInstances(self, asked: Answer) -> Answer:  # noqa: N802
        self._step()
        ids = asked.get("InstanceIds")
        for each in ids or ():
            if each not in self.all:
                raise self.refuse("InvalidInstanceID.NotFound", f"The instance ID '{each}' does not exist")
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

    def GetParameter(self, asked: Answer) -> Answer:  # noqa: N802
        if asked["Name"] not in IMAGES:
            raise self.refuse("ParameterNotFound", asked["Name"])
        return {"Parameter": {"Name": asked["Name"], "Type": "String", "Value": IMAGES[asked["Name"]][0]}}

    def CreateTags(self, asked: Answer) -> Answer | None:  # noqa: N802
        """Returns None if the resources are not instances, so that moto answers."""
        changed = {each["Key"]: each["Value"] for each in asked["Tags"]}
        for id_ in asked["Resources"]:
            if id_.startswith("vol-"):
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
        }
        if machine.reason:
            described["StateReason"] = {"Code": machine.reason, "Message": machine.reason}
        if machine.state in ("running", "shutting-down"):
            described["PrivateIpAddress"] = machine.address
            if machine.asked["NetworkInterfaces"][0]["AssociatePublicIpAddress"]:
                described["PublicIpAddress"] = machine.address
        return described


def _passes(machine: Machine, asked: Answer) -> bool:
    """Returns whether the instance matches the filters of the request."""
    return all(_has(machine, each["Name"], each["Values"]) for each in asked.get("Filters", ()))


def _has(machine: Machine, name: str, values: list[str]) -> bool:
    if name == "tag-key":
        return any(each in machine.tags for each in values)
    if name == "client-token":
        return machine.asked["ClientToken"] in values
    raise AssertionError(f"the simulator knows no filter {name}")


def references(groups: dict[str, Any], group: str) -> Iterator[str]:
    """Returns other security groups that let members of `group` in."""
    for each in groups.values():
        if each.id != group and any(group == rule.source_group.get("GroupId") for rule in each.ingress_rules):
            yield each.id
