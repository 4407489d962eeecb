"""The entries of a log of text (stderr), each in one line, and which of them may not be whole.

PostgreSQL begins each line that continues an entry with a tab. What passes a log on may turn tabs into spaces, remove
lines, shorten them, or mix those of several processes.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from pgdyno.capture.logs.log_prefix import LinePrefix, without_groups

NEWLINE, PART, RETURN = "\x01", "\x02", "\x03"
"""Stand for a newline within an entry, the beginning of another part of it, and a carriage return."""
_LIMITS = frozenset(
    limit - less for limit in (1024, 2048, 4096, 8192, 10_000, 16_384, 32_768, 49_152, 65_536, 131_072, 262_118,
                               262_144, 1_048_576) for less in (0, 1)
)  # fmt: skip
"""Bytes of the longest line that programs which pass logs on leave whole, with and without the newline."""


class Doubt(StrEnum):
    """Why an entry may not be what the server logged."""

    BLANKS = "blanks"
    """Its lines are whole, but not the tabs and spaces at their beginnings and ends."""
    CUT = "cut"


def join_entry_lines(text: str, prefix: LinePrefix) -> str:
    """Return `text` with each line that a tab continues, and each further part of an entry, on the entry's line."""
    text = text.translate({1: " ", 2: " ", 3: " "}) if re.search("[\x01-\x03]", text) else text
    text = text.replace("\r", RETURN).replace("\n\t", NEWLINE)
    return re.sub(rf"\n{prefix.other_line()}", rf"{PART}\1:", text)


def judge_entries(
    entries: Sequence[str], prefix: LinePrefix, *, has_tabs: bool, is_end: bool
) -> Iterator[tuple[str, Doubt | None]]:
    """Yield each of `entries` in one line, and whether it may not be whole.

    `has_tabs` if the log has lines that begin with a tab, `is_end` if the file ends with the last entry.
    """
    head = re.compile(without_groups(prefix.first_line()))
    inner = re.compile(f"[^\n{NEWLINE}{PART}]{head.pattern}")
    longest = max((len(line.encode()) for line in _longest_lines(entries)), default=0)
    limit = longest if longest in _LIMITS else None
    for number, entry in enumerate(entries, 1):
        each, doubt = _one_line(entry, has_tabs) if "\n" in entry else (entry, None)
        is_cut = (
            # what follows may be missing where the file ends, and the last line may be half
            (is_end and number == len(entries))
            # several processes wrote at once
            or (each.count(":  ") > 1 and (begin := head.match(each)) and inner.search(each, begin.end() - 1))
            or (limit and 4 * len(each) > limit and any(len(line.encode()) == limit for line in _lines(each)))
        )
        yield each, Doubt.CUT if is_cut else doubt


def _one_line(entry: str, has_tabs: bool) -> tuple[str, Doubt | None]:
    first, *others = entry.rstrip().split("\n")
    if not others:
        return first, None
    # a blank line before one with a tab
    lines = [line for line in others if line.strip() and not line.startswith((NEWLINE, PART))]
    if any(line[0] != " " for line in lines) or (lines and (has_tabs or NEWLINE in entry)):
        # another program wrote into the log, or a tab was removed
        return first, Doubt.CUT
    return NEWLINE.join([first, *others]), Doubt.BLANKS


def _longest_lines(entries: Sequence[str]) -> Iterator[str]:
    """Yield the lines that may be the longest in bytes."""
    most = 0
    for entry in entries:
        if 4 * len(entry) > most:
            for line in _lines(entry):
                if 4 * len(line) > most:
                    most = max(most, len(line))
                    yield line


def _lines(entry: str) -> Iterator[str]:
    for number, line in enumerate(re.split(f"[\n{NEWLINE}{PART}]", entry)):
        yield line if number == 0 else f"\t{line}"
