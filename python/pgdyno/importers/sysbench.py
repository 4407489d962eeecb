"""sysbench 1.0's and 1.1's report: options, intervals, statistics.

Source of the wording: src/sysbench.c of sysbench (report_intermediate, report_cumulative), db_driver.c.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pgdyno.importers.found import Moment, Output
from pgdyno.importers.numbers import number, whole

_BANNER = re.compile(r"sysbench (?P<version>\d[\w.\-]*)")
_INTERVAL = re.compile(
    r"\[ (?P<at>\d+)s \] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) qps: (?P<qps>[\d.]+)"
    r".*?lat \(ms,(?P<percentile>[\d.]+)%\): (?P<lat>[\d.]+)"
)
_COMMAND = re.compile(r"(?:^|[$#>]\s*|\s)(?P<command>(?:\S*/)?sysbench\s+\S.*\brun\b.*)")
_PER_SECOND = re.compile(r"(?P<count>\d+)\s*\((?P<rate>[\d.]+) per sec\.?\)")
_PERCENTILE = re.compile(r"(?P<percentile>\d+(?:\.\d+)?)th percentile")

_FIELDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "Number of threads": ("clients", whole),
    "read": ("reads", whole),
    "write": ("writes", whole),
    "other": ("others", whole),
    "total time": ("duration_s", lambda text: number(text.removesuffix("s"))),
    "time elapsed": ("duration_s", lambda text: number(text.removesuffix("s"))),
    "min": ("latency_min_ms", number),
    "avg": ("latency_mean_ms", number),
    "max": ("latency_max_ms", number),
}
_RATES: dict[str, tuple[tuple[str, str], ...]] = {
    "transactions": (("transactions", "count"), ("tps", "rate")),
    "queries": (("qps", "rate"),),
    "ignored errors": (("errors", "count"),),
    "reconnects": (),
}
"""Lines `key: count (rate per sec.)`: our fields, and which of the two goes there."""

_STARTS = ("SQL statistics:", "Running the test with following options:")
_KNOWN = (
    "SQL statistics:",
    "queries performed:", "General statistics:", "Throughput:", "Latency (ms):", "Threads fairness:", "total:",
    "execution time (avg/stddev):", "sum:", "queue length:", "Initializing",
    "Threads started!", "Report intermediate results", "total number of events:", "Prewarm", "Target transaction",
    "events/s (eps):",
)  # fmt: skip


class SysbenchParser:
    """Reads outputs line by line."""

    def __init__(self) -> None:
        """Begins before the first line."""
        self.found: list[Output] = []
        self._open: Output | None = None
        self._version: str | None = None
        self._command: tuple[int, str] | None = None

    def read(self, text: str, line: int) -> bool:
        """Takes one line; False when it is none of sysbench's."""
        stripped = text.strip().strip("`")
        command = _COMMAND.search(text)
        if command is not None:
            self.end()
            self._command = (line, command["command"].strip())
            return True
        banner = _BANNER.match(stripped)
        if banner is not None:
            self.end()
            self._version = banner["version"]
            return True
        if stripped.startswith(_STARTS) and (self._open is None or self._open.reads is not None):
            self.end()
            self._begin(line)
            return True
        if self._open is None:
            return self._takes_interval(stripped, line)
        return self._takes_interval(stripped, line) or self._takes_figure(self._open, stripped, line)

    def end(self) -> None:
        """Closes what is open; an output without a rate is none."""
        if self._open is not None and self._open.tps is not None:
            self.found.append(self._open)
        self._open = None

    def _begin(self, line: int) -> Output:
        output = self._open = Output("sysbench", line, line, version=self._version)
        if self._command is not None:
            output.line, output.command = self._command
            _options(output, self._command[1], self._command[0])
            self._command = None
        return output

    def _takes_interval(self, stripped: str, line: int) -> bool:
        match = _INTERVAL.match(stripped)
        if match is None:
            return False
        output = self._open or self._begin(line)
        p95 = float(match["lat"]) if float(match["percentile"]) == 95 else None
        output.progress.append(Moment(line, float(match["at"]), float(match["tps"]), p95_ms=p95))
        output.clients = int(match["threads"])
        output.last_line = line
        return True

    def _takes_figure(self, output: Output, stripped: str, line: int) -> bool:
        key, _, value = (part.strip() for part in stripped.partition(":"))
        percentile = _PERCENTILE.match(key)
        rate = _PER_SECOND.match(value)
        if percentile is not None:
            output.percentiles_ms[float(percentile["percentile"])] = number(value)
            output.printed["percentiles_ms"] = (line, stripped)
        elif key == "events (avg/stddev)" and "/" in value:
            for name, each in zip(("mean", "stddev"), value.split("/", 1), strict=True):
                output.put(f"client_transactions_{name}", number(each), line, stripped)
        elif rate is not None and key in _RATES:
            for name, group in _RATES[key]:
                output.put(name, int(rate[group]) if group == "count" else float(rate[group]), line, stripped)
        elif key in _FIELDS and value:
            name, convert = _FIELDS[key]
            output.put(name, convert(value), line, stripped)
        elif stripped and not stripped.startswith(_KNOWN):
            self.end()
            return False
        return True


def _options(output: Output, command: str, line: int) -> None:
    for name, value in re.findall(r"--([\w-]+)=(\S+)", command):
        if name == "threads" and value.isdigit():
            output.put("clients", int(value), line, f"--{name}={value}")
        elif name in ("tables", "table-size", "table_size"):
            output.variables[name.replace("-", "_")] = value
    script = re.search(r"(?P<name>[\w./-]+?)(?:\.lua)?\s+(?:--\S+\s+)*run\b", command)
    if script is not None:
        output.put("workload", script["name"].rsplit("/", 1)[-1].replace("_", "-"), line, command)
