"""Parses pgbench's summary and progress, versions 9.0 to 18.

Wording by version: https://www.postgresql.org/docs/current/pgbench.html and the same page of each release. Up to 9.5, a
colon replaces the later `=`; up to 13, there are two lines of tps.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from pgdyno.importers.documents.command_lines import contradicted, is_initialization, pgbench_command, read_options
from pgdyno.importers.parsed import Moment, Output, ScriptPart, Statement, Unread, number, whole_number
from pgdyno.messages import Message

_N = r"\d{1,15}(?:\.\d{1,9})?"
_MEAN = rf"{_N}|-?(?:NaN|nan)(?:\(ind\))?"
"""Up to 11, pgbench divides by the number of transactions, which may be 0; the C library prints the result."""
_PROGRESS = re.compile(
    rf"progress: (?P<at>{_N}) s, (?P<tps>{_N}) tps, lat (?P<lat>{_MEAN}) ms stddev (?P<dev>{_MEAN})"
    rf"(?:, (?P<failed>\d{{1,15}}) failed)?(?:, lag (?P<lag>{_MEAN}) ms)?(?:, (?P<skipped>\d{{1,15}}) skipped)?"
    r"(?:, (?P<retried>\d{1,15}) retried, (?P<retries>\d{1,15}) retries)?"
)
_BANNER = re.compile(r"(?:`{3}\w{0,10})?pgbench \((?:PostgreSQL\) )?(?P<version>\d[^,)\s]{0,40})")
_STATEMENT = re.compile(
    r"\s*(?P<ms>\d{1,12}\.\d{1,9})\s+(?:(?P<failures>\d{1,15})\s+)?(?:(?P<retries>\d{1,15})\s+)?(?P<text>\S.*)$"
)
_TPS = re.compile(r"tps = (?P<tps>\d(?:[\d.,]{0,38}\d)?)(?:\s?\((?P<what>[^)]{0,80})\))?")
_DECIMAL_COMMA = re.compile(r"tps = \d{1,15},\d{6}(?!\d)")
_THREE_DECIMALS = re.compile(r"(?<![\d.,])\d{1,3},\d{3}(?![\d.,])")
_KINDS = ("excluding connections", "including connections", "without initial connection", "including reconnection")
_CONNECTIONS = {"without initial connection": "kept", "including reconnection": "each transaction"}
"""How connections are made, by the words after the rate since version 14."""
_BARE = ("latency average = ", "scaling factor: ", "query mode: ", "number of clients: ", "number of transactions ")
"""Lines with which an output may begin if its head is missing."""
_SCRIPT = re.compile(r"SQL script (?P<number>\d{1,4}): (?P<name>.{1,500})")
_SHARE = re.compile(r"(?P<count>\d{1,15}) transactions \(")
_WEIGHT = re.compile(r"weight: (?P<weight>\d{1,9})")
_PART_LINE = re.compile(r"\s+- ")
"""Beginning of each line of a script's part, also of one that a later version may add."""
_PART_COUNTS = {
    "number of failed transactions": "failed",
    "number of transactions skipped": "skipped",
    "number of transactions retried": "retried",
    "total number of retries": "retries",
}
_ABORTED = "above results are incomplete"
_CLIENT_ABORTED = re.compile(r"(?:pgbench: error: )?[Cc]lient \d{1,6} (?:script \d{1,4} )?aborted")
_COMPLAINTS = ("pgbench: ", "WARNING:", "NOTICE:", "ERROR:", "FATAL:", "DETAIL:", "HINT:", "Password:")
"""Lines of standard error, which may occur anywhere in the report."""
_EPOCH_S = 1e8
"""Seconds of --progress-timestamp are clock times, not relative to the run."""

_BUILTIN = {
    "TPC-B (sort of)": "tpcb-like",
    "<builtin: TPC-B (sort of)>": "tpcb-like",
    "Update only pgbench_accounts": "simple-update",
    "<builtin: simple update>": "simple-update",
    "SELECT only": "select-only",
    "<builtin: select only>": "select-only",
    "Custom query": "custom",
}

_PARTITIONS_SINCE = 13
"""pgbench's first version that prints partitions, for its own tables."""

