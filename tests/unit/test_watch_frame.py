"""From a probe's lines about an invented server to the figures of a frame, and its pages in a terminal."""

import io
import json
import re
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pgdyno.watch.frame import Frame, class_of, frame_of
from pgdyno.watch.page import Page
from pgdyno.watch.page import line as log_line
from pgdyno.watch.polling import increases
from pgdyno.watch.probe_stream import Samples

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "watch.md"
Line = dict[str, Any]
WALL_US = 1_700_000_000_000_000
ESCAPE = "\x1b[2J\x1b]0;pwned\x07"


def line(event: str, t_s: float, **fields: object) -> Line:
    return {"event": event, "t_us": round(t_s * 1e6), "wall_us": WALL_US + round(t_s * 1e6), **fields}


def connected_line(t_s: float = 0.05) -> Line:
    return line("connected", t_s, server_version="18.1", pid=1, sources=[])


def waits(t_s: float, *rows: tuple[str, str, str | None, int]) -> Line:
    names = ("backend_type", "wait_type", "wait", "sessions")
    return line("waits", t_s, took_us=90, rows=[{**dict(zip(names, row, strict=True)), "query_id": 7} for row in rows])


def sample(source: str, t_s: float, *rows: Line, span_s: float | None = 1.0) -> Line:
    span_us = None if span_s is None else round(span_s * 1e6)
    return line("sample", t_s, source=source, span_us=span_us, rows=list(rows))


def row(labels: dict[str, str] | None = None, /, **values: float) -> Line:
    return {"labels": labels or {}, "values": values}


def session(pid: int, query: str, application: str = "shop", state: str = "active") -> Line:
    who = {"pid": pid, "user": "alice", "database": "shop", "application": application, "state": state}
    return {**who, "wait": "IO:DataFileRead", "query": query, "transaction_s": 1.5, "statement_s": 0.2}


def counters() -> Line:
    values = {"commits": 1000.0, "rollbacks": 2.0, "blocks_read": 100.0, "blocks_hit": 900.0}
    return sample("databases", 0, row(**values, temp_bytes=0.0, deadlocks=0.0))


CPU = {"user": 0.5, "system": 0.2, "idle": 0.2, "iowait": 0.05, "irq": 0.0, "steal": 0.05, "guest": 0.0}


BLOCKER = {"pid": 12, "lock": "tuple", "blocked_by": 13, "state": f"idle{ESCAPE}", "wait_type": None, "wait": None}


def second(number: int, name: str = "alice") -> list[Line]:
    """Returns the lines of a local probe about the second that ends at `number`."""
    looks = [
        waits(
            number - 1 + at / 10,
            ("client backend", "CPU", None, 2),
            ("client backend", "LWLock", "WALWrite", at % 2 * 2),
            ("client backend", "Lock", "tuple", 1),
            ("checkpointer", "IO", "DataFileWrite", 1),
        )
        for at in range(10)
    ]
    process = {"pid": "4711", "kind": "client backend", "user": name, "database": "shop", "activity": "UPDATE"}
    return [
        *looks,
        sample("cpu", number, row(**CPU)),
        sample("kernel", number, row(running=9)),
        sample("cgroup", number, row(cpu_limit=4)),
        sample("wal", number, row(bytes=2e6, syncs=300)),
        sample("sessions", number, row(total=40, active=4, idle_in_transaction=2, oldest_transaction=1500)),
        sample("disk", number, row({"device": "vda", "holds": "data wal"}, utilisation=0.45, written=3e6, writes=10)),
        sample("disk", number, row({"device": "vdb"}, utilisation=0.9)),
        sample("process", number, row(process, cpu=5e5, written=1e6)),
        line("blockers", number, rows=[BLOCKER]),
    ]


SERVER = {"server": "alice@db/shop", "server_version": "18.1", "processors": 4.0}


def samples_of(*seconds: list[Line], most: int = 60) -> Samples:
    """Returns the last `most` of `seconds`, each with its lines."""
    samples = Samples(deque(maxlen=most), {})
    for lines in seconds:
        samples.recent.append([])
        for each in lines:
            samples.take(each)
    return samples


def history(number: int = 3, name: str = "alice", *sessions: Line, most: int = 1) -> Samples:
    """Returns the last `most` of `number` seconds, with 1,000 more commits in each but the first."""
    every = [second(at, name) for at in range(1, number + 1)]
    counted = [[*lines, counters(), {"event": "backends", "rows": list(sessions)}] for lines in every[1:]]
    return samples_of([connected_line(), *every[0]], *counted, most=most)


def frame(samples: Samples, *, away: str | None = None, queries: bool = False, **server: object) -> Frame:
    return {**frame_of(samples, 1.7e9, {}, away=away, queries=queries), **SERVER, **server}


