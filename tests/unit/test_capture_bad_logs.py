"""Logs of several files are one log, however large; what was cut, damaged or mixed is left out with its place."""

import errno
import gzip
import json
import lzma
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import pgdyno.capture.logs.capture_logs
from pgdyno.capture import capture_table
from pgdyno.capture.left_out import lacks
from pgdyno.capture.logs import log_blocks, log_recognition
from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.capture.server.server_files import LocalFiles
from pgdyno.commands.own_load.capture import CaptureCommand
from pgdyno.errors import PgdynoError, StoreError, UsageError
from tests.unit.capture_log_sample import KEPT, WRITERS, Entry, Log, captured, csvlog, done, formats, rows_of, stderr

pytestmark = pytest.mark.slow

LINE = (
    '2026-11-23 18:40:{second}.123 UTC,"postgres","shop",4711,"[local]",69234abc.1267,{second},"SELECT",'
    '2026-11-23 18:40:00 UTC,3/{second},0,LOG,00000,"duration: 1.5 ms  statement: SELECT {number}",,,,,,,,,"psql",'
    '"client backend",,0\n'
)
FIVE = "".join(LINE.format(second=10 + number, number=number) for number in range(5))


def test_files_are_read_in_the_order_of_their_times_each_once_and_compressed_ones_too(tmp_path: Path) -> None:
    later, earlier, hard = (tmp_path / name for name in ("a.csv", "b.csv.gz", "hard.csv"))
    later.write_text(LINE.format(second=30, number=300) + LINE.format(second=31, number=301))
    earlier.write_bytes(gzip.compress(FIVE.encode()))
    (tmp_path / "current.csv").symlink_to(later)
    hard.hardlink_to(later)
    files = [later, earlier, later, tmp_path / "current.csv", hard, tmp_path / "." / "a.csv"]
    found = capture_logs(files, tmp_path / "load", KEPT, lambda _progress: None)
    numbers = (*range(5), 300, 301)
    assert [row["sql"] for row in rows_of(tmp_path / "load") if row["sql"]] == [f"SELECT {each}" for each in numbers]
    assert (found.calls, found.sessions) == (7, 1)
    assert found.span_us >= 21_000_000


@formats
def test_files_around_the_end_of_summer_time_are_in_the_order_of_their_times(form: str, tmp_path: Path) -> None:
    # one hour passes twice: 02:10 in winter time is 40 minutes later than 02:30 in summer time
    texts = [
        WRITERS[form]([done(f"SELECT {number}", ms=0)]).replace("2026-11-23 10:00:00.000 UTC", f"2026-10-25 {stamp}")
        for number, stamp in enumerate(("02:30:00.000 CEST", "02:10:00.000 CET"))
    ]
    assert captured(tmp_path, *reversed(texts)).texts == ["SELECT 0", "SELECT 1"]


def test_a_file_with_several_names_is_copied_from_its_host_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pgdyno.commands.own_load.record_load.SshFiles", lambda _host, patterns: LocalFiles(patterns))
    log = tmp_path / "server.csv"
    log.write_text("".join(LINE.format(second=10 + number, number=number) for number in range(30)))
    (tmp_path / "current.csv").symlink_to(log)
    limit = f"{log.stat().st_size * 3 // 2}B"
    CaptureCommand(tmp_path / "load", log=[f"{tmp_path}/*.csv"], ssh="db", max_size=limit, quiet=True, json=True)()
    found = json.loads(capsys.readouterr().out)
    assert (found["calls"], found["left_out"]) == (30, [])


def test_copies_of_a_file_are_left_out_and_counted(tmp_path: Path) -> None:
    log, packed, part, other = (tmp_path / name for name in ("b.csv", "a.csv.gz", "c.csv", "d.csv"))
    log.write_text(FIVE)
    packed.write_bytes(gzip.compress(FIVE.encode()))
    part.write_text(FIVE[: FIVE.index("\n") + 71])
    # of the same moment, but not of the same entry
    other.write_text(LINE.format(second=10, number=77))
    found = capture_logs([packed, part, other, log], tmp_path / "load", KEPT)
    texts = [row["sql"] for row in rows_of(tmp_path / "load") if row["sql"]]
    assert texts == [*(f"SELECT {number}" for number in range(5)), "SELECT 77"]
    assert [(each.reason, each.count, each.first) for each in found.left_out] == [("copies", 2, f"{packed}:1")]
    assert lacks(found) == []
    # of compressed ones, the larger one is read
    packed.write_bytes(gzip.compress(FIVE[: FIVE.index("\n") + 1].encode()))
    part.with_suffix(".gz").write_bytes(gzip.compress(FIVE.encode()))
    assert capture_logs([packed, part.with_suffix(".gz")], tmp_path / "packed", KEPT).calls == 5


