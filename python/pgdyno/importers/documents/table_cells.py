"""Cells and column heads of published tables: figures with their units, and what a column says its cells are."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from pgdyno.importers.parsed import LONGEST_NUMBER, check_bound

_TO_MS = {
    unit: factor
    for factor, units in (
        (1e-6, "ns nsec nsecs nanosec nanosecs nanosecond nanoseconds"),
        (1e-3, "µs μs us usec usecs microsec microsecs microsecond microseconds"),
        (1.0, "ms msec msecs millisec millisecs millisecond milliseconds"),
        (1e3, "s sec secs second seconds"),
    )
    for unit in units.split()
}
_TIME_UNITS = "|".join(sorted(_TO_MS, key=len, reverse=True))
_THOUSAND, _MILLION = r"k|thousands?|tsd", r"m|mm|mn|mio|mln|millions?"
_CELL = re.compile(
    r"(?:-c\s?|c\s?=\s?|(?P<before>tps|qps|tpm|nopm)\s?[=:]\s?)?"
    r"[~≈]?\s?(?P<digits>\d(?:[\d.,'’\u00a0\u202f\u2009 ](?=\d)|\d){0,38})"  # noqa: RUF001
    rf"(?:\s?(?:(?P<thousand>{_THOUSAND})|(?P<million>{_MILLION}))\.?(?![a-z0-9]))?"
    rf"\s?(?P<unit>{_TIME_UNITS}|minutes?|min|tps|qps|tpmc|tpm|nopm|/\s?s|/\s?min|clients?|threads?|"
    r"connections?|users?|vus?|c)?(?P<rest>.*)$",
    re.IGNORECASE,
)
_SPACED = re.compile(r"\d{1,3}(?:[\u00a0\u202f\u2009 '’]\d{3})+(?:[.,]\d+)?")  # noqa: RUF001
_NOTE = re.compile(r"\s|[(\[{<‹«←*†‡¹²³,;!✓✅⚠]|--|/s")  # noqa: RUF001
_NO_FIGURE = re.compile(r"\s?[/%–-]\s?\d|\s?%|\s?x\b|\s?×")  # noqa: RUF001
_RATE_UNITS = {
    "tps": ("tps", "/s"), "qps": ("qps", "/s"), "nopm": ("nopm", "tpmc", "/min"), "tpm": ("tpm", "/min"),
}  # fmt: skip
"""Units in cells, by the rate in the heading: `900 tpm` under TPS is not a figure of that column."""


@dataclass(frozen=True, slots=True)
class Figure:
    digits: str
    factor: float
    """1,000 after `k`, 1,000,000 after `M`."""
    unit: str
    note: str = ""
    """Words after it: `(async)`."""


@dataclass(frozen=True, slots=True)
class Style:
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
        return check_bound(
            float(digits.replace(thousands, "").replace(self.decimal, ".")) * figure.factor, figure.digits
        )


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
    factor = 1e3 if match["thousand"] else 1e6 if match["million"] else 1.0
    note = rest.strip().strip("()[]<>*-,; ")
    return Figure(digits, factor, re.sub(r"\s", "", match["unit"] or match["before"] or "").lower(), note)


def style_of(figures: Sequence[Figure], separator: str = "") -> Style:
    """Return the number format of `figures`, of one table: with a decimal comma only if nothing else makes sense, or if
    semicolons separate its cells, which programs write where the comma is the decimal sign.
    """
    comma = any(
        re.fullmatch(r"\d+(?:\.\d{3})*,\d{1,2}|\d+,\d{4,}|0,\d+|\d{1,3}(?:\.\d{3})+,\d+", each.digits)
        for each in figures
    ) or (separator == ";" and any("," in each.digits for each in figures))
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
    "average": "latency_mean_ms", "median": "p50", "failed": "failed", "failures": "failed",
    "failed transactions": "failed", "skipped": "skipped", "retried": "retried", "retries": "retries",
}  # fmt: skip
_RATE = re.compile(
    r"(?<![a-z])(?:(?P<tps>tps|(?:transactions?|trans|txns?|tx|requests?|req)\s?(?:/|per)\s?s(?:ec(?:onds?)?)?|"
    r"(?:t|r)ps\b|tps)|(?P<qps>qps|quer(?:y|ies)\s?(?:/|per)\s?s(?:ec(?:ond)?)?)|(?P<nopm>nopm|tpmc)|"
    r"(?P<tpm>tpm|(?:transactions?|txns?)\s?(?:/|per)\s?min(?:ute)?))(?![a-z])"
)
_LATENCY = re.compile(
    r"(?<![a-z])(?:latency|latencies|latencia|latência|latenz|latence|lat|response time|resp\.? time|"
    r"レイテンシ|延迟|时延|지연|задержка)(?![a-z])"
)
_UNIT = re.compile(rf"(?<![a-zµμ])(?P<unit>{_TIME_UNITS})(?![a-z/])")
_CONNECTING = re.compile(r"(?:initial )?connect(?:ion|ing)? (?:time|latency|lat)")
_COUNTS = re.compile(r"(?<![a-z])(?:failed|failures?|errors?|retried|retries|skipped|aborted)(?![a-z])")
_KIND = re.compile(
    r"(?<![a-z])(?:including|incl|excluding|excl|without)(?![a-z]).{0,4}(?:initial |re)?conn|"
    r"(?<![a-z])(?:incl|excl)(?![a-z])"
)
_RESULT = re.compile(
    r"(?<![a-z])(?:connect(?:ion|ing)? time|cpu (?:%|usage|util\S{0,8}|load|busy|idle)|(?:%|avg\.?) cpu|iowait|io wait|"
    r"load average|loadavg|iops|[kmg]i?b/s|hit (?:ratio|rate)|cache hits?|wal (?:written|size|bytes|generated)|"
    r"deadlocks|elapsed time|run ?time|total time)(?![a-z])|^%|%$"
)
_SECONDS = re.compile(r"\bs\b|sec|elaptime")
_PERCENTILE = re.compile(
    r"(?<![a-z0-9])(?:p(?P<p>\d{2,4}(?:\.\d{1,4})?)|(?P<q>\d{2}(?:\.\d{1,4})?)\s?(?:%|th(?:\s?percentile)?|パーセンタイル))"
)
_STATISTICS = {
    field: re.compile(rf"(?<![a-z])(?:{words})(?![a-z])")
    for field, words in {
        "latency_mean_ms": r"avg\.?|average|mean|mittel|média|media|среднее|средняя|平均",
        "latency_stddev_ms": r"std\.?\s?dev\.?|stddev|stdev|sd|σ",  # noqa: RUF001
        "latency_min_ms": r"min\.?|minimum|best",
        "latency_max_ms": r"max\.?|maximum|worst",
        "p50": r"median|中央値",
    }.items()
}
_DERIVED = re.compile(
    r"[δΔ∆%±×]|(?<![a-z])(?:vs\.?|versus|delta|diff(?:erence)?|change|gain|ratio|speed-?up|improvement|loss|overhead|"  # noqa: RUF001
    r"target|projected|expected|estimated|theoretical|efficiency|relative|normali[sz]ed|cv|stddev|stdev|std|min|max|"
    r"minimum|maximum|per|cost|price|scaled|failed|failures?|(?<!excluding )(?<!without )errors?|steady|limit|drop|"
    r"increase|decrease|variance|ci|p\d{2,4})(?![a-z])|[$€£¥]"
)
_OVER = re.compile(r"\s?/\s?(?!(?:s|sec|min)\b)[^\W\d]")
_NO_LATENCY = re.compile(
    r"[δΔ∆×]|(?<![a-z])(?:vs\.?|change|delta|reduction|improvement|ratio|target|limit)(?![a-z])"  # noqa: RUF001
)
_RATE_WORD = r"(?:tps|qps|rps|tpmc?|nopm|tx|txns?|trans|transactions?|req|requests?|queries)(?![a-z])"
_FACTORS = tuple(
    (
        re.compile(
            # kTPS, thousands of TPS
            rf"(?<![a-z0-9-])(?:{words})(?:\s?of)?\s?(?={_RATE_WORD})|"
            # TPS (k), TPS (x1000), TPS [in thousands]
            rf"[(\[]\s?(?:in\s)?(?:[x×*/]\s?)?(?:{words}|{digits})\s?[)\]]|"  # noqa: RUF001
            # TPS, k; TPS in thousands; TPS x1000
            rf"(?:,\s?|\sin\s)(?:{words})(?![a-z0-9])|\s?[x×*/]\s?{digits}(?![\d,.])"  # noqa: RUF001
        ),
        factor,
    )
    for words, digits, factor in (
        (_MILLION, r"(?:1[,.' ]?000[,.' ]?000|10\^?6)", 1e6),
        (_THOUSAND, r"(?:1[,.' ]?000|10\^?3)", 1e3),
    )
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
NO_FIGURES = ("label", "ordinal", "derived", "ignored", "result")
"""Kinds of columns: what distinguishes rows, repeats, rates not measured, differences, results without a figure."""
RESULTS = (
    "transactions", "failed", "skipped", "retried", "retries", "errors", "reads", "writes", "others", "connect_ms",
)  # fmt: skip
"""Fields that are measured, besides rates and latencies."""
MODES = frozenset(["mode", "protocol", "query mode", "protocol mode"])
WORKLOADS = frozenset(["workload", "script", "benchmark", "scenario", "test", "test case", "type", "builtin"])


@dataclass(frozen=True, slots=True)
class Column:
    field: str
    """A field of Output; `p95` for a percentile; or one of `NO_FIGURES`."""
    head: str
    target: str | None = None
    """The target that its heading names besides the figure."""
    clients: int | None = None
    """The clients in its heading."""
    factor: float = 1.0
    """Converts from the unit in its heading to milliseconds, or from `TPS (k)` to transactions per second."""
    has_unit: bool = False
    connecting: str | None = None
    """`including` or `excluding`: which of pgbench's two rates it is."""

    @property
    def is_rate(self) -> bool:
        return self.field in _RATE_UNITS

    @property
    def is_latency(self) -> bool:
        return self.field.startswith("latency_") or re.fullmatch(r"p[\d.]+", self.field) is not None

    @property
    def is_measured(self) -> bool:
        return self.is_rate or self.is_latency or self.field in RESULTS

    def value(self, figure: Figure, style: Style) -> float | None:
        """Return a cell's value, of latencies in ms; None if its unit is another column's. Raises ValueError."""
        value = style.value(figure)
        if self.is_rate:
            if figure.unit and figure.unit not in _RATE_UNITS[self.field]:
                return None
            return value if figure.factor != 1 else check_bound(value * self.factor, figure.digits)
        if self.field == "duration_s":
            is_seconds = _TO_MS.get(figure.unit) == 1e3 or (not figure.unit and _SECONDS.search(plain_head(self.head)))
            return value if is_seconds and figure.factor == 1 else None
        if self.is_latency or self.field == "connect_ms":
            if figure.factor != 1 or (figure.unit and figure.unit not in _TO_MS):
                return None
            return round(value * (_TO_MS[figure.unit] if figure.unit else self.factor), 9)
        return value


