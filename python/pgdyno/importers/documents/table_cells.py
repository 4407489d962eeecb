"""Cells and column heads of published tables: figures with their units, and what a column says its cells are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.importers.parsed import LONGEST_NUMBER

_CELL = re.compile(
    r"[~≈]?\s?(?P<digits>\d(?:[\d.,'’\u00a0\u202f\u2009 ](?=\d)|\d){0,38})(?P<thousand>[kK](?![a-zA-Z]))?"  # noqa: RUF001
    r"\s?(?P<unit>milliseconds|msec|ms|µs|μs|us|seconds|secs?|s|min|m|tps|qps|tpmc|tpm|nopm|/s|clients?|threads?|"
    r"connections?|users?|vus?|c)?(?P<rest>.*)$",
    re.IGNORECASE,
)
_SPACED = re.compile(r"\d{1,3}(?:[\u00a0\u202f\u2009 '’]\d{3})+(?:[.,]\d+)?")  # noqa: RUF001
_NOTE = re.compile(r"\s|[(\[{<‹«←*†‡¹²³,;!✓✅⚠]|--|/s")  # noqa: RUF001
_NO_FIGURE = re.compile(r"\s?[/%–-]\s?\d|\s?%|\s?x\b|\s?×")  # noqa: RUF001
"""After a number: the rest of a range, of a pair, of a share or of a ratio."""
_FACTORS = {"s": 1e3, "sec": 1e3, "secs": 1e3, "seconds": 1e3, "µs": 1e-3, "μs": 1e-3, "us": 1e-3}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as printed in a cell."""

    digits: str
    thousand: bool
    unit: str

    @property
    def to_ms(self) -> float | None:
        """Return the factor from its unit to milliseconds; None without a unit."""
        return _FACTORS.get(self.unit, 1.0) if self.unit else None


@dataclass(frozen=True, slots=True)
class Style:
    """The number format of a table, or of a column."""

    decimal: str = "."

    def value(self, figure: Figure) -> float:
        """Return the number. Raises ValueError."""
        digits = figure.digits
        if _SPACED.fullmatch(digits):
            digits = re.sub(r"[\u00a0\u202f\u2009 '’]", "", digits)  # noqa: RUF001
        thousands = "," if self.decimal == "." else "."
        if not re.fullmatch(
            rf"\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+(?:{re.escape(self.decimal)}\d+)?|\d+(?:{re.escape(self.decimal)}\d+)?",
            digits,
        ):
            raise ValueError(f"{figure.digits!r} is not a number")
        value = float(digits.replace(thousands, "").replace(self.decimal, "."))
        return value * 1000 if figure.thousand else value


def figure_of(cell: str) -> Figure | None:
    """Return the number with which `cell` begins, without a note after it; None for other cells."""
    text = cell.replace("**", "").replace("`", "").replace("__", "").strip()
    if not text or len(text) > 400:
        return None
    match = _CELL.match(text)
    if match is None or len(match["digits"]) > LONGEST_NUMBER:
        return None
    digits, rest = match["digits"], match["rest"]
    if " " in digits and not _SPACED.fullmatch(digits):
        digits, _, more = digits.partition(" ")
        rest = f" {more}{rest}"
    if rest and (not _NOTE.match(rest) or _NO_FIGURE.match(rest)):
        return None
    return Figure(digits, bool(match["thousand"]), (match["unit"] or "").lower())


def style_of(figures: Sequence[Figure]) -> Style:
    """Return the number format of `figures`, of one table: with a decimal comma only if nothing else makes sense."""
    comma = any(
        re.fullmatch(r"\d+(?:\.\d{3})*,\d{1,2}|\d+,\d{4,}|0,\d+|\d{1,3}(?:\.\d{3})+,\d+", each.digits)
        for each in figures
    )
    dotted = any(re.fullmatch(r"\d{1,3}(?:\.\d{3}){2,}", each.digits) for each in figures)
    english = any(
        re.fullmatch(r"\d+(?:,\d{3})*\.(?:\d{1,2}|\d{4,})|\d{1,3}(?:,\d{3})+\.\d+|0\.\d+", each.digits)
        for each in figures
    )
    return Style(",") if (comma or dotted) and not english else Style()


LONGEST_HEAD = 120