# ---- memory ----

CAPTURE = """
import re, sys
from pathlib import Path
from pgdyno.capture.logs.capture_logs import capture_logs
from tests.unit.capture_log_sample import KEPT
print(capture_logs([Path(sys.argv[1])], Path(sys.argv[2]), KEPT).calls)
# ru_maxrss would start at the size of the process that started this one
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
STATEMENTS, TEXT = 1_000, 4_000
"""Statements of a piece of the log, and characters of each: a piece has 4 MB."""


def piece(number: int) -> list[Entry]:
    """Statements with texts of their own: what DuckDB holds of them cannot be a text that repeats."""
    places = range(number * STATEMENTS, (number + 1) * STATEMENTS)
    return [
        done(f"SELECT '{place:x>{TEXT}}'", pid=100 + place % 8, vxid=f"{place % 8}/0", ms=place) for place in places
    ]


# what DuckDB takes for a log of lines scatters by 50 MB, so a longer one must show that it does not grow
@pytest.mark.long
@pytest.mark.parametrize(("form", "longer"), [("csvlog", 48), ("jsonlog", 48), ("stderr", 112)])
def test_memory_does_not_grow_with_the_log(form: str, longer: int, tmp_path: Path) -> None:
    def peak_kb(pieces: int) -> int:
        log = tmp_path / f"{pieces}.log"
        with log.open("w") as file:
            for number in range(pieces):
                file.write(WRITERS[form](piece(number)))
        command = [sys.executable, "-c", CAPTURE, str(log), str(tmp_path / str(pieces))]
        root = Path(__file__).parents[2]
        out = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split()
        log.unlink()
        assert int(out[0]) == pieces * STATEMENTS
        return int(out[1])

    # a block of the log has 16 MB
    few, many = peak_kb(16), peak_kb(longer)
    assert many - few < 0.7 * 4_000 * (longer - 16)


TEXTS = ["SELECT 1", "SELECT 'two\n2'", "SELECT 3"]


# ---- cut ----


@formats
def test_a_line_that_was_cut_loses_that_line_alone(form: str, tmp_path: Path) -> None:
    log = WRITERS[form](["SELECT 'first\nof\nall'", *TEXTS, "SELECT 'last'"])
    found = captured(tmp_path, log[60 : -12 if form == "stderr" else -60])
    assert found.texts[:3] == TEXTS
    assert len(found.texts) == (4 if form == "stderr" else 3)
    assert found.left_out["cut"] == (1 if form == "stderr" else 2, "1")
    # within a log
    writer = WRITERS[form]
    half = writer(["SELECT 'lost'"])[:-40]
    found = captured(tmp_path, writer(TEXTS) + half + "\n" + writer([done("SELECT 4", ms=9)]))
    assert [text for text in found.texts if "los" not in text] == [*TEXTS, "SELECT 4"]
    if form != "stderr":
        assert found.left_out == {"cut": (1, "5" if form == "csvlog" else "4")}


@pytest.mark.long_cases("csvlog", "jsonlog")
@formats
def test_a_log_that_begins_within_a_long_entry(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recognition, "_HEAD_BYTES", 1000)
    monkeypatch.setattr(log_recognition, "PIECE_BYTES", 300)
    log = WRITERS[form](["INSERT INTO t VALUES ('" + f"{'x' * 90}\n" * 25 + "')", *TEXTS])
    # wherever the pieces that are read end
    for cut in (200, 652, 991):
        found = captured(tmp_path / str(cut), log[cut:])
        assert (found.texts, found.left_out["cut"]) == (TEXTS, (1, "1"))


def test_what_is_no_log_at_its_beginning_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows, beyond what is read of it, may be one, or may have another prefix."""
    for name, size in (("_HEAD_BYTES", 1000), ("LONGEST_BYTES", 5000), ("BLOCK_BYTES", 2000)):
        monkeypatch.setattr(log_recognition, name, size)
    other = stderr([f"SELECT {number}" for number in range(50)], "{user} {stamp} <{pid}> ")
    for log in (other + stderr(TEXTS), "x" * 9000 + "\n" + csvlog(TEXTS)):
        with pytest.raises(UsageError, match=r"0\.log:1: this is neither a csvlog nor a jsonlog"):
            captured(tmp_path, log)