def test_a_second_holds_its_looks_and_several_are_one_frame_with_the_same_rates() -> None:
    found = frame(history())
    assert found["active"] == {"CPU": 2.0, "WAL": 1.0, "Lock": 1.0}
    assert [class_of(wait) for wait in ("IO:WalSync", "IO:DataFileRead", "Extension")] == ["WAL", "IO", "other"]
    assert found["waits"] == {"CPU": 2.0, "LWLock:WALWrite": 1.0, "Lock:tuple": 1.0}
    assert found["background"] == {"checkpointer: IO:DataFileWrite": 1.0}
    assert found["queries"] == {"7": 4.0}
    # 1,000 commits, of which 10 looks and three others were ours, and 2 that were rolled back
    assert found["tps"] == pytest.approx(1000 - 13 + 2)
    assert found["cache_hit"] == pytest.approx(0.9)
    assert found["wal_bytes_per_s"] == pytest.approx(2e6)
    assert found["cpu"]["busy"] == pytest.approx(0.7)
    assert found["cpu"]["steal"] == pytest.approx(0.05)
    # that of the data directory, though another is busier
    assert (found["disks"][0]["device"], found["disks"][0]["written_bytes_per_s"]) == ("vda", 3e6)
    process = found["processes"][0]
    assert (process["pid"], process["cpu"], process["who"]) == (4711, 0.5, "alice@shop")
    assert (found["sessions"], found["oldest_transaction_s"]) == (40, 1.5)
    one, three = frame(history(5)), frame(history(5, most=3))
    assert three["seconds"] == 3
    assert three["wal_bytes_per_s"] == one["wal_bytes_per_s"]
    assert three["tps"] == pytest.approx(one["tps"])
    assert frame(history(5, most=60))["seconds"] == 5
    assert three["processes"][0]["cpu"] == one["processes"][0]["cpu"]


def test_a_server_that_goes_away_is_away_until_it_is_back_and_missing_data_is_reported_once() -> None:
    samples = samples_of([connected_line(), *second(1)])
    assert samples.away(1.6) is None
    samples.take(line("gap", 1.7, source="server", message="the session was lost: closed", reason="session_lost"))
    samples.take(line("warning", 1.8, source="server", message="could not connect: refused"))
    assert samples.away(3.6) == "could not connect: refused"
    samples.take(connected_line(3.7))
    samples.take(waits(3.8, ("client backend", "CPU", None, 1)))
    assert samples.away(4.6) is None
    # that it was away is shown where it belongs, not among what is missing
    assert not samples.notes
    # one that says nothing is away, too
    samples = samples_of([connected_line(), waits(0.5)])
    assert samples.away(4.4) is None
    assert samples.away(6.5) == "no answer for 6 s"
    samples = samples_of([line("warning", 1, source="waits", message="GRANT pg_monitor to it")] * 2)
    samples.take(line("gap", 2, source="wal", message="counters went back"))
    assert list(samples.notes) == ["waits: GRANT pg_monitor to it"]


def fields(value: object) -> set[str]:
    """Returns the keys of an object and of those in its lists; those of an object with names from outside excepted."""
    if isinstance(value, list):
        return {name for each in value for name in fields(each)}
    if not isinstance(value, dict):
        return set()
    named = ("active", "waits", "background", "queries")
    return value.keys() | {name for key, each in value.items() if key not in named for name in fields(each)}


def test_json_has_the_fields_of_the_reference_and_the_dearest_statements_first_without_text() -> None:
    samples = history(3, "alice", session(5, "/* x */ alter role bob password 'hunter2'"))
    samples.take(sample("statements", 3, row({"query_id": "7"}, calls=5, exec_time=50), span_s=10))
    found = frame(samples)
    assert "hunter2" not in json.dumps(found)
    assert found["backends"][0]["query"] == "ALTER ROLE"
    documented = set(re.findall(r"^\| `(\w+)`", REFERENCE.read_text(), re.MULTILINE))
    assert fields(found) == documented
    # statements are those of the last sample, the dearest first
    texts = {"7": "SELECT secret FROM t WHERE id = 5", "8": ""}
    labels = [{"query_id": each, "user": "ann", "database": "shop"} for each in ("8", "7")]
    cheap, dear = row(labels[0], calls=5, exec_time=50), row(labels[1], calls=100, exec_time=20_000, rows=300)
    samples = samples_of([sample("statements", 1, cheap, dear, span_s=10)], second(2), most=1)
    first, other = frame_of(samples, 0.0, texts, away=None, queries=False)["statements"]
    assert (first["query_id"], first["query"], first["user"]) == ("7", "SELECT", "ann")
    assert (first["sessions"], first["calls_per_s"], first["mean_ms"], first["rows_per_s"]) == (2.0, 10.0, 200.0, 30.0)
    assert (other["query"], other["mean_ms"]) == ("", 10.0)
    whole = frame_of(samples, 0.0, texts, away=None, queries=True)
    assert whole["statements"][0]["query"] == "SELECT secret FROM t WHERE id = ?"


