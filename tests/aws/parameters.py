"""Rules for parameter groups: which level has a parameter, which values it takes, and how a change applies."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.aws.refusal import RefusedError

PAGE = 100
"""The most parameters in one response (MaxRecords of DescribeEngineDefaultParameters)."""
AT_ONCE = 20
"""The most parameters that one request can change (ModifyDBParameterGroup)."""
_FORMULA = re.compile(r"[{(]|\b(GREATEST|LEAST|SUM|log)\b")
_RANGE = re.compile(r"(-?[0-9.e+]+)-(-?[0-9.e+]+)")


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


@cache
def _listed() -> tuple[Parameter, ...]:
    lines = (Path(__file__).with_suffix(".txt")).read_text().splitlines()
    fields = [line.split() for line in lines if not line.startswith("#")]
    return tuple(
        Parameter(name, level, kind, allowed, applies, fixed="fixed" in more)
        for name, level, kind, allowed, applies, *more in fields
    )


def parameters(family: str, *, cluster: bool) -> dict[str, Parameter]:
    if not family.startswith("aurora"):
        levels: tuple[str, ...] = ("aurora", "cluster", "rds")
    else:
        levels = ("aurora", "cluster") if cluster else ("aurora",)
    return {each.name: each for each in _listed() if each.level in levels}


def page(asked: dict[str, Any], *, cluster: bool) -> dict[str, Any]:
    family = asked["DBParameterGroupFamily"]
    listed = list(parameters(family, cluster=cluster).values())
    at = int(asked.get("Marker", "0"))
    answer = {"DBParameterGroupFamily": family, "Parameters": [each.described() for each in listed[at : at + PAGE]]}
    return answer | ({"Marker": str(at + PAGE)} if at + PAGE < len(listed) else {})


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
