"""Parameter groups: the settings of a rented database.

RDS and Aurora accept only some parameters, and only plain numbers in each parameter's own unit. pgdyno asks the service
for what `parameter_rules` does not know (IsModifiable of DescribeEngineDefaultParameters) before it creates anything.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from pgdyno.targets.aws.boto3_clients import AwsError, Cloud, ThereAlreadyError, retry_until_settled
from pgdyno.targets.aws.databases.parameter_rules import in_own_unit
from pgdyno.targets.aws.inventory import Kind
from pgdyno.targets.aws.maker import Maker

AT_ONCE = 20
"""The most parameters that one request can change."""


@dataclass(frozen=True, slots=True)
class Level:
    """The requests for parameter groups of instances, or of clusters."""

    kind: Kind
    defaults: str
    create: str
    modify: str
    name: str
    """The request's key for the name of a group."""


INSTANCE = Level(
    Kind.DB_PARAMETERS,
    "describe_engine_default_parameters",
    "create_db_parameter_group",
    "modify_db_parameter_group",
    "DBParameterGroupName",
)
CLUSTER = Level(
    Kind.CLUSTER_PARAMETERS,
    "describe_engine_default_cluster_parameters",
    "create_db_cluster_parameter_group",
    "modify_db_cluster_parameter_group",
    "DBClusterParameterGroupName",
)


def values_for(cloud: Cloud, level: Level, family: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Return `asked` as the service accepts it, without creating anything.

    Raises one AwsError for all parameters that do not exist at this level, cannot be changed, or do not take a value.
    """
    if not asked:
        return {}
    known = _defaults(cloud, level, family)
    wrong = [reason for name in asked if (reason := _refusal(known.get(name), name, family)) is not None]
    if not wrong:
        taken = {name: _as_taken(known[name], name, value) for name, value in asked.items()}
        wrong = [reason for name in asked if (reason := _value_refusal(known[name], taken[name])) is not None]
        if not wrong:
            return taken
    hint = "remove them, or choose other values; nothing was created"
    missing = asked.keys() - known.keys()
    if level is INSTANCE and family.startswith("aurora") and missing & _defaults(cloud, CLUSTER, family).keys():
        hint = "put those of the cluster under cluster_parameters, and remove the others; nothing was created"
    raise AwsError("; ".join(wrong), code="Parameters", hint=hint)


_RANGE = re.compile(r"(-?[0-9.]+(?:e[+-]?[0-9]+)?)-(-?[0-9.]+(?:e[+-]?[0-9]+)?)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _value_refusal(known: Mapping[str, Any], value: str) -> str | None:
    """Return why the service refuses `value` for the parameter that it describes in `known`; None if it may accept it.

    Formulas, and lists of words that may be combined, are left to the service.
    """
    allowed, name = str(known.get("AllowedValues", "")), known["ParameterName"]
    limits = _RANGE.fullmatch(allowed)
    if limits is not None and _NUMBER.fullmatch(value) is not None:
        inside = float(limits[1]) <= float(value) <= float(limits[2])
        return None if inside else f"{name} = {value} is outside of {limits[1]} to {limits[2]}"
    if known.get("DataType") == "boolean" and allowed and value not in allowed.split(","):
        return f"{name} = {value} is not one of {allowed.replace(',', ', ')}"
    return None


def _as_taken(known: Mapping[str, Any], name: str, value: str) -> str:
    if known.get("DataType") == "boolean":
        return {"on": "1", "off": "0"}.get(value, value)
    return in_own_unit(name, value)


def _refusal(known: Mapping[str, Any] | None, name: str, family: str) -> str | None:
    if known is None:
        return f"{family} has no parameter {name}"
    return None if known.get("IsModifiable") else f"parameter {name} cannot be changed on {family}"


def _defaults(cloud: Cloud, level: Level, family: str) -> dict[str, dict[str, Any]]:
    listed = cloud.list_elements("rds", level.defaults, "EngineDefaults.Parameters", DBParameterGroupFamily=family)
    return {each["ParameterName"]: each for each in listed}


def make_group(maker: Maker, level: Level, family: str, values: Mapping[str, str]) -> str | None:
    """Create a group of the result of `values_for`; return its name, or None without values. Raises AwsError."""
    if not values:
        return None
    cloud = maker.cloud
    maker.note(level.kind)
    group = {level.name: maker.name, "DBParameterGroupFamily": family, "Description": "pgdyno"}
    # Names are random: an existing group comes from our own first attempt, whose response was lost.
    with suppress(ThereAlreadyError):
        cloud.call("rds", level.create, **group, Tags=maker.tags)
    # The server starts with the group, so that static parameters take effect as well.
    changes = [
        {"ParameterName": name, "ParameterValue": value, "ApplyMethod": "pending-reboot"}
        for name, value in values.items()
    ]
    for at in range(0, len(changes), AT_ONCE):
        some = {level.name: maker.name, "Parameters": changes[at : at + AT_ONCE]}
        change = partial(cloud.call, "rds", level.modify, **some)
        retry_until_settled(maker.stop.check, change)
    return maker.name
