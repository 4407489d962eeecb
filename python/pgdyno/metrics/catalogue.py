"""What the probe's metrics are called in OpenMetrics: with their unit in the name, in base units.

Kinds and units come from `pgprobe --describe`, so that what a newer probe samples is there, too.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.errors import EngineError
from pgdyno.programs import locate

PREFIX = "pgdyno"
_UNITS: Mapping[str, tuple[str, float]] = {
    "bytes": ("bytes", 1.0),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "share": ("ratio", 1.0),
    "MHz": ("hertz", 1e6),
}
"""Base unit of each of the probe's, and what leads to it; counts have none."""
_ROW = re.compile(r"\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<unit>[^|]*) \| (?P<meaning>.*) \|")
_AS_READ = re.compile(r"[^a-zA-Z0-9_]")
VOLATILE = frozenset({"activity", "state", "phase"})
"""Labels that change while what they belong to stays: they would tear its line apart."""
Lasting = tuple[tuple[str, str], ...]


def lasting(labels: Mapping[str, Any]) -> Lasting:
    """The probe's labels that tell one line from another."""
    return tuple(sorted((name, str(each)) for name, each in labels.items() if name not in VOLATILE))


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family."""

    name: str
    """With its unit, without `_total`."""
    type: Literal["counter", "gauge", "unknown"]
    unit: str
    factor: float
    """From the probe's unit."""
    help: str


class Catalogue:
    """Families of the probe's metrics."""

    def __init__(self, described: str) -> None:
        """`described` is what `pgprobe --describe` prints."""
        self._families: dict[tuple[str, str], Family] = {}
        for part in described.split("### ")[1:]:
            source, _, table = part.partition("\n")
            for row in _ROW.finditer(table):
                key = (source.strip(), row["name"])
                self._families[key] = _family(*key, row["kind"], row["unit"].strip(), row["meaning"])

    def family(self, source: str, metric: str) -> Family:
        """That of a metric; one that the probe does not know (any more) is of unknown type."""
        known = self._families.get((source, metric))
        name = _AS_READ.sub("_", f"{PREFIX}_{source}_{metric}")
        return known or Family(name, "unknown", "", 1.0, f"{source}, {metric}")

    def all(self) -> list[Family]:
        """All families, in the reference's order."""
        return list(self._families.values())


def read_catalogue() -> Catalogue:
    """The catalogue of the installed probe. Raises EngineError."""
    program = locate("pgprobe", "PGDYNO_PGPROBE", "the probe")
    try:
        done = subprocess.run(
            [program, "--describe"], capture_output=True, encoding="utf-8", errors="replace", check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{program} cannot say what its metrics are: {error}") from error
    return Catalogue(done.stdout)


def _family(source: str, metric: str, kind: str, unit: str, meaning: str) -> Family:
    base, factor = _UNITS.get(unit, ("", 1.0))
    # `_total` at the end is a counter's
    name = f"{PREFIX}_{source}_{metric}".removesuffix("_total")
    if base and not name.endswith(f"_{base}"):
        name = f"{name}_{base}"
    return Family(name, "counter" if kind == "amount" else "gauge", base, factor, f"{meaning} (probe: {source})")
