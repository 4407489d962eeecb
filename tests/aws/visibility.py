"""Eventual consistency: for some seconds after its creation, other requests do not find a resource.

Sources: "Eventual consistency" in the API reference of EC2 (InvalidInstanceID.NotFound and InvalidGroup.NotFound in
requests just after the creation), the error lists of botocore's models of RDS (codes and HTTP statuses), and reports of
users for RDS's text about security groups, which has no code of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.aws.clock import Clock
from tests.aws.shapes import RefusedError

HIDDEN_S = 2.5
"""Seconds of the simulator's clock after which a new resource is found."""
MISSING = 404
Parameters = dict[str, Any]
_BY_NAME = {
    "DBInstanceIdentifier": "DBInstanceNotFound", "DBClusterIdentifier": "DBClusterNotFoundFault",
    "DBParameterGroupName": "DBParameterGroupNotFound", "DBClusterParameterGroupName": "DBParameterGroupNotFound",
    "DBSnapshotIdentifier": "DBSnapshotNotFound", "DBClusterSnapshotIdentifier": "DBClusterSnapshotNotFoundFault",
}  # fmt: skip
"""Codes of RDS for what is not found, by the request's key for its name."""
_MAKES = {
    "CreateDBInstance": "DBInstanceIdentifier", "RestoreDBInstanceFromDBSnapshot": "DBInstanceIdentifier",
    "CreateDBCluster": "DBClusterIdentifier", "RestoreDBClusterFromSnapshot": "DBClusterIdentifier",
    "RestoreDBClusterToPointInTime": "DBClusterIdentifier", "CreateDBParameterGroup": "DBParameterGroupName",
    "CreateDBClusterParameterGroup": "DBClusterParameterGroupName", "CreateDBSnapshot": "DBSnapshotIdentifier",
    "CreateDBClusterSnapshot": "DBClusterSnapshotIdentifier",
}  # fmt: skip
"""The key of the name of what an operation creates."""


@dataclass
class Visibility:
    """When each resource was created."""

    clock: Clock
    hidden_s: float = HIDDEN_S
    _made: dict[tuple[str, str], float] = field(default_factory=dict)

    def made(self, operation: str, parameters: Parameters, found: Parameters) -> None:
        if operation == "CreateSecurityGroup":
            self._note("group", found["GroupId"])
        elif operation == "RunInstances":
            for each in found["Instances"]:
                self._note("instance", each["InstanceId"])
        elif operation in _MAKES:
            self._note(_MAKES[operation], parameters[_MAKES[operation]])

    def _note(self, kind: str, name: str) -> None:
        self._made.setdefault((kind, name), self.clock.now_s)

    def forget(self, name: str) -> None:
        """Makes another resource with the name of a removed one a new one."""
        for key in [key for key in self._made if key[1] == name]:
            del self._made[key]

    def check(self, operation: str, parameters: Parameters) -> None:
        """Raises RefusedError if a request names a resource that is not found yet."""
        for kind, name, refusal in _named(operation, parameters):
            made_s = self._made.get((kind, name))
            if made_s is not None and self.clock.now_s - made_s < self.hidden_s:
                raise refusal


def _named(operation: str, parameters: Parameters) -> Iterator[tuple[str, str, RefusedError]]:
    for key, code in _BY_NAME.items():
        name = parameters.get(key)
        if name is not None and _MAKES.get(operation) != key:
            shown = "DBClusterParameterGroupNotFound" if (operation, key) == _OWN_CODE else code
            yield key, name, RefusedError(shown, f"{name} not found.", MISSING)
    for group in parameters.get("VpcSecurityGroupIds", ()):
        refusal = RefusedError("InvalidParameterValue", f"Invalid security group , groupId= {group}, groupName=.")
        yield "group", group, refusal
    groups = [each for interface in parameters.get("NetworkInterfaces", ()) for each in interface.get("Groups", ())]
    for group in [*groups, *([parameters["GroupId"]] if "GroupId" in parameters else [])]:
        yield "group", group, RefusedError("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
    one = [parameters["InstanceId"]] if "InstanceId" in parameters else []
    for instance in [*one, *parameters.get("InstanceIds", ())]:
        said = f"The instance ID '{instance}' does not exist"
        yield "instance", instance, RefusedError("InvalidInstanceID.NotFound", said)


_OWN_CODE = ("CreateDBCluster", "DBClusterParameterGroupName")
