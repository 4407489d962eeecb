"""The tags of everything that pgdyno makes at Amazon, by which any machine finds it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from pgdyno.targets.rental import stamp

RUN = "pgdyno:run"
EXPIRES = "pgdyno:expires"
TARGET = "pgdyno:target"


def tags(run: str, expires: datetime, target: str, name: str) -> list[dict[str, str]]:
    """As RDS and EC2 take them."""
    values = {RUN: run, EXPIRES: stamp(expires), TARGET: target, "Name": name}
    return [{"Key": key, "Value": value} for key, value in values.items()]


def by_key(listed: Iterable[Mapping[str, str]] | None) -> dict[str, str]:
    """What Amazon answers, by key."""
    return {each["Key"]: each.get("Value", "") for each in listed or ()}


def moment_of(text: str) -> datetime | None:
    """What `stamp` wrote; None when somebody else did."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