Reader = Callable[[Output, str, int], None]


def _sets(name: str, convert: Callable[[str], object]) -> Reader:
    def read(output: Output, text: str, line: int) -> None:
        output.put(name, convert(text), line, text)

    return read


def _partition_method(output: Output, text: str, line: int) -> None:
    output.shown["partitions"] = text.strip()
    output.last_line = line


def _partitions(output: Output, text: str, line: int) -> None:
    method = output.shown.get("partitions")
    output.shown["partitions"] = f"{method}, {whole_number(text)}" if method else str(whole_number(text))
    output.last_line = line


def _tries(output: Output, text: str, line: int) -> None:
    output.shown["max_tries"] = str(whole_number(text))
    output.last_line = line


def _mean_latency(output: Output, text: str, line: int) -> None:
    name = "latency_with_failures_ms" if "including failures" in text else "latency_mean_ms"
    output.put(name, _milliseconds(text), line, text)


def _workload(text: str) -> str:
    return _BUILTIN.get(text.strip(), text.strip())


def _lag(text: str) -> float:
    """`avg 0.535 (max 103.418) ms`."""
    return number(text.removeprefix("avg").split(maxsplit=1)[0])


def _seconds(text: str) -> float:
    return number(text.removesuffix("s").strip())


def _milliseconds(text: str) -> float:
    return number(text.split(maxsplit=1)[0].removesuffix("ms"))


def _share(text: str) -> int:
    """Parse `640000/640000` or `12 (0.100%)`: the first number."""
    return whole_number(re.split(r"[/ ]", text.strip(), maxsplit=1)[0])


KEYS: dict[str, Reader] = {
    "transaction type": _sets("workload", _workload),
    "scaling factor": _sets("scale", whole_number),
    "query mode": _sets("protocol", str.strip),
    "number of clients": _sets("clients", whole_number),
    "number of threads": _sets("workers", whole_number),
    "number of transactions per client": _sets("transactions_per_client", whole_number),
    "number of transactions actually processed": _sets("transactions", _share),
    "number of processed transactions": _sets("transactions", _share),
    "number of failed transactions": _sets("failed", _share),
    "number of transactions skipped": _sets("skipped", _share),
    "number of transactions retried": _sets("retried", _share),
    "total number of retries": _sets("retries", whole_number),
    "duration": _sets("duration_s", _seconds),
    "latency average": _mean_latency,
    "latency stddev": _sets("latency_stddev_ms", _milliseconds),
    "rate limit schedule lag": _sets("schedule_lag_ms", _lag),
    "initial connection time": _sets("connect_ms", _milliseconds),
    "partition method": _partition_method,
    "number of partitions": _partitions,
    "maximum number of tries": _tries,
}
"""Lines `key: value` or `key = value` with a figure or a setting."""

_KNOWN = (
    "average connection time",
    "rate limit schedule lag", "number of transactions above the", "number of serialization failures",
    "number of deadlock failures", "statement latencies in milliseconds", "latency average = ",
    "number of other failures", "starting vacuum", "options", "target rate", "latency limit", "pgbench_", "end.",
)  # fmt: skip
"""Beginnings of lines that belong to an output and contain nothing to keep."""