CLIENTS = frozenset([
    "client", "clients", "connection", "connections", "conns", "conn", "thread", "threads", "thds", "thd", "thc",
    "user", "users", "vuser", "vusers", "vu", "vus", "virtual users", "virtual user", "terminals", "concurrency",
    "concurrent clients", "concurrent connections", "client count", "client connections", "接続数", "クライアント数",
    "同時接続数", "클라이언트", "클라이언트 수", "连接数", "客户端", "客户端数", "并发", "并发数", "线程", "线程数",
    "клиенты", "клиентов", "подключений", "подключения", "clientes", "conexões", "conexiones",
])  # fmt: skip
_WORKERS = frozenset(["jobs", "workers", "job", "threads", "pgbench threads"])
_PLAIN = {
    "scale": "scale", "scale factor": "scale", "sf": "scale", "scaling factor": "scale", "warehouses": "warehouses",
    "duration": "duration_s", "duration s": "duration_s", "elaptime": "duration_s", "elapsed s": "duration_s",
    "reads": "reads", "writes": "writes", "others": "others", "errs": "errors", "errors": "errors",
    "transactions": "transactions", "txns": "transactions", "total transactions": "transactions",
    "min": "latency_min_ms", "avg": "latency_mean_ms", "max": "latency_max_ms", "stddev": "latency_stddev_ms",
    "stdev": "latency_stddev_ms", "std dev": "latency_stddev_ms", "mean": "latency_mean_ms",
}  # fmt: skip
_RATE = re.compile(
    r"(?<![a-z])(?:(?P<tps>tps|(?:transactions?|trans|txns?|tx|requests?|req)\s?(?:/|per)\s?s(?:ec(?:onds?)?)?|"
    r"(?:t|r)ps\b|tps)|(?P<qps>qps|quer(?:y|ies)\s?(?:/|per)\s?s(?:ec(?:ond)?)?)|(?P<nopm>nopm|tpmc)|"
    r"(?P<tpm>tpm|(?:transactions?|txns?)\s?(?:/|per)\s?min(?:ute)?))(?![a-z])"
)
_LATENCY = re.compile(
    r"(?<![a-z])(?:latency|latencies|latencia|latência|lat|response time|resp\.? time|"
    r"レイテンシ|延迟|时延|지연|задержка)(?![a-z])"
)
_UNIT = re.compile(r"(?<![a-zµμ])(?P<unit>ms|msec|milliseconds|µs|μs|us|microseconds|s|sec|seconds)(?![a-z/])")
_SCALES = {"ms": 1.0, "msec": 1.0, "milliseconds": 1.0, "µs": 1e-3, "μs": 1e-3, "us": 1e-3, "microseconds": 1e-3,
           "s": 1e3, "sec": 1e3, "seconds": 1e3}  # fmt: skip
_PERCENTILE = re.compile(
    r"(?<![a-z0-9])(?:p(?P<p>\d{2,4}(?:\.\d{1,4})?)|(?P<q>\d{2}(?:\.\d{1,4})?)\s?(?:%|th(?:\s?percentile)?|パーセンタイル))"
)
_STATISTICS = (
    (
        re.compile(r"(?<![a-z])(?:avg\.?|average|mean|mittel|média|media|среднее|средняя|平均)(?![a-z])"),
        "latency_mean_ms",
    ),
    (re.compile(r"(?<![a-z])(?:std\.?\s?dev\.?|stddev|stdev|sd|σ)(?![a-z])"), "latency_stddev_ms"),  # noqa: RUF001
    (re.compile(r"(?<![a-z])(?:min\.?|minimum|best)(?![a-z])"), "latency_min_ms"),
    (re.compile(r"(?<![a-z])(?:max\.?|maximum|worst)(?![a-z])"), "latency_max_ms"),
    (re.compile(r"(?<![a-z])(?:median|中央値)(?![a-z])"), "p50"),
)
_DERIVED = re.compile(
    r"[δΔ∆%±×]|(?<![a-z])(?:vs\.?|versus|delta|diff(?:erence)?|change|gain|ratio|speed-?up|improvement|loss|overhead|"  # noqa: RUF001
    r"target|projected|expected|estimated|theoretical|efficiency|relative|normali[sz]ed|cv|stddev|stdev|std|min|max|"
    r"minimum|maximum|per core|per vcpu|steady|limit|drop|increase|decrease|variance|ci|p\d{2,4})(?![a-z])"
)
"""Words in the heading of a column whose rates were not measured."""
_NO_LATENCY = re.compile(
    r"[δΔ∆×]|(?<![a-z])(?:vs\.?|change|delta|reduction|improvement|ratio|target|limit)(?![a-z])"  # noqa: RUF001
)
_QUALIFIER = re.compile(
    r"(?<![a-z])(?:avg\.?|average|mean|median|média|peak|total|overall|measured|result|results|throughput|excl?\.?|"
    r"excluding|including|incl?\.?|connections?|establishing|without|initial|connection|time|higher is better|"
    r"lower is better|better|in|of|the|txn|trans(?:actions)?|value|rate)(?![a-z])|[()\[\]{}:,↑↓=/*_`-]"
)
_CLIENTS_IN = re.compile(
    r"\(?(?<![a-z0-9])(?:c=)?(?P<clients>\d{1,5})\s?(?:c|clients?|threads?|conns?|connections?|vus?|users)(?![a-z])\)?"
)
_ORDINAL = re.compile(
    r"(?:run|round|iteration|iter|trial|repeat|rep|test|#|no\.?|№|n)\s?#?\d{0,3}|#\d{1,3}|\d{1,2}(?:st|nd|rd|th) run"
)
TARGET = frozenset([
    "target", "system", "dbms", "server", "instance", "instance type", "database", "db", "version", "provider",
    "backend", "engine", "config", "configuration", "setup", "pool", "pooler", "proxy", "environment", "machine",
    "host", "service", "name", "postgres", "postgresql", "product", "vm", "arm", "variant", "build", "branch",
    "commit", "node", "cloud", "platform", "solution", "",
])  # fmt: skip
MODES = frozenset(["mode", "protocol", "query mode", "protocol mode"])
WORKLOADS = frozenset(["workload", "script", "benchmark", "scenario", "test", "test case", "type", "builtin"])


