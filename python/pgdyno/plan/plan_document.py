"""A plan file as it was read, where each key stands, and problems that name its lines.

Finds the line of each key of a TOML text, which `tomllib` does not report.

The text must be valid: this scanner only finds positions.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from pgdyno.errors import Problem

KeyPath = tuple[str | int, ...]
"""Keys and array indices from 0: `("sweep", "clients", 2)`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_INDEX = re.compile(r"\[\s*(\d+)\s*\]")
_SCALAR = re.compile(r"[^,\]}#\n]*")
_STRINGS = (
    re.compile(r'"""(?:\\.|[^\\])*?"""(?:"{0,2})', re.DOTALL),
    re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_SHOWN_BARE = re.compile(r"[A-Za-z0-9_-]+")


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of each key, array element and table of the TOML `text`.

    An implied table (`a` in `[a.b]`) has the line that first implies it.
    """
    scanner = _Scanner(text)
    scanner.document()
    return scanner.lines


def dotted_path(path: KeyPath) -> str:
    """Format `path` for people: `target.pg18.settings."my.setting"`, `sweep.clients[2]`."""
    parts: list[str] = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
            continue
        quoted = '"' + part.replace("\\", "\\\\").replace('"', '\\"') + '"'
        shown = part if _SHOWN_BARE.fullmatch(part) else quoted
        parts.append(f".{shown}" if parts else shown)
    return "".join(parts)


def split_assignment(text: str) -> tuple[KeyPath, str]:
    """Split `path=value` into keys as in TOML, `[2]` for an array's element, and the value. Raises ValueError."""
    scanner = _Scanner(text)
    try:
        path = scanner.key(indices=True)
    except _NoKeyError as error:
        raise ValueError("expected a key, such as trial.repeats") from error
    scanner.skip(_SPACE)
    if not text.startswith("=", scanner.at):
        raise ValueError("expected KEY=VALUE")
    return path, text[scanner.at + 1 :]


_SPACE = re.compile(r"[ \t]*")


class _NoKeyError(Exception):
    pass


class _Scanner:
    def __init__(self, text: str) -> None:
        # as in tomllib, a line ends with \r\n or \n
        self.text = text.replace("\r\n", "\n")
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self._arrays: dict[KeyPath, int] = {}
        """The last index in each array of tables."""
        self._counted = (0, 1)

    def document(self) -> None:
        table: KeyPath = ()
        self.skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._assignment(table)
            self.skip(_BLANK)

    def key(self, *, indices: bool = False) -> KeyPath:
        """Read a dotted key; `indices` also allows `[2]` after a part."""
        path: list[str | int] = []
        while True:
            self.skip(_SPACE)
            path.append(self._key_part())
            while indices and (match := _INDEX.match(self.text, self.at)):
                path.append(int(match[1]))
                self.at = match.end()
            self.skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(path)
            self.at += 1

    def skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()

    # one statement per turn

    def _header(self) -> KeyPath:
        line = self._line()
        of_array = self.text.startswith("[[", self.at)
        self.at += 2 if of_array else 1
        path = self._through_arrays(self.key(), last=not of_array)
        self.at = self.text.index("]]" if of_array else "]", self.at) + (2 if of_array else 1)
        self._add_lines(path[:-1], line)
        if of_array:
            self.lines.setdefault(path, line)
            place = self._arrays[path] = self._arrays.get(path, -1) + 1
            path = (*path, place)
        self.lines[path] = line
        return path

    def _through_arrays(self, keys: KeyPath, *, last: bool) -> KeyPath:
        path: KeyPath = ()
        for number, key in enumerate(keys, start=1):
            path = (*path, key)
            if path in self._arrays and (last or number < len(keys)):
                path = (*path, self._arrays[path])
        return path

    def _assignment(self, table: KeyPath) -> None:
        line = self._line()
        path = (*table, *self.key())
        self._add_lines(path[:-1], line)
        self.lines[path] = line
        self.skip(_SPACE)
        self.at += 1  # the equals sign
        self.skip(_SPACE)
        self._value(path)

    def _add_lines(self, path: KeyPath, line: int) -> None:
        for length in range(1, len(path) + 1):
            self.lines.setdefault(path[:length], line)

    def _key_part(self) -> str:
        match = _BARE_KEY.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
            return match[0]
        for pattern in _STRINGS[2:]:
            match = pattern.match(self.text, self.at)
            if match is not None:
                self.at = match.end()
                try:
                    return str(tomllib.loads(f"v = {match[0]}")["v"])
                except tomllib.TOMLDecodeError:
                    break
        raise _NoKeyError

    def _value(self, path: KeyPath) -> None:
        start = self.text[self.at]
        if start == "[":
            self._array(path)
        elif start == "{":
            self._inline_table(path)
        elif start in "\"'":
            for pattern in _STRINGS:
                match = pattern.match(self.text, self.at)
                if match is not None:
                    self.at = match.end()
                    return
        else:
            self.skip(_SCALAR)

    def _array(self, path: KeyPath) -> None:
        self.at += 1
        place = 0
        while True:
            self.skip(_BLANK)
            if self.text[self.at] == "]":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            element = (*path, place)
            self.lines[element] = self._line()
            self._value(element)
            place += 1

    def _inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while True:
            self.skip(_BLANK)
            if self.text[self.at] == "}":
                self.at += 1
                return
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self._assignment(path)

    def _line(self) -> int:
        counted, line = self._counted
        line += self.text.count("\n", counted, self.at)
        self._counted = (self.at, line)
        return line


def nearest(lines: Mapping[KeyPath, int], path: KeyPath) -> KeyPath:
    """Return `path`, or the nearest enclosing table or array in the file, or `()`."""
    return next((path[:length] for length in range(len(path), 0, -1) if path[:length] in lines), ())


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed plan and the line of each key."""

    data: Mapping[str, Any]
    lines: Mapping[KeyPath, int]
    overridden: frozenset[KeyPath] = frozenset()
    """Paths set by `--set`, which have no line."""
    sources: Mapping[KeyPath, str] = field(default_factory=dict)
    """Files of those `lines` that come from plans that this one extends."""

    def problem(self, path: KeyPath, message: str, hint: str | None = None) -> Problem:
        """Return a problem of the field `path` with its line, or with that of its table."""
        path = self.as_written(path)
        if self._by_override(path):
            given = "given by --set"
            return Problem(dotted_path(path), message, None, f"{given}; {hint}" if hint else given)
        where = nearest(self.lines, path)
        return Problem(dotted_path(path), message, self.lines.get(where), hint, self.sources.get(where))

    def as_written(self, path: KeyPath) -> KeyPath:
        """Return `path` as the plan has it: the section `replica_load` is read as the last group."""
        groups = self.data.get("group", [])
        is_last = path[:1] == ("group",) and isinstance(groups, list) and path[1:2] == (len(groups),)
        return ("replica_load", *path[2:]) if is_last else path

    def _by_override(self, path: KeyPath) -> bool:
        if any(path[: len(set_)] == set_ for set_ in self.overridden):
            return True
        around = next((path[:n] for n in range(len(path) - 1, 0, -1) if self.value_at(path[:n]) is not None), ())
        return around not in self.lines and any(set_[: len(around)] == around for set_ in self.overridden if around)

    def value_at(self, path: KeyPath) -> object:
        """Return the value at `path`, or None."""
        node: Any = self.data
        for key in path:
            try:
                node = node[key]
            except (KeyError, IndexError, TypeError):
                return None
        found: object = node
        return found


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Return unique `problems` in file order, those without a line last, those of extended plans after the own."""
    distinct = dict.fromkeys(problems)

    def place(problem: Problem) -> tuple[bool, str, bool, int, str]:
        inherited = problem.source is not None
        return inherited, problem.source or "", problem.line is None, problem.line or 0, problem.path

    return sorted(distinct, key=place)


def near(word: str, known: Iterable[str]) -> str | None:
    """Return the entry of `known` that is most similar to `word`, or None."""
    by_lower = {each.lower(): each for each in known}
    matches = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[matches[0]] if matches else None


def suggestion(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return `did you mean NAME?` with the entry of `known` that is most similar to `word`; `otherwise` without one."""
    meant = near(word, known)
    return f"did you mean {meant}?" if meant else otherwise
