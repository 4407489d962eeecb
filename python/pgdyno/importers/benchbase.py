"""Summaries of BenchBase and OLTP-Bench: the JSON of `*.summary.json`, and the line of results in its log.

Keys are those of BenchBase's ResultWriter.java.
"""

import re
from collections.abc import Callable

from pgdyno.importers.parsed import Output, OutputParser, number, of_another_database, unused_line
from pgdyno.messages import Message

_PAIR = re.compile(r'"(?P<key>[^"\\]{1,80})"\s{0,8}:\s{0,8}(?P<value>"[^"\\]{0,400}"|-?\d[\d.eE+-]{0,30}|null)')
_N = r"\d{1,9}(?:\.\d{1,20})?"
_LOGGED = re.compile(
    r"Results\((?:state=\w{1,20}, )?nanoSeconds=(?P<ns>\d{1,18}), measuredRequests=(?P<requests>\d{1,15})\) = "
    rf"(?P<throughput>{_N}) requests/sec(?: \(throughput\), (?P<goodput>{_N}) requests/sec \(goodput\))?"
)
_LATENCY = re.compile(
    r"(?P<what>Average|Minimum|Maximum|Median|\d{1,2}th Percentile) Latency \((?P<unit>micro|milli)seconds\)"
)
_MEANS = {"Average": "latency_mean_ms", "Minimum": "latency_min_ms", "Maximum": "latency_max_ms"}


def _count(text: str) -> int:
    return int(float(text))


def _rate(text: str) -> float:
    rate = float(text)
    if not 0 <= rate < 1e9:
        raise ValueError(f"{text!r} is not a rate")
    return rate


_FIELDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "Throughput (requests/second)": ("requests_per_s", _rate),
    "Goodput (requests/second)": ("tps", _rate),
    "Measured Requests": ("requests", _count),
    "Elapsed Time (nanoseconds)": ("duration_s", lambda text: float(text) / 1e9),
    "terminals": ("clients", _count),
    "scalefactor": ("scale", _count),
    "Benchmark Type": ("workload", str),
}
_HEADER = re.compile(
    r"(?P<key>Benchmark|Type|Isolation|Scale Factor|Terminals):\s{1,40}(?P<value>\S{1,80})(?:\s\{\S{1,200}\})?$"
)
_OF_HEADER = {
    "Benchmark": "Benchmark Type", "Type": "DBMS Type", "Isolation": "isolation", "Scale Factor": "scalefactor",
    "Terminals": "terminals",
}  # fmt: skip
_POSTGRES = re.compile(r"postgres|noisepage|cockroach|yugabyte|timescale|edb|alloydb|aurora", re.IGNORECASE)
_WORDS = {"DBMS Type": "dbms", "DBMS Version": "server_version", "isolation": "isolation"}
_BEGINNINGS = (
    "Benchmark Type", "DBMS Type", "Current Timestamp (milliseconds)", "Start timestamp (milliseconds)", "Final State",
)  # fmt: skip
_OTHERS = ("Current Timestamp (milliseconds)", "Start timestamp (milliseconds)", "Final State", "randomSeed")


