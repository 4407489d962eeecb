"""Parses pgbench's summary and progress, versions 8.1 to 19, with the lines that pgdrive and Postgres Pro add.

Wording by version: https://www.postgresql.org/docs/current/pgbench.html and the same page of each release. A summary is
the known lines from its type to its rate; an unknown one within is listed, and does not end it.
"""

import re
import statistics
from dataclasses import replace
from itertools import pairwise

from pgdyno.importers import pgbench_lines as lines
from pgdyno.importers.documents.command_lines import (
    contradicts_command,
    is_initialization,
    pgbench_command,
    read_options,
)
from pgdyno.importers.parsed import (
    COMMENT,
    Moment,
    Output,
    OutputParser,
    ScriptPart,
    Statement,
    looks_like_figure,
    number,
    unused_line,
)
from pgdyno.messages import Message
from pgdyno.records import UnusedLine

_N = r"\d{1,15}(?:\.\d{1,9})?"
_MEAN = rf"{_N}|-?(?:NaN|nan)(?:\(ind\))?"
"""Up to 11, pgbench divides by the number of transactions, which may be 0; the C library prints the result."""
_PROGRESS = re.compile(
    rf"progress: (?P<at_s>{_N}) s, (?P<tps>{_N}) tps, lat (?P<latency_ms>{_MEAN}) ms stddev (?P<stddev_ms>{_MEAN})"
    rf"(?:, (?P<failed>\d{{1,15}}) failed)?(?:, lag (?P<lag_ms>{_MEAN}) ms)?(?:, (?P<skipped>\d{{1,15}}) skipped)?"
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
_BARE = re.compile(
    r"latency average = |scaling factor: |query mode: |number of clients: |number of transactions |duration: \d{1,9} s$"
)
_PAIR = re.compile(r"[^\W\d][^:=]{0,80}[:=]\s{0,8}\S{0,40}?\d")
_MOST_FOREIGN = 5
_SCRIPT = re.compile(r"SQL script (?P<number>\d{1,4}):\s?(?P<name>.{0,500})")
_PART_LINE = re.compile(r"\s+- ")
_DETAILS = re.compile(r"phase \d{1,6}: |outage \d{1,6}: |statement latency percentiles in milliseconds")
_OF_DETAILS = re.compile(r"\s{0,20}- |\s+[\d.]{1,20}\s")
_ABORTED = "above results are incomplete"
_CLIENT_ABORTED = re.compile(r"(?:pgbench: error: )?[Cc]lient \d{1,6} (?:script \d{1,4} )?aborted")
_COMPLAINTS = ("pgbench: ", "WARNING:", "NOTICE:", "ERROR:", "FATAL:", "DETAIL:", "HINT:", "Password:")
_EPOCH_S = 1e8
"""Seconds of --progress-timestamp are clock times, not relative to the run."""

_PARTITIONS_SINCE = 13


class PgbenchParser(OutputParser):
    def __init__(self) -> None:
        super().__init__()
        self._open: Output | None = None
        self._command: tuple[int, str] | None = None
        self._version: str | None = None
        self._server_version: str | None = None
        self._in_statements = False
        self._in_details = False
        self._unknown: list[UnusedLine] = []
        self._foreign = 0
        self._gave_up = 0
        self._cited: dict[str, int] = {}

    def read(self, text: str, line: int) -> bool:
        stripped = COMMENT.sub("", text.strip().strip("`*").lstrip("-•*| \t").strip())
        if lines.split_pair(stripped)[0] in (*lines.KEYS, "tps"):
            parts = lines.JOINED.split(stripped)
            if len(parts) > 1:
                taken = [self._read(part, part, line) for part in parts]
                return all(taken)
        return self._read(text, stripped, line)

    def _read(self, text: str, stripped: str, line: int) -> bool:
        if self._takes_command(text, line) or self._takes_banner(stripped) or self._takes_progress(stripped, line):
            return True
        if _ABORTED in stripped:
            return self._takes_abort(stripped, line)
        if stripped.startswith(_COMPLAINTS) or _CLIENT_ABORTED.match(stripped):
            self._gave_up += _CLIENT_ABORTED.search(stripped) is not None
            return True
        if stripped.startswith("transaction type:"):
            if self._open is not None and (not _is_bare(self._open) or self._open.tps is not None):
                # pgbench reports aborted clients before the summary, so that these belong to the new run
                gave_up, self._gave_up = self._gave_up, 0
                self._close()
                self._gave_up = gave_up
            self._begin(line)
        elif self._open is None and not self._begins_bare(stripped, line):
            return stripped.startswith("starting vacuum")
        return self._takes_summary(text, stripped, line)

    def end(self) -> None:
        self._close()
        self._command, self._gave_up = None, 0

    def end_block(self) -> None:
        if self._open is not None and self._open.tps is not None:
            self._close()

    # ---- parts of an output ----

    def _close(self) -> None:
        output, self._open, self._in_statements, self._in_details = self._open, None, False, False
        unknown, self._unknown, self._foreign = self._unknown, [], 0
        if output is None:
            return
        self.unread += [each for each in unknown if output.tps is not None or looks_like_figure(each.text)]
        output.clients_aborted, self._gave_up = output.clients_aborted + self._gave_up, 0
        if output.tps is not None:
            at_rate = output.printed["tps"][0]
            rates = {output.tps, output.tps_including_connections, output.tps_excluding_connections} - {None}
            first = min(self._cited.setdefault(f"{rate:.6f}", at_rate) for rate in rates)
            if _is_bare(output) and first != at_rate:
                # the same figure to the last digit, without a head, cites the output above
                at = min(line for line, text in output.printed.values() if not text.startswith("-"))
                cited = Message(
                    "figure-cited",
                    "tps = {tps}: cited from line {line}, and not counted again",
                    tps=output.tps,
                    line=first,
                )
                self.unread.append(unused_line(at, cited))
                return
            _settle(output)
            self.found.append(output)
        elif output.printed.keys() & {"workload", "transactions", "latency_mean_ms", "latency_with_failures_ms"}:
            why = Message("pgbench-incomplete", "no throughput, as the output ends before its rate")
            if output.aborted:
                why = Message("pgbench-aborted", "no throughput, as the run was aborted")
            first = min(line for line, text in output.printed.values() if not text.startswith("-"))
            self.unread.append(unused_line(first, why))
        elif output.progress:
            self._give_progress(output)

    def _give_progress(self, output: Output) -> None:
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
            self.unread.append(unused_line(output.progress[0].line, alone))

    def _takes_banner(self, stripped: str) -> bool:
        banner = _BANNER.match(stripped)
        if banner is not None:
            # the command above it belongs to this run
            self._close()
            self._gave_up, self._version = 0, banner["version"]
            server = re.search(r"server (\d[\w.]{0,20})", stripped)
            self._server_version = server[1] if server else None
        return banner is not None

    def _takes_command(self, text: str, line: int) -> bool:
        command = pgbench_command(text)
        if command is not None:
            self.end()
            self._command = None if is_initialization(command) else (line, command)
        return command is not None

    def _takes_abort(self, stripped: str, line: int) -> bool:
        output = self._open
        if output is None and self.found and line - self.found[-1].last_line <= 5:
            output = self.found[-1]
        if output is None:
            self._gave_up = 0
            return True
        output.clients_aborted, self._gave_up = output.clients_aborted + self._gave_up, 0
        output.aborted = stripped
        output.last_line = line
        return True

    def _takes_progress(self, stripped: str, line: int) -> bool:
        match = _PROGRESS.match(stripped)
        if match is None:
            return False
        if self._open is not None and self._open.tps is not None:
            self._close()
        output = self._begin(line)
        figures = {
            name: None if text is None or "a" in text.lower() else number(text)
            for name, text in match.groupdict().items()
        }
        output.progress.append(Moment(line, figures.pop("at_s") or 0.0, figures.pop("tps") or 0.0, **figures))
        output.last_line = line
        return True

    def _begins_bare(self, stripped: str, line: int) -> bool:
        # only some lines of an output are shown, for example by `grep tps`
        tps = _TPS.match(stripped)
        is_rate = tps is not None and (self._command is not None or (tps["what"] or "").startswith(_KINDS))
        if is_rate or _BARE.match(stripped) is not None:
            self._next_bare(line)
        return self._open is not None

    def _next_bare(self, line: int) -> Output:
        # further outputs without a head are further runs of the same command
        before = self._open
        self._close()
        if before is not None and before.command is not None and self._command is None:
            self._command = (before.line, before.command)
        command = self._command
        output = self._begin(line)
        output.line, self._command = line, command
        return output

    def _begin(self, line: int) -> Output:
        if self._open is not None:
            return self._open
        output = self._open = Output("pgbench", line, line, version=self._version)
        if self._server_version is not None:
            output.words["server_version"] = self._server_version
        if self._command is not None:
            output.line, output.command = self._command
            read_options(output, output.command, output.line)
        self._command = None
        return output

    def _takes_summary(self, text: str, stripped: str, line: int) -> bool:
        output = self._open
        assert output is not None
        if (self._in_statements and self._takes_statement(output, text, line)) or self._takes_details(
            text, stripped, line
        ):
            return True
        tps = _TPS.match(stripped)
        if tps is not None:
            self._foreign = 0
            what = tps["what"] or ""
            # up to version 13, pgbench printed two rates
            is_second = what.startswith("excluding connections") and output.tps_excluding_connections is None
            if output.tps is not None and not is_second:
                output = self._next_bare(line)
            _put_rate(output, number(tps["tps"]), what, line, stripped)
            output.clients_aborted, self._gave_up = output.clients_aborted + self._gave_up, 0
            return True
        if output.tps is not None and self._takes_script(output, stripped, line):
            return True
        return self._takes_pair(output, stripped, line) or self._takes_unknown(output, text, stripped, line)

    def _takes_pair(self, output: Output, stripped: str, line: int) -> bool:
        if stripped.startswith("statement latencies in milliseconds"):
            self._in_statements = True
            return True
        key, value = lines.split_pair(stripped)
        reader = lines.reader_of(key) or (lines.AFTER_RATE.get(key) if output.tps is not None else None)
        is_next = key in lines.KEYS and output.tps is not None and output.printed["tps"][0] != line
        if is_next and _is_bare(output):
            output = self._next_bare(line)
        elif is_next:
            reader = None
        if reader is not None:
            self._foreign = 0
            try:
                reader(output, value, line)
            except (ValueError, IndexError):
                self._unknown.append(unused_line(line, stripped[:400]))
            return True
        return stripped == "" or stripped.startswith(lines.KNOWN)

    def _takes_unknown(self, output: Output, text: str, stripped: str, line: int) -> bool:
        if output.tps is None and output.printed.keys() - {"duration_s"} and self._foreign < _MOST_FOREIGN:
            self._foreign += 1
            if _PAIR.match(stripped):
                self._unknown.append(unused_line(line, stripped))
                return True
        elif not (output.scripts and _PART_LINE.match(text)):
            self._close()
        return False

    def _takes_details(self, text: str, stripped: str, line: int) -> bool:
        if _DETAILS.match(stripped):
            self._unknown.append(unused_line(line, stripped))
            self._in_details = True
        elif not (self._in_details and _OF_DETAILS.match(text)):
            self._in_details = False
        return self._in_details

    def _takes_script(self, output: Output, stripped: str, line: int) -> bool:
        begins = _SCRIPT.match(stripped)
        if begins is not None:
            output.scripts.append(ScriptPart(lines.workload_of(begins["name"])))
        else:
            try:
                if not output.scripts or not lines.takes_part(output.scripts[-1], stripped):
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
        failures, retries = (None if match[name] is None else int(match[name]) for name in ("failures", "retries"))
        script = max(0, len(output.scripts) - 1)
        output.statements.append(Statement(match["text"].strip(), float(match["ms"]), failures, retries, script))
        output.last_line = line
        return True


def _is_bare(output: Output) -> bool:
    return "workload" not in output.printed


def _settle(output: Output) -> None:
    if output.command is not None and contradicts_command(output):
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
    if output.command is not None:
        output.shown.setdefault("connections", "each transaction" if "-C" in output.options.split() else "kept")
    # take the rate without connecting, which alone all versions print, unless each transaction connects (-C): from 14
    # on, pgbench then prints only the rate with it
    connects = output.shown.get("connections") == "each transaction"
    name = "tps_including_connections" if connects else "tps_excluding_connections"
    if (rate := getattr(output, name)) is not None:
        output.put("tps", rate, *output.printed[name])
    if _is_bare(output):
        return
    if not output.rate and output.schedule_lag_ms is None:
        output.shown["loop"] = "closed"
    if output.workload in lines.BUILTIN.values() and output.workload != "custom":
        # the version, or else the wording of the rate (from 14 on), is of a pgbench that prints partitions
        major = int(re.split(r"\D", output.version, maxsplit=1)[0]) if output.version is not None else 0
        if major >= _PARTITIONS_SINCE or (not major and any(f"({k}" in output.printed["tps"][1] for k in _CONNECTIONS)):
            output.shown.setdefault("partitions", "none")


def _settle_commas(output: Output) -> None:
    if not _DECIMAL_COMMA.match(output.printed["tps"][1]):
        return
    for name in (
        "latency_mean_ms", "latency_with_failures_ms", "latency_stddev_ms", "connect_ms", "schedule_lag_ms",
    ):  # fmt: skip
        found = _THREE_DECIMALS.search(output.printed.get(name, (0, ""))[1])
        if found is not None:
            setattr(output, name, float(found[0].replace(",", ".")))


def _put_rate(output: Output, tps: float, what: str, line: int, text: str) -> None:
    for kind, connections in _CONNECTIONS.items():
        if what.startswith(kind):
            output.shown["connections"] = connections
    if what.startswith(("excluding connections", "without initial connection")):
        output.put("tps_excluding_connections", tps, line, text)
    elif what.startswith(("including connections", "including reconnection")):
        output.put("tps_including_connections", tps, line, text)
    if output.tps is None:
        output.put("tps", tps, line, text)
