"""Rules for parameter groups: which level has a parameter, which values it takes, and how a change applies.

Sources: the tables of cluster-level and instance-level parameters in "Amazon Aurora PostgreSQL parameters"
(AuroraUserGuide, AuroraPostgreSQL.Reference.ParameterGroups), of which the instance's table lacks those of level
"cluster"; types, ranges and contexts as PostgreSQL 17 prints them (postgres --describe-config); "fixed" from
"Working with parameters on your RDS for PostgreSQL DB instance". Enumerations are not checked.
"""

import re
from dataclasses import dataclass
from typing import Any

from tests.aws.shapes import RefusedError

PAGE = 5
"""The most parameters in one response: few, as there are few parameters here."""
AT_ONCE = 20
"""The most parameters that one request can change (ModifyDBParameterGroup)."""
_FORMULA = re.compile(r"[{(]|\b(GREATEST|LEAST|SUM|log)\b")
_RANGE = re.compile(r"(-?[0-9.e+]+)-(-?[0-9.e+]+)")
_LISTED = """\
autovacuum cluster boolean 0,1 dynamic
checkpoint_completion_target rds float 0-1 dynamic
checkpoint_timeout rds integer 30-86400 dynamic
effective_cache_size aurora integer 1-2147483647 dynamic
huge_pages cluster string - static
maintenance_work_mem aurora integer 64-2147483647 dynamic
max_connections aurora integer 1-262143 static
max_wal_size rds integer 2-2147483647 dynamic
port cluster integer 1-65535 static
search_path aurora string - dynamic
shared_buffers aurora integer 16-1073741823 static
ssl cluster boolean 0,1 dynamic fixed
wal_buffers cluster integer -1-262143 static
work_mem aurora integer 64-2147483647 dynamic
"""
"""Name, level, type, allowed values, apply type, and "fixed" if nobody can change it; a selection of the real ones.

Levels: "aurora" for RDS and both groups of Aurora, "cluster" for RDS and the cluster group of Aurora alone, "rds" for
RDS alone.
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of the list."""

    name: str
    level: str
    type: str
    allowed: str
    apply: str
    fixed: bool

    def described(self) -> dict[str, Any]:
        """Returns the parameter in the format of DescribeEngineDefaultParameters."""
        known = {} if self.allowed == "-" else {"AllowedValues": self.allowed}
        return {
            "ParameterName": self.name,
            "DataType": self.type,
            "IsModifiable": not self.fixed,
            "ApplyType": self.apply,
            **known,
        }

    def allows(self, value: str) -> bool:
        """Returns whether a group takes `value`; formulas are not evaluated."""
        if self.allowed == "-" or _FORMULA.search(value):
            return True
        limits = _RANGE.fullmatch(self.allowed)
        if limits is None:
            return value in self.allowed.split(",")
        try:
            return float(limits[1]) <= float(value) <= float(limits[2])
        except ValueError:
            return False


def parameters(family: str, *, cluster: bool) -> dict[str, Parameter]:
    if not family.startswith("aurora"):
        levels: tuple[str, ...] = ("aurora", "cluster", "rds")
    else:
        levels = ("aurora", "cluster") if cluster else ("aurora",)
    rows = [line.split() for line in _LISTED.splitlines()]
    listed = [Parameter(name, level, kind, allowed, how, bool(more)) for name, level, kind, allowed, how, *more in rows]
    return {each.name: each for each in listed if each.level in levels}


def DescribeEngineDefaultParameters(  # noqa: N802 - Amazon's names, here and below
    asked: dict[str, Any], *, cluster: bool = False
) -> dict[str, Any]:
    family = asked["DBParameterGroupFamily"]
    listed = list(parameters(family, cluster=cluster).values())
    at = int(asked.get("Marker", "0"))
    answer = {"DBParameterGroupFamily": family, "Parameters": [each.described() for each in listed[at : at + PAGE]]}
    return {"EngineDefaults": answer | ({"Marker": str(at + PAGE)} if at + PAGE < len(listed) else {})}


def DescribeEngineDefaultClusterParameters(asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
    return DescribeEngineDefaultParameters(asked, cluster=True)


def check_change(family: str, asked: dict[str, Any], *, cluster: bool) -> None:
    """Raises RefusedError if a group of `family` does not take a change."""
    known = parameters(family, cluster=cluster)
    if len(asked["Parameters"]) > AT_ONCE:
        raise RefusedError("InvalidParameterValue", f"At most {AT_ONCE} parameters can be modified in one request.")
    for each in asked["Parameters"]:
        name, value = each["ParameterName"], each["ParameterValue"]
        parameter = known.get(name)
        if parameter is None:
            raise RefusedError("InvalidParameterValue", f"Could not find parameter with name: {name}")
        if parameter.fixed:
            raise RefusedError("InvalidParameterValue", f"The parameter {name} cannot be modified.")
        if not parameter.allows(value):
            said = f"Invalid parameter value: {value} for: {name} allowed values are: {parameter.allowed}"
            raise RefusedError("InvalidParameterValue", said)
        if parameter.apply == "static" and each["ApplyMethod"] == "immediate":
            said = f"cannot use immediate apply method for static parameter {name}"
            raise RefusedError("InvalidParameterCombination", said)