def test_rates_with_late_missing_or_dropped_counters_and_no_figures_from_before_an_outage() -> None:
    found = frame(samples_of([sample("wal", 1, row()), sample("wal_position", 1, row(inserted=5e6))]))
    assert (found["wal_bytes_per_s"], found["wal_syncs_per_s"]) == (5e6, None)
    # a process that was sampled late used no more than its core
    used = row({"pid": "7", "kind": "walwriter"}, cpu=1.5e6, written=4e6)
    late = [sample("cpu", 2, row(**CPU), span_s=2.0), sample("process", 2, used, span_s=2.0)]
    (process,) = frame(samples_of(late))["processes"]
    assert (process["cpu"], process["written_bytes_per_s"]) == (0.75, 2e6)
    # busy cores are not busier than all of the time
    # as the kernel counted on two busy cores
    counted = CPU | {"user": 0.995, "system": 0.01, "iowait": 0.0, "steal": 0.0}
    cpu = frame(samples_of([sample("cpu", 1, row(**counted), span_s=1.000016)]))["cpu"]
    assert cpu["busy"] == pytest.approx(1.0)
    assert cpu["busy"] <= 1.0
    # a second without counters does not lower the rates of several
    whole = frame(history(5, most=3))["tps"]
    samples = history(5, most=4)
    samples.recent.append([])
    for each in second(6):
        samples.take(each)
    assert frame(samples)["tps"] == pytest.approx(whole)
    alone = frame(samples_of(second(1)))
    assert (alone["tps"], alone["rollbacks_per_s"]) == (None, None)
    # figures from before an outage are not shown
    samples = history(3, "alice", session(5, "SELECT 1"), most=2)
    samples.take(sample("statements", 3, row({"query_id": "7"}, calls=5, exec_time=50), span_s=10))
    found = frame(samples, away="gone")
    assert (found["away"], found["tps"], found["active"], found["seconds"]) == ("gone", None, None, 1)
    assert not any(found[name] for name in ("statements", "backends", "blockers"))
    # the host is there
    assert found["cpu"]["busy"] == pytest.approx(0.7)
    # counters grow when a database is dropped, and are unknown when one is reset
    small, large = [1.0, 0.0, 10.0, 90.0, 0.0, 0.0], [9.0, 1.0, 5000.0, 90000.0, 0.0, 0.0]
    more = [201.0, 0.0, 110.0, 1090.0, 0.0, 0.0]
    # one is gone, and another is new
    assert increases({1: small, 2: large}, {1: more, 3: small}) == [201.0, 0.0, 110.0, 1090.0, 0.0, 0.0]
    assert increases({1: more, 3: small}, {1: small, 3: small}) is None


NASTY = f"a{ESCAPE}\nb\u202e"


def text_of(page: Page, width: int) -> str:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system=None, width=width, markup=False, highlight=False)
    console.print(page)
    return written.getvalue()


def many_sessions() -> Frame:
    return frame(history(3, "alice", *[session(at, "UPDATE t SET a = 1") for at in range(60)]))


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (120, 40), (40, 18)], ids=str)
def test_a_page_fills_the_terminal_and_no_more(size: tuple[int, int]) -> None:
    lines = text_of(Page(many_sessions(), False, ["x" * 300], size[1]), size[0]).splitlines()
    assert size[1] - 3 <= len(lines) <= size[1]
    assert max(len(each) for each in lines) == size[0]


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (100, None)], ids=str)
def test_figures_are_not_cut(size: tuple[int, int | None]) -> None:
    found = frame(history(3, "alice", session(4, "UPDATE t SET a = 1")))
    text = text_of(Page(found, False, ["waits: no right"], size[1]), size[0])
    words = " ".join(text.split())
    for word in (
        "alice@db/shop", "PostgreSQL 18.1", "tps 989", "CPU 70 %", "steal 5", "WAL 2.00 MB/s", "90.0 % hit",
        "disk 45 % vda (data wal)", "4 cores", "■ CPU 2.0", "WAL 1.0", "Lock 1.0", "LWLock:WALWrite",
        "4711 alice@shop UPDATE", "50 %", "12 waits for tuple", "state or wait",
    ):  # fmt: skip
        assert word in words, text
    assert "waits: no right" in text.splitlines()[-1]


def test_tables_lines_and_names_from_outside_in_a_terminal() -> None:
    rows = [each for each in text_of(Page(many_sessions(), False), 100).splitlines() if "alice@shop shop" in each]
    # three tables, of which the first two have one and four rows
    assert len(rows) == 30 - 1 - 4
    # names from outside cannot steer the terminal
    samples = history(3, NASTY, session(4, NASTY, NASTY, f"idle{NASTY}"))
    found = frame(samples, queries=True, server=NASTY, server_version=NASTY, processors=None)
    for text in (*(text_of(Page(found, True, [NASTY]), width) for width in (80, 200)), log_line(found)):
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "989" in log_line(frame(history()))
    assert log_line(frame(history())).endswith("CPU 2.0")
    found = frame(history(3), away="connection refused")
    assert text_of(Page(found, False), 100).count("no connection to the server: connection refused") == 1
    assert log_line(found).endswith("away: connection refused")