class BenchbaseParser(OutputParser):
    def __init__(self) -> None:
        super().__init__()
        self._open: Output | None = None
        self._depth = 0
        self._header: dict[str, tuple[int, str]] = {}

    def read(self, text: str, line: int) -> bool:
        logged = _LOGGED.search(text)
        if logged is not None:
            self._add_logged(logged, text, line)
            return True
        stripped = text.strip()
        header = _HEADER.match(stripped)
        if header is not None and (header["key"] == "Benchmark" or self._header):
            self._header = {} if header["key"] == "Benchmark" else self._header
            self._header[_OF_HEADER[header["key"]]] = (line, header["value"])
            return True
        if self._open is None and stripped == "{":
            # it may begin here: the keys decide
            self._depth = 1
            return False
        taken = False
        for pair in _PAIR.finditer(text) if '":' in text or '" :' in text else ():
            taken = self._takes(pair["key"], pair["value"].strip('"'), line, pair[0]) or taken
        if self._open is None:
            return False
        if taken and stripped.count("{") == stripped.count("}") > 0:
            # a complete summary on one line
            self.end()
            return True
        self._depth += stripped.count("{") - stripped.count("}")
        if self._depth <= 0 or line - self._open.last_line > 20:
            self.end()
            return taken or stripped.startswith("}")
        return taken or stripped in ("", "...", "}", "},", "{") or stripped.startswith(("//", '"'))

    def end(self) -> None:
        output, self._open, self._depth = self._open, None, 0
        if output is None:
            return
        if output.requests_per_s is not None:
            self._add(output)
        else:
            what = Message("benchbase-without-throughput", "a BenchBase summary without throughput")
            self.unread.append(unused_line(output.line, what))

    def _add(self, output: Output) -> None:
        database = output.words.get("dbms", "")
        if database and not _POSTGRES.search(database):
            self.unread.append(unused_line(output.line, of_another_database(database)))
            return
        _settle(output)
        self.found.append(output)

    def _takes(self, key: str, value: str, line: int, text: str) -> bool:
        latency = _LATENCY.fullmatch(key)
        known = latency is not None or key in _FIELDS or key in _WORDS or key in _OTHERS
        begins = latency is not None or "(requests/second)" in key or key in _BEGINNINGS
        if not known or (self._open is None and not begins and self._depth == 0):
            return False
        if self._open is None:
            self._open = Output("benchbase", line, line)
            self._depth = max(self._depth, 1)
        output = self._open
        output.last_line = line
        if value == "null":
            return True
        return _put_value(output, key, value, line, text)

    def _add_logged(self, match: re.Match[str], text: str, line: int) -> None:
        self.end()
        output = Output("benchbase", min([line, *(at for at, _ in self._header.values())]), line)
        output.put("requests_per_s", number(match["throughput"]), line, text)
        output.put("requests", int(match["requests"]), line, text)
        output.put("duration_s", int(match["ns"]) / 1e9, line, text)
        if match["goodput"] is not None:
            output.put("tps", number(match["goodput"]), line, text)
        for key, (at, value) in self._header.items():
            _put_value(output, key, value.lower() if key == "Benchmark Type" else value, at, value)
        self._add(output)


def _put_value(output: Output, key: str, value: str, line: int, text: str) -> bool:
    latency = _LATENCY.fullmatch(key)
    try:
        if latency is not None:
            milliseconds, what = round(float(value) / (1000 if latency["unit"] == "micro" else 1), 6), latency["what"]
            if what in _MEANS:
                output.put(_MEANS[what], milliseconds, line, text)
            else:
                rank = 50.0 if what == "Median" else float(what.partition("th")[0])
                output.put_percentile(rank, milliseconds, line, text)
        elif key == "scalefactor" and not float(value).is_integer():
            # benchmarks such as TPC-H have fractions, and a point's scale has none
            output.variables[key] = value
        elif key in _FIELDS:
            name, convert = _FIELDS[key]
            output.put(name, convert(value), line, text)
        elif key in _WORDS:
            output.words[_WORDS[key]] = value
    except (ValueError, OverflowError):
        return False
    return True


def _settle(output: Output) -> None:
    assert output.requests_per_s is not None
    all_line, all_text = output.printed["requests_per_s"]
    if output.tps is None or output.tps > output.requests_per_s:
        output.put("tps", output.requests_per_s, all_line, all_text)
        if output.requests is not None:
            output.put("transactions", output.requests, *output.printed["requests"])
    elif output.duration_s is not None:
        line, text = output.printed["tps"]
        output.put("transactions", round(output.tps * output.duration_s), line, text)
        output.put("failed", round((output.requests_per_s - output.tps) * output.duration_s), line, text)
