"""pgdrive against servers that misbehave: it may fail, but must not hang, crash or grow without bound."""

import json
import time
from pathlib import Path

import pytest

from tests.cli.hostile import (
    DONE,
    READY,
    Drive,
    Misdeed,
    Peer,
    auth,
    columns,
    hostile,
    message,
    parameter,
    refusal,
    row,
)

SHORT = ("-T", "1", "--drain-limit=1")
ONCE = ("-t", "1")
PEAK_MIB = 200


@pytest.fixture
def drive(tmp_path: Path) -> Drive:
    return Drive(tmp_path)


def answering(answer: bytes) -> Misdeed:
    """Greets, and gives every query the same answer."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        while True:
            peer.receive()
            peer.send(answer)

    return misdeed


def pouring(chunk: bytes, begin: bytes = b"") -> Misdeed:
    """Greets, and answers the first query without an end."""

    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(begin)
        while True:
            peer.send(chunk)

    return misdeed


def in_the_load(misdeed: Misdeed) -> Misdeed:
    """Misbehaves on all connections but the one for the set-up."""
    return lambda peer: misdeed(peer) if peer.number else answering(DONE)(peer)


ROWS = row(b"1") * 8000


@pytest.mark.long_cases("epoll")
@pytest.mark.parametrize("io", ["epoll", "auto"])
def test_endless_rows_end_with_the_run(drive: Drive, io: str) -> None:
    with hostile(pouring(ROWS)) as server:
        done = drive(server, *SHORT, f"--io={io}")
    assert done.code == 2
    assert "client 0 aborted in command 0 (SQL) of script 0; not done 1 s after the end of the run" in done.said
    assert done.peak_mib < PEAK_MIB


@pytest.mark.parametrize("name", ["pgdrive", "pgbench"])
def test_endless_rows_end_by_ctrl_c(drive: Drive, name: str) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        server.busy.set()
        while True:
            peer.send(ROWS)

    with hostile(misdeed) as server:
        done = drive(server, "-T", "1", "-c", "2", name=name, interrupted=True)
    assert done.code == 130
    assert done.peak_mib < PEAK_MIB


def test_endless_results_for_aset_are_bounded(drive: Drive) -> None:
    value = b"x" * 1000
    result = columns("a", "b") + row(value, value) + message("C", b"SELECT 1\0")
    with hostile(pouring(result * 20)) as server:
        done = drive(server, *SHORT, script="SELECT 1 AS a, 2 AS b \\aset\nSELECT :a;\n")
    assert done.code == 2
    assert done.peak_mib < PEAK_MIB


def test_endless_rows_for_the_first_question_are_refused(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.socket.recv(65536)
        while True:
            peer.send(ROWS)

    with hostile(misdeed) as server:
        done = drive(server, "-S", script=None)
    assert done.code == 1
    assert "could not ask whether it is a connection pooler: could not take the answer: it is longer" in done.said
    assert done.peak_mib < PEAK_MIB


def test_endless_rows_in_the_setup_are_refused(drive: Drive) -> None:
    with hostile(pouring(ROWS)) as server:
        done = drive(server, "-S", script=None)
    assert done.code == 1
    assert "could not count number of branches: could not take the answer: it is longer than 4 MB" in done.said
    assert done.peak_mib < PEAK_MIB


@pytest.mark.parametrize("script", ["SELECT 1;\n", "SELECT 1 AS a \\gset\n"])
def test_a_claim_of_1_gb_takes_no_memory(drive: Drive, script: str) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(b"D\x3f\xff\xff\xff" + bytes(1_000_000))
        peer.hear()

    with hostile(misdeed) as server:
        done = drive(server, *SHORT, script=script)
    assert done.code == 2
    assert done.peak_mib < PEAK_MIB


def test_a_row_of_100_mb_is_passed_over(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        value_bytes = 100_000_000
        peer.send(b"D" + (value_bytes + 10).to_bytes(4, "big") + b"\0\1" + value_bytes.to_bytes(4, "big"))
        for _ in range(100):
            peer.send(bytes(value_bytes // 100))
        peer.send(DONE)
        peer.hear()

    with hostile(misdeed) as server:
        done = drive(server, *ONCE)
    assert done.code == 0, done.said
    assert done.peak_mib < 100


STORMS = {
    "notices": lambda: message("N", b"SNOTICE\0VNOTICE\0C00000\0Mhello\0\0") * 1_000_000,
    "parameters": lambda: b"".join(parameter(f"name{number}") for number in range(300_000)),
    "notifications": lambda: message("A", bytes(4) + b"channel\0payload\0") * 1_000_000,
}


@pytest.mark.long_cases("[load-notices]")
@pytest.mark.parametrize("storm", STORMS)
@pytest.mark.parametrize("place", ["set-up", "load"])
def test_storms_are_weathered(drive: Drive, storm: str, place: str) -> None:
    with hostile(answering(STORMS[storm]() + columns("count") + row(b"3") + DONE)) as server:
        if place == "load":
            done = drive(server, *ONCE)
            assert done.code == 0, done.said
        else:
            # the next question of the set-up gets the same answer: no table is partitioned 3 times
            done = drive(server, *ONCE, "-S", script=None)
            assert done.code == 0, done.said
            assert "scaling factor: 3" in done.stdout.decode()
    assert done.peak_mib < PEAK_MIB


def test_a_storm_of_parameters_in_the_start_takes_no_time_of_its_own(drive: Drive) -> None:
    storm = b"".join(parameter(f"name{number}") for number in range(500_000))

    def misdeed(peer: Peer) -> None:
        peer.receive()
        peer.send(auth(0) + storm + READY)
        while True:
            peer.receive()
            peer.send(DONE)

    with hostile(misdeed) as server:
        done = drive(server, *ONCE)
    assert done.code == 0, done.said
    assert done.peak_mib < PEAK_MIB


@pytest.mark.parametrize("unasked", [READY, READY * 1000, message("G", b"\0\0\0") * 1000, DONE + READY])
def test_answers_to_nothing_end_the_run_one_way_or_the_other(drive: Drive, unasked: bytes) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(DONE)
        while True:
            peer.send(unasked)
            time.sleep(0.001)

    with hostile(in_the_load(misdeed)) as server:
        done = drive(server, *SHORT)
    assert done.code in (0, 2), done.said


def test_a_server_that_answers_and_never_reads(drive: Drive) -> None:
    """pgdrive answers every CopyInResponse, and the server never reads the answers."""
    with hostile(in_the_load(pouring(message("G", b"\0\0\0") * 100_000))) as server:
        done = drive(server, *SHORT, script="COPY t FROM STDIN;\n")
    assert done.code == 2
    assert done.peak_mib < PEAK_MIB


# -- silence --------------------------------------------------------------------------------------


def silent(peer: Peer) -> None:
    peer.hear()


def trickling(peer: Peer) -> None:
    peer.receive()
    for byte in auth(0) + parameter("name", "v" * 10_000):
        peer.send(bytes([byte]))
        time.sleep(0.01)


@pytest.mark.parametrize("misdeed", [silent, trickling])
def test_connect_timeout_ends_a_start_that_does_not_come_on(drive: Drive, misdeed: Misdeed) -> None:
    with hostile(misdeed) as server:
        done = drive(server, *ONCE, env={"PGCONNECT_TIMEOUT": "1"})
    assert done.code == 1
    assert "timeout expired" in done.said


@pytest.mark.parametrize("place", ["start of the set-up", "set-up", "start of a client", "load"])
def test_ctrl_c_ends_the_wait_for_a_silent_server(drive: Drive, place: str) -> None:
    def misdeed(peer: Peer) -> None:
        if place == "start of the set-up" or (place == "start of a client" and peer.number):
            peer.receive()
        else:
            peer.greet()
            if place == "set-up" or peer.number:
                peer.receive()
        if place in ("start of the set-up", "set-up") or peer.number:
            server.busy.set()
        peer.hear()

    with hostile(misdeed) as server:
        done = (
            drive(server, "-S", "-T", "1", script=None, interrupted=True)
            if place == "set-up"
            else drive(server, "-T", "1", interrupted=True)
        )
    assert done.code == 130, done.said


def no_handshake(peer: Peer) -> None:
    peer.receive()
    peer.send(b"S")
    peer.hear()


def test_connect_timeout_ends_a_handshake_that_does_not_come_on(drive: Drive) -> None:
    with hostile(no_handshake) as server:
        done = drive(server, *ONCE, env={"PGSSLMODE": "require", "PGCONNECT_TIMEOUT": "1"})
    assert done.code == 1
    assert "timeout expired" in done.said


def test_ctrl_c_ends_a_handshake(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.receive()
        peer.send(b"S")
        server.busy.set()
        peer.hear()

    with hostile(misdeed) as server:
        done = drive(server, "-T", "1", interrupted=True, env={"PGSSLMODE": "require"})
    assert done.code == 130, done.said


def test_ctrl_c_ends_an_initialization_that_cannot_be_cancelled(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        server.busy.set()
        peer.hear()

    with hostile(misdeed) as server:
        done = drive(server, "-i", script=None, interrupted=True)
    assert done.code == 130, done.said


def test_a_trickle_is_an_answer_when_it_is_whole(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        while True:
            peer.receive()
            for byte in message("1") + message("2") + row(b"1") + DONE:
                peer.send(bytes([byte]))
                time.sleep(0.01)

    with hostile(misdeed) as server:
        done = drive(server, *ONCE, "-M", "prepared")
    assert done.code == 0, done.said


# -- words ----------------------------------------------------------------------------------------

STEERING = b"\x1b]0;owned\x07\x1b[2J\rover\x08\x7f \xc2\x9b2J \xff\xfe end\nnext\tline"


def steers(text: bytes) -> list[str]:
    decoded = text.decode()
    return [c for c in decoded if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160]


def refusing(peer: Peer) -> None:
    peer.receive()
    peer.send(refusal(STEERING, "FATAL"))


@pytest.mark.parametrize("name", ["pgdrive", "pgbench"])
@pytest.mark.parametrize(
    ("misdeed", "code"), [(refusing, 1), (in_the_load(answering(refusal(STEERING) + READY)), 2)], ids=["start", "load"]
)
def test_messages_of_a_server_cannot_control_the_terminal(drive: Drive, name: str, misdeed: Misdeed, code: int) -> None:
    with hostile(misdeed) as server:
        done = drive(server, *ONCE, "--events=events.jsonl", name=name)
    assert done.code == code
    assert steers(done.stderr) == []
    assert r"\u{1b}]0;owned\u{7}" in done.said
    assert "end\nnext\tline" in done.said
    events = [json.loads(line) for line in (drive.folder / "events.jsonl").read_text().splitlines()]
    assert events[-1]["event"] == "end"


def test_a_version_does_not_steer_the_terminal(drive: Drive) -> None:
    def misdeed(peer: Peer) -> None:
        peer.receive()
        peer.send(auth(0) + parameter("server_version", "17\x1b[2J") + READY)
        while True:
            peer.receive()
            peer.send(DONE)

    with hostile(misdeed) as server:
        done = drive(server, *ONCE)
    assert done.code == 0
    assert steers(done.stdout) == []


def test_a_zero_byte_ends_a_field(drive: Drive) -> None:
    with hostile(in_the_load(answering(refusal(b"before\0after") + READY))) as server:
        done = drive(server, *ONCE)
    assert done.code == 2
    assert "before" in done.said
    assert "after" not in done.said


# -- ends -----------------------------------------------------------------------------------------


def test_a_server_that_accepts_and_closes(drive: Drive) -> None:
    with hostile(lambda _peer: None) as server:
        done = drive(server, *ONCE)
    assert done.code == 1
    assert "server closed the connection unexpectedly" in done.said


@pytest.mark.parametrize("io", ["epoll", "auto"])
def test_a_reset_in_the_midst(drive: Drive, io: str) -> None:
    def misdeed(peer: Peer) -> None:
        peer.greet()
        peer.receive()
        peer.send(row(b"1") * 100 + b"D\0")
        peer.reset()

    with hostile(in_the_load(misdeed)) as server:
        done = drive(server, *ONCE, f"--io={io}")
    assert done.code == 2
    assert "perhaps the backend died while processing" in done.said
