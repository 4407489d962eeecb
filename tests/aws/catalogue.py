"""Versions and parameters that the simulated services have: a few of the real ones."""

from __future__ import annotations

from typing import Any

VERSIONS = {
    "postgres": ["12.20", "16.3", "17.2", "17.4", "18.1"],
    "aurora-postgresql": ["12.9", "16.4", "17.4", "18.1"],
}
PAGE = 4
_BOTH = {
    "autovacuum": ("boolean", True),
    "effective_cache_size": ("integer", True),
    "fsync": ("boolean", False),
    "max_connections": ("integer", True),
    "random_page_cost": ("float", True),
    "shared_buffers": ("integer", True),
    "ssl": ("boolean", False),
    "work_mem": ("integer", True),
}
_RDS_ONLY = {
    "checkpoint_timeout": ("integer", True),
    "max_wal_size": ("integer", True),
    "wal_compression": ("boolean", True),
}
_CLUSTER = {"autovacuum": ("boolean", True), "rds.logical_replication": ("boolean", True), "ssl": ("boolean", False)}


def versions(engine: str | None) -> list[dict[str, Any]]:
    """As DescribeDBEngineVersions has them."""
    return [
        {"Engine": name, "EngineVersion": each, "DBParameterGroupFamily": f"{name}{each.partition('.')[0]}"}
        for name, listed in VERSIONS.items()
        if name == engine
        for each in listed
    ]


def check_version(parameters: dict[str, Any]) -> None:
    """A version that there is not is refused by Amazon, and moto takes it."""
    from tests.aws.simulator import RefusedError

    engine, version = parameters.get("Engine"), parameters.get("EngineVersion")
    if version is not None and version not in VERSIONS[str(engine)]:
        raise RefusedError("InvalidParameterCombination", f"Cannot find version {version} for {engine}")


def page(parameters: dict[str, Any], *, cluster: bool) -> dict[str, Any]:
    """A page of the parameters of a family."""
    family = parameters["DBParameterGroupFamily"]
    known = _CLUSTER if cluster else _BOTH if family.startswith("aurora") else _BOTH | _RDS_ONLY
    names = sorted(known)
    at = int(parameters.get("Marker", "0"))
    listed = [
        {"ParameterName": name, "DataType": known[name][0], "IsModifiable": known[name][1], "ApplyType": "dynamic"}
        for name in names[at : at + PAGE]
    ]
    answer: dict[str, Any] = {"DBParameterGroupFamily": family, "Parameters": listed}
    return answer | ({"Marker": str(at + PAGE)} if at + PAGE < len(names) else {})
