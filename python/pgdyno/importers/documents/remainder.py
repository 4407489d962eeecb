"""What no reader took: lines that look like figures, and why an output or a table is not a result."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.documents.blocks import LONGEST_LINE
from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.documents.text_tables import MOST_ROWS
from pgdyno.importers.parsed import Output, Unread, looks_like_figure
from pgdyno.messages import Message

LONGEST_SHOWN = 400
"""Characters of an unread line that are kept."""
_UNITS = re.compile(r"\b(?:tps|tpmc?|nopm|qps|latency)\b", re.IGNORECASE)
# ends of a line after which the tool prints more: the kind of a rate in parentheses, two decimals or a unit, JSON
_CUT = {
    "pgbench": re.compile(r"\btps = [\d.,]*$"),
    "sysbench": re.compile(r"[:/]\s*\d+(?:\.\d?)?$"),
    "benchbase": re.compile(r'":\s*-?\d[\d.eE+-]*$'),
}


class Remainder:
    def __init__(self) -> None:
        self.unread: list[Unread] = []

    def list_line(self, line: int, text: str) -> None:
        """List a line that no reader took if it looks like a figure, or is a row of a table with a unit."""
        is_row = ("|" in text or "\t" in text) and _UNITS.search(text) and any(each.isdigit() for each in text)
        if is_row or looks_like_figure(text):
            self.unread.append(Unread(line, text.strip()[:LONGEST_SHOWN]))

    def list_invalid(self, line: int, text: str, why: Exception) -> None:
        shown = text.strip()[:LONGEST_SHOWN]
        self.unread.append(Unread(line, Message("line-invalid", "{line} ({why})", line=shown, why=str(why))))

    def list_too_long(self, line: int, text: str) -> None:
        why = Message(
            "line-too-long",
            "a line of {characters:,} characters, longer than the limit of {most:,}: {beginning}…",
            characters=len(text),
            most=LONGEST_LINE,
            beginning=without_passwords(text[:LONGEST_SHOWN])[:60],
        )
        self.unread.append(Unread(line, why))

    def list_rows_from(self, line: int) -> None:
        """List the rows of a table that follow the last one that is read."""
        why = Message(
            "table-too-long",
            "the table has more than {most:,} rows: from here on, they are not read; give the rest a heading",
            most=MOST_ROWS,
        )
        self.unread.append(Unread(line, why))

    def take_cut(self, outputs: list[Output], lines: Sequence[str]) -> None:
        """Move an output to the unread ones if the file ends within its last figure, which is then too small."""
        last, end = len(lines), lines[-1].rstrip("`* \t")
        for at, output in enumerate(outputs):
            ends_here = any(line == last for line, _ in output.printed.values())
            if not ends_here or output.tool not in _CUT or not _CUT[output.tool].search(end):
                continue
            # someone may have shown the rate alone; up to version 13, pgbench printed two
            is_second = any(
                each is not output and each.tool == "pgbench" and each.printed["tps"][0] == last - 1 for each in outputs
            )
            if output.tool != "pgbench" or "workload" in output.printed or is_second:
                del outputs[at]
                shown = lines[-1].strip()[:100]
                cut = Message("figure-cut", "no result: the file ends within this figure: {line}", line=shown)
                self.unread.append(Unread(last, cut))
                return
