"""Published figures as reference data.

Each set is two files of this package: a table with the columns of `COLUMNS`, and its source. Figures are as printed
there, including errors; the notes say what is known to be wrong.
"""

import csv
import tomllib
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

_PACKAGE = "pgdyno.published"

COLUMNS = {
    "target": "what was measured",
    "workload": "the script, by pgdyno's name if pgdyno has it",
    "scale": "pgbench's scale",
    "warehouses": "TPC-C's scale",
    "clients": "concurrent sessions",
    "workers": "threads of the generator",
    "protocol": "simple, extended or prepared",
    "connections": "including or excluding connection time: which of pgbench's two figures is given",
    "checkpoints": "a word of the source for its checkpoint settings",
    "duration_s": "seconds measured",
    "transactions_per_client": "transactions requested per client",
    "transactions": "counted transactions",
    "reads": "statements that read",
    "writes": "statements that write",
    "others": "BEGIN, COMMIT and the like",
    "errors": "errors that the generator ignored",
    "tps": "transactions per second",
    "tps_excluding_connections": "transactions per second, excluding connection time",
    "qps": "statements per second",
    "tpm": "transactions per minute as the server counts them",
    "latency_mean_ms": "milliseconds",
    "latency_stddev_ms": "milliseconds",
    "latency_min_ms": "milliseconds",
    "latency_max_ms": "milliseconds",
    "latency_p95_ms": "milliseconds",
    "latency_p99_ms": "milliseconds",
}
"""The meaning of each column; a column `variables.NAME` is a script's variable."""

WORDS = frozenset({"target", "workload", "protocol", "connections", "checkpoints"})
"""Columns of text; all others are numbers."""


class _About(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


class Price(_About):
    amount: float = Field(gt=0)
    currency: str
    years: int | None = None
    """The period of the price, including maintenance."""
    per: str | None = None
    """The unit that the price is multiplied with: `core and year`."""
    sockets: int | None = None
    cores: int | None = None


class PublishedTarget(_About):
    hardware: str | None = None
    hardware_price: Price | None = None
    subscription: Price | None = None


class Source(_About):
    title: str
    publisher: str
    source: str | None = None
    """Address, if known."""
    language: str
    measured: str | None = None
    """Year and month of the measurement, if known."""
    postgresql: str
    tool: str
    licence: str | None = None
    notes: list[str] = []
    """What a reader must know about the figures, including known errors."""
    target: dict[str, PublishedTarget]


@dataclass(frozen=True, slots=True)
class Published:
    name: str
    source: Source
    rows: list[dict[str, str | float]] = field(repr=False)
    """One per measurement, by column; unreported values are absent."""


def published_names() -> list[str]:
    names = (file.name for file in resources.files(_PACKAGE).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def published(name: str) -> Published:
    """Return the set `name`. Raises KeyError if there is none."""
    folder = resources.files(_PACKAGE)
    about = folder.joinpath(f"{name}.toml")
    if name not in published_names():
        raise KeyError(name)
    source = Source.model_validate(tomllib.loads(about.read_text(encoding="utf-8")))
    lines = folder.joinpath(f"{name}.csv").read_text(encoding="utf-8").splitlines()
    return Published(name, source, [_row(row) for row in csv.DictReader(lines)])


def _row(row: dict[str, Any]) -> dict[str, str | float]:
    return {name: text if name in WORDS else float(text) for name, text in row.items() if text != ""}
