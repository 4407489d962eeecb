r"""Reads SQL files by psql's rules, without a server: statements, variables, data of COPY, and other files.

A statement ends at a semicolon outside of quotes, comments, parentheses and the body of an SQL function (BEGIN ATOMIC),
or at the end of the file. `:name`, `:'name'` and `:"name"` are replaced outside of quotes. Of psql's commands there are
\set, \copy, \i, \ir and \gexec; \restrict and \unrestrict of pg_dump have nothing to restrict.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

MOST_INCLUDED = 32
"""How deep files may include each other."""
CHUNK_BYTES = 1 << 18

_TOKEN = re.compile(
    r"""
    (?P<blank> \s++ | --[^\n]*+ )
    | (?P<open> /\* | [eE]' | ' | " | \$(?:[^\W\d]\w*+)?\$ )
    | (?P<mark> :: | := | \d[\w.]*+ )
    | (?P<variable> :(?:\w++|'\w++'|"\w++") )
    | (?P<command> \\ )
    | (?P<word> [^\W\d][\w$]*+ )
    | (?P<sign> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN = re.compile(r"""(?:[^;'"$\\:/\-()\[\]eE]++|[eE](?!')|(?<=[\w$])[eE$])++""")
"""What no token of another kind is in. After a word, `e'` and `$` begin no string."""
_COUNTED = ("copy", "create")
"""First words of statements whose further words matter."""
_UP_TO_END = {
    "'": re.compile(r"(?:[^']++|'')*+'"),
    "e'": re.compile(r"(?:[^'\\]++|\\.|'')*+'", re.DOTALL),
    '"': re.compile(r'(?:[^"]++|"")*+"'),
}
_COMMENT_MARK = re.compile(r"/\*|\*/")
_COMMAND = re.compile(r"\\(\w*)(.*)", re.DOTALL)
_ARGUMENT = re.compile(
    r"""(?P<blank>\s++)|'(?P<quoted>(?:[^'\\]++|\\.|'')*+)'|(?P<variable>:(?:\w++|'\w++'|"\w++"))"""
    r"""|(?P<plain>[^\s':`\\]++|:)|(?P<wrong>.)""",
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)|''", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_COPY = re.compile(
    r"\s*(?P<to>.+?)\s+from\s+(?P<file>'(?:[^']++|'')*+'|[^\s']\S*)(?P<options>.*)", re.IGNORECASE | re.DOTALL
)
_SUPPORTED = r"pgdyno runs \set, \copy … from, \i, \ir and \gexec of psql's commands"
_FUNCTION = re.compile(r"create (?:or replace )?(?:function|procedure)\b")


class SqlFileError(Exception):
    def __init__(self, file: str, line: int | None, message: str, hint: str | None = None) -> None:
        super().__init__(f"{file}:{line}: {message}" if line is not None else f"{file}: {message}")
        self.hint = hint


class Statement(NamedTuple):
    file: str
    line: int
    """Of its first word, counted from 1."""
    text: str
    kind: Literal["sql", "copy", "gexec"]
    data: Iterable[bytes] = ()
    """The rows of a COPY; read all of them before the next statement."""

    def line_at(self, place: int) -> int:
        """Return the line of the character `place` of its text, counted from 1."""
        return self.line + self.text.count("\n", 0, max(place - 1, 0))


TEXT = "SQL"
"""The name of statements that are in no file."""


@dataclass(slots=True)
class Reader:
    """Reads files in `folder`, and keeps psql's variables from one to the next."""

    folder: Path
    variables: dict[str, str]
    used: set[str] = field(default_factory=set)
    """Variables that a file has used."""
    hashes: dict[str, Any] = field(default_factory=dict)
    """The hash of each file that was read, by its path relative to the folder."""
    read_bytes: int = 0

    def fork(self) -> Reader:
        """Return a reader with its own copy of the variables."""
        return replace(self, variables=dict(self.variables))

    def read(
        self, name: str, named_by: str | None = None, line: int | None = None, included: int = 0
    ) -> Iterator[Statement]:
        """Yield the statements of the file `name`, which a line of another may name. Raises SqlFileError."""
        with self.open(name, named_by, line) as file:
            yield from _SqlFile(self, name, file, included).statements()

    def read_text(self, text: str) -> Iterator[Statement]:
        """Yield the statements of `text`. Raises SqlFileError."""
        self.hashes[TEXT] = hashlib.sha256()
        yield from _SqlFile(self, TEXT, BytesIO(text.encode()), 0).statements()

    def open(self, name: str, named_by: str | None, line: int | None) -> IO[bytes]:
        """Open the file `name`. Raises SqlFileError."""
        path = self.folder / name
        try:
            if path.exists() and not path.is_file():
                raise OSError(0, "it is not a regular file")
            opened = path.open("rb")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SqlFileError(named_by or name, line, f"cannot read {path}: {reason}") from error
        self.hashes[name] = hashlib.sha256()
        return opened

    def took(self, name: str, content: bytes) -> bytes:
        """Note that `content` of the file `name` was read."""
        self.hashes[name].update(content)
        self.read_bytes += len(content)
        return content


def read_through(statements: Iterable[Statement]) -> None:
    """Read all of `statements` and their data, for the mistakes in them. Raises SqlFileError."""
    for statement in statements:
        for _ in statement.data:
            pass


def read_statements(sql: str, folder: Path) -> Iterator[Statement]:
    """Yield the statements of `sql`: those of the file in `folder` if it ends with `.sql`. Raises SqlFileError."""
    reader = Reader(folder, {})
    return reader.read(sql) if sql.endswith(".sql") else reader.read_text(sql)


@dataclass(slots=True)
class _SqlFile:
    reader: Reader
    name: str
    file: IO[bytes]
    included: int
    line: int = 0
    parts: list[str] = field(default_factory=list)
    """Of the statement so far."""
    start: int = 0
    """The line of the statement's first word; 0 before that."""
    words: list[str] = field(default_factory=list)
    """The first words of the statement; all of a COPY."""
    inside: str = ""
    """What opened the quotes or the comment at this place."""
    opened: int = 0
    """The line where that is."""
    comments: int = 0
    parentheses: int = 0
    brackets: int = 0
    blocks: int = 0
    """BEGIN and CASE of an SQL function's body."""

    def statements(self) -> Iterator[Statement]:
        for raw in self._lines():
            try:
                line = raw.decode("utf-8-sig" if self.line == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise self._wrong("is not UTF-8", "save the file as UTF-8") from error
            yield from self._scan(line)
        if self.inside:
            raise SqlFileError(self.name, self.opened, f"{self.inside} is not closed before the end of the file")
        if self.start:
            yield self._statement("sql")

    def _lines(self) -> Iterator[bytes]:
        for raw in self.file:
            self.line += 1
            yield self.reader.took(self.name, raw)

    def _wrong(self, message: str, hint: str | None = None) -> SqlFileError:
        return SqlFileError(self.name, self.line, message, hint)

    def _scan(self, line: str) -> Iterator[Statement]:
        at = 0
        while at < len(line):
            if self.inside:
                at = self._skip(line, at)
                continue
            if self.words and self.words[0] not in _COUNTED and (plain := _PLAIN.match(line, at)):
                self.parts.append(plain[0])
                at = plain.end()
                continue
            match = _TOKEN.match(line, at)
            assert match is not None  # the last alternative takes any character
            kind, text, at = match.lastgroup, match[0], match.end()
            if kind == "command" and line[at : at + 1] == ";":
                self._add(";")
                at += 1
            elif kind == "command":
                yield from self._command(line[at - 1 :])
                return
            elif text == ";" and not self.parentheses and not self.blocks:
                if self.start:
                    reads_client = self.words[:1] == ["copy"] and ("from", "stdin") in pairwise(self.words)
                    yield self._statement("copy" if reads_client else "sql")
            elif kind == "blank":
                self.parts.append(text)
            else:
                self._take(kind, text)

    def _take(self, kind: str | None, text: str) -> None:
        if kind == "open":
            # a tag in dollars has upper and lower case
            self.inside, self.opened = "e'" if text == "E'" else text, self.line
            if text == "/*":
                self.comments = 1
                self.parts.append(text)
                return
        elif kind == "variable":
            text = self._value(text)
        elif kind == "word":
            self._note_word(text.lower())
        elif text in "()[]":
            self.parentheses = max(0, self.parentheses + {"(": 1, ")": -1}.get(text, 0))
            self.brackets = max(0, self.brackets + {"[": 1, "]": -1}.get(text, 0))
        self._add(text)

    def _add(self, text: str) -> None:
        if not self.start:
            # comments before a statement do not belong to it
            self.start, self.parts = self.line, []
        self.parts.append(text)

    def _note_word(self, word: str) -> None:
        if len(self.words) < 4 or self.words[0] == "copy":
            self.words.append(word)
        if self.parentheses or self.words[0] != "create" or not _FUNCTION.match(" ".join(self.words)):
            return
        if word == "begin" or (word == "case" and self.blocks):
            self.blocks += 1
        elif word == "end" and self.blocks:
            self.blocks -= 1

    def _skip(self, line: str, at: int) -> int:
        """Take `line` from `at` up to the end of the quotes or the comment, if that is on it; return where."""
        end = len(line)
        if self.comments:
            for mark in _COMMENT_MARK.finditer(line, at):
                self.comments += 1 if mark[0] == "/*" else -1
                if not self.comments:
                    end, self.inside = mark.end(), ""
                    break
        elif self.inside.startswith("$"):
            found = line.find(self.inside, at)
            if found >= 0:
                end, self.inside = found + len(self.inside), ""
        elif (match := _UP_TO_END[self.inside].match(line, at)) is not None:
            end, self.inside = match.end(), ""
        self.parts.append(line[at:end])
        return end

    def _statement(self, kind: Literal["sql", "copy", "gexec"]) -> Statement:
        data = self._data() if kind == "copy" else ()
        made = Statement(self.name, self.start, "".join(self.parts), kind, data)
        self.parts, self.words, self.start = [], [], 0
        self.parentheses = self.brackets = self.blocks = 0
        return made

    def _data(self) -> Iterator[bytes]:
        for raw in self._lines():
            if raw.rstrip(b"\r\n") == b"\\.":
                return
            yield raw

    # ---- variables and commands ----

    def _value(self, text: str) -> str:
        name, quote = text[1:].strip("'\""), text[1]
        value = self.reader.variables.get(name)
        if value is None:
            if self.brackets or name[0].isdigit():
                # a slice of an array, such as a[1:n], or JSON_OBJECT('a':1)
                return text
            known = ", ".join(sorted(self.reader.variables)) or "none"
            raise self._wrong(f"the variable {name} is not known", f"known: {known}; add it to dataset.variables")
        self.reader.used.add(name)
        if quote == "'":
            escaped = value.replace("'", "''")
            return "E'" + escaped.replace("\\", "\\\\") + "'" if "\\" in value else f"'{escaped}'"
        return '"' + value.replace('"', '""') + '"' if quote == '"' else value

    def _command(self, text: str) -> Iterator[Statement]:
        match = _COMMAND.match(text)
        assert match is not None
        name, rest = match[1], match[2]
        match name:
            case "set":
                arguments = self._arguments(rest)
                if not arguments:
                    raise self._wrong(r"\set needs the name of a variable")
                self.reader.variables[arguments[0]] = "".join(arguments[1:])
            case "i" | "ir" | "include" | "include_relative":
                arguments = self._arguments(rest)
                if len(arguments) != 1:
                    raise self._wrong(f"\\{name} needs one file")
                if self.included >= MOST_INCLUDED:
                    raise self._wrong(f"more than {MOST_INCLUDED} files include each other")
                included = self._path_beside(arguments[0])
                yield from self.reader.read(included, self.name, self.line, self.included + 1)
            case "copy":
                yield self._copy(rest)
            case "gexec":
                if not self.start:
                    raise self._wrong(r"\gexec needs a query before it")
                yield self._statement("gexec")
            case "restrict" | "unrestrict":
                pass
            case _:
                raise self._wrong(f"\\{name or rest.strip()[:1]} is not supported", _SUPPORTED)

    def _arguments(self, text: str) -> list[str]:
        found: list[str] = []
        is_new = True
        for match in _ARGUMENT.finditer(text):
            kind = match.lastgroup
            if kind == "blank":
                is_new = True
                continue
            if kind == "wrong":
                raise self._wrong(f"cannot read the argument at {match[0]}", _SUPPORTED)
            word = self._value(match[0]) if kind == "variable" else match[kind or 0]
            if kind == "quoted":
                word = _ESCAPE.sub(lambda each: _ESCAPES.get(each[1], each[1]) if each[1] else "'", word)
            if is_new:
                found.append(word)
            else:
                found[-1] += word
            is_new = False
        return found

    def _path_beside(self, file: str) -> str:
        return os.path.normpath(Path(self.name).parent / file)

    def _copy(self, text: str) -> Statement:
        match = _COPY.fullmatch(text.strip().rstrip(";"))
        if match is None or match["file"].lower() == "program":
            raise self._wrong(r"\copy reads a file: \copy TABLE from 'FILE' (OPTIONS)", _SUPPORTED)
        statement = f"COPY {match['to']} FROM STDIN{match['options']}"
        if match["file"].lower() in ("stdin", "pstdin"):
            return Statement(self.name, self.line, statement, "copy", self._data())
        file = self._path_beside(match["file"].strip("'").replace("''", "'"))
        return Statement(self.name, self.line, statement, "copy", self._chunks(file))

    def _chunks(self, name: str) -> Iterator[bytes]:
        with self.reader.open(name, self.name, self.line) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield self.reader.took(name, chunk)
