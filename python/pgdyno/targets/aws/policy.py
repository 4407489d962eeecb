"""The least that an identity at Amazon must be allowed, as the policy that grants it."""

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
"""What is read; Amazon takes no conditions for most of it."""
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
"""Only of what bears our tag."""


def actions() -> set[str]:
    """All of them: `rds:CreateDBInstance`."""
    return {f"{service}:{each}" for group in (LOOK, MAKE, CHANGE) for service, names in group.items() for each in names}


def policy() -> dict[str, Any]:
    """An IAM policy. Things that do not bear pgdyno's tag can neither be changed nor removed with it."""
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
