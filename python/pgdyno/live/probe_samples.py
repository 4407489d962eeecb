"""Aggregates the probe's lines by second; docs/reference/probe.md describes them."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pgdyno.records.probe import wait_class
from pgdyno.report.sections.over_seconds.timelines import MARKS

SESSIONS = (None, "client backend", "parallel worker")
"""Backend types whose waits count as sessions; None if the probe may not see the type."""
SHARES = ("user", "system", "irq", "iowait", "steal")
MB = 1e6
MOST_SECONDS = 3_600
"""Seconds that are kept; of a longer trial, the last ones."""

GONE_S = 5
"""Seconds without a sample after which the last one is not current."""


class Sampled:
    """Collects a probe's lines of one trial; `rows` are the complete seconds."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        """By second: `t` since 1970, `waits` by class (sessions, mean of the samples), `cpu` (shares of the host),
        `disk` (highest utilisation, MB per second written and read), `wal` (MB per second), `marks` (words).
        """
        self.wait: str | None = None
        """The top wait of the last second."""
        self.blocker: str | None = None
        self.process: str | None = None
        self._second: dict[str, Any] = {}
        self._looks = 0
        self._looked_at = self._processes_at = 0
        self._sessions: Counter[str] = Counter()
        self._waits: Counter[str] = Counter()

    def add(self, lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Add lines, and return the seconds that they complete; unknown lines are left out."""
        before = len(self.rows)
        for line in lines:
            try:
                self._take(line)
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
                # from a later version, or not from the probe
                continue
        new = self.rows[before:]
        del self.rows[:-MOST_SECONDS]
        return new

    def _take(self, line: Mapping[str, Any]) -> None:
        second = int(line["wall_us"]) // 1_000_000
        if second != self._second.get("t"):
            self._close()
            self._second = {"t": second}
        if line["event"] == "waits":
            self._looks += 1
            for row in line["rows"]:
                # as in the report: the checkpointer's pauses belong to no session
                if row.get("backend_type") not in SESSIONS:
                    continue
                self._sessions[wait_class(row["wait_type"], row["wait"])] += row["sessions"]
                self._waits[_wait_name(row)] += row["sessions"]
        elif line["event"] == "blockers":
            self.blocker = _blocker(line["rows"])
        elif line["event"] == "sample" and line["source"] in _SOURCES:
            _SOURCES[line["source"]](self, line["rows"], (line.get("span_us") or 0) / 1e6)

    def _close(self) -> None:
        """Complete a second that has data."""
        if self._looks:
            self._second["waits"] = {name: round(n / self._looks, 2) for name, n in self._sessions.items()}
            busiest = self._waits.most_common(1)
            self.wait = f"{busiest[0][0]}: {busiest[0][1] / self._looks:.1f} sessions" if busiest else None
            if not any(name.startswith("Lock") for name in self._waits):
                self.blocker = None
            self._looked_at = self._second["t"]
        at = self._second.get("t", 0)
        if at - self._looked_at > GONE_S:
            self.wait = self.blocker = None
        if at - self._processes_at > GONE_S:
            self.process = None
        if len(self._second) > 1:
            self.rows.append(self._second)
        self._looks = 0
        self._sessions.clear()
        self._waits.clear()

    def _cpu(self, rows: Sequence[Mapping[str, Any]], _span_s: float) -> None:
        values = rows[0]["values"]
        self._second["cpu"] = [values[name] for name in SHARES if name in values] and [
            round(values.get(name, 0.0), 4) for name in SHARES
        ]

    def _disk(self, rows: Sequence[Mapping[str, Any]], span_s: float) -> None:
        if span_s <= 0:
            return
        ours = [row for row in rows if row.get("labels", {}).get("holds")] or list(rows)
        busy = max((row["values"].get("utilisation", 0.0) for row in ours), default=0.0)
        amounts = [sum(row["values"].get(name, 0) for row in ours) / span_s / MB for name in ("written", "read")]
        self._second["disk"] = [round(busy, 4), *(round(each, 3) for each in amounts)]

    def _wal(self, rows: Sequence[Mapping[str, Any]], span_s: float) -> None:
        inserted = rows[0]["values"].get("inserted")
        if inserted is not None and span_s > 0:
            self._second["wal"] = round(inserted / span_s / MB, 3)

    def _add_marks(self, rows: Sequence[Mapping[str, Any]], _span_s: float) -> None:
        """Return the checkpoints and vacuums that were counted in this second."""
        values: Counter[str] = Counter()
        for row in rows:
            values.update({name: row["values"].get(name) or 0 for name in MARKS})
        words = [word for name, word in MARKS.items() if values[name] > 0]
        if words:
            self._second["marks"] = [*self._second.get("marks", ()), *words]

    def _process(self, rows: Sequence[Mapping[str, Any]], span_s: float) -> None:
        if span_s <= 0:
            return
        cpu_us: defaultdict[str, float] = defaultdict(float)
        for row in rows:
            labels = row.get("labels", {})
            who = " ".join(filter(None, (labels.get("kind"), labels.get("activity"), f"({labels.get('pid')})")))
            cpu_us[who] += row["values"].get("cpu", 0)
        busiest = max(cpu_us.items(), key=lambda each: each[1], default=None)
        self._processes_at = self._second["t"]
        self.process = f"{busiest[0]}: {busiest[1] / 1e4 / span_s:.0f} % of a core" if busiest else None


_SOURCES = {
    "cpu": Sampled._cpu,
    "disk": Sampled._disk,
    "wal_position": Sampled._wal,
    "process": Sampled._process,
    "checkpoints": Sampled._add_marks,
    "tables": Sampled._add_marks,
}


def _wait_name(row: Mapping[str, Any]) -> str:
    if row["wait_type"] in (None, "CPU"):
        return "CPU"
    return f"{row['wait_type']} {row['wait']}" if row["wait"] else str(row["wait_type"])


def _blocker(rows: Sequence[Mapping[str, Any]]) -> str | None:
    held = Counter(row["blocked_by"] for row in rows)
    if not held:
        return None
    pid, number = held.most_common(1)[0]
    row = next(row for row in rows if row["blocked_by"] == pid)
    doing = " ".join(str(row[name]) for name in ("state", "wait_type", "wait") if row.get(name))
    return f"process {pid} ({doing or 'unknown'}) blocks {number}"
