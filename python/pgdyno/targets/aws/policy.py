"""The IAM policies that pgdyno needs: of the identity that rents, and of the role that removes expired databases."""

from collections.abc import Mapping
from typing import Any

from pgdyno.targets.aws.databases.schema import DEAD_MAN_ROLE
from pgdyno.targets.aws.inventory import EXPIRES, RUN

LOOK = {
    "cloudwatch": ("GetMetricData",),
    "ec2": (
        "DescribeImages", "DescribeInstanceTypeOfferings", "DescribeInstanceTypes", "DescribeInstances",
        "DescribePlacementGroups", "DescribeRegions", "DescribeSecurityGroups", "DescribeSnapshots",
        "DescribeSubnets", "DescribeVolumes", "DescribeVpcs",
    ),
    "iam": ("GetRole",),
    "pi": ("GetResourceMetrics",),
    "pricing": ("GetProducts",),
    "rds": (
        "DescribeAccountAttributes", "DescribeDBClusterParameterGroups", "DescribeDBClusterSnapshots",
        "DescribeDBClusters", "DescribeDBEngineVersions", "DescribeDBInstances", "DescribeDBLogFiles",
        "DescribeDBParameterGroups", "DescribeDBSnapshots", "DescribeDBSubnetGroups",
        "DescribeEngineDefaultClusterParameters", "DescribeEngineDefaultParameters",
        "DescribeOrderableDBInstanceOptions", "DownloadDBLogFilePortion", "ListTagsForResource",
    ),
    "scheduler": ("ListSchedules",),
    "servicequotas": ("GetServiceQuota",),
    "ssm": ("GetParameter",),
    "sts": ("GetCallerIdentity",),
}  # fmt: skip
"""Actions that read; Amazon supports no conditions for most of them."""
MAKE = {
    "ec2": ("CreatePlacementGroup", "CreateSecurityGroup", "RunInstances"),
    "iam": ("CreateServiceLinkedRole",),
    "rds": (
        "CreateDBCluster", "CreateDBClusterParameterGroup", "CreateDBClusterSnapshot", "CreateDBInstance",
        "CreateDBParameterGroup", "CreateDBSnapshot", "RestoreDBClusterFromSnapshot", "RestoreDBClusterToPointInTime",
        "RestoreDBInstanceFromDBSnapshot",
    ),
}  # fmt: skip
"""Actions that the policy allows only with pgdyno's tag in the request."""
TAG = {"ec2": ("CreateTags",), "rds": ("AddTagsToResource",)}
"""Actions that the policy allows only in a request that creates, or to change the expiry of tagged resources."""
CHANGE = {
    "ec2": (
        "AuthorizeSecurityGroupIngress", "DeletePlacementGroup", "DeleteSecurityGroup", "DeleteSnapshot",
        "DeleteVolume", "GetConsoleOutput", "TerminateInstances",
    ),
    "rds": (
        "DeleteDBCluster", "DeleteDBClusterParameterGroup", "DeleteDBClusterSnapshot", "DeleteDBInstance",
        "DeleteDBParameterGroup", "DeleteDBSnapshot", "ModifyDBCluster", "ModifyDBClusterParameterGroup",
        "ModifyDBInstance", "ModifyDBParameterGroup", "RebootDBInstance",
    ),
}  # fmt: skip
"""Actions that the policy allows only on resources with pgdyno's tag."""
SCHEDULE = {"scheduler": ("CreateSchedule", "DeleteSchedule", "GetSchedule", "UpdateSchedule")}
"""Actions that the policy allows only on schedules with pgdyno's prefix."""
_RUN_TAGGED = ("instance", "network-interface", "volume")
"""Kinds of resources that RunInstances creates, and tags."""
_RUN_USED = ("image", "placement-group", "security-group", "snapshot", "spot-instances-request", "subnet")
"""Kinds of resources that RunInstances uses, whose tags are not pgdyno's."""


def actions() -> set[str]:
    """Return the names of all actions that pgdyno requests, such as `rds:CreateDBInstance`."""
    return {each for group in (LOOK, MAKE, TAG, CHANGE, SCHEDULE) for each in _list_actions(group)}


