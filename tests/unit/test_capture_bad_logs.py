"""Logs that were cut, damaged or mixed: what is left out is counted with its place, and nothing stays behind."""

import errno
import gzip
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pgdyno.capture.logs.capture_logs
from pgdyno.capture import capture_table
from pgdyno.capture.left_out import sentence
from pgdyno.capture.logs import log_blocks, log_recognition
from pgdyno.capture.logs.capture_logs import Options, capture_logs
from pgdyno.errors import PgdynoError, StoreError, UsageError
from tests.unit.capture_log_sample import KEPT, Entry, captured, csvlog, done, error, jsonlog, stderr

pytestmark = pytest.mark.slow

THREE = [done("SELECT 1"), done("SELECT 'two\n2'"), done("SELECT 3")]
PREFIX = "{stamp} [{pid}] {user}@{database} "
WRITERS: dict[str, Callable[[list[Entry]], str]] = {
    "csvlog": csvlog,
    "jsonlog": jsonlog,
    "stderr": lambda entries: stderr(entries, PREFIX),
}
formats = pytest.mark.parametrize("format_", WRITERS)


# ---- cut ----


@formats
def test_a_log_that_begins_and_ends_in_the_midst_of_a_line(format_: str, tmp_path: Path) -> None:
    log = WRITERS[format_]([done("SELECT 'first\nof\nall'"), *THREE, done("SELECT 'last'")])
    found = captured(tmp_path, log[60 : -12 if format_ == "stderr" else -60])
    assert found.texts[:3] == ["SELECT 1", "SELECT 'two\n2'", "SELECT 3"]
    assert len(found.texts) == (4 if format_ == "stderr" else 3)
    assert found.left_out["cut"] == (1 if format_ == "stderr" else 2, "1")


@pytest.mark.long_cases("csvlog", "jsonlog")
@formats
def test_a_log_that_begins_within_a_long_entry(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recognition, "_HEAD_BYTES", 1000)
    monkeypatch.setattr(log_recognition, "PIECE_BYTES", 300)
    log = WRITERS[format_]([done("INSERT INTO t VALUES ('" + f"{'x' * 90}\n" * 25 + "')"), *THREE])
    # wherever the pieces that are read end
    for cut in (200, 652, 991):
        found = captured(tmp_path / str(cut), log[cut:])
        assert found.texts == ["SELECT 1", "SELECT 'two\n2'", "SELECT 3"]
        assert found.left_out["cut"] == (1, "1")


def test_a_log_that_begins_in_the_midst_of_an_entry_of_megabytes(tmp_path: Path) -> None:
    log = csvlog([done(f"SELECT '{'x' * 3_000_000}'"), *THREE])
    assert captured(tmp_path, log[500_000:]).texts == ["SELECT 1", "SELECT 'two\n2'", "SELECT 3"]


def test_a_log_whose_prefix_becomes_a_usual_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_recognition, "_HEAD_BYTES", 1000)
    log = stderr([done(f"SELECT {number}") for number in range(50)], "{user} {stamp} <{pid}> ") + stderr(THREE, PREFIX)
    with pytest.raises(UsageError, match=r"0\.log:1: this is neither"):
        captured(tmp_path, log)


def test_what_is_no_log_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_HEAD_BYTES", 1000), ("LONGEST_BYTES", 5000), ("BLOCK_BYTES", 2000)):
        monkeypatch.setattr(log_recognition, name, size)
    with pytest.raises(UsageError, match=r"0\.log:1: this is neither a csvlog nor a jsonlog"):
        captured(tmp_path, "x" * 9000 + "\n" + csvlog(THREE))


@formats
def test_half_a_line_within_a_log_loses_that_line_alone(format_: str, tmp_path: Path) -> None:
    writer = WRITERS[format_]
    half = writer([done("SELECT 'lost'")])[:-40]
    found = captured(tmp_path, writer(THREE) + half + "\n" + writer([done("SELECT 4", ms=9)]))
    assert [text for text in found.texts if "los" not in text] == [
        "SELECT 1",
        "SELECT 'two\n2'",
        "SELECT 3",
        "SELECT 4",
    ]
    if format_ != "stderr":
        assert found.left_out == {"cut": (1, "5" if format_ == "csvlog" else "4")}


