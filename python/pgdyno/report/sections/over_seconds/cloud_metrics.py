"""Figures from the provider of a rented server as strips of the timeline, drawn as they are, on page and paper."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.records import TrialRecord
from pgdyno.records.probe import WAIT_CLASSES, wait_class
from pgdyno.report import numbers
from pgdyno.report.report_content import ProbeSamples
from pgdyno.report.translation import gettext, gettext_noop, ngettext
from pgdyno.store.probe_queries import WaitStep

Values = Sequence[float | None]
FIGURES_A_STEP = 12
"""Approximate number of steps per trial."""


@dataclass(frozen=True, slots=True)
class _Shown:
    title: str
    unit: str
    lines: Mapping[str, str]
    factor: float = 1.0
    high: float | None = None


_STRIPS = (
    _Shown(
        gettext_noop("Processors (provider's metrics, by the minute): {range} % busy"),
        "%",
        {"cpu": gettext_noop("processors, %")},
        100,
        high=100,
    ),
    _Shown(
        gettext_noop("Storage (provider's metrics, by the minute): {range} requests a second"),
        "",
        {"reads": gettext_noop("reads"), "writes": gettext_noop("writes")},
    ),
    _Shown(
        gettext_noop("Storage and network (provider's metrics, by the minute): {range} MB a second"),
        "MB/s",
        {
            "read": gettext_noop("read"),
            "written": gettext_noop("written"),
            "received": gettext_noop("received"),
            "sent": gettext_noop("sent"),
        },
        1e-6,
    ),
    _Shown(
        gettext_noop("Storage (provider's metrics, by the minute): {range} ms a request"),
        "ms",
        {
            "read_latency": gettext_noop("read, ms"),
            "write_latency": gettext_noop("write, ms"),
            "volume_read_latency": gettext_noop("read, ms"),
            "volume_write_latency": gettext_noop("write, ms"),
        },
    ),
    _Shown(
        gettext_noop("Storage (provider's metrics, by the minute): {range} requests wait"),
        "",
        {"queue": gettext_noop("requests that wait"), "volume_queue": gettext_noop("requests that wait")},
    ),
    _Shown(
        gettext_noop("Burst credits (provider's metrics, by the minute): {range} % left"),
        "%",
        {
            "storage_burst": gettext_noop("volume, %"),
            "volume_burst": gettext_noop("volume, %"),
            "ebs_io_burst": gettext_noop("requests of the instance, %"),
            "ebs_byte_burst": gettext_noop("bytes of the instance, %"),
        },
        100,
        high=100,
    ),
)


def rented_count(trials: Sequence[TrialRecord]) -> int:
    """Return the number of trials that may have such strips."""
    return sum(trial.network_path is not None and trial.network_path.instance is not None for trial in trials)


def range_words(values: Values) -> str:
    """Return the lowest and highest of `values`: `3 to 7`."""
    there = [value for value in values if value is not None]
    if not there:
        return gettext("nothing")
    low, high = numbers.round_text(min(there)), numbers.round_text(max(there))
    return low if low == high else gettext("{low} to {high}", low=low, high=high)


@dataclass(frozen=True, slots=True)
class CloudStrip:
    """A strip of the page's timeline; the page's script knows these names."""

    title: str
    unit: str
    lines: Mapping[str, Values]
    gaps: Sequence[Sequence[int]]
    """Ranges of steps without data."""
    stack: bool = False
    high: float | None = None
    """Upper end of the axis, if fixed."""
    n: str | None = None
    """Sample size, if it is not one per step."""


def cloud_strips(samples: ProbeSamples, count: int, skip: int) -> list[CloudStrip]:
    """Return the strips of a trial of `count` steps, of which `skip` are warm-up; none without data."""
    return [*_load(samples.load, count, skip), *_minutes(samples, count, skip)]


def _minutes(samples: ProbeSamples, count: int, skip: int) -> Iterator[CloudStrip]:
    told: dict[tuple[str, str], list[float | None]] = {}
    for each in samples.minutes:
        if each.step < count:
            told.setdefault((each.metric, each.label), [None] * count)[each.step] = each.value
    for shown in _STRIPS:
        lines = {
            f"{volume}: {gettext(name)}" if volume else gettext(name): [
                None if value is None else shown.factor * value for value in values
            ]
            for metric, name in shown.lines.items()
            for (of, volume), values in told.items()
            if of == metric
        }
        if lines:
            there = sum(any(value is not None for value in step) for step in zip(*lines.values(), strict=True))
            minutes = math.ceil(there * samples.step_s / 60)
            every = [value for values in lines.values() for value in values[skip:]]
            yield CloudStrip(
                gettext(shown.title, range=range_words(every)),
                shown.unit,
                lines,
                _gaps([any(value is not None for value in step) for step in zip(*lines.values(), strict=True)]),
                high=shown.high,
                n=ngettext("n = {count:,} minute", "n = {count:,} minutes", minutes),
            )


def _load(load: Sequence[WaitStep], count: int, skip: int) -> Iterator[CloudStrip]:
    lines: dict[str, list[float]] = {}
    known = [False] * count
    for each in load:
        if each.step >= count:
            continue
        known[each.step] = True
        if each.wait_type:
            lines.setdefault(wait_class(each.wait_type, each.wait), [0.0] * count)[each.step] += each.sessions
    if lines:
        most = max(lines, key=lambda name: sum(lines[name][skip:]))
        title = gettext("Active sessions (provider's samples): most in {wait}", wait=gettext(most))
        shown: dict[str, Values] = {
            name: [value if there else None for value, there in zip(lines[name], known, strict=True)]
            for name in WAIT_CLASSES
            if name in lines
        }
        yield CloudStrip(title, "", shown, _gaps(known), stack=True)


def _gaps(known: Sequence[bool]) -> list[list[int]]:
    found: list[list[int]] = []
    for at, there in enumerate(known):
        if not there and found and found[-1][1] == at:
            found[-1][1] = at + 1
        elif not there:
            found.append([at, at + 1])
    return found
