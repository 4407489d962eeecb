"""Parses sysbench's report, versions 0.4 to 1.1: options, intervals, statistics.

Source of the wording: src/sysbench.c of sysbench (report_intermediate, report_cumulative), db_driver.c; up to 0.5 also
tests/oltp.
"""

import re
from collections.abc import Callable

from pgdyno.importers.documents.command_lines import prefix_of, sysbench_command, without_prefix
from pgdyno.importers.documents.passwords import connection_options, server_parts
from pgdyno.importers.parsed import (
    COMMENT,
    Moment,
    Output,
    OutputParser,
    number,
    of_another_database,
    unused_line,
    whole_number,
)
from pgdyno.messages import Message

_BANNER = re.compile(r"sysbench v?(?P<version>\d[\w.\-]{0,30})")
_N = r"\d{1,15}(?:\.\d{1,9})?"
_INTERVALS = (
    re.compile(
        rf"\[\s{{0,8}}(?P<at>\d{{1,9}}(?:\.\d{{1,3}})?)s \] thds: (?P<threads>\d{{1,9}}) tps: (?P<tps>{_N}) qps: {_N}"
        rf".{{0,120}}?lat \(ms,\s?(?P<percentile>{_N})%\): (?P<lat>{_N})(?: err/s: (?P<errors>{_N}))?"
    ),
    # up to 0.5
    re.compile(
        rf"\[\s{{0,8}}(?P<at>\d{{1,9}})s\] threads: (?P<threads>\d{{1,9}}), tps: (?P<tps>{_N})"
        rf".{{0,120}}?response time: (?P<lat>{_N})ms \((?P<percentile>{_N})%\)(?:, errors: (?P<errors>{_N}))?"
    ),
)
_TIME = re.compile(r"\[\s{0,8}\d{1,9}(?:\.\d{1,3})?s \] ")
_PER_SECOND = re.compile(rf"(?P<count>\d{{1,15}})\s{{0,20}}\((?P<rate>{_N}) per sec\.?\)")
_PERCENTILE = re.compile(r"(?:approx\.\s{1,8})?(?P<percentile>\d{1,3}(?:\.\d{1,4})?)(?:th)? percentile")
_TARGET_RATE = re.compile(rf"Target transaction rate: (?P<rate>{_N})/sec")
_UNNAMED = re.compile(r"\d{1,12}\.\d{1,6} (?:\|\*{0,200}\s{1,200}\d{1,15}$|MiB transferred)")


def _seconds(text: str) -> float:
    return number(text.removesuffix("s"))


def _milliseconds(text: str) -> float:
    return number(text.removesuffix("ms"))


_FIELDS: dict[str, tuple[str, Callable[[str], object]]] = {
    "Number of threads": ("clients", whole_number),
    "read": ("reads", whole_number),
    "write": ("writes", whole_number),
    "other": ("others", whole_number),
    "events/s (eps)": ("tps", number),
    "total time": ("duration_s", _seconds),
    "time elapsed": ("duration_s", _seconds),
    "min": ("latency_min_ms", _milliseconds),
    "avg": ("latency_mean_ms", _milliseconds),
    "max": ("latency_max_ms", _milliseconds),
}
_RATES: dict[str, tuple[tuple[str, str], ...]] = {
    "transactions": (("transactions", "count"), ("tps", "rate")),
    "queries": (("qps", "rate"),),
    "ignored errors": (("errors", "count"),),
    "deadlocks": (("errors", "count"),),
    # not failures: --reconnect=N causes them, too, and the driver for PostgreSQL cannot reconnect after an error
    "reconnects": (),
    "read/write requests": (),
    "other operations": (),
}

_STATISTICS = ("SQL statistics:", "OLTP test statistics:")
_HEAD = "Running the test with following options:"
_CHECKPOINT = "Checkpoint report:"
_STARTS = (*_STATISTICS, "Throughput:", "Number of threads:", _HEAD, _CHECKPOINT)
_OTHER_TESTS = ("cpu", "memory", "threads", "mutex", "fileio")
_OF_OTHER_TESTS = ("Prime numbers limit:", "CPU speed:", "Running memory speed test")
_KNOWN = (
    *_STARTS,
    "queries performed:", "General statistics:", "Latency (ms):", "Threads fairness:", "total:",
    "execution time (avg/stddev):", "sum:", "queue length:", "Initializing",
    "Threads started!", "Report intermediate results", "total number of events:", "Prewarm",
    "Test execution summary:", "per-request statistics:", "response time:", "total time taken by event execution:",
    "Time limit exceeded, exiting", "(last message repeated", "Done.", "WARNING:", "ALERT:", "FATAL:", "DEBUG:",
    "No DB drivers specified", "Doing OLTP test", "Running mixed OLTP test", "Running simple OLTP test",
    "Doing read-only test", "Using ", "Skipping BEGIN", "Maximum number of requests", "Random number generator seed",
    "Unrestricted", "Forcing shutdown", "Latency histogram", "value  ---", "Creating ", "Warmup",
    "percentile stats:", "Report checkpoint",
    # of tests that use no database
    *_OF_OTHER_TESTS, "events per second:", "block size:", "total size:", "operation:", "scope:", "Total operations:",
)  # fmt: skip


