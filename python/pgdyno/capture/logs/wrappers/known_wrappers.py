"""What services, containers and log daemons put around the lines of a log: a wrapper each, and all of them."""

import json
import re
from datetime import UTC, datetime
from typing import Any

from pgdyno.capture.logs.log_prefix import SEVERITIES
from pgdyno.capture.logs.wrappers.piece import CUT_MARK, TIME, Piece, Wrapper, lines_of, text_of
from pgdyno.capture.logs.wrappers.syslog import SYSLOG, in_chunks

_COLOUR = rb"(?:\x1b\[[0-9;]*m)*"
_HEROKU = re.compile(
    rb"(?:(?:\d+ )?<\d+>1 )?(?P<stamp>" + TIME + rb") (?:app\[postgres(?:\.(?P<one>\d+))?\]:"
    rb"|\S+ app postgres(?:\.(?P<other>\d+))? -) \[(?P<source>\w+)\] \[(?P<message>\d+)-(?P<part>\d+)\] ?(?P<text>.*)",
    re.DOTALL,
)
_CRI = re.compile(rb"(" + TIME + rb") (?:stdout|stderr) ([FP])(?::\w+)* (.*)", re.DOTALL)
_AZURE_SEVERITIES = tuple(f"{each}:  ".encode() for each in SEVERITIES.replace("[1-5]?", "1").split("|"))
_KEYS = {
    "log_time": "timestamp", "timestamp": "timestamp", "user_name": "user", "user": "user",
    "database_name": "dbname", "dbname": "dbname", "process_id": "pid", "pid": "pid", "session_id": "session_id",
    "session_start_time": "session_start", "session_start": "session_start", "virtual_transaction_id": "vxid",
    "vxid": "vxid", "error_severity": "error_severity", "sql_state_code": "state_code", "state_code": "state_code",
    "message": "message", "detail": "detail", "query": "statement", "statement": "statement",
    "application_name": "application_name", "backend_type": "backend_type", "leader_pid": "leader_pid",
}  # fmt: skip
"""The columns of a csvlog, and the keys of a jsonlog."""


def _heroku_line(line: bytes) -> Piece | None:
    """`heroku logs`, and log drains."""
    found = _HEROKU.fullmatch(line)
    if found is None:
        return None
    part = int(found["part"])
    text = found["text"].lstrip(b" ") if part == 1 else found["text"]
    pid = found["one"] or found["other"] or b"0"
    return Piece(text.replace(b"#011", b"\t"), found["source"], found["stamp"], pid, (found["message"], part))


def _cri_line(line: bytes) -> Piece | None:
    found = _CRI.fullmatch(line)
    return Piece(found[3], stamp=found[1], is_partial=found[2] == b"P") if found is not None else None


def _docker_record(record: dict[str, Any]) -> Piece | None:
    """A record of the json-file driver."""
    log = record.get("log")
    if not isinstance(log, str) or "stream" not in record:
        return None
    # a line of more than 16 kB is in several records
    return Piece(text_of(log), stamp=text_of(record.get("time")), is_partial=not log.endswith("\n"))


def _cloudwatch_record(record: dict[str, Any]) -> Piece | None:
    """A record of get-log-events, filter-log-events or Insights."""
    if "@message" in record:
        return Piece(text_of(record["@message"]), text_of(record.get("@logStream")), text_of(record.get("@timestamp")))
    if not isinstance(record.get("message"), str) or not {"ingestionTime", "eventId"} & record.keys():
        return None
    stamp = str(record.get("timestamp", "")).encode()
    return Piece(text_of(record["message"]), text_of(record.get("logStreamName")), stamp)


def _google_record(record: dict[str, Any]) -> Piece | None:
    """An entry of Cloud SQL, AlloyDB or GKE."""
    if "logName" not in record and "insertId" not in record:
        return None
    payload = record.get("jsonPayload")
    text = record.get("textPayload")
    if isinstance(payload, dict):
        text = payload["message"] if isinstance(payload.get("message"), str) else json.dumps(payload)
    labels = (record.get("resource") or {}).get("labels") or {}
    source = labels.get("database_id") or labels.get("instance_id") or labels.get("pod_name")
    split = record.get("split") or {}
    is_partial = split.get("index", 0) + 1 < split.get("totalSplits", 1)
    return Piece(text_of(text), text_of(source), text_of(record.get("timestamp")), is_partial=is_partial)