def plain_head(head: str) -> str:
    return re.sub(r"\s+", " ", head.replace("*", "").replace("`", "").replace("_", " ")).strip().lower()


def column_of(head: str) -> Column:
    text = plain_head(head)[:LONGEST_HEAD]
    name = text.rstrip(":.").strip()
    without_unit = re.sub(r"\s?[(\[].{0,60}?[)\]]$", "", name).strip()
    in_brackets = re.sub(r"^[cj] \((\w+)\)$", r"\1", name)
    counted = re.sub(r"^(?:#|num(?:ber)?\.?|no\.?|№)\s?(?:of\s)?(?:concurrent\s)?", "", without_unit)
    if CLIENTS & {name, without_unit, counted, in_brackets}:
        return Column("clients", head)
    if name.replace(" ", "") in ("clients/threads", "client/threads", "c/j"):
        return Column("clients/workers", head)
    if name in _PLAIN:
        return Column(_PLAIN[name], head)
    if without_unit in ("scale", "scale factor", "duration", "transactions", "errors"):
        return Column(_PLAIN[without_unit], head)
    connecting = _CONNECTING.fullmatch(without_unit)
    if connecting is not None:
        unit = _UNIT.search(text)
        return Column("connect_ms", head, factor=_TO_MS[unit["unit"]] if unit is not None else 1.0)
    if _RESULT.search(text):
        return Column("result", head)
    unscaled, factor = without_factor(text)
    rate = _RATE.search(unscaled)
    if rate is not None:
        return _rate(unscaled, rate, head, factor)
    kind = "result" if _COUNTS.search(name) else "workers" if name in _WORKERS else "label"
    return _latency(text, head) or Column("ordinal" if kind == "label" and _ORDINAL.fullmatch(name) else kind, head)


