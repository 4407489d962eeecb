"""IAM: whether a policy allows a request, by its actions, resources and conditions.

Sources: "Policy evaluation logic" and "IAM JSON policy elements: Condition operators" in the IAM user guide, and
"Actions, resources, and condition keys" of EC2, RDS and IAM in the service authorization reference. A request that
sets tags on what it creates needs the permission to tag as well; RunInstances is judged for each kind of resource
that it creates or uses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

ACCOUNT, REGION = "123456789012", "eu-central-1"
Tags = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Judged:
    """One action on one resource, as IAM judges it."""

    action: str
    arn: str = "*"
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of condition keys; absent keys are missing."""

    def allowed(self, policy: Mapping[str, Any]) -> bool:
        """Returns whether a statement of `policy` allows it. Statements that deny are not known here."""
        return any(self._matches(each) for each in policy["Statement"])

    def _matches(self, statement: Mapping[str, Any]) -> bool:
        assert statement["Effect"] == "Allow"
        return (
            any(fnmatchcase(self.action, each) for each in _listed(statement["Action"]))
            and any(fnmatchcase(self.arn, each) for each in _listed(statement["Resource"]))
            and all(
                _holds(operator, self.keys.get(key), _listed(values))
                for operator, wanted in statement.get("Condition", {}).items()
                for key, values in wanted.items()
            )
        )


def _listed(one_or_more: str | list[str]) -> list[str]:
    return [one_or_more] if isinstance(one_or_more, str) else one_or_more


def _holds(operator: str, found: Sequence[str] | None, wanted: Sequence[str]) -> bool:
    if operator == "Null":
        return (found is None) == (wanted == ["true"])
    if operator.startswith("ForAllValues:"):
        return all(_holds(operator.removeprefix("ForAllValues:"), [each], wanted) for each in found or ())
    if operator.endswith("IfExists"):
        return found is None or _holds(operator.removesuffix("IfExists"), found, wanted)
    if found is None:
        return False
    assert operator == "StringEquals", f"the simulator knows no condition operator {operator}"
    return any(each in wanted for each in found)


# ---- what IAM judges in a request ----


def in_policies(service: str) -> str:
    """Returns the service's name in policies."""
    return {"service-quotas": "servicequotas"}.get(service, service)


def judged(service: str, operation: str, parameters: Mapping[str, Any], of_resource: Tags) -> Iterator[Judged]:
    """Yields what IAM judges; `of_resource` are the tags of the existing resource that the request names."""
    action = f"{in_policies(service)}:{operation}"
    sets = _requested(parameters)
    keys = _keys("aws:RequestTag", sets) | _keys("aws:ResourceTag", of_resource)
    if sets:
        keys["aws:TagKeys"] = list(sets)
    if operation == "RunInstances":
        yield from _of_instances(action, parameters, sets)
    elif operation == "CreateSecurityGroup":
        yield Judged(action, _ec2("security-group"), keys)
        yield Judged(action, _ec2("vpc"))
    elif operation == "CreatePlacementGroup":
        yield Judged(action, _ec2("placement-group"), keys)
    elif operation == "CreateServiceLinkedRole":
        name = parameters["AWSServiceName"]
        role = f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/{name}/AWSServiceRoleForRDS"
        yield Judged(action, role, {"iam:AWSServiceName": [name]})
    elif service == "scheduler":
        yield Judged(
            action, f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/{parameters.get('Name', '')}", keys
        )
    else:
        yield Judged(action, "*", keys)
    if service == "scheduler" and "Target" in parameters:
        # Who gives a service a role needs the permission to pass it: "Granting a user permissions to pass a role to an
        # AWS service" in the IAM user guide.
        passed = {"iam:PassedToService": ["scheduler.amazonaws.com"]}
        yield Judged("iam:PassRole", parameters["Target"]["RoleArn"], passed)
    if sets and operation not in ("CreateTags", "AddTagsToResource") and service in ("ec2", "rds"):
        tagging = {"ec2": "ec2:CreateTags", "rds": "rds:AddTagsToResource"}[service]
        created = {"ec2:CreateAction": [operation]} if service == "ec2" else {}
        yield Judged(tagging, "*", {**keys, **created})


def _of_instances(action: str, parameters: Mapping[str, Any], sets: Tags) -> Iterator[Judged]:
    tagged = {each["ResourceType"] for each in parameters.get("TagSpecifications", ())}
    for kind in ("instance", "volume", "network-interface"):
        yield Judged(action, _ec2(kind), _keys("aws:RequestTag", sets) if kind in tagged else {})
    placed = ["placement-group"] if "GroupName" in parameters.get("Placement", {}) else []
    spot = ["spot-instances-request"] if "InstanceMarketOptions" in parameters else []
    for kind in ("image", "subnet", "security-group", *placed, *spot):
        yield Judged(action, _ec2(kind))


def _ec2(kind: str) -> str:
    return f"arn:aws:ec2:{REGION}:{ACCOUNT}:{kind}/1"


def _keys(prefix: str, tags: Tags) -> dict[str, Sequence[str]]:
    return {f"{prefix}/{name}": [value] for name, value in tags.items()}


def _requested(parameters: Mapping[str, Any]) -> dict[str, str]:
    listed = [*parameters.get("Tags", ())]
    for each in parameters.get("TagSpecifications", ()):
        listed += each["Tags"]
    return {each["Key"]: each["Value"] for each in listed}
