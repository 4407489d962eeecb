"""Parses a document of prose and many outputs: each output with its context and its target, and the unread lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.documents import text_tables
from pgdyno.importers.documents.command_lines import facts_in
from pgdyno.importers.documents.context import LONGEST_LINE, Context, claims_in, cleaned, fence, joined
from pgdyno.importers.documents.html_tables import without_html_tables
from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.documents.published_rows import trials_of_grid, units_in
from pgdyno.importers.documents.text_tables import grid_at, is_rule, names_figures
from pgdyno.importers.formats import OUTPUTS
from pgdyno.importers.parsed import Document, Output, Unread, looks_like_figure
from pgdyno.messages import Message

_UNITS = re.compile(r"\b(?:tps|tpmc?|nopm|qps|latency)\b", re.IGNORECASE)
_QUOTED = re.compile(r"`[^`]{1,400}\s-[^`]{1,400}`")
MOST_TRIES = 16
"""Tables to try in one block of lines with bars or tabs: otherwise the time would grow by the square."""
LONGEST_SHOWN = 400
"""Characters of an unread line that are kept."""


def read_document(text: str) -> Document:
    """Return everything in `text` that is an output of a known tool, a table of figures or an equation."""
    # tags and entities may stand within a password
    raw = without_html_tables(text).splitlines()
    lines = [without_passwords(cleaned(line)) if len(line) <= LONGEST_LINE else line for line in raw]
    reader = _Reader(lines)
    line = 0
    while line < len(lines):
        try:
            line += reader.take(line)
        except (ValueError, IndexError, OverflowError) as error:
            # an invalid number in a tool's output
            reader.leave(line, error)
            line += 1
    document = reader.done()
    if text and text[-1] not in "\r\n":
        _leave_cut(document, lines)
    return document


_CUT = {
    "pgbench": re.compile(r"\btps = [\d.,]*$"),
    "sysbench": re.compile(r"[:/]\s*\d+(?:\.\d?)?$"),
    "benchbase": re.compile(r'":\s*-?\d[\d.eE+-]*$'),
}
"""Ends of a line after which the tool prints more: the kind of a rate in parentheses, two decimals or a unit, JSON."""


def _leave_cut(document: Document, lines: Sequence[str]) -> None:
    """List an output as unread if the file ends within its last figure, which is then too small."""
    last = len(lines)
    for at, output in enumerate(document.outputs):
        ends_here = any(line == last for line, _ in output.printed.values())
        if not ends_here or output.tool not in _CUT or not _CUT[output.tool].search(lines[-1].rstrip("`* \t")):
            continue
        if output.tool == "pgbench" and "workload" not in output.printed and not _follows_rate(document, output, last):
            # someone may have shown the rate alone
            continue
        del document.outputs[at]
        cut = Message("figure-cut", "no result: the file ends within this figure: {line}", line=lines[-1].strip()[:100])
        document.unread.append(Unread(last, cut))
        return


def _follows_rate(document: Document, output: Output, last: int) -> bool:
    """Return whether `output` is the second rate of the output above it: pgbench printed two up to version 13."""
    return any(
        each is not output and each.tool == "pgbench" and each.printed["tps"][0] == last - 1
        for each in document.outputs
    )


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._parsers = [parser() for parser in OUTPUTS]
        self._marked = [0] * len(self._parsers)
        self._context = Context()
        self._tabled: list[Output] = []
        self._document = Document()
        self._units = frozenset[str]().union(*(units_in(line) for line in lines if len(line) <= LONGEST_LINE))
        self._sweep: list[str] | None = None
        self._sweep_from = 0
        self._no_grid_until = 0
        self._tries = 0

    def take(self, at: int) -> int:
        """Read what begins at index `at`; return its number of lines."""
        text, line = self._lines[at], at + 1
        if len(text) > LONGEST_LINE:
            self._end_all()
            too_long = Message(
                "line-too-long",
                "a line of {characters:,} characters, longer than the limit of {most:,}: {beginning}…",
                characters=len(text),
                most=LONGEST_LINE,
                beginning=without_passwords(text[:LONGEST_SHOWN])[:60],
            )
            self._document.unread.append(Unread(line, too_long))
            return 1
        self._document.facts += facts_in(text, line)
        if fence(text) is not None:
            for parser in self._parsers:
                parser.end_block()
            self._mark()
            self._context.add(text)
            return 1
        return self._table(at) or self._heading(at) or self._line(at)

    def leave(self, at: int, why: Exception) -> None:
        """List the line at index `at` as unread."""
        shown = self._lines[at].strip()[:LONGEST_SHOWN]
        self._document.unread.append(
            Unread(at + 1, Message("line-invalid", "{line} ({why})", line=shown, why=str(why)))
        )

    def _table(self, at: int) -> int:
        """Read a table that begins at index `at`, or a row of a sweep; return its number of lines, or 0."""
        text = self._lines[at]
        table = self._peaks(at) if "\t" in text or "|" in text else 0
        return table or int(self._sweep_line(text, at + 1)) or self._grid(at)

    def _heading(self, at: int) -> int:
        previous = self._lines[at - 1] if at else ""
        following = self._lines[at + 1] if at + 1 < len(self._lines) else ""
        heading = self._context.heading_of(self._lines[at], previous, following)
        if heading is None:
            return 0
        self._end_all()
        self._context.enter(*heading)
        return 1

    def _line(self, at: int) -> int:
        """Read a line of an output or of text, with its continuation lines."""
        text, line = self._lines[at], at + 1
        claims = claims_in(text, line)
        self._document.claims += claims
        told = None if claims else text_tables.in_prose(text, line)
        if told is not None:
            self._add([told])
            return 1
        whole, count = joined(self._lines, at)
        if len(whole) > LONGEST_LINE:
            whole, count = text, 1
        elif count > 1:
            # an option and its password may be on different lines
            whole = without_passwords(whole)
        # all parsers see every line: a foreign line ends their open output
        taken = [parser.read(whole, line) for parser in self._parsers]
        self._mark()
        if taken[0] and whole.count("`") >= 2:
            # a command within a sentence: the rest of the sentence may name what was measured
            self._context.add(_QUOTED.sub(" ", whole))
        if not any(taken):
            if not claims and (looks_like_figure(whole) or _is_row_of_figures(whole)):
                self._document.unread.append(Unread(line, whole.strip()[:LONGEST_SHOWN]))
            self._context.add(whole)
        return count

    def done(self) -> Document:
        self._end_all()
        found = [output for parser in self._parsers for output in parser.found] + self._tabled
        self._document.outputs = sorted(found, key=lambda output: (output.line, output.last_line))
        self._document.unread += [each for parser in self._parsers for each in parser.unread]
        self._document.unread.sort(key=lambda each: each.line)
        return self._document

    def _peaks(self, at: int) -> int:
        """Read a table of peaks by scale."""
        if "scale" not in self._lines[at].lower():
            return 0
        window = [(number, self._lines[number - 1]) for number in range(at + 1, min(len(self._lines), at + 400) + 1)]
        found = text_tables.by_scale(window)
        if found is None:
            return 0
        outputs, taken = found
        for output in outputs:
            output.group = at + 1
        self._add(outputs)
        return taken

    def _grid(self, at: int) -> int:
        if at < self._no_grid_until:
            # lines of a block that was tried: its tables are found by their headings, a limited number of times
            if self._tries == 0 or not names_figures(self._lines[at]):
                return 0
            self._tries -= 1
        grid = grid_at(self._lines, at)
        if grid is None:
            return 0
        if at >= self._no_grid_until:
            self._tries = MOST_TRIES
        self._no_grid_until = max(self._no_grid_until, at + grid.taken)
        found = trials_of_grid(grid, self._context.caption, self._units)
        if not found.outputs and not found.unread:
            return 0
        self._end_all()
        self._add(found.outputs)
        self._document.unread += found.unread
        if grid.is_cut:
            cut = Message(
                "table-too-long",
                "the table has more than {most:,} rows: from here on, they are not read; give the rest a heading",
                most=text_tables.MOST_ROWS,
            )
            self._document.unread.append(Unread(at + grid.taken + 1, cut))
        for number in range(at + 1, at + grid.taken):
            self._document.facts += facts_in(self._lines[number], number + 1)
        return grid.taken

    def _add(self, outputs: Sequence[Output]) -> None:
        """Add outputs of tables, with the heading and the machine above them."""
        for output in outputs:
            if self._context.heading is not None:
                output.words.setdefault("heading", self._context.heading)
            if self._context.instance is not None:
                output.words.setdefault("host", self._context.instance)
            self._context.mark(output)
        self._tabled += outputs

    def _sweep_line(self, text: str, line: int) -> bool:
        header = text_tables.sweep_header(text) if "|" not in text else None
        if header is not None:
            self._end_all()
            self._sweep, self._sweep_from = header, line
            return True
        if self._sweep is None:
            return False
        row = text_tables.sweep_row(text, self._sweep, line)
        if row is not None:
            row.group = self._sweep_from
            self._context.mark(row)
            self._tabled.append(row)
            return True
        if is_rule(text):
            return True
        if text.strip()[:1].isdigit() and len(text.split()) >= len(self._sweep) - 2:
            # a row with a gap, or with a word in it: the table continues after it
            self._document.unread.append(Unread(line, text.strip()[:LONGEST_SHOWN]))
            return True
        self._sweep = None
        return False

    def _mark(self) -> None:
        """Attach what precedes new outputs."""
        for at, parser in enumerate(self._parsers):
            for output in parser.found[self._marked[at] :]:
                self._context.mark(output)
            self._marked[at] = len(parser.found)

    def _end_all(self) -> None:
        for parser in self._parsers:
            parser.end()
        self._mark()


def _is_row_of_figures(text: str) -> bool:
    """Return whether it is a row of an unread table with a unit: `| NOPM vs baseline | 16.5 % |`."""
    return ("|" in text or "\t" in text) and _UNITS.search(text) is not None and any(each.isdigit() for each in text)