class PgbenchParser:
    """Reads outputs line by line; a foreign line ends an output."""

    def __init__(self) -> None:
        self.found: list[Output] = []
        self.unread: list[Unread] = []
        """Outputs that end before their rate."""
        self._open: Output | None = None
        self._command: tuple[int, str] | None = None
        self._version: str | None = None
        self._server_version: str | None = None
        self._in_statements = False
        self._gave_up = 0
        """Clients that were reported as aborted, and whose output did not end yet."""
        self._cited: dict[str, int] = {}
        """Printed rates, and the lines of their first occurrence."""

    def read(self, text: str, line: int) -> bool:
        """Process one line; False if it is not pgbench's."""
        stripped = _bare(text)
        if self._takes_command(text, line) or self._takes_banner(stripped) or self._takes_progress(stripped, line):
            return True
        if _ABORTED in stripped:
            return self._takes_abort(stripped, line)
        if stripped.startswith(_COMPLAINTS) or _CLIENT_ABORTED.match(stripped):
            if _CLIENT_ABORTED.search(stripped):
                self._gave_up += 1
            return True
        if stripped.startswith("transaction type:"):
            self._begin(
                line, is_new_run=self._open is not None and (not _is_bare(self._open) or self._open.tps is not None)
            )
        elif self._open is None and not self._begins_bare(stripped, line):
            return stripped.startswith("starting vacuum")
        return self._takes_summary(text, stripped, line)

    def end(self) -> None:
        """Finish an open output; one without a rate is listed as unread."""
        self._close()
        self._command = None
        self._gave_up = 0

    # ---- parts of an output ----

    def _take_gave_up(self, output: Output) -> None:
        output.clients_aborted += self._gave_up
        self._gave_up = 0

    def _close(self) -> None:
        output, self._open, self._in_statements = self._open, None, False
        if output is None:
            return
        self._take_gave_up(output)
        if output.tps is not None:
            first = self._cited.setdefault(f"{output.tps:.6f}", output.printed["tps"][0])
            if _is_bare(output) and first != output.printed["tps"][0]:
                # the same figure to the last digit, without a head, cites the output above
                at = min(line for line, text in output.printed.values() if not text.startswith("-"))
                cited = Message(
                    "figure-cited",
                    "tps = {tps}: cited from line {line}, and not counted again",
                    tps=output.tps,
                    line=first,
                )
                self.unread.append(Unread(at, cited))
                return
            _settle(output)
            self.found.append(output)
        elif output.printed.keys() & {"workload", "transactions", "latency_mean_ms", "latency_with_failures_ms"}:
            if output.aborted:
                why = Message("pgbench-aborted", "no throughput, as the run was aborted")
            else:
                why = Message("pgbench-incomplete", "no throughput, as the output ends before its rate")
            first = min(line for line, text in output.printed.values() if not text.startswith("-"))
            self.unread.append(Unread(first, why))
        elif output.progress:
            self._give_progress(output)

    def _give_progress(self, output: Output) -> None:
        """Assign progress lines after a summary to it: standard error was printed after standard output."""
        last = self.found[-1] if self.found else None
        if last is not None and not last.progress and output.progress[0].line - last.last_line <= 3:
            last.progress = output.progress
            last.last_line = output.last_line
            last.clients_aborted += output.clients_aborted
            _settle(last)
        else:
            alone = Message(
                "progress-without-summary",
                "{count} progress line without a summary",
                "{count} progress lines without a summary",
                count=len(output.progress),
            )
            self.unread.append(Unread(output.progress[0].line, alone))

    def _takes_banner(self, stripped: str) -> bool:
        banner = _BANNER.match(stripped)
        if banner is None:
            return False
        # the command above it belongs to this run
        self._close()
        self._gave_up = 0
        self._version = banner["version"]
        server = re.search(r"server (\d[\w.]{0,20})", stripped)
        self._server_version = server[1] if server else None
        return True

    def _takes_command(self, text: str, line: int) -> bool:
        command = pgbench_command(text)
        if command is None:
            return False
        self._close()
        self._gave_up = 0
        self._command = None if is_initialization(command) else (line, command)
        return True

    def _takes_abort(self, stripped: str, line: int) -> bool:
        output = self._open
        if output is None and self.found and line - self.found[-1].last_line <= 5:
            output = self.found[-1]
        if output is None:
            self._gave_up = 0
            return True
        self._take_gave_up(output)
        output.aborted = stripped
        output.last_line = line
        return True

    def _takes_progress(self, stripped: str, line: int) -> bool:
        match = _PROGRESS.match(stripped)
        if match is None:
            return False
        if self._open is None or self._open.tps is not None:
            if self._open is not None:
                self._close()
            self._begin(line, is_new_run=False)
        assert self._open is not None

        def figure(name: str) -> float | None:
            return None if match[name] is None or "a" in match[name].lower() else number(match[name])

        self._open.progress.append(
            Moment(
                line=line,
                at_s=number(match["at"]),
                tps=number(match["tps"]),
                latency_ms=figure("lat"),
                stddev_ms=figure("dev"),
                failed=figure("failed"),
                lag_ms=figure("lag"),
                skipped=figure("skipped"),
                retried=figure("retried"),
                retries=figure("retries"),
            )
        )
        self._open.last_line = line
        return True

    def _begins_bare(self, stripped: str, line: int) -> bool:
        """Begin an output of which only some lines are shown, for example by `grep tps`."""
        tps = _TPS.match(stripped)
        known = stripped.startswith(_BARE) or (self._command is not None and tps is not None)
        told = tps is not None and tps["what"] is not None and tps["what"].startswith(_KINDS)
        if not (known or told):
            return False
        self._next_bare(line)
        return True

    def _next_bare(self, line: int) -> Output:
        """Begin an output without a head; further ones of this kind are further runs of the same command."""
        before = self._open
        self._close()
        if before is not None and before.command is not None and self._command is None:
            self._command = (before.line, before.command)
        command = self._command
        self._begin(line, is_new_run=False)
        assert self._open is not None
        self._open.line = line
        self._command = command
        return self._open

    def _begin(self, line: int, *, is_new_run: bool) -> None:
        if is_new_run:
            # pgbench reports aborted clients before the summary, so that these belong to the new run
            gave_up, self._gave_up = self._gave_up, 0
            self._close()
            self._gave_up = gave_up
        if self._open is None:
            self._open = Output("pgbench", line, line, version=self._version)
            if self._server_version is not None:
                self._open.words["server_version"] = self._server_version
            if self._command is not None:
                at, command = self._command
                self._open.line = at
                self._open.command = command
                read_options(self._open, command, at)
            self._command = None

    def _takes_summary(self, text: str, stripped: str, line: int) -> bool:
        output = self._open
        assert output is not None
        if self._in_statements and self._takes_statement(output, text, line):
            return True
        tps = _TPS.match(stripped)
        if tps is not None:
            if output.tps is not None and not _is_second_rate(output, tps["what"] or ""):
                output = self._next_bare(line)
            _rate(output, number(tps["tps"]), tps["what"] or "", line, stripped)
            self._take_gave_up(output)
            return True
        if output.tps is not None and self._takes_script(output, stripped, line):
            return True
        if stripped.startswith("statement latencies in milliseconds"):
            self._in_statements = True
            return True
        key, value = _split(stripped)
        reader = KEYS.get(key)
        if reader is not None and output.tps is not None and _is_bare(output):
            output = self._next_bare(line)
        if reader is not None and output.tps is None:
            try:
                reader(output, value, line)
            except (ValueError, IndexError):
                return False
            return True
        if stripped == "" or stripped.startswith(_KNOWN):
            return True
        self._close_at(output, text)
        return False

    def _close_at(self, output: Output, text: str) -> None:
        """Close `output` at a line of unknown text, unless it belongs to a script's part of the report."""
        if not (output.scripts and _PART_LINE.match(text)):
            self._close()

    def _takes_script(self, output: Output, stripped: str, line: int) -> bool:
        """Read one line of a script's part of the report, which follows the rate."""
        begins = _SCRIPT.match(stripped)
        if begins is not None:
            output.scripts.append(ScriptPart(_workload(begins["name"])))
            output.last_line = line
            return True
        if not output.scripts:
            return False
        try:
            if not _takes_part(output.scripts[-1], stripped):
                return False
        except (ValueError, IndexError):
            return False
        output.last_line = line
        return True

    def _takes_statement(self, output: Output, text: str, line: int) -> bool:
        match = _STATEMENT.match(text)
        if match is None:
            self._in_statements = False
            return False
        failures, retries = match["failures"], match["retries"]
        output.statements.append(
            Statement(
                match["text"].strip(),
                float(match["ms"]),
                None if failures is None else int(failures),
                None if retries is None else int(retries),
                max(0, len(output.scripts) - 1),
            )
        )
        output.last_line = line
        return True