def columns_of(heads: Sequence[str]) -> list[Column]:
    """Return the meaning of adjacent columns: in `Direct tps | Direct avg`, both are of the target Direct."""
    columns = [column_of(head) for head in heads]
    targets = {column.target for column in columns if column.is_rate and column.target is not None}
    return [_of_target(column, targets) if column.target is None else column for column in columns]


def _of_target(column: Column, targets: Collection[str]) -> Column:
    text = re.sub(r"\s+", " ", re.sub(r"[*`_]", " ", column.head)).strip()
    for target in sorted(targets, key=len, reverse=True):
        name = re.escape(target)
        rest = re.sub(rf"^{name}(?!\w)[\s:,-]*|[\s:,(-]*(?<!\w){name}\)?$", "", text, flags=re.IGNORECASE)
        if rest and rest != text and (found := column_of(rest)).is_measured:
            return replace(found, head=column.head, target=target)
    return column


def without_factor(text: str) -> tuple[str, float]:
    """Return `text`, in lower case, without the factor of its rate, and that factor: 1,000 for `ktps`, `tps (k)`."""
    for pattern, factor in _FACTORS:
        if pattern.search(text):
            return pattern.sub(" ", text), factor
    return text, 1.0


def _rate(text: str, rate: re.Match[str], head: str, factor: float) -> Column:
    field = next(group for group in _RATE_UNITS if rate[group])
    rest = text[: rate.start()] + " " + text[rate.end() :]
    clients = _CLIENTS_IN.search(rest)
    if clients is not None:
        rest = rest[: clients.start()] + " " + rest[clients.end() :]
    if _DERIVED.search(rest) or _OVER.match(text, rate.end()):
        return Column("derived", head)
    kind = _KIND.search(rest) if field == "tps" else None
    return Column(
        field,
        head,
        _rest_of_head(rest, head),
        int(clients["clients"]) if clients else None,
        factor,
        connecting=None if kind is None else "including" if kind[0].startswith("in") else "excluding",
    )


