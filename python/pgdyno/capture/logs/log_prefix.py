"""`log_line_prefix`: the patterns of lines that begin with it, and which of the usual ones a log has.

https://www.postgresql.org/docs/current/runtime-config-logging.html#GUC-LOG-LINE-PREFIX
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pgdyno.errors import UsageError

_AFTER_TIME = (
    "[%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "[%p]: [%l-1] user=%u,db=%d ",
    "[%p]: [%l-1] db=%d,user=%u ",
    "[%p]: user=%u,db=%d,app=%a,client=%h ",
    "[%p] %q[user=%u,db=%d,app=%a] ",
    "[%p] %q%u@%d/%a ",
    "[%p] %q%u@%d ",
    "[%p] %u@%d ",
    "[%p]: [%l-1] ",
    "[%p]: ",
    "[%p] ",
)
COMMON = (
    "%m:%r:%u@%d:[%p]:%l:%e:%s:%v:%x:%c:%q%a:",
    "%t:%r:%u@%d:[%p]:",
    "%t:%r:%u@%d:[%p]: ",
    "%t-%c-",
    (
        'sql_error_code = %e time_ms = "%m" pid="%p" proc_start_time="%s" session_id="%c" vtid="%v" tid="%x"'
        ' log_line="%l" %qdatabase="%d" connection_source="%r" user="%u" application_name="%a" '
    ),
    *(f"{time} {rest}" for rest in _AFTER_TIME for time in ("%m", "%t")),
)
"""Those of PostgreSQL, its packages, pgBadger's manual, and services; of several that fit, the first is taken."""

_STAMPED = tuple(
    f"{time} [%p] {rest}"
    for rest in (
        "user=%u,db=%d,app=%a,client=%h ", "user=%u,db=%d ", "db=%d,user=%u ", "[%p] %q%u@%d ", "%q%u@%d ", "%u@%d ",
        "sql_error_code = %e ", "[%p]: [%l-1] ", "[%p] ", "",
    )
    for time in ("%m", "%t")
)  # fmt: skip
"""Those of syslog, which writes the time and the process itself."""

_STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
_NAME = r"[^\n:]*?(?:(?::[^ \n]|: [^ \n])[^\n:]*?)*?"
"""Any text without `:  `: that follows the severity, and a statement may have another one."""
_ESCAPES = {
    "a": (_NAME, "application"), "u": (_NAME, "role"), "d": (_NAME, "database"),
    "b": (_NAME, "backend"), "i": (_NAME, None), "r": (r"[^\n ]*?", None), "h": (r"[^\n ]*?", None),
    "L": (r"[^\n ]*?", None), "p": (r"\d+", "pid"), "P": (r"\d*", "leader"), "l": (r"\d+", None), "x": (r"\d+", None),
    "Q": (r"-?\d+", None), "t": (rf"{_STAMP} [^\s,:]+", "stamp"), "m": (rf"{_STAMP}\.\d{{3}} [^\s,:]+", "stamp"),
    "n": (r"\d+\.\d{3}", "stamp"), "s": (rf"{_STAMP} [^\s,:]+", "started"), "e": (r"[0-9A-Z]{5}", "sqlstate"),
    "c": (r"[0-9a-f]+\.[0-9a-f]+", "key"), "v": (r"(?:-?\d+/\d+)?", "vxid"),
}  # fmt: skip
"""The pattern of each escape, and the column that it is; None if nothing reads it."""
_ESCAPE = re.compile(r"%(-?\d*)([a-zA-Z%])")
SEVERITIES = "LOG|ERROR|FATAL|PANIC|WARNING|NOTICE|INFO|DEBUG[1-5]?"
PARTS = "DETAIL|HINT|QUERY|CONTEXT|LOCATION|BACKTRACE|STATEMENT"
"""What follows the first line of an entry, each with the prefix again."""
MOST_HEADER = 1000
"""Characters of the prefix and the severity."""


@dataclass(frozen=True, slots=True)
class LinePrefix:
    text: str
    pattern: str
    """Matches it; understood by Python and by RE2."""
    groups: tuple[str, ...]
    """Names of the pattern's groups, in their order."""

    @classmethod
    def parse(cls, text: str) -> LinePrefix:
        """Raise UsageError for an unknown escape."""
        groups: list[str] = []
        pattern, at, ends = "", 0, ""
        for escape in _ESCAPE.finditer(text):
            pattern += re.escape(text[at : escape.start()])
            at = escape.end()
            letter = escape[2]
            if letter == "q":
                # other processes than sessions write nothing after it
                pattern, ends = pattern + "(?:", ")?"
            elif letter == "%":
                pattern += "%"
            else:
                pattern += _group(letter, escape[1], text, groups)
        pattern += re.escape(text[at:]) + ends
        return cls(text, pattern.replace(r"\ ", " "), tuple(groups))

    @property
    def says_enough(self) -> bool:
        """Whether it has the time and the session."""
        return "stamp" in self.groups and not {"pid", "key"}.isdisjoint(self.groups)

    def first_line(self) -> str:
        """A pattern of the beginning of an entry's first line; its last group is the severity."""
        return rf"{self.pattern}({SEVERITIES}):  "

    def other_line(self) -> str:
        """A pattern of the beginning of an entry's other lines; its last group is the part."""
        return rf"{without_groups(self.pattern)}({PARTS}):  "


def without_groups(pattern: str) -> str:
    """Return `pattern` with groups that nothing reads."""
    return re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern)


def _group(letter: str, padding: str, text: str, groups: list[str]) -> str:
    if letter not in _ESCAPES:
        raise UsageError(f"--prefix {text!r}: %{letter} is unknown", hint="copy log_line_prefix: SHOW log_line_prefix")
    spaces = " *" if padding else ""
    pattern, name = _ESCAPES[letter]
    if name is None or name in groups:
        return f"{spaces}{pattern}{spaces}"
    groups.append(name)
    return f"{spaces}({pattern}){spaces}"


def check_prefix(prefix: LinePrefix) -> None:
    """Raise UsageError for a prefix whose log cannot be read, because it lacks the time or the session."""
    text, groups = prefix.text, prefix.groups
    hint = "set log_line_prefix = '%m [%p] %q%u@%d ', or log_destination = 'csvlog'"
    if "stamp" not in groups:
        raise UsageError(f"the prefix {text!r} has no time: %m, %t or %n", hint=hint)
    if "pid" not in groups and "key" not in groups:
        raise UsageError(f"the prefix {text!r} does not identify sessions: %p or %c", hint=hint)


def recognise_prefix(text: str, given: LinePrefix | None = None, *, stamped: bool = False) -> LinePrefix | None:
    """Return the prefix of most entries in `text`, the beginning of a log: `given`, else a usual one; None if it is
    another one.

    `stamped` if the time and the process of a log daemon precede it.
    """
    if given is not None and not stamped:
        return given if given.says_enough else None
    texts = [f"{time} [%p] {given.text}" for time in ("%m", "%t")] if given is not None else _STAMPED
    candidates = [LinePrefix.parse(each) for each in (texts if stamped else COMMON)]
    lines = [line for line in text.splitlines() if re.search(rf"(?:{SEVERITIES}):  ", line[:MOST_HEADER])][:200]
    fits = {each: sum(re.match(each.first_line(), line) is not None for line in lines) for each in candidates}
    best = max(candidates, key=lambda each: fits[each])
    return best if fits[best] * 2 > len(lines) else None