def _takes_part(part: ScriptPart, stripped: str) -> bool:
    """Read a figure of one script. Raises ValueError and IndexError for an invalid one."""
    weight, share = _WEIGHT.match(stripped), _SHARE.match(stripped)
    key, value = _split(stripped)
    if weight is not None:
        part.weight = int(weight["weight"])
    elif share is not None:
        part.transactions = int(share["count"])
    elif key in _PART_COUNTS:
        setattr(part, _PART_COUNTS[key], _share(value))
    elif key in ("latency average", "latency stddev"):
        setattr(part, "latency_mean_ms" if "average" in key else "latency_stddev_ms", _milliseconds(value))
    else:
        return False
    return True


def _bare(text: str) -> str:
    """Return a line without list marks, emphasis, and a trailing comment."""
    stripped = text.strip().strip("`*").lstrip("-•*| \t").strip()
    before, space, _ = stripped.partition("  #")
    return before.rstrip() if space else stripped


def _is_bare(output: Output) -> bool:
    return "workload" not in output.printed


def _is_second_rate(output: Output, what: str) -> bool:
    """Return whether the line is the second of the two rates that pgbench printed up to version 13."""
    return what.startswith("excluding connections") and output.tps_excluding_connections is None


def _settle(output: Output) -> None:
    """Make a complete output consistent: its command, and the times of its progress."""
    if output.command is not None and contradicted(output):
        output.command, output.rate, output.server, output.options = None, None, "", ""
        output.variables.clear()
        output.words.pop("script", None)
        output.printed = {name: said for name, said in output.printed.items() if not said[1].startswith("-")}
        output.line = min(line for line, _ in output.printed.values())
    _settle_load(output)
    _settle_commas(output)
    moments = output.progress
    if moments and moments[0].at_s > _EPOCH_S:
        steps = [after.at_s - before.at_s for before, after in pairwise(moments)]
        asked = re.search(r"\s(?:-P\s*|--progress[= ])(\d{1,6})\b", output.command or "")
        step_s = float(asked[1]) if asked else statistics.median(steps) if steps else None
        # a single line does not determine the length of its interval
        start_s = moments[0].at_s - (step_s or 0.0)
        output.progress = [replace(each, at_s=round(each.at_s - start_s, 3)) for each in moments if step_s is not None]


