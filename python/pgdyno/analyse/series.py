"""Which points belong to one curve: all that differ in clients only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgdyno.records import Point, TrialRecord


@dataclass(frozen=True, slots=True)
class Series:
    """A target, and every parameter of the sweep but the clients."""

    target: str
    workers: int | None = None
    protocol: str = "simple"
    scale: int | None = None

    @classmethod
    def of(cls, target: str, point: Point) -> Series:
        """The series that `point` of `target` lies on."""
        return cls(target, point.workers, point.protocol, point.scale)

    def parameters(self) -> dict[str, str]:
        """Parameters other than the target, as text, those that the plan leaves open left out."""
        parameters = {"protocol": self.protocol}
        if self.scale is not None:
            parameters["scale"] = str(self.scale)
        if self.workers is not None:
            parameters["workers"] = str(self.workers)
        return parameters


def series_in_order(targets: Sequence[str], trials: Iterable[TrialRecord]) -> list[Series]:
    """Every series of `trials`, each once: targets in the given order, the rest as they first came."""
    seen = list(dict.fromkeys(Series.of(trial.target, trial.point) for trial in trials))
    place = {name: at for at, name in enumerate(targets)}
    return sorted(seen, key=lambda series: place.get(series.target, len(place)))


def varying(all_series: Sequence[Series]) -> list[str]:
    """Names of the parameters that differ between `all_series`, `target` among them, in reading order."""
    names = ("target", "protocol", "scale", "workers")
    return [name for name in names if len({getattr(series, name) for series in all_series}) > 1]


def label(series: Series, names: Sequence[str]) -> str:
    """What tells `series` from the others: `pg18, prepared, scale 10`; the target when `names` is empty."""
    parts = [series.target] if "target" in names or not names else []
    for name in names:
        if name == "protocol":
            parts.append(series.protocol)
        elif name in ("scale", "workers"):
            value = getattr(series, name)
            counted = "worker" if name == "workers" and value == 1 else name
            parts.append(f"{name} by default" if value is None else _counted(counted, value))
    return ", ".join(parts)


def _counted(name: str, value: int) -> str:
    return f"{value} {name}" if name.startswith("worker") else f"{name} {value}"