class SysbenchParser(OutputParser):
    def __init__(self) -> None:
        super().__init__()
        self._open: Output | None = None
        self._version: str | None = None
        self._command: tuple[int, str] | None = None
        self._has_head = False
        self._has_checkpoints = False
        self._died: list[str] = []
        self._is_other_test = False

    def read(self, text: str, line: int) -> bool:
        stripped = COMMENT.sub("", text).strip().strip("`*").lstrip("-•# \t").strip()
        command, banner = sysbench_command(text), _BANNER.match(stripped)
        if command is not None or banner is not None:
            self.end()
            self._is_other_test = False
            self._command = (line, command) if command is not None else self._command
            self._version = banner["version"] if banner is not None and command is None else self._version
            return True
        plain = _TIME.sub("", stripped, count=1)
        self._is_other_test = self._is_other_test or plain.startswith(_OF_OTHER_TESTS)
        if self._starts(plain):
            self.end()
            self._begin(line)
        if self._open is None:
            return self._takes_interval(stripped, line)
        self._has_head = self._has_head or plain.startswith(_HEAD)
        self._has_checkpoints = self._has_checkpoints or plain.startswith(_CHECKPOINT)
        if plain.startswith("FATAL:"):
            self._died.append(plain.removeprefix("FATAL:").strip())
            self._open.last_line = line
            return True
        try:
            return self._takes_interval(stripped, line) or self._takes_figure(self._open, plain, line)
        except ValueError:
            self.unread.append(unused_line(line, stripped[:400]))
            return True

    def _starts(self, plain: str) -> bool:
        if self._open is None or not plain.startswith(_STARTS):
            return plain.startswith(_STARTS)
        if self._has_checkpoints:
            return plain.startswith(_HEAD)
        # latencies end an output: what follows belongs to another
        has_latency = self._open.latency_mean_ms is not None
        return self._open.tps is not None and (plain != "Throughput:" or has_latency)

    def end(self) -> None:
        output, self._open = self._open, None
        died, self._died = self._died, []
        if output is None:
            return
        if died:
            output.aborted = "; ".join(died)
        why = None
        if output.shown.get("driver", "pgsql") != "pgsql":
            why = of_another_database(output.shown["driver"])
        elif output.tps is not None and self._has_checkpoints:
            why = Message(
                "sysbench-checkpoints",
                "no throughput of the whole run: sysbench's statistics restart at each checkpoint "
                "(--report-checkpoints)",
            )
        elif output.tps is not None and self._uses_no_database(output):
            why = Message("sysbench-other-test", "not a result: a test of sysbench that uses no database")
            self._is_other_test = False
        elif output.tps is not None:
            _settle(output)
            self.found.append(output)
        elif output.aborted is not None and output.clients is not None:
            self.found.append(output)
        elif output.progress or output.reads is not None:
            incomplete = Message("sysbench-incomplete", "no throughput: the output ends before its rate")
            self.unread.append(unused_line(output.last_line, incomplete))
        if why is not None:
            self.unread.append(unused_line(output.line, why))

    def _uses_no_database(self, output: Output) -> bool:
        if output.workload is not None:
            return output.workload in _OTHER_TESTS
        has_statistics = output.transactions is not None or output.reads is not None or bool(output.progress)
        return not has_statistics and (self._has_head or self._is_other_test)

    def _begin(self, line: int) -> Output:
        output = self._open = Output("sysbench", line, line, version=self._version)
        self._has_head = self._has_checkpoints = False
        if self._command is not None:
            output.line, output.command = self._command
            _read_options(output, self._command[1], self._command[0])
            self._command = None
        return output

    def _takes_interval(self, stripped: str, line: int) -> bool:
        match = next((found for each in _INTERVALS if (found := each.match(stripped))), None)
        if match is None:
            return False
        try:
            at_s, tps, latency_ms, errors = (number(match[each] or "0") for each in ("at", "tps", "lat", "errors"))
        except ValueError:
            # a figure that no benchmark has: the line is listed
            return False
        if self._open is not None and self._open.tps is not None and not self._has_checkpoints:
            self.end()
        output = self._open or self._begin(line)
        p95 = latency_ms if float(match["percentile"]) == 95 else None
        before_s = output.progress[-1].at_s if output.progress else 0.0
        failed = None if match["errors"] is None else errors * (at_s - before_s)
        output.progress.append(Moment(line, at_s, tps, p95_ms=p95, failed=failed))
        output.clients = int(match["threads"])
        output.last_line = line
        return True

    def _takes_figure(self, output: Output, stripped: str, line: int) -> bool:
        key, _, value = (part.strip() for part in stripped.partition(":"))
        percentile = _PERCENTILE.match(key)
        rate = _PER_SECOND.match(value)
        if percentile is not None:
            digits = percentile["percentile"]
            # 999 is 99.9 %
            rank = float(f"{digits[:2]}.{digits[2:]}" if len(digits) > 2 and digits.isdigit() else digits)
            output.put_percentile(rank, _milliseconds(value), line, stripped)
        elif key == "events (avg/stddev)" and "/" in value:
            for name, each in zip(("mean", "stddev"), value.split("/", 1), strict=True):
                output.put(f"client_transactions_{name}", number(each), line, stripped)
        elif rate is not None and key in _RATES:
            for name, group in _RATES[key]:
                output.put(name, int(rate[group]) if group == "count" else float(rate[group]), line, stripped)
        elif key in _FIELDS and value:
            name, convert = _FIELDS[key]
            # events are transactions; if there are queries, these were printed above
            if name != "tps" or output.tps is None:
                output.put(name, convert(value), line, stripped)
        elif (rated := _TARGET_RATE.match(stripped)) is not None:
            output.put("rate", number(rated["rate"]), line, stripped)
        elif stripped.strip(".…") and not stripped.startswith(_KNOWN) and not _UNNAMED.match(stripped):
            self.end()
            return False
        return True


