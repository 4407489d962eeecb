"""OpenMetrics names of the probe's metrics: with their unit in the name, in base units.

Kinds and units come from `pgprobe --describe`, so that a newer probe's metrics are included.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pgdyno.errors import EngineError
from pgdyno.programs import ask, locate

PREFIX = "pgdyno"
_UNITS: Mapping[str, tuple[str, float]] = {
    "bytes": ("bytes", 1.0),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "share": ("ratio", 1.0),
    "MHz": ("hertz", 1e6),
}
"""OpenMetrics unit of each of the probe's, with the factor; counts have none."""
_ROW = re.compile(r"\| `(?P<name>\w+)` \| (?P<kind>\w+) \| (?P<unit>[^|]*) \| (?P<meaning>.*) \|")
_AS_READ = re.compile(r"[^a-zA-Z0-9_]")
VOLATILE = frozenset({"activity", "state", "phase"})
"""Labels whose values change during the life of an object: they would split its time series."""
Lasting = tuple[tuple[str, str], ...]


def lasting_labels(labels: Mapping[str, Any]) -> Lasting:
    """Return the probe's labels that identify a time series."""
    return tuple(sorted((name, str(each)) for name, each in labels.items() if name not in VOLATILE))


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    """The name includes the unit, but not `_total`."""
    type: Literal["counter", "gauge", "unknown"]
    unit: str
    factor: float
    """Converts from the probe's unit."""
    help: str


class Catalogue:
    def __init__(self, described: str) -> None:
        """`described` is the output of `pgprobe --describe`."""
        self._families: dict[tuple[str, str], Family] = {}
        for part in described.split("### ")[1:]:
            source, _, table = part.partition("\n")
            for row in _ROW.finditer(table):
                key = (source.strip(), row["name"])
                self._families[key] = _family(*key, row["kind"], row["unit"].strip(), row["meaning"])

    def family(self, source: str, metric: str) -> Family:
        """Return the family of a metric; a metric unknown to the probe has type unknown."""
        known = self._families.get((source, metric))
        name = _AS_READ.sub("_", f"{PREFIX}_{source}_{metric}")
        return known or Family(name, "unknown", "", 1.0, f"{source}, {metric}")

    def families(self) -> list[Family]:
        return list(self._families.values())


def read_catalogue() -> Catalogue:
    """Return the catalogue of the installed probe. Raises EngineError."""
    program = locate("pgprobe", "PGDYNO_PGPROBE", "the probe")
    try:
        done = ask([program, "--describe"])
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"{program} cannot describe its metrics: {error}") from error
    return Catalogue(done.stdout)


def _family(source: str, metric: str, kind: str, unit: str, meaning: str) -> Family:
    base, factor = _UNITS.get(unit, ("", 1.0))
    # `_total` at the end is reserved for counters
    name = f"{PREFIX}_{source}_{metric}".removesuffix("_total")
    if base and not name.endswith(f"_{base}"):
        name = f"{name}_{base}"
    return Family(name, "counter" if kind == "amount" else "gauge", base, factor, f"{meaning} (probe: {source})")
