"""What a parser found: one output of a tool, as printed, and numbers as documents print them."""

import re
from dataclasses import dataclass, field, fields

from pgdyno.messages import Message
from pgdyno.records import ImportedClaim, ImportedLine, UnusedLine


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    latency_ms: float
    failures: int | None = None
    retries: int | None = None
    script: int = 0


@dataclass(slots=True)
class ScriptPart:
    name: str
    weight: int = 1
    transactions: int | None = None
    failed: int = 0
    skipped: int = 0
    retried: int | None = None
    retries: int | None = None
    latency_mean_ms: float | None = None
    latency_stddev_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of progress, which covers the time since the line before."""

    line: int
    at_s: float
    """Seconds from the start to the end of the interval."""
    tps: float
    latency_ms: float | None = None
    stddev_ms: float | None = None
    p95_ms: float | None = None
    """The percentile that sysbench was configured to print; 95 by default."""
    failed: float | None = None
    """Number in the interval, like skipped, retried and retries."""
    lag_ms: float | None = None
    skipped: float | None = None
    retried: float | None = None
    retries: float | None = None


@dataclass(slots=True)
class Output:
    """One output. Values that were not printed are None."""

    tool: str
    """The tool that printed it; `table` and `csv` for rows of tables."""
    line: int
    """Number of the first line in the file, from 1."""
    last_line: int
    file: str = ""
    target: str | None = None
    """As its heading or column names it."""
    trial_target: str = ""
    """The same, distinct from those of other outputs."""
    version: str | None = None
    command: str | None = None
    workload: str | None = None
    variant: str | None = None
    """For HammerDB's TPROC-C: functions or procedures."""
    scale: int | None = None
    warehouses: int | None = None
    clients: int | None = None
    workers: int | None = None
    protocol: str | None = None
    rate: float | None = None
    duration_s: float | None = None
    transactions: int | None = None
    transactions_per_client: int | None = None
    failed: int | None = None
    skipped: int | None = None
    retried: int | None = None
    retries: int | None = None
    schedule_lag_ms: float | None = None
    requests: int | None = None
    requests_per_s: float | None = None
    """BenchBase's throughput, which its latencies cover: `tps` and `transactions` leave out requests that failed."""
    reads: int | None = None
    writes: int | None = None
    others: int | None = None
    errors: int | None = None
    tps: float | None = None
    tps_including_connections: float | None = None
    tps_excluding_connections: float | None = None
    """pgbench's rates, of which `tps` is one: see `importers.pgbench`."""
    qps: float | None = None
    nopm: float | None = None
    tpm: float | None = None
    latency_mean_ms: float | None = None
    latency_with_failures_ms: float | None = None
    """pgbench's mean of succeeded and failed transactions, where it has no mean of those that succeeded."""
    latency_stddev_ms: float | None = None
    latency_min_ms: float | None = None
    latency_max_ms: float | None = None
    percentiles_ms: dict[float, float] = field(default_factory=dict)
    connect_ms: float | None = None
    client_transactions_mean: float | None = None
    client_transactions_stddev: float | None = None
    group: int = 0
    """First line of its table, from 1; 0 outside of tables. A table's rows are points of one target."""
    settings: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    """Other words that distinguish this output from its neighbours: from a heading or a column."""
    server: str = ""
    options: str = ""
    """Options of the command line that a point does not contain, in order: `-C -L 100`."""
    asked: dict[str, object] = field(default_factory=dict)
    """Values on the command line, by field: a summary with other values belongs to another run."""
    place: tuple[str, ...] = ()
    """Headings above it, the highest first, with names of machines and versions."""
    section: int = 0
    """Counts the texts between outputs: outputs with no text between them have the same value."""
    warmup: str | None = None
    aborted: str | None = None
    clients_aborted: int = 0
    scripts: list[ScriptPart] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    progress: list[Moment] = field(default_factory=list)
    printed: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By field: the line and the text of each figure, as evidence."""
    further: dict[str, float] = field(default_factory=dict)
    """Figures that only one tool prints, by their names in `records.Imported.figures`."""
    shown: dict[str, str] = field(default_factory=dict)
    """Parts of `load` that the tool's parser found."""
    is_by_new_orders: bool = False
    """Throughput is new orders although transactions are known, too."""
    is_ended_by_count: bool = False
    """A number of transactions ended the run, so that `duration_s` is a result."""

    @property
    def has_target_column(self) -> bool:
        return self.tool == "csv" and self.target is not None

    @property
    def load(self) -> dict[str, str]:
        """What the output says about its load besides the fields above; keys as in `records.Imported`."""
        is_timed = self.duration_s and self.transactions_per_client is None and not self.is_ended_by_count
        scripts = None if self.workload in UNNAMED_SCRIPTS else self.workload
        if self.scripts:
            scripts = ", ".join(f"{script.name}@{script.weight}" for script in self.scripts)
        shown = {
            "transactions": None if self.transactions_per_client is None else str(self.transactions_per_client),
            "duration_s": f"{self.duration_s:.0f}" if is_timed else None,
            "options": None if self.command is None else self.options or "none",
            "scripts": scripts,
            "loop": "open" if self.rate or self.schedule_lag_ms is not None else None,
        }
        return {name: value for name, value in shown.items() if value is not None} | self.shown

    def put(self, name: str, value: object, line: int, text: str) -> None:
        setattr(self, name, value)
        self._print(name, line, text)

    def keep(self, name: str, value: float, line: int, text: str) -> None:
        self.further[name] = value
        self._print(name, line, text)

    def show(self, name: str, value: str, line: int) -> None:
        self.shown[name] = value
        self.last_line = max(self.last_line, line)

    def put_percentile(self, percent: float, value_ms: float, line: int, text: str) -> None:
        self.percentiles_ms[percent] = value_ms
        self._print("percentiles_ms", line, text)

    def _print(self, name: str, line: int, text: str) -> None:
        self.printed[name] = (line, text.strip())
        self.last_line = max(self.last_line, line)


