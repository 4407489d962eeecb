"""Reads prose: equations, rates within a sentence, and lines that state the conditions of figures."""

import ast
import operator
import re
from collections.abc import Callable, Iterator

from pgdyno.importers.documents.command_lines import host_of, is_local
from pgdyno.importers.parsed import Output, number, whole_number
from pgdyno.records import ImportedClaim

_CLAIM = re.compile(
    r"(?P<currency>[€$£¥])\s{0,4}(?P<printed>\d[\d,]{0,30}(?:\.\d{1,10})?)\s{0,4}"
    r"\((?P<formula>[^=/x×*]{0,150}[/x×*][^=]{0,200})\)(?!\S)"  # noqa: RUF001
)
_LONGEST_CLAIM = 2_000
_WORDS = re.compile(r"[A-Za-z€$£¥]+")
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def claims_in(text: str, line: int) -> list[ImportedClaim]:
    """Return every equation in `text`, such as `€ 0.11 (€ 38,364 / 365,974 TPS)`."""
    if not any(currency in text for currency in "€$£¥") or len(text) > _LONGEST_CLAIM:
        return []
    found = []
    for match in _CLAIM.finditer(text):
        computed = evaluate(match["formula"])
        if computed is not None:
            printed = match["printed"].replace(",", "")
            decimals = len(printed.partition(".")[2])
            found.append(
                ImportedClaim(
                    file="", line=line, text=match[0], printed=float(printed), decimals=decimals, computed=computed
                )
            )
    return found


def evaluate(formula: str) -> float | None:
    """Evaluate `(€ 38,364 + 3 x 2 x € 4,200) / 365,974 TPS`; None if it is not a formula."""
    plain = re.sub(r"(?<=\d),(?=\d{3})", "", formula).replace("×", "*")  # noqa: RUF001
    plain = re.sub(r"(?<=[\d\s)])x(?=[\s\d(€$£¥])", "*", plain)
    plain = _WORDS.sub("", plain).strip()
    try:
        return _value(ast.parse(plain, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError("not a formula")


_LONGEST_SENTENCE = 300
_SENTENCE = re.compile(
    r"(?<![\d,])(?P<tps>\d[\d,]{0,30}) TPS on (?P<target>.{1,100}?) at scale factor (?P<scale>\d[\d,]{0,30}?)\.?$",
    re.IGNORECASE,
)


def rate_in(text: str, line: int) -> Output | None:
    """Read a line such as `190,000 TPS on PostgreSQL 9.4.4 at scale factor 3,000`."""
    match = _SENTENCE.search(text.strip()) if len(text) <= _LONGEST_SENTENCE else None
    if match is None:
        return None
    output = Output("table", line, line, target=match["target"])
    try:
        output.put("tps", number(match["tps"]), line, text)
        output.put("scale", whole_number(match["scale"]), line, text)
    except ValueError:
        return None
    return output


SETTINGS = (
    "autovacuum", "archive_mode", "checkpoint_timeout", "data_checksums", "fsync", "full_page_writes", "max_wal_size",
    "shared_buffers", "synchronous_commit", "wal_level",
)  # fmt: skip
"""Settings that audit rules use."""
# longer lines are prose about a setting, not its value
_LONGEST_FACT = 160
_SETTING = re.compile(rf"^\W*(?P<name>{'|'.join(SETTINGS)})\b(?:\s*[=:]\s*|\s+|\s*\|\s*)(?P<value>['\w].*)$")
_SWEEP = (
    re.compile(r"-c\s+\w+\s+\[(?P<first>\d{1,9})\.\.(?P<last>\d{1,9})\]"),
    re.compile(r"\bclients?\s+from\s+(?P<first>\d{1,9})\s+(?:to|till|until)\s+(?P<last>\d{1,9})", re.IGNORECASE),
)
# `[postgres@dbhost ~]$ pgbench …`: the account postgres, or a host name that indicates a server
_PROMPT = re.compile(
    r"\s{0,8}\[?(?:(?:postgres|pgsql)@[\w.-]{1,80}|[\w.-]{1,40}@[\w.-]{0,60}(?<![^\W\d_])(?:db|pg|postgres|postgresql)"
    r"(?:[\d_.-]|host|server|master|primary)?[\w.-]{0,40})[^$#]{0,80}[$#]\s{0,4}"
    r"(?P<command>(?:\S{0,200}/)?(?:pgbench|sysbench)\b.{0,2000})"
)
_PGHOST = re.compile(r"\W{0,12}(?:export\s{1,4})?PGHOST\s{0,2}=\s{0,2}['\"]?(?P<host>[^\s'\";]{1,200})")
_TMPFS = re.compile(r"\btmpfs\b|\bramdisk\b|\bRAM disk\b", re.IGNORECASE)


def facts_in(text: str) -> Iterator[tuple[str, str]]:
    """Yield facts in the line `text` by topic: settings with their values, storage in memory, a sweep of clients, a
    prompt, PGHOST.

    A prompt counts if it starts a load that names no other server.
    """
    prompt = _PROMPT.match(text)
    if prompt is not None and is_local(host_of(prompt["command"]) or ""):
        yield "prompt of a server", text.strip()[:_LONGEST_FACT]
    if len(text) > _LONGEST_FACT:
        return
    if (pghost := _PGHOST.match(text)) is not None:
        yield "PGHOST", f"PGHOST={pghost['host']}"
    if (setting := _SETTING.match(text)) is not None:
        yield setting["name"], text.strip()
    if _TMPFS.search(text):
        yield "tmpfs", text.strip()
    if swept_clients(text) is not None:
        yield "sweep", text.strip()


def swept_clients(text: str) -> tuple[int, int] | None:
    """Return the fewest and most clients of a line that describes a sweep."""
    match = next((found for pattern in _SWEEP if (found := pattern.search(text))), None)
    return None if match is None else (int(match["first"]), int(match["last"]))