def _latency(text: str, head: str) -> Column | None:
    unit, percentile = _UNIT.search(text), _PERCENTILE.search(text)
    named = _LATENCY.search(text)
    if named is None and (unit is None or _UNIT.sub("", text).strip(" ()[]") == "") and percentile is None:
        return None
    statistic = next((field for field, pattern in _STATISTICS.items() if pattern.search(text)), None)
    if named is None and percentile is None and statistic is None:
        return None
    rest = text
    if percentile is not None:
        digits = percentile["p"] or percentile["q"]
        # p999 is 99.9 %
        field = f"p{float(digits if '.' in digits or len(digits) < 3 else f'{digits[:2]}.{digits[2:]}'):g}"
        rest = _PERCENTILE.sub(" ", rest)
    else:
        field = statistic or "latency_mean_ms"
    rest = _LATENCY.sub(" ", _UNIT.sub(" ", rest))
    for pattern in _STATISTICS.values():
        rest = pattern.sub(" ", rest)
    rest = rest.replace("percentile", " ")
    if _NO_LATENCY.search(rest):
        return Column("ignored", head)
    factor = _TO_MS[unit["unit"]] if unit is not None else 1.0
    return Column(field, head, _rest_of_head(rest, head), factor=factor, has_unit=unit is not None)


def _rest_of_head(rest: str, head: str) -> str | None:
    words = _QUALIFIER.sub(" ", _RATE.sub(" ", rest)).split()
    if not words or _ORDINAL.fullmatch(" ".join(words)):
        return None
    start = head.lower().find(words[0])
    last = head.lower().rfind(words[-1])
    written = head[start : last + len(words[-1])] if 0 <= start <= last else " ".join(words)
    return written.strip(" *`_()[]:,-") or None
