"""Figures that others published, as reference data beside what is measured.

Each set is two files of this package: a table with the columns of `COLUMNS`, and its source.
Figures are as printed there, errors included; the notes say what is known to be wrong with them.
"""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_PACKAGE = "pgdyno.published"

COLUMNS = {
    "target": "what was measured",
    "workload": "the script, by our name where we bring it",
    "scale": "pgbench's scale",
    "warehouses": "TPC-C's scale",
    "clients": "concurrent sessions",
    "workers": "threads of the generator",
    "protocol": "simple, extended or prepared",
    "connections": "including or excluding the time to connect: which of pgbench's two figures is given",
    "checkpoints": "a word of the source for its checkpoint settings",
    "duration_s": "seconds measured",
    "transactions_per_client": "transactions asked of each client",
    "transactions": "transactions that were counted",
    "reads": "statements that read",
    "writes": "statements that write",
    "others": "BEGIN, COMMIT and the like",
    "errors": "errors that the generator ignored",
    "tps": "transactions a second",
    "tps_excluding_connections": "the same without the time to connect",
    "qps": "statements a second",
    "tpm": "transactions a minute as the server counts them",
    "latency_mean_ms": "milliseconds",
    "latency_stddev_ms": "milliseconds",
    "latency_min_ms": "milliseconds",
    "latency_max_ms": "milliseconds",
    "latency_p95_ms": "milliseconds",
}
"""What a column is; a column `variables.NAME` is a script's variable."""

WORDS = frozenset({"target", "workload", "protocol", "connections", "checkpoints"})
"""Columns that hold text; all others hold numbers."""


class _About(BaseModel):
    """Base: immutable; an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Price(_About):
    """What something costs."""

    amount: float = Field(gt=0)
    currency: str
    years: int | None = None
    """For how many years it is paid, maintenance included."""
    per: str | None = None
    """What it is multiplied with: `core and year`."""
    sockets: int | None = None
    cores: int | None = None


class PublishedTarget(_About):
    """What was measured."""

    hardware: str | None = None
    hardware_price: Price | None = None
    subscription: Price | None = None


class Source(_About):
    """Where figures are from."""

    title: str
    publisher: str
    source: str | None = None
    """Address, where it is known."""
    language: str
    measured: str | None = None
    """When: year and month, as far as it is told."""
    postgresql: str
    tool: str
    licence: str | None = None
    notes: list[str] = Field(default_factory=list)
    """What a reader must know of the figures, and what is wrong with them."""
    target: dict[str, PublishedTarget]


@dataclass(frozen=True, slots=True)
class Published:
    """A set of published figures."""

    name: str
    source: Source
    rows: list[dict[str, str | float]] = field(repr=False)
    """One a measurement, by column; what was not told is absent."""


def published_names() -> list[str]:
    """Names of the sets, sorted."""
    names = (file.name for file in resources.files(_PACKAGE).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def published(name: str) -> Published:
    """The set `name`. Raises KeyError when there is none."""
    folder = resources.files(_PACKAGE)
    about = folder.joinpath(f"{name}.toml")
    if name not in published_names():
        raise KeyError(name)
    source = Source.model_validate(tomllib.loads(about.read_text(encoding="utf-8")))
    lines = folder.joinpath(f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return Published(name, source, [_row(row) for row in csv.DictReader(lines)])


def _row(row: dict[str, Any]) -> dict[str, str | float]:
    return {name: text if name in WORDS else float(text) for name, text in row.items() if text != ""}