def _azure_record(record: dict[str, Any]) -> Piece | None:
    """A record of a flexible server's log in a storage account or an event hub."""
    properties = record.get("properties")
    if not isinstance(properties, dict) or not {"resourceId", "category", "LogicalServerName"} & record.keys():
        return None
    text, stamp = text_of(properties.get("message")), text_of(properties.get("timestamp"))
    level, pid = properties.get("errorLevel"), properties.get("processId")
    if level and pid and stamp and not any(each in text[:300] for each in _AZURE_SEVERITIES):
        text = b"%s [%s] %s:  %s" % (stamp, str(pid).encode(), str(level).encode(), text)
    return Piece(text, text_of(record.get("resourceId")), text_of(record.get("time")))


def _journald_record(record: dict[str, Any]) -> Piece | None:
    if "__REALTIME_TIMESTAMP" not in record or "MESSAGE" not in record:
        return None
    message = record["MESSAGE"]
    # other characters than printable ones make it a list of bytes
    text = bytes(message).rstrip(b"\r\n") if isinstance(message, list) else text_of(message)
    at = datetime.fromtimestamp(int(record["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
    stamp = f"{at:%Y-%m-%dT%H:%M:%S.%f}Z".encode()
    if record.get("_LINE_BREAK") == "line-max":
        text += CUT_MARK
    host, pid = text_of(record.get("_HOSTNAME")), text_of(record.get("SYSLOG_PID") or record.get("_PID"))
    return in_chunks(Piece(text, host, stamp, pid))


def _row_record(record: dict[str, Any]) -> Piece | None:
    """A row of the csvlog as JSON, as operators write it, or a line of a jsonlog in another order of keys."""
    inner = record.get("record")
    found = inner if isinstance(inner, dict) else record
    if "error_severity" not in found or "message" not in found:
        return Piece(b"", b"the operator") if "logger" in record and "level" in record else None
    values = {_KEYS[key]: value for key, value in found.items() if key in _KEYS and value not in ("", None)}
    line = json.dumps({"timestamp": values.pop("timestamp", ""), **values}, separators=(",", ":"), ensure_ascii=False)
    return Piece(line.encode("utf-8", "replace"), text_of(record.get("logging_pod")))


WRAPPERS = (
    Wrapper("Heroku's logplex", _heroku_line, is_split=True),
    SYSLOG,
    Wrapper("a container runtime's log (CRI)", _cri_line),
    Wrapper("kubectl logs --prefix", lines_of(rb"\[(?P<source>(?:pod/)?[^\]\s]+/[^\]\s]+)\] (?P<text>.*)")),
    Wrapper("docker compose logs", lines_of(_COLOUR + rb"(?P<source>[\w.-]+) *\| ?" + _COLOUR + rb"(?P<text>.*)")),
    # `docker logs --timestamps`, `kubectl logs --timestamps`, CloudWatch's exports
    Wrapper("a time before each line", lines_of(rb"(?P<stamp>" + TIME + rb") (?P<text>.*)")),
    Wrapper("aws logs tail", lines_of(rb"(?P<stamp>" + TIME + rb") (?P<source>\S+) (?P<text>.*)")),
    Wrapper("Docker's json-file", of_record=_docker_record),
    Wrapper("CloudWatch's JSON", of_record=_cloudwatch_record),
    Wrapper("Google Cloud Logging's JSON", of_record=_google_record),
    Wrapper("Azure Monitor's JSON", of_record=_azure_record),
    Wrapper("journald's JSON", of_record=_journald_record, is_split=True),
    Wrapper("CloudNativePG's JSON", of_record=_row_record),
)
"""In the order in which they are tried: one that says more comes first."""