WHOLE = frozenset(each.name for each in fields(Output) if each.type == (int | None))
FIGURES = tuple(each.name for each in fields(Output) if each.type in (int | None, float | None))
"""Fields of an output that are kept as printed; percentiles are named `latency_p95_ms`."""
RATES = ("tps", "qps", "nopm", "tpm")


def unused_line(line: int, what: str | Message, file: str = "") -> UnusedLine:
    """Return a line that is not taken over: itself, or why not; its `file` is known when a document was read."""
    if isinstance(what, str):
        return UnusedLine(file=file, line=line, text=what)
    return UnusedLine(file=file, line=line, text=str(what), id=what.id, parameters=what.parameters)


def of_another_database(database: str) -> Message:
    return Message("result-of-another-database", "a result of {database}, not of PostgreSQL", database=database[:60])


@dataclass(slots=True)
class Document:
    outputs: list[Output] = field(default_factory=list)
    claims: list[ImportedClaim] = field(default_factory=list)
    facts: dict[str, list[ImportedLine]] = field(default_factory=dict)
    unread: list[UnusedLine] = field(default_factory=list)


class OutputParser:
    """Finds the outputs of one tool in a document, line by line. A document has a parser of its own."""

    def __init__(self) -> None:
        self.found: list[Output] = []
        """The outputs that ended, in the order of their lines."""
        self.unread: list[UnusedLine] = []
        """Outputs without the figures that a result needs."""

    def read(self, text: str, line: int) -> bool:
        """Process one line; return False if it does not belong to the tool's output."""
        raise NotImplementedError

    def end(self) -> None:
        """Finish an open output."""

    def end_block(self) -> None:
        """Finish an output that is complete: a block of code begins or ends."""


COMMENT = re.compile(r"(?<=\S)(?:\s+#|\s{2,}(?:--|//|<--|←)\s).*$")
"""An author's comment after a line of an output."""
_FIGURES = re.compile(
    r"(?<![\w.,])\d[\d.,]{0,30}\s{0,3}[km]?\s{0,3}(?:tps|tpmc?|nopm|qps|ms|transactions)\b|"
    r"\b(?:tps|tpmc?|nopm|qps|latency|transactions)\b\W{0,12}\d",
    re.IGNORECASE,
)


LONGEST_SHOWN = 400
"""Characters of an unread line that are kept."""


def looks_like_figure(text: str) -> bool:
    """Return whether `text` has a figure of a benchmark: it is listed as unread if no parser accepts it."""
    return _FIGURES.search(text) is not None


UNNAMED_SCRIPTS = ("custom", "multiple scripts")
"""Transaction types of pgbench that do not name the scripts."""

LONGEST_NUMBER = 40
"""Characters; a longer one is not a figure of a benchmark."""
LARGEST_NUMBER = 1e12
"""A larger one is not a figure of a benchmark, and run folders could not hold what is derived from it."""
NUMBER = r"\d{1,3}(?:,\d{3}){1,8}(?:\.\d{1,20})?|\d{1,20}(?:\.\d{1,20})?"
_ENGLISH = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", re.ASCII)
_COMMA = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|0,\d+|\d+,(?:\d{1,2}|\d{4,})", re.ASCII)
"""Numbers in which only a decimal comma makes sense: `379,6`, `1.234,5`, `0,123`; `1,234` has thousands."""


def number(text: str) -> float:
    """Parse `1,234.5` and, if a comma can only be the decimal sign, `379,6`. Raises ValueError."""
    text = text.strip()
    if len(text) <= LONGEST_NUMBER:
        if _ENGLISH.fullmatch(text):
            return check_bound(float(text.replace(",", "")), text)
        if _COMMA.fullmatch(text):
            return check_bound(float(text.replace(".", "").replace(",", ".")), text)
    shown = text if len(text) <= LONGEST_NUMBER else f"{text[:LONGEST_NUMBER]}…"
    raise ValueError(f"{shown!r} is not a number")


def check_bound(value: float, text: str) -> float:
    """Return `value`, which `text` shows. Raises ValueError for one above `LARGEST_NUMBER`."""
    if value > LARGEST_NUMBER:
        raise ValueError(f"{text!r} is too large")
    return value


def whole_number(text: str, value: float | None = None) -> int:
    """Parse an integer; `value` is what `text` shows if that is known. Raises ValueError."""
    value = number(text) if value is None else value
    if value != int(value):
        raise ValueError(f"{text!r} is not a whole number")
    return int(value)
