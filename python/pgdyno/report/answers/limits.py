"""What limited each trial according to the probe: in a word, in a sentence, in a table of all."""

from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.records.probe import wait_class
from pgdyno.report import numbers
from pgdyno.report.numbers import NOTHING
from pgdyno.report.report_content import Digest, median_trial
from pgdyno.report.table import Table
from pgdyno.report.translation import gettext, gettext_each, gettext_noop
from pgdyno.store.probe_queries import ProbeAverages

BUSY = 0.85
"""Share of the host's CPU time from which on the host counts as busy."""
DISK_FULL = 0.9
"""Share of a disk's time with a request in flight, from which on the disk counts as busy."""
MUCH_STEAL = 0.05
MOST = 0.5
"""Share of active sessions that counts as most of them."""


@dataclass(frozen=True, slots=True)
class Limit:
    word: str
    """`CPU`, `WAL`; `unknown`."""
    about: str
    """The figures behind it."""


NOTHING_ALONE = gettext_noop("none found")
NOT_KNOWN = gettext_noop("unknown")


def limit_of(seen: ProbeAverages | None) -> Limit:
    """Return what most active sessions of the measured part did, and whether the host was busy."""
    if seen is None:
        return Limit(gettext(NOT_KNOWN), gettext("no probe"))
    shares = _shares(seen)
    word, about = _word(seen, shares), []
    chief = max(shares, key=lambda name: shares[name], default=None)
    # sessions are sampled more often between two statements than in one: a busy host contradicts them, and decides
    if chief is not None and not (word == "CPU" and chief == "Client"):
        top = next(wait or kind for kind, wait, _ in seen.waits if wait_class(kind, wait) == chief)
        share = _percent(shares[chief])
        if chief == "CPU":
            about.append(gettext("{share} of active sessions on CPU", share=share))
        else:
            about.append(gettext("{share} of active sessions waiting: {wait}", share=share, wait=top))
    if seen.cpu is not None:
        about.append(gettext("host {share} busy", share=_percent(seen.cpu)))
    if seen.steal is not None and seen.steal >= MUCH_STEAL:
        about.append(gettext("{share} of its time stolen", share=_percent(seen.steal)))
    if seen.disk_utilisation is not None and seen.disk_utilisation >= MOST:
        about.append(gettext("disk {share} busy", share=_percent(seen.disk_utilisation)))
    return Limit(gettext(word), gettext(", ").join(about) or gettext("no active session in the probe's samples"))


def _word(seen: ProbeAverages, shares: Mapping[str, float]) -> str:
    chief = max(shares, key=lambda name: shares[name], default=None)
    if seen.steal is not None and seen.steal >= MUCH_STEAL:
        return gettext_noop("steal")
    if chief not in (None, "CPU", "Client") and shares[chief or ""] >= MOST:
        return chief or ""
    if seen.cpu is not None and seen.cpu >= BUSY:
        return "CPU"
    if seen.disk_utilisation is not None and seen.disk_utilisation >= DISK_FULL:
        return gettext_noop("disk")
    if chief == "Client" and shares[chief] >= MOST:
        return gettext_noop("clients")
    return NOTHING_ALONE if chief is not None else NOT_KNOWN


def _shares(seen: ProbeAverages) -> dict[str, float]:
    total = sum(sessions for _, _, sessions in seen.waits)
    shares: dict[str, float] = {}
    for kind, wait, sessions in seen.waits:
        if total:
            of = wait_class(kind, wait)
            shares[of] = shares.get(of, 0.0) + sessions / total
    return shares


def limits_table(of: Digest, seen_in: Mapping[int, ProbeAverages]) -> Table | None:
    """Return a row per point, of its trial of median throughput; None without a probe."""
    points = [(of.point_name(point), median_trial(of, point).number) for point in of.points if point.finished]
    rows = tuple(_row(name, seen_in[number]) for name, number in points if number in seen_in)
    caption = gettext("In the probe's samples of the server, in the median trial of each point")
    headings = (
        *gettext_each("point", "limited by", "top wait"),
        "CPU, %",
        "steal, %",
        gettext("active"),
        "WAL, MB/s",
        "disk, %",
    )
    return Table(caption, headings, rows, 3, (0, 0, 1, 0, 2, 0, 0, 0)) if rows else None


def _row(point: str, seen: ProbeAverages) -> tuple[str, ...]:
    top = NOTHING
    if seen.waits:
        kind, wait, sessions = seen.waits[0]
        top = f"{kind}:{wait}" if wait else kind
        top += f" {numbers.round_text(sessions, 2)}"
    word = limit_of(seen).word
    return (
        point,
        NOTHING if word in (gettext(NOTHING_ALONE), gettext(NOT_KNOWN)) else word,
        top,
        *(NOTHING if share is None else f"{share * 100:.0f}" for share in (seen.cpu, seen.steal)),
        numbers.round_text(sum(each for _, _, each in seen.waits), 2) if seen.waits else NOTHING,
        numbers.round_or_dash(seen.wal_bytes_per_s, 1e6),
        NOTHING if seen.disk_utilisation is None else f"{seen.disk_utilisation * 100:.0f}",
    )


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