def policy(partition: str = "aws", role: str = DEAD_MAN_ROLE) -> dict[str, Any]:
    """Return the IAM policy of the identity that rents.

    It permits creations only with pgdyno's tag, and changes and removals only of resources that have it. `role` is the
    name of the role that removes expired databases.
    """

    def ec2(kinds: tuple[str, ...]) -> list[str]:
        return [f"arn:{partition}:ec2:*:*:{each}/*" for each in kinds]

    requested, owned = {f"aws:RequestTag/{RUN}": "false"}, {f"aws:ResourceTag/{RUN}": "false"}
    only_expiry = {"aws:TagKeys": [EXPIRES]}
    linked = f"arn:{partition}:iam::*:role/aws-service-role/rds.amazonaws.com/AWSServiceRoleForRDS"
    return _document(
        _statement("Look", _list_actions(LOOK)),
        _statement("MakeDatabases", [f"rds:{each}" for each in MAKE["rds"]], when={"Null": requested}),
        _statement("MakeHosts", ["ec2:RunInstances"], ec2(_RUN_TAGGED), when={"Null": requested}),
        _statement("UseForHosts", ["ec2:RunInstances"], ec2(_RUN_USED)),
        _statement(
            "MakeGroups",
            ["ec2:CreatePlacementGroup", "ec2:CreateSecurityGroup"],
            ec2(("placement-group", "security-group")),
            when={"Null": requested},
        ),
        _statement("UseForGroups", ["ec2:CreateSecurityGroup"], ec2(("vpc",))),
        _statement(
            "TagNewInEc2",
            ["ec2:CreateTags"],
            when={"StringEquals": {"ec2:CreateAction": sorted(MAKE["ec2"])}, "Null": requested},
        ),
        _statement("TagNewInRds", ["rds:AddTagsToResource"], when={"Null": requested}),
        _statement("Prolong", _list_actions(TAG), when={"Null": owned, "ForAllValues:StringEquals": only_expiry}),
        _statement("ChangeOwn", _list_actions(CHANGE), when={"Null": owned}),
        _statement("Schedule", _list_actions(SCHEDULE), [f"arn:{partition}:scheduler:*:*:schedule/default/pgdyno-*"]),
        _statement(
            "GiveRoleToScheduler",
            ["iam:PassRole"],
            [f"arn:{partition}:iam::*:role/{role}"],
            when={"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}},
        ),
        _statement(
            "FirstDatabaseOfAccount",
            ["iam:CreateServiceLinkedRole"],
            [linked],
            when={"StringEquals": {"iam:AWSServiceName": "rds.amazonaws.com"}},
        ),
        _statement(
            "FirstSpotInstanceOfAccount",
            ["iam:CreateServiceLinkedRole"],
            [f"arn:{partition}:iam::*:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot"],
            when={"StringEquals": {"iam:AWSServiceName": "spot.amazonaws.com"}},
        ),
    )


def dead_man_policy() -> dict[str, Any]:
    """Return the policy of the role with which Amazon's scheduler removes expired databases: only pgdyno's."""
    owned = {f"aws:ResourceTag/{RUN}": "false"}
    kinds = ("DBCluster", "DBClusterSnapshot", "DBInstance", "DBSnapshot")
    return _document(_statement("RemoveExpired", [f"rds:Delete{each}" for each in kinds], when={"Null": owned}))


def dead_man_trust(account: str) -> dict[str, Any]:
    """Return the policy that lets Amazon's scheduler take the role, for schedules of `account` alone."""
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "scheduler.amazonaws.com"},
                "Action": "sts:AssumeRole",
                "Condition": {"StringEquals": {"aws:SourceAccount": account}},
            }
        ],
    }


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _list_actions(group: Mapping[str, tuple[str, ...]]) -> list[str]:
    return sorted(f"{service}:{each}" for service, names in group.items() for each in names)


def _statement(
    name: str,
    actions_: list[str],
    resources: list[str] | None = None,
    *,
    when: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "Sid": f"Pgdyno{name}",
        "Effect": "Allow",
        "Action": actions_,
        "Resource": resources or "*",
    }
    return found | ({} if when is None else {"Condition": {each: dict(of) for each, of in when.items()}})
