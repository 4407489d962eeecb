"""Parameter groups: the settings of a rented server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pgdyno.targets.aws.cloud import Cloud
from pgdyno.targets.aws.faults import AwsError, ThereAlreadyError
from pgdyno.targets.aws.kinds import Kind
from pgdyno.targets.aws.make import Maker
from pgdyno.targets.aws.parameter_units import in_own_unit

AT_ONCE = 20
"""The most parameters that one request may change."""


@dataclass(frozen=True, slots=True)
class Level:
    """Parameter groups are of instances, or of clusters."""

    kind: Kind
    defaults: str
    create: str
    modify: str
    name: str
    """Key of a group's name."""


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
    """`asked` as the service takes it.

    Raises AwsError for all those that it does not know or does not let be changed; nothing is made for that.
    """
    if not asked:
        return {}
    known = _defaults(cloud, level, family)
    wrong = [reason for name in asked if (reason := _refusal(known.get(name), name, family)) is not None]
    if wrong:
        raise AwsError("; ".join(wrong), code="Parameters", hint="remove them; nothing was made")
    return {name: _as_taken(known[name], name, value) for name, value in asked.items()}


def _as_taken(known: Mapping[str, Any], name: str, value: str) -> str:
    if known.get("DataType") == "boolean":
        return {"on": "1", "off": "0"}.get(value, value)
    return in_own_unit(name, value)


def _refusal(known: Mapping[str, Any] | None, name: str, family: str) -> str | None:
    if known is None:
        return f"{family} has no parameter {name}"
    return None if known.get("IsModifiable") else f"parameter {name} cannot be changed on {family}"


def _defaults(cloud: Cloud, level: Level, family: str) -> dict[str, dict[str, Any]]:
    """All parameters of `family`, by name."""
    found: dict[str, dict[str, Any]] = {}
    marker: dict[str, str] = {}
    while True:
        answer = cloud.call("rds", level.defaults, DBParameterGroupFamily=family, **marker)["EngineDefaults"]
        found |= {each["ParameterName"]: each for each in answer.get("Parameters", [])}
        if not answer.get("Marker"):
            return found
        marker = {"Marker": answer["Marker"]}


def make_group(maker: Maker, level: Level, family: str, values: Mapping[str, str]) -> str | None:
    """A group with what `values_for` gave; its name, None where that is nothing. Raises AwsError."""
    if not values:
        return None
    cloud = maker.cloud
    maker.note(level.kind)
    group = {level.name: maker.name, "DBParameterGroupFamily": family, "Description": "pgdyno"}
    # one that is there already is of our own first attempt, whose answer was lost: names are drawn
    with suppress(ThereAlreadyError):
        cloud.call("rds", level.create, **group, Tags=maker.tags)
    for some in _pieces([_value(name, value) for name, value in values.items()]):
        cloud.call("rds", level.modify, **{level.name: maker.name, "Parameters": some})
    return maker.name


def _value(name: str, value: str) -> dict[str, str]:
    # the server starts with the group; what it takes up only then is in force, too
    return {"ParameterName": name, "ParameterValue": value, "ApplyMethod": "pending-reboot"}


def _pieces(values: Sequence[dict[str, str]]) -> list[Sequence[dict[str, str]]]:
    return [values[at : at + AT_ONCE] for at in range(0, len(values), AT_ONCE)]
