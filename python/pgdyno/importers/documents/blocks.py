"""Turns a document into blocks: marks of code, headings, tables, and lines of code or prose."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.documents.text_tables import Grid, Peaks, grid_at, names_figures, peaks_at

LONGEST_LINE = 65_536
"""Characters; longer lines are not read, and listed as unread."""
MOST_JOINED = 30
"""Lines that backslashes may join to one command."""
MOST_TRIES = 16
"""Tables to try in one block of lines with bars or tabs: otherwise the time would grow by the square."""
LONGEST_HEADING = 100

_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_QUOTE = re.compile(r"\s{0,8}(?:>[ \t]?){1,12}")
_TAGS = re.compile(r"</?(?:pre|code|br|p|span|div|li|b|strong|em|samp|kbd)(?:\s[^<>]{0,300})?/?>", re.IGNORECASE)
# in logs that were copied from a CI or from `docker logs -t`
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z?\s")
_FENCE = re.compile(r"\s{0,12}(?:```|~~~)(?P<info>.*)")
_TABLE_BEGIN, _TABLE_END = re.compile(r"<table\b", re.IGNORECASE), re.compile(r"</table>", re.IGNORECASE)
_ROW = re.compile(r"<tr\b[^>]{0,300}>(?P<cells>.{1,20000}?)(?=</tr>|<tr\b|</table>)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(r"<t[dh]\b[^>]{0,300}>", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]{0,300}>")
_HEADING = re.compile(
    r"\s{0,8}(?:(?P<hash>#{1,6})\s{1,8}(?P<hashed>\S.*)|\[(?P<bracket>[^\]()]{1,90})\](?:\s{0,8}-.*)?|"
    r"(?P<numbered>\d{1,2}(?:\.\d{1,2}){1,4}\.? [^\W\d].*))$"
)
# `=== run 1 ===`
_BANNER = re.compile(
    r"\s{0,20}(?P<mark>[=*#~+-])(?P=mark){1,60}\s{0,8}(?P<text>[^\s=*#~+|-].{0,90}?)\s{0,8}(?P=mark){2,60}\s*$"
)
BANNER_LEVEL = 8
_RATE = re.compile(r"\btps\s?=\s?\d")
_FIGURE = re.compile(r"[\d.]{1,20} (?:tps|ms|tpm|nopm|qps|s|us|µs|GB|MB|kB)\b", re.IGNORECASE)
_PROMPT = re.compile(r"[\w.@:~/\[\]()-]{1,60}[$#%]\s|[$#%]\s")
_COMMAND = re.compile(r"\S{0,40}(?:pgbench|sysbench)\s")


class Kind(Enum):
    CODE_MARK = "begin or end of a block of code"
    HEADING = "heading"
    TABLE = "table"
    LINE = "line of code or prose"
    TOO_LONG = "line longer than `LONGEST_LINE`"


@dataclass(slots=True)
class Block:
    kind: Kind
    line: int
    """Number of its first line in the file, from 1."""
    text: str
    """The line, joined with its continuation lines; for a heading, its words."""
    size: int = 1
    """Lines. A reader that finds nothing in a table sets 0: its first line then follows as a block of another kind."""
    level: int = 0
    in_code: bool = False
    table: Grid | Peaks | None = None


def lines_of(text: str) -> list[str]:
    """Return the lines of a document as tools printed them, without passwords."""
    # tags and entities may stand within a password
    lines = _without_html_tables(text).splitlines()
    return [without_passwords(clean_line(line)) if len(line) <= LONGEST_LINE else line for line in lines]


def blocks_of(lines: Sequence[str]) -> Iterator[Block]:
    """Yield the blocks of a document; a table that its reader gives back is read line by line."""
    at, in_code, tables = 0, False, _Tables()
    while at < len(lines):
        text = lines[at]
        mark = _FENCE.match(text) if "```" in text or "~~~" in text else None
        if len(text) > LONGEST_LINE:
            yield Block(Kind.TOO_LONG, at + 1, text)
            at += 1
        elif mark is not None:
            # a block that opens within another follows a missing end mark
            in_code = bool(mark["info"].strip()) or not in_code
            yield Block(Kind.CODE_MARK, at + 1, text, in_code=in_code)
            at += 1
        else:
            for find in (tables.block_at, _heading_at, _line_at):
                block = find(lines, at, in_code)
                if block is not None:
                    yield block
                    at += block.size
                    if block.size:
                        break


class _Tables:
    """Limits how many tables are tried where lines with bars or tabs follow each other."""

    def __init__(self) -> None:
        self._end = self._tries = 0

    def block_at(self, lines: Sequence[str], at: int, in_code: bool) -> Block | None:
        text = lines[at]
        table: Grid | Peaks | None = peaks_at(lines, at)
        if table is None and at < self._end:
            # lines of a table that was given back: tables within it are found by their headings
            if self._tries == 0 or not names_figures(text):
                return None
            self._tries -= 1
        table = table or grid_at(lines, at)
        if table is None:
            return None
        if at >= self._end:
            self._tries = MOST_TRIES
        self._end = max(self._end, at + table.taken)
        return Block(Kind.TABLE, at + 1, text, table.taken, in_code=in_code, table=table)


def _heading_at(lines: Sequence[str], at: int, in_code: bool) -> Block | None:
    text, previous, following = (lines[each] if 0 <= each < len(lines) else "" for each in (at, at - 1, at + 1))
    # an author's emphasis of a result is no heading
    if len(text) > LONGEST_HEADING or "|" in text or _RATE.search(text):
        return None
    level, words = 0, ""
    banner, match = _BANNER.match(text), _HEADING.match(text.rstrip())
    if banner is not None and _PROMPT.match(text) is None and (banner["mark"] != "#" or in_code):
        level, words = BANNER_LEVEL, banner["text"]
    elif in_code:
        return None
    elif text.strip() and set(following.strip()) == {"="} and len(following.strip()) >= 3 and not previous.strip():
        level, words = 1, text.strip()
    # `[root@host ~]# pgbench` is not a heading
    elif match is None or "@" in text or _FIGURE.match(match["numbered"] or ""):
        return None
    elif match["hash"] is not None:
        # a shell comment, or what root typed
        is_comment = previous.strip() not in ("", "#") and following.strip()
        if match["hash"] == "#" and (is_comment or _COMMAND.match(match["hashed"])):
            return None
        level, words = len(match["hash"]), match["hashed"].rstrip("# \t")
    else:
        level, words = (7, match["bracket"]) if match["bracket"] is not None else (6, match["numbered"])
    words = words.replace("`", "").strip().strip("*_").strip()
    return Block(Kind.HEADING, at + 1, words, level=level, in_code=in_code)


def _line_at(lines: Sequence[str], at: int, in_code: bool) -> Block:
    parts: list[str] = []
    for text in lines[at : at + MOST_JOINED]:
        stripped = text.rstrip()
        parts.append(stripped.removesuffix("\\").strip())
        if not stripped.endswith("\\"):
            break
    if len(parts) == 1 or sum(map(len, parts)) + len(parts) > LONGEST_LINE:
        return Block(Kind.LINE, at + 1, lines[at], in_code=in_code)
    # an option and its password may be on different lines
    return Block(Kind.LINE, at + 1, without_passwords(" ".join(parts)), len(parts), in_code=in_code)


def clean_line(text: str) -> str:
    """Return `text` as the tool printed it: it keeps the indentation, and loses what a mail, HTML or a CI added."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if ">" in text[:16] and not text.lstrip().startswith(">>>>>"):
        quote = _QUOTE.match(text)
        text = text[quote.end() :] if quote is not None else text
    if "<" in text:
        text = _TAGS.sub("", text)
    if "&" in text:
        text = html.unescape(text).replace("\xa0", " ")
    stamp = _STAMP.match(text) if text[:4].isdigit() else None
    return text[stamp.end() :] if stamp is not None else text


def _without_html_tables(text: str) -> str:
    parts, at = [], 0
    while (begin := _TABLE_BEGIN.search(text, at)) and (end := _TABLE_END.search(text, begin.end())):
        parts += [text[at : begin.start()], _with_bars(text[begin.start() : end.end()])]
        at = end.end()
    return "".join([*parts, text[at:]])


def _with_bars(table: str) -> str:
    # each row stays on the line on which it begins, so that lines keep their numbers
    lines: dict[int, str] = {}
    at = last = 0
    for row in _ROW.finditer(table):
        cells = [" ".join(_TAG.sub("", cell).replace("|", "/").split()) for cell in _CELL.split(row["cells"])[1:]]
        at += table.count("\n", last, row.start())
        last = row.start()
        if at in lines:
            return table
        lines[at] = f"| {' | '.join(cells)} |"
    # readers of tables pass over rules
    return "\n".join(lines.get(number, "|---|") for number in range(table.count("\n") + 1)) if lines else table