def _settle(output: Output) -> None:
    if output.asked.get("clients", output.clients) != output.clients:
        # the command belongs to another run
        output.command, output.rate, output.is_ended_by_count = None, None, False
        output.shown.clear()
        output.asked.clear()
    asked_s = output.asked.get("duration_s")
    # the last transactions may take longer
    if isinstance(asked_s, int) and output.duration_s and abs(output.duration_s - asked_s) <= 0.1 * asked_s:
        output.shown.setdefault("duration_s", str(asked_s))
    has_options = output.printed.get("clients", (0, ""))[1].startswith("Number of threads")
    if not output.rate and (has_options or (output.command is not None and "rate=" not in output.command)):
        output.shown["loop"] = "closed"


_OPTION = re.compile(r"--(?P<name>[\w-]{1,60})(?:=(?P<value>'[^']{0,300}'|\"[^\"]{0,300}\"|\S{1,300}))?")


def _read_options(output: Output, command: str, line: int) -> None:
    prefix = prefix_of(command)
    command = without_prefix(command)
    others = list(prefix.options)
    server: list[str] = []
    found = [(match["name"], (match["value"] or "").strip("'\"")) for match in _OPTION.finditer(command)]
    for name, value in found:
        plain = name.replace("-", "_")
        if plain in ("threads", "num_threads"):
            if re.fullmatch(r"[0-9]{1,9}", value):
                output.put("clients", int(value), line, f"--{name}={value}")
                output.asked["clients"] = int(value)
        elif plain in ("tables", "table_size", "oltp_tables_count", "oltp_table_size"):
            output.variables[plain] = value
        elif plain in ("rate", "tx_rate"):
            if re.fullmatch(_N, value) and float(value) > 0:
                output.put("rate", float(value), line, f"--{name}={value}")
        elif re.fullmatch(r"\w{1,20}_(?:host|port|db|socket)", plain):
            # libpq takes a connection string in place of the database
            server += server_parts(value).values()
            others += connection_options(value)
        elif plain not in _APART and not plain.endswith(("_user", "_password")) and (plain, value) not in _UNLIMITED:
            others.append(f"--{name}={value}" if value else f"--{name}")
    _read_limits(output, {name.replace("_", "-"): value for name, value in found})
    output.options = " ".join(sorted(others))
    output.server = ":".join(server or prefix.server.values())
    script = re.search(r"(?P<name>[\w./-]{1,200}?)(?:\.lua)?\s+(?:--\S{1,300}\s+){0,60}run\b", command[:4000])
    named = re.search(r"--test=(?P<name>\S{1,200})", command)
    name = named["name"] if named else script["name"] if script and script["name"] != "sysbench" else None
    if name is not None:
        workload = name.rsplit("/", 1)[-1].removesuffix(".lua").replace("_", "-")
        output.put("workload", workload, line, command)


def _read_limits(output: Output, options: dict[str, str]) -> None:
    kinds = {name.partition("-")[0] for name in options} & {"mysql", "pgsql"}
    driver = options.get("db-driver") or (kinds.pop() if len(kinds) == 1 else None)
    if driver is not None:
        output.shown["driver"] = driver
    # what ends the run: a time, or a number of transactions
    time, count = (
        next((int(value) for name in names if re.fullmatch(r"\d{1,9}", value := options.get(name, ""))), 0)
        for names in (("time", "max-time"), ("events", "max-requests"))
    )
    output.asked["duration_s"] = time or None
    output.is_ended_by_count = count > 0 and time == 0


_UNLIMITED = (("events", "0"), ("max_requests", "0"))
_APART = frozenset([
    "report_interval", "time", "max_time", "db_driver", "test", "rand_seed", "verbosity", "histogram", "percentile",
    "report_checkpoints",
])  # fmt: skip
