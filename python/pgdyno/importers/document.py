"""A document with prose and many outputs: each output with its place, its target, and what was left unread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pgdyno.importers import tables
from pgdyno.importers.claims import claims_in
from pgdyno.importers.facts import facts_in
from pgdyno.importers.found import Claim, Fact, Output, Unread
from pgdyno.importers.hammerdb import HammerdbParser
from pgdyno.importers.pgbench import PgbenchParser
from pgdyno.importers.sysbench import SysbenchParser

_HEADING = re.compile(
    r"^\s*(?:#{1,6}\s+(?P<hash>.+?)\s*#*|\[(?P<bracket>[^\]()]+)\](?:\s*-.*)?|"
    r"(?P<numbered>\d{1,2}(?:\.\d{1,2})+\.? [^\W\d].*?))\s*$"
)
_FIGURES = re.compile(r"\b\d[\d.,]*\s*(?:tps|tpm|nopm|qps|ms)\b|\b(?:tps|tpm|nopm|qps)\s*[:=]?\s*\d", re.IGNORECASE)
"""Lines that speak of figures: told as unread when no parser took them."""
_LONGEST_HEADING = 100


@dataclass(slots=True)
class Document:
    """What a document holds."""

    outputs: list[Output] = field(default_factory=list)
    """In the order of their lines."""
    claims: list[Claim] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)


def read_document(text: str) -> Document:
    """Everything in `text` that is an output of a known tool, a table of figures or an equation."""
    lines = text.splitlines()
    reader = _Reader(lines)
    line = 0
    while line < len(lines):
        line += reader.take(line)
    return reader.done()


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._pgbench, self._sysbench, self._hammerdb = PgbenchParser(), SysbenchParser(), HammerdbParser()
        self._tabled: list[Output] = []
        self._document = Document()
        self._headings: list[tuple[int, str]] = []
        self._sweep: list[str] | None = None
        self._sweep_from = 0

    def take(self, at: int) -> int:
        """Reads what begins at index `at`; how many lines that was."""
        text, line = self._lines[at], at + 1
        self._document.facts += facts_in(text, line)
        table = self._table(at)
        if table:
            return table
        if self._sweep_line(text, line):
            return 1
        claims = claims_in(text, line)
        self._document.claims += claims
        told = None if claims else tables.in_prose(text, line)
        if told is not None:
            self._name([told], line)
            self._tabled.append(told)
            return 1
        heading = _HEADING.match(text)
        if heading is not None and len(text) <= _LONGEST_HEADING and not self._is_prompt(text, heading):
            self._end_all()
            self._headings.append((line, (heading["hash"] or heading["bracket"] or heading["numbered"]).strip()))
            return 1
        # all of them see every line: one that is not theirs ends what they have open
        taken = [parser.read(text, line) for parser in (self._pgbench, self._sysbench, self._hammerdb)]
        if not any(taken) and not claims and _FIGURES.search(text):
            self._document.unread.append(Unread(line, text.strip()))
        return 1

    def done(self) -> Document:
        self._end_all()
        found = [*self._pgbench.found, *self._sysbench.found, *self._hammerdb.found, *self._tabled]
        self._document.outputs = sorted(found, key=lambda output: (output.line, output.last_line))
        for output in self._document.outputs:
            output.target = output.target or self._heading_above(output.line)
        return self._document

    def _table(self, at: int) -> int:
        window = [(number, self._lines[number - 1]) for number in range(at + 1, min(len(self._lines), at + 400) + 1)]
        for read in (tables.by_scale, tables.by_target):
            found = read(window)
            if found is not None:
                outputs, taken = found
                for output in outputs:
                    output.group = at + 1
                self._name(outputs, at + 1)
                self._tabled += outputs
                return taken
        return 0

    def _name(self, outputs: Sequence[Output], line: int) -> None:
        heading = self._heading_above(line)
        for output in outputs:
            if heading is not None:
                output.words.setdefault("heading", heading)
            instance = self._instance_above(line)
            if instance is not None:
                output.words.setdefault("host", instance)

    def _sweep_line(self, text: str, line: int) -> bool:
        header = tables.sweep_header(text)
        if header is not None:
            self._sweep, self._sweep_from = header, line
            return True
        if self._sweep is None:
            return False
        row = tables.sweep_row(text, self._sweep, line)
        if row is None:
            self._sweep = None
            return False
        row.group = self._sweep_from
        self._tabled.append(row)
        return True

    def _heading_above(self, line: int) -> str | None:
        above = [text for at, text in self._headings if at < line]
        return above[-1] if above else None

    def _instance_above(self, line: int) -> str | None:
        """A machine's type in the lines between the heading and a table: `r5.2xlarge`."""
        start = max((at for at, _ in self._headings if at < line), default=1)
        for text in self._lines[start - 1 : line - 1]:
            found = re.search(r"\b(?:db\.)?[a-z]\d[a-z]{0,3}\.\d*x?(?:large|medium|small|micro|metal)\b", text)
            if found is not None:
                return found[0]
        return None

    def _is_prompt(self, text: str, heading: re.Match[str]) -> bool:
        """`[root@host ~]# pgbench` is no heading, nor is `2.5 ms`."""
        return "@" in text or (heading["numbered"] is not None and _FIGURES.search(text) is not None)

    def _end_all(self) -> None:
        for parser in (self._pgbench, self._sysbench, self._hammerdb):
            parser.end()
