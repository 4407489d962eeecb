"""Lines of pgbench's summary, `key: value` or `key = value`, and of its reports of scripts: what each of them sets."""

import re
from collections.abc import Callable

from pgdyno.importers.parsed import Output, ScriptPart, number, whole_number

_SHARE = re.compile(r"(?P<count>\d{1,15}) transactions \(")
_WEIGHT = re.compile(r"weight: (?P<weight>\d{1,9})")
_PERCENTILE = re.compile(r"latency percentile (?P<percent>[\d.]{1,12})|latency (?P<ordinal>\d{1,2})th percentile")
_PAUSE = re.compile(r"(?P<what>think|keying) time \((?P<kind>\w{1,20})\) average")
_ABOVE = re.compile(r"number of transactions above the [\d.]{1,20} ms latency limit")
_PART_COUNTS = {
    "number of transactions actually processed": "transactions",
    "number of failed transactions": "failed",
    "number of transactions skipped": "skipped",
    "number of transactions retried": "retried",
    "total number of retries": "retries",
}
BUILTIN = {
    "TPC-B (sort of)": "tpcb-like",
    "<builtin: TPC-B (sort of)>": "tpcb-like",
    "Update only pgbench_accounts": "simple-update",
    "<builtin: simple update>": "simple-update",
    "SELECT only": "select-only",
    "<builtin: select only>": "select-only",
    "Custom query": "custom",
}

Reader = Callable[[Output, str, int], None]


def _field_reader(name: str, convert: Callable[[str], object]) -> Reader:
    return lambda output, text, line: output.put(name, convert(text), line, text)


def _figure_reader(name: str, convert: Callable[[str], float]) -> Reader:
    return lambda output, text, line: output.keep(name, convert(text), line, text)


def _load_reader(name: str, convert: Callable[[str], object] = str.strip) -> Reader:
    return lambda output, text, line: output.show(name, str(convert(text)), line)


def _read_partitions(output: Output, text: str, line: int) -> None:
    method = output.shown.get("partitions")
    output.show("partitions", f"{method}, {whole_number(text)}" if method else str(whole_number(text)), line)


def _read_mean_latency(output: Output, text: str, line: int) -> None:
    name = "latency_with_failures_ms" if "including failures" in text else "latency_mean_ms"
    output.put(name, _milliseconds(text), line, text)


def workload_of(text: str) -> str:
    return BUILTIN.get(text.strip(), text.strip())


def _lag(text: str) -> float:
    return number(text.removeprefix("avg").split(maxsplit=1)[0])


def _seconds(text: str) -> float:
    return number(text.removesuffix("s").strip())


def _milliseconds(text: str) -> float:
    return number(text.split(maxsplit=1)[0].removesuffix("ms"))


def _share(text: str) -> int:
    return whole_number(re.split(r"[/ ]", text.strip(), maxsplit=1)[0])


KEYS: dict[str, Reader] = {
    "transaction type": _field_reader("workload", workload_of),
    "scaling factor": _field_reader("scale", whole_number),
    "query mode": _field_reader("protocol", str.strip),
    "number of clients": _field_reader("clients", whole_number),
    "number of threads": _field_reader("workers", _share),
    "number of transactions per client": _field_reader("transactions_per_client", whole_number),
    "number of transactions actually processed": _field_reader("transactions", _share),
    "number of processed transactions": _field_reader("transactions", _share),
    "number of failed transactions": _field_reader("failed", _share),
    "number of transactions skipped": _field_reader("skipped", _share),
    "number of transactions retried": _field_reader("retried", _share),
    "total number of retries": _field_reader("retries", whole_number),
    "duration": _field_reader("duration_s", _seconds),
    "latency average": _read_mean_latency,
    "latency stddev": _field_reader("latency_stddev_ms", _milliseconds),
    "rate limit schedule lag": _field_reader("schedule_lag_ms", _lag),
    "initial connection time": _field_reader("connect_ms", _milliseconds),
    "average connection time": _figure_reader("connection_mean_ms", _milliseconds),
    "average connection time of sessions": _figure_reader("connection_mean_ms", _milliseconds),
    "number of serialization failures": _figure_reader("serialization_failures", _share),
    "number of deadlock failures": _figure_reader("deadlock_failures", _share),
    "number of other failures": _figure_reader("other_failures", _share),
    "number of transactions lost with their connections": _figure_reader("transactions_lost", _share),
    "partition method": _load_reader("partitions"),
    "partitions": _read_partitions,
    "number of partitions": _read_partitions,
    "maximum number of tries": _load_reader("max_tries", whole_number),
    "transaction maximum tries number": _load_reader("max_tries", whole_number),
    "default transaction isolation level": _load_reader("isolation"),
    "pipelining": _load_reader("pipelining"),
    "arrivals": _load_reader("arrivals"),
    "timer tick": _load_reader("timer_tick"),
    "number of phases": _load_reader("phases"),
}
"""Lines `key: value` or `key = value` with a figure or a setting."""
AFTER_RATE: dict[str, Reader] = {
    "number of statements": _figure_reader("statements", _share),
    "number of ignored errors": _figure_reader("ignored_errors", _share),
    "number of reconnects": _figure_reader("reconnects", whole_number),
    "number of outages": _figure_reader("outages", whole_number),
}
"""Lines that pgdrive prints after the rate."""
JOINED = re.compile(
    rf"(?<=\S)\s{{1,8}}(?=(?:{'|'.join(map(re.escape, sorted(KEYS, key=len, reverse=True)))}|tps)\s?[:=]\s)"
)
"""Between two lines of a summary that were joined to one."""

KNOWN = (
    "statement latencies in milliseconds", "script statistics:", "starting vacuum", "options", "target rate",
    "latency limit", "pgbench_", "end.", "connections lost: ", "transactions per client: average",
)  # fmt: skip
"""Beginnings of lines that belong to an output and contain nothing to keep."""


def takes_part(part: ScriptPart, stripped: str) -> bool:
    """Read a figure of one script. Raises ValueError and IndexError for an invalid one."""
    weight, share = _WEIGHT.match(stripped), _SHARE.match(stripped)
    key, value = split_pair(stripped)
    if weight is not None:
        part.weight = int(weight["weight"])
    elif share is not None:
        part.transactions = int(share["count"])
    elif key in _PART_COUNTS:
        setattr(part, _PART_COUNTS[key], _share(value))
    elif key in ("latency average", "latency stddev"):
        setattr(part, "latency_mean_ms" if "average" in key else "latency_stddev_ms", _milliseconds(value))
    else:
        return _PERCENTILE.fullmatch(key) is not None or _PAUSE.fullmatch(key) is not None
    return True


def reader_of(key: str) -> Reader | None:
    """Return what reads the line of `key`, if it may be anywhere in a summary."""
    percentile, pause = _PERCENTILE.fullmatch(key), _PAUSE.fullmatch(key)
    if percentile is not None:
        return lambda output, text, line: output.put_percentile(
            float(percentile["percent"] or percentile["ordinal"]), _milliseconds(text), line, text
        )
    if pause is not None:
        return _figure_reader(f"{pause['what']}_time_ms", _milliseconds)
    return _figure_reader("transactions_above_limit", _share) if _ABOVE.fullmatch(key) else KEYS.get(key)


def split_pair(text: str) -> tuple[str, str]:
    at = min((found for found in (text.find(":"), text.find("=")) if found > 0), default=0)
    return (text[:at].strip(), text[at + 1 :].strip()) if at else (text, "")
