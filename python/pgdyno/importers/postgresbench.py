"""Parses PostgresBench's results: a JSON file for each server, or all of them as the page's `data.generated.js`.

Keys are those of PostgresBench's run.sh, of 2026; runs of one file follow each other on one server.
"""

import json
import re
from bisect import bisect
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

from pgdyno.importers.documents.passwords import without_passwords
from pgdyno.importers.parsed import WHOLE, Document, Moment, Output, number, unused_line, whole_number
from pgdyno.messages import Message

_ASSIGNED = re.compile(r"\A\s*const data\s*=\s*")
_BEGINNING = re.compile(r'\s*(?:const data\s*=\s*)?(?:\[\s*)?\{\s*"system"\s*:')
_RUN = re.compile(r'"run"\s*:')
_MARKS = ('"query_mode"', '"scale_factor"')
_LONGEST = 200
"""Characters of a word that is kept."""
_FIGURES = {
    "tps": "tps",
    "transactions": "transactions",
    "failed_transactions": "failed",
    "latency_avg_ms": "latency_mean_ms",
    "latency_stddev_ms": "latency_stddev_ms",
    "initial_connection_time_ms": "connect_ms",
}
_BUILT_IN = {"TPC-B (built-in)": "tpcb-like"}


def is_results(text: str) -> bool:
    return _BEGINNING.match(text) is not None and all(mark in text for mark in _MARKS)


def read_results(text: str) -> Document:
    """Return a trial for each run. A result that cannot be read is unread, and so is a file that was cut short."""
    document = Document()
    try:
        # a Decimal keeps the digits as printed
        found = json.loads(_ASSIGNED.sub("", text).rstrip("; \r\n"), parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        document.unread.append(unused_line(getattr(error, "lineno", 1), _invalid(error)))
        return document
    ends = [match.start() for match in re.finditer("\n", text)]
    lines = iter([bisect(ends, match.start()) + 1 for match in _RUN.finditer(text)])
    for section, result in enumerate(found if isinstance(found, list) else [found], start=1):
        line = 1
        try:
            for run in result["results"]:
                line = next(lines, line)
                document.outputs.append(_output(result, run, line, section))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            document.unread.append(unused_line(line, _invalid(error)))
    return document


def _invalid(error: Exception) -> Message:
    what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
    return Message("postgresbench-invalid", "a PostgresBench result that pgdyno cannot read: {error}", error=what)


def _output(result: dict[str, Any], run: dict[str, Any], line: int, section: int) -> Output:
    asked, instance = result["benchmark"], result.get("instance") or {}
    output = Output(str(asked["tool"])[:_LONGEST], line, line, section=section)
    if "source" in result:
        # the scales of a service are points of one target
        output.target = PurePosixPath(_word(result["source"])).stem.replace(f"_{asked['scale_factor']}", "")
    workload = _word(asked["workload"])
    output.workload = _BUILT_IN.get(workload, workload)
    output.protocol = _word(asked["query_mode"])
    for key, name in (("scale_factor", "scale"), ("clients", "clients"), ("threads", "workers")):
        output.put(name, whole_number(str(asked[key])), line, f"{key} {asked[key]}")
    output.put("duration_s", number(str(asked["duration"])), line, f"duration {asked['duration']}")
    for key, name in _FIGURES.items():
        if run.get(key) is not None or key == "tps":
            convert = whole_number if name in WHOLE else number
            output.put(name, convert(str(run[key])), line, f"{key} {run[key]}")
    for percent in (95, 99):
        if (value := run.get(f"latency_p{percent}_ms")) is not None:
            output.put_percentile(percent, number(str(value)), line, f"latency_p{percent}_ms {value}")
    output.progress = _moments(run, output.duration_s or 0.0, line)
    words = {
        "system": result["system"],
        "date": result.get("date"),
        "server_version": result.get("postgres_version"),
        "host": f"{instance.get('type') or 'unnamed'} ({result.get('machine') or 'size unknown'})",
        "storage": instance.get("primary_storage"),
        # run.sh loads once, and the runs follow on the same server
        "server": f"loaded in {result['load']['load_time_seconds']} s" if result.get("load") else None,
    }
    output.words |= {name: _word(word) for name, word in words.items() if word}
    return output


def _moments(run: dict[str, Any], duration_s: float, line: int) -> list[Moment]:
    each_s = number(str(run.get("interval_seconds") or 0))
    names = ("elapsed_s", "tps", "latency_avg_ms", "latency_stddev_ms", "latency_p95_ms")
    rows = [[number(str(moment[name])) for name in names] for moment in run.get("timeseries") or ()]
    # the last one counts the transactions that end after the run as those of a whole interval
    return [Moment(line, from_s + each_s, *figures) for from_s, *figures in rows if from_s + each_s <= duration_s]


def _word(value: object) -> str:
    return without_passwords(str(value)[:_LONGEST])