def test_a_compressed_log_that_was_cut(tmp_path: Path) -> None:
    whole = gzip.compress(csvlog([f"SELECT '{os.urandom(30).hex()}'" for _ in range(2000)]).encode())
    found = captured(tmp_path, whole[: len(whole) // 2], suffix=".gz")
    assert 0 < found.capture.calls < 2000
    assert found.left_out["cut"][0] >= 1


def test_the_content_of_a_file_says_whether_it_is_compressed_or_empty(tmp_path: Path) -> None:
    log = csvlog(TEXTS).encode()
    for number, (content, suffix) in enumerate(((log, ".gz"), (gzip.compress(log), ".csv"))):
        assert captured(tmp_path / str(number), content, suffix=suffix).capture.calls == 3
    with pytest.raises(UsageError, match="it is compressed") as caught:
        captured(tmp_path, lzma.compress(log), suffix=".csv.xz")
    assert caught.value.hint == f"decompress it first: xz -d {tmp_path / '0.csv.xz'}"
    assert captured(tmp_path, "", csvlog(TEXTS)).capture.calls == 3


# ---- damaged ----


@formats
def test_bytes_that_are_no_text_are_counted_and_strange_characters_stay(form: str, tmp_path: Path) -> None:
    log = WRITERS[form](TEXTS).encode()
    first, second, rest = log.partition(b"SELECT 3")
    found = captured(tmp_path, first.replace(b"two", b"t\0w\xffo") + b"\0\0\0".join([second, b""]) + rest)
    assert found.texts == ["SELECT 1", "SELECT 'tw\ufffdo\n2'", "SELECT 3"]
    assert (found.left_out["not-utf8"], found.left_out["nul-bytes"][0]) == ((1, "2"), 2)
    sql = "SELECT 'a\tb\\n\x01\x02\x03\x1b\u2028\U0001f600', \"Ü\", 'c;--\u00a0'"
    expected = sql if form != "stderr" else sql.translate({1: " ", 2: " ", 3: " "})
    # lines of Windows change nothing
    for end in ("\n", "\r\n"):
        found = captured(tmp_path / str(len(end)), WRITERS[form]([sql, "SELECT 1"]).replace("\n", end))
        assert found.texts == [expected, "SELECT 1"]


@pytest.mark.long_cases("csvlog", "jsonlog")
@formats
def test_an_entry_of_many_megabytes_is_left_out(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(log_blocks, "LONGEST_BYTES", 5000)
    long, lines, shorter = f"SELECT '{'x' * 20_000}'", "SELECT '" + "lines\n" * 4_000 + "'", f"SELECT '{'y' * 3000}'"
    found = captured(tmp_path, WRITERS[form](["SELECT 1", long, lines, shorter, "SELECT 4"]))
    assert found.texts == ["SELECT 1", shorter, "SELECT 4"]
    assert found.left_out == {"too-long": (2, "2")}


@pytest.mark.long
@formats
def test_small_blocks_change_nothing(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[Entry] = []
    for number in range(18):
        value = f"Parameters: $1 = '{number}'"
        turn = [
            done("BEGIN"),
            Entry(f"statement: SELECT '{number}\n'"),
            Entry("process 1 still waiting for ShareLock on transaction 5 after 1000.5 ms"),
            Entry("duration: 3.000 ms"),
            Entry("duration: 0.1 ms  bind s: SELECT 1 / $1", value),
            Entry("duration: 0.1 ms  execute s: SELECT 1 / $1", value),
            Entry("duration: 0.1 ms  bind s: SELECT 1 / $1", value),
            Entry("it failed", query="SELECT 1 / $1", severity="ERROR", sqlstate="22012"),
            Entry("statement: ROLLBACK"),
        ]
        pool = [
            Entry("connection received: host=[local]", user="", database=""),
            Entry("connection authorized: user=app database=shop"),
            done("SELECT 1"),
            Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]"),
        ]
        other = 1 + number % 3
        mixed = [replace(each, pid=other, vxid=f"{other}/0") for each in turn]
        for place, each in zip((0, 1, 4, 9), pool, strict=True):
            mixed.insert(place, replace(each, pid=9, vxid="9/0"))
        entries += [replace(each, ms=20 * number) for each in mixed]
    log = WRITERS[form](entries) if form != "stderr" else stderr(entries, "{stamp} [{pid}] ")
    large = captured(tmp_path / "large", log)
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 1500)
    monkeypatch.setattr(capture_table, "PART_BYTES", 2000)
    small = captured(tmp_path / "small", log)
    assert (small.rows, small.capture) == (large.rows, large.capture)
    assert len(small.statements) == 18 * 6
    assert [row["parameters"] for row in small.statements].count(["7"]) == 2
    assert {row["transaction"] for row in small.statements if row["session"] == 1} == set(range(6))


def test_a_statement_that_holds_lines_of_a_log_is_one_statement_or_left_out(tmp_path: Path) -> None:
    inner = csvlog(["DROP TABLE users"]).replace("'", "''")
    sql = f"INSERT INTO lines VALUES ('x\n{inner}')"
    for form, writer in WRITERS.items():
        found = captured(tmp_path / form, writer(["SELECT 1", sql, "SELECT 2"]))
        assert found.texts in (["SELECT 1", sql, "SELECT 2"], ["SELECT 1", "SELECT 2"]), form


def test_damaged_durations_and_clocks_lose_no_other_statement(tmp_path: Path) -> None:
    for took in ("99999999999999999999.0", "nan", "1e300", "86400000.000", "0.001"):
        wait = Entry(f"process 100 acquired ShareLock on transaction 7 after {took} ms")
        log: Log = ["SELECT 1", Entry(f"duration: {took} ms  statement: SELECT 2"), wait, "SELECT 3"]
        assert captured(tmp_path, log).texts[-1] == "SELECT 3"
    times = [0, 60_000, 1_000, 2_000, 500, 90_000]
    found = captured(tmp_path, [done(f"SELECT {ms}", ms=ms) for ms in times])
    # the step of 1.5 s is one that lines of several processes may have
    assert [row["at_us"] // 1_000_000 for row in found.statements] == [0, 59, 59, 60, 60, 148]
    assert found.left_out == {"clock-set-back": (1, "3")}


# ---- mixed, or no logs ----

OURS = [done(f"SELECT {number}", ms=1000 * number) for number in range(4)]
CHECKPOINT = Entry("checkpoint starting: time", database="", backend="checkpointer")


def test_bad_logs_leave_nothing(tmp_path: Path) -> None:
    for logs, kind, message, hint in (
        (
            [csvlog([OURS[0], done("SELECT 2", started=50, ms=1000), done("SELECT 3", ms=2500),
                     done("SELECT 4", started=50, ms=3500)])],
            StoreError, r"two servers: process 100 has two sessions at once, at .*:1 and .*:2", "",
        ),
        (
            [csvlog(OURS), csvlog([done("SELECT 0", pid=77, ms=1000 * number + 500) for number in range(4)])],
            StoreError, "two servers: backend has two sessions at once", "capture the log of each server separately",
        ),
        ([csvlog(TEXTS), WRITERS["jsonlog"](TEXTS)], UsageError,
         r"0\.log \(csvlog\) and .*1\.log \(jsonlog\) differ in format", ""),
        ([" \n"], UsageError, r"nothing to capture: .*0\.log is empty", ""),
        (["\nDear server,\nplease work.\n"], UsageError,
         r"0\.log:2: this is neither a csvlog nor a jsonlog, nor a log with a", "download the server's log"),
        ([csvlog([CHECKPOINT])], UsageError, "the log has no statement that can be replayed", "lc_messages = 'C'"),
    ):  # fmt: skip
        with pytest.raises(kind, match=message) as caught:
            captured(tmp_path, *logs)
        assert hint in (caught.value.hint or "")
        assert {each.suffix for each in tmp_path.iterdir()} == {".log"}


def test_folders_pipes_and_unreadable_files_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path, words in (
        (tmp_path, "it is a folder"),
        (fifo, "it is not a file"),
        (tmp_path / "none", "no such file"),
        (Path("/dev/null"), "it is not a file"),
    ):
        with pytest.raises(PgdynoError, match=words):
            capture_logs([path], tmp_path / "capture", Options())
    assert not (tmp_path / "capture").exists()

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(log_recognition, "open_log", refuse)
    with pytest.raises(StoreError, match="permission denied") as caught:
        captured(tmp_path, "x")
    assert caught.value.hint == "allow your user to read it"


# ---- nothing is left behind ----


def test_a_capture_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **_more: object) -> None:
        raise KeyboardInterrupt

    def fill_disk(*_: object) -> None:
        raise duckdb.IOException("IO Error: Could not write file: No space left on device")

    log, existing = tmp_path / "log", tmp_path / "existing"
    log.write_text(csvlog(TEXTS))
    existing.mkdir()
    for step in ("find_sessions", "write_table"):
        monkeypatch.setattr(pgdyno.capture.logs.capture_logs, step, interrupt)
        for into in (tmp_path / "capture", existing):
            with pytest.raises(KeyboardInterrupt):
                capture_logs([log], into, KEPT)
        monkeypatch.undo()
    # while it reads, threads run, too
    with pytest.raises(KeyboardInterrupt):
        capture_logs([log], tmp_path / "capture", KEPT, interrupt)
    assert [each.name for each in threading.enumerate() if each.name.startswith("capture")] == []
    monkeypatch.setattr(pgdyno.capture.logs.capture_logs, "write_table", fill_disk)
    with pytest.raises(StoreError, match="No space left on device") as caught:
        capture_logs([log], tmp_path / "capture", KEPT)
    assert "--into" in (caught.value.hint or "")
    assert not (tmp_path / "capture").exists()
    assert list(existing.iterdir()) == []