@dataclass(frozen=True, slots=True)
class Column:
    """The meaning of a column's cells."""

    field: str
    """A field of Output; `p95` for a percentile; `label` for a column that distinguishes rows, `ignored` for the
    rest.
    """
    head: str
    target: str | None = None
    """The target that its heading names besides the figure."""
    clients: int | None = None
    """The clients in its heading."""
    factor: float = 1.0
    """Converts from the unit in its heading to milliseconds."""
    has_unit: bool = False


def plain(head: str) -> str:
    """Return `head` in lower case, without emphasis."""
    return re.sub(r"\s+", " ", head.replace("*", "").replace("`", "").replace("_", " ")).strip().lower()


def column_of(head: str) -> Column:
    text = plain(head)[:LONGEST_HEAD]
    name = text.rstrip(":.").strip()
    without_unit = re.sub(r"\s?[(\[].{0,60}?[)\]]$", "", name).strip()
    for each in (
        name,
        without_unit,
        re.sub(r"^(?:#|num(?:ber)?\.?|no\.?|№)\s?(?:of\s)?(?:concurrent\s)?", "", without_unit),
    ):
        if each in CLIENTS:
            return Column("clients", head)
    if name.replace(" ", "") in ("clients/threads", "client/threads", "c/j"):
        return Column("clients/workers", head)
    if name in _PLAIN:
        return Column(_PLAIN[name], head)
    if without_unit in ("scale", "scale factor", "duration", "transactions", "errors"):
        return Column(_PLAIN[without_unit], head)
    rate = _RATE.search(text)
    return _rate(text, rate, head) if rate is not None else _latency(text, head) or _other(name, head)


def _other(name: str, head: str) -> Column:
    if name in _WORKERS:
        return Column("workers", head)
    return Column("ignored" if _ORDINAL.fullmatch(name) else "label", head)


def _rate(text: str, rate: re.Match[str], head: str) -> Column:
    field = next(group for group in ("tps", "qps", "nopm", "tpm") if rate[group])
    rest = text[: rate.start()] + " " + text[rate.end() :]
    clients = _CLIENTS_IN.search(rest)
    if clients is not None:
        rest = rest[: clients.start()] + " " + rest[clients.end() :]
    if _DERIVED.search(rest):
        return Column("ignored", head)
    return Column(field, head, _left(rest, head), int(clients["clients"]) if clients else None)


def _latency(text: str, head: str) -> Column | None:
    unit, percentile = _UNIT.search(text), _PERCENTILE.search(text)
    named = _LATENCY.search(text)
    if named is None and (unit is None or _UNIT.sub("", text).strip(" ()[]") == "") and percentile is None:
        return None
    statistic = next(((pattern, field) for pattern, field in _STATISTICS if pattern.search(text)), None)
    if named is None and percentile is None and statistic is None:
        return None
    rest = text
    if percentile is not None:
        field = f"p{_percent(percentile)}"
        rest = _PERCENTILE.sub(" ", rest)
    else:
        field = statistic[1] if statistic is not None else "latency_mean_ms"
    rest = _LATENCY.sub(" ", _UNIT.sub(" ", rest))
    for pattern, _ in _STATISTICS:
        rest = pattern.sub(" ", rest)
    rest = rest.replace("percentile", " ")
    if _NO_LATENCY.search(rest):
        return Column("ignored", head)
    factor = _SCALES[unit["unit"]] if unit is not None else 1.0
    return Column(field, head, _left(rest, head), factor=factor, has_unit=unit is not None)


def _percent(match: re.Match[str]) -> str:
    digits = match["p"] or match["q"]
    # p999 is 99.9 %
    if "." not in digits and len(digits) > 2:
        digits = f"{digits[:2]}.{digits[2:]}"
    return f"{float(digits):g}"


def _left(rest: str, head: str) -> str | None:
    """Return what a heading names besides its figure, unchanged."""
    words = _QUALIFIER.sub(" ", _RATE.sub(" ", rest)).split()
    if not words or _ORDINAL.fullmatch(" ".join(words)):
        return None
    start = head.lower().find(words[0])
    last = head.lower().rfind(words[-1])
    written = head[start : last + len(words[-1])] if 0 <= start <= last else " ".join(words)
    return written.strip(" *`_()[]:,-") or None