def test_a_compressed_log_that_was_cut(tmp_path: Path) -> None:
    entries = [done(f"SELECT '{os.urandom(30).hex()}'") for _ in range(2000)]
    whole = gzip.compress(csvlog(entries).encode())
    found = captured(tmp_path, whole[: len(whole) // 2], suffix=".gz")
    assert 0 < found.capture.calls < 2000
    assert found.left_out["cut"][0] >= 1


def test_the_content_of_a_file_says_whether_it_is_compressed(tmp_path: Path) -> None:
    log = csvlog(THREE)
    for number, (content, suffix) in enumerate(((log.encode(), ".gz"), (gzip.compress(log.encode()), ".csv"))):
        assert captured(tmp_path / str(number), content, suffix=suffix).capture.calls == 3


def test_a_file_of_another_compression_says_what_decompresses_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it is compressed") as caught:
        captured(tmp_path, lzma.compress(csvlog(THREE).encode()), suffix=".csv.xz")
    assert caught.value.hint == f"decompress it first: xz -d {tmp_path / '0.csv.xz'}"


def test_a_statement_without_its_duration_at_the_end_of_a_log(tmp_path: Path) -> None:
    log = [Entry("statement: SELECT 1"), Entry("duration: 1.000 ms"), Entry("statement: SELECT 2")]
    assert [row["us"] for row in captured(tmp_path, csvlog(log)).statements] == [1000, None]


def test_a_statement_that_began_long_before_the_log_is_left_out(tmp_path: Path) -> None:
    log = [done("SELECT 1"), done("SELECT pg_sleep(60)", 60_000, pid=5), done("SELECT 2", 900, pid=6)]
    found = captured(tmp_path, csvlog(log))
    assert sorted(found.texts) == ["SELECT 1", "SELECT 2"]
    assert found.left_out == {"began-before": (1, "2")}


# ---- damaged ----


@formats
def test_nul_bytes_and_other_bytes_that_are_no_text(format_: str, tmp_path: Path) -> None:
    log = WRITERS[format_](THREE).encode()
    first, second, rest = log.partition(b"SELECT 3")
    found = captured(tmp_path, first.replace(b"two", b"t\0w\xffo") + b"\0\0\0".join([second, b""]) + rest)
    assert found.texts == ["SELECT 1", "SELECT 'tw\ufffdo\n2'", "SELECT 3"]
    assert (found.left_out["not-utf8"], found.left_out["nul-bytes"][0]) == ((1, "2"), 2)


@formats
def test_lines_of_windows(format_: str, tmp_path: Path) -> None:
    found = captured(tmp_path, WRITERS[format_]([done("SELECT 1"), done("SELECT 2")]).replace("\n", "\r\n"))
    assert found.texts == ["SELECT 1", "SELECT 2"]


@formats
def test_strange_characters_in_statements(format_: str, tmp_path: Path) -> None:
    sql = "SELECT 'a\tb\\n\x01\x02\x03\x1b\u2028\U0001f600', \"Ü\", 'c;--\u00a0'"
    found = captured(tmp_path, WRITERS[format_]([done(sql), done("SELECT 1")]))
    expected = sql if format_ != "stderr" else sql.translate({1: " ", 2: " ", 3: " "})
    assert found.texts == [expected, "SELECT 1"]


@pytest.mark.long_cases("csvlog", "jsonlog")
@formats
def test_an_entry_of_many_megabytes_is_left_out(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(log_blocks, "LONGEST_BYTES", 5000)
    entries = [
        done("SELECT 1"),
        done(f"SELECT '{'x' * 20_000}'"),
        done("SELECT '" + "lines\n" * 4_000 + "'"),
        done(f"SELECT '{'y' * 3000}'"),
        done("SELECT 4"),
    ]
    found = captured(tmp_path, WRITERS[format_](entries))
    assert found.texts == ["SELECT 1", f"SELECT '{'y' * 3000}'", "SELECT 4"]
    assert found.left_out == {"too-long": (2, "2")}


@pytest.mark.long
@formats
def test_small_blocks_give_the_same_statements(format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query, count = "SELECT $1", 12
    entries = []
    for number in range(count):
        value = f"Parameters: $1 = '{number}'"
        entries += [
            done(f"SELECT '{number}\n'", ms=number),
            Entry(f"duration: 0.1 ms  bind <unnamed>: {query}", value, ms=number),
            Entry(f"duration: 0.1 ms  execute <unnamed>: {query}", value, ms=number),
        ]
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 700)
    found = captured(tmp_path, WRITERS[format_](entries))
    assert found.texts == [each for number in range(count) for each in (f"SELECT '{number}\n'", query)]
    assert [row["parameters"] for row in found.statements][1::2] == [[str(number)] for number in range(count)]


@pytest.mark.long
@pytest.mark.parametrize("prefix", [None, "{stamp} [{pid}] "], ids=["csvlog", "stderr without session IDs"])
def test_small_blocks_change_nothing(prefix: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entries: list[Entry] = []
    for number in range(18):
        at, other = 20 * number, 1 + number % 3
        pool: dict[str, Any] = {"pid": 9, "ms": at, "vxid": "9/0"}
        turn: dict[str, Any] = {"pid": other, "ms": at, "vxid": f"{other}/0"}
        value = f"Parameters: $1 = '{number}'"
        entries += [
            Entry("connection received: host=[local]", user="", database="", **pool),
            Entry("connection authorized: user=app database=shop", **pool),
            done("BEGIN", **turn),
            Entry(f"statement: SELECT '{number}'", **turn),
            done("SELECT 1", **pool),
            Entry("process 1 still waiting for ShareLock on transaction 5 after 1000.5 ms", **turn),
            Entry("duration: 3.000 ms", **turn),
            Entry("duration: 0.1 ms  bind s: SELECT 1 / $1", value, **turn),
            Entry("disconnection: session time: 0:00:00.012 user=app database=shop host=[local]", **pool),
            error("SELECT 1 / $1", "22012", **turn),
            Entry("statement: ROLLBACK", **turn),
        ]
    log = csvlog(entries) if prefix is None else stderr(entries, prefix)
    folders = [tmp_path / "large", tmp_path / "small"]
    for folder in folders:
        folder.mkdir()
    large = captured(folders[0], log)
    monkeypatch.setattr(log_blocks, "BLOCK_BYTES", 1500)
    monkeypatch.setattr(capture_table, "PART_BYTES", 2000)
    small = captured(folders[1], log)
    assert (small.rows, small.capture) == (large.rows, large.capture)
    assert len(small.statements) == 18 * 5
    assert {row["transaction"] for row in small.statements if row["session"] == 1} == set(range(6))


def test_a_statement_that_holds_lines_of_a_log_is_one_statement_or_left_out(tmp_path: Path) -> None:
    inner = csvlog([done("DROP TABLE users")]).replace("'", "''")
    for number, (format_, writer) in enumerate(WRITERS.items()):
        sql = f"INSERT INTO lines VALUES ('x\n{inner}')"
        found = captured(tmp_path / str(number), writer([done("SELECT 1"), done(sql), done("SELECT 2")]))
        assert found.texts in (["SELECT 1", sql, "SELECT 2"], ["SELECT 1", "SELECT 2"]), format_


# ---- mixed ----


def test_two_servers_in_one_log_are_an_error(tmp_path: Path) -> None:
    mixed = [done("SELECT 1", ms=0), done("SELECT 2", started=50, ms=1000)]
    mixed += [done("SELECT 3", ms=2500), done("SELECT 4", started=50, ms=3500)]
    with pytest.raises(StoreError, match=r"two servers: process 100 has two sessions at once, at .*:1 and .*:2"):
        captured(tmp_path, csvlog(mixed))


def test_two_servers_are_known_by_their_backends_too(tmp_path: Path) -> None:
    ours = [done(f"SELECT {number}", ms=1000 * number) for number in range(4)]
    theirs = [done(f"SELECT {number}", pid=77, ms=1000 * number + 500) for number in range(4)]
    with pytest.raises(StoreError, match="two servers: backend has two sessions at once") as caught:
        captured(tmp_path, csvlog(ours), csvlog(theirs))
    assert caught.value.hint == "capture the log of each server separately"


def test_a_clock_that_is_set_back_moves_nothing_back(tmp_path: Path) -> None:
    times = [0, 60_000, 1_000, 2_000, 500, 90_000]
    found = captured(tmp_path, csvlog([done(f"SELECT {ms}", ms=ms) for ms in times]))
    # the step of 1.5 s is one that lines of several processes may have
    assert [row["at_us"] // 1_000_000 for row in found.statements] == [0, 59, 59, 60, 60, 148]
    assert found.left_out == {"clock-set-back": (1, "3")}


def test_logs_of_two_formats_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"0\.log \(csvlog\) and .*1\.log \(jsonlog\) differ in format"):
        captured(tmp_path, csvlog(THREE), jsonlog(THREE))


# ---- no logs ----


def test_an_empty_file_is_skipped_and_only_empty_files_are_an_error(tmp_path: Path) -> None:
    assert captured(tmp_path, "", csvlog(THREE)).capture.calls == 3
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UsageError, match=r"nothing to capture: .*0\.log is empty"):
        captured(other, " \n")
    assert [each.name for each in other.iterdir()] == ["0.log"]


def test_what_is_no_log_is_an_error_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"0\.log:2: this is neither a csvlog nor a jsonlog, nor a log with a"
    ) as caught:
        captured(tmp_path, "\nDear server,\nplease work.\n")
    assert "download the server's log" in (caught.value.hint or "")


def test_folders_pipes_and_missing_files_are_errors(tmp_path: Path) -> None:
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


def test_a_log_that_may_not_be_read_blames_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (tmp_path / "a.csv").write_text("x")
    monkeypatch.setattr(log_recognition, "open_log", refused)
    with pytest.raises(StoreError, match="permission denied") as caught:
        capture_logs([tmp_path / "a.csv"], tmp_path / "capture", KEPT)
    assert caught.value.hint == "allow your user to read it"


def test_a_log_without_statements_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the log has no statement that can be replayed") as caught:
        captured(tmp_path, csvlog([Entry("checkpoint starting: time", database="", backend="checkpointer")]))
    assert "lc_messages = 'C'" in (caught.value.hint or "")


# ---- nothing is left behind ----


def test_a_capture_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **_more: object) -> None:
        raise KeyboardInterrupt

    log = tmp_path / "log"
    log.write_text(csvlog(THREE))
    existing = tmp_path / "existing"
    existing.mkdir()
    for error_, step in ((KeyboardInterrupt, "find_sessions"), (KeyboardInterrupt, "write_table")):
        monkeypatch.setattr(pgdyno.capture.logs.capture_logs, step, interrupted)
        for into in (tmp_path / "capture", existing):
            with pytest.raises(error_):
                capture_logs([log], into, KEPT)
        monkeypatch.undo()
    assert not (tmp_path / "capture").exists()
    assert list(existing.iterdir()) == []


def test_an_interrupt_while_reading_ends_the_threads(tmp_path: Path) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    log = tmp_path / "log"
    log.write_text(csvlog(THREE))
    with pytest.raises(KeyboardInterrupt):
        capture_logs([log], tmp_path / "capture", KEPT, interrupt)
    assert not (tmp_path / "capture").exists()
    assert [each.name for each in threading.enumerate() if each.name.startswith("capture")] == []


def test_a_full_disk_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise duckdb.IOException("IO Error: Could not write file: No space left on device")

    monkeypatch.setattr(pgdyno.capture.logs.capture_logs, "write_table", full)
    with pytest.raises(StoreError, match="No space left on device") as caught:
        captured(tmp_path, csvlog(THREE))
    assert "--into" in (caught.value.hint or "")
    assert not (tmp_path / "capture").exists()


def test_each_reason_has_a_sentence(tmp_path: Path) -> None:
    log = [error("x" * 10, "42601"), done("COPY t FROM STDIN"), done("SELECT 1")]
    found = captured(tmp_path, csvlog(log))
    assert [sentence(each.reason) for each in found.capture.left_out] == [
        "COPY from the client: a log does not have its rows"
    ]
    assert sentence("of-a-later-version") == "of-a-later-version"


@pytest.mark.parametrize("took", ["99999999999999999999.0", "nan", "1e300", "86400000.000", "0.001"])
def test_a_damaged_duration_loses_no_other_statement(took: str, tmp_path: Path) -> None:
    wait = Entry(f"process 100 acquired ShareLock on transaction 7 after {took} ms")
    log = [done("SELECT 1"), Entry(f"duration: {took} ms  statement: SELECT 2"), wait, done("SELECT 3")]
    assert captured(tmp_path, csvlog(log)).texts[-1] == "SELECT 3"
