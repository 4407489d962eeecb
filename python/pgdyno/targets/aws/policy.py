"""The IAM policy with the least permissions that pgdyno needs."""

from __future__ import annotations

from typing import Any

from pgdyno.targets.aws.rental_journal import RUN

LOOK = {
    "cloudwatch": ("GetMetricData",),
    "ec2": (
        "DescribeImages",
        "DescribeInstanceTypes",
        "DescribeInstances",
        "DescribeSecurityGroups",
        "DescribeSnapshots",
        "DescribeSubnets",
        "DescribeVolumes",
        "DescribeVpcs",
    ),
    "pi": ("GetResourceMetrics",),
    "pricing": ("GetProducts",),
    "rds": (
        "DescribeDBClusterParameterGroups",
        "DescribeDBClusterSnapshots",
        "DescribeDBClusters",
        "DescribeDBEngineVersions",
        "DescribeDBInstances",
        "DescribeDBLogFiles",
        "DescribeDBParameterGroups",
        "DescribeDBSnapshots",
        "DescribeDBSubnetGroups",
        "DescribeEngineDefaultClusterParameters",
        "DescribeEngineDefaultParameters",
        "DownloadDBLogFilePortion",
        "ListTagsForResource",
    ),
    "ssm": ("GetParameter",),
    "sts": ("GetCallerIdentity",),
}
"""Actions that read; Amazon supports no conditions for most of them."""
MAKE = {
    "ec2": ("CreateSecurityGroup", "CreateTags", "RunInstances"),
    "rds": (
        "AddTagsToResource",
        "CreateDBCluster",
        "CreateDBClusterParameterGroup",
        "CreateDBInstance",
        "CreateDBParameterGroup",
        "RestoreDBClusterFromSnapshot",
        "RestoreDBClusterToPointInTime",
        "RestoreDBInstanceFromDBSnapshot",
    ),
}
CHANGE = {
    "ec2": (
        "AuthorizeSecurityGroupIngress",
        "DeleteSecurityGroup",
        "DeleteSnapshot",
        "DeleteVolume",
        "TerminateInstances",
    ),
    "rds": (
        "DeleteDBCluster",
        "DeleteDBClusterParameterGroup",
        "DeleteDBClusterSnapshot",
        "DeleteDBInstance",
        "DeleteDBParameterGroup",
        "DeleteDBSnapshot",
        "ModifyDBCluster",
        "ModifyDBClusterParameterGroup",
        "ModifyDBInstance",
        "ModifyDBParameterGroup",
        "RebootDBInstance",
    ),
}
"""Actions that the policy allows only on resources with pgdyno's tag."""


def actions() -> set[str]:
    """Returns the names of all actions, such as `rds:CreateDBInstance`."""
    return {f"{service}:{each}" for group in (LOOK, MAKE, CHANGE) for service, names in group.items() for each in names}


def policy() -> dict[str, Any]:
    """Returns the IAM policy. It permits changes and removals only of resources that have pgdyno's tag."""
    tagged = {"Null": {f"aws:ResourceTag/{RUN}": "false"}}
    return {
        "Version": "2012-10-17",
        "Statement": [
            _statement("Look", LOOK),
            _statement("Make", MAKE),
            {**_statement("ChangeOwn", CHANGE), "Condition": tagged},
        ],
    }


def _statement(name: str, actions_: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    listed = sorted(f"{service}:{each}" for service, names in actions_.items() for each in names)
    return {"Sid": f"Pgdyno{name}", "Effect": "Allow", "Action": listed, "Resource": "*"}
