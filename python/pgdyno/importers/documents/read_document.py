"""Reads a document of prose and many outputs, block by block: each output with its context, and what no reader took."""

import re
from collections.abc import Sequence

from pgdyno.importers.documents.blocks import LONGEST_LINE, Block, Kind, blocks_of, lines_of
from pgdyno.importers.documents.context import Context
from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.documents.prose import claims_in, facts_in, rate_in
from pgdyno.importers.documents.published_rows import trials_of_grid, units_in
from pgdyno.importers.documents.text_tables import MOST_ROWS, Grid
from pgdyno.importers.formats import OUTPUTS
from pgdyno.importers.parsed import LONGEST_SHOWN, Document, Output, looks_like_figure, unused_line
from pgdyno.messages import Message
from pgdyno.records import ImportedLine

_COMMAND = re.compile(r"`[^`]{1,400}\s-[^`]{1,400}`")
_UNITS = re.compile(r"\b(?:tps|tpmc?|nopm|qps|latency)\b", re.IGNORECASE)
# ends of a line after which the tool prints more: the kind of a rate in parentheses, two decimals or a unit, JSON
_CUT = {
    "pgbench": re.compile(r"\btps = [\d.,]*$"),
    "sysbench": re.compile(r"[:/]\s*\d+(?:\.\d?)?$"),
    "benchbase": re.compile(r'":\s*-?\d[\d.eE+-]*$'),
}


def read_document(text: str) -> Document:
    """Return everything in `text` that is an output of a known tool, a table of figures or an equation."""
    lines = lines_of(text)
    reader = _Reader(lines)
    for block in blocks_of(lines):
        try:
            reader.read(block)
        except (ValueError, IndexError, OverflowError) as error:
            reader.list_invalid(block.line, error)
            block.size = 1
    document = reader.end(is_cut=bool(text) and text[-1] not in "\r\n")
    document.unread.sort(key=lambda each: each.line)
    return document


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._parsers = [parser() for parser in OUTPUTS]
        self._marked = [0] * len(self._parsers)
        self._context = Context()
        self._from_tables: list[Output] = []
        self._document = Document()
        self._units = frozenset[str]().union(*(units_in(line) for line in lines if len(line) <= LONGEST_LINE))

    def read(self, block: Block) -> None:
        match block.kind:
            case Kind.TABLE:
                self._read_table(block)
            case Kind.LINE:
                self._read_line(block)
            case Kind.HEADING:
                self._end_outputs()
                self._context.enter(block.level, block.text)
            case Kind.CODE_MARK:
                for parser in self._parsers:
                    parser.end_block()
                self._mark()
                self._context.begin_code(block.in_code)
            case Kind.TOO_LONG:
                self._end_outputs()
                self._list_too_long(block.line, block.text)
        if block.kind is not Kind.TOO_LONG:
            for line in range(block.line, block.line + block.size):
                for topic, text in facts_in(self._lines[line - 1]):
                    fact = ImportedLine(file="", line=line, text=text)
                    self._document.facts.setdefault(topic, []).append(fact)

    def _read_table(self, block: Block) -> None:
        table = block.table
        if isinstance(table, Grid):
            found = trials_of_grid(table, self._context.caption, self._units)
            if not found.outputs and not found.unread:
                block.size = 0
                return
            self._end_outputs()
            self._document.unread += found.unread
            if table.is_cut:
                # of the rows that follow the last one that is read
                why = Message(
                    "table-too-long",
                    "the table has more than {most:,} rows: from here on, they are not read; give the rest a heading",
                    most=MOST_ROWS,
                )
                self._document.unread.append(unused_line(block.line + block.size, why))
            self._add(found.outputs)
        elif table is not None:
            self._add(table.outputs)

    def _read_line(self, block: Block) -> None:
        first = self._lines[block.line - 1]
        claims = claims_in(first, block.line)
        self._document.claims += claims
        rate = None if claims else rate_in(first, block.line)
        if rate is not None:
            block.size = 1
            self._add([rate])
            return
        # all parsers see every line: a foreign line ends their open output
        taken = [parser.read(block.text, block.line) for parser in self._parsers]
        self._mark()
        if taken[0] and block.text.count("`") >= 2:
            # a command within a sentence: the rest of the sentence may name what was measured
            self._context.add(_COMMAND.sub(" ", block.text))
        if not any(taken):
            if not claims:
                self._list_line(block.line, block.text)
            self._context.add(block.text)

    def _add(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            for name, value in (("heading", self._context.heading), ("host", self._context.instance)):
                if value is not None:
                    output.words.setdefault(name, value)
            self._context.mark(output)
        self._from_tables += outputs

    def _mark(self) -> None:
        for at, parser in enumerate(self._parsers):
            for output in parser.found[self._marked[at] :]:
                self._context.mark(output)
            self._marked[at] = len(parser.found)

    def _end_outputs(self) -> None:
        for parser in self._parsers:
            parser.end()
        self._mark()

    def end(self, *, is_cut: bool) -> Document:
        self._end_outputs()
        found = [output for parser in self._parsers for output in parser.found] + self._from_tables
        self._document.outputs = sorted(found, key=lambda output: (output.line, output.last_line))
        self._document.unread += [each for parser in self._parsers for each in parser.unread]
        if is_cut:
            self._take_cut(self._document.outputs)
        return self._document

    def _list_line(self, line: int, text: str) -> None:
        """List a line that no reader took if it looks like a figure, or is a row of a table with a unit."""
        is_row = ("|" in text or "\t" in text) and _UNITS.search(text) and any(each.isdigit() for each in text)
        if is_row or looks_like_figure(text):
            self._document.unread.append(unused_line(line, text.strip()[:LONGEST_SHOWN]))

    def list_invalid(self, line: int, why: Exception) -> None:
        """List a line with a figure that no reader can convert."""
        shown = self._lines[line - 1].strip()[:LONGEST_SHOWN]
        self._document.unread.append(
            unused_line(line, Message("line-invalid", "{line} ({why})", line=shown, why=str(why)))
        )

    def _list_too_long(self, line: int, text: str) -> None:
        why = Message(
            "line-too-long",
            "a line of {characters:,} characters, longer than the limit of {most:,}: {beginning}…",
            characters=len(text),
            most=LONGEST_LINE,
            beginning=without_passwords(text[:LONGEST_SHOWN])[:60],
        )
        self._document.unread.append(unused_line(line, why))

    def _take_cut(self, outputs: list[Output]) -> None:
        """Move an output to the unread ones if the file ends within its last figure, which is then too small."""
        last, end = len(self._lines), self._lines[-1].rstrip("`* \t")
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
                shown = self._lines[-1].strip()[:100]
                cut = Message("figure-cut", "no result: the file ends within this figure: {line}", line=shown)
                self._document.unread.append(unused_line(last, cut))
                return
