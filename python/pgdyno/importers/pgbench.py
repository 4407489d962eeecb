"""pgbench's summary and progress, versions 9.0 to 18.

Wording by version: https://www.postgresql.org/docs/current/pgbench.html and the same page of each release.
To 9.5 a colon stands where later ones have `=`; to 13 there are two lines of tps.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence

from pgdyno.importers.found import Moment, Output, Statement
from pgdyno.importers.numbers import NUMBER, number, whole

_PROGRESS = re.compile(
    r"progress: (?P<at>[\d.]+) s, (?P<tps>[\d.]+) tps, lat (?P<lat>[\d.]+|NaN) ms stddev (?P<dev>[\d.]+|NaN)"
    r"(?:, (?P<failed>\d+) failed)?(?:, lag (?P<lag>[\d.]+|NaN) ms)?(?:, (?P<skipped>\d+) skipped)?"
)
_BANNER = re.compile(r"pgbench \((?:PostgreSQL\) )?(?P<version>\d[^,)\s]*)")
_COMMAND = re.compile(r"(?:^|[$#>]\s*|\s)(?P<command>(?:\S*/)?pgbench\s+-.*)")
_STATEMENT = re.compile(r"^\s+(?P<ms>\d+\.\d+)\s+(?:(?P<failures>\d+)\s+)?(?:(?P<retries>\d+)\s+)?(?P<text>\S.*)$")
_TPS = re.compile(rf"tps = (?P<tps>{NUMBER})(?: \((?P<what>[^)]*)\))?")
_SCRIPT = re.compile(r"SQL script (?P<number>\d+): (?P<name>.+)")

_BUILTIN = {
    "TPC-B (sort of)": "tpcb-like",
    "<builtin: TPC-B (sort of)>": "tpcb-like",
    "Update only pgbench_accounts": "simple-update",
    "<builtin: simple update>": "simple-update",
    "SELECT only": "select-only",
    "<builtin: select only>": "select-only",
    "Custom query": "custom",
}

Reader = Callable[[Output, str, int], None]


def _sets(name: str, convert: Callable[[str], object]) -> Reader:
    def read(output: Output, text: str, line: int) -> None:
        output.put(name, convert(text), line, text)

    return read


def _workload(text: str) -> str:
    return _BUILTIN.get(text.strip(), text.strip())


def _seconds(text: str) -> float:
    return number(text.removesuffix("s").strip())


def _milliseconds(text: str) -> float:
    return number(text.split(maxsplit=1)[0])


def _share(text: str) -> int:
    """`640000/640000` or `12 (0.100%)`: the first number."""
    return whole(re.split(r"[/ ]", text.strip())[0])


KEYS: dict[str, Reader] = {
    "transaction type": _sets("workload", _workload),
    "scaling factor": _sets("scale", whole),
    "query mode": _sets("protocol", str.strip),
    "number of clients": _sets("clients", whole),
    "number of threads": _sets("workers", whole),
    "number of transactions per client": _sets("transactions_per_client", whole),
    "number of transactions actually processed": _sets("transactions", _share),
    "number of failed transactions": _sets("failed", _share),
    "number of transactions skipped": _sets("skipped", _share),
    "number of transactions retried": _sets("retried", _share),
    "total number of retries": _sets("retries", whole),
    "duration": _sets("duration_s", _seconds),
    "latency average": _sets("latency_mean_ms", _milliseconds),
    "latency stddev": _sets("latency_stddev_ms", _milliseconds),
    "initial connection time": _sets("connect_ms", _milliseconds),
}
"""Lines `key: value` or `key = value` that mean something to us."""

_KNOWN = (
    "partition method", "number of partitions", "maximum number of tries", "average connection time",
    "rate limit schedule lag", "number of transactions above the", "number of serialization failures",
    "number of deadlock failures", "statement latencies in milliseconds", "latency average = ",
    "number of other failures", "starting vacuum", "options", "target rate", "latency limit",
)  # fmt: skip
"""Beginnings of lines that belong to an output and tell nothing that we keep."""


class PgbenchParser:
    """Reads outputs line by line; lines that are none of pgbench's end an output."""

    def __init__(self) -> None:
        """Begins before the first line."""
        self.found: list[Output] = []
        self._open: Output | None = None
        self._command: tuple[int, str] | None = None
        self._version: str | None = None
        self._in_statements = False

    def read(self, text: str, line: int) -> bool:
        """Takes one line; False when it is none of pgbench's."""
        stripped = text.strip().strip("`")
        if self._takes_command(text, line) or self._takes_progress(stripped, line):
            return True
        if stripped.startswith("transaction type:"):
            self._begin(line, anew=bool(self._open and "workload" in self._open.printed))
        elif self._open is None:
            return stripped.startswith("starting vacuum")
        return self._takes_summary(text, stripped, line)

    def end(self) -> None:
        """Closes what is open; an output without a rate is none."""
        output = self._open
        if output is not None and output.tps is not None:
            self.found.append(output)
        self._open, self._in_statements, self._command = None, False, None

    # ---- parts of an output ----

    def _takes_command(self, text: str, line: int) -> bool:
        banner = _BANNER.match(text.strip())
        if banner is not None:
            self.end()
            self._version = banner["version"]
            return True
        match = _COMMAND.search(text)
        if match is None:
            return False
        self.end()
        self._command = (line, match["command"].strip())
        return True

    def _takes_progress(self, stripped: str, line: int) -> bool:
        match = _PROGRESS.match(stripped)
        if match is None:
            return False
        if self._open is None or self._open.tps is not None:
            self.end_if_done()
            self._begin(line, anew=False)
        assert self._open is not None

        def figure(name: str) -> float | None:
            return None if match[name] in (None, "NaN") else float(match[name])

        moment = Moment(
            line=line,
            at_s=float(match["at"]),
            tps=float(match["tps"]),
            latency_ms=figure("lat"),
            stddev_ms=figure("dev"),
            failed=figure("failed"),
            lag_ms=figure("lag"),
            skipped=figure("skipped"),
        )
        self._open.progress.append(moment)
        self._open.last_line = line
        return True

    def end_if_done(self) -> None:
        """Closes an output that has its rate: what follows is another's."""
        if self._open is not None and self._open.tps is not None:
            command = self._command
            self.end()
            self._command = command

    def _begin(self, line: int, *, anew: bool) -> None:
        if anew:
            self.end()
        if self._open is None:
            self._open = Output("pgbench", line, line, version=self._version)
            if self._command is not None:
                at, command = self._command
                self._open.line = at
                self._open.command = command
                read_options(self._open, command, at)

    def _takes_summary(self, text: str, stripped: str, line: int) -> bool:
        output = self._open
        assert output is not None
        if self._in_statements and self._takes_statement(output, text, line):
            return True
        tps = _TPS.match(stripped)
        if tps is not None:
            _rate(output, number(tps["tps"]), tps["what"] or "", line, stripped)
            return True
        if stripped.startswith(("statement latencies in milliseconds", "- statement latencies in milliseconds")):
            self._in_statements = True
            return True
        key, value = _split(stripped)
        reader = KEYS.get(key)
        if reader is not None and output.tps is None:
            try:
                reader(output, value, line)
            except (ValueError, IndexError):
                return False
            return True
        if stripped == "" or stripped.startswith(("- ", "SQL script", *_KNOWN)):
            return True
        self.end()
        return False

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
            )
        )
        output.last_line = line
        return True


