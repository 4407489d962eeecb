"""Searches the archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from pgdyno.errors import UsageError
from pgdyno.live.entry import Entry, started


@dataclass(frozen=True, slots=True)
class Search:
    """A search; empty fields match everything."""

    text: str = ""
    """Words that must all occur: in names, machine, settings, notes."""
    workload: str = ""
    version: str = ""
    """A server version, or its beginning up to a point: 18 matches any 18."""
    fingerprint: str = ""
    since: str = ""
    """A date, as YYYY-MM-DD in UTC, inclusive."""
    until: str = ""

    @classmethod
    def of(cls, asked: Mapping[str, str]) -> Search:
        """Parse the parameters of an address. Raises UsageError for an invalid date."""
        search = cls(
            text=asked.get("q", "").strip(),
            workload=asked.get("workload", ""),
            version=asked.get("version", ""),
            fingerprint=asked.get("fingerprint", "").strip().lower(),
            since=asked.get("since", "").strip(),
            until=asked.get("until", "").strip(),
        )
        _day(search.since)
        _day(search.until)
        return search

    def found(self, entries: Iterable[Entry]) -> list[Entry]:
        """Return matching `entries` in order."""
        words = self.text.lower().split()
        since, until = _day(self.since), _day(self.until)
        return [each for each in entries if self._fits(each, words) and _within(each, since, until)]

    def _fits(self, entry: Entry, words: list[str]) -> bool:
        if self.workload and entry.workload != self.workload:
            return False
        if self.version and not any(f"{each}.".startswith(f"{self.version}.") for each in entry.versions):
            return False
        if not entry.fingerprint.startswith(self.fingerprint):
            return False
        found_by = entry.found_by if words else ""
        return all(word in found_by for word in words)


def _within(entry: Entry, since: date | None, until: date | None) -> bool:
    if since is None and until is None:
        return True
    began = started(entry)
    if began is None:
        return False
    day = began.date()
    return (since is None or day >= since) and (until is None or day <= until)


def _day(text: str) -> date | None:
    if not text:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a date", hint="write it as 2026-11-21") from error
