"""Removes passwords from documents and command lines before anything of them is stored, and reads connection strings.

If the end of a password is ambiguous, more than the password is removed: losing an option is better than storing a
password.
"""

import re
from urllib.parse import unquote

from pgdyno.records.secret_values import CREDENTIAL_KEY as _KEY
from pgdyno.records.secret_values import MASK

_URI = re.compile(
    r"postgres(?:ql)?://(?:[^/@]{0,4000}@)?(?P<hosts>[^/?]{0,1000})(?:/(?P<database>[^?]{0,200}))?(?:\?(?P<query>.*))?"
)
_PAIR = re.compile(r"(?:^|[\s&])(?P<key>[a-z_]{1,40})\s{0,4}=\s{0,4}(?P<value>'(?:\\.|[^'\\])*'|(?:\\.|[^\s&\\])+)")
_PARTS = {"service": "h", "hostaddr": "h", "host": "h", "port": "p", "dbname": "d"}
"""libpq's parameters, and the options of pgbench for the same."""


def server_parts(text: str) -> dict[str, str]:
    """Return host, port and database of `text`, a database's name or a connection string of libpq, by pgbench's options
    `h`, `p` and `d`.

    Without a host, `h` is the service. A URI's host contains its port.
    """
    uri = _URI.fullmatch(text)
    if uri is None and "=" not in text:
        return {"d": text}
    pairs = {match["key"]: match["value"].strip("'") for match in _PAIR.finditer((uri["query"] or "") if uri else text)}
    if uri is not None:
        pairs = {"host": uri["hosts"], "dbname": uri["database"] or ""} | pairs
    return {part: pairs[key] for key, part in _PARTS.items() if pairs.get(key)}


_NOT_LOAD = frozenset([
    "user", "password", "passfile", "application_name", "fallback_application_name", "connect_timeout", "sslcert",
    "sslkey", "sslpassword", "sslrootcert", "sslcrl", "client_encoding", *_PARTS,
])  # fmt: skip


def connection_options(text: str) -> list[str]:
    """Return what a connection string sets besides its server: `options=-c work_mem=4MB`, `sslmode=require`."""
    uri = _URI.fullmatch(text)
    pairs = _PAIR.finditer((uri["query"] or "") if uri else text)
    found = {match["key"]: match["value"].strip("'") for match in pairs if match["key"] not in _NOT_LOAD}
    return [f"{key}={unquote(value) if uri else value}" for key, value in sorted(found.items())]


_HINTS = ("pass", "_pwd", "client_secret", "://")
"""A line without any of these contains nothing that the patterns below match."""

_MASKED = r"\*\*\*(?:[&\s\"'@/;}]|$)"
_QUOTED = r"(?:'(?:\\.?|[^'\\])*(?:'|$)|\"(?:\\.?|[^\"\\])*(?:\"|$)|\\+'[^']*(?:'|$)|\\+\"[^\"]*(?:\"|$))"
_BARE = r"(?:\\+.|[^\s'\"\\])+"
_JOINED = rf"(?:'[\w'\"][^']*'|\"[\w'\"][^\"]*\"|\w{_BARE}|\w)*"
"""Further parts of a shell word, such as `'it'"'"'s'`; other quotes end what contains the word."""
_VALUE = rf"(?!{_MASKED}|null\b)(?:{_QUOTED}|{_BARE}){_JOINED}"
_TCL_WORD = r"(?:\{(?:[^{}]|\{[^{}]*\})*\}|\"(?:\\.?|[^\"\\])*(?:\"|$)|(?:\\.|[^\s{}\"\\]|[{}\"](?=[^\s{}\"]))+|\S+)"


def _pattern(kept: str, removed: str) -> re.Pattern[str]:
    return re.compile(rf"(?P<kept>{kept})(?P<removed>{removed})", re.IGNORECASE)


_PATTERNS = (
    # HammerDB's answers to diset: the old value follows the name, or precedes it
    _pattern(rf"\bChanged \S{{0,80}}{_KEY} from ", r".+"),
    _pattern(rf"(?<=\bValue )(?=.{{1,400}} for \S{{0,80}}{_KEY} is the same)", r".+"),
    # user:password@ of a URI: it ends at the last @ before a slash; digits before a slash are a port
    _pattern(r"://[^\s/:@]{0,200}:", r"[^\s/]{1,4000}@|(?!\d{1,5}[/?,])\S{1,400}@"),
    _pattern(rf"[?&]\w{{0,20}}{_KEY}=", r"[^&\s\"']+"),
    # a quoted word: "--pgsql-password=a b", 'PGPASSWORD=a b'
    _pattern(rf"'(?:--[\w-]{{0,60}}|\w{{1,60}}){_KEY}=(?!{_MASKED})", rf"[^']+(?:'(?=['\"\w]){_JOINED})?"),
    _pattern(rf"\"(?:--[\w-]{{0,60}}|\w{{1,60}}){_KEY}=(?!{_MASKED})", rf"(?:\\.|[^\"\\])+(?:\"(?=['\"\w]){_JOINED})?"),
    # SQL's dollar quotes, in a shell's quotes with backslashes: $$a b$$, $tag$a b$tag$
    _pattern(rf"{_KEY}[\"']?\s{{0,4}}(?:=>?|:)?\s{{0,4}}", r"(?P<tag>\\{0,4}\$\w{0,60}\\{0,4}\$).*?(?:(?P=tag)|$)"),
    # libpq skips spaces after the = of password; after any other =, a space means an empty value
    _pattern(rf"(?<![\w-]){_KEY}\s{{0,4}}=>?\s{{0,4}}", _VALUE),
    _pattern(rf"{_KEY}(?:[\"']?\s{{1,4}}:?=>?\s{{0,4}}|[\"']?\s{{0,4}}:\s{{0,4}}|[\"']?=>?)", _VALUE),
    # values after a space: of an option, csh's setenv, Tcl's set, HammerDB's settings, sshpass, SQL
    _pattern(rf"--[\w-]{{0,60}}{_KEY}\s{{1,4}}(?![-=:]|run\b)", _VALUE),
    _pattern(rf"\bset(?:env)?(?:\s{{1,4}}-\w{{1,4}})?\s{{1,4}}\w{{0,60}}{_KEY}\s{{1,4}}(?![=:])", _TCL_WORD),
    _pattern(rf"(?:\w_pass(?:word)?|userpass)\s{{1,4}}(?![=:|]|{_MASKED}|from {_MASKED}|is the same)", _TCL_WORD),
    _pattern(r"\bsshpass\s{1,4}-p\s{0,4}", _VALUE),
    _pattern(r"\bpassword\s{1,4}(?=(?:E|U&)?')", _VALUE),
    # BenchBase's configuration
    _pattern(rf"<\w{{0,40}}{_KEY}>", r"[^<]+"),
)


def without_passwords(text: str) -> str:
    """Return the line `text` with `***` in place of each password."""
    lower = text.lower()
    if any(hint in lower for hint in _HINTS):
        for pattern in _PATTERNS:
            text = pattern.sub(_mask, text)
    return text


def _mask(match: re.Match[str]) -> str:
    kept, removed = match["kept"], match["removed"]
    if len(removed) > 1 and removed[0] in "'\"" and removed[0] == removed[-1]:
        # shells and readers of JSON need the quotes
        return f"{kept}{removed[0]}{MASK}{removed[0]}"
    return f"{kept}{MASK}{'@' if kept.startswith('://') else ''}"