def _rate(output: Output, tps: float, what: str, line: int, text: str) -> None:
    """Files a rate by what stands in brackets behind it."""
    excluding = what.startswith(("excluding connections", "without initial connection"))
    if excluding:
        output.put("tps_excluding_connections", tps, line, text)
    if not excluding or output.tps is None:
        output.put("tps", tps, line, text)


def _split(text: str) -> tuple[str, str]:
    match = re.match(r"([^:=]+?)\s*[:=]\s*(.*)", text)
    return (match[1].strip(), match[2].strip()) if match else (text, "")


_WITH_VALUE = {"c": "clients", "j": "workers", "s": "scale", "T": "duration_s", "t": "transactions_per_client"}
_LONG = {"client": "c", "jobs": "j", "scale": "s", "time": "T", "transactions": "t", "protocol": "M", "rate": "R",
         "file": "f", "builtin": "b", "define": "D", "select-only": "S", "skip-some-updates": "N"}  # fmt: skip


def read_options(output: Output, command: str, line: int) -> None:
    """Keeps what a command line says and the summary may not: scale, variables, rate, script."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    for option, value in _options(words[1:]):
        if option == "D" and value and "=" in value:
            name, _, text = value.partition("=")
            output.variables[name] = text
        elif option == "R" and value:
            output.rate = _maybe(value)
        elif option in ("f", "b") and value:
            output.words.setdefault("script", value.rsplit("/", 1)[-1].partition("@")[0])
        elif option in _WITH_VALUE and value and _maybe(value) is not None:
            name = _WITH_VALUE[option]
            figure = float(value) if name == "duration_s" else int(float(value))
            output.put(name, figure, line, f"-{option} {value}")


def _maybe(text: str) -> float | None:
    try:
        return number(text)
    except ValueError:
        return None


def _options(words: Sequence[str]) -> list[tuple[str, str | None]]:
    """Options and their values, short and long, as getopt would have them."""
    found: list[tuple[str, str | None]] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found.append((_LONG.get(name, name), value or None))
        elif word.startswith("-") and len(word) > 1:
            letter, value = word[1], word[2:]
            takes = letter in "cjsTtMRfbDLPFhpUd"
            if takes and not value and at < len(words) and not words[at].startswith("-"):
                value = words[at]
                at += 1
            found.append((letter, value or None))
    return found