def _settle_load(output: Output) -> None:
    """Keep what a complete output shows by what it does not print, and by its command's options."""
    if output.command is not None:
        output.shown.setdefault("connections", "each transaction" if "-C" in output.options.split() else "kept")
    if _is_bare(output):
        return
    if not output.rate and output.schedule_lag_ms is None:
        output.shown["loop"] = "closed"
    if output.workload in _BUILTIN.values() and output.workload != "custom" and _prints_partitions(output):
        output.shown.setdefault("partitions", "none")


def _settle_commas(output: Output) -> None:
    """Read `10,056 ms` as 10.056 if the rate, which has six decimals, shows that the comma is the decimal sign."""
    if not _DECIMAL_COMMA.match(output.printed["tps"][1]):
        return
    for name in (
        "latency_mean_ms", "latency_with_failures_ms", "latency_stddev_ms", "connect_ms", "schedule_lag_ms",
    ):  # fmt: skip
        found = _THREE_DECIMALS.search(output.printed.get(name, (0, ""))[1])
        if found is not None:
            setattr(output, name, float(found[0].replace(",", ".")))


def _prints_partitions(output: Output) -> bool:
    """Return whether the version, or else the wording of the rate (from 14 on), is of a pgbench that prints them."""
    if output.version is not None:
        return int(re.split(r"\D", output.version, maxsplit=1)[0]) >= _PARTITIONS_SINCE
    return any(f"({kind}" in output.printed["tps"][1] for kind in _CONNECTIONS)


def _rate(output: Output, tps: float, what: str, line: int, text: str) -> None:
    """Assign a rate by the text in parentheses after it."""
    for kind, connections in _CONNECTIONS.items():
        if what.startswith(kind):
            output.shown["connections"] = connections
    excluding = what.startswith(("excluding connections", "without initial connection"))
    if excluding:
        output.put("tps_excluding_connections", tps, line, text)
    if not excluding or output.tps is None:
        output.put("tps", tps, line, text)


def _split(text: str) -> tuple[str, str]:
    at = min((found for found in (text.find(":"), text.find("=")) if found > 0), default=0)
    return (text[:at].strip(), text[at + 1 :].strip()) if at else (text, "")
