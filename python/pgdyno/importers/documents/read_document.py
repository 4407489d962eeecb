"""Reads a document of prose and many outputs, block by block: each output with its context, and what no reader took."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgdyno.importers.documents.blocks import LONGEST_LINE, Block, Kind, blocks_of, lines_of
from pgdyno.importers.documents.context import Context
from pgdyno.importers.documents.prose import claims_in, facts_in, rate_in
from pgdyno.importers.documents.published_rows import trials_of_grid, units_in
from pgdyno.importers.documents.remainder import Remainder
from pgdyno.importers.documents.text_tables import Grid
from pgdyno.importers.formats import OUTPUTS
from pgdyno.importers.parsed import Document, Output

_COMMAND = re.compile(r"`[^`]{1,400}\s-[^`]{1,400}`")


def read_document(text: str) -> Document:
    """Return everything in `text` that is an output of a known tool, a table of figures or an equation."""
    lines = lines_of(text)
    reader = _Reader(lines)
    for block in blocks_of(lines):
        try:
            reader.read(block)
        except (ValueError, IndexError, OverflowError) as error:
            reader.remainder.list_invalid(block.line, lines[block.line - 1], error)
            block.size = 1
    document = reader.end()
    if text and text[-1] not in "\r\n":
        reader.remainder.take_cut(document.outputs, lines)
    document.unread = sorted(reader.remainder.unread, key=lambda each: each.line)
    return document


class _Reader:
    def __init__(self, lines: Sequence[str]) -> None:
        self.remainder = Remainder()
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
                self.remainder.list_too_long(block.line, block.text)
        if block.kind is not Kind.TOO_LONG:
            for line in range(block.line, block.line + block.size):
                self._document.facts += facts_in(self._lines[line - 1], line)

    def _read_table(self, block: Block) -> None:
        table = block.table
        if isinstance(table, Grid):
            found = trials_of_grid(table, self._context.caption, self._units)
            if not found.outputs and not found.unread:
                block.size = 0
                return
            self._end_outputs()
            self.remainder.unread += found.unread
            if table.is_cut:
                self.remainder.list_rows_from(block.line + block.size)
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
                self.remainder.list_line(block.line, block.text)
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

    def end(self) -> Document:
        self._end_outputs()
        found = [output for parser in self._parsers for output in parser.found] + self._from_tables
        self._document.outputs = sorted(found, key=lambda output: (output.line, output.last_line))
        self.remainder.unread += [each for parser in self._parsers for each in parser.unread]
        return self._document
